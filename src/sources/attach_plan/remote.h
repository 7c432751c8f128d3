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

/* GS_READER_PLAN of a reader. */
int gs_attach_plan_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
			 struct gs_err *err);

#endif
