/* The section `recorder` of the agent's configuration. */
#include <stddef.h>

#include "commands/agent_recorder/agent_recorder.h"

#define AT(member) offsetof(struct agent_recorder_conf, member)

const struct gs_conf_key agent_recorder_keys[AGENT_RECORDER_KEYS] = {
	{.name = "jobs",
	 .kind = GS_CONF_LIST,
	 .offset = AT(jobs),
	 .bytes = sizeof(((struct agent_recorder_conf *)0)->jobs),
	 .preset = "",
	 .comment =
		 "Jobs whose last seconds are kept in full detail: patterns of ids or names, such as\n"
		 "4711, train-*, '*'. They are traced all the time, as by gpuscope trace -o."},
	{.name = "keep",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(keep_ns),
	 .preset = "30s",
	 .comment = "How much of each job is kept.",
	 .min = GS_CONF_S,
	 .max = GS_CONF_H},
	{.name = "memory_mib",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(memory_mib),
	 .preset = "64",
	 .comment =
		 "Memory for the records of each program, in MiB; the program itself needs some 60 more.",
	 .min = 1,
	 .max = 65536},
	{.name = "max_jobs",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_jobs),
	 .preset = "4",
	 .comment = "Programs at a time; a job has one for each of its steps.",
	 .min = 1,
	 .max = AGENT_RECORDER_MAX},
	{.name = "hang_after",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(hang_after_ns),
	 .preset = "60s",
	 .comment = "Report a hang when ranks wait for another rank for this long.",
	 .min = GS_CONF_S,
	 .max = GS_CONF_H},
	{.name = "directory",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(directory),
	 .bytes = sizeof(((struct agent_recorder_conf *)0)->directory),
	 .preset = "/var/lib/gpuscope-agent/recorder",
	 .comment =
		 "Directory of the files. A file is written when a hang or a finding begins, when a process of\n"
		 "the job or the agent is killed, and on request (gpuscope agent ctl save-trace)."},
	{.name = "max_files",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_files),
	 .preset = "64",
	 .comment = "Limit of the number of files; the oldest are removed.",
	 .min = 1,
	 .max = 10000},
	{.name = "max_mib",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_mib),
	 .preset = "1024",
	 .comment = "Limit of their total size, in MiB; the oldest are removed.",
	 .min = 1,
	 .max = 1 << 24},
	{.name = "by_head",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(by_head),
	 .preset = "true",
	 .comment =
		 "Users of the head (head.addresses) may list these files; with the role control also download\n"
		 "them and trigger a new one."},
};
