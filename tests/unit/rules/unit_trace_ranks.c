/* Rules about ranks: waits for a GPU that runs collectives, and the rank that is late at them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_run.h"

/* Where collectives run on the GPU too, a wait for it may be one for another rank. */
static void collectives_make_waits_uncertain(void **state)
{
	static const struct {
		uint64_t launches, collectives;
		const char *class_name;
		bool is_sure;
	} rows[] = {
		{1000, 0, "gpu_bound", true},
		{1000, 100, "communication_bound", false},
		{2000, 100, "gpu_bound", false},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 9500);
		rest(t, GS_STATE_CPU);
		t->collectives = rows[i].collectives;
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
			  rows[i].launches, 100);
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaStreamSynchronize", 100,
			  9500);
		gs_verdict_trace(r.s);
		assert_int_equal(rows[i].is_sure, r.s->verdict.confidence > 0.6);
		expect(&r, rows[i].class_name);
	}
}

/* Rank 3 comes last: the pace setter waits for it; none is late; it waits itself; it is late for a moment only; it sets
 * the pace. */
static void a_late_rank_is_named(void **state)
{
	static const struct {
		bool is_late;
		uint32_t late_pid;
		uint64_t waits_ms, missing_ms;
		const char *class_name, *said, *not_said;
	} rows[] = {
		{true, 200, 500, 4500, "communication_bound",
		 "rank 3 (process 200) arrives last at 90 % of 1,000 collectives of communicator "
		 "0x1f, 5.00 ms after the one before it on average; itself it waits for the GPU "
		 "and in NCCL for 5 % only: its thread spent 95 % asleep on purpose",
		 "it is rank"},
		{false, 200, 500, 4500, "gpu_bound",
		 "no rank stands out as late at 1,000 collectives of communicator 0x1f", "rank 3"},
		{true, 200, 2500, 4500, "gpu_bound", "rank 3 (process 200) arrives last",
		 "itself it waits"},
		{true, 200, 500, 900, "gpu_bound", "rank 3 (process 200) arrives last",
		 "itself it waits"},
		{true, 200, 500, 150, "gpu_bound",
		 "no rank keeps the others waiting for more than 2 % of the time at 1,000 collectives of "
		 "communicator 0x1f",
		 "rank 3"},
		{true, 100, 500, 4500, "gpu_bound",
		 "it is rank 3, for which the others wait: it arrives last at 90 %", "process 100"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_collectives_rank ranks[] = {
			{.rank = 0, .pid = 300 - rows[i].late_pid},
			{.rank = 3,
			 .pid = rows[i].late_pid,
			 .n_last = 900,
			 .margin_sum_ns = 4500 * MS,
			 .missing_ns = rows[i].missing_ms * MS},
		};
		struct gs_collectives_comm comm = {.id = 0x1f,
						   .n_ranks = 4,
						   .n_matched = 1000,
						   .span_ns = RUN * MS,
						   .ranks = ranks,
						   .n_seen = 2,
						   .late = rows[i].is_late ? &ranks[1] : NULL};
		struct gs_collectives_summary all = {
			.comms = &comm, .n_comms = 1, .n_calls = 4000, .n_matched = 2000};
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->collectives = 1000;
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel", 50000,
			  100);
		spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 6000);
		rest(t, GS_STATE_CPU);
		t = add_thread(&r, 200, 200, 1);
		t->launches = 50000;
		spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, rows[i].waits_ms);
		rest(t, GS_STATE_SLEEP);
		r.s->collectives = &all;
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, rows[i].said));
		assert_null(strstr(r.s->verdict.evidence, rows[i].not_said));
		assert_int_equal(strstr(r.s->verdict.advice, "what rank 3 (process 200) does") !=
					 NULL,
				 i == 0);
		if (i == 0)
			assert_non_null(strstr(r.s->verdict.command, "-p 200"));
		else
			assert_true(r.s->verdict.confidence <= 0.6);
		expect(&r, rows[i].class_name);
	}
}

/* Four ranks, of which the last is late; what it spends its time on counts as a cause only where the others spend less on it:
 * stopped by the machine it alone; stopped as much as all others, which is no cause, while it computes more; all alike, so that
 * nothing is known. */
static void a_cause_is_not_what_all_ranks_share(void **state)
{
	static const struct {
		uint64_t late_runqueue_ms, late_sleep_ms, late_disk_ms; /* the rest it computes */
		uint64_t others_runqueue_ms; /* and they wait for 5,000 ms */
		const char *said, *not_said;
	} rows[] = {
		{6000, 0, 0, 500,
		 "its thread spent 60 % ready, but no CPU was free, those of the other ranks 5 % (median)",
		 "not known"},
		{3500, 3300, 0, 3500,
		 "its thread spent 33 % asleep on purpose, those of the other ranks 0 % (median)",
		 "no CPU was free"},
		{3500, 2400, 2300, 3500,
		 "why it is late is not known: its thread spent most time \"ready, but no CPU was free\" (35 %), those of the other ranks 35 % (median)",
		 "only: its thread"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_collectives_rank ranks[] = {
			{.rank = 0, .pid = 100},
			{.rank = 1, .pid = 101},
			{.rank = 2, .pid = 102},
			{.rank = 3,
			 .pid = 200,
			 .n_last = 900,
			 .margin_sum_ns = 4500 * MS,
			 .missing_ns = 4500 * MS},
		};
		struct gs_collectives_comm comm = {.id = 0x1f,
						   .n_ranks = 4,
						   .n_matched = 1000,
						   .span_ns = RUN * MS,
						   .ranks = ranks,
						   .n_seen = 4,
						   .late = &ranks[3]};
		struct gs_collectives_summary all = {
			.comms = &comm, .n_comms = 1, .n_calls = 4000, .n_matched = 4000};
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		for (uint32_t pid = 100; pid < 103; pid++) {
			t = add_thread(&r, pid, pid, pid == 100);
			t->collectives = 1000;
			spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, 5000);
			spend(t, GS_STATE_RUNQUEUE, GS_INSIDE_NONE, rows[i].others_runqueue_ms);
			rest(t, GS_STATE_CPU);
		}
		add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel", 50000,
			  100);
		t = add_thread(&r, 200, 200, 1);
		t->launches = 50000;
		spend(t, GS_STATE_RUNQUEUE, GS_INSIDE_NONE, rows[i].late_runqueue_ms);
		spend(t, GS_STATE_SLEEP, GS_INSIDE_NONE, rows[i].late_sleep_ms);
		spend(t, GS_STATE_DISK, GS_INSIDE_NONE, rows[i].late_disk_ms);
		rest(t, GS_STATE_CPU);
		r.s->collectives = &all;
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, rows[i].said));
		assert_null(strstr(r.s->verdict.evidence, rows[i].not_said));
		expect(&r, "communication_bound");
	}
}

/* A data loader makes rank 1 late. Collectives are called by the thread of the backward pass, which waits for the first one in each
 * rank alike: what that one does is the cause. */
static void a_cause_is_in_the_first_thread(void **state)
{
	struct gs_collectives_rank ranks[] = {{.rank = 0, .pid = 100},
					      {.rank = 1,
					       .pid = 200,
					       .n_last = 980,
					       .margin_sum_ns = 4500 * MS,
					       .missing_ns = 4500 * MS}};
	struct gs_collectives_comm comm = {.id = 0x1f,
					   .n_ranks = 2,
					   .n_matched = 1000,
					   .span_ns = RUN * MS,
					   .ranks = ranks,
					   .n_seen = 2,
					   .late = &ranks[1]};
	struct gs_collectives_summary all = {
		.comms = &comm, .n_comms = 1, .n_calls = 2000, .n_matched = 2000};
	struct gs_account_thread *t;
	struct run r;

	run_begin(&r);
	for (uint32_t pid = 100; pid <= 200; pid += 100) {
		bool is_late = pid == 200;

		t = add_thread(&r, pid, pid, !is_late);
		t->launches = 30000;
		spend(t, GS_STATE_SLEEP, GS_INSIDE_NONE, is_late ? 5500 : 0);
		spend(t, GS_STATE_CPU, GS_INSIDE_GPU_WAIT, is_late ? 500 : 6000);
		rest(t, GS_STATE_CPU);
		t = add_thread(&r, pid, pid + 1, false);
		t->launches = 50000;
		t->collectives = 1000;
		spend(t, GS_STATE_LOCK, GS_INSIDE_NONE, is_late ? 8700 : 8500);
		rest(t, GS_STATE_CPU);
	}
	add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel", 50000, 100);
	r.s->collectives = &all;
	gs_verdict_trace(r.s);
	assert_non_null(strstr(
		r.s->verdict.evidence,
		"its thread spent 55 % asleep on purpose, those of the other ranks 0 % (median)"));
	expect(&r, "communication_bound");
}

/* In NCCL's calls themselves. */
static void ranks_of_waits_in_nccl(void **state)
{
	static const char *const said[] = {"rank 3 (process 200) arrives last",
					   "no rank stands out as late",
					   "where the trace begins before its communicators",
					   "for more than 3 % of the time at 100 collectives"};

	for (size_t i = 0; i < GS_ARRAY_LEN(said); i++) {
		struct gs_collectives_rank late = {.rank = 3,
						   .pid = 200,
						   .n_last = 90,
						   .missing_ns = (i == 3 ? 300 : 2000) * MS};
		struct gs_collectives_comm comm = {.id = 0x1f,
						   .n_matched = 100,
						   .span_ns = RUN * MS,
						   .ranks = &late,
						   .n_seen = 1,
						   .late = i % 3 ? NULL : &late};
		struct gs_collectives_summary all = {.comms = &comm, .n_comms = i != 2};

		struct gs_account_thread *t;
		struct run r;

		all.left_out[GS_COLLECTIVES_UNKNOWN] = i == 2 ? 100 : 0;
		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_OTHER, GS_INSIDE_NCCL, 4000);
		rest(t, GS_STATE_CPU);
		rest(add_thread(&r, 200, 200, 1), GS_STATE_SLEEP);
		r.s->collectives = &all;
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, said[i]));
		/* A rank that does not cost the others is none to look at. */
		assert_int_equal(strstr(r.s->verdict.advice, "rank 3") != NULL, i == 0);
		expect(&r, "communication_bound");
	}
}

/* Whatever the run is short of, a rank that costs the others a tenth of their time is named. */
static void who_is_late_is_said_beside_other_causes(void **state)
{
	static const char *const said[] = {"; rank 3 (process 200) arrives last",
					   "; it is rank 3, for which the others wait"};

	for (int i = 0; i < 4; i++) {
		bool is_late = i & 1, is_pace = i & 2;
		struct gs_collectives_rank late = {.rank = 3,
						   .pid = is_pace ? 100 : 200,
						   .n_last = 90,
						   .missing_ns = (is_late ? 2000 : 500) * MS};
		struct gs_collectives_comm comm = {.id = 0x1f,
						   .n_matched = 100,
						   .span_ns = RUN * MS,
						   .ranks = &late,
						   .n_seen = 1,
						   .late = &late};
		struct gs_collectives_summary all = {.comms = &comm, .n_comms = 1};
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->launches = 1000;
		rest(t, GS_STATE_CPU);
		rest(add_thread(&r, 200, 200, 1), GS_STATE_SLEEP);
		r.s->collectives = &all;
		gs_verdict_trace(r.s);
		assert_int_equal(strstr(r.s->verdict.evidence, said[is_pace]) != NULL, is_late);
		assert_int_equal(strstr(r.s->verdict.evidence, "rank 3") != NULL, is_late);
		expect(&r, "cpu_bound");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_make_waits_uncertain),
		cmocka_unit_test(a_late_rank_is_named),
		cmocka_unit_test(a_cause_is_not_what_all_ranks_share),
		cmocka_unit_test(a_cause_is_in_the_first_thread),
		cmocka_unit_test(ranks_of_waits_in_nccl),
		cmocka_unit_test(who_is_late_is_said_beside_other_causes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
