/* A page: title, panels, table; and the file it goes to. */
#include "output/plot/plot_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/base/output.h"

#define WIDTH          1000.0
#define MARGIN         24.0
#define LABELS         110.0 /* left of the axis of time */
#define HEAD           64.0
#define PNG_SCALE      2.0 /* pixels a point */
#define PNG_MAX        30000
#define PNG_PIXELS_MAX 16e6 /* of one that is made in memory: 64 MB */

static const unsigned order[] = {GS_PLOT_UTIL, GS_PLOT_BUBBLE, GS_PLOT_MEMORY, GS_PLOT_DRAM,
				 GS_PLOT_PCIE, GS_PLOT_NVLINK, GS_PLOT_POWER};

unsigned gs_plot_panel_by_name(const char *name)
{
	static const struct {
		const char *name;
		unsigned panel;
	} names[] = {
		{"gpu_utilization", GS_PLOT_UTIL},
		{"utilization", GS_PLOT_UTIL},
		{"gpu_memory", GS_PLOT_MEMORY},
		{"memory", GS_PLOT_MEMORY},
		/* What gswarm calls so is what went over PCIe. */
		{"gpu_dram_bandwidth", GS_PLOT_PCIE | GS_PLOT_DRAM},
		{"pcie", GS_PLOT_PCIE},
		{"nvlink", GS_PLOT_NVLINK},
		{"dram", GS_PLOT_DRAM},
		{"power", GS_PLOT_POWER},
		{"gpu_bubble", GS_PLOT_BUBBLE},
		{"bubble", GS_PLOT_BUBBLE},
		{"devices", GS_PLOT_DEVICES},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].panel;
	return 0;
}

static const char *suffix_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && !strchr(dot, '/') ? dot : "";
}

bool gs_plot_knows(const char *path)
{
	const char *s = suffix_of(path);

	return strcmp(s, ".pdf") == 0 || strcmp(s, ".svg") == 0 || strcmp(s, ".png") == 0;
}

static int by_host(const void *a, const void *b)
{
	const struct plot_device *x = *(struct plot_device *const *)a,
				 *y = *(struct plot_device *const *)b;
	int r = strverscmp(x->host, y->host);

	return r ? r : (x->index > y->index) - (x->index < y->index);
}

static unsigned panels_of(const struct gs_plot *plot)
{
	return plot->o.panels ? plot->o.panels : GS_PLOT_ALL;
}

static double page_height(const struct gs_plot *plot)
{
	double h = HEAD + MARGIN;

	for (size_t i = 0; i < GS_ARRAY_LEN(order); i++)
		if (panels_of(plot) & order[i])
			h += plot_panel_height(plot, order[i]);
	if (panels_of(plot) & GS_PLOT_DEVICES)
		h += plot_table_height(plot);
	return h;
}

static size_t n_hosts(const struct gs_plot *plot)
{
	size_t n = 0;

	for (size_t i = 0; i < plot->n; i++)
		n += i == 0 || strcmp(plot->device[i]->host, plot->device[i - 1]->host) != 0;
	return n;
}

static void draw_head(const struct gs_plot *plot, const struct plot_pen *p)
{
	char title[320], from[64], text[256];
	struct gs_plot_stats st;
	time_t t = (time_t)(p->t0 / 1000000000);
	struct tm tm;
	double range_s = (double)(plot->last_ns - plot->start_ns) / 1e9;

	gs_plot_stats(plot, &st);
	localtime_r(&t, &tm);
	strftime(from, sizeof(from), "%Y-%m-%d %H:%M:%S %Z", &tm);
	if (plot->title[0])
		snprintf(title, sizeof(title), "%s", plot->title);
	else
		snprintf(title, sizeof(title), "%zu GPU%s of %zu node%s", plot->n,
			 plot->n == 1 ? "" : "s", n_hosts(plot), n_hosts(plot) == 1 ? "" : "s");
	plot_colour(p, plot_ink, 1);
	plot_text(p, MARGIN, 32, 17, PLOT_LEFT, true, title);
	snprintf(
		text, sizeof(text),
		"from %s, %.0f s; %llu sample%s of %zu GPU%s; a point is the mean of %.3g s; %llu gap%s",
		from, range_s, (unsigned long long)st.n_samples, st.n_samples == 1 ? "" : "s",
		plot->n, plot->n == 1 ? "" : "s", (double)plot->bin_ns / 1e9,
		(unsigned long long)st.n_gaps, st.n_gaps == 1 ? "" : "s");
	plot_colour(p, plot_pale, 1);
	plot_text(p, MARGIN, 50, 10, PLOT_LEFT, false, text);
}

static void draw_page(const struct gs_plot *plot, const struct plot_pen *p)
{
	double top = HEAD;

	plot_colour(p, (struct plot_colour){1, 1, 1}, 1);
	p->c->paint(p->to);
	draw_head(plot, p);
	for (size_t i = 0; i < GS_ARRAY_LEN(order); i++) {
		double h = panels_of(plot) & order[i] ? plot_panel_height(plot, order[i]) : 0;

		if (h > 0)
			plot_panel_draw(plot, p, order[i], top);
		top += h;
	}
	if (panels_of(plot) & GS_PLOT_DEVICES)
		plot_table_draw(plot, p, top);
}

static int draw_to(const struct gs_plot *plot, const struct plot_cairo *c, void *surface,
		   double scale)
{
	struct plot_pen p = {.c = c,
			     .to = c->create(surface),
			     .left = LABELS,
			     .right = WIDTH - MARGIN,
			     .t0 = plot->start_ns,
			     .t1 = plot->last_ns + plot->bin_ns};
	int status;

	if (scale != 1)
		c->scale(p.to, scale, scale);
	draw_page(plot, &p);
	c->show_page(p.to);
	status = c->status(p.to);
	c->destroy(p.to);
	return status;
}

static bool is_suffix(const char *suffix, const char *name)
{
	return strcmp(suffix + (suffix[0] == '.'), name) == 0;
}

/* Devices in their order, and how high the page is; what keeps it from being drawn. */
static int begin_page(struct gs_plot *plot, const struct plot_cairo **ret_cairo, double *ret_height,
		      struct gs_err *err)
{
	int r;

	if (!plot->n)
		return gs_err_set(err, -ENODATA, "nothing to plot: there is no sample of a GPU");
	r = plot_cairo_open(ret_cairo, err);
	if (r < 0)
		return r;
	qsort(plot->device, plot->n, sizeof(*plot->device), by_host);
	*ret_height = page_height(plot);
	return 0;
}

int gs_plot_write(struct gs_plot *plot, const char *path, struct gs_err *err)
{
	const struct plot_cairo *c;
	const char *suffix = suffix_of(path);
	double height, scale = 1;
	struct gs_output file;
	char place[40];
	void *surface;
	int status, r;

	if (!gs_plot_knows(path))
		return gs_err_set(err, -EINVAL,
				  "a plot is a file ending in one of " GS_PLOT_SUFFIXES);
	r = begin_page(plot, &c, &height, err);
	if (r == 0)
		r = gs_output_open(path, 0, &file, err);
	if (r < 0)
		return r;
	/* Cairo opens a name. This one is the file that we have, whatever becomes of its name. */
	snprintf(place, sizeof(place), "/proc/self/fd/%d", file.fd);
	if (is_suffix(suffix, "png")) {
		scale = fmin(PNG_SCALE, PNG_MAX / height);
		surface = c->image_surface_create(1, (int)(WIDTH * scale),
						  (int)(height * scale)); /* RGB24 */
	} else if (is_suffix(suffix, "pdf")) {
		surface = c->pdf_surface_create(place, WIDTH, height);
	} else {
		surface = c->svg_surface_create(place, WIDTH, height);
	}
	status = c->surface_status(surface);
	if (status == 0)
		status = draw_to(plot, c, surface, scale);
	if (status == 0 && is_suffix(suffix, "png"))
		status = c->surface_write_to_png(surface, place);
	c->surface_finish(surface);
	if (status == 0)
		status = c->surface_status(surface);
	c->surface_destroy(surface);
	if (status == 0)
		return gs_output_close(&file, 0, err);
	(void)gs_output_close(&file, -EIO, NULL);
	return gs_err_set(err, -EIO, "cannot write %s: %s", path, c->status_to_string(status));
}

static int take_bytes(void *ctx, const unsigned char *data, unsigned bytes)
{
	return gs_buf_put(ctx, data, bytes) < 0 ? 11 : 0; /* CAIRO_STATUS_WRITE_ERROR */
}

int gs_plot_render(struct gs_plot *plot, const char *suffix, struct gs_buf *out, struct gs_err *err)
{
	const bool png = is_suffix(suffix, "png");
	const struct plot_cairo *c;
	double height, scale = 1;
	void *surface;
	int status, r;

	if (!png && !is_suffix(suffix, "pdf") && !is_suffix(suffix, "svg"))
		return gs_err_set(err, -EINVAL, "a plot is one of pdf, svg, png");
	r = begin_page(plot, &c, &height, err);
	if (r < 0)
		return r;
	if (png) {
		scale = fmin(fmin(PNG_SCALE, PNG_MAX / height),
			     sqrt(PNG_PIXELS_MAX / (WIDTH * height)));
		surface = c->image_surface_create(1, (int)(WIDTH * scale), (int)(height * scale));
	} else {
		surface = (is_suffix(suffix, "pdf") ? c->pdf_surface_create_for_stream
						    : c->svg_surface_create_for_stream)(
			take_bytes, out, WIDTH, height);
	}
	status = c->surface_status(surface);
	if (status == 0)
		status = draw_to(plot, c, surface, scale);
	if (status == 0 && png)
		status = c->surface_write_to_png_stream(surface, take_bytes, out);
	c->surface_finish(surface);
	if (status == 0)
		status = c->surface_status(surface);
	c->surface_destroy(surface);
	if (status == 11)
		return gs_err_set(err, -ENOBUFS, "the figure is too large");
	return status ? gs_err_set(err, -EIO, "cannot draw: %s", c->status_to_string(status)) : 0;
}
