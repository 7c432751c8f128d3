/*
 * The GPUs: a line each with meters, where there is room a line of further values and graphs under
 * it, in two columns on wide screens.
 */
#include <math.h>
#include <string.h>

#include "output/screen/format.h"
#include "output/tui/layout.h"

#define WIDE_COLUMNS     150 /* from here on GPUs stand side by side */
#define GRAPH_ROWS_LEAST 2
#define GRAPH_ROWS_MOST  6

/* "45%", but "-" where there is no number. */
static void with_unit(char *out, size_t bytes, const char *number, const char *unit)
{
	snprintf(out, bytes, "%s%s", number, number[0] == '-' ? "" : unit);
}

static void draw_name(const struct gs_gpu_info *g, struct tui_screen *s, int y, int x, int width,
		      bool with_name)
{
	char text[160], number[GS_GPU_NUMBER_BYTES];
	const char *name = g->name;
	int n;

	/* Of "NVIDIA H100 80GB HBM3" the first word says nothing. */
	if (strncmp(name, "NVIDIA ", 7) == 0)
		name += 7;
	gs_gpu_number(number, g);
	if (g->is_mig)
		n = snprintf(text, sizeof(text), " %s ", number);
	else
		n = snprintf(text, sizeof(text), width < 3 ? "%s" : "%2s ", number);
	if (with_name)
		snprintf(text + n, sizeof(text) - (size_t)n, "%s",
			 g->is_mig ? g->mig_profile : name);
	tui_put(s, y, x, width, TUI_BOLD, text);
}

#define METER_LEAST 10 /* columns of a meter that gives way to a reason */

/* Where a reason stands that is never cut: beside the meters, which become shorter for it; else in a
 * row of its own; without one, as much of it beside them as can stand alone, for draw_status() has
 * the whole. */
struct note {
	int columns; /* beside the meters; 0 none */
	bool own_row;
	size_t bytes; /* of the text that stand beside the meters */
};

static struct note place_note(const char *text, int width, int fixed, int height)
{
	int wanted = tui_columns_of(text) + 1, most = width - fixed - 2 * METER_LEAST - 1;
	struct note n = {.bytes = strlen(text)};

	if (!text[0] || width < 50)
		return (struct note){.own_row = text[0] && height >= 2};
	if (wanted <= most) {
		n.columns = wanted;
		return n;
	}
	n.own_row = height >= 2;
	/* "throttled by heat", "throttled by heat: 91 °C": whole parts. */
	while (n.bytes) {
		char part[GS_GPU_HEALTH_TEXT_BYTES];

		do
			n.bytes--;
		while (n.bytes && !(strchr(":,", text[n.bytes]) && text[n.bytes + 1] == ' '));
		snprintf(part, sizeof(part), "%.*s", (int)n.bytes, text);
		if (tui_columns_of(part) + 1 > most)
			continue;
		n.columns = n.own_row || !n.bytes ? 0 : tui_columns_of(part) + 1;
		break;
	}
	return n;
}

/* The line of meters: how many columns of the row below it took for a reason. */
static int draw_line(const struct tui_ui *ui, uint32_t i, struct tui_screen *s, int y, int x,
		     int width, int height)
{
	const struct gs_gpu_info *g = &ui->node->gpu->info[i];
	const struct gs_gpu_sample *v = &ui->node->gpu->sample[i];
	const struct tui_health *health = &ui->health[i];
	double util = gs_gpu_value(v, GS_GPU_UTIL), used = gs_gpu_value(v, GS_GPU_MEM_USED);
	double total = gs_gpu_value(v, GS_GPU_MEM_TOTAL), power = gs_gpu_value(v, GS_GPU_POWER);
	double limit = gs_gpu_value(v, GS_GPU_POWER_LIMIT), temp = gs_gpu_value(v, GS_GPU_TEMP_GPU);
	double slow = gs_gpu_value(v, GS_GPU_TEMP_SLOWDOWN), memory = gs_gpu_memory_ratio(v);
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES], text[96];
	int name = width >= 100 ? 21 : width >= 72 ? 13 : width >= 24 ? 3 : 2;
	int fixed = name + 1 + (width >= 50 ? 9 : 0) + (width >= 40 ? 5 : 0);
	struct note note = place_note(health->text, width, fixed, height);
	int least = width < 72 ? 0 : (width - fixed) / 4 < 21 ? 21 : (width - fixed) / 4;
	int bars = width - fixed - (note.columns > least ? note.columns : least);
	int util_width = bars * 9 / 20, mem_width = bars - util_width - 1, end = x + width;
	enum tui_style heat = tui_style_of(temp / (slow > 0 ? slow : 90), 0.85, 0.95);

	if (isnan(util))
		util = gs_gpu_value(v, GS_GPU_GR_ACTIVE);
	draw_name(g, s, y, x, name, width >= 72);
	x += name + 1;
	if (v->lost) {
		tui_put(s, y, x, end - x, TUI_ALARM, health->text);
		return 0;
	}
	if (util_width > 0) {
		with_unit(text, sizeof(text), tui_percent(a, util), "%");
		tui_meter(s, y, x, util_width, util, TUI_GOOD, text);
	} else {
		tui_put(s, y, x, end - x, TUI_PLAIN, tui_percent(a, util));
	}
	x += util_width + 1;
	/* Some sources know the share alone. */
	if (isnan(used) && !isnan(memory))
		with_unit(text, sizeof(text), tui_percent(a, memory), "%");
	else
		snprintf(text, sizeof(text), "%s/%s", tui_bytes(a, used), tui_bytes(b, total));
	if (mem_width > 8)
		tui_meter(s, y, x, mem_width, memory, tui_style_of(memory, 0.9, 0.97), text);
	else if (mem_width > 0)
		tui_put_right(s, y, x, mem_width, TUI_PLAIN, a);
	x += mem_width;
	if (width >= 50) {
		if (limit > 0)
			snprintf(text, sizeof(text), "%s/%sW", tui_number(a, power),
				 tui_number(b, limit));
		else
			with_unit(text, sizeof(text), tui_number(a, power), "W");
		tui_put_right(s, y, x, 9, tui_style_of(power / limit, 0.97, 1.1), text);
		x += 9;
	}
	if (width >= 40) {
		with_unit(text, sizeof(text), tui_number(a, temp), "C");
		tui_put_right(s, y, x, 5, heat, text);
		x += 5;
	}
	if (note.columns)
		tui_putf(s, y, x + 1, end - x - 1, health->style, "%.*s", (int)note.bytes,
			 health->text);
	return note.own_row
		       ? tui_put(s, y + 1, end - width + 3, width - 3, health->style, health->text)
		       : 0;
}

struct pen {
	struct tui_screen *s;
	int y, x, end;
};

/* A value with its name, when both have room. */
static void put_pair(struct pen *p, const char *name, enum tui_style style, const char *value)
{
	int n = tui_columns_of(name), m = tui_columns_of(value);

	if (p->x + n + 1 + m > p->end)
		return;
	p->x += tui_put(p->s, p->y, p->x, n, TUI_DIM, name) + 1;
	p->x += tui_put(p->s, p->y, p->x, m, style, value) + 2;
}

static void put_share(struct pen *p, const struct gs_gpu_sample *v, enum gs_gpu_field f,
		      const char *name)
{
	char n[TUI_NUMBER_BYTES], text[32];

	if (!gs_gpu_has(v, f))
		return;
	snprintf(text, sizeof(text), "%s%%", tui_percent(n, v->value[f]));
	put_pair(p, name, TUI_PLAIN, text);
}

static void put_flow(struct pen *p, const struct gs_gpu_sample *v, enum gs_gpu_field rx,
		     enum gs_gpu_field tx, const char *name)
{
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES], text[64];

	if (!gs_gpu_has(v, rx) && !gs_gpu_has(v, tx))
		return;
	snprintf(text, sizeof(text), "rx %s tx %s /s", tui_bytes(a, gs_gpu_value(v, rx)),
		 tui_bytes(b, gs_gpu_value(v, tx)));
	put_pair(p, name, TUI_PLAIN, text);
}

/* The line of further values: the more a line holds, the more are shown. */
static void draw_values(const struct tui_ui *ui, uint32_t i, struct tui_screen *s, int y, int x,
			int width, int taken)
{
	static const struct {
		enum gs_gpu_field field;
		const char *name;
	} gpm[] = {{GS_GPU_SM_ACTIVE, "SM"},       {GS_GPU_SM_OCCUPANCY, "occ"},
		   {GS_GPU_PIPE_TENSOR, "tensor"}, {GS_GPU_DRAM_ACTIVE, "dram"},
		   {GS_GPU_PIPE_FP32, "fp32"},     {GS_GPU_PIPE_FP16, "fp16"},
		   {GS_GPU_PIPE_FP64, "fp64"},     {GS_GPU_PIPE_INT, "int"}};
	const struct gs_gpu_sample *v = &ui->node->gpu->sample[i];
	struct pen p = {s, y, x + 3 + (taken ? taken + 2 : 0), x + width};
	char a[TUI_NUMBER_BYTES], text[64], also[GS_GPU_HEALTH_TEXT_BYTES];
	double clock = gs_gpu_value(v, GS_GPU_CLOCK_SM);

	if (clock >= 0) {
		snprintf(text, sizeof(text), "%s MHz", tui_number(a, clock / 1e6));
		put_pair(&p, "clock", TUI_PLAIN, text);
	}
	/* The worst stands above. */
	for (unsigned c = ui->health[i].is.condition + 1; c < GS_GPU_CONDITION_COUNT; c++)
		if (ui->health[i].is.holds >> c & 1)
			put_pair(&p, "also", TUI_WARN,
				 gs_gpu_health_text(ui->node->gpu, i, (enum gs_gpu_condition)c,
						    also));
	for (size_t k = 0; k < GS_ARRAY_LEN(gpm); k++)
		if (k < 4 || gs_gpu_value(v, gpm[k].field) >= 0.005)
			put_share(&p, v, gpm[k].field, gpm[k].name);
	put_flow(&p, v, GS_GPU_PCIE_RX_BPS, GS_GPU_PCIE_TX_BPS, "PCIe");
	if (gs_gpu_value(v, GS_GPU_NVLINK_ACTIVE) > 0 || gs_gpu_value(v, GS_GPU_NVLINK_RX_BPS) > 0)
		put_flow(&p, v, GS_GPU_NVLINK_RX_BPS, GS_GPU_NVLINK_TX_BPS, "NVLink");
	put_share(&p, v, GS_GPU_MEM_UTIL, "memctl");
	if (gs_gpu_value(v, GS_GPU_TEMP_MEM) >= 0) {
		snprintf(text, sizeof(text), "%sC",
			 tui_number(a, gs_gpu_value(v, GS_GPU_TEMP_MEM)));
		put_pair(&p, "mem", TUI_PLAIN, text);
	}
	if (gs_gpu_value(v, GS_GPU_ENC_UTIL) > 0)
		put_share(&p, v, GS_GPU_ENC_UTIL, "enc");
	if (gs_gpu_value(v, GS_GPU_DEC_UTIL) > 0)
		put_share(&p, v, GS_GPU_DEC_UTIL, "dec");
	if (gs_gpu_value(v, GS_GPU_ECC_UNCORRECTED) > 0)
		put_pair(&p, "ECC uncorrected", TUI_BAD,
			 tui_number(a, gs_gpu_value(v, GS_GPU_ECC_UNCORRECTED)));
	put_share(&p, v, GS_GPU_FAN, "fan");
	if (gs_gpu_has(v, GS_GPU_PSTATE)) {
		snprintf(text, sizeof(text), "P%s", tui_number(a, gs_gpu_value(v, GS_GPU_PSTATE)));
		put_pair(&p, "state", TUI_PLAIN, text);
	}
}

static void draw_graphs(const struct tui_ui *ui, uint32_t i, struct tui_screen *s, int y, int x,
			int width, int rows)
{
	static const char *const names[] = {"util", "memory", "power"};
	const struct tui_series *series =
		tui_history_get(&ui->history, tui_key_of_gpu(&ui->node->gpu->info[i]));
	int n_graphs = width >= 66 ? 3 : width >= 30 ? 2 : 1, at = x + 3;
	int each = (width - 3) / n_graphs - 1;
	float values[TUI_HISTORY_LEN];

	for (int k = 0; k < n_graphs; k++, at += each + 1) {
		int n = tui_graph_values(s, each - 1);

		if (n > TUI_HISTORY_LEN)
			n = TUI_HISTORY_LEN;
		tui_history_read(&ui->history, series, (unsigned)k, values, n);
		for (int r = 0; r < rows; r++)
			tui_put_char(s, y + r, at, TUI_DIM, s->ascii ? '|' : 0x2502);
		tui_graph(s, y, at + 1, rows, each - 1, values, n,
			  k == 0   ? TUI_GRAPH
			  : k == 1 ? TUI_GRAPH_2
				   : TUI_DIM);
		tui_put(s, y, at + 1, each - 1, TUI_DIM, names[k]);
	}
}

static int columns_of(const struct tui_ui *ui, const struct tui_screen *s)
{
	return s->columns >= WIDE_COLUMNS && ui->node->gpu->n_gpus > 1 ? 2 : 1;
}

/* Rows of one GPU, so that all of them are seen if that can be. */
static int height_of(const struct tui_ui *ui, const struct tui_screen *s, int rows)
{
	int n = (int)ui->node->gpu->n_gpus, c = columns_of(ui, s), lines = (n + c - 1) / c;

	if (!lines)
		return 0;
	if (lines * (2 + GRAPH_ROWS_LEAST) <= rows)
		return rows / lines < 2 + GRAPH_ROWS_MOST ? rows / lines : 2 + GRAPH_ROWS_MOST;
	return lines * 2 <= rows ? 2 : 1;
}

int tui_gpu_rows_wanted(const struct tui_ui *ui, const struct tui_screen *s, int most)
{
	int n = (int)ui->node->gpu->n_gpus, c = columns_of(ui, s), lines = (n + c - 1) / c;
	int want = lines * height_of(ui, s, most);

	return want < most ? want : most;
}

void tui_draw_gpus(struct tui_ui *ui, struct tui_screen *s, int y, int rows)
{
	int n = (int)ui->node->gpu->n_gpus, c = columns_of(ui, s), lines = (n + c - 1) / c;
	int height = height_of(ui, s, rows), width = (s->columns - (c - 1)) / c, fit;

	if (!n || rows < 1)
		return;
	fit = rows / height;
	if (ui->gpu_top > lines - fit)
		ui->gpu_top = lines - fit;
	if (ui->gpu_top < 0)
		ui->gpu_top = 0;
	for (int k = 0; k < fit * c; k++) {
		int at = ui->gpu_top * c + k, row = y + k / c * height, x = k % c * (width + 1);
		uint32_t i;
		int taken;

		if (at >= n)
			break;
		i = ui->gpu_order[at];
		/* On the last line what does not fit is counted. */
		if (lines > fit && fit > 2 && k / c == fit - 1) {
			tui_putf(s, row, 0, s->columns, TUI_DIM,
				 " %d-%d of %d GPUs shown, [ and ] move", ui->gpu_top * c + 1,
				 ui->gpu_top * c + (fit - 1) * c, n);
			break;
		}
		taken = draw_line(ui, i, s, row, x, width, height);
		if (height >= 2 && !ui->node->gpu->sample[i].lost)
			draw_values(ui, i, s, row + 1, x, width, taken);
		if (height >= 4)
			draw_graphs(ui, i, s, row + 2, x, width, height - 2);
		tui_hit(s, row, x, width, TUI_HIT_GPU, (int)i);
		if (ui->table.gpu == (int)i)
			tui_restyle(s, row, x, 3, TUI_SELECTED);
	}
}
