/* Steps of ranks as JSON. */
#include "server/finding/finding.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/text/json.h"

/* null where it is not known, as any figure that is no number. */
static void put_error(struct gs_buf *b, double ns)
{
	gs_json_double(b, "clock_error_seconds", ns < GS_FLEET_UNKNOWN_NS ? ns / 1e9 : NAN);
}

static void put_rank(struct gs_buf *b, const struct gs_fleet_step_rank *r)
{
	gs_json_open(b, NULL, '{');
	gs_json_i64(b, "rank", r->rank);
	gs_json_text(b, "node", r->node);
	gs_json_u64(b, "pid", r->pid);
	gs_json_u64(b, "steps", r->n_steps);
	gs_json_u64(b, "odd_steps", r->n_odd);
	gs_json_double(b, "median_seconds", (double)r->median_ns / 1e9);
	gs_json_double(b, "p95_seconds", (double)r->p95_ns / 1e9);
	gs_json_u64(b, "compared_steps", r->n_compared);
	gs_json_u64(b, "slowest_steps", r->n_slowest);
	gs_json_double(b, "late_seconds", r->late_ns / 1e9);
	gs_json_double(b, "inside_ratio", r->inside_ratio);
	gs_json_close(b, '}');
}

static const char *name_of(enum gs_fleet_slowest slowest)
{
	switch (slowest) {
	case GS_FLEET_SLOWEST_RANK:
		return "rank";
	case GS_FLEET_SLOWEST_NONE:
		return "none";
	case GS_FLEET_SLOWEST_UNKNOWN:
		break;
	}
	return "unknown";
}

static void put_slow(struct gs_buf *b, const struct gs_fleet_slow_step *s)
{
	bool is_known = s->slowest == GS_FLEET_SLOWEST_RANK;

	gs_json_open(b, NULL, '{');
	gs_json_u64(b, "collective", s->call);
	gs_json_u64(b, "collectives", s->n_calls);
	gs_json_time(b, "start_time", s->begin_ns);
	gs_json_double(b, "median_seconds", s->dur_ns / 1e9);
	gs_json_double(b, "spread_seconds", s->spread_ns / 1e9);
	gs_json_text(b, "slowest", name_of(s->slowest));
	if (is_known)
		gs_json_i64(b, "rank", s->rank);
	else
		gs_json_null(b, "rank");
	gs_json_text(b, "node", is_known ? s->node : "");
	gs_json_double(b, "late_seconds",
		       s->error_ns < GS_FLEET_UNKNOWN_NS ? s->late_ns / 1e9 : NAN);
	put_error(b, s->error_ns);
	gs_json_close(b, '}');
}

void gs_finding_put_steps(struct gs_buf *b, const struct gs_fleet_steps *s)
{
	char id[32];

	snprintf(id, sizeof(id), "0x%016" PRIx64, s->id);
	gs_json_open(b, NULL, '{');
	gs_json_text(b, "job", s->job);
	gs_json_text(b, "communicator", id);
	gs_json_i64(b, "ranks", s->n_ranks);
	gs_json_i64(b, "ranks_seen", s->n_seen);
	gs_json_u64(b, "ranks_with_steps", s->n_with);
	gs_json_time(b, "since", s->since_ns);
	gs_json_u64(b, "compared_steps", s->n_compared);
	gs_json_u64(b, "known_steps", s->n_known);
	gs_json_u64(b, "unlike_steps", s->n_unlike);
	gs_json_double(b, "least_median_seconds", (double)s->least_median_ns / 1e9);
	gs_json_double(b, "most_median_seconds", (double)s->most_median_ns / 1e9);
	gs_json_double(b, "spread_median_seconds",
		       s->n_compared ? (double)s->spread_median_ns / 1e9 : NAN);
	gs_json_double(b, "spread_p95_seconds",
		       s->n_compared ? (double)s->spread_p95_ns / 1e9 : NAN);
	put_error(b, s->error_ns);
	gs_json_open(b, "slowest", '[');
	for (uint32_t i = 0; i < s->n_slow; i++)
		put_slow(b, &s->slow[i]);
	gs_json_close(b, ']');
	gs_json_open(b, "listed", '[');
	for (uint32_t i = 0; i < s->n_listed; i++)
		put_rank(b, &s->ranks[i]);
	gs_json_close(b, ']');
	gs_json_close(b, '}');
}
