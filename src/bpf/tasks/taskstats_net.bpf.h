/*
 * Connections and peers. Bytes come from the calls' results (taskstats_call.bpf.h); what TCP does by
 * itself, also long after the call, finds its owner by the socket.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_NET_BPF_H
#define GS_BPF_TASKS_TASKSTATS_NET_BPF_H

#include "taskstats_task.bpf.h"

static __always_inline __u64 family_and_port(__u16 family, __u16 net_port)
{
	return (__u64)family << 16 | (__u16)(net_port << 8 | net_port >> 8);
}

/* The row of the socket's peer; 0 when it has none (not connected) or there is no room. */
GS_ALONE __u32 peer_cell(__u64 sk_address, __u32 slot, __u32 accepted)
{
	struct sock *sk = (void *)sk_address;
	__u64 a, b;
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u16 port = accepted ? 0 : BPF_CORE_READ(sk, __sk_common.skc_dport);
	__u32 addr[4] = {};

	if (family == AF_INET6) {
		bpf_probe_read_kernel(addr, sizeof(addr), &sk->__sk_common.skc_v6_daddr);
		/* ::ffff:a.b.c.d is the IPv4 peer of a socket for both. */
		if (!addr[0] && !addr[1] && addr[2] == 0xffff0000) {
			family = AF_INET;
			addr[0] = addr[3];
			addr[2] = addr[3] = 0;
		}
	} else if (family == AF_INET) {
		addr[0] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	} else {
		return 0;
	}
	if (!addr[0] && !addr[1] && !addr[2] && !addr[3])
		return 0;
	a = (__u64)addr[1] << 32 | addr[0];
	b = (__u64)addr[3] << 32 | addr[2];
	return cell_find(IN_TABLE(slot, GS_TABLE_PEER), a, b, family_and_port(family, port));
}

static __always_inline __u32 resent_by(__u64 sk)
{
	return BPF_CORE_READ((struct tcp_sock *)sk, total_retrans);
}

/* What is remembered of a TCP socket; made when it is not there. */
static __always_inline struct sock_mark *sock_remember(__u64 sk, const struct sock_mark *as)
{
	struct sock_mark *m = bpf_map_lookup_elem(&gs_tasks_socks, &sk);

	if (m)
		return m;
	if (bpf_map_update_elem(&gs_tasks_socks, &sk, as, BPF_NOEXIST))
		work_lose(GS_TASKSTATS_LOST_REQUEST);
	return bpf_map_lookup_elem(&gs_tasks_socks, &sk);
}

/* Of a socket that a followed thread uses, met for the first time or not. */
GS_ALONE __u32 peer_of_used(__u64 sk, __u32 slot, __u32 tcp)
{
	struct sock_mark as = {.slot = slot}, *m;

	if (!tcp)
		return peer_cell(sk, slot, false);
	m = bpf_map_lookup_elem(&gs_tasks_socks, &sk);
	if (!m) {
		/* Opened before it was followed: the larger port shows who asked whom. */
		as.accepted = BPF_CORE_READ((struct sock *)sk, __sk_common.skc_num) < 32768;
		as.cell = peer_cell(sk, slot, as.accepted);
		as.resent = resent_by(sk);
		m = sock_remember(sk, &as);
		return as.cell;
	}
	if (m->slot == slot && m->cell)
		return m->cell;
	return peer_cell(sk, slot, m->accepted);
}

static __always_inline void count_connect(struct sock_mark *m, __u64 now)
{
	struct gs_taskstats_slot *s = slot_get(m->slot);
	struct gs_taskstats_cell *c = cell_get(m->cell);
	__u64 took = now - m->connect_ns;

	if (s)
		add(s->work.net_connects, 1);
	if (!c || !m->cell)
		return;
	add(c->peer.connects, 1);
	add(c->peer.connect_ns, took);
	if (took > c->peer.connect_max_ns)
		c->peer.connect_max_ns = took;
}

SEC("?tp_btf/inet_sock_set_state")
int gs_tasks_sock_state(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int old = (int)ctx[1], new = (int)ctx[2];
	struct sock_mark *m, as = {};
	struct gs_taskstats_cell *c;
	struct work_mark *t;
	__u64 key = (__u64)sk;

	if (new == SOCK_SYN_SENT) {
		t = mark_of(bpf_get_current_task_btf());
		if (!t)
			return 0;
		as.slot = t->slot;
		as.connect_ns = bpf_ktime_get_ns();
		as.cell = peer_cell(number_of(sk), t->slot, false);
		if (bpf_map_update_elem(&gs_tasks_socks, &key, &as, BPF_ANY))
			work_lose(GS_TASKSTATS_LOST_REQUEST);
		return 0;
	}
	if (old != SOCK_SYN_SENT && new != SOCK_CLOSE)
		return 0;
	m = bpf_map_lookup_elem(&gs_tasks_socks, &key);
	if (!m)
		return 0;
	if (old == SOCK_SYN_SENT && new == SOCK_ESTABLISHED)
		count_connect(m, bpf_ktime_get_ns());
	if (old == SOCK_SYN_SENT && new == SOCK_CLOSE) {
		c = cell_get(m->cell);
		if (c && m->cell)
			add(c->peer.failed_connects, 1);
	}
	if (new == SOCK_CLOSE)
		bpf_map_delete_elem(&gs_tasks_socks, &key);
	return 0;
}

/* The tracepoint comes once for each packet that is handed down, which may hold many segments; some
 * kernels leave out those that failed. The socket counts segments, as RetransSegs of
 * /proc/net/snmp does (__tcp_retransmit_skb() in net/ipv4/tcp_output.c). */
static __always_inline void count_resent(struct sock_mark *m, __u32 total)
{
	struct gs_taskstats_slot *s = slot_get(m->slot);
	struct gs_taskstats_cell *c = cell_get(m->cell);
	__u32 more = total - m->resent;

	m->resent = total;
	if (s)
		add(s->work.net_retransmits, more);
	if (c && m->cell)
		add(c->peer.retransmits, more);
}

SEC("?tp_btf/tcp_retransmit_skb")
int gs_tasks_retransmit(__u64 *ctx)
{
	__u64 key = ctx[0];
	struct sock_mark *m = bpf_map_lookup_elem(&gs_tasks_socks, &key);

	if (m)
		count_resent(m, resent_by(key));
	return 0;
}

/* A followed thread accepted a connection. */
static __always_inline void count_accept(struct gs_taskstats_slot *s, __u32 slot,
					 const struct file_look *l)
{
	struct sock_mark as = {.slot = slot, .accepted = 1};
	struct gs_taskstats_cell *c;

	if (!l->sk)
		return;
	add(s->work.net_accepts, 1);
	if (!l->tcp)
		return;
	as.cell = peer_cell(l->sk, slot, true);
	if (resent_by(l->sk))
		count_resent(&as, resent_by(l->sk)); /* before it was accepted */
	bpf_map_update_elem(&gs_tasks_socks, &l->sk, &as, BPF_ANY);
	c = cell_get(as.cell);
	if (c && as.cell)
		add(c->peer.accepts, 1);
}

static __always_inline void count_net(struct gs_taskstats_slot *s, struct file_look *l, __u32 cell,
				      bool write, __u64 bytes)
{
	struct gs_taskstats_cell *c = cell_get(cell);
	struct tcp_sock *tcp = (void *)l->sk;
	__u64 rtt;

	if (write)
		add(s->work.net_sent_bytes, bytes);
	else
		add(s->work.net_received_bytes, bytes);
	if (!c || !cell)
		return;
	if (!write) {
		add(c->peer.receives, 1);
		add(c->peer.received_bytes, bytes);
		return;
	}
	add(c->peer.sends, 1);
	add(c->peer.sent_bytes, bytes);
	if (!l->tcp)
		return;
	/* The kernel keeps eight times the microseconds (include/linux/tcp.h). */
	rtt = (__u64)BPF_CORE_READ(tcp, srtt_us) * 125;
	if (!rtt)
		return;
	add(c->peer.rtt_ns, rtt);
	add(c->peer.rtt_count, 1);
	if (rtt > c->peer.rtt_max_ns)
		c->peer.rtt_max_ns = rtt;
}

#endif
