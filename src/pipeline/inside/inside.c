#include "pipeline/inside/inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/companion/nccl.h"
#include "model/trace/func.h"
#include "model/trace/library.h"
#include "pipeline/inside/gpu.h"
#include "pipeline/inside/nccl.h"

#define ASK_NS     50000000ull /* between two looks for a file that was not there */
#define LATE_MAX   1024u
#define EVENTS_MAX (1u << 20) /* held back at one time */
#define LIBRARY    "libgpuscope_companion.so"

/* What waits until all that ended before it has come from the other threads. */
struct held_event {
	uint64_t end_ns;
	uint64_t order; /* of coming */
	struct gs_event_call call;
	struct gs_event *other; /* owned; in place of a call */
};

/* Time in calls of a thread, by what it was in during them (enum gs_account_inside). */
struct busy_thread {
	uint64_t ns[GS_INSIDE_COUNT];
};

struct late_process {
	uint32_t pid;
	uint64_t since_ns;
	bool is_asked; /* by gs_inside_next_late() */
};

struct gs_inside {
	struct gs_companion_files *files; /* borrowed */
	struct gs_companion_ticks ticks;
	bool wanted[GS_FUNC_FIXED];
	bool has_calls;          /* any of them */
	uint32_t layers;         /* of which calls came: bits 1 << enum gs_layer */
	bool has_nccl;           /* NCCL said something of itself in a process */
	struct held_event *held; /* owned */
	size_t n_held, capacity;
	uint64_t order;
	struct gs_ingest *feed; /* borrowed; NULL: there is a taker */
	struct gs_inside_taker taker;
	struct gs_map busy_of;    /* process and thread -> index of busy */
	struct busy_thread *busy; /* owned */
	uint32_t n_busy;
	struct gs_map asked; /* process -> when its file was last looked for */
	struct late_process late[LATE_MAX];
	unsigned n_late;
};

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
	free(in);
	*ref = NULL;
}

/* --- processes --- */

static struct late_process *find_late(struct gs_inside *in, uint32_t pid)
{
	for (unsigned i = 0; i < in->n_late; i++)
		if (in->late[i].pid == pid)
			return &in->late[i];
	return NULL;
}

static void forget_late(struct gs_inside *in, struct late_process *l)
{
	*l = in->late[--in->n_late];
}

void gs_inside_exec(struct gs_inside *in, uint32_t pid, uint64_t mono_ns)
{
	struct late_process *l = in ? find_late(in, pid) : NULL;

	if (!in)
		return;
	gs_companion_files_forget(in->files, pid, mono_ns);
	gs_map_del(&in->asked, pid);
	if (l)
		forget_late(in, l);
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

/* For the wall-clock account, whose kernel side does not see these calls. */
static void add_busy(struct gs_inside *in, const struct gs_companion_thread *from, unsigned func,
		     uint64_t ns)
{
	uint64_t key = (uint64_t)from->pid << 32 | from->tid, i;

	if (!gs_map_get(&in->busy_of, key, &i)) {
		i = in->n_busy;
		if (!gs_vec_reserve_next(&in->busy, in->n_busy) ||
		    gs_map_put(&in->busy_of, key, i) < 0)
			return;
		in->busy[in->n_busy++] = (struct busy_thread){{0}};
	}
	in->busy[i].ns[gs_func_inside(gs_func_by_id(func))] += ns;
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

void gs_inside_account(struct gs_inside *in, struct gs_account_reading *reading)
{
	uint64_t i;

	if (!in || !gs_map_get(&in->busy_of, (uint64_t)reading->pid << 32 | reading->tid, &i))
		return;
	for (unsigned inside = GS_INSIDE_NONE + 1; inside < GS_INSIDE_COUNT; inside++)
		move_time(reading, inside, in->busy[i].ns[inside]);
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

void gs_inside_task(struct gs_inside *in, const struct gs_event_task *event)
{
	struct gs_event_task *e = malloc(sizeof(*e));
	struct held_event *held = e ? hold_event(in, event->time_ns) : NULL;

	if (!held) {
		free(e);
		hand_event(in, &event->head);
		return;
	}
	*e = *event;
	held->other = &e->head;
	if (event->change == GS_TASK_EXEC)
		gs_inside_exec(in, event->pid, event->time_ns);
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

/* In the order in which calls ended: of those until then all have come. */
static void release_events(struct gs_inside *in, uint64_t until_ns)
{
	size_t n = 0;

	if (!in->n_held) /* then held may be NULL */
		return;
	qsort(in->held, in->n_held, sizeof(*in->held), compare_events);
	for (; n < in->n_held && in->held[n].end_ns <= until_ns; n++) {
		struct held_event *e = &in->held[n];

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

	put_cell(ctx, from, &a, &b);
	if (now->func < GS_FUNC_FIXED && gs_func_by_id(now->func) &&
	    now->total_ns > before->total_ns)
		add_busy(ctx, from, now->func, now->total_ns - before->total_ns);
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

static void on_lost(void *ctx, const struct gs_companion_thread *from, enum gs_companion_loss cause,
		    unsigned layer, uint64_t n)
{
	static const enum gs_loss losses[GS_COMPANION_LOSSES] = {
		[GS_COMPANION_LOST_FULL] = GS_LOSS_RING_FULL,
		[GS_COMPANION_LOST_DEEP] = GS_LOSS_TOO_DEEP,
		[GS_COMPANION_LOST_LEFT] = GS_LOSS_UNMATCHED,
		[GS_COMPANION_LOST_SUM] = GS_LOSS_NO_CELL};
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

void gs_inside_set_taker(struct gs_inside *in, const struct gs_inside_taker *taker)
{
	in->taker = *taker;
}

bool gs_inside_poll(struct gs_inside *in, bool harvest)
{
	struct gs_companion_handler h;
	bool full = false;
	uint64_t now_ns;

	if (!in)
		return false;
	h = handler_of(in);
	gs_companion_ticks_note(&in->ticks);
	now_ns = gs_clock_mono_ns();
	gs_companion_files_poll(in->files, &h, harvest, &full);
	release_events(in, now_ns);
	return full;
}

void gs_inside_stop(struct gs_inside *in)
{
	struct gs_companion_handler h;

	if (!in)
		return;
	gs_inside_poll(in, true);
	h = handler_of(in);
	gs_companion_files_stop(in->files, &h);
	release_events(in, UINT64_MAX);
}

/* --- by which door --- */

/* looks: it is asked for seldom, and has to be right. */
static bool is_inside(struct gs_inside *in, uint32_t pid, bool looks)
{
	uint64_t now_ns = gs_clock_mono_ns(), asked_ns;

	if (gs_companion_files_since(in->files, pid))
		return true;
	if (!looks && gs_map_get(&in->asked, pid, &asked_ns) && now_ns - asked_ns < ASK_NS)
		return false;
	gs_map_put(&in->asked, pid, now_ns); /* else it is asked for more often */
	gs_companion_files_scan(in->files);
	return gs_companion_files_since(in->files, pid);
}

bool gs_inside_sees(struct gs_inside *in, uint32_t pid)
{
	return in && is_inside(in, pid, false);
}

bool gs_inside_covers(struct gs_inside *in, uint32_t pid, unsigned func)
{
	return in && func < GS_FUNC_FIXED && in->wanted[func] && is_inside(in, pid, false);
}

/* The loader maps our library before any of CUDA: a process without it will not be seen from inside. */
static bool has_library(uint32_t pid)
{
	GS_FCLOSE FILE *f = NULL;
	char path[64], line[PATH_MAX + 128];

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && !gs_guard_stopped() && fgets(line, sizeof(line), f))
		if (strstr(line, "/" LIBRARY))
			return true;
	return false;
}

int gs_inside_attaches(struct gs_inside *in, uint32_t pid, const char *path)
{
	struct late_process *l;

	if (!in || !in->has_calls || gs_layer_of_file(path) == GS_LAYER_NONE)
		return 1;
	if (!pid || is_inside(in, pid, true))
		return 0;
	l = find_late(in, pid);
	if (l)
		return gs_clock_mono_ns() - l->since_ns > GS_INSIDE_WAIT_NS ? 1 : -EAGAIN;
	if (in->n_late == LATE_MAX || !has_library(pid))
		return 1;
	in->late[in->n_late++] = (struct late_process){.pid = pid, .since_ns = gs_clock_mono_ns()};
	return -EAGAIN;
}

uint32_t gs_inside_next_late(struct gs_inside *in)
{
	for (unsigned i = 0; in && i < in->n_late; i++) {
		struct late_process *l = &in->late[i];

		if (is_inside(in, l->pid, true))
			forget_late(in, l);
		else if (!l->is_asked && gs_clock_mono_ns() - l->since_ns > GS_INSIDE_WAIT_NS) {
			l->is_asked = true;
			return l->pid;
		}
	}
	return 0;
}
