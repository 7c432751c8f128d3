/* Findings: what each rank did, which of them are the odd ones, in words. */
#include "analysis/hang/hang_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "model/trace/func.h"

#define N_NAMED 4 /* ranks that a line names */

/* --- ranks that differ --- */

/* What more than half of the ranks that called there called; function 0: nothing is. */
static struct gs_hang_op op_of_most(const struct gs_hang_rank *ranks, size_t n)
{
	size_t n_votes = 0, n_called = 0, lead = 0;
	struct gs_hang_op op = {0};

	for (size_t i = 0; i < n; i++) {
		if (!ranks[i].here.function)
			continue;
		n_called++;
		if (lead == 0)
			op = ranks[i].here;
		lead += hang_ops_agree(&op, &ranks[i].here) ? 1 : (size_t)-1;
	}
	for (size_t i = 0; i < n; i++)
		n_votes += ranks[i].here.function && hang_ops_agree(&op, &ranks[i].here);
	return 2 * n_votes > n_called ? op : (struct gs_hang_op){0};
}

static enum gs_hang_state state_of_missing(const struct member *m)
{
	return m->has_ended ? GS_HANG_ENDED : m->has_left ? GS_HANG_LEFT : GS_HANG_MISSING;
}

/* What most ranks call after the difference; function 0: not known. */
static struct gs_hang_op next_of_most(const struct gs_hang *h, const struct group *g,
				      const struct gs_hang_op *most)
{
	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];

		if (m->at[0].function && hang_ops_agree(&m->at[0], most) && m->at[1].function)
			return m->at[1];
	}
	return (struct gs_hang_op){0};
}

static enum gs_hang_state state_of_caller(const struct member *m, const struct gs_hang_op *most,
					  const struct gs_hang_op *next)
{
	if (!m->at[0].function)
		return state_of_missing(m);
	if (!most->function)
		return GS_HANG_ODD;
	if (hang_ops_agree(&m->at[0], most))
		return GS_HANG_ARRIVED;
	if (next->function && hang_ops_agree(&m->at[0], next))
		return GS_HANG_SKIPPED;
	return m->at[1].function && hang_ops_agree(&m->at[1], most) ? GS_HANG_EXTRA : GS_HANG_ODD;
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

static void fill_ranks(const struct gs_hang *h, const struct group *g, struct gs_hang_found *f)
{
	struct gs_hang_op next;

	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];

		f->ranks[i] = rank_of_member(m, f->call);
		if (f->kind == GS_HANG_DIFFERS)
			f->ranks[i].here = m->at[0];
	}
	f->op = op_of_most(f->ranks, f->n_seen);
	next = next_of_most(h, g, &f->op);
	for (uint32_t i = 0; i < g->n_members; i++) {
		const struct member *m = &h->members[g->members[i]];
		struct gs_hang_rank *r = &f->ranks[i];

		if (f->kind == GS_HANG_DIFFERS)
			r->state = state_of_caller(m, &f->op, &next);
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
	struct found *f = &h->found[h->n_found];
	struct gs_hang_rank *ranks = NULL;

	if (h->n_found < GS_HANG_MAX_FOUND)
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
	fill_ranks(h, g, &f->it);
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

const char *gs_hang_op_text(const struct gs_hang_op *op, char out[GS_HANG_TEXT_BYTES])
{
	const struct gs_func *f = gs_func_by_id(op->function);
	unsigned operation = op->aux >> 8 & 0xff, root = op->aux >> 16;
	int n = snprintf(out, GS_HANG_TEXT_BYTES, "%s of %" PRIu64 " %s", f ? f->name : "no call",
			 op->count, gs_nccl_dtype_name(op->aux & 0xff));

	/* The sum is what nearly all calls ask for. */
	if (operation && operation != 0xff)
		n += snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, " (%s)",
			      gs_nccl_op_name(operation));
	if (root != 0xffff)
		snprintf(out + n, GS_HANG_TEXT_BYTES - (size_t)n, ", root %u", root);
	return out;
}

/* "ranks 2, 5, 6 and 3 more": those that are not of the state "arrived". */
static void put_odd_ranks(const struct gs_hang_found *f, char *out, size_t bytes)
{
	size_t n = f->n_odd, at = 0;

	if (n == 1) {
		snprintf(out, bytes, "rank %d (process %u)", f->ranks[0].rank, f->ranks[0].pid);
		return;
	}
	for (size_t i = 0; i < n && i < N_NAMED; i++)
		at += (size_t)snprintf(out + at, bytes - at, "%s%d", i ? ", " : "ranks ",
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

const char *gs_hang_text(const struct gs_hang_found *f, char out[GS_HANG_TEXT_BYTES])
{
	if (f->kind == GS_HANG_WAITS)
		put_waits(f, out);
	else
		put_differs(f, out);
	return out;
}

const char *gs_hang_rank_text(const struct gs_hang_found *f, const struct gs_hang_rank *r,
			      char out[GS_HANG_TEXT_BYTES])
{
	char op[GS_HANG_TEXT_BYTES], ago[GS_FMT_BYTES];
	const struct gs_hang_op *shown = &r->last;
	int n = snprintf(out, GS_HANG_TEXT_BYTES, "rank %d (process %u)", r->rank, r->pid);

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
