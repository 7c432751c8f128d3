/*
 * Steps: a program that does the same again and again (a training loop, a server) makes the same
 * calls again and again. Of each thread that makes calls the first are kept until one is found that
 * comes back after always as many others; from then on each of its calls begins a step, whose length
 * and calls are added up. Nothing need be marked in the program.
 *
 * A wrong step is worse than none. What comes back in regular groups of a larger whole (the layers
 * of a model) is no step, nor is what stops to come before half of the thread's time is over. The
 * calls of a thread are kept in at most STEP_CALLS_MAX places, those of STEP_THREADS threads.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

#define STEP_THREADS   8
#define STEP_CALLS_MIN 512 /* the first look; then at twice as many, until STEP_CALLS_MAX */
#define STEP_CALLS_MAX (1u << 14)
#define STEP_LEAST     6 /* calls of the anchor that say that it comes back */
#define STEP_ODD_PCT   5 /* of the distances may be others */
#define STEP_LOST      4096
#define STEP_FUNCTIONS 128 /* counted one by one inside of a step; a power of two */
#define STEP_NESTING   64
#define TURNS          4 /* calls of one kind that a step may have */

struct step_call {
	uint64_t key;      /* what was called, with what */
	uint64_t start_ns; /* of the call */
	uint64_t dur_ns;
	uint32_t function;
};

/* What a function took in a step. */
struct step_function {
	uint32_t function; /* 0: free */
	uint64_t now_ns, sum_ns, slowest_ns;
};

/* Times that calls cover, those that hold others once. */
struct step_cover {
	struct {
		uint64_t start_ns, end_ns;
	} item[STEP_NESTING];
	unsigned n;
	uint64_t ns; /* wraps below 0 where a call began before the step did */
};

/* The steps that one anchor begins. */
struct step_run {
	uint64_t anchor;
	uint32_t anchor_function;
	bool by_function;   /* the anchor is any call of the function */
	uint32_t n_usual;   /* calls in a step */
	uint32_t n_calls;   /* since the last anchor */
	uint64_t n_anchors; /* steps begun */
	uint64_t n_regular, n_odd;
	uint64_t n_even; /* odd ones after as many regular ones as the odd one before */
	uint64_t since_odd, before_odd;
	uint64_t begin_ns, sum_ns, max_ns, max_start_ns;
	uint64_t outside_sum_ns, outside_slowest_ns;
	struct step_cover cover;
	struct step_function functions[STEP_FUNCTIONS];
	uint64_t hist[GS_HIST_N_BUCKETS];
};

struct step_thread {
	uint32_t thread;
	struct step_call *calls; /* owned; STEP_CALLS_MAX; n 0: they are no longer kept */
	uint32_t n, n_next;
	uint64_t first_ns, last_ns;
	struct step_run *run;  /* of runs; NULL: none is found yet */
	struct step_run *best; /* of runs; one that came to an end; NULL: none did */
	struct step_run runs[2];
};

struct step_place {
	uint64_t key;
	uint32_t index;
};

/* What is judged of the calls that are kept: room for STEP_CALLS_MAX of each. */
struct step_sums {
	uint64_t keys[STEP_CALLS_MAX]; /* of the calls before each, by what and by function */
	uint64_t functions[STEP_CALLS_MAX];
	uint32_t gaps[STEP_CALLS_MAX], sorted[STEP_CALLS_MAX];
	struct step_place places[STEP_CALLS_MAX];
};

/* All memory is taken when a thread is first seen: counting calls allocates nothing. */
struct view_steps {
	struct step_sums *sums; /* owned */
	struct step_thread threads[STEP_THREADS];
	unsigned n;
	unsigned last; /* index of the thread that called last */
};

void gs_aggregate_steps_fini(struct gs_aggregate *v)
{
	for (unsigned i = 0; v->steps && i < v->steps->n; i++)
		free(v->steps->threads[i].calls);
	if (v->steps)
		free(v->steps->sums);
	free(v->steps);
	v->steps = NULL;
}

static bool is_marking(const struct gs_rec_function *f)
{
	switch (f->func_class) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
	case GS_CLASS_SYNC:
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
	case GS_CLASS_OPERATOR:
		return true;
	default:
		return f->layer == GS_LAYER_MPI;
	}
}

/* Calls of one function differ by kernel, and by the size of what is moved. */
static uint64_t key_of(const struct gs_rec_call *c, const struct gs_rec_function *f)
{
	uint64_t what[3] = {c->function, 0, 0};

	if (f->func_class == GS_CLASS_LAUNCH || f->func_class == GS_CLASS_GRAPH_LAUNCH) {
		what[1] = c->arg[0];
		what[2] = c->arg[1];
	} else if (f->func_class != GS_CLASS_OPERATOR) {
		what[1] = c->bytes;
	}
	return gs_hash_bytes(what, sizeof(what));
}

static struct step_thread *step_thread_of(struct gs_aggregate *v, uint32_t thread)
{
	struct view_steps *s = v->steps;
	struct step_call *calls;

	if (!s) {
		s = v->steps = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->sums = malloc(sizeof(*s->sums));
	}
	if (s->last < s->n && s->threads[s->last].thread == thread)
		return &s->threads[s->last];
	for (unsigned i = 0; i < s->n; i++) {
		if (s->threads[i].thread != thread)
			continue;
		s->last = i;
		return &s->threads[i];
	}
	if (s->n == STEP_THREADS || !s->sums)
		return NULL;
	calls = malloc(STEP_CALLS_MAX * sizeof(*calls));
	if (!calls)
		return NULL;
	s->last = s->n++;
	s->threads[s->last].thread = thread;
	s->threads[s->last].calls = calls;
	s->threads[s->last].n_next = STEP_CALLS_MIN;
	return &s->threads[s->last];
}

/* --- to find what begins a step --- */

struct step_choice {
	uint64_t key;
	uint32_t function, n_usual, n, n_odd;
	unsigned
		rank; /* 2: a step of an optimizer, 1: a batch of a loader; marked by the program */
	bool by_function;
};

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

static bool is_near(uint64_t n, uint64_t usual)
{
	return n + usual / 4 >= usual && n <= usual + usual / 4;
}

/* Odd distances that come back after as many others are the edges of a larger whole. */
static bool are_even(const uint32_t *gaps, uint32_t n, uint32_t usual, uint32_t n_odd)
{
	uint32_t since = 0, before = 0, n_even = 0, n_seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		since++;
		if (is_near(gaps[i], usual))
			continue;
		n_even += n_seen++ && is_near(since, before);
		before = since;
		since = 0;
	}
	return n_odd >= 3 && n_even * 4 >= (n_odd - 1) * 3;
}

/* Of what comes between the places, is every second, third or fourth alike and the next one not?
 * Then the call comes several times in a step. sums: of what is before each call. */
static bool are_in_turn(const struct step_place *places, uint32_t n, const uint64_t *sums)
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

static unsigned rank_of(const struct gs_aggregate *v, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, function);
	const char *name = f ? gs_dict_string(v->dict, f->name_str) : "";

	if (strncmp(name, "Optimizer.step#", 15) == 0)
		return 2;
	return strncmp(name, "enumerate(DataLoader)#", 22) == 0;
}

static void sum_calls(struct step_sums *s, const struct step_thread *t)
{
	s->keys[0] = s->functions[0] = 0;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct step_call *c = &t->calls[i - 1];

		s->keys[i] = s->keys[i - 1] + c->key;
		s->functions[i] =
			s->functions[i - 1] + gs_hash_bytes(&c->function, sizeof(c->function));
	}
}

/* Fills *ret when calls at these places come back after always as many others. */
static bool judge_places(const struct gs_aggregate *v, const struct step_thread *t,
			 const struct step_place *places, uint32_t n, struct step_sums *sums,
			 struct step_choice *ret)
{
	uint32_t n_gaps = n - 1, n_odd = 0, usual;

	if (n < STEP_LEAST || (uint64_t)(places[n - 1].index - places[0].index) * 10 < t->n * 6ull)
		return false;
	for (uint32_t i = 0; i < n_gaps; i++)
		sums->gaps[i] = sums->sorted[i] = places[i + 1].index - places[i].index;
	qsort(sums->sorted, n_gaps, sizeof(*sums->sorted), compare_counts);
	usual = sums->sorted[n_gaps / 2];
	for (uint32_t i = 0; i < n_gaps; i++)
		n_odd += !is_near(sums->gaps[i], usual);
	*ret = (struct step_choice){.key = places[0].key,
				    .function = t->calls[places[0].index].function,
				    .n_usual = usual,
				    .n = n,
				    .n_odd = n_odd};
	ret->rank = rank_of(v, ret->function);
	if (usual < 2 && !ret->rank)
		return false;
	if (n_odd * 100 > n_gaps * STEP_ODD_PCT && n_odd > 1)
		return false;
	return !are_even(sums->gaps, n_gaps, usual, n_odd) && !are_in_turn(places, n, sums->keys) &&
	       !are_in_turn(places, n, sums->functions);
}

static bool is_better(const struct step_choice *a, const struct step_choice *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	if (a->n != b->n)
		return a->n > b->n;
	return a->n_odd < b->n_odd;
}

/* Looks at calls by what they were given, or by their function alone. */
static void choose_anchor(const struct gs_aggregate *v, const struct step_thread *t,
			  bool by_function, struct step_choice *best)
{
	struct step_sums *sums = v->steps->sums;
	struct step_place *places = sums->places;
	struct step_choice choice;

	for (uint32_t i = 0; i < t->n; i++)
		places[i] = (struct step_place){
			by_function ? t->calls[i].function : t->calls[i].key, i};
	qsort(places, t->n, sizeof(*places), compare_places);
	for (uint32_t from = 0, to; from < t->n; from = to) {
		for (to = from + 1; to < t->n && places[to].key == places[from].key;)
			to++;
		if (!judge_places(v, t, places + from, to - from, sums, &choice))
			continue;
		choice.by_function = by_function;
		if (is_better(&choice, best))
			*best = choice;
	}
}

/* --- to add up steps --- */

static struct step_function *step_function_of(struct step_run *r, uint32_t function)
{
	for (unsigned i = 0; i < STEP_FUNCTIONS; i++) {
		struct step_function *f = &r->functions[(function + i) & (STEP_FUNCTIONS - 1)];

		if (f->function == function)
			return f;
		if (!f->function) {
			f->function = function;
			return f;
		}
	}
	return NULL;
}

/* Calls come when they end, so those inside of one have come before. */
static void cover_time(struct step_cover *c, uint64_t start_ns, uint64_t end_ns)
{
	while (c->n && c->item[c->n - 1].start_ns >= start_ns) {
		c->n--;
		c->ns -= c->item[c->n].end_ns - c->item[c->n].start_ns;
	}
	if (c->n == STEP_NESTING) {
		memmove(c->item, c->item + STEP_NESTING / 2, STEP_NESTING / 2 * sizeof(*c->item));
		c->n = STEP_NESTING / 2;
	}
	c->item[c->n].start_ns = start_ns;
	c->item[c->n++].end_ns = end_ns;
	c->ns += end_ns - start_ns;
}

static void end_step(struct step_run *r, uint64_t now_ns)
{
	uint64_t dur_ns = now_ns - r->begin_ns,
		 covered_ns = (int64_t)r->cover.ns > 0 ? r->cover.ns : 0;
	uint64_t outside_ns = covered_ns < dur_ns ? dur_ns - covered_ns : 0;
	bool regular = is_near(r->n_calls, r->n_usual), slowest = regular && dur_ns > r->max_ns;

	r->since_odd++;
	if (regular) {
		r->n_regular++;
		r->sum_ns += dur_ns;
		r->hist[gs_hist_bucket(dur_ns)]++;
		r->outside_sum_ns += outside_ns;
	} else {
		r->n_even += r->n_odd && is_near(r->since_odd, r->before_odd);
		r->n_odd++;
		r->before_odd = r->since_odd;
		r->since_odd = 0;
	}
	if (slowest) {
		r->max_ns = dur_ns;
		r->max_start_ns = r->begin_ns;
		r->outside_slowest_ns = outside_ns;
	}
	for (unsigned i = 0; i < STEP_FUNCTIONS; i++) {
		struct step_function *f = &r->functions[i];

		f->sum_ns += regular ? f->now_ns : 0;
		f->slowest_ns = slowest ? f->now_ns : f->slowest_ns;
		f->now_ns = 0;
	}
	r->cover.ns = 0;
	r->cover.n = 0;
}

static void count_in_step(struct step_run *r, const struct step_call *c, bool marks)
{
	bool is_anchor =
		marks && (r->by_function ? c->function == r->anchor_function : c->key == r->anchor);
	struct step_function *f;

	if (is_anchor) {
		/* Another thread's clock, or a record out of order: the step is as short as it can be. */
		if (r->n_anchors)
			end_step(r, c->start_ns > r->begin_ns ? c->start_ns : r->begin_ns);
		r->n_anchors++;
		r->n_calls = 0;
		r->begin_ns = c->start_ns;
	}
	if (!r->n_anchors)
		return;
	r->n_calls += marks;
	f = step_function_of(r, c->function);
	if (f)
		f->now_ns += c->dur_ns;
	cover_time(&r->cover, c->start_ns, c->start_ns + c->dur_ns);
}

/* Odd ones that come back after as many others are where a larger whole begins. */
static bool is_part_of_larger(const struct step_run *r)
{
	return r->n_odd >= 3 && r->n_even * 4 >= (r->n_odd - 1) * 3;
}

/* What began a step no longer comes: the program does something else now. */
static void end_run(struct step_thread *t)
{
	if (!is_part_of_larger(t->run) && (!t->best || t->run->sum_ns > t->best->sum_ns))
		t->best = t->run;
	t->run = NULL;
	t->n_next = STEP_CALLS_MIN;
}

/* Goes through the calls that are kept; found: they are added up from the first on. */
static void seek_steps(const struct gs_aggregate *v, struct step_thread *t)
{
	struct step_choice best = {0};

	sum_calls(v->steps->sums, t);
	choose_anchor(v, t, false, &best);
	choose_anchor(v, t, true, &best);
	if (!best.n)
		return;
	t->run = t->best == &t->runs[0] ? &t->runs[1] : &t->runs[0];
	memset(t->run, 0, sizeof(*t->run));
	t->run->anchor = best.key;
	t->run->anchor_function = best.function;
	t->run->by_function = best.by_function;
	t->run->n_usual = best.n_usual;
	for (uint32_t i = 0; i < t->n; i++)
		count_in_step(t->run, &t->calls[i], true);
}

/* Nothing was found yet: looks each time that there are twice as many calls. */
static void seek_on(const struct gs_aggregate *v, struct step_thread *t)
{
	if (t->n < t->n_next)
		return;
	seek_steps(v, t);
	while (t->n_next <= t->n)
		t->n_next *= 2;
	if (t->n < STEP_CALLS_MAX) {
		t->n_next = t->n_next < STEP_CALLS_MAX ? t->n_next : STEP_CALLS_MAX;
		return;
	}
	/* No room for more. Nothing was in that many: from here on it may be different. */
	t->n = 0;
	t->n_next = STEP_CALLS_MIN;
}

static bool is_over(const struct step_run *r)
{
	return (r->n_calls > STEP_LOST && r->n_calls > 20ull * r->n_usual) || is_part_of_larger(r);
}

/* Was it right to take these for steps? While all calls are kept they are looked at once more. */
static void check_run(const struct gs_aggregate *v, struct step_thread *t)
{
	if (!is_over(t->run)) {
		if (t->n >= STEP_CALLS_MAX)
			t->n = 0;
		return;
	}
	if (t->n) {
		t->run = NULL;
		t->n_next = t->n;
		seek_on(v, t);
	}
	if (t->run && is_over(t->run)) {
		end_run(t);
		t->n = 0;
	}
}

void gs_aggregate_take_step(struct gs_aggregate *v, const struct gs_rec_call *call)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, call->function);
	bool marks = f && is_marking(f);
	struct step_call c = {
		.start_ns = call->start_ns, .dur_ns = call->dur_ns, .function = call->function};
	struct step_thread *t;

	if (!f || (!marks && !v->steps))
		return;
	t = step_thread_of(v, call->thread);
	if (!t)
		return;
	if (marks) {
		c.key = key_of(call, f);
		t->first_ns = t->first_ns ? t->first_ns : c.start_ns;
		t->last_ns = c.start_ns + c.dur_ns;
	}
	if (t->run) {
		count_in_step(t->run, &c, marks);
		if (marks && t->n)
			t->calls[t->n++] = c;
		if (marks)
			check_run(v, t);
	} else if (marks) {
		t->calls[t->n++] = c;
		seek_on(v, t);
	}
}

/* --- the summary --- */

/* Steps that are part of a larger one, or of a small part of the thread's time, are none. */
static bool is_sound(const struct step_thread *t, const struct step_run *r)
{
	return r && r->n_regular + 1 >= STEP_LEAST && r->sum_ns >= (t->last_ns - t->first_ns) / 2 &&
	       r->n_odd <= r->n_regular / 4 && !is_part_of_larger(r);
}

static const struct gs_account_thread *pace_of(const struct gs_summary *s)
{
	for (size_t i = 0; i < s->account.n_threads; i++)
		if (s->account.threads[i].critical)
			return &s->account.threads[i];
	return NULL;
}

static uint64_t excess_of(uint64_t slowest_ns, uint64_t sum_ns, uint64_t n)
{
	uint64_t mean_ns = n ? sum_ns / n : 0;

	return slowest_ns > mean_ns ? slowest_ns - mean_ns : 0;
}

/* Which call was longer in the slowest step; the innermost of those that hold each other. */
static void find_longer(const struct gs_aggregate *v, struct gs_summary *s,
			const struct step_run *r, struct gs_step_summary *out)
{
	const struct step_function *best = NULL;
	uint64_t most_ns = 0, n = r->n_regular;

	for (unsigned i = 0; i < STEP_FUNCTIONS; i++) {
		uint64_t ns = excess_of(r->functions[i].slowest_ns, r->functions[i].sum_ns, n);

		most_ns = ns > most_ns ? ns : most_ns;
	}
	for (unsigned i = 0; i < STEP_FUNCTIONS && most_ns; i++) {
		const struct step_function *f = &r->functions[i];

		if (excess_of(f->slowest_ns, f->sum_ns, n) >= most_ns / 5 * 4 &&
		    (!best || f->slowest_ns < best->slowest_ns))
			best = f;
	}
	if (!best || excess_of(r->outside_slowest_ns, r->outside_sum_ns, n) > most_ns) {
		out->longer = "";
		out->longer_ns = r->outside_slowest_ns;
		out->longer_mean_ns = r->outside_sum_ns / n;
		return;
	}
	out->longer = gs_summary_text(
		s, gs_dict_string(v->dict, gs_dict_function(v->dict, best->function)->name_str));
	out->longer_ns = best->slowest_ns;
	out->longer_mean_ns = best->sum_ns / n;
}

static void fill_steps(const struct gs_aggregate *v, struct gs_summary *s,
		       const struct step_thread *t, const struct step_run *r)
{
	const struct gs_rec_thread *thread = gs_dict_thread(v->dict, t->thread);
	const struct gs_rec_process *p = thread ? gs_dict_process(v->dict, thread->process) : NULL;
	const struct gs_rec_session *session = gs_dict_session(v->dict);
	const struct gs_rec_function *f = gs_dict_function(v->dict, r->anchor_function);
	struct gs_step_summary *out = &s->steps;

	out->pid = p ? p->pid : 0;
	out->tid = thread ? thread->tid : 0;
	out->comm = gs_summary_text(s, thread ? gs_dict_string(v->dict, thread->comm_str) : "");
	out->anchor = gs_summary_text(s, f ? gs_dict_string(v->dict, f->name_str) : "");
	out->n_steps = r->n_anchors;
	out->n_odd = r->n_odd;
	out->median_ns = gs_hist_quantile_ns(r->hist, 0.5, r->max_ns);
	out->p95_ns = gs_hist_quantile_ns(r->hist, 0.95, r->max_ns);
	out->max_ns = r->max_ns;
	if (session && r->max_start_ns > session->start_ns)
		out->max_start_ns = r->max_start_ns - session->start_ns;
	find_longer(v, s, r, out);
}

void gs_aggregate_add_steps(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct gs_account_thread *pace = pace_of(s);
	const struct step_thread *best = NULL;
	const struct step_run *best_run = NULL;

	for (unsigned i = 0; v->steps && i < v->steps->n; i++) {
		struct step_thread *t = &v->steps->threads[i];
		const struct gs_rec_thread *thread = gs_dict_thread(v->dict, t->thread);
		const struct step_run *r;

		if (pace && (!thread || thread->tid != pace->tid))
			continue;
		/* A short run: all its calls are kept still. */
		if (!t->run && t->n)
			seek_steps(v, t);
		r = t->run && (!t->best || t->run->sum_ns > t->best->sum_ns) ? t->run : t->best;
		if (is_sound(t, r) && (!best || r->sum_ns > best_run->sum_ns)) {
			best = t;
			best_run = r;
		}
	}
	if (best)
		fill_steps(v, s, best, best_run);
}
