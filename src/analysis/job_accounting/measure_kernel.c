/*
 * Rows of the kernel's tables are processes; this file knows which job each is of: those that were
 * followed, and what they started meanwhile, also when it ended between two readings.
 */
#include "analysis/job_accounting/measure_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/host/taskstats.h"
#include "model/node/job_tables.h"
#include "sources/taskstats/taskstats.h"

#define ANCESTORS_MAX 32
#define FOLD_AT       256 /* ended processes */
#define FOLD_NS       1000000000ull
#define FOLD_BUSY_NS  200000000ull /* while many come and go */
#define JOBS_MAX      GS_HOST_TASKSTATS_GROUPS

struct ended { /* what processes of a job did whose rooms were given back */
	struct gs_taskstats work;
	struct gs_job_pace pace;
	struct gs_job_report_call *calls; /* owned */
	size_t n_calls;
	struct gs_taskstats_tables tables;
	uint32_t n_processes;
};

struct gs_accounting_measure_kernel {
	struct gs_taskstats_probe *probe;
	struct gs_taskstats_snapshot *now; /* owned; NULL before the first reading */
	struct gs_map job_of;              /* pid -> job */
	struct gs_map holders;             /* pid -> nothing: those that do not count */
	struct gs_map row_at;              /* pid -> row of now: there may be tens of thousands */
	uint32_t families;
	uint32_t *pending; /* owned: to be followed at the next flush */
	size_t n_pending, pending_room;
	uint64_t n_not_followed;
	uint64_t read_ns;                  /* boot clock */
	struct ended *ended;               /* owned; JOBS_MAX */
	struct gs_map gone_job, gone_rank; /* pid of those -> job, rank: of what they started */
	uint64_t fold_ns;
	char missing[160];
};

int gs_accounting_measure_kernel_open(uint32_t families, struct gs_accounting_measure_kernel **ret,
				      struct gs_err *err)
{
	GS_FREE struct gs_accounting_measure_kernel *k = calloc(1, sizeof(*k));
	struct gs_taskstats_options options = {.size = sizeof(options), .families = families};
	int r;

	if (!k)
		return -ENOMEM;
	if (!families)
		return gs_err_set(err, -ENOTSUP, "every probe is off");
	k->families = families;
	r = gs_taskstats_probe_new(&options, &k->probe, err);
	if (r < 0)
		return r;
	for (size_t i = 0, n = 0; gs_taskstats_probe_missing(k->probe, i) && n < sizeof(k->missing);
	     i++)
		n += (size_t)snprintf(k->missing + n, sizeof(k->missing) - n, "%s%s", n ? "; " : "",
				      gs_taskstats_probe_missing(k->probe, i));
	k->job_of = GS_MAP_INIT(1u << 20);
	k->holders = GS_MAP_INIT(1u << 12);
	k->gone_job = k->gone_rank = GS_MAP_INIT(1u << 20);
	k->ended = calloc(JOBS_MAX, sizeof(*k->ended));
	if (!k->ended) {
		struct gs_accounting_measure_kernel *half = gs_take(k);

		gs_accounting_measure_kernel_close(&half);
		return -ENOMEM;
	}
	k->row_at = GS_MAP_INIT(1u << 20);
	*ret = gs_take(k);
	return 0;
}

void gs_accounting_measure_kernel_close(struct gs_accounting_measure_kernel **ref)
{
	struct gs_accounting_measure_kernel *k = *ref;

	if (!k)
		return;
	gs_taskstats_snapshot_free(k->now);
	gs_taskstats_probe_free(k->probe);
	gs_map_fini(&k->job_of);
	gs_map_fini(&k->holders);
	gs_map_fini(&k->row_at);
	gs_map_fini(&k->gone_job);
	gs_map_fini(&k->gone_rank);
	for (size_t i = 0; k->ended && i < JOBS_MAX; i++) {
		free(k->ended[i].calls);
		gs_job_tables_fini(&k->ended[i].tables);
	}
	free(k->ended);
	free(k->pending);
	free(k);
	*ref = NULL;
}

void gs_accounting_measure_kernel_follow(struct gs_accounting_measure_kernel *k, uint32_t pid,
					 uint32_t job)
{
	if (k->n_pending == k->pending_room) {
		size_t room = k->pending_room ? 2 * k->pending_room : 64;
		void *more = realloc(k->pending, room * sizeof(*k->pending));

		if (!more) {
			k->n_not_followed++;
			return;
		}
		k->pending = more;
		k->pending_room = room;
	}
	if (gs_map_put(&k->job_of, pid, job) < 0) {
		k->n_not_followed++;
		return;
	}
	k->pending[k->n_pending++] = pid;
}

uint64_t gs_accounting_measure_kernel_flush(struct gs_accounting_measure_kernel *k)
{
	uint64_t begin_ns = gs_clock_boot_ns();
	struct gs_err err = {{0}};
	int r;

	if (!k->n_pending)
		return 0;
	r = gs_taskstats_probe_follow_pids(k->probe, k->pending, k->n_pending, &err);
	if (r < 0) {
		gs_log(1, "%s", gs_err_text(&err, r));
		k->n_not_followed += k->n_pending;
	}
	k->n_pending = 0;
	return begin_ns + (gs_clock_boot_ns() - begin_ns) / 2;
}

void gs_accounting_measure_kernel_follow_holder(struct gs_accounting_measure_kernel *k,
						uint32_t pid, uint32_t job)
{
	if (gs_map_put(&k->holders, pid, 0) < 0)
		k->n_not_followed++;
	else
		gs_accounting_measure_kernel_follow(k, pid, job);
}

int gs_accounting_measure_kernel_read(struct gs_accounting_measure_kernel *k)
{
	struct gs_taskstats_snapshot *next = NULL;
	int r = gs_taskstats_probe_read(k->probe, &next, NULL);

	if (r < 0)
		return r;
	gs_taskstats_snapshot_free(k->now);
	k->now = next;
	gs_map_fini(&k->row_at);
	k->row_at = GS_MAP_INIT(1u << 20);
	for (size_t i = 0; r == 0 && i < next->n_rows; i++)
		r = gs_map_put(&k->row_at, next->rows[i].pid, i);
	if (r < 0)
		return r;
	k->read_ns = gs_clock_boot_ns() - gs_clock_mono_ns() + next->mono_ns;
	return 0;
}

uint64_t gs_accounting_measure_kernel_read_ns(const struct gs_accounting_measure_kernel *k)
{
	return k->read_ns;
}

static const struct gs_taskstats_row *row_of(const struct gs_accounting_measure_kernel *k,
					     uint32_t pid)
{
	uint64_t at;

	return gs_map_get(&k->row_at, pid, &at) ? &k->now->rows[at] : NULL;
}

/* What is known of a row: of its own, or of the nearest ancestor of which it is known. */
static bool known_of(const struct gs_accounting_measure_kernel *k, const struct gs_map *map,
		     const struct gs_taskstats_row *row, uint64_t *ret)
{
	for (int up = 0; row && up < ANCESTORS_MAX; up++) {
		if (gs_map_get(map, row->pid, ret) || gs_map_get(map, row->parent_pid, ret) ||
		    gs_map_get(map == &k->job_of ? &k->gone_job : &k->gone_rank, row->parent_pid,
			       ret))
			return true;
		row = row_of(k, row->parent_pid);
	}
	return false;
}

static bool is_of(const struct gs_accounting_measure_kernel *k, const struct gs_taskstats_row *row,
		  uint32_t job)
{
	uint64_t of;

	return known_of(k, &k->job_of, row, &of) && of == job;
}

void gs_accounting_measure_kernel_add_by(const struct gs_accounting_measure_kernel *k,
					 const struct gs_map *rank_of,
					 gs_accounting_measure_kernel_add *add, void *ctx)
{
	uint64_t rank;

	for (size_t i = 0; k->now && i < k->now->n_rows; i++)
		if (known_of(k, rank_of, &k->now->rows[i], &rank))
			add(ctx, rank, &k->now->rows[i].work);
}

uint64_t gs_accounting_measure_kernel_since_ns(const struct gs_accounting_measure_kernel *k,
					       uint32_t job)
{
	uint64_t n_threads = 0, all_ns = 0, none;

	for (size_t i = 0; k->now && i < k->now->n_rows; i++) {
		const struct gs_taskstats_row *row = &k->now->rows[i];

		if (gs_map_get(&k->holders, row->pid, &none) || !is_of(k, row, job))
			continue;
		n_threads += row->n_threads;
		for (unsigned t = 0; t < GS_TIME_COUNT; t++)
			all_ns += row->work.time_ns[t];
	}
	if (!(k->families & GS_TASKSTATS_SCHED) || !n_threads || all_ns / n_threads > k->read_ns)
		return 0;
	return k->read_ns - all_ns / n_threads;
}

static int merge_call(struct gs_job_report_call **calls, size_t *n,
		      const struct gs_job_report_call *from)
{
	struct gs_job_report_call *c = NULL;
	void *more;

	for (size_t i = 0; i < *n && !c; i++)
		if (strcmp((*calls)[i].name, from->name) == 0)
			c = &(*calls)[i];
	if (!c) {
		more = realloc(*calls, (*n + 1) * sizeof(**calls));
		if (!more)
			return -ENOMEM;
		*calls = more;
		c = &(*calls)[(*n)++];
		*c = (struct gs_job_report_call){0};
		memcpy(c->name, from->name, sizeof(c->name));
	}
	c->calls += from->calls;
	c->errors += from->errors;
	c->total_ns += from->total_ns;
	c->timed += from->timed;
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++)
		c->hist[i] += from->hist[i];
	if (from->max_ns > c->max_ns)
		c->max_ns = from->max_ns;
	return 0;
}

static int add_call(struct gs_job_report_call **calls, size_t *n,
		    const struct gs_taskstats_call_row *row)
{
	struct gs_job_report_call c = {.calls = row->call.calls,
				       .errors = row->call.errors,
				       .total_ns = row->call.total_ns,
				       .timed = row->call.timed,
				       .max_ns = row->call.max_ns};

	gs_taskstats_call_name(row->id, c.name, sizeof(c.name));
	for (unsigned i = 0; i < GS_TASKSTATS_LOG2; i++)
		c.hist[i] = row->call.hist[i];
	return merge_call(calls, n, &c);
}

static int compare_call_time(const void *a, const void *b)
{
	const struct gs_job_report_call *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static int add_tables(struct gs_taskstats_tables *t, const struct gs_taskstats_row *row)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < row->n_disks; i++)
		r = gs_job_tables_add_disk(t, &row->disks[i]);
	for (size_t i = 0; r == 0 && i < row->n_mounts; i++)
		r = gs_job_tables_add_mount(t, &row->mounts[i]);
	for (size_t i = 0; r == 0 && i < row->n_peers; i++)
		r = gs_job_tables_add_peer(t, &row->peers[i]);
	return r;
}

static int merge_tables(struct gs_taskstats_tables *t, const struct gs_taskstats_tables *from)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n_disks; i++)
		r = gs_job_tables_add_disk(t, &from->disks[i]);
	for (size_t i = 0; r == 0 && i < from->n_mounts; i++)
		r = gs_job_tables_add_mount(t, &from->mounts[i]);
	for (size_t i = 0; r == 0 && i < from->n_peers; i++)
		r = gs_job_tables_add_peer(t, &from->peers[i]);
	return r;
}

static void add_pace(const struct gs_accounting_measure_kernel *k,
		     const struct gs_taskstats_row *row, struct gs_job_pace *pace)
{
	uint64_t lived_ns = k->read_ns > row->start_ns ? k->read_ns - row->start_ns : 0;

	gs_job_pace_add(pace, &row->work, lived_ns, k->families & GS_TASKSTATS_NET);
}

/* One that has ended, into the sums of its job and rank. */
static void fold_row(struct gs_accounting_measure_kernel *k, const struct gs_map *rank_of,
		     const struct gs_taskstats_row *row, gs_accounting_measure_kernel_add *add,
		     void *ctx)
{
	uint64_t job, rank, none;
	struct ended *e;
	int r = 0;

	if (!known_of(k, &k->job_of, row, &job) || job >= JOBS_MAX)
		return;
	r |= gs_map_put(&k->gone_job, row->pid, job);
	if (known_of(k, rank_of, row, &rank)) {
		r |= gs_map_put(&k->gone_rank, row->pid, rank);
		add(ctx, rank, &row->work);
	}
	if (r < 0)
		k->n_not_followed++; /* what it started counts to no job */
	if (gs_map_get(&k->holders, row->pid, &none))
		return;
	e = &k->ended[job];
	e->n_processes++;
	gs_taskstats_add(&e->work, &row->work);
	add_pace(k, row, &e->pace);
	for (size_t c = 0; c < row->n_calls; c++)
		(void)add_call(&e->calls, &e->n_calls, &row->calls[c]);
	if (add_tables(&e->tables, row) < 0)
		gs_log(1, "no memory for the tables of a job");
}

void gs_accounting_measure_kernel_fold(struct gs_accounting_measure_kernel *k,
				       const struct gs_map *rank_of,
				       gs_accounting_measure_kernel_add *add, void *ctx)
{
	uint64_t now_ns = gs_clock_boot_ns();
	size_t n = 0;

	if (now_ns < k->fold_ns || gs_accounting_measure_kernel_read(k) < 0)
		return;
	for (size_t i = 0; i < k->now->n_rows; i++)
		n += !k->now->rows[i].n_threads;
	k->fold_ns = now_ns + (k->now->n_rows >= 4 * FOLD_AT ? FOLD_BUSY_NS : FOLD_NS);
	if (n < FOLD_AT || gs_taskstats_probe_forget_ended(k->probe, k->now) == 0)
		return;
	for (size_t i = 0; i < k->now->n_rows; i++)
		if (!k->now->rows[i].n_threads)
			fold_row(k, rank_of, &k->now->rows[i], add, ctx);
	/* Some of its rows are in the sums now: the next reading has the others. */
	gs_taskstats_snapshot_free(k->now);
	k->now = NULL;
}

void gs_accounting_measure_kernel_take(const struct gs_accounting_measure_kernel *k, uint32_t job,
				       struct gs_job_report *report)
{
	struct gs_job_usage *u = &report->usage;
	const struct ended *e = &k->ended[job];

	u->work = e->work;
	u->pace = e->pace;
	u->io_rows = true;
	u->sched_rows = k->families & GS_TASKSTATS_SCHED;
	report->n_processes_seen = e->n_processes;
	for (size_t c = 0; c < e->n_calls; c++)
		if (merge_call(&report->calls, &report->n_calls, &e->calls[c]) < 0)
			break;
	if (merge_tables(&report->tables, &e->tables) < 0)
		gs_log(1, "no memory for the tables of a job");
	for (size_t i = 0; k->now && i < k->now->n_rows; i++) {
		const struct gs_taskstats_row *row = &k->now->rows[i];
		uint64_t none;

		if (gs_map_get(&k->holders, row->pid, &none) || !is_of(k, row, job))
			continue;
		report->n_processes_seen++;
		gs_taskstats_add(&u->work, &row->work);
		gs_job_pace_add(&u->pace, &row->work, u->elapsed_ns,
				k->families & GS_TASKSTATS_NET);
		for (size_t c = 0; c < row->n_calls; c++)
			if (add_call(&report->calls, &report->n_calls, &row->calls[c]) < 0)
				break;
		if (add_tables(&report->tables, row) < 0)
			gs_log(1, "no memory for the tables of a job");
	}
	if (report->n_calls)
		qsort(report->calls, report->n_calls, sizeof(*report->calls), compare_call_time);
	gs_job_tables_sort(&report->tables);
	u->known |= gs_job_families_of(k->families);
}

uint64_t gs_accounting_measure_kernel_open_bytes(const struct gs_accounting_measure_kernel *k)
{
	return k->now ? k->now->open_bytes : 0;
}

void gs_accounting_measure_kernel_losses(const struct gs_accounting_measure_kernel *k, char *out,
					 size_t bytes)
{
	const struct gs_taskstats_losses *l = k->now ? &k->now->losses : NULL;
	const struct {
		uint64_t n;
		const char *words;
	} of[] = {
		{k->n_not_followed, "processes could not be followed"},
		{l ? l->keys_full : 0, "threads not followed: no room for their process"},
		{l ? l->threads : 0, "threads not followed: no memory for their mark"},
		{l ? l->cells_full : 0, "calls are in the sums, but not in the breakdown"},
		{l ? l->requests : 0, "requests or sockets not followed: no room"},
		{l ? l->ends : 0, "requests to devices without a time: their end was not seen"},
		{l ? l->aio : 0, "operations of libaio whose bytes could not be read"},
		{l ? l->torn : 0, "rows may be off by an event"},
		{l ? l->missed : 0, "events were skipped by the kernel"},
	};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(of) && n < bytes; i++)
		if (of[i].n)
			n += (size_t)snprintf(out + n, bytes - n, "%s%llu %s", n ? "; " : "",
					      (unsigned long long)of[i].n, of[i].words);
}

const char *gs_accounting_measure_kernel_missing(const struct gs_accounting_measure_kernel *k)
{
	return k->missing;
}
