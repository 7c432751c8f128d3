/* Jobs, pods and units by their groups, as each version of Slurm names them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/identity/job_cgroup.h"

struct want {
	const char *text;
	uint32_t kind;
	int64_t job_id;
	const char *sluid, *step;
	int32_t task_id;
	const char *node, *name;
};

#define POD "0a1b2c3d-1111-2222-3333-444455556666"

static const struct want cases[] = {
	/* version 1: each controller by itself, some at the root */
	{"12:freezer:/slurm_n1/uid_0/job_1/step_0\n11:cpuset:/slurm_n1/uid_0/job_1/step_0\n"
	 "5:memory:/\n0::/\n",
	 GS_JOB_SLURM, 1, "", "0", -1, "n1", ""},
	{"4:memory:/slurm/uid_1000/job_4711/step_batch/task_0\n", GS_JOB_SLURM, 4711, "", "batch",
	 0, "", ""},
	{"9:cpuset:/slurm/uid_1000/job_77/step_1\n4:memory:/slurm/uid_1000/job_77/step_1/task_3\n",
	 GS_JOB_SLURM, 77, "", "1", 3, "", ""},
	{"4:devices:/slurm/uid_5/job_9\n", GS_JOB_SLURM, 9, "", "", -1, "", ""},
	/* version 2 */
	{"0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_7\n", GS_JOB_SLURM, 123, "",
	 "0", 7, "", ""},
	{"0::/system.slice/slurmstepd.scope/job_123/step_extern/user/task_special\n", GS_JOB_SLURM,
	 123, "", "extern", GS_JOB_TASK_SPECIAL, "", ""},
	{"0::/system.slice/slurmstepd.scope/job_123/step_interactive/slurm\n", GS_JOB_SLURM, 123,
	 "", "interactive", -1, "", ""},
	{"0::/system.slice/node-07_slurmstepd.scope/job_5/step_1+0/user/task_0\n", GS_JOB_SLURM, 5,
	 "", "1+0", 0, "node-07", ""},
	{"0::/hpc.slice/slurmstepd.scope/job_6/step_batch/user/task_0\n", GS_JOB_SLURM, 6, "",
	 "batch", 0, "", ""},
	{"0::/system.slice/docker-" POD ".scope/system.slice/slurmstepd.scope/job_8/step_0/user/"
	 "task_1\n",
	 GS_JOB_SLURM, 8, "", "0", 1, "", ""},
	/* 26.05 */
	{"0::/system.slice/slurmstepd.scope/s0A1B2C3D4E5F6/step_0/user/task_2\n", GS_JOB_SLURM, -1,
	 "s0A1B2C3D4E5F6", "0", 2, "", ""},
	{"0::/system.slice/slurmstepd.scope/s0A1B2C3D4E5FI/step_0/user/task_2\n", GS_JOB_UNIT, -1,
	 "", "", -1, "", "slurmstepd.scope"},
	/* a job inside which the user made groups, and one that starts a container */
	{"0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0/mine/task_9\n", GS_JOB_SLURM,
	 4, "", "0", 9, "", ""},
	/* names that only look like it */
	{"0::/system.slice/slurmstepd.scope/system\n", GS_JOB_UNIT, -1, "", "", -1, "",
	 "slurmstepd.scope"},
	{"0::/user.slice/job_5/step_0\n", GS_JOB_CGROUP, -1, "", "", -1, "",
	 "/user.slice/job_5/step_0"},
	{"0::/slurm/uid_0/job_12x\n", GS_JOB_CGROUP, -1, "", "", -1, "", "/slurm/uid_0/job_12x"},
	{"0::/slurm/uid_0/job_\n", GS_JOB_CGROUP, -1, "", "", -1, "", "/slurm/uid_0/job_"},
	{"0::/slurm/job_99999999999999999999999\n", GS_JOB_CGROUP, -1, "", "", -1, "",
	 "/slurm/job_99999999999999999999999"},
	/* pods */
	{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
	 "pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-x.scope\n",
	 GS_JOB_POD, -1, "", "", -1, "", POD},
	{"3:cpu:/kubepods/besteffort/pod" POD "/abcdef\n", GS_JOB_POD, -1, "", "", -1, "", POD},
	{"0::/podman/pod" POD "\n", GS_JOB_CGROUP, -1, "", "", -1, "", "/podman/pod" POD},
	/* units */
	{"0::/system.slice/sshd.service\n", GS_JOB_UNIT, -1, "", "", -1, "", "sshd.service"},
	{"0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x-1.scope\n", GS_JOB_UNIT,
	 -1, "", "", -1, "", "app-x-1.scope"},
	{"0::/bad\x01name\n", GS_JOB_CGROUP, -1, "", "", -1, "", "/bad?name"},
};

static void groups(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		const struct want *w = &cases[i];
		struct gs_job_cgroup g;

		assert_true(gs_job_of_cgroup(w->text, &g));
		assert_int_equal(g.kind, w->kind);
		assert_int_equal(g.job_id, w->job_id);
		assert_string_equal(g.sluid, w->sluid);
		assert_string_equal(g.step, w->step);
		assert_int_equal(g.task_id, w->task_id);
		assert_string_equal(g.node, w->node);
		assert_string_equal(g.name, w->name);
	}
}

static void the_jobs_own_folder(void **state)
{
	struct gs_job_cgroup g;

	gs_job_of_cgroup(cases[0].text, &g);
	assert_string_equal(g.path, "/slurm_n1/uid_0/job_1");
	assert_string_equal(g.hierarchy, "freezer");
	assert_int_equal(g.uid, 0);
	gs_job_of_cgroup("0::/system.slice/slurmstepd.scope/job_123/step_0/slurm\n", &g);
	assert_string_equal(g.path, "/system.slice/slurmstepd.scope/job_123");
	assert_string_equal(g.hierarchy, "");
	assert_true(g.is_daemon);
}

static void nothing(void **state)
{
	static const char *const texts[] = {"",        "0::/\n",           "\n\n",
					    "garbage", "0:/slurm/job_1\n", "12:cpu:/\n0::/\n"};
	struct gs_job_cgroup g;

	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		assert_false(gs_job_of_cgroup(texts[i], &g));
		assert_int_equal(g.kind, GS_JOB_NONE);
		assert_int_equal(g.job_id, -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(the_jobs_own_folder),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
