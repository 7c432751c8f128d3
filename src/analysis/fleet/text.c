/* Findings in words. */
#include "analysis/fleet/fleet.h"

#include <stdio.h>
#include <string.h>

const char *gs_fleet_kind_name(enum gs_fleet_kind kind)
{
	switch (kind) {
	case GS_FLEET_LATE:
		return "late_rank";
	case GS_FLEET_HANG:
		return "hang";
	case GS_FLEET_DIFFERS:
		return "mismatch";
	case GS_FLEET_SLOW:
		return "slowdown";
	}
	return "";
}

const char *gs_fleet_state_name(enum gs_fleet_state state)
{
	switch (state) {
	case GS_FLEET_MISSING:
		return "missing";
	case GS_FLEET_ENDED:
		return "ended";
	case GS_FLEET_LEFT:
		return "left";
	case GS_FLEET_SILENT:
		return "silent";
	case GS_FLEET_ODD:
		return "differs";
	case GS_FLEET_SKIPPED:
		return "skipped";
	case GS_FLEET_EXTRA:
		return "extra";
	}
	return "";
}

static const char *text_of_state(enum gs_fleet_state state)
{
	switch (state) {
	case GS_FLEET_ENDED:
		return "whose process ended";
	case GS_FLEET_LEFT:
		return "which gave the communicator up";
	case GS_FLEET_SILENT:
		return "whose node sends nothing";
	default:
		return "which has not called it";
	}
}

/* "clocks of nodes may be 2.5 ms apart". */
static void put_error(const struct gs_fleet_finding *f, char *out, size_t bytes)
{
	if (f->error_ns < GS_FLEET_UNKNOWN_NS)
		snprintf(out, bytes, "clocks of nodes may be %.2g ms apart", f->error_ns / 1e6);
	else
		snprintf(out, bytes, "it is not known how far clocks of nodes are apart");
}

static void put_late(const struct gs_fleet_finding *f, char out[GS_FLEET_TEXT_BYTES])
{
	const struct gs_fleet_rank *r = &f->about[0];
	char error[80] = "";

	if (!f->is_known) {
		put_error(f, error, sizeof(error));
		snprintf(
			out, GS_FLEET_TEXT_BYTES,
			"whether rank %d of %d (%s, pid %u) still arrives last at collectives is not known: %s; it was %.3g ms after the median rank in %llu of %llu comparisons",
			r->rank, f->n_ranks, r->node, r->pid, error, f->late_ns / 1e6,
			(unsigned long long)f->n_late, (unsigned long long)f->n_compared);
		return;
	}
	if (f->error_ns > 0)
		snprintf(error, sizeof(error), " (+/- %.2g ms)", f->error_ns / 1e6);
	snprintf(
		out, GS_FLEET_TEXT_BYTES,
		"rank %d of %d (%s, pid %u) arrives last at collectives: %.3g ms%s after the median rank, %.0f %% of the time between two of them; %llu of %llu comparisons",
		r->rank, f->n_ranks, r->node, r->pid, f->late_ns / 1e6, error, 100 * f->ratio,
		(unsigned long long)f->n_late, (unsigned long long)f->n_compared);
}

static void put_hang(const struct gs_fleet_finding *f, char out[GS_FLEET_TEXT_BYTES])
{
	const struct gs_fleet_rank *r = &f->about[0];
	char others[32] = "", last[64] = "";

	if (f->n_about > 1)
		snprintf(others, sizeof(others), " and %u others", f->n_about - 1);
	if (r->last_name[0])
		snprintf(last, sizeof(last), "; its last: %s", r->last_name);
	snprintf(out, GS_FLEET_TEXT_BYTES,
		 "%u of %d ranks wait in collective %llu%s%s for rank %d (%s, pid %u)%s, %s%s",
		 f->n_waiting, f->n_ranks, (unsigned long long)f->call, f->last_name[0] ? ", " : "",
		 f->last_name, r->rank, r->node, r->pid, others, text_of_state(r->state), last);
}

static void put_slowdown(const struct gs_fleet_finding *f, char out[GS_FLEET_TEXT_BYTES])
{
	char error[80], late[128] = "and none is late";

	if (!f->is_known) {
		put_error(f, error, sizeof(error));
		snprintf(late, sizeof(late), "whether one is late is not known: %s", error);
	}
	snprintf(
		out, GS_FLEET_TEXT_BYTES,
		"the %d ranks take %.0f %% longer from one collective to the next (%.3g ms -> %.3g ms), %s",
		f->n_ranks, 100 * f->ratio, f->before_ns / 1e6, f->after_ns / 1e6, late);
}

/* "rank 3 of 4 (b, pid 103) and 2 others". */
static void put_who(const struct gs_fleet_finding *f, char out[GS_FLEET_TEXT_BYTES])
{
	const struct gs_fleet_rank *r = &f->about[0];
	int n = snprintf(out, GS_FLEET_TEXT_BYTES, "rank %d of %d (%s, pid %u)", r->rank,
			 f->n_ranks, r->node, r->pid);

	if (f->n_about > 1)
		snprintf(out + n, GS_FLEET_TEXT_BYTES - (size_t)n, " and %u other%s",
			 f->n_about - 1, f->n_about > 2 ? "s" : "");
}

static void put_mismatch(const struct gs_fleet_finding *f, char out[GS_FLEET_TEXT_BYTES])
{
	char who[GS_FLEET_TEXT_BYTES], op[GS_HANG_TEXT_BYTES], other[GS_HANG_TEXT_BYTES];
	const struct gs_fleet_rank *r = &f->about[0];
	unsigned long long call = f->call, last = f->last_call;

	put_who(f, who);
	gs_hang_op_text(&f->op, op);
	if (call != last && f->has_majority)
		snprintf(out, GS_FLEET_TEXT_BYTES,
			 "%.120s made other calls than the others among collectives %llu to %llu",
			 who, call, last);
	else if (call != last)
		snprintf(out, GS_FLEET_TEXT_BYTES,
			 "the %d ranks make different calls among collectives %llu to %llu",
			 f->n_ranks, call, last);
	else if (!f->has_majority)
		snprintf(out, GS_FLEET_TEXT_BYTES,
			 "the %d ranks make different calls as collective %llu: rank %d %.100s",
			 f->n_ranks, call, r->rank, gs_hang_op_text(&r->here, other));
	else if (f->n_about == 1 && r->state == GS_FLEET_SKIPPED)
		snprintf(out, GS_FLEET_TEXT_BYTES, "%.120s skipped collective %llu, %.100s", who,
			 call, op);
	else if (f->n_about == 1)
		snprintf(out, GS_FLEET_TEXT_BYTES,
			 "%.120s called %.80s%s as collective %llu, the others %.80s", who,
			 gs_hang_op_text(&r->here, other),
			 r->state == GS_FLEET_EXTRA ? " once too often" : "", call, op);
	else
		snprintf(out, GS_FLEET_TEXT_BYTES,
			 "%.120s differ from the others at collective %llu, %.100s", who, call, op);
}

const char *gs_fleet_text(const struct gs_fleet_finding *finding, char out[GS_FLEET_TEXT_BYTES])
{
	out[0] = '\0';
	if (finding->n_about && finding->kind == GS_FLEET_LATE)
		put_late(finding, out);
	if (finding->n_about && finding->kind == GS_FLEET_HANG)
		put_hang(finding, out);
	if (finding->n_about && finding->kind == GS_FLEET_DIFFERS)
		put_mismatch(finding, out);
	if (finding->kind == GS_FLEET_SLOW)
		put_slowdown(finding, out);
	return out;
}
