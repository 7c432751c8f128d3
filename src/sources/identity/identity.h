/*
 * Who is this pid: names of processes and threads, the program, the user, the container. Read from
 * procfs once per process (again after exec) and kept after the process has ended.
 */
#ifndef GS_SOURCES_IDENTITY_IDENTITY_H
#define GS_SOURCES_IDENTITY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GS_IDENTITY_EXE_BYTES       256
#define GS_IDENTITY_CONTAINER_BYTES 72
#define GS_IDENTITY_CMDLINE_BYTES   1024

struct gs_identity; /* the table of processes seen; one thread at a time */

struct gs_identity_process {
	uint32_t pid;
	uint32_t ns_pid;     /* in its innermost pid namespace */
	uint32_t parent_pid; /* 0: none that can be seen */
	uint32_t uid;        /* the real one */
	uint64_t start_ns;   /* boot clock; 0 unknown */
	char comm[16];       /* here and in what follows, control bytes are '?' */
	char exe[GS_IDENTITY_EXE_BYTES]; /* path as the process sees it; "" unreadable (kernel threads, rights) */
	char cmdline[GS_IDENTITY_CMDLINE_BYTES];     /* arguments: gs_identity_command_line() */
	char container[GS_IDENTITY_CONTAINER_BYTES]; /* id of docker, containerd, CRI-O, podman,
						   * systemd-nspawn, apptainer or lxc; "" outside */
	uint8_t gone; /* ended before it could be read: only pid and what was reported are known */
};

/* What is kept of the arguments of processes. One choice for the whole program, made at its start or
 * at a reload: what reads a command line later cannot show more of it. */
enum gs_identity_commands {
	GS_IDENTITY_COMMANDS_SCRUBBED = 0, /* without secrets (core/scrub/scrub.h): the default */
	GS_IDENTITY_COMMANDS_NAME = 1,     /* nothing: cmdline is "" */
	GS_IDENTITY_COMMANDS_FULL = 2,
};

/* For what is read from now on. Any thread. */
void gs_identity_keep_commands(enum gs_identity_commands which);

/* The same by its name: "scrubbed", "name", "full". False: there is no such choice. */
bool gs_identity_choose_commands(const char *name);

/* Arguments with a zero after each, as that choice has it: joined by blanks, control bytes as '?'.
 */
void gs_identity_command_line(const char *arguments, size_t bytes, char *out, size_t out_bytes);

/* proc_path is "/proc", or another folder in tests. NULL: no memory. */
struct gs_identity *gs_identity_new(const char *proc_path);
void gs_identity_free(struct gs_identity **place);

/* The process; read now if it is new. Never NULL but for lack of memory: a process that is gone
 * comes back with gone set. After its exit, what is known of it comes back until another process
 * (another start time) is found to have its pid. 65,536 are kept, then the oldest ended one is
 * given up. Lent until the next call. */
const struct gs_identity_process *gs_identity_process(struct gs_identity *place, uint32_t pid);

#define GS_IDENTITY_GPUS_BYTES 1024

/* The GPUs of the machine as the driver's library lists them, from now on; without it they are read once
 * from the driver's /proc files. No memory: nothing changes. */
struct gs_gpu_snapshot;
void gs_identity_set_gpus(struct gs_identity *place, const struct gs_gpu_snapshot *gpus);

/* UUIDs of NVIDIA's GPUs as CUDA numbers them for the process, with commas: its environment says which
 * (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, its container's NVIDIA_VISIBLE_DEVICES), that of its begin and, where
 * known, the one that it has now (of environ_bytes, NULL: not known); then the devices that it has open
 * (gs_cuda_visible_settle()). begun: it is at its first call of CUDA. "": none, or not known. *ret_only: the device
 * that is the only one in use, or -1. */
void gs_identity_visible_gpus(struct gs_identity *place, const struct gs_identity_process *process,
			      const char *environ_now, size_t environ_bytes, bool begun,
			      char ret_uuids[GS_IDENTITY_GPUS_BYTES], int *ret_only);

/* The name of a thread, read now; comm_hint (may be "") is used when it is gone. Writes 16 bytes.
 */
void gs_identity_thread_comm(struct gs_identity *place, uint32_t pid, uint32_t tid,
			     const char *comm_hint, char ret_comm[16]);

/* pid is a new process: what was known of an earlier one with this pid is forgotten. It is read at
 * its first lookup; when it is gone by then, it had its parent's names, and if these are not known,
 * parent_pid at least is. */
void gs_identity_fork(struct gs_identity *place, uint32_t pid, uint32_t parent_pid);

/* The process runs another program: the next lookup reads it again. comm (16 bytes at most) and exe are
 * what the kernel said of the program, "" where it did not: they are its names when it is gone by then,
 * or has no files any more. Where nothing was said, what was read last is what there is. */
void gs_identity_exec(struct gs_identity *place, uint32_t pid, const char *comm, const char *exe);

/* The next lookup reads it again, whatever may have changed. */
void gs_identity_refresh(struct gs_identity *place, uint32_t pid);

/* The process ended: what is known stays until its pid is seen again. comm_hint (16 bytes at most,
 * may be "") fills what could not be read in time. */
void gs_identity_exit(struct gs_identity *place, uint32_t pid, const char *comm_hint);

/* The container id in a /proc/PID/cgroup text, "" when there is none. Pure; out has
 * GS_IDENTITY_CONTAINER_BYTES. */
void gs_identity_container_of_cgroup(const char *cgroup_text, char *out);

#endif
