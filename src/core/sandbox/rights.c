/*
 * What a program that traces keeps of root's rights: a list of capabilities, in the place of all
 * that there are. The others leave the bounding set too, so that no program it starts has them.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/rights.h"
#include "core/sandbox/sandbox.h"

#define BIT(cap) (1ull << (cap))

static const uint64_t kept_always =
	/* probes, perf events, their buffers and many open files */
	BIT(GS_CAP_BPF) | BIT(GS_CAP_PERFMON) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_RESOURCE) |
	/* processes of others, their files and memory; the kernel's log and symbols */
	BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYSLOG) |
	/* outputs, queues and sockets in folders of others, ports below 1024 */
	BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_CHOWN) | BIT(CAP_NET_BIND_SERVICE) |
	/* readers, servers and senders: to make them without rights, and to end them */
	BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | BIT(CAP_KILL);

struct rights {
	struct __user_cap_data_struct half[2]; /* capabilities 0 to 31, and the rest */
};

static int get_rights(struct rights *r)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &head, r->half) < 0 ? -errno : 0;
}

static int set_rights(const struct rights *r)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capset, &head, r->half) < 0 ? -errno : 0;
}

static int keep_rights(uint64_t keep)
{
	struct rights r;
	int e = get_rights(&r);

	for (unsigned i = 0; e == 0 && i < GS_ARRAY_LEN(r.half); i++) {
		uint32_t mask = (uint32_t)(keep >> 32 * i);

		r.half[i].effective &= mask;
		r.half[i].permitted &= mask;
		r.half[i].inheritable &= mask;
	}
	return e < 0 ? e : set_rights(&r);
}

/* Whether perf events can be opened without CAP_SYS_ADMIN: with kernel.perf_event_paranoid above 2
 * the kernels of Debian and Ubuntu ask for it, and know no CAP_PERFMON there. */
static bool perf_needs_admin(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY};
	struct rights before, without;
	bool needs = false;
	long fd;

	if (get_rights(&before) < 0 || !(before.half[0].effective & BIT(CAP_SYS_ADMIN)))
		return false;
	without = before;
	without.half[0].effective &= ~(uint32_t)BIT(CAP_SYS_ADMIN);
	if (set_rights(&without) < 0)
		return true;
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close((int)fd);
	else
		needs = errno == EPERM || errno == EACCES;
	(void)set_rights(&before);
	return needs;
}

void gs_sandbox_keep_tracing(unsigned wanted)
{
	uint64_t keep = kept_always;

	/* NVIDIA's driver lets only CAP_SYS_ADMIN read performance counters, unless it was configured
	 * otherwise (NV_IS_SUSER in its nv-linux.h; RmProfilingAdminOnly). */
	if (wanted || perf_needs_admin())
		keep |= BIT(CAP_SYS_ADMIN);
	if (wanted & GS_SANDBOX_DEVICE_CGROUPS)
		keep |= BIT(CAP_NET_ADMIN);
	for (unsigned cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(keep & BIT(cap))) {
			(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, cap, 0, 0);
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
		}
	(void)keep_rights(keep);
}
