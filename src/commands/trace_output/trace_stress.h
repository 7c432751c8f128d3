/* What the machine does to what is traced, once a second: time stopped by a CPU quota, retransmitted TCP segments. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_STRESS_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_STRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/trace_options/trace_options.h"
#include "model/summary/summary.h"
#include "pipeline/ingest/ingest.h"
#include "sources/host/taskstats.h"

struct trace_stress { /* all 0 at the begin */
	uint32_t pid; /* whose cgroup and network are read; 0: none is known yet */
	uint64_t read_ns;
	bool is_known;                           /* the following are of this pid */
	int64_t quota_ns, retransmits;           /* as they were read last; -1: not known */
	int64_t said_quota_ns, said_retransmits; /* as they were reported last; likewise */
	struct gs_host_cgroup cgroup;            /* of what is traced, as of the start */
	pid_t cgroup_pid;                        /* whose group that is; 0: not known */
};

/* The cgroup of what is traced, before anything runs: a command begins in gpuscope's own. */
void trace_stress_begin(struct trace_stress *stress, const struct trace_options *options);

/* What a CPU quota did to it since then; nothing where that is not known. */
void trace_stress_put_quota(const struct trace_stress *stress, struct gs_summary *summary);

/* A process that is traced; the first one that has not ended is taken. */
void trace_stress_note(struct trace_stress *stress, uint32_t pid, bool has_ended);

/* Once a second, whatever more often: counters of what came since then, where that is another number than before. */
void trace_stress_tick(struct trace_stress *stress, struct gs_ingest *feed);

#endif
