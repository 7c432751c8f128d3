/*
 * What the rows of a job sum to: counters, calls, tables and the pace, since its processes were
 * followed; and the pace since the last marks. What ended processes did is added once, when their
 * rows are given back.
 */
#include "analysis/job_rows/rows_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "model/node/job_tables.h"

#define FOLD_AT 256            /* ended processes */
#define FOLD_NS 60000000000ull /* fewer of them are given back after that */

void rows_clear_ended(struct rows_ended *e)
{
	gs_rows_calls_fini(&e->calls);
	gs_job_tables_fini(&e->tables);
	*e = (struct rows_ended){0};
}

void gs_rows_calls_fini(struct gs_rows_calls *c)
{
	free(c->row);
	*c = (struct gs_rows_calls){0};
}

static int add_calls(struct gs_rows_calls *to, const struct gs_taskstats_call_row *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = 0;
		void *more;

		while (at < to->n_rows && to->row[at].id != from[i].id)
			at++;
		if (at < to->n_rows) {
			gs_taskstats_syscall_add(&to->row[at].call, &from[i].call);
			continue;
		}
		more = realloc(to->row, (to->n_rows + 1) * sizeof(*to->row));
		if (!more)
			return -ENOMEM;
		to->row = more;
		to->row[to->n_rows++] = from[i];
	}
	return 0;
}

static int add_tables(struct gs_taskstats_tables *to, const struct gs_taskstats_tables *from)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n_disks; i++)
		r = gs_job_tables_add_disk(to, &from->disks[i]);
	for (size_t i = 0; r == 0 && i < from->n_mounts; i++)
		r = gs_job_tables_add_mount(to, &from->mounts[i]);
	for (size_t i = 0; r == 0 && i < from->n_peers; i++)
		r = gs_job_tables_add_peer(to, &from->peers[i]);
	return r;
}

static int add_row_tables(struct gs_taskstats_tables *to, const struct gs_taskstats_row *row)
{
	const struct gs_taskstats_tables from = {.disks = row->disks,
						 .n_disks = row->n_disks,
						 .mounts = row->mounts,
						 .n_mounts = row->n_mounts,
						 .peers = row->peers,
						 .n_peers = row->n_peers};

	return add_tables(to, &from);
}

/* The row of the i-th process, when it is one of the job and counts. */
static const struct gs_taskstats_row *counted_row(const struct gs_rows *k, size_t i, uint32_t job)
{
	const struct rows_process *p = &k->process[i];

	return k->now && p->job == job && !p->is_holder && p->row != NO_ROW ? &k->now->rows[p->row]
									    : NULL;
}

/* --- the pace --- */

#define COUNTER(field) (offsetof(struct gs_taskstats, field) / sizeof(__u64))

/* Of what a process did, the counters that decide about the pace of its job. */
static const uint8_t paced[] = {
	COUNTER(time_ns[GS_TIME_CPU]),    COUNTER(time_ns[GS_TIME_RUNQUEUE]),
	COUNTER(time_ns[GS_TIME_DISK]),   COUNTER(time_ns[GS_TIME_NETWORK]),
	COUNTER(time_ns[GS_TIME_LOCK]),   COUNTER(time_ns[GS_TIME_GPU]),
	COUNTER(time_ns[GS_TIME_SLEEP]),  COUNTER(time_ns[GS_TIME_PIPE]),
	COUNTER(time_ns[GS_TIME_OTHER]),  COUNTER(idle_ns),
	COUNTER(switches_voluntary),      COUNTER(switches_forced),
	COUNTER(io[GS_IO_PIPE].reads),    COUNTER(io[GS_IO_SOCKET].reads),
	COUNTER(io[GS_IO_SOCKET].writes), COUNTER(disk_ns),
	COUNTER(net_sent_bytes),          COUNTER(net_received_bytes),
};
_Static_assert(COUNTER(net_received_bytes) < 256, "numbers of counters are bytes");

struct rows_mark { /* what a process had done at a moment */
	uint64_t counter[GS_ARRAY_LEN(paced)];
	struct gs_taskstats_group group[GS_TASKSTATS_GROUPS];
};

struct part { /* what a process did since a mark */
	struct gs_taskstats
		work; /* of the counters in paced; the others are since it was followed */
	struct gs_taskstats_lead lead;
};

static uint64_t growth_since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void take_mark(struct rows_mark *m, const struct gs_taskstats_row *row)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(paced); i++)
		m->counter[i] = ((const __u64 *)&row->work)[paced[i]];
	memcpy(m->group, row->group, sizeof(m->group));
}

/* which: a mark, or ROWS_MARKS: since it was followed. */
static void take_part(const struct rows_process *p, const struct gs_taskstats_row *row,
		      unsigned which, struct part *ret)
{
	struct gs_taskstats_group group[GS_TASKSTATS_GROUPS];
	const struct rows_mark *m = which < ROWS_MARKS && p->mark ? &p->mark[which] : NULL;

	*ret = (struct part){.work = row->work, .lead = row->lead};
	if (!m)
		return;
	for (size_t i = 0; i < GS_ARRAY_LEN(paced); i++) {
		__u64 *counter = (__u64 *)&ret->work + paced[i];

		*counter = growth_since(*counter, m->counter[i]);
	}
	/* A wait becomes one for work when it has lasted a while, all of it. */
	if (ret->work.idle_ns > ret->work.time_ns[GS_TIME_LOCK])
		ret->work.idle_ns = ret->work.time_ns[GS_TIME_LOCK];
	for (size_t i = 0; i < GS_TASKSTATS_GROUPS; i++) {
		const struct gs_taskstats_group *now = &row->group[i], *before = &m->group[i];

		group[i] = (struct gs_taskstats_group){
			.worked_ns = growth_since(now->worked_ns, before->worked_ns),
			.queue_ns = growth_since(now->queue_ns, before->queue_ns),
			.lock_ns = growth_since(now->lock_ns, before->lock_ns),
			.wire_ns = growth_since(now->wire_ns, before->wire_ns),
			.wall_ns = growth_since(now->wall_ns, before->wall_ns)};
	}
	gs_taskstats_lead_of(group, &ret->lead);
}

/* Whether its threads sleep again and again: one of them may do so with a lock in its hand. */
static bool takes_naps(const struct gs_rows *k, const struct gs_taskstats_row *row)
{
	uint64_t n = 0;

	for (size_t i = 0; i < row->n_calls; i++)
		switch (row->calls[i].id) {
		case GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, SYS_nanosleep):
		case GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, SYS_clock_nanosleep):
		case GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, SYS_select):
		case GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, SYS_pselect6):
			n += row->calls[i].call.calls;
		}
	return !(k->families & GS_TASKSTATS_SYSCALL) || n * 1000000000 > row->group[0].wall_ns;
}

/* What the processes of the last reading did, added to pace. which: as take_part(). */
static void add_pace(const struct gs_rows *k, uint32_t job, uint64_t elapsed_ns, unsigned which,
		     struct gs_job_pace *pace)
{
	uint64_t worked_ns = 0;
	struct part part;

	for (size_t i = 0; i < k->n_processes; i++)
		k->process[i].workers_ns = 0;
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (!row)
			continue;
		take_part(&k->process[i], row, which, &part);
		worked_ns += gs_job_pace_worked_ns(&part.work);
		if (k->process[i].parent != NO_ROW)
			k->process[k->process[i].parent].workers_ns +=
				gs_job_pace_busy_ns(&part.work);
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);
		struct gs_job_pace_process p = {.work = &part.work,
						.lead = &part.lead,
						.elapsed_ns = elapsed_ns,
						.knows_net = k->families & GS_TASKSTATS_NET,
						.knows_related = true,
						.has_workers = k->process[i].has_workers,
						.is_worker = k->process[i].is_worker,
						.workers_ns = k->process[i].workers_ns};

		if (!row)
			continue;
		p.naps = takes_naps(k, row);
		take_part(&k->process[i], row, which, &part);
		p.others_ns = worked_ns - gs_job_pace_worked_ns(&part.work);
		gs_job_pace_add(pace, &p);
	}
}

void gs_rows_sum(const struct gs_rows *k, uint32_t job, uint64_t elapsed_ns,
		 struct gs_rows_sum *ret)
{
	const struct rows_ended *e = &k->ended[job];

	*ret = (struct gs_rows_sum){
		.work = e->work, .pace = e->pace, .n_processes = e->n_processes};
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (!row)
			continue;
		ret->n_processes++;
		if (row->n_threads) {
			ret->n_alive++;
			ret->any_pid = row->pid;
		}
		gs_taskstats_add(&ret->work, &row->work);
	}
	add_pace(k, job, elapsed_ns, ROWS_MARKS, &ret->pace);
}

void gs_rows_recent(const struct gs_rows *k, uint32_t job, uint64_t elapsed_ns,
		    struct gs_job_pace *ret)
{
	const struct rows_ended *e = &k->ended[job];

	if (e->marked_ns[ROWS_MARK_BASE])
		elapsed_ns = growth_since(k->read_ns, e->marked_ns[ROWS_MARK_BASE]);
	*ret = e->recent[ROWS_MARK_BASE];
	add_pace(k, job, elapsed_ns, ROWS_MARK_BASE, ret);
}

void gs_rows_mark(struct gs_rows *k, uint32_t job)
{
	struct rows_ended *e = &k->ended[job];

	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);
		struct rows_process *p = &k->process[i];

		if (!row)
			continue;
		if (!p->mark)
			p->mark = calloc(ROWS_MARKS, sizeof(*p->mark));
		if (!p->mark) {
			gs_log(GS_LOG_INFO, GS_LOG_JOBS, "no memory for the last minute of a job");
			continue;
		}
		p->mark[ROWS_MARK_BASE] = p->mark[ROWS_MARK_LAST];
		take_mark(&p->mark[ROWS_MARK_LAST], row);
	}
	e->recent[ROWS_MARK_BASE] = e->recent[ROWS_MARK_LAST];
	e->recent[ROWS_MARK_LAST] = (struct gs_job_pace){0};
	e->marked_ns[ROWS_MARK_BASE] = e->marked_ns[ROWS_MARK_LAST];
	e->marked_ns[ROWS_MARK_LAST] = k->read_ns;
}

int gs_rows_add_calls(const struct gs_rows *k, uint32_t job, struct gs_rows_calls *calls)
{
	const struct rows_ended *e = &k->ended[job];
	int r = add_calls(calls, e->calls.row, e->calls.n_rows);

	for (size_t i = 0; r == 0 && i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row)
			r = add_calls(calls, row->calls, row->n_calls);
	}
	return r;
}

int gs_rows_add_tables(const struct gs_rows *k, uint32_t job, struct gs_taskstats_tables *tables)
{
	int r = add_tables(tables, &k->ended[job].tables);

	for (size_t i = 0; r == 0 && i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row)
			r = add_row_tables(tables, row);
	}
	return r;
}

void gs_rows_visit_ranks(const struct gs_rows *k, uint32_t job,
			 void (*visit)(void *ctx, uint32_t rank, const struct gs_taskstats *work),
			 void *ctx)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row && rows_has_rank(&k->process[i]))
			visit(ctx, k->process[i].rank, &row->work);
	}
}

void gs_rows_visit_processes(const struct gs_rows *k, uint32_t job,
			     void (*visit)(void *ctx, uint32_t pid, uint64_t start_ns,
					   const struct gs_taskstats *work),
			     void *ctx)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row && row->n_threads)
			visit(ctx, row->pid, row->start_ns, &row->work);
	}
}

uint64_t gs_rows_since_ns(const struct gs_rows *k, uint32_t job)
{
	uint64_t n_threads = 0, all_ns = 0;

	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		n_threads += row ? row->n_threads : 0;
		for (unsigned t = 0; row && t < GS_TIME_COUNT; t++)
			all_ns += row->work.time_ns[t];
	}
	if (!(k->families & GS_TASKSTATS_SCHED) || !n_threads || all_ns / n_threads > k->read_ns)
		return 0;
	return k->read_ns - all_ns / n_threads;
}

/* --- giving rows back --- */

static void fold_pace(const struct gs_rows *k, const struct rows_process *p,
		      const struct gs_taskstats_row *row, unsigned which, uint64_t elapsed_ns,
		      struct gs_job_pace *pace)
{
	struct part part;

	take_part(p, row, which, &part);
	gs_job_pace_add(pace,
			&(struct gs_job_pace_process){.work = &part.work,
						      .lead = &part.lead,
						      .elapsed_ns = elapsed_ns,
						      .knows_net = k->families & GS_TASKSTATS_NET,
						      .knows_related = true,
						      .naps = takes_naps(k, row),
						      .others_ns = UINT64_MAX});
}

/* One that has ended, into the sums of its job and rank. */
static void fold_process(struct gs_rows *k, const struct rows_process *p)
{
	const struct gs_taskstats_row *row = &k->now->rows[p->row];
	uint64_t lived_ns = k->read_ns > row->start_ns ? k->read_ns - row->start_ns : 0;
	struct rows_ended *e = &k->ended[p->job];

	if (rows_has_rank(p))
		k->options.add_ended(k->options.ctx, p->job, p->rank, &row->work);
	e->n_processes++;
	gs_taskstats_add(&e->work, &row->work);
	fold_pace(k, p, row, ROWS_MARKS, lived_ns, &e->pace);
	for (unsigned i = 0; i < ROWS_MARKS; i++) {
		uint64_t since_ns = growth_since(k->read_ns, e->marked_ns[i]);

		fold_pace(k, p, row, i, since_ns < lived_ns ? since_ns : lived_ns, &e->recent[i]);
	}
	if (add_calls(&e->calls, row->calls, row->n_calls) < 0 ||
	    add_row_tables(&e->tables, row) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_JOBS, "no memory for the calls and tables of a job");
}

void gs_rows_fold(struct gs_rows *k)
{
	uint64_t now_ns = gs_clock_boot_ns();
	size_t n = 0;

	for (size_t i = 0; k->now && i < k->now->n_rows; i++)
		n += !k->now->rows[i].n_threads;
	/* Giving room back walks all tables: not for each process that ends. */
	if (!n || (n < FOLD_AT && now_ns - k->fold_ns < FOLD_NS))
		return;
	k->fold_ns = now_ns;
	if (gs_taskstats_probe_forget_ended(k->probe, k->now) == 0)
		return;
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct rows_process *p = &k->process[i];

		if (p->row != NO_ROW && !p->is_alive && !p->is_holder && p->job != GS_ROWS_NO_JOB)
			fold_process(k, p);
	}
	/* Some of its rows are in the sums now: the next reading has the others. */
	gs_taskstats_snapshot_free(k->now);
	k->now = NULL;
}
