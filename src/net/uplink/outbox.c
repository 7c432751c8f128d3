/* Folders of streams that end. */
#include "net/uplink/outbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zlib.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define TITLE_BYTES 256
#define SETTLED_S   60
#define SAVED       ".saved"
#define SAVED_MAGIC 0x31537347u /* "GsS1" */
#define SAVED_MAX   (8u << 20)

struct saved_head { /* of a file of saved records, in this machine's order of bytes */
	uint32_t magic;
	uint32_t crc; /* of the records */
	int64_t first_wall_ns, last_wall_ns;
	uint32_t n_samples, bytes;
};

struct gs_uplink_outbox {
	struct gs_uplink *link;
	struct gs_uplink_options options; /* of the link; texts borrowed or below */
	char folder[512], path[640];      /* of all streams, of this one */
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

static int make_folder(struct gs_uplink_outbox *b, struct gs_err *err)
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

/* --- saved records --- */

static int write_whole(int fd, const void *data, size_t bytes)
{
	for (const char *at = data; bytes;) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int read_whole(int fd, void *data, size_t bytes)
{
	for (char *at = data; bytes;) {
		ssize_t n = read(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int gs_uplink_outbox_save(struct gs_uplink_outbox *b, const char *name,
			  const struct gs_batch *records, const struct gs_uplink_span *span)
{
	struct saved_head head = {
		.magic = SAVED_MAGIC,
		.crc = (uint32_t)crc32(0, records->data, (uInt)records->bytes),
		.first_wall_ns = span->first_wall_ns,
		.last_wall_ns = span->last_wall_ns,
		.n_samples = span->n_samples,
		.bytes = (uint32_t)records->bytes,
	};
	char part[800], path[800];
	GS_CLOSE int fd = -1;
	int r;

	if (!records->bytes || records->bytes > SAVED_MAX)
		return -EMSGSIZE;
	snprintf(part, sizeof(part), "%s/%s.part", b->path, name);
	snprintf(path, sizeof(path), "%s/%s" SAVED, b->path, name);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = write_whole(fd, &head, sizeof(head));
	if (r == 0)
		r = write_whole(fd, records->data, records->bytes);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(part);
	return r;
}

void gs_uplink_outbox_unsave(struct gs_uplink_outbox *b, const char *name)
{
	char path[800];

	snprintf(path, sizeof(path), "%s/%s" SAVED, b->path, name);
	(void)unlink(path);
}

/* -EBADMSG: it is not what was saved. */
static int push_saved_file(int dir_fd, const char *name, struct gs_uplink *link)
{
	GS_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	GS_FREE uint8_t *data = NULL;
	struct saved_head head;
	struct gs_uplink_span span;
	struct gs_batch records;
	int r = fd < 0 ? -errno : read_whole(fd, &head, sizeof(head));

	if (r < 0)
		return r;
	if (head.magic != SAVED_MAGIC || !head.bytes || head.bytes > SAVED_MAX)
		return -EBADMSG;
	data = malloc(head.bytes);
	if (!data)
		return -ENOMEM;
	r = read_whole(fd, data, head.bytes);
	if (r == 0 && (uint32_t)crc32(0, data, head.bytes) != head.crc)
		r = -EBADMSG;
	if (r < 0)
		return r;
	records = (struct gs_batch){data, head.bytes};
	span = (struct gs_uplink_span){.first_wall_ns = head.first_wall_ns,
				       .last_wall_ns = head.last_wall_ns,
				       .n_samples = head.n_samples};
	return gs_uplink_push(link, &records, &span);
}

/* What a stream that was killed had saved, into its spool. False: some found no room there. */
static bool push_saved(const char *path, struct gs_uplink *link)
{
	DIR *d = opendir(path);
	bool all = true;

	for (struct dirent *e; d && (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		int r;

		if (e->d_name[0] == '.' || n <= strlen(SAVED) ||
		    strcmp(e->d_name + n - strlen(SAVED), SAVED) != 0)
			continue;
		r = push_saved_file(dirfd(d), e->d_name, link);
		/* Twice does no harm: a report that comes again replaces itself. */
		if (r == 0 || r == -EBADMSG)
			(void)unlinkat(dirfd(d), e->d_name, 0);
		else
			all = false;
	}
	if (d)
		closedir(d);
	return all;
}

/* --- life --- */

int gs_uplink_outbox_open(const struct gs_uplink_options *options, const char *folder,
			  struct gs_uplink_outbox **ret_outbox, struct gs_err *err)
{
	struct gs_uplink_outbox *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return gs_err_set(err, -ENOMEM, "no memory");
	b->options = *options;
	snprintf(b->folder, sizeof(b->folder), "%s", folder);
	r = make_folder(b, err);
	if (r == 0) {
		b->options.spool_dir = b->path;
		b->options.keep_oldest = true;
		r = gs_uplink_start(&b->options, &b->link, err);
	}
	if (r < 0)
		gs_uplink_outbox_abandon(&b);
	else
		*ret_outbox = b;
	return r;
}

struct gs_uplink *gs_uplink_outbox_link(struct gs_uplink_outbox *outbox)
{
	return outbox->link;
}

void gs_uplink_outbox_abandon(struct gs_uplink_outbox **outbox)
{
	struct gs_uplink_outbox *b = *outbox;

	if (!b)
		return;
	if (gs_uplink_stop(&b->link, 0, true) == 0 && b->path[0])
		remove_folder(b->path);
	gs_free_p(outbox);
}

static bool is_settled(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && time(NULL) - st.st_mtime >= SETTLED_S;
}

void gs_uplink_outbox_deliver(const struct gs_uplink_options *like, const char *folder,
			      uint64_t until_ns, bool settled, unsigned *sent, unsigned *left)
{
	DIR *d = opendir(folder);

	for (struct dirent *e; d && (e = readdir(d));) {
		struct gs_uplink_options o = *like;
		struct gs_uplink *link = NULL;
		struct gs_err err = {{0}};
		char path[1000], title[TITLE_BYTES];
		uint64_t now = gs_clock_mono_ns();
		bool pushed;

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
		if (gs_uplink_start(&o, &link, &err) < 0)
			continue; /* of one that still goes on */
		pushed = push_saved(path, link);
		if (gs_uplink_stop(&link, until_ns - now, true) > 0 || !pushed) {
			++*left;
			continue;
		}
		remove_folder(path);
		++*sent;
	}
	if (d)
		closedir(d);
}

void gs_uplink_outbox_finish(struct gs_uplink_outbox **outbox, uint64_t drain_ns,
			     struct gs_uplink_outbox_result *result)
{
	struct gs_uplink_outbox *b = *outbox;
	const uint64_t until = gs_clock_mono_ns() + drain_ns;
	struct gs_uplink_stats st;
	uint64_t left = gs_uplink_drain(b->link, drain_ns, true);

	gs_uplink_stats(b->link, &st);
	(void)gs_uplink_stop(&b->link, 0, true);
	*result = (struct gs_uplink_outbox_result){
		.lost_samples = st.lost_samples,
		.given_up_samples = st.memory_samples,
		.left_samples = left > st.memory_samples ? left - st.memory_samples : 0,
	};
	memcpy(result->path, b->path, sizeof(b->path));
	memcpy(result->folder, b->folder, sizeof(b->folder));
	snprintf(result->trouble, sizeof(result->trouble), "%s", st.trouble);
	if (!result->left_samples) {
		remove_folder(b->path);
		gs_uplink_outbox_deliver(&b->options, b->folder, until, false, &result->n_sent,
					 &result->n_left);
	}
	gs_free_p(outbox);
}
