/* Each answer about the machine in both states: of a root folder, and of a kernel with and without each feature. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/mem.h"
#include "core/base/rights.h"

static char root[] = "/tmp/unit-doctor-XXXXXX";
static char scontrol_folder[64], spank_path[64];

static void put_file(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(full, 0700);
		*p = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void remove_all(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/*", root);
	assert_int_equal(system(command), 0);
}

static struct gs_doctor *new_doctor(void)
{
	const struct gs_doctor_options options = {.size = sizeof(options),
						  .root = root,
						  .slurm_path = scontrol_folder,
						  .spank_path = spank_path};
	struct gs_doctor *d = NULL;

	assert_int_equal(gs_doctor_new(&options, &d), 0);
	return d;
}

static const struct gs_doctor_answer *find_answer(const struct gs_doctor *d, const char *name)
{
	const struct gs_doctor_answer *a;

	for (size_t i = 0; (a = gs_doctor_at(d, i)); i++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* The answer's state; what fails says what it costs and what to do, what works does not. */
static void check_answer(const struct gs_doctor *d, const char *name, enum gs_doctor_state state,
			 const char *found)
{
	const struct gs_doctor_answer *a = find_answer(d, name);

	if (!a || a->state != state)
		print_error("%s: %s, \"%s\"\n", name, a ? gs_doctor_state_name(a->state) : "none",
			    a ? a->found : "");
	assert_non_null(a);
	assert_int_equal(a->state, state);
	assert_int_equal(a->without[0] != '\0', state >= GS_DOCTOR_LIMITED);
	assert_int_equal(a->mend[0] != '\0', state >= GS_DOCTOR_LIMITED);
	if (found && !strstr(a->found, found))
		print_error("%s: \"%s\" in \"%s\"\n", name, found, a->found);
	assert_true(!found || strstr(a->found, found));
}

/* --- the kernel --- */

static const struct gs_kernel_features all_features = {.programs = true,
						       .types = true,
						       .ring = true,
						       .multi = true,
						       .session = true,
						       .task_storage = true,
						       .cookies = true,
						       .typed_tracepoints = true,
						       .reads_kernel = true};
static const struct gs_uprobe_tried all_tried = {
	.single = true, .done = true, .harmless = true, .returns_kept = true};

static struct gs_doctor *ask_kernel(const struct gs_kernel_features *f,
				    const struct gs_uprobe_tried *t)
{
	struct gs_doctor *d = new_doctor();

	d->features = *f;
	d->tried = *t;
	d->has_features = true;
	doctor_ask_kernel(d);
	return d;
}

/* With one feature away the answer of its name changes, and no other. */
static void test_features(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
		enum gs_doctor_state without;
	} rows[] = {
#define ROW(name, member, state) {name, offsetof(struct gs_kernel_features, member), state}
		ROW("type information (BTF)", types, GS_DOCTOR_FAILS),
		ROW("BPF ring buffer", ring, GS_DOCTOR_FAILS),
		ROW("multi links", multi, GS_DOCTOR_LIMITED),
		ROW("session links", session, GS_DOCTOR_LIMITED),
		ROW("task storage", task_storage, GS_DOCTOR_LIMITED),
		ROW("probe cookies", cookies, GS_DOCTOR_FAILS),
		ROW("typed tracepoints", typed_tracepoints, GS_DOCTOR_LIMITED),
		ROW("lockdown", reads_kernel, GS_DOCTOR_FAILS),
#undef ROW
	};
	struct gs_doctor *d;

	if (!gs_rights_have(GS_CAP_BPF) || !gs_rights_have(GS_CAP_PERFMON))
		skip();
	for (size_t without = 0; without <= GS_ARRAY_LEN(rows); without++) {
		struct gs_kernel_features f = all_features;

		if (without < GS_ARRAY_LEN(rows))
			*(bool *)((char *)&f + rows[without].offset) = false;
		d = ask_kernel(&f, &all_tried);
		for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
			check_answer(d, rows[i].name,
				     i == without ? rows[i].without : GS_DOCTOR_WORKS, NULL);
		gs_doctor_free(&d);
	}
}

static void test_programs(void **state)
{
	struct gs_kernel_features none = {.types = true};
	struct gs_doctor *d;

	if (!gs_rights_have(GS_CAP_BPF) || !gs_rights_have(GS_CAP_PERFMON))
		skip();
	d = ask_kernel(&none, &all_tried);
	check_answer(d, "eBPF programs", GS_DOCTOR_FAILS, "permits no tracing here");
	/* Nothing follows from a kernel that loads no program. */
	check_answer(d, "BPF ring buffer", GS_DOCTOR_NOT_ASKED, "CAP_BPF");
	check_answer(d, "session links", GS_DOCTOR_NOT_ASKED, "CAP_BPF");
	gs_doctor_free(&d);
}

static void test_trials(void **state)
{
	struct gs_uprobe_tried t = all_tried;
	struct gs_doctor *d = ask_kernel(&all_features, &t);

	check_answer(d, "uprobe self-test", GS_DOCTOR_WORKS, "leave return addresses");
	check_answer(d, "single uprobes", GS_DOCTOR_WORKS, NULL);
	gs_doctor_free(&d);
	t.harmless = t.single = false;
	d = ask_kernel(&all_features, &t);
	check_answer(d, "uprobe self-test", GS_DOCTOR_FAILS, "wrong result");
	check_answer(d, "single uprobes", GS_DOCTOR_LIMITED, "missing");
	gs_doctor_free(&d);
	t.done = false;
	d = ask_kernel(&all_features, &t);
	check_answer(d, "uprobe self-test", GS_DOCTOR_NOT_ASKED, NULL);
	gs_doctor_free(&d);
}

static void test_lockdown(void **state)
{
	static const struct {
		const char *text;
		enum gs_doctor_state state;
	} rows[] = {
		{"[none] integrity confidentiality\n", GS_DOCTOR_WORKS},
		{"none [integrity] confidentiality\n", GS_DOCTOR_LIMITED},
		{"none integrity [confidentiality]\n", GS_DOCTOR_FAILS},
		{"nonsense ]none[", GS_DOCTOR_WORKS},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_doctor *d;

		put_file("/sys/kernel/security/lockdown", rows[i].text);
		d = ask_kernel(&all_features, &all_tried);
		check_answer(d, "lockdown", rows[i].state, NULL);
		gs_doctor_free(&d);
	}
	remove_all();
}

static void test_settings(void **state)
{
	struct gs_doctor *d = ask_kernel(&all_features, &all_tried);

	assert_non_null(strstr(find_answer(d, "tracefs")->found, "not mounted"));
	assert_non_null(
		strstr(find_answer(d, "memory of other processes")->found, "no ptrace_scope"));
	gs_doctor_free(&d);
	put_file("/sys/kernel/tracing/README", "");
	put_file("/proc/sys/kernel/unprivileged_bpf_disabled", "1\n");
	put_file("/proc/sys/kernel/perf_event_paranoid", "4\n");
	put_file("/proc/sys/kernel/yama/ptrace_scope", "2\n");
	d = ask_kernel(&all_features, &all_tried);
	check_answer(d, "tracefs", GS_DOCTOR_NOT_NEEDED, "mounted;");
	check_answer(d, "unprivileged_bpf_disabled", GS_DOCTOR_NOT_NEEDED, "1;");
	assert_non_null(strstr(find_answer(d, "perf events")->found, "perf_event_paranoid is 4"));
	assert_non_null(
		strstr(find_answer(d, "memory of other processes")->found, "ptrace_scope is 2"));
	gs_doctor_free(&d);
	remove_all();
}

/* --- jobs --- */

static void check_jobs(const char *name, enum gs_doctor_state wanted, const char *found)
{
	struct gs_doctor *d = new_doctor();

	doctor_ask_jobs(d);
	check_answer(d, name, wanted, found);
	gs_doctor_free(&d);
}

static void test_cgroups(void **state)
{
	check_jobs("cgroups", GS_DOCTOR_LIMITED, "no hierarchy");
	put_file("/sys/fs/cgroup/devices/tasks", "");
	check_jobs("cgroups", GS_DOCTOR_WORKS, "version 1");
	put_file("/sys/fs/cgroup/unified/cgroup.controllers", "");
	check_jobs("cgroups", GS_DOCTOR_WORKS, "versions 1 and 2");
	remove_all();
	put_file("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
	check_jobs("cgroups", GS_DOCTOR_WORKS, "version 2");
	check_jobs("device rules", GS_DOCTOR_NOT_NEEDED, NULL);
	remove_all();
}

static void put_scontrol(const char *script)
{
	char path[128];

	put_file("/bin/scontrol", script);
	snprintf(path, sizeof(path), "%s/bin/scontrol", root);
	assert_int_equal(chmod(path, 0700), 0);
}

#define SCONTROL(ping)                                                                             \
	"#!/bin/sh\n[ $1 = --version ] && echo slurm 23.11.4 && exit\necho '" ping "'\nexit 1\n"

static void test_slurm(void **state)
{
	check_jobs("Slurm's commands", GS_DOCTOR_NOT_NEEDED, "no slurm.conf");
	put_file("/etc/slurm/slurm.conf", "");
	check_jobs("Slurm's commands", GS_DOCTOR_LIMITED, "scontrol was not found");
	put_scontrol(SCONTROL("Slurmctld(primary) at n1 is UP"));
	check_jobs("Slurm's commands", GS_DOCTOR_WORKS, "23.11.4");
	check_jobs("slurmctld", GS_DOCTOR_WORKS, "n1 is UP");
	put_scontrol(SCONTROL("Slurmctld(primary) at n1 is DOWN"));
	check_jobs("slurmctld", GS_DOCTOR_LIMITED, "n1 is DOWN");
	remove_all();
}

/* What an answer says to do, but for sudo: all of it is in a folder of ours. */
static void run_mend(const char *name)
{
	char command[GS_DOCTOR_TEXT_BYTES];
	struct gs_doctor *d = new_doctor();
	const char *at;
	size_t n = 0;

	doctor_ask_jobs(d);
	for (at = find_answer(d, name)->mend; *at; at++) {
		if (strncmp(at, "sudo ", 5) == 0)
			at += 5;
		command[n++] = *at;
	}
	command[n] = '\0';
	assert_non_null(strstr(command, root));
	assert_int_equal(system(command), 0);
	gs_doctor_free(&d);
}

static void test_spank(void **state)
{
	char line[256], plugin[128];

	put_file("/etc/slurm/slurm.conf", "");
	check_jobs("SPANK plug-in", GS_DOCTOR_LIMITED, "not in");
	put_file("/etc/slurm/plugstack.conf",
		 "# optional /x/spank_gpuscope.so\nrequired /x/other.so\n");
	check_jobs("SPANK plug-in", GS_DOCTOR_LIMITED, "not in");
	put_file("/spank_gpuscope.so", "");
	snprintf(plugin, sizeof(plugin), "%s/spank_gpuscope.so", root);
	snprintf(line, sizeof(line), "optional %s record=1\n", plugin);
	put_file("/etc/slurm/plugstack.conf.d/gpuscope.conf", line);
	check_jobs("SPANK plug-in", GS_DOCTOR_WORKS, plugin);
	assert_int_equal(unlink(plugin), 0);
	check_jobs("SPANK plug-in", GS_DOCTOR_LIMITED, "which does not exist");
	/* The commands that it names mend it. */
	put_file("/ours/spank_gpuscope.so", "");
	run_mend("SPANK plug-in");
	check_jobs("SPANK plug-in", GS_DOCTOR_WORKS, plugin);
	remove_all();
	put_file("/etc/slurm/slurm.conf", "");
	put_file("/ours/spank_gpuscope.so", "");
	run_mend("SPANK plug-in");
	check_jobs("SPANK plug-in", GS_DOCTOR_WORKS, "/ours/spank_gpuscope.so");
	remove_all();
}

/* --- clocks, GPUs --- */

static void check_clock(enum gs_doctor_state wanted, const char *found)
{
	struct gs_doctor *d = new_doctor();

	doctor_ask_clocks(d);
	check_answer(d, "clock", wanted, found);
	gs_doctor_free(&d);
}

static void test_clocks(void **state)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";

	check_clock(GS_DOCTOR_NOT_ASKED, "unknown");
	put_file(path, "tsc\n");
	check_clock(GS_DOCTOR_WORKS, "tsc");
	put_file(path, "hpet\n");
	check_clock(GS_DOCTOR_LIMITED, "hpet");
	remove_all();
}

static void check_nvidia(bool wanted)
{
	struct gs_doctor *d = new_doctor();

	assert_int_equal(doctor_has_nvidia(d), wanted);
	gs_doctor_free(&d);
}

static void test_nvidia(void **state)
{
	check_nvidia(false);
	put_file("/sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n");
	put_file("/sys/bus/pci/devices/0000:00:01.0/class", "0x030000\n");
	/* An NVSwitch is no GPU. */
	put_file("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x10de\n");
	put_file("/sys/bus/pci/devices/0000:00:02.0/class", "0x068000\n");
	check_nvidia(false);
	put_file("/sys/bus/pci/devices/0000:00:03.0/vendor", "0x10de\n");
	put_file("/sys/bus/pci/devices/0000:00:03.0/class", "0x030200\n");
	check_nvidia(true);
	remove_all();
}

/* --- PEP 768, of versions that this machine need not have --- */

static void check_debugging(uint16_t version, bool by_variable, bool by_option,
			    enum gs_doctor_state wanted, const char *found)
{
	struct gs_doctor *d = new_doctor();

	doctor_put_remote_debugging(d, version, by_variable, by_option);
	check_answer(d, "Python remote debugging", wanted, found);
	gs_doctor_free(&d);
}

static void test_debugging(void **state)
{
	check_debugging(0x030d, true, true, GS_DOCTOR_NOT_NEEDED, "Python 3.13 does not have it");
	check_debugging(0x030e, false, false, GS_DOCTOR_WORKS, "enabled: trace --inside=python");
	check_debugging(0x0310, false, false, GS_DOCTOR_WORKS, "does not use it of");
	check_debugging(0x030e, true, false, GS_DOCTOR_LIMITED, "PYTHON_DISABLE_REMOTE_DEBUG");
	check_debugging(0x030f, false, true, GS_DOCTOR_LIMITED, "-X disable-remote-debug");
}

/* --- the list --- */

static void test_list(void **state)
{
	struct gs_doctor *d = new_doctor();

	for (unsigned i = 0; i < 2 * GS_DOCTOR_ANSWERS_MAX; i++)
		gs_doctor_put(d, &(struct gs_doctor_row){.name = "a\x1b[31m\nb"});
	assert_non_null(gs_doctor_at(d, GS_DOCTOR_ANSWERS_MAX - 1));
	assert_null(gs_doctor_at(d, GS_DOCTOR_ANSWERS_MAX));
	assert_string_equal(gs_doctor_at(d, 0)->name, "a?[31m?b");
	gs_doctor_free(&d);
	for (unsigned i = 0; i < GS_DOCTOR_STATES; i++)
		assert_true(gs_doctor_state_name(i)[0]);
	for (unsigned i = 0; i < GS_DOCTOR_GROUPS; i++)
		assert_true(gs_doctor_group_name(i)[0]);
}

static int make_root(void **state)
{
	unsetenv("SLURM_CONF");
	if (!mkdtemp(root))
		return -1;
	snprintf(scontrol_folder, sizeof(scontrol_folder), "%s/bin", root);
	snprintf(spank_path, sizeof(spank_path), "%s/ours/spank_gpuscope.so", root);
	return 0;
}

static int remove_root(void **state)
{
	remove_all();
	return rmdir(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_features),  cmocka_unit_test(test_programs),
		cmocka_unit_test(test_trials),    cmocka_unit_test(test_lockdown),
		cmocka_unit_test(test_settings),  cmocka_unit_test(test_cgroups),
		cmocka_unit_test(test_slurm),     cmocka_unit_test(test_spank),
		cmocka_unit_test(test_clocks),    cmocka_unit_test(test_nvidia),
		cmocka_unit_test(test_debugging), cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
