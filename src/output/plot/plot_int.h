/* Private to the room: bins, and what is drawn. */
#ifndef GS_OUTPUT_PLOT_PLOT_INT_H
#define GS_OUTPUT_PLOT_PLOT_INT_H

#include "core/series/energy.h"
#include "core/base/map.h"
#include "output/plot/plot.h"

enum plot_value {
	PLOT_UTIL, /* 0 to 1 */
	PLOT_MEMORY,
	PLOT_PCIE_RX, /* bytes a second */
	PLOT_PCIE_TX,
	PLOT_NVLINK_RX,
	PLOT_NVLINK_TX,
	PLOT_DRAM,  /* 0 to 1 */
	PLOT_POWER, /* W */
	PLOT_VALUES
};

#define PLOT_BINS    1024
#define PLOT_PERCENT 201 /* buckets of half a percent */

struct plot_bin {
	float sum, max;
	uint32_t n;
};

struct plot_device {
	char label[128]; /* "host:0" */
	char host[65];
	uint32_t index;
	struct plot_bin bin[PLOT_VALUES][PLOT_BINS];
	uint32_t util_count[PLOT_PERCENT]; /* samples by utilisation */
	uint64_t n_samples;
	uint64_t n_util, n_idle; /* idle: below 1 % */
	double util_sum, memory_max, power_sum;
	uint64_t n_power;
	struct gs_energy energy;
	int64_t first_ns, last_ns;
	/* Usual time between two samples of one source: a running mean; and the longest that was
	 * usual for a while. */
	double step_ns, longest_step_ns;
	double before_ns; /* that of the sample before, as it said or as it was */
	uint64_t n_gaps;
};

struct gs_plot {
	struct gs_plot_options o;
	char title[256];
	struct plot_device **device; /* owned; by host and index once sorted */
	size_t n, n_max;
	struct gs_map
		by_key; /* hash of UUID, or of node and index where it has none: lent pointers */
	int64_t start_ns, bin_ns; /* of the first bin; how wide they are */
	int64_t last_ns;
	struct gs_plot_stats stats;
};

/* Mean of a bin; NAN: nothing was measured in it. */
double plot_mean(const struct plot_device *d, enum plot_value v, int bin);

/* The value below which a share of all samples lies, 0 to 1; NAN without samples. */
double plot_util_percentile(const struct plot_device *d, double share);

double plot_energy_j(const struct plot_device *d); /* NAN: not known */

/* --- cairo, found at run time: cairo.c --- */

typedef void plot_cairo_t; /* cairo_t, and cairo_surface_t */

/* cairo_write_func_t */
typedef int (*plot_write_fn)(void *ctx, const unsigned char *data, unsigned bytes);

struct plot_extents { /* cairo_text_extents_t (cairo.h) */
	double x_bearing, y_bearing, width, height, x_advance, y_advance;
};

struct plot_cairo {
	void *(*pdf_surface_create)(const char *, double, double);
	void *(*svg_surface_create)(const char *, double, double);
	void *(*image_surface_create)(int, int, int);
	/* int: a cairo_status_t, as what is written is taken */
	void *(*pdf_surface_create_for_stream)(plot_write_fn, void *, double, double);
	void *(*svg_surface_create_for_stream)(plot_write_fn, void *, double, double);
	int (*surface_write_to_png_stream)(void *, plot_write_fn, void *);
	int (*surface_write_to_png)(void *, const char *);
	void (*surface_finish)(void *);
	int (*surface_status)(void *);
	void (*surface_destroy)(void *);
	void *(*create)(void *);
	int (*status)(void *);
	void (*destroy)(void *);
	const char *(*status_to_string)(int);
	void (*set_source_rgba)(void *, double, double, double, double);
	void (*rectangle)(void *, double, double, double, double);
	void (*move_to)(void *, double, double);
	void (*line_to)(void *, double, double);
	void (*close_path)(void *);
	void (*fill)(void *);
	void (*stroke)(void *);
	void (*paint)(void *);
	void (*clip)(void *);
	void (*save)(void *);
	void (*restore)(void *);
	void (*scale)(void *, double, double);
	void (*set_line_width)(void *, double);
	void (*set_line_join)(void *, int);
	void (*set_antialias)(void *, int);
	void (*select_font_face)(void *, const char *, int, int);
	void (*set_font_size)(void *, double);
	void (*show_text)(void *, const char *);
	void (*text_extents)(void *, const char *, struct plot_extents *);
	void (*show_page)(void *);
};

/* Found once. -ENOPKG. */
int plot_cairo_open(const struct plot_cairo **ret_cairo, struct gs_err *err);

/* --- drawing --- */

struct plot_pen {
	const struct plot_cairo *c;
	plot_cairo_t *to;
	double left, right; /* of the time axis on the page */
	int64_t t0, t1;     /* wall ns at these */
};

struct plot_colour {
	double r, g, b;
};

extern const struct plot_colour plot_ink, plot_pale, plot_grid;

void plot_colour(const struct plot_pen *p, struct plot_colour c, double alpha);

/* Text with its left end, middle or right end at x, its base line at y. */
enum plot_align { PLOT_LEFT, PLOT_MIDDLE, PLOT_RIGHT };
void plot_text(const struct plot_pen *p, double x, double y, double size, enum plot_align align,
	       bool bold, const char *text);

/* Its right end at x; of what is wider than room the end, which distinguishes rows. */
void plot_text_end(const struct plot_pen *p, double x, double y, double size, double room,
		   const char *text);

double plot_x(const struct plot_pen *p, int64_t wall_ns);

/* Times at round steps below y, lines through [top, y]. */
void plot_time_axis(const struct plot_pen *p, double top, double y, bool labels);

/* A round step so that about n of them make range. */
double plot_round_step(double range, int n);

/* How high a panel is, 0: it has nothing to show; drawn with its upper edge at top. */
double plot_panel_height(const struct gs_plot *plot, unsigned panel);
void plot_panel_draw(const struct gs_plot *plot, const struct plot_pen *p, unsigned panel,
		     double top);

double plot_table_height(const struct gs_plot *plot);
void plot_table_draw(const struct gs_plot *plot, const struct plot_pen *p, double top);

/* The colour of a device among n. */
struct plot_colour plot_device_colour(size_t i, size_t n);

#endif
