/*
 * GPU time of steps, where a run carries it: pieces of work with the times that the GPU measured, of the process that
 * makes the steps. All of a process's work is known in windows alone, so steps count that lie wholly within one, and
 * they are cut into blocks of their own. Work counts in a step for as long as it runs there, whenever it was asked for.
 *
 * By kernel and by stream times are sums, of what runs side by side the sum of both. Of a GPU they are stretches in
 * which at least one piece ran; the rest of the step is idle, as one gap or several.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define PIECES_MAX (1u << 22) /* of a GPU, not yet added up: some 100 MB */
#define NAME_BYTES 2048       /* names of C++ templates are long */

enum sort { SORT_ANY, SORT_COMPUTE, SORT_COMM, SORT_COPY, SORTS };

static const char *const sort_names[SORTS] = {
	[SORT_ANY] = "busy",
	[SORT_COMPUTE] = "computing",
	[SORT_COMM] = "in kernels of NCCL",
	[SORT_COPY] = "copying and filling",
};

struct run_gpu_step {
	uint64_t start_ns, end_ns;
	unsigned block, window;
};

struct piece {
	uint64_t start_ns, end_ns;
	uint32_t sorts; /* bits 1 << enum sort */
};

struct run_gpu_device {
	uint32_t number;
	struct piece *pieces; /* owned */
	size_t n, capacity;
	uint64_t until_ns[SORTS]; /* of the stretches so far; 0: none yet */
	unsigned window;          /* in which the last piece began */
	size_t items[SORTS +
		     1]; /* of the run, by sort, and of idle time: 1 and their index; 0: no room */
};

void run_compare_free_gpu(struct run_gpu *gpu)
{
	for (size_t i = 0; i < gpu->n_devices; i++)
		free(gpu->devices[i].pieces);
	free(gpu->devices);
	free(gpu->windows);
	free(gpu->steps);
}

/* --- which steps --- */

static bool is_in_window(const struct run_gpu *gpu, const struct gs_run_compare_step *step,
			 unsigned *window)
{
	while (*window < gpu->n_windows && gpu->windows[*window].to_ns <= step->start_ns)
		++*window;
	return *window < gpu->n_windows && gpu->windows[*window].from_ns <= step->start_ns &&
	       step->start_ns + step->dur_ns <= gpu->windows[*window].to_ns;
}

static void cut_gpu_blocks(struct run_gpu *gpu)
{
	unsigned n_blocks = run_compare_n_blocks(gpu->n_steps);

	gpu->n_blocks = n_blocks;
	for (unsigned i = 0; i < n_blocks; i++) {
		size_t from = gpu->n_steps * i / n_blocks, to = gpu->n_steps * (i + 1) / n_blocks;
		double sum_ns = 0;

		for (size_t k = from; k < to; k++) {
			gpu->steps[k].block = i;
			sum_ns += (double)(gpu->steps[k].end_ns - gpu->steps[k].start_ns);
		}
		gpu->n_in_block[i] = (double)(to - from);
		gpu->step_ns[i] = sum_ns / gpu->n_in_block[i];
	}
	run_compare_trim(gpu->step_ns, n_blocks, gpu->kept);
}

int gs_run_compare_set_windows(struct gs_run_compare_run *run,
			       const struct gs_run_compare_window *windows, size_t n_windows,
			       const struct gs_run_compare_step *steps, size_t n_steps)
{
	struct run_gpu *gpu = &run->gpu;
	unsigned window = 0;

	if (!n_windows || !run->n_blocks)
		return 0;
	gpu->windows = malloc(n_windows * sizeof(*windows));
	gpu->steps = malloc(n_steps * sizeof(*gpu->steps));
	if (!gpu->windows || !gpu->steps)
		return -ENOMEM;
	memcpy(gpu->windows, windows, n_windows * sizeof(*windows));
	gpu->n_windows = n_windows;
	for (size_t i = 0; i < n_steps; i++)
		if (is_in_window(gpu, &steps[i], &window))
			gpu->steps[gpu->n_steps++] = (struct run_gpu_step){
				steps[i].start_ns, steps[i].start_ns + steps[i].dur_ns, 0, window};
	cut_gpu_blocks(gpu);
	return 0;
}

/* The first step that ends later. */
static size_t find_step(const struct run_gpu *gpu, uint64_t ns)
{
	size_t low = 0, high = gpu->n_steps;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gpu->steps[middle].end_ns > ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The part of a stretch that is in steps, to the blocks of each; what begins in a step is counted there, unless it goes on
 * with what was counted before. */
static void add_stretch(struct run_gpu *gpu, struct run_item *item, uint64_t start_ns,
			uint64_t end_ns, bool goes_on)
{
	for (size_t i = find_step(gpu, start_ns); i < gpu->n_steps; i++) {
		const struct run_gpu_step *s = &gpu->steps[i];
		uint64_t from_ns = s->start_ns > start_ns ? s->start_ns : start_ns;
		uint64_t to_ns = s->end_ns < end_ns ? s->end_ns : end_ns;

		if (s->start_ns >= end_ns)
			break;
		item->ns[s->block] += (double)(to_ns - from_ns) / gpu->n_in_block[s->block];
		item->calls[s->block] +=
			!goes_on && start_ns >= s->start_ns ? 1 / gpu->n_in_block[s->block] : 0;
	}
}

/* --- stretches of a GPU --- */

static void make_items(struct gs_run_compare_run *run, struct run_gpu_device *d)
{
	for (unsigned sort = 0; sort <= SORTS; sort++) {
		struct run_item *item;
		char name[64];

		snprintf(name, sizeof(name), "GPU %" PRIu32 " %s", d->number,
			 sort < SORTS ? sort_names[sort] : RUN_GPU_IDLE);
		item = run_compare_item(run, GS_RUN_COMPARE_GPU, name);
		d->items[sort] = item ? (size_t)(item - run->items) + 1 : 0;
	}
}

/* sort: SORTS for idle time. NULL: there was no room. Until another item is made. */
static struct run_item *device_item(struct gs_run_compare_run *run, const struct run_gpu_device *d,
				    unsigned sort)
{
	return d->items[sort] ? &run->items[d->items[sort] - 1] : NULL;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Between work, within a window; what is idle at its ends is no gap between work. */
static void count_gap(struct run_gpu *gpu, struct run_item *idle, uint64_t from_ns, uint64_t to_ns)
{
	size_t i = find_step(gpu, from_ns);

	if (idle && i < gpu->n_steps && gpu->steps[i].start_ns <= from_ns && to_ns > from_ns)
		idle->calls[gpu->steps[i].block] += 1 / gpu->n_in_block[gpu->steps[i].block];
}

static void fold_pieces(struct gs_run_compare_run *run, struct run_gpu_device *d)
{
	struct run_gpu *gpu = &run->gpu;

	if (!d->n)
		return;
	qsort(d->pieces, d->n, sizeof(*d->pieces), compare_pieces);
	for (size_t i = 0; i < d->n; i++) {
		const struct piece *p = &d->pieces[i];

		while (d->window + 1 < gpu->n_windows &&
		       gpu->windows[d->window].to_ns <= p->start_ns) {
			d->window++;
			memset(d->until_ns, 0, sizeof(d->until_ns));
		}
		for (unsigned sort = 0; sort < SORTS; sort++) {
			uint64_t until_ns = d->until_ns[sort];
			uint64_t start_ns = p->start_ns > until_ns ? p->start_ns : until_ns;
			struct run_item *item;

			if (!(p->sorts >> sort & 1) || p->end_ns <= start_ns)
				continue;
			item = device_item(run, d, sort);
			if (item)
				add_stretch(gpu, item, start_ns, p->end_ns,
					    p->start_ns <= until_ns);
			if (sort == SORT_ANY && until_ns)
				count_gap(gpu, device_item(run, d, SORTS), until_ns, start_ns);
			d->until_ns[sort] = p->end_ns;
		}
	}
	d->n = 0;
}

static struct run_gpu_device *find_device(struct gs_run_compare_run *run, uint32_t number)
{
	struct run_gpu *gpu = &run->gpu;

	for (size_t i = 0; i < gpu->n_devices; i++)
		if (gpu->devices[i].number == number)
			return &gpu->devices[i];
	if (!gs_vec_reserve(&gpu->devices, &gpu->devices_capacity, gpu->n_devices + 1))
		return NULL;
	gpu->devices[gpu->n_devices] = (struct run_gpu_device){.number = number};
	make_items(run, &gpu->devices[gpu->n_devices]);
	return &gpu->devices[gpu->n_devices++];
}

static int keep_piece(struct gs_run_compare_run *run, const struct gs_gpu_work *work,
		      uint32_t sorts)
{
	struct run_gpu_device *d = find_device(run, work->device);

	if (!d)
		return -ENOMEM;
	if (d->n == PIECES_MAX)
		fold_pieces(run, d);
	if (!gs_vec_reserve(&d->pieces, &d->capacity, d->n + 1))
		return -ENOMEM;
	d->pieces[d->n++] = (struct piece){work->start_ns, work->end_ns, sorts};
	return 0;
}

/* --- pieces of work --- */

static uint32_t sorts_of(const struct gs_gpu_work *work, const char *name)
{
	switch (work->what) {
	case GS_WORK_KERNEL:
		return 1u << SORT_ANY |
		       1u << (strncmp(name, "nccl", 4) == 0 ? SORT_COMM : SORT_COMPUTE);
	case GS_WORK_GRAPH:
		return 1u << SORT_ANY | 1u << SORT_COMPUTE;
	case GS_WORK_COPY:
	case GS_WORK_FILL:
		return 1u << SORT_ANY | 1u << SORT_COPY;
	}
	return 0;
}

int gs_run_compare_take_work(struct gs_run_compare_run *run, const struct gs_gpu_work *work,
			     const char *name)
{
	struct run_gpu *gpu = &run->gpu;
	uint32_t sorts = sorts_of(work, name);
	char text[NAME_BYTES];
	struct run_item *item;
	int r;

	if (!gpu->n_blocks || !sorts || !work->start_ns || work->end_ns < work->start_ns)
		return 0;
	r = keep_piece(run, work, sorts);
	if (r < 0)
		return r;
	if (work->what == GS_WORK_KERNEL || work->what == GS_WORK_GRAPH) {
		snprintf(text, sizeof(text), "%s",
			 work->what == GS_WORK_GRAPH ? "CUDA graphs, each as a whole"
			 : *name                     ? name
						     : "a kernel without a name");
		item = run_compare_item(run, GS_RUN_COMPARE_KERNEL, text);
		if (item)
			add_stretch(gpu, item, work->start_ns, work->end_ns, false);
	}
	snprintf(text, sizeof(text), "GPU %" PRIu32 ", stream %" PRIu32, work->device,
		 work->stream);
	item = run_compare_item(run, GS_RUN_COMPARE_STREAM, text);
	if (item)
		add_stretch(gpu, item, work->start_ns, work->end_ns, false);
	return run->no_memory ? -ENOMEM : 0;
}

int gs_run_compare_end_work(struct gs_run_compare_run *run)
{
	struct run_gpu *gpu = &run->gpu;

	for (size_t i = 0; i < gpu->n_devices; i++) {
		struct run_gpu_device *d = &gpu->devices[i];
		struct run_item *idle;
		const struct run_item *busy;

		fold_pieces(run, d);
		idle = device_item(run, d, SORTS);
		busy = device_item(run, d, SORT_ANY);
		for (unsigned k = 0; idle && busy && k < gpu->n_blocks; k++)
			idle->ns[k] = gpu->step_ns[k] - busy->ns[k];
	}
	return run->no_memory ? -ENOMEM : 0;
}
