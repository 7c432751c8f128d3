/* The panels with a time axis: lines of devices, and the bubbles. */
#include "output/plot/plot_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define LINES_HEIGHT 150.0
#define HEAD         26.0
#define FOOT         30.0
#define MANY         12 /* devices: more get thin lines, and their middle a thick one */

struct kind {
	unsigned panel;
	const char *title, *unit;
	enum plot_value value, second; /* second: the same when there is one */
	double scale;                  /* from the value to the unit */
	double top;                    /* of the axis; 0: the largest value */
	const char *first_name, *second_name;
};

static const struct kind kinds[] = {
	{GS_PLOT_UTIL, "GPU utilisation", "%", PLOT_UTIL, PLOT_UTIL, 100, 100, NULL, NULL},
	{GS_PLOT_MEMORY, "Device memory in use", "%", PLOT_MEMORY, PLOT_MEMORY, 100, 100, NULL,
	 NULL},
	{GS_PLOT_DRAM, "Device memory activity", "% of time", PLOT_DRAM, PLOT_DRAM, 100, 100, NULL,
	 NULL},
	{GS_PLOT_PCIE, "PCIe", "GB/s", PLOT_PCIE_RX, PLOT_PCIE_TX, 1e-9, 0, "received", "sent"},
	{GS_PLOT_NVLINK, "NVLink", "GB/s", PLOT_NVLINK_RX, PLOT_NVLINK_TX, 1e-9, 0, "received",
	 "sent"},
	{GS_PLOT_POWER, "Power", "W", PLOT_POWER, PLOT_POWER, 1, 0, NULL, NULL},
};

static const struct kind *kind_of(unsigned panel)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
		if (kinds[i].panel == panel)
			return &kinds[i];
	return NULL;
}

static int n_bins(const struct gs_plot *plot)
{
	return (int)((plot->last_ns - plot->start_ns) / plot->bin_ns) + 1;
}

/* The largest mean of all bins; negative: there is no value. */
static double largest_mean(const struct gs_plot *plot, enum plot_value v)
{
	double max = -1;

	for (size_t i = 0; i < plot->n; i++)
		for (int b = 0; b < n_bins(plot); b++) {
			double m = plot_mean(plot->device[i], v, b);

			if (m > max)
				max = m;
		}
	return max;
}

static double row_height(size_t n)
{
	return n <= 16 ? 12 : n <= 64 ? 6 : n <= 200 ? 3 : fmax(600.0 / (double)n, 0.2);
}

double plot_panel_height(const struct gs_plot *plot, unsigned panel)
{
	const struct kind *k = kind_of(panel);

	if (panel == GS_PLOT_BUBBLE)
		return largest_mean(plot, PLOT_UTIL) < 0
			       ? 0
			       : HEAD + row_height(plot->n) * (double)plot->n + FOOT + 4;
	if (!k || fmax(largest_mean(plot, k->value), largest_mean(plot, k->second)) < 0)
		return 0;
	return HEAD + LINES_HEIGHT + FOOT;
}

/* --- lines --- */

struct frame {
	double top, bottom, max; /* max: value at the top */
};

static double y_of(const struct frame *f, double value)
{
	return f->bottom - (f->bottom - f->top) * fmin(value / f->max, 1.02);
}

/* A gap is where a device was silent for longer than it takes to fill three bins or three steps. */
static int gap_bins(const struct gs_plot *plot, const struct plot_device *d)
{
	return (int)fmax(1, ceil(3 * d->longest_step_ns / (double)plot->bin_ns));
}

static double bin_x(const struct gs_plot *plot, const struct plot_pen *p, int b)
{
	return plot_x(p, plot->start_ns + b * plot->bin_ns + plot->bin_ns / 2);
}

/* One sample between two gaps: no line, but to be seen. */
static void draw_point(const struct plot_pen *p, double x, double y)
{
	p->c->move_to(p->to, x - 2.5, y);
	p->c->line_to(p->to, x + 2.5, y);
	p->c->move_to(p->to, x, y - 2.5);
	p->c->line_to(p->to, x, y + 2.5);
}

static void draw_line(const struct gs_plot *plot, const struct plot_pen *p, const struct frame *f,
		      const struct plot_device *d, enum plot_value v, double scale)
{
	int last = -1, gap = gap_bins(plot, d);
	double last_x = 0, last_y = 0;
	bool alone = false;

	for (int b = 0; b < n_bins(plot); b++) {
		double m = plot_mean(d, v, b), x, y;

		if (isnan(m))
			continue;
		x = bin_x(plot, p, b);
		y = y_of(f, m * scale);
		if (last < 0 || b - last > gap) {
			if (alone)
				draw_point(p, last_x, last_y);
			p->c->move_to(p->to, x, y);
			alone = true;
		} else {
			p->c->line_to(p->to, x, y);
			alone = false;
		}
		last = b;
		last_x = x;
		last_y = y;
	}
	if (alone)
		draw_point(p, last_x, last_y);
	p->c->stroke(p->to);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The middle of all devices at each bin, thick over the thin lines. */
static void draw_middle(const struct gs_plot *plot, const struct plot_pen *p, const struct frame *f,
			enum plot_value v, double scale)
{
	GS_FREE double *values = calloc(plot->n, sizeof(*values));
	int last = -1, gap = plot->n ? gap_bins(plot, plot->device[0]) : 1;

	if (!values)
		return;
	for (int b = 0; b < n_bins(plot); b++) {
		size_t n = 0;
		double y;

		for (size_t i = 0; i < plot->n; i++) {
			double m = plot_mean(plot->device[i], v, b);

			if (!isnan(m))
				values[n++] = m;
		}
		if (!n)
			continue;
		qsort(values, n, sizeof(*values), by_value);
		y = y_of(f, values[n / 2] * scale);
		if (last < 0 || b - last > gap)
			p->c->move_to(p->to, bin_x(plot, p, b), y);
		else
			p->c->line_to(p->to, bin_x(plot, p, b), y);
		last = b;
	}
	p->c->stroke(p->to);
}

static void draw_value_axis(const struct plot_pen *p, const struct frame *f)
{
	double step = plot_round_step(f->max, 4);

	for (double v = 0; v <= f->max * 1.001; v += step) {
		char text[32];

		plot_colour(p, plot_grid, 1);
		p->c->set_line_width(p->to, 0.7);
		p->c->move_to(p->to, p->left, y_of(f, v));
		p->c->line_to(p->to, p->right, y_of(f, v));
		p->c->stroke(p->to);
		plot_colour(p, plot_pale, 1);
		snprintf(text, sizeof(text), "%g", v);
		plot_text(p, p->left - 6, y_of(f, v) + 3, 9, PLOT_RIGHT, false, text);
	}
}

static void draw_devices(const struct gs_plot *plot, const struct plot_pen *p,
			 const struct frame *f, enum plot_value v, double scale, double alpha)
{
	for (size_t i = 0; i < plot->n; i++) {
		plot_colour(p, plot_device_colour(i, plot->n), alpha);
		draw_line(plot, p, f, plot->device[i], v, scale);
	}
}

static void draw_title(const struct plot_pen *p, double top, const char *title, const char *note)
{
	plot_colour(p, plot_ink, 1);
	plot_text(p, p->left, top + 15, 12, PLOT_LEFT, true, title);
	plot_colour(p, plot_pale, 1);
	plot_text(p, p->right, top + 15, 9, PLOT_RIGHT, false, note);
}

static void draw_lines(const struct gs_plot *plot, const struct plot_pen *p, const struct kind *k,
		       double top)
{
	bool two = k->second != k->value, many = plot->n > MANY;
	struct frame f = {.top = top + HEAD, .bottom = top + HEAD + LINES_HEIGHT, .max = k->top};
	char title[128], note[160];

	if (f.max <= 0) {
		f.max = fmax(largest_mean(plot, k->value), largest_mean(plot, k->second)) *
			k->scale;
		f.max = f.max > 0 ? ceil(f.max / plot_round_step(f.max, 4)) *
					    plot_round_step(f.max, 4)
				  : 1;
	}
	snprintf(title, sizeof(title), "%s, %s", k->title, k->unit);
	snprintf(note, sizeof(note), "%s%s%s%s%s",
		 many ? "thin: each GPU; thick: their median" : "", many && two ? "; " : "",
		 two ? k->first_name : "", two ? ": strong; " : "", two ? "sent: pale" : "");
	draw_title(p, top, title, note);
	plot_time_axis(p, f.top, f.bottom, true);
	draw_value_axis(p, &f);
	p->c->save(p->to);
	p->c->rectangle(p->to, p->left, f.top - 3, p->right - p->left, f.bottom - f.top + 6);
	p->c->clip(p->to);
	p->c->set_line_join(p->to, 1); /* round */
	p->c->set_line_width(p->to, many ? 0.6 : 1.2);
	if (two)
		draw_devices(plot, p, &f, k->second, k->scale, many ? 0.15 : 0.35);
	draw_devices(plot, p, &f, k->value, k->scale, many ? 0.35 : 0.95);
	if (many) {
		plot_colour(p, plot_ink, 0.9);
		p->c->set_line_width(p->to, 1.8);
		draw_middle(plot, p, &f, k->value, k->scale);
	}
	p->c->restore(p->to);
}

/* --- bubbles --- */

/* From idle to busy: a run of colours whose lightness falls evenly (after matplotlib's viridis,
 * reversed), so that it can be read in grey too. */
static struct plot_colour heat_colour(double v)
{
	static const struct plot_colour at[] = {{0.99, 0.91, 0.14}, {0.48, 0.82, 0.32},
						{0.13, 0.66, 0.52}, {0.16, 0.47, 0.56},
						{0.26, 0.30, 0.54}, {0.27, 0.00, 0.33}};
	double x = fmin(fmax(v, 0), 1) * (GS_ARRAY_LEN(at) - 1);
	int i = (int)fmin(floor(x), GS_ARRAY_LEN(at) - 2);
	double part = x - i;

	return (struct plot_colour){at[i].r + part * (at[i + 1].r - at[i].r),
				    at[i].g + part * (at[i + 1].g - at[i].g),
				    at[i].b + part * (at[i + 1].b - at[i].b)};
}

static void draw_row(const struct gs_plot *plot, const struct plot_pen *p,
		     const struct plot_device *d, double y, double height)
{
	int gap = gap_bins(plot, d);

	/* A sample stands until the next one, unless that is long in coming. */
	for (int b = 0; b < n_bins(plot);) {
		double m = plot_mean(d, PLOT_UTIL, b);
		int next = b + 1;

		if (!isnan(m)) {
			while (next < n_bins(plot) && next - b < gap &&
			       isnan(plot_mean(d, PLOT_UTIL, next)))
				next++;
			plot_colour(p, heat_colour(m), 1);
			p->c->rectangle(p->to, plot_x(p, plot->start_ns + b * plot->bin_ns), y,
					(p->right - p->left) * (double)(next - b) *
							(double)plot->bin_ns /
							(double)(p->t1 - p->t0) +
						0.2,
					height);
			p->c->fill(p->to);
		}
		b = next;
	}
}

static void draw_scale(const struct plot_pen *p, double top)
{
	for (int i = 0; i < 60; i++) {
		plot_colour(p, heat_colour(i / 59.0), 1);
		p->c->rectangle(p->to, p->right - 150 + 2 * i, top + 7, 2.2, 9);
		p->c->fill(p->to);
	}
	plot_colour(p, plot_pale, 1);
	plot_text(p, p->right - 155, top + 15, 9, PLOT_RIGHT, false, "white: no data    0 %");
	plot_text(p, p->right, top + 15, 9, PLOT_RIGHT, false, "100 %");
}

static void draw_bubbles(const struct gs_plot *plot, const struct plot_pen *p, double top)
{
	double h = row_height(plot->n), first = top + HEAD;
	size_t every = (size_t)fmax(1, ceil(10 / h));

	draw_title(p, top, "Busy and idle (bubbles), utilisation of each GPU", "");
	draw_scale(p, top);
	p->c->set_antialias(p->to, 1); /* none: seams would show between cells */
	for (size_t i = 0; i < plot->n; i++)
		draw_row(plot, p, plot->device[i], first + h * (double)i, h > 2 ? h - 0.5 : h);
	p->c->set_antialias(p->to, 0);
	plot_colour(p, plot_pale, 1);
	for (size_t i = 0; i < plot->n; i += every)
		plot_text_end(p, p->left - 6, first + h * (double)i + fmin(h, 9),
			      fmin(9, h * (double)every), p->left - 12, plot->device[i]->label);
	plot_time_axis(p, first + h * (double)plot->n, first + h * (double)plot->n + 3, true);
}

void plot_panel_draw(const struct gs_plot *plot, const struct plot_pen *p, unsigned panel,
		     double top)
{
	const struct kind *k = kind_of(panel);

	if (panel == GS_PLOT_BUBBLE)
		draw_bubbles(plot, p, top);
	else if (k)
		draw_lines(plot, p, k, top);
}
