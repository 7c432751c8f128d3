/*
 * The jobs of a machine as a table, a row each, in place of the processes: sorted, filtered, and
 * one of them in full.
 */
#ifndef GS_OUTPUT_TUI_JOBS_H
#define GS_OUTPUT_TUI_JOBS_H

#include "model/node/host.h"
#include "output/screen/lines.h"

enum tui_job_column {
	TUI_JOB_ID,
	TUI_JOB_KIND,
	TUI_JOB_USER,
	TUI_JOB_PROCESSES,
	TUI_JOB_CPU,
	TUI_JOB_MEMORY,
	TUI_JOB_GPUS,
	TUI_JOB_GPU,
	TUI_JOB_GPU_MEMORY,
	TUI_JOB_IO,
	TUI_JOB_NET,
	TUI_JOB_SCORE,
	TUI_JOB_CLASS,
	TUI_JOB_NAME,
	TUI_JOB_N_COLUMNS
};

struct tui_jobs {
	const struct gs_job_account **rows; /* owned; of the snapshot, those that pass, in order */
	int n_rows;
	int n_hidden;             /* by the filter */
	uint32_t hidden;          /* 1 << enum tui_job_column: not shown, whatever room there is */
	enum tui_job_column sort; /* by which rows are sorted */
	bool reverse;             /* the other way round */
	int selected;             /* row; -1 none */
	bool chosen;              /* not just the first row */
	char selected_id[64];     /* so that it stays selected wherever it goes */
	uint32_t selected_kind;   /* enum gs_job_kind, with the id */
	char detail_id[64];       /* of the one that is shown in full */
	uint32_t detail_kind;     /* likewise */
	int top;                  /* first row on the screen */
};

/* Rows of the snapshot. filter: this text in id, user, name, account, partition or class; "" all.
 * mine: only those of uid. -ENOMEM. */
int tui_jobs_fill(struct tui_jobs *t, const struct gs_node_snapshot *node, const char *filter,
		  bool mine, uid_t uid);
void tui_jobs_fini(struct tui_jobs *t);
void tui_jobs_select(struct tui_jobs *t, int row);

const char *tui_job_title(enum tui_job_column c); /* "" no such column */

/* Draw the head and the rows into rows x columns cells from y on. */
void tui_jobs_draw(struct tui_jobs *t, const struct gs_node_snapshot *node, struct tui_screen *s,
		   int y, int rows, bool with_selection);

/* Where the time of threads went, by the parts of gs_taskstats_parts(): those of a thousandth at least. */
void tui_draw_parts(struct tui_lines *l, const uint64_t part_ns[GS_TASKSTATS_PARTS]);

/* All of one job, on a screen of its own, from its line *top on (corrected when it is too far). */
void tui_job_draw_detail(const struct tui_jobs *t, const struct gs_node_snapshot *node,
			 struct tui_screen *s, int *top);

#endif
