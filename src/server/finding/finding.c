/* A finding into the store, out of it as JSON, and as a metric. */
#include "server/finding/finding.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/json.h"
#include "model/trace/func.h"

/* What was called, where that is known. */
static void put_op(struct gs_buf *b, const struct gs_hang_op *op)
{
	const struct gs_func *f = gs_func_by_id(op->function);

	if (!f)
		return;
	gs_json_text(b, "function", f->name);
	gs_json_u64(b, "count", op->count);
	gs_json_text(b, "type", gs_nccl_dtype_name(op->aux & 0xff));
	if (op->aux >> 8 & 0xff && (op->aux >> 8 & 0xff) != 0xff)
		gs_json_text(b, "operation", gs_nccl_op_name(op->aux >> 8 & 0xff));
	if (op->aux >> 16 != 0xffff)
		gs_json_u64(b, "root", op->aux >> 16);
}

static void put_about(struct gs_buf *b, const struct gs_fleet_finding *f)
{
	uint32_t n = f->n_about < GS_FLEET_MAX_LISTED ? f->n_about : GS_FLEET_MAX_LISTED;

	gs_json_open(b, "about", '[');
	for (uint32_t i = 0; i < n; i++) {
		const struct gs_fleet_rank *r = &f->about[i];

		gs_json_open(b, NULL, '{');
		gs_json_i64(b, "rank", r->rank);
		gs_json_text(b, "node", r->node);
		gs_json_u64(b, "pid", r->pid);
		if (r->state)
			gs_json_text(b, "state", gs_fleet_state_name(r->state));
		gs_json_u64(b, "collectives", r->calls);
		gs_json_text(b, "last", r->last_name);
		put_op(b, &r->here);
		gs_json_close(b, '}');
	}
	gs_json_close(b, ']');
	gs_json_u64(b, "about_count", f->n_about);
}

/* The possible error of the lateness, the clocks that it comes from, and whether the late rank is known despite it. */
static void put_clocks(struct gs_buf *b, const struct gs_fleet_finding *f)
{
	if (f->error_ns < GS_FLEET_UNKNOWN_NS)
		gs_json_double(b, "clock_error_seconds", f->error_ns / 1e9);
	else
		gs_json_null(b, "clock_error_seconds");
	gs_json_text(b, "clocks_from", f->has_clocks ? "collectives" : "head");
	gs_json_bool(b, "late_known", f->is_known);
}

/* All that columns do not hold. */
static void put_data(struct gs_buf *b, const struct gs_fleet_finding *f)
{
	gs_json_open(b, NULL, '{');
	gs_json_i64(b, "ranks_seen", f->n_seen);
	if (f->kind == GS_FLEET_LATE) {
		gs_json_double(b, "late_seconds", f->late_ns / 1e9);
		gs_json_double(b, "late_ratio", f->ratio);
		put_clocks(b, f);
		gs_json_double(b, "inside_ratio", f->inside_ratio);
		gs_json_double(b, "others_inside_ratio", f->others_inside_ratio);
		gs_json_u64(b, "late_comparisons", f->n_late);
		gs_json_u64(b, "comparisons", f->n_compared);
	} else if (f->kind == GS_FLEET_SLOW) {
		gs_json_double(b, "before_seconds", f->before_ns / 1e9);
		gs_json_double(b, "after_seconds", f->after_ns / 1e9);
		gs_json_double(b, "change_ratio", f->ratio);
		gs_json_double(b, "score", f->score);
		gs_json_double(b, "score_limit", f->score_limit);
		put_clocks(b, f);
	} else if (f->kind == GS_FLEET_DIFFERS) {
		gs_json_u64(b, "collective", f->call);
		gs_json_u64(b, "last_collective", f->last_call);
		put_op(b, &f->op);
	} else {
		gs_json_u64(b, "waiting_ranks", f->n_waiting);
		gs_json_u64(b, "collective", f->call);
		gs_json_text(b, "function", f->last_name);
	}
	put_about(b, f);
	gs_json_close(b, '}');
}

static struct gs_store_finding make_row(uint64_t run, const struct gs_fleet_finding *f)
{
	struct gs_store_finding row = {
		.run = run,
		.number = f->number,
		.communicator = f->id,
		.rank = f->n_about ? f->about[0].rank : -1,
		.n_ranks = f->n_ranks,
		.begin_wall_ns = f->begin_ns,
		.found_wall_ns = f->found_ns,
		.end_wall_ns = f->end_ns,
	};
	char text[GS_FLEET_TEXT_BYTES];

	_Static_assert(sizeof(text) == sizeof(row.text) && sizeof(f->job) == sizeof(row.job) &&
			       sizeof(f->about[0].node) == sizeof(row.node),
		       "the same texts");
	snprintf(row.kind, sizeof(row.kind), "%s", gs_fleet_kind_name(f->kind));
	memcpy(row.job, f->job, sizeof(row.job));
	memcpy(row.node, f->about[0].node, sizeof(row.node));
	memcpy(row.text, gs_fleet_text(f, text), sizeof(row.text));
	return row;
}

int gs_finding_store(struct gs_store *store, uint64_t run, const struct gs_fleet_finding *f)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf data = GS_BUF_INIT(GS_STORE_FINDING_MAX);
	const struct gs_store_finding row = make_row(run, f);

	put_data(&data, f);
	if (data.r == 0)
		(void)gs_buf_put(&data, "", 1);
	return data.r < 0 ? data.r : gs_store_finding_put(store, &row, (const char *)data.data);
}

void gs_finding_put_json(struct gs_buf *out, const struct gs_store_finding *f, const char *data)
{
	char communicator[24];

	snprintf(communicator, sizeof(communicator), "0x%016llx",
		 (unsigned long long)f->communicator);
	gs_json_open(out, NULL, '{');
	gs_json_i64(out, "id", f->id);
	gs_json_text(out, "kind", f->kind);
	gs_json_text(out, "job", f->job);
	gs_json_text(out, "node", f->node);
	gs_json_i64(out, "rank", f->rank);
	gs_json_i64(out, "ranks", f->n_ranks);
	gs_json_text(out, "communicator", communicator);
	gs_json_time(out, "start_time", f->begin_wall_ns);
	gs_json_time(out, "found", f->found_wall_ns);
	gs_json_time(out, "end_time", f->end_wall_ns);
	gs_json_text(out, "text", f->text);
	gs_json_spelled(out, "details", data, strlen(data));
	gs_json_close(out, '}');
}

/* --- those that hold --- */

struct lending {
	void (*fn)(void *ctx, const struct gs_store_finding *finding);
	void *ctx;
	uint64_t run;
};

static void lend_row(void *ctx, const struct gs_fleet_finding *f)
{
	const struct lending *l = ctx;
	const struct gs_store_finding row = make_row(l->run, f);

	l->fn(l->ctx, &row);
}

void gs_finding_each_holding(const struct gs_fleet *fleet, uint64_t run,
			     void (*fn)(void *ctx, const struct gs_store_finding *finding),
			     void *ctx)
{
	struct lending l = {fn, ctx, run};

	gs_fleet_each_holding(fleet, lend_row, &l);
}

void gs_finding_begin_metric(struct gs_metrics *p)
{
	gs_metrics_family(
		p, "gpuscope_head_finding", GS_METRICS_GAUGE, "",
		"1 for each active finding over nodes, with the first rank that it is about.");
}

void gs_finding_put_metric(void *metrics, const struct gs_store_finding *f)
{
	char rank[16], communicator[24];
	struct gs_metrics_label l[] = {{"kind", f->kind},
				       {"job", f->job},
				       {"node", f->node},
				       {"rank", rank},
				       {"communicator", communicator}};

	snprintf(rank, sizeof(rank), "%d", f->rank);
	snprintf(communicator, sizeof(communicator), "0x%016llx",
		 (unsigned long long)f->communicator);
	gs_metrics_line(metrics, "", l, GS_ARRAY_LEN(l), 1, 0);
}
