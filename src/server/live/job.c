/* Jobs that are on GPUs now, as their processes show them, with the GPU that holds a job up. */
#include "server/live/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/live_int.h"
#include "core/base/vec.h"

const char *live_job_of(const struct gs_registry_node *n, const struct gs_gpu_process *p)
{
	const struct gs_host_process *h = gs_host_process_of(n->latest->host, p->pid);

	return p->job[0] ? p->job : h ? h->job : "";
}

struct member { /* a GPU of a job */
	const char *job, *user;
	const struct gs_registry_node *node;
	uint32_t gpu;
	double util; /* now */
	double mean; /* over the last minute */
	size_t n_points;
};

/* What a GPU did in one snapshot says nothing: each of them dips now and then. */
#define STRAGGLER_SPAN_NS 60000000000ull
#define STRAGGLER_POINTS  30 /* known in the span, about one a second */
#define STRAGGLER_GPUS    3
#define STRAGGLER_WORKING 0.2  /* the median of a job that works */
#define IDLE_RATIO        0.01 /* each of its GPUs below, over the minute: no kernel ran */

static int by_job(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int r = strcmp(x->job, y->job);

	if (r == 0 && x->node->id != y->node->id)
		r = x->node->id < y->node->id ? -1 : 1;
	return r ? r : (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

static int by_util(const void *a, const void *b)
{
	double x = ((const struct member *)a)->util, y = ((const struct member *)b)->util;

	return (x > y) - (x < y);
}

static int by_mean(const void *a, const void *b)
{
	double x = ((const struct member *)a)->mean, y = ((const struct member *)b)->mean;

	return (x > y) - (x < y);
}

/* Each GPU of each job once, by job. What it points to is the snapshot's. */
static struct member *list_members(const struct gs_live_snapshot *l, size_t *ret_n)
{
	struct member *list = NULL;
	size_t n = 0, n_max = 0, kept = 0;

	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *at = gs_registry_view_at(l->view, i);

		for (uint32_t p = 0; at->latest && p < at->latest->gpu->n_processes; p++) {
			const struct gs_gpu_process *process = &at->latest->gpu->process[p];
			const char *job = live_job_of(at, process);

			if (!job[0] || process->ended || process->gpu >= at->latest->gpu->n_gpus)
				continue;
			if (!gs_vec_reserve(&list, &n_max, n + 1)) {
				free(list);
				return NULL;
			}
			list[n++] = (struct member){
				.job = job,
				.user = process->user,
				.node = at,
				.gpu = process->gpu,
				.util = gs_gpu_value(&at->latest->gpu->sample[process->gpu],
						     GS_GPU_UTIL)};
		}
	}
	if (n)
		qsort(list, n, sizeof(*list), by_job);
	for (size_t i = 0; i < n; i++)
		if (!kept || by_job(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	*ret_n = kept;
	return list ? list : calloc(1, sizeof(*list));
}

/* What the GPUs of a job did over the last minute: false where one of them is not known for long
 * enough; then nothing is said of the job either. Sorts m by it. */
static bool fill_means(struct gs_registry *cluster, struct member *m, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		m[i].mean = gs_registry_mean(cluster, m[i].node->id, m[i].gpu, GS_REGISTRY_UTIL,
					     STRAGGLER_SPAN_NS, &m[i].n_points);
		if (m[i].n_points < STRAGGLER_POINTS)
			return false;
	}
	qsort(m, n, sizeof(*m), by_mean);
	return true;
}

/* A GPU that has done less than half of what the others of its job did may hold them all up. A job
 * whose GPUs all do nothing is idle, and none of them is slow. */
static void judge_job(struct gs_registry *cluster, struct live_job *j, struct member *m, size_t n)
{
	struct gs_gpu_health h;

	if (!fill_means(cluster, m, n))
		return;
	j->is_idle = m[n - 1].mean < IDLE_RATIO;
	j->straggler_mean = m[0].mean;
	j->median_mean = m[n / 2].mean;
	j->has_straggler = n >= STRAGGLER_GPUS && j->median_mean > STRAGGLER_WORKING &&
			   j->straggler_mean < j->median_mean / 2;
	if (!j->has_straggler)
		return;
	j->node = m[0].node;
	j->gpu = m[0].gpu;
	gs_gpu_health_judge(j->node->latest->gpu, j->gpu, &h);
	gs_gpu_health_text(j->node->latest->gpu, j->gpu, h.condition, j->reason);
}

static void fill_job(struct gs_registry *cluster, struct live_job *j, struct member *m, size_t n)
{
	qsort(m, n, sizeof(*m), by_util);
	*j = (struct live_job){.n_gpus = n,
			       .least = m[0].util,
			       .median = m[n / 2].util,
			       .most = m[n - 1].util,
			       .straggler_mean = NAN,
			       .median_mean = NAN};
	snprintf(j->job, sizeof(j->job), "%s", m->job);
	snprintf(j->user, sizeof(j->user), "%s", m->user);
	judge_job(cluster, j, m, n);
}

struct live_job *live_jobs_now(const struct gs_live *live, const struct gs_live_snapshot *l,
			       size_t *ret_n)
{
	size_t n, n_jobs = 0;
	struct member *list = list_members(l, &n);
	struct live_job *jobs = list ? calloc(n + 1, sizeof(*jobs)) : NULL;

	for (size_t i = 0, end; jobs && i < n; i = end) {
		for (end = i + 1; end < n && strcmp(list[i].job, list[end].job) == 0;)
			end++;
		fill_job(live->o.cluster, &jobs[n_jobs++], list + i, end - i);
	}
	free(list);
	*ret_n = n_jobs;
	return jobs;
}

/* --- the answer --- */

static int put_job(struct gs_buf *b, const struct live_job *j, gs_live_report_fn report, void *ctx)
{
	char id[160];
	int r = 0;

	j_open(b, NULL, '{');
	j_text(b, "job", j->job);
	j_text(b, "user", j->user);
	j_u64(b, "gpus", j->n_gpus);
	j_double(b, "utilization_min_ratio", j->least);
	j_double(b, "utilization_median_ratio", j->median);
	j_double(b, "utilization_max_ratio", j->most);
	if (j->has_straggler) {
		j_open(b, "straggler", '{');
		j_i64(b, "node", j->node->id);
		gs_live_client_id(j->node, id, sizeof(id));
		j_text(b, "node_name", id);
		j_u64(b, "gpu", j->gpu);
		j_close(b, '}');
		j_double(b, "straggler_minute_ratio", j->straggler_mean);
		j_text(b, "straggler_reason", j->reason);
	} else {
		j_null(b, "straggler");
		j_null(b, "straggler_minute_ratio");
		j_text(b, "straggler_reason", "");
	}
	j_bool(b, "idle", j->is_idle);
	j_double(b, "utilization_minute_ratio", j->median_mean);
	if (report)
		r = report(ctx, j->job, b);
	else
		j_null(b, "report");
	j_close(b, '}');
	return r;
}

void gs_live_jobs(struct gs_live *a, size_t limit, gs_live_report_fn report, void *ctx,
		  struct gs_http_reply *reply)
{
	struct gs_live_snapshot *snapshot = gs_live_take_snapshot(a);
	size_t n = 0;
	GS_FREE struct live_job *jobs = snapshot ? live_jobs_now(a, snapshot, &n) : NULL;
	struct gs_buf *b;
	int r = 0;

	if (!jobs) {
		gs_live_snapshot_unref(&snapshot);
		gs_http_error(reply, 503, "no memory");
		return;
	}
	b = gs_live_json(reply);
	j_open(b, NULL, '{');
	j_open(b, "jobs", '[');
	for (size_t i = 0; r == 0 && i < n && i < limit; i++)
		r = put_job(b, &jobs[i], report, ctx);
	gs_live_snapshot_unref(&snapshot);
	j_close(b, ']');
	j_u64(b, "total", n);
	j_close(b, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}

LIVE_HANDLER(live_jobs)
{
	struct gs_live *a = ctx;
	size_t limit = gs_live_limit(q, reply);

	if (!limit)
		return;
	if (a->o.jobs)
		a->o.jobs(a->o.ctx, q, limit, reply);
	else
		gs_live_jobs(a, limit, NULL, NULL, reply);
}
