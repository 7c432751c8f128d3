/* What threads wait for, and what a process is seen to do, without probes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sources/host/wait.h"
#include "sources/host/taskstats.h"

static void calls(void **state)
{
	struct host_syscall s;

	(void)state;
	assert_int_equal(gs_host_parse_syscall("running\n", &s), 0);
	assert_int_equal(gs_host_parse_syscall("-1 0x7ffd 0x7f00\n", &s), 1);
	assert_int_equal(s.nr, -1);
	assert_int_equal(gs_host_parse_syscall(
				 "7 0x1 0x2 0xffffffff 0x0 0x5 0xffffffffffffffff 0x7f 0x7e\n", &s),
			 1);
	assert_int_equal(s.nr, 7);
	assert_true(s.arg[0] == 1 && s.arg[1] == 2 && s.arg[5] == UINT64_MAX);
	assert_true(gs_host_parse_syscall("", &s) < 0);
	assert_true(gs_host_parse_syscall("7 0x1\n", &s) < 0);
	assert_true(gs_host_parse_syscall("-2 0x1\n", &s) < 0);
	assert_true(gs_host_parse_syscall("x 0x1 0x2 0x3 0x4 0x5 0x6\n", &s) < 0);
}

static void links(void **state)
{
	(void)state;
	assert_int_equal(gs_host_wait_of_link("socket:[123]"), GS_TIME_NETWORK);
	assert_int_equal(gs_host_wait_of_link("pipe:[123]"), GS_TIME_PIPE);
	assert_int_equal(gs_host_wait_of_link("/dev/nvidia0"), GS_TIME_GPU);
	assert_int_equal(gs_host_wait_of_link("/home/u/data"), GS_TIME_DISK);
	assert_int_equal(gs_host_wait_of_link("anon_inode:[timerfd]"), GS_TIME_SLEEP);
	gs_host_wait_of_link("");
}

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static char state_of(pid_t pid)
{
	char path[64], state = '?';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d %*s %c", &state), 1);
	fclose(f);
	return state;
}

/* A child that sleeps: its time is there, and sums to the time that it was looked at. */
static void a_sleeper(void **state)
{
	struct gs_host_taskstats *w = NULL;
	struct gs_host_taskstats_total total;
	uint32_t pids[4];
	uint64_t sum = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause_ms(10000);
	}
	while (state_of(pid) != 'S')
		pause_ms(1);
	assert_int_equal(gs_host_taskstats_open("/proc", &w, NULL), 0);
	assert_int_equal(gs_host_taskstats_add(w, 3, (uint32_t)pid, false), 0);
	assert_true(gs_host_taskstats_watches(w, (uint32_t)pid));
	assert_false(gs_host_taskstats_watches(w, 1));
	for (int i = 0; i < 4; i++) {
		pause_ms(50);
		gs_host_taskstats_poll(w);
	}
	gs_host_taskstats_total(w, 3, &total);
	assert_int_equal(total.n_processes, 1);
	assert_true(total.known & GS_TASKSTATS_KNOWS_TIME);
	for (int i = 0; i < GS_TIME_COUNT; i++)
		sum += total.work.time_ns[i];
	assert_true(sum >= 150000000);
	if (total.known & GS_TASKSTATS_KNOWS_CAUSES)
		assert_true(total.work.time_ns[GS_TIME_SLEEP] > sum / 2);
	assert_int_equal(gs_host_taskstats_pids(w, 3, pids, 4), 1);
	assert_int_equal(pids[0], (uint32_t)pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	gs_host_taskstats_poll(w);
	gs_host_taskstats_total(w, 3, &total);
	assert_int_equal(total.n_processes, 0);
	assert_int_equal(total.n_processes_seen, 1);
	assert_int_equal(gs_host_taskstats_add(w, 3, (uint32_t)pid, false), -ESRCH);
	gs_host_taskstats_close(&w);
	assert_null(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls),
		cmocka_unit_test(links),
		cmocka_unit_test(a_sleeper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
