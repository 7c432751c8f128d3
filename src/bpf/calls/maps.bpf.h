/*
 * The maps that all program families share. The first family that is loaded makes them, the others
 * are handed the same ones before they load (src/sources/uprobe/kernel.c), so every family declares
 * them all.
 */
#ifndef GS_BPF_CALLS_MAPS_BPF_H
#define GS_BPF_CALLS_MAPS_BPF_H

#include "kernel.bpf.h"
#include "model/trace/kernel_side.h"
#include "model/trace/python.h"

/* Events to user space. Its size is set before loading. It wakes no reader: the reader comes by
 * a timer, since a wakeup for each event costs several times the event. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} gs_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gs_kernel_state);
} gs_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GS_THREAD_MAX);
	__type(key, __u32);
	__type(value, struct gs_thread);
} gs_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GS_CELL_MAX);
	__type(key, __u32);
	__type(value, struct gs_cell);
} gs_cells SEC(".maps");

/* Looked at only when gs_config.modes is set. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gs_modes);
} gs_modes SEC(".maps");

/* Cells of functions whose ids were given during the run, by gs_cell_key(). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GS_CELL_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} gs_cell_of SEC(".maps");

/* Slots and cells that user space has taken back and cleared. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, GS_THREAD_MAX);
	__type(value, __u32);
} gs_free_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, GS_CELL_MAX);
	__type(value, __u32);
} gs_free_cells SEC(".maps");

/* The cgroup of GS_FILTER_CGROUP. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} gs_cgroup SEC(".maps");

/* Followed processes by pid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} gs_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct gs_task_mark);
} gs_marks SEC(".maps");

/* The accounts of threads, and which task has which: 0 none. Only with gs_config.account. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GS_ACCOUNT_MAX);
	__type(key, __u32);
	__type(value, struct gs_account);
} gs_accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, GS_ACCOUNT_MAX);
	__type(value, __u32);
} gs_free_accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} gs_account_marks SEC(".maps");

/* In place of gs_marks on kernels without task storage for tracing programs (before 5.11), by tid.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct gs_task_mark);
} gs_marks_by_tid SEC(".maps");

/* Python interpreters by pid: filled in by user space, inherited by fork, dropped by exec. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct gs_py_proc);
} gs_py_procs SEC(".maps");

const volatile struct gs_kernel_config gs_config = {};

#endif
