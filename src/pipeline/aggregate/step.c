/*
 * Steps: a program that does the same again and again (a training loop, a server) makes the same
 * calls again and again. Of each thread that makes calls the first are kept until one is found that
 * comes back after always as many others; from then on each of its calls begins a step, whose length
 * and calls are added up. Nothing need be marked in the program.
 *
 * Where calls are added up in the kernel, marks come in their place (model/trace/mark.h): of each
 * function on each thread a call that comes 1 ms or more after the one before, with the number of
 * calls until then. By that number steps are found in the same way, and their lengths are exact.
 * Of calls without a mark it is known how long they took together.
 *
 * A wrong step is worse than none. What comes back in regular groups of a larger whole (the layers
 * of a model) is no step, nor is what stops to come before half of the thread's time is over; where
 * the program marks its steps, that is the time since the first. The calls of a thread are kept in at most STEP_CALLS_MAX places, those of STEP_THREADS threads.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/record_mark.h"
#include "pipeline/aggregate/step.h"

#include <assert.h>

#define STEP_CALLS_MIN 512 /* the first look; then at twice as many, until STEP_CALLS_MAX */
#define STEP_LOST      4096

void gs_aggregate_steps_fini(struct gs_aggregate *v)
{
	for (unsigned i = 0; v->steps && i < v->steps->n; i++)
		free(v->steps->threads[i].calls);
	if (v->steps)
		free(v->steps->sums);
	free(v->steps);
	v->steps = NULL;
}

void gs_aggregate_set_step_receiver(struct gs_aggregate *view, gs_aggregate_step_fn take, void *ctx)
{
	size_t i = 0, at = GS_AGGREGATE_STEP_RECEIVERS;

	for (; i < GS_AGGREGATE_STEP_RECEIVERS; i++) {
		if (view->step_receivers[i].take && view->step_receivers[i].ctx == ctx)
			view->step_receivers[i].take = NULL;
		if (!view->step_receivers[i].take && at == GS_AGGREGATE_STEP_RECEIVERS)
			at = i;
	}
	assert(!take || at < GS_AGGREGATE_STEP_RECEIVERS);
	if (take) {
		view->step_receivers[at].take = take;
		view->step_receivers[at].ctx = ctx;
	}
}

_Static_assert(GS_AGGREGATE_STEP_SLOTS == 2 * STEP_THREADS, "two runs of each thread");

/* Is it one of the calls by whose number steps are known? */
static bool is_counted(const struct gs_rec_function *f)
{
	return f->layer == GS_LAYER_MPI ||
	       (f->func_class < 32 && GS_CLASSES_OF_STEPS >> f->func_class & 1);
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

/* To all who receive them. */
static void report_step(const struct gs_aggregate *v, const struct step_run *r, uint64_t dur_ns,
			bool regular)
{
	const struct gs_rec_thread *t =
		gs_dict_thread(v->dict, v->steps->threads[r->slot / 2].thread);
	const struct gs_rec_process *p = t ? gs_dict_process(v->dict, t->process) : NULL;
	const struct gs_aggregate_step step = {.slot = r->slot,
					       .run = r->number,
					       .process = t ? t->process : 0,
					       .tid = t ? t->tid : 0,
					       .pid = p ? p->pid : 0,
					       .start_ns = r->begin_ns,
					       .dur_ns = dur_ns,
					       .regular = regular};

	for (size_t i = 0; i < GS_AGGREGATE_STEP_RECEIVERS; i++)
		if (v->step_receivers[i].take)
			v->step_receivers[i].take(v->step_receivers[i].ctx, &step);
}

/* outside_ns: of its time no call covers; off_ns: the thread had no processor. */
static void end_step(const struct gs_aggregate *v, struct step_run *r, uint64_t dur_ns,
		     uint64_t outside_ns, uint64_t off_ns)
{
	bool regular = step_is_near(r->n_calls, r->n_usual),
	     slowest = regular && dur_ns > r->max_ns;

	report_step(v, r, dur_ns, regular);
	r->since_odd++;
	if (regular) {
		r->n_regular++;
		r->sum_ns += dur_ns;
		r->hist[gs_hist_bucket(dur_ns)]++;
		r->outside_sum_ns += outside_ns;
		r->off_sum_ns += off_ns;
	} else {
		r->n_even += r->n_odd && step_is_near(r->since_odd, r->before_odd);
		r->n_odd++;
		r->before_odd = r->since_odd;
		r->since_odd = 0;
	}
	if (slowest) {
		r->max_ns = dur_ns;
		r->max_start_ns = r->begin_ns;
		r->outside_slowest_ns = outside_ns;
		r->off_slowest_ns = off_ns;
	}
	for (unsigned i = 0; i < STEP_FUNCTIONS; i++) {
		struct step_function *f = &r->functions[i];

		f->sum_ns += regular ? f->now_ns : 0;
		f->n_in_part += regular && f->now_in_part;
		f->slowest_ns = slowest ? f->now_ns : f->slowest_ns;
		f->slowest_in_part = slowest ? f->now_in_part : f->slowest_in_part;
		f->now_ns = 0;
		f->now_in_part = false;
	}
}

static void begin_step(struct step_run *r, const struct step_call *c)
{
	if (!r->n_anchors++)
		r->first_ns = c->at_ns;
	r->n_calls = 0;
	r->begin_ns = c->at_ns;
	r->begin_seq = c->seq;
	r->begin_covered_ns = c->covered_ns;
	r->begin_cpu_ns = c->cpu_ns;
	r->cover.ns = 0;
	r->cover.n = 0;
}

static bool is_anchor(const struct step_run *r, const struct step_call *c)
{
	return r->by_function || r->by_marks ? c->function == r->anchor_function
					     : c->key == r->anchor;
}

static uint64_t less_by(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static void add_to_function(struct step_run *r, const struct step_call *c)
{
	struct step_function *f = step_function_of(r, c->function);

	if (!f)
		return;
	f->now_ns += c->dur_ns;
	f->now_in_part |= r->by_marks && !c->is_alone;
}

/* A call is known with its begin, and the step begins with that. */
static void count_call(const struct gs_aggregate *v, struct step_run *r, const struct step_call *c)
{
	if (c->counted && is_anchor(r, c)) {
		/* Another thread's clock, or a record out of order: the step is as short as it can be. */
		uint64_t dur_ns = less_by(c->at_ns, r->begin_ns),
			 covered_ns = (int64_t)r->cover.ns > 0 ? r->cover.ns : 0;

		if (r->n_anchors)
			end_step(v, r, dur_ns, less_by(dur_ns, covered_ns), 0);
		begin_step(r, c);
	}
	if (!r->n_anchors)
		return;
	if (c->counted)
		r->n_calls = c->seq + 1 - r->begin_seq;
	add_to_function(r, c);
	cover_time(&r->cover, c->at_ns, c->at_ns + c->dur_ns);
}

/* A mark says all as of a return, and the step begins with that. */
static void count_mark(const struct gs_aggregate *v, struct step_run *r, const struct step_call *c)
{
	uint64_t dur_ns = less_by(c->at_ns, r->begin_ns);

	if (r->n_anchors)
		add_to_function(r, c);
	if (r->n_anchors && c->counted)
		r->n_calls = c->seq - r->begin_seq;
	if (!c->counted || !is_anchor(r, c))
		return;
	if (r->n_anchors)
		end_step(v, r, dur_ns, less_by(dur_ns, c->covered_ns - r->begin_covered_ns),
			 less_by(dur_ns, c->cpu_ns - r->begin_cpu_ns));
	begin_step(r, c);
}

static void count_in_step(const struct gs_aggregate *v, struct step_run *r,
			  const struct step_call *c)
{
	if (r->by_marks)
		count_mark(v, r, c);
	else
		count_call(v, r, c);
}

bool aggregate_step_is_part(const struct step_run *r)
{
	return r->n_odd >= 3 && r->n_even * 4 >= (r->n_odd - 1) * 3;
}

/* What began a step no longer comes: the program does something else now. */
static void end_run(struct step_thread *t)
{
	if (!aggregate_step_is_part(t->run) && (!t->best || t->run->sum_ns > t->best->sum_ns))
		t->best = t->run;
	t->run = NULL;
	t->n_next = STEP_CALLS_MIN;
}

void aggregate_step_seek(const struct gs_aggregate *v, struct step_thread *t)
{
	struct step_choice best;

	if (!aggregate_step_choose(v, t, &best))
		return;
	t->run = t->best == &t->runs[0] ? &t->runs[1] : &t->runs[0];
	memset(t->run, 0, sizeof(*t->run));
	t->run->slot = 2 * (unsigned)(t - v->steps->threads) + (t->run == &t->runs[1]);
	t->run->number = ++v->steps->n_runs;
	t->run->anchor = best.key;
	t->run->anchor_function = best.function;
	t->run->by_function = best.by_function;
	t->run->by_marks = t->by_marks;
	t->run->is_marked = best.rank != 0;
	t->run->n_usual = best.n_usual;
	for (uint32_t i = 0; i < t->n; i++)
		count_in_step(v, t->run, &t->calls[i]);
	if (t->run->is_marked && !t->marked_ns)
		t->marked_ns = t->run->first_ns;
}

/* Nothing was found yet: looks each time that there are twice as many calls. */
static void seek_on(const struct gs_aggregate *v, struct step_thread *t)
{
	if (t->n < t->n_next)
		return;
	aggregate_step_seek(v, t);
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
	return (r->n_calls > STEP_LOST && r->n_calls > 20ull * r->n_usual) ||
	       aggregate_step_is_part(r);
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

/* Of calls that are not counted marks alone are kept: there are few. */
static void take_one(struct gs_aggregate *v, struct step_thread *t, const struct step_call *c)
{
	bool is_kept = c->counted || t->by_marks;

	if (t->run) {
		count_in_step(v, t->run, c);
		if (is_kept && t->n)
			t->calls[t->n++] = *c;
		if (is_kept)
			check_run(v, t);
	} else if (is_kept) {
		t->calls[t->n++] = *c;
		seek_on(v, t);
	}
}

void gs_aggregate_take_step(struct gs_aggregate *v, const struct gs_rec_call *call)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, call->function);
	struct step_call c = {.at_ns = call->start_ns,
			      .dur_ns = call->dur_ns,
			      .function = call->function,
			      .counted = f && is_counted(f)};
	struct step_thread *t;

	if (!f || (!c.counted && !v->steps))
		return;
	t = step_thread_of(v, call->thread);
	/* Calls that are sent have no place among those that are added up. */
	if (!t || t->by_marks)
		return;
	if (c.counted) {
		c.key = key_of(call, f);
		c.seq = t->seq++;
		t->first_ns = t->first_ns ? t->first_ns : c.at_ns;
		t->last_ns = c.at_ns + c.dur_ns;
	}
	take_one(v, t, &c);
}

void gs_aggregate_take_mark(struct gs_aggregate *v, const struct gs_rec_mark *mark)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, mark->function);
	struct step_thread *t = f ? step_thread_of(v, mark->thread) : NULL;
	struct step_call c = {.key = mark->function,
			      .at_ns = mark->time_ns,
			      .dur_ns = mark->dur_ns,
			      .called = mark->called,
			      .covered_ns = mark->covered_ns,
			      .cpu_ns = mark->cpu_ns,
			      .function = mark->function,
			      .counted = f && is_counted(f),
			      .is_alone = mark->calls == 1};

	if (!t || (t->seq && !t->by_marks))
		return;
	t->by_marks = true;
	t->seq += (mark->called - t->last_called) >> GS_MARK_CALL_SHIFT;
	t->last_called = mark->called;
	c.seq = t->seq;
	if (c.counted) {
		t->first_ns = t->first_ns ? t->first_ns : c.at_ns;
		t->last_ns = c.at_ns;
	}
	take_one(v, t, &c);
}
