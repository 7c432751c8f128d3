#include "pipeline/gpu_activity/gpu_activity.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

/* Copies to the device of at most this from pageable memory return when staged, not when done (CUDA
 * Runtime API, "API synchronization behavior"). */
#define STAGED_BYTES (64u << 10)

static uint32_t or_default(uint32_t wanted, uint32_t value)
{
	return wanted ? wanted : value;
}

int gs_activity_config_set(struct gs_activity_config *config, const char *text)
{
	const struct {
		const char *word;
		uint32_t *bound;
	} bounds[] = {{"processes", &config->max_processes},
		      {"devices", &config->max_contexts},
		      {"streams", &config->max_streams},
		      {"events", &config->max_events},
		      {"segments", &config->max_segments},
		      {"stream-segments", &config->max_stream_segments},
		      {"captures", &config->max_captures},
		      {"graphs", &config->max_graphs},
		      {"graph-kernels", &config->max_graph_kernels}};
	const char *number = strchr(text, '=');
	unsigned long n = 0;

	if (!number || number - text >= 32 || strspn(number + 1, "0123456789") > 8)
		return -EINVAL;
	for (const char *p = number + 1; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (unsigned long)(*p - '0');
	if (number[1 + strspn(number + 1, "0123456789")] || !n || n > GS_ACTIVITY_BOUND_MAX)
		return -EINVAL;
	for (size_t i = 0; i < GS_ARRAY_LEN(bounds); i++)
		if (strlen(bounds[i].word) == (size_t)(number - text) &&
		    memcmp(bounds[i].word, text, (size_t)(number - text)) == 0) {
			*bounds[i].bound = (uint32_t)n;
			return 0;
		}
	return -EINVAL;
}

int gs_activity_set_bounds(struct gs_activity *a, const struct gs_activity_config *config)
{
	struct gs_activity_config c = *config;
	struct activity_capture *captures;

	c.max_processes = or_default(c.max_processes, 4096);
	c.max_contexts = or_default(c.max_contexts, 4096);
	c.max_streams = or_default(c.max_streams, 16384);
	c.max_events = or_default(c.max_events, 65536);
	c.max_segments = or_default(c.max_segments, 65536);
	c.max_stream_segments = or_default(c.max_stream_segments, 256);
	c.max_captures = or_default(c.max_captures, 256);
	c.max_graphs = or_default(c.max_graphs, 4096);
	c.max_graph_kernels = or_default(c.max_graph_kernels, 65536);
	captures = calloc((size_t)c.max_captures + 1, sizeof(*captures));
	if (!captures)
		return -ENOMEM;
	free(a->captures);
	a->captures = captures;
	a->config = c;
	a->process_idx = GS_MAP_INIT(c.max_processes);
	a->stream_idx = GS_MAP_INIT(c.max_streams);
	a->event_idx = GS_MAP_INIT(c.max_events);
	a->graph_idx = GS_MAP_INIT(c.max_graphs);
	return 0;
}

int gs_activity_new(const struct gs_activity_config *config, struct gs_activity **ret_activity)
{
	static const struct gs_activity_config none;
	struct gs_activity *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	if (gs_activity_set_bounds(a, config ? config : &none) < 0) {
		free(a);
		return -ENOMEM;
	}
	/* Index 0 is none in all arrays. */
	a->n_processes = a->n_contexts = a->n_handles = 1;
	a->n_streams = a->n_events = a->n_segments = a->n_graphs = a->n_items = 1;
	*ret_activity = a;
	return 0;
}

void gs_activity_free(struct gs_activity **activity)
{
	struct gs_activity *a = *activity;

	if (!a)
		return;
	free(a->processes);
	free(a->contexts);
	free(a->handles);
	free(a->streams);
	free(a->events);
	free(a->segments);
	free(a->graphs);
	free(a->items);
	free(a->threads);
	free(a->captures);
	free(a->todo);
	free(a->functions);
	free(a->origins);
	gs_map_fini(&a->process_idx);
	gs_map_fini(&a->stream_idx);
	gs_map_fini(&a->event_idx);
	gs_map_fini(&a->graph_idx);
	free(a);
	*activity = NULL;
}

void gs_activity_set_sink(struct gs_activity *a, gs_activity_span_fn *span, void *ctx)
{
	a->span = span;
	a->span_ctx = ctx;
}

void gs_activity_set_busy_sink(struct gs_activity *a, gs_activity_busy_fn *busy, void *ctx)
{
	a->busy = busy;
	a->busy_ctx = ctx;
}

bool gs_activity_copy_waits(unsigned copy_kind, uint64_t bytes)
{
	return copy_kind != GS_COPY_D2D && copy_kind != GS_COPY_P2P &&
	       !(copy_kind == GS_COPY_H2D && bytes <= STAGED_BYTES);
}

/* --- work --- */

static void count_work(struct gs_activity_totals *t, const struct gs_activity_call *call)
{
	unsigned work = call->function.work;

	/* Between the calls of a run the program did something else. */
	t->call_ns += call->n_run ? 0 : call->end_ns - call->start_ns;
	t->n[work] += activity_pieces(call);
	t->bytes[work] += call->bytes;
	t->threads += call->threads;
	if (!t->first_ns || call->start_ns < t->first_ns)
		t->first_ns = call->start_ns;
	if (call->end_ns > t->last_ns)
		t->last_ns = call->end_ns;
}

/* It goes into a graph. */
static void capture_work(struct gs_activity *a, const struct activity_thread *t,
			 const struct gs_activity_call *call, uint32_t graph)
{
	if (call->function.work == GS_ACTIVITY_KERNELS && call->event[0])
		activity_graph_add(a, graph, call->event[0], 1);
	else if (call->function.work == GS_ACTIVITY_GRAPHS && graph)
		activity_graph_launch(a, t->process, call->event[0], graph);
}

static void take_work(struct gs_activity *a, struct activity_thread *t,
		      const struct gs_activity_call *call, uint64_t queued_ns)
{
	uint32_t stream = activity_stream_find(a, t, call);
	struct gs_activity_context *sums = &a->contexts[t->context].sums;
	struct activity_stream *s = &a->streams[stream];

	if (stream && s->capture && activity_is_capturing(a, s->capture, s->capture_generation)) {
		s->totals.n_captured += activity_pieces(call);
		capture_work(a, t, call, a->captures[s->capture].graph);
		return;
	}
	if (call->function.work == GS_ACTIVITY_GRAPHS)
		activity_graph_launch(a, t->process, call->event[0], 0);
	count_work(stream ? &s->totals : &sums->rest, call);
	if (stream)
		sums = &a->contexts[s->context].sums;
	if (!sums->first_ns || call->start_ns < sums->first_ns)
		sums->first_ns = call->start_ns;
	if (call->end_ns > sums->last_ns)
		sums->last_ns = call->end_ns;
	if (!stream)
		return;
	activity_work_add(a, stream, call, queued_ns);
	if (s->tail)
		a->last = (struct gs_activity_place){stream, s->generation,
						     a->segments[s->tail].number};
}

struct gs_activity_place gs_activity_last_place(const struct gs_activity *a)
{
	return a->last;
}

bool gs_activity_is_done(const struct gs_activity *a, const struct gs_activity_place *place)
{
	const struct activity_stream *s = &a->streams[place->stream];

	return place->stream && s->generation == place->generation &&
	       s->done_number >= place->segment;
}

/* --- waits --- */

/* While the host stood there, work of the context was pending, unless it was known to be done. */
static void count_wait(struct gs_activity *a, uint32_t context,
		       const struct activity_closing *closing)
{
	struct activity_context *c = &a->contexts[context];
	uint64_t start_ns = closing->start_ns > c->min_ns ? closing->start_ns : c->min_ns;

	c->sums.wait_ns += closing->end_ns - closing->start_ns;
	if (!closing->n_pieces || closing->end_ns <= start_ns)
		return;
	c->sums.busy_min_ns += closing->end_ns - start_ns;
	c->min_ns = closing->end_ns;
	if (a->busy)
		a->busy(a->busy_ctx, context - 1, GS_ACTIVITY_AT_LEAST, start_ns, closing->end_ns);
}

/* The same of a stream, and of no other. */
static void count_stream_wait(struct gs_activity *a, const struct activity_closing *closing)
{
	struct activity_stream *s = &a->streams[closing->stream];
	const struct gs_activity_context *c = &a->contexts[s->context].sums;
	uint64_t start_ns = closing->start_ns > s->wait_ns ? closing->start_ns : s->wait_ns;

	s->totals.wait_ns += closing->end_ns - closing->start_ns;
	if (a->span)
		a->span(a->span_ctx, &(struct gs_activity_span){.kind = GS_ACTIVITY_SPAN_WAIT,
								.process = c->process,
								.context = c->context,
								.thread = s->thread,
								.index = closing->stream,
								.stream = s->handle,
								.start_ns = closing->start_ns,
								.end_ns = closing->end_ns});
	/* It may have been the others' work that it waited for. */
	if (!closing->n_own || closing->n_own < closing->n_pieces || closing->end_ns <= start_ns)
		return;
	s->totals.busy_min_ns += closing->end_ns - start_ns;
	s->wait_ns = closing->end_ns;
}

/* All that is in the stream now is done. */
static void close_whole_stream(struct gs_activity *a, uint32_t stream,
			       struct activity_closing *closing)
{
	const struct activity_stream *s = &a->streams[stream];

	closing->stream = stream;
	activity_work_close(a, stream, UINT64_MAX, closing);
	if (s->is_legacy)
		activity_work_close_context(a, s->context, true, closing);
}

static void take_stream_wait(struct gs_activity *a, struct activity_thread *t,
			     const struct gs_activity_call *call, struct activity_closing *closing)
{
	uint32_t stream = activity_stream_find(a, t, call);

	if (!stream)
		return;
	if (closing->is_wait) {
		a->streams[stream].totals.n_syncs++;
		a->streams[stream].totals.call_ns += call->end_ns - call->start_ns;
	}
	close_whole_stream(a, stream, closing);
	if (!closing->is_wait)
		return;
	count_stream_wait(a, closing);
	count_wait(a, a->streams[stream].context, closing);
}

static void take_copy(struct gs_activity *a, struct activity_thread *t,
		      const struct gs_activity_call *call, struct activity_closing *closing)
{
	unsigned kind = call->function.work - GS_ACTIVITY_COPIES;
	uint32_t stream;

	if (!gs_activity_copy_waits(kind, call->bytes)) {
		take_work(a, t, call, call->end_ns);
		return;
	}
	take_work(a, t, call, call->start_ns);
	stream = activity_stream_find(a, t, call);
	if (!stream)
		return;
	close_whole_stream(a, stream, closing);
	count_stream_wait(a, closing);
	count_wait(a, a->streams[stream].context, closing);
}

static void take_event_done(struct gs_activity *a, const struct activity_thread *t, uint64_t handle,
			    struct activity_closing *closing)
{
	const struct activity_event *e = activity_event_find(a, t->process, handle, false);
	struct activity_point at;

	if (!e || e->capture)
		return;
	at = e->at;
	if (!at.stream || a->streams[at.stream].generation != at.generation)
		return;
	if (closing->is_wait) {
		a->streams[at.stream].totals.n_syncs++;
		a->streams[at.stream].totals.call_ns += closing->end_ns - closing->start_ns;
	}
	closing->stream = at.stream;
	activity_work_close_point(a, &at, closing);
	if (!closing->is_wait)
		return;
	count_stream_wait(a, closing);
	count_wait(a, at.context, closing);
}

static void take_device_wait(struct gs_activity *a, const struct activity_thread *t,
			     const struct gs_activity_call *call, struct activity_closing *closing)
{
	uint32_t context = t->context;

	if (call->event[1])
		context = activity_context_find(
			a, t->process,
			activity_context_place(a, t->process, call->thread, call->event[1]));
	if (!context)
		return;
	a->contexts[context].sums.n_syncs++;
	activity_work_close_context(a, context, false, closing);
	count_wait(a, context, closing);
}

/* --- events --- */

static void take_record(struct gs_activity *a, struct activity_thread *t,
			const struct gs_activity_call *call)
{
	uint32_t stream = activity_stream_find(a, t, call);
	struct activity_stream *s = &a->streams[stream];
	struct activity_event *e;

	if (!stream)
		return;
	s->totals.n_records++;
	e = activity_event_find(a, t->process, call->event[0], true);
	if (!e)
		return;
	if (s->capture && activity_is_capturing(a, s->capture, s->capture_generation)) {
		e->capture = s->capture;
		e->capture_generation = s->capture_generation;
		e->at.stream = 0;
		return;
	}
	e->capture = 0;
	e->at = activity_work_mark(a, stream);
}

static void take_event_wait(struct gs_activity *a, struct activity_thread *t,
			    const struct gs_activity_call *call)
{
	uint32_t stream = activity_stream_find(a, t, call);
	const struct activity_event *e;
	struct activity_stream *s;

	if (!stream)
		return;
	s = &a->streams[stream];
	s->totals.n_event_waits++;
	e = activity_event_find(a, t->process, call->event[0], false);
	if (!e)
		return;
	if (e->capture) {
		/* What the stream is given from now on belongs to that graph, too. */
		s->capture = e->capture;
		s->capture_generation = e->capture_generation;
	} else if (e->at.stream) {
		activity_work_wait(a, stream, &e->at);
	}
}

static void begin_capture(struct gs_activity *a, struct activity_thread *t,
			  const struct gs_activity_call *call)
{
	uint32_t stream = activity_stream_find(a, t, call), i;

	if (!stream)
		return;
	i = a->next_capture % a->config.max_captures + 1;
	a->next_capture = i;
	if (a->captures[i].open) {
		a->n_limit[GS_ACTIVITY_LIMIT_CAPTURES]++;
		activity_graph_drop(a, a->captures[i].graph);
	}
	a->captures[i].open = true;
	a->captures[i].graph = activity_graph_begin(a, t->process);
	a->captures[i].generation++;
	a->streams[stream].capture = i;
	a->streams[stream].capture_generation = a->captures[i].generation;
}

static void end_capture(struct gs_activity *a, struct activity_thread *t,
			const struct gs_activity_call *call)
{
	uint32_t stream = activity_stream_find(a, t, call);
	struct activity_stream *s = &a->streams[stream];

	if (!stream || !s->capture)
		return;
	if (a->captures[s->capture].generation == s->capture_generation) {
		struct activity_capture *c = &a->captures[s->capture];

		if (call->failed)
			activity_graph_drop(a, c->graph);
		else
			activity_graph_finish(a, c->graph, call->event[0]);
		c->graph = 0;
		c->open = false;
	}
	s->capture = 0;
}

/* --- devices and processes --- */

void activity_end_context(struct gs_activity *a, uint32_t context, struct activity_closing *closing)
{
	closing->ended = true;
	closing->is_wait = false;
	closing->limit_ns = UINT64_MAX;
	activity_work_close_context(a, context, false, closing);
	for (uint32_t i = 1; i < a->n_streams; i++)
		if (a->streams[i].context == context)
			activity_stream_end(a, i);
}

static void reset_device(struct gs_activity *a, const struct activity_thread *t, uint32_t device,
			 struct activity_closing *closing)
{
	for (uint32_t i = a->processes[t->process].contexts; i; i = a->contexts[i].next)
		if (a->contexts[i].sums.context == device && !a->contexts[i].own)
			activity_end_context(a, i, closing);
}

void gs_activity_end_process(struct gs_activity *a, uint32_t process, uint64_t time_ns)
{
	struct activity_closing closing = {0};
	uint64_t i;

	if (!gs_map_get(&a->process_idx, process, &i))
		return;
	closing.start_ns = closing.end_ns = time_ns ? time_ns : a->processes[i].last_ns;
	for (uint32_t c = a->processes[i].contexts; c; c = a->contexts[c].next)
		activity_end_context(a, c, &closing);
	activity_context_forget(a, (uint32_t)i);
	activity_graph_forget(a, (uint32_t)i);
	/* Threads that make calls from now on are of another. */
	a->processes[i].number = 0;
	gs_map_del(&a->process_idx, process);
}

void gs_activity_begin_late(struct gs_activity *a, uint32_t process)
{
	if (process < GS_DICT_MAX_ID && gs_vec_reach(&a->origins, &a->n_origins, process))
		a->origins[process].device = GS_ACTIVITY_DEVICE_UNKNOWN;
}

void gs_activity_see_process(struct gs_activity *a, uint32_t process, uint64_t time_ns)
{
	uint64_t i;

	if (gs_map_get(&a->process_idx, process, &i) && time_ns > a->processes[i].last_ns)
		a->processes[i].last_ns = time_ns;
}

/* --- calls --- */

/* After it nothing of the context runs any more: "this leaves the process in an inconsistent state"
 * (driver_types.h, cuda.h of CUDA 13; the codes of the runtime and of the driver are the same). */
static bool is_context_lost(int32_t code)
{
	switch (code) {
	case 214: /* uncorrectable ECC error */
	case 220: /* uncorrectable error of NVLink */
	case 226: /* contained */
	case 700: /* illegal address */
	case 702: /* launch timeout */
	case 710: /* assert */
	case 714: /* hardware stack */
	case 715: /* illegal instruction */
	case 716: /* misaligned address */
	case 717: /* invalid address space */
	case 718: /* invalid program counter */
	case 719: /* launch failure */
	case 721: /* tensor memory leak */
		return true;
	default:
		return false;
	}
}

/* Work and waits that failed did nothing, but where the context is lost: what it had is over. */
static void take_failed(struct gs_activity *a, struct activity_thread *t,
			const struct gs_activity_call *call, struct activity_closing *closing)
{
	uint32_t stream;

	switch (call->function.kind) {
	case GS_ACTIVITY_WORK:
	case GS_ACTIVITY_COPY:
		stream = activity_stream_find(a, t, call);
		if (stream)
			a->streams[stream].totals.n_failed++;
		break;
	case GS_ACTIVITY_CAPTURE_END: /* of one that is not valid any more */
		end_capture(a, t, call);
		break;
	default:
		break;
	}
	if (is_context_lost(call->ret)) {
		closing->is_wait = false;
		closing->limit_ns = UINT64_MAX;
		activity_work_close_context(a, t->context, false, closing);
	}
}

static void take_other(struct gs_activity *a, struct activity_thread *t,
		       const struct gs_activity_call *call, struct activity_closing *closing)
{
	switch (call->function.kind) {
	case GS_ACTIVITY_COPY:
		take_copy(a, t, call, closing);
		break;
	case GS_ACTIVITY_WAIT_STREAM:
	case GS_ACTIVITY_ASK_STREAM:
		take_stream_wait(a, t, call, closing);
		break;
	case GS_ACTIVITY_ELAPSED:
		take_event_done(a, t, call->event[1], closing);
		take_event_done(a, t, call->event[0], closing);
		break;
	case GS_ACTIVITY_WAIT_EVENT:
	case GS_ACTIVITY_ASK_EVENT:
		take_event_done(a, t, call->event[0], closing);
		break;
	case GS_ACTIVITY_WAIT_DEVICE:
		take_device_wait(a, t, call, closing);
		break;
	case GS_ACTIVITY_RECORD:
		take_record(a, t, call);
		break;
	case GS_ACTIVITY_STREAM_WAITS:
		take_event_wait(a, t, call);
		break;
	case GS_ACTIVITY_STREAM_NEW:
		activity_stream_create(a, t, call);
		break;
	case GS_ACTIVITY_STREAM_END: {
		uint32_t stream = activity_stream_find(a, t, call);

		if (stream && a->streams[stream].handle > ACTIVITY_STREAM_PER_THREAD)
			activity_stream_end(a, stream);
		break;
	}
	case GS_ACTIVITY_EVENT_END:
		activity_event_forget(a, t->process, call->event[0]);
		break;
	case GS_ACTIVITY_CAPTURE_BEGIN:
		begin_capture(a, t, call);
		break;
	case GS_ACTIVITY_CAPTURE_END:
		end_capture(a, t, call);
		break;
	case GS_ACTIVITY_GRAPH_KERNEL:
	case GS_ACTIVITY_GRAPH_CHILD:
	case GS_ACTIVITY_GRAPH_COPY:
	case GS_ACTIVITY_GRAPH_MAKE:
	case GS_ACTIVITY_GRAPH_END:
	case GS_ACTIVITY_GRAPH_EXEC_END:
		activity_graph_take(a, t->process, call);
		break;
	case GS_ACTIVITY_RESET:
		reset_device(a, t, call->function.per_thread ? t->at.device : call->flags, closing);
		break;
	default:
		break;
	}
}

/* The thread is elsewhere from now on. */
static void take_choice(struct gs_activity *a, const struct gs_activity_call *call,
			struct activity_closing *closing)
{
	struct activity_thread *t = activity_thread_reach(a, call);

	if (!t) {
		a->n_limit[GS_ACTIVITY_LIMIT_PROCESSES]++;
		return;
	}
	if (call->end_ns > a->processes[t->process].last_ns)
		a->processes[t->process].last_ns = call->end_ns;
	if (!call->failed)
		activity_context_take(a, t, call, closing);
}

void gs_activity_take(struct gs_activity *a, const struct gs_activity_call *call)
{
	struct activity_closing closing = {
		.start_ns = call->start_ns, .end_ns = call->end_ns, .limit_ns = call->start_ns};
	struct activity_thread *t;

	a->last.stream = 0;
	if (call->function.kind == GS_ACTIVITY_NOTHING)
		return;
	if (call->function.kind >= GS_ACTIVITY_SET_DEVICE) {
		take_choice(a, call, &closing);
		return;
	}
	t = activity_thread_of(a, call);
	if (!t)
		return;
	if (call->end_ns > a->processes[t->process].last_ns)
		a->processes[t->process].last_ns = call->end_ns;
	closing.is_wait = call->function.kind == GS_ACTIVITY_WAIT_STREAM ||
			  call->function.kind == GS_ACTIVITY_WAIT_EVENT ||
			  call->function.kind == GS_ACTIVITY_WAIT_DEVICE ||
			  call->function.kind == GS_ACTIVITY_COPY;
	if (call->failed)
		take_failed(a, t, call, &closing);
	else if (call->function.kind == GS_ACTIVITY_WORK)
		take_work(a, t, call, call->end_ns);
	else if (!call->ret) /* an answer is "not ready" */
		take_other(a, t, call, &closing);
}
