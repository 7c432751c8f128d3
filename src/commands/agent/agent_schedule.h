/* When which group of values is due, and how intervals follow what changes. */
#ifndef GS_COMMANDS_AGENT_AGENT_SCHEDULE_H
#define GS_COMMANDS_AGENT_AGENT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/agent/agent_conf.h"
#include "core/base/schedule.h"
#include "sources/gpu/gpu.h"

struct agent_schedule {
	struct {
		struct gs_schedule turns; /* monotonic */
		uint64_t reads, read_ns;  /* how often; when last, 0 never */
	} group[AGENT_GROUPS];
	struct gs_schedule events; /* when they are asked for */
	uint64_t missed; /* turns that did not take place: the machine or a reading was too slow */
	uint64_t lag_ns; /* how late the last turn began */
};

/* Also after a reload: all groups are due from now_ns on (monotonic). */
void agent_schedule_init(struct agent_schedule *s, const struct agent_conf *conf, uint64_t now_ns);

/* The time of the next turn; UINT64_MAX: nothing is ever due. */
uint64_t agent_schedule_next(const struct agent_schedule *s, const struct agent_conf *conf);

/* Groups (enum gs_gpu_group, ored) that are due now; their next turns are set. */
unsigned agent_schedule_take(struct agent_schedule *s, const struct agent_conf *conf,
			     uint64_t now_ns);

/* Whether the values of a group differ by its threshold between two snapshots. */
bool agent_group_changed(const struct gs_gpu_snapshot *before, const struct gs_gpu_snapshot *now,
			 enum agent_group group, double threshold_ratio);

/* What was read makes intervals shorter or longer; before: the snapshot ahead of it, may be NULL. */
void agent_schedule_adapt(struct agent_schedule *s, const struct agent_conf *conf, unsigned groups,
			  const struct gs_gpu_snapshot *before, const struct gs_gpu_snapshot *now,
			  uint64_t now_ns);

/* The group of a value. */
enum agent_group agent_group_of(enum gs_gpu_field field);

#endif
