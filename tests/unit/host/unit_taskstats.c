/* What threads wait for, and what a process is seen to do, without probes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/host/wait.h"
#include "sources/host/taskstats.h"
#include "tree.h"

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

/* A thread of process 7 in io_uring_enter with ring 5, of which fdinfo says this. */
static enum gs_taskstats_time wait_at_ring(const char *fdinfo)
{
	const struct host_syscall s = {.nr = 426, .arg = {5}};
	enum gs_taskstats_time cause;
	GS_CLOSE int proc_fd = -1;

	tree_make();
	tree_put("7/fdinfo/5", fdinfo);
	proc_fd = open(tree_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(proc_fd >= 0);
	cause = gs_host_wait_cause(proc_fd, 7, 'S', &s);
	tree_remove();
	return cause;
}

static void rings(void **state)
{
	(void)state;
	assert_int_equal(wait_at_ring("pos:\t0\nSqHead:\t17\nCachedSqHead:\t17\nCqTail:\t17\n"
				      "CachedCqTail:\t17\nSQEs:\t0\n"),
			 GS_TIME_OTHER);
	assert_int_equal(wait_at_ring("pos:\t0\nCachedSqHead:\t18\nCachedCqTail:\t17\n"),
			 GS_TIME_DISK);
	/* Before Linux 5.14. */
	assert_int_equal(wait_at_ring("pos:\t0\n"), GS_TIME_DISK);
	assert_int_equal(wait_at_ring(""), GS_TIME_DISK);
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

static void put_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Gives the text to who reads the file next, after a while. */
static void answer_slowly(const char *path, const char *text)
{
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	if (fork() == 0) {
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		pause_ms(200);
		_exit(write(fd, text, strlen(text)) < 0);
	}
}

/* Threads that are read one after the other, as by a program that gets no processor meanwhile: each
 * one's time is that between its own readings, and the job's that between theirs on average. */
static void slow_readings(void **state)
{
	char root[] = "/tmp/unit_taskstats_XXXXXX", path[128], text[1024] = "", command[256];
	struct gs_host_taskstats *w = NULL;
	struct gs_host_taskstats_total total;
	uint64_t sum = 0, begin_ns, poll_ns;
	FILE *f = fopen("/proc/self/stat", "re");

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	snprintf(command, sizeof(command), "mkdir -p %s/7/task/7 %s/7/task/8 %s/7/task/9", root,
		 root, root);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/7/stat", root);
	put_file(path, text);
	for (int tid = 7; tid < 10; tid++) {
		snprintf(path, sizeof(path), "%s/7/task/%d/stat", root, tid);
		put_file(path, text);
	}
	assert_int_equal(gs_host_taskstats_open(root, &w, NULL), 0);
	begin_ns = gs_clock_boot_ns();
	assert_int_equal(gs_host_taskstats_add(w, 0, 7, false), 0);
	for (int tid = 8; tid < 10; tid++) {
		snprintf(path, sizeof(path), "%s/7/task/%d/stat", root, tid);
		answer_slowly(path, text);
	}
	poll_ns = gs_clock_boot_ns();
	assert_true(gs_host_taskstats_poll(w) >= 400000000);
	gs_host_taskstats_total(w, 0, &total);
	for (int i = 0; i < GS_TIME_COUNT; i++)
		sum += total.work.time_ns[i];
	assert_true(total.from_ns >= begin_ns && total.from_ns <= poll_ns);
	/* Whichever is read last is read after one of the slow ones at least. */
	assert_true(3 * (total.to_ns - poll_ns) >= 200000000);
	assert_true(3 * (total.to_ns - total.from_ns) <= sum + 9);
	assert_true(3 * (total.to_ns - total.from_ns) + 9 >= sum);
	/* One that joins later, and was there before, leaves the beginning where it is. */
	begin_ns = total.from_ns;
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p 5/task/5 && cp 7/stat 5/stat && cp 7/stat 5/task/5/stat", root);
	assert_int_equal(system(command), 0);
	assert_int_equal(gs_host_taskstats_add(w, 0, 5, false), 0);
	gs_host_taskstats_total(w, 0, &total);
	assert_int_equal(total.n_processes_seen, 2);
	assert_true(total.from_ns == begin_ns);
	gs_host_taskstats_close(&w);
	while (wait(NULL) > 0)
		;
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

/* A thread of a process, in a call of the kernel's number. */
static void put_thread(uint32_t pid, uint32_t tid, int call, const char *schedstat)
{
	char path[64], text[256];

	for (int is_thread = 0; is_thread < 2; is_thread++) {
		snprintf(path, sizeof(path), is_thread ? "%u/task/%u/stat" : "%u/stat", pid, tid);
		snprintf(text, sizeof(text),
			 "%u (app) S 1 %u %u 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 1000 10 0\n", tid,
			 pid, pid);
		tree_put(path, text);
	}
	snprintf(path, sizeof(path), "%u/task/%u/schedstat", pid, tid);
	tree_put(path, schedstat);
	snprintf(path, sizeof(path), "%u/task/%u/syscall", pid, tid);
	snprintf(text, sizeof(text), "%d 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", call);
	tree_put(path, text);
}

/* The same with parts of the time since then, however long that was. */
static void put_shares(uint32_t pid, uint32_t tid, int call, double cpu, double queue,
		       uint64_t begin_ns)
{
	double ns = (double)(gs_clock_boot_ns() - begin_ns);
	char text[64];

	snprintf(text, sizeof(text), "%.0f %.0f 9\n", cpu * ns, queue * ns);
	put_thread(pid, tid, call, text);
}

/* A server waits for the requests of a client that sleeps, and that waits for a processor longer than the
 * server works: that is no lead of the server's thread, whose wait is all of its time. */
static void the_pace_is_of_each_process(void **state)
{
	struct gs_host_taskstats *w = NULL;
	struct gs_host_taskstats_total total;
	struct gs_job_pace_share share;
	uint64_t network_ns;

	(void)state;
	tree_make();
	put_thread(11, 11, SYS_recvfrom, "1000 1000 1\n");
	put_thread(12, 12, SYS_clock_nanosleep, "1000 1000 1\n");
	assert_int_equal(gs_host_taskstats_open(tree_root, &w, NULL), 0);
	assert_int_equal(gs_host_taskstats_add(w, 0, 11, false), 0);
	assert_int_equal(gs_host_taskstats_add(w, 0, 12, false), 0);
	pause_ms(200);
	put_thread(11, 11, SYS_recvfrom, "2000000 1000 9\n");
	put_thread(12, 12, SYS_clock_nanosleep, "9000000 45000000 9\n");
	gs_host_taskstats_poll(w);
	gs_host_taskstats_total(w, 0, &total);
	assert_true(total.work.time_ns[GS_TIME_NETWORK] >= 190000000);
	assert_int_equal(total.pace.n_all, 2);
	gs_job_pace_shares(&total.pace, &share);
	assert_true(share.network > 0.45 && share.idle < 0.5);
	/* What has ended counts with its own, however much later that is seen. */
	network_ns = total.pace.network_ns;
	tree_gone("11/stat");
	gs_host_taskstats_poll(w);
	gs_host_taskstats_total(w, 0, &total);
	assert_int_equal(total.n_processes, 1);
	assert_int_equal(total.pace.n_all, 2);
	assert_true(total.pace.network_ns >= network_ns);
	gs_host_taskstats_close(&w);
	tree_remove();
}

/* A worker waits for its next task, and a helper for who takes what it made: beside others the helper waits
 * longer for a processor, and works less. */
static void who_works_most_sets_the_pace(void **state)
{
	struct gs_host_taskstats *w = NULL;
	struct gs_host_taskstats_total total;
	struct gs_job_pace_share share;
	uint64_t begin_ns;

	(void)state;
	tree_make();
	put_thread(13, 13, SYS_wait4, "1000 1000 1\n");
	put_thread(13, 14, SYS_recvfrom, "1000 1000 1\n");
	assert_int_equal(gs_host_taskstats_open(tree_root, &w, NULL), 0);
	assert_int_equal(gs_host_taskstats_add(w, 0, 13, false), 0);
	begin_ns = gs_clock_boot_ns();
	pause_ms(200);
	put_shares(13, 13, SYS_wait4, 0.15, 0.05, begin_ns);
	put_shares(13, 14, SYS_recvfrom, 0.005, 0.25, begin_ns);
	gs_host_taskstats_poll(w);
	gs_host_taskstats_total(w, 0, &total);
	assert_true(total.work.time_ns[GS_TIME_NETWORK] >= 100000000);
	gs_job_pace_shares(&total.pace, &share);
	assert_true(share.network < 0.01 && share.compute > 0.2);
	gs_host_taskstats_close(&w);
	tree_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls),
		cmocka_unit_test(links),
		cmocka_unit_test(rings),
		cmocka_unit_test(a_sleeper),
		cmocka_unit_test(slow_readings),
		cmocka_unit_test(the_pace_is_of_each_process),
		cmocka_unit_test(who_works_most_sets_the_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
