/*
 * Calls for the engine, one a line, and what it made of them.
 */
#ifndef GS_TESTS_ACTIVITY_SCRIPT_H
#define GS_TESTS_ACTIVITY_SCRIPT_H

#include <string.h>

#include "core/base/mem.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define SPANS_MAX       4096
#define SCRIPT_CONTEXTS 16

struct script {
	struct gs_activity *a;
	uint32_t process;
	struct gs_activity_span spans[SPANS_MAX];
	size_t n_spans;
	struct { /* of stretches of contexts by their index, by bound */
		uint64_t ns, last_ns;
		bool overlaps;
	} busy[SCRIPT_CONTEXTS][2];
};

static inline GS_UNUSED void script_busy(void *ctx, uint32_t index, enum gs_activity_bound bound,
					 uint64_t start_ns, uint64_t end_ns)
{
	struct script *s = ctx;

	if (index >= SCRIPT_CONTEXTS)
		return;
	s->busy[index][bound].overlaps |= start_ns < s->busy[index][bound].last_ns;
	s->busy[index][bound].last_ns = end_ns;
	s->busy[index][bound].ns += end_ns - start_ns;
}

static inline GS_UNUSED void script_span(void *ctx, const struct gs_activity_span *span)
{
	struct script *s = ctx;

	if (s->n_spans < SPANS_MAX)
		s->spans[s->n_spans++] = *span;
}

static inline GS_UNUSED struct script *script_new(const struct gs_activity_config *config)
{
	struct script *s = calloc(1, sizeof(*s));

	if (!s || gs_activity_new(config, &s->a) < 0)
		abort();
	gs_activity_set_sink(s->a, script_span, s);
	gs_activity_set_busy_sink(s->a, script_busy, s);
	s->process = 1;
	return s;
}

static inline GS_UNUSED void script_free(struct script **s)
{
	gs_activity_free(&(*s)->a);
	free(*s);
}

#define SCRIPT GS_CLEANUP(script_free) struct script *

/* A call of thread 1 where nothing else is said; it takes from start to end. */
static inline GS_UNUSED void take(struct script *s, struct gs_activity_call call, uint64_t start_ns,
				  uint64_t end_ns)
{
	call.process = call.process ? call.process : s->process;
	call.thread = call.thread ? call.thread : 1;
	call.start_ns = start_ns;
	call.end_ns = end_ns;
	gs_activity_take(s->a, &call);
}

#define CALL(kind_, ...)                                                                           \
	((struct gs_activity_call){.function.kind = GS_ACTIVITY_##kind_, __VA_ARGS__})
#define WORK(work_, ...)    CALL(WORK, .function.work = GS_ACTIVITY_##work_, __VA_ARGS__)
#define KERNEL(...)         WORK(KERNELS, __VA_ARGS__)
#define NEW(handle, flags_) CALL(STREAM_NEW, .stream = (handle), .flags = (flags_))

/* The stream of this handle, the last when there are several; all zeros: there is none. */
static inline GS_UNUSED struct gs_activity_stream stream_in(struct script *s, uint32_t context,
							    uint64_t handle, uint32_t thread)
{
	struct gs_activity_stream found = {0}, one;

	for (uint32_t i = 0; i < gs_activity_count_streams(s->a); i++)
		if (gs_activity_read_stream(s->a, i, &one) && one.process == s->process &&
		    one.context == context && one.stream == handle && one.thread == thread &&
		    one.nth >= found.nth)
			found = one;
	return found;
}

static inline GS_UNUSED struct gs_activity_stream stream_of(struct script *s, uint64_t handle)
{
	return stream_in(s, 0, handle, 0);
}

/* The n-th span of the kind, from 0; NULL: there are fewer. */
static inline GS_UNUSED const struct gs_activity_span *span_of(const struct script *s,
							       unsigned kind, size_t n)
{
	for (size_t i = 0; i < s->n_spans; i++)
		if (s->spans[i].kind == kind && n-- == 0)
			return &s->spans[i];
	return NULL;
}

#endif
