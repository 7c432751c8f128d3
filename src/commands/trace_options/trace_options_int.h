/* What the files of the command line of `gpuscope trace` share. */
#ifndef GS_COMMANDS_TRACE_OPTIONS_TRACE_OPTIONS_INT_H
#define GS_COMMANDS_TRACE_OPTIONS_TRACE_OPTIONS_INT_H

#include "commands/trace_options/trace_options.h"

/* --- trace_check.c: 0, or GS_EXIT_USAGE after having said what is wrong --- */

int trace_check(const struct trace_options *options);
int trace_check_stacks(
	const struct trace_options *options); /* when all that ask for them is known */

/* --- trace_list.c: --list, its exit status --- */

int trace_list(const struct trace_options *options);

/* --- trace_python_options.c --- */

/* Words of --python-hz and --python-at; false: wrong. Then what follows from all options. */
bool trace_python_take_hz(struct trace_options *options, const char *word);
bool trace_python_take_at(struct trace_options *options, const char *word);
bool trace_python_take_call(struct trace_options *options, const char *word); /* one pattern */
void trace_python_settle(struct trace_options *options);

/* --- trace_stacks.c: --stacks and --stack-bytes --- */

bool trace_stacks_take(struct trace_options *options, char *words);
bool trace_stacks_take_bytes(struct trace_options *options, const char *word);
/* What follows from all options. */
void trace_stacks_settle(struct trace_options *options);

#endif
