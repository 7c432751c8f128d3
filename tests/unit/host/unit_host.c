/* The texts of /proc, and this machine's own. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sources/host/host.h"
#include "sources/host/host_int.h"

#define TAIL                                                                                       \
	" S 7 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 12345 1000000 250 "                     \
	"18446744073709551615 1\n"

static void stat_line(void **state)
{
	struct gs_host_stat s;
	static const char plain[] = "42 (python)" TAIL;
	static const char odd[] = "42 (a) R 1 (b\n)" TAIL;

	assert_true(gs_host_parse_stat(plain, strlen(plain), &s));
	assert_string_equal(s.comm, "python");
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.parent_pid, 7);
	assert_int_equal(s.cpu_ticks, 200);
	assert_int_equal(s.n_threads, 3);
	assert_int_equal(s.start_ticks, 12345);
	assert_int_equal(s.rss_pages, 250);
	assert_true(gs_host_parse_stat(odd, strlen(odd), &s));
	assert_string_equal(s.comm, "a) R 1 (b?");
	assert_int_equal(s.parent_pid, 7);
	/* Cut anywhere up to the end of the last field that is read, it is no such line. */
	for (size_t n = 0; n <= strlen(plain) - strlen(" 18446744073709551615 1\n"); n++)
		assert_false(gs_host_parse_stat(plain, n, &s));
}

static void machine_texts(void **state)
{
	struct gs_host_counters c;
	struct gs_host_sample s = {0};
	int32_t n_cpus = -1;

	memset(&c, 0xff, sizeof(c));
	gs_host_parse_cpu("cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n", &c,
			  &n_cpus);
	assert_int_equal(n_cpus, 2);
	assert_int_equal(c.cpu_total, 10 + 20 + 30 + 400 + 5 + 6 + 7 + 8);
	assert_int_equal(c.cpu_idle, 405);
	assert_int_equal(c.cpu_iowait, 5);
	gs_host_parse_meminfo("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n"
			      "SwapTotal:  100 kB\nSwapFree: 30 kB\nHugePages_Total: 5\n",
			      &s);
	assert_int_equal(s.mem_total_bytes, 1000 * 1024);
	assert_int_equal(s.mem_used_bytes, 600 * 1024);
	assert_int_equal(s.swap_used_bytes, 70 * 1024);
	gs_host_parse_meminfo("nonsense", &s);
	assert_int_equal(s.mem_total_bytes, -1);
	assert_int_equal(s.mem_used_bytes, -1);
	gs_host_parse_loadavg("0.50 1.25 2.00 3/456 789\n", &s);
	assert_true(s.load1 == 0.5 && s.load15 == 2);
	assert_int_equal(s.n_tasks, 456);
	assert_int_equal(s.n_running, 3);
	/* Whole disks only: neither partitions nor what lies on them. */
	gs_host_parse_diskstats(
		"   8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n   8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n"
		" 259 0 nvme0n1 1 0 100 0 1 0 200 0 0 0 0\n"
		" 259 1 nvme0n1p1 1 0 100 0 1 0 200 0 0 0 0\n"
		" 259 2 nvme0c1n1 1 0 100 0 1 0 200 0 0 0 0\n"
		" 253 0 dm-0 1 0 7 0 1 0 7 0 0 0 0\n   7 0 loop0 1 0 7 0 1 0 7 0 0 0 0\n",
		&c);
	assert_int_equal(c.disk_read_bytes, 110 * 512);
	assert_int_equal(c.disk_written_bytes, 220 * 512);
	gs_host_parse_net_dev("Inter-|   Receive\n face |bytes\n"
			      "    lo: 99 0 0 0 0 0 0 0 99 0 0 0 0 0 0 0\n"
			      "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
			      "   ib0:5000 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0\n"
			      "vethab: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n",
			      &c);
	assert_int_equal(c.net_rx_bytes, 6000);
	assert_int_equal(c.net_tx_bytes, 8000);
}

static void this_process(void **state)
{
	struct gs_host *h = NULL;
	struct gs_host_snapshot *s = NULL;
	const struct gs_host_process *p;
	struct gs_err err;
	uint32_t pid = (uint32_t)getpid();
	volatile uint64_t busy = 0;

	assert_int_equal(gs_host_open("/proc", &h, &err), 0);
	assert_int_equal(gs_host_read(h, &pid, 1, false, &s), 0);
	assert_int_equal(gs_host_change_of(h, pid), GS_HOST_NEW);
	assert_int_equal(s->sample.elapsed_ns, 0);
	assert_true(s->sample.cpu_ratio < 0); /* a rate needs two readings */
	assert_true(s->sample.mem_total_bytes > 0);
	p = gs_host_process_of(s, pid);
	assert_non_null(p);
	assert_true(p->cpu_ratio < 0);
	assert_int_equal(p->parent_pid, getppid());
	assert_true(p->rss_bytes > 0);
	assert_int_equal(p->flags, 0);
	p = gs_host_process_of(s, (uint32_t)getppid());
	assert_non_null(p); /* ancestors come with it */
	assert_int_equal(p->flags, GS_HOST_PROCESS_ANCESTOR);
	gs_host_snapshot_free(&s);
	for (int i = 0; i < 200000000; i++)
		busy += (uint64_t)i;
	(void)busy;
	assert_int_equal(gs_host_read(h, &pid, 1, false, &s), 0);
	p = gs_host_process_of(s, pid);
	assert_non_null(p);
	assert_true(p->cpu_ratio > 0);
	assert_int_equal(gs_host_change_of(h, pid), GS_HOST_SAME);
	assert_true(s->sample.cpu_ratio >= 0 && s->sample.cpu_ratio <= 1);
	gs_host_snapshot_free(&s);
	assert_int_equal(gs_host_read(h, NULL, 0, true, &s), 0);
	assert_non_null(gs_host_process_of(s, pid));
	assert_non_null(gs_host_process_of(s, 1));
	gs_host_snapshot_free(&s);
	gs_host_close(&h);
}

static void signals_reach_only_who_was_meant(void **state)
{
	struct gs_host *h = NULL;
	struct gs_host_snapshot *s = NULL;
	const struct gs_host_process *p;
	struct gs_err err;
	pid_t child = fork();
	uint32_t pid = (uint32_t)child;
	uint64_t start_ns;
	int status;

	if (child == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(gs_host_open("/proc", &h, &err), 0);
	assert_int_equal(gs_host_read(h, &pid, 1, false, &s), 0);
	p = gs_host_process_of(s, pid);
	assert_non_null(p);
	start_ns = p->start_ns;
	assert_int_equal(gs_host_signal(h, pid, start_ns - 1000000000ull, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0);
	assert_int_equal(gs_host_signal(h, pid, start_ns, SIGTERM), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(gs_host_signal(h, pid, start_ns, SIGTERM), -ESRCH);
	gs_host_snapshot_free(&s);
	gs_host_close(&h);
}

static void environment(void **state)
{
	struct gs_buf buf = GS_BUF_INIT(1u << 20);
	struct gs_host *h = NULL;
	struct gs_err err;

	assert_int_equal(gs_host_open("/proc", &h, &err), 0);
	assert_int_equal(gs_host_read_environ(h, (uint32_t)getpid(), &buf), 0);
	assert_true(buf.bytes > 1);
	assert_int_equal(buf.data[buf.bytes - 1], 0);
	assert_int_equal(gs_host_read_environ(h, UINT32_MAX, &buf), -ENOENT);
	assert_string_equal(gs_host_user_name(h, 0), "root");
	assert_string_equal(gs_host_user_name(h, 0), "root");
	assert_string_equal(gs_host_user_name(h, 4123456789u), "");
	gs_buf_fini(&buf);
	gs_host_close(&h);
}

static void no_proc(void **state)
{
	struct gs_host *h = NULL;
	struct gs_err err;

	assert_int_equal(gs_host_open("/nowhere", &h, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nowhere"));
	assert_null(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_line),    cmocka_unit_test(machine_texts),
		cmocka_unit_test(this_process), cmocka_unit_test(signals_reach_only_who_was_meant),
		cmocka_unit_test(environment),  cmocka_unit_test(no_proc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
