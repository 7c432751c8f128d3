/* A process in the past: when it was last seen, and its values over time, out of the store. */
#include "server/api/api_int.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/live/process.h"
#include "server/live/bucket.h"
#include "model/node/record.h"
#include "model/node/rollup.h"

#define SAME_START_NS 2000000000ll /* a start is known by clocks of which two never quite agree */

struct process_request {
	struct gs_live_process who;
	int64_t started_ns; /* wall; 0: whichever process had this number */
	/* of the series */
	struct gs_live_buckets in;
	uint64_t coarse_ns; /* how far apart samples are that were made coarser; 0: none was */
	/* of the last time it was seen */
	int64_t seen_ns;
	struct gs_buf document;
};

enum { CPU, HOST_MEMORY, GPU_MEMORY, SM, N_VALUES };
static const char *const keys[N_VALUES] = {"cpu_ratio", "host_memory_bytes",
					   "gpu_memory_used_bytes", "sm_ratio"};

/* --- when it was last seen --- */

static void see_process(void *ctx, const struct gs_store_found *found,
			const struct gs_node_snapshot *m, const struct gs_rollup_mark *mark)
{
	struct process_request *r = ctx;
	int64_t wall = m->wall_ns + found->batch.clock_offset_ns;

	if (wall < r->seen_ns || !gs_live_process_is_there(m, r->who.pid))
		return;
	r->seen_ns = wall;
	gs_buf_reset(&r->document);
	gs_live_put_process(&r->document, &r->who, m, found->batch.clock_offset_ns, false);
}

/* Farther and farther back, until it is found or the time is up. */
static int search_back(struct process_request *r, struct gs_store *store)
{
	static const int64_t reach_s[] = {600, 3600, 21600, 86400, 604800};
	int64_t now = (int64_t)gs_clock_wall_ns(), end = now + API_SKEW_NS;
	uint64_t until = gs_clock_mono_ns() + API_READ_NS;
	int got = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(reach_s) && got == 0 && !r->seen_ns; i++) {
		struct gs_store_range range = {
			.from_wall_ns = now - reach_s[i] * 1000000000,
			.to_wall_ns = end,
			.kind = GS_STORE_SAMPLES,
			.nodes = &r->who.node,
			.n_nodes = 1,
		};

		got = api_read_samples(store, &range, until, see_process, r);
		end = range.from_wall_ns;
	}
	return got;
}

static void read_last(struct api_task *t)
{
	struct process_request *r = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	int got;

	r->document = GS_BUF_INIT(1u << 20);
	got = search_back(r, t->store);
	if (r->seen_ns)
		(void)gs_buf_put(gs_live_json(&reply), r->document.data, r->document.bytes);
	else if (got < 0)
		gs_live_fail(&reply, got, NULL);
	else
		gs_http_error(
			&reply, 404,
			got == 0
				? "this process was not seen in the last week"
				: "this process was not seen in the part of the past that one request can read");
	gs_buf_fini(&r->document);
	gs_http_answer(&t->later, &reply);
}

void api_past_process(void *ctx, const struct gs_live_process *asked, struct gs_http_reply *reply)
{
	struct process_request *r = calloc(1, sizeof(*r));

	if (!r) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	r->who = *asked;
	api_task_start(ctx, reply, read_last, r);
}

/* --- over time --- */

static void add_value(struct process_request *r, unsigned value, int64_t wall_ns, double v,
		      uint32_t n)
{
	gs_live_bucket_add_mean(&r->in, value, wall_ns, v, v, n);
}

static void add_snapshot(void *ctx, const struct gs_store_found *found,
			 const struct gs_node_snapshot *m, const struct gs_rollup_mark *mark)
{
	struct process_request *r = ctx;
	int64_t offset = found->batch.clock_offset_ns, wall = m->wall_ns + offset;
	const struct gs_host_process *h = gs_host_process_of(m->host, r->who.pid);
	uint32_t n = mark->n_samples ? mark->n_samples : 1;
	int64_t started = gs_live_process_started(m, r->who.pid);
	double memory, sm;

	if (!gs_live_process_is_there(m, r->who.pid) ||
	    (r->started_ns && started && llabs(started + offset - r->started_ns) > SAME_START_NS))
		return;
	gs_live_process_gpus(m->gpu, r->who.pid, &memory, &sm);
	add_value(r, CPU, wall, h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN, n);
	add_value(r, HOST_MEMORY, wall, h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN, n);
	add_value(r, GPU_MEMORY, wall, memory, n);
	add_value(r, SM, wall, sm, n);
	if (wall >= r->in.from_ns && wall < r->in.to_ns && mark->interval_ns > r->coarse_ns)
		r->coarse_ns = mark->interval_ns;
}

static void read_series(struct api_task *t)
{
	struct process_request *r = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct gs_store_range range = {
		.from_wall_ns = r->in.from_ns > API_SKEW_NS ? r->in.from_ns - API_SKEW_NS : 0,
		.to_wall_ns = r->in.to_ns + API_SKEW_NS,
		.kind = GS_STORE_SAMPLES,
		.nodes = &r->who.node,
		.n_nodes = 1,
	};
	int got = api_read_samples(t->store, &range, gs_clock_mono_ns() + API_READ_NS, add_snapshot,
				   r);
	struct gs_buf *b = &reply.body;

	if (got < 0) {
		gs_live_fail(&reply, got, NULL);
	} else {
		j_open(gs_live_json(&reply), NULL, '{');
		j_i64(b, "node", r->who.node);
		j_u64(b, "pid", r->who.pid);
		j_text(b, "source", "store");
		j_bool(b, "complete", got == 0);
		gs_live_bucket_put_time(b, &r->in);
		if (r->coarse_ns)
			j_double(b, "downsampled_seconds", (double)r->coarse_ns / 1e9);
		j_open(b, "values", '{');
		for (size_t v = 0; v < N_VALUES; v++)
			gs_live_bucket_put(b, keys[v], &r->in, v);
		j_close(b, '}');
		j_close(b, '}');
	}
	gs_http_answer(&t->later, &reply);
}

GS_API_HANDLER(api_process_series)
{
	struct gs_api *a = ctx;
	struct gs_live_snapshot *l;
	double node = 0, pid = 0, started = 0;
	struct process_request asked = {0}, *r;
	bool known;

	if (gs_live_number(q, reply, "node", 1, 9e15, &node) < 0 ||
	    gs_live_number(q, reply, "pid", 1, INT32_MAX, &pid) < 0 ||
	    gs_live_number(q, reply, "started", 0, 9e9, &started) < 0)
		return;
	if (node < 1 || pid < 1) {
		gs_http_error(reply, 400, "node and pid say which process");
		return;
	}
	asked.who.node = (int64_t)node;
	asked.who.pid = (uint32_t)pid;
	asked.started_ns = (int64_t)(started * 1e9);
	if (!gs_live_bucket_parse(q, reply, N_VALUES, &asked.in))
		return;
	l = gs_live_take_snapshot(a->live);
	known = l && gs_registry_view_find(l->view, asked.who.node);
	gs_live_snapshot_unref(&l);
	if (!known) {
		gs_http_error(reply, 404, "no node has this number");
		return;
	}
	r = gs_live_bucket_new(&asked, sizeof(asked), offsetof(struct process_request, in));
	if (r)
		api_task_start(a, reply, read_series, r);
	else
		gs_http_error(reply, 503, "no memory");
}
