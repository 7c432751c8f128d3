#include "model/summary/activity.h"

uint64_t gs_activity_totals_work(const struct gs_activity_totals *totals)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < GS_ACTIVITY_WORKS; w++)
		n += totals->n[w];
	return n;
}

const char *gs_activity_work_name(enum gs_activity_work work)
{
	static const char *const names[GS_ACTIVITY_WORKS] = {
		[GS_ACTIVITY_KERNELS] = "kernels",
		[GS_ACTIVITY_GRAPHS] = "graphs",
		[GS_ACTIVITY_COLLECTIVES] = "collectives",
		[GS_ACTIVITY_MEMSETS] = "fills",
		[GS_ACTIVITY_HOST_FUNCTIONS] = "host functions",
		[GS_ACTIVITY_COPIES + GS_COPY_H2H] = "copies HtoH",
		[GS_ACTIVITY_COPIES + GS_COPY_H2D] = "copies HtoD",
		[GS_ACTIVITY_COPIES + GS_COPY_D2H] = "copies DtoH",
		[GS_ACTIVITY_COPIES + GS_COPY_D2D] = "copies DtoD",
		[GS_ACTIVITY_COPIES + GS_COPY_DEFAULT] = "copies",
		[GS_ACTIVITY_COPIES + GS_COPY_P2P] = "copies to peers",
	};

	return names[work];
}

const char *gs_activity_limit_text(enum gs_activity_limit limit)
{
	static const char *const texts[GS_ACTIVITY_LIMITS] = {
		[GS_ACTIVITY_LIMIT_PROCESSES] = "calls of processes or devices beyond the limit",
		[GS_ACTIVITY_LIMIT_STREAMS] = "operations in streams beyond the limit",
		[GS_ACTIVITY_LIMIT_EVENTS] = "events beyond the limit",
		[GS_ACTIVITY_LIMIT_SEGMENTS] = "segments of pending work that were merged",
		[GS_ACTIVITY_LIMIT_WAITS] = "waits of streams for events beyond the limit",
		[GS_ACTIVITY_LIMIT_CAPTURES] = "captures beyond the limit",
		[GS_ACTIVITY_LIMIT_GRAPHS] = "graphs, or kernels of them, beyond the limit",
	};

	return texts[limit];
}

const char *gs_activity_compared_text(enum gs_gpu_compared why)
{
	static const char *const texts[GS_GPU_COMPARED_COUNT] = {
		[GS_GPU_COMPARED] = "",
		[GS_GPU_UNCOMPARED_NO_COUNTER] = "its utilization is not known",
		[GS_GPU_UNCOMPARED_OTHERS] = "other processes used it",
		[GS_GPU_UNCOMPARED_UNPLACED] = "which GPU some of the work ran on is not known",
		[GS_GPU_UNCOMPARED_SHORT] = "less than a second",
		[GS_GPU_UNCOMPARED_NO_ROOM] = "too many GPUs, processes or contexts",
	};

	return why < GS_GPU_COMPARED_COUNT ? texts[why] : "";
}

const char *gs_activity_compared_name(enum gs_gpu_compared why)
{
	static const char *const names[GS_GPU_COMPARED_COUNT] = {
		[GS_GPU_COMPARED] = "",
		[GS_GPU_UNCOMPARED_NO_COUNTER] = "no_counter",
		[GS_GPU_UNCOMPARED_OTHERS] = "other_processes",
		[GS_GPU_UNCOMPARED_UNPLACED] = "gpu_unknown",
		[GS_GPU_UNCOMPARED_SHORT] = "too_short",
		[GS_GPU_UNCOMPARED_NO_ROOM] = "too_many",
	};

	return why < GS_GPU_COMPARED_COUNT ? names[why] : "";
}

const char *gs_activity_limit_name(enum gs_activity_limit limit)
{
	static const char *const names[GS_ACTIVITY_LIMITS] = {
		[GS_ACTIVITY_LIMIT_PROCESSES] = "processes",
		[GS_ACTIVITY_LIMIT_STREAMS] = "streams",
		[GS_ACTIVITY_LIMIT_EVENTS] = "events",
		[GS_ACTIVITY_LIMIT_SEGMENTS] = "segments",
		[GS_ACTIVITY_LIMIT_WAITS] = "waits",
		[GS_ACTIVITY_LIMIT_CAPTURES] = "captures",
		[GS_ACTIVITY_LIMIT_GRAPHS] = "graphs",
	};

	return names[limit];
}
