/* Where work for GPUs is added up: shared by the programs for calls and those for ends of processes. */
#ifndef GS_BPF_CALLS_GPU_MAPS_BPF_H
#define GS_BPF_CALLS_GPU_MAPS_BPF_H

#include "maps.bpf.h"
#include "model/gpu_queue/gpu_queue.h"

/* All of them have one element where gs_config.gpu_queue is not set. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GS_GPU_QUEUE_PROCESS_MAX);
	__type(key, __u32);
	__type(value, struct gs_gpu_queue_process);
} gs_gpu_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GS_GPU_QUEUE_PROCESS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} gs_gpu_process_of SEC(".maps");

/* Indexes that user space has taken back and cleared. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, GS_GPU_QUEUE_PROCESS_MAX);
	__type(value, __u32);
} gs_free_gpu_processes SEC(".maps");

#endif
