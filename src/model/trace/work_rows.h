/*
 * Rows of the tables of what the kernel did for a process, a cgroup or a job: one for each system
 * call, block device, mounted file system, peer.
 */
#ifndef GS_MODEL_WORK_ROWS_H
#define GS_MODEL_WORK_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "model/trace/work.h"

struct gs_work_call_row {
	uint32_t id; /* GS_WORK_CALL() */
	struct gs_work_syscall call;
};

struct gs_work_disk_row {
	uint32_t major, minor;
	char name[32]; /* "sda"; empty when unknown */
	struct gs_work_disk disk;
};

struct gs_work_mount_row {
	uint32_t major, minor;
	enum gs_work_io kind;
	char path[256]; /* where it is mounted; empty when unknown here */
	char type[32];  /* "ext4" */
	struct gs_work_io_count io;
};

struct gs_work_peer_row {
	uint16_t family; /* AF_INET, AF_INET6 */
	uint16_t port;   /* of the peer, when we connected to it, else 0 */
	uint8_t addr[16];
	struct gs_work_peer peer;
};

/* The tables of one owner; each array is owned. */
struct gs_work_tables {
	struct gs_work_disk_row *disks;
	size_t n_disks;
	struct gs_work_mount_row *mounts;
	size_t n_mounts;
	struct gs_work_peer_row *peers;
	size_t n_peers;
};

#endif
