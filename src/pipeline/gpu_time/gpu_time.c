#include "pipeline/gpu_time/gpu_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/summary/gpu_time.h"

#define KERNELS_MAX 65536u
#define DEVICES_MAX 4096u
#define PIECES_MAX  262144u /* of a device, not yet added up */

struct piece {
	uint64_t start_ns, end_ns;
	uint32_t sorts; /* bits 1 << enum gs_gpu_time_sort that it is of */
};

struct kernel {
	uint32_t name_str, short_str;
	bool is_comm;
	uint64_t runs, total_ns, min_ns, max_ns;
};

struct device {
	struct gs_gpu_time_device d; /* process: its id */
	struct piece *pieces;        /* owned */
	uint32_t n, capacity;
	uint64_t until_ns[GS_GPU_TIME_SORTS]; /* of the stretches so far; 0: of a new window */
};

struct process {
	uint64_t opened_ns; /* 0: no window is open */
	uint64_t window_ns, last_ns;
	uint64_t dropped, discarded, bad;
};

struct gs_gpu_times {
	struct gs_map kernel_of; /* name -> index */
	struct kernel *kernels;  /* owned */
	uint32_t n_kernels, kernels_room;
	struct gs_map device_of; /* process and device -> index */
	struct device *devices;  /* owned, and their pieces */
	uint32_t n_devices, devices_room;
	struct process *processes; /* owned; by id */
	uint32_t n_processes;
	uint64_t windows, yielded, overhead_ns, untimed, left_out;
	uint32_t version, refusal_str;
};

static int make_times(struct gs_gpu_times **ret_times)
{
	struct gs_gpu_times *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->kernel_of = GS_MAP_INIT(KERNELS_MAX);
	t->device_of = GS_MAP_INIT(DEVICES_MAX);
	*ret_times = t;
	return 0;
}

void gs_gpu_times_free(struct gs_gpu_times **times)
{
	struct gs_gpu_times *t = *times;

	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_devices; i++)
		free(t->devices[i].pieces);
	free(t->devices);
	free(t->kernels);
	free(t->processes);
	gs_map_fini(&t->kernel_of);
	gs_map_fini(&t->device_of);
	free(t);
	*times = NULL;
}

/* --- stretches --- */

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void add_stretch(struct device *d, unsigned sort, const struct piece *p)
{
	uint64_t start = p->start_ns, until = d->until_ns[sort];

	if (until && start < until)
		start = until;
	if (p->end_ns <= start)
		return;
	if (sort == GS_GPU_TIME_ANY && until && start > until) {
		d->d.gaps++;
		d->d.gap_ns += start - until;
		if (start - until > d->d.gap_max_ns)
			d->d.gap_max_ns = start - until;
	}
	d->d.busy_ns[sort] += p->end_ns - start;
	d->until_ns[sort] = p->end_ns;
}

static void fold_pieces(struct device *d)
{
	if (!d->n) /* then there may be no memory for them */
		return;
	qsort(d->pieces, d->n, sizeof(*d->pieces), compare_pieces);
	for (uint32_t i = 0; i < d->n; i++)
		for (unsigned sort = 0; sort < GS_GPU_TIME_SORTS; sort++)
			if (d->pieces[i].sorts >> sort & 1)
				add_stretch(d, sort, &d->pieces[i]);
	d->n = 0;
}

/* --- who and what --- */

static struct process *find_process(struct gs_gpu_times *t, uint32_t id)
{
	if (id >= GS_DICT_MAX_ID || !gs_vec_reach(&t->processes, &t->n_processes, id))
		return NULL;
	return &t->processes[id];
}

static struct device *find_device(struct gs_gpu_times *t, uint32_t process, uint32_t number)
{
	uint64_t key = (uint64_t)process << 32 | number, at;
	struct device *d;

	if (gs_map_get(&t->device_of, key, &at))
		return &t->devices[at];
	if (t->n_devices == DEVICES_MAX ||
	    !gs_vec_reserve(&t->devices, &t->devices_room, t->n_devices + 1) ||
	    gs_map_put(&t->device_of, key, t->n_devices) < 0)
		return NULL;
	d = &t->devices[t->n_devices++];
	*d = (struct device){.d = {.process = process, .device = number}};
	return d;
}

static struct kernel *find_kernel(struct gs_gpu_times *t, const struct gs_dict *dict,
				  const struct gs_rec_gpu_work *r)
{
	const char *name;
	struct kernel *k;
	uint64_t at;

	if (gs_map_get(&t->kernel_of, r->name_str, &at))
		return &t->kernels[at];
	if (t->n_kernels == KERNELS_MAX ||
	    !gs_vec_reserve(&t->kernels, &t->kernels_room, t->n_kernels + 1) ||
	    gs_map_put(&t->kernel_of, r->name_str, t->n_kernels) < 0)
		return NULL;
	name = gs_dict_string(dict, r->name_str);
	k = &t->kernels[t->n_kernels++];
	*k = (struct kernel){.name_str = r->name_str,
			     .short_str = r->short_str,
			     .min_ns = UINT64_MAX,
			     .is_comm = strncmp(name, "nccl", 4) == 0};
	return k;
}

/* --- records --- */

static void count_kernel(struct kernel *k, uint64_t ns)
{
	k->runs++;
	k->total_ns += ns;
	if (ns < k->min_ns)
		k->min_ns = ns;
	if (ns > k->max_ns)
		k->max_ns = ns;
}

#define BIT(sort) (1u << GS_GPU_TIME_##sort)

/* Of which sorts it is; 0: of none, it is no work of a device. */
static uint32_t sorts_of(const struct gs_gpu_work *w, const struct kernel *k)
{
	switch (w->what) {
	case GS_WORK_KERNEL:
		if (k && k->is_comm)
			return BIT(ANY) | BIT(COMM) | BIT(COMPUTE_COMM);
		return BIT(ANY) | BIT(COMPUTE) | BIT(COMPUTE_COMM) | BIT(COMPUTE_COPY);
	case GS_WORK_GRAPH:
		return BIT(ANY) | BIT(COMPUTE) | BIT(COMPUTE_COMM) | BIT(COMPUTE_COPY);
	case GS_WORK_COPY:
	case GS_WORK_FILL:
		return BIT(ANY) | BIT(COPY) | BIT(COMPUTE_COPY);
	}
	return 0;
}

static int take_piece(struct gs_gpu_times *t, const struct gs_gpu_work *w, uint32_t process,
		      uint32_t sorts)
{
	struct device *d = find_device(t, process, w->device);

	if (!d) {
		t->left_out++;
		return 0;
	}
	d->d.kernels += w->what == GS_WORK_KERNEL;
	d->d.graphs += w->what == GS_WORK_GRAPH;
	d->d.copies += w->what == GS_WORK_COPY;
	d->d.fills += w->what == GS_WORK_FILL;
	d->d.copied_bytes += w->what == GS_WORK_COPY ? w->bytes : 0;
	if (!w->start_ns || w->end_ns < w->start_ns) {
		t->untimed++;
		return 0;
	}
	if (d->n == PIECES_MAX)
		fold_pieces(d);
	if (!gs_vec_reserve(&d->pieces, &d->capacity, d->n + 1))
		return -ENOMEM;
	d->pieces[d->n++] = (struct piece){w->start_ns, w->end_ns, sorts};
	return 0;
}

static int take_work(struct gs_gpu_times *t, const struct gs_dict *dict,
		     const struct gs_rec_gpu_work *r)
{
	const struct gs_gpu_work *w = &r->work;
	struct process *p = find_process(t, r->process);
	struct kernel *k = NULL;
	uint32_t sorts;

	if (p && w->end_ns > p->last_ns)
		p->last_ns = w->end_ns;
	if (w->what == GS_WORK_OVERHEAD)
		t->overhead_ns += w->end_ns > w->start_ns ? w->end_ns - w->start_ns : 0;
	if (w->what == GS_WORK_KERNEL) {
		k = find_kernel(t, dict, r);
		if (!k)
			t->left_out++;
		else if (w->start_ns && w->end_ns >= w->start_ns)
			count_kernel(k, w->end_ns - w->start_ns);
	}
	sorts = sorts_of(w, k);
	return sorts ? take_piece(t, w, r->process, sorts) : 0;
}

static void end_window(struct gs_gpu_times *t, uint32_t process)
{
	for (uint32_t i = 0; i < t->n_devices; i++) {
		struct device *d = &t->devices[i];

		if (d->d.process != process)
			continue;
		fold_pieces(d);
		memset(d->until_ns, 0, sizeof(d->until_ns));
	}
}

static void take_window(struct gs_gpu_times *t, const struct gs_rec_gpu_window *w)
{
	struct process *p = find_process(t, w->process);

	if (w->version)
		t->version = w->version;
	if (!p)
		return;
	p->dropped = w->dropped;
	p->discarded = w->discarded;
	p->bad = w->bad;
	if (w->text_str)
		t->refusal_str = w->text_str;
	if (w->what != GS_GPU_WINDOW_OPENED && !p->opened_ns)
		return;
	end_window(t, w->process);
	if (w->what == GS_GPU_WINDOW_OPENED) {
		t->windows++;
		p->opened_ns = w->time_ns;
		return;
	}
	t->yielded += w->what == GS_GPU_WINDOW_YIELDED;
	p->window_ns += w->time_ns > p->opened_ns ? w->time_ns - p->opened_ns : 0;
	p->opened_ns = 0;
}

int gs_gpu_times_take(struct gs_gpu_times **times, const struct gs_dict *dict,
		      const struct gs_record *r)
{
	if (r->kind != GS_REC_GPU_WORK && r->kind != GS_REC_GPU_WINDOW)
		return 0;
	if (!*times && make_times(times) < 0)
		return -ENOMEM;
	if (r->kind == GS_REC_GPU_WORK)
		return take_work(*times, dict, (const void *)r);
	take_window(*times, (const void *)r);
	return 0;
}

/* --- the summary --- */

static int compare_kernels(const void *a, const void *b)
{
	const struct gs_gpu_time_kernel *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_devices(const void *a, const void *b)
{
	const struct gs_gpu_time_device *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static void add_kernels(struct gs_gpu_times *t, const struct gs_dict *dict, struct gs_summary *s,
			struct gs_gpu_time *g)
{
	for (uint32_t i = 0; i < t->n_kernels; i++) {
		const struct kernel *k = &t->kernels[i];

		if (!k->runs)
			continue;
		g->kernels[g->n_kernels++] = (struct gs_gpu_time_kernel){
			.name = gs_summary_text(s, gs_dict_string(dict, k->name_str)),
			.short_name = gs_summary_text(s, gs_dict_string(dict, k->short_str)),
			.runs = k->runs,
			.total_ns = k->total_ns,
			.min_ns = k->min_ns,
			.max_ns = k->max_ns};
		g->kernel_ns += k->total_ns;
	}
	qsort(g->kernels, g->n_kernels, sizeof(*g->kernels), compare_kernels);
}

/* A window that is open yet, of a process that was killed, is as long as there is work in it. */
static uint64_t window_of(const struct process *p)
{
	uint64_t open_ns =
		p->opened_ns && p->last_ns > p->opened_ns ? p->last_ns - p->opened_ns : 0;

	return p->window_ns + open_ns;
}

static void add_devices(struct gs_gpu_times *t, const struct gs_dict *dict, struct gs_gpu_time *g)
{
	for (uint32_t i = 0; i < t->n_devices; i++) {
		struct device *d = &t->devices[i];
		const struct gs_rec_process *p = gs_dict_process(dict, d->d.process);
		const struct process *own = find_process(t, d->d.process);

		fold_pieces(d);
		g->devices[g->n_devices] = d->d;
		g->devices[g->n_devices].window_ns = own ? window_of(own) : 0;
		g->devices[g->n_devices++].process = p ? p->pid : 0;
	}
	qsort(g->devices, g->n_devices, sizeof(*g->devices), compare_devices);
}

int gs_gpu_times_summary(struct gs_gpu_times *t, const struct gs_dict *dict, struct gs_summary *s)
{
	struct gs_gpu_time *g;

	if (!t)
		return 0;
	g = gs_summary_alloc(s, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->kernels = gs_summary_alloc(s, (t->n_kernels + 1) * sizeof(*g->kernels));
	g->devices = gs_summary_alloc(s, (t->n_devices + 1) * sizeof(*g->devices));
	if (!g->kernels || !g->devices)
		return -ENOMEM;
	add_kernels(t, dict, s, g);
	add_devices(t, dict, g);
	for (uint32_t i = 0; i < t->n_processes; i++) {
		g->window_ns += window_of(&t->processes[i]);
		g->dropped += t->processes[i].dropped;
		g->discarded += t->processes[i].discarded;
		g->bad += t->processes[i].bad;
	}
	g->windows = t->windows;
	g->yielded = t->yielded;
	g->overhead_ns = t->overhead_ns;
	g->untimed = t->untimed;
	g->left_out = t->left_out;
	g->version = t->version;
	g->refusal = gs_summary_text(s, gs_dict_string(dict, t->refusal_str));
	s->gpu_time = g;
	return 0;
}
