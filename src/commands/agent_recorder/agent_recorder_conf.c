/* The section `recorder` of the agent's configuration. */
#include <stddef.h>

#include "commands/agent_recorder/agent_recorder.h"

#define S          1000000000ull
#define H          3600000000000ull
#define AT(member) offsetof(struct agent_recorder_conf, member)

const struct gs_conf_key agent_recorder_keys[AGENT_RECORDER_KEYS] = {
	{.name = "jobs",
	 .kind = GS_CONF_LIST,
	 .offset = AT(jobs),
	 .bytes = sizeof(((struct agent_recorder_conf *)0)->jobs),
	 .preset = "",
	 .comment =
		 "Jobs whose last seconds are kept in full detail, by id or name: a list of patterns, such as\n"
		 "4711, train-*, '*'. They are traced all the time, as by gpuscope trace -o."},
	{.name = "keep",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(keep_ns),
	 .preset = "30s",
	 .comment = "How much of each job is kept in memory.",
	 .min = S,
	 .max = H},
	{.name = "memory_mib",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(memory_mib),
	 .preset = "64",
	 .comment = "Memory for each job, in MiB; some 60 more for the program that traces it.",
	 .min = 1,
	 .max = 65536},
	{.name = "max_jobs",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_jobs),
	 .preset = "4",
	 .comment = "Programs that trace at one time; a job has one for each of its steps.",
	 .min = 1,
	 .max = AGENT_RECORDER_MAX},
	{.name = "hang_after",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(hang_after_ns),
	 .preset = "60s",
	 .comment = "A hang is when ranks wait for another one so long.",
	 .min = S,
	 .max = H},
	{.name = "directory",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(directory),
	 .bytes = sizeof(((struct agent_recorder_conf *)0)->directory),
	 .preset = "/var/lib/gpuscope-agent/recorder",
	 .comment =
		 "Where files are written when a hang or a finding begins, a process of the job is killed by\n"
		 "a signal, the agent is killed, or on request (gpuscope agent ctl save-trace)."},
	{.name = "max_files",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_files),
	 .preset = "64",
	 .comment = "Files there; the oldest are removed.",
	 .min = 1,
	 .max = 10000},
	{.name = "max_mib",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_mib),
	 .preset = "1024",
	 .comment = "Their size together, in MiB; the oldest are removed.",
	 .min = 1,
	 .max = 1 << 24},
};
