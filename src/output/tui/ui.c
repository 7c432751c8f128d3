/* A new snapshot: its history, what is wrong with each GPU, and the order in which they stand. */
#include "output/tui/ui.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "output/screen/format.h"
#include "output/tui/setup.h"

int tui_ui_init(struct tui_ui *ui, const struct gs_tui_source *source,
		const struct gs_tui_options *options)
{
	memset(ui, 0, sizeof(*ui));
	ui->source = source;
	ui->options = *options;
	ui->table.sort = TUI_COL_GMEM;
	ui->table.selected = -1;
	ui->table.gpu = -1;
	ui->table.all = options->all;
	ui->shows_jobs = ui->wants_jobs = options->jobs;
	ui->jobs.sort = TUI_JOB_GPUS;
	ui->jobs.selected = -1;
	ui->environment = GS_BUF_INIT(64u << 10);
	tui_history_init(&ui->history);
	tui_setup_init(ui);
	return 0;
}

void tui_ui_fini(struct tui_ui *ui)
{
	gs_node_snapshot_free(&ui->node);
	tui_history_fini(&ui->history);
	tui_table_fini(&ui->table);
	tui_jobs_fini(&ui->jobs);
	gs_buf_fini(&ui->environment);
	free(ui->health);
	free(ui->gpu_order);
	ui->health = NULL;
	ui->gpu_order = NULL;
}

void tui_ui_show_message(struct tui_ui *ui, enum tui_style style, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ui->message, sizeof(ui->message), fmt, ap);
	va_end(ap);
	ui->message_style = style;
}

uint64_t tui_key_of_gpu(const struct gs_gpu_info *g)
{
	const char *id = g->uuid[0] ? g->uuid : g->pci_bus_id;

	return gs_hash_bytes(id, strlen(id)) | 1ull << 63;
}

uint64_t tui_key_of_process(uint32_t pid, uint64_t start_ns, uint32_t gpu)
{
	uint64_t k[3] = {pid, start_ns, gpu};

	return gs_hash_bytes(k, sizeof(k)) & ~(1ull << 63);
}

static void note_events(struct tui_ui *ui)
{
	const struct gs_gpu_snapshot *g = ui->node->gpu;

	for (uint32_t i = 0; i < g->n_events; i++) {
		const struct gs_gpu_event *e = &g->event[i];
		struct tui_xid *x = &ui->xids[ui->n_xids % TUI_N_XIDS];

		*x = (struct tui_xid){.xid = e->xid, .time_ns = e->time_ns};
		snprintf(x->pci_bus_id, sizeof(x->pci_bus_id), "%s", e->pci_bus_id);
		snprintf(x->text, sizeof(x->text), "%s", e->text);
		ui->n_xids++;
	}
}

static void health_of_gpu(struct tui_ui *ui, uint32_t i)
{
	static const enum tui_style styles[] = {
		[GS_GPU_SEVERITY_NONE] = TUI_PLAIN,
		[GS_GPU_SEVERITY_INFO] = TUI_WARN,
		[GS_GPU_SEVERITY_WARNING] = TUI_WARN,
		[GS_GPU_SEVERITY_CRITICAL] = TUI_ALARM,
	};
	struct tui_health *h = &ui->health[i];

	gs_gpu_health_judge(ui->node->gpu, i, &h->is);
	gs_gpu_health_text(ui->node->gpu, i, h->is.condition, h->text);
	h->level = (int)(GS_GPU_CONDITION_NONE - h->is.condition);
	h->style = h->is.state == GS_GPU_HEALTH_THROTTLED && h->is.condition < GS_GPU_CONDITION_HOT
			   ? TUI_BAD
			   : styles[h->is.severity];
}

/* A part of a divided GPU stands after it, and the whole group where its worst part belongs. */
static int by_health(const void *a, const void *b, void *ctx)
{
	const struct tui_ui *ui = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct gs_gpu_info *info = ui->node->gpu->info;
	int worst_x = 0, worst_y = 0;

	if (ui->order == TUI_WORST_FIRST && info[x].index != info[y].index) {
		for (uint32_t i = 0; i < ui->node->gpu->n_gpus; i++) {
			int level = ui->health[i].level;

			if (info[i].index == info[x].index && level > worst_x)
				worst_x = level;
			if (info[i].index == info[y].index && level > worst_y)
				worst_y = level;
		}
		if (worst_x != worst_y)
			return worst_y - worst_x;
	}
	return (x > y) - (x < y);
}

static void remember_samples(struct tui_ui *ui)
{
	const struct gs_node_snapshot *n = ui->node;
	const struct gs_gpu_snapshot *g = n->gpu;
	const struct gs_host_sample *h = &n->host->sample;
	float v[TUI_HISTORY_SETS];

	tui_history_next(&ui->history);
	v[0] = h->cpu_ratio >= 0 ? (float)h->cpu_ratio : NAN;
	v[1] = h->mem_total_bytes > 0 && h->mem_used_bytes >= 0
		       ? (float)h->mem_used_bytes / (float)h->mem_total_bytes
		       : NAN;
	v[2] = NAN;
	tui_history_put(&ui->history, TUI_KEY_OF_HOST, v);
	for (uint32_t i = 0; i < g->n_gpus; i++) {
		const struct gs_gpu_sample *s = &g->sample[i];
		double util = gs_gpu_value(s, GS_GPU_UTIL);

		if (isnan(util))
			util = gs_gpu_value(s, GS_GPU_GR_ACTIVE);
		v[0] = (float)(s->lost ? NAN : util);
		v[1] = (float)(s->lost ? NAN : gs_gpu_memory_ratio(s));
		v[2] = (float)(s->lost ? NAN
				       : gs_gpu_value(s, GS_GPU_POWER) /
						 gs_gpu_value(s, GS_GPU_POWER_LIMIT));
		tui_history_put(&ui->history, tui_key_of_gpu(&g->info[i]), v);
		health_of_gpu(ui, i);
	}
	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];
		const struct gs_host_process *host = gs_host_process_of(n->host, p->pid);
		double total = p->gpu < g->n_gpus
				       ? gs_gpu_value(&g->sample[p->gpu], GS_GPU_MEM_TOTAL)
				       : NAN;

		v[0] = p->sm_ratio >= 0 ? (float)p->sm_ratio : NAN;
		v[1] = p->used_bytes >= 0 ? (float)((double)p->used_bytes / total) : NAN;
		v[2] = host && host->cpu_ratio >= 0 && h->n_cpus > 0
			       ? (float)(host->cpu_ratio / h->n_cpus)
			       : NAN;
		if (!p->ended)
			tui_history_put(
				&ui->history,
				tui_key_of_process(p->pid, host ? host->start_ns : 0, p->gpu), v);
	}
}

int tui_ui_fill(struct tui_ui *ui)
{
	int r = tui_table_fill(&ui->table, ui->node, ui->options.uid);

	return r < 0 ? r
		     : tui_jobs_fill(&ui->jobs, ui->node, ui->table.filter, ui->table.mine,
				     ui->options.uid);
}

void tui_ui_sort_gpus(struct tui_ui *ui)
{
	uint32_t n = ui->node ? ui->node->gpu->n_gpus : 0;

	for (uint32_t i = 0; i < n; i++)
		ui->gpu_order[i] = i;
	if (n)
		qsort_r(ui->gpu_order, n, sizeof(*ui->gpu_order), by_health, ui);
}

void tui_note_traffic(struct tui_ui *ui)
{
	ui->has_traffic =
		ui->traffic_pid && ui->source->traffic &&
		ui->source->traffic(ui->source->traffic_ctx, ui->traffic_pid, &ui->traffic);
}

int tui_ui_show(struct tui_ui *ui, struct gs_node_snapshot *node)
{
	uint32_t n = node->gpu->n_gpus;
	void *health = realloc(ui->health, (n + 1) * sizeof(*ui->health));
	void *order;

	if (health)
		ui->health = health;
	order = realloc(ui->gpu_order, (n + 1) * sizeof(*ui->gpu_order));
	if (order)
		ui->gpu_order = order;
	/* Where nothing is on a GPU, what uses the processors comes first. */
	if (!ui->node && !node->gpu->n_processes)
		ui->table.sort = TUI_COL_CPU;
	gs_gpu_health_follow(ui->node && !ui->is_apart ? ui->node->gpu : NULL, node->gpu);
	ui->is_apart = false;
	tui_jobs_fini(&ui->jobs); /* its rows are of the snapshot that goes */
	gs_node_snapshot_free(&ui->node);
	if (!health || !order) {
		gs_node_snapshot_free(&node);
		return -ENOMEM;
	}
	ui->node = node;
	note_events(ui);
	remember_samples(ui);
	tui_note_findings(ui);
	tui_note_traffic(ui);
	tui_ui_sort_gpus(ui);
	if (ui->table.gpu >= (int)n)
		ui->table.gpu = -1;
	return tui_ui_fill(ui);
}

void tui_ui_forget(struct tui_ui *ui)
{
	tui_history_fini(&ui->history);
	ui->n_xids = 0;
	ui->is_apart = true;
}
