/*
 * Findings out of steps and samples: which steps count, when attempts are void, limits, and what stands
 * beside what. Whether detectors find what they should is tests/unit/detect's; whole recordings are e2e/explain's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../detect/random.h"
#include "../tui/sample.h"
#include "analysis/explain/explain.h"
#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"
#include "maker.h"

static void slow_steps_have_a_text(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	struct maker m = begin();

	take_steps(&m, 2, 7, 300, 1e8);
	take_steps(&m, 2, 7, 100, 1.5e8);
	finish(&m, 2, 7);
	assert_int_equal(m.result.n_findings, 1);
	assert_int_equal(m.result.n_steps, 400);
	assert_true(strncmp(gs_explain_text(&m.result.findings[0], text), "steps take 5", 12) ==
			    0 ||
		    strncmp(text, "steps take 4", 12) == 0);
	assert_non_null(strstr(text, "% longer ("));
	assert_string_equal(gs_explain_unit(&m.result.findings[0]), "ns");
	assert_int_equal(m.result.findings[0].ended_ns, 0);
	gs_explain_free(&m.e);
	assert_null(m.e);
}

/* Steps that begin again are another attempt; those of other slots and runs are not shown. */
static void other_attempts_are_void(void **state)
{
	struct maker m = begin();

	take_steps(&m, 0, 1, 300, 1e8);
	take_steps(&m, 0, 1, 100, 2e8);
	take_steps(&m, 1, 2, 300, 1e8);
	take_steps(&m, 1, 2, 100, 2e8);
	take_steps(&m, 1, 3, 400, 1e8);
	finish(&m, 1, 3);
	assert_int_equal(m.result.n_findings, 0);
	assert_int_equal(m.result.n_steps, 400);
	gs_explain_free(&m.e);

	m = begin();
	take_steps(&m, 0, 1, 300, 1e8);
	take_steps(&m, 0, 1, 100, 2e8);
	finish(&m, 0, 0); /* the summary has no steps */
	assert_int_equal(m.result.n_findings + m.result.n_steps, 0);
	gs_explain_free(&m.e);
}

/* Steps with unusual calls say that the program goes on, and nothing of its speed. */
static void odd_steps_have_no_speed(void **state)
{
	struct maker m = begin();

	take_steps(&m, 0, 1, 300, 1e9);
	for (unsigned i = 0; i < 100; i++) {
		struct gs_explain_step s = {.run = 1, .start_ns = m.now_ns, .dur_ns = 5 * S};

		assert_int_equal(gs_explain_take_step(m.e, &s), 0);
		m.now_ns += s.dur_ns;
		gs_explain_tick(m.e, m.now_ns);
	}
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 0);
	gs_explain_free(&m.e);
}

static void stall_until_the_end(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	struct maker m = begin();

	take_steps(&m, 0, 1, 200, 1e8);
	for (unsigned i = 1; i <= 60; i++)
		gs_explain_tick(m.e, m.now_ns + i * S);
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 1);
	assert_string_equal(m.result.findings[0].begun.detector, "stall");
	gs_explain_text(&m.result.findings[0], text);
	assert_non_null(strstr(text, "no step ended for "));
	gs_explain_free(&m.e);
}

/* Samples: a process whose memory grows, more processes than there are places, and a GPU without values. */
static void samples_of_nodes(void **state)
{
	struct maker m = begin();

	for (unsigned t = 0; t < 600; t++) {
		struct gs_node_snapshot *node = sample_node(2, 600, t);

		memset(node->gpu->sample[1].why, GS_GPU_REASON_NOT_READ,
		       sizeof(node->gpu->sample[1].why));
		if (t > 200)
			node->host->process[3].rss_bytes += (int64_t)(t - 200) << 22;
		assert_int_equal(gs_explain_take_node(m.e, node), 0);
		gs_node_snapshot_free(&node);
	}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_samples, 600);
	assert_int_equal(m.result.n_findings, 1);
	assert_int_equal(m.result.findings[0].subject, GS_EXPLAIN_PROCESS);
	assert_string_equal(m.result.findings[0].name, "node7 python3 103");
	assert_true(m.result.n_left_out > 0);
	gs_explain_free(&m.e);
}

/* A slow phase and a leak at the same time stand beside each other; one an hour later does not. */
static void findings_beside_each_other(void **state)
{
	struct maker m = begin();

	for (unsigned t = 0; t < 1500; t++) {
		struct gs_node_snapshot *node = sample_node(0, 1, t);

		if (t > 500)
			node->host->process[0].rss_bytes += (int64_t)(t - 500) << 22;
		take_steps(&m, 0, 1, 1, t >= 480 && t < 560 ? 1.5e9 : 1e9);
		node->time_ns = m.now_ns;
		assert_int_equal(gs_explain_take_node(m.e, node), 0);
		gs_node_snapshot_free(&node);
	}
	take_steps(&m, 0, 1, 200, 2e9); /* an hour later, with nothing beside it */
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 3);
	for (size_t i = 1; i < 3; i++)
		assert_true(m.result.findings[i - 1].begun.since_ns <=
			    m.result.findings[i].begun.since_ns);
	assert_int_equal(m.result.findings[2].n_beside, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(m.result.findings[i].n_beside, 1);
		assert_int_equal(m.result.findings[i].beside[0], 1 - i);
	}
	gs_explain_free(&m.e);
}

/* A call that takes longer is found where that matters: not short calls, nor for moments. */
static void calls_that_matter(void **state)
{
	static const char *const names[] = {"cudaStreamSynchronize", "cudaEventQuery",
					    "cudaMalloc"};
	static const double usual_ns[] = {1e7, 1e3, 1e7};
	struct maker m = begin();

	for (unsigned i = 0; i < 3000; i++)
		for (unsigned k = 0; k < 3; k++) {
			bool longer = k < 2 ? i >= 1500 : i >= 1500 && i < 1540;
			double ns = usual_ns[k] * (longer ? 3 : 1) *
				    (1 + 0.05 * draw_normal(&m.random));
			struct gs_explain_call c = {.process = 1,
						    .function = k + 1,
						    .pid = 100,
						    .comm = "train",
						    .name = names[k],
						    .bytes = k == 2 ? 5000000 : 0,
						    .start_ns = m.now_ns,
						    .dur_ns = (uint64_t)ns};

			assert_int_equal(gs_explain_take_call(m.e, &c), 0);
			m.now_ns += c.dur_ns;
		}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_findings, 1);
	assert_int_equal(m.result.findings[0].subject, GS_EXPLAIN_CALLS);
	assert_string_equal(m.result.findings[0].name, "cudaStreamSynchronize in train 100");
	assert_true(m.result.findings[0].after > 2.5e7);
	assert_int_equal(m.result.findings[0].ended_ns, 0);
	gs_explain_free(&m.e);
}

/* Sizes of one class are one series, which begins with its 64th call; more series than there are places are counted. */
static void series_of_calls(void **state)
{
	const unsigned n = GS_EXPLAIN_MAX_CALLS + 100;
	struct maker m = begin();

	for (unsigned i = 0; i < n; i++)
		for (uint64_t bytes = 4096; bytes < 4096 + 68; bytes++) {
			struct gs_explain_call c = {.process = 1,
						    .function = i + 1,
						    .pid = 100,
						    .comm = "train",
						    .name = "f",
						    .bytes = bytes,
						    .start_ns = m.now_ns,
						    .dur_ns = 10};

			assert_int_equal(gs_explain_take_call(m.e, &c), 0);
		}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_left_out,
			 (68 - GS_EXPLAIN_RARE_CALLS + 1) * (n - GS_EXPLAIN_MAX_CALLS));
	gs_explain_free(&m.e);
}

/* What many processes call some times as they start leaves the places to what they do all the time. */
static void rare_calls_take_no_place(void **state)
{
	struct maker m = begin();

	for (unsigned i = 0; i < 16 * GS_EXPLAIN_MAX_CALLS - 1; i++) {
		struct gs_explain_call c = {.process = i % 8 + 1,
					    .function = i / 8 + 1,
					    .pid = 100 + i % 8,
					    .comm = "train",
					    .name = "f",
					    .start_ns = m.now_ns,
					    .dur_ns = 10};

		assert_int_equal(gs_explain_take_call(m.e, &c), 0);
	}
	for (unsigned i = 0; i < 3 * GS_EXPLAIN_RARE_CALLS; i++) {
		struct gs_explain_call c = {.process = 1,
					    .function = 0,
					    .pid = 100,
					    .comm = "train",
					    .name = "g",
					    .start_ns = m.now_ns,
					    .dur_ns = 10};

		assert_int_equal(gs_explain_take_call(m.e, &c), 0);
	}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_left_out, 0);
	gs_explain_free(&m.e);
}

static void cause_is_where_the_time_went(void **state)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	const struct gs_explain_cause *c;
	struct maker m = begin();

	take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 1e7);
	take_accounted(&m, &a, 100, 1.5e8, GS_PART_DISK, 6e7);
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 1);
	c = &m.result.findings[0].cause;
	assert_string_equal(c->key, "disk");
	assert_true(c->confidence > 0.9 && c->confidence <= 1);
	assert_string_equal(c->evidence[0].key, "disk");
	assert_true(c->evidence[0].before > 0.9e7 && c->evidence[0].before < 1.1e7);
	assert_true(c->evidence[0].after > 5.5e7 && c->evidence[0].after < 6.5e7);
	assert_non_null(strstr(c->text, "waiting for a disk: "));
	assert_int_equal(m.result.findings[0].tid, 101);
	gs_explain_free(&m.e);
}

/* Where the account ends before, covers another thread, or shares the difference among many parts. */
static void cause_is_not_guessed(void **state)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	struct maker m = begin();

	take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 1e7);
	take_steps(&m, 0, 1, 100, 1.5e8);
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 1);
	assert_null(m.result.findings[0].cause.key);
	gs_explain_free(&m.e);

	m = begin();
	a = (struct gs_explain_account){.pid = 100, .tid = 102, .time_ns = SAMPLE_START_NS};
	take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 1e7);
	take_accounted(&m, &a, 100, 1.5e8, GS_PART_DISK, 6e7);
	finish(&m, 0, 1);
	assert_null(m.result.findings[0].cause.key);
	assert_int_equal(m.result.findings[0].cause.n_evidence, 0);
	gs_explain_free(&m.e);

	m = begin();
	a = (struct gs_explain_account){.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	take_accounted(&m, &a, 300, 1e8, GS_PART_DISK, 1e7);
	for (unsigned i = 0; i < 100; i++) {
		a.part_ns[GS_PART_LOCK] += 20000000;
		a.part_ns[GS_PART_FAULT] += 20000000;
		a.part_ns[GS_PART_CPU] -= 40000000;
		take_accounted(&m, &a, 1, 1.5e8, GS_PART_DISK, 2e7);
	}
	finish(&m, 0, 1);
	assert_null(m.result.findings[0].cause.key);
	assert_int_equal(m.result.findings[0].cause.n_evidence, 4);
	gs_explain_free(&m.e);
}

/* What its thread does since then; there is nothing to compare it with. */
static void cause_of_a_stall(void **state)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	const struct gs_explain_finding *f;
	struct maker m = begin();

	take_accounted(&m, &a, 200, 1e8, GS_PART_CPU, 0);
	for (unsigned i = 1; i <= 60; i++) {
		a.part_ns[i < 10 ? GS_PART_LOCK : GS_PART_NETWORK] += S;
		a.time_ns = m.now_ns + i * S;
		gs_explain_take_account(m.e, &a);
		gs_explain_tick(m.e, a.time_ns);
	}
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 1);
	f = &m.result.findings[0];
	assert_string_equal(f->begun.detector, "stall");
	assert_string_equal(f->cause.key, "network");
	assert_true(f->cause.confidence > 0.6 && f->cause.confidence < 0.9);
	assert_non_null(strstr(f->cause.text, "% of the time since then"));
	gs_explain_free(&m.e);
}

enum gpu_trouble {
	GPU_USUAL,
	GPU_HOT,
	GPU_ALWAYS_HOT,
	GPU_SHARED,
	GPU_XID,
	GPU_CAPPED,
	N_GPU_TROUBLES
};

static void take_gpu(struct maker *m, enum gpu_trouble trouble, unsigned t, bool is_slow)
{
	struct gs_node_snapshot *node = sample_node(1, 2, t);
	bool is_hot = trouble == GPU_ALWAYS_HOT || (trouble == GPU_HOT && is_slow);

	node->time_ns = m->now_ns;
	/* nvml.h: nvmlClocksEventReasonHwThermalSlowdown is 0x40, that of SwPowerCap 4. */
	gs_gpu_set(&node->gpu->sample[0], GS_GPU_THROTTLE_REASONS,
		   is_hot                             ? 0x40
		   : trouble == GPU_CAPPED && is_slow ? 4
						      : 0);
	for (unsigned k = 0; k < 2; k++)
		node->gpu->process[k].sm_ratio = 0;
	if (trouble == GPU_SHARED && is_slow)
		node->gpu->process[1].sm_ratio = 0.4;
	if (trouble == GPU_XID && t == 40) {
		node->gpu->event = calloc(1, sizeof(*node->gpu->event));
		node->gpu->n_events = 1;
		node->gpu->event[0].xid = 48;
		node->gpu->event[0].time_ns = node->time_ns;
		strcpy(node->gpu->event[0].pci_bus_id, node->gpu->info[0].pci_bus_id);
	}
	assert_int_equal(gs_explain_take_node(m->e, node), 0);
	gs_node_snapshot_free(&node);
}

/* After a wait for the GPU stands what came to it at that time, and nothing that was there before. */
static void cause_behind_a_wait(void **state)
{
	static const char *const keys[N_GPU_TROUBLES] = {
		"gpu_wait", "hw_thermal_slowdown", "gpu_wait", "neighbour", "xid", "gpu_wait"};

	for (unsigned trouble = 0; trouble < N_GPU_TROUBLES; trouble++) {
		struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
		const struct gs_explain_finding *f = NULL;
		struct maker m = begin();

		for (unsigned t = 0; t < 60; t++) {
			take_gpu(&m, trouble, t, t >= 40);
			take_accounted(&m, &a, t < 40 ? 10 : 7, t < 40 ? 1e8 : 1.5e8,
				       GS_PART_GPU_WAIT, t < 40 ? 9e7 : 1.4e8);
		}
		finish(&m, 0, 1);
		for (size_t i = 0; i < m.result.n_findings; i++)
			if (m.result.findings[i].subject == GS_EXPLAIN_STEPS)
				f = &m.result.findings[i];
		assert_non_null(f);
		assert_string_equal(f->cause.key, keys[trouble]);
		assert_non_null(strstr(f->cause.text, "waiting for the GPU: "));
		gs_explain_free(&m.e);
	}
}

/* What lies within a part of the account is named instead of it. */
static void cause_within_a_part(void **state)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	struct maker m = begin();

	take_accounted(&m, &a, 300, 1e8, GS_PART_CPU, 0);
	for (unsigned i = 0; i < 100; i++) {
		struct gs_explain_call c = {.process = 1,
					    .function = 9,
					    .pid = 100,
					    .tid = 101,
					    .layer = GS_LAYER_PYTHON,
					    .func_class = GS_CLASS_GC,
					    .comm = "train",
					    .name = "gc",
					    .start_ns = m.now_ns,
					    .dur_ns = 45000000};

		assert_int_equal(gs_explain_take_call(m.e, &c), 0);
		take_accounted(&m, &a, 1, 1.5e8, GS_PART_CPU, 0);
	}
	finish(&m, 0, 1);
	assert_string_equal(m.result.findings[m.result.n_findings - 1].cause.key, "gc");
	gs_explain_free(&m.e);
}

/* Ten thousand calls of one kind, a tenth of a millisecond apart. */
static struct gs_explain_finding shares_of(struct gs_explain_call call, unsigned *ret_n)
{
	struct gs_explain_finding first = {.subject = 0};
	struct maker m = begin();

	call.process = 1;
	call.function = 2;
	call.pid = 100;
	call.tid = 101;
	call.comm = "train";
	for (unsigned i = 0; i < 200000; i++) {
		call.start_ns = m.now_ns;
		assert_int_equal(gs_explain_take_call(m.e, &call), 0);
		m.now_ns += 100000;
	}
	finish(&m, 0, 0);
	*ret_n = (unsigned)m.result.n_findings;
	if (*ret_n)
		first = m.result.findings[0];
	gs_explain_free(&m.e);
	return first;
}

static void kinds_of_calls(void **state)
{
	struct gs_explain_call launch = {.func_class = GS_CLASS_LAUNCH, .name = "cudaLaunchKernel"};
	struct gs_explain_call copy = {.func_class = GS_CLASS_COPY,
				       .name = "cudaMemcpy",
				       .bytes = 1 << 20,
				       .aux = GS_COPY_H2D,
				       .arg = {1, 4096},
				       .seen_from_begin = true};
	char text[GS_EXPLAIN_TEXT_BYTES];
	struct gs_explain_finding f;
	unsigned n;

	launch.arg[1] = 1ull << 32 | 1;
	launch.arg[2] = 128ull << 32 | 1;
	launch.arg[3] = 1ull << 32 | 1;
	f = shares_of(launch, &n);
	assert_int_equal(n, 1);
	assert_int_equal(f.subject, GS_EXPLAIN_TINY_KERNELS);
	assert_string_equal(f.name, "train 100");
	assert_non_null(strstr(gs_explain_text(&f, text), "100 % of the kernels"));
	assert_string_equal(gs_explain_unit(&f), "ratio");
	launch.arg[1] = 1ull << 32 | 32;
	shares_of(launch, &n);
	assert_int_equal(n, 0);
	launch.arg[1] = 0; /* not read */
	shares_of(launch, &n);
	assert_int_equal(n, 0);

	launch.dur_ns = 60000;
	f = shares_of(launch, &n);
	assert_int_equal(n, 1);
	assert_int_equal(f.subject, GS_EXPLAIN_LAUNCHES);
	assert_int_equal(f.tid, 101);
	launch.dur_ns = 40000;
	shares_of(launch, &n);
	assert_int_equal(n, 0);

	f = shares_of(copy, &n);
	assert_int_equal(n, 1);
	assert_int_equal(f.subject, GS_EXPLAIN_PAGEABLE);
	copy.seen_from_begin = false; /* it may have pinned it before */
	shares_of(copy, &n);
	assert_int_equal(n, 0);
	copy.seen_from_begin = true;
	copy.aux = GS_COPY_DEFAULT;
	shares_of(copy, &n);
	assert_int_equal(n, 0);
}

/* Memory that was pinned by any of the calls for that, until it is given back. */
static void copies_of_pinned_memory(void **state)
{
	struct gs_explain_call copy = {.process = 1,
				       .function = 2,
				       .pid = 100,
				       .tid = 101,
				       .func_class = GS_CLASS_COPY,
				       .comm = "train",
				       .name = "cudaMemcpyAsync",
				       .bytes = 1 << 20,
				       .aux = GS_COPY_D2H,
				       .arg = {5 << 20, 1},
				       .seen_from_begin = true};
	struct gs_explain_call pin = copy;
	struct maker m = begin();

	pin.func_class = GS_CLASS_ALLOC;
	pin.name = "cudaHostAlloc";
	pin.bytes = 2 << 20;
	pin.start_ns = m.now_ns;
	pin.function = 3;
	assert_int_equal(gs_explain_take_call(m.e, &pin), 0);
	for (unsigned i = 0; i < 40000; i++) {
		copy.start_ns = m.now_ns;
		if (i == 20000) {
			pin.func_class = GS_CLASS_FREE;
			pin.start_ns = m.now_ns;
			assert_int_equal(gs_explain_take_call(m.e, &pin), 0);
		}
		assert_int_equal(gs_explain_take_call(m.e, &copy), 0);
		m.now_ns += 1000000;
	}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_findings, 1);
	assert_int_equal(m.result.findings[0].subject, GS_EXPLAIN_PAGEABLE);
	assert_true(m.result.findings[0].begun.since_ns > SAMPLE_START_NS + 14 * S);
	gs_explain_free(&m.e);
}

/* A process that holds memory of a GPU which does nothing, and one whose GPU works now and then. */
static void held_and_idle(void **state)
{
	struct gs_err err;

	for (unsigned busy = 0; busy < 2; busy++) {
		unsigned n_idle = 0;
		struct maker m = begin();

		assert_int_equal(gs_explain_set(m.e, "idle.window_samples", "60", &err), 0);
		for (unsigned t = 0; t < 100; t++) {
			struct gs_node_snapshot *node = sample_node(1, 2, t);

			gs_gpu_set(&node->gpu->sample[0], GS_GPU_UTIL, busy && t % 8 == 0 ? 1 : 0);
			assert_true(node->gpu->n_processes > 0);
			for (uint32_t i = 0; i < node->gpu->n_processes; i++)
				node->gpu->process[i].used_bytes = 1 << 30;
			assert_int_equal(gs_explain_take_node(m.e, node), 0);
			gs_node_snapshot_free(&node);
		}
		finish(&m, 0, 0);
		for (size_t i = 0; i < m.result.n_findings; i++)
			n_idle += m.result.findings[i].subject == GS_EXPLAIN_IDLE_GPU;
		assert_int_equal(n_idle, !busy);
		gs_explain_free(&m.e);
	}
}

static void memory_of_an_allocator(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	struct maker m = begin();

	for (unsigned t = 0; t < 300; t++) {
		struct gs_explain_memory memory = {
			.pid = 100, .comm = "train", .time_ns = m.now_ns + t * S};

		memory.allocated_bytes = 8e9;
		memory.used_bytes = t < 150 ? 7e9 : 3e9;
		assert_int_equal(gs_explain_take_memory(m.e, &memory), 0);
	}
	finish(&m, 0, 0);
	assert_int_equal(m.result.n_findings, 1);
	assert_int_equal(m.result.findings[0].subject, GS_EXPLAIN_ALLOCATOR);
	assert_non_null(
		strstr(gs_explain_text(&m.result.findings[0], text), "PyTorch's allocator holds "));
	gs_explain_free(&m.e);
}

/* Copies of one class of sizes, which take longer from half of the run on: larger ones, others, or the same. */
static struct gs_explain_cause cause_of_copies(uint64_t bytes, uint32_t kind, double longer)
{
	struct gs_explain_cause cause = {.key = NULL};
	struct maker m = begin();

	for (unsigned i = 0; i < 3000; i++) {
		bool is_later = i >= 1500;
		double ns = 5e7 * (is_later ? longer : 1) * (1 + 0.02 * draw_normal(&m.random));
		struct gs_explain_call c = {.process = 1,
					    .function = 1,
					    .pid = 100,
					    .tid = 100,
					    .func_class = GS_CLASS_COPY,
					    .comm = "train",
					    .name = "cudaMemcpy",
					    .bytes = is_later ? bytes : 5000000,
					    .aux = is_later ? kind : GS_COPY_D2D,
					    .start_ns = m.now_ns,
					    .dur_ns = (uint64_t)ns};

		assert_int_equal(gs_explain_take_call(m.e, &c), 0);
		m.now_ns += c.dur_ns;
	}
	finish(&m, 0, 0);
	for (size_t i = 0; i < m.result.n_findings; i++)
		if (m.result.findings[i].subject == GS_EXPLAIN_CALLS)
			cause = m.result.findings[i].cause;
	gs_explain_free(&m.e);
	return cause;
}

static void cause_of_calls_by_arguments(void **state)
{
	struct gs_explain_cause c = cause_of_copies(8000000, GS_COPY_D2D, 1.6);

	assert_string_equal(c.key, "bytes");
	/* When it began is not known to the call. */
	assert_memory_equal(c.text, "each call moves 7.", 18);
	assert_true(c.confidence > 0.9);
	c = cause_of_copies(5000000, GS_COPY_H2D, 1.6);
	assert_string_equal(c.key, "copy_direction");
	assert_non_null(strstr(c.text, " % more of them copy HtoD, before mostly DtoD"));
	assert_null(cause_of_copies(5000000, GS_COPY_D2D, 1.6).key);
	assert_null(cause_of_copies(5500000, GS_COPY_D2D, 2).key);
}

static void name_site(void *ctx, uint64_t site, char *out, size_t bytes)
{
	/* From 20 on they are stacks by which the same line is reached. */
	snprintf(out, bytes, site == 7 || site >= 20 ? "train.py:%llu" : "",
		 (unsigned long long)(site < 20 ? site : 20));
}

static void take_block(struct maker *m, uint64_t site, uint64_t address, bool is_free)
{
	struct gs_explain_call c = {.process = 1,
				    .function = is_free ? 2 : 1,
				    .pid = 100,
				    .tid = 100,
				    .func_class = is_free ? GS_CLASS_FREE : GS_CLASS_ALLOC,
				    .comm = "train",
				    .name = is_free ? "cudaFree" : "cudaMalloc",
				    .bytes = is_free ? 0 : 1000000,
				    .start_ns = m->now_ns,
				    .dur_ns = 1000,
				    .arg = {address},
				    .site = site};

	assert_int_equal(gs_explain_take_call(m->e, &c), 0);
}

/* A block a second of this many places, one after the other, and from place 3 one that is given back at once. */
static struct gs_explain_cause leak_of(unsigned n_sites, uint64_t first_site)
{
	struct gs_explain_cause cause = {.key = NULL};
	struct maker m = begin();
	unsigned n_leaks = 0;

	gs_explain_set_namer(m.e, name_site, NULL);
	for (unsigned t = 0; t < 1200; t++, m.now_ns += S) {
		struct gs_explain_memory memory = {.pid = 100,
						   .comm = "train",
						   .time_ns = m.now_ns,
						   .allocated_bytes = 1e6 * (t + 1),
						   .used_bytes = NAN};

		take_block(&m, first_site ? first_site + t % n_sites : 0, 4096 + t, false);
		take_block(&m, 3, 1, false);
		take_block(&m, 3, 1, true);
		assert_int_equal(gs_explain_take_memory(m.e, &memory), 0);
	}
	finish(&m, 0, 0);
	for (size_t i = 0; i < m.result.n_findings; i++)
		if (m.result.findings[i].subject == GS_EXPLAIN_ALLOCATED) {
			cause = m.result.findings[i].cause;
			n_leaks++;
		}
	assert_int_equal(n_leaks, 1);
	gs_explain_free(&m.e);
	return cause;
}

/* The place that most of a leak comes from; of many places none. */
static void cause_of_a_leak(void **state)
{
	struct gs_explain_cause c = leak_of(1, 7);

	assert_string_equal(c.key, "call_site");
	assert_true(c.confidence > 0.9);
	assert_memory_equal(c.text, "cudaMalloc at train.py:7: ", 26);
	c = leak_of(1, 0);
	assert_memory_equal(c.text, "cudaMalloc of 512 KiB or more: ", 31);
	assert_null(leak_of(4, 10).key);
	c = leak_of(4, 20);
	assert_string_equal(c.key, "call_site");
	assert_true(c.confidence > 0.9);
	assert_memory_equal(c.text, "cudaMalloc at train.py:20: ", 27);
	assert_null(
		leak_of(2, 10).key); /* half of it each: neither is the cause more than the other */
}

struct reports {
	unsigned n_begun, n_ended;
	char first[GS_EXPLAIN_TEXT_BYTES];
};

static void take_report(void *ctx, const struct gs_explain_finding *f)
{
	struct reports *r = ctx;

	if (!r->n_begun && !r->n_ended)
		gs_explain_text(f, r->first);
	r->n_ended += f->ended_ns != 0;
	r->n_begun += f->ended_ns == 0;
}

/* Each finding is reported when it begins and when it ends, and old ones make room for new ones. */
static void findings_as_they_come(void **state)
{
	struct reports r = {0};
	struct maker m = begin();

	take_steps(&m, 3, 1, 300, 1e8);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	assert_int_equal(r.n_begun + r.n_ended, 0);
	take_steps(&m, 3, 1, 40, 2e8);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	take_steps(&m, 3, 1, 40, 2e8);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	assert_int_equal(r.n_begun, 1);
	assert_int_equal(r.n_ended, 0);
	assert_non_null(strstr(r.first, "longer"));
	take_steps(&m, 3, 1, 100, 1e8);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	gs_explain_report(m.e, m.now_ns, take_report, &r);
	assert_int_equal(r.n_begun, 1);
	assert_int_equal(r.n_ended, 1);
	finish(&m, 3, 1);
	assert_int_equal(m.result.n_findings, 1);
	gs_explain_free(&m.e);
}

static void options_of_detectors(void **state)
{
	struct gs_err err;
	struct maker m = begin();

	assert_int_equal(gs_explain_set(m.e, "change.min_change", "60%", &err), 0);
	assert_int_equal(gs_explain_set(m.e, "change.min_change", "all", &err), -EINVAL);
	assert_int_equal(gs_explain_set(m.e, "change.nothing", "1", &err), -EINVAL);
	assert_int_equal(gs_explain_set(m.e, "nothing.min_change", "1", &err), -EINVAL);
	assert_int_equal(gs_explain_set(m.e, "change", "1", &err), -EINVAL);
	assert_int_equal(gs_explain_set(m.e, "", "", &err), -EINVAL);
	take_steps(&m, 0, 1, 300, 1e8);
	take_steps(&m, 0, 1, 200, 1.3e8);
	finish(&m, 0, 1);
	assert_int_equal(m.result.n_findings, 0);
	gs_explain_free(&m.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_steps_have_a_text),
		cmocka_unit_test(other_attempts_are_void),
		cmocka_unit_test(odd_steps_have_no_speed),
		cmocka_unit_test(stall_until_the_end),
		cmocka_unit_test(samples_of_nodes),
		cmocka_unit_test(findings_beside_each_other),
		cmocka_unit_test(calls_that_matter),
		cmocka_unit_test(series_of_calls),
		cmocka_unit_test(rare_calls_take_no_place),
		cmocka_unit_test(cause_is_where_the_time_went),
		cmocka_unit_test(cause_is_not_guessed),
		cmocka_unit_test(cause_of_a_stall),
		cmocka_unit_test(cause_behind_a_wait),
		cmocka_unit_test(cause_within_a_part),
		cmocka_unit_test(cause_of_a_leak),
		cmocka_unit_test(cause_of_calls_by_arguments),
		cmocka_unit_test(kinds_of_calls),
		cmocka_unit_test(copies_of_pinned_memory),
		cmocka_unit_test(held_and_idle),
		cmocka_unit_test(memory_of_an_allocator),
		cmocka_unit_test(findings_as_they_come),
		cmocka_unit_test(options_of_detectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
