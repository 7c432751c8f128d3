#include "pipeline/aggregate/under.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/class.h"
#include "model/trace/dict.h"
#include "model/trace/record_stack.h"
#include "pipeline/correlate/python_glob.h"

#define MAX_BYTES      (512u << 20) /* of the times of one thread */
#define NAME_MAX_BYTES 1024

struct span {
	uint64_t start_ns, end_ns;
};

struct times { /* of one thread: when one of the functions was open */
	struct gs_buf spans;
	size_t n; /* after settle_calls(): sorted, none overlaps another */
};

struct gs_aggregate_under {
	struct gs_py_glob globs[GS_PY_GLOB_MAX];
	size_t n_globs;
	struct gs_dict *dict;
	struct times *threads; /* owned, and each */
	size_t n_threads;
	struct gs_map of_thread;   /* id -> index */
	struct gs_map is_function; /* id -> 1 wanted, 0 not */
	struct gs_map is_stack;
	bool is_settled;
	struct gs_buf out;
	uint64_t n_chosen, n_added_up;
};

struct gs_aggregate_under *gs_aggregate_under_new(const struct gs_py_glob *globs, size_t n)
{
	struct gs_aggregate_under *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->dict = gs_dict_new();
	u->n_globs = n < GS_PY_GLOB_MAX ? n : GS_PY_GLOB_MAX;
	memcpy(u->globs, globs, u->n_globs * sizeof(*globs));
	u->of_thread = GS_MAP_INIT(GS_DICT_MAX_ID);
	u->is_function = GS_MAP_INIT(GS_DICT_MAX_ID);
	u->is_stack = GS_MAP_INIT(GS_DICT_MAX_ID);
	u->out = GS_BUF_INIT(MAX_BYTES);
	if (u->dict)
		gs_dict_keep_stacks(u->dict);
	else
		gs_aggregate_under_free(&u);
	return u;
}

void gs_aggregate_under_free(struct gs_aggregate_under **ref)
{
	struct gs_aggregate_under *u = *ref;

	if (!u)
		return;
	for (size_t i = 0; i < u->n_threads; i++)
		gs_buf_fini(&u->threads[i].spans);
	free(u->threads);
	gs_dict_free(&u->dict);
	gs_map_fini(&u->of_thread);
	gs_map_fini(&u->is_function);
	gs_map_fini(&u->is_stack);
	gs_buf_fini(&u->out);
	free(u);
	*ref = NULL;
}

static bool matches_pattern(const struct gs_aggregate_under *u, uint32_t file_str, const char *name)
{
	const char *file = gs_dict_string(u->dict, file_str);

	for (size_t i = 0; i < u->n_globs; i++)
		if (gs_correlate_matches_py_glob(&u->globs[i], file, name))
			return true;
	return false;
}

/* Is it one of the functions whose calls were traced? "file:NAME/line" is what it is called. */
static bool is_wanted(struct gs_aggregate_under *u, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(u->dict, function);
	const char *text = f ? gs_dict_string(u->dict, f->name_str) : "";
	const char *slash = strrchr(text, '/'), *colon;
	char name[NAME_MAX_BYTES];
	uint64_t known = 0;

	if (gs_map_get(&u->is_function, function, &known))
		return known;
	if (f && f->func_class == GS_CLASS_PYTHON && slash) {
		for (colon = slash; colon > text && colon[-1] != ':';)
			colon--;
		snprintf(name, sizeof(name), "%.*s", (int)(slash - colon), colon);
		known = matches_pattern(u, f->file_str, name);
	}
	/* Without memory it is looked at again. */
	(void)gs_map_put(&u->is_function, function, known);
	return known;
}

static bool has_wanted(struct gs_aggregate_under *u, uint32_t stack)
{
	const struct gs_rec_stack *s;
	uint64_t known = 0;

	if (!stack)
		return false;
	if (gs_map_get(&u->is_stack, stack, &known))
		return known;
	s = gs_dict_stack(u->dict, stack);
	for (uint32_t i = 0; s && i < s->n_frames && !known; i++) {
		const struct gs_rec_frame *f = gs_dict_frame(u->dict, s->frames[i]);

		if (f && f->frame_kind == GS_FRAME_PYTHON)
			known = matches_pattern(u, f->file_str,
						gs_dict_string(u->dict, f->function_str));
	}
	(void)gs_map_put(&u->is_stack, stack, known);
	return known;
}

/* --- the first pass --- */

static struct times *times_of(struct gs_aggregate_under *u, uint32_t thread)
{
	uint64_t i;

	if (gs_map_get(&u->of_thread, thread, &i))
		return &u->threads[i];
	if (!gs_vec_reserve_next(&u->threads, u->n_threads))
		return NULL;
	u->threads[u->n_threads] = (struct times){.spans = GS_BUF_INIT(MAX_BYTES)};
	if (gs_map_put(&u->of_thread, thread, u->n_threads) < 0)
		return NULL;
	return &u->threads[u->n_threads++];
}

static int note_call(struct gs_aggregate_under *u, const struct gs_rec_call *c)
{
	struct span span = {c->start_ns, c->start_ns + c->dur_ns};
	struct times *t;

	if (!is_wanted(u, c->function))
		return 0;
	t = times_of(u, c->thread);
	if (!t)
		return -ENOMEM;
	/* Calls come as they return: those inside stand before it, and are part of it. */
	while (t->n && ((struct span *)(void *)t->spans.data)[t->n - 1].start_ns >= span.start_ns) {
		t->n--;
		t->spans.bytes -= sizeof(span);
	}
	if (gs_buf_put(&t->spans, &span, sizeof(span)) < 0)
		return -ENOMEM;
	t->n++;
	return 0;
}

int gs_aggregate_under_scan(struct gs_aggregate_under *u, const struct gs_batch *batch)
{
	int ret = 0;

	gs_records_for_each (batch, r) {
		int one = r->kind == GS_REC_CALL ? note_call(u, (const void *)r)
						 : gs_dict_apply(u->dict, r);

		if (one == -ENOMEM)
			ret = one;
	}
	return ret;
}

/* --- the second --- */

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Open calls are recorded at the end, whenever they began. */
static void settle_calls(struct gs_aggregate_under *u)
{
	for (size_t k = 0; k < u->n_threads; k++) {
		struct times *t = &u->threads[k];
		struct span *spans = (void *)t->spans.data;
		size_t n = 0;

		qsort(spans, t->n, sizeof(*spans), by_start);
		for (size_t i = 0; i < t->n; i++) {
			if (!n || spans[i].start_ns > spans[n - 1].end_ns)
				spans[n++] = spans[i];
			else if (spans[i].end_ns > spans[n - 1].end_ns)
				spans[n - 1].end_ns = spans[i].end_ns;
		}
		t->n = n;
	}
	u->is_settled = true;
}

static bool is_within(const struct gs_aggregate_under *u, uint32_t thread, uint64_t start_ns,
		      uint64_t end_ns)
{
	const struct span *spans;
	size_t low = 0, high;
	uint64_t i;

	if (!gs_map_get(&u->of_thread, thread, &i))
		return false;
	spans = (const void *)u->threads[i].spans.data;
	high = u->threads[i].n;
	while (low < high) { /* the last that began no later */
		size_t middle = (low + high) / 2;

		if (spans[middle].start_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low && end_ns <= spans[low - 1].end_ns;
}

static bool keeps_record(struct gs_aggregate_under *u, const struct gs_record *r)
{
	const struct gs_rec_sample *s = (const void *)r;
	const struct gs_rec_call *c = (const void *)r;
	const struct gs_rec_leak *l = (const void *)r;
	bool keep;

	switch (r->kind) {
	case GS_REC_CALL:
		keep = has_wanted(u, c->py_stack) ||
		       is_within(u, c->thread, c->start_ns, c->start_ns + c->dur_ns);
		u->n_chosen += keep;
		return keep;
	case GS_REC_SAMPLE:
		keep = has_wanted(u, s->py_stack) ||
		       is_within(u, s->thread, s->time_ns, s->time_ns);
		u->n_chosen += keep;
		return keep;
	case GS_REC_WAIT:
		return has_wanted(u, ((const struct gs_rec_wait *)(const void *)r)->py_stack);
	case GS_REC_LEAK:
		return has_wanted(u, l->py_stack);
	case GS_REC_STATS:
		u->n_added_up += ((const struct gs_rec_stats *)(const void *)r)->calls;
		return false;
	case GS_REC_USE:
	case GS_REC_AGGREGATE:
	case GS_REC_ALLOCATOR:
	case GS_REC_MPI:
		return false;
	default:
		return true;
	}
}

int gs_aggregate_under_choose(struct gs_aggregate_under *u, const struct gs_batch *batch,
			      struct gs_batch *ret_batch)
{
	const struct gs_record *values = NULL;

	if (!u->is_settled)
		settle_calls(u);
	gs_buf_reset(&u->out);
	gs_records_for_each (batch, r) {
		if (r->kind == GS_REC_VALUES) { /* of the call after it */
			values = r;
			continue;
		}
		if (keeps_record(u, r)) {
			if (values && gs_buf_put(&u->out, values, values->bytes) < 0)
				return -ENOMEM;
			if (gs_buf_put(&u->out, r, r->bytes) < 0)
				return -ENOMEM;
		}
		values = NULL;
	}
	*ret_batch = (struct gs_batch){.data = u->out.data, .bytes = u->out.bytes};
	return 0;
}

uint64_t gs_aggregate_under_n_chosen(const struct gs_aggregate_under *u)
{
	return u->n_chosen;
}

uint64_t gs_aggregate_under_n_added_up(const struct gs_aggregate_under *u)
{
	return u->n_added_up;
}
