/* Each feature is tried in the smallest way that shows it. */
#include "sources/kernel_features/kernel_features.h"

#include <errno.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "core/base/mem.h"
#include "core/base/rights.h"
#include "sources/kernel_features/link_create.h"

#define TYPES_FILE     "/sys/kernel/btf/vmlinux"
#define RIGHTS_MISSING "which this user does not have: run it as root (sudo gpuscope ...)"

int gs_kernel_features_check_rights(struct gs_err *err)
{
	bool bpf = gs_rights_have(GS_CAP_BPF), perfmon = gs_rights_have(GS_CAP_PERFMON);

	if (bpf && perfmon)
		return 0;
	return gs_err_set(err, -EPERM, "tracing needs %s%s%s, " RIGHTS_MISSING,
			  bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "",
			  perfmon ? "" : "CAP_PERFMON");
}

/* A program for a uprobe. The descriptor, or a negative errno. */
static int try_program(const struct bpf_insn *insns, size_t n, enum bpf_attach_type expected)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = expected);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gs_try", "GPL", insns, n, &opts);
}

#define RETURN_0                                                                                   \
	{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},                               \
	{                                                                                          \
		.code = BPF_JMP | BPF_EXIT                                                         \
	}

/* A program of two instructions (return 0) of the kind that a link type expects. */
static int tiny_program(enum bpf_attach_type expected)
{
	static const struct bpf_insn insns[] = {RETURN_0};

	return try_program(insns, GS_ARRAY_LEN(insns), expected);
}

static bool loads_program(const struct bpf_insn *insns, size_t n)
{
	GS_CLOSE int fd = try_program(insns, n, 0);

	return fd >= 0;
}

/* In its first register a program finds what the helper takes. */
static bool has_cookies(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie},
		RETURN_0,
	};

	return loads_program(insns, GS_ARRAY_LEN(insns));
}

/* Eight bytes to the stack: with lockdown "confidentiality" there is no such helper
 * (bpf_tracing_func_proto() in kernel/trace/bpf_trace.c). */
static bool may_read_kernel(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel},
		RETURN_0,
	};

	return loads_program(insns, GS_ARRAY_LEN(insns));
}

/* At the scheduler's tracepoint, which the account of threads is made at, too; not attached. */
static bool has_typed_tracepoints(void)
{
	static const struct bpf_insn insns[] = {RETURN_0};
	int id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = id > 0 ? (__u32)id : 0);
	GS_CLOSE int fd = id > 0 ? bpf_prog_load(BPF_PROG_TYPE_TRACING, "gs_try", "GPL", insns,
						 GS_ARRAY_LEN(insns), &opts)
				 : -1;

	return fd >= 0;
}

/* A link to a folder: a kernel that knows the type looks at the path and answers EBADF. */
static bool knows_link_type(unsigned attach_type)
{
	unsigned long offset = 1;
	GS_CLOSE int prog = tiny_program(attach_type);
	GS_CLOSE int link = -1;

	if (prog < 0)
		return false;
	link = gs_kernel_link_create_multi(prog, attach_type, 0, "/", &offset, NULL, NULL, 1, 0);
	return link == -EBADF;
}

/* What nothing can be traced without, and what is chosen by. */
void gs_kernel_features_ask_needed(struct gs_kernel_features *f)
{
	GS_CLOSE int prog = tiny_program(0);

	*f = (struct gs_kernel_features){
		/* Other errors come from a kernel that is asked in a wrong way; what follows says more. */
		.programs = prog != -EPERM,
		.types = access(TYPES_FILE, R_OK) == 0,
		.ring = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1,
		.session = knows_link_type(ATTACH_UPROBE_SESSION),
		.multi = knows_link_type(ATTACH_UPROBE_MULTI),
		.task_storage = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) == 1,
	};
}

void gs_kernel_features_ask(struct gs_kernel_features *f)
{
	gs_kernel_features_ask_needed(f);
	f->cookies = has_cookies();
	f->typed_tracepoints = f->types && has_typed_tracepoints();
	f->reads_kernel = may_read_kernel();
}

int gs_kernel_features_check(const struct gs_kernel_features *f, struct gs_err *err)
{
	if (!f->types)
		return gs_err_set(err, -ENOTSUP,
				  "this kernel has no type information (" TYPES_FILE
				  "): boot one built with CONFIG_DEBUG_INFO_BTF=y");
	if (!f->programs)
		return gs_err_set(
			err, -EPERM,
			"the kernel permits no tracing here: run as root of the host, or in a privileged container");
	if (!f->ring)
		return gs_err_set(
			err, -ENOTSUP,
			"this kernel has no BPF ring buffer: Linux 5.15 or newer is needed");
	return 0;
}
