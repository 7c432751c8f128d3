/* Findings: what each rank did, which of them are the odd ones, in words. */
#include "analysis/hang/hang_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/func.h"

#define N_NAMED 4 /* ranks that a line names */

/* --- ranks that differ --- */

static enum gs_hang_state state_of_missing(const struct member *m)
{
	return m->has_ended ? GS_HANG_ENDED : m->has_left ? GS_HANG_LEFT : GS_HANG_MISSING;
}

static struct gs_hang_rank rank_of_member(const struct member *m, uint64_t call)
{
	const struct call *last = hang_member_call(m, m->n_calls);
	const struct call *here = hang_member_call(m, call);
	struct gs_hang_rank r = {.rank = m->rank,
				 .pid = m->pid,
				 .tid = m->tid,
				 .end_signal = m->end_signal,
				 .is_inside = m->is_inside,
				 .n_calls = m->n_calls};

	if (last) {
		r.last = last->op;
		r.last_ns = last->start_ns;
	}
	if (here)
		r.here = here->op;
	return r;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_hang_rank *x = a, *y = b;
	bool x_odd = x->state != GS_HANG_ARRIVED, y_odd = y->state != GS_HANG_ARRIVED;

	if (x_odd != y_odd)
		return x_odd ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void fill_ranks(const struct gs_hang *h, const struct group *g, struct gs_hang_found *f,
		       struct gs_hang_pair *pairs)
{
	struct gs_hang_op next;

	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];

		f->ranks[i] = rank_of_member(m, f->call);
		if (f->kind == GS_HANG_DIFFERS)
			f->ranks[i].here = m->pair.at[0];
		pairs[i] = (struct gs_hang_pair){{f->ranks[i].here, m->pair.at[1]}};
	}
	f->op = gs_hang_op_of_most(pairs, f->n_seen, &next);
	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];
		struct gs_hang_rank *r = &f->ranks[i];

		if (f->kind == GS_HANG_DIFFERS && r->here.function)
			r->state = gs_hang_state_of_pair(&pairs[i], &f->op, &next);
		else if (f->kind == GS_HANG_DIFFERS)
			r->state = state_of_missing(m);
		else
			r->state = m->n_calls >= f->call ? GS_HANG_ARRIVED : state_of_missing(m);
		f->n_odd += r->state != GS_HANG_ARRIVED;
	}
	if (f->kind == GS_HANG_DIFFERS && !f->op.function)
		f->n_odd = 0;
	qsort(f->ranks, f->n_seen, sizeof(*f->ranks), compare_ranks);
}

struct found *hang_add_found(struct gs_hang *h, const struct group *g, enum gs_hang_kind kind,
			     uint64_t call, uint64_t since_ns, uint64_t now_ns)
{
	GS_FREE struct gs_hang_pair *pairs = calloc(g->n_members, sizeof(*pairs));
	struct found *f = &h->found[h->n_found];
	struct gs_hang_rank *ranks = NULL;

	if (pairs && h->n_found < GS_HANG_MAX_FOUND)
		ranks = calloc(g->n_members, sizeof(*ranks));
	if (!ranks) {
		h->n_left_out++;
		return NULL;
	}
	*f = (struct found){.it = {.number = ++h->n_found,
				   .kind = kind,
				   .id = g->id,
				   .n_ranks = g->n_ranks,
				   .call = call,
				   .since_ns = since_ns,
				   .found_ns = now_ns,
				   .ranks = ranks,
				   .n_seen = g->n_members},
			    .is_due = true};
	fill_ranks(h, g, &f->it, pairs);
	return f;
}

const struct gs_hang_found *gs_hang_next(struct gs_hang *h)
{
	for (uint32_t i = 0; i < h->n_found; i++) {
		if (!h->found[i].is_due)
			continue;
		h->found[i].is_due = false;
		return &h->found[i].it;
	}
	return NULL;
}

uint64_t gs_hang_n_left_out(const struct gs_hang *h)
{
	return h->n_left_out;
}

/* --- words --- */

const char *gs_hang_state_name(enum gs_hang_state state)
{
	static const char *const names[GS_HANG_N_STATES] = {
		[GS_HANG_ARRIVED] = "arrived", [GS_HANG_MISSING] = "missing",
		[GS_HANG_ENDED] = "ended",     [GS_HANG_LEFT] = "left",
		[GS_HANG_ODD] = "differs",     [GS_HANG_SKIPPED] = "skipped",
		[GS_HANG_EXTRA] = "extra"};

	return state < GS_HANG_N_STATES && names[state] ? names[state] : "unknown";
}

/* "ranks 2, 5, 6 and 3 more": those that are not of the state "arrived". */
static void put_odd_ranks(const struct gs_hang_found *f, char *out, size_t bytes)
{
	size_t n = f->n_odd, at = 0;

	if (n == 1 && f->ranks[0].pid) {
		snprintf(out, bytes, "rank %d (process %u)", f->ranks[0].rank, f->ranks[0].pid);
		return;
	}
	for (size_t i = 0; i < n && i < N_NAMED; i++)
		at += (size_t)snprintf(out + at, bytes - at, "%s%d",
				       i       ? ", "
				       : n > 1 ? "ranks "
					       : "rank ",
				       f->ranks[i].rank);
	if (n > N_NAMED)
		snprintf(out + at, bytes - at, " and %zu more", n - N_NAMED);
}

static void put_waits(const struct gs_hang_found *f, char *out)
{
	char who[96], op[GS_HANG_TEXT_BYTES], waited[GS_FMT_BYTES];
	size_t n_waiting = f->n_seen - f->n_odd;

	put_odd_ranks(f, who, sizeof(who));
	gs_fmt_ns(waited, f->found_ns > f->since_ns ? f->found_ns - f->since_ns : 0);
	snprintf(out, GS_HANG_TEXT_BYTES,
		 "%s %s not arrived at collective %" PRIu64 " of communicator 0x%" PRIx64
		 ": %zu of %d ranks waiting for %s in %.100s",
		 who, f->n_odd == 1 ? "has" : "have", f->call, f->id, n_waiting, f->n_ranks, waited,
		 gs_hang_op_text(&f->op, op));
}

static void put_differs(const struct gs_hang_found *f, char *out)
{
	char who[96], op[GS_HANG_TEXT_BYTES], other[GS_HANG_TEXT_BYTES];
	const struct gs_hang_rank *r = f->ranks;

	if (!f->n_odd) {
		snprintf(out, GS_HANG_TEXT_BYTES,
			 "ranks make different calls as collective %" PRIu64
			 " of communicator 0x%" PRIx64,
			 f->call, f->id);
		return;
	}
	put_odd_ranks(f, who, sizeof(who));
	gs_hang_op_text(&f->op, op);
	if (f->n_odd == 1 && r->state == GS_HANG_SKIPPED)
		snprintf(out, GS_HANG_TEXT_BYTES,
			 "%s skipped collective %" PRIu64 " of communicator 0x%" PRIx64 ", %.100s",
			 who, f->call, f->id, op);
	else if (f->n_odd == 1 && r->here.function)
		snprintf(out, GS_HANG_TEXT_BYTES,
			 "%s called %.80s%s as collective %" PRIu64 " of communicator 0x%" PRIx64
			 ", the others %.80s",
			 who, gs_hang_op_text(&r->here, other),
			 r->state == GS_HANG_EXTRA ? " once too often" : "", f->call, f->id, op);
	else
		snprintf(out, GS_HANG_TEXT_BYTES,
			 "%s differ from the others at collective %" PRIu64
			 " of communicator 0x%" PRIx64 ", %.100s",
			 who, f->call, f->id, op);
}

static const char *name_function(uint32_t function)
{
	const struct gs_func *f = gs_func_by_id(function);

	return f ? f->name : "";
}

static void put_joins(const struct gs_hang_found *f, char *out)
{
	const char *function = name_function(f->op.function);
	char who[96], waited[GS_FMT_BYTES];
	size_t n_inside = f->n_seen - f->n_odd;

	put_odd_ranks(f, who, sizeof(who));
	gs_fmt_ns(waited, f->found_ns > f->since_ns ? f->found_ns - f->since_ns : 0);
	if (f->n_odd)
		snprintf(out, GS_HANG_TEXT_BYTES,
			 "%s %s not called %s in this trace: %zu of %d ranks waiting in it for %s",
			 who, f->n_odd == 1 ? "has" : "have", function, n_inside, f->n_ranks,
			 waited);
	else if (n_inside == (size_t)f->n_ranks)
		snprintf(
			out, GS_HANG_TEXT_BYTES,
			"all %d ranks have called %s and wait in it for %s: they do not reach each other",
			f->n_ranks, function, waited);
	else
		snprintf(
			out, GS_HANG_TEXT_BYTES,
			"%zu of %d ranks wait in %s for %s; the others have not called it in this trace",
			n_inside, f->n_ranks, function, waited);
}

static const char *put_join_rank(const struct gs_hang_found *f, const struct gs_hang_rank *r,
				 char *out)
{
	char waited[GS_FMT_BYTES];

	gs_fmt_ns(waited, f->found_ns > r->last_ns ? f->found_ns - r->last_ns : 0);
	if (r->state == GS_HANG_ARRIVED)
		snprintf(out, GS_HANG_TEXT_BYTES, "rank %d (process %u) is in %s for %s", r->rank,
			 r->pid, name_function(r->last.function), waited);
	else
		snprintf(out, GS_HANG_TEXT_BYTES, "rank %d has not called %s", r->rank,
			 name_function(f->op.function));
	return out;
}

const char *gs_hang_text(const struct gs_hang_found *f, char out[GS_HANG_TEXT_BYTES])
{
	if (f->kind == GS_HANG_WAITS)
		put_waits(f, out);
	else if (f->kind == GS_HANG_JOINS)
		put_joins(f, out);
	else
		put_differs(f, out);
	return out;
}

const char *gs_hang_rank_text(const struct gs_hang_found *f, const struct gs_hang_rank *r,
			      char out[GS_HANG_TEXT_BYTES])
{
	char op[GS_HANG_TEXT_BYTES], ago[GS_FMT_BYTES];
	const struct gs_hang_op *shown = &r->last;
	int n;

	if (f->kind == GS_HANG_JOINS)
		return put_join_rank(f, r, out);
	n = snprintf(out, GS_HANG_TEXT_BYTES, "rank %d (process %u)", r->rank, r->pid);

	if (r->state == GS_HANG_ENDED && r->end_signal)
		n += snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n,
			      " was killed by signal %u (%s),", r->end_signal,
			      strsignal(r->end_signal));
	else if (r->state == GS_HANG_ENDED)
		n += snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, " ended,");
	else if (r->state == GS_HANG_LEFT)
		n += snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n,
			      " destroyed its communicator,");
	if (f->kind == GS_HANG_DIFFERS && r->here.function) {
		snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, " called %.140s here",
			 gs_hang_op_text(&r->here, op));
		return out;
	}
	if (!shown->function) {
		snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, " no collective so far");
		return out;
	}
	gs_fmt_ns(ago, f->found_ns > r->last_ns ? f->found_ns - r->last_ns : 0);
	snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n,
		 " %s %.140s, collective %" PRIu64 ", %s ago%s",
		 r->state == GS_HANG_ARRIVED ? "called" : "last called", gs_hang_op_text(shown, op),
		 r->n_calls, ago, r->is_inside ? ", still in it" : "");
	return out;
}
