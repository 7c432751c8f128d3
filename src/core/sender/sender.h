/*
 * Processes without rights that talk to servers of others, for one that has rights. The holder
 * makes what is to be sent and keeps it; the sender connects, speaks TLS, HTTP, SMTP or gRPC, and
 * reads what the server answers. The rooms whose work it is (fetch, link) have both sides of it;
 * this room starts and ends the processes and carries their messages.
 *
 * A sender is this program, started again as a reader is (reader/reader.h). It ends when the holder
 * closes its socket; when it dies, hangs or says what cannot be, the holder starts another one and
 * sends again what was not acknowledged.
 */
#ifndef GS_CORE_SENDER_SENDER_H
#define GS_CORE_SENDER_SENDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/reader/wire.h"
#include "core/sandbox/sandbox.h"

#define GS_SENDER_SOCKET     GS_SANDBOX_FIRST_FILE /* in the sender: to the holder */
#define GS_SENDER_FIRST_FILE (GS_SANDBOX_FIRST_FILE + 1)

/* ---- the holder's side ---- */

/* work: "fetch" or "link". It has these files from GS_SENDER_FIRST_FILE on, and of the environment
 * what libcurl and the C library take proxies and name servers from. As gs_sandbox_start_child(),
 * by whose gs_sandbox_end_child() it is ended. */
int gs_sender_start(const char *work, const int *fds, unsigned n_fds, struct gs_sandbox_child *ret,
		    struct gs_err *err);

enum gs_sender_loss {
	GS_SENDER_DIED, /* ended by itself or by a limit */
	GS_SENDER_HUNG, /* did not answer in time and was ended */
	GS_SENDER_LIED, /* said what it may not say and was ended */
	GS_SENDER_N_LOSSES
};

/* Why a sender is gone, for messages, counted: after gs_sender_receive() or gs_sender_send()
 * returned r, and gs_sandbox_end_child() status. Returns text. */
const char *gs_sender_lost(int r, int status, char *text, size_t bytes);

/* Counts since the start, of the whole program. */
void gs_sender_losses(uint64_t ret[GS_SENDER_N_LOSSES]);
const char *gs_sender_loss_name(enum gs_sender_loss loss); /* "died" */

/* ---- the sender's side ---- */

/* True when the program was started as a sender for this work. */
bool gs_sender_is_called(int argc, char **argv, const char *work);

/* Gives up all rights; what is on the list of sandbox/syscalls.c stays. The process has one thread.
 * Returns enum gs_sandbox_held. A sender whose system calls are not limited must not go on. */
unsigned gs_sender_confine(void);

/* ---- messages, both ways ---- */

#define GS_SENDER_MAX_BYTES (64u << 20)

/* Room for a message's head; where it is. The values follow, then gs_sender_close(). Several may be
 * in one buffer. Errors stay in out. */
size_t gs_sender_begin(struct gs_wire_out *out);
void gs_sender_close(struct gs_wire_out *out, size_t at, uint32_t kind);

struct gs_sender_wait {
	uint64_t until_ns;       /* monotonic; UINT64_MAX: no end */
	const atomic_bool *stop; /* ends it soon after it becomes true; may be NULL */
};

/* All of out, then it is wiped and emptied. pass_fd: goes with the first byte, stays the caller's;
 * -1 none. 0; -ETIME; -ECANCELED: stop; -EPIPE: the other end is gone; other errors. */
int gs_sender_send(int fd, struct gs_buf *out, int pass_fd, const struct gs_sender_wait *wait);

/* One message into in (reset first). ret_fd may be NULL, else gets what came with it, or -1. 0; as
 * gs_sender_send(); -EBADMSG: longer than max_bytes. */
int gs_sender_receive(int fd, struct gs_buf *in, size_t max_bytes, uint32_t *ret_kind, int *ret_fd,
		      const struct gs_sender_wait *wait);

#endif
