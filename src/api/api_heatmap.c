/* One value of every GPU over the last minutes, in columns of equal time, out of what the cluster
 * remembers. */
#include "api/api_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

static const struct {
	const char *key;
	double full; /* the value that is 100 */
} values[GS_CLUSTER_VALUES] = {
	[GS_CLUSTER_UTIL] = {"utilization_ratio", 1},
	[GS_CLUSTER_MEMORY] = {"memory_used_ratio", 1},
	[GS_CLUSTER_DRAM] = {"dram_active_ratio", 1},
	[GS_CLUSTER_POWER] = {"power_watts", 1000},
	[GS_CLUSTER_TEMPERATURE] = {"temperature_celsius", 100},
	[GS_CLUSTER_CLOCK] = {"sm_clock_hertz", 2.5e9},
};

struct heat {
	enum gs_cluster_value value;
	size_t n_columns;
	int64_t end_wall_ns, step_ns;
};

/* The last value in each column; -1: there is none. */
static void put_row(struct gs_buf *b, const struct gs_cluster_node *n, uint32_t gpu,
		    const struct heat *h)
{
	int64_t wall[GS_CLUSTER_POINTS];
	double v[GS_CLUSTER_POINTS];
	short column[GS_CLUSTER_POINTS];
	size_t n_points = gs_cluster_history(n, gpu, h->value, wall, v);

	int64_t before = -1;

	memset(column, 0xff, sizeof(column));
	for (size_t i = 0; i < n_points; i++) {
		int64_t ago = h->end_wall_ns - (wall[i] + n->clock_offset_ns);
		int64_t at = (int64_t)h->n_columns - 1 - ago / h->step_ns;

		if (ago >= 0 && at >= 0 && !isnan(v[i]))
			column[at] = (short)lround(fmin(v[i] / values[h->value].full * 100, 999));
		/* Clocks tremble: two samples in one column, none in the next, are no gap. */
		if (ago >= 0 && at >= 2 && before == at - 2 && column[before] >= 0 &&
		    wall[i] - wall[i - 1] < h->step_ns * 19 / 10)
			column[at - 1] = column[before];
		before = at;
	}
	j_open(b, NULL, '{');
	j_i64(b, "node", n->id);
	j_text(b, "node_name", n->hostname);
	j_u64(b, "gpu", gpu);
	j_text(b, "state", api_state_name(api_state_of(n, gpu)));
	j_open(b, "v", '[');
	for (size_t i = 0; i < h->n_columns; i++)
		j_i64(b, NULL, column[i]);
	j_close(b, ']');
	j_close(b, '}');
}

static int parse(const struct gs_http_request *q, struct gs_http_reply *reply, struct heat *h)
{
	char key[64];
	double points = 120;
	unsigned i = 0;

	if (gs_http_query(q, "value", key, sizeof(key)) >= 0)
		while (i < GS_CLUSTER_VALUES && key[0] && strcmp(key, values[i].key) != 0)
			i++;
	else
		i = GS_CLUSTER_VALUES;
	if (i == GS_CLUSTER_VALUES) {
		gs_http_say(reply, 400,
			    "value is utilization_ratio, memory_used_ratio, "
			    "dram_active_ratio, power_watts, temperature_celsius or "
			    "sm_clock_hertz");
		return -EINVAL;
	}
	if (api_number(q, reply, "points", 1, GS_CLUSTER_POINTS, &points) < 0)
		return -EINVAL;
	*h = (struct heat){i, (size_t)points, 0, 0};
	return 0;
}

API_HANDLER(api_heatmap)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	size_t limit = api_limit(q, reply), n = 0, put = 0, at;
	struct gs_head_switches switches = {.interval_ns = a->local.interval_ns};
	struct gs_buf *b = &reply->body;
	double after = 0;
	struct heat h;

	if (!limit || parse(q, reply, &h) < 0 || api_number(q, reply, "after", 0, 1e9, &after) < 0)
		return;
	if (a->o.head)
		gs_head_switches(a->o.head, &switches);
	/* A column is never shorter than the time between samples: there would be holes. */
	h.step_ns =
		(int64_t)(switches.interval_ns > 1000000000 ? switches.interval_ns : 1000000000);
	h.end_wall_ns = (int64_t)gs_clock_wall_ns();
	h.end_wall_ns -= h.end_wall_ns % h.step_ns;
	j_open(api_json(reply), NULL, '{');
	j_text(b, "value", values[h.value].key);
	j_double(b, "full", values[h.value].full);
	j_time(b, "end", h.end_wall_ns);
	j_double(b, "step_seconds", (double)h.step_ns / 1e9);
	j_u64(b, "points", h.n_columns);
	j_open(b, "rows", '[');
	gs_cluster_lock(c);
	for (at = 0; at < gs_cluster_count(c); at++) {
		const struct gs_cluster_node *node = gs_cluster_at(c, at);

		for (uint32_t g = 0; node->latest && g < node->latest->gpu->n_gpus; g++) {
			if (n++ < (size_t)after || put == limit)
				continue;
			put_row(b, node, g, &h);
			put++;
		}
	}
	gs_cluster_unlock(c);
	j_close(b, ']');
	j_u64(b, "total", n);
	if ((size_t)after + put < n)
		j_u64(b, "next", (uint64_t)after + put);
	else
		j_null(b, "next");
	j_close(b, '}');
}
