/*
 * Rows of the kernel's tables are processes; this file knows which job each is of: those that were
 * followed, and what they started meanwhile, also when it ended before anybody could look.
 */
#include "jobcmd/job_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "job/tables.h"
#include "work/work.h"

#define ANCESTORS_MAX 32

struct job_kernel {
	struct gs_work_probe *probe;
	struct gs_work_snapshot *now; /* owned; NULL before the first reading */
	struct gs_map job_of;         /* pid -> job */
	struct gs_map holders;        /* pid -> nothing: those that do not count */
	uint32_t families;
	uint64_t n_not_followed;
	char missing[160];
};

/* "cuda" is no family of the kernel's. */
static void without_cuda(const char *filter, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	while (*filter) {
		size_t word = strcspn(filter, ",");

		if (word && (word != 4 || strncmp(filter, "cuda", 4) != 0) && n < bytes)
			n += (size_t)snprintf(out + n, bytes - n, "%s%.*s", n ? "," : "", (int)word,
					      filter);
		filter += word;
		filter += *filter == ',';
	}
}

int job_kernel_open(const char *filter, const bool probes[4], struct job_kernel **ret,
		    struct gs_err *err)
{
	static const uint32_t family[4] = {GS_WORK_SYSCALL, GS_WORK_SCHED, GS_WORK_IO, GS_WORK_NET};
	GS_FREE struct job_kernel *k = calloc(1, sizeof(*k));
	struct gs_work_options options = {.size = sizeof(options)};
	char families[64];
	int r;

	if (!k)
		return -ENOMEM;
	without_cuda(filter, families, sizeof(families));
	r = families[0] ? gs_work_families_parse(families, &k->families, err) : 0;
	if (r < 0)
		return r;
	for (int i = 0; i < 4; i++)
		if (!probes[i])
			k->families &= ~family[i];
	if (!k->families)
		return gs_err_set(err, -ENOTSUP, "every probe is off");
	options.families = k->families;
	r = gs_work_probe_new(&options, &k->probe, err);
	if (r < 0)
		return r;
	for (size_t i = 0, n = 0; gs_work_probe_missing(k->probe, i) && n < sizeof(k->missing); i++)
		n += (size_t)snprintf(k->missing + n, sizeof(k->missing) - n, "%s%s", n ? "; " : "",
				      gs_work_probe_missing(k->probe, i));
	k->job_of = GS_MAP_INIT(1u << 20);
	k->holders = GS_MAP_INIT(1u << 12);
	*ret = gs_take(k);
	return 0;
}

void job_kernel_close(struct job_kernel **ref)
{
	struct job_kernel *k = *ref;

	if (!k)
		return;
	gs_work_snapshot_free(k->now);
	gs_work_probe_free(k->probe);
	gs_map_fini(&k->job_of);
	gs_map_fini(&k->holders);
	free(k);
	*ref = NULL;
}

void job_kernel_follow(struct job_kernel *k, uint32_t pid, uint32_t job)
{
	struct gs_err err = {{0}};
	int r;

	if (gs_map_put(&k->job_of, pid, job) < 0) {
		k->n_not_followed++;
		return;
	}
	r = gs_work_probe_follow_pid(k->probe, pid, &err);
	if (r < 0 && r != -ESRCH) {
		gs_log(1, "process %u is not followed: %s", pid, gs_err_text(&err, r));
		k->n_not_followed++;
	}
}

void job_kernel_follow_holder(struct job_kernel *k, uint32_t pid, uint32_t job)
{
	if (gs_map_put(&k->holders, pid, 0) < 0)
		k->n_not_followed++;
	else
		job_kernel_follow(k, pid, job);
}

int job_kernel_read(struct job_kernel *k)
{
	struct gs_work_snapshot *next = NULL;
	int r = gs_work_probe_read(k->probe, &next, NULL);

	if (r < 0)
		return r;
	gs_work_snapshot_free(k->now);
	k->now = next;
	return 0;
}

static const struct gs_work_row *row_of(const struct job_kernel *k, uint32_t pid)
{
	for (size_t i = 0; i < k->now->n_rows; i++)
		if (k->now->rows[i].pid == pid)
			return &k->now->rows[i];
	return NULL;
}

/* What is known of a row: of its own, or of the nearest ancestor of which it is known. */
static bool known_of(const struct job_kernel *k, const struct gs_map *map,
		     const struct gs_work_row *row, uint64_t *ret)
{
	for (int up = 0; row && up < ANCESTORS_MAX; up++) {
		if (gs_map_get(map, row->pid, ret) || gs_map_get(map, row->parent_pid, ret))
			return true;
		row = row_of(k, row->parent_pid);
	}
	return false;
}

static bool is_of(const struct job_kernel *k, const struct gs_work_row *row, uint32_t job)
{
	uint64_t of;

	return known_of(k, &k->job_of, row, &of) && of == job;
}

void job_kernel_add_by(const struct job_kernel *k, const struct gs_map *of, struct gs_work *sums,
		       size_t n_sums)
{
	uint64_t i;

	for (size_t row = 0; k->now && row < k->now->n_rows; row++)
		if (known_of(k, of, &k->now->rows[row], &i) && i < n_sums)
			gs_work_add(&sums[i], &k->now->rows[row].work);
}

static int add_call(struct gs_job_call **calls, size_t *n, const struct gs_work_call_row *row)
{
	struct gs_job_call *c = NULL;
	char name[sizeof(c->name)];
	void *more;

	gs_work_call_name(row->id, name, sizeof(name));
	for (size_t i = 0; i < *n && !c; i++)
		if (strcmp((*calls)[i].name, name) == 0)
			c = &(*calls)[i];
	if (!c) {
		more = realloc(*calls, (*n + 1) * sizeof(**calls));
		if (!more)
			return -ENOMEM;
		*calls = more;
		c = &(*calls)[(*n)++];
		*c = (struct gs_job_call){0};
		memcpy(c->name, name, sizeof(name));
	}
	c->calls += row->call.calls;
	c->errors += row->call.errors;
	c->total_ns += row->call.total_ns;
	c->timed += row->call.timed;
	for (unsigned i = 0; i < GS_WORK_LOG2; i++)
		c->hist[i] += row->call.hist[i];
	if (row->call.max_ns > c->max_ns)
		c->max_ns = row->call.max_ns;
	return 0;
}

static int longer(const void *a, const void *b)
{
	const struct gs_job_call *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static int add_tables(struct gs_work_tables *t, const struct gs_work_row *row)
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

void job_kernel_take(const struct job_kernel *k, uint32_t job, struct gs_job_report *report)
{
	struct gs_job_usage *u = &report->usage;

	u->work = (struct gs_work){0};
	u->io_rows = true;
	report->n_processes_seen = 0;
	for (size_t i = 0; k->now && i < k->now->n_rows; i++) {
		const struct gs_work_row *row = &k->now->rows[i];
		uint64_t none;

		if (gs_map_get(&k->holders, row->pid, &none) || !is_of(k, row, job))
			continue;
		report->n_processes_seen++;
		gs_work_add(&u->work, &row->work);
		for (size_t c = 0; c < row->n_calls; c++)
			if (add_call(&report->calls, &report->n_calls, &row->calls[c]) < 0)
				break;
		if (add_tables(&report->tables, row) < 0)
			gs_log(1, "no memory for the tables of a job");
	}
	if (report->n_calls)
		qsort(report->calls, report->n_calls, sizeof(*report->calls), longer);
	gs_job_tables_sort(&report->tables);
	if (k->families & GS_WORK_SCHED)
		u->known |= 1u << GS_JOB_KNOWS_TIME | 1u << GS_JOB_KNOWS_RUNQUEUE |
			    1u << GS_JOB_KNOWS_CAUSES | 1u << GS_JOB_KNOWS_SWITCHES |
			    1u << GS_JOB_KNOWS_FAULTS;
	if (k->families & GS_WORK_SYSCALL)
		u->known |= 1u << GS_JOB_KNOWS_SYSCALLS;
	if (k->families & GS_WORK_IO)
		u->known |= 1u << GS_JOB_KNOWS_IO;
	if (k->families & GS_WORK_NET)
		u->known |= 1u << GS_JOB_KNOWS_NET;
}

uint64_t job_kernel_open_bytes(const struct job_kernel *k)
{
	return k->now ? k->now->open_bytes : 0;
}

void job_kernel_losses(const struct job_kernel *k, char *out, size_t bytes)
{
	const struct gs_work_losses *l = k->now ? &k->now->losses : NULL;
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

const char *job_kernel_missing(const struct job_kernel *k)
{
	return k->missing;
}
