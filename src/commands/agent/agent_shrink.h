/* Memory that only a start needed is given back. */
#ifndef GS_COMMANDS_AGENT_AGENT_SHRINK_H
#define GS_COMMANDS_AGENT_AGENT_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/agent/agent_state.h"

#define AGENT_SHRINK_TURNS 3

struct agent_shrink {
	unsigned turn; /* AGENT_SHRINK_TURNS: nothing is due */
	uint64_t next_ns;
};

/* The agent has started, or something in it has. */
void agent_shrink_begin(struct agent_shrink *s, uint64_t now_ns);
uint64_t agent_shrink_next(const struct agent_shrink *s); /* monotonic; UINT64_MAX never */

/* Give back what is free, if it is time. The main thread's; takes the lock of state. */
void agent_shrink_tick(struct agent_shrink *s, struct agent_state *state, uint64_t now_ns);

#endif
