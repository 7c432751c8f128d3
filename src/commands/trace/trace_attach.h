/*
 * Python functions of a running process, seen from inside: its interpreter is asked to load our library (PEP 768), and to
 * leave at the end. Where that cannot be, it is said, and probes see them. Control thread.
 */
#ifndef GS_COMMANDS_TRACE_TRACE_ATTACH_H
#define GS_COMMANDS_TRACE_TRACE_ATTACH_H

#include "commands/trace/trace.h"
#include "commands/trace/trace_inside.h"

struct trace_attach;

/* Asks the processes of the options. *ret_attach stays NULL where none is to be asked. All but *ret_attach is borrowed. Before probes
 * are attached to them. */
void trace_attach_start(const struct trace_options *options, struct trace_inside *inside,
			struct gs_reader *reader, struct trace_output *output,
			struct trace_attach **ret_attach);

/* Looks for answers: a process that is not seen gets its probes, of one that is that is said. Milliseconds until it is to be called
 * again, at most timeout. The rest does nothing with NULL either. */
int trace_attach_tick(struct trace_attach *attach, struct gs_uprobe *probe, int timeout);

/* Who has not answered is not asked any more. */
void trace_attach_withdraw(struct trace_attach *attach);

/* When nothing is recorded any more (trace_output_stop()): has the library leave, for a second at most. */
void trace_attach_free(struct trace_attach **attach);

#endif
