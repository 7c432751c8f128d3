/*
 * Planning by a process without rights: as gs_attach_plan_file(), of a file that is open, with the reading
 * done by a reader.
 */
#ifndef GS_SOURCES_ATTACH_PLAN_REMOTE_H
#define GS_SOURCES_ATTACH_PLAN_REMOTE_H

#include "sources/attach_plan/attach_plan.h"
#include "core/reader/reader.h"

/* Answers as gs_attach_plan_file() and gs_reader_ask() do. fd is lent. */
int gs_attach_plan_ask(struct gs_attach_plan *plan, struct gs_reader *reader,
		       const struct gs_attach_plan_selection *selection,
		       const struct gs_attach_plan_options *options,
		       const struct gs_mapped_file *file, int fd, struct gs_err *err);

/* What it sends. */
void gs_attach_plan_put_request(struct gs_wire_out *out,
				const struct gs_attach_plan_options *options,
				const struct gs_mapped_file *file);

/* Take an answer, and believe nothing of it that was not asked for: -EBADMSG. *plan is the caller's
 * to end in any case. */
int gs_attach_plan_take_answer(struct gs_attach_plan *plan,
			       const struct gs_attach_plan_selection *selection,
			       const struct gs_attach_plan_options *options, const char *path,
			       uint64_t file_bytes, struct gs_wire_in *in);

/* --- operators.c: what there is, without tracing anything --- */

struct gs_operator_handler {
	/* An operator of the file at path; by_default: it is in GS_OPS_DEFAULT. Names are lent, and
	 * come once for each file. */
	void (*found)(void *ctx, const char *name, bool by_default, const char *path);
	/* What this file has is not known: why, in words. */
	void (*failed)(void *ctx, const char *path, const char *reason);
	void *ctx;
};

/* The operators that a command would find: those of every library that it may load, as a reader
 * finds them. 0 or a negative errno, of the search for files (-ENOENT: no such command). */
int gs_attach_plan_list_operators(const char *command, char *const environment[],
				  struct gs_reader *reader,
				  const struct gs_operator_handler *handler);

/* Take an answer: operators until its end. -EBADMSG; what came before has been handed on. */
int gs_attach_plan_take_operators(const char *path, struct gs_wire_in *in,
				  const struct gs_operator_handler *handler);

/* GS_READER_OPERATORS of a reader. -EBADMSG: the request is none. */
int gs_attach_plan_serve_operators(void **state, struct gs_reader_request *request,
				   struct gs_wire_out *reply, struct gs_err *err);

/* --- remote.c --- */

/* GS_READER_PLAN of a reader. -EBADMSG: the request is none. */
int gs_attach_plan_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
			 struct gs_err *err);

#endif
