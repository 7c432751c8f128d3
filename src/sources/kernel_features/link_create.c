#include "sources/kernel_features/link_create.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

int gs_kernel_link_create_multi(int prog_fd, unsigned attach_type, unsigned flags, const char *path,
				const unsigned long *offsets, const unsigned long *ref_ctrs,
				const uint64_t *cookies, size_t n, pid_t pid)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid, pad;
	} attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = (uintptr_t)ref_ctrs,
		.cookies = (uintptr_t)cookies,
		.cnt = (uint32_t)n,
		.multi_flags = flags,
		.pid = (uint32_t)pid,
	};
	long fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, offsetof(__typeof__(attr), pad));

	return fd < 0 ? -errno : (int)fd;
}
