/*
 * The command's side of --inside: the folder for its processes' files, the library, and what the command is started
 * with. pipeline/inside has what becomes of the records.
 */
#ifndef GS_COMMANDS_TRACE_TRACE_INSIDE_H
#define GS_COMMANDS_TRACE_TRACE_INSIDE_H

#include "core/base/err.h"
#include "pipeline/inside/inside.h"

struct trace_inside;
struct trace_options;

/* funcs: gets the names of operators; borrowed. *ret_inside stays NULL where it cannot be: said, and all is probed. -ENOENT: nothing that can be seen from
 * inside is chosen, in err. */
int trace_inside_new(const struct trace_options *options, struct gs_func_set *funcs,
		     struct trace_inside **ret_inside, struct gs_err *err);
void trace_inside_free(struct trace_inside **inside);

/* For Python functions of processes that run already: the files of the run, lent, and the library; NULL where they are not seen
 * from inside. */
struct gs_companion_files *trace_inside_files(struct trace_inside *inside,
					      const char **ret_python_library);

/* What it makes events of; NULL of NULL. */
struct gs_inside *trace_inside_events(struct trace_inside *inside);

/* In the command's process, before it becomes the command. With NULL nothing is done. */
void trace_inside_enter(const struct trace_inside *inside);

/* Is the one place free that CUDA's driver gives to a library? 0; -EBUSY: err says who has it. Looks at this process's
 * environment, which the command is given. */
int trace_inside_check_gpu_free(struct gs_err *err);

/* Says what could not be read. With NULL nothing. */
void trace_inside_report(const struct trace_inside *inside);

#endif
