/*
 * Findings of what GPUs report: throttling, XIDs, errors of links, missing overlap; and causes of those that no
 * account of a thread explains. Each with data that has the trouble, and data that nearly has it.
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

#define S 1000000000ull

struct run {
	struct gs_explain *e;
	struct gs_explain_result result;
};

static struct run begin(void)
{
	struct run r = {NULL, {0}};

	assert_int_equal(gs_explain_new(&r.e), 0);
	return r;
}

static void take_node(struct run *r, struct gs_node_snapshot *node)
{
	assert_int_equal(gs_explain_take_node(r->e, node), 0);
	gs_node_snapshot_free(&node);
}

/* The n-th finding of the subject; NULL: there are not so many. */
static const struct gs_explain_finding *find(const struct run *r, enum gs_explain_subject subject,
					     size_t n)
{
	for (size_t i = 0; i < r->result.n_findings; i++)
		if (r->result.findings[i].subject == subject && n-- == 0)
			return &r->result.findings[i];
	return NULL;
}

static void finish(struct run *r)
{
	assert_int_equal(gs_explain_finish(r->e, 0, 0, &r->result), 0);
}

/* --- throttling --- */

/* nvml.h: nvmlClocksEventReasonHwThermalSlowdown is 0x40, that of SwPowerCap 4. */
#define HEAT      0x40
#define POWER_CAP 4

struct throttling {
	unsigned mask;
	double busy;     /* while it is throttled */
	unsigned one_in; /* so many samples have it */
	bool is_unknown; /* the driver does not say */
	bool is_found;
};

static void throttled_at_work(void **state)
{
	static const struct throttling cases[] = {
		{HEAT, 0.9, 1, false, true}, {HEAT, 0.9, 3, false, false},
		{HEAT, 0, 1, false, false},  {POWER_CAP, 0.9, 1, false, false},
		{HEAT, 0.9, 1, true, false},
	};
	char text[GS_EXPLAIN_TEXT_BYTES];

	for (size_t k = 0; k < GS_ARRAY_LEN(cases); k++) {
		const struct throttling *c = &cases[k];
		const struct gs_explain_finding *f;
		struct run r = begin();

		for (unsigned t = 0; t < 60; t++) {
			struct gs_node_snapshot *node = sample_node(2, 2, t);
			struct gs_gpu_sample *s = &node->gpu->sample[1];
			bool is_slow = t >= 30 && t % c->one_in == 0;

			gs_gpu_set(s, GS_GPU_UTIL, is_slow ? c->busy : 0.9);
			gs_gpu_set(s, GS_GPU_THROTTLE_REASONS, is_slow ? c->mask : 0);
			if (c->is_unknown)
				s->why[GS_GPU_THROTTLE_REASONS] = GS_GPU_REASON_NOT_SUPPORTED;
			take_node(&r, node);
		}
		finish(&r);
		f = find(&r, GS_EXPLAIN_THROTTLED, 0);
		assert_int_equal(f != NULL, c->is_found);
		if (f) {
			assert_string_equal(f->name, "node7 GPU 1");
			assert_string_equal(f->begun.detector, "throttle");
			assert_non_null(strstr(gs_explain_text(f, text), "% of its time at work"));
			assert_string_equal(f->cause.key, "hw_thermal_slowdown");
			assert_non_null(strstr(gs_explain_advice(f), "airflow"));
			assert_string_equal(gs_explain_unit(f), "ratio");
		}
		gs_explain_free(&r.e);
	}
}

/* --- XIDs --- */

static void add_xid(struct gs_node_snapshot *node, uint32_t gpu, uint32_t xid)
{
	struct gs_gpu_snapshot *g = node->gpu;

	g->event = realloc(g->event, (g->n_events + 1) * sizeof(*g->event));
	assert_non_null(g->event);
	g->event[g->n_events] = (struct gs_gpu_event){.xid = xid, .time_ns = node->time_ns};
	strcpy(g->event[g->n_events++].pci_bus_id, g->info[gpu].pci_bus_id);
}

/* Each number is a finding, however often it comes; it is over when none came for ten minutes. */
static void xids_by_number(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	const struct gs_explain_finding *f;
	struct run r = begin();

	for (unsigned t = 0; t < 1500; t++) {
		struct gs_node_snapshot *node = sample_node(2, 2, t);

		if (t == 100 || t == 160)
			add_xid(node, 1, 79);
		if (t == 160)
			add_xid(node, 1, 31);
		if (t == 1490)
			add_xid(node, 1, 79);
		if (t == 50) /* another event than an XID */
			add_xid(node, 0, 0);
		take_node(&r, node);
	}
	finish(&r);
	f = find(&r, GS_EXPLAIN_XID, 0);
	assert_non_null(f);
	assert_int_equal(f->xid, 79);
	assert_int_equal(f->gpu, 2);
	assert_string_equal(f->name, "node7 GPU 1 XID 79");
	assert_true(f->begun.since_ns == SAMPLE_START_NS + 100 * S);
	assert_true(f->ended_ns == SAMPLE_START_NS + 160 * S);
	assert_non_null(strstr(gs_explain_text(f, text), gs_gpu_xid_text(79)));
	assert_non_null(strstr(text, " (2 times)"));
	assert_string_equal(gs_explain_unit(f), "count");
	assert_non_null(strstr(gs_explain_advice(f), "XID guide"));
	f = find(&r, GS_EXPLAIN_XID, 1);
	assert_int_equal(f->xid, 31);
	assert_non_null(strstr(gs_explain_advice(f), "compute-sanitizer"));
	assert_null(strstr(gs_explain_text(f, text), "times)"));
	f = find(&r, GS_EXPLAIN_XID, 2);
	assert_int_equal(f->xid, 79);
	assert_int_equal(f->ended_ns, 0);
	assert_null(find(&r, GS_EXPLAIN_XID, 3));
	gs_explain_free(&r.e);
}

/* --- links --- */

/* Errors that came in each of ten samples, six seconds apart. */
static struct run count_errors(enum gs_gpu_field field, double first, double each, bool restarts)
{
	struct run r = begin();
	double sum = first;

	for (unsigned t = 0; t < 200; t++) {
		struct gs_node_snapshot *node = sample_node(1, 1, t);

		sum += t >= 100 && t < 160 && t % 6 == 0 ? each : 0;
		if (restarts && t == 120)
			sum = 0;
		gs_gpu_set(&node->gpu->sample[0], field, sum);
		if (t == 0) /* known from the second sample on */
			node->gpu->sample[0].why[field] = GS_GPU_REASON_NOT_READ;
		take_node(&r, node);
	}
	finish(&r);
	return r;
}

static void errors_of_links(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	const struct gs_explain_finding *f;
	struct run r = count_errors(GS_GPU_PCIE_REPLAYS, 1e6, 1, false);

	f = find(&r, GS_EXPLAIN_PCIE, 0);
	assert_non_null(f);
	assert_string_equal(f->begun.detector, "link_errors");
	assert_true(f->begun.since_ns >= SAMPLE_START_NS + 100 * S);
	assert_true(f->begun.since_ns <= SAMPLE_START_NS + 103 * S);
	assert_string_equal(gs_explain_text(f, text), "node7 GPU 0: 10 errors of its PCIe link");
	assert_null(find(&r, GS_EXPLAIN_NVLINK, 0));
	gs_explain_free(&r.e);

	r = count_errors(GS_GPU_NVLINK_CRC, 0, 50, false);
	f = find(&r, GS_EXPLAIN_NVLINK, 0);
	assert_non_null(f);
	assert_string_equal(gs_explain_text(f, text), "node7 GPU 0: 50 errors of its NVLinks");
	assert_null(find(&r, GS_EXPLAIN_PCIE, 0));
	gs_explain_free(&r.e);

	/* Nearly: nine in a minute, what was there before, a counter that began again, errors that
	 * error correction mends. */
	r = count_errors(GS_GPU_PCIE_REPLAYS, 1e6, 0.9, false);
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = count_errors(GS_GPU_PCIE_REPLAYS, 1e6, 0, false);
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = count_errors(GS_GPU_NVLINK_REPLAY, 1e6, 0, true);
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = count_errors(GS_GPU_NVLINK_SYMBOL, 0, 1e6, false);
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
}

/* --- overlap --- */

/* A window of a tenth of a second each second: kernels of 1 ms, and of each 10 ms comm_us of communication, of
 * which beside_us lie beside kernels. Work comes by stream, so in no order. */
static void take_window(struct run *r, unsigned t, uint64_t comm_us, uint64_t beside_us)
{
	struct gs_explain_gpu_work w = {.pid = 100, .comm = "train", .device = 0};
	uint64_t begin_ns = SAMPLE_START_NS + t * S;

	for (unsigned k = 0; k < 10 && comm_us; k++) {
		w.is_comm = true;
		w.start_ns = begin_ns + k * 10000000ull + 5000000 - beside_us * 1000;
		w.end_ns = w.start_ns + comm_us * 1000;
		assert_int_equal(gs_explain_take_gpu_work(r->e, &w), 0);
	}
	for (unsigned k = 0; k < 50; k++) {
		w.is_comm = false;
		w.start_ns = begin_ns + k / 5 * 10000000ull + k % 5 * 1000000ull;
		w.end_ns = w.start_ns + 1000000;
		assert_int_equal(gs_explain_take_gpu_work(r->e, &w), 0);
	}
	w.start_ns = 0; /* its time is not known */
	assert_int_equal(gs_explain_take_gpu_work(r->e, &w), 0);
	assert_int_equal(gs_explain_take_window_end(r->e, 100), 0);
}

static struct run windows_of(unsigned n, uint64_t comm_us, uint64_t beside_us)
{
	struct run r = begin();

	for (unsigned t = 0; t < n; t++)
		take_window(&r, t, comm_us, beside_us);
	finish(&r);
	return r;
}

static void missing_overlap(void **state)
{
	char text[GS_EXPLAIN_TEXT_BYTES];
	const struct gs_explain_finding *f;
	struct run r = windows_of(5, 4000, 100);

	assert_int_equal(r.result.n_findings, 1);
	f = find(&r, GS_EXPLAIN_OVERLAP, 0);
	assert_non_null(f);
	assert_string_equal(f->name, "train 100 GPU 0");
	assert_int_equal(f->pid, 100);
	assert_true(f->begun.after > 0.97 && f->begun.after < 0.98);
	assert_string_equal(
		gs_explain_text(f, text),
		"train 100 GPU 0: 98 % of the time in communication overlaps no computation");
	gs_explain_free(&r.e);

	r = windows_of(5, 4000, 1000); /* a quarter of it overlaps */
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = windows_of(5, 500, 0); /* of 5 % of the time nobody needs to know */
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = windows_of(2, 4000, 0); /* two windows may be a moment */
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
	r = windows_of(5, 0, 0); /* one GPU has nobody to talk to */
	assert_int_equal(r.result.n_findings, 0);
	gs_explain_free(&r.e);
}

/* One window over the whole run is added up on the way. */
static void window_without_an_end(void **state)
{
	struct gs_explain_gpu_work w = {.pid = 100, .comm = "train"};
	struct run r = begin();

	for (unsigned k = 0; k < 30000; k++) {
		w.is_comm = k % 2;
		w.start_ns = SAMPLE_START_NS + k * 1000000ull;
		w.end_ns = w.start_ns + 1000000;
		assert_int_equal(gs_explain_take_gpu_work(r.e, &w), 0);
	}
	finish(&r);
	assert_non_null(find(&r, GS_EXPLAIN_OVERLAP, 0));
	gs_explain_free(&r.e);
}

/* --- causes --- */

/* Of a node whose memory grows, the process that grows is named; not one that is only large, nor, where two share
 * it with others that are not seen, any. */
static void whose_memory_grew(void **state)
{
	for (unsigned seen = 0; seen < 2; seen++) {
		const struct gs_explain_finding *node_leak, *gpu_leak;
		struct run r = begin();

		for (unsigned t = 0; t < 1200; t++) {
			struct gs_node_snapshot *node = sample_node(1, 4, t);
			int64_t more = t > 500 ? (int64_t)(t - 500) << 22 : 0;

			node->host->sample.mem_used_bytes += more;
			gs_gpu_set(&node->gpu->sample[0], GS_GPU_MEM_USED,
				   10 * SAMPLE_GIB + (double)more);
			node->host->process[1].rss_bytes += seen ? more : more / 4;
			node->gpu->process[2].used_bytes += seen ? more : more / 4;
			take_node(&r, node);
		}
		finish(&r);
		node_leak = find(&r, GS_EXPLAIN_NODE_MEMORY, 0);
		gpu_leak = find(&r, GS_EXPLAIN_GPU_MEMORY, 0);
		assert_non_null(node_leak);
		assert_non_null(gpu_leak);
		if (seen) {
			assert_string_equal(node_leak->cause.key, "process");
			assert_int_equal(node_leak->cause.pid, 101);
			assert_true(strncmp(node_leak->cause.text, "python1 101: ", 13) == 0);
			assert_int_equal(gpu_leak->cause.pid, 102);
			assert_true(gpu_leak->cause.confidence > 0.5);
		} else {
			assert_null(node_leak->cause.key);
			assert_null(gpu_leak->cause.key);
		}
		gs_explain_free(&r.e);
	}
}

static void who_holds_an_idle_gpu(void **state)
{
	const struct gs_explain_finding *f;
	struct run r = begin();
	struct gs_err err;

	assert_int_equal(gs_explain_set(r.e, "idle.window_samples", "30", &err), 0);
	for (unsigned t = 0; t < 60; t++) {
		struct gs_node_snapshot *node = sample_node(1, 2, t);

		gs_gpu_set(&node->gpu->sample[0], GS_GPU_UTIL, 0);
		node->gpu->process[1].used_bytes = 40ll << 30;
		take_node(&r, node);
	}
	finish(&r);
	f = find(&r, GS_EXPLAIN_IDLE_GPU, 0);
	assert_non_null(f);
	assert_string_equal(f->cause.key, "process");
	assert_int_equal(f->cause.pid, 101);
	assert_non_null(strstr(f->cause.text, "python1 101 holds 40"));
	gs_explain_free(&r.e);
}

static bool has_evidence(const struct gs_explain_finding *f, const char *key)
{
	for (uint32_t i = 0; i < f->cause.n_evidence; i++)
		if (strcmp(f->cause.evidence[i].key, key) == 0)
			return true;
	return false;
}

/* Calls of 10 ms that take 30 ms: the thread waits for a processor inside of them, or does not say why. */
static void why_calls_take_longer(void **state)
{
	static const unsigned parts[] = {GS_PART_RUNQUEUE, GS_PART_LOCK, GS_PART_COUNT};

	for (size_t k = 0; k < GS_ARRAY_LEN(parts); k++) {
		struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
		const struct gs_explain_finding *f;
		uint64_t now_ns = SAMPLE_START_NS, random = 3;
		struct run r = begin();

		for (unsigned i = 0; i < 2500; i++) {
			bool is_slow = i >= 1500;
			double ns = 1e7 * (is_slow ? 3 : 1) * (1 + 0.05 * draw_normal(&random));
			struct gs_explain_call c = {.process = 1,
						    .function = 1,
						    .pid = 100,
						    .tid = 101,
						    .comm = "train",
						    .name = "cudaStreamSynchronize",
						    .start_ns = now_ns,
						    .dur_ns = (uint64_t)ns};

			assert_int_equal(gs_explain_take_call(r.e, &c), 0);
			now_ns += c.dur_ns;
			a.calls_ns[GS_PART_CPU] += 10000000;
			if (is_slow && parts[k] < GS_PART_COUNT)
				a.calls_ns[parts[k]] += c.dur_ns - 10000000;
			if (now_ns - a.time_ns < S)
				continue;
			a.time_ns = now_ns;
			gs_explain_take_account(r.e, &a);
		}
		finish(&r);
		f = find(&r, GS_EXPLAIN_CALLS, 0);
		assert_non_null(f);
		if (parts[k] == GS_PART_COUNT) {
			assert_null(f->cause.key);
		} else {
			assert_string_equal(f->cause.key, gs_account_part_name(parts[k]));
			assert_true(has_evidence(f, f->cause.key));
			assert_non_null(strstr(f->cause.text, " inside of these calls: "));
		}
		gs_explain_free(&r.e);
	}
}

/* Launches, many or slow; copies, into the GPU or out of it. */
static void what_makes_a_share(void **state)
{
	static const struct {
		uint64_t launch_ns, every_ns;
		const char *key;
	} launches[] = {{9000, 15000, "many_launches"}, {600000, 800000, "slow_launches"}};
	struct gs_explain_call c = {.process = 1,
				    .function = 1,
				    .pid = 100,
				    .tid = 101,
				    .comm = "train",
				    .seen_from_begin = true};
	const struct gs_explain_finding *f;

	for (size_t k = 0; k < 2; k++) {
		struct run r = begin();

		c.func_class = GS_CLASS_LAUNCH;
		c.name = "cudaLaunchKernel";
		c.dur_ns = launches[k].launch_ns;
		c.start_ns = SAMPLE_START_NS;
		while (c.start_ns < SAMPLE_START_NS + 20 * S) {
			assert_int_equal(gs_explain_take_call(r.e, &c), 0);
			c.start_ns += launches[k].every_ns;
		}
		finish(&r);
		f = find(&r, GS_EXPLAIN_LAUNCHES, 0);
		assert_non_null(f);
		assert_string_equal(f->cause.key, launches[k].key);
		gs_explain_free(&r.e);
	}
	for (unsigned out = 0; out < 2; out++) {
		struct run r = begin();

		c.func_class = GS_CLASS_COPY;
		c.name = "cudaMemcpy";
		c.bytes = 1 << 20;
		c.aux = out ? GS_COPY_D2H : GS_COPY_H2D;
		c.arg[0] = 1;
		c.arg[1] = 4096;
		for (unsigned i = 0; i < 20000; i++) {
			c.start_ns = SAMPLE_START_NS + i * 1000000ull;
			assert_int_equal(gs_explain_take_call(r.e, &c), 0);
		}
		finish(&r);
		f = find(&r, GS_EXPLAIN_PAGEABLE, 0);
		assert_non_null(f);
		assert_string_equal(f->cause.key, out ? "device_to_host" : "host_to_device");
		assert_true(f->cause.confidence == 1);
		gs_explain_free(&r.e);
	}
}

/* Steps of 100 ms, then of 150 ms, which more_ns of each waits in the part; one stress a second, of each amount. */
static struct run take_stress(unsigned part, enum gs_explain_stress_kind kind, double before,
			      double after)
{
	struct gs_explain_account a = {.pid = 100, .tid = 101, .time_ns = SAMPLE_START_NS};
	uint64_t now_ns = SAMPLE_START_NS, random = 3;
	struct run r = begin();

	for (unsigned i = 0; i < 400; i++) {
		double ns = (i < 300 ? 1e8 : 1.5e8) * (1 + 0.01 * draw_normal(&random));
		struct gs_explain_step s = {.run = 1,
					    .pid = 100,
					    .tid = 101,
					    .start_ns = now_ns,
					    .dur_ns = (uint64_t)ns,
					    .regular = true};

		assert_int_equal(gs_explain_take_step(r.e, &s), 0);
		now_ns += s.dur_ns;
		a.part_ns[GS_PART_CPU] += 100000000;
		a.part_ns[part] += i < 300 ? 0 : 50000000;
		if (now_ns - a.time_ns < S)
			continue;
		gs_explain_take_stress(r.e, &(struct gs_explain_stress){kind, now_ns - 1,
									i < 300 ? before : after});
		a.time_ns = now_ns;
		gs_explain_take_account(r.e, &a);
	}
	assert_int_equal(gs_explain_finish(r.e, 0, 1, &r.result), 0);
	assert_int_equal(r.result.n_findings, 1);
	return r;
}

/* A CPU quota and TCP are named where they explain a wait, and are evidence where they do not. */
static void stresses_beside_waits(void **state)
{
	const struct gs_explain_cause *c;
	struct run r = take_stress(GS_PART_RUNQUEUE, GS_EXPLAIN_QUOTA, 0, 3.3e8);

	c = &r.result.findings[0].cause;
	assert_string_equal(c->key, "cpu_quota");
	assert_non_null(strstr(c->text, "no CPU was free: "));
	assert_non_null(strstr(c->text, "; the CPU quota of the cgroup stopped it for "));
	assert_true(has_evidence(&r.result.findings[0], "cpu_quota"));
	assert_non_null(strstr(gs_explain_advice(&r.result.findings[0]), "quota"));
	gs_explain_free(&r.e);

	/* As much before, too little, and beside another wait. */
	r = take_stress(GS_PART_RUNQUEUE, GS_EXPLAIN_QUOTA, 3.3e8, 3.3e8);
	assert_string_equal(r.result.findings[0].cause.key, "runqueue");
	gs_explain_free(&r.e);
	r = take_stress(GS_PART_RUNQUEUE, GS_EXPLAIN_QUOTA, 0, 1e8);
	assert_string_equal(r.result.findings[0].cause.key, "runqueue");
	assert_true(has_evidence(&r.result.findings[0], "cpu_quota"));
	gs_explain_free(&r.e);
	r = take_stress(GS_PART_DISK, GS_EXPLAIN_QUOTA, 0, 3.3e8);
	assert_string_equal(r.result.findings[0].cause.key, "disk");
	gs_explain_free(&r.e);

	r = take_stress(GS_PART_NETWORK, GS_EXPLAIN_RETRANSMITS, 2, 40);
	c = &r.result.findings[0].cause;
	assert_string_equal(c->key, "retransmits");
	assert_non_null(strstr(c->text, "; TCP retransmitted "));
	assert_true(c->evidence[c->n_evidence - 1].is_count);
	gs_explain_free(&r.e);
	r = take_stress(GS_PART_NETWORK, GS_EXPLAIN_RETRANSMITS, 40, 50);
	assert_string_equal(r.result.findings[0].cause.key, "network");
	gs_explain_free(&r.e);
	r = take_stress(GS_PART_LOCK, GS_EXPLAIN_RETRANSMITS, 2, 40);
	assert_string_equal(r.result.findings[0].cause.key, "lock");
	assert_true(has_evidence(&r.result.findings[0], "retransmits"));
	gs_explain_free(&r.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(throttled_at_work),     cmocka_unit_test(xids_by_number),
		cmocka_unit_test(errors_of_links),       cmocka_unit_test(missing_overlap),
		cmocka_unit_test(window_without_an_end), cmocka_unit_test(whose_memory_grew),
		cmocka_unit_test(who_holds_an_idle_gpu), cmocka_unit_test(why_calls_take_longer),
		cmocka_unit_test(what_makes_a_share),    cmocka_unit_test(stresses_beside_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
