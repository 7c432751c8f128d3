/*
 * Series of a GPU's samples: its state, its memory, whether it is held and idle or throttled at work, XIDs,
 * and errors of its links. Counters of errors only grow: what they grew by since the sample before is the
 * sample of their series; one that fell was started again, and one that was not known before says nothing yet.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "analysis/gpu_health/gpu_health.h"
#include "core/base/mem.h"

#define MAX_GPUS  64
#define IDLE_BUSY 0.01 /* of its time: less is nothing */

/* Not among them: NVLINK_SYMBOL, which error correction mends as it should, and discards. */
static const enum gs_gpu_field pcie_fields[] = {GS_GPU_PCIE_REPLAYS, GS_GPU_PCIE_CORRECTABLE,
						GS_GPU_PCIE_NON_FATAL, GS_GPU_PCIE_FATAL};
static const enum gs_gpu_field nvlink_fields[] = {
	GS_GPU_NVLINK_CRC,       GS_GPU_NVLINK_REPLAY,         GS_GPU_NVLINK_RECOVERY,
	GS_GPU_NVLINK_MALFORMED, GS_GPU_NVLINK_OVERRUN,        GS_GPU_NVLINK_RECEIVE,
	GS_GPU_NVLINK_REMOTE,    GS_GPU_NVLINK_GENERAL,        GS_GPU_NVLINK_INTEGRITY,
	GS_GPU_NVLINK_EFFECTIVE, GS_GPU_NVLINK_RECOVERY_FAILED};

struct counters { /* of one GPU, as they were last; NAN: not known yet */
	char name[GS_EXPLAIN_NAME_BYTES];
	double pcie[GS_ARRAY_LEN(pcie_fields)], nvlink[GS_ARRAY_LEN(nvlink_fields)];
};

struct gpus {
	struct counters counters[MAX_GPUS];
	uint32_t n;
};

struct gpus *explain_gpus_new(void)
{
	return calloc(1, sizeof(struct gpus));
}

void explain_gpus_free(struct gpus **gpus)
{
	free(*gpus);
	*gpus = NULL;
}

void explain_name_gpu(const struct gs_node_snapshot *node, uint32_t gpu,
		      char out[GS_EXPLAIN_NAME_BYTES])
{
	char number[GS_GPU_NUMBER_BYTES];

	snprintf(out, GS_EXPLAIN_NAME_BYTES, "%.30s GPU %s", node->name,
		 gs_gpu_number(number, &node->gpu->info[gpu]));
}

/* The job that is on a GPU; "": none, or several are. */
static const char *job_on_gpu(const struct gs_node_snapshot *node, uint32_t gpu)
{
	const char *found = "";

	for (uint32_t i = 0; i < node->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &node->gpu->process[i];
		const struct gs_host_process *of = gs_host_process_of(node->host, p->pid);
		const char *job = p->job[0] || !of ? p->job : of->job;

		if (p->gpu != gpu || p->ended || !job[0] || strcmp(job, found) == 0)
			continue;
		if (found[0])
			return "";
		found = job;
	}
	return found;
}

/* Memory that processes hold of it, bytes; NAN: of one it is not known. */
static double held_on_gpu(const struct gs_gpu_snapshot *gpus, uint32_t gpu)
{
	double held = 0;

	for (uint32_t i = 0; i < gpus->n_processes; i++) {
		const struct gs_gpu_process *p = &gpus->process[i];

		if (p->gpu == gpu && !p->ended)
			held += p->used_bytes >= 0 ? (double)p->used_bytes : NAN;
	}
	return held;
}

struct gpu_now { /* one GPU in one sample */
	const struct gs_node_snapshot *node;
	uint32_t gpu;
	const struct gs_gpu_sample *sample;
	struct owner owner;
	char name[GS_EXPLAIN_NAME_BYTES];
};

static int feed_gpu(struct gs_explain *e, const struct gpu_now *g,
		    const struct gs_detector *detector, enum gs_explain_subject subject,
		    const double *values)
{
	return explain_feed_named(e, detector, subject, g->name, g->owner, g->node->time_ns,
				  values);
}

/* --- errors --- */

static struct counters *find_counters(struct gpus *gpus, const char *name)
{
	struct counters *c;

	for (uint32_t i = 0; i < gpus->n; i++)
		if (strcmp(gpus->counters[i].name, name) == 0)
			return &gpus->counters[i];
	if (gpus->n == MAX_GPUS)
		return NULL;
	c = &gpus->counters[gpus->n++];
	snprintf(c->name, sizeof(c->name), "%s", name);
	for (size_t i = 0; i < GS_ARRAY_LEN(c->pcie); i++)
		c->pcie[i] = NAN;
	for (size_t i = 0; i < GS_ARRAY_LEN(c->nvlink); i++)
		c->nvlink[i] = NAN;
	return c;
}

/* What the counters grew by; NAN: none of them is known. */
static double grow_counters(const struct gs_gpu_sample *s, const enum gs_gpu_field *fields,
			    size_t n, double *last)
{
	double sum = NAN;

	for (size_t i = 0; i < n; i++) {
		double now = gs_gpu_value(s, fields[i]);

		if (!isfinite(now))
			continue;
		sum = isfinite(sum) ? sum : 0;
		if (now > last[i]) /* NAN is not exceeded */
			sum += now - last[i];
		last[i] = now;
	}
	return sum;
}

static int feed_links(struct gs_explain *e, struct gpus *gpus, const struct gpu_now *g)
{
	struct counters *c = find_counters(gpus, g->name);
	double pcie, nvlink;
	int r;

	if (!c)
		return 0;
	pcie = grow_counters(g->sample, pcie_fields, GS_ARRAY_LEN(pcie_fields), c->pcie);
	nvlink = grow_counters(g->sample, nvlink_fields, GS_ARRAY_LEN(nvlink_fields), c->nvlink);
	r = feed_gpu(e, g, &gs_detect_link_errors, GS_EXPLAIN_PCIE, &pcie);
	return r == 0 ? feed_gpu(e, g, &gs_detect_link_errors, GS_EXPLAIN_NVLINK, &nvlink) : r;
}

/* Each number is a series of its own: of a GPU that fails the first XID may hide the one that says why. */
static int feed_xids(struct gs_explain *e, struct gpu_now *g)
{
	const struct gs_gpu_snapshot *s = g->node->gpu;
	size_t n = strlen(g->name);
	int r = 0;

	for (uint32_t i = 0; i < s->n_events && r == 0; i++) {
		if (!s->event[i].xid || !gs_gpu_health_is_of(&s->event[i], &s->info[g->gpu]))
			continue;
		snprintf(g->name + n, sizeof(g->name) - n, " XID %u", s->event[i].xid);
		g->owner.xid = s->event[i].xid;
		r = feed_gpu(e, g, &gs_detect_xid, GS_EXPLAIN_XID, &(double){1});
	}
	g->name[n] = '\0';
	g->owner.xid = 0;
	return r;
}

/* --- samples --- */

/* Its power cap is none of these: more work alone brings it about. */
static bool is_throttled(const struct gs_gpu_snapshot *gpus, uint32_t gpu)
{
	const uint32_t slowing =
		1u << GS_GPU_CONDITION_HW_HEAT | 1u << GS_GPU_CONDITION_POWER_BRAKE |
		1u << GS_GPU_CONDITION_HW_SLOWDOWN | 1u << GS_GPU_CONDITION_SW_HEAT;
	struct gs_gpu_health health;

	gs_gpu_health_judge(gpus, gpu, &health);
	return health.holds & slowing;
}

int explain_gpus_take(struct gs_explain *e, struct gpus *gpus, const struct gs_node_snapshot *node,
		      uint32_t i)
{
	const struct gs_gpu_sample *s = &node->gpu->sample[i];
	double used = gs_gpu_value(s, GS_GPU_MEM_USED);
	/* What is not known is not finite, and then the detector leaves the sample out. */
	double state[GS_DETECT_MAX_VALUES] = {
		used / gs_gpu_value(s, GS_GPU_MEM_TOTAL),
		gs_gpu_value(s, GS_GPU_POWER) / gs_gpu_value(s, GS_GPU_POWER_LIMIT),
		gs_gpu_value(s, GS_GPU_TEMP_GPU),
	};
	double busy = gs_gpu_value(s, GS_GPU_UTIL);
	double idle[] = {isfinite(busy) ? busy <= IDLE_BUSY : NAN, held_on_gpu(node->gpu, i)};
	bool is_known = isfinite(gs_gpu_value(s, GS_GPU_THROTTLE_REASONS));
	double throttled[] = {is_known ? is_throttled(node->gpu, i) : NAN,
			      isfinite(busy) ? busy : 1};
	struct gpu_now g = {node, i, s, {.job = job_on_gpu(node, i), .gpu = i + 1}, ""};
	int r;

	explain_name_gpu(node, i, g.name);
	r = feed_gpu(e, &g, &gs_detect_gpu_density, GS_EXPLAIN_GPU_STATE, state);
	if (r == 0)
		r = feed_gpu(e, &g, &gs_detect_leak, GS_EXPLAIN_GPU_MEMORY, &used);
	if (r == 0)
		r = feed_gpu(e, &g, &gs_detect_idle, GS_EXPLAIN_IDLE_GPU, idle);
	if (r == 0)
		r = feed_gpu(e, &g, &gs_detect_throttle, GS_EXPLAIN_THROTTLED, throttled);
	if (r == 0)
		r = feed_links(e, gpus, &g);
	return r == 0 ? feed_xids(e, &g) : r;
}
