/* Steps of ranks as a table. */
#include "analysis/fleet/fleet.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/fmt.h"

#define CELL_BYTES 64

/* "30 ms", "-1.2 ms"; "-": not known. */
static const char *put_late(char out[CELL_BYTES], double ns)
{
	char text[GS_FMT_BYTES];

	if (isfinite(ns))
		snprintf(out, CELL_BYTES, "%s%s", ns < 0 ? "-" : "",
			 gs_fmt_ns(text, (uint64_t)fmin(9e18, fabs(ns))));
	else
		snprintf(out, CELL_BYTES, "-");
	return out;
}

static void put_head(struct gs_buf *out, const struct gs_fleet_steps *s, int64_t now_ns)
{
	char least[GS_FMT_BYTES], most[GS_FMT_BYTES], median[GS_FMT_BYTES], p95[GS_FMT_BYTES],
		ago[GS_FMT_BYTES];

	if (s->job[0])
		(void)gs_buf_printf(out, "job %s, ", s->job);
	(void)gs_buf_printf(
		out, "communicator 0x%" PRIx64 ": steps of %u of %d ranks, medians %s to %s\n",
		s->id, s->n_with, s->n_ranks, gs_fmt_ns(least, s->least_median_ns),
		gs_fmt_ns(most, s->most_median_ns));
	if (!s->n_compared) {
		(void)gs_buf_printf(out, "  no step of several ranks is known yet\n");
		return;
	}
	(void)gs_buf_printf(
		out,
		"  %" PRIu64 " steps compared in %s: spread between ranks %s (median), %s (p95)\n",
		s->n_compared,
		gs_fmt_ns(ago, now_ns > s->since_ns ? (uint64_t)(now_ns - s->since_ns) : 0),
		gs_fmt_ns(median, s->spread_median_ns), gs_fmt_ns(p95, s->spread_p95_ns));
	if (s->n_unlike)
		(void)gs_buf_printf(
			out,
			"  %" PRIu64
			" steps left out: ranks made different numbers of collectives in them\n",
			s->n_unlike);
	if (s->n_known < s->n_compared)
		(void)gs_buf_printf(out, "  in %" PRIu64 " of them the slowest rank is not known\n",
				    s->n_compared - s->n_known);
}

static void put_ranks(struct gs_buf *out, const struct gs_fleet_steps *s)
{
	(void)gs_buf_printf(out, "  %6s  %-20s %8s %8s %10s %10s %10s %12s  %s\n", "rank", "node",
			    "pid", "steps", "median", "p95", "late", "collectives", "slowest in");
	for (uint32_t i = 0; i < s->n_listed; i++) {
		const struct gs_fleet_step_rank *r = &s->ranks[i];
		char median[GS_FMT_BYTES], p95[GS_FMT_BYTES], late[CELL_BYTES],
			inside[CELL_BYTES] = "-";

		if (isfinite(r->inside_ratio))
			snprintf(inside, sizeof(inside), "%.1f %%", 100 * r->inside_ratio);
		(void)gs_buf_printf(out,
				    "  %6d  %-20.64s %8u %8" PRIu64 " %10s %10s %10s %12s  %" PRIu64
				    " of %" PRIu64 "\n",
				    r->rank, r->node, r->pid, r->n_steps,
				    gs_fmt_ns(median, r->median_ns), gs_fmt_ns(p95, r->p95_ns),
				    put_late(late, r->late_ns), inside, r->n_slowest,
				    r->n_compared);
	}
	if (s->n_listed < s->n_with)
		(void)gs_buf_printf(out, "  %u more ranks\n", s->n_with - s->n_listed);
}

static void put_slow(struct gs_buf *out, const struct gs_fleet_slow_step *s, int64_t now_ns)
{
	char ago[GS_FMT_BYTES], dur[GS_FMT_BYTES], spread[GS_FMT_BYTES], late[CELL_BYTES],
		error[GS_FMT_BYTES];

	(void)gs_buf_printf(
		out, "  %s ago, from collective %" PRIu64 " on: %s, spread %s; ",
		gs_fmt_ns(ago, now_ns > s->begin_ns ? (uint64_t)(now_ns - s->begin_ns) : 0),
		s->call, gs_fmt_ns(dur, (uint64_t)s->dur_ns),
		gs_fmt_ns(spread, (uint64_t)s->spread_ns));
	gs_fmt_ns(error, (uint64_t)fmin(9e18, s->error_ns));
	if (s->slowest == GS_FLEET_SLOWEST_RANK)
		(void)gs_buf_printf(
			out, "rank %d (%s, pid %u) is last, %s (+/- %s) after the median rank\n",
			s->rank, s->node, s->pid, put_late(late, s->late_ns), error);
	else if (s->slowest == GS_FLEET_SLOWEST_NONE)
		(void)gs_buf_puts(out, "no rank stands out\n");
	else if (s->error_ns < GS_FLEET_UNKNOWN_NS)
		(void)gs_buf_printf(out, "the slowest rank is not known: clocks may be %s apart\n",
				    error);
	else
		(void)gs_buf_puts(out, "the slowest rank is not known\n");
}

void gs_fleet_put_steps_text(struct gs_buf *out, const struct gs_fleet_steps *s, int64_t now_ns)
{
	put_head(out, s, now_ns);
	put_ranks(out, s);
	if (s->n_slow)
		(void)gs_buf_puts(out, "  the slowest steps:\n");
	for (uint32_t i = 0; i < s->n_slow; i++)
		put_slow(out, &s->slow[i], now_ns);
}
