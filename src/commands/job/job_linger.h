/*
 * When a recorder in the background ends by itself: with its job, or when what it records has been
 * gone for long. It may never be stopped from outside: an epilog can be killed, and a recorder that stays
 * costs every process of the machine.
 *
 *   --parent-pid   some seconds after the launcher's end
 *   -p           with the last process
 *   -j           when no process is here and Slurm says that the job is over, or waits for another
 * run -j, --cgroup when no process has been here for --linger and Slurm has not said that it goes
 * on -u, all      never
 */
#ifndef GS_COMMANDS_JOB_JOB_LINGER_H
#define GS_COMMANDS_JOB_JOB_LINGER_H

#include <stdbool.h>

#include "commands/job/job.h"

struct job_linger;

/* Before it measures: a launcher that is gone is -ESRCH. */
int job_linger_new(const struct job_options *options, struct job_linger **ret_linger,
		   struct gs_err *err);
void job_linger_free(struct job_linger **linger);

/* At each look: n_alive processes are here. True: end now; *ret_why is a line to be reported, or
 * NULL when it is the usual end. */
bool job_linger_is_over(struct job_linger *linger, size_t n_alive, const char **ret_why);

#endif
