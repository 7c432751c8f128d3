/* Tables of what several processes did, added up to those of their job. */
#ifndef GS_MODEL_NODE_JOB_TABLES_H
#define GS_MODEL_NODE_JOB_TABLES_H

#include "model/trace/taskstats_rows.h"

/* Adds one row: to the one of the same device, file system or peer, or as a new one. -ENOMEM. */
int gs_job_tables_add_disk(struct gs_taskstats_tables *tables,
			   const struct gs_taskstats_disk_row *row);
int gs_job_tables_add_mount(struct gs_taskstats_tables *tables,
			    const struct gs_taskstats_mount_row *row);
int gs_job_tables_add_peer(struct gs_taskstats_tables *tables,
			   const struct gs_taskstats_peer_row *row);

/* Each table by bytes moved, most first. */
void gs_job_tables_sort(struct gs_taskstats_tables *tables);
void gs_job_tables_fini(struct gs_taskstats_tables *tables);

#endif
