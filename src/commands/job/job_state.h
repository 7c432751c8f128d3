/*
 * Whether a job of Slurm goes on, as its controller says: for who measures a job and sees nothing
 * of it, which may be the pause between two of its steps or its end. Asked of `squeue` in the
 * background, seldom; nothing here waits.
 */
#ifndef GS_COMMANDS_JOB_JOB_STATE_H
#define GS_COMMANDS_JOB_JOB_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_job_state {
	/* No answer: no controller, no such job (any more), or none yet. */
	GS_JOB_STATE_UNKNOWN = 0,
	/* for its first run, or for another */
	GS_JOB_STATE_WAITS = 1,
	GS_JOB_STATE_RUNS = 2,
	/* it ended, or only its nodes' cleanup goes on */
	GS_JOB_STATE_OVER = 3,
};

/* Of what `squeue -h -t all -o %T` prints, a state a line. Of several tasks of an array the one
 * that has most to come counts: RUNS, then WAITS. Words that are not known run. */
enum gs_job_state gs_job_state_parse(const char *text, size_t bytes);

struct gs_job_asker;

/* id: as users write it, 4711, 4711_3, 4711+1. slurm_conf NULL: $SLURM_CONF, or where Slurm looks
 * for it itself. 0 or -ENOMEM. */
int gs_job_asker_new(const char *id, const char *slurm_conf, struct gs_job_asker **ret_asker);
void gs_job_asker_free(struct gs_job_asker **asker);

/* Goes on with the question, or asks it when it is time: at once, and then less and less often,
 * each minute at last. What the last question brought. */
enum gs_job_state gs_job_asker_poll(struct gs_job_asker *asker);

/* A question is open: its answer may change the state. */
bool gs_job_asker_is_open(const struct gs_job_asker *asker);

#endif
