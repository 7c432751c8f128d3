/* Samples to a MySQL or MariaDB server. */
#ifndef GS_COMMANDS_AGENT_AGENT_MYSQL_H
#define GS_COMMANDS_AGENT_AGENT_MYSQL_H

#include "commands/agent/agent_state.h"

/* As state->conf says; state->mysql stays NULL when no server is configured. Takes the lock. */
int agent_mysql_start(struct agent_state *state, struct gs_err *err);

/* Writes what waits for some seconds; the rest stays in the spool. Nothing reads state any more. */
void agent_mysql_stop(struct agent_state *state);

/* The GPUs were read; a sample is made of it when one is due. jobs may be NULL. */
void agent_mysql_take(struct agent_state *state, struct agent_jobs *jobs);

/* The tables of a schema to standard output. An exit status. */
int agent_mysql_print_schema(const char *schema);

#endif
