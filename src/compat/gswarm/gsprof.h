/* The program under the name gsprof: gswarm-profiler's command lines. */
#ifndef GS_COMMANDS_HEAD_GSPROF_H
#define GS_COMMANDS_HEAD_GSPROF_H

#include <stdbool.h>

bool gsprof_is_called(const char *argv0);
int gsprof_main(int argc, char **argv);

/* gsprof_more.c; command: "http-profile", "http-stop" or "http-status". Exit statuses. */
int gswarm_run_stat(int argc, char **argv);
int gswarm_run_http(int argc, char **argv, const char *command);

#endif
