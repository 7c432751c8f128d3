/* What is said of the steps that were found, and which of them are none. */
#include "pipeline/aggregate/step.h"

/* Steps that are part of a larger one, or of a small part of the thread's time, are none. */
static bool is_sound(const struct step_thread *t, const struct step_run *r)
{
	uint64_t from_ns = r && r->is_marked ? t->marked_ns : t->first_ns;

	return r && r->n_regular + 1 >= STEP_LEAST && r->sum_ns >= (t->last_ns - from_ns) / 2 &&
	       r->n_odd <= r->n_regular / 4 && !aggregate_step_is_part(r);
}

static uint64_t excess_of(uint64_t slowest_ns, uint64_t sum_ns, uint64_t n)
{
	uint64_t mean_ns = n ? sum_ns / n : 0;

	return slowest_ns > mean_ns ? slowest_ns - mean_ns : 0;
}

/* Of marks: all its calls had one. */
static bool is_whole(const struct step_run *r, const struct step_function *f)
{
	return !f->slowest_in_part && f->n_in_part <= r->n_regular / 20;
}

static uint64_t function_excess(const struct step_run *r, const struct step_function *f)
{
	return is_whole(r, f) ? excess_of(f->slowest_ns, f->sum_ns, r->n_regular) : 0;
}

/* Which function was longer in the slowest step, the innermost of those that hold each other; NULL: none. */
static const struct step_function *find_function(const struct step_run *r, uint64_t *ret_excess_ns)
{
	const struct step_function *best = NULL;
	uint64_t most_ns = 0;

	for (unsigned i = 0; i < STEP_FUNCTIONS; i++) {
		uint64_t ns = function_excess(r, &r->functions[i]);

		most_ns = ns > most_ns ? ns : most_ns;
	}
	for (unsigned i = 0; i < STEP_FUNCTIONS && most_ns; i++) {
		const struct step_function *f = &r->functions[i];

		if (function_excess(r, f) >= most_ns / 5 * 4 && function_excess(r, f) &&
		    (!best || f->slowest_ns < best->slowest_ns))
			best = f;
	}
	*ret_excess_ns = most_ns;
	return best;
}

static void find_longer(const struct gs_aggregate *v, struct gs_summary *s,
			const struct step_run *r, struct gs_step_summary *out)
{
	uint64_t n = r->n_regular, most_ns,
		 outside_ns = excess_of(r->outside_slowest_ns, r->outside_sum_ns, n),
		 inside_sum_ns = r->sum_ns - r->outside_sum_ns,
		 inside_ns = excess_of(r->max_ns - r->outside_slowest_ns, inside_sum_ns, n);
	const struct step_function *best = find_function(r, &most_ns);

	if (outside_ns > most_ns && (!r->by_marks || outside_ns >= inside_ns)) {
		best = NULL;
	} else if (r->by_marks && most_ns < inside_ns / 2) {
		/* Calls without a mark are longer, or many. */
		out->longer = GS_STEP_SEVERAL;
		out->longer_ns = r->max_ns - r->outside_slowest_ns;
		out->longer_mean_ns = inside_sum_ns / n;
		return;
	}
	if (!best) {
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

/* The same for all who show them. */
static void fill_figures(const struct gs_aggregate *v, const struct step_thread *t,
			 const struct step_run *r, struct gs_aggregate_process_steps *out)
{
	const struct gs_rec_thread *thread = gs_dict_thread(v->dict, t->thread);
	const struct gs_rec_process *p = thread ? gs_dict_process(v->dict, thread->process) : NULL;

	*out = (struct gs_aggregate_process_steps){
		.pid = p ? p->pid : 0,
		.tid = thread ? thread->tid : 0,
		.slot = r->slot,
		.run = r->number,
		.n_steps = r->n_anchors,
		.n_odd = r->n_odd,
		.median_ns = gs_hist_quantile_ns(r->hist, 0.5, r->max_ns),
		.p95_ns = gs_hist_quantile_ns(r->hist, 0.95, r->max_ns),
		.max_ns = r->max_ns,
	};
}

static void fill_steps(const struct gs_aggregate *v, struct gs_summary *s,
		       const struct step_thread *t, const struct step_run *r)
{
	const struct gs_rec_thread *thread = gs_dict_thread(v->dict, t->thread);
	const struct gs_rec_session *session = gs_dict_session(v->dict);
	const struct gs_rec_function *f = gs_dict_function(v->dict, r->anchor_function);
	struct gs_aggregate_process_steps figures;
	struct gs_step_summary *out = &s->steps;

	fill_figures(v, t, r, &figures);
	out->pid = figures.pid;
	out->tid = figures.tid;
	out->comm = gs_summary_text(s, thread ? gs_dict_string(v->dict, thread->comm_str) : "");
	out->anchor = gs_summary_text(s, f ? gs_dict_string(v->dict, f->name_str) : "");
	out->slot = figures.slot;
	out->run = figures.run;
	out->n_steps = figures.n_steps;
	out->n_odd = figures.n_odd;
	out->median_ns = figures.median_ns;
	out->p95_ns = figures.p95_ns;
	out->max_ns = figures.max_ns;
	if (session && r->max_start_ns > session->start_ns)
		out->max_start_ns = r->max_start_ns - session->start_ns;
	out->by_marks = r->by_marks;
	if (r->by_marks) {
		out->off_ns = r->off_slowest_ns;
		out->off_mean_ns = r->off_sum_ns / r->n_regular;
	}
	find_longer(v, s, r, out);
}

/* The run that goes on, else the longest one that ended; NULL: none is sound. */
static const struct step_run *run_now(const struct step_thread *t)
{
	if (is_sound(t, t->run))
		return t->run;
	return is_sound(t, t->best) ? t->best : NULL;
}

/* Has another thread of the process more time in its steps? */
static bool is_second(const struct gs_aggregate *v, const struct step_thread *t,
		      const struct step_run *r, uint32_t process)
{
	for (unsigned i = 0; i < v->steps->n; i++) {
		const struct step_thread *other = &v->steps->threads[i];
		const struct gs_rec_thread *thread = gs_dict_thread(v->dict, other->thread);
		const struct step_run *run = other != t ? run_now(other) : NULL;

		if (run && thread && thread->process == process &&
		    (run->sum_ns > r->sum_ns || (run->sum_ns == r->sum_ns && other < t)))
			return true;
	}
	return false;
}

void gs_aggregate_each_process_steps(const struct gs_aggregate *v,
				     void (*fn)(void *ctx,
						const struct gs_aggregate_process_steps *steps),
				     void *ctx)
{
	for (unsigned i = 0; v->steps && i < v->steps->n; i++) {
		const struct step_thread *t = &v->steps->threads[i];
		const struct gs_rec_thread *thread = gs_dict_thread(v->dict, t->thread);
		const struct step_run *r = run_now(t);
		struct gs_aggregate_process_steps steps;

		if (!r || !thread || is_second(v, t, r, thread->process))
			continue;
		fill_figures(v, t, r, &steps);
		fn(ctx, &steps);
	}
}

void gs_aggregate_add_steps(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct gs_account_thread *pace = gs_summary_critical_thread(&s->account);
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
			aggregate_step_seek(v, t);
		r = t->run && (!t->best || t->run->sum_ns > t->best->sum_ns) ? t->run : t->best;
		if (is_sound(t, r) && (!best || r->sum_ns > best_run->sum_ns)) {
			best = t;
			best_run = r;
		}
	}
	if (best)
		fill_steps(v, s, best, best_run);
}
