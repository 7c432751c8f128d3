/* Rows of jobs: which there are, their order, and what stands in them. */
#include "output/tui/jobs.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "output/screen/columns.h"
#include "output/screen/format.h"
#include "output/screen/lines.h"

#define NAME_LEAST 10 /* columns that the name should have */
#define CELL_BYTES 160

static const struct tui_shape columns[TUI_JOB_N_COLUMNS] = {
	[TUI_JOB_ID] = {"JOB", 14, false, 9, false},
	[TUI_JOB_KIND] = {"KIND", 9, false, 1, false},
	[TUI_JOB_USER] = {"USER", 8, false, 7, false},
	[TUI_JOB_PROCESSES] = {"PROC", 4, true, 4, true},
	[TUI_JOB_CPU] = {"CPU%", 5, true, 8, true},
	[TUI_JOB_MEMORY] = {"MEM", 5, true, 7, true},
	[TUI_JOB_GPUS] = {"GPUS", 5, true, 6, true},
	[TUI_JOB_GPU] = {"GPU%", 4, true, 7, true},
	[TUI_JOB_GPU_MEMORY] = {"GPU-MEM", 7, true, 5, true},
	[TUI_JOB_IO] = {"IO/s", 5, true, 5, true},
	[TUI_JOB_NET] = {"NET/s", 5, true, 3, true},
	[TUI_JOB_SCORE] = {"SCORE", 5, true, 4, true},
	[TUI_JOB_CLASS] = {"CLASS", 14, false, 6, false},
	[TUI_JOB_NAME] = {"NAME", 0, false, 9, false},
};

const char *tui_job_title(enum tui_job_column c)
{
	return c < TUI_JOB_N_COLUMNS ? columns[c].title : "";
}

void tui_jobs_fini(struct tui_jobs *t)
{
	free(t->rows);
	t->rows = NULL;
	t->n_rows = 0;
}

void tui_jobs_select(struct tui_jobs *t, int row)
{
	if (row >= t->n_rows)
		row = t->n_rows - 1;
	if (row < 0)
		row = t->n_rows ? 0 : -1;
	t->selected = row;
	t->chosen = row > 0;
	if (row < 0)
		return;
	snprintf(t->selected_id, sizeof(t->selected_id), "%s", t->rows[row]->job.id);
	t->selected_kind = t->rows[row]->job.kind;
}

static bool passes_filter(const struct gs_job_account *a, const char *filter, bool mine, uid_t uid)
{
	const struct gs_job *j = &a->job;
	const char *const texts[] = {
		j->id,        j->user,      j->name,      j->account,
		j->partition, a->job_class, j->namespace, gs_job_kind_name(j->kind)};

	if (mine && j->uid != (int64_t)uid)
		return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
		if (strcasestr(texts[i], filter))
			return true;
	return !filter[0];
}

static double value_of(const struct gs_job_account *a, enum tui_job_column c)
{
	switch (c) {
	case TUI_JOB_PROCESSES:
		return a->n_processes;
	case TUI_JOB_CPU:
		return a->cpus;
	case TUI_JOB_MEMORY:
		return (double)a->memory_bytes;
	case TUI_JOB_GPUS:
		return a->n_gpus;
	case TUI_JOB_GPU:
		return a->gpu_ratio;
	case TUI_JOB_GPU_MEMORY:
		return (double)a->gpu_memory_bytes;
	case TUI_JOB_IO:
		return a->io_bps;
	case TUI_JOB_NET:
		return a->net_bps;
	default:
		return a->score;
	}
}

static const char *word_of(const struct gs_job_account *a, enum tui_job_column c)
{
	switch (c) {
	case TUI_JOB_ID:
		return a->job.id;
	case TUI_JOB_KIND:
		return gs_job_kind_name(a->job.kind);
	case TUI_JOB_USER:
		return a->job.user;
	case TUI_JOB_CLASS:
		return a->job_class;
	case TUI_JOB_NAME:
		return a->job.name;
	default:
		return NULL;
	}
}

static int by_column(const void *a, const void *b, void *ctx)
{
	const struct gs_job_account *x = *(const struct gs_job_account *const *)a;
	const struct gs_job_account *y = *(const struct gs_job_account *const *)b;
	const struct tui_jobs *t = ctx;
	const char *word = word_of(x, t->sort);
	int r;

	if (t->sort == TUI_JOB_ID && x->job.job_id > 0 && y->job.job_id > 0) {
		r = (x->job.job_id > y->job.job_id) - (x->job.job_id < y->job.job_id);
	} else if (word) {
		r = strcasecmp(word, word_of(y, t->sort));
	} else {
		double v = value_of(x, t->sort), w = value_of(y, t->sort);

		/* What is not known comes after all that is. */
		v = isnan(v) ? -1 : v;
		w = isnan(w) ? -1 : w;
		r = (v > w) - (v < w);
	}
	if (columns[t->sort].falls)
		r = -r;
	if (t->reverse)
		r = -r;
	/* Of jobs that are equal in it the one that works most; "GPUS", by which the table is sorted
	 * at first, has all jobs without a GPU as equals. */
	if (!r && t->sort == TUI_JOB_GPUS) {
		double v = isnan(x->cpus) ? -1 : x->cpus, w = isnan(y->cpus) ? -1 : y->cpus;

		r = (v < w) - (v > w);
	}
	return r ? r : strcmp(x->job.id, y->job.id);
}

int tui_jobs_fill(struct tui_jobs *t, const struct gs_node_snapshot *node, const char *filter,
		  bool mine, uid_t uid)
{
	uint32_t n = node->jobs ? node->jobs->n_accounts : 0;
	const struct gs_job_account **rows = calloc(n + 1u, sizeof(*rows));

	tui_jobs_fini(t);
	t->n_hidden = 0;
	if (!rows)
		return -ENOMEM;
	t->rows = rows;
	for (uint32_t i = 0; i < n; i++)
		if (passes_filter(&node->jobs->account[i], filter, mine, uid))
			rows[t->n_rows++] = &node->jobs->account[i];
		else
			t->n_hidden++;
	qsort_r(rows, (size_t)t->n_rows, sizeof(*rows), by_column, t);
	for (int i = 0; i < t->n_rows && t->chosen; i++)
		if (rows[i]->job.kind == t->selected_kind &&
		    strcmp(rows[i]->job.id, t->selected_id) == 0) {
			t->selected = i;
			return 0;
		}
	tui_jobs_select(t, t->chosen ? t->selected : 0);
	return 0;
}

static void write_cell(const struct gs_job_account *a, enum tui_job_column c, char out[CELL_BYTES])
{
	char n[TUI_NUMBER_BYTES];
	const char *text = word_of(a, c);

	if (!text)
		switch (c) {
		case TUI_JOB_PROCESSES:
			text = a->n_processes ? tui_number(n, a->n_processes) : "end";
			break;
		case TUI_JOB_CPU:
		case TUI_JOB_GPU:
			text = tui_percent(n, value_of(a, c));
			break;
		case TUI_JOB_GPUS:
			if (a->n_gpus > 0 && a->gpus_idle > 0) {
				/* How many of them do nothing. */
				snprintf(out, CELL_BYTES, "%d(%d)", a->n_gpus, a->gpus_idle);
				return;
			}
			text = tui_number(n, a->n_gpus < 0 ? NAN : a->n_gpus);
			break;
		case TUI_JOB_SCORE:
			text = tui_number(n, a->score);
			break;
		default:
			text = tui_bytes(n, value_of(a, c));
			break;
		}
	snprintf(out, CELL_BYTES, "%s", text);
}

/* A long id's end says more than its beginning, but for one with words after it: "4711 (claimed by
 * root)". */
static const char *end_of(const char *text, int columns_of_it)
{
	size_t n = strlen(text), most = (size_t)columns_of_it;

	if (n <= most || strstr(text, " ("))
		return text;
	text += n - most;
	while (((unsigned char)*text & 0xc0) == 0x80)
		text++;
	return text;
}

static void choose_columns(const struct tui_jobs *t, int room, bool shown[TUI_JOB_N_COLUMNS])
{
	bool gpus = false;

	for (int i = 0; i < t->n_rows; i++)
		gpus |= t->rows[i]->n_gpus > 0;
	for (int c = 0; c < TUI_JOB_N_COLUMNS; c++)
		shown[c] = !(t->hidden >> c & 1) &&
			   (gpus ||
			    (c != TUI_JOB_GPUS && c != TUI_JOB_GPU && c != TUI_JOB_GPU_MEMORY));
	for (int weight = 0; weight < 9; weight++)
		for (int c = TUI_JOB_N_COLUMNS; c-- > 0;) {
			int need = NAME_LEAST;

			for (int k = 0; k < TUI_JOB_NAME; k++)
				need += shown[k] ? columns[k].width + 1 : 0;
			if (need <= room)
				return;
			if (columns[c].weight == weight)
				shown[c] = false;
		}
}

static enum tui_style style_of(const struct gs_job_account *a, enum tui_job_column c)
{
	if (!a->n_processes)
		return TUI_DIM;
	switch (c) {
	case TUI_JOB_GPUS:
		return a->gpus_idle > 0 ? TUI_BAD : TUI_PLAIN;
	case TUI_JOB_SCORE:
		return isnan(a->score) ? TUI_PLAIN
		       : a->score < 30 ? TUI_BAD
		       : a->score < 60 ? TUI_WARN
				       : TUI_GOOD;
	case TUI_JOB_MEMORY:
		return a->memory_limit_bytes > 0 && a->memory_bytes >= 0
			       ? tui_style_of((double)a->memory_bytes /
						      (double)a->memory_limit_bytes,
					      0.9, 0.97)
			       : TUI_PLAIN;
	default:
		return TUI_PLAIN;
	}
}

static void draw_row(struct tui_screen *s, int y, const struct gs_job_account *a, const bool *shown)
{
	int x = 0;

	for (int c = 0; c < TUI_JOB_N_COLUMNS; c++) {
		int width = c == TUI_JOB_NAME ? s->columns - x : columns[c].width;
		char text[CELL_BYTES];

		if (!shown[c])
			continue;
		write_cell(a, (enum tui_job_column)c, text);
		if (columns[c].right)
			tui_put_right(s, y, x, width, style_of(a, (enum tui_job_column)c), text);
		else
			tui_put(s, y, x, width, style_of(a, (enum tui_job_column)c),
				c == TUI_JOB_ID || c == TUI_JOB_NAME ? end_of(text, width) : text);
		x += width + 1;
	}
}

void tui_jobs_draw(struct tui_jobs *t, const struct gs_node_snapshot *node, struct tui_screen *s,
		   int y, int rows, bool with_selection)
{
	bool shown[TUI_JOB_N_COLUMNS];
	int room = rows - 1;

	if (rows < 1)
		return;
	choose_columns(t, s->columns, shown);
	tui_columns_head(s, y, columns, TUI_JOB_N_COLUMNS, shown, (int)t->sort);
	t->top = tui_columns_top(t->top, t->selected, t->n_rows, room);
	for (int i = 0; i < room && t->top + i < t->n_rows; i++) {
		int at = y + 1 + i;

		draw_row(s, at, t->rows[t->top + i], shown);
		if (with_selection && t->top + i == t->selected)
			tui_restyle(s, at, 0, s->columns, TUI_SELECTED);
		tui_hit(s, at, 0, s->columns, TUI_HIT_ROW, t->top + i);
	}
	if (t->n_rows || room < 1)
		return;
	tui_put(s, y + 1, 0, s->columns, TUI_DIM,
		!node->jobs   ? "The jobs were not read (yet)."
		: t->n_hidden ? "No job passes the filter."
			      : "There is no job here.");
}

/* --- one job --- */

static void draw_gpu_lines(struct tui_lines *l, const struct gs_job_account *a,
			   const struct gs_node_snapshot *node)
{
	char n[TUI_NUMBER_BYTES], m[TUI_NUMBER_BYTES];

	if (a->n_gpus < 0)
		return;
	tui_line(l, "GPUs", "%d, %d of them unused; %s%% at work, %s of their memory", a->n_gpus,
		 a->gpus_idle, tui_percent(n, a->gpu_ratio),
		 tui_bytes(m, (double)a->gpu_memory_bytes));
	for (uint32_t i = 0; i < node->gpu->n_gpus && i < 64; i++) {
		const struct gs_gpu_sample *v = &node->gpu->sample[i];

		if (a->gpu_mask >> i & 1)
			tui_line(l, "", "%u  %s  %s%%", node->gpu->info[i].index,
				 node->gpu->info[i].name,
				 tui_percent(n, gs_gpu_has(v, GS_GPU_UTIL) ? v->value[GS_GPU_UTIL]
									   : NAN));
	}
}

static void draw_processes(struct tui_lines *l, const struct gs_job_account *a,
			   const struct gs_node_snapshot *node)
{
	char n[TUI_NUMBER_BYTES], m[TUI_NUMBER_BYTES];
	bool first = true;

	for (uint32_t i = 0; i < node->host->n_processes; i++) {
		const struct gs_host_process *p = &node->host->process[i];

		if (a->job.kind != GS_JOB_SLURM || strcmp(p->job, a->job.id) != 0)
			continue;
		tui_line(l, first ? "processes" : "", "%7u %4s%% %6s  %s", p->pid,
			 tui_percent(n, p->cpu_ratio), tui_bytes(m, (double)p->rss_bytes),
			 p->cmdline[0] ? p->cmdline : p->comm);
		first = false;
	}
}

void tui_draw_parts(struct tui_lines *l, const uint64_t part_ns[GS_TASKSTATS_PARTS])
{
	char n[TUI_NUMBER_BYTES];
	uint64_t all_ns = 0;

	for (unsigned i = 0; i < GS_TASKSTATS_PARTS; i++)
		all_ns += part_ns[i];
	if (all_ns)
		tui_line(l, "wall time", "%s of all its threads:", tui_duration(n, (double)all_ns));
	for (unsigned i = 0; i < GS_TASKSTATS_PARTS && all_ns; i++)
		if (part_ns[i] * 1000 >= all_ns)
			tui_line(l, "", "%5.1f%%  %s", 100 * (double)part_ns[i] / (double)all_ns,
				 gs_taskstats_part_title(i));
}

/* Calls of CUDA are counted, not timed: their time is in the parts, unknown. */
static void draw_hidden(struct tui_lines *l, const struct gs_job_account *a,
			const struct gs_gpu_snapshot *gpu)
{
	char pid[16] = "PID"; /* where none of it is on its GPUs */

	for (const struct gs_gpu_process *g = gpu->process; g < gpu->process + gpu->n_processes;
	     g++)
		if (!g->ended && g->gpu < 64 && a->gpu_mask >> g->gpu & 1)
			snprintf(pid, sizeof(pid), "%u", g->pid);
	tui_line(l, "", "CUDA and NCCL calls: see gpuscope trace -p %s", pid);
}

/* The wall-clock account: where the time of all its threads went since the job was first seen. What
 * counts without the kernel's probes does not know all parts, and then nothing is said. */
static void draw_account(struct tui_lines *l, const struct gs_job_account *a,
			 const struct gs_node_snapshot *node)
{
	const uint32_t needed =
		1u << GS_JOB_KNOWS_TIME | 1u << GS_JOB_KNOWS_RUNQUEUE | 1u << GS_JOB_KNOWS_CAUSES;
	uint64_t part_ns[GS_TASKSTATS_PARTS];

	if ((a->known & needed) != needed || !gs_taskstats_parts(&a->work, part_ns))
		return;
	tui_draw_parts(l, part_ns);
	if (a->n_gpus > 0)
		draw_hidden(l, a, node->gpu);
}

static void draw_job(const struct tui_jobs *t, const struct gs_node_snapshot *node,
		     struct tui_lines *l)
{
	const struct gs_job_account *a = NULL;
	char n[TUI_NUMBER_BYTES], m[TUI_NUMBER_BYTES];
	const struct gs_job *j;

	for (uint32_t i = 0; node->jobs && i < node->jobs->n_accounts && !a; i++)
		if (node->jobs->account[i].job.kind == t->detail_kind &&
		    strcmp(node->jobs->account[i].job.id, t->detail_id) == 0)
			a = &node->jobs->account[i];
	if (!a) {
		tui_line_text(l, TUI_WARN, "It has ended.");
		return;
	}
	j = &a->job;
	tui_line(l, "kind", "%s", gs_job_kind_name(j->kind));
	tui_line(l, "name", "%s", j->name);
	tui_line(l, "user", "%s", j->user);
	tui_line(l, "account", "%s", j->account);
	tui_line(l, "partition", "%s", j->partition);
	tui_line(l, "nodes", "%s", j->nodes);
	tui_line(l, "namespace", "%s", j->namespace);
	if (j->start_s > 0 && node->wall_ns / 1000000000 >= j->start_s)
		tui_line(l, "running for", "%s%s%s",
			 tui_duration(n, (double)(node->wall_ns - j->start_s * 1000000000)),
			 j->limit_s > 0 ? " of " : "",
			 j->limit_s > 0 ? tui_duration(m, (double)j->limit_s * 1e9) : "");
	tui_line(l, "processes", "%u%s", a->n_processes, a->n_processes ? "" : ": it has ended");
	tui_line(l, "CPU", "%s%% of one processor; it may use %s", tui_percent(n, a->cpus),
		 tui_number(m, a->cores));
	tui_line(l, "memory", "%s%s%s", tui_bytes(n, (double)a->memory_bytes),
		 a->memory_limit_bytes > 0 ? " of " : "",
		 a->memory_limit_bytes > 0 ? tui_bytes(m, (double)a->memory_limit_bytes) : "");
	tui_line(l, "files", "%s/s read and written", tui_bytes(n, a->io_bps));
	tui_line(l, "network", "%s/s sent and received", tui_bytes(n, a->net_bps));
	draw_gpu_lines(l, a, node);
	draw_account(l, a, node);
	if (a->job_class[0])
		tui_line(l, "class", "%s, %.0f%% sure", a->job_class, 100 * a->confidence);
	tui_line(l, "score", "%s of 100", tui_number(n, a->score));
	tui_line(l, "counted by", "%s",
		 node->jobs->probes ? "the kernel (eBPF)"
				    : "procfs: values that it lacks are \"-\"");
	draw_processes(l, a, node);
}

void tui_job_draw_detail(const struct tui_jobs *t, const struct gs_node_snapshot *node,
			 struct tui_screen *s, int *top)
{
	struct tui_lines l;

	do {
		tui_clear(s, 0, 0, s->rows, s->columns);
		tui_putf(s, 0, 0, s->columns, TUI_TITLE, "Job %s", t->detail_id);
		tui_lines_begin(&l, s, 14, *top);
		draw_job(t, node, &l);
	} while (tui_lines_too_far(&l, top));
	tui_putf(s, s->rows - 1, 0, s->columns, TUI_DIM, "Esc: back%s",
		 tui_lines_hidden(&l) ? "   Up Down: more" : "");
}
