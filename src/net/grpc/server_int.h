/*
 * Between the files of the server:
 *
 *   server.c   listening sockets, epoll, the loop            ─┐
 *   conn.c     one connection: its socket and its times       ├
 *   session.c  one connection's HTTP/2, without any socket    ├ the server's thread alone
 *   core.c     what is shared: counters, lists of work       ─┘ and, under the lock, any thread
 *   call.c     the functions on calls: any thread
 *
 * The functions on calls touch only what the lock protects, and put the call on the list of dirty
 * ones; the server's thread then does what has to be done with nghttp2. So a handler may call them
 * from within a callback of nghttp2, where nghttp2 itself must not be asked to send.
 */
#ifndef GS_NET_GRPC_SERVER_INT_H
#define GS_NET_GRPC_SERVER_INT_H

#include "net/grpc/grpc_int.h"

#define GS_GRPC_OWN_METADATA_BYTES 8192

struct gs_grpc_post {
	struct gs_grpc_post *next;
	void (*fn)(void *arg);
	void *arg;
};

struct gs_grpc_counters {
	_Atomic uint64_t connections, connections_now, calls, calls_now;
	_Atomic uint64_t calls_by_status[GS_GRPC_STATUS_COUNT];
	_Atomic uint64_t messages_in, messages_out, message_bytes_in, message_bytes_out;
	_Atomic uint64_t wire_bytes_in, wire_bytes_out, queued_bytes_now, throttled, idle_closed;
	_Atomic uint64_t refused[GS_GRPC_REFUSAL_COUNT];
};

/* Add to a counter that is read without the lock. */
static inline void gs_grpc_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Lives until the server and the last reference of a call are gone. */
struct gs_grpc_core {
	atomic_uint refs;
	struct gs_grpc_server_options o;       /* with all limits filled in */
	const struct gs_grpc_method **methods; /* sorted by path; owned */
	struct gs_grpc_counters counters;
	struct gs_grpc_held held;
	/* The server's thread alone. */
	pthread_t thread;
	struct gs_timers timers;
	struct gs_grpc_session *ready; /* that have something to send */
	bool stopping;
	/* Under the lock, with what call.c names. */
	pthread_mutex_t lock;
	int wake_fd; /* -1: no thread (tests) */
	bool woken;
	struct gs_grpc_call *dirty, **dirty_end;
	struct gs_grpc_post *posts, **posts_end;
};

/* Who is at the other end; shared by a connection and its calls. */
struct gs_grpc_peer {
	atomic_uint refs;
	char address[80];
	char identity[256], names[512];
	bool is_trusted;
};

struct gs_grpc_session {
	struct gs_grpc_core *core;
	nghttp2_session *h2;
	struct gs_grpc_peer *peer;
	void *owner; /* the connection */
	struct gs_grpc_call *calls;
	size_t n_started; /* of calls that are not over */
	struct gs_grpc_session *next_ready;
	bool is_ready;
	bool greeted;           /* preface and SETTINGS came */
	bool blamed;            /* counted as broken */
	bool broken;            /* its GOAWAY is the last; what comes is not read */
	bool leaving;           /* GOAWAY sent */
	uint64_t idle_since_ns; /* n_started became 0 */
	/* Buckets: full at the burst, a frame or message takes one. */
	double control_tokens, message_tokens;
	uint64_t control_ns, message_ns; /* when they were filled last */
	struct gs_timer throttle;
	size_t block_bytes;      /* of the headers that are coming */
	unsigned header_strikes; /* blocks of headers far above the limit */
	uint64_t ping_ns;        /* when the last of the client's came */
	unsigned ping_strikes;
};

struct gs_grpc_call {
	atomic_uint refs;
	struct gs_grpc_core *core;
	struct gs_grpc_peer *peer;
	const struct gs_grpc_method *method;
	void *_Atomic user;
	uint64_t deadline_ns;
	struct gs_grpc_table metadata; /* in; does not change after start */

	/* The server's thread alone. */
	struct gs_grpc_session *session; /* NULL: over */
	struct gs_grpc_call *next, **prev;
	int32_t stream;
	struct gs_timer deadline;
	struct gs_grpc_inbox inbox;
	size_t header_bytes;
	enum gs_grpc_status refused; /* while headers come: why it will not start */
	const char *refused_text;
	int http_status;
	bool post, grpc, bad_path;
	bool started, responded, ended_out, peer_ended, handler_saw_end;
	uint64_t n_messages;

	/* Under the lock. */
	bool dirty, over, finished, wants_writable, queued_any;
	struct gs_grpc_call *next_dirty;
	struct gs_grpc_outbox out;
	struct gs_grpc_table headers, trailers; /* ours; not changed after finished */
	enum gs_grpc_status status;
	char *text; /* percent-encoded; NULL none; owned */

	atomic_uint paused;
	_Atomic size_t window_bytes;
};

/* --- core.c --- */

int gs_grpc_core_new(const struct gs_grpc_server_options *options, struct gs_grpc_core **ret_core,
		     struct gs_err *err);
void gs_grpc_core_unref(struct gs_grpc_core **core);
const struct gs_grpc_method *gs_grpc_core_method(const struct gs_grpc_core *core, const char *path);
void gs_grpc_core_refuse(struct gs_grpc_core *core, enum gs_grpc_refusal why);
/* The server's thread has something to do. With the lock held. */
void gs_grpc_core_wake(struct gs_grpc_core *core);
/* What was asked for by calls and posts; false: there was nothing. */
bool gs_grpc_core_run(struct gs_grpc_core *core);
bool gs_grpc_core_pending(struct gs_grpc_core *core);
int gs_grpc_core_post(struct gs_grpc_core *core, void (*fn)(void *arg), void *arg);
void gs_grpc_core_stats(const struct gs_grpc_core *core, struct gs_grpc_stats *ret_stats);

/* --- call.c --- */

struct gs_grpc_call *gs_grpc_call_new(struct gs_grpc_core *core, struct gs_grpc_peer *peer);
/* Finish it now, whatever was queued. With the lock not held. */
void gs_grpc_call_settle(struct gs_grpc_call *call, enum gs_grpc_status status, const char *text);
void gs_grpc_call_mark_dirty(struct gs_grpc_call *call); /* with the lock held */

/* --- session.c --- */

/* peer: taken over in any case. */
int gs_grpc_session_new(struct gs_grpc_core *core, struct gs_grpc_peer *peer, void *owner,
			struct gs_grpc_session **ret_session);
/* Calls that run end as CANCELLED. */
void gs_grpc_session_free(struct gs_grpc_session **session);
/* Bytes that came. 0, or a negative errno: nothing can be said any more, close. */
int gs_grpc_session_input(struct gs_grpc_session *session, const uint8_t *data, size_t bytes);
int gs_grpc_session_output(struct gs_grpc_session *session, struct gs_buf *out, size_t up_to);
/* Nothing to read and nothing to write any more. */
bool gs_grpc_session_done(const struct gs_grpc_session *session);
void gs_grpc_session_ping(struct gs_grpc_session *session);
/* No new calls; those that run may end. */
void gs_grpc_session_leave(struct gs_grpc_session *session, uint32_t error_code, const char *why);
/* End all calls. */
void gs_grpc_session_abort_calls(struct gs_grpc_session *session, enum gs_grpc_status status,
				 const char *text);
/* A dirty call. */
void gs_grpc_session_update(struct gs_grpc_call *call);

struct gs_grpc_peer *gs_grpc_peer_new(const char *address);
void gs_grpc_peer_unref(struct gs_grpc_peer **peer);

#endif
