/* The program: finds the command in the table and runs it. */
#ifndef GS_COMMANDS_MAIN_MAIN_H
#define GS_COMMANDS_MAIN_MAIN_H

#include <stdbool.h>

#include "commands/common/options.h"

/* argc and argv of main(); an exit status. */
int gs_cmd_run(int argc, char **argv);

/* Another program that this one is when it is called by its name. */
struct gs_cmd_program {
	const char *name;                  /* last part of argv[0] */
	int (*run)(int argc, char **argv); /* returns the exit status */
};

/* static; once, before gs_cmd_run(). */
void gs_cmd_set_other(const struct gs_cmd_program *program);

/* manual.c: the man page of a command, or of a topic that is none, on standard output. False: there is none, or no man. */
#define CMD_MANUAL_LIBRARY "libgpuscope" /* a topic whose page has this very name */
bool cmd_manual_show(const char *topic);

/* version.c: `gpuscope version`; argv[0] is "version". has_gsprof: gs_cmd_set_other() was called. An exit
 * status. */
int cmd_version_show(int argc, char **argv, bool has_gsprof);
extern const struct gs_cli_command gs_cli_version;

#endif
