/*
 * Random calls, and a model without any cleverness beside the engine: all commands that were ever
 * given in one list, and "done" spread over it by the rules until nothing changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_activity/script.h"

#define MAX_COMMANDS 256
#define N_HANDLES    6
#define N_EVENTS     6
#define N_THREADS    3
#define N_CONTEXTS   2
#define MAX_STREAMS  64

enum order { ORDER_NONE, ORDER_BLOCKING, ORDER_LEGACY };

struct model_stream {
	uint32_t context, thread;
	uint64_t handle;
	enum order order;
	bool ended;
};

/* All commands of one stream before this one, and what the default stream makes of that. */
struct model_mark {
	bool recorded;
	uint32_t stream;
	size_t n_before;
};

struct command {
	uint32_t stream;
	bool is_wait; /* for an event */
	struct model_mark mark;
	bool done;
	uint64_t start_ns, done_ns;
};

struct model {
	struct script *script;
	struct model_stream streams[MAX_STREAMS];
	uint32_t n_streams;
	struct command commands[MAX_COMMANDS];
	size_t n_commands;
	struct model_mark events[N_EVENTS];
	uint32_t context[N_THREADS];
	uint64_t now, last_ns; /* last: the end of the last call */
	uint64_t random;
	uint64_t context_wait_ns[N_CONTEXTS];
};

static uint32_t random_below(struct model *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(m->random >> 33) % n;
}

static uint32_t model_stream(struct model *m, uint32_t thread, uint64_t handle, bool make)
{
	uint32_t context = m->context[thread];
	struct model_stream *s;

	for (uint32_t i = 0; i < m->n_streams; i++) {
		s = &m->streams[i];
		if (s->ended || s->handle != handle)
			continue;
		if (handle > 2 || (s->context == context && (handle == 0 || s->thread == thread)))
			return i;
	}
	if (!make)
		return UINT32_MAX;
	assert_true(m->n_streams < MAX_STREAMS);
	s = &m->streams[m->n_streams];
	*s = (struct model_stream){.context = context,
				   .thread = thread,
				   .handle = handle,
				   .order = handle == 0   ? ORDER_LEGACY
					    : handle == 2 ? ORDER_BLOCKING
							  : ORDER_NONE};
	return m->n_streams++;
}

/* Everything before the mark that it stands for. */
static bool is_before(const struct model *m, size_t i, const struct model_mark *mark)
{
	const struct model_stream *s = &m->streams[m->commands[i].stream];
	const struct model_stream *of = &m->streams[mark->stream];

	if (i >= mark->n_before)
		return false;
	if (m->commands[i].stream == mark->stream)
		return true;
	if (s->context != of->context)
		return false;
	return (of->order == ORDER_LEGACY && s->order == ORDER_BLOCKING) ||
	       (of->order == ORDER_BLOCKING && s->order == ORDER_LEGACY);
}

static void spread_done(struct model *m, uint64_t end_ns)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t j = 0; j < m->n_commands; j++) {
			struct model_mark at = {.stream = m->commands[j].stream, .n_before = j};

			if (!m->commands[j].done)
				continue;
			for (size_t i = 0; i < m->n_commands; i++) {
				struct command *c = &m->commands[i];

				if (c->done || (!is_before(m, i, &at) &&
						!(m->commands[j].is_wait &&
						  is_before(m, i, &m->commands[j].mark))))
					continue;
				c->done = true;
				c->done_ns = end_ns;
				changed = true;
			}
		}
	}
}

static size_t count_pending(const struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_commands; i++)
		n += !m->commands[i].done && !m->commands[i].is_wait;
	return n;
}

/* The host waited for what the mark stands for, or for all of a context. */
static void model_wait(struct model *m, const struct model_mark *mark, uint32_t context,
		       uint64_t end_ns)
{
	for (size_t i = 0; i < m->n_commands; i++) {
		struct command *c = &m->commands[i];

		if (c->done ||
		    !(mark ? is_before(m, i, mark) : m->streams[c->stream].context == context))
			continue;
		c->done = true;
		c->done_ns = end_ns;
	}
	spread_done(m, end_ns);
}

static void add_command(struct model *m, uint32_t stream, const struct model_mark *mark,
			uint64_t start_ns)
{
	assert_true(m->n_commands < MAX_COMMANDS);
	m->commands[m->n_commands++] =
		(struct command){.stream = stream,
				 .is_wait = mark != NULL,
				 .mark = mark ? *mark : (struct model_mark){0},
				 .start_ns = start_ns};
}

static uint64_t random_handle(struct model *m)
{
	uint32_t n = random_below(m, N_HANDLES + 3);

	return n < 2 ? 0 : n == 2 ? 2 : 0x100 + 16 * n;
}

static void step_wait(struct model *m, struct gs_activity_call *call, uint32_t thread,
		      uint64_t end_ns)
{
	uint32_t what = random_below(m, 8), e = random_below(m, N_EVENTS), stream;
	struct model_mark mark = {.n_before = m->n_commands};
	size_t pending = count_pending(m);

	if (what == 0) {
		call->function.kind = GS_ACTIVITY_WAIT_DEVICE;
		model_wait(m, NULL, m->context[thread], end_ns);
		if (count_pending(m) < pending)
			m->context_wait_ns[m->context[thread]] += end_ns - m->now;
	} else if (what < 4) {
		call->function.kind = what == 1 ? GS_ACTIVITY_ASK_EVENT : GS_ACTIVITY_WAIT_EVENT;
		call->event[0] = 0x1000 + e;
		if (m->events[e].recorded)
			model_wait(m, &m->events[e], 0, end_ns);
	} else {
		call->function.kind = what == 4 ? GS_ACTIVITY_ASK_STREAM : GS_ACTIVITY_WAIT_STREAM;
		call->stream = random_handle(m);
		stream = model_stream(m, thread, call->stream, true);
		mark.stream = stream;
		/* The host waits for what is in the stream: a default stream that orders others, too. */
		if (m->streams[stream].order == ORDER_BLOCKING) {
			for (mark.n_before = m->n_commands;
			     mark.n_before && m->commands[mark.n_before - 1].stream != stream;
			     mark.n_before--)
				;
		}
		model_wait(m, &mark, 0, end_ns);
	}
}

static void step_other(struct model *m, struct gs_activity_call *call, uint32_t thread)
{
	uint32_t what = random_below(m, 12), e = random_below(m, N_EVENTS), stream;

	call->stream = random_handle(m);
	call->event[0] = 0x1000 + e;
	switch (what) {
	case 0:
		call->function.kind = GS_ACTIVITY_SET_DEVICE;
		call->flags = m->context[thread] = random_below(m, N_CONTEXTS);
		break;
	case 1:
		if (call->stream <= 2)
			break;
		call->function.kind = GS_ACTIVITY_STREAM_NEW;
		call->flags = random_below(m, 2);
		stream = model_stream(m, thread, call->stream, false);
		if (stream != UINT32_MAX)
			m->streams[stream].ended = true;
		stream = model_stream(m, thread, call->stream, true);
		m->streams[stream].order = call->flags ? ORDER_NONE : ORDER_BLOCKING;
		break;
	case 2:
		stream = model_stream(m, thread, call->stream, false);
		if (call->stream <= 2 || stream == UINT32_MAX)
			break;
		call->function.kind = GS_ACTIVITY_STREAM_END;
		m->streams[stream].ended = true;
		break;
	case 3:
		call->function.kind = GS_ACTIVITY_EVENT_END;
		m->events[e].recorded = false;
		break;
	case 4:
	case 5:
	case 6:
		call->function.kind = GS_ACTIVITY_STREAM_WAITS;
		stream = model_stream(m, thread, call->stream, true);
		if (m->events[e].recorded && m->events[e].stream != stream)
			add_command(m, stream, &m->events[e], m->now);
		break;
	default:
		call->function.kind = GS_ACTIVITY_RECORD;
		stream = model_stream(m, thread, call->stream, true);
		/* In the legacy default stream it is an action, which others wait for. */
		if (m->streams[stream].order == ORDER_LEGACY)
			add_command(m, stream, &(struct model_mark){.stream = stream}, m->now);
		m->events[e] = (struct model_mark){
			.recorded = true, .stream = stream, .n_before = m->n_commands};
		break;
	}
}

static void step_once(struct model *m)
{
	uint32_t thread = random_below(m, N_THREADS), sort = random_below(m, 10);
	struct gs_activity_call call = {.thread = thread + 1};
	uint64_t start_ns = m->now += 1 + random_below(m, 5),
		 end_ns = start_ns + 1 + random_below(m, 8);

	if (sort < 5) {
		call.function.kind = GS_ACTIVITY_WORK;
		call.stream = random_handle(m);
		add_command(m, model_stream(m, thread, call.stream, true), NULL, start_ns);
	} else if (sort < 7) {
		step_wait(m, &call, thread, end_ns);
	} else {
		step_other(m, &call, thread);
	}
	if (call.function.kind) {
		take(m->script, call, start_ns, end_ns);
		m->last_ns = end_ns;
	}
	m->now = end_ns;
}

/* The length of the union of the intervals in which work of the stream was pending (of the context:
 * stream UINT32_MAX), and of what is between them: one tick of the clock after the other. */
static void measure_model(const struct model *m, uint32_t stream, uint32_t context,
			  uint64_t *ret_busy, uint64_t *ret_gaps, uint64_t *ret_pending)
{
	uint64_t gap = 0;
	bool any = false;

	*ret_busy = *ret_gaps = *ret_pending = 0;
	for (size_t i = 0; i < m->n_commands; i++)
		*ret_pending += m->commands[i].stream == stream && !m->commands[i].is_wait &&
				!m->commands[i].done;
	for (uint64_t t = 0; t < m->last_ns; t++) {
		bool busy = false;

		for (size_t i = 0; i < m->n_commands && !busy; i++) {
			const struct command *c = &m->commands[i];

			busy = !c->is_wait &&
			       (stream == UINT32_MAX ? m->streams[c->stream].context == context
						     : c->stream == stream) &&
			       c->start_ns <= t && (!c->done || t < c->done_ns);
		}
		*ret_busy += busy;
		if (busy && any)
			*ret_gaps += gap;
		any |= busy;
		gap = busy ? 0 : gap + 1;
	}
}

static void compare_stream(const struct model *m, uint32_t i)
{
	const struct model_stream *s = &m->streams[i];
	uint32_t thread = s->handle == 2 ? s->thread + 1 : 0, nth = 0;
	struct gs_activity_stream one;
	uint64_t busy, gaps, pending;
	bool found = false;

	/* The same handle again: the ones before it have come before it. */
	for (uint32_t j = 0; j < i; j++)
		nth += s->handle > 2 && m->streams[j].handle == s->handle;
	for (uint32_t j = 0; j < gs_activity_count_streams(m->script->a) && !found; j++)
		found = gs_activity_read_stream(m->script->a, j, &one) && one.stream == s->handle &&
			one.thread == thread &&
			(s->handle > 2 ? nth-- == 0 : one.context == s->context);
	assert_true(found);
	assert_int_equal(one.context, s->context);
	measure_model(m, i, 0, &busy, &gaps, &pending);
	assert_int_equal(one.n_pending, pending);
	assert_int_equal(one.totals.busy_max_ns, busy);
	assert_int_equal(one.totals.gap_ns, gaps);
	assert_true(one.totals.busy_min_ns <= one.totals.busy_max_ns);
	assert_true(one.totals.busy_min_ns <= one.totals.wait_ns);
}

static void compare_all(const struct model *m)
{
	struct gs_activity_context c;
	uint64_t busy, gaps, pending;

	for (uint32_t i = 0; i < m->n_streams; i++)
		compare_stream(m, i);
	gs_activity_report_busy(m->script->a);
	for (uint32_t i = 0; i < gs_activity_count_contexts(m->script->a); i++) {
		gs_activity_read_context(m->script->a, i, &c);
		measure_model(m, UINT32_MAX, c.context, &busy, &gaps, &pending);
		assert_int_equal(c.busy_max_ns, busy);
		assert_int_equal(c.gap_ns, gaps);
		assert_true(c.busy_min_ns <= c.busy_max_ns);
		/* The stretches are what the sums are of. */
		assert_true(i < SCRIPT_CONTEXTS);
		for (unsigned b = 0; b < 2; b++) {
			assert_int_equal(m->script->busy[i][b].ns,
					 b == GS_ACTIVITY_AT_MOST ? c.busy_max_ns : c.busy_min_ns);
			assert_false(m->script->busy[i][b].overlaps);
		}
		assert_true(c.wait_ns >= m->context_wait_ns[c.context]);
	}
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		if (i != GS_ACTIVITY_LIMIT_WAITS)
			assert_int_equal(gs_activity_limit_hits(m->script->a, i), 0);
}

static void test_like_the_model(void **state)
{
	unsigned n_compared = 0;

	for (uint64_t seed = 1; seed <= 1500; seed++) {
		SCRIPT s = script_new(NULL);
		struct model *m = calloc(1, sizeof(*m));

		assert_non_null(m);
		m->script = s;
		m->random = seed * 0x9e3779b97f4a7c15ull;
		m->now = 1;
		for (unsigned i = 0; i < 10 + seed % 90; i++)
			step_once(m);
		/* A wait that is not remembered is a bound, not a rule. */
		if (!gs_activity_limit_hits(s->a, GS_ACTIVITY_LIMIT_WAITS)) {
			compare_all(m);
			n_compared++;
		}
		free(m);
	}
	assert_true(n_compared > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_like_the_model)};

	return cmocka_run_group_tests_name("gpu_activity/model", tests, NULL, NULL);
}
