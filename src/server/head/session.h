/*
 * What the front ends of a head (gRPC in this room, HTTP elsewhere) do with it, without any
 * protocol: sessions, marks, switches, what it wants measured.
 *
 * Only the store's thread writes, so that a change is a job for it: gs_head_write() with a function
 * that calls gs_head_session_*() and answers from there. What takes time to read is a job for the
 * reader's thread: gs_head_read(). Neither waits; both may be called from any thread.
 */
#ifndef GS_SERVER_HEAD_SESSION_H
#define GS_SERVER_HEAD_SESSION_H

#include "core/base/err.h"
#include "server/head/head.h"
#include "server/session_export/files.h"
#include "server/store/store.h"

/* fn is called once, with the store to be used; NULL: the head ends, nothing can be done. 0 or
 * -ENOMEM (fn is not called). */
typedef void (*gs_head_job_fn)(void *ctx, struct gs_store *store);
int gs_head_write(struct gs_head *head, gs_head_job_fn fn, void *ctx);
int gs_head_read(struct gs_head *head, gs_head_job_fn fn, void *ctx);

/* A store of one's own to read with, for what takes long (an export): for the calling thread. As
 * gs_store_open(). */
int gs_head_reader(struct gs_head *head, struct gs_store **ret_store, struct gs_err *err);

/* --- on the store's thread; err says in a line what is wrong --- */

#define GS_HEAD_SESSIONS_MAX 1000 /* active at once */

/* name "": profiling_YYYYmmdd_HHMMSS. interval 0: the head's, as it is now. -EINVAL a name, key or
 * pattern that cannot be; -EEXIST the name is in use; -ENOSPC no room on the disk; -EBUSY too many
 * are active. */
int gs_head_session_start(struct gs_head *head, struct gs_store *store,
			  struct gs_store_session *session, struct gs_err *err);

/* By name or id; fn is called with each that was stopped. name "": all that are active, and none is
 * no error. -ENOENT; -EALREADY. */
int gs_head_session_stop(struct gs_head *head, struct gs_store *store, const char *name,
			 void (*fn)(void *ctx, const struct gs_store_session *session), void *ctx,
			 struct gs_err *err);

/* An ended or stopped one goes on. -ENOENT, -EALREADY: it is active; errors of the store; all with
 * err. */
int gs_head_session_resume(struct gs_head *head, struct gs_store *store, const char *name,
			   struct gs_store_session *ret_session, struct gs_err *err);

/* -EBUSY: it is active. */
int gs_head_session_delete(struct gs_head *head, struct gs_store *store, const char *name,
			   struct gs_store_session *ret_session, struct gs_err *err);

struct gs_head_annotation {
	const char *session;     /* name or id; "" all that are active */
	int64_t wall_ns;         /* 0 now */
	const char *kind;        /* "annotation", "request" */
	const char *name;        /* what it is called */
	const char *const *keys; /* n_values */
	const double *values;    /* likewise; finite */
	size_t n_values;
};

/* -ENOENT no such session, or none is active; -EINVAL a name or number that cannot be. How many
 * sessions got it; ret_session (may be NULL): the last of them. */
int gs_head_annotate(struct gs_head *head, struct gs_store *store,
		     const struct gs_head_annotation *mark, struct gs_store_session *ret_session,
		     struct gs_err *err);

/* --- any thread --- */

/* The files of stopped sessions; lent until the stop. NULL: this head writes none. */
struct gs_session_export_files *gs_head_files(struct gs_head *head);

struct gs_head_switches {
	uint64_t interval_ns;
	bool bandwidth, nvlink; /* counters of PCIe and memory; of NVLink */
};

#define GS_HEAD_INTERVAL_LEAST_NS 50000000ull
#define GS_HEAD_INTERVAL_MOST_NS  3600000000000ull

/* As of now. Any thread. */
void gs_head_switches(struct gs_head *head, struct gs_head_switches *ret_switches);

/* Nodes get it at once. Holds until the head ends. -EINVAL: an interval that cannot be. */
int gs_head_set(struct gs_head *head, const struct gs_head_switches *switches, struct gs_err *err);

/* Copies of the sessions that are active, oldest first; the caller frees. NULL with *ret_n 0: there
 * are none. -ENOMEM. */
int gs_head_active(struct gs_head *head, struct gs_store_session **ret_sessions, size_t *ret_n);

#endif
