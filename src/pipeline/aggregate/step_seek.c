/*
 * What begins a step: the calls that are kept of a thread are gone through for one that comes back
 * after always as many others.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/mark.h"
#include "pipeline/aggregate/step.h"

#define STEP_ODD_PCT 5  /* of the distances may be others */
#define SAME_RHYTHM  2  /* calls by which two anchors of the same steps may differ */
#define TURNS        4  /* calls of one kind that a step may have */
#define BURST_RATIO  8  /* times the median from one call to the next: a burst is over */
#define BURST_PCT    80 /* of the time is between bursts */

static int compare_places(const void *a, const void *b)
{
	const struct step_place *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_counts(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Odd distances that come back after as many others are the edges of a larger whole. */
static bool are_even(const uint32_t *gaps, uint32_t n, uint32_t usual, uint32_t n_odd)
{
	uint32_t since = 0, before = 0, n_even = 0, n_seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		since++;
		if (step_is_near(gaps[i], usual))
			continue;
		n_even += n_seen++ && step_is_near(since, before);
		before = since;
		since = 0;
	}
	return n_odd >= 3 && n_even * 4 >= (n_odd - 1) * 3;
}

/* Of what comes between the places, is every second, third or fourth alike and the next one not?
 * Then the call comes several times in a step. sums: of what is before each call. */
static bool repeats_in_cycle(const struct step_place *places, uint32_t n, const uint64_t *sums)
{
	uint32_t n_alike[TURNS + 1] = {0};

	for (uint32_t turn = 1; turn <= TURNS; turn++)
		for (uint32_t i = TURNS; i + 1 < n; i++)
			n_alike[turn] +=
				sums[places[i + 1].index] - sums[places[i].index] ==
				sums[places[i + 1 - turn].index] - sums[places[i - turn].index];
	for (uint32_t turn = 2; turn <= TURNS; turn++)
		if (n_alike[turn] > n_alike[1] + n / 10)
			return true;
	return false;
}

static uint32_t ns_between(const struct step_call *a, const struct step_call *b)
{
	uint64_t ns = b->at_ns > a->at_ns ? b->at_ns - a->at_ns : 0;

	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* Do the calls come in bursts of always as many, with nearly all of the time between the bursts? Then
 * they are the calls of one step, whose other ones are of no class that begins steps: a chain of JAX's
 * products is waited for by a function on the host. To be asked of few calls alone: whole steps come
 * in such bursts, too, where a data loader has as many workers. Uses *sums. */
static bool are_in_bursts(const struct step_thread *t, const struct step_place *places, uint32_t n,
			  struct step_sums *sums)
{
	uint32_t n_gaps = n - 1, since = 0, before = 0, n_long = 0, n_same = 0;
	uint64_t all_ns = 0, long_ns = 0, median_ns;

	for (uint32_t i = 0; i < n_gaps; i++)
		sums->gaps[i] = sums->sorted[i] =
			ns_between(&t->calls[places[i].index], &t->calls[places[i + 1].index]);
	qsort(sums->sorted, n_gaps, sizeof(*sums->sorted), compare_counts);
	median_ns = sums->sorted[n_gaps / 2];
	for (uint32_t i = 0; i < n_gaps; i++) {
		since++;
		all_ns += sums->gaps[i];
		if (sums->gaps[i] < BURST_RATIO * median_ns)
			continue;
		long_ns += sums->gaps[i];
		n_same += n_long++ && since == before;
		before = since;
		since = 0;
	}
	return n_long >= STEP_LEAST && before > 1 && n_same * 10 >= (n_long - 1) * 9 &&
	       long_ns * 100 >= all_ns * BURST_PCT;
}

static unsigned rank_of(const struct gs_aggregate *v, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, function);
	const char *name = f ? gs_dict_string(v->dict, f->name_str) : "";

	if (strncmp(name, "Optimizer.step#", 15) == 0)
		return 2;
	return strncmp(name, "enumerate(DataLoader)#", 22) == 0;
}

static bool is_sync_function(const struct gs_aggregate *v, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, function);

	return f && f->func_class == GS_CLASS_SYNC;
}

static void sum_calls(struct step_sums *s, const struct step_thread *t)
{
	for (uint32_t i = 0; t->by_marks && i < t->n; i++)
		s->keys[i] = s->functions[i] = t->calls[i].called;
	if (t->by_marks)
		return;
	s->keys[0] = s->functions[0] = 0;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct step_call *c = &t->calls[i - 1];

		s->keys[i] = s->keys[i - 1] + c->key;
		s->functions[i] =
			s->functions[i - 1] + gs_hash_bytes(&c->function, sizeof(c->function));
	}
}

/* From the first of these places to the one so many further. */
static uint64_t calls_between(const struct step_thread *t, const struct step_place *places,
			      uint32_t further)
{
	return t->calls[places[further].index].seq - t->calls[places[0].index].seq;
}

/* Fills *ret when calls at these places come back after always as many others. */
static bool judge_places(const struct gs_aggregate *v, const struct step_thread *t,
			 const struct step_place *places, uint32_t n, struct step_sums *sums,
			 struct step_choice *ret)
{
	uint32_t n_gaps = n - 1, n_odd = 0, usual;
	uint64_t whole = t->calls[t->n - 1].seq - t->calls[0].seq;

	if (n < STEP_LEAST || calls_between(t, places, n - 1) * 10 < whole * 6)
		return false;
	for (uint32_t i = 0; i < n_gaps; i++)
		sums->gaps[i] = sums->sorted[i] = (uint32_t)calls_between(t, places + i, 1);
	qsort(sums->sorted, n_gaps, sizeof(*sums->sorted), compare_counts);
	usual = sums->sorted[n_gaps / 2];
	for (uint32_t i = 0; i < n_gaps; i++)
		n_odd += !step_is_near(sums->gaps[i], usual);
	*ret = (struct step_choice){.key = places[0].key,
				    .function = t->calls[places[0].index].function,
				    .n_usual = usual,
				    .n = n,
				    .n_odd = n_odd};
	ret->rank = rank_of(v, ret->function);
	ret->is_sync = is_sync_function(v, ret->function);
	if (usual < 2 && !ret->rank)
		return false;
	if (n_odd * 100 > n_gaps * STEP_ODD_PCT && n_odd > 1)
		return false;
	return !are_even(sums->gaps, n_gaps, usual, n_odd) &&
	       !repeats_in_cycle(places, n, sums->keys) &&
	       !repeats_in_cycle(places, n, sums->functions) &&
	       (ret->rank || usual > TURNS || !are_in_bursts(t, places, n, sums));
}

static bool is_better(const struct step_choice *a, const struct step_choice *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	if (a->n > b->n + SAME_RHYTHM || b->n > a->n + SAME_RHYTHM)
		return a->n > b->n;
	/* One that comes outside of the steps too is not the better one for it; a wait is made for
	 * one purpose, a copy or a launch for many. */
	if (a->n_odd != b->n_odd)
		return a->n_odd < b->n_odd;
	return a->is_sync != b->is_sync ? a->is_sync : a->n > b->n;
}

/* Looks at calls by what they were given, or by their function alone. */
static void choose_anchor(const struct gs_aggregate *v, const struct step_thread *t,
			  bool by_function, struct step_choice *best)
{
	struct step_sums *sums = v->steps->sums;
	struct step_place *places = sums->places;
	struct step_choice choice;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->calls[i].counted)
			places[n++] = (struct step_place){
				by_function ? t->calls[i].function : t->calls[i].key, i};
	qsort(places, n, sizeof(*places), compare_places);
	for (uint32_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && places[to].key == places[from].key;)
			to++;
		if (!judge_places(v, t, places + from, to - from, sums, &choice))
			continue;
		choice.by_function = by_function;
		if (is_better(&choice, best))
			*best = choice;
	}
}

bool aggregate_step_choose(const struct gs_aggregate *v, const struct step_thread *t,
			   struct step_choice *ret_choice)
{
	*ret_choice = (struct step_choice){0};
	if (!t->n)
		return false;
	sum_calls(v->steps->sums, t);
	choose_anchor(v, t, false, ret_choice);
	/* Of marks nothing but the function is known. */
	if (!t->by_marks)
		choose_anchor(v, t, true, ret_choice);
	return ret_choice->n != 0;
}
