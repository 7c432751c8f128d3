#include "pipeline/inside/inside_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/companion/nccl.h"
#include "model/trace/func.h"
#include "model/trace/library.h"
#include "pipeline/inside/gpu.h"
#include "pipeline/inside/nccl.h"

#define EVENTS_MAX (1u << 20) /* held back at one time */

int gs_inside_new(struct gs_companion_files *files, const bool *wanted,
		  struct gs_inside **ret_inside)
{
	struct gs_inside *in = calloc(1, sizeof(*in));

	if (!in)
		return -ENOMEM;
	in->files = files;
	memcpy(in->wanted, wanted, sizeof(in->wanted));
	for (unsigned i = 0; i < GS_FUNC_FIXED; i++)
		in->has_calls |= wanted[i];
	in->asked = GS_MAP_INIT(65536);
	in->expected = GS_MAP_INIT(4096);
	gs_inside_python_init(&in->python);
	in->busy_of = GS_MAP_INIT(65536);
	gs_companion_ticks_note(&in->ticks);
	*ret_inside = in;
	return 0;
}

void gs_inside_free(struct gs_inside **ref)
{
	struct gs_inside *in = *ref;

	if (!in)
		return;
	for (size_t i = 0; i < in->n_held; i++)
		free(in->held[i].other);
	free(in->held);
	free(in->busy);
	gs_map_fini(&in->busy_of);
	gs_map_fini(&in->asked);
	gs_map_fini(&in->expected);
	inside_ops_fini(&in->ops);
	gs_inside_python_fini(&in->python);
	free(in);
	*ref = NULL;
}

/* --- records to events --- */

static uint64_t ns_of(struct gs_inside *in, const struct gs_companion_thread *from, uint64_t ticks)
{
	return gs_companion_thread_ns(&in->ticks, from, ticks);
}

static void count_loss(struct gs_inside *in, unsigned layer, enum gs_loss cause, uint64_t n)
{
	if (in->taker.event)
		in->taker.missing(in->taker.ctx, n);
	else
		gs_ingest_loss(in->feed, layer, cause, NULL, n);
}

static void count_bad(struct gs_inside *in, uint64_t n)
{
	count_loss(in, GS_LAYER_NONE, GS_LOSS_EVENT_BAD, n);
}

static void hand_event(struct gs_inside *in, const struct gs_event *event)
{
	if (in->taker.event)
		in->taker.event(in->taker.ctx, event);
	else
		gs_ingest_event(in->feed, event);
}

/* The place for one more; NULL: no memory, it is counted. */
static struct held_event *hold_event(struct gs_inside *in, uint64_t end_ns)
{
	struct held_event *e;

	if (in->n_held == EVENTS_MAX || !gs_vec_reserve(&in->held, &in->capacity, in->n_held + 1)) {
		count_loss(in, GS_LAYER_NONE, GS_LOSS_RING_FULL, 1);
		return NULL;
	}
	e = &in->held[in->n_held++];
	*e = (struct held_event){.end_ns = end_ns, .order = in->order++};
	return e;
}

/* For the wall-clock account, whose kernel side does not see these calls. NULL: no memory. */
static struct busy_thread *busy_of(struct gs_inside *in, uint32_t pid, uint32_t tid)
{
	uint64_t key = (uint64_t)pid << 32 | tid, i;

	if (gs_map_get(&in->busy_of, key, &i))
		return &in->busy[i];
	if (!gs_vec_reserve_next(&in->busy, in->n_busy) ||
	    gs_map_put(&in->busy_of, key, in->n_busy) < 0)
		return NULL;
	in->busy[in->n_busy] = (struct busy_thread){{0}};
	return &in->busy[in->n_busy++];
}

static void add_busy(struct gs_inside *in, const struct gs_companion_thread *from, unsigned func,
		     uint64_t ns)
{
	struct busy_thread *b = busy_of(in, from->pid, from->tid);

	if (b)
		b->ns[gs_func_inside(gs_func_by_id(func))] += ns;
}

/* Operators' time is that of those that are in no other, without that of calls in them. */
static void add_op_time(struct gs_inside *in, const struct held_event *e)
{
	struct busy_thread *b = e->is_outer || (e->is_in_op && !e->call.depth)
					? busy_of(in, e->call.pid, e->call.tid)
					: NULL;

	if (b)
		*(e->is_op ? &b->ns[GS_INSIDE_OPERATOR] : &b->in_ops_ns) += e->call.dur_ns;
}

uint32_t gs_inside_layers(const struct gs_inside *in)
{
	return in ? in->layers : 0;
}

/* So much of the thread's time, up to all of it, was within such calls: of what it ran first, then of what
 * it waited most. */
static void move_time(struct gs_account_reading *a, unsigned inside, uint64_t ns)
{
	while (ns) {
		unsigned most = GS_STATE_CPU;
		uint64_t part;

		for (unsigned s = 0; s < GS_STATE_COUNT && !a->time_ns[GS_STATE_CPU][0]; s++)
			if (a->time_ns[s][0] > a->time_ns[most][0])
				most = s;
		part = a->time_ns[most][0] < ns ? a->time_ns[most][0] : ns;
		if (!part)
			return;
		a->time_ns[most][0] -= part;
		a->time_ns[most][inside] += part;
		ns -= part;
	}
}

/* Of operators' time as much was spent waiting for a processor as of all time of the thread: the rest it ran. */
static void move_op_time(struct gs_account_reading *a, const struct busy_thread *b)
{
	uint64_t ns = b->ns[GS_INSIDE_OPERATOR], *cpu_ns = &a->time_ns[GS_STATE_CPU][0], ran_ns;

	ns -= b->in_ops_ns < ns ? b->in_ops_ns : ns;
	if (!*cpu_ns)
		return;
	ran_ns = (uint64_t)((double)ns * (double)*cpu_ns /
			    (double)(*cpu_ns + a->time_ns[GS_STATE_RUNQUEUE][0]));
	ran_ns = ran_ns < *cpu_ns ? ran_ns : *cpu_ns;
	*cpu_ns -= ran_ns;
	a->time_ns[GS_STATE_CPU][GS_INSIDE_OPERATOR] += ran_ns;
}

void gs_inside_account(struct gs_inside *in, struct gs_account_reading *reading)
{
	uint64_t i;

	if (!in || !gs_map_get(&in->busy_of, (uint64_t)reading->pid << 32 | reading->tid, &i))
		return;
	for (unsigned inside = GS_INSIDE_NONE + 1; inside < GS_INSIDE_COUNT; inside++)
		if (inside != GS_INSIDE_OPERATOR)
			move_time(reading, inside, in->busy[i].ns[inside]);
	move_op_time(reading, &in->busy[i]);
}

static void take_call(struct gs_inside *in, const struct gs_companion_thread *from,
		      const struct gs_companion_call *c)
{
	uint64_t start_ns = ns_of(in, from, c->start), end_ns = ns_of(in, from, c->start + c->dur);
	struct held_event *e;

	if (c->func >= GS_FUNC_FIXED || !in->wanted[c->func]) {
		count_bad(in, 1);
		return;
	}
	in->layers |= 1u << gs_func_by_id(c->func)->desc.layer;
	if (end_ns < start_ns)
		end_ns = start_ns;
	if (!c->depth)
		add_busy(in, from, c->func, end_ns - start_ns);
	e = hold_event(in, end_ns);
	if (!e)
		return;
	e->python = c->python;
	e->call = (struct gs_event_call){.head = {.kind = GS_EV_CALL, .bytes = sizeof(e->call)},
					 .start_ns = start_ns,
					 .dur_ns = end_ns - start_ns,
					 .pid = from->pid,
					 .tid = from->tid,
					 .ret = c->ret,
					 .func = c->func,
					 .cpu = c->cpu,
					 .depth = c->depth,
					 .flags = c->flags &
						  (GS_CALL_DRIVER_SEEN | GS_CALL_ARGS_UNREAD),
					 .aux = c->aux,
					 .bytes = c->bytes,
					 .stream = c->stream};
	for (unsigned i = 0; i < 4; i++)
		e->call.arg[i] = c->arg[i];
}

static void take_python(struct gs_inside *in, const struct gs_companion_thread *from,
			const struct gs_companion_python_call *c)
{
	uint64_t start_ns = ns_of(in, from, c->start), end_ns = ns_of(in, from, c->start + c->dur);
	struct gs_event_call call;
	struct held_event *e;

	if (!in->has_python || !gs_inside_python_call(&in->python, from, c, &call)) {
		count_bad(in, 1);
		return;
	}
	in->layers |= 1u << GS_LAYER_PYTHON;
	call.start_ns = start_ns;
	call.dur_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	/* Its part of that time. */
	call.arg[0] = c->dur ? (uint64_t)((unsigned __int128)call.dur_ns * c->self / c->dur) : 0;
	e = hold_event(in, start_ns + call.dur_ns);
	if (e)
		e->call = call;
}

static void take_comm(struct gs_inside *in, const struct gs_companion_thread *from,
		      const struct gs_companion_comm *c)
{
	struct gs_event_comm *e = calloc(1, sizeof(*e));
	struct held_event *held = e ? hold_event(in, ns_of(in, from, c->time)) : NULL;

	if (!held) {
		free(e);
		return;
	}
	*e = (struct gs_event_comm){.head = {.kind = GS_EV_COMM, .bytes = sizeof(*e)},
				    .time_ns = held->end_ns,
				    .pid = from->pid,
				    .tid = from->tid,
				    .func = c->func,
				    .n_list = c->n_list,
				    .ret = c->ret,
				    .comm = c->comm,
				    .parent = c->parent,
				    .n_ranks = c->n_ranks,
				    .rank = c->rank,
				    .color = c->color,
				    .key = c->key};
	memcpy(e->unique_id, c->unique_id, sizeof(e->unique_id));
	for (unsigned i = 0; i < GS_COMM_LIST_MAX; i++)
		e->list[i] = c->list[i];
	held->other = &e->head;
}

static void take_asked(struct gs_inside *in, const struct gs_companion_thread *from,
		       const struct gs_companion_asked *a)
{
	struct gs_event_kernel *e = calloc(1, sizeof(*e));
	struct held_event *held = e ? hold_event(in, ns_of(in, from, a->time)) : NULL;
	size_t bytes = a->head.bytes - sizeof(*a);

	if (!held) {
		free(e);
		return;
	}
	*e = (struct gs_event_kernel){.head = {.kind = GS_EV_KERNEL, .bytes = sizeof(*e)},
				      .pid = from->pid,
				      .tid = from->tid,
				      .func = a->func};
	memcpy(e->name, a->name, bytes < sizeof(e->name) ? bytes : sizeof(e->name) - 1);
	held->other = &e->head;
}

static void take_op(struct gs_inside *in, const struct gs_companion_thread *from,
		    const struct gs_companion_op *r)
{
	uint64_t start_ns = ns_of(in, from, r->start), end_ns = ns_of(in, from, r->start + r->dur);
	struct held_event *e;

	if (!in->ops.funcs || !(from->doors >> GS_COMPANION_OPS & 1) || !r->name ||
	    r->name >= GS_COMPANION_OP_NAMES || r->flags & ~(unsigned)GS_COMPANION_OP_FLAGS) {
		count_bad(in, 1);
		return;
	}
	in->layers |= 1u << GS_LAYER_TORCH;
	e = hold_event(in, end_ns < start_ns ? start_ns : end_ns);
	if (!e)
		return;
	e->is_op = true;
	e->is_span = r->flags & GS_COMPANION_OP_SPAN;
	e->is_outer = !(r->flags & (GS_COMPANION_OP_SPAN | GS_COMPANION_OP_IN_OP));
	e->file = from->file;
	e->call = (struct gs_event_call){.head = {.kind = GS_EV_CALL, .bytes = sizeof(e->call)},
					 .start_ns = start_ns,
					 .dur_ns = e->end_ns - start_ns,
					 .pid = from->pid,
					 .tid = from->tid,
					 .ret = r->flags & GS_COMPANION_OP_THROWN,
					 .func = r->name,
					 .scope = r->outer,
					 .cpu = r->cpu,
					 .depth = r->depth};
}

bool gs_inside_call(struct gs_inside *in, const struct gs_event_call *call)
{
	struct held_event *e;

	if (!in || !in->ops.funcs || call->head.bytes != sizeof(*call))
		return false;
	e = hold_event(in, call->start_ns + call->dur_ns);
	if (e)
		e->call = *call;
	return e != NULL;
}

void gs_inside_task(struct gs_inside *in, const struct gs_event_task *event)
{
	struct gs_event_task *e = malloc(event->head.bytes);
	struct held_event *held = e ? hold_event(in, event->time_ns) : NULL;

	if (!held) {
		free(e);
		hand_event(in, &event->head);
		return;
	}
	memcpy(e, event, event->head.bytes);
	held->other = &e->head;
	if (event->change == GS_TASK_EXEC)
		gs_inside_exec(in, event->pid, event->time_ns);
	if (in->has_python && event->change == GS_TASK_EXIT && event->pid == event->tid)
		gs_inside_python_end(&in->python, event->pid, event->time_ns);
}

static void on_record(void *ctx, const struct gs_companion_thread *from,
		      const struct gs_companion_record *r)
{
	struct gs_inside *in = ctx;

	switch (r->kind) {
	case GS_COMPANION_CALL:
		take_call(in, from, (const void *)r);
		break;
	case GS_COMPANION_COMM:
		take_comm(in, from, (const void *)r);
		break;
	case GS_COMPANION_ASKED:
		take_asked(in, from, (const void *)r);
		break;
	case GS_COMPANION_OP:
		take_op(in, from, (const void *)r);
		break;
	case GS_COMPANION_OP_NAME:
		if (!inside_ops_take_name(&in->ops, from, (const void *)r))
			count_bad(in, 1);
		break;
	case GS_COMPANION_PYTHON_CALL:
		take_python(in, from, (const void *)r);
		break;
	case GS_COMPANION_PYTHON_STATE:
		if (!in->has_python ||
		    !gs_inside_python_state(&in->python, in->feed, from->pid, (const void *)r))
			count_bad(in, 1);
		break;
	default:
		if (in->taker.event) /* it has no use for them */
			break;
		in->has_nccl |= r->kind == GS_COMPANION_NCCL_COMM;
		if (!gs_inside_take_gpu(in->feed, from->pid, r) ||
		    !gs_inside_take_nccl(in->feed, &in->ticks, from, r))
			count_bad(in, 1);
	}
}

static int compare_events(const void *a, const void *b)
{
	const struct held_event *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Numbers of names to ids, of operators whose names have come. */
static void name_ops(struct gs_inside *in)
{
	for (size_t i = 0; i < in->n_held; i++) {
		struct held_event *e = &in->held[i];
		uint16_t id = e->file ? inside_ops_id(&in->ops, e->file, e->call.func) : 0;

		if (!id)
			continue;
		e->call.func = id;
		e->call.scope = inside_ops_id(&in->ops, e->file, e->call.scope);
		e->file = 0;
	}
}

/* Operators around what is looked at, of a thread: the innermost last. */
struct around {
	unsigned n;
	struct inside_open_op op[2 * GS_COMPANION_OPS_OPEN];
};

/* From the last end to the first. NULL: no memory. */
static struct around *around_of(struct gs_inside *in, struct gs_map *index, struct around **list,
				uint32_t *n, const struct gs_event_call *c)
{
	uint64_t key = (uint64_t)c->pid << 32 | c->tid, i;
	const struct inside_open_op *open;
	struct around *a;

	if (gs_map_get(index, key, &i))
		return &(*list)[i];
	if (!gs_vec_reserve_next(list, *n) || gs_map_put(index, key, *n) < 0)
		return NULL;
	a = &(*list)[(*n)++];
	open = inside_ops_open(&in->ops, c->pid, c->tid, &a->n);
	for (unsigned k = 0; k < a->n; k++)
		a->op[k] = open[k];
	return a;
}

static void place_event(struct around *a, struct held_event *e)
{
	while (a->n && a->op[a->n - 1].start_ns > e->call.start_ns)
		a->n--;
	if (!e->is_op && !e->call.scope && a->n) {
		e->call.scope = a->op[a->n - 1].func;
		/* An operator's own time is that of Python functions in it, too. */
		for (unsigned i = 0; i < a->n && e->call.func < GS_FUNC_FIXED; i++)
			e->is_in_op |= !a->op[i].is_span;
	} else if (e->is_op && !e->file && a->n < GS_ARRAY_LEN(a->op)) {
		a->op[a->n++] = (struct inside_open_op){e->call.start_ns, e->call.func, e->is_span};
	}
}

/* The operators that made calls which come by other ways: those around them in time in the same thread. */
static void place_calls(struct gs_inside *in, uint64_t until_ns)
{
	struct gs_map index = GS_MAP_INIT(65536);
	struct around *list = NULL;
	bool has_calls = false;
	uint32_t n = 0;

	for (size_t i = 0; i < in->n_held && in->held[i].end_ns <= until_ns; i++)
		has_calls |= !in->held[i].is_op && !in->held[i].other;
	for (size_t i = in->n_held; has_calls && i > 0; i--) {
		struct held_event *e = &in->held[i - 1];
		struct around *a = e->other ? NULL : around_of(in, &index, &list, &n, &e->call);

		if (a)
			place_event(a, e);
	}
	gs_map_fini(&index);
	free(list);
}

/* In the order in which calls ended: of those until then all have come. */
static void release_events(struct gs_inside *in, uint64_t until_ns)
{
	size_t n = 0;

	if (!in->n_held) /* then held may be NULL */
		return;
	qsort(in->held, in->n_held, sizeof(*in->held), compare_events);
	if (in->ops.funcs) {
		name_ops(in);
		place_calls(in, until_ns);
	}
	for (; n < in->n_held && in->held[n].end_ns <= until_ns; n++) {
		struct held_event *e = &in->held[n];

		if (e->file) {
			count_bad(in, 1); /* its name has not come */
			continue;
		}
		add_op_time(in, e);
		/* Its name has come by now, by the other file of that process. An operator around it is the inner one. */
		if (e->python && !e->call.scope)
			e->call.scope =
				gs_inside_python_function(&in->python, e->call.pid, e->python);
		hand_event(in, e->other ? e->other : &e->call.head);
		free(e->other);
	}
	memmove(in->held, in->held + n, (in->n_held - n) * sizeof(*in->held));
	in->n_held -= n;
}

/* --- sums, losses, open calls --- */

static void put_cell(struct gs_inside *in, const struct gs_companion_thread *from,
		     const struct gs_cell *before, const struct gs_cell *now)
{
	static struct gs_thread thread; /* large; of its fields two are looked at */

	if (now->func >= GS_FUNC_FIXED || !in->wanted[now->func]) {
		count_bad(in, 1);
		return;
	}
	if (in->taker.event) {
		in->taker.missing(in->taker.ctx, now->calls - before->calls);
		return;
	}
	thread.pid = from->pid;
	thread.tid = from->tid;
	gs_ingest_cell(in->feed, &thread, before, now);
}

static void on_inner(void *ctx, const struct gs_companion_thread *from, unsigned func, uint32_t n)
{
	const struct gs_cell before = {.func = func},
			     now = {.func = func, .thread_slot = GS_INGEST_PAST, .inner = n};

	put_cell(ctx, from, &before, &now);
}

static struct gs_cell cell_of(const struct gs_companion_sum *s, unsigned func)
{
	struct gs_cell c = {.func = func,
			    .thread_slot =
				    GS_INGEST_PAST, /* sums are read some time after the calls */
			    .calls = s->calls,
			    .errors = s->errors,
			    .total_ns = s->total_ns,
			    .max_ns = s->max_ns,
			    .bytes = s->bytes};

	memcpy(c.err_code, s->err_code, sizeof(c.err_code));
	memcpy(c.err_count, s->err_count, sizeof(c.err_count));
	memcpy(c.hist, s->hist, sizeof(c.hist));
	return c;
}

static void on_sum(void *ctx, const struct gs_companion_thread *from,
		   const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
	const struct gs_cell a = cell_of(before, now->func), b = cell_of(now, now->func);

	if (from->doors >> GS_COMPANION_OPS & 1) {
		if (!inside_ops_take_sum(&((struct gs_inside *)ctx)->ops, from, before, now))
			count_loss(ctx, GS_LAYER_TORCH, GS_LOSS_NO_CELL,
				   now->calls - before->calls);
		return;
	}
	put_cell(ctx, from, &a, &b);
	if (now->func < GS_FUNC_FIXED && gs_func_by_id(now->func) &&
	    now->total_ns > before->total_ns)
		add_busy(ctx, from, now->func, now->total_ns - before->total_ns);
}

/* Of operators, when their names have come; the rest waits for them, or (is_end) is lost. */
static void release_sums(struct gs_inside *in, bool is_end)
{
	static struct gs_thread thread;
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->ops.n_sums; i++) {
		const struct inside_sum *s = &in->ops.sums[i];
		uint16_t id = inside_ops_id(&in->ops, s->from.file, s->now.func);
		struct gs_cell before = cell_of(&s->before, id), now = cell_of(&s->now, id);

		if (id && !in->taker.event) {
			in->layers |= 1u << GS_LAYER_TORCH;
			thread.pid = s->from.pid;
			thread.tid = s->from.tid;
			gs_ingest_cell(in->feed, &thread, &before, &now);
		} else if (is_end) {
			count_bad(in, 1);
		} else {
			in->ops.sums[n++] = *s;
		}
	}
	in->ops.n_sums = n;
}

/* Operators that are open: to place calls, or at the end, as they will not end. */
static void on_ops(void *ctx, const struct gs_companion_thread *from,
		   const struct gs_companion_scope *scopes, unsigned n, bool is_end)
{
	static struct gs_thread thread;
	struct gs_inside *in = ctx;

	if (!in->ops.funcs || in->taker.event)
		return;
	if (!is_end) {
		inside_ops_take_open(&in->ops, &in->ticks, from, scopes, n);
		return;
	}
	thread.pid = from->pid;
	thread.tid = from->tid;
	for (unsigned i = 0; i < n && i < GS_SCOPE_MAX; i++) {
		thread.scope[i].func = inside_ops_id(&in->ops, from->file, scopes[i].name);
		thread.scope[i].start_ns = ns_of(in, from, scopes[i].start);
		if (!thread.scope[i].func || !from->tid) {
			count_bad(in, 1);
			return;
		}
		gs_ingest_open_scope(in->feed, &thread, i, gs_clock_mono_ns());
	}
}

static void on_open(void *ctx, const struct gs_companion_thread *from, const struct gs_frame *call,
		    unsigned depth)
{
	static struct gs_thread thread;
	struct gs_inside *in = ctx;
	struct gs_frame f = *call;

	if (in->taker.event)
		return;
	if (f.func >= GS_FUNC_FIXED || !in->wanted[f.func] || !from->tid) {
		count_bad(in, 1);
		return;
	}
	thread.pid = from->pid;
	thread.tid = from->tid;
	f.start_ns = ns_of(in, from, f.start_ns);
	f.flags &= GS_CALL_DRIVER_SEEN;
	f.v[GS_V_NONE] = 0;
	gs_ingest_open_call(in->feed, &thread, &f, depth, gs_clock_mono_ns());
}

static void on_python_name(void *ctx, uint32_t pid, uint32_t number, const char *file,
			   const char *name, uint32_t line)
{
	struct gs_inside *in = ctx;

	if (in->has_python)
		gs_inside_python_name(&in->python, in->feed, pid, number, file, name, line);
}

static void on_python_sum(void *ctx, const struct gs_companion_thread *from,
			  const struct gs_companion_python_sum *sum)
{
	struct gs_inside *in = ctx;

	if (!in->has_python || !gs_inside_python_sum(&in->python, in->feed, from, sum))
		count_bad(in, 1);
	else
		in->layers |= 1u << GS_LAYER_PYTHON;
}

static void on_python_open(void *ctx, const struct gs_companion_thread *from,
			   const struct gs_companion_python_frame *open, unsigned depth)
{
	struct gs_inside *in = ctx;

	if (!in->has_python || !gs_inside_python_open(&in->python, in->feed, from, open, depth,
						      ns_of(in, from, open->start)))
		count_bad(in, 1);
}

static void on_lost(void *ctx, const struct gs_companion_thread *from, enum gs_companion_loss cause,
		    unsigned layer, uint64_t n)
{
	static const enum gs_loss losses[GS_COMPANION_LOSSES] = {
		[GS_COMPANION_LOST_FULL] = GS_LOSS_RING_FULL,
		[GS_COMPANION_LOST_DEEP] = GS_LOSS_TOO_DEEP,
		[GS_COMPANION_LOST_LEFT] = GS_LOSS_UNMATCHED,
		[GS_COMPANION_LOST_SUM] = GS_LOSS_NO_CELL,
		[GS_COMPANION_LOST_UNTIMED] = GS_LOSS_UNTIMED,
		[GS_COMPANION_LOST_FUNC] = GS_LOSS_PYFUNC};
	struct gs_inside *in = ctx;

	/* Calls that found no room are in the sums, which are missing for a taker, and count there. */
	if (in->taker.event && cause == GS_COMPANION_LOST_FULL)
		return;
	count_loss(in, layer < GS_LAYER_COUNT ? layer : GS_LAYER_NONE, losses[cause], n);
}

static void on_no_slot(void *ctx, uint32_t pid, uint64_t n)
{
	count_loss(ctx, GS_LAYER_NONE, GS_LOSS_NO_THREAD, n);
}

static void on_damaged(void *ctx, uint32_t pid, uint64_t bytes)
{
	count_bad(ctx, 1);
}

static struct gs_companion_handler handler_of(struct gs_inside *in)
{
	return (struct gs_companion_handler){.record = on_record,
					     .inner = on_inner,
					     .sum = on_sum,
					     .open = on_open,
					     .ops = on_ops,
					     .python_name = on_python_name,
					     .python_sum = on_python_sum,
					     .python_open = on_python_open,
					     .lost = on_lost,
					     .no_slot = on_no_slot,
					     .damaged = on_damaged,
					     .ctx = in};
}

bool gs_inside_saw_nccl(const struct gs_inside *in)
{
	return in && in->has_nccl;
}

void gs_inside_set_feed(struct gs_inside *in, struct gs_ingest *feed)
{
	in->feed = feed;
}

void gs_inside_set_ops(struct gs_inside *in, struct gs_func_set *funcs)
{
	inside_ops_init(&in->ops, funcs);
}

void gs_inside_set_python(struct gs_inside *in, bool attaches)
{
	in->has_python = true;
	in->attaches_python = attaches;
}

void gs_inside_set_taker(struct gs_inside *in, const struct gs_inside_taker *taker)
{
	in->taker = *taker;
}

bool gs_inside_poll(struct gs_inside *in, bool harvest)
{
	struct gs_companion_handler h;
	bool full = false;
	uint64_t now_ns, until_ns;

	if (!in)
		return false;
	h = handler_of(in);
	gs_companion_ticks_note(&in->ticks);
	now_ns = gs_clock_mono_ns();
	/* Calls that probes have reported are read before this, and wait for nothing: those of since then have yet to come. */
	until_ns = in->ops.funcs ? in->polled_ns : now_ns;
	in->polled_ns = now_ns;
	inside_ops_forget_open(&in->ops);
	gs_companion_files_poll(in->files, &h, harvest, &full);
	release_events(in, until_ns);
	release_sums(in, false);
	if (harvest)
		gs_inside_python_sweep(&in->python, now_ns);
	return full;
}

void gs_inside_stop(struct gs_inside *in)
{
	struct gs_companion_handler h;

	if (!in)
		return;
	gs_inside_poll(in, true);
	h = handler_of(in);
	inside_ops_forget_open(&in->ops);
	gs_companion_files_stop(in->files, &h);
	release_events(in, UINT64_MAX);
	release_sums(in, true);
}
