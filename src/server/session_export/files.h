/*
 * Files of stopped sessions in a folder: NAME.json in gswarm-profiler's form, as its head leaves it,
 * and the figure NAME.png beside it. Functions take NULL for "no files are written".
 */
#ifndef GS_SERVER_SESSION_EXPORT_FILES_H
#define GS_SERVER_SESSION_EXPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "server/store/store.h"

struct gs_session_export_files;

struct gs_session_export_files_options {
	const char *dir;  /* where they are written */
	const char *data; /* of the store; both are copied */
	/* One line, on the thread that writes or on a caller's; borrowed; may be NULL. */
	void (*on_message)(void *ctx, const char *text);
	void *ctx;
};

/* Starts the thread that writes. A negative errno with err: the folder cannot be written to, ... */
int gs_session_export_files_open(const struct gs_session_export_files_options *options,
				 struct gs_session_export_files **ret_files, struct gs_err *err);

/* Where the file of this session is, or will be once it is stopped. False: none is written. */
bool gs_session_export_files_path(const struct gs_session_export_files *files,
				  const struct gs_store_session *session, char *out, size_t bytes);

/* This one was stopped: it is written when its turn comes. Any thread, as the next two. */
void gs_session_export_files_put(struct gs_session_export_files *files,
				 const struct gs_store_session *session);

/* fn is called once when NAME.json of all that was put before is written, when 10 s have passed, or at the stop:
 * at once or from another thread. */
void gs_session_export_files_then(struct gs_session_export_files *files, void (*fn)(void *ctx),
				  void *ctx);

/* Now and then: who has waited for 10 s is called. */
void gs_session_export_files_tick(struct gs_session_export_files *files);

/* The thread ends after what it writes; who waits is called. Nothing is taken afterwards. */
void gs_session_export_files_stop(struct gs_session_export_files *files);

/* After the stop, when no thread asks for paths any more. */
void gs_session_export_files_free(struct gs_session_export_files **files);

#endif
