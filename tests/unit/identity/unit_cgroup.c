/* Container ids in cgroup texts of every engine, versions 1 and 2 of control groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/identity/identity.h"

#define A    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B    "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define TASK "0123456789abcdef0123456789abcdef"

static const struct {
	const char *text, *id;
} cases[] = {
	/* docker */
	{"0::/system.slice/docker-" A ".scope\n", A},
	{"11:memory:/docker/" A "\n10:cpu,cpuacct:/docker/" A "\n0::/\n", A},
	{"0::/../" A "\n", A},
	{"0::/docker/" A "/init.scope\n", A},
	/* containerd, Kubernetes */
	{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
	 "cri-containerd-" A ".scope\n",
	 A},
	{"5:devices:/kubepods/besteffort/pod7f3c2a3e-0000-11ee-be56-0242ac120002/" A "\n", A},
	{"1:name=systemd:/kubepods-besteffort-pod1.slice:cri-containerd:" A "\n", A},
	{"0::/kubepods/pod1/" A, A},
	/* CRI-O */
	{"0::/kubepods.slice/kubepods-pod1.slice/crio-" A ".scope\n", A},
	{"0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-" A ".scope\n", ""},
	{"0::/kubepods/pod1/crio-" A "\n", A},
	/* podman */
	{"0::/machine.slice/libpod-" A ".scope/container\n", A},
	{"0::/machine.slice/libpod-conmon-" A ".scope\n", ""},
	{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" A ".scope\n", A},
	{"4:pids:/libpod_parent/libpod-" A "\n", A},
	{"4:pids:/libpod_parent/conmon\n", ""},
	{"4:pids:/libpod_parent/libpod-" A "/libpod_parent/libpod-" B "\n", B},
	/* systemd-nspawn */
	{"0::/machine.slice/machine-debian.scope/init.scope\n", "debian"},
	{"0::/machine.slice/systemd-nspawn@deb\\x2d12.service/payload\n", "deb-12"},
	{"0::/machine.slice/machine-.scope\n", ""},
	{"0::/machine.slice/systemd-nspawn@.service\n", ""},
	/* lxc */
	{"0::/lxc.payload.web/system.slice\n", "web"},
	{"0::/lxc.payload/web\n", "web"},
	{"0::/lxc.payload\n", ""},
	{"0::/lxc.monitor.web\n", ""},
	{"9:cpuset:/lxc/101/ns\n", "101"},
	{"9:cpuset:/lxc\n", ""},
	/* ECS and Fargate */
	{"3:cpu:/ecs/cluster/" A "\n", A},
	{"3:cpu:/ecs/" TASK "/" TASK "-2495160603\n", TASK "-2495160603"},
	{"3:cpu:/other/" TASK "-2495160603\n", ""},
	{"3:cpu:/ecs/" TASK "/" TASK "-24951606031\n", ""},
	{"3:cpu:/ecs/" TASK "/" TASK "-\n", ""},
	{"3:cpu:/ecs/" TASK "\n", ""},
	/* apptainer */
	{"0::/user.slice/user-1.slice/apptainer-4711.scope\n", "apptainer-4711"},
	{"0::/user.slice/singularity-4711.scope\n", "singularity-4711"},
	{"0::/user.slice/apptainer-x.scope\n", ""},
	/* containers within containers, and which line to believe */
	{"0::/docker/" A "/kubepods/pod1/" B "\n", B},
	{"0::/docker/" A "/lxc/inner\n", "inner"},
	{"0::/lxc.payload.out/docker/" B "/x.service\n", B},
	{"0::/docker/" A "/docker/crio-conmon-" B ".scope\n", A},
	{"2:cpu:/docker/" A "\n1:name=systemd:/docker/" A "/docker/" B "\n", B},
	{"2:cpu:/\n1:name=systemd:/user.slice\n0::/lxc.payload.v2\n", "v2"},
	/* outside */
	{"", ""},
	{"\n\n\n", ""},
	{"0::/\n", ""},
	{"0::/user.slice/user-1000.slice/session-3.scope\n", ""},
	{"0::/system.slice/ssh.service\n", ""},
	{"0::/" TASK "\n", ""},
	/* not what it looks like */
	{"0::/docker-" A "0.scope\n", ""},
	{"0::/docker" A ".scope\n", ""},
	{"0::/-" A ".scope\n", ""},
	{"0::/docker/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n", ""},
	{"docker/" A "\n", ""},
	{"0:/docker/" A "\n", ""},
	{"0::docker/" A "\n", ""},
	{"::::://///\n", ""},
	{"0::/system.slice/bad:name:" A "\n", A},
};

static void every_engine(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		char out[GS_IDENTITY_CONTAINER_BYTES];

		memset(out, 'x', sizeof(out));
		gs_identity_container_of_cgroup(cases[i].text, out);
		if (strcmp(out, cases[i].id) != 0)
			fail_msg("%s gives \"%s\"", cases[i].text, out);
	}
}

static void long_names_are_cut(void **state)
{
	char text[8192], out[GS_IDENTITY_CONTAINER_BYTES];

	memset(text, 'n', sizeof(text));
	memcpy(text, "0::/lxc/", 8);
	text[sizeof(text) - 1] = '\0';
	gs_identity_container_of_cgroup(text, out);
	assert_int_equal(strlen(out), GS_IDENTITY_CONTAINER_BYTES - 1);
	assert_memory_equal(out, "nnnn", 4);

	/* A long line of slashes and one without end, before a good one. */
	memset(text, '/', sizeof(text));
	memcpy(text, "0::", 3);
	strcpy(text + 8000, "\n1:cpu:/docker/" A "\n");
	gs_identity_container_of_cgroup(text, out);
	assert_string_equal(out, A);
}

static void control_bytes_do_not_pass(void **state)
{
	char out[GS_IDENTITY_CONTAINER_BYTES];

	gs_identity_container_of_cgroup("0::/lxc/a\x1b[31mb\n", out);
	assert_string_equal(out, "a?[31mb");
	gs_identity_container_of_cgroup("0::/lxc/a\\x1bb\\x\n", out);
	assert_string_equal(out, "a?b\\x");
	gs_identity_container_of_cgroup("0::/lxc/a\\x00b\n", out);
	assert_string_equal(out, "a?b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_engine),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(control_bytes_do_not_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
