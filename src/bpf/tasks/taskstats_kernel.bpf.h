/*
 * The kernel types that the work probes read, found by name in the running kernel (as in
 * kernel.bpf.h, which these programs do not use: they read more of the same structs).
 */
#ifndef GS_BPF_TASKS_TASKSTATS_KERNEL_BPF_H
#define GS_BPF_TASKS_TASKSTATS_KERNEL_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/common/pidns.bpf.h"

/* The fixed layout of what the entry code saves (asm/ptrace.h). */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	unsigned long ip, cs, flags, sp, ss;
};

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

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
} GS_CORE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} GS_CORE;

struct files_struct {
	struct fdtable *fdt;
} GS_CORE;

struct thread_info {
	__u32 status;
} GS_CORE;

struct sched_entity {
	__u64 sum_exec_runtime;
} GS_CORE;

struct sched_info { /* CONFIG_SCHED_INFO */
	unsigned long pcount;
} GS_CORE;

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	unsigned int flags;
	int on_cpu;
	unsigned int __state;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	struct pid *thread_pid;
	char comm[16];
	__u64 start_boottime;
	unsigned long min_flt, maj_flt;
	struct sched_info sched_info;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	const struct cred *real_cred;
	struct files_struct *files;
	struct css_set *cgroups;
} GS_CORE;

struct file_system_type {
	const char *name;
} GS_CORE;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
} GS_CORE;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	__u32 i_rdev;
} GS_CORE;

struct qstr {
	const unsigned char *name;
} GS_CORE;

struct dentry {
	struct qstr d_name;
} GS_CORE;

struct path {
	struct dentry *dentry;
} GS_CORE;

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
} GS_CORE;

struct in6_addr_words {
	__u32 w[4];
};

struct in6_addr;

struct sock_common {
	unsigned short skc_family;
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr;
} GS_CORE;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
} GS_CORE;

struct tcp_sock {
	__u32 srtt_us;
	__u32 total_retrans; /* segments */
} GS_CORE;

struct socket {
	struct sock *sk;
} GS_CORE;

struct gendisk {
	int major, first_minor;
} GS_CORE;

struct request_queue {
	struct gendisk *disk;
} GS_CORE;

enum req_flag_bits { __REQ_FUA = 1, __REQ_PREFLUSH = 2 }; /* their values are the kernel's own */

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	void *end_io;
} GS_CORE;

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
} GS_CORE;

struct rb_root {
	struct rb_node *rb_node;
} GS_CORE;

struct rb_root_cached {
	struct rb_root rb_root;
} GS_CORE;

struct epoll_filefd {
	struct file *file;
} GS_CORE;

struct epitem { /* its first member is its rb_node */
	struct epoll_filefd ffd;
} GS_CORE;

struct eventpoll {
	struct rb_root_cached rbr;
} GS_CORE;

struct io_kiocb {
	struct file *file;
	__u8 opcode;
} GS_CORE;

struct io_uring_cqe_head { /* include/uapi/linux/io_uring.h: fixed */
	__u64 user_data;
	__s32 res;
	__u32 flags;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} GS_CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} GS_CORE;

/* Numbers of the kernel's own headers. */
#define PF_KTHREAD             0x00200000 /* include/linux/sched.h */
#define TASK_DEAD              0x80
#define EXIT_DEAD              0x10
#define TASK_UNINTERRUPTIBLE   2
#define TASK_STOPPED_OR_TRACED 0xc
#define TS_COMPAT              2 /* arch/x86/include/asm/thread_info.h */
#define S_IFMT                 0170000
#define S_IFSOCK               0140000
#define S_IFREG                0100000
#define S_IFBLK                0060000
#define S_IFDIR                0040000
#define S_IFCHR                0020000
#define S_IFIFO                0010000
#define AF_INET                2
#define AF_INET6               10
#define PROTO_TCP              6
#define SOCK_ESTABLISHED       1 /* include/net/tcp_states.h */
#define SOCK_SYN_SENT          2
#define SOCK_CLOSE             7
#define DEV_MAJOR(dev)         ((dev) >> 20) /* include/linux/kdev_t.h */
#define DEV_MINOR(dev)         ((dev)&0xfffff)

#endif
