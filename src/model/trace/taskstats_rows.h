/*
 * Rows of the tables of what the kernel did for a process, a cgroup or a job: one for each system
 * call, block device, mounted file system, peer.
 */
#ifndef GS_MODEL_TRACE_TASKSTATS_ROWS_H
#define GS_MODEL_TRACE_TASKSTATS_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "model/trace/taskstats.h"

struct gs_taskstats_call_row {
	uint32_t id;                      /* GS_TASKSTATS_CALL() */
	struct gs_taskstats_syscall call; /* its counters */
};

struct gs_taskstats_disk_row {
	uint32_t major, minor;         /* of the device */
	char name[32];                 /* "sda"; empty when unknown */
	struct gs_taskstats_disk disk; /* its counters */
};

struct gs_taskstats_mount_row {
	uint32_t major, minor;           /* of its device number (st_dev) */
	enum gs_taskstats_io kind;       /* which sort of file */
	char path[256];                  /* where it is mounted; empty when unknown here */
	char type[32];                   /* "ext4" */
	struct gs_taskstats_io_count io; /* its counters */
};

struct gs_taskstats_peer_row {
	uint16_t family;               /* AF_INET, AF_INET6 */
	uint16_t port;                 /* of the peer, when we connected to it, else 0 */
	uint8_t addr[16];              /* in network order; of AF_INET the first 4 */
	struct gs_taskstats_peer peer; /* its counters */
};

/* The tables of one owner; the arrays disks, mounts and peers are owned. */
struct gs_taskstats_tables {
	struct gs_taskstats_disk_row *disks;
	size_t n_disks;
	struct gs_taskstats_mount_row *mounts;
	size_t n_mounts;
	struct gs_taskstats_peer_row *peers;
	size_t n_peers;
};

#endif
