/* What came of it: each GPU with its counter, and the bounds of the same time. */
#include <errno.h>
#include <string.h>

#include "pipeline/gpu_accuracy/accuracy_int.h"

/* The counter has to cover so much of a cell. */
#define COVERED 0.9
/* Drivers average their counter over up to a second (nvmlDeviceGetUtilizationRates, nvml.h of CUDA 12.4): less says
 * nothing. */
#define COMPARED_MIN_NS 1000000000ull

#define GPU_UNKNOWN UINT32_MAX

struct comparison {
	const struct gs_accuracy *accuracy;
	uint32_t *gpu_of; /* by context: index of its GPU; GPU_UNKNOWN */
	bool can_tell;    /* the driver knows traced processes by the numbers that they have here */
	bool is_unplaced; /* work of a context ran on a GPU that is not known */
};

static bool is_traced(const struct gs_accuracy *a, uint32_t pid)
{
	uint64_t process;

	return gs_map_get(&a->pids, pid, &process);
}

/* The one GPU that a process was seen on by the driver. */
static uint32_t gpu_of_process(const struct gs_accuracy *a, uint32_t process)
{
	uint32_t found = GPU_UNKNOWN;

	for (uint32_t i = 0; i < a->n_users; i++) {
		uint64_t id;

		if (!gs_map_get(&a->pids, a->users[i].pid, &id) || id != process)
			continue;
		if (found != GPU_UNKNOWN && found != a->users[i].gpu)
			return GPU_UNKNOWN;
		found = a->users[i].gpu;
	}
	return found;
}

static uint32_t place_context(const struct gs_accuracy *a, uint32_t process, const char *uuid)
{
	uint32_t gpu;

	for (uint32_t i = 0; uuid[0] && i < a->n_gpus; i++)
		if (strcmp(a->gpus[i].uuid, uuid) == 0)
			return i;
	if (uuid[0])
		return GPU_UNKNOWN;
	gpu = gpu_of_process(a, process);
	return gpu == GPU_UNKNOWN && a->n_gpus == 1 ? 0 : gpu;
}

static bool others_use(const struct comparison *c, uint32_t gpu, size_t cell)
{
	const struct gs_accuracy *a = c->accuracy;

	for (uint32_t i = 0; c->can_tell && i < a->n_users; i++)
		if (a->users[i].gpu == gpu && a->users[i].bits[cell / 64] >> cell % 64 & 1 &&
		    !is_traced(a, a->users[i].pid))
			return true;
	return false;
}

static double value_of(const struct accuracy_row *row, size_t cell)
{
	return row->cells ? row->cells[cell] : 0;
}

/* Several contexts on one GPU may have had work at once: at most the sum, at least the largest. */
static void find_bounds(const struct comparison *c, uint32_t gpu, size_t cell, double *ret_least,
			double *ret_most)
{
	const struct gs_accuracy *a = c->accuracy;
	double least = 0, most = 0;

	for (uint32_t i = 0; i < a->n_contexts; i++) {
		double v = value_of(&a->contexts[i].least, cell);

		if (c->gpu_of[i] != gpu)
			continue;
		most += value_of(&a->contexts[i].most, cell);
		least = v > least ? v : least;
	}
	*ret_most = most < (double)a->grid.cell_ns ? most : (double)a->grid.cell_ns;
	*ret_least = least < *ret_most ? least : *ret_most;
}

static void compare_gpu(const struct comparison *c, uint32_t gpu, struct gs_gpu_summary *s)
{
	const struct gs_accuracy *a = c->accuracy;
	const struct accuracy_gpu *g = &a->gpus[gpu];
	const double cell_ns = (double)a->grid.cell_ns;
	double busy = 0, least = 0, most = 0, sum_ns = 0, one_least, one_most;

	for (size_t i = 0; i < GS_ACCURACY_CELLS; i++) {
		double known = value_of(&g->known, i);

		if (known < COVERED * cell_ns)
			continue;
		if (others_use(c, gpu, i)) {
			s->others_ns += a->grid.cell_ns;
			continue;
		}
		find_bounds(c, gpu, i, &one_least, &one_most);
		busy += value_of(&g->busy, i) / known * cell_ns;
		least += one_least;
		most += one_most;
		sum_ns += cell_ns;
	}
	s->why = a->is_incomplete                    ? GS_GPU_UNCOMPARED_NO_ROOM
		 : c->is_unplaced                    ? GS_GPU_UNCOMPARED_UNPLACED
		 : g->known_ns <= 0                  ? GS_GPU_UNCOMPARED_NO_COUNTER
		 : sum_ns >= (double)COMPARED_MIN_NS ? GS_GPU_COMPARED
		 : s->others_ns                      ? GS_GPU_UNCOMPARED_OTHERS
						     : GS_GPU_UNCOMPARED_SHORT;
	if (s->why != GS_GPU_COMPARED)
		return;
	s->compared_ns = (uint64_t)sum_ns;
	s->compared_busy_ratio = busy / sum_ns;
	s->least_ratio = least / sum_ns;
	s->most_ratio = most / sum_ns;
}

static void fill_gpu(const struct comparison *c, uint32_t gpu, struct gs_summary *summary,
		     struct gs_gpu_summary *s)
{
	const struct accuracy_gpu *g = &c->accuracy->gpus[gpu];

	s->uuid = gs_summary_text(summary, g->uuid);
	s->name = gs_summary_text(summary, g->name);
	s->number = gs_summary_text(summary, g->number);
	s->n_samples = g->n_samples;
	s->busy_ratio = g->known_ns > 0 ? g->busy_ns / g->known_ns : -1;
	s->power_watts = g->power_ns > 0 ? g->watts / g->power_ns : -1;
	s->memory_peak_bytes = (int64_t)g->memory_peak_bytes;
	s->others_hidden = !c->can_tell;
	compare_gpu(c, gpu, s);
}

int gs_accuracy_summarize(struct gs_accuracy *a, gs_accuracy_gpu_fn *gpu_of, void *ctx,
			  struct gs_summary *summary)
{
	uint32_t gpus[ACCURACY_MAX_CONTEXTS];
	struct comparison c = {.accuracy = a, .gpu_of = gpus};

	if (!a->n_gpus)
		return 0;
	summary->gpus = gs_summary_alloc(summary, a->n_gpus * sizeof(*summary->gpus));
	if (!summary->gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->n_users; i++)
		c.can_tell |= is_traced(a, a->users[i].pid);
	for (uint32_t i = 0; i < a->n_contexts; i++) {
		const struct accuracy_context *x = &a->contexts[i];
		uint32_t process = 0;
		const char *uuid = gpu_of(ctx, x->index, &process);

		gpus[i] = place_context(a, process, uuid);
		c.is_unplaced |= gpus[i] == GPU_UNKNOWN && x->work_ns > 0;
	}
	for (uint32_t i = 0; i < a->n_gpus; i++)
		fill_gpu(&c, i, summary, &summary->gpus[i]);
	summary->n_gpus = a->n_gpus;
	return 0;
}

struct accuracy_names {
	const struct gs_activity *activity;
	const struct gs_dict *dict;
	char uuid[96];
};

static const char *find_gpu(void *ctx, uint32_t index, uint32_t *ret_process)
{
	struct accuracy_names *names = ctx;
	struct gs_activity_context c;

	gs_activity_read_context(names->activity, index, &c);
	*ret_process = c.process;
	return gs_dict_gpu(names->dict, c.process, c.context, names->uuid, sizeof(names->uuid));
}

int gs_accuracy_finish(struct gs_accuracy *a, const struct gs_activity *activity,
		       const struct gs_dict *dict, struct gs_summary *summary)
{
	struct accuracy_names names = {.activity = activity, .dict = dict};

	gs_activity_report_busy(activity);
	return gs_accuracy_summarize(a, find_gpu, &names, summary);
}
