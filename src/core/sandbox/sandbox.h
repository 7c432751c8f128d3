/*
 * Takes from the calling process what it does not need. A process that reads bytes of others, or
 * serves the network, calls gs_sandbox_enter() once it has opened its files and before it has any
 * thread; from then on a mistake in it cannot be used to open a file, start a program or reach
 * another process.
 *
 * Each step holds alone and is tried alone: without CAP_SETUID the user stays, a kernel before 5.13
 * has no Landlock, a service manager may have refused a call. What holds is returned, so that the
 * caller can show it; nothing of it is ever undone, and children inherit it.
 */
#ifndef GS_CORE_SANDBOX_SANDBOX_H
#define GS_CORE_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "core/base/log.h"

/* Which system calls remain (core/sandbox/syscalls.c). */
enum gs_sandbox_profile {
	/* Computes, reads and maps descriptors that it has or is sent, and
			   * answers on its socket. Opens nothing, starts nothing. */
	GS_SANDBOX_READER,
	/* The same, and writes to descriptors that it has. */
	GS_SANDBOX_PRINTER,
	/* Accepts connections on a socket that it has, reads and writes them, and
			   * has threads. Opens nothing, connects to nothing, starts nothing. */
	GS_SANDBOX_SERVER,
	/* Connects to others, has threads, finds the addresses of names: reads
			   * files and loads libraries, as far as its user and paths go. Writes no
			   * file, starts nothing. */
	GS_SANDBOX_SENDER,
	GS_SANDBOX_N_PROFILES
};

/* Below a path. */
enum gs_sandbox_access {
	GS_SANDBOX_READ = 1,
	GS_SANDBOX_WRITE = 2, /* create, change, rename and remove as well */
	GS_SANDBOX_EXECUTE = 4,
};

struct gs_sandbox_path {
	const char *path; /* a file or a folder; one that is not there is passed over */
	unsigned access;  /* enum gs_sandbox_access, ored */
};

enum gs_sandbox_held {                              /* what holds, as bits */
		       GS_SANDBOX_USER = 1,         /* a user of its own, no groups */
		       GS_SANDBOX_CAPABILITIES = 2, /* none, and none to be had */
		       GS_SANDBOX_NO_NEW_PRIVS = 4,
		       GS_SANDBOX_LIMITS = 8,
		       GS_SANDBOX_LANDLOCK = 16, /* files, and from Linux 6.7 on TCP */
		       GS_SANDBOX_SECCOMP = 32,
		       GS_SANDBOX_ALL = 63,
};

struct gs_sandbox {
	enum gs_sandbox_profile profile; /* which system calls stay */
	bool own_user;                   /* leave the present user for one that owns nothing */
	/* What can be opened by name, n_paths of them; borrowed for the call. */
	const struct gs_sandbox_path *paths;
	size_t n_paths;     /* 0: no file at all can be opened by its name */
	bool tcp;           /* bind() and connect() of TCP stay possible */
	uint64_t max_bytes; /* of address space; 0: no limit. None in builds with a sanitizer */
	uint32_t max_cpu_s; /* 0: no limit */
	uint32_t max_files; /* open ones; 0: no limit */
};

/* Returns which protections hold: enum gs_sandbox_held, ored. The process has one thread. */
unsigned gs_sandbox_enter(const struct gs_sandbox *sandbox);

/* "user, seccomp": the names of these bits. Returns text. */
const char *gs_sandbox_names(unsigned bits, char *text, size_t bytes);

/* --- rights.c --- */

enum gs_sandbox_keep {
	GS_SANDBOX_GPU_COUNTERS = 1,   /* CAP_SYS_ADMIN, of which NVIDIA's driver asks for them */
	GS_SANDBOX_DEVICE_CGROUPS = 2, /* that and CAP_NET_ADMIN, of which Linux before 6.9 asks to
					* show the programs of a cgroup */
};

/* Give up the capabilities that no tracer needs, for good: what stays is on the list there, and
 * CAP_SYS_ADMIN where this kernel asks for it to open perf events, and what `keep` (bits of enum
 * gs_sandbox_keep) needs. Of the calling thread and those that it starts: before there are others. Who
 * has none of them loses none. A program that loads programs into the kernel which write memory does
 * that before (bpf_probe_write_user, as probes of PyTorch's operators do, asks for CAP_SYS_ADMIN). */
void gs_sandbox_keep_tracing(unsigned keep);

/* --- spawn.c --- */

#define GS_SANDBOX_FIRST_FILE 3 /* the number of fds[0] in the new process */
#define GS_SANDBOX_FILES_MAX  4

/* Start this program a second time, to enter a sandbox as the first thing it does. It has these
 * descriptors as 3, 4, ..., no other, no terminal, and of the environment what the loader needs
 * and these variables, each as "NAME=", NULL at the end (or NULL). From any thread. 0 or a negative
 * errno. */
int gs_sandbox_spawn(char *const argv[], const int *fds, unsigned n_fds,
		     const char *const *variables, pid_t *ret_pid);

/* --- child.c: processes so started that answer on a socket --- */

struct gs_sandbox_child {
	pid_t pid; /* 0: none */
	int fd;    /* owned: our end of a stream socket; -1 */
};

#define GS_SANDBOX_NO_CHILD ((struct gs_sandbox_child){.fd = -1})

struct gs_sandbox_program {
	const char *name;             /* for messages: "reader" */
	const char *arguments[2];     /* argv[1] and argv[2]; NULL: none */
	const int *fds;               /* borrowed; what it has from GS_SANDBOX_FIRST_FILE + 1 on */
	unsigned n_fds;               /* less than GS_SANDBOX_FILES_MAX */
	const char *const *variables; /* as of gs_sandbox_spawn() */
};

/* It has its end of the socket as GS_SANDBOX_FIRST_FILE. From any thread. 0 or a negative errno
 * with a text; then ret is no child. err may be NULL. */
int gs_sandbox_start_child(const struct gs_sandbox_program *program, struct gs_sandbox_child *ret,
			   struct gs_err *err);

/* Kill it: it has nothing to tidy up. Where that is not permitted (another user, no CAP_KILL) it
 * ends when it finds its socket closed, and is not waited for. Returns how it ended, as waitpid(2)
 * says, or 0; child is none then. */
int gs_sandbox_end_child(struct gs_sandbox_child *child);

/* How long to wait before a child that has ended is started again: not at all when it lived for a
 * good while (10 s), else 0.1 s and with each such end in a row twice as long, 5 s at most.
 * *n_failures: these ends; begins as 0. */
uint64_t gs_sandbox_restart_wait_ns(unsigned *n_failures, uint64_t lived_ns);

/* What a child says that it has given up (enum gs_sandbox_held, ored), for the log: "the process
 * that WORK". False: its system calls are not limited, so it is given nothing to do. */
bool gs_sandbox_trusts_child(const char *work, unsigned held, enum gs_log_topic topic);

/* --- syscalls.c --- */

/* Let in only the system calls of the profile; every other one answers EPERM. For this thread and
 * those that it starts. Needs no_new_privs, or CAP_SYS_ADMIN. 0 or a negative errno. */
int gs_sandbox_filter_syscalls(enum gs_sandbox_profile profile);

#endif
