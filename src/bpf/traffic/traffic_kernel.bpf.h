/*
 * The kernel types that the traffic probes read, found by name in the running kernel: fewer than those of the other
 * programs of tasks, and other fields of sockets.
 */
#ifndef GS_BPF_TRAFFIC_TRAFFIC_KERNEL_BPF_H
#define GS_BPF_TRAFFIC_TRAFFIC_KERNEL_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/common/pidns.bpf.h"

struct task_struct {
	unsigned int flags;
	int tgid;
	struct pid *thread_pid;
	char comm[16];
	struct task_struct *group_leader;
} GS_CORE;

struct file;

struct net {
	struct ns_common ns;
} GS_CORE;

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	possible_net_t skc_net;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr;
} GS_CORE;

struct sock {
	struct sock_common __sk_common;
} GS_CORE;

struct tcp_sock {
	__u32 copied_seq, write_seq, snd_una;
	__u64 bytes_acked, tcp_clock_cache;
} GS_CORE;

struct socket {
	struct sock *sk;
} GS_CORE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} GS_CORE;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} GS_CORE;

/* Numbers of the kernel's own headers. */
#define PF_KTHREAD       0x00200000 /* include/linux/sched.h */
#define AF_INET          2
#define AF_INET6         10
#define SOCK_ESTABLISHED 1 /* include/net/tcp_states.h */
#define SOCK_SYN_SENT    2
#define SOCK_SYN_RECV    3
#define SOCK_FIN_WAIT1   4
#define SOCK_CLOSE       7
#define SOCK_CLOSE_WAIT  8
#define SOCK_LAST_ACK    9
#define SOCK_LISTEN      10

#endif
