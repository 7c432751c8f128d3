/*
 * What a sample of all GPUs costs, by group of values: gpu_sample [TIMES] [NVML LIBRARY].
 * For each group: how long a reading takes (median, most), and how much processor time this process
 * spent for it. The slow values are read each time, so their row is the worst that happens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/gpu/gpu.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000 +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000;
}

static int measure(const char *name, struct gs_gpu_options o, unsigned times)
{
	GS_FREE uint64_t *ns = calloc(times, sizeof(*ns));
	struct gs_gpu_snapshot *s = NULL;
	struct gs_gpu *gpu = NULL;
	unsigned n_gpus = 0, n_processes = 0;
	struct gs_err err = {{0}};
	uint64_t cpu = 0;
	int r;

	if (!ns || gs_gpu_open(&o, &gpu, &err) < 0)
		return 1;
	/* The first opens the library and reads what is static. */
	r = gs_gpu_read(gpu, &s);
	if (r == 0 && s->state != GS_GPU_STATE_OK) {
		fprintf(stderr, "%s\n", s->state_text);
		r = -1;
	}
	for (unsigned i = 0; r == 0 && i < times; i++) {
		gs_gpu_snapshot_free(&s);
		usleep(110000); /* GPM's shortest */
		cpu -= cpu_ns();
		r = gs_gpu_read(gpu, &s);
		cpu += cpu_ns();
		if (r < 0)
			break;
		ns[i] = s->read_ns;
		n_gpus = s->n_gpus;
		n_processes = s->n_processes;
	}
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
	if (r < 0)
		return 1;
	qsort(ns, times, sizeof(*ns), by_value);
	printf("%-22s %2u GPUs %3u processes   median %9.1f us   most %9.1f us   processor "
	       "%9.1f us\n",
	       name, n_gpus, n_processes, (double)ns[times / 2] / 1e3, (double)ns[times - 1] / 1e3,
	       (double)cpu / times / 1e3);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned groups;
		uint64_t slow_ns;
	} cases[] = {
		{"basic", GS_GPU_READ_BASIC, 0},
		{"processes", GS_GPU_READ_PROCESSES, 0},
		{"gpm", GS_GPU_READ_GPM, 0},
		{"links (sum)", GS_GPU_READ_LINKS, 0},
		{"links (each, slow)", GS_GPU_READ_LINKS, 1},
		{"health (slow)", GS_GPU_READ_HEALTH, 1},
		{"all, slow ones kept", GS_GPU_READ_ALL, 0},
		{"all, slow ones too", GS_GPU_READ_ALL, 1},
	};
	unsigned times = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20;

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_gpu_options o = {.size = sizeof(o),
					   .groups = cases[i].groups,
					   .slow_ns = cases[i].slow_ns,
					   .nvml_path = argc > 2 ? argv[2] : NULL};

		if (measure(cases[i].name, o, times ? times : 1))
			return 1;
	}
	return 0;
}
