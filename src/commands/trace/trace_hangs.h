/* Hangs of the traced job, as they are found: messages on standard error, with what each rank does then. */
#ifndef GS_COMMANDS_TRACE_TRACE_HANGS_H
#define GS_COMMANDS_TRACE_TRACE_HANGS_H

struct gs_reader;
struct trace_hangs;
struct trace_live;
struct trace_output;

/* All three are borrowed, reader reads files. NULL: no memory. Control thread. */
struct trace_hangs *trace_hangs_new(struct gs_reader *reader, struct trace_output *output,
				    struct trace_live *live);
void trace_hangs_free(struct trace_hangs **hangs);

/* Says what was found since the last time. */
void trace_hangs_report(struct trace_hangs *hangs);

#endif
