/*
 * Debug messages. Rooms do not print: they return, and say at debug level what they did. The two
 * kinds of message that a user sees (a warning, the reason of a failure) are printed by the
 * commands (commands/common/cli.h).
 */
#ifndef GS_CORE_BASE_LOG_H
#define GS_CORE_BASE_LOG_H

#include "core/base/mem.h"

/* How much is logged: 0 nothing, 1 (-v) decisions, 2 (-vv) every step. Process-wide, set once. */
void gs_log_set_level(int level);
int gs_log_level(void);

/* Lines go there and not to stderr from now on; NULL: to stderr again. */
void gs_log_set_sink(void (*sink)(int level, const char *line));

/* One line on stderr when level is on. errno is kept. */
void gs_log(int level, const char *fmt, ...) GS_PRINTF(2, 3);

#endif
