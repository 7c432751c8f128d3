/*
 * Values of a GPU over time, in stretches of equal length with least, mean and most, out of what
 * the cluster remembers: the last minutes. What is older is the server's to know.
 */
#include "server/live/series.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/live/live_int.h"

double gs_live_field(const struct gs_gpu_sample *s, int field)
{
	if (s->lost)
		return NAN;
	return field == GS_GPU_MEM_USED_RATIO ? gs_gpu_memory_ratio(s) : gs_gpu_value(s, field);
}

static void add_xid(struct gs_live_series *s, int64_t wall_ns, uint32_t xid)
{
	int64_t step_ns = (s->in.to_ns - s->in.from_ns) / (int64_t)s->in.n_points;
	struct gs_live_xid *last = s->n_xids ? &s->xid[s->n_xids - 1] : NULL;

	if (wall_ns < s->in.from_ns || wall_ns >= s->in.to_ns)
		return;
	if (last && last->xid == xid && wall_ns - last->wall_ns < step_ns) {
		last->n++;
		return;
	}
	if (s->n_xids == GS_LIVE_SERIES_XIDS)
		memmove(s->xid, s->xid + 1, sizeof(s->xid[0]) * --s->n_xids);
	s->xid[s->n_xids++] = (struct gs_live_xid){wall_ns, xid, 1};
}

void gs_live_add_xids(struct gs_live_series *s, const struct gs_node_snapshot *m, uint32_t gpu,
		      int64_t offset_ns)
{
	for (uint32_t i = 0; i < m->gpu->n_events; i++) {
		const struct gs_gpu_event *e = &m->gpu->event[i];

		if (e->xid && gs_gpu_health_is_of(e, &m->gpu->info[gpu]))
			add_xid(s, gs_registry_event_wall_ns(m, e) + offset_ns, e->xid);
	}
}

static void put_xids(struct gs_buf *b, const struct gs_live_series *s)
{
	j_open(b, "xids", '[');
	for (size_t i = 0; i < s->n_xids; i++) {
		j_open(b, NULL, '{');
		j_time(b, "time", s->xid[i].wall_ns);
		j_i64(b, "xid", s->xid[i].xid);
		j_i64(b, "count", s->xid[i].n);
		j_text(b, "text", gs_gpu_xid_text(s->xid[i].xid));
		j_close(b, '}');
	}
	j_close(b, ']');
}

void gs_live_put_series(struct gs_buf *b, const struct gs_live_series *s, const char *source,
			bool complete)
{
	j_open(b, NULL, '{');
	j_i64(b, "node", s->node);
	j_text(b, "gpu", s->gpu);
	j_text(b, "source", source);
	j_bool(b, "complete", complete);
	gs_live_bucket_put_time(b, &s->in);
	/* Points between two samples are empty, and yet nothing is missing there. */
	if (s->coarse_ns)
		j_double(b, "downsampled_seconds", (double)s->coarse_ns / 1e9);
	put_xids(b, s);
	j_open(b, "values", '{');
	for (size_t v = 0; v < s->n_values; v++)
		gs_live_bucket_put(b, gs_gpu_field_info((unsigned)s->field[v])->key, &s->in, v);
	j_close(b, '}');
	j_close(b, '}');
}

int gs_live_find_gpu(const struct gs_gpu_snapshot *g, const char *text)
{
	if (text[0] && strspn(text, "0123456789") == strlen(text)) {
		unsigned long i = strtoul(text, NULL, 10);

		return i < g->n_gpus ? (int)i : -1;
	}
	for (uint32_t i = 0; i < g->n_gpus; i++)
		if (strcmp(g->info[i].uuid, text) == 0)
			return (int)i;
	return -1;
}

/* --- the request --- */

static bool parse_values(struct gs_live_series *s, char *keys)
{
	for (char *next, *key = strtok_r(keys, ",", &next); key; key = strtok_r(NULL, ",", &next)) {
		int field = gs_gpu_field_by_key(key);

		if (field < 0 || s->n_values == GS_LIVE_SERIES_VALUES)
			return false;
		s->field[s->n_values++] = field;
	}
	if (!s->n_values)
		s->field[s->n_values++] = GS_GPU_UTIL;
	return true;
}

static bool parse_query(const struct gs_http_request *q, struct gs_http_reply *reply,
			struct gs_live_series *s)
{
	double node = 0;
	char keys[512];

	if (gs_live_number(q, reply, "node", 1, 9e15, &node) < 0)
		return false;
	if (node < 1 || gs_http_query(q, "gpu", s->gpu, sizeof(s->gpu)) != 1 ||
	    gs_http_query(q, "values", keys, sizeof(keys)) < 0 || !parse_values(s, keys)) {
		gs_http_error(reply, 400,
			      "node and gpu say which; values are at most 8 keys of GPU values");
		return false;
	}
	s->node = (int64_t)node;
	return gs_live_bucket_parse(q, reply, s->n_values, &s->in);
}

/* --- from memory --- */

static bool is_remembered(const struct gs_live *a, const struct gs_live_series *s)
{
	int64_t now = (int64_t)gs_clock_wall_ns();

	/* Where nothing more is known, this is all. */
	if (a->o.past_series && s->in.from_ns < now - (GS_REGISTRY_POINTS + 2) * 1000000000ll)
		return false;
	for (size_t v = 0; v < s->n_values; v++) {
		unsigned i = 0;

		while (i < GS_REGISTRY_VALUES && gs_registry_value_field(i) != s->field[v])
			i++;
		/* The share of used memory is what is remembered of its bytes. */
		if (i == GS_REGISTRY_MEMORY ||
		    (i == GS_REGISTRY_VALUES && s->field[v] != GS_GPU_MEM_USED_RATIO))
			return false;
	}
	return true;
}

static void remember_series(struct gs_live_series *s, struct gs_registry *c,
			    const struct gs_registry_node *n, uint32_t gpu)
{
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];

	for (size_t k = 0; k < s->n_values; k++) {
		unsigned i = 0;
		size_t n_points;

		while (i < GS_REGISTRY_VALUES && gs_registry_value_field(i) != s->field[k])
			i++;
		if (i == GS_REGISTRY_VALUES)
			i = GS_REGISTRY_MEMORY;
		n_points = gs_registry_history(c, n->id, gpu, i, wall, v);
		for (size_t p = 0; p < n_points; p++)
			gs_live_bucket_add(&s->in, k, wall[p] + n->clock_offset_ns, v[p]);
	}
	for (uint64_t i = n->n_xids > GS_REGISTRY_XIDS ? n->n_xids - GS_REGISTRY_XIDS : 0;
	     i < n->n_xids; i++) {
		const struct gs_registry_xid *x = &n->xid[i % GS_REGISTRY_XIDS];

		if (x->gpu == gpu)
			add_xid(s, x->wall_ns + n->clock_offset_ns, x->xid);
	}
}

LIVE_HANDLER(live_series)
{
	struct gs_live *a = ctx;
	const struct gs_registry_node *n;
	struct gs_live_snapshot *l = NULL;
	struct gs_live_series asked = {0};
	int gpu = -1;
	bool known;

	if (!parse_query(q, reply, &asked))
		return;
	l = gs_live_take_snapshot(a);
	n = l ? gs_registry_view_find(l->view, asked.node) : NULL;
	known = n != NULL;
	if (n && n->latest)
		gpu = gs_live_find_gpu(n->latest->gpu, asked.gpu);
	if (gpu >= 0 && is_remembered(a, &asked)) {
		GS_FREE struct gs_live_series *s = gs_live_bucket_new(
			&asked, sizeof(asked), offsetof(struct gs_live_series, in));

		if (s) {
			remember_series(s, a->o.cluster, n, (uint32_t)gpu);
			gs_live_put_series(gs_live_json(reply), s, "memory", true);
		} else {
			gs_http_error(reply, 503, "no memory");
		}
	} else if (!known) {
		gs_http_error(reply, 404, "no node has this number");
	} else if (!a->o.past_series) {
		gs_http_error(
			reply, 404,
			"this agent keeps only the values of the heat map of the last minutes; a head has the rest");
	} else {
		a->o.past_series(a->o.ctx, &asked, reply);
	}
	gs_live_snapshot_unref(&l);
}
