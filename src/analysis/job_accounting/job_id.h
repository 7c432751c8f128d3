/* Ids of jobs as people write them for -j: 4711, 4711_3 (a task of an array), 4711_[1-3,7:2] (some
 * of them, as squeue writes them), 4711+1 (a component of a het job), a SLUID. Pure. */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_JOB_ID_H
#define GS_ANALYSIS_JOB_ACCOUNTING_JOB_ID_H

#include <stdbool.h>

#include "model/node/job.h"

/* The comma after the id that begins the text, or the text's end: commas in brackets are its. */
char *gs_accounting_job_id_end(char *text);

/* Whether the text is an id. */
bool gs_accounting_job_id_is(const char *id);

/* Whether the id names this job, or the array or het job that it is part of. */
bool gs_accounting_job_id_names(const char *id, const struct gs_job *job);

#endif
