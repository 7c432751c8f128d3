/* Rights of the caller, and what the kernel can do and permits. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/mem.h"
#include "core/base/rights.h"
#include "sources/sideband/sideband.h"

#define AS_ROOT "sudo gpuscope doctor"

/* --- rights --- */

void doctor_ask_rights(struct gs_doctor *d)
{
	static const struct {
		unsigned capability;
		const char *name, *without;
	} more[] = {
		{CAP_SYS_PTRACE, "CAP_SYS_PTRACE",
		 "only your own processes can be traced, and jobs of other users have no GPU calls"},
		{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH",
		 "libraries that this user cannot read get no probes"},
		{CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
		 "PyTorch operators get no probes (--inside=ops traces them), and NVIDIA's performance counters may be hidden"},
	};
	struct gs_err err = {{0}};
	int r = gs_kernel_features_check_rights(&err);

	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_RIGHTS,
			.state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_FAILS,
			.name = "CAP_BPF and CAP_PERFMON",
			.found = r == 0 ? "" : err.text,
			.without =
				r == 0 ? ""
				       : "tracing is impossible; job and top use /proc only; gpu works",
			.mend = r == 0 ? "" : AS_ROOT});
	for (size_t i = 0; i < GS_ARRAY_LEN(more); i++) {
		bool have = gs_rights_have(more[i].capability);

		gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_RIGHTS,
							 .state = have ? GS_DOCTOR_WORKS
								       : GS_DOCTOR_LIMITED,
							 .name = more[i].name,
							 .found = have ? "" : "missing",
							 .without = have ? "" : more[i].without,
							 .mend = have ? "" : AS_ROOT});
	}
}

/* --- what was tried --- */

static void ask_version(struct gs_doctor *d)
{
	struct utsname u = {0};
	char text[160];
	bool is_fit;

	uname(&u);
	is_fit = strcmp(u.machine, "x86_64") == 0;
	snprintf(text, sizeof(text), "%s %.64s %s", u.sysname, u.release, u.machine);
	gs_doctor_put(d, &(struct gs_doctor_row){
				 .group = GS_DOCTOR_KERNEL,
				 .state = is_fit ? GS_DOCTOR_WORKS : GS_DOCTOR_FAILS,
				 .name = "version",
				 .found = text,
				 .without = is_fit ? "" : "tracing is impossible",
				 .mend = is_fit ? "" : "use a machine with x86-64 processors"});
}

/* The three without which nothing is traced, in the words of `gpuscope trace`. */
static void ask_needed(struct gs_doctor *d, const struct gs_kernel_features *f, bool may_ask)
{
	const struct {
		const char *name, *mend;
		bool is_there, is_known;
		struct gs_kernel_features alone; /* all is there but this */
	} rows[] = {
		{"type information (BTF)",
		 "boot the distribution's kernel, or one built with CONFIG_DEBUG_INFO_BTF=y",
		 f->types,
		 true,
		 {.programs = true, .ring = true}},
		{"eBPF programs",
		 "run it on the host, or in a container with docker run --privileged --pid=host",
		 f->programs,
		 may_ask,
		 {.types = true, .ring = true}},
		{"BPF ring buffer",
		 "boot Linux 5.15 or newer",
		 f->ring,
		 may_ask && f->programs,
		 {.types = true, .programs = true}},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		struct gs_doctor_row row = {.group = GS_DOCTOR_KERNEL, .name = rows[i].name};
		struct gs_err err = {{0}};

		row.state = !rows[i].is_known  ? GS_DOCTOR_NOT_ASKED
			    : rows[i].is_there ? GS_DOCTOR_WORKS
					       : GS_DOCTOR_FAILS;
		if (row.state == GS_DOCTOR_FAILS) {
			gs_kernel_features_check(&rows[i].alone, &err);
			row.found = err.text;
			row.without = "tracing is impossible; job uses /proc only";
			row.mend = rows[i].mend;
		} else if (row.state == GS_DOCTOR_NOT_ASKED) {
			row.found = "needs CAP_BPF";
		}
		gs_doctor_put(d, &row);
	}
}

/* What makes it cheaper, or more of it. */
static void ask_better(struct gs_doctor *d, const struct gs_kernel_features *f, bool may_ask)
{
	const struct {
		const char *name, *since, *without;
		bool is_there, is_known;
		enum gs_doctor_state else_state;
	} rows[] = {
		{"probe cookies", "5.15", "tracing is impossible", f->cookies, may_ask,
		 GS_DOCTOR_FAILS},
		{"multi links", "6.6",
		 "attaching takes 0.1 s per function and needs CAP_SYS_ADMIN; functions that may throw cannot have `return: true`",
		 f->multi, may_ask, GS_DOCTOR_LIMITED},
		{"session links", "6.13", "each traced call costs two probes instead of one",
		 f->session, may_ask, GS_DOCTOR_LIMITED},
		{"task storage", "5.11",
		 "each traced call looks its thread up in a table, and costs more", f->task_storage,
		 may_ask, GS_DOCTOR_LIMITED},
		{"typed tracepoints", "5.5", "no wall-time account; job uses /proc only",
		 f->typed_tracepoints, may_ask, GS_DOCTOR_LIMITED},
		{"single uprobes", "4.17", "probes are not tested before use", d->tried.single,
		 true, GS_DOCTOR_LIMITED},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		enum gs_doctor_state state = !rows[i].is_known  ? GS_DOCTOR_NOT_ASKED
					     : rows[i].is_there ? GS_DOCTOR_WORKS
								: rows[i].else_state;
		bool is_missing = state == rows[i].else_state;
		char mend[64];

		snprintf(mend, sizeof(mend), "boot Linux %s or newer", rows[i].since);
		gs_doctor_put(d, &(struct gs_doctor_row){
					 .group = GS_DOCTOR_KERNEL,
					 .state = state,
					 .name = rows[i].name,
					 .found = state == GS_DOCTOR_NOT_ASKED ? "needs CAP_BPF"
						  : is_missing ? "missing in this kernel"
							       : "",
					 .without = is_missing ? rows[i].without : "",
					 .mend = is_missing ? mend : ""});
	}
}

static void ask_selftest(struct gs_doctor *d)
{
	struct gs_doctor_row row = {
		.group = GS_DOCTOR_KERNEL, .name = "uprobe self-test", .state = GS_DOCTOR_WORKS};

	if (!d->tried.done) {
		row.state = GS_DOCTOR_NOT_ASKED;
		row.found =
			gs_rights_have(GS_CAP_BPF) && gs_rights_have(GS_CAP_PERFMON)
				? "the test did not end in time, or this kernel has no single uprobes"
				: "needs CAP_BPF and CAP_PERFMON";
	} else if (!d->tried.harmless) {
		row.state = GS_DOCTOR_FAILS;
		row.found = "a test function returned a wrong result while probed";
		row.without = "tracing is impossible";
		row.mend = "boot another kernel, and report this as a bug";
	} else {
		row.found = d->tried.returns_kept
				    ? "tested; return probes leave return addresses alone"
				    : "tested; functions that may throw get no return probe";
	}
	gs_doctor_put(d, &row);
}

/* --- what the kernel forbids by its settings --- */

/* "none [integrity] confidentiality": which one. */
static void chosen_word(const char *text, char *out, size_t bytes)
{
	const char *from = strchr(text, '['), *to = from ? strchr(from, ']') : NULL;

	snprintf(out, bytes, "%.*s", to ? (int)(to - from - 1) : 0, from ? from + 1 : "");
}

static void ask_lockdown(struct gs_doctor *d, const struct gs_kernel_features *f, bool may_ask)
{
	char text[128], mode[32];
	int n = doctor_read(d, "/sys/kernel/security/lockdown", text, sizeof(text));
	struct gs_doctor_row row = {.group = GS_DOCTOR_KERNEL,
				    .name = "lockdown",
				    .state = GS_DOCTOR_WORKS,
				    .found = mode};

	chosen_word(text, mode, sizeof(mode));
	if (n <= 0)
		row.found = may_ask && f->reads_kernel
				    ? "unknown; eBPF programs may read kernel memory"
				    : "unknown";
	if (strcmp(mode, "integrity") == 0) {
		row.state = GS_DOCTOR_LIMITED;
		row.without =
			"PyTorch operators and C++ functions that may throw get no probes (--inside=ops traces operators)";
	}
	if (strcmp(mode, "confidentiality") == 0 || (may_ask && f->programs && !f->reads_kernel)) {
		row.state = GS_DOCTOR_FAILS;
		row.without = "tracing is impossible; job uses /proc only";
	}
	if (n <= 0 && !may_ask)
		row.state = GS_DOCTOR_NOT_ASKED;
	if (row.state >= GS_DOCTOR_LIMITED)
		row.mend =
			"boot without lockdown= on the kernel command line and with Secure Boot off";
	gs_doctor_put(d, &row);
}

static void ask_perf(struct gs_doctor *d)
{
	long paranoid = doctor_number(d, "/proc/sys/kernel/perf_event_paranoid", -2);
	struct gs_err err = {{0}};
	GS_CLEANUP(gs_sideband_free) struct gs_sideband *watch = NULL;
	int r = gs_sideband_new(&watch, &err);
	struct gs_doctor_row row = {.group = GS_DOCTOR_KERNEL,
				    .name = "perf events",
				    .state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED};
	char found[GS_DOCTOR_TEXT_BYTES];

	snprintf(found, sizeof(found), "%s%sperf_event_paranoid is %ld", r < 0 ? err.text : "",
		 r < 0 ? "; " : "", paranoid);
	row.found = found;
	if (r < 0) {
		row.without =
			"gpuscope polls for new processes and libraries, and may miss their first calls";
		/* Debian's and Ubuntu's kernels ask for CAP_SYS_ADMIN above 2. */
		row.mend = paranoid > 2 && gs_rights_have(GS_CAP_PERFMON)
				   ? "sudo sysctl kernel.perf_event_paranoid=2"
				   : AS_ROOT;
	}
	gs_doctor_put(d, &row);
}

/* What gpuscope does without. */
static void ask_unused(struct gs_doctor *d)
{
	long unprivileged = doctor_number(d, "/proc/sys/kernel/unprivileged_bpf_disabled", -1);
	char path[PATH_MAX], found[96];

	snprintf(found, sizeof(found), "%ld; gpuscope always loads programs with CAP_BPF",
		 unprivileged);
	gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_KERNEL,
						 .state = GS_DOCTOR_NOT_NEEDED,
						 .name = "unprivileged_bpf_disabled",
						 .found = found});
	snprintf(found, sizeof(found), "%s; gpuscope attaches without it",
		 access(doctor_path(d, "/sys/kernel/tracing/README", path), F_OK) == 0
			 ? "mounted"
			 : "not mounted, or not readable");
	gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_KERNEL,
						 .state = GS_DOCTOR_NOT_NEEDED,
						 .name = "tracefs",
						 .found = found});
}

/* A child reads a word of ours, which is none of its descendants: what a tracer of the same user does. */
static int read_parent(void)
{
	static const long word = 0x67707573;
	pid_t parent = getpid(), child = fork();
	int status = 0;

	if (child < 0)
		return -errno;
	if (child == 0) {
		long copy = 0;
		struct iovec to = {&copy, sizeof(copy)}, from = {(void *)&word, sizeof(word)};
		ssize_t n = process_vm_readv(parent, &to, 1, &from, 1, 0);

		_exit(n == (ssize_t)sizeof(copy) && copy == word ? 0 : errno & 0x7f);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static void ask_ptrace(struct gs_doctor *d)
{
	long scope = doctor_number(d, "/proc/sys/kernel/yama/ptrace_scope", -1);
	int r = read_parent();
	char found[96];

	if (scope < 0)
		snprintf(found, sizeof(found), "%s; this kernel has no ptrace_scope",
			 r == 0 ? "tested" : "refused");
	else
		snprintf(found, sizeof(found), "%s; ptrace_scope is %ld",
			 r == 0 ? "tested" : "refused", scope);
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_KERNEL,
			.state = r == 0 ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
			.name = "memory of other processes",
			.found = found,
			.without =
				r == 0 ? ""
				       : "no Python stacks, no stacks of hanging ranks, and GPUs that a program selects itself are unknown",
			.mend = r == 0 ? ""
				: scope == 3
					? "set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and reboot"
					: AS_ROOT});
}

void doctor_ask_kernel(struct gs_doctor *d)
{
	const struct gs_kernel_features *f = &d->features;
	bool may_ask = gs_rights_have(GS_CAP_BPF) && gs_rights_have(GS_CAP_PERFMON);

	doctor_ask_features(d);
	ask_version(d);
	ask_needed(d, f, may_ask);
	/* What a kernel that loads no program would answer to these says nothing. */
	may_ask = may_ask && f->programs;
	ask_better(d, f, may_ask);
	ask_selftest(d);
	ask_lockdown(d, f, may_ask);
	ask_perf(d);
	ask_ptrace(d);
	ask_unused(d);
}
