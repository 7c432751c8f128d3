/*
 * What this kernel and this user can do, asked of the kernel itself rather than guessed from its
 * version: each feature is tried in the smallest way that shows it. The exception is how nops of other
 * lengths than five bytes are treated, which nothing shows (arch/x86/kernel/uprobes.c): emulated
 * since 6.16, turned into calls since 6.18. Later kernels may do better; treating them alike costs
 * little.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/uprobe/link_create.h"
#include "sources/uprobe/uprobe_int.h"

/* include/uapi/linux/capability.h */
enum { CAP_SYS_ADMIN_BIT = 21, CAP_SYS_PTRACE_BIT = 19, CAP_PERFMON_BIT = 38, CAP_BPF_BIT = 39 };

static uint64_t effective_capabilities(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	return caps;
}

static int check_capabilities(struct gs_err *err)
{
	uint64_t caps = effective_capabilities();
	bool admin = caps >> CAP_SYS_ADMIN_BIT & 1;
	bool bpf = admin || caps >> CAP_BPF_BIT & 1, perfmon = admin || caps >> CAP_PERFMON_BIT & 1;

	if (bpf && perfmon)
		return 0;
	return gs_err_set(
		err, -EPERM,
		"tracing needs %s%s%s, which this user does not have: run it as root (sudo gpuscope ...)",
		bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "",
		perfmon ? "" : "CAP_PERFMON");
}

/* A program of two instructions (return 0) of the kind that a link type expects. */
static int tiny_program(enum bpf_attach_type expected)
{
	struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = expected);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gs_try", "GPL", insns, GS_ARRAY_LEN(insns),
			     &opts);
}

/* A link to a folder: a kernel that knows the type looks at the path and answers EBADF. */
static bool uprobe_link_type_known(unsigned attach_type)
{
	unsigned long offset = 1;
	GS_CLOSE int prog = tiny_program(attach_type);
	GS_CLOSE int link = -1;

	if (prog < 0)
		return false;
	link = uprobe_link_create_uprobe_multi(prog, attach_type, 0, "/", &offset, NULL, NULL, 1,
					       0);
	return link == -EBADF;
}

/* What the version says of the kernel is what is believed when it could not be tried. */
static int apply_selftest(struct features *f, struct gs_err *err)
{
	struct selftest test = uprobe_selftest_get();

	if (!test.done)
		return 0;
	if (!test.push_is_safe)
		return gs_err_set(
			err, -ENOTSUP,
			"probes break functions on this kernel (gpuscope's own function gave a wrong result under a probe): nothing is traced");
	f->sites.nop5_is_call = !test.nop5_is_safe;
	f->return_is_kept = test.return_is_kept;
	return 0;
}

int uprobe_features_detect(unsigned disabled_features, struct features *f, struct gs_err *err)
{
	int r = check_capabilities(err);
	GS_CLOSE int prog = tiny_program(0);
	bool session, multi, storage;

	if (r < 0)
		return r;
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return gs_err_set(
			err, -ENOTSUP,
			"this kernel has no type information (/sys/kernel/btf/vmlinux): boot one built with CONFIG_DEBUG_INFO_BTF=y");
	if (prog == -EPERM)
		return gs_err_set(
			err, prog,
			"the kernel permits no tracing here: run as root of the host, or in a privileged container");
	if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) != 1)
		return gs_err_set(
			err, -ENOTSUP,
			"this kernel has no BPF ring buffer: Linux 5.15 or newer is needed");
	session = uprobe_link_type_known(ATTACH_UPROBE_SESSION);
	multi = uprobe_link_type_known(ATTACH_UPROBE_MULTI);
	storage = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) == 1;
	*f = (struct features){
		.session =
			session && !(disabled_features & (GS_DISABLED_SESSION | GS_DISABLED_MULTI)),
		.multi = multi && !(disabled_features & GS_DISABLED_MULTI),
		.task_storage = storage && !(disabled_features & GS_DISABLED_TASK_STORAGE),
	};
	gs_x86_site_rules_here(&f->sites);
	r = apply_selftest(f, err);
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "kernel: session links %s, multi links %s, task storage %s",
	       f->session ? "used"
	       : session  ? "there, not used"
			  : "missing (Linux 6.13)",
	       f->multi ? "used"
	       : multi  ? "there, not used"
			: "missing (Linux 6.6)",
	       f->task_storage ? "used"
	       : storage       ? "there, not used"
			       : "missing (Linux 5.11)");
	return r;
}
