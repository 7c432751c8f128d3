/*
 * The process table: processes on GPUs joined with what the machine knows of them, sorted, filtered
 * or as a tree. A process on two GPUs has two rows.
 */
#ifndef GS_OUTPUT_TUI_TABLE_H
#define GS_OUTPUT_TUI_TABLE_H

#include <stdbool.h>

#include "model/node/host.h"
#include "output/screen/screen.h"

enum tui_column {
	TUI_COL_GPU,
	TUI_COL_PID,
	TUI_COL_USER,
	TUI_COL_TYPE,
	TUI_COL_STATE,
	TUI_COL_SM,
	TUI_COL_MEM,
	TUI_COL_ENC,
	TUI_COL_DEC,
	TUI_COL_GMEM,
	TUI_COL_CPU,
	TUI_COL_RSS,
	TUI_COL_THREADS,
	TUI_COL_AGE,
	TUI_COL_TIME, /* on processors */
	TUI_COL_CONTAINER,
	TUI_COL_JOB,
	TUI_COL_COMMAND,
	TUI_N_COLUMNS
};

struct tui_row {
	const struct gs_gpu_process *gpu;   /* NULL: not on a GPU */
	const struct gs_host_process *host; /* NULL: the machine does not show it */
	uint32_t pid;
	uint32_t parent; /* pid; 0 unknown */
	uint64_t start_ns;
	double device_bytes; /* of its GPU; 0 unknown */
	uint16_t depth;      /* in the tree */
	bool is_last;        /* of its siblings */
	bool is_mine;        /* of the user that looks */
};

struct tui_table {
	struct tui_row *rows; /* owned; of the snapshot, those that pass the filter, in order */
	int n_rows;
	int n_hidden; /* by the filter */

	enum tui_column sort; /* by which rows are sorted */
	bool reverse;         /* the other way round */
	bool tree, mine, all; /* as a tree; only those of the user; also those on no GPU */
	uint32_t hidden;      /* 1 << enum tui_column: not shown, whatever room there is */
	int gpu;              /* only those of this GPU of the snapshot; -1 all */
	char filter[64];      /* "" none */

	/* The selected row, by what it is, so that it stays selected wherever it goes; the first
	 * row, unless it was chosen, is the first one at any time. */
	int selected; /* row; -1 none */
	bool chosen;
	uint32_t selected_pid, selected_gpu;
	int top; /* first row on the screen */
};

/* Rows of the snapshot by what the table says. -ENOMEM. */
int tui_table_fill(struct tui_table *t, const struct gs_node_snapshot *node, uid_t uid);
void tui_table_fini(struct tui_table *t);
void tui_table_select(struct tui_table *t, int row);

/* The rows of one process, whatever the table shows: one for each GPU, or one for the machine. How
 * many; 0: it is not in the snapshot. start_ns 0: not known. */
int tui_rows_of_process(const struct gs_node_snapshot *node, uint32_t pid, uint64_t start_ns,
			struct tui_row *rows, int max);

const char *tui_column_title(enum tui_column c); /* "" no such column */
/* Columns that sort from the greatest value down unless reversed. */
bool tui_column_falls(enum tui_column c);

#define TUI_CELL_BYTES 320
/* What stands in a cell of a row. */
void tui_cell_text(const struct gs_node_snapshot *node, const struct tui_row *row,
		   enum tui_column c, char out[TUI_CELL_BYTES]);

/* Draw the head and the rows into rows x columns cells from y on. */
void tui_table_draw(struct tui_table *t, const struct gs_node_snapshot *node, struct tui_screen *s,
		    int y, int rows, bool with_selection);

/* The command line, else the name, else why it is not known; "" for a user that is not known. Lent
 * by the snapshot. */
const char *tui_row_command(const struct tui_row *row);
const char *tui_row_user(const struct tui_row *row);

#endif
