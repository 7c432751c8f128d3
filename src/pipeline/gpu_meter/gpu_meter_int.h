/* Between the files of the room. */
#ifndef GS_PIPELINE_GPU_METER_GPU_METER_INT_H
#define GS_PIPELINE_GPU_METER_GPU_METER_INT_H

#include "core/base/map.h"
#include "core/reader/reader.h"
#include "model/trace/dict.h"
#include "pipeline/gpu_memory/gpu_memory.h"
#include "pipeline/gpu_meter/gpu_meter.h"
#include "pipeline/ingest/ingest.h"
#include "sources/identity/identity.h"
#include "sources/uprobe/uprobe.h"

#define METER_MAPS_MAX 65536u

struct gs_inside;
struct gs_companion_files;

struct meter_use { /* of a process on a GPU, as the driver has it */
	uint32_t process;
	char gpu[80];
	int64_t bytes, peak_bytes; /* -1 not known */
};

struct meter_process { /* its number is its index and 1 */
	uint32_t pid;
	bool ended;
	uint64_t ending_ns; /* its end was reported, then; 0 not */
	char comm[16];
};

struct gs_gpu_meter {
	struct gs_reader *files, *code; /* for the probes; for kernels */
	struct gs_uprobe *probe;        /* NULL: nothing is chosen */
	struct gs_identity *place;
	struct gs_ingest *feed;
	struct gs_memory *memory;
	struct gs_process_gpu *sums;
	struct gs_dict *dict;
	struct gs_activity_function function[GS_FUNC_FIXED];      /* by id */
	struct gs_memory_function memory_function[GS_FUNC_FIXED]; /* likewise */
	const char **globs;                                       /* owned; names are lent */
	size_t n_globs;
	struct meter_process *processes; /* owned */
	size_t n_processes, cap_processes;
	struct gs_map process_of; /* pid -> number, of those that live */
	struct gs_map thread_of;  /* tid -> number, likewise */
	uint32_t n_threads;
	uint32_t *gone; /* owned; threads that have ended since the last poll */
	size_t n_gone, cap_gone;
	struct gs_map born;     /* pids that began while they were watched */
	struct gs_map chosen;   /* pids */
	struct gs_map id_of;    /* pid -> id of ingest */
	struct meter_use *uses; /* owned */
	size_t n_uses, cap_uses;
	struct gs_gpu_meter_row *rows; /* owned; as of the last tick */
	size_t n_rows, cap_rows;
	struct gs_gpu_meter_memory *held; /* owned; likewise */
	size_t n_held, cap_held;
	struct gs_buf memory_records; /* scratch */
	size_t n_gpus;
	bool wants_needs; /* kernels were launched whose needs are not known */
	uint64_t needs_ns, rescan_ns;
	uint64_t n_lost, n_lost_before; /* before: by probes that are gone */
	/* Of processes that report from inside; NULL: all are seen by probes. */
	struct gs_companion_files *shared;
	struct gs_inside *inside;
	struct gs_map asked; /* pids of the last choice */
	struct gs_map
		followed; /* pids that began, or began another program, while they were watched */
};

/* --- probe.c: calls --- */

/* Which functions, and what they mean. -ENOMEM. */
int meter_functions_choose(struct gs_gpu_meter *m);
int meter_probe_open(struct gs_gpu_meter *m, const pid_t *pids, size_t n, struct gs_err *err);
void meter_probe_close(struct gs_gpu_meter *m);
void meter_probe_poll(struct gs_gpu_meter *m);

/* A call, or what became of a process or thread: the end of the way of events, by whichever door they came. ctx: the meter. */
void meter_take_event(void *ctx, const struct gs_event *event);

/* --- inside.c: processes that report from inside; nothing is done where none are looked for --- */

void meter_inside_close(struct gs_gpu_meter *m);

/* These are chosen from now on; before they get probes. */
void meter_inside_ask(struct gs_gpu_meter *m, const pid_t *pids, size_t n);

/* Processes that are not chosen any more are read to their ends, before others get probes. */
void meter_inside_forget(struct gs_gpu_meter *m);

/* True: the event comes later, in its order, or comes from inside as well. */
bool meter_inside_take(struct gs_gpu_meter *m, const struct gs_event *event);
void meter_inside_exec(struct gs_gpu_meter *m, uint32_t pid, uint64_t mono_ns);
bool meter_inside_leaves_out(struct gs_gpu_meter *m, uint32_t pid, const char *path);
void meter_inside_poll(struct gs_gpu_meter *m);

/* --- kernels.c: what launched kernels need --- */

/* The end of the records' way. */
struct gs_sink meter_records_sink(struct gs_gpu_meter *m);

/* A launch, of which what its kernel needs may be known. */
void meter_take_launch(struct gs_gpu_meter *m, const struct gs_event_call *event, uint32_t process,
		       uint32_t thread);

/* --- gpu_meter.c --- */

/* The number of a process, which is new perhaps; 0: no room. */
uint32_t meter_process_number(struct gs_gpu_meter *m, uint32_t pid);

#endif
