/*
 * The bpf(2) call that makes multi and session links, which the distributions' libbpf (1.1 to 1.3)
 * does not offer or does not know. Numbers and layout: include/uapi/linux/bpf.h of Linux 6.13.
 */
#ifndef GS_SOURCES_KERNEL_FEATURES_LINK_CREATE_H
#define GS_SOURCES_KERNEL_FEATURES_LINK_CREATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ATTACH_UPROBE_MULTI = 48, ATTACH_UPROBE_SESSION = 57 };
enum { UPROBE_MULTI_RETURN = 1 }; /* BPF_F_UPROBE_MULTI_RETURN */

/* A link descriptor (close-on-exec), or a negative errno. cookies and ref_ctrs (offsets of the
 * counters of static probes, 0 none) may be NULL. pid 0: all. */
int gs_kernel_link_create_multi(int prog_fd, unsigned attach_type, unsigned flags, const char *path,
				const unsigned long *offsets, const unsigned long *ref_ctrs,
				const uint64_t *cookies, size_t n, pid_t pid);

#endif
