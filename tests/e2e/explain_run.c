/*
 * A recording with known findings, for explain.py and compare_runs.py: a run of 3,000 steps of a second, with a sample of the
 * machine each second.
 *
 * usage: explain_run FILE slow|clean|longer|near|short|empty
 *
 *   slow   the thread's account says that it waits for the GPU; steps 1200 to 1499 take 1.25 times as long, and GPU 0 has 0.6 of its power meanwhile; from step
 *          2000 on the program keeps 2 MiB more with each step
 *   clean  nothing of that
 *   longer each step takes 1.1 times as long, near: 1.004 times
 *   short  20 steps, no samples
 *   empty  neither
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../unit/aggregate/records.h"
#include "../unit/detect/random.h"
#include "../unit/tui/sample.h"
#include "model/node/record.h"
#include "model/trace/record_account.h"
#include "pipeline/recording/recording.h"

#define S       1000000000ull
#define N_STEPS 3000
#define N_CALLS 12
#define LAUNCH  1
#define SYNC    2
#define WALL_NS 1700000000000000000ll
#define CALL_NS 1000000ull

struct maker {
	struct stream stream;
	uint64_t now_ns, random;
	unsigned next_sample;
	bool is_slow;
	double factor;    /* of a step's length */
	uint64_t wait_ns; /* of the thread, for the GPU */
};

static void put_begin(struct maker *m)
{
	struct gs_rec_session *s;
	uint32_t host = put_text(&m->stream, "node7");

	s = put_record(&m->stream, GS_REC_SESSION, sizeof(*s), 0);
	s->version = GS_RECORD_VERSION;
	s->mode = GS_SESSION_EVENTS;
	s->start_ns = SAMPLE_START_NS;
	s->wall_minus_boot_ns = WALL_NS - (int64_t)SAMPLE_START_NS;
	s->host_str = host;
	put_process(&m->stream, 1, 100, "train");
	put_thread(&m->stream, 1, 1, 100, "train");
	put_function(&m->stream, LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH,
		     "cudaLaunchKernel");
	put_function(&m->stream, SYNC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC,
		     "cudaStreamSynchronize");
}

/* Launches, and a wait for the rest of the step. */
static void put_step(struct maker *m, unsigned step)
{
	bool slow = m->is_slow && step >= 1200 && step < 1500;
	double s = (slow ? 1.25 : m->factor) * exp(0.01 * draw_normal(&m->random));
	uint64_t end_ns = m->now_ns + (uint64_t)(s * 1e9);

	for (uint64_t i = 0; i < N_CALLS; i++) {
		put_call(&m->stream, 1, LAUNCH, m->now_ns, CALL_NS / 10)->arg[0] = 10 + i;
		m->now_ns += CALL_NS;
	}
	put_call(&m->stream, 1, SYNC, m->now_ns, end_ns - m->now_ns - CALL_NS);
	m->wait_ns += end_ns - m->now_ns - CALL_NS;
	m->now_ns = end_ns;
}

/* Where the time of the thread went until now. */
static void put_account(struct maker *m)
{
	uint32_t name = put_text(&m->stream, "train");
	struct gs_rec_account *a = put_record(&m->stream, GS_REC_ACCOUNT, sizeof(*a),
					      GS_STATE_COUNT * GS_INSIDE_COUNT * sizeof(uint64_t));

	a->pid = a->tid = 100;
	a->comm_str = a->process_str = name;
	a->n_states = GS_STATE_COUNT;
	a->n_insides = GS_INSIDE_COUNT;
	a->born_ns = SAMPLE_START_NS;
	a->time_ns = m->now_ns;
	a->ns[GS_STATE_OTHER * GS_INSIDE_COUNT + GS_INSIDE_GPU_WAIT] = m->wait_ns;
	a->ns[GS_STATE_CPU * GS_INSIDE_COUNT] = m->now_ns - SAMPLE_START_NS - m->wait_ns;
}

static void put_sample(struct maker *m, unsigned step)
{
	bool slow = m->is_slow && step >= 1200 && step < 1500;
	struct gs_node_snapshot *node = sample_node(2, 2, m->next_sample++);
	struct gs_gpu_sample *gpu = &node->gpu->sample[0];

	gs_gpu_set(gpu, GS_GPU_POWER, 700 * ((slow ? 0.48 : 0.8) + 0.02 * draw_normal(&m->random)));
	gs_gpu_set(gpu, GS_GPU_TEMP_GPU, 60 + draw_normal(&m->random));
	gs_gpu_set(gpu, GS_GPU_MEM_USED, (40 + 0.2 * draw_normal(&m->random)) * SAMPLE_GIB);
	if (m->is_slow && step >= 2000)
		node->host->process[1].rss_bytes += (int64_t)(step - 2000) << 21;
	if (gs_node_encode(&m->stream.buf, node) < 0)
		abort();
	gs_node_snapshot_free(&node);
}

static void put_end(struct maker *m)
{
	struct gs_rec_end *e = put_record(&m->stream, GS_REC_END, sizeof(*e), 0);

	e->end_ns = m->now_ns;
	e->exit_status = 0;
}

int main(int argc, char **argv)
{
	struct maker m = {.stream = STREAM_INIT, .now_ns = SAMPLE_START_NS, .random = 5};
	struct gs_recording *file = NULL;
	const char *kind = argc == 3 ? argv[2] : "";
	bool is_longer = strcmp(kind, "longer") == 0, is_near = strcmp(kind, "near") == 0;
	bool is_long =
		is_longer || is_near || strcmp(kind, "slow") == 0 || strcmp(kind, "clean") == 0;
	unsigned n_steps = is_long ? N_STEPS : strcmp(kind, "short") == 0 ? 20 : 0;
	struct gs_err err;

	if (argc != 3 || gs_recording_create(argv[1], NULL, &file, &err) < 0)
		return 2;
	m.is_slow = strcmp(kind, "slow") == 0;
	m.factor = is_longer ? 1.1 : is_near ? 1.004 : 1;
	m.random += is_longer + 2u * is_near; /* no two runs are the same */
	put_begin(&m);
	for (unsigned step = 0; step < n_steps; step++) {
		put_step(&m, step);
		if (is_long)
			put_account(&m);
		while (is_long && SAMPLE_START_NS + m.next_sample * S <= m.now_ns)
			put_sample(&m, step);
		if (step % 100 == 99 && stream_push(&m.stream, gs_recording_sink(file)) < 0)
			return 1;
	}
	put_end(&m);
	if (stream_push(&m.stream, gs_recording_sink(file)) < 0)
		return 1;
	stream_fini(&m.stream);
	return gs_recording_close(&file, &err) < 0;
}
