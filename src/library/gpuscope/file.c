/* A recording, which may still be written while it is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "library/gpuscope/library_int.h"
#include "pipeline/recording/recording.h"

#define POLL_NS 50000000ull /* how often a file that is followed is checked for growth */

struct file_trace {
	char *path;                         /* owned */
	struct gs_recording_reader *reader; /* owned */
	struct gs_aggregate *view;          /* owned */
	struct gs_findings *findings;       /* owned */
	struct output_files outputs;
	bool follows, has_end, ended;
	pthread_mutex_t lock; /* of stopped */
	pthread_cond_t changed;
	bool stopped;
};

static int open_all(struct file_trace *f, const struct gs_open_options *o, struct gs_err *err)
{
	int r = gs_recording_open(f->path, &f->reader, err);

	if (r == 0)
		r = gs_aggregate_new(&f->view);
	if (r == 0)
		r = gs_findings_new(f->view, &f->findings);
	return r < 0 ? r
		     : output_files_open(&f->outputs, o->outputs, o->n_outputs, false, true,
					 f->view, err);
}

int file_trace_open(const char *path, const struct gs_open_options *options,
		    struct file_trace **ret_file, struct gs_err *err)
{
	struct file_trace *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;
	int r;

	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &attr);
	pthread_condattr_destroy(&attr);
	f->follows = options->follow;
	f->path = strdup(path);
	r = f->path ? open_all(f, options, err) : -ENOMEM;
	if (r < 0)
		file_trace_free(&f);
	else
		*ret_file = f;
	return r;
}

void file_trace_free(struct file_trace **file)
{
	struct file_trace *f = *file;

	if (!f)
		return;
	output_files_abandon(&f->outputs);
	gs_findings_free(&f->findings);
	gs_aggregate_free(&f->view);
	gs_recording_reader_close(&f->reader);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f->path);
	free(f);
	*file = NULL;
}

static int push_batch(struct file_trace *f, const struct gs_batch *batch)
{
	const struct gs_sink *view = gs_aggregate_sink(f->view);
	int r = view->push(view->ctx, batch);

	if (r == 0)
		r = gs_findings_push(f->findings, batch);
	for (size_t i = 0; i < f->outputs.n && r == 0; i++) {
		const struct gs_sink *to = output_file_sink(&f->outputs.at[i]);

		r = to->push(to->ctx, batch);
	}
	gs_records_for_each (batch, record)
		f->has_end |= record->kind == GS_REC_END;
	return r;
}

/* Waits until the file may have grown. *ret_over: until_ns has passed. False: following was stopped. */
static bool wait_for_growth(struct file_trace *f, uint64_t until_ns, bool *ret_over)
{
	uint64_t next_ns = gs_clock_mono_ns() + POLL_NS;
	struct timespec at;
	bool stopped;

	*ret_over = next_ns - POLL_NS >= until_ns;
	next_ns = next_ns < until_ns ? next_ns : until_ns;
	at = (struct timespec){.tv_sec = (time_t)(next_ns / 1000000000),
			       .tv_nsec = (long)(next_ns % 1000000000)};
	pthread_mutex_lock(&f->lock);
	if (!*ret_over && !f->stopped)
		pthread_cond_timedwait(&f->changed, &f->lock, &at);
	stopped = f->stopped;
	pthread_mutex_unlock(&f->lock);
	return !stopped;
}

int file_trace_take(struct file_trace *f, uint64_t until_ns, struct gs_batch *ret_batch,
		    struct gs_err *err)
{
	int r = f->ended ? GS_RECORDING_EOF : gs_recording_next(f->reader, ret_batch);
	bool over = false;

	while (r == GS_RECORDING_EOF && !f->ended && f->follows && !f->has_end && !over &&
	       wait_for_growth(f, until_ns, &over))
		r = gs_recording_next(f->reader, ret_batch);
	if (r < 0)
		return gs_err_set(err, r, "cannot read %s: %s", f->path, strerror(-r));
	if (r == 0) {
		r = push_batch(f, ret_batch);
		return r < 0 ? gs_err_set(err, r, "cannot continue reading %s: %s", f->path,
					  strerror(-r))
			     : GS_NEXT_ITEM;
	}
	if (over)
		return GS_NEXT_TIMEOUT;
	if (!f->ended) {
		f->ended = true;
		r = output_files_close(&f->outputs, err);
		if (r < 0)
			return r;
	}
	return GS_NEXT_END;
}

void file_trace_stop(struct file_trace *f)
{
	pthread_mutex_lock(&f->lock);
	f->stopped = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

void file_trace_view(struct file_trace *f, struct gs_aggregate **ret_view,
		     struct gs_findings **ret_findings, bool *ret_ended)
{
	*ret_view = f->view;
	*ret_findings = f->findings;
	*ret_ended = f->ended;
}

const char *file_trace_path(const struct file_trace *f)
{
	return f->path;
}
