/*
 * The agent runs for weeks in the memory that it has: what only its start needed is given back.
 *
 * Three times after each start: when the first values are there (the driver's library has read
 * what it wanted of the machine), and twice later, since the first readings try each way of asking
 * the driver and the first scrapes come. A reload and a driver that is reattached are starts.
 * What is needed each second is back with the next reading: some hundred faults on pages that the
 * page cache has (doc/overhead.md).
 */
#include <string.h>

#include "commands/agent/agent_shrink.h"
#include "commands/agent/agent_state.h"

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/shrink.h"

static const uint64_t pause_ns[AGENT_SHRINK_TURNS] = {0, 15000000000ull, 60000000000ull};

void agent_shrink_begin(struct agent_shrink *s, uint64_t now_ns)
{
	s->turn = 0;
	s->next_ns = now_ns;
}

uint64_t agent_shrink_next(const struct agent_shrink *s)
{
	return s->turn < AGENT_SHRINK_TURNS ? s->next_ns : UINT64_MAX;
}

void agent_shrink_tick(struct agent_shrink *s, struct agent_state *state, uint64_t now_ns)
{
	struct gs_shrunk shrunk;
	char took[GS_FMT_BYTES];
	int r;

	if (now_ns < agent_shrink_next(s))
		return;
	if (++s->turn < AGENT_SHRINK_TURNS)
		s->next_ns = now_ns + pause_ns[s->turn];
	gs_shrink_heap();
	/* The configuration has room for hundreds of rules, and mostly holds none. */
	pthread_mutex_lock(&state->lock);
	gs_shrink_zeroes(&state->conf, sizeof(state->conf));
	pthread_mutex_unlock(&state->lock);
	r = gs_shrink_mappings(&shrunk);
	now_ns = gs_clock_mono_ns() - now_ns;
	if (r < 0)
		gs_log(GS_LOG_INFO, GS_LOG_COST, "agent: cannot release pages of files: %s",
		       strerror(-r));
	else
		gs_log(GS_LOG_INFO, GS_LOG_COST,
		       "agent: released %llu KiB of files in %u mappings and %llu KiB of stack, in %s",
		       (unsigned long long)shrunk.file_bytes >> 10, shrunk.n_mappings,
		       (unsigned long long)shrunk.stack_bytes >> 10, gs_fmt_ns(took, now_ns));
}
