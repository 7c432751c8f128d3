/* What is compared: reports of jobs out of files, and from a head. */
#ifndef GS_COMMANDS_JOB_JOB_COMPARE_H
#define GS_COMMANDS_JOB_JOB_COMPARE_H

#include "commands/head/remote.h"
#include "analysis/job_report/compare.h"

#define COMPARE_LAST 100 /* reports from a head, when nothing else is said */

struct compare_from {
	struct remote_options remote;  /* head NULL: from files alone */
	const char *user, *name, *job; /* NULL any; a * at the end of name: any text */
	uint32_t last;                 /* 0: COMPARE_LAST */
};

/* NULL: stdout, by the suffix of output. An exit status. */
int gs_cmd_compare(char **paths, size_t n, const struct compare_from *from, const char *output,
		   const char *format);

#endif
