/* From records to calls of the engine, and what it found. */
#include <string.h>

#include "core/base/vec.h"
#include "model/trace/class.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

/* --- functions --- */

static bool ends_per_thread(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0);
}

static enum gs_activity_kind kind_of_stream(const char *name)
{
	return strstr(name, "StreamWaitEvent")      ? GS_ACTIVITY_STREAM_WAITS
	       : strstr(name, "StreamCreate")       ? GS_ACTIVITY_STREAM_NEW
	       : strstr(name, "StreamDestroy")      ? GS_ACTIVITY_STREAM_END
	       : strstr(name, "StreamBeginCapture") ? GS_ACTIVITY_CAPTURE_BEGIN
	       : strstr(name, "StreamEndCapture")   ? GS_ACTIVITY_CAPTURE_END
	       : strstr(name, "LaunchHostFunc") || strstr(name, "StreamAddCallback")
		       ? GS_ACTIVITY_WORK
		       : GS_ACTIVITY_NOTHING;
}

static enum gs_activity_kind kind_of_context(const char *name)
{
	return strstr(name, "CtxSetCurrent")      ? GS_ACTIVITY_CONTEXT_SET
	       : strstr(name, "CtxPushCurrent")   ? GS_ACTIVITY_CONTEXT_PUSH
	       : strstr(name, "CtxPopCurrent")    ? GS_ACTIVITY_CONTEXT_POP
	       : strstr(name, "CtxCreate")        ? GS_ACTIVITY_CONTEXT_NEW
	       : strstr(name, "CtxDestroy")       ? GS_ACTIVITY_CONTEXT_END
	       : strstr(name, "PrimaryCtxRetain") ? GS_ACTIVITY_CONTEXT_PRIMARY
						  : GS_ACTIVITY_NOTHING;
}

static enum gs_activity_kind kind_of_graph(const char *name)
{
	return strstr(name, "GraphAddKernelNode")       ? GS_ACTIVITY_GRAPH_KERNEL
	       : strstr(name, "GraphAddChildGraphNode") ? GS_ACTIVITY_GRAPH_CHILD
	       : strstr(name, "GraphClone")             ? GS_ACTIVITY_GRAPH_COPY
	       : strstr(name, "GraphInstantiate") || strstr(name, "GraphExecUpdate")
		       ? GS_ACTIVITY_GRAPH_MAKE
	       : strstr(name, "GraphExecDestroy") ? GS_ACTIVITY_GRAPH_EXEC_END
	       : strstr(name, "GraphDestroy")     ? GS_ACTIVITY_GRAPH_END
						  : GS_ACTIVITY_NOTHING;
}

/* Does it give a handle at its end? */
static bool gives_handle(unsigned kind)
{
	return kind == GS_ACTIVITY_CONTEXT_NEW || kind == GS_ACTIVITY_CONTEXT_PRIMARY ||
	       kind == GS_ACTIVITY_CAPTURE_END || kind == GS_ACTIVITY_GRAPH_COPY ||
	       kind == GS_ACTIVITY_GRAPH_MAKE;
}

static enum gs_activity_kind kind_of_function(unsigned func_class, const char *name)
{
	switch (func_class) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
	case GS_CLASS_MEMSET: /* also one without a stream returns before it is done */
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		return GS_ACTIVITY_WORK;
	case GS_CLASS_COPY:
		return strstr(name, "Async") ? GS_ACTIVITY_WORK : GS_ACTIVITY_COPY;
	case GS_CLASS_SYNC:
		return strstr(name, "EventSynchronize")    ? GS_ACTIVITY_WAIT_EVENT
		       : strstr(name, "StreamSynchronize") ? GS_ACTIVITY_WAIT_STREAM
							   : GS_ACTIVITY_WAIT_DEVICE;
	case GS_CLASS_EVENT:
		return strstr(name, "EventRecord")        ? GS_ACTIVITY_RECORD
		       : strstr(name, "EventDestroy")     ? GS_ACTIVITY_EVENT_END
		       : strstr(name, "EventElapsedTime") ? GS_ACTIVITY_ELAPSED
							  : GS_ACTIVITY_NOTHING;
	case GS_CLASS_STREAM:
		return kind_of_stream(name);
	case GS_CLASS_QUERY:
		return strstr(name, "StreamQuery")  ? GS_ACTIVITY_ASK_STREAM
		       : strstr(name, "EventQuery") ? GS_ACTIVITY_ASK_EVENT
						    : GS_ACTIVITY_NOTHING;
	case GS_CLASS_DEVICE:
		return strstr(name, "SetDevice") ? GS_ACTIVITY_SET_DEVICE
		       : strstr(name, "Reset")   ? GS_ACTIVITY_RESET
						 : GS_ACTIVITY_NOTHING;
	case GS_CLASS_CONTEXT:
		return kind_of_context(name);
	case GS_CLASS_MODULE:
		return kind_of_graph(name);
	default:
		return GS_ACTIVITY_NOTHING;
	}
}

static enum gs_activity_work work_of_class(unsigned func_class)
{
	switch (func_class) {
	case GS_CLASS_LAUNCH:
		return GS_ACTIVITY_KERNELS;
	case GS_CLASS_GRAPH_LAUNCH:
		return GS_ACTIVITY_GRAPHS;
	case GS_CLASS_MEMSET:
		return GS_ACTIVITY_MEMSETS;
	case GS_CLASS_COPY:
		return GS_ACTIVITY_COPIES;
	case GS_CLASS_STREAM:
		return GS_ACTIVITY_HOST_FUNCTIONS;
	default:
		return GS_ACTIVITY_COLLECTIVES;
	}
}

struct gs_activity_function gs_activity_function_of(unsigned layer, unsigned func_class,
						    const char *name)
{
	struct gs_activity_function f = {0};

	if (layer < GS_LAYER_CUDA_RUNTIME || layer > GS_LAYER_NCCL)
		return f;
	f.kind = (uint8_t)kind_of_function(func_class, name);
	if (f.kind == GS_ACTIVITY_WORK || f.kind == GS_ACTIVITY_COPY)
		f.work = (uint8_t)work_of_class(func_class);
	f.per_thread = f.kind == GS_ACTIVITY_RESET ? strcmp(name, "cudaDeviceReset") == 0
						   : ends_per_thread(name);
	return f;
}

/* --- records --- */

static uint64_t multiply_capped(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX >> 20 : product;
}

/* Threads of a grid, by the dimensions as struct gs_event_call has them. */
static uint64_t grid_threads(const uint64_t *arg)
{
	uint64_t n = multiply_capped((uint32_t)arg[1], arg[1] >> 32);

	n = multiply_capped(n, (uint32_t)arg[2]);
	return multiply_capped(n, (arg[2] >> 32) * (uint32_t)arg[3] * (arg[3] >> 32));
}

void gs_activity_take_record(struct gs_activity *a, uint32_t process, const struct gs_rec_call *r,
			     struct gs_activity_function function)
{
	struct gs_activity_call call = {.function = function,
					.failed = r->failed,
					.ret = r->ret,
					.process = process,
					.thread = r->thread,
					.flags = r->aux,
					.start_ns = r->start_ns,
					.end_ns = r->start_ns + r->dur_ns,
					.stream = r->stream,
					.event = {r->arg[0], r->arg[1]},
					.bytes = r->bytes};

	if (r->call_flags & GS_CALL_UNFINISHED || function.kind == GS_ACTIVITY_NOTHING)
		return;
	if (function.kind == GS_ACTIVITY_WORK || function.kind == GS_ACTIVITY_COPY) {
		if (function.work == GS_ACTIVITY_KERNELS) {
			/* So was the stream, which is after the grid. */
			if (r->call_flags & GS_CALL_ARGS_UNREAD) {
				a->n_unread++;
				return;
			}
			call.threads = grid_threads(r->arg);
		} else if (function.work == GS_ACTIVITY_COPIES) {
			call.function.work =
				(uint8_t)(GS_ACTIVITY_COPIES +
					  (r->aux <= GS_COPY_P2P ? r->aux : GS_COPY_DEFAULT));
		}
	}
	/* Its end was not seen, at which the handle is read. */
	if (r->call_flags & GS_CALL_UNTIMED && gives_handle(function.kind))
		call.event[0] = 0;
	gs_activity_take(a, &call);
}

static __attribute__((noinline)) struct activity_function *
find_function(struct gs_activity *a, const struct gs_dict *dict, uint32_t id)
{
	const struct gs_rec_function *f = gs_dict_function(dict, id);
	const char *name = f ? gs_dict_string(dict, f->name_str) : "";

	if (id >= GS_FUNCTION_ID_MAX || !gs_vec_reach(&a->functions, &a->n_functions, id))
		return NULL;
	if (*name) { /* else it is announced later */
		a->functions[id].is_known = true;
		a->functions[id].meaning = gs_activity_function_of(f->layer, f->func_class, name);
	}
	return &a->functions[id];
}

static void follow_call(struct gs_activity *a, const struct gs_dict *dict,
			const struct gs_rec_call *c)
{
	struct activity_function *f =
		c->function < a->n_functions ? &a->functions[c->function] : NULL;
	const struct gs_rec_thread *t;

	if (!f || !f->is_known)
		f = find_function(a, dict, c->function);
	if (!f || f->meaning.kind == GS_ACTIVITY_NOTHING)
		return;
	t = gs_dict_thread(dict, c->thread);
	if (t)
		gs_activity_take_record(a, t->process, c, f->meaning);
}

uint32_t gs_activity_first_device(const struct gs_dict *dict, const struct gs_rec_process *p)
{
	const char *gpus = gs_dict_string(dict, p->gpus_str);
	uint32_t only = p->head.flags >> GS_PROCESS_DEVICE_SHIFT & 0xff;

	if (p->head.flags & GS_PROCESS_BEGUN || (*gpus && !strchr(gpus, ',')))
		return 0;
	return only ? only - 1 : GS_ACTIVITY_DEVICE_UNKNOWN;
}

bool gs_activity_is_late(const struct gs_dict *dict, const struct gs_rec_process *p)
{
	return gs_activity_first_device(dict, p) != 0;
}

static void follow_process(struct gs_activity *a, const struct gs_dict *dict,
			   const struct gs_rec_process *p)
{
	const struct gs_rec_process *before = gs_dict_process(dict, p->id);
	bool runs_another = gs_process_runs_another(before, p);
	const char *gpus = gs_dict_string(dict, p->gpus_str);

	if (runs_another)
		gs_activity_end_process(a, p->id, 0);
	if (p->id < GS_DICT_MAX_ID && gs_vec_reach(&a->origins, &a->n_origins, p->id))
		a->origins[p->id] = (struct activity_origin){
			.device = runs_another ? 0 : gs_activity_first_device(dict, p),
			.has_one = *gpus && !strchr(gpus, ','),
			.begun = p->head.flags & GS_PROCESS_BEGUN};
}

void gs_activity_follow(struct gs_activity *a, const struct gs_dict *dict,
			const struct gs_record *r)
{
	a->last.stream = 0;
	if (r->kind == GS_REC_CALL) {
		follow_call(a, dict, (const void *)r);
	} else if (r->kind == GS_REC_FUNCTION) {
		uint32_t id = ((const struct gs_rec_function *)r)->id;

		if (id < a->n_functions)
			a->functions[id].is_known = false;
	} else if (r->kind == GS_REC_PROCESS) {
		follow_process(a, dict, (const void *)r);
	}
}

/* --- what was found --- */

static uint64_t pending_until(const struct gs_activity *a, const struct activity_context *c,
			      uint64_t since_ns)
{
	uint64_t last_ns = a->processes[c->process].last_ns;

	return last_ns > since_ns ? last_ns : since_ns;
}

uint32_t gs_activity_count_streams(const struct gs_activity *a)
{
	return a->n_streams;
}

/* NULL: there is none; before the first one there is no array either. */
static const struct activity_stream *stream_at(const struct gs_activity *a, uint32_t index)
{
	return index && index < a->n_streams && a->streams[index].context ? &a->streams[index]
									  : NULL;
}

bool gs_activity_read_stream(const struct gs_activity *a, uint32_t index,
			     struct gs_activity_stream *ret_stream)
{
	const struct activity_stream *s = stream_at(a, index);
	const struct activity_context *c;

	if (!s)
		return false;
	c = &a->contexts[s->context];
	*ret_stream = (struct gs_activity_stream){.process = c->sums.process,
						  .context = c->sums.context,
						  .context_handle = c->sums.handle,
						  .thread = s->thread,
						  .nth = s->nth,
						  .stream = s->handle,
						  .n_pending = s->n_pending,
						  .blocking = s->blocking,
						  .ended = s->ended,
						  .totals = s->totals};
	if (s->n_pending)
		ret_stream->totals.busy_max_ns += pending_until(a, c, s->active_ns) - s->active_ns;
	return true;
}

bool gs_activity_read_pending(const struct gs_activity *a, uint32_t index,
			      struct gs_activity_pending *ret)
{
	const struct activity_stream *s = stream_at(a, index);
	uint64_t threads = 0;

	if (!s || !s->n_pending)
		return false;
	*ret = (struct gs_activity_pending){.process = a->contexts[s->context].sums.process,
					    .context = a->contexts[s->context].sums.context,
					    .start_ns = s->active_ns > s->span_ns ? s->active_ns
										  : s->span_ns};
	for (uint32_t i = s->head; i; i = a->segments[i].next) {
		const struct activity_segment *g = &a->segments[i];

		if (g->lanes_used >> GS_ACTIVITY_KERNELS & 1)
			ret->n_kernels += g->lanes[GS_ACTIVITY_KERNELS].n;
		threads += g->threads;
	}
	ret->threads = ret->n_kernels ? threads / ret->n_kernels : 0;
	return true;
}

uint32_t gs_activity_thread_context(const struct gs_activity *a, uint32_t thread)
{
	const struct activity_place *at;

	if (thread >= a->n_threads || !a->threads[thread].process)
		return GS_ACTIVITY_DEVICE_UNKNOWN;
	at = &a->threads[thread].at;
	return at->own ? a->handles[at->own].device : at->device;
}

uint32_t gs_activity_count_contexts(const struct gs_activity *a)
{
	return a->n_contexts - 1;
}

void gs_activity_read_context(const struct gs_activity *a, uint32_t index,
			      struct gs_activity_context *ret_context)
{
	const struct activity_context *c = &a->contexts[index + 1];

	*ret_context = c->sums;
	if (c->n_active)
		ret_context->busy_max_ns += pending_until(a, c, c->active_ns) - c->active_ns;
}

void gs_activity_report_busy(const struct gs_activity *a)
{
	for (uint32_t i = 1; a->busy && i < a->n_contexts; i++) {
		const struct activity_context *c = &a->contexts[i];

		if (c->n_active)
			a->busy(a->busy_ctx, i - 1, GS_ACTIVITY_AT_MOST, c->active_ns,
				pending_until(a, c, c->active_ns));
	}
}

uint64_t gs_activity_limit_hits(const struct gs_activity *a, enum gs_activity_limit limit)
{
	return a->n_limit[limit];
}

uint64_t gs_activity_unread(const struct gs_activity *a)
{
	return a->n_unread;
}
