/*
 * GPUs on a timeline: samples of a machine (model/trace/record_node.h) as they come become points on
 * tracks. A GPU has a group of tracks: values over time, stretches in which its clocks were throttled,
 * and XIDs; a process has its shares of each GPU. What the driver says is measured by the device, and
 * the tracks say so; those of streams (streams.c) are bounds as the host sees them.
 *
 * A value stands at the time when it was read, which may be before its sample's, and once. Samples of
 * a trace have its clock; those of recordings of samples may be of several machines, which have only
 * the time of day in common.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/node/gpu_throttle.h"
#include "model/node/record.h"

#define MAX_GPUS      4096
#define MAX_PROCESSES 16384 /* on all GPUs, ever */
/* Ages of values are whole ms: the same reading may seem that much younger in the next sample. */
#define SAME_NS 2000000ull

/* What is drawn of a GPU. */
static const struct {
	enum gs_gpu_field field;
	const char *name;
	enum gs_export_gpu_unit unit;
	double scale;
} gauges[] = {
	{GS_GPU_UTIL, "utilization", GS_EXPORT_GPU_PERCENT, 100},
	{GS_GPU_SM_ACTIVE, "SMs active", GS_EXPORT_GPU_PERCENT, 100},
	{GS_GPU_PIPE_TENSOR, "tensor cores active", GS_EXPORT_GPU_PERCENT, 100},
	{GS_GPU_DRAM_ACTIVE, "memory bandwidth", GS_EXPORT_GPU_PERCENT, 100},
	{GS_GPU_MEM_USED, "memory used", GS_EXPORT_GPU_BYTES, 1},
	{GS_GPU_POWER, "power", GS_EXPORT_GPU_WATTS, 1},
	{GS_GPU_CLOCK_SM, "SM clock", GS_EXPORT_GPU_MEGAHERTZ, 1e-6},
	{GS_GPU_CLOCK_MEM, "memory clock", GS_EXPORT_GPU_MEGAHERTZ, 1e-6},
	{GS_GPU_TEMP_GPU, "temperature", GS_EXPORT_GPU_CELSIUS, 1},
	{GS_GPU_TEMP_MEM, "memory temperature", GS_EXPORT_GPU_CELSIUS, 1},
	{GS_GPU_PCIE_RX_BPS, "PCIe received", GS_EXPORT_GPU_BYTES_A_SECOND, 1},
	{GS_GPU_PCIE_TX_BPS, "PCIe sent", GS_EXPORT_GPU_BYTES_A_SECOND, 1},
	{GS_GPU_NVLINK_RX_BPS, "NVLink received", GS_EXPORT_GPU_BYTES_A_SECOND, 1},
	{GS_GPU_NVLINK_TX_BPS, "NVLink sent", GS_EXPORT_GPU_BYTES_A_SECOND, 1},
};

struct gauge {
	uint32_t track; /* 0: none yet */
	uint64_t read_ns;
};

struct drawn_gpu {
	char host[GS_HOST_NAME_BYTES];
	char uuid[80], pci_bus_id[32];
	char name[160]; /* of its group */
	uint32_t group; /* the number of that, 0: not announced yet */
	struct gauge gauges[GS_ARRAY_LEN(gauges)];
	uint32_t held_track, xid_track;
	uint64_t held_ns; /* since when its clocks are throttled; 0: they are not */
	char held[GS_GPU_THROTTLE_TEXT_BYTES];
	bool is_lost;
};

struct drawn_process {
	uint32_t gpu, pid;
	uint32_t share_track, memory_track;
	uint64_t turn; /* of samples, when it was there last */
	bool is_there;
	char comm[16];
};

struct gs_export_gpus {
	struct gs_export *export;
	struct gs_node_decoder *decoder;
	struct drawn_gpu *gpus; /* owned */
	uint32_t n_gpus, cap_gpus;
	struct drawn_process *processes; /* owned */
	uint32_t n_processes, cap_processes;
	struct gs_map process_idx; /* GPU and pid -> index */
	struct gs_map traced;      /* pid -> id of the traced process that has it, or had it last */
	uint32_t n_there;          /* processes that are on a GPU now */
	uint32_t hint;             /* where the next GPU of a sample is looked for first */
	uint32_t last_track;
	uint64_t turn;
};

int gs_export_gpus_new(struct gs_export *e)
{
	struct gs_export_gpus *g = calloc(1, sizeof(*g));

	if (g)
		g->decoder = gs_node_decoder_new();
	if (!g || !g->decoder) {
		free(g);
		return -ENOMEM;
	}
	g->export = e;
	g->process_idx = GS_MAP_INIT(MAX_PROCESSES);
	g->traced = GS_MAP_INIT(GS_DICT_MAX_ID);
	e->gpus = g;
	return 0;
}

void gs_export_gpus_free(struct gs_export_gpus **gpus)
{
	struct gs_export_gpus *g = *gpus;

	if (!g)
		return;
	gs_node_decoder_free(&g->decoder);
	gs_map_fini(&g->process_idx);
	gs_map_fini(&g->traced);
	free(g->gpus);
	free(g->processes);
	free(g);
	*gpus = NULL;
}

/* --- points --- */

/* A track is announced with its first point: *track is 0 until then. */
static void put_point(struct gs_export_gpus *g, uint32_t gpu, uint32_t *track,
		      struct gs_export_gpu_point *point)
{
	struct drawn_gpu *d = &g->gpus[gpu];

	point->gpu = gpu;
	point->gpu_name = d->name;
	point->is_new_group = !d->group;
	if (!d->group)
		d->group = ++g->last_track;
	point->is_new_track = !*track;
	if (!*track)
		*track = ++g->last_track;
	point->group = d->group;
	point->track = *track;
	gs_export_write_gpu_point(g->export, point);
}

static void put_value(struct gs_export_gpus *g, uint32_t gpu, unsigned gauge, uint64_t time_ns,
		      double value)
{
	struct gs_export_gpu_point point = {
		.kind = GS_EXPORT_GPU_VALUE,
		.name = gauges[gauge].name,
		.unit = gauges[gauge].unit,
		.time_ns = time_ns,
		.value = value * gauges[gauge].scale,
	};

	put_point(g, gpu, &g->gpus[gpu].gauges[gauge].track, &point);
}

static void put_instant(struct gs_export_gpus *g, uint32_t gpu, uint64_t time_ns, const char *text,
			const char *detail)
{
	struct gs_export_gpu_point point = {
		.kind = GS_EXPORT_GPU_MOMENT,
		.name = "XIDs",
		.time_ns = time_ns,
		.text = text,
		.detail = detail,
	};

	put_point(g, gpu, &g->gpus[gpu].xid_track, &point);
}

static void end_held(struct gs_export_gpus *g, uint32_t gpu, uint64_t end_ns)
{
	struct drawn_gpu *d = &g->gpus[gpu];
	struct gs_export_gpu_point point = {
		.kind = GS_EXPORT_GPU_SPAN,
		.name = "clocks throttled",
		.time_ns = d->held_ns,
		.end_ns = end_ns > d->held_ns ? end_ns : d->held_ns,
		.text = d->held,
	};

	if (d->held_ns)
		put_point(g, gpu, &d->held_track, &point);
	d->held_ns = 0;
}

/* --- a snapshot of a machine --- */

/* From its clock to that of the file. */
static uint64_t time_in_file(const struct gs_export_gpus *g, const struct gs_node_snapshot *n,
			     uint64_t boot_ns)
{
	const struct gs_rec_session *s = gs_dict_session(g->export->dict);

	if (!s || s->mode != GS_SESSION_SAMPLES)
		return boot_ns;
	return (uint64_t)(n->wall_ns - s->wall_minus_boot_ns) - (n->time_ns - boot_ns);
}

static void name_gpu(struct drawn_gpu *d, const struct gs_gpu_info *info, const char *other_host)
{
	char number[GS_GPU_NUMBER_BYTES];

	snprintf(d->name, sizeof(d->name), "%s%sGPU %s: %s", other_host, other_host[0] ? " " : "",
		 gs_gpu_number(number, info), info->name[0] ? info->name : info->uuid);
}

/* The GPU of that host, a new one when it is not known; UINT32_MAX: no room. */
static uint32_t find_gpu(struct gs_export_gpus *g, const char *host, const struct gs_gpu_info *info)
{
	struct drawn_gpu *d;

	/* They come in the same order each time. */
	for (uint32_t i = g->hint, n = 0; n < g->n_gpus; i++, n++) {
		i = i < g->n_gpus ? i : 0;
		d = &g->gpus[i];
		if (strcmp(d->uuid, info->uuid) != 0 ||
		    strcmp(d->pci_bus_id, info->pci_bus_id) != 0 || strcmp(d->host, host) != 0)
			continue;
		g->hint = i + 1;
		return i;
	}
	if (g->n_gpus == MAX_GPUS || !gs_vec_reserve(&g->gpus, &g->cap_gpus, g->n_gpus + 1))
		return UINT32_MAX;
	d = &g->gpus[g->n_gpus];
	*d = (struct drawn_gpu){0};
	memcpy(d->host, host, sizeof(d->host));
	memcpy(d->uuid, info->uuid, sizeof(d->uuid));
	memcpy(d->pci_bus_id, info->pci_bus_id, sizeof(d->pci_bus_id));
	/* The first machine needs no name. */
	name_gpu(d, info, strcmp(g->gpus[0].host, host) == 0 ? "" : host);
	return g->n_gpus++;
}

static uint64_t read_time(const struct gs_export_gpus *g, const struct gs_node_snapshot *n,
			  const struct gs_gpu_sample *s, enum gs_gpu_field field)
{
	return time_in_file(g, n, s->time_ns - gs_gpu_age_ns(s, field));
}

static void draw_held(struct gs_export_gpus *g, uint32_t gpu, const struct gs_gpu_info *info,
		      const struct gs_gpu_sample *s, uint64_t read_ns)
{
	struct drawn_gpu *d = &g->gpus[gpu];
	char held[GS_GPU_THROTTLE_TEXT_BYTES];

	if (!gs_gpu_has(s, GS_GPU_THROTTLE_REASONS))
		return;
	(void)gs_gpu_throttle_words(info->vendor, s->value[GS_GPU_THROTTLE_REASONS], held,
				    sizeof(held));
	if (d->held_ns && strcmp(held, d->held) == 0)
		return;
	end_held(g, gpu, read_ns);
	memcpy(d->held, held, sizeof(d->held));
	d->held_ns = held[0] ? read_ns : 0;
}

static void draw_sample(struct gs_export_gpus *g, uint32_t gpu, const struct gs_node_snapshot *n,
			uint32_t i)
{
	const struct gs_gpu_sample *s = &n->gpu->sample[i];
	struct drawn_gpu *d = &g->gpus[gpu];

	if (s->lost && !d->is_lost)
		put_instant(g, gpu, time_in_file(g, n, n->time_ns),
			    "the GPU does not answer any more", "");
	d->is_lost = s->lost;
	/* What is known of it is from before. */
	if (s->lost || !s->time_ns)
		return;
	for (unsigned k = 0; k < GS_ARRAY_LEN(gauges); k++) {
		uint64_t read_ns = read_time(g, n, s, gauges[k].field);

		if (!gs_gpu_has(s, gauges[k].field) || read_ns < d->gauges[k].read_ns + SAME_NS)
			continue;
		put_value(g, gpu, k, read_ns, s->value[gauges[k].field]);
		d->gauges[k].read_ns = read_ns;
	}
	draw_held(g, gpu, &n->gpu->info[i], s, read_time(g, n, s, GS_GPU_THROTTLE_REASONS));
}

static struct drawn_process *find_process(struct gs_export_gpus *g, uint32_t gpu, uint32_t pid)
{
	uint64_t key = (uint64_t)gpu << 32 | pid, i;

	if (gs_map_get(&g->process_idx, key, &i))
		return &g->processes[i];
	if (!gs_vec_reserve(&g->processes, &g->cap_processes, g->n_processes + 1) ||
	    gs_map_put(&g->process_idx, key, g->n_processes) < 0)
		return NULL;
	g->processes[g->n_processes] = (struct drawn_process){.gpu = gpu, .pid = pid};
	return &g->processes[g->n_processes++];
}

static void put_share(struct gs_export_gpus *g, struct drawn_process *p, uint64_t time_ns,
		      bool is_memory, double value)
{
	const struct gs_rec_process *traced = NULL;
	char name[96];
	struct gs_export_gpu_point point = {
		.kind = GS_EXPORT_GPU_VALUE,
		.name = name,
		.unit = is_memory ? GS_EXPORT_GPU_BYTES : GS_EXPORT_GPU_PERCENT,
		.time_ns = time_ns,
		.value = value,
	};
	const char *what = is_memory ? "memory" : "SM time";
	uint64_t id;

	if (gs_map_get(&g->traced, p->pid, &id))
		traced = gs_dict_process(g->export->dict, (uint32_t)id);
	point.process = traced;
	if (traced)
		snprintf(name, sizeof(name), "%.*s %s", (int)strcspn(g->gpus[p->gpu].name, ":"),
			 g->gpus[p->gpu].name, what);
	else
		snprintf(name, sizeof(name), "%s of %s (%" PRIu32 ")", what,
			 p->comm[0] ? p->comm : "a process", p->pid);
	put_point(g, p->gpu, is_memory ? &p->memory_track : &p->share_track, &point);
}

/* Those that are there, and once those that are no more. */
static void draw_processes(struct gs_export_gpus *g, const struct gs_node_snapshot *n,
			   const uint32_t *gpus)
{
	const struct gs_rec_session *session = gs_dict_session(g->export->dict);
	bool all = session && session->mode == GS_SESSION_SAMPLES;
	uint64_t time_ns = time_in_file(g, n, n->time_ns);
	uint32_t n_seen = 0;

	for (uint32_t i = 0; i < n->gpu->n_processes; i++) {
		const struct gs_gpu_process *from = &n->gpu->process[i];
		struct drawn_process *p;
		uint64_t id;

		if (from->gpu >= n->gpu->n_gpus || gpus[from->gpu] == UINT32_MAX || from->ended ||
		    (!all && !gs_map_get(&g->traced, from->pid, &id)))
			continue;
		p = find_process(g, gpus[from->gpu], from->pid);
		if (!p)
			continue;
		memcpy(p->comm, from->comm, sizeof(p->comm));
		n_seen += p->turn != g->turn;
		g->n_there += !p->is_there;
		p->turn = g->turn;
		p->is_there = true;
		if (from->sm_ratio >= 0)
			put_share(g, p, time_ns, false, 100 * from->sm_ratio);
		if (from->used_bytes >= 0 && (!from->kept || !p->memory_track))
			put_share(g, p, time_ns, true, (double)from->used_bytes);
	}
	for (uint32_t i = 0; i < g->n_processes && n_seen < g->n_there; i++) {
		struct drawn_process *p = &g->processes[i];

		if (!p->is_there || p->turn == g->turn ||
		    strcmp(g->gpus[p->gpu].host, n->name) != 0)
			continue;
		p->is_there = false;
		g->n_there--;
		if (p->share_track)
			put_share(g, p, time_ns, false, 0);
		if (p->memory_track)
			put_share(g, p, time_ns, true, 0);
	}
}

static void draw_events(struct gs_export_gpus *g, const struct gs_node_snapshot *n)
{
	for (uint32_t i = 0; i < n->gpu->n_events; i++) {
		const struct gs_gpu_event *x = &n->gpu->event[i];
		char text[64];

		snprintf(text, sizeof(text), "XID %" PRIu32 "%s%s", x->xid,
			 gs_gpu_xid_text(x->xid)[0] ? ": " : "", gs_gpu_xid_text(x->xid));
		for (uint32_t k = 0; x->xid && k < g->n_gpus; k++)
			if (strcmp(g->gpus[k].host, n->name) == 0 &&
			    strcmp(g->gpus[k].pci_bus_id, x->pci_bus_id) == 0)
				put_instant(g, k, time_in_file(g, n, x->time_ns), text,
					    strcmp(x->text, gs_gpu_xid_text(x->xid)) == 0
						    ? ""
						    : x->text);
	}
}

static void draw_node(struct gs_export_gpus *g, const struct gs_node_snapshot *n)
{
	GS_FREE uint32_t *gpus = calloc(n->gpu->n_gpus + 1, sizeof(*gpus));

	if (!gpus)
		return;
	g->turn++;
	for (uint32_t i = 0; i < n->gpu->n_gpus; i++) {
		gpus[i] = find_gpu(g, n->name, &n->gpu->info[i]);
		if (gpus[i] != UINT32_MAX)
			draw_sample(g, gpus[i], n, i);
	}
	/* Of a driver that does not answer nothing is of now. */
	if (n->gpu->state != GS_GPU_STATE_HUNG)
		draw_processes(g, n, gpus);
	draw_events(g, n);
}

static void note_process(struct gs_export_gpus *g, const struct gs_rec_process *p)
{
	if (p->pid)
		(void)gs_map_put(&g->traced, p->pid, p->id);
}

int gs_export_gpus_take(struct gs_export_gpus *g, const struct gs_record *r)
{
	struct gs_node_snapshot *n = NULL;
	int e;

	if (r->kind == GS_REC_PROCESS) {
		note_process(g, (const void *)r);
		return 0;
	}
	if (r->kind < GS_REC_GPU_INFO || r->kind > GS_REC_HOST_JOB)
		return 0;
	e = gs_node_decode(g->decoder, r, &n);
	if (e != GS_NODE_WHOLE)
		return e < 0 ? e : 0;
	gs_export_see_time(g->export, time_in_file(g, n, n->time_ns));
	draw_node(g, n);
	gs_node_snapshot_free(&n);
	return 0;
}

void gs_export_gpus_end(struct gs_export_gpus *g)
{
	for (uint32_t i = 0; i < g->n_gpus; i++)
		end_held(g, i, g->export->now_ns);
}
