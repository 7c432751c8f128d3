/*
 * The few kernel types that the programs read. Fields are found by name in the running kernel's
 * own type information (CO-RE), so only names and types matter here, not layout; struct pt_regs is
 * the exception: it is the fixed x86-64 layout of a uprobe's context (asm/ptrace.h).
 */
#ifndef GS_BPF_KERNEL_H
#define GS_BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "pidns.bpf.h"

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	unsigned long ip, cs, flags, sp, ss;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads of the process that have not begun to exit */
} GS_CORE;

struct thread_struct {
	unsigned long fsbase; /* x86-64: where pthread_self() points */
} GS_CORE;

struct mm_struct {
	unsigned long env_end; /* of the environment that the program began with, on its stack */
} GS_CORE;

struct sched_entity {
	__u64 sum_exec_runtime; /* time on processors; up to date as of the last tick or switch */
} GS_CORE;

struct task_struct {
	int pid;  /* what user space calls tid */
	int tgid; /* what user space calls pid */
	struct pid *thread_pid;
	char comm[16];
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct thread_struct thread;
	struct mm_struct *mm;
	struct sched_entity se;
} GS_CORE;

#endif
