/* Snapshots into one. */
#include "server/store/rollup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/series/bucket.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "model/node/record.h"

#define PROCESSES_MAX 65536 /* of one snapshot and kind */
#define EVENTS_MAX    65536
#define SHARES        6

struct sums { /* of a GPU; where no mean is made, sum is the last value */
	struct gs_bucket value[GS_GPU_FIELD_COUNT];
};

struct gpu_process {
	struct gs_gpu_process p;
	struct gs_bucket share[SHARES];
	uint32_t seen; /* the snapshot it was in last */
};

struct host_process {
	struct gs_host_process p;
	struct gs_bucket cpu;
	uint32_t seen;
};

enum { /* of struct gs_host_sample */
       HOST_CPU,
       HOST_IOWAIT,
       HOST_LOAD1,
       HOST_LOAD5,
       HOST_LOAD15,
       HOST_DISK_READ,
       HOST_DISK_WRITE,
       HOST_NET_RX,
       HOST_NET_TX,
       HOST_MEM_RATIO,
       HOST_ROOT_RATIO,
       HOST_MEM_USED,
       HOST_SWAP_USED,
       HOST_VALUES
};

struct gs_rollup {
	uint64_t interval_ns;
	uint64_t widest_ns; /* of what is in it, and interval_ns */
	uint32_t n_snapshots, n_samples;
	struct gs_node_snapshot *last; /* owned; NULL: nothing yet */
	uint64_t begin_ns;             /* boot clock: what it stands for begins */
	struct sums *gpu;              /* of last's GPUs */
	struct gs_bucket host[HOST_VALUES];
	struct gpu_process *gpu_process;
	uint32_t n_gpu_processes, max_gpu_processes;
	struct host_process *host_process;
	uint32_t n_host_processes, max_host_processes;
	struct gs_map gpu_by_key, host_by_key;
	struct gs_gpu_event *event;
	uint32_t n_events;
};

/* --- which values --- */

bool gs_rollup_is_mean(enum gs_gpu_field field)
{
	const struct gs_gpu_field_info *info = gs_gpu_field_info(field);

	switch (info->unit) {
	case GS_UNIT_OF_RATIO:
	case GS_UNIT_OF_BYTES:
	case GS_UNIT_OF_CELSIUS:
	case GS_UNIT_OF_WATTS:
	case GS_UNIT_OF_HERTZ:
	case GS_UNIT_OF_BPS:
		return !info->counter;
	default:
		return false;
	}
}

bool gs_rollup_has_peak(enum gs_gpu_field field)
{
	switch (field) {
	case GS_GPU_UTIL:
	case GS_GPU_MEM_USED:
	case GS_GPU_MEM_USED_RATIO:
	case GS_GPU_POWER:
	case GS_GPU_POWER_INSTANT:
	case GS_GPU_TEMP_GPU:
	case GS_GPU_TEMP_MEM:
	case GS_GPU_SM_ACTIVE:
	case GS_GPU_DRAM_ACTIVE:
	case GS_GPU_PCIE_TX_BPS:
	case GS_GPU_PCIE_RX_BPS:
	case GS_GPU_NVLINK_TX_BPS:
	case GS_GPU_NVLINK_RX_BPS:
		return true;
	default:
		return false;
	}
}

/* --- life --- */

struct gs_rollup *gs_rollup_new(uint64_t interval_ns)
{
	struct gs_rollup *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->interval_ns = c->widest_ns = interval_ns;
	c->gpu_by_key = GS_MAP_INIT(PROCESSES_MAX);
	c->host_by_key = GS_MAP_INIT(PROCESSES_MAX);
	return c;
}

static void clear_rollup(struct gs_rollup *c)
{
	gs_node_snapshot_free(&c->last);
	free(c->gpu);
	free(c->event);
	c->gpu = NULL;
	c->event = NULL;
	c->n_events = c->n_snapshots = c->n_samples = 0;
	c->n_gpu_processes = c->n_host_processes = 0;
	gs_map_fini(&c->gpu_by_key);
	gs_map_fini(&c->host_by_key);
	memset(c->host, 0, sizeof(c->host));
	c->widest_ns = c->interval_ns;
}

void gs_rollup_free(struct gs_rollup **coarse)
{
	struct gs_rollup *c = *coarse;

	if (!c)
		return;
	clear_rollup(c);
	free(c->gpu_process);
	free(c->host_process);
	gs_free_p(coarse);
}

uint32_t gs_rollup_count(const struct gs_rollup *c)
{
	return c->n_snapshots;
}

uint32_t gs_rollup_samples(const struct gs_rollup *c)
{
	return c->n_samples;
}

static bool same_gpu(const struct gs_gpu_info *a, const struct gs_gpu_info *b)
{
	return a->index == b->index && strcmp(a->uuid, b->uuid) == 0 &&
	       strcmp(a->pci_bus_id, b->pci_bus_id) == 0 && a->is_mig == b->is_mig &&
	       a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance;
}

bool gs_rollup_fits(const struct gs_rollup *c, const struct gs_node_snapshot *m)
{
	const struct gs_gpu_snapshot *a, *b = m->gpu;

	if (!c->last)
		return true;
	a = c->last->gpu;
	if (m->time_ns < c->last->time_ns || a->n_gpus != b->n_gpus || a->state != b->state ||
	    strcmp(c->last->name, m->name) != 0)
		return false;
	for (uint32_t i = 0; i < b->n_gpus; i++)
		if (!same_gpu(&a->info[i], &b->info[i]) || a->sample[i].lost != b->sample[i].lost)
			return false;
	return true;
}

/* --- adding --- */

/* Of the machine and of processes a value that is not known is negative. */
static void add_known(struct gs_bucket *b, double v, uint32_t weight)
{
	if (v >= 0)
		gs_bucket_add_mean(b, v, v, weight);
}

static double known_mean(const struct gs_bucket *b)
{
	return b->n ? gs_bucket_mean(b) : -1;
}

static void add_gpus(struct gs_rollup *c, const struct gs_gpu_snapshot *g,
		     const struct gs_rollup_mark *mark)
{
	for (uint32_t i = 0; i < g->n_gpus; i++)
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
			struct gs_bucket *b = &c->gpu[i].value[f];
			double v = g->sample[i].value[f];

			if (!gs_gpu_has(&g->sample[i], f) || !isfinite(v))
				continue;
			gs_bucket_add_mean(b, v, gs_rollup_max(mark, i, f, v),
					   gs_rollup_n(mark, i, f));
			if (!gs_rollup_is_mean(f))
				b->sum = v;
		}
}

static const double *host_values(const struct gs_host_sample *h, double out[HOST_VALUES])
{
	out[HOST_CPU] = h->cpu_ratio;
	out[HOST_IOWAIT] = h->iowait_ratio;
	out[HOST_LOAD1] = h->load1;
	out[HOST_LOAD5] = h->load5;
	out[HOST_LOAD15] = h->load15;
	out[HOST_DISK_READ] = h->disk_read_bps;
	out[HOST_DISK_WRITE] = h->disk_write_bps;
	out[HOST_NET_RX] = h->net_rx_bps;
	out[HOST_NET_TX] = h->net_tx_bps;
	out[HOST_MEM_RATIO] = h->mem_used_ratio;
	out[HOST_ROOT_RATIO] = h->root_used_ratio;
	out[HOST_MEM_USED] = (double)h->mem_used_bytes;
	out[HOST_SWAP_USED] = (double)h->swap_used_bytes;
	return out;
}

static void put_host_values(struct gs_host_sample *h, const struct gs_bucket m[HOST_VALUES])
{
	h->cpu_ratio = known_mean(&m[HOST_CPU]);
	h->iowait_ratio = known_mean(&m[HOST_IOWAIT]);
	h->load1 = known_mean(&m[HOST_LOAD1]);
	h->load5 = known_mean(&m[HOST_LOAD5]);
	h->load15 = known_mean(&m[HOST_LOAD15]);
	h->disk_read_bps = known_mean(&m[HOST_DISK_READ]);
	h->disk_write_bps = known_mean(&m[HOST_DISK_WRITE]);
	h->net_rx_bps = known_mean(&m[HOST_NET_RX]);
	h->net_tx_bps = known_mean(&m[HOST_NET_TX]);
	h->mem_used_ratio = known_mean(&m[HOST_MEM_RATIO]);
	h->root_used_ratio = known_mean(&m[HOST_ROOT_RATIO]);
	h->mem_used_bytes = llround(known_mean(&m[HOST_MEM_USED]));
	h->swap_used_bytes = llround(known_mean(&m[HOST_SWAP_USED]));
}

static double *share_of(struct gs_gpu_process *p, int i)
{
	double *const shares[SHARES] = {&p->sm_ratio,  &p->mem_ratio, &p->enc_ratio,
					&p->dec_ratio, &p->jpg_ratio, &p->ofa_ratio};

	return shares[i];
}

/* The place of what has this key, made when it is new. 0 or -ENOMEM, -ENOBUFS. */
static int find_place(struct gs_map *map, uint64_t key, void **rows, uint32_t *n, uint32_t *room,
		      size_t bytes, uint32_t *ret_at)
{
	uint64_t at;
	void *more;
	int r;

	if (gs_map_get(map, key, &at)) {
		*ret_at = (uint32_t)at;
		return 0;
	}
	if (*n == *room) {
		uint32_t larger = *room ? *room * 2 : 64;

		more = reallocarray(*rows, larger, bytes);
		if (!more)
			return -ENOMEM;
		*rows = more;
		*room = larger;
	}
	r = gs_map_put(map, key, *n);
	if (r < 0)
		return r;
	memset((char *)*rows + *n * bytes, 0, bytes);
	*ret_at = (*n)++;
	return 0;
}

static int add_gpu_process(struct gs_rollup *c, const struct gs_gpu_process *p, uint32_t weight)
{
	const uint64_t id[3] = {(uint64_t)p->gpu << 32 | p->pid, p->start_ns,
				(uint64_t)p->kind << 8 | p->gone};
	struct gpu_process *x;
	uint32_t at;
	int r = find_place(&c->gpu_by_key, gs_hash_bytes(id, sizeof(id)), (void **)&c->gpu_process,
			   &c->n_gpu_processes, &c->max_gpu_processes, sizeof(*c->gpu_process),
			   &at);

	if (r < 0)
		return r;
	x = &c->gpu_process[at];
	x->p = *p;
	x->seen = c->n_snapshots;
	for (int i = 0; i < SHARES; i++)
		add_known(&x->share[i], *share_of(&x->p, i), weight);
	return 0;
}

static int add_host_process(struct gs_rollup *c, const struct gs_host_process *p, uint32_t weight)
{
	const uint64_t id[2] = {p->pid, p->start_ns};
	struct host_process *x;
	uint32_t at;
	int r = find_place(&c->host_by_key, gs_hash_bytes(id, sizeof(id)),
			   (void **)&c->host_process, &c->n_host_processes, &c->max_host_processes,
			   sizeof(*c->host_process), &at);

	if (r < 0)
		return r;
	x = &c->host_process[at];
	x->p = *p;
	x->seen = c->n_snapshots;
	add_known(&x->cpu, p->cpu_ratio, weight);
	return 0;
}

static int add_events(struct gs_rollup *c, const struct gs_gpu_snapshot *g)
{
	struct gs_gpu_event *more;

	if (!g->n_events)
		return 0;
	if (c->n_events + g->n_events > EVENTS_MAX)
		return -ENOBUFS;
	more = reallocarray(c->event, c->n_events + g->n_events, sizeof(*more));
	if (!more)
		return -ENOMEM;
	c->event = more;
	memcpy(&c->event[c->n_events], g->event, g->n_events * sizeof(*more));
	c->n_events += g->n_events;
	return 0;
}

/* When what a snapshot covers begins: the sample before it, or the snapshot itself. */
static uint64_t begin_of(const struct gs_node_snapshot *m)
{
	const struct gs_gpu_sample *s = m->gpu->n_gpus ? &m->gpu->sample[0] : NULL;

	return s && s->elapsed_ns && s->elapsed_ns < s->time_ns ? s->time_ns - s->elapsed_ns
								: m->time_ns;
}

int gs_rollup_add(struct gs_rollup *c, struct gs_node_snapshot **snapshot,
		  const struct gs_rollup_mark *mark)
{
	struct gs_node_snapshot *m = *snapshot;
	uint32_t weight = mark && mark->n_samples ? mark->n_samples : 1;
	double host[HOST_VALUES];
	int r = 0;

	if (!c->last) {
		c->gpu = calloc(m->gpu->n_gpus + 1, sizeof(*c->gpu));
		if (!c->gpu)
			return -ENOMEM;
		c->begin_ns = begin_of(m);
	}
	c->n_snapshots++;
	c->n_samples += weight;
	if (mark && mark->interval_ns > c->widest_ns)
		c->widest_ns = mark->interval_ns;
	add_gpus(c, m->gpu, mark);
	host_values(&m->host->sample, host);
	for (int i = 0; i < HOST_VALUES; i++)
		add_known(&c->host[i], host[i], weight);
	for (uint32_t i = 0; r == 0 && i < m->gpu->n_processes; i++)
		r = add_gpu_process(c, &m->gpu->process[i], weight);
	for (uint32_t i = 0; r == 0 && i < m->host->n_processes; i++)
		r = add_host_process(c, &m->host->process[i], weight);
	if (r == 0)
		r = add_events(c, m->gpu);
	gs_node_snapshot_free(&c->last);
	c->last = gs_take(*snapshot);
	return r;
}

/* --- writing --- */

static int by_gpu_and_memory(const void *a, const void *b)
{
	const struct gs_gpu_process *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	return (x->used_bytes < y->used_bytes) - (x->used_bytes > y->used_bytes);
}

static int by_pid(const void *a, const void *b)
{
	const struct gs_host_process *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
				: (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* A snapshot has each pid once, as readers need it: where the kernel gave one again within the
 * interval, only the newer process is kept. Sorted by pid and start. */
static uint32_t drop_reused_pids(struct gs_host_process *p, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (i + 1 == n || p[i + 1].pid != p[i].pid)
			p[kept++] = p[i];
	return kept;
}

static int put_processes(struct gs_rollup *c)
{
	struct gs_gpu_snapshot *g = c->last->gpu;
	struct gs_host_snapshot *h = c->last->host;
	struct gs_gpu_process *gp = calloc(c->n_gpu_processes + 1, sizeof(*gp));
	struct gs_host_process *hp = calloc(c->n_host_processes + 1, sizeof(*hp));

	if (!gp || !hp) {
		free(gp);
		free(hp);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < c->n_gpu_processes; i++) {
		gp[i] = c->gpu_process[i].p;
		gp[i].ended |= c->gpu_process[i].seen != c->n_snapshots;
		for (int k = 0; k < SHARES; k++)
			*share_of(&gp[i], k) = known_mean(&c->gpu_process[i].share[k]);
	}
	for (uint32_t i = 0; i < c->n_host_processes; i++) {
		hp[i] = c->host_process[i].p;
		hp[i].cpu_ratio = known_mean(&c->host_process[i].cpu);
	}
	qsort(gp, c->n_gpu_processes, sizeof(*gp), by_gpu_and_memory);
	qsort(hp, c->n_host_processes, sizeof(*hp), by_pid);
	free(g->process);
	g->process = gp;
	g->n_processes = c->n_gpu_processes;
	free(h->process);
	h->process = hp;
	h->n_processes = drop_reused_pids(hp, c->n_host_processes);
	return 0;
}

static void put_values(struct gs_rollup *c, struct gs_rec_rollup_value *values, uint32_t *n,
		       uint32_t max)
{
	struct gs_gpu_snapshot *g = c->last->gpu;

	for (uint32_t i = 0; i < g->n_gpus; i++)
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
			const struct gs_bucket *b = &c->gpu[i].value[f];
			bool is_mean = gs_rollup_is_mean(f);
			double v = is_mean ? gs_bucket_mean(b) : b->sum;

			if (!b->n)
				continue;
			/* Also of one that the last snapshot did not have. */
			gs_gpu_set(&g->sample[i], f, v);
			if (*n == max || !((is_mean && b->n != c->n_samples) ||
					   (gs_rollup_has_peak(f) && b->max > v)))
				continue;
			values[(*n)++] = (struct gs_rec_rollup_value){
				.gpu = i,
				.key_hash = gs_gpu_key_hash(gs_gpu_field_info(f)->key),
				.n = (uint32_t)b->n,
				.most = gs_rollup_has_peak(f) ? b->max : v,
			};
		}
}

static int put_mark(struct gs_rollup *c, struct gs_buf *out)
{
	const uint32_t max = (GS_RECORD_MAX_BYTES - sizeof(struct gs_rec_rollup)) /
			     sizeof(struct gs_rec_rollup_value);
	GS_FREE struct gs_rec_rollup_value *values = calloc(max, sizeof(*values));
	struct gs_rec_rollup *r;
	uint32_t n = 0;

	if (!values)
		return -ENOMEM;
	put_values(c, values, &n, max);
	r = gs_record_put(out, GS_REC_ROLLUP, sizeof(*r), n * sizeof(*values));
	if (!r)
		return -ENOBUFS;
	r->interval_ns = c->widest_ns;
	r->n_samples = c->n_samples;
	r->n_values = n;
	memcpy(r + 1, values, n * sizeof(*values));
	return 0;
}

int gs_rollup_put(struct gs_rollup *c, struct gs_buf *out, int64_t *ret_wall_ns)
{
	size_t before = out->bytes;
	struct gs_gpu_snapshot *g;
	int r;

	if (!c->last)
		return -EINVAL;
	g = c->last->gpu;
	*ret_wall_ns = c->last->wall_ns;
	/* One alone stays as it was measured. */
	r = c->n_samples > 1 ? put_mark(c, out) : gs_node_encode(out, c->last);
	if (r == 0 && c->n_samples > 1)
		r = put_processes(c);
	if (r == 0 && c->n_samples > 1) {
		for (uint32_t i = 0; i < g->n_gpus; i++)
			if (g->sample[i].time_ns > c->begin_ns)
				g->sample[i].elapsed_ns = g->sample[i].time_ns - c->begin_ns;
		if (c->last->host->sample.time_ns > c->begin_ns)
			c->last->host->sample.elapsed_ns =
				c->last->host->sample.time_ns - c->begin_ns;
		put_host_values(&c->last->host->sample, c->host);
		free(g->event);
		g->event = gs_take(c->event);
		g->n_events = c->n_events;
		r = gs_node_encode(out, c->last);
	}
	if (r < 0)
		out->bytes = before;
	clear_rollup(c);
	return r;
}
