/*
 * One value of every GPU over the last minutes, in columns of equal time, out of what the cluster
 * remembers. Columns have numbers, which rise for ever: who has an answer gets, with its cursor, only
 * the columns since then (and the last ones again, for what came late), as long as the rows are
 * the same ones. That makes an answer of a megabyte one of some ten kilobytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/live_int.h"
#include "core/base/clock.h"
#include "core/text/put.h"

static const struct {
	const char *key;
	double full; /* the value that is 100 */
} values[GS_REGISTRY_VALUES] = {
	[GS_REGISTRY_UTIL] = {"utilization_ratio", 1},
	[GS_REGISTRY_MEMORY] = {"memory_used_ratio", 1},
	[GS_REGISTRY_DRAM] = {"dram_active_ratio", 1},
	[GS_REGISTRY_POWER] = {"power_watts", 1000},
	[GS_REGISTRY_TEMPERATURE] = {"temperature_celsius", 100},
	[GS_REGISTRY_CLOCK] = {"sm_clock_hertz", 2.5e9},
};

#define LATE_COLUMNS 10 /* before now, in which samples may still come */
#define HOLD_COLUMNS 10 /* at most so long a value holds until the next one of a slower node */
#define MOST         999

struct heat {
	enum gs_registry_value value;
	size_t n_columns; /* of the answer: all, or those at the end that may be new */
	size_t n_points;  /* that were asked for */
	size_t after, limit;
	int64_t end_wall_ns, step_ns;
	uint64_t rows_hash; /* which rows these are, in which order, of which value */
	bool has_since;     /* what the client has */
	uint64_t since_hash;
	int64_t since_column;
	bool is_part;        /* only the last columns, for it has the others */
	size_t fresh;        /* of them, those that it has not */
	double scale;        /* from steps of the cluster to percent of full */
	struct gs_buf steps; /* of the GPUs of one node */
};

/* Of a point of a node: its column, -1: not shown, and until before which column its value holds. */
struct place {
	int16_t column, end;
};

static int64_t number_of(const struct heat *h)
{
	return h->end_wall_ns / h->step_ns;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The time between two samples of a node: the median, for some come late and some not at all. */
static int64_t usual_interval_ns(const int64_t *wall_ns, size_t n_points)
{
	int64_t gaps[GS_REGISTRY_POINTS];

	if (n_points < 2)
		return 0;
	for (size_t i = 1; i < n_points; i++)
		gaps[i - 1] = wall_ns[i] - wall_ns[i - 1];
	qsort(gaps, n_points - 1, sizeof(*gaps), compare_ns);
	return gaps[(n_points - 1) / 2];
}

/*
 * A value holds until the next one is due: a node that samples every two seconds is no node with
 * holes, and of two samples that tremble into one column the next column has the later one. Twice
 * the interval later a value is missing, and that is shown.
 */
static void place_points(const struct heat *h, const struct gs_registry_node *n,
			 const int64_t *wall_ns, size_t n_points, struct place *places)
{
	int64_t end = (int64_t)(h->n_columns + HOLD_COLUMNS), hold_ns;

	hold_ns = usual_interval_ns(wall_ns, n_points) * 19 / 10;
	if (hold_ns < h->step_ns * 19 / 10)
		hold_ns = h->step_ns * 19 / 10;
	if (hold_ns > h->step_ns * HOLD_COLUMNS)
		hold_ns = h->step_ns * HOLD_COLUMNS;
	/* From the newest on: `end` is the column of the one after it. */
	for (size_t i = n_points; i-- > 0;) {
		int64_t ago = h->end_wall_ns - (wall_ns[i] + n->clock_offset_ns);
		int64_t at = (int64_t)(h->n_columns + HOLD_COLUMNS) - 1 - ago / h->step_ns;
		int64_t gap = i + 1 < n_points ? wall_ns[i + 1] - wall_ns[i] : ago;

		places[i] = (struct place){-1, 0};
		if (ago < 0 || at < 0)
			continue;
		places[i].column = (int16_t)at;
		places[i].end = (int16_t)(gap < hold_ns && end > at ? end : at + 1);
		end = at;
	}
}

/* The last value in each column; -1: there is none. A later point writes over what is held. */
static void put_columns(struct gs_buf *b, const struct heat *h, const struct place *places,
			const uint16_t *steps, size_t n_points)
{
	int16_t column[GS_REGISTRY_POINTS + HOLD_COLUMNS];
	char *p;

	memset(column, 0xff, sizeof(column));
	for (size_t i = 0; i < n_points; i++) {
		const struct place *at = &places[i];

		if (at->column < 0 || steps[i] == GS_REGISTRY_UNKNOWN)
			continue;
		for (int16_t c = at->column; c < at->end; c++)
			column[c] = (int16_t)fmin(steps[i] * h->scale + 0.5, MOST);
	}
	j_open(b, "v", '[');
	if (gs_buf_reserve(b, h->n_columns * 5) < 0)
		return;
	p = (char *)b->data + b->bytes;
	for (size_t i = 0; i < h->n_columns; i++) {
		p = gs_put_i64(p, column[HOLD_COLUMNS + i]);
		*p++ = ',';
	}
	b->bytes = (size_t)(p - (char *)b->data) - 1;
	j_close(b, ']');
}

/* The rows of a node's GPUs from one to another. */
static void put_rows(struct gs_buf *b, struct gs_registry *c, const struct gs_live_snapshot *l,
		     size_t at, uint32_t from, uint32_t to, struct heat *h)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	/* With those before that decide about the first columns. */
	size_t n_points = h->n_columns * (size_t)h->step_ns / 990000000 + 16;
	struct place places[GS_REGISTRY_POINTS];
	int64_t wall_ns[GS_REGISTRY_POINTS];
	const uint16_t *steps;
	char name[160];

	gs_buf_reset(&h->steps);
	if (gs_buf_reserve(&h->steps, (size_t)to * GS_REGISTRY_POINTS * sizeof(*steps)) < 0)
		return;
	steps = (const uint16_t *)h->steps.data;
	n_points = gs_registry_points(c, n->id, h->value, to,
				      n_points < GS_REGISTRY_POINTS ? n_points : GS_REGISTRY_POINTS,
				      wall_ns, (uint16_t *)h->steps.data);
	place_points(h, n, wall_ns, n_points, places);
	gs_live_client_id(n, name, sizeof(name));
	for (uint32_t g = from; g < to; g++) {
		j_open(b, NULL, '{');
		if (!h->is_part) {
			j_i64(b, "node", n->id);
			j_text(b, "node_name", name);
			j_u64(b, "gpu", g);
		}
		j_text(b, "state", gs_live_state_name(gs_live_snapshot_state(l, at, g)));
		put_columns(b, h, places, steps + (size_t)g * GS_REGISTRY_POINTS, n_points);
		j_close(b, '}');
	}
}

/* FNV-1a over what makes two answers have the same rows. */
static uint64_t hash_rows(const struct heat *h, const struct gs_live_snapshot *l)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	const uint64_t first[] = {h->value, h->n_points, h->after, h->limit, (uint64_t)h->step_ns};

	for (size_t i = 0; i < GS_ARRAY_LEN(first); i++)
		hash = (hash ^ first[i]) * 0x100000001b3ull;
	for (size_t i = 0; i < l->n_nodes; i++) {
		hash = (hash ^ (uint64_t)gs_registry_view_at(l->view, i)->id) * 0x100000001b3ull;
		hash = (hash ^ gs_live_snapshot_gpus(l, i)) * 0x100000001b3ull;
	}
	return hash;
}

/* How many columns the client needs. */
static void limit_columns(struct heat *h)
{
	int64_t ago = number_of(h) - h->since_column;

	if (!h->has_since || h->since_hash != h->rows_hash || ago < 0 ||
	    ago + LATE_COLUMNS >= (int64_t)h->n_points)
		return;
	h->is_part = true;
	h->fresh = (size_t)ago;
	h->n_columns = (size_t)ago + LATE_COLUMNS;
}

static int parse_query(const struct gs_http_request *q, struct gs_http_reply *reply, struct heat *h)
{
	char key[64], cursor[48];
	double points = 120;
	unsigned i = 0;

	if (gs_http_query(q, "value", key, sizeof(key)) >= 0)
		while (i < GS_REGISTRY_VALUES && key[0] && strcmp(key, values[i].key) != 0)
			i++;
	else
		i = GS_REGISTRY_VALUES;
	if (i == GS_REGISTRY_VALUES) {
		gs_http_error(
			reply, 400,
			"value is utilization_ratio, memory_used_ratio, dram_active_ratio, power_watts, temperature_celsius or sm_clock_hertz");
		return -EINVAL;
	}
	if (gs_live_number(q, reply, "points", 1, GS_REGISTRY_POINTS, &points) < 0)
		return -EINVAL;
	*h = (struct heat){.value = (enum gs_registry_value)i,
			   .n_columns = (size_t)points,
			   .n_points = (size_t)points,
			   .scale = 100 / (gs_registry_steps(i) * values[i].full)};
	if (gs_http_query(q, "since", cursor, sizeof(cursor)) == 1)
		h->has_since = sscanf(cursor, "%16" SCNx64 "-%" SCNd64, &h->since_hash,
				      &h->since_column) == 2;
	return 0;
}

static void put_head(struct gs_buf *b, const struct heat *h)
{
	char cursor[48];

	snprintf(cursor, sizeof(cursor), "%016" PRIx64 "-%" PRId64, h->rows_hash, number_of(h));
	j_text(b, "value", values[h->value].key);
	j_double(b, "full", values[h->value].full);
	j_time(b, "end_time", h->end_wall_ns);
	j_double(b, "step_seconds", (double)h->step_ns / 1e9);
	j_u64(b, "points", h->n_points);
	j_text(b, "cursor", cursor);
	if (h->is_part)
		j_u64(b, "fresh", h->fresh);
	else
		j_null(b, "fresh");
}

LIVE_LOOK(live_heatmap)
{
	size_t put = 0, total = l->all.n_gpus;
	const struct gs_live *a = ctx;
	struct gs_live_settings settings;
	struct gs_buf *b = &reply->body;
	double after = 0;
	struct heat h;

	if (parse_query(q, reply, &h) < 0 || !(h.limit = gs_live_limit(q, reply)) ||
	    gs_live_number(q, reply, "after", 0, 1e9, &after) < 0)
		return;
	h.after = (size_t)after;
	live_settings(a, &settings);
	/* A column is never shorter than the time between samples: there would be holes. */
	h.step_ns =
		(int64_t)(settings.interval_ns > 1000000000 ? settings.interval_ns : 1000000000);
	h.end_wall_ns = (int64_t)gs_clock_wall_ns();
	h.end_wall_ns -= h.end_wall_ns % h.step_ns;
	h.rows_hash = hash_rows(&h, l);
	h.steps = GS_BUF_INIT((size_t)GS_REGISTRY_GPUS_MAX * GS_REGISTRY_POINTS * sizeof(uint16_t));
	limit_columns(&h);
	j_open(gs_live_json(reply), NULL, '{');
	put_head(b, &h);
	j_open(b, "rows", '[');
	for (size_t i = 0; i < l->n_nodes && put < h.limit; i++) {
		size_t first = l->first[i], end = l->first[i + 1];

		if (end <= h.after || first == end)
			continue;
		if (first < h.after)
			first = h.after;
		if (end - first > h.limit - put)
			end = first + h.limit - put;
		put_rows(b, a->o.cluster, l, i, (uint32_t)(first - l->first[i]),
			 (uint32_t)(end - l->first[i]), &h);
		put += end - first;
	}
	j_close(b, ']');
	gs_buf_fini(&h.steps);
	gs_live_put_next(b, total, h.after + put);
	j_close(b, '}');
}
