/*
 * Files of stopped sessions, where a folder is given for them: NAME.json in gswarm-profiler's form,
 * as its head leaves it, and the figure NAME.png beside it. A thread of its own writes them, one
 * after the other, out of the store; who answers a stop may wait until the former is there, but not
 * for long: a session of months takes minutes to write.
 *
 * A file of an earlier session of the same name is replaced, as gswarm-profiler does. When the head
 * ends, what is still to be written is not: the sessions are in the store.
 */
#include "server/session_export/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "output/plot/plot.h"
#include "server/session_export/session_export.h"

#define PATIENCE_NS 10000000000ull /* of who waits */
#define GPUS_MAX    512            /* of a figure: 64 MiB */

struct file_task {
	struct file_task *next;
	/* A session to write; a figure of one to draw; who waits for the files before it. Figures
	 * come after all that waited when their file was begun: they take the longest. */
	enum { TASK_FILE, TASK_FIGURE, TASK_WAIT } kind;
	struct gs_store_session session;
	void (*fn)(void *ctx);
	void *ctx;
	uint64_t until_ns; /* monotonic */
};

struct gs_session_export_files {
	char dir[3800], data[4096]; /* written to; the store's */
	void (*on_message)(void *ctx, const char *text);
	void *ctx;
	pthread_t thread;
	bool no_figures;      /* of the thread: it was said that there are none */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	bool stopping;
	struct file_task *first, *last;
};

bool gs_session_export_files_path(const struct gs_session_export_files *files,
				  const struct gs_store_session *session, char *out, size_t bytes)
{
	if (!files)
		return false;
	snprintf(out, bytes, "%s/%s.json", files->dir, session->name);
	return true;
}

static void GS_PRINTF(2, 3) log_files(struct gs_session_export_files *files, const char *fmt, ...)
{
	char text[4600];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (files->on_message)
		files->on_message(files->ctx, text);
}

/* --- writing --- */

static int write_session(struct gs_store *store, const struct gs_store_session *s, const char *path,
			 struct gs_err *err)
{
	const struct gs_session_export_options o = {.size = sizeof(o),
						    .store = store,
						    .session = s,
						    .format = GS_SESSION_EXPORT_GSWARM,
						    .commands = GS_SESSION_EXPORT_COMMANDS_NONE};
	struct gs_output f = GS_OUTPUT_INIT;
	int r = gs_output_open(path, 0, &f, err);

	if (r == 0)
		r = gs_session_export_write(&o, f.fd, NULL, err);
	return gs_output_close(&f, r, err);
}

/* What the session asked to plot; 0: all of which there are values. */
static unsigned panels_of(const struct gs_store_session *s)
{
	char text[sizeof(s->report_metrics)], *next;
	unsigned panels = 0;

	memcpy(text, s->report_metrics, sizeof(text));
	for (char *w = strtok_r(text, ",", &next); w; w = strtok_r(NULL, ",", &next))
		panels |= gs_plot_panel_by_name(w);
	return panels;
}

static int add_sample(void *ctx, const struct gs_node_snapshot *snapshot,
		      const struct gs_rollup_mark *mark)
{
	struct gs_plot_stats st;
	int r = gs_plot_add(ctx, snapshot, mark);

	gs_plot_stats(ctx, &st);
	return r == 0 && st.n_devices > GPUS_MAX ? -E2BIG : r;
}

static int draw_figure(struct gs_store *store, const struct gs_store_session *s, const char *path,
		       struct gs_err *err)
{
	const struct gs_session_export_options o = {.size = sizeof(o),
						    .store = store,
						    .session = s,
						    .format = GS_SESSION_EXPORT_GST,
						    .commands = GS_SESSION_EXPORT_COMMANDS_NONE};
	const struct gs_plot_options po = {
		.size = sizeof(po), .panels = panels_of(s), .title = s->name};
	struct gs_plot *plot = gs_plot_new(&po);
	int r = plot ? gs_session_export_samples(&o, add_sample, plot, NULL, err) : -ENOMEM;

	if (r == -E2BIG)
		(void)gs_err_set(err, r, "more than %d GPUs", GPUS_MAX);
	if (r == 0)
		r = gs_plot_write(plot, path, err);
	gs_plot_free(&plot);
	return r;
}

/* False: there is nothing to draw. */
static bool write_file(struct gs_session_export_files *files, const struct gs_store_session *s)
{
	char path[4096];
	struct gs_store *store = NULL;
	struct gs_err err = {{0}};
	int r = gs_store_open(files->data, GS_STORE_READ, &store, &err);

	(void)gs_session_export_files_path(files, s, path, sizeof(path));
	if (r == 0)
		r = write_session(store, s, path, &err);
	if (r < 0)
		log_files(files, "session %s has no file: %s", s->name, gs_err_text(&err, r));
	else
		log_files(files, "wrote %s", path);
	gs_store_close(&store);
	return r == 0;
}

static void write_figure(struct gs_session_export_files *files, const struct gs_store_session *s)
{
	char path[4096];
	struct gs_store *store = NULL;
	struct gs_err err = {{0}};
	int r = gs_store_open(files->data, GS_STORE_READ, &store, &err);

	snprintf(path, sizeof(path), "%s/%s.png", files->dir, s->name);
	if (r == 0)
		r = draw_figure(store, s, path, &err);
	/* Nothing was measured; or no figures can be drawn here at all. */
	if (r < 0 && r != -ENODATA && !(r == -ENOPKG && files->no_figures))
		log_files(files, "session %s has no figure: %s", s->name, gs_err_text(&err, r));
	files->no_figures |= r == -ENOPKG;
	gs_store_close(&store);
}

/* --- tasks --- */

/* The oldest task; with the lock held. */
static struct file_task *take_first(struct gs_session_export_files *files)
{
	struct file_task *t = files->first;

	if (t)
		files->first = t->next;
	if (!files->first)
		files->last = NULL;
	return t;
}

/* False: the caller's business remains. */
static bool put_task(struct gs_session_export_files *files, struct file_task *t)
{
	bool taken;

	pthread_mutex_lock(&files->lock);
	taken = !files->stopping;
	if (taken && files->last)
		files->last->next = t;
	else if (taken)
		files->first = t;
	if (taken)
		files->last = t;
	pthread_cond_signal(&files->wake);
	pthread_mutex_unlock(&files->lock);
	if (!taken)
		free(t);
	return taken;
}

static void *run_files(void *arg)
{
	struct gs_session_export_files *files = arg;

	for (;;) {
		struct file_task *t;
		bool stopping;

		pthread_mutex_lock(&files->lock);
		while (!files->stopping && !files->first)
			pthread_cond_wait(&files->wake, &files->lock);
		stopping = files->stopping;
		t = take_first(files);
		pthread_mutex_unlock(&files->lock);
		if (!t)
			return NULL;
		if (t->kind == TASK_WAIT)
			t->fn(t->ctx);
		else if (t->kind == TASK_FIGURE && !stopping)
			write_figure(files, &t->session);
		else if (t->kind == TASK_FILE && !stopping && write_file(files, &t->session)) {
			t->kind = TASK_FIGURE;
			t->next = NULL;
			(void)put_task(files, t);
			continue;
		}
		free(t);
	}
}

void gs_session_export_files_put(struct gs_session_export_files *files,
				 const struct gs_store_session *session)
{
	struct file_task *t = files ? calloc(1, sizeof(*t)) : NULL;

	if (t) {
		t->session = *session;
		(void)put_task(files, t);
	} else if (files) {
		log_files(files, "session %s has no file: no memory", session->name);
	}
}

void gs_session_export_files_then(struct gs_session_export_files *files, void (*fn)(void *ctx),
				  void *ctx)
{
	struct file_task *t = files ? calloc(1, sizeof(*t)) : NULL;

	if (t)
		*t = (struct file_task){.kind = TASK_WAIT,
					.fn = fn,
					.ctx = ctx,
					.until_ns = gs_clock_mono_ns() + PATIENCE_NS};
	if (!t || !put_task(files, t))
		fn(ctx);
}

void gs_session_export_files_tick(struct gs_session_export_files *files)
{
	uint64_t now = gs_clock_mono_ns();
	struct file_task **at, *late = NULL, *t;

	if (!files)
		return;
	pthread_mutex_lock(&files->lock);
	files->last = NULL;
	for (at = &files->first; (t = *at);) {
		if (t->kind == TASK_WAIT && now >= t->until_ns) {
			*at = t->next;
			t->next = late;
			late = t;
		} else {
			files->last = t;
			at = &t->next;
		}
	}
	pthread_mutex_unlock(&files->lock);
	while ((t = late)) {
		late = t->next;
		t->fn(t->ctx);
		free(t);
	}
}

/* --- life --- */

int gs_session_export_files_open(const struct gs_session_export_files_options *o,
				 struct gs_session_export_files **ret_files, struct gs_err *err)
{
	GS_FREE char *whole = realpath(o->dir, NULL);
	struct gs_session_export_files *files;
	int r;

	if (!whole || access(whole, W_OK | X_OK) < 0)
		return gs_err_set(err, -errno, "cannot write sessions' files to %s: %s", o->dir,
				  strerror(errno));
	files = calloc(1, sizeof(*files));
	if (!files)
		return gs_err_set(err, -ENOMEM, "no memory");
	snprintf(files->dir, sizeof(files->dir), "%s", whole);
	snprintf(files->data, sizeof(files->data), "%s", o->data);
	files->on_message = o->on_message;
	files->ctx = o->ctx;
	pthread_mutex_init(&files->lock, NULL);
	pthread_cond_init(&files->wake, NULL);
	r = strlen(whole) < sizeof(files->dir)
		    ? -pthread_create(&files->thread, NULL, run_files, files)
		    : -ENAMETOOLONG;
	if (r < 0) {
		free(files);
		return gs_err_set(err, r, "cannot write sessions' files: %s", strerror(-r));
	}
	*ret_files = files;
	return 0;
}

void gs_session_export_files_stop(struct gs_session_export_files *files)
{
	if (!files)
		return;
	pthread_mutex_lock(&files->lock);
	files->stopping = true;
	pthread_cond_signal(&files->wake);
	pthread_mutex_unlock(&files->lock);
	pthread_join(files->thread, NULL);
}

void gs_session_export_files_free(struct gs_session_export_files **files)
{
	if (!*files)
		return;
	pthread_mutex_destroy(&(*files)->lock);
	pthread_cond_destroy(&(*files)->wake);
	gs_free_p(files);
}
