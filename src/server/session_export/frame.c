/*
 * Samples into frames. A node samples at its own phase, with a little jitter; taking the frame that
 * a sample's time falls into would now and then put two into one frame and none into the next. So
 * the phase of each node is followed, and a sample goes to the frame that is nearest by it.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "server/session_export/session_export_int.h"
#include "core/base/vec.h"

#define WINDOW       65536 /* frames that may be open */
#define OPEN_BEFORE  3     /* frames that stay open before that of the time that is passed */
#define PHASE_SHARE  0.1   /* of what a sample is off, that the phase follows */
#define PERIOD_SHARE 0.2
#define SEVERAL      0.6  /* frames between samples: below it a frame has several */
#define RELOCK       3.0  /* frames without a sample: the phase is taken again */
#define SLOWER       1.25 /* frames between samples: above it a node has none for some frames */

struct session_export_pace {
	double phase;
	double last;   /* where the last sample was, in frames */
	double period; /* between samples, in frames, of late */
	double step;   /* from the sample before the last one to the last, in frames */
	double usual; /* the shorter of its last two steps: a single long one is a gap; 0 not known */
	bool locked;
};

int session_export_frames_open(struct session_export_frames *f, struct archive *a)
{
	const struct gs_store_session *s = a->o->session;

	f->a = a;
	f->interval_ns = s->interval_ns ? s->interval_ns : 1000000000ull;
	f->n_fields = session_export_fields(s, f->field);
	f->n_values = ARCHIVE_N_VALUES + f->n_fields;
	f->gpus = GS_MAP_INIT(1u << 24);
	f->pairs = GS_MAP_INIT(1u << 20);
	f->client = calloc(a->n_nodes + 1, sizeof(*f->client));
	f->pace = calloc(a->n_nodes + 1, sizeof(*f->pace));
	f->open = calloc(WINDOW, sizeof(struct session_export_frame *));
	f->gap_written = true;
	return f->client && f->pace && f->open ? 0 : -ENOMEM;
}

static void frame_free(struct session_export_frame *frame)
{
	if (!frame)
		return;
	free(frame->value);
	free(frame->n_samples);
	free(frame->client);
	free(frame->pair);
	free(frame);
}

void session_export_frames_close(struct session_export_frames *f)
{
	for (size_t i = 0; f->open && i < WINDOW; i++)
		frame_free(f->open[i]);
	for (size_t i = 0; i < f->n_gpus; i++) {
		free(f->gpu[i].id);
		free(f->gpu[i].uuid);
	}
	free(f->gpu);
	free(f->pair);
	free(f->open);
	free(f->pace);
	free(f->client);
	gs_map_fini(&f->gpus);
	gs_map_fini(&f->pairs);
}

/* --- which frame --- */

/* The next sample of a node is so many frames after its last one. */
static void note_step(struct session_export_pace *p, double frames)
{
	if (!p->locked || frames <= 0)
		return;
	p->usual = p->step > 0 ? fmin(frames, p->step) : frames;
	p->step = frames;
}

/* Frames that a sample stands for: those of a node that measures less often than frames follow each other, and
 * those that were downsampled. 0: its own alone. */
static int64_t spread_of(const struct session_export_frames *f, const struct session_export_pace *p,
			 const struct session_export_sample *m)
{
	int64_t coarse = (int64_t)(m->mark.interval_ns / f->interval_ns);
	int64_t slow = p->usual > SLOWER ? (int64_t)fmin(ceil(p->usual), WINDOW) : 0;

	return coarse > slow ? coarse : slow;
}

static int64_t frame_of(const struct session_export_frames *f, struct session_export_pace *p,
			int64_t wall_ns)
{
	double x = (double)(wall_ns - f->a->from_wall_ns) / (double)f->interval_ns;
	int64_t number;

	note_step(p, x - p->last);
	if (!p->locked || fabs(x - p->last) > RELOCK || fabs(p->phase - 0.5) > 1.0) {
		p->phase = x - floor(x);
		p->period = p->locked ? p->period : 1;
		p->locked = true;
	} else {
		p->period += PERIOD_SHARE * (x - p->last - p->period);
	}
	p->last = x;
	/* Several in each frame: there is no nearest one to miss. */
	if (p->period < SEVERAL)
		return x < 0 ? 0 : (int64_t)floor(x);
	number = (int64_t)floor(x - p->phase + 0.5);
	p->phase += PHASE_SHARE * (x - p->phase - (double)number);
	return number < 0 ? 0 : number;
}

/* --- writing frames out --- */

static int write_first(struct session_export_frames *f)
{
	struct session_export_frame **slot = &f->open[f->first % WINDOW],
				    none = {.number = f->first};
	const struct session_export_frame *frame = *slot ? *slot : &none;
	int64_t spread = f->spread > f->filled_spread ? f->spread : f->filled_spread;
	int r = 0;

	/* Of a time without any sample the first frame alone is written: it ends the curves. Where
	 * what is stored before or after it comes less often than frames do, it is none until twice
	 * as long. */
	if (*slot || (!f->gap_written && f->n_gpus && f->first - f->last_filled > 2 * spread)) {
		r = f->write(f->ctx, frame);
		f->a->stats.n_frames++;
		f->gap_written = !*slot;
	}
	if (*slot) {
		f->last_filled = f->first;
		f->filled_spread = frame->spread;
	}
	frame_free(*slot);
	*slot = NULL;
	f->first++;
	return r;
}

/* All before that one. */
static int write_until(struct session_export_frames *f, int64_t number)
{
	int r = 0;

	/* A long time without anything is not walked through one by one. */
	while (r == 0 && f->first < number) {
		if (number - f->first > WINDOW && f->gap_written) {
			bool any = false;

			for (size_t i = 0; i < WINDOW && !any; i++)
				any = f->open[i];
			if (!any) {
				f->first = number;
				break;
			}
		}
		r = write_first(f);
	}
	return r;
}

int session_export_frames_passed(void *ctx, int64_t wall_ns)
{
	struct session_export_frames *f = ctx;
	double x = (double)(wall_ns - f->a->from_wall_ns) / (double)f->interval_ns;

	return write_until(f, (int64_t)floor(x) - OPEN_BEFORE);
}

int session_export_frames_end(struct session_export_frames *f)
{
	int64_t last = -1;

	for (size_t i = 0; i < WINDOW; i++)
		if (f->open[i] && f->open[i]->number > last)
			last = f->open[i]->number;
	return write_until(f, last + 1);
}

/* --- filling frames --- */

static int frame_at(struct session_export_frames *f, int64_t number,
		    struct session_export_frame **ret_frame)
{
	struct session_export_frame *frame;
	int r = number >= f->first + WINDOW ? write_until(f, number - WINDOW + 1) : 0;

	*ret_frame = NULL;
	if (r < 0)
		return r;
	if (number < f->first) {
		f->a->stats.n_late++;
		return 0;
	}
	frame = f->open[number % WINDOW];
	if (!frame) {
		frame = calloc(1, sizeof(*frame));
		if (frame)
			frame->client = calloc(f->a->n_nodes + 1, sizeof(*frame->client));
		if (!frame || !frame->client) {
			frame_free(frame);
			return -ENOMEM;
		}
		frame->number = number;
		f->open[number % WINDOW] = frame;
	}
	*ret_frame = frame;
	return 0;
}

/* The frame has room for all columns there are. */
static int widen_frame(const struct session_export_frames *f, struct session_export_frame *frame)
{
	struct session_export_mean *value;
	uint32_t *n_samples;
	size_t old = frame->n_gpus;

	if (old >= f->n_gpus)
		return 0;
	if (f->n_gpus > frame->max_gpus) {
		size_t n_max = f->max_gpus;

		value = reallocarray(frame->value, n_max * f->n_values, sizeof(*value));
		if (value)
			frame->value = value;
		n_samples = reallocarray(frame->n_samples, n_max, sizeof(*n_samples));
		if (n_samples)
			frame->n_samples = n_samples;
		if (!value || !n_samples)
			return -ENOMEM;
		frame->max_gpus = n_max;
	}
	memset(&frame->value[old * f->n_values], 0,
	       (f->n_gpus - old) * f->n_values * sizeof(*frame->value));
	memset(&frame->n_samples[old], 0, (f->n_gpus - old) * sizeof(*frame->n_samples));
	frame->n_gpus = f->n_gpus;
	return 0;
}

static int find_column(struct session_export_frames *f, uint32_t node,
		       const struct gs_gpu_info *info, size_t *ret_column)
{
	char id[320];
	uint64_t key, at;
	struct session_export_gpu *g;
	int n = snprintf(id, sizeof(id), "%u/%s/%u/%s/%d/%d", node, info->uuid, info->index,
			 info->name, info->gpu_instance, info->compute_instance);

	key = gs_hash_bytes(id, (size_t)n);
	if (gs_map_get(&f->gpus, key, &at)) {
		*ret_column = at;
		return 0;
	}
	if (!gs_vec_reserve(&f->gpu, &f->max_gpus, f->n_gpus + 1))
		return -ENOMEM;
	g = &f->gpu[f->n_gpus];
	*g = (struct session_export_gpu){.node = node};
	session_export_gpu_name(&f->a->node[node], info, id, sizeof(id));
	g->id = strdup(id);
	g->uuid = strdup(info->uuid);
	if (!g->id || !g->uuid || gs_map_put(&f->gpus, key, f->n_gpus) < 0) {
		free(g->id);
		free(g->uuid);
		return -ENOMEM;
	}
	*ret_column = f->n_gpus++;
	f->a->stats.n_gpus++;
	return 0;
}

static void fill_mean(const struct session_export_frames *f, struct session_export_mean *out,
		      const struct gs_gpu_sample *s)
{
	static const unsigned base[ARCHIVE_N_VALUES] = {
		[ARCHIVE_UTIL] = GS_GPU_UTIL,
		[ARCHIVE_MEMORY] = GS_GPU_MEM_USED_RATIO,
		[ARCHIVE_PCIE_RX] = GS_GPU_PCIE_RX_BPS,
		[ARCHIVE_PCIE_TX] = GS_GPU_PCIE_TX_BPS,
		[ARCHIVE_DRAM] = GS_GPU_DRAM_ACTIVE,
		[ARCHIVE_NVLINK_RX] = GS_GPU_NVLINK_RX_BPS,
		[ARCHIVE_NVLINK_TX] = GS_GPU_NVLINK_TX_BPS,
	};
	double v;

	for (size_t i = 0; i < ARCHIVE_N_VALUES; i++)
		if (i == ARCHIVE_AGE) {
			v = session_export_age_s(s, base, ARCHIVE_AGE);
			if (!isnan(v))
				session_export_add(&out[i], v);
		} else if (i == ARCHIVE_MEMORY) {
			if (session_export_memory(s, &v))
				session_export_add(&out[i], v);
		} else if (gs_gpu_has(s, base[i])) {
			session_export_add(&out[i], s->value[base[i]]);
		}
	for (size_t i = 0; i < f->n_fields; i++) {
		struct session_export_mean *m = &out[ARCHIVE_N_VALUES + i];

		if (!gs_gpu_has(s, f->field[i]))
			continue;
		if (gs_gpu_field_info(f->field[i])->counter)
			*m = (struct session_export_mean){s->value[f->field[i]],
							  1}; /* the last one */
		else
			session_export_add(m, s->value[f->field[i]]);
	}
}

/* --- pairs with direct links --- */

static int pair_of(struct session_export_frames *f, size_t x, size_t y,
		   struct session_export_pair **ret_pair)
{
	uint64_t key = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x, at;

	if (!gs_map_get(&f->pairs, key, &at)) {
		if (!gs_vec_reserve_next(&f->pair, f->n_pairs))
			return -ENOMEM;
		f->pair[f->n_pairs] =
			(struct session_export_pair){.gpu = {(uint32_t)(key >> 32), (uint32_t)key}};
		at = f->n_pairs++;
		if (gs_map_put(&f->pairs, key, at) < 0)
			return -ENOMEM;
	}
	*ret_pair = &f->pair[at];
	return 0;
}

static int add_pair_rate(struct session_export_frames *f, struct session_export_frame *frame,
			 struct session_export_pair *p, uint64_t bytes, uint64_t time_ns)
{
	size_t at = (size_t)(p - f->pair);

	if (at >= frame->n_pairs) {
		struct session_export_mean *more =
			reallocarray(frame->pair, f->n_pairs, sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(&more[frame->n_pairs], 0, (f->n_pairs - frame->n_pairs) * sizeof(*more));
		frame->pair = more;
		frame->n_pairs = f->n_pairs;
	}
	if (p->before_ns && time_ns > p->before_ns && bytes >= p->before_bytes)
		session_export_add(&frame->pair[at], (double)(bytes - p->before_bytes) * 1e9 /
							     (double)(time_ns - p->before_ns));
	p->before_bytes = bytes;
	p->before_ns = time_ns;
	return 0;
}

/* Links of one GPU to others of the machine; each pair from its GPU that comes first. */
static int add_links(struct session_export_frames *f, struct session_export_frame *frame,
		     uint32_t node, const struct gs_gpu_snapshot *g, uint32_t i, size_t own)
{
	const struct gs_gpu_sample *s = &g->sample[i];
	int r = 0;

	for (uint32_t k = i + 1; k < g->n_gpus && r == 0; k++) {
		uint64_t bytes = 0;
		bool any = false;
		struct session_export_pair *pair;
		size_t other;

		for (uint32_t l = 0; l < s->n_links; l++)
			if (s->link[l].present && s->link[l].have_bytes &&
			    s->link[l].remote_bus_id[0] &&
			    strcasecmp(s->link[l].remote_bus_id, g->info[k].pci_bus_id) == 0) {
				any = true;
				bytes += s->link[l].tx_bytes + s->link[l].rx_bytes;
			}
		if (!any)
			continue;
		r = find_column(f, node, &g->info[k], &other);
		if (r == 0)
			r = pair_of(f, own, other, &pair);
		if (r == 0)
			r = add_pair_rate(f, frame, pair, bytes, s->time_ns);
	}
	return r;
}

/* --- snapshots --- */

static void add_client(struct session_export_client *c, const struct gs_host_sample *h)
{
	c->n_samples++;
	if (h->mem_total_bytes > 0 && h->mem_used_bytes >= 0)
		session_export_add(&c->memory,
				   (double)h->mem_used_bytes / (double)h->mem_total_bytes);
	else if (h->mem_used_ratio >= 0)
		session_export_add(&c->memory, h->mem_used_ratio);
	if (h->root_used_ratio >= 0)
		session_export_add(&c->disk, h->root_used_ratio);
}

int session_export_frames_sample(void *ctx, const struct session_export_sample *m)
{
	struct session_export_frames *f = ctx;
	const struct gs_gpu_snapshot *g = m->snapshot->gpu;
	struct session_export_frame *frame;
	int r = frame_at(f, frame_of(f, &f->pace[m->node], m->wall_ns), &frame);

	if (r < 0 || !frame)
		return r;
	f->spread = spread_of(f, &f->pace[m->node], m);
	if (f->spread > frame->spread)
		frame->spread = f->spread;
	add_client(&f->client[m->node], &m->snapshot->host->sample);
	add_client(&frame->client[m->node], &m->snapshot->host->sample);
	for (uint32_t i = 0; i < g->n_gpus && r == 0; i++) {
		size_t at;

		r = find_column(f, m->node, &g->info[i], &at);
		if (r == 0)
			r = widen_frame(f, frame);
		if (r < 0)
			break;
		if (g->sample[i].lost)
			continue; /* its values are old ones */
		gs_session_export_sums_add(&f->gpu[at].sums, i, &g->sample[i], &m->mark,
					   m->wall_ns);
		f->gpu[at].n_frames += frame->n_samples[at]++ == 0;
		fill_mean(f, &frame->value[at * f->n_values], &g->sample[i]);
		r = add_links(f, frame, m->node, g, i, at);
	}
	return r;
}
