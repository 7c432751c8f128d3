/* Where the code of a process is mapped, from /proc/PID/maps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/perf_map.h"

/* A library that was unloaded and another that took its place are noticed so late at most; maps
 * that do not have an address are read at once, but a stack that leads nowhere must not have them
 * read for each capture. */
#define MAPS_OLD_NS  2000000000ull
#define MAPS_MISS_NS 20000000ull

static struct native_process *process_find(struct gs_native *n, uint32_t pid)
{
	uint64_t i;

	return gs_map_get(&n->proc_of_pid, pid, &i) ? &n->procs[i] : NULL;
}

static void process_clear(struct gs_native *n, struct native_process *p)
{
	gs_map_del(&n->proc_of_pid, p->pid);
	n->n_maps -= p->n_maps;
	free(p->maps);
	if (p->made_asked)
		native_ask_forget(n, p->pid);
	*p = (struct native_process){0};
}

/* A slot for the process; that used longest ago is taken when all are in use. */
static struct native_process *process_get(struct gs_native *n, uint32_t pid)
{
	struct native_process *p = process_find(n, pid), *oldest = &n->procs[0];
	size_t i;

	if (p)
		return p;
	for (i = 0; i < NATIVE_MAX_PROCS; i++) {
		if (!n->procs[i].pid) {
			oldest = &n->procs[i];
			break;
		}
		if (n->procs[i].used < oldest->used)
			oldest = &n->procs[i];
	}
	if (oldest->pid)
		process_clear(n, oldest);
	if (gs_map_put(&n->proc_of_pid, pid, (uint64_t)(oldest - n->procs)) < 0)
		return NULL;
	oldest->pid = pid;
	return oldest;
}

#define MADE_AGAIN_NS 20000000ull

bool native_made_name(struct gs_native *n, uint32_t pid, uint64_t pc, char *ret_name, size_t bytes)
{
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	struct native_process *p = process_find(n, pid);
	uint64_t now = gs_clock_mono_ns();
	int r;

	if (!p)
		return false;
	p->made_asked = true;
	if (native_ask_made(n, pid, pc, now, -1, ret_name, bytes) == 0)
		return true;
	if (p->made_refused || (p->made_ns && now - p->made_ns < MADE_AGAIN_NS))
		return false;
	p->made_ns = now;
	r = gs_perf_map_open(pid, &file);
	p->made_refused = r == -EPERM || r == -EINVAL;
	return r == 0 && native_ask_made(n, pid, pc, now, file.fd, ret_name, bytes) == 0;
}

void native_processes_fini(struct gs_native *n)
{
	for (size_t i = 0; i < NATIVE_MAX_PROCS; i++)
		free(n->procs[i].maps);
	gs_map_fini(&n->proc_of_pid);
}

struct reading {
	struct gs_native *n;
	uint32_t pid;
	struct native_map *maps;
	size_t n_maps, capacity;
	uint64_t now_ns;
};

static int take_mapping(void *ctx, const struct gs_mapping *m)
{
	struct reading *r = ctx;
	struct native_map *map;

	if (r->n_maps == NATIVE_MAX_MAPS)
		return 1;
	if (!gs_vec_reserve(&r->maps, &r->capacity, r->n_maps + 1))
		return -ENOMEM;
	map = &r->maps[r->n_maps++];
	*map = (struct native_map){
		.start = m->start, .end = m->end, .file_off = m->file_off, .since_ns = r->now_ns};
	if (m->is_vdso)
		map->file = native_file_vdso(r->n);
	else if (m->file)
		map->file = native_file_of(r->n, r->pid, m->file);
	return 0;
}

/* Forget processes that were looked at longest ago until all mappings fit. */
static void bound_maps(struct gs_native *n, const struct native_process *keep)
{
	while (n->n_maps > NATIVE_ALL_MAPS) {
		struct native_process *oldest = NULL;

		for (size_t i = 0; i < NATIVE_MAX_PROCS; i++) {
			struct native_process *p = &n->procs[i];

			if (p != keep && p->n_maps && (!oldest || p->used < oldest->used))
				oldest = p;
		}
		if (!oldest)
			return;
		process_clear(n, oldest);
	}
}

/* Of a process that has ended nothing new is to be had: what was known stays, and where nothing was, the part
 * that could be read before its end. */
static void read_maps(struct gs_native *n, struct native_process *p)
{
	struct reading reading = {.n = n, .pid = p->pid, .now_ns = gs_clock_mono_ns()};
	int r = gs_library_scan_mappings((pid_t)p->pid, take_mapping, &reading);

	p->tried_ns = gs_clock_mono_ns();
	if (reading.n_maps == 0 || (r < 0 && (r != -ESRCH || p->n_maps))) {
		free(reading.maps);
		return;
	}
	n->n_maps += reading.n_maps - p->n_maps;
	free(p->maps);
	p->maps = reading.maps;
	p->n_maps = reading.n_maps;
	p->read_ns = r < 0 ? 0 : reading.now_ns; /* what a part lacks, notices of before may have */
	bound_maps(n, p);
}

static const struct native_map *look_up(const struct native_process *p, uint64_t pc)
{
	size_t low = 0, high = p->n_maps;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->maps[mid].end <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low < p->n_maps && p->maps[low].start <= pc ? &p->maps[low] : NULL;
}

const struct native_map *native_map_find(struct gs_native *n, uint32_t pid, uint64_t pc)
{
	struct native_process *p = process_get(n, pid);
	const struct native_map *m;
	uint64_t age;

	if (!p)
		return NULL;
	p->used = ++n->uses;
	/* They may have been read for an earlier frame of this very stack. */
	age = n->now_ns > p->tried_ns ? n->now_ns - p->tried_ns : 0;
	if (age > MAPS_OLD_NS)
		read_maps(n, p);
	m = look_up(p, pc);
	if (!m && age > MAPS_MISS_NS && age <= MAPS_OLD_NS) {
		read_maps(n, p);
		m = look_up(p, pc);
	}
	return m;
}

const struct native_map *native_maps_of(struct gs_native *n, uint32_t pid, size_t *ret_n)
{
	const struct native_process *p;

	(void)native_map_find(n, pid, 0); /* reads them when they are old */
	p = process_find(n, pid);
	*ret_n = p ? p->n_maps : 0;
	return p ? p->maps : NULL;
}

/* Forget what was there before. */
static void drop_older(struct gs_native *native, struct native_process *p, uint64_t mono_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_maps; i++)
		if (p->maps[i].since_ns >= mono_ns)
			p->maps[n++] = p->maps[i];
	native->n_maps -= p->n_maps - n;
	p->n_maps = n;
	if (p->read_ns < mono_ns)
		p->read_ns = p->tried_ns = 0;
}

void gs_native_exec(struct gs_native *n, uint32_t pid, uint64_t mono_ns)
{
	struct native_process *p = process_get(n, pid);

	if (!p)
		return;
	drop_older(n, p, mono_ns);
	p->exec_ns = mono_ns;
}

void gs_native_stale(struct gs_native *n, uint32_t pid, uint64_t mono_ns)
{
	struct native_process *p = process_find(n, pid);

	if (!p)
		return;
	/* Where the notice of this exec is still to come, so are those of what was mapped since: all that is
	 * known is of the earlier program, and the addresses of two often are the same. */
	if (p->exec_ns <= p->task_ns || p->exec_ns > mono_ns)
		drop_older(n, p, mono_ns);
	p->task_ns = mono_ns;
	p->read_ns = p->tried_ns = 0;
}

/* Put it in its place; what it overlaps goes, or with keep it is left out itself. */
static void insert_map(struct gs_native *native, struct native_process *p,
		       const struct native_map *m, bool keep)
{
	struct native_map *grown;
	size_t at = 0, n = 0;

	for (size_t i = 0; i < p->n_maps; i++) {
		bool overlaps = p->maps[i].start < m->end && m->start < p->maps[i].end;

		if (overlaps && keep)
			return;
	}
	for (size_t i = 0; i < p->n_maps; i++) {
		if (p->maps[i].start < m->end && m->start < p->maps[i].end)
			continue;
		if (p->maps[i].start < m->start)
			at = n + 1;
		p->maps[n++] = p->maps[i];
	}
	native->n_maps -= p->n_maps - n;
	p->n_maps = n;
	if (n == NATIVE_MAX_MAPS)
		return;
	grown = realloc(p->maps, (n + 1) * sizeof(*grown));
	if (!grown)
		return;
	p->maps = grown;
	memmove(grown + at + 1, grown + at, (n - at) * sizeof(*grown));
	grown[at] = *m;
	p->n_maps++;
	native->n_maps++;
	bound_maps(native, p);
}

void gs_native_map(struct gs_native *n, uint32_t pid, uint64_t mono_ns, const struct gs_mapping *m)
{
	struct native_process *p = process_get(n, pid);
	struct native_map map = {
		.start = m->start, .end = m->end, .file_off = m->file_off, .since_ns = mono_ns};

	if (!p || !m->file)
		return;
	p->used = ++n->uses;
	/* What was read since knows it, or what has taken its place. */
	if (p->read_ns > mono_ns)
		return;
	map.file = native_file_of(n, pid, m->file);
	insert_map(n, p, &map, false);
}

void gs_native_fork(struct gs_native *n, uint32_t pid, uint32_t parent_pid, uint64_t mono_ns)
{
	struct native_process *p = process_get(n, pid);
	const struct native_process *from;

	if (p)
		p->task_ns = mono_ns;
	if (!p || p->exec_ns > mono_ns)
		return;            /* it has replaced what its parent had */
	drop_older(n, p, mono_ns); /* of an earlier process with this id */
	p->used = ++n->uses;
	from = process_find(n, parent_pid);
	for (size_t i = 0; from && from != p && i < from->n_maps; i++)
		insert_map(n, p, &from->maps[i], true);
}
