/* Where the code of a process is mapped, as /proc/PID/maps tells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "stack/native_int.h"

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
	free(p->maps);
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
};

static int take_mapping(void *ctx, const struct gs_mapping *m)
{
	struct reading *r = ctx;
	struct native_map *map;

	if (r->n_maps == NATIVE_MAX_MAPS)
		return 1;
	if (r->n_maps == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 64;
		struct native_map *grown = realloc(r->maps, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->maps = grown;
		r->capacity = capacity;
	}
	map = &r->maps[r->n_maps++];
	*map = (struct native_map){.start = m->start, .end = m->end, .file_off = m->file_off};
	if (m->is_vdso)
		map->file = native_file_vdso(r->n);
	else if (m->file)
		map->file = native_file_of(r->n, r->pid, m->file);
	return 0;
}

/* Of a process that has ended nothing new is to be had: what was known stays. */
static void read_maps(struct gs_native *n, struct native_process *p)
{
	struct reading reading = {.n = n, .pid = p->pid};
	int r = gs_library_scan_mappings((pid_t)p->pid, take_mapping, &reading);

	p->read_ns = gs_clock_mono_ns();
	if (r < 0 || reading.n_maps == 0) {
		free(reading.maps);
		return;
	}
	free(p->maps);
	p->maps = reading.maps;
	p->n_maps = reading.n_maps;
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
	age = gs_clock_mono_ns() - p->read_ns;
	if (!p->read_ns || age > MAPS_OLD_NS)
		read_maps(n, p);
	m = look_up(p, pc);
	if (!m && age > MAPS_MISS_NS) {
		read_maps(n, p);
		m = look_up(p, pc);
	}
	return m;
}

bool native_process_known(struct gs_native *n, uint32_t pid)
{
	const struct native_process *p = process_find(n, pid);

	return p && p->n_maps;
}

void gs_native_exec(struct gs_native *n, uint32_t pid)
{
	struct native_process *p = process_find(n, pid);

	if (p)
		process_clear(n, p);
}

void gs_native_fork(struct gs_native *n, uint32_t pid, uint32_t parent_pid)
{
	const struct native_process *from = process_find(n, parent_pid);
	struct native_process *p;
	struct native_map *maps;

	gs_native_exec(n, pid);
	if (!from || !from->n_maps)
		return;
	maps = malloc(from->n_maps * sizeof(*maps));
	p = maps ? process_get(n, pid) : NULL;
	/* The slot may be the parent's, when that was the one used longest ago. */
	from = process_find(n, parent_pid);
	if (!p || !from) {
		free(maps);
		return;
	}
	memcpy(maps, from->maps, from->n_maps * sizeof(*maps));
	p->maps = maps;
	p->n_maps = from->n_maps;
}
