/* The rows of the process table: which there are, and in which order. table_draw.c shows them. */
#include "output/tui/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "output/screen/format.h"

#define TREE_MAX_DEPTH 32

const char *tui_row_command(const struct tui_row *r)
{
	if (r->host && r->host->cmdline[0])
		return r->host->cmdline;
	if (r->gpu && r->gpu->cmdline[0])
		return r->gpu->cmdline;
	if (r->host && r->host->comm[0])
		return r->host->comm;
	if (r->gpu && r->gpu->comm[0])
		return r->gpu->comm;
	return r->gpu && r->gpu->ended  ? "(ended)"
	       : r->gpu && r->gpu->gone ? "(not visible here)"
					: "?";
}

const char *tui_row_user(const struct tui_row *r)
{
	if (r->host && r->host->user[0])
		return r->host->user;
	return r->gpu ? r->gpu->user : "";
}

static uint32_t uid_of(const struct tui_row *r)
{
	if (r->host && r->host->uid != UINT32_MAX)
		return r->host->uid;
	return r->gpu ? r->gpu->uid : UINT32_MAX;
}

static const char *container_of(const struct tui_row *r)
{
	if (r->host && r->host->container[0])
		return r->host->container;
	return r->gpu ? r->gpu->container : "";
}

void tui_table_fini(struct tui_table *t)
{
	free(t->rows);
	t->rows = NULL;
	t->n_rows = 0;
}

void tui_table_select(struct tui_table *t, int row)
{
	if (!t->n_rows) {
		t->selected = -1;
		t->chosen = false;
		return;
	}
	t->selected = row < 0 ? 0 : row >= t->n_rows ? t->n_rows - 1 : row;
	t->chosen = t->selected > 0;
	t->selected_pid = t->rows[t->selected].pid;
	t->selected_gpu = t->rows[t->selected].gpu ? t->rows[t->selected].gpu->gpu : UINT32_MAX;
}

static bool passes_filter(const struct tui_table *t, const struct gs_node_snapshot *node,
			  const struct tui_row *r)
{
	static const enum tui_column searched[] = {TUI_COL_PID, TUI_COL_USER, TUI_COL_CONTAINER,
						   TUI_COL_JOB, TUI_COL_COMMAND};
	char text[TUI_CELL_BYTES];

	if (t->mine && !r->is_mine)
		return false;
	if (t->gpu >= 0 && (!r->gpu || r->gpu->gpu != (uint32_t)t->gpu))
		return false;
	if (!t->filter[0])
		return true;
	for (size_t i = 0; i < GS_ARRAY_LEN(searched); i++) {
		tui_cell_text(node, r, searched[i], text);
		if (strcasestr(text, t->filter))
			return true;
	}
	return strcasestr(container_of(r), t->filter) ||
	       (r->host && strcasestr(r->host->comm, t->filter));
}

/* --- order --- */

static double value_of(const struct tui_row *r, enum tui_column c)
{
	const struct gs_gpu_process *g = r->gpu;
	const struct gs_host_process *h = r->host;

	switch (c) {
	case TUI_COL_GPU:
		return g ? g->gpu : 1e9;
	case TUI_COL_PID:
		return r->pid;
	case TUI_COL_TYPE:
		return g ? g->kind : 0;
	case TUI_COL_STATE:
		return h ? h->state : 0;
	case TUI_COL_SM:
		return g ? g->sm_ratio : -2;
	case TUI_COL_MEM:
		return g ? g->mem_ratio : -2;
	case TUI_COL_ENC:
		return g ? g->enc_ratio : -2;
	case TUI_COL_DEC:
		return g ? g->dec_ratio : -2;
	case TUI_COL_GMEM:
		return g ? (double)g->used_bytes : -2;
	case TUI_COL_CPU:
		return h ? h->cpu_ratio : -2;
	case TUI_COL_RSS:
		return h ? (double)h->rss_bytes : -2;
	case TUI_COL_THREADS:
		return h ? h->n_threads : -2;
	case TUI_COL_AGE:
		return r->start_ns ? -(double)r->start_ns : -1e30;
	case TUI_COL_TIME:
		return h ? (double)h->cpu_ns : -2;
	default:
		return 0;
	}
}

static const char *word_of(const struct tui_row *r, enum tui_column c)
{
	switch (c) {
	case TUI_COL_USER:
		return tui_row_user(r);
	case TUI_COL_CONTAINER:
		return container_of(r);
	case TUI_COL_JOB:
		return r->host ? r->host->job : "";
	case TUI_COL_COMMAND:
		return tui_row_command(r);
	default:
		return NULL;
	}
}

bool tui_column_falls(enum tui_column c)
{
	return c >= TUI_COL_SM && c <= TUI_COL_TIME;
}

static int by_column(const void *a, const void *b, void *ctx)
{
	const struct tui_row *x = a, *y = b;
	const struct tui_table *t = ctx;
	const char *word = word_of(x, t->sort);
	int r;

	if (word) {
		r = strcasecmp(word, word_of(y, t->sort));
	} else {
		double v = value_of(x, t->sort), w = value_of(y, t->sort);

		r = (v > w) - (v < w);
	}
	if (tui_column_falls(t->sort))
		r = -r;
	if (t->reverse)
		r = -r;
	/* Rows that are equal stay where they are from snapshot to snapshot. */
	if (!r && x->gpu && y->gpu)
		r = (x->gpu->gpu > y->gpu->gpu) - (x->gpu->gpu < y->gpu->gpu);
	if (!r)
		r = (x->pid > y->pid) - (x->pid < y->pid);
	return r;
}

struct forest {
	const struct tui_row *rows; /* in order */
	int n;
	int *first, *next; /* child of a row, sibling of a row; -1 none */
	bool *done;
	struct tui_row *out;
	int n_out;
};

static void put_tree(struct forest *f, int row, int depth)
{
	f->done[row] = true;
	f->out[f->n_out] = f->rows[row];
	f->out[f->n_out].depth = (uint16_t)depth;
	f->out[f->n_out++].is_last = f->next[row] < 0;
	if (depth == TREE_MAX_DEPTH)
		return;
	for (int c = f->first[row]; c >= 0; c = f->next[c])
		if (!f->done[c])
			put_tree(f, c, depth + 1);
}

/* Rows after their parents, siblings in the order that they have. */
static int make_tree(struct tui_table *t)
{
	size_t n = (size_t)t->n_rows;
	GS_FREE int *links = malloc(2 * n * sizeof(*links));
	GS_FREE bool *marks = calloc(2 * n, sizeof(*marks));
	struct tui_row *out = malloc(n * sizeof(*out));
	struct gs_map row_of = GS_MAP_INIT(1u << 20);
	struct forest f = {t->rows, t->n_rows, links, links ? links + n : NULL, marks, out, 0};
	bool *has_parent = marks ? marks + n : NULL;
	uint64_t at;

	if (!links || !marks || !out) {
		free(out);
		return -ENOMEM;
	}
	for (int i = 0; i < f.n; i++) {
		f.first[i] = f.next[i] = -1;
		if (!gs_map_get(&row_of, f.rows[i].pid, &at) &&
		    gs_map_put(&row_of, f.rows[i].pid, (uint64_t)i) < 0) {
			free(out);
			gs_map_fini(&row_of);
			return -ENOMEM;
		}
	}
	/* From the end, so that each is put in front of its younger siblings. */
	for (int i = f.n; i-- > 0;) {
		const struct tui_row *r = &f.rows[i];

		if (!r->parent || r->parent == r->pid || !gs_map_get(&row_of, r->parent, &at) ||
		    (int)at == i)
			continue;
		f.next[i] = f.first[at];
		f.first[at] = i;
		has_parent[i] = true;
	}
	for (int i = 0; i < f.n; i++)
		if (!has_parent[i])
			put_tree(&f, i, 0);
	/* What is left are parents of each other (only a damaged file has them) or too deep. */
	for (int i = 0; i < f.n; i++)
		if (!f.done[i])
			put_tree(&f, i, 0);
	gs_map_fini(&row_of);
	free(t->rows);
	t->rows = out;
	return 0;
}

/* --- filling --- */

static struct tui_row row_of(const struct gs_node_snapshot *node, const struct gs_gpu_process *g,
			     const struct gs_host_process *h, uid_t uid)
{
	struct tui_row r = {.gpu = g, .host = h, .pid = g ? g->pid : h->pid};

	r.parent = h ? h->parent_pid : 0;
	r.start_ns = h ? h->start_ns : g->start_ns;
	if (g && g->gpu < node->gpu->n_gpus) {
		const struct gs_gpu_sample *s = &node->gpu->sample[g->gpu];

		r.device_bytes = gs_gpu_has(s, GS_GPU_MEM_TOTAL) ? s->value[GS_GPU_MEM_TOTAL] : 0;
	}
	r.is_mine = uid_of(&r) == uid;
	return r;
}

int tui_rows_of_process(const struct gs_node_snapshot *node, uint32_t pid, uint64_t start_ns,
			struct tui_row *rows, int max)
{
	const struct gs_host_process *h = gs_host_process_of(node->host, pid);
	int n = 0;

	if (h && start_ns && h->start_ns != start_ns)
		h = NULL; /* another one has the pid now */
	for (uint32_t i = 0; i < node->gpu->n_processes && n < max; i++) {
		const struct gs_gpu_process *g = &node->gpu->process[i];
		struct tui_row r = row_of(node, g, g->ended ? NULL : h, 0);

		if (g->pid == pid && (!start_ns || !r.start_ns || r.start_ns == start_ns))
			rows[n++] = r;
	}
	if (!n && h && n < max)
		rows[n++] = row_of(node, NULL, h, 0);
	return n;
}

int tui_table_fill(struct tui_table *t, const struct gs_node_snapshot *node, uid_t uid)
{
	const struct gs_gpu_snapshot *gpu = node->gpu;
	const struct gs_host_snapshot *host = node->host;
	size_t room = (size_t)gpu->n_processes + host->n_processes + 1;
	struct tui_row *rows = calloc(room, sizeof(*rows));
	GS_FREE bool *on_gpu = calloc((size_t)host->n_processes + 1, sizeof(*on_gpu));
	int n = 0, found = -1;

	if (!rows || !on_gpu) {
		free(rows);
		return -ENOMEM;
	}
	free(t->rows);
	t->rows = rows;
	t->n_hidden = 0;
	for (uint32_t i = 0; i < gpu->n_processes; i++) {
		const struct gs_gpu_process *g = &gpu->process[i];
		/* What accounting says of one that ended is not of the process that has the pid now. */
		const struct gs_host_process *h =
			g->ended ? NULL : gs_host_process_of(host, g->pid);

		if (h)
			on_gpu[h - host->process] = true;
		rows[n] = row_of(node, g, h, uid);
		if (passes_filter(t, node, &rows[n]))
			n++;
		else
			t->n_hidden++;
	}
	for (uint32_t i = 0; i < host->n_processes; i++) {
		const struct gs_host_process *h = &host->process[i];

		/* Ancestors are there for the tree. */
		if (on_gpu[i] || (h->flags & GS_HOST_PROCESS_ANCESTOR && !t->tree))
			continue;
		rows[n] = row_of(node, NULL, h, uid);
		if (passes_filter(t, node, &rows[n]))
			n++;
		else
			t->n_hidden++;
	}
	t->n_rows = n;
	if (n)
		qsort_r(rows, (size_t)n, sizeof(*rows), by_column, t);
	if (t->tree && n && make_tree(t) < 0)
		return -ENOMEM;
	for (int i = 0; i < n && found < 0; i++)
		if (t->rows[i].pid == t->selected_pid &&
		    (t->rows[i].gpu ? t->rows[i].gpu->gpu : UINT32_MAX) == t->selected_gpu)
			found = i;
	if (!t->chosen)
		tui_table_select(t, 0);
	else if (found >= 0)
		t->selected = found;
	else
		tui_table_select(t, t->selected);
	return 0;
}
