/*
 * What the kernel side of the traffic probes (bpf/traffic) and user space (sources/traffic) share: the rows that
 * connections of TCP are added up in, and the constants of a run. Counters only grow, but for open.
 */
#ifndef GS_MODEL_TRACE_TRAFFIC_SIDE_H
#define GS_MODEL_TRACE_TRAFFIC_SIDE_H

#ifndef __bpf__
#include <stdint.h>
#include <linux/types.h>
#endif

#define GS_TRAFFIC_LOG2   28 /* bucket i: answers in less than 2^i us; the last takes all above */
#define GS_TRAFFIC_PORTS  16
#define GS_TRAFFIC_OTHERS 1024 /* rows of family 0 */

/* Of which connections: those of one process, on one side, to one port of a server, with one peer. */
struct gs_traffic_key {
	__u32 pid; /* in the namespace of the reader; 0: no process that it can see has used them */
	__u16 port;    /* of the server: the own one where accepted, else the peer's */
	__u8 family;   /* 4 or 6; 0: peers that there was no room for */
	__u8 accepted; /* the process is the server */
	__u8 peer
		[16]; /* its address, 4 bytes of it in family 4; an IPv4 peer of an IPv6 socket is family 4 */
	__u8 rest;      /* of all for which there was no room: nothing else is set */
	__u8 unused[3]; /* 0 */
};

struct gs_traffic_row {
	__u64 connections; /* made, or accepted */
	__u64 failed;      /* that were to be made and were not */
	__s64 open;        /* now: neither shut down for sending by the process, nor ended */
	__u64 received_bytes,
		sent_bytes; /* read and written by the process, without headers of TCP */
	__u64 sends;        /* calls that sent something */
	__u64 requests;     /* turns: bytes of the client after bytes of the server */
	__u64 answers;      /* requests after which the first byte came back */
	__u64 answer_ns;    /* until then, of all of these together */
	__u64 used_ns;      /* monotonic: when something was last added */
	__u64 answer_log2[GS_TRAFFIC_LOG2];
	char comm[16]; /* of the process, when the row was made */
};

struct gs_traffic_config {
	__u32 pid_namespace; /* whose ids processes have; 0: the kernel's own */
	__u32 n_ports;       /* of the list that follows; 0: all ports */
	__u16 port[GS_TRAFFIC_PORTS];
	__u8 sends_seen; /* a program runs after each send: sock_send_length (Linux 6.3) */
};

struct gs_traffic_state {
	__u64 full_rows;  /* rows that there was no room for: their connections are in others */
	__u64 lost_marks; /* connections for which there was no memory: not counted */
	__u32 walk_phase; /* set by the reader: 0 look for listeners, 1 for connections */
};

#endif
