/*
 * What the engine of streams costs: ns of processor time a call, for one stream, for streams used in
 * turn, with events, and for many that wait for each other. Usage: bench_activity [N_CALLS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define MAX_RECORDS (1u << 15)

struct load {
	const char *name;
	unsigned streams, per_sync, per_event;
};

static const struct load loads[] = {
	{"one stream, a wait each 5,000 launches", 1, 5000, 0},
	{"one stream, a wait each 20", 1, 20, 0},
	{"four streams in turn, a wait each 1,000", 4, 1000, 0},
	{"four streams, an event each 10", 4, 1000, 10},
	{"10,000 streams in turn, a wait for each", 10000, 1, 0},
};

struct step {
	struct gs_rec_call call;
	struct gs_activity_function function;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct step make_step(const char *name, unsigned func_class, uint64_t stream)
{
	return (struct step){
		.call = {.thread = 1,
			 .dur_ns = 3000,
			 .stream = stream,
			 .arg = {0x1000, 128 | 1ull << 32, 1 | 256ull << 32, 1 | 1ull << 32}},
		.function = gs_activity_function_of(GS_LAYER_CUDA_RUNTIME, func_class, name)};
}

static size_t fill_steps(struct step *steps, const struct load *load)
{
	size_t n = 0;

	for (unsigned i = 1; n + 3 < MAX_RECORDS; i++) {
		uint64_t stream = 0x55d000000000 + 0x100ull * (i % load->streams);

		steps[n++] = make_step("cudaLaunchKernel", GS_CLASS_LAUNCH, stream);
		if (load->per_event && i % load->per_event == 0) {
			steps[n] = make_step("cudaEventRecord", GS_CLASS_EVENT, stream);
			steps[n++].call.arg[0] = 0x7f0000000000 + i % 64;
			steps[n] = make_step("cudaStreamWaitEvent", GS_CLASS_STREAM,
					     0x55d000000000 + 0x100ull * ((i + 1) % load->streams));
			steps[n++].call.arg[0] = 0x7f0000000000 + i % 64;
		}
		if (i % load->per_sync == 0)
			steps[n++] =
				load->streams > 1 && load->per_sync > 1
					? make_step("cudaDeviceSynchronize", GS_CLASS_SYNC, 0)
					: make_step("cudaStreamSynchronize", GS_CLASS_SYNC, stream);
	}
	return n;
}

static int measure_load(const struct load *load, unsigned long n_calls)
{
	GS_FREE struct step *steps = calloc(MAX_RECORDS, sizeof(*steps));
	struct gs_activity *a = NULL;
	uint64_t start_ns, time_ns = 1, launches = 0;
	unsigned long done = 0;
	size_t n;

	if (!steps || gs_activity_new(NULL, &a) < 0)
		return -1;
	n = fill_steps(steps, load);
	start_ns = cpu_ns();
	while (done < n_calls) {
		for (size_t i = 0; i < n; i++) {
			steps[i].call.start_ns = time_ns;
			time_ns += 4000;
			gs_activity_take_record(a, 1, &steps[i].call, steps[i].function);
		}
		done += n;
	}
	start_ns = cpu_ns() - start_ns;
	for (uint32_t i = 0; i < gs_activity_count_streams(a); i++) {
		struct gs_activity_stream s;

		if (gs_activity_read_stream(a, i, &s))
			launches += s.totals.n[GS_ACTIVITY_KERNELS];
	}
	printf("%-42s %6.1f ns/call %6.1f M calls/s  (%lu calls, %llu launches)\n", load->name,
	       (double)start_ns / (double)done, (double)done * 1e3 / (double)start_ns, done,
	       (unsigned long long)launches);
	gs_activity_free(&a);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long n_calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000000;

	for (size_t i = 0; i < GS_ARRAY_LEN(loads); i++)
		if (measure_load(&loads[i], n_calls) < 0)
			return 1;
	return 0;
}
