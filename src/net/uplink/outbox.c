/* Folders of streams that end. */
#include "link/outbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define TITLE_BYTES 256
#define SETTLED_S   60

struct gs_outbox {
	struct gs_link *link;
	struct gs_link_options options; /* of the link; texts borrowed or below */
	char folder[512], path[640];    /* of all streams, of this one */
};

/* --- folders --- */

static int write_title(const char *path, const char *title)
{
	char name[700];
	GS_FCLOSE FILE *f = NULL;

	snprintf(name, sizeof(name), "%s/title", path);
	f = fopen(name, "wxe");
	if (!f || fputs(title, f) < 0 || fflush(f) != 0)
		return -errno;
	return 0;
}

static void read_title(const char *path, char out[TITLE_BYTES])
{
	char name[1100];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(name, sizeof(name), "%s/title", path);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? 0 : read(fd, out, TITLE_BYTES - 1);
	out[n > 0 ? n : 0] = 0;
}

/* A spool that holds nothing any more. */
static void remove_folder(const char *path)
{
	DIR *d = opendir(path);

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			(void)unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	(void)rmdir(path);
}

static int make_folder(struct gs_outbox *b, struct gs_err *err)
{
	time_t now = time(NULL);
	struct tm tm;
	int r;

	if (mkdir(b->folder, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make %s for the spool: %s", b->folder,
				  strerror(errno));
	gmtime_r(&now, &tm);
	snprintf(b->path, sizeof(b->path), "%s/%04d%02d%02dT%02d%02d%02dZ-%d", b->folder,
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (int)getpid());
	if (mkdir(b->path, 0700) < 0) {
		r = gs_err_set(err, -errno, "cannot make %s for the spool: %s", b->path,
			       strerror(errno));
		b->path[0] = 0; /* another one's */
		return r;
	}
	r = write_title(b->path, b->options.title ? b->options.title : "");
	return r < 0 ? gs_err_set(err, r, "cannot write into %s: %s", b->path, strerror(-r)) : 0;
}

/* As make_folder() names them. */
static bool is_stream(const char *name)
{
	return strlen(name) >= 18 && name[8] == 'T' && name[15] == 'Z' && name[16] == '-';
}

/* --- life --- */

int gs_outbox_open(const struct gs_link_options *options, const char *folder,
		   struct gs_outbox **ret_outbox, struct gs_err *err)
{
	struct gs_outbox *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return gs_err_set(err, -ENOMEM, "no memory");
	b->options = *options;
	snprintf(b->folder, sizeof(b->folder), "%s", folder);
	r = make_folder(b, err);
	if (r == 0) {
		b->options.spool_dir = b->path;
		b->options.keep_oldest = true;
		r = gs_link_start(&b->options, &b->link, err);
	}
	if (r < 0)
		gs_outbox_abandon(&b);
	else
		*ret_outbox = b;
	return r;
}

struct gs_link *gs_outbox_link(struct gs_outbox *outbox)
{
	return outbox->link;
}

void gs_outbox_abandon(struct gs_outbox **outbox)
{
	struct gs_outbox *b = *outbox;

	if (!b)
		return;
	if (gs_link_stop(&b->link, 0, true) == 0 && b->path[0])
		remove_folder(b->path);
	gs_free_p(outbox);
}

static bool is_settled(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && time(NULL) - st.st_mtime >= SETTLED_S;
}

void gs_outbox_deliver(const struct gs_link_options *like, const char *folder, uint64_t until_ns,
		       bool settled, unsigned *sent, unsigned *left)
{
	DIR *d = opendir(folder);

	for (struct dirent *e; d && (e = readdir(d));) {
		struct gs_link_options o = *like;
		struct gs_link *link = NULL;
		struct gs_err err = {{0}};
		char path[1000], title[TITLE_BYTES];
		uint64_t now = gs_clock_mono_ns();

		if (!is_stream(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (settled && !is_settled(path))
			continue;
		read_title(path, title);
		o.title = title;
		o.spool_dir = path;
		o.keep_oldest = true;
		if (now >= until_ns) {
			++*left;
			continue;
		}
		if (gs_link_start(&o, &link, &err) < 0)
			continue; /* of one that still goes on */
		if (gs_link_stop(&link, until_ns - now, true) > 0) {
			++*left;
			continue;
		}
		remove_folder(path);
		++*sent;
	}
	if (d)
		closedir(d);
}

void gs_outbox_finish(struct gs_outbox **outbox, uint64_t drain_ns, struct gs_outbox_result *result)
{
	struct gs_outbox *b = *outbox;
	const uint64_t until = gs_clock_mono_ns() + drain_ns;
	struct gs_link_stats st;
	uint64_t left = gs_link_drain(b->link, drain_ns, true);

	gs_link_stats(b->link, &st);
	(void)gs_link_stop(&b->link, 0, true);
	*result = (struct gs_outbox_result){
		.lost_samples = st.lost_samples,
		.given_up_samples = st.memory_samples,
		.left_samples = left > st.memory_samples ? left - st.memory_samples : 0,
	};
	memcpy(result->path, b->path, sizeof(b->path));
	memcpy(result->folder, b->folder, sizeof(b->folder));
	snprintf(result->trouble, sizeof(result->trouble), "%s", st.trouble);
	if (!result->left_samples) {
		remove_folder(b->path);
		gs_outbox_deliver(&b->options, b->folder, until, false, &result->n_sent,
				  &result->n_left);
	}
	gs_free_p(outbox);
}
