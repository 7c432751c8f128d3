/* Functions of struct gs_trace, which is a running trace or a recording. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "library/gpuscope/library_int.h"
#include "model/trace/func.h"

#define MANY_MAX 65536u /* items that one call returns at most */
/* Of programs that were built with the first header: what came later is 0 then. */
#define OPTIONS_BYTES_MIN offsetof(struct gs_trace_options, hang_after_ns)

struct gs_trace {
	pthread_mutex_t err_lock; /* protects err: another thread may stop the trace */
	struct gs_err err;
	struct live_trace *live; /* owned; NULL for a recording, and before the start */
	struct file_trace *file; /* owned; NULL for a running trace, and before it is opened */
	struct item_maker maker;
	struct gs_batch batch;       /* of live or file */
	size_t at;                   /* offset of the next record in batch */
	uint64_t lost;               /* items that were dropped, to be reported next */
	const struct gs_item **many; /* owned; the items of the last call */
	size_t many_max;
	struct gs_clock clock;
	struct trace_outcome outcome;
};

/* --- errors --- */

static void begin_call(struct gs_trace *t)
{
	pthread_mutex_lock(&t->err_lock);
	t->err.text[0] = '\0';
	pthread_mutex_unlock(&t->err_lock);
}

/* Stores the error of a call, if it failed. why: may have no text. Returns r. */
static int end_call(struct gs_trace *t, int r, const struct gs_err *why)
{
	if (r >= 0)
		return r;
	pthread_mutex_lock(&t->err_lock);
	gs_err_set(&t->err, r, "%s", gs_err_text(why, r));
	pthread_mutex_unlock(&t->err_lock);
	return r;
}

const char *gs_trace_error(const struct gs_trace *t)
{
	return t ? t->err.text : "no handle: out of memory";
}

/* --- life --- */

int gs_trace_new(struct gs_trace **ret_trace)
{
	struct gs_trace *t = calloc(1, sizeof(*t));

	library_begin();
	*ret_trace = NULL;
	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->err_lock, NULL);
	if (item_maker_init(&t->maker) < 0) {
		gs_trace_free(t);
		return -ENOMEM;
	}
	*ret_trace = t;
	return 0;
}

void gs_trace_free(struct gs_trace *t)
{
	if (!t)
		return;
	trace_outcome_fini(&t->outcome);
	live_trace_free(&t->live);
	file_trace_free(&t->file);
	item_maker_fini(&t->maker);
	free(t->many);
	pthread_mutex_destroy(&t->err_lock);
	free(t);
}

static int check_unused(const struct gs_trace *t, struct gs_err *err)
{
	return t->live || t->file
		       ? gs_err_set(err, -EBUSY, "this handle already has a trace: use a new one")
		       : 0;
}

int gs_trace_start(struct gs_trace *t, const struct gs_trace_options *options)
{
	struct gs_trace_options o;
	struct gs_err err = {{0}};
	int r;

	if (!t)
		return -EINVAL;
	begin_call(t);
	r = check_unused(t, &err);
	if (r == 0)
		r = options_take(options, OPTIONS_BYTES_MIN, &o, sizeof(o), &err);
	if (r == 0)
		r = live_trace_start(&o, &t->live, &err);
	if (r == 0) {
		int64_t boot_minus_mono_ns = live_trace_boot_minus_mono_ns(t->live);

		t->clock = (struct gs_clock){.size = sizeof(t->clock),
					     .to_monotonic_ns = -boot_minus_mono_ns,
					     .to_wall_ns = gs_clock_wall_minus_boot_ns(),
					     .has_monotonic = 1};
	}
	return end_call(t, r, &err);
}

int gs_trace_open(struct gs_trace *t, const char *path, const struct gs_open_options *options)
{
	struct gs_open_options o = {0};
	struct gs_err err = {{0}};
	int r;

	if (!t)
		return -EINVAL;
	begin_call(t);
	r = check_unused(t, &err);
	if (r == 0 && !path)
		r = gs_err_set(&err, -EINVAL, "path is NULL");
	if (r == 0 && options)
		r = options_take(options, sizeof(o), &o, sizeof(o), &err);
	if (r == 0)
		r = file_trace_open(path, &o, &t->file, &err);
	return end_call(t, r, &err);
}

int gs_trace_stop(struct gs_trace *t)
{
	struct gs_err err = {{0}};
	int r = 0;

	if (!t)
		return -EINVAL;
	if (t->live)
		r = live_trace_stop(t->live, &err);
	else if (t->file)
		file_trace_stop(t->file);
	else
		r = gs_err_set(&err, -ENODATA, "nothing was started or opened");
	return end_call(t, r, &err);
}

/* --- items --- */

/* Gets the next batch of records. enum gs_next or a negative errno. */
static int take_batch(struct gs_trace *t, uint64_t until_ns, struct gs_err *err)
{
	uint64_t lost = 0;
	int r;

	if (t->live)
		r = record_queue_take(live_trace_queue(t->live), until_ns, &t->batch, &lost);
	else if (t->file)
		r = file_trace_take(t->file, until_ns, &t->batch, err);
	else
		return gs_err_set(err, -ENODATA, "nothing was started or opened");
	t->lost += lost;
	t->at = 0;
	if (r != GS_NEXT_ITEM)
		t->batch = (struct gs_batch){0};
	return r;
}

static const struct gs_item *make_queue_loss(struct gs_trace *t)
{
	struct gs_lost *l = LENT_NEW(&t->maker.memory, struct gs_lost);

	if (!l)
		return NULL;
	l->head.kind = GS_ITEM_LOST;
	l->count = t->lost;
	l->cause = "queue_full";
	l->text = "items dropped because the queue was full: call gs_trace_next() more often";
	l->layer = l->detail = "";
	t->lost = 0;
	return &l->head;
}

/* Takes the clock of a recording from its first record. */
static void note_session(struct gs_trace *t, const struct gs_record *record)
{
	const struct gs_rec_session *s = (const void *)record;

	if (record->kind == GS_REC_SESSION && !t->clock.size)
		t->clock = (struct gs_clock){.size = sizeof(t->clock),
					     .to_wall_ns = s->wall_minus_boot_ns};
}

/* Makes items of the current batch, until there are max. 0 or a negative errno. */
static int make_items(struct gs_trace *t, size_t max, size_t *n)
{
	while (*n < max) {
		size_t after = t->at;
		const struct gs_record *record = gs_record_next(&t->batch, &after);
		const struct gs_item *item = NULL;
		int r;

		if (!record) /* a malformed one ends its batch */
			return 0;
		/* Items of this call must stay valid until the next one. */
		if (*n && item_replaces_text(&t->maker, record))
			return 0;
		note_session(t, record);
		r = item_make(&t->maker, record, &item);
		if (r < 0)
			return r;
		t->at = after;
		if (item)
			t->many[(*n)++] = item;
	}
	return 0;
}

static bool has_records(const struct gs_trace *t)
{
	size_t at = t->at;

	return gs_record_next(&t->batch, &at) != NULL;
}

static int pull_items(struct gs_trace *t, int64_t timeout_ns, size_t max, size_t *ret_n,
		      struct gs_err *err)
{
	uint64_t until_ns = library_until_ns(timeout_ns);
	size_t n = 0;
	int r = 0;

	if (max > t->many_max) {
		const struct gs_item **many = realloc(t->many, max * sizeof(*many));

		if (!many)
			return -ENOMEM;
		t->many = many;
		t->many_max = max;
	}
	lent_reset(&t->maker.memory);
	while (!n && r == 0) {
		if (!has_records(t))
			r = take_batch(t, until_ns, err);
		if (r < 0)
			return r;
		if (t->lost && !(t->many[n++] = make_queue_loss(t)))
			return -ENOMEM;
		if (r == GS_NEXT_ITEM)
			r = make_items(t, max, &n);
	}
	*ret_n = n;
	return n ? GS_NEXT_ITEM : r;
}

int gs_trace_next_many(struct gs_trace *t, int64_t timeout_ns, size_t max,
		       const struct gs_item *const **ret_items, size_t *ret_n)
{
	struct gs_err err = {{0}};
	int r;

	if (!t)
		return -EINVAL;
	begin_call(t);
	if (!max)
		return end_call(t, gs_err_set(&err, -EINVAL, "max is 0"), &err);
	r = pull_items(t, timeout_ns, max < MANY_MAX ? max : MANY_MAX, ret_n, &err);
	if (r == GS_NEXT_ITEM)
		*ret_items = t->many;
	return end_call(t, r, &err);
}

int gs_trace_next(struct gs_trace *t, int64_t timeout_ns, const struct gs_item **ret_item)
{
	const struct gs_item *const *items;
	size_t n;
	int r = gs_trace_next_many(t, timeout_ns, 1, &items, &n);

	if (r == GS_NEXT_ITEM)
		*ret_item = items[0];
	return r;
}

int gs_trace_fd(const struct gs_trace *t)
{
	return t && t->live ? record_queue_fd(live_trace_queue(t->live)) : -EBADF;
}

int gs_trace_finish(struct gs_trace *t, int64_t timeout_ns)
{
	uint64_t until_ns = library_until_ns(timeout_ns);
	struct gs_err err = {{0}};
	int r;

	if (!t)
		return -EINVAL;
	begin_call(t);
	if (t->live) {
		record_queue_discard(live_trace_queue(t->live));
		t->batch = (struct gs_batch){0};
		return live_trace_wait(t->live, until_ns);
	}
	do
		r = take_batch(t, until_ns, &err);
	while (r == GS_NEXT_ITEM && gs_clock_mono_ns() < until_ns);
	t->batch = (struct gs_batch){0};
	return end_call(t, r == GS_NEXT_ITEM ? GS_NEXT_TIMEOUT : r, &err);
}

/* --- results --- */

int gs_trace_clock(struct gs_trace *t, const struct gs_clock **ret_clock)
{
	struct gs_err err = {{0}};

	if (!t)
		return -EINVAL;
	begin_call(t);
	if (!t->clock.size)
		return end_call(
			t,
			gs_err_set(&err, -EAGAIN,
				   "the clock is unknown until the first item has been returned"),
			&err);
	*ret_clock = &t->clock;
	return 0;
}

enum form { AS_STRUCTS, AS_SUMMARY, AS_FINDINGS };

/* The caller holds the lock of view and findings. */
static int render_outcome(struct gs_trace *t, struct gs_aggregate *view,
			  struct gs_findings *findings, uint32_t layers, bool ended, enum form form)
{
	const char *path = t->file ? file_trace_path(t->file) : "";
	int r = trace_outcome_take(&t->outcome, view, findings, ended);

	return r < 0 || form == AS_STRUCTS ? r
					   : trace_outcome_put(&t->outcome, findings, path, layers,
							       form == AS_FINDINGS);
}

static int take_outcome(struct gs_trace *t, enum form form)
{
	struct gs_err err = {{0}};
	struct gs_aggregate *view;
	struct gs_findings *findings;
	uint32_t layers = 0;
	bool ended;
	int r;

	begin_call(t);
	if (t->live) {
		live_trace_lock(t->live, &view, &findings, &layers, &ended);
		r = render_outcome(t, view, findings, layers, ended, form);
		live_trace_unlock(t->live);
	} else if (t->file) {
		file_trace_view(t->file, &view, &findings, &ended);
		r = render_outcome(t, view, findings, layers, ended, form);
	} else {
		r = gs_err_set(&err, -ENODATA, "nothing was started or opened");
	}
	return end_call(t, r, &err);
}

int gs_trace_result(struct gs_trace *t, const struct gs_result **ret_result)
{
	const struct gs_err none = {{0}};
	const struct gs_result *result;
	int r = t ? take_outcome(t, AS_STRUCTS) : -EINVAL;

	if (r < 0)
		return r;
	result = trace_outcome_result(&t->outcome);
	if (!result)
		return end_call(t, -ENOMEM, &none);
	*ret_result = result;
	return 0;
}

static int take_text(struct gs_trace *t, enum form form, const char **ret_text, size_t *ret_bytes)
{
	int r = t ? take_outcome(t, form) : -EINVAL;

	if (r < 0)
		return r;
	*ret_text = t->outcome.text.text;
	if (ret_bytes)
		*ret_bytes = t->outcome.text.bytes;
	return 0;
}

int gs_trace_result_json(struct gs_trace *t, const char **ret_text, size_t *ret_bytes)
{
	return take_text(t, AS_SUMMARY, ret_text, ret_bytes);
}

int gs_trace_findings_json(struct gs_trace *t, const char **ret_text, size_t *ret_bytes)
{
	return take_text(t, AS_FINDINGS, ret_text, ret_bytes);
}
