/*
 * streams: a known number of everything in streams of every kind, and the program's own times around
 * it, as one line of JSON. It needs no GPU. Waits take FAKE_CUDA_SYNC_US.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cuda_abi.h"
#include "cuda_drv.h"

#define PAUSE_US 30000

/* Of the stretches of one stream: from inside and from outside of what a tracer can see. */
static struct {
	uint64_t before_ns, after_ns; /* the first launch of the stretch */
	uint64_t inner_ns, outer_ns;
	uint64_t done_before_ns, done_after_ns; /* the wait that ended the last one */
	uint64_t gap_inner_ns, gap_outer_ns, wait_outer_ns;
} times;

static cudaStream_t stream_a, stream_b;
static cudaEvent_t event;
static long second_tid;
static char memory[4096];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "streams: %s: %d\n", what, result);
	exit(1);
}

#define MUST(call) must((int)(call), #call)

static void kernel(void)
{
}

static void launch_on(cudaStream_t stream, unsigned n)
{
	void *params[1] = {&n};

	for (unsigned i = 0; i < n; i++)
		MUST(cudaLaunchKernel((const void *)kernel, (dim3){2, 1, 1}, (dim3){64, 1, 1},
				      params, 0, stream));
}

/* Stream A gets work after it had none. */
static void begin_stretch(void)
{
	times.before_ns = now_ns();
	launch_on(stream_a, 1);
	times.after_ns = now_ns();
	if (!times.done_after_ns)
		return;
	times.gap_inner_ns += times.before_ns - times.done_after_ns;
	times.gap_outer_ns += times.after_ns - times.done_before_ns;
}

static void end_stretch(void)
{
	times.done_before_ns = now_ns();
	MUST(cudaStreamSynchronize(stream_a));
	times.done_after_ns = now_ns();
	times.inner_ns += times.done_before_ns - times.after_ns;
	times.outer_ns += times.done_after_ns - times.before_ns;
	times.wait_outer_ns += times.done_after_ns - times.done_before_ns;
}

/* Its own default stream, by the functions of programs that are compiled so. */
static void *second_thread(void *arg)
{
	void *params[1] = {&arg};

	second_tid = gettid();
	for (unsigned i = 0; i < 11; i++)
		MUST(cudaLaunchKernel_ptsz((const void *)kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1},
					   params, 0, NULL));
	MUST(cudaStreamSynchronize_ptsz(NULL));
	return NULL;
}

static void copy_on_b(void)
{
	for (unsigned i = 0; i < 7; i++)
		MUST(cudaMemcpyAsync(memory + 2048, memory, 1000, cudaMemcpyHostToDevice,
				     stream_b));
	for (unsigned i = 0; i < 3; i++)
		MUST(cudaMemcpyAsync(memory, memory + 2048, 500, cudaMemcpyDeviceToHost, stream_b));
}

static void run_graph(void)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	MUST(cudaStreamBeginCapture(stream_a, cudaStreamCaptureModeGlobal));
	launch_on(stream_a, 13);
	MUST(cudaStreamEndCapture(stream_a, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	begin_stretch();
	for (unsigned i = 0; i < 3; i++)
		MUST(cudaGraphLaunch(exec, stream_a));
	end_stretch();
}

int main(void)
{
	pthread_t thread;

	MUST(cudaSetDevice(0));
	MUST(cudaStreamCreateWithFlags(&stream_a, 1));
	MUST(cudaStreamCreate(&stream_b));
	MUST(cudaEventCreateWithFlags(&event, 2));
	begin_stretch();
	launch_on(stream_a, 99);
	end_stretch();
	usleep(PAUSE_US);
	/* What is in B is done when A, which waits for it, is. */
	copy_on_b();
	MUST(cudaEventRecord(event, stream_b));
	begin_stretch();
	MUST(cudaStreamWaitEvent(stream_a, event, 0));
	launch_on(stream_a, 1);
	end_stretch();
	/* And when the default stream is. */
	launch_on(stream_b, 4);
	launch_on(NULL, 5);
	MUST(cudaStreamSynchronize(NULL));
	if (pthread_create(&thread, NULL, second_thread, NULL) || pthread_join(thread, NULL))
		return 1;
	run_graph();
	MUST(cudaStreamDestroy(stream_b));
	/* Nothing waits for this. */
	MUST(cudaSetDevice(1));
	launch_on(NULL, 2);
	printf("{\"pid\": %d, \"second_tid\": %ld, \"a\": \"%p\", \"b\": \"%p\", "
	       "\"inner_ns\": %" PRIu64 ", \"outer_ns\": %" PRIu64 ", \"gap_inner_ns\": %" PRIu64
	       ", \"gap_outer_ns\": %" PRIu64 ", \"wait_outer_ns\": %" PRIu64
	       ", \"pause_ns\": %d}\n",
	       getpid(), second_tid, (void *)stream_a, (void *)stream_b, times.inner_ns,
	       times.outer_ns, times.gap_inner_ns, times.gap_outer_ns, times.wait_outer_ns,
	       PAUSE_US * 1000);
	return 0;
}
