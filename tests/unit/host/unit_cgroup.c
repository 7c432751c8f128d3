/* Memory, processors and pressure of a job's cgroup: trees as kernels with either version show
 * them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sources/host/host_int.h"
#include "sources/host/pressure.h"
#include "sources/host/taskstats.h"
#include "tree.h"

#define V1_JOB "/slurm/uid_1001/job_4711"

/* As Slurm 22.05 sets a job up on CentOS 7 (kernel 3.10): hierarchies of one controller each,
 * joined ones by a link; the step below the job. */
static const char v1_proc[] = "11:memory:" V1_JOB "/step_0/task_0\n"
			      "10:freezer:" V1_JOB "/step_0\n"
			      "6:cpuset:" V1_JOB "/step_0\n"
			      "4:cpuacct,cpu:" V1_JOB "/step_0/task_0\n"
			      "1:name=systemd:/system.slice/slurmd.service\n";

static void put_v1(void)
{
	tree_put("proc/77/cgroup", v1_proc);
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.usage_in_bytes", "104857600\n");
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.max_usage_in_bytes", "209715200\n");
	/* No limit of its own: the largest multiple of a page. */
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.limit_in_bytes",
		 "9223372036854771712\n");
	tree_put("sys/memory" V1_JOB "/memory.limit_in_bytes", "1073741824\n");
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.oom_control",
		 "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	tree_put("sys/cpuacct" V1_JOB "/step_0/task_0/cpuacct.usage", "123456789\n");
	tree_put("sys/cpu" V1_JOB "/step_0/task_0/cpu.cfs_quota_us", "250000\n");
	tree_put("sys/cpu" V1_JOB "/step_0/task_0/cpu.cfs_period_us", "100000\n");
}

static bool read_of(uint32_t pid, const char *path, struct gs_host_cgroup *c)
{
	char sys[128], proc[128];

	snprintf(sys, sizeof(sys), "%s/sys", tree_root);
	snprintf(proc, sizeof(proc), "%s/proc", tree_root);
	return gs_host_cgroup_read(sys, proc, pid, path, c);
}

static void check_v1(const struct gs_host_cgroup *c)
{
	assert_int_equal(c->memory_bytes, 100 << 20);
	assert_int_equal(c->memory_peak_bytes, 200 << 20);
	assert_int_equal(c->memory_limit_bytes, 1 << 30); /* of the job above */
	assert_int_equal(c->oom_kills, 3);
	assert_int_equal(c->cpu_ns, 123456789);
	assert_true(c->cores == 2.5);
}

/* What the check found: a group of 64 MiB that holds next to nothing but page cache. */
static void page_cache(void **state)
{
	struct gs_host_cgroup c;

	(void)state;
	tree_make();
	put_v1();
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.stat",
		 "cache 4096\nrss 8192\ntotal_cache 96468992\ntotal_rss 4194304\n"
		 "total_shmem 1048576\ntotal_inactive_anon 4194304\ntotal_active_anon 1048576\n"
		 "total_inactive_file 90177536\ntotal_active_file 4194304\n"
		 "total_unevictable 1048576\n");
	assert_true(read_of(77, NULL, &c));
	assert_int_equal(c.anonymous_bytes, 4 << 20);
	assert_int_equal(c.cache_bytes, 91 << 20); /* without tmpfs */
	assert_int_equal(c.reclaimable_bytes, 90 << 20);
	assert_int_equal(c.memory_bytes, 10 << 20);
	assert_int_equal(c.memory_peak_bytes, -1); /* the kernel's has the cache in it */
	tree_put("proc/79/cgroup", "0::/cached\n");
	tree_put("sys/cached/memory.current", "104857600\n");
	tree_put("sys/cached/memory.peak", "104857600\n");
	tree_put("sys/cached/memory.stat",
		 "anon 2097152\nfile 99614720\nkernel 3145728\nshmem 1048576\n"
		 "inactive_file 94371840\nactive_file 3145728\nslab_reclaimable 1048576\n"
		 "slab 2097152\n");
	assert_true(read_of(79, NULL, &c));
	assert_int_equal(c.anonymous_bytes, 2 << 20);
	assert_int_equal(c.cache_bytes, 94 << 20);
	assert_int_equal(c.reclaimable_bytes, 94 << 20);
	assert_int_equal(c.memory_bytes, 6 << 20);
	assert_int_equal(c.memory_peak_bytes, -1);
	tree_remove();
}

/* The quota of a group above counts too, with its own periods; a group of one controller only. */
static void throttled(void **state)
{
	struct gs_host_cgroup c;

	(void)state;
	tree_make();
	tree_put("proc/81/cgroup", "4:cpu:/limited/below\n3:memory:/\n2:cpuacct:/\n");
	tree_put("sys/cpu/limited/below/cpu.cfs_quota_us", "-1\n");
	tree_put("sys/cpu/limited/below/cpu.cfs_period_us", "100000\n");
	tree_put("sys/cpu/limited/cpu.cfs_quota_us", "20000\n");
	tree_put("sys/cpu/limited/cpu.cfs_period_us", "100000\n");
	tree_put("sys/cpu/limited/cpu.stat",
		 "nr_periods 83\nnr_throttled 79\nthrottled_time 6300000000\n");
	tree_put("sys/memory/memory.usage_in_bytes", "4096\n");
	assert_true(read_of(81, NULL, &c));
	assert_true(c.cores == 0.2);
	assert_int_equal(c.periods, 83);
	assert_int_equal(c.throttled_periods, 79);
	assert_int_equal(c.throttled_ns, 6300000000);
	assert_int_equal(c.memory_bytes, -1); /* the machine's */
	tree_put("proc/82/cgroup", "0::/a/b\n");
	tree_put("sys/a/b/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 0\n");
	tree_put("sys/a/b/cpu.max", "400000 100000\n");
	tree_put("sys/a/cpu.max", "150000 100000\n");
	tree_put("sys/a/cpu.stat",
		 "usage_usec 5\nnr_periods 10\nnr_throttled 7\nthrottled_usec 1234\n");
	assert_true(read_of(82, NULL, &c));
	assert_true(c.cores == 1.5);
	assert_int_equal(c.throttled_periods, 7);
	assert_int_equal(c.throttled_ns, 1234000);
	tree_remove();
}

static void memory_limit(void **state)
{
	const int64_t gib = 1 << 30;

	(void)state;
	assert_int_equal(gs_host_memory_limit(-1, -1, 64 * gib), -1);
	assert_int_equal(gs_host_memory_limit(8 * gib, -1, 64 * gib), 8 * gib);
	assert_int_equal(gs_host_memory_limit(8 * gib, 4 * gib, 64 * gib), 4 * gib);
	/* Slurm gives a job that asked for none all that the node is configured with. */
	assert_int_equal(gs_host_memory_limit(63 * gib, 4 * gib, 64 * gib), 4 * gib);
	assert_int_equal(gs_host_memory_limit(63 * gib, -1, 64 * gib), -1);
	assert_int_equal(gs_host_memory_limit(63 * gib, -1, -1), 63 * gib);
}

static void version_1(void **state)
{
	struct gs_host_cgroup c;

	(void)state;
	tree_make();
	put_v1();
	assert_true(read_of(77, NULL, &c));
	check_v1(&c);
	assert_true(read_of(0, V1_JOB "/step_0/task_0", &c));
	check_v1(&c);
	/* No quota, and a kernel that does not count kills (before 4.13). */
	tree_put("sys/cpu" V1_JOB "/step_0/task_0/cpu.cfs_quota_us", "-1\n");
	tree_put("sys/memory" V1_JOB "/step_0/task_0/memory.oom_control",
		 "oom_kill_disable 0\nunder_oom 0\n");
	assert_true(read_of(77, NULL, &c));
	assert_true(c.cores < 0);
	assert_int_equal(c.oom_kills, -1);
	assert_false(read_of(78, NULL, &c));
	tree_remove();
}

static void version_2(void **state)
{
	struct gs_host_cgroup c;

	(void)state;
	tree_make();
	tree_put("proc/77/cgroup", "0::/system.slice/slurmstepd.scope/job_9/step_0\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/step_0/memory.current", "4096\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/step_0/memory.max", "max\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/memory.max", "8192\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/step_0/memory.events",
		 "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/step_0/cpu.stat",
		 "usage_usec 1500\nuser_usec 1000\n");
	tree_put("sys/system.slice/slurmstepd.scope/job_9/step_0/cpu.max", "max 100000\n");
	assert_true(read_of(77, NULL, &c));
	assert_int_equal(c.memory_bytes, 4096);
	assert_int_equal(c.memory_peak_bytes, -1);
	assert_int_equal(c.memory_limit_bytes, 8192);
	assert_int_equal(c.oom_kills, 2);
	assert_int_equal(c.cpu_ns, 1500000);
	assert_true(c.cores < 0);
	/* The root is the machine, which says nothing of a job. */
	tree_put("proc/78/cgroup", "0::/\n");
	assert_false(read_of(78, NULL, &c));
	tree_remove();
}

static void paths(void **state)
{
	char path[256], small[8];

	(void)state;
	assert_true(gs_host_parse_cgroup(v1_proc, "cpu", path, sizeof(path)));
	assert_string_equal(path, V1_JOB "/step_0/task_0");
	assert_true(gs_host_parse_cgroup(v1_proc, "cpuacct", path, sizeof(path)));
	assert_true(gs_host_parse_cgroup(v1_proc, "freezer", path, sizeof(path)));
	assert_string_equal(path, V1_JOB "/step_0");
	assert_false(gs_host_parse_cgroup(v1_proc, "", path, sizeof(path)));
	assert_false(gs_host_parse_cgroup(v1_proc, "cpus", path, sizeof(path)));
	assert_true(gs_host_parse_cgroup("0::/a:b/c\n", "", path, sizeof(path)));
	assert_string_equal(path, "/a:b/c");
	assert_true(gs_host_parse_cgroup("0::/a/long/path\n", "", small, sizeof(small)));
	assert_int_equal(strlen(small), 7);
	assert_false(gs_host_parse_cgroup("", "", path, sizeof(path)));
	assert_false(gs_host_parse_cgroup("no colon", "", path, sizeof(path)));
}

static void pressure(void **state)
{
	static const char text[] = "some avg10=1.50 avg60=0.20 avg300=0.00 total=123456\n"
				   "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
	struct gs_host_stalls p;
	char sys[128], proc[128], machine[128];

	(void)state;
	assert_int_equal(gs_host_parse_stalls(text, "some"), 123456);
	assert_int_equal(gs_host_parse_stalls(text, "full"), 99);
	assert_int_equal(gs_host_parse_stalls(text, "so"), -1);
	assert_int_equal(gs_host_parse_stalls("some avg10=0.00\nfull total=5\n", "some"), -1);
	assert_int_equal(gs_host_parse_stalls("some total=\n", "some"), -1);
	assert_int_equal(gs_host_parse_stalls("", "some"), -1);
	tree_make();
	snprintf(sys, sizeof(sys), "%s/sys", tree_root);
	snprintf(proc, sizeof(proc), "%s/proc", tree_root);
	snprintf(machine, sizeof(machine), "%s/proc/pressure", tree_root);
	/* Beside version 1, version 2 has a folder of its own; a kernel before 5.13 tells no "full"
	 * of processors, one without a controller has no file. */
	tree_put("proc/77/cgroup", "11:memory:" V1_JOB "\n0::/job_1\n");
	tree_put("sys/unified/job_1/cpu.pressure",
		 "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
	tree_put("sys/unified/job_1/memory.pressure", text);
	assert_true(gs_host_stalls_of_cgroup(sys, proc, 77, NULL, &p));
	assert_int_equal(p.total_us[GS_STALL_CPU_SOME], 7);
	assert_int_equal(p.cpu_full_us, -1);
	assert_int_equal(p.total_us[GS_STALL_MEMORY_SOME], 123456);
	assert_int_equal(p.total_us[GS_STALL_MEMORY_FULL], 99);
	assert_int_equal(p.total_us[GS_STALL_IO_SOME], -1);
	assert_true(gs_host_stalls_of_cgroup(sys, proc, 0, "/job_1", &p));
	assert_false(gs_host_stalls_of_cgroup(sys, proc, 0, "/job_2", &p));
	assert_false(gs_host_stalls_of_cgroup(sys, proc, 0, "/", &p));
	assert_false(gs_host_stalls_of_cgroup(sys, proc, 78, NULL, &p));
	assert_false(gs_host_stalls_read(machine, &p));
	tree_put("sys/unified/job_1/cpu.pressure", text);
	assert_true(gs_host_stalls_of_cgroup(sys, proc, 0, "/job_1", &p));
	assert_int_equal(p.cpu_full_us, 99);
	tree_put("proc/pressure/io", text);
	assert_true(gs_host_stalls_read(machine, &p));
	assert_int_equal(p.total_us[GS_STALL_IO_FULL], 99);
	tree_remove();
}

/* What a quota stopped, and what TCP sent again, of one process. */
static void one_process(void **state)
{
	char sys[128], proc[128];

	(void)state;
	tree_make();
	snprintf(sys, sizeof(sys), "%s/sys", tree_root);
	snprintf(proc, sizeof(proc), "%s/proc", tree_root);
	put_v1();
	assert_int_equal(gs_host_cgroup_throttled_ns(sys, proc, 77), -1); /* no cpu.stat */
	tree_put("sys/cpu" V1_JOB "/step_0/task_0/cpu.stat",
		 "nr_periods 40\nnr_throttled 30\nthrottled_time 4000000000\n");
	assert_int_equal(gs_host_cgroup_throttled_ns(sys, proc, 77), 4000000000);
	tree_put("proc/78/cgroup", "0::/a/b\n");
	tree_put("sys/a/cpu.max", "50000 100000\n");
	tree_put("sys/a/cpu.stat",
		 "usage_usec 5\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1500\n");
	tree_put("sys/a/b/cpu.max", "max 100000\n");
	assert_int_equal(gs_host_cgroup_throttled_ns(sys, proc, 78), 1500000);
	tree_put("sys/a/cpu.max", "max 100000\n"); /* no quota any more */
	assert_int_equal(gs_host_cgroup_throttled_ns(sys, proc, 78), -1);
	assert_int_equal(gs_host_cgroup_throttled_ns(sys, proc, 79), -1);

	tree_put("proc/77/net/snmp", "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
				     "Tcp: RtoAlgorithm RtoMin MaxConn OutSegs RetransSegs InErrs\n"
				     "Tcp: 1 200 -1 900 77 0\nUdp: InDatagrams\nUdp: 5\n");
	assert_int_equal(gs_host_tcp_retransmits(proc, 77), 77);
	tree_put("proc/78/net/snmp", "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm RetransSegs\n");
	assert_int_equal(gs_host_tcp_retransmits(proc, 78), -1); /* torn */
	tree_put("proc/78/net/snmp", "Ip: F\nIp: 1\nTcp: RtoAlgorithm RetransSegs\nTcp: 1\n");
	assert_int_equal(gs_host_tcp_retransmits(proc, 78), -1);
	assert_int_equal(gs_host_tcp_retransmits(proc, 79), -1);
	tree_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_1), cmocka_unit_test(page_cache),
		cmocka_unit_test(throttled), cmocka_unit_test(memory_limit),
		cmocka_unit_test(version_2), cmocka_unit_test(paths),
		cmocka_unit_test(pressure),  cmocka_unit_test(one_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
