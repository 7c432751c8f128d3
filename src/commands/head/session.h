/* Sessions as the commands show them: `gpuscope session` and gsprof. */
#ifndef GS_COMMANDS_HEAD_SESSION_H
#define GS_COMMANDS_HEAD_SESSION_H

#include "commands/head/remote.h"
#include "gpuscope.pb-c.h"
#include "server/store/store.h"

/* A table, or JSON: {"sessions": [...]}. 0, or the first error of writing. */
int session_show(Gpuscope__V1__Session *const *sessions, size_t n, bool json);

/* How a head is, likewise. 0, or the first error of writing. */
int session_show_head(const Gpuscope__V1__HeadStatus *head, bool json);

/* What the head found of jobs over many nodes, newest first; job: of this one alone, NULL any. Lines, or JSON:
 * {"findings": [...]}. 0 or a negative errno with err. */
int session_show_findings(const char *job, bool json, struct remote *remote, struct gs_err *err);

/* Steps of ranks side by side, as they are now, likewise: tables, or {"steps": [...]}. */
int session_show_steps(const char *job, bool json, struct remote *remote, struct gs_err *err);

/* From a store that no head uses. state: 0 any. */
int session_show_store(const char *dir, unsigned state, bool json, struct gs_err *err);

/* The session's files. out NULL: "NAME.json" (or .csv, .gst) here; "-" standard output. format:
 * enum gs_session_export_format. They appear under their names when they are whole. A negative
 * errno with err. */
int session_export(struct remote *remote, const char *name, unsigned format, const char *out,
		   struct gs_err *err);
int session_export_store(const char *dir, const char *name, unsigned format, const char *out,
			 struct gs_err *err);

/* One file by its name here (a head's word: it leads nowhere), whole or not at all, of what is
 * given piece by piece: fill calls take with ctx. */
typedef int (*session_take)(void *ctx, const void *data, size_t bytes);
int session_write_file(const char *name,
		       int (*fill)(void *fill_ctx, session_take take, void *ctx,
				   struct gs_err *err),
		       void *fill_ctx, struct gs_err *err);

#endif
