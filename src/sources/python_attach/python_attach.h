/*
 * Asks a running Python to run a script (PEP 768): its path is written into the state of the main thread, with a mark
 * that there is one. The interpreter runs it there, with its lock, when it comes between two instructions the next time: while
 * the main thread waits in a function of C that is not.
 *
 * CPython 3.14 and 3.15, as released, on x86-64. Any memory of the other process is foreign: what is read there decides only
 * where in that process's own memory it is written, and a process that this user may write to gives nothing away by that.
 */
#ifndef GS_SOURCES_PYTHON_ATTACH_PYTHON_ATTACH_H
#define GS_SOURCES_PYTHON_ATTACH_PYTHON_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/err.h"

#define GS_PYTHON_ATTACH_BYTES 1024 /* of _PyRuntime, that may hold the offsets */
#define GS_PYTHON_ATTACH_FIRST 0x030e
#define GS_PYTHON_ATTACH_LAST  0x030f
#define GS_PYTHON_ATTACH_NAMES "3.14 and 3.15"

/* --- offsets.c --- */

/* Where an interpreter has what a request is made of; bytes from the begin of the struct before the word. */
struct gs_python_attach_offsets {
	uint16_t version; /* 0x030e is 3.14 */
	bool is_free_threaded;
	uint32_t runtime_interp;         /* the newest interpreter */
	uint32_t interp_id, interp_next; /* 0 is the main one's number */
	uint32_t interp_main;            /* state of the main thread */
	uint32_t interp_enabled;         /* int: 1 requests are looked at */
	uint32_t state_interp;           /* its interpreter */
	uint32_t state_breaker;          /* what makes it look, bits */
	uint32_t state_pending;          /* int: 1 there is a request */
	uint32_t state_path, path_bytes; /* of the script, with its zero */
};

/* From the first bytes of _PyRuntime. -ENOENT: there are no such offsets (older than 3.13); -ENOTSUP: of a version, a
 * pre-release, or with values, that are not known. */
int gs_python_attach_read_offsets(const void *data, size_t bytes,
				  struct gs_python_attach_offsets *ret_offsets);

/* --- request.c --- */

struct gs_python_attach { /* where requests are put, in a process */
	pid_t pid;
	int pid_fd;     /* owned; -1: none */
	uint64_t image; /* of the program that it ran (sources/unwind) */
	struct gs_python_attach_offsets at;
	uint64_t state; /* address of the main thread's */
};

#define GS_PYTHON_ATTACH_INIT                                                                      \
	{                                                                                          \
		.pid_fd = -1                                                                       \
	}

/* Look for that, in a process whose _PyRuntime is at this address. 0; -ENOTSUP: it has no such thing, or it is switched off;
 * -EBADMSG: what is there is none; or the error of reading; all with a text for people, of the process: "has ...". */
int gs_python_attach_open(pid_t pid, uint64_t runtime, struct gs_python_attach *ret_attach,
			  struct gs_err *err);

/* Gives back the descriptor; also of one that was not opened. */
void gs_python_attach_close(struct gs_python_attach *attach);

/* Ask it to run the script of this path (as the process has it). -EBUSY: another one's request has not been looked at yet;
 * -ENAMETOOLONG; -ESRCH: it has ended, or runs another program, as in the next ones; or the error of writing. */
int gs_python_attach_ask(const struct gs_python_attach *attach, const char *path);

/* Has the request been taken? */
int gs_python_attach_is_taken(const struct gs_python_attach *attach, bool *ret_taken);

/* Take the request back. *ret_taken: it is too late, the script is being run or has been. Otherwise it is never opened. */
int gs_python_attach_withdraw(const struct gs_python_attach *attach, bool *ret_taken);

/* Children that the main thread has forked since it was asked have inherited the request: take that back, too. path: of the
 * script. */
void gs_python_attach_withdraw_children(const struct gs_python_attach *attach, const char *path);

/* --- script.c --- */

/* What has the interpreter load the library of that path (companion/python) and record in the folder; as the process names
 * both. follows: its forked children, too. -EINVAL: names that a text in quotes cannot hold; or the error of writing. */
int gs_python_attach_write_begin(struct gs_buf *out, const char *library, const char *folder,
				 pid_t pid, bool follows);

/* What has it take all that back, when it has the library. */
int gs_python_attach_write_end(struct gs_buf *out, pid_t pid);

#endif
