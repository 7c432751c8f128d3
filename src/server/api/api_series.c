/*
 * Values of a GPU over time out of the store, older than what the cluster remembers. And means of
 * all GPUs of a session, for comparisons.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "server/api/api_int.h"
#include "core/base/clock.h"
#include "core/base/vec.h"
#include "server/live/series.h"
#include "model/node/record.h"
#include "server/session_export/sums.h"
#include "model/node/rollup.h"

#define SKEW_NS API_SKEW_NS

static void read_records(struct gs_node_decoder *d, const struct gs_store_found *found,
			 api_sample_fn fn, void *ctx)
{
	struct gs_rollup_mark mark = {0};
	size_t offset = 0;
	const struct gs_record *r;

	gs_node_decoder_reset(d);
	while ((r = gs_record_next(&found->records, &offset))) {
		struct gs_node_snapshot *m = NULL;

		(void)gs_rollup_read(r, &mark);
		if (gs_node_decode(d, r, &m) == GS_NODE_WHOLE) {
			fn(ctx, found, m, &mark);
			mark = (struct gs_rollup_mark){0};
		}
		gs_node_snapshot_free(&m);
	}
}

int api_read_samples(struct gs_store *store, const struct gs_store_range *range, uint64_t until_ns,
		     api_sample_fn fn, void *ctx)
{
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_store_cursor *cursor = NULL;
	struct gs_store_found found;
	int r = d ? gs_store_cursor_open(store, range, &cursor) : -ENOMEM;

	while (r == 0) {
		r = gs_store_cursor_next(cursor, &found);
		if (r == 0)
			read_records(d, &found, fn, ctx);
		else if (r == -EBADMSG)
			r = 0;
		if (r == 0 && gs_clock_mono_ns() > until_ns)
			break;
	}
	gs_store_cursor_close(&cursor);
	gs_node_decoder_free(&d);
	return r == 0 ? 1 : r == GS_STORE_END ? 0 : r;
}

static void add_snapshot(void *ctx, const struct gs_store_found *found,
			 const struct gs_node_snapshot *m, const struct gs_rollup_mark *mark)
{
	int64_t wall_ns = m->wall_ns + found->batch.clock_offset_ns;
	struct gs_live_series *s = ctx;
	int gpu = gs_live_find_gpu(m->gpu, s->gpu);

	for (size_t v = 0; gpu >= 0 && v < s->n_values; v++) {
		double x = gs_live_field(&m->gpu->sample[gpu], s->field[v]);

		gs_live_bucket_add_mean(&s->in, v, wall_ns, x,
					gs_rollup_max(mark, (uint32_t)gpu, s->field[v], x),
					gs_rollup_n(mark, (uint32_t)gpu, s->field[v]));
	}
	if (gpu >= 0)
		gs_live_add_xids(s, m, (uint32_t)gpu, found->batch.clock_offset_ns);
	if (wall_ns >= s->in.from_ns && wall_ns < s->in.to_ns && mark->interval_ns > s->coarse_ns)
		s->coarse_ns = mark->interval_ns;
}

static void read_series(struct api_task *t)
{
	struct gs_live_series *s = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct gs_store_range range = {
		.from_wall_ns = s->in.from_ns > SKEW_NS ? s->in.from_ns - SKEW_NS : 0,
		.to_wall_ns = s->in.to_ns + SKEW_NS,
		.kind = GS_STORE_SAMPLES,
		.nodes = &s->node,
		.n_nodes = 1,
	};
	int r = api_read_samples(t->store, &range, gs_clock_mono_ns() + API_READ_NS, add_snapshot,
				 s);

	if (r < 0)
		gs_live_fail(&reply, r, NULL);
	else
		gs_live_put_series(gs_live_json(&reply), s, "store", r == 0);
	gs_http_answer(&t->later, &reply);
}

void api_past_series(void *ctx, const struct gs_live_series *asked, struct gs_http_reply *reply)
{
	struct gs_live_series *s =
		gs_live_bucket_new(asked, sizeof(*asked), offsetof(struct gs_live_series, in));

	if (s)
		api_task_start(ctx, reply, read_series, s);
	else
		gs_http_error(reply, 503, "no memory");
}

/* --- a session's means --- */

#define SUMMARY_GPUS_MAX 4096

struct gpu_sums {
	int64_t node;
	char uuid[80], name[96];
	uint32_t index;
	struct gs_session_export_sums sums;
};

struct summary {
	char session[GS_STORE_SESSION_NAME_BYTES];
	struct gs_store_session s;
	struct gpu_sums *gpu; /* owned */
	size_t n, n_max, left_out;
	int64_t end_ns;
	struct gs_store *store;
	int64_t nodes[1024];
	char hostnames[1024][65];
	size_t n_nodes;
};

static struct gpu_sums *sums_of(struct summary *m, int64_t node, const struct gs_gpu_info *g)
{
	struct gpu_sums *more;

	for (size_t i = 0; i < m->n; i++)
		if (m->gpu[i].node == node && strcmp(m->gpu[i].uuid, g->uuid) == 0)
			return &m->gpu[i];
	if (m->n == SUMMARY_GPUS_MAX)
		return NULL;
	if (!gs_vec_reserve(&m->gpu, &m->n_max, m->n + 1))
		return NULL;
	more = &m->gpu[m->n++];
	*more = (struct gpu_sums){.node = node, .index = g->index};
	memcpy(more->uuid, g->uuid, sizeof(more->uuid));
	memcpy(more->name, g->name, sizeof(more->name));
	return more;
}

static void sum_snapshot(void *ctx, const struct gs_store_found *found,
			 const struct gs_node_snapshot *snapshot, const struct gs_rollup_mark *mark)
{
	struct summary *m = ctx;
	int64_t wall = snapshot->wall_ns + found->batch.clock_offset_ns;

	if (wall < m->s.start_wall_ns || wall >= m->end_ns)
		return;
	for (uint32_t i = 0; i < snapshot->gpu->n_gpus; i++) {
		struct gpu_sums *g = sums_of(m, found->node, &snapshot->gpu->info[i]);

		if (g)
			gs_session_export_sums_add(&g->sums, i, &snapshot->gpu->sample[i], mark,
						   wall);
		else
			m->left_out++;
	}
}

static int add_node(void *ctx, const struct gs_store_node *n)
{
	struct summary *m = ctx;

	if (gs_store_session_has(&m->s, n->hostname) && m->n_nodes < GS_ARRAY_LEN(m->nodes)) {
		memcpy(m->hostnames[m->n_nodes], n->hostname, sizeof(n->hostname));
		m->nodes[m->n_nodes++] = n->id;
	}
	return 0;
}

static void put_summary(struct gs_buf *b, const struct summary *m, bool complete)
{
	j_open(b, NULL, '{');
	api_put_session(b, "session", &m->s);
	j_bool(b, "complete", complete && !m->left_out);
	j_open(b, "gpus", '[');
	for (size_t i = 0; i < m->n; i++) {
		const struct gpu_sums *g = &m->gpu[i];
		const struct gs_session_export_sums *s = &g->sums;

		j_open(b, NULL, '{');
		j_i64(b, "node", g->node);
		for (size_t n = 0; n < m->n_nodes; n++)
			if (m->nodes[n] == g->node)
				j_text(b, "node_name", m->hostnames[n]);
		j_u64(b, "index", g->index);
		j_text(b, "uuid", g->uuid);
		j_text(b, "name", g->name);
		j_u64(b, "samples", s->n_samples);
		j_double(b, "utilization_mean_ratio", gs_bucket_mean(&s->util));
		j_double(b, "utilization_p50_ratio", gs_session_export_sums_util(s, 0.5) / 100);
		j_double(b, "utilization_p95_ratio", gs_session_export_sums_util(s, 0.95) / 100);
		j_double(b, "memory_mean_ratio", gs_bucket_mean(&s->memory));
		j_double(b, "memory_max_ratio", gs_bucket_max(&s->memory));
		j_double(b, "power_mean_watts", gs_bucket_mean(&s->power));
		j_double(b, "power_max_watts", gs_bucket_max(&s->power));
		j_double(b, "temperature_max_celsius", gs_bucket_max(&s->temperature));
		j_double(b, "energy_joules", gs_energy_joules(&s->energy));
		j_close(b, '}');
	}
	j_close(b, ']');
	j_close(b, '}');
}

static void read_summary(struct api_task *t)
{
	struct summary *m = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct gs_store_range range = {.kind = GS_STORE_SAMPLES, .nodes = m->nodes};
	int r = gs_store_session_get(t->store, m->session, &m->s);

	if (r == 0)
		r = gs_store_nodes(t->store, add_node, m);
	m->end_ns = m->s.end_wall_ns ? m->s.end_wall_ns : (int64_t)gs_clock_wall_ns();
	range.from_wall_ns = m->s.start_wall_ns > SKEW_NS ? m->s.start_wall_ns - SKEW_NS : 0;
	range.to_wall_ns = m->end_ns + SKEW_NS;
	range.n_nodes = m->n_nodes;
	if (r == 0 && m->n_nodes)
		r = api_read_samples(t->store, &range, gs_clock_mono_ns() + API_READ_NS,
				     sum_snapshot, m);
	if (r == -ENOENT)
		gs_http_error(&reply, 404, "no session has this name or id");
	else if (r < 0)
		gs_live_fail(&reply, r, NULL);
	else
		put_summary(gs_live_json(&reply), m, r == 0);
	gs_http_answer(&t->later, &reply);
	free(m->gpu);
}

GS_API_HANDLER(api_session_summary)
{
	struct summary *m = calloc(1, sizeof(*m));

	if (!m || strlen(q->param[0]) >= sizeof(m->session)) {
		gs_http_error(reply, m ? 404 : 503,
			      m ? "no session has this name or id" : "no memory");
		free(m);
		return;
	}
	strcpy(m->session, q->param[0]);
	api_task_start(ctx, reply, read_summary, m);
}
