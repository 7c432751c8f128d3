/*
 * Between the files of the room. accuracy.c takes samples and stretches in and compares them;
 * grid.c has rows of cells, in which each interval is spread over the cells that it touches.
 *
 * All rows have the same grid, which begins with the first stretch and gets coarser for all of them
 * at once, so that cell i of one row is the same time as cell i of another.
 */
#ifndef GS_PIPELINE_GPU_ACCURACY_ACCURACY_INT_H
#define GS_PIPELINE_GPU_ACCURACY_ACCURACY_INT_H

#include "core/base/map.h"
#include "model/node/record.h"
#include "pipeline/gpu_accuracy/accuracy.h"

#define ACCURACY_MAX_GPUS     64
#define ACCURACY_MAX_CONTEXTS 256
#define ACCURACY_MAX_OTHERS   1024 /* processes on GPUs, traced or not */
#define ACCURACY_WORDS        (GS_ACCURACY_CELLS / 64)

/* Time in each cell, in ns; made when there is some. */
struct accuracy_row {
	double *cells; /* owned, GS_ACCURACY_CELLS; NULL: all 0 */
};

/* --- grid.c --- */

struct accuracy_grid {
	uint64_t from_ns, cell_ns;
	bool has_begun;
};

/* weight times the stretch goes into its cells. False: no memory, or beyond the grid (then it has to be
 * made coarser first). */
bool accuracy_row_add(const struct accuracy_grid *grid, struct accuracy_row *row, uint64_t from_ns,
		      uint64_t to_ns, double weight);

/* Does the grid reach until then? */
bool accuracy_grid_holds(const struct accuracy_grid *grid, uint64_t time_ns);

/* Two cells become one, of a row and of a set of bits. */
void accuracy_row_halve(struct accuracy_row *row);
void accuracy_bits_halve(uint64_t bits[ACCURACY_WORDS]);
void accuracy_bits_set(const struct accuracy_grid *grid, uint64_t bits[ACCURACY_WORDS],
		       uint64_t from_ns, uint64_t to_ns);

/* --- accuracy.c --- */

struct accuracy_gpu {
	char uuid[80], name[96], number[GS_GPU_NUMBER_BYTES];
	uint64_t read_ns;                /* when its counter was read last */
	uint64_t sample_ns;              /* of the sample before */
	struct accuracy_row busy, known; /* of the counter; for how long that is known */
	/* Of the whole trace: */
	double busy_ns, known_ns, power_ns, watts; /* watts: sum over power_ns of the power */
	uint64_t power_read_ns;
	double memory_peak_bytes; /* -1: not known */
	uint64_t n_samples;
};

struct accuracy_context {
	uint32_t index;
	struct accuracy_row most, least;
	double work_ns; /* at most, on the grid or not */
};

/* A process on a GPU, and the cells in which it used it. */
struct accuracy_user {
	uint32_t gpu, pid;
	uint64_t bits[ACCURACY_WORDS];
};

struct gs_accuracy {
	struct accuracy_grid grid;
	struct gs_node_decoder *decoder;
	struct accuracy_gpu *gpus; /* owned, as all arrays */
	uint32_t n_gpus, cap_gpus;
	struct accuracy_context *contexts;
	uint32_t n_contexts, cap_contexts;
	struct gs_map context_idx;
	struct accuracy_user *users;
	uint32_t n_users, cap_users;
	struct gs_map user_idx;
	struct gs_map pids; /* of the traced processes: number of the last that had it */
	uint32_t mode;      /* enum gs_session_mode */
	uint64_t n_samples;
	bool is_incomplete; /* something found no room: nothing is compared */
};

#endif
