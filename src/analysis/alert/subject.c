/* Names of values, and subjects filled from jobs, GPUs and the node. */
#include "analysis/alert/subject.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

/* A GPU's values: fields, the percents of shares, then those of GS_ALERT_GPU_VALUES. */
#define PERCENT_AT GS_GPU_FIELD_COUNT
#define MORE_AT    (2 * GS_GPU_FIELD_COUNT)
#define HEALTH_AT  (MORE_AT + GPU_MORE_COUNT)
#define SCORE_AT   GS_FIGURE_COUNT

enum gpu_more {
#define GPU_ID(id, ...) GPU_##id,
	GS_ALERT_GPU_VALUES(GPU_ID)
#undef GPU_ID
		GPU_MORE_COUNT
};

_Static_assert(HEALTH_AT + GS_GPU_CONDITION_COUNT <= GS_ALERT_VALUES_MAX,
	       "room for values of GPUs");
_Static_assert(SCORE_AT + 1 <= GS_ALERT_VALUES_MAX, "room for figures of jobs");

static const char *const node_keys[] = {
#define KEY(id, key, help) key,
	GS_ALERT_NODE_VALUES(KEY)};
static const char *const gpu_keys[] = {GS_ALERT_GPU_VALUES(KEY)};
#undef KEY

static const char score_key[] = "efficiency_score";

const char *gs_alert_kind_name(enum gs_alert_kind kind)
{
	static const char *const names[GS_ALERT_KINDS] = {"none", "job", "gpu", "node"};

	return (unsigned)kind < GS_ALERT_KINDS ? names[kind] : "none";
}

static int find_key(const char *const *keys, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(keys[i], key) == 0)
			return (int)i;
	return -1;
}

/* "x_percent" for a field "x_ratio". */
static int percent_of(const char *key)
{
	static const char percent[] = "_percent", ratio[] = "_ratio";
	size_t n = strlen(key), k = sizeof(percent) - 1;
	char field[96];

	if (n <= k || n >= sizeof(field) || strcmp(key + n - k, percent) != 0)
		return -1;
	snprintf(field, sizeof(field), "%.*s%s", (int)(n - k), key, ratio);
	return gs_gpu_field_by_key(field);
}

static const char health_prefix[] = "health_";

/* "health_KEY" of a condition. */
static int condition_of(const char *key)
{
	size_t n = strlen(health_prefix);

	if (strncmp(key, health_prefix, n) != 0)
		return -1;
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++)
		if (strcmp(gs_gpu_condition_key((enum gs_gpu_condition)c), key + n) == 0)
			return (int)c;
	return -1;
}

int gs_alert_value_of(enum gs_alert_kind kind, const char *key)
{
	int i;

	switch (kind) {
	case GS_ALERT_JOB:
		return strcmp(key, score_key) == 0 ? SCORE_AT : gs_figure_by_key(key);
	case GS_ALERT_NODE:
		return find_key(node_keys, GS_ARRAY_LEN(node_keys), key);
	case GS_ALERT_GPU:
		i = find_key(gpu_keys, GS_ARRAY_LEN(gpu_keys), key);
		if (i >= 0)
			return MORE_AT + i;
		i = condition_of(key);
		if (i >= 0)
			return HEALTH_AT + i;
		i = percent_of(key);
		return i >= 0 ? PERCENT_AT + i : gs_gpu_field_by_key(key);
	default:
		return -1;
	}
}

const char *gs_alert_value_key(enum gs_alert_kind kind, unsigned index, char *out, size_t bytes)
{
	const char *key = "";

	if (kind == GS_ALERT_JOB)
		key = index == SCORE_AT ? score_key : gs_figure_key(index);
	else if (kind == GS_ALERT_NODE)
		key = index < GS_ARRAY_LEN(node_keys) ? node_keys[index] : "";
	else if (kind == GS_ALERT_GPU && index >= HEALTH_AT)
		key = gs_gpu_condition_key((enum gs_gpu_condition)(index - HEALTH_AT));
	else if (kind == GS_ALERT_GPU && index >= MORE_AT)
		key = index - MORE_AT < GS_ARRAY_LEN(gpu_keys) ? gpu_keys[index - MORE_AT] : "";
	else if (kind == GS_ALERT_GPU && gs_gpu_field_info(index % GS_GPU_FIELD_COUNT))
		key = gs_gpu_field_info(index % GS_GPU_FIELD_COUNT)->key;
	if (kind == GS_ALERT_GPU && index >= PERCENT_AT && index < MORE_AT && strlen(key) > 6)
		snprintf(out, bytes, "%.*s_percent", (int)(strlen(key) - strlen("_ratio")), key);
	else
		snprintf(out, bytes, "%s%s",
			 key[0] && kind == GS_ALERT_GPU && index >= HEALTH_AT ? health_prefix : "",
			 key);
	return out;
}

void gs_alert_subject_init(struct gs_alert_subject *s, enum gs_alert_kind kind, const char *id)
{
	memset(s, 0, sizeof(*s));
	s->kind = kind;
	snprintf(s->id, sizeof(s->id), "%s", id);
	snprintf(s->title, sizeof(s->title), "%s %s", gs_alert_kind_name(kind), id);
	for (size_t i = 0; i < GS_ALERT_VALUES_MAX; i++)
		s->v[i] = NAN;
}

void gs_alert_subject_label(struct gs_alert_subject *s, const char *name, const char *value)
{
	struct gs_alert_label *l = &s->label[s->n_labels];

	if (!value[0] || s->n_labels == GS_ALERT_LABELS_MAX)
		return;
	snprintf(l->name, sizeof(l->name), "%s", name);
	snprintf(l->value, sizeof(l->value), "%s", value);
	s->n_labels++;
}

void gs_alert_subject_set(struct gs_alert_subject *s, const char *key, double value)
{
	int i = gs_alert_value_of(s->kind, key);

	if (i >= 0)
		s->v[i] = value;
}

void gs_alert_of_job(struct gs_alert_subject *s, const struct gs_job *job,
		     const struct gs_figures *figures, double score)
{
	size_t n;

	gs_alert_subject_init(s, GS_ALERT_JOB, job->id);
	memcpy(s->v, figures->v, sizeof(figures->v));
	s->v[SCORE_AT] = score;
	gs_alert_subject_label(s, "job", job->id);
	gs_alert_subject_label(s, "user", job->user);
	gs_alert_subject_label(s, "job_name", job->name);
	gs_alert_subject_label(s, "account", job->account);
	gs_alert_subject_label(s, "partition", job->partition);
	n = (size_t)snprintf(s->title, sizeof(s->title), "%s%s",
			     job->kind == GS_JOB_SLURM ? "job " : "", job->id);
	if (job->user[0] && n < sizeof(s->title))
		n += (size_t)snprintf(s->title + n, sizeof(s->title) - n, " of %s", job->user);
	if (job->name[0] && n < sizeof(s->title))
		snprintf(s->title + n, sizeof(s->title) - n, " (%.64s)", job->name);
}

static void put_health(struct gs_alert_subject *s, const struct gs_gpu_snapshot *gpus, uint32_t gpu)
{
	struct gs_gpu_health h;

	gs_gpu_health_judge(gpus, gpu, &h);
	s->v[MORE_AT + GPU_HEALTH] = h.severity;
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++) {
		s->v[HEALTH_AT + c] = h.holds >> c & 1;
		if (!(h.holds >> c & 1) || s->n_health == GS_ALERT_HEALTH_MAX)
			continue;
		s->health[s->n_health].condition = (enum gs_gpu_condition)c;
		gs_gpu_health_text(gpus, gpu, (enum gs_gpu_condition)c,
				   s->health[s->n_health++].text);
	}
}

void gs_alert_of_gpu(struct gs_alert_subject *s, const struct gs_gpu_snapshot *gpus, uint32_t gpu)
{
	const struct gs_gpu_info *info = &gpus->info[gpu];
	const struct gs_gpu_sample *sample = &gpus->sample[gpu];
	double *more = s->v + MORE_AT, n = 0;
	char index[24];

	gs_alert_subject_init(s, GS_ALERT_GPU, info->uuid[0] ? info->uuid : info->pci_bus_id);
	snprintf(index, sizeof(index), "%u", info->index);
	gs_alert_subject_label(s, "gpu", index);
	gs_alert_subject_label(s, "uuid", info->uuid);
	gs_alert_subject_label(s, "pci_bus_id", info->pci_bus_id);
	gs_alert_subject_label(s, "model", info->name);
	snprintf(s->title, sizeof(s->title), "GPU %u (%.60s)", info->index,
		 info->name[0] ? info->name : info->pci_bus_id);
	more[GPU_LOST] = sample->lost;
	put_health(s, gpus, gpu);
	/* What was known before it was lost says nothing of now. */
	if (sample->lost)
		return;
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
		if (!gs_gpu_has(sample, f))
			continue;
		s->v[f] = sample->value[f];
		if (gs_gpu_field_info(f)->unit == GS_UNIT_OF_RATIO)
			s->v[PERCENT_AT + f] = 100 * sample->value[f];
	}
	more[GPU_MEMORY] = 100 * gs_gpu_memory_ratio(sample);
	for (uint32_t i = 0; i < gpus->n_processes; i++)
		n += gpus->process[i].gpu == gpu && !gpus->process[i].ended;
	more[GPU_PROCESSES] = n;
	more[GPU_XIDS] = 0;
	for (uint32_t i = 0; i < gpus->n_events; i++)
		more[GPU_XIDS] += gpus->event[i].xid &&
				  strcmp(gpus->event[i].pci_bus_id, info->pci_bus_id) == 0;
}

static double nan_unless_known(double v)
{
	return v < 0 ? NAN : v;
}

static void put_host(struct gs_alert_subject *s, const struct gs_host_sample *h)
{
	double *v = s->v;

	v[GS_ALERT_NODE_CPU] = nan_unless_known(h->elapsed_ns ? 100 * h->cpu_ratio : -1);
	v[GS_ALERT_NODE_IOWAIT] = nan_unless_known(h->elapsed_ns ? 100 * h->iowait_ratio : -1);
	v[GS_ALERT_NODE_LOAD1] = nan_unless_known(h->load1);
	v[GS_ALERT_NODE_LOAD5] = nan_unless_known(h->load5);
	v[GS_ALERT_NODE_LOAD15] = nan_unless_known(h->load15);
	v[GS_ALERT_NODE_CPUS] = nan_unless_known(h->n_cpus);
	v[GS_ALERT_NODE_RUNNING] = nan_unless_known(h->n_running);
	if (h->mem_total_bytes > 0 && h->mem_used_bytes >= 0) {
		v[GS_ALERT_NODE_MEMORY] =
			100 * (double)h->mem_used_bytes / (double)h->mem_total_bytes;
		v[GS_ALERT_NODE_MEMORY_FREE] = (double)(h->mem_total_bytes - h->mem_used_bytes);
	}
	if (h->swap_total_bytes >= 0 && h->swap_used_bytes >= 0)
		v[GS_ALERT_NODE_SWAP] = h->swap_total_bytes ? 100 * (double)h->swap_used_bytes /
								      (double)h->swap_total_bytes
							    : 0;
	v[GS_ALERT_NODE_DISK_READ] = nan_unless_known(h->elapsed_ns ? h->disk_read_bps : -1);
	v[GS_ALERT_NODE_DISK_WRITE] = nan_unless_known(h->elapsed_ns ? h->disk_write_bps : -1);
	v[GS_ALERT_NODE_NET_RX] = nan_unless_known(h->elapsed_ns ? h->net_rx_bps : -1);
	v[GS_ALERT_NODE_NET_TX] = nan_unless_known(h->elapsed_ns ? h->net_tx_bps : -1);
}

void gs_alert_of_node(struct gs_alert_subject *s, const char *name,
		      const struct gs_host_sample *host, const struct gs_gpu_snapshot *gpus)
{
	gs_alert_subject_init(s, GS_ALERT_NODE, name);
	gs_alert_subject_label(s, "node", name);
	if (host)
		put_host(s, host);
	if (!gpus)
		return;
	s->v[GS_ALERT_NODE_DRIVER] = gpus->state == GS_GPU_STATE_OK;
	/* Of a driver that does not answer, it is not known what it would have found. */
	if (gpus->state != GS_GPU_STATE_OK && gpus->state != GS_GPU_STATE_NO_GPU)
		return;
	s->v[GS_ALERT_NODE_GPUS] = gpus->n_gpus;
	s->v[GS_ALERT_NODE_GPUS_LOST] = 0;
	for (uint32_t i = 0; i < gpus->n_gpus; i++)
		s->v[GS_ALERT_NODE_GPUS_LOST] += gpus->sample[i].lost != 0;
}
