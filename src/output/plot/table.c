/* Each device in a row: how busy it was, and what it used. */
#include "output/plot/plot_int.h"

#include <math.h>

#include "core/base/mem.h"

#define ROW      13.0
#define HEAD     40.0
#define ROWS_MAX 64

static size_t n_rows(const struct gs_plot *plot)
{
	return plot->n < ROWS_MAX ? plot->n : ROWS_MAX;
}

double plot_table_height(const struct gs_plot *plot)
{
	return HEAD + ROW * (double)(n_rows(plot) + (plot->n > ROWS_MAX)) + 16;
}

static const struct {
	const char *title;
	double at; /* share of the width: the right end */
} columns[] = {
	{"samples", 0.40}, {"gaps", 0.46},      {"idle %", 0.53}, {"mean %", 0.60},
	{"p5 %", 0.66},    {"p50 %", 0.72},     {"p95 %", 0.78},  {"memory max %", 0.87},
	{"mean W", 0.93},  {"energy Wh", 1.00},
};

static void put_cell(const struct plot_pen *p, size_t column, double y, const char *format,
		     double value)
{
	char text[32];

	if (isnan(value))
		snprintf(text, sizeof(text), "–");
	else
		snprintf(text, sizeof(text), format, value);
	plot_text(p, p->left + (p->right - p->left) * columns[column].at, y, 9, PLOT_RIGHT, false,
		  text);
}

static void draw_row(const struct plot_pen *p, const struct plot_device *d, double y)
{
	double n = (double)d->n_util;

	plot_text(p, p->left, y, 9, PLOT_LEFT, false, d->label);
	put_cell(p, 0, y, "%.0f", n);
	put_cell(p, 1, y, "%.0f", (double)d->n_gaps);
	put_cell(p, 2, y, "%.1f", n > 0 ? 100 * (double)d->n_idle / n : NAN);
	put_cell(p, 3, y, "%.1f", n > 0 ? 100 * d->util_sum / n : NAN);
	put_cell(p, 4, y, "%.1f", 100 * plot_util_percentile(d, 0.05));
	put_cell(p, 5, y, "%.1f", 100 * plot_util_percentile(d, 0.50));
	put_cell(p, 6, y, "%.1f", 100 * plot_util_percentile(d, 0.95));
	put_cell(p, 7, y, "%.1f", d->memory_max > 0 ? 100 * d->memory_max : NAN);
	put_cell(p, 8, y, "%.0f", d->n_power ? d->power_sum / (double)d->n_power : NAN);
	put_cell(p, 9, y, "%.2f", plot_energy_j(d) / 3600);
}

static int least_busy(const void *a, const void *b)
{
	const struct plot_device *x = *(struct plot_device *const *)a,
				 *y = *(struct plot_device *const *)b;
	double u = x->n_util ? x->util_sum / (double)x->n_util : 2,
	       v = y->n_util ? y->util_sum / (double)y->n_util : 2;

	return (u > v) - (u < v);
}

void plot_table_draw(const struct gs_plot *plot, const struct plot_pen *p, double top)
{
	GS_FREE struct plot_device **rows = calloc(plot->n + 1, sizeof(*rows));
	char text[128];

	if (!rows)
		return;
	for (size_t i = 0; i < plot->n; i++)
		rows[i] = plot->device[i];
	/* When not all can be shown, those that did least. */
	if (plot->n > ROWS_MAX)
		qsort(rows, plot->n, sizeof(*rows), least_busy);
	plot_colour(p, plot_ink, 1);
	plot_text(p, p->left, top + 15, 12, PLOT_LEFT, true, "Each GPU");
	plot_colour(p, plot_pale, 1);
	for (size_t c = 0; c < GS_ARRAY_LEN(columns); c++)
		plot_text(p, p->left + (p->right - p->left) * columns[c].at, top + 32, 9,
			  PLOT_RIGHT, false, columns[c].title);
	for (size_t i = 0; i < n_rows(plot); i++) {
		double y = top + HEAD + ROW * (double)i + 9;

		plot_colour(p, plot_device_colour((size_t)i, plot->n), plot->n > ROWS_MAX ? 0 : 1);
		p->c->rectangle(p->to, p->left - 12, y - 7, 7, 7);
		p->c->fill(p->to);
		plot_colour(p, plot_ink, 1);
		draw_row(p, rows[i], y);
	}
	if (plot->n > ROWS_MAX) {
		snprintf(text, sizeof(text), "and %zu more: these are the %d that were busy least",
			 plot->n - ROWS_MAX, ROWS_MAX);
		plot_colour(p, plot_pale, 1);
		plot_text(p, p->left, top + HEAD + ROW * ROWS_MAX + 9, 9, PLOT_LEFT, false, text);
	}
}
