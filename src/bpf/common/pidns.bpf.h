/* Ids of tasks in a namespace of process ids that is not the first one. */
#ifndef GS_BPF_COMMON_PIDNS_BPF_H
#define GS_BPF_COMMON_PIDNS_BPF_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define GS_CORE __attribute__((preserve_access_index))

struct pid_namespace {
	struct ns_common {
		unsigned int inum;
	} GS_CORE ns;
} GS_CORE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} GS_CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1, of the first namespace first */
} GS_CORE;

/* In the namespace of that inode; 0: it has none there, or is more than 8 namespaces deeper. */
static __always_inline __u64 id_in_namespace(struct pid *pid, __u32 inum)
{
	__u32 level = BPF_CORE_READ(pid, level);

	for (__u32 up = 0; up < 8 && up <= level; up++) {
		struct upid *u = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				 (level - up) * bpf_core_type_size(struct upid);

		if (BPF_CORE_READ(u, ns, ns.inum) == inum)
			return (__u32)BPF_CORE_READ(u, nr);
	}
	return 0;
}

#endif
