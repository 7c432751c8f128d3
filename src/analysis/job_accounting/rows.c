#include "analysis/job_accounting/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "model/node/job_tables.h"

#define ANCESTORS_MAX 32
#define ASKED_MAX     5              /* readings: a process gets its environment after its birth */
#define ASKED_SURE    3              /* until then it may have that of what started it */
#define FOLD_AT       256            /* ended processes */
#define FOLD_NS       60000000000ull /* fewer of them are given back after that */
#define POLL_NS       1000000000ull
#define POLL_BUSY_NS  200000000ull /* while many come and go */
#define PROCESSES_MAX (1u << 20)
#define NO_ROW        SIZE_MAX

struct process {      /* one that has a row, or had one at the reading before */
	uint64_t key; /* of pid and start */
	uint32_t pid, parent_pid;
	uint32_t job;     /* or GS_ACCOUNTING_NO_JOB */
	uint32_t rank;    /* as find_rank returns it */
	uint32_t reading; /* the last one that had it */
	uint8_t n_asked;  /* how often its rank was asked for */
	bool is_alive, is_holder, is_new;
	bool has_workers;    /* children that live as it does */
	bool is_worker;      /* such a child */
	uint64_t workers_ns; /* what its children were at work */
	size_t row;          /* of the last reading; NO_ROW */
};

struct ended { /* what processes of a job did whose rows were given back */
	struct gs_taskstats work;
	struct gs_job_pace pace;
	struct gs_accounting_calls calls;
	struct gs_taskstats_tables tables;
	uint32_t n_processes;
};

struct gs_accounting_rows {
	struct gs_accounting_rows_options options;
	struct gs_taskstats_probe *probe;
	struct gs_taskstats_snapshot *now; /* owned; NULL: no reading, or it was given back */
	uint32_t families, reading;
	struct process *process; /* owned */
	size_t n_processes, capacity;
	struct gs_map by_key, by_pid; /* -> process; of one pid the one that lives */
	struct gs_map asked, holders; /* pid -> job << 32 | rank; -> nothing: not read since */
	uint32_t *pending;            /* owned: to be followed at the next flush */
	size_t n_pending, pending_room;
	struct ended *ended; /* owned; options.n_jobs */
	struct gs_taskstats_losses lost;
	uint64_t n_not_followed, read_ns, poll_ns, fold_ns; /* boot clock */
	char missing[200];
};

int gs_accounting_rows_open(const struct gs_accounting_rows_options *options,
			    struct gs_accounting_rows **ret, struct gs_err *err)
{
	struct gs_accounting_rows *k = calloc(1, sizeof(*k));
	int r = k ? 0 : -ENOMEM;

	if (r == 0) {
		k->options = *options;
		k->families = options->probe.families ? options->probe.families : GS_TASKSTATS_ALL;
		k->by_key = k->by_pid = k->asked = k->holders = GS_MAP_INIT(PROCESSES_MAX);
		k->ended = calloc(options->n_jobs, sizeof(*k->ended));
		r = k->ended ? gs_taskstats_probe_new(&options->probe, &k->probe, err) : -ENOMEM;
	}
	if (r < 0) {
		gs_accounting_rows_close(&k);
		return r;
	}
	for (size_t i = 0, n = 0; gs_taskstats_probe_missing(k->probe, i) && n < sizeof(k->missing);
	     i++)
		n += (size_t)snprintf(k->missing + n, sizeof(k->missing) - n, "%s%s", n ? "; " : "",
				      gs_taskstats_probe_missing(k->probe, i));
	*ret = k;
	return 0;
}

static void clear_ended(struct ended *e)
{
	gs_accounting_calls_fini(&e->calls);
	gs_job_tables_fini(&e->tables);
	*e = (struct ended){0};
}

void gs_accounting_rows_close(struct gs_accounting_rows **ref)
{
	struct gs_accounting_rows *k = *ref;

	if (!k)
		return;
	gs_taskstats_snapshot_free(k->now);
	gs_taskstats_probe_free(k->probe);
	gs_map_fini(&k->by_key);
	gs_map_fini(&k->by_pid);
	gs_map_fini(&k->asked);
	gs_map_fini(&k->holders);
	for (size_t i = 0; k->ended && i < k->options.n_jobs; i++)
		clear_ended(&k->ended[i]);
	free(k->ended);
	free(k->process);
	free(k->pending);
	free(k);
	*ref = NULL;
}

void gs_accounting_rows_end_job(struct gs_accounting_rows *k, uint32_t job)
{
	clear_ended(&k->ended[job]);
	for (size_t i = 0; i < k->n_processes; i++)
		if (k->process[i].job == job)
			k->process[i].job = GS_ACCOUNTING_NO_JOB;
}

/* --- following --- */

void gs_accounting_rows_follow(struct gs_accounting_rows *k, uint32_t pid, uint32_t job,
			       uint32_t rank)
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
	if (gs_map_put(&k->asked, pid, (uint64_t)job << 32 | rank) < 0) {
		k->n_not_followed++;
		return;
	}
	k->pending[k->n_pending++] = pid;
}

void gs_accounting_rows_follow_holder(struct gs_accounting_rows *k, uint32_t pid, uint32_t job)
{
	if (gs_map_put(&k->holders, pid, 0) < 0)
		k->n_not_followed++;
	else
		gs_accounting_rows_follow(k, pid, job, GS_ACCOUNTING_NEVER_RANK);
}

uint64_t gs_accounting_rows_flush(struct gs_accounting_rows *k)
{
	uint64_t begin_ns = gs_clock_boot_ns();
	struct gs_err err = {{0}};
	int r;

	if (!k->n_pending)
		return 0;
	r = gs_taskstats_probe_follow_pids(k->probe, k->pending, k->n_pending, &err);
	if (r < 0) {
		gs_log(GS_LOG_INFO, GS_LOG_JOBS, "%s", gs_err_text(&err, r));
		k->n_not_followed += k->n_pending;
	}
	k->n_pending = 0;
	return begin_ns + (gs_clock_boot_ns() - begin_ns) / 2;
}

/* --- reading: which process each row is --- */

static uint64_t key_of(const struct gs_taskstats_row *row)
{
	return row->start_ns ^ (uint64_t)row->pid << 40 ^ (uint64_t)row->pid;
}

static struct process *process_of_row(struct gs_accounting_rows *k,
				      const struct gs_taskstats_row *row)
{
	uint64_t at, key = key_of(row);
	size_t capacity = k->capacity ? 2 * k->capacity : 64;
	void *more;

	if (gs_map_get(&k->by_key, key, &at))
		return &k->process[at];
	if (k->n_processes == k->capacity) {
		more = realloc(k->process, capacity * sizeof(*k->process));
		if (!more)
			return NULL;
		k->process = more;
		k->capacity = capacity;
	}
	if (gs_map_put(&k->by_key, key, k->n_processes) < 0)
		return NULL;
	k->process[k->n_processes] = (struct process){
		.key = key, .pid = row->pid, .job = GS_ACCOUNTING_NO_JOB, .is_new = true};
	return &k->process[k->n_processes++];
}

static struct process *process_of_pid(const struct gs_accounting_rows *k, uint32_t pid)
{
	uint64_t at;

	return gs_map_get(&k->by_pid, pid, &at) ? &k->process[at] : NULL;
}

/* Those whose rows are gone since the reading before last go: what they started in between was
 * read with them. */
static void sweep_processes(struct gs_accounting_rows *k)
{
	for (size_t i = 0; i < k->n_processes;) {
		struct process *p = &k->process[i];

		if (p->reading + 1 >= k->reading) {
			i++;
			continue;
		}
		gs_map_del(&k->by_key, p->key);
		*p = k->process[--k->n_processes];
		if (i < k->n_processes)
			(void)gs_map_put(&k->by_key, p->key, i); /* it is there: replaced */
	}
}

static int index_pids(struct gs_accounting_rows *k)
{
	int r = 0;

	gs_map_fini(&k->by_pid);
	k->by_pid = GS_MAP_INIT(PROCESSES_MAX);
	for (int alive = 0; alive < 2; alive++)
		for (size_t i = 0; r == 0 && i < k->n_processes; i++)
			if (k->process[i].is_alive == alive)
				r = gs_map_put(&k->by_pid, k->process[i].pid, i);
	return r;
}

static int take_rows(struct gs_accounting_rows *k)
{
	int r;

	for (size_t i = 0; i < k->n_processes; i++) {
		k->process[i].row = NO_ROW;
		k->process[i].is_alive = false;
	}
	for (size_t i = 0; i < k->now->n_rows; i++) {
		const struct gs_taskstats_row *row = &k->now->rows[i];
		struct process *p = process_of_row(k, row);

		if (!p)
			return -ENOMEM;
		p->parent_pid = row->parent_pid;
		p->reading = k->reading;
		p->is_alive = row->n_threads > 0;
		p->row = i;
	}
	sweep_processes(k);
	r = index_pids(k);
	return r;
}

/* Its own job is the one that it was followed for; else that of the nearest ancestor that has one. */
static uint32_t job_of_process(struct gs_accounting_rows *k, const struct process *p)
{
	const struct gs_accounting_rows_options *o = &k->options;
	const struct process *up = p;
	uint32_t job;

	if (o->find_job && o->find_first && p->is_alive) {
		job = o->find_job(o->ctx, p->pid);
		if (job != GS_ACCOUNTING_NO_JOB)
			return job;
	}
	for (int i = 0; i < ANCESTORS_MAX && (up = process_of_pid(k, up->parent_pid)); i++)
		if (up->job != GS_ACCOUNTING_NO_JOB)
			return up->job;
	return o->find_job && !o->find_first && p->is_alive ? o->find_job(o->ctx, p->pid)
							    : GS_ACCOUNTING_NO_JOB;
}

static void find_jobs(struct gs_accounting_rows *k)
{
	gs_map_for_each (&k->asked, s) {
		struct process *p = process_of_pid(k, (uint32_t)s->key);
		uint64_t none;

		if (!p)
			continue;
		p->job = (uint32_t)(s->value >> 32);
		if ((uint32_t)s->value)
			p->rank = (uint32_t)s->value;
		p->is_holder = gs_map_get(&k->holders, s->key, &none);
		p->is_new = false;
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		struct process *p = &k->process[i];

		if (p->is_new)
			p->job = job_of_process(k, p);
		p->is_new = false;
	}
	/* By now each followed process has a row, or has ended. */
	if (k->n_pending)
		return;
	gs_map_fini(&k->asked);
	gs_map_fini(&k->holders);
	k->asked = k->holders = GS_MAP_INIT(PROCESSES_MAX);
}

/* Children that a process has had for half of the time at least: commands of a shell come and go. */
static void find_workers(struct gs_accounting_rows *k)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		k->process[i].has_workers = k->process[i].is_worker = false;
		k->process[i].workers_ns = 0;
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		struct process *p = &k->process[i], *up = process_of_pid(k, p->parent_pid);
		const struct gs_taskstats_row *row;

		if (p->row == NO_ROW || !up || up->row == NO_ROW || up->job != p->job)
			continue;
		row = &k->now->rows[p->row];
		p->is_worker = p->is_alive &&
			       row->lead.lived_ns >= k->now->rows[up->row].lead.lived_ns / 2;
		up->has_workers |= p->is_worker;
		up->workers_ns += gs_job_pace_busy_ns(&row->work);
	}
}

static bool has_rank(const struct process *p)
{
	return p->rank != GS_ACCOUNTING_NO_RANK && p->rank != GS_ACCOUNTING_NEVER_RANK;
}

/* Each is asked itself before one gets the rank of what started it, and asked again when it has one:
 * between fork and exec it shows the environment of a launcher, which may be a task itself. */
static void find_ranks(struct gs_accounting_rows *k)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		struct process *p = &k->process[i];
		uint32_t rank;

		if (p->job == GS_ACCOUNTING_NO_JOB || p->rank == GS_ACCOUNTING_NEVER_RANK ||
		    !p->is_alive || p->n_asked >= (p->rank ? ASKED_SURE : ASKED_MAX))
			continue;
		p->n_asked++;
		rank = k->options.find_rank(k->options.ctx, p->job, p->pid);
		if (rank)
			p->rank = rank;
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		struct process *p = &k->process[i];
		const struct process *up = p;

		for (int n = 0; !p->rank && n < ANCESTORS_MAX &&
				(up = process_of_pid(k, up->parent_pid)) && up->job == p->job;
		     n++)
			if (has_rank(up))
				p->rank = up->rank;
	}
}

int gs_accounting_rows_read(struct gs_accounting_rows *k, struct gs_err *err)
{
	struct gs_taskstats_snapshot *next = NULL;
	int r = gs_taskstats_probe_read(k->probe, &next, err);

	if (r < 0)
		return r;
	gs_taskstats_snapshot_free(k->now);
	k->now = next;
	k->lost = next->losses;
	k->reading++;
	r = take_rows(k);
	if (r < 0)
		return r;
	find_jobs(k);
	find_workers(k);
	find_ranks(k);
	k->read_ns = gs_clock_boot_ns() - gs_clock_mono_ns() + next->mono_ns;
	return 0;
}

/* --- sums --- */

void gs_accounting_calls_fini(struct gs_accounting_calls *c)
{
	free(c->row);
	*c = (struct gs_accounting_calls){0};
}

static int add_calls(struct gs_accounting_calls *to, const struct gs_taskstats_call_row *from,
		     size_t n)
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
static const struct gs_taskstats_row *counted_row(const struct gs_accounting_rows *k, size_t i,
						  uint32_t job)
{
	const struct process *p = &k->process[i];

	return k->now && p->job == job && !p->is_holder && p->row != NO_ROW ? &k->now->rows[p->row]
									    : NULL;
}

void gs_accounting_rows_sum(const struct gs_accounting_rows *k, uint32_t job, uint64_t elapsed_ns,
			    struct gs_accounting_rows_sum *ret)
{
	const struct ended *e = &k->ended[job];
	uint64_t worked_ns;

	*ret = (struct gs_accounting_rows_sum){
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
	worked_ns = gs_job_pace_worked_ns(&ret->work);
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);
		struct gs_job_pace_process p = {.elapsed_ns = elapsed_ns,
						.knows_net = k->families & GS_TASKSTATS_NET,
						.has_workers = k->process[i].has_workers,
						.is_worker = k->process[i].is_worker,
						.workers_ns = k->process[i].workers_ns};

		if (!row)
			continue;
		p.work = &row->work;
		p.lead = &row->lead;
		p.others_ns = worked_ns - gs_job_pace_worked_ns(&row->work);
		gs_job_pace_add(&ret->pace, &p);
	}
}

int gs_accounting_rows_calls(const struct gs_accounting_rows *k, uint32_t job,
			     struct gs_accounting_calls *calls)
{
	const struct ended *e = &k->ended[job];
	int r = add_calls(calls, e->calls.row, e->calls.n_rows);

	for (size_t i = 0; r == 0 && i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row)
			r = add_calls(calls, row->calls, row->n_calls);
	}
	return r;
}

int gs_accounting_rows_tables(const struct gs_accounting_rows *k, uint32_t job,
			      struct gs_taskstats_tables *tables)
{
	int r = add_tables(tables, &k->ended[job].tables);

	for (size_t i = 0; r == 0 && i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row)
			r = add_row_tables(tables, row);
	}
	return r;
}

void gs_accounting_rows_visit_ranks(const struct gs_accounting_rows *k, uint32_t job,
				    void (*visit)(void *ctx, uint32_t rank,
						  const struct gs_taskstats *work),
				    void *ctx)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		const struct gs_taskstats_row *row = counted_row(k, i, job);

		if (row && has_rank(&k->process[i]))
			visit(ctx, k->process[i].rank, &row->work);
	}
}

uint64_t gs_accounting_rows_since_ns(const struct gs_accounting_rows *k, uint32_t job)
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

/* One that has ended, into the sums of its job and rank. */
static void fold_process(struct gs_accounting_rows *k, const struct process *p)
{
	const struct gs_taskstats_row *row = &k->now->rows[p->row];
	uint64_t lived_ns = k->read_ns > row->start_ns ? k->read_ns - row->start_ns : 0;
	struct ended *e = &k->ended[p->job];

	if (has_rank(p))
		k->options.add_ended(k->options.ctx, p->job, p->rank, &row->work);
	e->n_processes++;
	gs_taskstats_add(&e->work, &row->work);
	gs_job_pace_add(&e->pace,
			&(struct gs_job_pace_process){.work = &row->work,
						      .lead = &row->lead,
						      .elapsed_ns = lived_ns,
						      .knows_net = k->families & GS_TASKSTATS_NET,
						      .others_ns = UINT64_MAX});
	if (add_calls(&e->calls, row->calls, row->n_calls) < 0 ||
	    add_row_tables(&e->tables, row) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_JOBS, "no memory for the calls and tables of a job");
}

void gs_accounting_rows_fold(struct gs_accounting_rows *k)
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
		const struct process *p = &k->process[i];

		if (p->row != NO_ROW && !p->is_alive && !p->is_holder &&
		    p->job != GS_ACCOUNTING_NO_JOB)
			fold_process(k, p);
	}
	/* Some of its rows are in the sums now: the next reading has the others. */
	gs_taskstats_snapshot_free(k->now);
	k->now = NULL;
}

void gs_accounting_rows_poll(struct gs_accounting_rows *k)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (now_ns < k->poll_ns || gs_accounting_rows_read(k, NULL) < 0)
		return;
	k->poll_ns = now_ns + (k->now->n_rows >= 4 * FOLD_AT ? POLL_BUSY_NS : POLL_NS);
	gs_accounting_rows_fold(k);
}

void gs_accounting_rows_rest(struct gs_accounting_rows *k)
{
	gs_taskstats_snapshot_free(k->now);
	k->now = NULL;
	gs_taskstats_probe_rest(k->probe);
}

/* --- asking --- */

uint64_t gs_accounting_rows_read_ns(const struct gs_accounting_rows *k)
{
	return k->read_ns;
}

bool gs_accounting_rows_has(const struct gs_accounting_rows *k, uint32_t pid)
{
	const struct process *p = process_of_pid(k, pid);

	return p && p->is_alive;
}

bool gs_accounting_rows_rank_of(const struct gs_accounting_rows *k, uint32_t pid, uint32_t *ret_job,
				uint32_t *ret_rank)
{
	const struct process *p = process_of_pid(k, pid);

	if (!p || !p->is_alive || p->job == GS_ACCOUNTING_NO_JOB || !has_rank(p))
		return false;
	*ret_job = p->job;
	*ret_rank = p->rank;
	return true;
}

uint32_t gs_accounting_rows_families(const struct gs_accounting_rows *k)
{
	return k->families;
}

uint64_t gs_accounting_rows_open_bytes(const struct gs_accounting_rows *k)
{
	return k->now ? k->now->open_bytes : 0;
}

const struct gs_taskstats_losses *gs_accounting_rows_lost(const struct gs_accounting_rows *k)
{
	return &k->lost;
}

uint64_t gs_accounting_rows_not_followed(const struct gs_accounting_rows *k)
{
	return k->n_not_followed;
}

void gs_accounting_rows_losses(const struct gs_accounting_rows *k, char *out, size_t bytes)
{
	const struct gs_taskstats_losses *l = &k->lost;
	const struct {
		uint64_t n;
		const char *words;
	} of[] = {
		{k->n_not_followed, "processes could not be followed"},
		{l->keys_full, "threads not followed: no room for their process"},
		{l->threads, "threads not followed: no memory for their mark"},
		{l->cells_full, "calls are in the sums, but not in the breakdown"},
		{l->requests, "requests or sockets not followed: no room"},
		{l->ends, "requests to devices without a time: their end was not seen"},
		{l->aio, "operations of libaio whose bytes could not be read"},
		{l->torn, "rows may be off by an event"},
		{l->missed, "events were skipped by the kernel"},
	};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(of) && n < bytes; i++)
		if (of[i].n)
			n += (size_t)snprintf(out + n, bytes - n, "%s%llu %s", n ? "; " : "",
					      (unsigned long long)of[i].n, of[i].words);
}

const char *gs_accounting_rows_missing(const struct gs_accounting_rows *k)
{
	return k->missing;
}
