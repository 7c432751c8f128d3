/* What `gpuscope trace` asks for: values of some GPUs, none older than a limit while the budget has room. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/mem.h"
#include "gpu_test.h"

#define OLDEST_NS 2000000000ull
#define TURN_NS   110000000ull /* GPM is not asked more often than each 100 ms */
#define LOOK_NS   1000ull

/* A clock of the test's own, of which the reader and the stand-in see the same: it goes on while somebody
 * looks at it and while read_turns() says so. A call costs what the stand-in is told, on any machine, and
 * a turn is as long as it shall be. */
static _Atomic uint64_t now_ns;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t ns;

	if (id == CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, id, t);
	ns = atomic_fetch_add(&now_ns, LOOK_NS) + LOOK_NS;
	t->tv_sec = (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
	return 0;
}

/* Whoever waits for a moment of this clock waits by the kernel's. */
static int begin_now(void **state)
{
	struct timespec t;

	(void)state;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	now_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	return 0;
}

static struct gs_gpu_cost cost_of(struct gs_gpu *gpu, const char *name)
{
	struct gs_gpu_cost c[GS_GPU_COSTS_MAX];
	size_t n = gs_gpu_costs(gpu, GS_GPU_COST_BY_PART, c, GS_ARRAY_LEN(c));

	for (size_t i = 0; i < n; i++)
		if (strcmp(c[i].name, name) == 0)
			return c[i];
	return (struct gs_gpu_cost){.name = name, .way = ""};
}

static struct gs_gpu *open_traced(double budget)
{
	return open_with(
		FAKE_NVML,
		(struct gs_gpu_options){
			.groups = GS_GPU_READ_BASIC | GS_GPU_READ_PROCESSES | GS_GPU_READ_GPM,
			.leave_out = 1ull << GS_GPU_PART_CLOCKS_MORE | 1ull << GS_GPU_PART_FAN |
				     1ull << GS_GPU_PART_PCIE | 1ull << GS_GPU_PART_ENGINES |
				     1ull << GS_GPU_PART_THROTTLE | 1ull << GS_GPU_PART_ENERGY,
			.budget = budget,
			.oldest_ns = OLDEST_NS});
}

static void read_turns(struct gs_gpu *gpu, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		now_ns += TURN_NS;
		skip_one(gpu);
	}
}

/* At the costs of an H200 all is in the budget: the expensive values wait, GPM among them, the cheap
 * one does not, and nothing gets older than it may. */
static void test_what_costs_waits(void **state)
{
	static const char *const dear[] = {"power",  "temperature", "memory_temperature",
					   "clocks", "state",       "process_shares",
					   "gpm",    "processes"};
	struct gs_gpu *gpu;

	pretend("gpus=1,costs=h200,burn=GpmSampleGet:5000");
	gpu = open_traced(0.01);
	read_turns(gpu, 16);
	for (size_t i = 0; i < GS_ARRAY_LEN(dear); i++) {
		struct gs_gpu_cost c = cost_of(gpu, dear[i]);

		if (!c.n)
			fail_msg("%s was not read", dear[i]);
		assert_in_range(c.interval_ns, 1, OLDEST_NS + 1000);
	}
	assert_int_equal(cost_of(gpu, "memory").n, 16);
	assert_true(cost_of(gpu, "gpm").interval_ns > 2 * TURN_NS);
	assert_true(cost_of(gpu, "power").interval_ns > 2 * TURN_NS);
	assert_true(cost_of(gpu, "processes").interval_ns < cost_of(gpu, "clocks").interval_ns);
	assert_string_equal(cost_of(gpu, "utilization").way, "gpm");
	gs_gpu_close(&gpu);
}

/* Even so seldom it is too much: all wait longer alike, but for the processes. */
static void test_all_get_older(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=1,costs=h200");
	gpu = open_traced(0.0001);
	read_turns(gpu, 16);
	assert_in_range(cost_of(gpu, "power").interval_ns, 4 * OLDEST_NS, 5 * OLDEST_NS + 1000);
	assert_in_range(cost_of(gpu, "clocks").interval_ns, 4 * OLDEST_NS, 5 * OLDEST_NS + 1000);
	assert_in_range(cost_of(gpu, "gpm").interval_ns, 4 * OLDEST_NS, 5 * OLDEST_NS + 1000);
	assert_in_range(cost_of(gpu, "processes").interval_ns, 1, OLDEST_NS + 1000);
	gs_gpu_close(&gpu);
}

/* Both first readings are dear: the third one shows that the value is cheap. */
static void test_dear_at_first(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=1,burn=DeviceGetTemperature:60000");
	gpu = open_traced(0.005);
	read_turns(gpu, 2);
	assert_int_equal(cost_of(gpu, "temperature").n, 2);
	pretend("gpus=1");
	for (unsigned i = 0; i < 200 && cost_of(gpu, "temperature").n < 3; i++)
		read_turns(gpu, 1);
	assert_in_range(cost_of(gpu, "temperature").interval_ns, 1, OLDEST_NS / 2);
	gs_gpu_close(&gpu);
}

static struct gs_gpu *open_watched(double budget)
{
	return open_with(FAKE_NVML,
			 (struct gs_gpu_options){.groups = GS_GPU_READ_BASIC |
							   GS_GPU_READ_PROCESSES | GS_GPU_READ_GPM,
						 .budget = budget});
}

/* What the agent asks for: GPM at every turn where half of the budget has room for it, else as often as
 * it has. Four GPUs were 1.15 % of a processor by a budget of 0.4 % when nothing held GPM back. */
static void test_gpm_keeps_the_budget(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=1,costs=h200");
	gpu = open_watched(0.1 * 1e9 / TURN_NS);
	read_turns(gpu, 60);
	assert_int_equal(cost_of(gpu, "gpm").n, 60);
	gs_gpu_close(&gpu);
	pretend("gpus=4,costs=h200");
	gpu = open_watched(0.004 * 1e9 / TURN_NS);
	read_turns(gpu, 60);
	assert_in_range(cost_of(gpu, "gpm").interval_ns, 2 * TURN_NS, 10000000000ull);
	gs_gpu_close(&gpu);
}

/* Every second reading is dear: their mean counts, and the budget holds. */
static void test_costs_that_vary(void **state)
{
	static const double budget = 0.005;
	uint64_t before_ns = 0, since_ns = 0;
	struct gs_gpu *gpu;
	double load;

	pretend("gpus=1");
	gpu = open_watched(budget);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t n = cost_of(gpu, "temperature").n;

		/* The second plan, after 10 s, knows more than the first two costs. */
		if (i == 120) {
			before_ns = cost_of(gpu, "temperature").cpu_ns;
			since_ns = now_ns;
		}
		pretend(n % 2 ? "gpus=1" : "gpus=1,burn=DeviceGetTemperature:20000");
		read_turns(gpu, 1);
	}
	load = (double)(cost_of(gpu, "temperature").cpu_ns - before_ns) /
	       (double)(now_ns - since_ns);
	if (load > 1.2 * budget)
		fail_msg("%.4f of a processor, the budget is %.4f", load, budget);
	gs_gpu_close(&gpu);
}

/* Of GPUs out of focus only the processes are known. */
static void test_focus(void **state)
{
	struct gs_gpu_uuid one = {""};
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;
	bool kept = false;

	pretend("gpus=3,pids=1:1:1");
	gpu = open_traced(1);
	assert_int_equal(gs_gpu_set_focus(gpu, &one, 0), 0);
	s = read_one(gpu);
	assert_int_equal(s->n_gpus, 3);
	assert_int_equal(s->n_processes, 3);
	assert_int_equal(s->process[2].kept, 0);
	assert_why(&s->sample[1], MEM_USED, NOT_READ);
	memcpy(one.text, s->info[1].uuid, sizeof(one.text));
	gs_gpu_snapshot_free(&s);
	for (unsigned i = 0; i < 1000 && !kept; i++) {
		s = read_one(gpu);
		assert_int_equal(s->n_processes, 3);
		kept = s->process[0].kept;
		gs_gpu_snapshot_free(&s);
	}
	assert_true(kept);
	assert_int_equal(cost_of(gpu, "memory").n, 0);
	assert_int_equal(cost_of(gpu, "gpm").n, 0);

	assert_int_equal(gs_gpu_set_focus(gpu, &one, 1), 0);
	s = read_one(gpu);
	assert_why(&s->sample[0], MEM_USED, NOT_READ);
	assert_why(&s->sample[1], MEM_USED, OK);
	assert_why(&s->sample[2], POWER, NOT_READ);
	gs_gpu_snapshot_free(&s);
	read_turns(gpu, 2);
	assert_int_equal(cost_of(gpu, "memory").n, 3);

	/* Without a budget no list is an old one. */
	gs_gpu_set_budget(gpu, 0);
	s = read_one(gpu);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(s->process[i].kept, 0);
	gs_gpu_snapshot_free(&s);
	assert_int_equal(cost_of(gpu, "memory").n, 4);

	assert_int_equal(gs_gpu_set_focus(gpu, NULL, 0), 0);
	skip_one(gpu);
	assert_int_equal(cost_of(gpu, "memory").n, 7);
	gs_gpu_close(&gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_costs_waits),
		cmocka_unit_test(test_all_get_older),
		cmocka_unit_test(test_dear_at_first),
		cmocka_unit_test(test_gpm_keeps_the_budget),
		cmocka_unit_test(test_costs_that_vary),
		cmocka_unit_test(test_focus),
	};

	return cmocka_run_group_tests(tests, begin_now, clean_up);
}
