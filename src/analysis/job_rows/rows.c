#include "analysis/job_rows/rows_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define ANCESTORS_MAX 32
#define ASKED_MAX     5 /* readings: a process gets its environment after its birth */
#define ASKED_SURE    3 /* until then it may have that of what started it */
#define POLL_NS       1000000000ull
#define POLL_BUSY_NS  200000000ull /* while many come and go */
#define ROWS_BUSY     1024
#define PROCESSES_MAX (1u << 20)

int gs_rows_open(const struct gs_rows_options *options, struct gs_rows **ret, struct gs_err *err)
{
	struct gs_rows *k = calloc(1, sizeof(*k));
	int r = k ? 0 : -ENOMEM;

	if (r == 0) {
		k->options = *options;
		k->families = options->probe.families ? options->probe.families : GS_TASKSTATS_ALL;
		k->by_key = k->by_pid = k->asked = k->holders = GS_MAP_INIT(PROCESSES_MAX);
		k->ended = calloc(options->n_jobs, sizeof(*k->ended));
		r = k->ended ? gs_taskstats_probe_new(&options->probe, &k->probe, err) : -ENOMEM;
	}
	if (r < 0) {
		gs_rows_close(&k);
		return r;
	}
	for (size_t i = 0, n = 0; gs_taskstats_probe_missing(k->probe, i) && n < sizeof(k->missing);
	     i++)
		n += (size_t)snprintf(k->missing + n, sizeof(k->missing) - n, "%s%s", n ? "; " : "",
				      gs_taskstats_probe_missing(k->probe, i));
	*ret = k;
	return 0;
}

void gs_rows_close(struct gs_rows **ref)
{
	struct gs_rows *k = *ref;

	if (!k)
		return;
	gs_taskstats_snapshot_free(k->now);
	gs_taskstats_probe_free(k->probe);
	gs_map_fini(&k->by_key);
	gs_map_fini(&k->by_pid);
	gs_map_fini(&k->asked);
	gs_map_fini(&k->holders);
	for (size_t i = 0; k->ended && i < k->options.n_jobs; i++)
		rows_clear_ended(&k->ended[i]);
	for (size_t i = 0; i < k->n_processes; i++)
		free(k->process[i].mark);
	free(k->ended);
	free(k->process);
	free(k->pending);
	free(k);
	*ref = NULL;
}

void gs_rows_end_job(struct gs_rows *k, uint32_t job)
{
	rows_clear_ended(&k->ended[job]);
	for (size_t i = 0; i < k->n_processes; i++) {
		struct rows_process *p = &k->process[i];

		if (p->job != job)
			continue;
		p->job = GS_ROWS_NO_JOB;
		free(p->mark);
		p->mark = NULL;
	}
}

/* --- following --- */

void gs_rows_follow(struct gs_rows *k, uint32_t pid, uint32_t job, uint32_t rank)
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

void gs_rows_follow_holder(struct gs_rows *k, uint32_t pid, uint32_t job)
{
	if (gs_map_put(&k->holders, pid, 0) < 0)
		k->n_not_followed++;
	else
		gs_rows_follow(k, pid, job, GS_ROWS_NEVER_RANK);
}

uint64_t gs_rows_flush(struct gs_rows *k)
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

static struct rows_process *process_of_row(struct gs_rows *k, const struct gs_taskstats_row *row)
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
	k->process[k->n_processes] = (struct rows_process){
		.key = key, .pid = row->pid, .job = GS_ROWS_NO_JOB, .is_new = true};
	return &k->process[k->n_processes++];
}

struct rows_process *rows_process_of_pid(const struct gs_rows *k, uint32_t pid)
{
	uint64_t at;

	return gs_map_get(&k->by_pid, pid, &at) ? &k->process[at] : NULL;
}

/* Those whose rows are gone since the reading before last go: what they started in between was
 * read with them. */
static void sweep_processes(struct gs_rows *k)
{
	for (size_t i = 0; i < k->n_processes;) {
		struct rows_process *p = &k->process[i];

		if (p->reading + 1 >= k->reading) {
			i++;
			continue;
		}
		gs_map_del(&k->by_key, p->key);
		free(p->mark);
		*p = k->process[--k->n_processes];
		if (i < k->n_processes)
			(void)gs_map_put(&k->by_key, p->key, i); /* it is there: replaced */
	}
}

static int index_pids(struct gs_rows *k)
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

static int take_rows(struct gs_rows *k)
{
	int r;

	for (size_t i = 0; i < k->n_processes; i++) {
		k->process[i].row = NO_ROW;
		k->process[i].is_alive = false;
	}
	for (size_t i = 0; i < k->now->n_rows; i++) {
		const struct gs_taskstats_row *row = &k->now->rows[i];
		struct rows_process *p = process_of_row(k, row);

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
static uint32_t job_of_process(struct gs_rows *k, const struct rows_process *p)
{
	const struct gs_rows_options *o = &k->options;
	const struct rows_process *up = p;
	uint32_t job;

	if (o->find_job && o->find_first && p->is_alive) {
		job = o->find_job(o->ctx, p->pid);
		if (job != GS_ROWS_NO_JOB)
			return job;
	}
	for (int i = 0; i < ANCESTORS_MAX && (up = rows_process_of_pid(k, up->parent_pid)); i++)
		if (up->job != GS_ROWS_NO_JOB)
			return up->job;
	return o->find_job && !o->find_first && p->is_alive ? o->find_job(o->ctx, p->pid)
							    : GS_ROWS_NO_JOB;
}

static void find_jobs(struct gs_rows *k)
{
	gs_map_for_each (&k->asked, s) {
		struct rows_process *p = rows_process_of_pid(k, (uint32_t)s->key);
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
		struct rows_process *p = &k->process[i];

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
static void find_workers(struct gs_rows *k)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		k->process[i].has_workers = k->process[i].is_worker = false;
		k->process[i].parent = NO_ROW;
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		struct rows_process *p = &k->process[i],
				    *up = rows_process_of_pid(k, p->parent_pid);

		if (p->row == NO_ROW || !up || up->row == NO_ROW || up->job != p->job)
			continue;
		p->parent = (size_t)(up - k->process);
		p->is_worker = p->is_alive && k->now->rows[p->row].lead.lived_ns >=
						      k->now->rows[up->row].lead.lived_ns / 2;
		up->has_workers |= p->is_worker;
	}
}

/* Each is asked itself before one gets the rank of what started it, and asked again when it has one:
 * between fork and exec it shows the environment of a launcher, which may be a task itself. */
static void find_ranks(struct gs_rows *k)
{
	for (size_t i = 0; i < k->n_processes; i++) {
		struct rows_process *p = &k->process[i];
		uint32_t rank;

		if (p->job == GS_ROWS_NO_JOB || p->rank == GS_ROWS_NEVER_RANK || !p->is_alive ||
		    p->n_asked >= (p->rank ? ASKED_SURE : ASKED_MAX))
			continue;
		p->n_asked++;
		rank = k->options.find_rank(k->options.ctx, p->job, p->pid);
		if (rank)
			p->rank = rank;
	}
	for (size_t i = 0; i < k->n_processes; i++) {
		struct rows_process *p = &k->process[i];
		const struct rows_process *up = p;

		for (int n = 0; !p->rank && n < ANCESTORS_MAX &&
				(up = rows_process_of_pid(k, up->parent_pid)) && up->job == p->job;
		     n++)
			if (rows_has_rank(up))
				p->rank = up->rank;
	}
}

int gs_rows_read(struct gs_rows *k, struct gs_err *err)
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

void gs_rows_poll(struct gs_rows *k)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (now_ns < k->poll_ns || gs_rows_read(k, NULL) < 0)
		return;
	k->poll_ns = now_ns + (k->now->n_rows >= ROWS_BUSY ? POLL_BUSY_NS : POLL_NS);
	gs_rows_fold(k);
}

void gs_rows_rest(struct gs_rows *k)
{
	gs_taskstats_snapshot_free(k->now);
	k->now = NULL;
	gs_taskstats_probe_rest(k->probe);
}

/* --- asking --- */

uint64_t gs_rows_read_ns(const struct gs_rows *k)
{
	return k->read_ns;
}

bool gs_rows_has(const struct gs_rows *k, uint32_t pid)
{
	const struct rows_process *p = rows_process_of_pid(k, pid);

	return p && p->is_alive;
}

bool gs_rows_rank_of(const struct gs_rows *k, uint32_t pid, uint32_t *ret_job, uint32_t *ret_rank)
{
	const struct rows_process *p = rows_process_of_pid(k, pid);

	if (!p || !p->is_alive || p->job == GS_ROWS_NO_JOB || !rows_has_rank(p))
		return false;
	*ret_job = p->job;
	*ret_rank = p->rank;
	return true;
}

uint32_t gs_rows_families(const struct gs_rows *k)
{
	return k->families;
}

uint64_t gs_rows_open_bytes(const struct gs_rows *k)
{
	return k->now ? k->now->open_bytes : 0;
}

const struct gs_taskstats_losses *gs_rows_lost(const struct gs_rows *k)
{
	return &k->lost;
}

uint64_t gs_rows_not_followed(const struct gs_rows *k)
{
	return k->n_not_followed;
}

void gs_rows_losses(const struct gs_rows *k, char *out, size_t bytes)
{
	const struct gs_taskstats_losses *l = &k->lost;
	const struct {
		uint64_t n;
		const char *words;
	} of[] = {
		{k->n_not_followed, "processes could not be tracked"},
		{l->keys_full, "threads not tracked: too many processes"},
		{l->threads, "threads not tracked: no memory for their state"},
		{l->cells_full, "calls are in the sums, but not in the breakdown"},
		{l->requests, "requests or sockets not tracked: too many"},
		{l->ends, "device requests without a time: their completion was not seen"},
		{l->aio, "libaio operations whose bytes could not be read"},
		{l->torn, "rows may be off by one event"},
		{l->missed, "events were skipped by the kernel"},
	};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(of) && n < bytes; i++)
		if (of[i].n)
			n += (size_t)snprintf(out + n, bytes - n, "%s%llu %s", n ? "; " : "",
					      (unsigned long long)of[i].n, of[i].words);
}

const char *gs_rows_missing(const struct gs_rows *k)
{
	return k->missing;
}
