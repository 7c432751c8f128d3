/*
 * Who speaks with whom over TCP: connections, bytes, requests and the time to the first byte back, by process, port and
 * peer (model/trace/traffic_side.h). No packet is looked at and no byte of what is sent.
 *
 * Bytes are read off the socket, where the kernel counts them under its lock: copied_seq is what the program has read,
 * write_seq what it has written. So calls of all kinds count alike: read, recvmsg, splice, sendfile, io_uring, kTLS.
 * A look at both is taken when the program has read (tcp_rcv_space_adjust(), which every way of reading calls) and has
 * sent (sock_send_length), and when it shuts the connection down or that ends.
 *
 * What is known of a connection is kept at its socket (BPF_MAP_TYPE_SK_STORAGE), and goes when that goes.
 */
#include "traffic_kernel.bpf.h"
#include "model/trace/hist.h"
#include "model/trace/traffic_side.h"

const volatile struct gs_traffic_config gs_traffic_config;
const struct gs_traffic_row gs_traffic_none = {};
struct gs_traffic_state gs_traffic_state;

enum direction { DIRECTION_NONE = 0, DIRECTION_IN, DIRECTION_OUT };

struct connection {
	struct gs_traffic_key key; /* of its row: that of the process that used it last */
	__u32 tgid;                /* of that process, as the kernel numbers it; 0 none yet */
	__u32 read_seq;            /* copied_seq as of the last look */
	__u64 sent;                /* sent_so_far() as of the last look */
	__u64 turn_ns;             /* when the request came or was sent; 0: it was answered */
	__u64 first_ns; /* when a send began in the other direction than before; 0 none */
	__u8 direction; /* enum direction, of the last bytes */
	__u8 open;      /* it is in the row's open */
	__u8 shut;      /* the program sends no more: a FIN is in write_seq, too */
	__u8 counted;   /* it is in the connections of a row */
};

struct listener_key {
	__u32 net; /* inode of the network namespace */
	__u32 port;
};

struct owner {
	__u32 tgid, pid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} gs_traffic_connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* set by the loader */
	__type(key, struct gs_traffic_key);
	__type(value, struct gs_traffic_row);
} gs_traffic_rows SEC(".maps");

/* Rows of family 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GS_TRAFFIC_OTHERS);
	__type(key, struct gs_traffic_key);
	__type(value, struct gs_traffic_row);
} gs_traffic_others SEC(".maps");

/* Who listens at a port: whose connections are there before they are used, and which end of one the server is. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct listener_key);
	__type(value, struct owner);
} gs_traffic_listeners SEC(".maps");

#define add(counter, more) ((void)__sync_fetch_and_add(&(counter), (more)))

/* ---- who ---- */

static __always_inline __u32 process_id(struct task_struct *p)
{
	if (!gs_traffic_config.pid_namespace)
		return (__u32)BPF_CORE_READ(p, tgid);
	return (__u32)id_in_namespace(BPF_CORE_READ(p, group_leader, thread_pid),
				      gs_traffic_config.pid_namespace);
}

static __always_inline void describe_owner(struct task_struct *p, struct owner *o)
{
	o->tgid = (__u32)BPF_CORE_READ(p, tgid);
	o->pid = BPF_CORE_READ(p, flags) & PF_KTHREAD ? 0 : process_id(p);
	BPF_CORE_READ_INTO(&o->comm, p, group_leader, comm);
}

/* ---- rows ---- */

static __always_inline struct gs_traffic_row *row_lookup(const struct gs_traffic_key *key)
{
	return key->family ? bpf_map_lookup_elem(&gs_traffic_rows, key)
			   : bpf_map_lookup_elem(&gs_traffic_others, key);
}

/* A row for the key, or the one that takes what there is no room for: of all peers of the process, of all processes at
 * the port, of all. key is that of the row then. */
static __noinline struct gs_traffic_row *row_make(struct gs_traffic_key *key, const char *comm)
{
	struct gs_traffic_row *row;
	long r;

	for (int attempt = 0; attempt < 3; attempt++) {
		if (key->family)
			r = bpf_map_update_elem(&gs_traffic_rows, key, &gs_traffic_none,
						BPF_NOEXIST);
		else
			r = bpf_map_update_elem(&gs_traffic_others, key, &gs_traffic_none,
						BPF_NOEXIST);
		row = row_lookup(key);
		if (row) {
			if (r == 0 && key->pid)
				__builtin_memcpy(row->comm, comm, sizeof(row->comm));
			return row;
		}
		if (key->family)
			add(gs_traffic_state.full_rows, 1);
		else
			key->pid = 0;
		__builtin_memset(key->peer, 0, sizeof(key->peer));
		key->family = 0;
	}
	__builtin_memset(key, 0, sizeof(*key));
	key->rest = 1;
	return row_lookup(key); /* the reader has made it */
}

static __always_inline struct gs_traffic_row *row_find(struct connection *c, const char *comm)
{
	struct gs_traffic_row *row = row_lookup(&c->key);

	if (row)
		return row;
	/* A key on the stack: row_make() takes no memory of the socket's. */
	struct gs_traffic_key key = c->key;

	row = row_make(&key, comm);
	c->key = key;
	return row;
}

static __always_inline void open_in(struct connection *c, struct gs_traffic_row *row, bool open)
{
	if (c->open == open || !row)
		return;
	c->open = open;
	add(row->open, open ? 1 : -1);
}

/* A connection that was accepted is its listener's only until it is used: which may be by another process. */
static __always_inline void count_connection(struct connection *c, struct gs_traffic_row *row)
{
	if (c->counted || !row)
		return;
	c->counted = 1;
	add(row->connections, 1);
}

/* The row of the process that runs now, which uses the connection. */
static __always_inline struct gs_traffic_row *row_of_user(struct connection *c)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct gs_traffic_row *row;
	struct owner who = {};
	__u8 was_open = c->open;

	if (c->tgid == (__u32)p->tgid && c->counted) {
		row = row_lookup(&c->key);
		if (row)
			return row;
	}
	describe_owner(p, &who);
	if (c->tgid != who.tgid) {
		open_in(c, row_lookup(&c->key), false);
		c->tgid = who.tgid;
		c->key.pid = c->key.rest ? 0 : who.pid; /* the rest has no pid */
	}
	row = row_find(c, who.comm);
	count_connection(c, row);
	open_in(c, row, was_open);
	return row;
}

/* ---- connections ---- */

static __always_inline __u16 swap_port(__u16 v)
{
	return (__u16)(v << 8 | v >> 8);
}

static __always_inline bool is_wanted(__u16 local, __u16 remote)
{
	if (!gs_traffic_config.n_ports)
		return true;
	for (__u32 i = 0; i < GS_TRAFFIC_PORTS; i++) {
		__u16 port = gs_traffic_config.port[i];

		if (i < gs_traffic_config.n_ports && (port == local || port == remote))
			return true;
	}
	return false;
}

static __always_inline void name_peer(struct gs_traffic_key *key, struct sock *sk)
{
	__u32 words[4] = {};

	if (sk->__sk_common.skc_family == AF_INET) {
		words[0] = sk->__sk_common.skc_daddr;
		key->family = 4;
	} else {
		BPF_CORE_READ_INTO(&words, sk, __sk_common.skc_v6_daddr);
		key->family = 6;
		if (!words[0] && !words[1] && words[2] == 0xffff0000) {
			words[0] = words[3];
			words[2] = words[3] = 0;
			key->family = 4;
		}
	}
	__builtin_memcpy(key->peer, words, sizeof(words));
}

/* Bytes written, and their place in the sequence before: only differences mean something. Where no program runs after
 * each send, more than a sequence number can hold may have been sent since. */
static __always_inline __u64 sent_so_far(struct tcp_sock *tcp)
{
	if (gs_traffic_config.sends_seen)
		return tcp->write_seq;
	return tcp->bytes_acked + (__u32)(tcp->write_seq - tcp->snd_una);
}

static __always_inline __s64 sent_since(__u64 now, __u64 before)
{
	return gs_traffic_config.sends_seen ? (__s64)(__s32)((__u32)now - (__u32)before)
					    : (__s64)(now - before);
}

static __always_inline struct owner *listener_of(struct sock *sk)
{
	struct listener_key key = {.net = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum),
				   .port = sk->__sk_common.skc_num};

	return bpf_map_lookup_elem(&gs_traffic_listeners, &key);
}

/* What is known of the socket, made of zeros where it is not there. */
static __always_inline struct connection *connection_make(struct sock *sk)
{
	struct connection *c = bpf_sk_storage_get(&gs_traffic_connections, sk, NULL,
						  BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!c)
		add(gs_traffic_state.lost_marks, 1);
	return c;
}

static __always_inline void connection_begin(struct connection *c, struct sock *sk,
					     struct tcp_sock *tcp, bool accepted)
{
	struct connection fresh = {};

	fresh.key.accepted = accepted;
	fresh.key.port = accepted ? sk->__sk_common.skc_num : swap_port(sk->__sk_common.skc_dport);
	name_peer(&fresh.key, sk);
	fresh.read_seq = tcp->copied_seq;
	fresh.sent = sent_so_far(tcp);
	*c = fresh;
}

/* Of a socket that a program uses. Those that were there before the probes are known from gs_traffic_walk(), but for a
 * few that are met in between: what they have moved until now is not counted. */
static __always_inline struct connection *connection_of(struct sock *sk, struct tcp_sock *tcp)
{
	struct connection *c = bpf_sk_storage_get(&gs_traffic_connections, sk, NULL, 0);

	if (c && c->key.port)
		return c;
	if (c || !is_wanted(sk->__sk_common.skc_num, swap_port(sk->__sk_common.skc_dport)))
		return NULL;
	c = connection_make(sk);
	if (!c)
		return NULL;
	connection_begin(c, sk, tcp, listener_of(sk) != NULL);
	c->counted = 1; /* before */
	open_in(c, row_of_user(c), true);
	return c;
}

/* ---- turns ---- */

static __always_inline void count_answer(struct gs_traffic_row *row, __u64 took_ns)
{
	__u64 us = took_ns / 1000;
	__u32 bucket = us ? gs_log2_u64(us) + 1 : 0;

	if (bucket >= GS_TRAFFIC_LOG2)
		bucket = GS_TRAFFIC_LOG2 - 1;
	add(row->answers, 1);
	add(row->answer_ns, took_ns);
	add(row->answer_log2[bucket], 1);
}

/* Bytes went in the other direction than those before. A server's request began when its last packet came, which may
 * be long before the program reads it. */
static __always_inline void connection_turn(struct connection *c, struct gs_traffic_row *row,
					    __u8 direction, __u64 at_ns, __u64 now)
{
	bool request = (direction == DIRECTION_IN) == (c->key.accepted != 0);

	c->direction = direction;
	if (request) {
		add(row->requests, 1);
		c->turn_ns = at_ns;
	} else if (c->turn_ns) {
		/* Where sends are not seen, neither is when they were. */
		if (gs_traffic_config.sends_seen)
			count_answer(row, at_ns > c->turn_ns ? at_ns - c->turn_ns : 0);
		c->turn_ns = 0;
	}
	c->first_ns = 0;
}

static __always_inline void count_sent(struct connection *c, struct tcp_sock *tcp,
				       struct gs_traffic_row *row, __u64 now)
{
	__u64 sent = sent_so_far(tcp);
	/* Two threads may come here at once: each adds what the other has not. */
	__s64 more = sent_since(sent, __sync_lock_test_and_set(&c->sent, sent));

	if (!more || !row)
		return;
	add(row->sent_bytes, more);
	row->used_ns = now;
	if (more > 0 && c->direction != DIRECTION_OUT)
		connection_turn(c, row, DIRECTION_OUT, c->first_ns ? c->first_ns : now, now);
}

/* The program has read. */
SEC("?tp_btf/tcp_rcv_space_adjust")
int gs_traffic_read(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct gs_traffic_row *row;
	struct connection *c;
	__u64 now, came;
	__u32 bytes;

	if (!tcp)
		return 0;
	c = connection_of(sk, tcp);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	row = row_of_user(c);
	if (!row)
		return 0;
	if (!c->shut && sent_since(sent_so_far(tcp), c->sent))
		count_sent(c, tcp, row, now);
	bytes = tcp->copied_seq - c->read_seq;
	if (!bytes) /* MSG_PEEK */
		return 0;
	c->read_seq = tcp->copied_seq;
	add(row->received_bytes, bytes);
	row->used_ns = now;
	if (c->direction != DIRECTION_IN) {
		/* The kernel's time of the last packet, on the same clock (tcp_mstamp_refresh() in
		 * net/ipv4/tcp_output.c; not yet refreshed here, tcp_rcv_space_adjust() in
		 * tcp_input.c). */
		came = tcp->tcp_clock_cache;
		connection_turn(c, row, DIRECTION_IN,
				c->key.accepted && came && came < now ? came : now, now);
	}
	return 0;
}

/* A call that sends has ended. */
SEC("?tp_btf/sock_send_length")
int gs_traffic_sent(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int result = (int)ctx[1];
	struct gs_traffic_row *row;
	struct tcp_sock *tcp;
	struct connection *c;

	/* This is the one point that sockets of all families come by. */
	if (result <= 0 ||
	    (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6))
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	c = connection_of(sk, tcp);
	if (!c)
		return 0;
	row = row_of_user(c);
	if (!row)
		return 0;
	add(row->sends, 1);
	if (!c->shut)
		count_sent(c, tcp, row, bpf_ktime_get_ns());
	return 0;
}

/* A call that sends copies its first bytes: it may last until the peer has taken most of them. */
SEC("?tp_btf/tcp_sendmsg_locked")
int gs_traffic_send(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct connection *c = bpf_sk_storage_get(&gs_traffic_connections, sk, NULL, 0);

	if (c && c->direction != DIRECTION_OUT && !c->first_ns)
		c->first_ns = bpf_ktime_get_ns();
	return 0;
}

/* ---- states ---- */

static __always_inline void take_listener(struct sock *sk, struct task_struct *p)
{
	struct listener_key key = {.net = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum),
				   .port = sk->__sk_common.skc_num};
	struct owner who = {};

	if (!is_wanted((__u16)key.port, 0))
		return;
	describe_owner(p, &who);
	bpf_map_update_elem(&gs_traffic_listeners, &key, &who, BPF_ANY);
}

/* The program begins to connect. */
static __always_inline void begin_connect(struct sock *sk, struct tcp_sock *tcp)
{
	struct connection *c;

	if (!is_wanted(0, swap_port(sk->__sk_common.skc_dport)))
		return;
	c = connection_make(sk);
	if (!c)
		return;
	connection_begin(c, sk, tcp, false);
	c->counted = 1; /* when it has succeeded */
	(void)row_of_user(c);
}

/* The connection is there, often found by the interrupt that brought the peer's packet: what runs has nothing to do
 * with it. */
static __always_inline void connection_establish(struct sock *sk, struct tcp_sock *tcp,
						 bool accepted)
{
	static const char no_name[16] = "";
	struct gs_traffic_row *row;
	struct owner *listener;
	struct connection *c;

	if (accepted) {
		if (!is_wanted(sk->__sk_common.skc_num, 0))
			return;
		c = connection_make(sk);
		if (!c)
			return;
		listener = listener_of(sk);
		if (!c->key.port) { /* else TCP Fast Open: it was used before */
			connection_begin(c, sk, tcp, true);
			c->tgid = listener ? listener->tgid : 0;
			c->key.pid = listener ? listener->pid : 0;
		}
		row = row_find(c, listener ? listener->comm : no_name);
	} else {
		c = bpf_sk_storage_get(&gs_traffic_connections, sk, NULL, 0);
		if (!c || !c->key.port)
			return;
		c->read_seq = tcp->copied_seq;
		c->sent = sent_so_far(tcp);
		row = row_find(c, no_name);
		c->counted = 0;
		count_connection(c, row);
	}
	if (!row)
		return;
	row->used_ns = bpf_ktime_get_ns();
	open_in(c, row, true);
}

/* No more is sent (a FIN takes a number of the sequence after this), or it is over. */
static __always_inline void connection_shut(struct sock *sk, struct tcp_sock *tcp, int old, int new)
{
	struct connection *c = bpf_sk_storage_get(&gs_traffic_connections, sk, NULL, 0);
	struct gs_traffic_row *row;

	if (!c || !c->key.port)
		return;
	row = row_lookup(&c->key);
	if (row && !c->shut && old != SOCK_SYN_SENT)
		count_sent(c, tcp, row, bpf_ktime_get_ns());
	c->shut = 1;
	if (old != SOCK_SYN_SENT)
		count_connection(c, row);
	open_in(c, row, false);
	if (old == SOCK_SYN_SENT && row)
		add(row->failed, 1);
	if (new == SOCK_CLOSE)
		c->key.port = 0; /* it may be connected again */
}

SEC("?tp_btf/inet_sock_set_state")
int gs_traffic_state_set(__u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int old = (int)ctx[1], new = (int)ctx[2];
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return 0;
	if (new == SOCK_LISTEN)
		take_listener(sk, bpf_get_current_task_btf());
	else if (new == SOCK_SYN_SENT)
		begin_connect(sk, tcp);
	else if (new == SOCK_ESTABLISHED && (old == SOCK_SYN_RECV || old == SOCK_SYN_SENT))
		connection_establish(sk, tcp, old == SOCK_SYN_RECV);
	else if (new == SOCK_FIN_WAIT1 || new == SOCK_LAST_ACK || new == SOCK_CLOSE)
		connection_shut(sk, tcp, old, new);
	return 0;
}

/* ---- what is there already ---- */

static __always_inline void connection_adopt(struct sock *sk, struct task_struct *p)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct owner who = {};
	struct connection *c;

	if (!tcp || bpf_sk_storage_get(&gs_traffic_connections, sk, NULL, 0) ||
	    !is_wanted(sk->__sk_common.skc_num, swap_port(sk->__sk_common.skc_dport)))
		return;
	c = connection_make(sk);
	if (!c)
		return;
	describe_owner(p, &who);
	connection_begin(c, sk, tcp, listener_of(sk) != NULL);
	c->tgid = who.tgid;
	c->key.pid = who.pid;
	c->counted = 1; /* before */
	open_in(c, row_find(c, who.comm), true);
}

/* Each open file of each process, when user space asks: twice, for who listens decides which end of a connection is the server. */
SEC("?iter/task_file")
int gs_traffic_walk(struct bpf_iter__task_file *ctx)
{
	struct task_struct *p = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;
	__u8 state;

	if (!p || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	if (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6)
		return 0;
	state = sk->__sk_common.skc_state;
	if (!gs_traffic_state.walk_phase && state == SOCK_LISTEN)
		take_listener(sk, p);
	else if (gs_traffic_state.walk_phase &&
		 (state == SOCK_ESTABLISHED || state == SOCK_CLOSE_WAIT))
		connection_adopt(sk, p);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
