/* From what the trace sees to analysis/hang and analysis/fleet. */
#include "output/hang_watch/hang_watch.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/sums.h"
#include "analysis/hang/hang.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/call_args.h"
#include "model/trace/func.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/ingest/ingest.h"
#include "sources/identity/job.h"
#include "sources/uprobe/uprobe.h"

#define INSIDE_NS (GS_HANG_HOLD_NS / 2) /* calls open for so long: all before them are known */

#define ENDED_MAX 65536 /* processes between two looks */
#define JOINS_MAX 4096

struct ended {
	uint32_t pid;
	uint8_t signal;
	uint64_t time_ns;
};

struct gs_hang_watch {
	struct gs_hang *hang;       /* owned; NULL: hangs are not looked for */
	struct gs_fleet_sums *sums; /* owned; NULL: no head wants them */
	struct gs_jobs *jobs;       /* owned, with sums; NULL: jobs are not known */
	struct gs_aggregate *view;  /* borrowed */
	int64_t boot_minus_mono_ns;
	/* Ends come as events, ahead of the records of what the process did before. */
	struct ended *ended; /* owned */
	uint32_t n_ended, cap_ended;
	/* Calls that make a communicator and have not returned, of one look. */
	struct gs_hang_join *joins; /* owned */
	uint32_t n_joins, cap_joins;
};

/* "" of none that a person has named or begun. */
static const char *job_of(struct gs_hang_watch *h, uint32_t pid)
{
	struct gs_job_task task;
	const struct gs_job *job = h->jobs ? gs_jobs_lookup(h->jobs, pid, &task) : NULL;

	return job && job->kind <= GS_JOB_UNIT ? job->id : "";
}

static void take_member(void *ctx, uint32_t member, uint32_t pid, uint64_t id, int32_t rank,
			int32_t n_ranks)
{
	struct gs_hang_watch *h = ctx;

	if (h->hang)
		gs_hang_set_member(h->hang, member, pid, id, rank, n_ranks);
	if (h->sums && !gs_fleet_sums_has_member(h->sums, member))
		gs_fleet_sums_set_member(h->sums, member, pid, id, rank, n_ranks, job_of(h, pid));
}

static void pass_call(struct gs_hang_watch *h, uint32_t member, const struct gs_hang_call *call,
		      uint64_t dur_ns, bool is_inside)
{
	if (h->hang)
		gs_hang_take_call(h->hang, member, call, is_inside);
	if (h->sums)
		gs_fleet_sums_take_call(h->sums, member, call, dur_ns, is_inside);
}

static void take_call(void *ctx, uint32_t member, uint32_t tid, const struct gs_rec_call *call)
{
	struct gs_hang_call made = {
		.op = {.function = call->function, .aux = call->aux, .count = call->arg[0]},
		.start_ns = call->start_ns,
		.tid = tid};

	pass_call(ctx, member, &made, call->dur_ns, call->call_flags & GS_CALL_UNFINISHED);
}

static void take_stay(void *ctx, uint32_t member, uint64_t entered_ns, uint64_t left_ns)
{
	struct gs_hang_watch *h = ctx;

	if (h->sums)
		gs_fleet_sums_take_stay(h->sums, member,
					gs_fleet_sums_number_of(h->sums, member, entered_ns),
					entered_ns, left_ns);
}

static void end_member(void *ctx, uint32_t member)
{
	struct gs_hang_watch *h = ctx;

	if (h->hang)
		gs_hang_end_member(h->hang, member);
	if (h->sums)
		gs_fleet_sums_end_member(h->sums, member);
}

static void lose_calls(void *ctx, uint32_t pid)
{
	struct gs_hang_watch *h = ctx;

	if (h->hang)
		gs_hang_lose_calls(h->hang, pid);
	if (h->sums)
		gs_fleet_sums_lose_calls(h->sums, pid);
}

_Static_assert(GS_FLEET_STEP_SLOTS == GS_AGGREGATE_STEP_SLOTS, "the same slots");

static void take_step(void *ctx, const struct gs_aggregate_step *step)
{
	const struct gs_fleet_step made = {.slot = step->slot,
					   .run = step->run,
					   .pid = step->pid,
					   .start_ns = step->start_ns,
					   .dur_ns = step->dur_ns};
	struct gs_hang_watch *h = ctx;

	if (step->regular)
		gs_fleet_sums_take_step(h->sums, &made);
}

/* Sums go without the names of jobs where these cannot be had. */
static bool begin_sums(struct gs_hang_watch *h)
{
	const struct gs_jobs_options options = {
		.size = sizeof(options), .no_node = true, .no_controller = true};

	h->sums = gs_fleet_sums_new();
	if (h->sums)
		(void)gs_jobs_new(&options, &h->jobs, NULL);
	return h->sums;
}

struct gs_hang_watch *gs_hang_watch_new(uint64_t quiet_ns, bool wants_sums,
					struct gs_aggregate *view, int64_t boot_minus_mono_ns)
{
	struct gs_hang_watch *h = calloc(1, sizeof(*h));
	struct gs_aggregate_collectives receiver = {.member = take_member,
						    .call = take_call,
						    .end = end_member,
						    .lose = lose_calls,
						    .ctx = h};

	if (!h)
		return NULL;
	if (quiet_ns)
		h->hang = gs_hang_new(quiet_ns);
	if ((quiet_ns && !h->hang) || (wants_sums && !begin_sums(h))) {
		gs_hang_watch_free(&h);
		return NULL;
	}
	h->view = view;
	h->boot_minus_mono_ns = boot_minus_mono_ns;
	if (h->sums) {
		receiver.stay = take_stay;
		gs_aggregate_set_step_receiver(view, take_step, h);
	}
	gs_aggregate_set_collectives(view, &receiver);
	return h;
}

void gs_hang_watch_free(struct gs_hang_watch **hang)
{
	if (!*hang)
		return;
	if ((*hang)->view)
		gs_aggregate_set_step_receiver((*hang)->view, NULL, *hang);
	gs_hang_free(&(*hang)->hang);
	gs_fleet_sums_free(&(*hang)->sums);
	gs_jobs_free(&(*hang)->jobs);
	free((*hang)->ended);
	free((*hang)->joins);
	free(*hang);
	*hang = NULL;
}

/* Beyond the limit, or without memory, it is one that does not arrive. */
static void note_end(struct gs_hang_watch *h, uint32_t pid, uint8_t signal, uint64_t mono_ns)
{
	if (h->n_ended < ENDED_MAX && gs_vec_reserve(&h->ended, &h->cap_ended, h->n_ended + 1))
		h->ended[h->n_ended++] =
			(struct ended){pid, signal, mono_ns + (uint64_t)h->boot_minus_mono_ns};
}

static void take_ends(struct gs_hang_watch *h)
{
	for (uint32_t i = 0; i < h->n_ended; i++) {
		if (h->hang)
			gs_hang_end_process(h->hang, h->ended[i].pid, h->ended[i].signal,
					    h->ended[i].time_ns);
		if (h->sums)
			gs_fleet_sums_end_process(h->sums, h->ended[i].pid);
	}
	h->n_ended = 0;
}

void gs_hang_watch_event(struct gs_hang_watch *h, const struct gs_event *event)
{
	const struct gs_event_task *t = (const void *)event;

	if (h && event->kind == GS_EV_TASK && t->change == GS_TASK_EXIT && t->tid == t->pid)
		note_end(h, t->pid, 0, t->time_ns);
}

void gs_hang_watch_account(struct gs_hang_watch *h, const struct gs_account_reading *reading)
{
	if (h && reading->ended && reading->end_signal)
		note_end(h, reading->pid, reading->end_signal, reading->now_mono_ns);
}

/* Beyond the limit, or without memory, it is one that is not in it. */
static void note_join(struct gs_hang_watch *h, const struct gs_thread *thread,
		      const struct gs_frame *frame, const struct gs_func *func)
{
	if (h->n_joins == JOINS_MAX || !gs_vec_reserve(&h->joins, &h->cap_joins, h->n_joins + 1))
		return;
	h->joins[h->n_joins++] = (struct gs_hang_join){
		/* The id begins with a random number (nccl 2.19, src/bootstrap.cc); of a list of ids there is none. */
		.key = func->desc.post == GS_POST_COMM_INIT ? frame->v[GS_V_STACK] : 0,
		.n_ranks = (int32_t)frame->v[1],
		.rank = (int32_t)frame->v[2],
		.pid = thread->pid,
		.tid = thread->tid,
		.function = func->id,
		.start_ns = frame->start_ns + (uint64_t)h->boot_minus_mono_ns};
}

static void on_open_call(void *ctx, const struct gs_thread *thread, const struct gs_frame *frame,
			 unsigned depth, uint64_t now_mono_ns)
{
	const struct gs_func *func = gs_func_by_id(frame->func);
	struct gs_hang_watch *h = ctx;
	struct gs_hang_call call;
	__u64 arg[4];
	__u32 aux;

	(void)depth;
	(void)now_mono_ns;
	if (func &&
	    (func->desc.post == GS_POST_COMM_INIT || func->desc.post == GS_POST_COMM_INIT_SCALABLE))
		note_join(h, thread, frame, func);
	if (!func || func->desc.layer != GS_LAYER_NCCL || func->desc.op != GS_CLASS_COLLECTIVE)
		return;
	aux = (__u32)gs_args_word(frame, func->desc.v_aux);
	for (unsigned i = 0; i < 4; i++)
		arg[i] = gs_args_word(frame, func->desc.v_arg[i]);
	gs_args_words(frame, &func->desc, arg, &aux);
	call = (struct gs_hang_call){.op = {.function = func->id, .aux = aux, .count = arg[0]},
				     .start_ns = frame->start_ns + (uint64_t)h->boot_minus_mono_ns,
				     .tid = thread->tid};
	pass_call(h, gs_aggregate_find_member(h->view, thread->pid, arg[1]), &call, 0, true);
}

/* Ranks that wait for others, here or perhaps on other nodes. */
static bool is_quiet(const struct gs_hang_watch *h, uint64_t now_ns)
{
	return (h->hang && gs_hang_is_quiet(h->hang, now_ns)) ||
	       (h->sums && gs_fleet_sums_is_quiet(h->sums, now_ns));
}

void gs_hang_watch_tick(struct gs_hang_watch *h, struct gs_uprobe *probe)
{
	const struct gs_uprobe_handler handler = {.open_call = on_open_call, .ctx = h};
	uint64_t now_ns = gs_clock_boot_ns();

	if (!h)
		return;
	take_ends(h);
	h->n_joins = 0;
	if (is_quiet(h, now_ns) || (h->hang && gs_hang_wants_joins(h->hang, now_ns))) {
		gs_uprobe_peek_open(probe, &handler, INSIDE_NS);
		if (h->hang)
			gs_hang_take_joins(h->hang, h->joins, h->n_joins, now_ns);
	}
	if (h->hang)
		gs_hang_check(h->hang, now_ns, false);
}

struct steps_place {
	struct gs_fleet_sums *sums;
	uint64_t now_ns;
	struct gs_buf *out;
};

static void put_steps(void *ctx, const struct gs_aggregate_process_steps *steps)
{
	const struct gs_fleet_step_figures figures = {.pid = steps->pid,
						      .slot = steps->slot,
						      .run = steps->run,
						      .n_steps = steps->n_steps,
						      .n_odd = steps->n_odd,
						      .median_ns = steps->median_ns,
						      .p95_ns = steps->p95_ns};
	const struct steps_place *to = ctx;

	gs_fleet_sums_put_steps(to->sums, &figures, to->now_ns, to->out);
}

void gs_hang_watch_put_sums(struct gs_hang_watch *h, bool is_last, struct gs_buf *out)
{
	uint64_t now_ns = gs_clock_boot_ns();
	struct steps_place to = {h ? h->sums : NULL, now_ns, out};

	if (to.sums &&
	    gs_fleet_sums_put(h->sums, now_ns, (int64_t)gs_clock_wall_ns() - (int64_t)now_ns,
			      is_last, out))
		gs_aggregate_each_process_steps(h->view, put_steps, &to);
}

void gs_hang_watch_stop(struct gs_hang_watch *h)
{
	if (!h)
		return;
	take_ends(h);
	if (h->hang)
		gs_hang_check(h->hang, gs_clock_boot_ns(), true);
}

bool gs_hang_watch_next(struct gs_hang_watch *h, struct gs_hang_found *ret)
{
	const struct gs_hang_found *f = h && h->hang ? gs_hang_next(h->hang) : NULL;

	if (!f)
		return false;
	*ret = *f;
	ret->ranks = malloc(f->n_seen * sizeof(*ret->ranks));
	if (!ret->ranks)
		ret->n_seen = ret->n_odd = 0;
	else
		memcpy(ret->ranks, f->ranks, f->n_seen * sizeof(*ret->ranks));
	return true;
}

static struct gs_rec_hang_rank record_of_rank(const struct gs_hang_rank *r)
{
	return (struct gs_rec_hang_rank){.rank = r->rank,
					 .pid = r->pid,
					 .tid = r->tid,
					 .calls = r->n_calls,
					 .last_ns = r->last_ns,
					 .last_count = r->last.count,
					 .last_function = r->last.function,
					 .last_type = r->last.aux & 0xff,
					 .signal = r->end_signal};
}

static const char *kind_name(enum gs_hang_kind kind)
{
	return kind == GS_HANG_WAITS ? "waits" : kind == GS_HANG_JOINS ? "joins" : "differs";
}

void gs_hang_watch_record(struct gs_ingest *feed, const struct gs_hang_found *f,
			  const struct gs_hang_watch_stacks *stacks, size_t n_stacks)
{
	size_t n = f->n_seen < GS_HANG_RANKS_MAX ? f->n_seen : GS_HANG_RANKS_MAX;
	struct gs_rec_hang hang = {.since_ns = f->since_ns,
				   .found_ns = f->found_ns,
				   .ended_ns = f->ended_ns,
				   .id_hash = f->id,
				   .call = f->call,
				   .number = f->number,
				   .n_ranks = f->n_ranks,
				   .has_arrived = f->has_arrived};
	GS_FREE struct gs_ingest_hang_rank *ranks = calloc(n, sizeof(*ranks));
	GS_FREE char(*texts)[GS_HANG_TEXT_BYTES] = calloc(n, sizeof(*texts));
	char text[GS_HANG_TEXT_BYTES];

	if (f->ended_ns || !ranks || !texts)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		ranks[i].is = record_of_rank(&f->ranks[i]);
		ranks[i].state = gs_hang_state_name(f->ranks[i].state);
		ranks[i].text = gs_hang_rank_text(f, &f->ranks[i], texts[i]);
		if (i < n_stacks) {
			ranks[i].python = stacks[i].python;
			ranks[i].native = stacks[i].native;
		}
	}
	gs_ingest_hang(feed, &hang, kind_name(f->kind), f->ended_ns ? NULL : gs_hang_text(f, text),
		       ranks, n);
}

void gs_hang_watch_record_all(struct gs_hang_watch *h, struct gs_ingest *feed)
{
	struct gs_hang_found found;

	while (gs_hang_watch_next(h, &found)) {
		gs_hang_watch_record(feed, &found, NULL, 0);
		free(found.ranks);
	}
}
