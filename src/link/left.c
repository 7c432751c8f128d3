/* Folders of traces that ended before the head had all of them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "link/left.h"

#define TITLE_BYTES 256
#define SETTLED_S   60
#define EVERY_NS    60000000000ull
#define FIRST_NS    1000000000ull
#define DRAIN_NS    10000000000ull

static void read_title(const char *path, char out[TITLE_BYTES])
{
	char name[700];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(name, sizeof(name), "%s/title", path);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? 0 : read(fd, out, TITLE_BYTES - 1);
	out[n > 0 ? n : 0] = 0;
}

void gs_left_remove(const char *path)
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

static void tell(gs_left_say_fn say, void *ctx, const char *fmt, ...) GS_PRINTF(3, 4);

static void tell(gs_left_say_fn say, void *ctx, const char *fmt, ...)
{
	char text[900];
	va_list args;

	if (!say)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	say(ctx, text);
}

static bool is_settled(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && time(NULL) - st.st_mtime >= SETTLED_S;
}

void gs_left_deliver(const struct gs_link_options *like, const char *folder, uint64_t until_ns,
		     bool settled, gs_left_say_fn say, void *say_ctx)
{
	unsigned n_sent = 0, n_left = 0;
	DIR *d = opendir(folder);

	for (struct dirent *e; d && (e = readdir(d));) {
		struct gs_link_options o = *like;
		struct gs_link *link = NULL;
		struct gs_err err = {{0}};
		char path[800], title[TITLE_BYTES];
		uint64_t now = gs_clock_mono_ns();

		/* As traces name them: TIME-PID. */
		if (strlen(e->d_name) < 18 || e->d_name[8] != 'T' || e->d_name[15] != 'Z' ||
		    e->d_name[16] != '-')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (settled && !is_settled(path))
			continue;
		read_title(path, title);
		o.title = title;
		o.spool_dir = path;
		if (now >= until_ns) {
			n_left++;
			continue;
		}
		if (gs_link_start(&o, &link, &err) < 0)
			continue; /* of a trace that runs */
		if (gs_link_stop(&link, until_ns - now, true) > 0) {
			n_left++;
			continue;
		}
		gs_left_remove(path);
		n_sent++;
	}
	if (d)
		closedir(d);
	if (n_sent)
		tell(say, say_ctx, "%u earlier trace%s delivered to the head as well", n_sent,
		     n_sent == 1 ? "" : "s");
	if (n_left)
		tell(say, say_ctx, "%u earlier trace%s still wait%s in %s", n_left,
		     n_left == 1 ? "" : "s", n_left == 1 ? "s" : "", folder);
}

/* --- beside a link that stays --- */

struct gs_left {
	struct gs_link_options like;
	struct gs_link *link; /* lent */
	gs_left_say_fn say;
	void *say_ctx;
	char folder[640], token[512];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
};

/* False: it ends. */
static bool wait_ns(struct gs_left *t, uint64_t ns)
{
	const uint64_t until = gs_clock_mono_ns() + ns;
	const struct timespec at = {(time_t)(until / 1000000000ull), (long)(until % 1000000000ull)};
	bool go_on;

	pthread_mutex_lock(&t->lock);
	while (!t->stopping && gs_clock_mono_ns() < until)
		pthread_cond_timedwait(&t->wake, &t->lock, &at);
	go_on = !t->stopping;
	pthread_mutex_unlock(&t->lock);
	return go_on;
}

static void *run(void *arg)
{
	struct gs_left *t = arg;
	uint64_t next_ns = 0;

	while (wait_ns(t, FIRST_NS)) {
		struct gs_link_stats st;

		if (gs_clock_mono_ns() < next_ns)
			continue;
		gs_link_stats(t->link, &st);
		if (st.state != GS_LINK_CONNECTED || st.gswarm)
			continue;
		gs_left_deliver(&t->like, t->folder, gs_clock_mono_ns() + DRAIN_NS, true, t->say,
				t->say_ctx);
		next_ns = gs_clock_mono_ns() + EVERY_NS;
	}
	return NULL;
}

void gs_left_start(const struct gs_link_options *like, const char *folder, struct gs_link *link,
		   gs_left_say_fn say, void *say_ctx, struct gs_left **ret)
{
	struct gs_left *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;

	if (!t)
		return;
	t->like = *like;
	t->like.kind = GS_LINK_TRACE;
	t->like.keep_oldest = true;
	t->like.instance = NULL; /* traces deliver as that */
	t->like.wish = NULL;
	t->like.say = NULL;
	if (like->token) {
		snprintf(t->token, sizeof(t->token), "%s", like->token);
		t->like.token = t->token;
	}
	t->link = link;
	t->say = say;
	t->say_ctx = say_ctx;
	snprintf(t->folder, sizeof(t->folder), "%s", folder);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&t->lock, NULL);
	if (pthread_create(&t->thread, NULL, run, t) != 0) {
		free(t);
		return;
	}
	*ret = t;
}

void gs_left_stop(struct gs_left **traces)
{
	struct gs_left *t = *traces;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->wake);
	explicit_bzero(t->token, sizeof(t->token));
	gs_free_p(traces);
}
