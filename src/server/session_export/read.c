/*
 * Reading a session nearly by time. The store lists batches by their nodes' clocks, and these may
 * be off by anything; so streams whose clocks are off by about the same are read together, and of
 * these groups always the one with the earliest time.
 */
#include <errno.h>
#include <string.h>

#include "server/session_export/session_export_int.h"
#include "core/base/clock.h"
#include "core/base/vec.h"
#include "model/node/record.h"

#define GROUPS_MAX      16
#define GROUP_SPREAD_NS 1000000000ll
#define REFRESH_NS      2000000000ull

struct clock_of { /* a stream's */
	int64_t stream;
	int64_t low_ns, high_ns;
	uint64_t node; /* index in the archive */
};

struct group {
	struct gs_store_cursor *cursor;
	struct gs_store_found found;
	bool have;
	int64_t low_ns; /* the least by which its clocks are off */
	struct gs_store_range range;
	int64_t *streams; /* owned: of the range */
	uint64_t opened_ns;
	int64_t done_wall_ns; /* of the batch before */
};

/* --- nodes --- */

static int add_node(void *ctx, const struct gs_store_node *n)
{
	struct archive *a = ctx;
	struct session_export_node *more;
	uint64_t key = gs_node_label_hash(n->hostname, n->instance), count = 0;

	(void)gs_map_get(&a->names, key, &count);
	if (gs_map_put(&a->names, key, count + 1) < 0)
		return -ENOMEM;
	if ((a->o->node && n->id != a->o->node) ||
	    !gs_store_session_has(a->o->session, n->hostname))
		return 0;
	if (!gs_vec_reserve_next(&a->node, a->n_nodes))
		return -ENOMEM;
	more = &a->node[a->n_nodes];
	*more = (struct session_export_node){.id = n->id};
	snprintf(more->hostname, sizeof(more->hostname), "%s", n->hostname);
	snprintf(more->machine_id, sizeof(more->machine_id), "%s", n->machine_id);
	snprintf(more->instance, sizeof(more->instance), "%s", n->instance);
	return gs_map_put(&a->by_id, (uint64_t)n->id, a->n_nodes++);
}

static int name_nodes(struct archive *a)
{
	for (size_t i = 0; i < a->n_nodes; i++) {
		struct session_export_node *n = &a->node[i];
		char label[GS_NODE_LABEL_BYTES];
		uint64_t count = 0;

		(void)gs_map_get(&a->names, gs_node_label_hash(n->hostname, n->instance), &count);
		gs_node_label(n->hostname, n->instance, n->machine_id, count > 1, label,
			      sizeof(label));
		n->client = strdup(label);
		if (!n->client)
			return -ENOMEM;
	}
	return 0;
}

int session_export_open(struct archive *a, const struct gs_session_export_options *options)
{
	const struct gs_store_session *s = options->session;
	int r;

	*a = (struct archive){.o = options,
			      .from_wall_ns = s->start_wall_ns,
			      .to_wall_ns = s->end_wall_ns         ? s->end_wall_ns
					    : options->now_wall_ns ? options->now_wall_ns
								   : (int64_t)gs_clock_wall_ns(),
			      .by_id = GS_MAP_INIT(1u << 24),
			      .names = GS_MAP_INIT(1u << 24)};
	r = gs_store_nodes(options->store, add_node, a);
	return r == 0 ? name_nodes(a) : r;
}

void session_export_close(struct archive *a)
{
	for (size_t i = 0; i < a->n_nodes; i++)
		free(a->node[i].client);
	free(a->node);
	gs_map_fini(&a->by_id);
	gs_map_fini(&a->names);
}

/* --- streams and groups --- */

struct streams {
	struct archive *a;
	struct clock_of *clock;
	size_t n;
	struct gs_map by_id; /* of a stream to its index, once they are sorted */
};

static int add_stream(void *ctx, const struct gs_store_stream *s)
{
	struct streams *l = ctx;
	uint64_t node;

	if (s->kind != GS_STORE_SAMPLES || !s->first_wall_ns ||
	    !gs_map_get(&l->a->by_id, (uint64_t)s->node, &node) ||
	    s->last_wall_ns + (s->clock_high_ns > 0 ? s->clock_high_ns : 0) < l->a->from_wall_ns ||
	    s->first_wall_ns + (s->clock_low_ns < 0 ? s->clock_low_ns : 0) >= l->a->to_wall_ns)
		return 0;
	if (!gs_vec_reserve_next(&l->clock, l->n))
		return -ENOMEM;
	l->clock[l->n++] = (struct clock_of){s->id, s->clock_low_ns, s->clock_high_ns, node};
	return 0;
}

static int add_loss(void *ctx, const struct gs_store_loss *loss)
{
	struct streams *l = ctx;
	uint64_t i;

	if (gs_map_get(&l->by_id, (uint64_t)loss->stream, &i)) {
		struct session_export_node *n = &l->a->node[l->clock[i].node];

		n->lost_samples += loss->lost_samples;
		n->missed_samples += loss->missed_samples;
	}
	return 0;
}

static int by_clock(const void *x, const void *y)
{
	const struct clock_of *a = x, *b = y;
	int64_t l = a->low_ns + (a->high_ns - a->low_ns) / 2,
		r = b->low_ns + (b->high_ns - b->low_ns) / 2;

	return l < r ? -1 : l > r;
}

static int open_group(struct archive *a, struct group *g, const struct clock_of *clock, size_t n)
{
	int64_t *ids = g->streams = calloc(n, sizeof(*ids));
	int64_t low = INT64_MAX, high = INT64_MIN;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		ids[i] = clock[i].stream;
		low = clock[i].low_ns < low ? clock[i].low_ns : low;
		high = clock[i].high_ns > high ? clock[i].high_ns : high;
	}
	g->low_ns = low;
	g->range = (struct gs_store_range){.from_wall_ns = a->from_wall_ns - high,
					   .to_wall_ns = a->to_wall_ns - low,
					   .kind = GS_STORE_SAMPLES,
					   .streams = ids,
					   .n_streams = n};
	g->done_wall_ns = INT64_MIN;
	g->opened_ns = gs_clock_mono_ns();
	return gs_store_cursor_open(a->o->store, &g->range, &g->cursor);
}

static int open_groups(struct archive *a, struct streams *l, struct group *group,
		       size_t *ret_n_groups)
{
	int64_t spread;
	size_t begin = 0;
	int r = 0;

	*ret_n_groups = 0;
	if (!l->n)
		return 0;
	qsort(l->clock, l->n, sizeof(*l->clock), by_clock);
	for (size_t i = 0; i < l->n && r == 0; i++)
		r = gs_map_put(&l->by_id, (uint64_t)l->clock[i].stream, i);
	spread = (l->clock[l->n - 1].high_ns - l->clock[0].low_ns) / (GROUPS_MAX - 1);
	if (spread < GROUP_SPREAD_NS)
		spread = GROUP_SPREAD_NS;
	for (size_t i = 1; i <= l->n && r == 0; i++) {
		if (i < l->n && (*ret_n_groups == GROUPS_MAX - 1 ||
				 l->clock[i].low_ns - l->clock[begin].low_ns <= spread))
			continue;
		r = open_group(a, &group[(*ret_n_groups)++], &l->clock[begin], i - begin);
		begin = i;
	}
	return r;
}

/* --- reading --- */

static int fetch_group(struct archive *a, struct group *g)
{
	int r;

	while ((r = gs_store_cursor_next(g->cursor, &g->found)) == -EBADMSG)
		a->stats.n_damaged++;
	g->have = r == 0;
	return r == GS_STORE_END ? 0 : r;
}

/* A cursor that stays open keeps the head's log from being put away, and a file may take hours to
 * be written: opened again now and then, where a batch comes that is later than the one before. */
static int refresh_group(struct archive *a, struct group *g)
{
	int r;

	if (g->found.batch.first_wall_ns <= g->done_wall_ns ||
	    gs_clock_mono_ns() - g->opened_ns < REFRESH_NS)
		return 0;
	g->range.begin_wall_ns = g->found.batch.first_wall_ns;
	gs_store_cursor_close(&g->cursor);
	r = gs_store_cursor_open(a->o->store, &g->range, &g->cursor);
	g->opened_ns = gs_clock_mono_ns();
	return r < 0 ? r : fetch_group(a, g);
}

/* How much the clock was off. Before the first estimate of a stream it is that of the others. */
static int64_t offset_of(const struct streams *l, const struct gs_store_found *found)
{
	int64_t ns = found->batch.clock_offset_ns;
	uint64_t i;

	if (ns == 0 && gs_map_get(&l->by_id, (uint64_t)found->stream, &i))
		ns = l->clock[i].low_ns > 0    ? l->clock[i].low_ns
		     : l->clock[i].high_ns < 0 ? l->clock[i].high_ns
					       : 0;
	return ns;
}

static int read_batch(struct archive *a, const struct streams *l, struct gs_node_decoder *decoder,
		      const struct gs_store_found *found, const struct session_export_sink *sink)
{
	struct session_export_sample m = {0};
	uint64_t node;
	int r = 0;

	if (!gs_map_get(&a->by_id, (uint64_t)found->node, &node))
		return 0;
	m.node = (uint32_t)node;
	gs_records_for_each (&found->records, record) {
		struct gs_node_snapshot *snapshot = NULL;

		(void)gs_rollup_read(record, &m.mark);
		r = gs_node_decode(decoder, record, &snapshot);
		if (r < 0)
			break;
		if (r != GS_NODE_WHOLE)
			continue;
		r = 0;
		m.wall_ns = snapshot->wall_ns + offset_of(l, found);
		m.snapshot = snapshot;
		if (m.wall_ns >= a->from_wall_ns && m.wall_ns < a->to_wall_ns) {
			a->stats.n_samples++;
			a->stats.n_nodes += a->node[node].n_samples++ == 0;
			a->stats.n_coarse += m.mark.n_samples > 0;
			a->stats.n_coarse_of += m.mark.n_samples;
			if (m.mark.interval_ns > a->stats.coarse_ns)
				a->stats.coarse_ns = m.mark.interval_ns;
			r = sink->snapshot(sink->ctx, &m);
		}
		gs_node_snapshot_free(&snapshot);
		m.mark = (struct gs_rollup_mark){0};
		if (r < 0)
			break;
	}
	gs_node_decoder_reset(decoder);
	return r < 0 ? r : 0;
}

int session_export_read(struct archive *a, const struct session_export_sink *sink)
{
	struct streams l = {.a = a, .by_id = GS_MAP_INIT(1u << 24)};
	struct gs_node_decoder *decoder = gs_node_decoder_new();
	struct group group[GROUPS_MAX] = {0};
	size_t n_groups = 0;
	int r = decoder ? gs_store_streams(a->o->store, 0, add_stream, &l) : -ENOMEM;

	if (r == 0)
		r = open_groups(a, &l, group, &n_groups);
	if (r == 0)
		r = gs_store_losses(a->o->store, a->from_wall_ns, a->to_wall_ns, add_loss, &l);
	for (size_t i = 0; i < n_groups && r == 0; i++)
		r = fetch_group(a, &group[i]);
	while (r == 0) {
		struct group *least = NULL;

		for (size_t i = 0; i < n_groups; i++)
			if (group[i].have &&
			    (!least || group[i].found.batch.first_wall_ns + group[i].low_ns <
					       least->found.batch.first_wall_ns + least->low_ns))
				least = &group[i];
		if (!least)
			break;
		r = refresh_group(a, least);
		if (r < 0 || !least->have)
			continue;
		if (sink->passed)
			r = sink->passed(sink->ctx,
					 least->found.batch.first_wall_ns + least->low_ns);
		if (r == 0)
			r = read_batch(a, &l, decoder, &least->found, sink);
		least->done_wall_ns = least->found.batch.first_wall_ns;
		if (r == 0)
			r = fetch_group(a, least);
	}
	for (size_t i = 0; i < n_groups; i++) {
		gs_store_cursor_close(&group[i].cursor);
		free(group[i].streams);
	}
	gs_node_decoder_free(&decoder);
	gs_map_fini(&l.by_id);
	free(l.clock);
	return r;
}
