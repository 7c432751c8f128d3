/*
 * What this kernel and this user can do with eBPF, asked of the kernel itself rather than guessed from its version. Tracing
 * chooses its ways by these answers, and `gpuscope doctor` shows them.
 */
#ifndef GS_SOURCES_KERNEL_FEATURES_KERNEL_FEATURES_H
#define GS_SOURCES_KERNEL_FEATURES_KERNEL_FEATURES_H

#include <stdbool.h>

#include "core/base/err.h"

/* Without CAP_BPF nothing but types is known: the others are false then. */
struct gs_kernel_features {
	bool programs; /* it loads a program of the kind that probes need, or refuses for another reason than rights */
	bool types;        /* /sys/kernel/btf/vmlinux can be read */
	bool ring;         /* BPF ring buffer, Linux 5.8 */
	bool multi;        /* one link for many functions, Linux 6.6 */
	bool session;      /* entry and return by one link, Linux 6.13 */
	bool task_storage; /* Linux 5.11 */
	/* These are not asked by gs_kernel_features_ask_needed(). */
	bool cookies;           /* bpf_get_attach_cookie(), Linux 5.15 */
	bool typed_tracepoints; /* programs at tracepoints with types (tp_btf), Linux 5.5 */
	bool reads_kernel;      /* bpf_probe_read_kernel(); lockdown "confidentiality" forbids it */
};

/* Tries all of them, or what probes are chosen by; some ms. */
void gs_kernel_features_ask(struct gs_kernel_features *ret);
void gs_kernel_features_ask_needed(struct gs_kernel_features *ret);

/* What nothing can be traced without: who the user is, then which kernel this is. 0, or -EPERM or -ENOTSUP with a text that
 * says what to do. */
int gs_kernel_features_check_rights(struct gs_err *err);
int gs_kernel_features_check(const struct gs_kernel_features *features, struct gs_err *err);

#endif
