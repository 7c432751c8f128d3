/*
 * Who called something else. Records list the newest calls of each rank, which are compared by their
 * numbers as they come in. Of ranks that make more calls than are listed, or that are far apart, sums of
 * all that was called are compared where they have a mark in common: then it is known between which calls
 * the difference is, and whose it is.
 */
#include "analysis/fleet/fleet_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/func.h"

#define HOLD_NS                                                                                    \
	2000000000ll /* for what the others call next, and for losses that are reported late */

/* --- functions --- */

uint32_t fleet_function_hash(uint32_t function)
{
	const struct gs_func *f = gs_func_by_id(function);

	return f ? (uint32_t)gs_hash_bytes(f->name, strlen(f->name)) : 0;
}

void fleet_learn_functions(struct gs_fleet *f)
{
	for (uint32_t id = 1; id < GS_FUNC_FIXED; id++) {
		const struct gs_func *func = gs_func_by_id(id);

		if (!func || func->desc.layer != GS_LAYER_NCCL ||
		    func->desc.op != GS_CLASS_COLLECTIVE || f->n_functions == FUNCTIONS_MAX)
			continue;
		f->functions[f->n_functions].function = id;
		f->functions[f->n_functions++].hash = fleet_function_hash(id);
	}
}

/* One that a newer version knows is 0, and is not compared. */
static uint32_t function_of_hash(const struct gs_fleet *f, uint32_t hash)
{
	for (uint32_t i = 0; i < f->n_functions; i++)
		if (f->functions[i].hash == hash)
			return f->functions[i].function;
	return 0;
}

/* --- calls in --- */

static const struct gs_hang_op *find_op(const struct rank *r, uint64_t number)
{
	bool is_kept = r->ops && r->ops_from && number >= r->ops_from && number <= r->ops_to;

	return is_kept ? &r->ops[number & (GS_RANK_CALLS - 1)] : NULL;
}

static void note_call(const struct comm *c, struct rank *r, uint64_t number)
{
	const struct gs_hang_op *op = find_op(r, number);

	if (op && number >= c->differs_from && number - c->differs_from < 2)
		r->pair.at[number - c->differs_from] = *op;
}

/* What ranks have called there so far is kept; of others it comes. */
static void note_difference(struct gs_fleet *f, struct comm *c, uint64_t number, int64_t now_ns)
{
	c->differs_from = c->differs_to = number;
	c->differs_ns = now_ns;
	for (uint32_t i = 0; i < c->n; i++) {
		note_call(c, &f->ranks[c->ranks[i]], number);
		note_call(c, &f->ranks[c->ranks[i]], number + 1);
	}
}

static void compare_call(struct gs_fleet *f, struct comm *c, struct rank *r, uint64_t number,
			 int64_t now_ns)
{
	const struct gs_hang_op *op = find_op(r, number);
	uint64_t place = number & (GS_RANK_CALLS - 1);

	if (c->differs_from) {
		note_call(c, r, number);
		return;
	}
	if (!op->function || !c->first)
		return;
	if (c->first[place].number < number) {
		c->first[place].number = number;
		c->first[place].op = *op;
	} else if (c->first[place].number == number &&
		   !gs_hang_ops_agree(&c->first[place].op, op)) {
		note_difference(f, c, number, now_ns);
	}
}

void fleet_take_calls(struct gs_fleet *f, struct rank *r, const struct gs_rec_rank *record,
		      int64_t now_ns)
{
	uint64_t from = record->calls - record->n_listed + 1;
	struct comm *c = &f->comms[r->comm - 1];

	if (!record->n_listed || from <= r->ops_to)
		return;
	if (!r->ops)
		r->ops = calloc(GS_RANK_CALLS, sizeof(*r->ops));
	if (!c->first)
		c->first = calloc(GS_RANK_CALLS, sizeof(*c->first));
	if (!r->ops)
		return;
	if (!r->ops_from || from != r->ops_to + 1)
		r->ops_from = from;
	r->ops_to = record->calls;
	if (r->ops_to - r->ops_from >= GS_RANK_CALLS)
		r->ops_from = r->ops_to - GS_RANK_CALLS + 1;
	for (uint32_t i = 0; i < record->n_listed; i++)
		r->ops[(from + i) & (GS_RANK_CALLS - 1)] = (struct gs_hang_op){
			.function = function_of_hash(f, record->listed[i].function_hash),
			.aux = record->listed[i].aux,
			.count = record->listed[i].count};
	for (uint32_t i = 0; i < record->n_listed; i++)
		compare_call(f, c, r, from + i, now_ns);
}

/* --- sums --- */

static uint64_t sum_of(const struct rank *r, uint64_t from, uint64_t to)
{
	const struct mark *a = fleet_find_mark(r, from), *b = fleet_find_mark(r, to);

	return a && b ? b->calls_hash - a->calls_hash : 0;
}

void fleet_compare_calls(struct gs_fleet *f, struct comm *c, uint64_t from, uint64_t to,
			 int64_t now_ns)
{
	uint64_t most = 0;
	bool differs = false;
	uint32_t lead = 0;

	if (c->differs_from)
		return;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];
		uint64_t sum = sum_of(r, from, to);

		if (rank_is_over(r))
			continue;
		differs |= lead && sum != most;
		if (!lead)
			most = sum;
		lead += sum == most ? 1 : -1u;
	}
	if (!differs)
		return;
	for (uint32_t i = 0; i < c->n; i++) {
		struct rank *r = &f->ranks[c->ranks[i]];

		r->is_odd = !rank_is_over(r) && sum_of(r, from, to) != most;
	}
	c->differs_from = from + 1;
	c->differs_to = to;
	c->differs_ns = now_ns;
}

/* --- what is handed out --- */

/* How to find the pair of each rank of the communicator. NULL: no memory. */
static struct gs_hang_pair *list_pairs(const struct gs_fleet *f, const struct comm *c)
{
	struct gs_hang_pair *pairs = calloc(c->n, sizeof(*pairs));

	for (uint32_t i = 0; pairs && i < c->n; i++)
		pairs[i] = f->ranks[c->ranks[i]].pair;
	return pairs;
}

bool fleet_is_consequence(const struct gs_fleet *f, const struct comm *c, uint64_t call)
{
	GS_FREE struct gs_hang_pair *pairs = NULL;

	if (!c->differs_from || call < c->differs_from)
		return false;
	if (c->differs_from != c->differs_to || call - c->differs_from < GS_RANK_CALLS)
		return true;
	pairs = list_pairs(f, c);
	return !pairs || gs_hang_has_shifted(pairs, c->n);
}

static enum gs_fleet_state state_of_pair(const struct gs_hang_pair *pair,
					 const struct gs_hang_op *most,
					 const struct gs_hang_op *next)
{
	switch (gs_hang_state_of_pair(pair, most, next)) {
	case GS_HANG_SKIPPED:
		return GS_FLEET_SKIPPED;
	case GS_HANG_EXTRA:
		return GS_FLEET_EXTRA;
	case GS_HANG_ODD:
		return GS_FLEET_ODD;
	default:
		return 0;
	}
}

/* Those that called something else first, then those that have not called it. */
static void list_odd(const struct gs_fleet *f, const struct comm *c,
		     const struct gs_hang_pair *pairs, const struct gs_hang_op *next,
		     int64_t now_ns, struct gs_fleet_finding *finding)
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < c->n; i++) {
			const struct rank *r = &f->ranks[c->ranks[i]];
			enum gs_fleet_state state =
				pairs[i].at[0].function
					? state_of_pair(&pairs[i], &finding->op, next)
					: fleet_state_of_rank(r, now_ns);

			if (!state || (pass == 0) != (pairs[i].at[0].function != 0))
				continue;
			fleet_list_rank(finding, r, state);
			if (finding->n_about <= GS_FLEET_MAX_LISTED)
				finding->about[finding->n_about - 1].here = pairs[i].at[0];
		}
}

static void list_odd_sums(const struct gs_fleet *f, const struct comm *c,
			  struct gs_fleet_finding *finding)
{
	uint32_t n_odd = 0, n = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		n_odd += f->ranks[c->ranks[i]].is_odd;
		n += !rank_is_over(&f->ranks[c->ranks[i]]);
	}
	finding->has_majority = 2 * n_odd < n;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->is_odd || (!finding->has_majority && !rank_is_over(r)))
			fleet_list_rank(finding, r, GS_FLEET_ODD);
	}
}

static void fill_finding(const struct gs_fleet *f, const struct comm *c, int64_t now_ns,
			 struct gs_fleet_finding *finding)
{
	GS_FREE struct gs_hang_pair *pairs = list_pairs(f, c);
	struct gs_hang_op next;

	finding->call = c->differs_from;
	finding->last_call = c->differs_to;
	if (c->differs_from != c->differs_to || !pairs) {
		list_odd_sums(f, c, finding);
		return;
	}
	finding->op = gs_hang_op_of_most(pairs, c->n, &next);
	finding->has_majority = finding->op.function;
	list_odd(f, c, pairs, &next, now_ns, finding);
}

static bool all_have_called(const struct gs_fleet *f, const struct comm *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (!rank_is_over(r) && r->calls < c->differs_to)
			return false;
	}
	return true;
}

void fleet_seek_mismatch(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	int64_t wait_ns = all_have_called(f, c) ? HOLD_NS : (int64_t)GS_FLEET_HANG_NS;
	struct gs_fleet_finding *finding;

	if (!c->differs_from || c->has_said_differs || now_ns - c->differs_ns < wait_ns)
		return;
	c->has_said_differs = true;
	finding =
		fleet_add_finding(f, c, GS_FLEET_DIFFERS, c->differs_ns, now_ns, &c->differs_find);
	if (finding)
		fill_finding(f, c, now_ns, finding);
}
