/* How the process table looks: which columns there is room for, and what stands in them. */
#include <stdio.h>
#include <string.h>

#include "output/screen/format.h"
#include "output/screen/columns.h"
#include "output/tui/table.h"

#define COMMAND_LEAST 12 /* columns that the command should have */

static const struct tui_shape columns[TUI_N_COLUMNS] = {
	[TUI_COL_GPU] = {"GPU", 4, true, 7},     [TUI_COL_PID] = {"PID", 7, true, 8},
	[TUI_COL_USER] = {"USER", 8, false, 6},  [TUI_COL_TYPE] = {"TYPE", 4, false, 3},
	[TUI_COL_STATE] = {"S", 1, false, 2},    [TUI_COL_SM] = {"SM%", 4, true, 7},
	[TUI_COL_MEM] = {"MEM%", 4, true, 4},    [TUI_COL_ENC] = {"ENC%", 4, true, 1},
	[TUI_COL_DEC] = {"DEC%", 4, true, 1},    [TUI_COL_GMEM] = {"GPU-MEM", 7, true, 8},
	[TUI_COL_CPU] = {"CPU%", 5, true, 6},    [TUI_COL_RSS] = {"RSS", 5, true, 5},
	[TUI_COL_THREADS] = {"THR", 4, true, 1}, [TUI_COL_AGE] = {"AGE", 6, true, 3},
	[TUI_COL_TIME] = {"TIME", 6, true, 2},   [TUI_COL_CONTAINER] = {"CONTAINER", 12, false, 2},
	[TUI_COL_JOB] = {"JOB", 10, false, 4},   [TUI_COL_COMMAND] = {"COMMAND", 0, false, 9},
};

const char *tui_column_title(enum tui_column c)
{
	return c < TUI_N_COLUMNS ? columns[c].title : "";
}

static void type_text(const struct gs_gpu_process *g, char *out)
{
	char *p = out;

	if (g->kind & GS_GPU_PROCESS_COMPUTE)
		*p++ = 'C';
	if (g->kind & GS_GPU_PROCESS_GRAPHICS)
		*p++ = 'G';
	if (g->kind & GS_GPU_PROCESS_MPS)
		*p++ = 'M';
	*p = '\0';
}

static void gpu_text(const struct gs_node_snapshot *node, const struct gs_gpu_process *g, char *out,
		     size_t bytes)
{
	char number[GS_GPU_NUMBER_BYTES];

	snprintf(out, bytes, "%s",
		 g->gpu < node->gpu->n_gpus ? gs_gpu_number(number, &node->gpu->info[g->gpu])
					    : "?");
}

void tui_cell_text(const struct gs_node_snapshot *node, const struct tui_row *r, enum tui_column c,
		   char out[TUI_CELL_BYTES])
{
	const struct gs_gpu_process *g = r->gpu;
	const struct gs_host_process *h = r->host;
	char n[TUI_NUMBER_BYTES];
	const char *text = "";

	out[0] = '\0';
	switch (c) {
	case TUI_COL_GPU:
		if (g)
			gpu_text(node, g, out, TUI_CELL_BYTES);
		return;
	case TUI_COL_PID:
		snprintf(out, TUI_CELL_BYTES, "%u", r->pid);
		return;
	case TUI_COL_USER:
		text = tui_row_user(r);
		break;
	case TUI_COL_TYPE:
		if (g)
			type_text(g, out);
		return;
	case TUI_COL_STATE:
		snprintf(out, TUI_CELL_BYTES, "%c", h ? h->state : ' ');
		return;
	case TUI_COL_SM:
		text = g ? tui_percent(n, g->sm_ratio) : "";
		break;
	case TUI_COL_MEM:
		text = g ? tui_percent(n, g->mem_ratio) : "";
		break;
	case TUI_COL_ENC:
		text = g ? tui_percent(n, g->enc_ratio) : "";
		break;
	case TUI_COL_DEC:
		text = g ? tui_percent(n, g->dec_ratio) : "";
		break;
	case TUI_COL_GMEM:
		text = g ? tui_bytes(n, (double)g->used_bytes) : "";
		break;
	case TUI_COL_CPU:
		text = h ? tui_percent(n, h->cpu_ratio) : "-";
		break;
	case TUI_COL_RSS:
		text = h ? tui_bytes(n, (double)h->rss_bytes) : "-";
		break;
	case TUI_COL_THREADS:
		text = h ? tui_number(n, h->n_threads) : "-";
		break;
	case TUI_COL_TIME:
		text = h ? tui_duration(n, (double)h->cpu_ns) : "-";
		break;
	case TUI_COL_AGE:
		text = r->start_ns && node->time_ns >= r->start_ns
			       ? tui_duration(n, (double)(node->time_ns - r->start_ns))
			       : "-";
		break;
	case TUI_COL_CONTAINER:
		/* The first twelve letters distinguish them, as `docker ps` has it. */
		text = h && h->container[0] ? h->container : g ? g->container : "";
		snprintf(out, TUI_CELL_BYTES, "%.12s", text);
		return;
	case TUI_COL_JOB:
		text = h ? h->job : "";
		break;
	default:
		text = tui_row_command(r);
		break;
	}
	snprintf(out, TUI_CELL_BYTES, "%s", text);
}

/* Which columns there are: those that have something to say and room. */
static void choose_columns(const struct tui_table *t, const struct gs_node_snapshot *node, int room,
			   bool shown[TUI_N_COLUMNS])
{
	char text[TUI_CELL_BYTES];
	int need;

	for (int c = 0; c < TUI_N_COLUMNS; c++)
		shown[c] = true;
	shown[TUI_COL_JOB] = shown[TUI_COL_CONTAINER] = false;
	shown[TUI_COL_ENC] = shown[TUI_COL_DEC] = false;
	if (!node->gpu->n_processes)
		for (int c = 0; c < TUI_N_COLUMNS; c++)
			if (c == TUI_COL_GPU || c == TUI_COL_TYPE || c == TUI_COL_GMEM ||
			    c == TUI_COL_SM || c == TUI_COL_MEM)
				shown[c] = false;
	for (int i = 0; i < t->n_rows; i++) {
		const struct tui_row *r = &t->rows[i];

		shown[TUI_COL_ENC] |= r->gpu && r->gpu->enc_ratio > 0;
		shown[TUI_COL_DEC] |= r->gpu && r->gpu->dec_ratio > 0;
		for (int c = TUI_COL_CONTAINER; c <= TUI_COL_JOB; c++) {
			tui_cell_text(node, r, (enum tui_column)c, text);
			shown[c] |= text[0] != '\0';
		}
	}
	for (int c = 0; c < TUI_COL_COMMAND; c++)
		shown[c] &= !(t->hidden >> c & 1);
	for (int weight = 0; weight < 9; weight++)
		for (int c = TUI_N_COLUMNS; c-- > 0;) {
			need = COMMAND_LEAST;
			for (int k = 0; k < TUI_COL_COMMAND; k++)
				need += shown[k] ? columns[k].width + 1 : 0;
			if (need <= room)
				return;
			if (columns[c].weight == weight)
				shown[c] = false;
		}
	/* Too narrow for anything but one: who it is. */
	shown[TUI_COL_PID] = room >= 12 && !(t->hidden >> TUI_COL_PID & 1);
}

static enum tui_style style_of(const struct tui_row *r, enum tui_column c, bool any_mine)
{
	if (r->host && r->host->flags & GS_HOST_PROCESS_ANCESTOR)
		return TUI_DIM;
	switch (c) {
	case TUI_COL_SM:
		return r->gpu ? tui_style_of(r->gpu->sm_ratio, 2, 2) : TUI_PLAIN;
	case TUI_COL_GMEM:
		return r->gpu && r->device_bytes > 0
			       ? tui_style_of((double)r->gpu->used_bytes / r->device_bytes, 0.9,
					      0.97)
			       : TUI_PLAIN;
	case TUI_COL_STATE:
		return r->host && (r->host->state == 'D' || r->host->state == 'Z') ? TUI_BAD
										   : TUI_PLAIN;
	case TUI_COL_COMMAND:
	case TUI_COL_PID:
		return any_mine && r->is_mine ? TUI_BOLD : TUI_PLAIN;
	default:
		return TUI_PLAIN;
	}
}

/* How a row of the tree hangs on its parent; columns that it takes. */
static int draw_branch(struct tui_screen *s, int y, int x, int room, const struct tui_row *r)
{
	int at = 0;

	if (!r->depth)
		return 0;
	for (int i = 1; i < r->depth; i++)
		at += tui_put(s, y, x + at, room - at, TUI_DIM, "  ");
	return at + tui_put(s, y, x + at, room - at, TUI_DIM,
			    s->ascii ? (r->is_last ? "`-" : "|-")
				     : (r->is_last ? "\u2514\u2500" : "\u251c\u2500"));
}

static void draw_row(const struct tui_table *t, const struct gs_node_snapshot *node,
		     struct tui_screen *s, int y, const struct tui_row *r, const bool *shown)
{
	int x = 0;

	for (int c = 0; c < TUI_N_COLUMNS; c++) {
		char text[TUI_CELL_BYTES];
		enum tui_style style = style_of(r, (enum tui_column)c, !t->mine);

		if (!shown[c])
			continue;
		tui_cell_text(node, r, (enum tui_column)c, text);
		if (c == TUI_COL_COMMAND) {
			int left = s->columns - x;

			x += t->tree ? draw_branch(s, y, x, left, r) : 0;
			tui_put(s, y, x, s->columns - x, style, text);
			continue;
		}
		if (columns[c].right)
			tui_put_right(s, y, x, columns[c].width, style, text);
		else
			tui_put(s, y, x, columns[c].width, style, text);
		x += columns[c].width + 1;
	}
}

void tui_table_draw(struct tui_table *t, const struct gs_node_snapshot *node, struct tui_screen *s,
		    int y, int rows, bool with_selection)
{
	bool shown[TUI_N_COLUMNS];
	int room = rows - 1;

	if (rows < 1)
		return;
	choose_columns(t, node, s->columns, shown);
	tui_columns_head(s, y, columns, TUI_N_COLUMNS, shown, (int)t->sort);
	t->top = tui_columns_top(t->top, t->selected, t->n_rows, room);
	for (int i = 0; i < room && t->top + i < t->n_rows; i++) {
		int at = y + 1 + i;

		draw_row(t, node, s, at, &t->rows[t->top + i], shown);
		if (with_selection && t->top + i == t->selected)
			tui_restyle(s, at, 0, s->columns, TUI_SELECTED);
		tui_hit(s, at, 0, s->columns, TUI_HIT_ROW, t->top + i);
	}
}
