/*
 * The few kernel types that the programs read. Fields are found by name in the running kernel's
 * own type information (CO-RE), so only names and types matter here, not layout; struct pt_regs is
 * the exception: it is the fixed x86-64 layout of a uprobe's context (asm/ptrace.h).
 */
#ifndef GS_BPF_CALLS_KERNEL_BPF_H
#define GS_BPF_CALLS_KERNEL_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/common/pidns.bpf.h"

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

struct thread_info {
	__u32 status;
} GS_CORE;

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
} GS_CORE;

struct kernfs_node {
	__u64 id;
} GS_CORE;

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
} GS_CORE;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} GS_CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} GS_CORE;

struct super_block {
	unsigned long s_magic;
} GS_CORE;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
} GS_CORE;

struct sock_common {
	unsigned short skc_family;
} GS_CORE;

struct sock {
	struct sock_common __sk_common;
} GS_CORE;

struct socket {
	struct sock *sk;
} GS_CORE;

struct file {
	struct inode *f_inode;
	void *private_data;
} GS_CORE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} GS_CORE;

struct files_struct {
	struct fdtable *fdt;
} GS_CORE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} GS_CORE;

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int on_cpu;
	int exit_code;
	unsigned int __state;
	unsigned in_iowait : 1;
	const struct cred *real_cred;
	struct files_struct *files;
	struct css_set *cgroups;
	struct task_struct *real_parent;
	__u64 self_exec_id;   /* another one after each exec */
	__u64 start_boottime; /* ns */
	int pid;              /* what user space calls tid */
	int tgid;             /* what user space calls pid */
	struct pid *thread_pid;
	char comm[16];
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct thread_struct thread;
	struct mm_struct *mm;
	struct sched_entity se;
} GS_CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} GS_CORE;

#endif
