/*
 * The text of the lines of Python code that a summary shows: read when the summary is made, from the
 * file that the interpreter names, and only where it is certain that the process ran this text:
 *
 * - the file has not changed, nor was put there, since the program of the process began;
 * - it is what the process itself saw under that name: below the root of the process while it lives, or
 *   below ours where that was the same;
 * - the user who started gpuscope may read it, and so may the user of the process: names of files are the
 *   process's own, and must not make root show what that user cannot see.
 *
 * Anything else leaves a line without its text. Control thread.
 */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_SOURCE_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_SOURCE_H

#include <sys/types.h>

#include "model/summary/summary.h"

struct trace_source;

/* NULL: no memory. */
struct trace_source *trace_source_new(void);
void trace_source_free(struct trace_source **source);

/* The process runs an interpreter: note when its program began, and whose root it has. */
void trace_source_note(struct trace_source *source, pid_t pid);

/* Fill in the texts of the summary's lines, at most 1,000 of them. 0 or -ENOMEM. */
int trace_source_fill(struct trace_source *source, struct gs_summary *summary);

#endif
