/* Snapshots into bins. */
#include "output/plot/plot_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define DEVICES_MAX  20000
#define FIRST_BIN_NS 100000000ll
#define GAP_STEPS    3.0

double plot_mean(const struct plot_device *d, enum plot_value v, int bin)
{
	const struct plot_bin *b = &d->bin[v][bin];

	return b->n ? (double)b->sum / b->n : NAN;
}

double plot_util_percentile(const struct plot_device *d, double share)
{
	uint64_t want = (uint64_t)ceil(share * (double)d->n_util), seen = 0;

	if (!d->n_util)
		return NAN;
	for (int i = 0; i < PLOT_PERCENT; i++) {
		seen += d->util_count[i];
		if (seen >= want && seen)
			return (double)i / (PLOT_PERCENT - 1);
	}
	return 1;
}

double plot_energy_j(const struct plot_device *d)
{
	return gs_energy_joules(&d->energy);
}

/* Two bins become one. */
static void halve_bins(struct gs_plot *p)
{
	for (size_t i = 0; i < p->n; i++)
		for (int v = 0; v < PLOT_VALUES; v++) {
			struct plot_bin *b = p->device[i]->bin[v];

			for (int k = 0; k < PLOT_BINS / 2; k++) {
				struct plot_bin x = b[2 * k], y = b[2 * k + 1];

				b[k] = (struct plot_bin){.sum = x.sum + y.sum,
							 .max = fmaxf(x.max, y.max),
							 .n = x.n + y.n};
			}
			memset(&b[PLOT_BINS / 2], 0, PLOT_BINS / 2 * sizeof(*b));
		}
	p->bin_ns *= 2;
}

/* Nodes do not begin at once: what is older than the first bin moves all of them to the right. */
static void shift_bins(struct gs_plot *p, int64_t bins)
{
	for (size_t i = 0; i < p->n; i++)
		for (int v = 0; v < PLOT_VALUES; v++) {
			struct plot_bin *b = p->device[i]->bin[v];

			memmove(&b[bins], b, (size_t)(PLOT_BINS - bins) * sizeof(*b));
			memset(b, 0, (size_t)bins * sizeof(*b));
		}
	p->start_ns -= bins * p->bin_ns;
}

static bool make_room(struct gs_plot *p, int64_t wall_ns)
{
	while (wall_ns < p->start_ns) {
		int64_t bins = (p->start_ns - wall_ns + p->bin_ns - 1) / p->bin_ns;
		int64_t used =
			p->last_ns < p->start_ns ? 0 : (p->last_ns - p->start_ns) / p->bin_ns + 1;

		if (bins + used <= PLOT_BINS)
			shift_bins(p, bins);
		else if (p->bin_ns < INT64_MAX / 4)
			halve_bins(p);
		else
			return false;
	}
	while ((wall_ns - p->start_ns) / p->bin_ns >= PLOT_BINS)
		halve_bins(p);
	return true;
}

static int find_device(struct gs_plot *p, const char *key, struct plot_device **ret_device)
{
	const uint64_t hash = gs_hash_bytes(key, strlen(key));
	struct plot_device *d;
	uint64_t known;

	if (gs_map_get(&p->by_key, hash, &known)) {
		*ret_device = (struct plot_device *)(uintptr_t)known;
		return 0;
	}
	if (p->n == DEVICES_MAX)
		return -ENOBUFS;
	if (!gs_vec_reserve(&p->device, &p->n_max, p->n + 1))
		return -ENOMEM;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	if (gs_map_put(&p->by_key, hash, (uint64_t)(uintptr_t)d) < 0) {
		free(d);
		return -ENOMEM;
	}
	p->device[p->n++] = d;
	*ret_device = d;
	return 0;
}

/* n values of this mean, the highest of them max: gs_bucket_add_mean() in floats. */
static void put_mean(struct plot_device *d, enum plot_value v, int64_t bin, double mean, double max,
		     uint32_t n)
{
	struct plot_bin *b = &d->bin[v][bin];

	if (isnan(mean))
		return;
	b->sum += (float)(mean * n);
	b->max = b->n ? fmaxf(b->max, (float)max) : (float)max;
	b->n += n;
}

struct plot_sample { /* of a GPU, and what its snapshot stands for */
	const struct gs_gpu_sample *s;
	const struct gs_rollup_mark *mark;
	uint32_t gpu;
	int64_t bin;
};

static void put_value(struct plot_device *d, enum plot_value v, const struct plot_sample *x,
		      enum gs_gpu_field field)
{
	double value = gs_gpu_value(x->s, field);

	put_mean(d, v, x->bin, value, gs_rollup_max(x->mark, x->gpu, field, value),
		 gs_rollup_n(x->mark, x->gpu, field));
}

static void put_memory(struct plot_device *d, const struct plot_sample *x)
{
	double max, mean;
	uint32_t n;

	mean = gs_rollup_memory(x->mark, x->gpu, x->s, &max, &n);
	put_mean(d, PLOT_MEMORY, x->bin, mean, max, n);
	if (max > d->memory_max)
		d->memory_max = max;
}

static void add_util(struct plot_device *d, double util, uint32_t n)
{
	if (isnan(util))
		return;
	util = fmin(fmax(util, 0), 1);
	d->util_count[(int)lround(util * (PLOT_PERCENT - 1))] += n;
	d->n_util += n;
	d->n_idle += util < 0.01 ? n : 0;
	d->util_sum += util * n;
}

/* How long the time before a sample may be that is no gap. Two clients may measure the same GPU, so
 * that the time between two samples is that of neither: a sample says how long ago its own source
 * took the one before (elapsed_ns). A single sample that says much is a source that was held up;
 * two in a row are a longer interval, or what was made coarser later. */
static double reach_ns(const struct plot_device *d, double own_ns)
{
	return GAP_STEPS * fmax(d->step_ns, fmin(own_ns, d->before_ns));
}

/* elapsed_ns: 0 the sample does not say it (of other programs). True: a gap is before it. */
static bool add_time(struct plot_device *d, int64_t wall_ns, uint64_t elapsed_ns)
{
	double step = d->first_ns ? (double)(wall_ns - d->last_ns) : 0;
	double own = elapsed_ns ? (double)elapsed_ns : step;
	bool gap = false;

	if (!d->first_ns)
		d->first_ns = wall_ns;
	/* Of the same snapshot, from another source that says nothing: not an interval. */
	if (own <= 0 || (!elapsed_ns && step < d->step_ns / 4))
		own = 0;
	if (own > 0) {
		gap = d->step_ns > 0 && step > reach_ns(d, own);
		d->n_gaps += gap;
		if (d->step_ns <= 0)
			d->step_ns = own;
		else if (own <= reach_ns(d, own))
			d->step_ns = 0.9 * d->step_ns + 0.1 * own;
		d->longest_step_ns =
			fmax(d->longest_step_ns, fmax(d->step_ns, fmin(own, d->before_ns)));
		d->before_ns = own;
	}
	if (wall_ns > d->last_ns)
		d->last_ns = wall_ns;
	return gap;
}

static void add_energy(struct plot_device *d, const struct gs_gpu_sample *s, uint32_t n_watts,
		       int64_t wall_ns, bool gap)
{
	double watts = gs_gpu_value(s, GS_GPU_POWER);

	gs_energy_add(&d->energy, wall_ns, gs_gpu_value(s, GS_GPU_ENERGY), watts,
		      gs_gpu_value(s, GS_GPU_POWER_LIMIT), gap ? 0 : INT64_MAX);
	if (isnan(watts))
		return;
	d->power_sum += watts * n_watts;
	d->n_power += n_watts;
}

static int add_gpu(struct gs_plot *p, const struct gs_node_snapshot *m, uint32_t i,
		   const struct gs_rollup_mark *mark)
{
	const struct gs_gpu_info *info = &m->gpu->info[i];
	const struct gs_gpu_sample *s = &m->gpu->sample[i];
	const struct plot_sample x = {s, mark, i, (m->wall_ns - p->start_ns) / p->bin_ns};
	static const enum gs_gpu_field fields[PLOT_VALUES] = {
		[PLOT_UTIL] = GS_GPU_UTIL,
		[PLOT_PCIE_RX] = GS_GPU_PCIE_RX_BPS,
		[PLOT_PCIE_TX] = GS_GPU_PCIE_TX_BPS,
		[PLOT_NVLINK_RX] = GS_GPU_NVLINK_RX_BPS,
		[PLOT_NVLINK_TX] = GS_GPU_NVLINK_TX_BPS,
		[PLOT_DRAM] = GS_GPU_DRAM_ACTIVE,
		[PLOT_POWER] = GS_GPU_POWER,
	};
	struct plot_device *d;
	char key[96];
	int r;

	if (info->uuid[0])
		snprintf(key, sizeof(key), "%s", info->uuid);
	else
		snprintf(key, sizeof(key), "%.64s/%u/%d", m->name, info->index,
			 info->is_mig ? info->gpu_instance : -1);
	r = find_device(p, key, &d);
	if (r < 0)
		return r;
	if (!d->label[0]) {
		snprintf(d->host, sizeof(d->host), "%s", m->name);
		d->index = info->index;
		if (info->is_mig)
			snprintf(d->label, sizeof(d->label), "%.64s:%u (MIG %d)", m->name,
				 info->index, info->gpu_instance);
		else
			snprintf(d->label, sizeof(d->label), "%.64s:%u", m->name, info->index);
	}
	if (s->lost)
		return 0; /* what it shows was true some time ago */
	d->n_samples += mark && mark->n_samples ? mark->n_samples : 1;
	add_energy(d, s, gs_rollup_n(mark, i, GS_GPU_POWER), m->wall_ns,
		   add_time(d, m->wall_ns, s->elapsed_ns));
	add_util(d, gs_gpu_value(s, GS_GPU_UTIL), gs_rollup_n(mark, i, GS_GPU_UTIL));
	put_memory(d, &x);
	for (unsigned v = 0; v < PLOT_VALUES; v++)
		if (v != PLOT_MEMORY)
			put_value(d, v, &x, fields[v]);
	return 0;
}

int gs_plot_add(struct gs_plot *plot, const struct gs_node_snapshot *snapshot,
		const struct gs_rollup_mark *mark)
{
	int64_t t = snapshot->wall_ns;
	int r = 0;

	if (t <= 0 || (plot->o.from_wall_ns && t < plot->o.from_wall_ns) ||
	    (plot->o.to_wall_ns && t >= plot->o.to_wall_ns))
		return 0;
	if (!plot->stats.n_snapshots)
		plot->start_ns = plot->last_ns = t;
	if (!make_room(plot, t)) {
		plot->stats.n_left_out++;
		return 0;
	}
	if (t > plot->last_ns)
		plot->last_ns = t;
	plot->stats.n_snapshots++;
	for (uint32_t i = 0; r == 0 && i < snapshot->gpu->n_gpus; i++)
		r = add_gpu(plot, snapshot, i, mark);
	return r;
}

void gs_plot_stats(const struct gs_plot *plot, struct gs_plot_stats *ret_stats)
{
	*ret_stats = plot->stats;
	ret_stats->n_devices = plot->n;
	ret_stats->n_gaps = ret_stats->n_samples = 0;
	for (size_t i = 0; i < plot->n; i++) {
		ret_stats->n_gaps += plot->device[i]->n_gaps;
		ret_stats->n_samples += plot->device[i]->n_samples;
	}
}

struct gs_plot *gs_plot_new(const struct gs_plot_options *options)
{
	struct gs_plot *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = *options;
	p->bin_ns = FIRST_BIN_NS;
	p->by_key = GS_MAP_INIT(DEVICES_MAX);
	snprintf(p->title, sizeof(p->title), "%s", options->title ? options->title : "");
	return p;
}

void gs_plot_set_title(struct gs_plot *plot, const char *title)
{
	snprintf(plot->title, sizeof(plot->title), "%s", title);
}

void gs_plot_free(struct gs_plot **plot)
{
	struct gs_plot *p = *plot;

	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->device[i]);
	free(p->device);
	gs_map_fini(&p->by_key);
	gs_free_p(plot);
}
