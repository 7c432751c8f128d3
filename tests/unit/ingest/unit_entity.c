/* Numbers of processes and threads: pids and tids that are used again, exec, processes that are
 * gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingest_test.h"

#include "core/base/clock.h"

static const struct gs_rec_process *process_of_last_call(const struct fixture *x)
{
	return gs_dict_process(x->dict, gs_dict_thread(x->dict, last_thread(x))->process);
}

static void announced_once_and_in_full(void **state)
{
	struct fixture *x = *state;
	const char status[] = "Uid:\t1000\t0\t0\t0\nNSpid:\t40\t4\n";
	const struct gs_rec_process *p;
	const struct gs_rec_thread *t;

	fake_put_stat(x->proc, 40, "train", 7, 300);
	fake_put(x->proc, 40, "status", status, strlen(status));
	fake_put(x->proc, 40, "cmdline", "train\0-v", 9);
	fake_put(x->proc, 40, "cgroup", "0::/lxc/box\n", 12);
	fake_put_exe(x->proc, 40, "/bin/train");
	fake_put_task(x->proc, 40, 41, "worker\n");
	for (int i = 0; i < 10; i++)
		send_call(x, 40, 40 + (uint32_t)i % 2);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 1);
	assert_int_equal(feed_count(x, GS_REC_THREAD), 2);
	assert_int_equal(feed_count(x, GS_REC_FUNCTION), 1);
	assert_int_equal(feed_count(x, GS_REC_LOSS), 0);
	p = feed_record(x, GS_REC_PROCESS, 0);
	assert_int_equal(p->id, 1);
	assert_int_equal(p->pid, 40);
	assert_int_equal(p->ns_pid, 4);
	assert_int_equal(p->parent_pid, 7);
	assert_int_equal(p->uid, 1000);
	assert_int_equal(p->start_ns, 300 * TICK_NS);
	assert_string_equal(text_of(x, p->comm_str), "train");
	assert_string_equal(text_of(x, p->exe_str), "/bin/train");
	assert_string_equal(text_of(x, p->cmdline_str), "train -v");
	assert_string_equal(text_of(x, p->container_str), "box");
	t = gs_dict_thread(x->dict, last_thread(x));
	assert_int_equal(t->tid, 41);
	assert_int_equal(t->process, 1);
	assert_string_equal(text_of(x, t->comm_str), "worker");
}

/* Threads whose tids share a place in the cache do not get each other's numbers. */
static void threads_with_colliding_tids(void **state)
{
	struct fixture *x = *state;
	uint32_t first[8];

	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 8; i++) {
			send_call(x, 1 + i % 2, 100 + 256 * (i / 2));
			feed_take(x);
			if (round == 0)
				first[i] = last_thread(x);
			assert_int_equal(last_thread(x), first[i]);
			assert_int_equal(gs_dict_thread(x->dict, first[i])->tid,
					 100 + 256 * (i / 2));
			assert_int_equal(process_of_last_call(x)->pid, 1 + i % 2);
		}
	assert_int_equal(feed_count(x, GS_REC_THREAD), 8);
}

static void a_tid_is_used_again(void **state)
{
	struct fixture *x = *state;
	uint32_t first, process;

	fake_put_stat(x->proc, 50, "p", 1, 5);
	send_call(x, 50, 51);
	feed_take(x);
	first = last_thread(x);
	process = gs_dict_thread(x->dict, first)->process;
	send_task(x, GS_TASK_EXIT, 50, 51, "", 0);
	send_call(x, 50, 51);
	feed_take(x);
	assert_int_not_equal(last_thread(x), first);
	assert_int_equal(gs_dict_thread(x->dict, last_thread(x))->process, process);
	/* The exit of a thread that made no call is nothing. */
	send_task(x, GS_TASK_EXIT, 50, 777, "t", 0);
	send_call(x, 50, 51);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_THREAD), 2);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 1);
}

static void send_cell(struct fixture *x, uint32_t pid, uint32_t tid, uint32_t slot)
{
	struct gs_thread thread = {.pid = pid, .tid = tid, .comm = "cells"};
	struct gs_cell zero = {0}, cell = {.thread_slot = slot, .func = 1, .calls = 1};

	gs_ingest_cell(x->feed, &thread, &zero, &cell);
	feed_take(x);
}

static uint32_t last_stats_thread(const struct fixture *x)
{
	return ((const struct gs_rec_stats *)feed_record(x, GS_REC_STATS, -1))->thread;
}

/* The last reading of a thread's cells may come behind its exit. */
static void cells_of_an_ended_thread(void **state)
{
	struct fixture *x = *state;
	uint32_t first, second;

	fake_put_stat(x->proc, 50, "p", 1, 5);
	send_cell(x, 50, 51, 3);
	first = last_stats_thread(x);
	send_task(x, GS_TASK_EXIT, 50, 51, "t", 3);
	send_cell(x, 50, 51, 3);
	assert_int_equal(last_stats_thread(x), first);
	/* Its heir has a slot of its own. */
	send_cell(x, 50, 51, 9);
	second = last_stats_thread(x);
	assert_int_not_equal(second, first);
	send_call(x, 50, 51);
	feed_take(x);
	assert_int_equal(last_thread(x), second);
	/* A call is always of a living thread. */
	send_task(x, GS_TASK_EXIT, 50, 51, "t", 9);
	send_call(x, 50, 51);
	feed_take(x);
	assert_int_not_equal(last_thread(x), second);
}

static void a_pid_is_used_again(void **state)
{
	struct fixture *x = *state;
	uint32_t first, worker;

	fake_put_stat(x->proc, 60, "first", 1, 1000);
	send_call(x, 60, 61);
	send_call(x, 60, 60);
	feed_take(x);
	first = process_of_last_call(x)->id;
	worker = ((const struct gs_rec_call *)feed_record(x, GS_REC_CALL, 0))->thread;
	send_task(x, GS_TASK_EXIT, 60, 60, "first", 0);

	/* Events behind the exit are still its own: the other threads may live on. */
	send_call(x, 60, 61);
	feed_take(x);
	assert_int_equal(last_thread(x), worker);
	fake_drop(x->proc, 60);
	send_task(x, GS_TASK_EXIT, 60, 60, "first", 0);
	send_call(x, 60, 61);
	feed_take(x);
	assert_int_equal(last_thread(x), worker);
	send_call(x, 60, 62);
	feed_take(x);
	assert_int_equal(process_of_last_call(x)->id, first);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 1);

	/* Another process has the pid now, with a thread of the same tid. */
	fake_put_stat(x->proc, 60, "second", 1, 2000);
	send_call(x, 60, 60);
	feed_take(x);
	assert_int_not_equal(process_of_last_call(x)->id, first);
	assert_string_equal(text_of(x, process_of_last_call(x)->comm_str), "second");
	send_call(x, 60, 61);
	feed_take(x);
	assert_int_not_equal(last_thread(x), worker);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 2);
	assert_int_equal(feed_lost(x, GS_LOSS_PROC), 0);
}

static void send_fork(struct fixture *x, uint32_t pid, uint64_t boot_ns)
{
	struct gs_event_task ev = {
		.head = {.kind = GS_EV_TASK, .bytes = sizeof(ev)},
		.time_ns = boot_ns - (uint64_t)BOOT_MINUS_MONO_NS,
		.pid = pid,
		.tid = pid,
		.parent_pid = 12,
		.change = GS_TASK_FORK,
	};

	gs_ingest_event(x->feed, &ev.head);
}

/* The exit was lost, the fork tells. */
static void a_fork_renews_a_pid(void **state)
{
	struct fixture *x = *state;
	uint32_t first;

	fake_put_stat(x->proc, 60, "first", 1, 10000);
	send_fork(x, 60, 10000 * TICK_NS + 3);
	send_call(x, 60, 60);
	feed_take(x);
	first = last_thread(x);
	assert_int_equal(process_of_last_call(x)->parent_pid, 1);

	/* Told late: it is the fork of this very process. */
	send_fork(x, 60, 10000 * TICK_NS + 3);
	send_call(x, 60, 60);
	feed_take(x);
	assert_int_equal(last_thread(x), first);

	fake_put_stat(x->proc, 60, "second", 1, 20000);
	send_fork(x, 60, 20000 * TICK_NS + 3);
	send_call(x, 60, 60);
	feed_take(x);
	assert_int_not_equal(last_thread(x), first);
	assert_string_equal(text_of(x, process_of_last_call(x)->comm_str), "second");

	/* The parent is known by the fork when nothing can be read. */
	send_fork(x, 62, 30000 * TICK_NS);
	send_call(x, 62, 62);
	feed_take(x);
	assert_int_equal(process_of_last_call(x)->parent_pid, 12);
	assert_int_equal(feed_lost(x, GS_LOSS_PROC), 1);
}

/* The program ended before its first call was looked at: the kernel named it. */
static void exec_names_a_process_that_is_gone(void **state)
{
	struct fixture *x = *state;
	uint32_t process;

	send_exec(x, 90, "train", "/opt/train");
	send_call(x, 90, 90);
	feed_take(x);
	process = process_of_last_call(x)->id;
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->comm_str), "train");
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->exe_str), "/opt/train");
	send_task(x, GS_TASK_EXIT, 90, 90, "train", 0);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 1);
}

/* Sums of a process that ended come before the notices of its birth, where these are held back. */
static void late_birth_of_a_process_that_is_gone(void **state)
{
	struct fixture *x = *state;
	uint64_t before_ns = gs_clock_boot_ns();
	uint32_t process;

	send_call(x, 95, 95);
	feed_take(x);
	process = process_of_last_call(x)->id;
	send_fork(x, 95, before_ns);
	send_exec(x, 95, "train", "/opt/train");
	send_call(x, 95, 95);
	feed_take(x);
	assert_int_equal(process_of_last_call(x)->id, process);
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->comm_str), "train");
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->exe_str), "/opt/train");
	/* The next one of that number is another. */
	send_task(x, GS_TASK_EXIT, 95, 95, "train", 0);
	send_fork(x, 95, gs_clock_boot_ns());
	send_exec(x, 95, "other", "/opt/other");
	send_call(x, 95, 95);
	feed_take(x);
	assert_int_not_equal(process_of_last_call(x)->id, process);
}

static void exec_keeps_the_number(void **state)
{
	struct fixture *x = *state;
	uint32_t process, main_thread, worker;

	fake_put_stat(x->proc, 70, "sh", 1, 5);
	fake_put_exe(x->proc, 70, "/bin/sh");
	send_task(x, GS_TASK_EXEC, 70, 70, "sh", 0); /* nothing to announce yet */
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 0);
	send_call(x, 70, 71);
	feed_take(x);
	worker = last_thread(x);
	send_call(x, 70, 70);
	feed_take(x);
	main_thread = last_thread(x);
	process = process_of_last_call(x)->id;

	fake_put_stat(x->proc, 70, "train", 1, 5);
	fake_put_exe(x->proc, 70, "/opt/train");
	fake_put_task(x->proc, 70, 70, "train\n");
	send_task(x, GS_TASK_EXEC, 70, 70, "train", 0);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 2);
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->comm_str), "train");
	assert_string_equal(text_of(x, gs_dict_process(x->dict, process)->exe_str), "/opt/train");
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, main_thread)->comm_str), "train");
	send_call(x, 70, 70);
	feed_take(x);
	assert_int_equal(last_thread(x), main_thread);
	assert_int_equal(process_of_last_call(x)->id, process);
	/* The other threads ended with the old program. */
	send_call(x, 70, 71);
	feed_take(x);
	assert_int_not_equal(last_thread(x), worker);
}

static void gone_before_it_was_read(void **state)
{
	struct fixture *x = *state;
	const struct gs_rec_process *p;
	const struct gs_rec_loss *l;

	send_call(x, 80, 80);
	send_call(x, 80, 81);
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_PROC), 1);
	p = process_of_last_call(x);
	assert_int_equal(p->pid, 80);
	assert_int_equal(p->start_ns, 0);
	assert_int_equal(p->comm_str, 0);

	/* Its exit tells the names. */
	send_task(x, GS_TASK_EXIT, 80, 81, "worker", 0);
	send_task(x, GS_TASK_EXIT, 80, 80, "gone", 0);
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_PROC), 1);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), 2);
	assert_string_equal(text_of(x, gs_dict_process(x->dict, 1)->comm_str), "gone");
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, 1)->comm_str), "gone");
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, 2)->comm_str), "worker");

	/* Known by its cells alone: the kernel side has the thread's name. */
	send_cell(x, 90, 90, 4);
	assert_int_equal(feed_lost(x, GS_LOSS_PROC), 2);
	l = feed_record(x, GS_REC_LOSS, -1);
	assert_string_equal(text_of(x, l->detail_str), "cells");
	p = gs_dict_process(x->dict, gs_dict_thread(x->dict, last_stats_thread(x))->process);
	assert_string_equal(text_of(x, p->comm_str), "cells");
}

/* More threads and processes than the tables hold, with and without exits. */
static void tables_are_bounded(void **state)
{
	struct fixture *x = *state;
	const uint32_t n = 70000;
	uint32_t first_id;

	for (uint32_t i = 0; i < n; i++) {
		send_call(x, 1, 1000 + i);
		if (i % 2)
			send_task(x, GS_TASK_EXIT, 1, 1000 + i, "", i + 1);
	}
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_THREAD), n);
	assert_int_equal(feed_lost(x, GS_LOSS_NO_THREAD), 0);
	/* Those alive were kept: ended ones went. */
	first_id = ((const struct gs_rec_call *)feed_record(x, GS_REC_CALL, 0))->thread;
	send_call(x, 1, 1000);
	feed_take(x);
	assert_int_equal(last_thread(x), first_id);
	/* Without any exit the oldest living one goes, and comes back under another number. */
	for (uint32_t i = 0; i < 110000; i++)
		send_call(x, 1, 1000000 + i);
	send_call(x, 1, 1000);
	feed_take(x);
	assert_int_not_equal(last_thread(x), first_id);
	assert_int_equal(gs_dict_thread(x->dict, last_thread(x))->tid, 1000);
	for (uint32_t i = 0; i < n; i++)
		send_call(x, 100 + i, 100 + i);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_PROCESS), n + 1);
	assert_int_equal(feed_lost(x, GS_LOSS_NO_THREAD), 0);
}

static void send_named(struct fixture *x, uint32_t pid, uint32_t tid, uint32_t n)
{
	struct gs_thread thread = {.pid = pid, .tid = tid};
	struct gs_cell zero = {0}, cell = {.thread_slot = n + 1, .func = 1, .calls = 1};

	snprintf(thread.comm, sizeof(thread.comm), "n%u", n);
	gs_ingest_cell(x->feed, &thread, &zero, &cell);
}

/* Threads that make up names use up the share of their user, and of nobody else. */
static void names_of_one_user_are_bounded(void **state)
{
	struct fixture *x = *state;
	const uint32_t n = 50000;
	unsigned named = 0;

	fake_put_stat(x->proc, 50, "p", 1, 5);
	fake_put(x->proc, 50, "status", "Uid:\t1000\t1000\t1000\t1000\n",
		 sizeof("Uid:\t1000\t1000\t1000\t1000\n") - 1);
	fake_put_stat(x->proc, 60, "other", 1, 5);
	fake_put(x->proc, 60, "status", "Uid:\t1001\t1001\t1001\t1001\n",
		 sizeof("Uid:\t1001\t1001\t1001\t1001\n") - 1);
	for (uint32_t i = 0; i < n; i++)
		send_named(x, 50, 100 + i, i);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_THREAD), n);
	named = feed_count(x, GS_REC_STRING);
	assert_true(named > 30000 && named < 33000);
	assert_true(feed_lost(x, GS_LOSS_REFUSED) > 0);
	send_named(x, 60, 61, n);
	feed_take(x);
	assert_string_equal(text_of(x, gs_dict_thread(x->dict, last_stats_thread(x))->comm_str),
			    "n50000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(announced_once_and_in_full),
		FEED_TEST(threads_with_colliding_tids),
		FEED_TEST(a_tid_is_used_again),
		FEED_TEST(cells_of_an_ended_thread),
		FEED_TEST(a_pid_is_used_again),
		FEED_TEST(a_fork_renews_a_pid),
		FEED_TEST(exec_keeps_the_number),
		FEED_TEST(gone_before_it_was_read),
		FEED_TEST(exec_names_a_process_that_is_gone),
		FEED_TEST(late_birth_of_a_process_that_is_gone),
		FEED_TEST(gone_before_it_was_read),
		FEED_TEST(tables_are_bounded),
		FEED_TEST(names_of_one_user_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
