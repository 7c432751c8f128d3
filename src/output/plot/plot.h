/*
 * Figures of GPUs over time, as PDF, SVG or PNG: snapshots go in one after the other, a file comes
 * out. Any length of time and any number of snapshots is kept in about 130 KiB a GPU: values are
 * added up in bins, which grow wider as time goes on. Where nothing was measured there is a gap,
 * never a line.
 *
 * Drawn by cairo, which is opened when it is needed.
 */
#ifndef GS_OUTPUT_PLOT_PLOT_H
#define GS_OUTPUT_PLOT_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/node/host.h"
#include "model/node/rollup.h"

struct gs_plot;

/* Flags, combined by or. */
enum gs_plot_panel {
	GS_PLOT_UTIL = 1,
	GS_PLOT_MEMORY = 2,
	GS_PLOT_PCIE = 4,   /* received and sent */
	GS_PLOT_NVLINK = 8, /* likewise */
	GS_PLOT_DRAM = 16,  /* share of time in which device memory was busy */
	GS_PLOT_POWER = 32,
	GS_PLOT_BUBBLE = 64,   /* each GPU a row, coloured by utilisation */
	GS_PLOT_DEVICES = 128, /* percentiles and energy of each, as a table */
	GS_PLOT_ALL = 255,
};

struct gs_plot_options {
	size_t size;          /* of this struct */
	unsigned panels;      /* enum gs_plot_panel; 0: all of which there are values */
	const char *title;    /* NULL: from the data */
	int64_t from_wall_ns; /* snapshots before it are left out; 0: none are */
	int64_t to_wall_ns;   /* from here on; 0: none */
};

/* The panel that gswarm calls gpu_utilization, gpu_memory, gpu_dram_bandwidth or gpu_bubble, and
 * ours: utilization, memory, pcie, nvlink, dram, power, bubble, devices. 0: none is called so. */
unsigned gs_plot_panel_by_name(const char *name);

/* Suffixes that can be written, for messages. */
#define GS_PLOT_SUFFIXES ".pdf, .svg, .png"
bool gs_plot_knows(const char *path);

struct gs_plot *gs_plot_new(const struct gs_plot_options *options); /* NULL: no memory */
void gs_plot_free(struct gs_plot **plot);                           /* NULL inside: nothing */

/* Another title than that of the start. */
void gs_plot_set_title(struct gs_plot *plot, const char *title);

/* A snapshot of a node, in any order of nodes; of one node they should rise. mark: what it stands for
 * (gs_rollup_read()); NULL: for itself. 0 or -ENOMEM. */
int gs_plot_add(struct gs_plot *plot, const struct gs_node_snapshot *snapshot,
		const struct gs_rollup_mark *mark);

/* Draw. -ENODATA: nothing was added; -ENOPKG: cairo is not here; -EINVAL: another suffix; else what
 * the system says about the file. A file that could not be written whole is removed. */
int gs_plot_write(struct gs_plot *plot, const char *path, struct gs_err *err);

/* Likewise into memory: suffix is "pdf", "svg" or "png"; a PNG has at most 16 million pixels. Any
 * thread, as long as each has a plot of its own. Also -ENOBUFS, when out has no more room. */
int gs_plot_render(struct gs_plot *plot, const char *suffix, struct gs_buf *out,
		   struct gs_err *err);

struct gs_plot_stats {
	uint64_t n_snapshots, n_samples, n_devices; /* a sample: one GPU at one snapshot */
	uint64_t
		n_gaps; /* times in which a GPU was silent for more than three of its usual steps */
	uint64_t n_left_out; /* snapshots older than what is drawn: their order was wrong */
};

/* What went in so far. */
void gs_plot_stats(const struct gs_plot *plot, struct gs_plot_stats *ret_stats);

/* Can anything be drawn here? 0; -ENOPKG: cairo is not here, with err. Loads it. */
int gs_plot_check(struct gs_err *err);

#endif
