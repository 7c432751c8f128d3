/* `gpuscope completion`. */
#ifndef GS_COMMANDS_COMMON_COMPLETION_H
#define GS_COMMANDS_COMMON_COMPLETION_H

#include "commands/common/cli.h"

/* The whole command; commands: those to complete, up to NULL. An exit status. */
int gs_cli_print_completion(int argc, char **argv, const struct gs_cli_command *const *commands);

#endif
