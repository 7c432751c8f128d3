/*
 * Adding up what processes did: with probes the sums of rows.h, without them those of procfs. A
 * total that was reported never steps back, also when a row was read while it changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/shrink.h"
#include "core/base/vec.h"

#define KEYS_MAX  4096 /* processes that the kernel has room for */
#define CELLS_MAX 4096 /* rows of tables by device, mount and peer */

void accounting_add_growth(struct gs_taskstats *sum, struct gs_taskstats *last,
			   const struct gs_taskstats *now)
{
	__u64 *s = (__u64 *)sum, *l = (__u64 *)last;
	const __u64 *n = (const __u64 *)now;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*s); i++)
		if (n[i] > l[i]) {
			s[i] += n[i] - l[i];
			l[i] = n[i];
		}
}

static uint32_t find_job(void *ctx, uint32_t pid)
{
	struct gs_accounting *a = ctx;
	uint64_t job;

	if (gs_map_get(&a->job_of, pid, &job))
		return (uint32_t)job;
	return accounting_job_of(a, pid, gs_clock_boot_ns());
}

static void add_ended(void *ctx, uint32_t job, uint32_t rank, const struct gs_taskstats *work)
{
	struct gs_accounting *a = ctx;

	gs_accounting_ranks_add_ended(&a->job[job].ranks, rank, work);
}

static void open_rows(struct gs_accounting *a)
{
	/* What jobs of Slurm and pods start stays theirs; a unit's processes may have been given to
	 * a job since they were started. */
	const uint32_t closed = 1u << GS_JOB_SLURM | 1u << GS_JOB_POD;
	struct gs_rows_options o = {.probe = {.size = sizeof(o.probe),
					      .no_call_times = !a->options.n_calls,
					      .max_keys = KEYS_MAX,
					      .max_cells = a->options.n_calls ? 0 : CELLS_MAX},
				    .n_jobs = a->n_places,
				    .find_rank = accounting_find_rank,
				    .add_ended = add_ended,
				    .find_job = find_job,
				    .find_first = a->options.kinds & ~closed,
				    .ctx = a};
	struct gs_err err = {{0}};
	int r;

	a->why[0] = '\0';
	if (!a->options.probes) {
		snprintf(a->why, sizeof(a->why), "not enabled");
		return;
	}
	r = gs_rows_open(&o, &a->rows, &err);
	/* Loading reads all types of the kernel. */
	gs_shrink_heap();
	snprintf(a->why, sizeof(a->why), "%s",
		 r < 0 ? gs_err_text(&err, r) : gs_rows_missing(a->rows));
}

int accounting_begin_counting(struct gs_accounting *a)
{
	struct gs_err ignored;
	int r = 0;

	if (a->is_counting)
		return 0;
	open_rows(a);
	if (!a->rows)
		r = gs_host_taskstats_open(a->proc_root, &a->host, &ignored);
	a->is_counting = r == 0;
	return r;
}

/* --- with probes --- */

static struct accounting_call *call_of(struct accounting_job *j, uint32_t id)
{
	struct accounting_call *more;

	for (uint32_t i = 0; i < j->n_calls; i++)
		if (j->calls[i].id == id)
			return &j->calls[i];
	if (j->n_calls == j->room_calls) {
		uint32_t room = j->room_calls ? 2 * j->room_calls : 32;

		more = realloc(j->calls, room * sizeof(*more));
		if (!more)
			return NULL;
		j->calls = more;
		j->room_calls = room;
	}
	j->calls[j->n_calls] = (struct accounting_call){.id = id};
	return &j->calls[j->n_calls++];
}

static void raise_count(uint64_t *count, uint64_t now)
{
	if (now > *count)
		*count = now;
}

static int count_calls(struct gs_accounting *a, uint32_t job)
{
	struct gs_rows_calls now = {0};
	int r = gs_rows_add_calls(a->rows, job, &now);

	for (size_t i = 0; r == 0 && i < now.n_rows; i++) {
		struct accounting_call *sum = call_of(&a->job[job], now.row[i].id);
		const struct gs_taskstats_syscall *c = &now.row[i].call;

		if (!sum) {
			r = -ENOMEM;
			break;
		}
		raise_count(&sum->calls, c->calls);
		raise_count(&sum->errors, c->errors);
		raise_count(&sum->total_ns, c->total_ns);
	}
	gs_rows_calls_fini(&now);
	return r;
}

static void note_process(void *ctx, uint32_t pid, uint64_t start_ns,
			 const struct gs_taskstats *work)
{
	struct gs_accounting *a = ctx;
	struct gs_job_process *p;

	if (a->n_processes == GS_JOB_PROCESSES_MAX ||
	    !gs_vec_reserve(&a->process, &a->room_processes, a->n_processes + 1))
		return;
	p = &a->process[a->n_processes++];
	*p = (struct gs_job_process){.pid = pid, .start_ns = start_ns};
	(void)gs_taskstats_parts(work, p->part_ns);
}

static int count_job(struct gs_accounting *a, uint32_t job)
{
	struct accounting_job *j = &a->job[job];
	uint64_t now_ns = gs_rows_read_ns(a->rows), first_ns = j->account.first_ns;
	uint64_t elapsed_ns = now_ns > first_ns ? now_ns - first_ns : 0;
	struct gs_rows_sum sum;

	gs_rows_sum(a->rows, job, elapsed_ns, &sum);
	gs_rows_recent(a->rows, job, elapsed_ns, &j->pace);
	if (j->is_turn)
		gs_rows_mark(a->rows, job);
	gs_rows_visit_processes(a->rows, job, note_process, a);
	gs_accounting_raise_work(&j->total.work, &sum.work);
	j->account.pace = sum.pace;
	j->account.known |= gs_job_families_of(gs_rows_families(a->rows));
	j->account.n_processes = sum.n_alive;
	j->any_pid = sum.any_pid;
	return a->options.n_calls ? count_calls(a, job) : 0;
}

static int count_rows(struct gs_accounting *a, struct gs_err *err)
{
	int r = gs_rows_read(a->rows, err);

	a->n_processes = 0;
	for (uint32_t i = 0; r == 0 && i < a->n_places; i++) {
		if (!a->job[i].used)
			continue;
		r = count_job(a, i);
		if (r == 0)
			r = gs_accounting_ranks_count(&a->job[i].ranks, a->rows, i);
	}
	if (r == 0)
		gs_rows_fold(a->rows);
	gs_rows_rest(a->rows);
	return r;
}

/* --- without probes --- */

static void count_host(struct gs_accounting *a)
{
	uint64_t failed = 0;

	gs_host_taskstats_poll(a->host);
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct accounting_job *j = &a->job[i];
		struct gs_host_taskstats_total t;

		if (!j->used)
			continue;
		gs_host_taskstats_total(a->host, i, &t);
		accounting_add_growth(&j->total.work, &j->host_last, &t.work);
		/* What was known once stays known: a series does not come and go. */
		j->account.known |= gs_host_taskstats_families(t.known);
		j->account.n_processes = t.n_processes;
		j->rss_bytes = t.n_processes ? t.rss_bytes : -1;
		failed += t.failed_reads;
		if (t.n_cores && !(j->account.cores > 0))
			j->account.cores = t.n_cores;
		if (gs_host_taskstats_pids(a->host, i, &j->any_pid, 1) == 0)
			j->any_pid = 0;
	}
	a->trouble.failed_reads = failed;
}

int accounting_count(struct gs_accounting *a, struct gs_err *err)
{
	/* What is not used is not touched: there is room for many. */
	for (uint32_t i = 0; i < a->n_places; i++) {
		struct accounting_job *j = &a->job[i];

		if (!j->used)
			continue;
		j->account.n_processes = 0;
		j->is_turn = gs_accounting_window_is_due(&j->window, gs_clock_boot_ns(),
							 a->options.window_ns);
	}
	if (!a->is_counting)
		return 0;
	if (a->rows)
		return count_rows(a, err);
	count_host(a);
	return 0;
}
