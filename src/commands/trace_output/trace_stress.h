/* What the machine does to what is traced, once a second: time stopped by a CPU quota, retransmitted TCP segments. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_STRESS_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_STRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/ingest/ingest.h"

struct trace_stress { /* all 0 at the begin */
	uint32_t pid; /* whose cgroup and network are read; 0: none is known yet */
	uint64_t read_ns;
	bool is_known;                           /* the following are of this pid */
	int64_t quota_ns, retransmits;           /* as they were read last; -1: not known */
	int64_t said_quota_ns, said_retransmits; /* as they were reported last; likewise */
};

/* A process that is traced; the first one that has not ended is taken. */
void trace_stress_note(struct trace_stress *stress, uint32_t pid, bool has_ended);

/* Once a second, whatever more often: counters of what came since then, where that is another number than before. */
void trace_stress_tick(struct trace_stress *stress, struct gs_ingest *feed);

#endif
