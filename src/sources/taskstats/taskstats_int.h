/* Shared by the files of the work probes only. */
#ifndef GS_SOURCES_TASKSTATS_TASKSTATS_INT_H
#define GS_SOURCES_TASKSTATS_TASKSTATS_INT_H

#include "model/trace/taskstats_side.h"
#include "sources/taskstats/taskstats.h"

struct gs_taskstats_bpf;
struct bpf_link;

#define WORK_MAX_LINKS 20

struct gs_taskstats_probe {
	struct gs_taskstats_bpf *skeleton;
	struct bpf_link *links[WORK_MAX_LINKS];
	size_t n_links;
	int prog_fds[WORK_MAX_LINKS];
	struct bpf_link *walk;
	const char *missing[8]; /* texts that live for ever */
	size_t n_missing;

	uint32_t n_slots, n_cells; /* with the unused first of each */
	const uint8_t *slots;      /* mapped, with cells, by taskstats_show(); NULL: not now */
	const uint8_t *cells;
	const struct gs_taskstats_state *state;
	size_t slot_bytes, cell_bytes; /* of one */
	uint64_t rescanned;            /* the state's count at the last walk */
	uint64_t torn;
	uint64_t begun_ns, ready_ns; /* around the first walk */
	uint32_t families;

	int slots_fd, cells_fd, slot_of_fd, cell_of_fd, free_slots_fd, free_cells_fd;
	int pids_fd, groups_fd, rqs_fd, socks_fd;
};

static inline const struct gs_taskstats_slot *taskstats_slot(const struct gs_taskstats_probe *p,
							     uint32_t i)
{
	return (const void *)(p->slots + i * p->slot_bytes);
}

static inline const struct gs_taskstats_cell *taskstats_cell(const struct gs_taskstats_probe *p,
							     uint32_t i)
{
	return (const void *)(p->cells + i * p->cell_bytes);
}

/* What each system call waits for and moves, for both numberings. */
void taskstats_calls_fill(struct gs_taskstats_call_desc calls[2][GS_TASKSTATS_TABLE_CALLS]);

/* Map the slots and cells, if they are not. 0 or a negative errno. */
int taskstats_show(struct gs_taskstats_probe *p);

/* Walk over all tasks: marks those to be followed. */
int taskstats_walk(struct gs_taskstats_probe *p);

/* ---- texts of /proc ---- */

/* Majors of character devices of GPUs in the text of /proc/devices; returns how many. */
size_t taskstats_gpu_majors(const char *text, uint32_t *majors, size_t max);

struct taskstats_mount {
	uint32_t major, minor;
	char path[256];
	char type[32];
};

/* One line of mountinfo (proc(5)); false: it is not one. A path that is too long is cut. *ret_whole
 * says whether it is the file system's own root, not a folder of it mounted elsewhere. */
bool taskstats_mount_line(const char *line, struct taskstats_mount *ret, bool *ret_whole);

#endif
