/*
 * Adding up what processes did. With probes each row of the kernel's tables is a process; what it
 * grew by since the reading before goes to its job, so that a row that goes away (the process
 * ended, its room was given back) takes nothing with it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job_accounting/accounting_int.h"
#include "core/base/shrink.h"

#define ANCESTORS_MAX 32
#define KEYS_MAX      4096 /* processes that the kernel has room for */
#define CELLS_MAX     4096 /* rows of tables by device, mount and peer */
#define FORGET_AT     512  /* ended ones whose room is given back */
#define FORGET_NS     60000000000ull

_Static_assert(sizeof(struct gs_taskstats) % sizeof(__u64) == 0, "only counters of 64 bits");

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

static void open_probe(struct gs_accounting *a)
{
	struct gs_taskstats_options o = {.size = sizeof(o),
					 .no_call_times = !a->options.n_calls,
					 .max_keys = KEYS_MAX,
					 .max_cells = a->options.n_calls ? 0 : CELLS_MAX};
	struct gs_err err = {{0}};
	size_t n = 0;
	int r;

	a->why[0] = '\0';
	if (!a->options.probes) {
		snprintf(a->why, sizeof(a->why), "not asked for");
		return;
	}
	r = gs_taskstats_probe_new(&o, &a->probe, &err);
	/* Loading reads all types of the kernel. */
	gs_shrink_heap();
	if (r < 0) {
		snprintf(a->why, sizeof(a->why), "%s", gs_err_text(&err, r));
		return;
	}
	for (size_t i = 0; gs_taskstats_probe_missing(a->probe, i) && n < sizeof(a->why); i++)
		n += (size_t)snprintf(a->why + n, sizeof(a->why) - n, "%s%s", n ? "; " : "",
				      gs_taskstats_probe_missing(a->probe, i));
}

int accounting_begin_counting(struct gs_accounting *a)
{
	struct gs_err ignored;
	int r = 0;

	if (a->is_counting)
		return 0;
	open_probe(a);
	if (!a->probe)
		r = gs_host_taskstats_open(a->proc_root, &a->host, &ignored);
	a->is_counting = r == 0;
	return r;
}

/* --- calls by name --- */

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

static uint64_t growth_of(uint64_t now, uint64_t last)
{
	return now > last ? now - last : 0;
}

static int add_calls(struct accounting_job *j, struct accounting_process *p,
		     const struct gs_taskstats_row *row)
{
	struct accounting_call *now = calloc(row->n_calls + 1, sizeof(*now));

	if (!now)
		return -ENOMEM;
	for (size_t i = 0; i < row->n_calls; i++) {
		const struct gs_taskstats_syscall *c = &row->calls[i].call;
		struct accounting_call last = {0}, *sum = call_of(j, row->calls[i].id);

		for (uint32_t k = 0; k < p->n_calls; k++)
			if (p->calls[k].id == row->calls[i].id)
				last = p->calls[k];
		now[i] = (struct accounting_call){.id = row->calls[i].id,
						  .calls = c->calls,
						  .errors = c->errors,
						  .total_ns = c->total_ns};
		if (!sum) {
			free(now);
			return -ENOMEM;
		}
		sum->calls += growth_of(c->calls, last.calls);
		sum->errors += growth_of(c->errors, last.errors);
		sum->total_ns += growth_of(c->total_ns, last.total_ns);
	}
	free(p->calls);
	p->calls = now;
	p->n_calls = (uint32_t)row->n_calls;
	return 0;
}

/* --- rows --- */

static uint64_t key_of(const struct gs_taskstats_row *row)
{
	return row->start_ns ^ (uint64_t)row->pid << 40 ^ (uint64_t)row->pid;
}

/* The job of a new row. What jobs of Slurm and pods start stays theirs; a unit's processes may have
 * been given to a job since they were started. */
static uint32_t attribute_slots(struct gs_accounting *a, const struct gs_taskstats_snapshot *s,
				const struct gs_map *row_of, const struct gs_taskstats_row *row,
				uint64_t now_ns)
{
	const uint32_t closed = 1u << GS_JOB_SLURM | 1u << GS_JOB_POD;
	uint64_t job, at;

	if (gs_map_get(&a->job_of, row->pid, &job))
		return (uint32_t)job;
	if (a->options.kinds & ~closed && row->n_threads) {
		job = accounting_job_of(a, row->pid, now_ns);
		if (job != ACCOUNT_NO_JOB)
			return (uint32_t)job;
	}
	for (int up = 0; up < ANCESTORS_MAX; up++) {
		if (gs_map_get(&a->job_of, row->parent_pid, &job))
			return (uint32_t)job;
		if (gs_map_get(&a->alive, row->parent_pid, &at))
			return a->process[at].job;
		if (!gs_map_get(row_of, row->parent_pid, &at))
			break;
		row = &s->rows[at];
	}
	return row->n_threads ? accounting_job_of(a, row->pid, now_ns) : ACCOUNT_NO_JOB;
}

static struct accounting_process *new_process(struct gs_accounting *a, uint64_t key, uint32_t pid)
{
	struct accounting_process *p;

	if (a->n_processes == a->room_processes) {
		uint32_t room = a->room_processes ? 2 * a->room_processes : 64;

		p = realloc(a->process, room * sizeof(*p));
		if (!p)
			return NULL;
		a->process = p;
		a->room_processes = room;
	}
	if (gs_map_put(&a->process_of, key, a->n_processes) < 0)
		return NULL;
	p = &a->process[a->n_processes++];
	*p = (struct accounting_process){.key = key, .pid = pid, .job = ACCOUNT_NO_JOB};
	return p;
}

static int take_row(struct gs_accounting *a, const struct gs_taskstats_snapshot *s,
		    const struct gs_map *row_of, const struct gs_taskstats_row *row,
		    uint64_t now_ns)
{
	struct accounting_process *p;
	struct gs_taskstats before;
	uint64_t at;
	int r = 0;

	if (gs_map_get(&a->process_of, key_of(row), &at)) {
		p = &a->process[at];
	} else {
		uint32_t job = attribute_slots(a, s, row_of, row, now_ns);

		p = new_process(a, key_of(row), row->pid);
		if (!p)
			return -ENOMEM;
		p->job = job;
	}
	p->reading = a->reading;
	p->alive = row->n_threads > 0;
	if (p->job == ACCOUNT_NO_JOB)
		return 0;
	before = p->last;
	accounting_add_growth(&a->job[p->job].total.work, &p->last, &row->work);
	accounting_add_rank(a, p, row->parent_pid, &before);
	if (a->options.n_calls)
		r = add_calls(&a->job[p->job], p, row);
	if (p->alive) {
		a->job[p->job].told.n_processes++;
		a->job[p->job].any_pid = p->pid;
	}
	return r;
}

/* Those whose rows are gone, and the living by pid. */
static int sweep_processes(struct gs_accounting *a)
{
	struct gs_map alive = GS_MAP_INIT(1u << 20);
	int r = 0;

	for (uint32_t i = 0; i < a->n_processes;) {
		struct accounting_process *p = &a->process[i];

		if (p->reading == a->reading) {
			if (p->alive && r == 0)
				r = gs_map_put(&alive, p->pid, i);
			i++;
			continue;
		}
		gs_map_del(&a->process_of, p->key);
		free(p->calls);
		*p = a->process[--a->n_processes];
		if (i < a->n_processes)
			(void)gs_map_put(&a->process_of, p->key, i); /* it is there: replaced */
	}
	gs_map_fini(&a->alive);
	a->alive = alive;
	return r;
}

static int count_rows(struct gs_accounting *a, uint64_t now_ns, struct gs_err *err)
{
	struct gs_map row_of = GS_MAP_INIT(1u << 20);
	struct gs_taskstats_snapshot *s = NULL;
	size_t n_ended = 0;
	int r = gs_taskstats_probe_read(a->probe, &s, err);

	if (r < 0)
		return r;
	a->reading++;
	gs_taskstats_probe_rest(a->probe);
	for (size_t i = 0; r == 0 && i < s->n_rows; i++)
		r = gs_map_put(&row_of, s->rows[i].pid, i);
	for (size_t i = 0; r == 0 && i < s->n_rows; i++)
		r = take_row(a, s, &row_of, &s->rows[i], now_ns);
	for (size_t i = 0; i < s->n_rows; i++)
		n_ended += s->rows[i].n_threads == 0;
	a->probe_losses = s->losses.keys_full + s->losses.cells_full + s->losses.threads +
			  s->losses.requests + s->losses.aio + s->losses.torn + s->losses.missed;
	gs_map_fini(&row_of);
	if (r == 0)
		r = sweep_processes(a);
	/* Giving room back walks all tables: not for each process that ends. */
	if (r == 0 && (n_ended >= FORGET_AT || now_ns - a->forgot_ns >= FORGET_NS)) {
		gs_taskstats_probe_forget_ended(a->probe, s);
		gs_taskstats_probe_rest(a->probe);
		a->forgot_ns = now_ns;
	}
	gs_taskstats_snapshot_free(s);
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
		j->told.known |= gs_host_taskstats_families(t.known);
		j->told.n_processes = t.n_processes;
		j->rss_bytes = t.n_processes ? t.rss_bytes : -1;
		failed += t.failed_reads;
		if (t.n_cores && !(j->told.cores > 0))
			j->told.cores = t.n_cores;
		if (gs_host_taskstats_pids(a->host, i, &j->any_pid, 1) == 0)
			j->any_pid = 0;
	}
	a->trouble.failed_reads = failed;
}

int accounting_count(struct gs_accounting *a, uint64_t now_ns, struct gs_err *err)
{
	for (uint32_t i = 0; i < a->n_places; i++) {
		/* What is not used is not touched: there is room for many. */
		if (!a->job[i].used)
			continue;
		a->job[i].told.n_processes = 0;
		if (a->probe)
			a->job[i].any_pid = 0;
	}
	if (!a->is_counting)
		return 0;
	if (!a->probe) {
		count_host(a);
		return 0;
	}
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->job[i].used)
			a->job[i].told.known |= gs_job_families_of(GS_TASKSTATS_ALL);
	return count_rows(a, now_ns, err);
}
