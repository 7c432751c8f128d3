/* Runs whose threads wait for locks: for one that others have, in turn or not, or for work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* The first thread waits for threads of which one sleeps with the lock that the others want. */
static void a_sleeping_holder_is_no_idleness(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->idle = 1;
		rest(t, GS_STATE_LOCK);
		for (uint32_t tid = 101; tid < 105; tid++) {
			t = add_thread(&r, 100, tid, 1);
			spend(t, GS_STATE_SLEEP, 0, 2500);
			rest(t, i ? GS_STATE_POLL : GS_STATE_LOCK); /* they want no lock */
		}
		expect(&r, i ? "idle" : "lock_bound");
	}
}

/* The first thread waits for eight that share a lock, which one of them may have most of the time: how long each sleeps. */
static void a_lock_is_not_shared_evenly(void **state)
{
	static const struct {
		uint64_t sleep_ms[8];
		double confidence;
		const char *class_name, *said;
	} rows[] = {
		{{2000, 2000, 2000, 2000, 1990}, 0.95, "lock_bound", "take turns"},
		{{7500, 1800, 60, 10, 10}, 0.95, "lock_bound", "take turns"},
		{{9800, 60, 30, 30, 30}, 0.95, "lock_bound", "take turns"},
		{{1250, 1250, 1250, 1250, 1250, 1250, 1250, 1240},
		 0.95,
		 "lock_bound",
		 "take turns"},
		/* One that only sleeps may hold a lock, or is a clock beside idle threads. */
		{{10000, 0, 0, 0}, 0.6, "idle", "thread 101 (app) of its process slept for 100 %"},
		{{9000, 0, 0, 0}, 0.6, "idle", "slept for 90 %"},
		/* Idle threads of a pool look around now and then. */
		{{300, 100, 100, 100}, 0.6, "lock_bound", "a deadlock, or they"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->idle = 1;
		rest(t, GS_STATE_LOCK);
		for (uint32_t n = 0; n < 8; n++) {
			t = add_thread(&r, 100, 101 + n, 1);
			spend(t, GS_STATE_SLEEP, 0, rows[i].sleep_ms[n]);
			rest(t, GS_STATE_LOCK);
		}
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, rows[i].said));
		assert_true(r.s->verdict.confidence <= rows[i].confidence &&
			    r.s->verdict.confidence >= rows[i].confidence - 0.01);
		expect(&r, rows[i].class_name);
	}
}

/* The first thread waits for three, which wait for a mutex or for an event, beside one that sleeps or waits, too. */
static void a_mutex_is_held_by_a_thread(void **state)
{
	static const struct {
		unsigned waits;
		uint64_t waited_ms, slept_ms;
		double confidence;
		const char *class_name, *said;
	} rows[] = {
		{GS_STATE_MUTEX, 10000, 10000, 0.95, "lock_bound",
		 "thread 101 (app) slept for 100 %"},
		{GS_STATE_MUTEX, 10000, 0, 0.95, "lock_bound", "a deadlock"},
		{GS_STATE_MUTEX, 4300, 10000, 0.53, "lock_bound",
		 "3 threads of its process waited"},
		{GS_STATE_MUTEX, 3900, 10000, 0.6, "idle", "slept for 100 %"},
		{GS_STATE_LOCK, 10000, 10000, 0.6, "idle", "slept for 100 %"},
		{GS_STATE_LOCK, 10000, 0, 0.6, "lock_bound", "a deadlock, or they"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		t->idle = 1;
		rest(t, GS_STATE_LOCK);
		t = add_thread(&r, 100, 101, 1);
		spend(t, GS_STATE_SLEEP, 0, rows[i].slept_ms);
		rest(t, GS_STATE_LOCK);
		for (uint32_t tid = 102; tid < 105; tid++) {
			t = add_thread(&r, 100, tid, 1);
			spend(t, rows[i].waits, 0, rows[i].waited_ms);
			rest(t, GS_STATE_LOCK);
		}
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, rows[i].said));
		assert_true(r.s->verdict.confidence <= rows[i].confidence &&
			    r.s->verdict.confidence >= rows[i].confidence - 0.01);
		expect(&r, rows[i].class_name);
	}
}

/* Twelve processes of which one at a time sleeps with a lock in shared memory; or they are no siblings. */
static void processes_share_a_lock(void **state)
{
	static const struct {
		uint32_t parent_step;
		const char *process, *said;
	} rows[] = {
		{0, "app", "12 processes of this program take turns"},
		{1, "app", "a deadlock, or they"},
		{0, "other", "a deadlock, or they"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct run r;

		run_begin(&r);
		for (uint32_t n = 0; n < 12; n++) {
			struct gs_account_thread *t =
				add_thread(&r, 100 + n, 100 + n, 50 + n * rows[i].parent_step);

			t->process = n ? rows[i].process : "app";
			t->idle = 1;
			spend(t, GS_STATE_SLEEP, 0, 300 + 80 * n);
			rest(t, GS_STATE_LOCK);
		}
		gs_verdict_trace(r.s);
		assert_non_null(strstr(r.s->verdict.evidence, rows[i].said));
		expect(&r, "lock_bound");
	}
}

/* The parent of a server's processes only watches them; a loop that workers feed does something with what comes. */
static void a_parent_that_only_watches_is_not_fed(void **state)
{
	for (uint64_t active_ms = 0; active_ms <= 100; active_ms += 20) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 101, 101, 100);
		spend(t, GS_STATE_POLL, 0, 2000);
		rest(t, GS_STATE_CPU);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_CPU, 0, active_ms);
		rest(t, GS_STATE_POLL);
		expect(&r, active_ms < 50 ? "cpu_bound" : "input_bound");
	}
}

/* Threads of Python that use one processor in turn. */
static void threads_that_take_turns(void **state)
{
	static const struct {
		const char *process;
		uint64_t cpu_ms;
		unsigned other;
		const char *class_name;
	} rows[] = {
		{"python3", 2500, GS_STATE_LOCK, "gil_bound"},
		{"app", 2500, GS_STATE_LOCK, "lock_bound"},
		{"python3", 700, GS_STATE_LOCK, "lock_bound"},
		{"python3", 5000, GS_STATE_LOCK,
		 "lock_bound"}, /* two processors: they run side by side */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct run r;

		run_begin(&r);
		for (uint32_t tid = 100; tid < 104; tid++) {
			struct gs_account_thread *t = add_thread(&r, 100, tid, 1);

			t->process = rows[i].process;
			spend(t, GS_STATE_CPU, 0, rows[i].cpu_ms);
			rest(t, rows[i].other);
		}
		expect(&r, rows[i].class_name);
	}
}

static void the_interpreters_lock_needs_proof(void **state)
{
	for (int seen_ms = 2800; seen_ms >= 2200; seen_ms -= 600) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		t = add_thread(&r, 100, 100, 1);
		spend(t, GS_STATE_LOCK, 0, 4500);
		rest(t, GS_STATE_CPU);
		t->process = "python3";
		add_calls(&r, 0, GS_LAYER_PYTHON, GS_CLASS_GIL, "gil", 1000, (uint64_t)seen_ms);
		expect(&r, seen_ms > 2500 ? "gil_bound" : "lock_bound");
	}
}

/* Of a recording that broke off before anything was in it no selection was wrong. */
static void a_recording_that_was_cut_off(void **state)
{
	for (unsigned complete = 0; complete < 2; complete++) {
		struct run r;

		run_begin(&r);
		r.s->complete = complete;
		gs_verdict_trace(r.s);
		assert_int_equal(complete, strstr(r.s->verdict.advice, "process ids") != NULL);
		assert_int_equal(!complete, strstr(r.s->verdict.evidence, "cut off") != NULL);
		expect(&r, "not_known");
	}
}

/* The children of a command are traced without being asked for. */
static void a_command_that_waits_for_its_children(void **state)
{
	static const char *const commands[] = {"sh -c make", "process 100"};

	for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++) {
		struct run r;

		run_begin(&r);
		r.s->command = commands[i];
		rest(add_thread(&r, 100, 100, 1), GS_STATE_CHILD);
		gs_verdict_trace(r.s);
		assert_int_equal(i == 1, strstr(r.s->verdict.advice, "--follow") != NULL);
		expect(&r, "waits_for_child");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recording_that_was_cut_off),
		cmocka_unit_test(a_command_that_waits_for_its_children),
		cmocka_unit_test(a_sleeping_holder_is_no_idleness),
		cmocka_unit_test(a_lock_is_not_shared_evenly),
		cmocka_unit_test(a_mutex_is_held_by_a_thread),
		cmocka_unit_test(processes_share_a_lock),
		cmocka_unit_test(a_parent_that_only_watches_is_not_fed),
		cmocka_unit_test(threads_that_take_turns),
		cmocka_unit_test(the_interpreters_lock_needs_proof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
