/* Rules about traced programs: for each one a run that has the trouble, and one that nearly has. */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"
#include "analysis/rules/trace.h"

#include "trace_run.h"

/* One thread that spends so many ms in one state, the rest in another. */
static void expect_simple(unsigned state, unsigned inside, uint64_t ms, unsigned other,
			  const char *class_name)
{
	struct gs_account_thread *t;
	struct run r;

	run_begin(&r);
	t = add_thread(&r, 100, 100, 1);
	spend(t, state, inside, ms);
	rest(t, other);
	expect(&r, class_name);
}

static void shares_against_thresholds(void **state)
{
	static const struct {
		unsigned state, inside;
		uint64_t has_ms, nearly_ms;
		unsigned other;
		const char *class_name, *nearly;
	} rows[] = {
		{GS_STATE_RUNQUEUE, 0, 5500, 4500, GS_STATE_CPU, "cpu_starved", "mixed"},
		{GS_STATE_LOCK, GS_INSIDE_GPU_WAIT, 5200, 4800, GS_STATE_CPU, "gpu_bound", "mixed"},
		{GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 5200, 3900, GS_STATE_CPU, "gpu_bound",
		 "cpu_bound"},
		{GS_STATE_OTHER, GS_INSIDE_NCCL, 3200, 2800, GS_STATE_CPU, "communication_bound",
		 "cpu_bound"},
		{GS_STATE_CPU, GS_INSIDE_MPI, 4200, 3800, GS_STATE_CPU, "mpi_bound", "cpu_bound"},
		{GS_STATE_FAULT, 0, 2200, 1800, GS_STATE_CPU, "memory_pressure", "cpu_bound"},
		{GS_STATE_DISK, 0, 4200, 3800, GS_STATE_CPU, "io_bound", "cpu_bound"},
		{GS_STATE_NETWORK, 0, 5200, 4800, GS_STATE_CPU, "network_bound", "mixed"},
		{GS_STATE_LOCK, 0, 4200, 3800, GS_STATE_CPU, "lock_bound", "cpu_bound"},
		{GS_STATE_CHILD, 0, 5200, 4800, GS_STATE_CPU, "waits_for_child", "mixed"},
		{GS_STATE_SLEEP, 0, 5200, 3900, GS_STATE_CPU, "asleep", "cpu_bound"},
		{GS_STATE_CPU, 0, 6200, 5800, GS_STATE_OTHER, "cpu_bound", "mixed"},
		{GS_STATE_CPU, GS_INSIDE_OPERATOR, 6200, 5800, GS_STATE_OTHER, "cpu_bound",
		 "mixed"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		expect_simple(rows[i].state, rows[i].inside, rows[i].has_ms, rows[i].other,
			      rows[i].class_name);
		expect_simple(rows[i].state, rows[i].inside, rows[i].nearly_ms, rows[i].other,
			      rows[i].nearly);
	}
}

static void failures_come_first(void **state)
{
	/* A status alone may be an answer. */
	static const struct {
		int status, child_signal;
		bool noted;
		const char *class_name;
	} rows[] = {
		{0, 0, false, "asleep"},      {1, 0, true, "asleep"},
		{128, 0, true, "asleep"},     {139, 0, true, "failed"},
		{127, 0, true, "failed"},     {1, SIGKILL, true, "failed"},
		{1, SIGTERM, true, "asleep"}, {0, SIGKILL, false, "asleep"},
	};
	struct gs_account_thread *t;
	struct run r;

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		rest(t, GS_STATE_SLEEP);
		t = add_thread(&r, 200, 200, 100);
		rest(t, GS_STATE_SLEEP);
		t->ended = 1;
		t->end_signal = (uint8_t)rows[i].child_signal;
		r.s->exit_status = rows[i].status;
		gs_verdict_trace(r.s);
		assert_int_equal(rows[i].noted,
				 strstr(r.s->verdict.evidence, "exit status") != NULL);
		expect(&r, rows[i].class_name);
	}
	/* Shorter than what can be judged it says all that is known. */
	run_begin(&r);
	spend(add_thread(&r, 100, 100, 1), GS_STATE_CPU, 0, 100);
	r.s->exit_status = 1;
	expect(&r, "failed");
	/* Who stops it knows why it ended. */
	run_begin(&r);
	rest(add_thread(&r, 100, 100, 1), GS_STATE_SLEEP);
	r.s->exit_status = 130;
	r.s->end_reason = "interrupted (SIGINT)";
	expect(&r, "asleep");
	/* Without an account a failure is one all the same. */
	run_begin(&r);
	r.s->exit_status = 1;
	expect(&r, "failed");
	/* Calls that the end of the process makes fail are no failure of the program. */
	for (int i = 0; i < 2; i++) {
		struct gs_error_count e = {GS_LAYER_CUDA_DRIVER, "cuX", i ? 2 : 4, "X", 1};

		run_begin(&r);
		rest(add_thread(&r, 100, 100, 1), GS_STATE_SLEEP);
		r.s->exit_status = r.s->n_errors = 1;
		r.s->errors = &e;
		expect(&r, i ? "failed" : "asleep");
	}
}

static void calls_that_do_not_return(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct run r;

		run_begin(&r);
		r.s->duration_ns = 15000 * MS;
		rest(add_thread(&r, 100, 100, 1), GS_STATE_SLEEP);
		r.open = (struct gs_open_call){.function = "ncclAllReduce",
					       .comm = "app",
					       .age_ns = i ? 9000 * MS : 11000 * MS};
		r.s->open_calls = &r.open;
		r.s->n_open_calls = 1;
		expect(&r, i ? "asleep" : "hang");
	}
}

/* As found while tracing; not when the rank came after all, nor where ranks called something else. */
static void ranks_that_wait(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct gs_hang_rank_summary rank = {.rank = 2, .python = "lag (train.py:12)"};
		struct gs_hang_summary hang = {.kind = i == 2 ? "differs" : "waits",
					       .text = "rank 2 has not arrived",
					       .since_ns = 5000 * MS,
					       .has_arrived = i == 1,
					       .ranks = &rank,
					       .n_listed = 1};
		struct run r;

		run_begin(&r);
		r.s->duration_ns = 20000 * MS;
		rest(add_thread(&r, 100, 100, 1), GS_STATE_SLEEP);
		r.s->hangs = &hang;
		r.s->n_hangs = 1;
		if (i == 0) {
			gs_verdict_trace(r.s);
			assert_string_equal(
				r.s->verdict.evidence,
				"rank 2 has not arrived; rank 2 is at lag (train.py:12)");
			assert_float_equal(r.s->verdict.share, 0.75, 0.001);
		}
		expect(&r, i ? "asleep" : "hang");
	}
}

/* Nothing else happened: likely, not certain. */
static void a_call_open_for_the_whole_run(void **state)
{
	static const struct {
		uint64_t run_ms, age_ms;
		const char *class_name;
	} rows[] = {{4000, 3700, "hang"}, {4000, 3500, "asleep"}, {2900, 2900, "asleep"}};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct run r;

		run_begin(&r);
		r.s->duration_ns = rows[i].run_ms * MS;
		rest(add_thread(&r, 100, 100, 1), GS_STATE_SLEEP);
		r.open = (struct gs_open_call){
			.function = "ncclAllReduce", .comm = "app", .age_ns = rows[i].age_ms * MS};
		r.s->open_calls = &r.open;
		r.s->n_open_calls = 1;
		gs_verdict_trace(r.s);
		assert_true(i > 0 || r.s->verdict.confidence <= 0.6);
		expect(&r, rows[i].class_name);
	}
}

/* Who waits for a processor may be stopped by a quota: then others have nothing to do with it. */
static void quotas_stop_threads(void **state)
{
	static const struct {
		uint64_t ready_ms, periods, throttled;
		const char *class_name;
	} rows[] = {
		{6000, 100, 30, "throttled"},
		{6000, 100, 20, "cpu_starved"},
		{6000, 0, 0, "cpu_starved"},
		{2000, 100, 90, "cpu_bound"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_RUNQUEUE, 0, rows[i].ready_ms);
		rest(t, GS_STATE_CPU);
		r.s->quota_periods = rows[i].periods;
		r.s->throttled_periods = rows[i].throttled;
		expect(&r, rows[i].class_name);
	}
}

/* The program says itself for how long it waited for a batch, whatever the thread did there. */
static void waits_for_a_data_loader(void **state)
{
	static const struct {
		const char *name;
		uint64_t ms;
		unsigned state;
		const char *class_name;
	} rows[] = {
		{"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 3200, GS_STATE_CPU,
		 "input_bound"},
		{"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2800, GS_STATE_CPU,
		 "cpu_bound"},
		{"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 9000,
		 GS_STATE_SLEEP, "input_bound"},
		{"aten::mm", 9000, GS_STATE_CPU, "cpu_bound"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct run r;

		run_begin(&r);
		rest(add_thread(&r, 100, 100, 1), rows[i].state);
		add_calls(&r, 0, GS_LAYER_TORCH, GS_CLASS_OTHER, rows[i].name, 100, rows[i].ms);
		expect(&r, rows[i].class_name);
	}
}

/* With PyTorch what is not an operator may be a loader that marks nothing. */
static void a_loader_that_marks_nothing(void **state)
{
	static const struct {
		const char *path;
		uint64_t operator_ms;
		bool is_sure;
	} rows[] = {
		{"/usr/lib/libtorch_cpu.so", 2900, false},
		{"/usr/lib/libtorch_cpu.so", 3100, true},
		{"/usr/lib/libcudart.so", 0, true},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_attach_status attached = {.path = rows[i].path};
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, GS_INSIDE_OPERATOR, rows[i].operator_ms);
		rest(t, GS_STATE_CPU);
		r.s->attached = &attached;
		r.s->n_attached = 1;
		gs_verdict_trace(r.s);
		assert_int_equal(rows[i].is_sure, r.s->verdict.confidence > 0.6);
		expect(&r, "cpu_bound");
	}
}

/* Releases that mark nothing: by samples of the Python stack. */
static void a_loader_on_the_python_stack(void **state)
{
	static const struct {
		uint64_t self, other;
		const char *class_name;
	} rows[] = {
		{80, 20, "input_bound"},
		{32, 68, "cpu_bound"}, /* of 90 % */
		{40, 8, "cpu_bound"},  /* few */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, 0, 9000);
		rest(t, GS_STATE_DISK);
		r.s->loader = (struct gs_loader_summary){.self_samples = rows[i].self,
							 .other_samples = rows[i].other,
							 .file = "/home/u/data.py",
							 .function = "__getitem__",
							 .line = 40,
							 .line_samples = rows[i].self / 2};
		gs_verdict_trace(r.s);
		if (strcmp(rows[i].class_name, "input_bound") == 0)
			assert_non_null(strstr(r.s->verdict.evidence,
					       "50 % of loading on the CPU is at data.py:40"));
		expect(&r, rows[i].class_name);
	}
}

/* It waits in its loader; so does another thread than the one that sets the pace; its workers are
 * what it waits for; it waits elsewhere. */
static void a_loader_that_waits(void **state)
{
	static const struct {
		uint32_t wait_tid;
		uint64_t wait_ms;
		bool has_worker;
		const char *class_name;
	} rows[] = {
		{100, 4000, false, "input_bound"},
		{101, 4000, false, "asleep"},
		{100, 4000, true, "asleep"},
		{100, 1000, false, "asleep"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->launches = 1000;
		spend(t, GS_STATE_SLEEP, 0, 8000);
		rest(t, GS_STATE_CPU);
		if (rows[i].has_worker) {
			t = add_thread(&r, 200, 200, 100);
			spend(t, GS_STATE_SLEEP, 0, 8000);
			rest(t, GS_STATE_CPU);
		}
		r.s->loader = (struct gs_loader_summary){.wait_ns = rows[i].wait_ms * MS,
							 .wait_pid = 100,
							 .wait_tid = rows[i].wait_tid};
		gs_verdict_trace(r.s);
		if (strcmp(rows[i].class_name, "input_bound") == 0)
			assert_non_null(strstr(r.s->verdict.evidence, "waits of 40 % of its time"));
		expect(&r, rows[i].class_name);
	}
}

/* "-p PID" of a process that has ended would name nothing, or another one. */
static void commands_name_the_process(void **state)
{
	struct gs_account_thread *t;
	struct run r;

	for (unsigned ended = 0; ended < 2; ended++) {
		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_DISK, 0, 9000);
		rest(t, GS_STATE_CPU);
		t->ended = ended;
		gs_verdict_trace(r.s);
		assert_string_equal(r.s->verdict.command,
				    ended ? "gpuscope job -p PID" : "gpuscope job -p 100");
		expect(&r, "io_bound");
	}
}

static void too_little_says_nothing(void **state)
{
	struct run r;

	run_begin(&r);
	spend(add_thread(&r, 100, 100, 1), GS_STATE_CPU, 0, 999);
	expect(&r, "too_short");
	run_begin(&r);
	spend(add_thread(&r, 100, 100, 1), GS_STATE_CPU, 0, 1001);
	expect(&r, "cpu_bound");
	run_begin(&r);
	expect(&r, "not_known");
}

static void starved_only_when_nothing_is_larger(void **state)
{
	struct gs_account_thread *t;
	struct run r;

	run_begin(&r);
	t = add_thread(&r, 100, 100, 1);
	spend(t, GS_STATE_RUNQUEUE, 0, 3000);
	spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 6000);
	rest(t, GS_STATE_CPU);
	gs_verdict_trace(r.s);
	assert_string_equal(r.s->verdict.evidence, "the host waits in synchronising calls and "
						   "blocking copies until the GPU is done");
	expect(&r, "gpu_bound");
}

/* Of the process that sets the pace, and of a cause that is a share of time. */
static void steps_are_said(void **state)
{
	static const struct {
		uint32_t pid;
		uint64_t n_steps, ms;
		bool said;
	} rows[] = {{100, 53, RUN, true},
		    {200, 53, RUN, false},
		    {100, 0, RUN, false},
		    {100, 53, 999, false}};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct run r;

		run_begin(&r);
		spend(add_thread(&r, 100, 101, 1), GS_STATE_CPU, 0, rows[i].ms);
		r.s->steps = (struct gs_step_summary){.pid = rows[i].pid,
						      .tid = 105,
						      .n_steps = rows[i].n_steps,
						      .median_ns = 113 * MS,
						      .p95_ns = 120 * MS};
		gs_verdict_trace(r.s);
		assert_int_equal(strstr(r.s->verdict.evidence, "; 113 ms a step, p95 120 ms") !=
					 NULL,
				 rows[i].said);
		gs_summary_free(&r.s);
	}
}

/* Launches, and how often the host waits for them. */
static void launches_and_waits(void **state)
{
	static const struct {
		uint64_t launches, waits, wait_ms;
		const char *class_name;
	} rows[] = {
		{50000, 100, 500, "launch_bound"},
		{30000, 100, 500, "cpu_bound"},  /* 3,000 a second */
		{50000, 100, 1600, "cpu_bound"}, /* it waits too much */
		{10000, 3000, 3000, "sync_heavy"},
		{10000, 1900, 3000, "cpu_bound"}, /* 190 waits a second */
		{16000, 3000, 3000, "cpu_bound"}, /* more than five launches between two */
		{10000, 3000, 1900, "cpu_bound"}, /* they do not cost enough */
		{50000, 500, 6000, "gpu_bound"},
		{30000, 100, 2200, "gpu_bound"}, /* it is ahead of the GPU */
		{30000, 100, 1800, "cpu_bound"}, /* hardly */
		{4000, 100, 4500, "mixed"},      /* 40 launches between two waits */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, rows[i].wait_ms);
		spend(t, GS_STATE_CPU, GS_INSIDE_CUDA, 500);
		rest(t, GS_STATE_CPU);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
			  rows[i].launches, 500);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize",
			  rows[i].waits, rows[i].wait_ms);
		expect(&r, rows[i].class_name);
	}
}

static void copies_are_told_from_waits(void **state)
{
	static const struct {
		uint64_t ms, bytes;
		const char *class_name;
	} rows[] = {
		{4200, 42ull << 30, "copy_bound"},
		{3800, 42ull << 30, "cpu_bound"},
		{4200, 3ull << 30, "cpu_bound"}, /* it waits rather than copies */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, GS_INSIDE_CUDA, rows[i].ms);
		rest(t, GS_STATE_CPU);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpyAsync", 100,
			  rows[i].ms);
		r.functions[0][0].bytes = rows[i].bytes;
		expect(&r, rows[i].class_name);
	}
}

/* JAX: the first thread waits in futex, no other one runs, functions on the host end the work. */
static void waits_for_callbacks(void **state)
{
	static const struct {
		uint64_t callbacks, other_ms;
		const char *class_name;
	} rows[] = {
		{1000, 100, "gpu_bound"},
		{40, 100, "lock_bound"},    /* four a second */
		{1000, 2000, "lock_bound"}, /* another thread may be what it waits for */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_LOCK, 0, 9100);
		rest(t, GS_STATE_CPU);
		t = add_thread(&r, 100, 101, 1);
		spend(t, GS_STATE_CPU, 0, rows[i].other_ms);
		rest(t, GS_STATE_POLL);
		add_calls(&r, 0, GS_LAYER_CUDA_DRIVER, GS_CLASS_LAUNCH, "cuLaunchKernelEx", 3000,
			  100);
		add_calls(&r, 0, GS_LAYER_CUDA_DRIVER, GS_CLASS_OTHER, "cuLaunchHostFunc",
			  rows[i].callbacks, 10);
		expect(&r, rows[i].class_name);
	}
}

/* A first thread that waits, and two worker processes of which each does so. */
static void add_workers(struct run *r, unsigned state, uint64_t ms)
{
	for (uint32_t pid = 200; pid < 202; pid++) {
		struct gs_account_thread *w = add_thread(r, pid, pid, 100);

		spend(w, state, 0, ms);
		rest(w, GS_STATE_PIPE);
	}
}

static void input_from_workers(void **state)
{
	static const struct {
		unsigned wait;
		uint64_t wait_ms;
		unsigned worker;
		uint64_t worker_ms;
		const char *class_name;
	} rows[] = {
		{GS_STATE_PIPE, 3200, GS_STATE_SLEEP, 9000, "input_bound"},
		{GS_STATE_POLL, 3200, GS_STATE_CPU, 9000, "input_bound"},
		{GS_STATE_PIPE, 2800, GS_STATE_SLEEP, 9000, "cpu_bound"},
		/* The workers wait too: they are not what is waited for. */
		{GS_STATE_PIPE, 3900, GS_STATE_CPU, 2000, "cpu_bound"},
		{GS_STATE_LOCK, 4200, GS_STATE_CPU, 9000, "lock_bound"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, rows[i].wait, 0, rows[i].wait_ms);
		rest(t, GS_STATE_CPU);
		add_workers(&r, rows[i].worker, rows[i].worker_ms);
		expect(&r, rows[i].class_name);
	}
}

/* With pinned memory a thread of the process reads the pipe, and the first one waits for that. */
static void input_through_a_thread(void **state)
{
	for (int with_thread = 0; with_thread < 2; with_thread++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_LOCK, 0, 6000);
		rest(t, GS_STATE_CPU);
		if (with_thread)
			rest(add_thread(&r, 100, 101, 1), GS_STATE_PIPE);
		add_workers(&r, GS_STATE_CPU, 9000);
		expect(&r, with_thread ? "input_bound" : "lock_bound");
	}
}

/* The first thread waits for the one that runs the backward pass, which waits for the GPU. */
static void a_helper_stands_for_the_wait_for_it(void **state)
{
	for (int helps = 0; helps < 2; helps++) {
		struct gs_account_thread *t, *h;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_LOCK, 0, 6000);
		rest(t, GS_STATE_CPU);
		h = add_thread(&r, 100, 101, 1);
		spend(h, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 5600);
		rest(h, GS_STATE_LOCK);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel", 1000,
			  10);
		add_calls(&r, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
			  helps ? 300 : 100, 10);
		expect(&r, helps ? "gpu_bound" : "lock_bound");
	}
}

/* A training loop of PyTorch with a thread that pins memory, of 10 s: 2 s waiting for the GPU where that is not less, the
 * host's side of launches, backward in a thread of its own, and the rest waiting for locks. */
static void launches_held_up_by_threads(void **state)
{
	static const struct {
		uint64_t launches, gpu_ms, busy_ms, pins_ms;
		unsigned pins_in;
		bool helps;
		const char *class_name;
	} rows[] = {
		{80000, 1000, 3300, 6000, GS_STATE_CPU, true, "launch_bound"}, /* as on an H100 */
		{80000, 1600, 3300, 6000, GS_STATE_CPU, true, "cpu_bound"}, /* it waits too much */
		{80000, 2100, 3300, 6000, GS_STATE_CPU, true, "gpu_bound"}, /* ahead of the GPU */
		{19000, 1000, 3300, 6000, GS_STATE_CPU, true, "cpu_bound"}, /* few launches */
		{80000, 1000, 1600, 6000, GS_STATE_CPU, true,
		 "lock_bound"}, /* it waits more than it works */
		{80000, 1000, 3300, 6000, GS_STATE_PIPE, true,
		 "cpu_bound"}, /* who may hold it up waits, too */
		{80000, 1000, 3300, 300, GS_STATE_CPU, true, "cpu_bound"}, /* or does little */
		{80000, 1000, 3300, 6000, GS_STATE_CPU, false,
		 "gil_bound"}, /* the other one contends */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->process = "python3";
		spend(t, GS_STATE_LOCK, GS_INSIDE_GPU_WAIT, rows[i].gpu_ms);
		spend(t, GS_STATE_CPU, GS_INSIDE_CUDA, 700);
		spend(t, GS_STATE_CPU, 0, rows[i].busy_ms - 700);
		rest(t, GS_STATE_LOCK);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
			  rows[i].launches / 2, 300);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize", 200,
			  rows[i].gpu_ms);
		t = add_thread(&r, 100, 101, 1);
		spend(t, GS_STATE_CPU, GS_INSIDE_CUDA, 700);
		spend(t, GS_STATE_CPU, 0, 2500);
		rest(t, GS_STATE_LOCK);
		if (rows[i].helps)
			add_calls(&r, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
				  rows[i].launches / 2, 300);
		t = add_thread(&r, 100, 102, 1);
		spend(t, rows[i].pins_in, 0, rows[i].helps ? rows[i].pins_ms : 100);
		rest(t, GS_STATE_PIPE);
		expect(&r, rows[i].class_name);
	}
}

/* Worker processes of a loader that are not traced: a training loop that waits for them runs between the waits. */
static void waits_for_what_is_not_traced(void **state)
{
	static const struct {
		unsigned wait;
		uint64_t wait_ms, other_thread_ms;
		bool is_idle, has_workers;
		const char *class_name;
	} rows[] = {
		{GS_STATE_POLL, 9600, 0, true, false, "idle"},
		{GS_STATE_POLL, 5000, 0, false, false, "mixed"},
		{GS_STATE_LOCK, 9800, 2500, true, false, "lock_bound"},
		{GS_STATE_PIPE, 9200, 0, false, false, "idle"},
		{GS_STATE_PIPE, 5500, 0, false, false, "idle"},
		{GS_STATE_PIPE, 4500, 0, false, false, "mixed"},
		/* Another thread of its process is busy, or the processes are traced and wait too. */
		{GS_STATE_PIPE, 6000, 2500, false, false, "mixed"},
		{GS_STATE_PIPE, 6000, 0, false, true, "mixed"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, rows[i].wait, 0, rows[i].wait_ms);
		rest(t, GS_STATE_CPU);
		t->idle = rows[i].is_idle;
		if (rows[i].other_thread_ms) {
			t = add_thread(&r, 100, 101, 1);
			spend(t, GS_STATE_CPU, 0, rows[i].other_thread_ms);
			rest(t, GS_STATE_LOCK);
		}
		if (rows[i].has_workers)
			add_workers(&r, GS_STATE_CPU, 2000);
		expect(&r, rows[i].class_name);
	}
}

/* What is not accounted for may be active. */
static void threads_without_an_account(void **state)
{
	for (unsigned missed = 0; missed < 8; missed += 7) {
		struct gs_lost_count lost = {
			.cause = GS_LOSS_ACCOUNT, .detail = "", .count = missed};
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		r.s->lost = &lost;
		r.s->n_lost = 1;
		t = add_thread(&r, 100, 100, 1);
		t->idle = 1;
		rest(t, GS_STATE_POLL);
		gs_verdict_trace(r.s);
		assert_int_equal(missed == 7,
				 strstr(r.s->verdict.evidence, "7 threads have no") != NULL);
		assert_int_equal(missed == 7, r.s->verdict.confidence < 0.61);
		expect(&r, "idle");
	}
}

/* A command's children are traced always, those of -p when it is asked for. */
static void children_that_are_not_traced(void **state)
{
	static const struct {
		const char *command;
		unsigned wait;
		bool said;
	} rows[] = {
		{"process 100", GS_STATE_POLL, true},
		{"processes 100, 101", GS_STATE_POLL, true},
		{"./processor 3", GS_STATE_POLL, false},
		{NULL, GS_STATE_POLL, false},
		{"process 100", GS_STATE_PIPE, true},
		{"./app", GS_STATE_PIPE, false},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		r.s->command = rows[i].command;
		t = add_thread(&r, 100, 100, 1);
		t->idle = 1;
		rest(t, rows[i].wait);
		gs_verdict_trace(r.s);
		assert_int_equal(rows[i].said, strstr(r.s->verdict.evidence, "--follow") != NULL);
		expect(&r, "idle");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_against_thresholds),
		cmocka_unit_test(failures_come_first),
		cmocka_unit_test(ranks_that_wait),
		cmocka_unit_test(calls_that_do_not_return),
		cmocka_unit_test(a_call_open_for_the_whole_run),
		cmocka_unit_test(quotas_stop_threads),
		cmocka_unit_test(waits_for_a_data_loader),
		cmocka_unit_test(a_loader_that_marks_nothing),
		cmocka_unit_test(a_loader_on_the_python_stack),
		cmocka_unit_test(a_loader_that_waits),
		cmocka_unit_test(commands_name_the_process),
		cmocka_unit_test(too_little_says_nothing),
		cmocka_unit_test(starved_only_when_nothing_is_larger),
		cmocka_unit_test(steps_are_said),
		cmocka_unit_test(launches_and_waits),
		cmocka_unit_test(input_from_workers),
		cmocka_unit_test(input_through_a_thread),
		cmocka_unit_test(a_helper_stands_for_the_wait_for_it),
		cmocka_unit_test(launches_held_up_by_threads),
		cmocka_unit_test(copies_are_told_from_waits),
		cmocka_unit_test(waits_for_callbacks),
		cmocka_unit_test(waits_for_what_is_not_traced),
		cmocka_unit_test(threads_without_an_account),
		cmocka_unit_test(children_that_are_not_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
