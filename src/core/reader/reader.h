/*
 * A process without rights that reads what belongs to others, for one that has rights and must not
 * be fooled or held up. The holder opens a file and hands the descriptor over; the reader answers
 * with what it found in it. The rooms whose work it is (sources/attach_plan and others) write the
 * requests, do the work and check the answers; this room carries them.
 *
 * What always holds: an answer is bounded, and bytes of a stranger; a request that takes too long
 * ends with the reader's death and not with the holder's waiting; a reader that dies is replaced,
 * and the request that it had is asked again, unless it was late. A reader that has read a file
 * which is not root's is replaced before it reads a file of another user, so that one user cannot
 * have lies spread about another's files.
 *
 * A reader is this program, started again from /proc/self/exe with an argument that no user gives:
 * an execve() has nothing of the holder's memory (tokens, other users' data), its own address space
 * layout, and can be had at any moment from a program with threads, which a fork() cannot. It costs
 * some milliseconds, beside what the holder does at its start.
 */
#ifndef GS_CORE_READER_READER_H
#define GS_CORE_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/reader/wire.h"

#define GS_READER_MAX_FDS   2
#define GS_READER_MAX_BYTES (32u << 20) /* of one request or answer */

/* ---- the holder's side ---- */

struct gs_reader; /* one thread at a time */
struct gs_reader_request;

/* Answers a request. *state is the service's own, NULL at first. Returns 0 or a negative errno,
 * which with err's text becomes that of gs_reader_ask(). */
typedef int (*gs_reader_serve_fn)(void **state, struct gs_reader_request *request,
				  struct gs_wire_out *reply, struct gs_err *err);

/* Who does the work; one row each in the reader's table. */
enum gs_reader_service {
	GS_READER_PLAN,
	GS_READER_DESCRIBED,
	GS_READER_OPERATORS,
	GS_READER_PYTHON,
	GS_READER_NATIVE,
	GS_READER_ENVIRON,
	GS_READER_KINETO,
	GS_READER_CUPTI,
	GS_READER_N_SERVICES
};

struct gs_reader_options {
	const char *name; /* what it reads, for messages: "files". Borrowed */
	bool keeps_state; /* files of all owners go to one process, which keeps what it knows
			   * until it dies (gs_reader_generation()) */
	uint32_t late_ms; /* a request that takes longer is given up; 0: 10 s */
	/* For tests: no process is started, this one serves (GS_READER_N_SERVICES). Else NULL. */
	const gs_reader_serve_fn *here;
};

struct gs_reader_stats {
	uint64_t n_requests;
	uint64_t n_late;     /* given up */
	uint64_t n_died;     /* readers that died during a request */
	uint64_t n_bad;      /* answers that made no sense */
	uint64_t n_replaced; /* readers that ended for another user's file */
};

/* Starts a reader; it need not be ready yet. Negative errno with a text. */
int gs_reader_new(const struct gs_reader_options *options, struct gs_reader **ret_reader,
		  struct gs_err *err);
void gs_reader_free(struct gs_reader **reader);

/* Whose the next requests are that come without a file: what they cost is his. At first root's. */
void gs_reader_set_owner(struct gs_reader *reader, uint32_t uid);

/* Ask, and wait for the answer, which is put into *reply (reset first; its maximum is the
 * answer's). fds are lent. Returns what the service returned, with its text; or -ETIME: late, -EIO:
 * readers died of it, -EBADMSG: its answer is none. What is read, and the processor time that the
 * reader takes (as the kernel says, not as it says itself), count against the shares of the files'
 * owner under the calling thread's guard (core/base/foreign.h), whose end also ends the waiting:
 * -EDQUOT, -ECANCELED. -E2BIG: above GS_READER_MAX_BYTES or _FDS. */
int gs_reader_ask(struct gs_reader *reader, enum gs_reader_service service,
		  const struct gs_buf *request, const int *fds, unsigned n_fds,
		  struct gs_buf *reply, struct gs_err *err);

/* The last answer made no sense after all: its reader goes. Returns -EBADMSG with a text. */
int gs_reader_distrust(struct gs_reader *reader, struct gs_err *err);

/* Changes with each new process: what an older one knew is gone. Good after a request. */
unsigned gs_reader_generation(const struct gs_reader *reader);

/* The protections that its processes said they have (enum gs_sandbox_held), after the first
 * request. */
unsigned gs_reader_held(const struct gs_reader *reader);

/* What it did so far. Lent as long as the reader lives, and goes on with it. */
const struct gs_reader_stats *gs_reader_stats(const struct gs_reader *reader);

/* ---- the reader's side ---- */

struct gs_reader_request {
	struct gs_wire_in in;       /* what the holder asks; lent for the call */
	int fds[GS_READER_MAX_FDS]; /* the service may take them: -1 then. -1: none came */
};

/* True when the program was started as a reader. */
bool gs_reader_is_called(int argc, char **argv);

/* Gives up all rights, then serves until the holder closes its end. An exit status. */
int gs_reader_main(int argc, char **argv, const gs_reader_serve_fn services[GS_READER_N_SERVICES]);

#endif
