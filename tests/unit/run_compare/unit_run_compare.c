/*
 * Comparisons of runs that are made of numbers: what is claimed of equal ones, of known differences and of
 * near misses, and which place is named. Steps have noise of their own and drift together as a machine with
 * other work makes them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "../detect/random.h"
#include "analysis/run_compare/run_compare.h"
#include "core/base/mem.h"
#include "model/trace/account.h"
#include "model/trace/event.h"

#define START_NS 5000000000ull
#define PID      100
#define MOST     2000

/* How a step is spent: of the account, and by whom. */
struct plan {
	unsigned n_steps;
	double collate_ms, forward_ms; /* asleep; on a processor */
	double noise;                  /* of a step, as a share */
	double drift;                  /* of neighbours together, likewise */
	unsigned every;                /* this step takes long_ms more; 0: none */
	double long_ms;
	const char *anchor, *host; /* NULL: the usual ones */
	bool no_python, no_account, is_partial;
	double whole_ms, disk_ms; /* of a run without steps; 0: it was watched only */
};

static const struct plan usual = {
	.n_steps = 200, .collate_ms = 20, .forward_ms = 80, .noise = 0.02};

struct sums { /* until a bound */
	double collate_ns, forward_ns, worker_ns;
	uint64_t n_steps;
};

static void fill_summary(const struct plan *plan, const struct sums *sums, bool own,
			 struct gs_summary *s, struct gs_line_stats lines[2],
			 struct gs_function_stats functions[2], struct gs_account_thread *thread)
{
	lines[0] = (struct gs_line_stats){.file = "/srv/app/loader.py",
					  .function = "collate",
					  .line = 12,
					  .wait_ns = (uint64_t)sums->collate_ns};
	lines[1] = (struct gs_line_stats){.file = "/srv/app/train.py",
					  .function = "forward",
					  .line = 40,
					  .sample_ns = (uint64_t)sums->forward_ns};
	functions[0] = (struct gs_function_stats){.layer = GS_LAYER_TORCH,
						  .name = "aten::linear",
						  .calls = sums->n_steps,
						  .total_ns = (uint64_t)sums->forward_ns};
	functions[1] = (struct gs_function_stats){.layer = GS_LAYER_TORCH,
						  .name = "aten::addmm",
						  .calls = sums->n_steps,
						  .partial = plan->is_partial,
						  .total_ns = (uint64_t)(0.9 * sums->forward_ns)};
	thread->pid = thread->tid = PID;
	thread->time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = (uint64_t)sums->forward_ns;
	thread->time_ns[GS_STATE_SLEEP][GS_INSIDE_NONE] = (uint64_t)sums->collate_ns;
	if (!own) {
		lines[0].wait_ns = (uint64_t)sums->worker_ns;
		lines[0].function = "decode";
	}
	s->python_lines = lines;
	s->n_python_lines = plan->no_python ? 0 : own ? 2 : 1;
	if (!own)
		return;
	s->functions.items = functions;
	s->functions.n = 2;
	s->account.threads = thread;
	s->account.n_threads = plan->no_account ? 0 : 1;
}

static void take_bound(const struct plan *plan, const struct sums *sums, unsigned bound,
		       struct gs_run_compare_run *run)
{
	struct gs_line_stats lines[2], other_lines[2];
	struct gs_function_stats functions[2];
	struct gs_account_thread thread = {0};
	struct gs_summary own = {0}, others = {0};

	fill_summary(plan, sums, true, &own, lines, functions, &thread);
	fill_summary(plan, sums, false, &others, other_lines, functions, &thread);
	assert_int_equal(gs_run_compare_take(run, bound, &own, &others), 0);
}

static struct gs_run_compare_run *make_run(const char *file, const struct plan *plan, uint64_t seed)
{
	static struct gs_run_compare_step steps[MOST];
	static double share[MOST], longer_ns[MOST];
	struct gs_summary whole = {.command = "train.py",
				   .host = plan->host ? plan->host : "node7",
				   .complete = 1,
				   .steps = {.pid = PID,
					     .tid = PID,
					     .comm = "train",
					     .anchor = plan->anchor ? plan->anchor : "aten::sum"}};
	struct gs_account_thread threads[2] = {{.critical = 0}, {.critical = 1}};
	struct gs_run_compare_run *run = NULL;
	struct sums sums = {0};
	uint64_t at_ns = START_NS;
	double drift = 0;
	unsigned bound = 0;

	for (unsigned i = 0; i < plan->n_steps; i++) {
		drift = 0.8 * drift + plan->drift * draw_normal(&seed);
		share[i] = 1 + plan->noise * draw_normal(&seed) + drift;
		longer_ns[i] = plan->every && i % plan->every == 0 ? plan->long_ms * 1e6 : 0;
		steps[i].start_ns = at_ns;
		steps[i].dur_ns =
			(uint64_t)((plan->collate_ms + plan->forward_ms) * 1e6 * share[i] +
				   longer_ns[i]);
		at_ns += steps[i].dur_ns;
	}
	whole.exit_status = plan->whole_ms > 0 ? 0 : -1;
	whole.duration_ns =
		(uint64_t)(plan->whole_ms * 1e6 * (1 + plan->noise * draw_normal(&seed)));
	threads[1].time_ns[GS_STATE_DISK][GS_INSIDE_NONE] = (uint64_t)(plan->disk_ms * 1e6);
	threads[1].time_ns[GS_STATE_CPU][GS_INSIDE_NONE] =
		whole.duration_ns - (uint64_t)(plan->disk_ms * 1e6);
	whole.account.threads = threads;
	whole.account.n_threads = plan->no_account ? 0 : 2;
	assert_int_equal(gs_run_compare_new_run(file, &run), 0);
	assert_int_equal(
		gs_run_compare_set_steps(run, plan->n_steps ? steps : NULL, plan->n_steps, &whole),
		0);
	for (unsigned i = 0; i <= plan->n_steps && gs_run_compare_n_bounds(run); i++) {
		if (i == plan->n_steps || steps[i].start_ns == gs_run_compare_bound_ns(run, bound))
			take_bound(plan, &sums, bound++, run);
		if (i == plan->n_steps)
			break;
		sums.collate_ns += plan->collate_ms * 1e6 * share[i];
		sums.forward_ns += plan->forward_ms * 1e6 * share[i] + longer_ns[i];
		sums.worker_ns += 2 * plan->collate_ms * 1e6;
		sums.n_steps++;
	}
	assert_int_equal(bound, gs_run_compare_n_bounds(run));
	return run;
}

#define SIDE_MAX 4

struct trial {
	struct gs_run_compare_run *runs[2 * SIDE_MAX];
	struct gs_run_compare_result result;
};

static struct trial try(const struct plan *base, size_t n_base, const struct plan *changed,
			size_t n_changed, uint64_t seed)
{
	static struct trial t;
	char name[32];

	memset(&t, 0, sizeof(t));
	for (size_t i = 0; i < n_base + n_changed; i++) {
		snprintf(name, sizeof(name), "%s%zu.gst", i < n_base ? "base" : "new", i);
		t.runs[i] = make_run(name, i < n_base ? base : changed, seed * 1000 + i);
	}
	assert_int_equal(gs_run_compare_make((const void *)t.runs, n_base,
					     (const void *)(t.runs + n_base), n_changed, &t.result),
			 0);
	return t;
}

static void end_trial(struct trial *t)
{
	gs_run_compare_result_fini(&t->result);
	for (size_t i = 0; i < GS_ARRAY_LEN(t->runs); i++)
		gs_run_compare_free_run(&t->runs[i]);
}

static bool has_note(const struct gs_run_compare_result *c, const char *part)
{
	for (size_t i = 0; i < c->n_notes; i++)
		if (strstr(c->notes[i], part))
			return true;
	return false;
}

static void a_known_slowdown_is_named(void **state)
{
	struct plan slow = usual;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	slow.collate_ms = 26.2;
	t = try(&usual, 1, &slow, 1, 1);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SLOWER);
	assert_true(fabs(t.result.percent.mean - 6.2) < t.result.percent.plus_minus);
	assert_true(t.result.percent.plus_minus > 0.1 && t.result.percent.plus_minus < 1.2);
	assert_non_null(t.result.named);
	assert_string_equal(t.result.named->name, "collate (loader.py)");
	assert_true(fabs(t.result.named->ns.mean - 6.2e6) < 0.3e6);
	assert_true(t.result.named->share > 0.9 && t.result.named->share < 1.1);
	assert_string_equal(t.result.cause[GS_RUN_COMPARE_PART]->name, "asleep on purpose");
	assert_string_equal(t.result.cause[GS_RUN_COMPARE_LINE]->name, "loader.py:12 collate");
	assert_null(t.result.cause[GS_RUN_COMPARE_OPERATOR]);
	gs_run_compare_headline(&t.result, text);
	assert_non_null(strstr(text, "slower, "));
	assert_non_null(strstr(text, " of it in collate (loader.py): asleep on purpose"));
	assert_true(has_note(&t.result, "one run on each side"));
	end_trial(&t);
	t = try(&slow, 1, &usual, 1, 1);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_FASTER);
	assert_string_equal(t.result.named->name, "collate (loader.py)");
	end_trial(&t);
}

/* Two workers prepare batches, and each takes as much longer; the thread waits for them by a line of many. */
static void workers_are_named_beside_it(void **state)
{
	struct plan slow = usual;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	slow.collate_ms = 40;
	t = try(&usual, 1, &slow, 1, 1);
	assert_non_null(t.result.cause[GS_RUN_COMPARE_OTHER]);
	assert_true(t.result.cause[GS_RUN_COMPARE_OTHER]->share > 1.6);
	assert_non_null(strstr(gs_run_compare_headline(&t.result, text),
			       "; in other threads +40.0 ms in decode (loader.py)"));
	end_trial(&t);
}

static void of_nested_operators_the_inner_is_named(void **state)
{
	struct plan slow = usual;
	struct trial t;

	(void)state;
	slow.forward_ms = 100;
	slow.no_python = true;
	t = try(&usual, 1, &slow, 1, 3);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SLOWER);
	assert_string_equal(t.result.named->name, "aten::addmm");
	assert_true(fabs(t.result.named->base_calls - 1) < 1e-9);
	assert_null(t.result.cause[GS_RUN_COMPARE_PYTHON]); /* of one side alone nothing follows */
	assert_true(has_note(&t.result, "Python samples"));
	end_trial(&t);
	slow.is_partial = true; /* of the inner one's calls the time is not known */
	t = try(&usual, 1, &slow, 1, 3);
	assert_string_not_equal(t.result.named->name, "aten::addmm");
	end_trial(&t);
}

/* How often a difference is claimed between equal runs, and how often the interval holds the true one. */
static void claims_of(const struct plan *base, const struct plan *changed, size_t n,
		      unsigned trials, double truth, unsigned *ret_claims, unsigned *ret_misses)
{
	*ret_claims = *ret_misses = 0;
	for (unsigned i = 0; i < trials; i++) {
		struct trial t = try(base, n, changed, n, 10 + i);

		*ret_claims += t.result.verdict == GS_RUN_COMPARE_SLOWER ||
			       t.result.verdict == GS_RUN_COMPARE_FASTER;
		*ret_misses += fabs(t.result.percent.mean - truth) > t.result.percent.plus_minus;
		end_trial(&t);
	}
}

static void equal_runs_do_not_differ(void **state)
{
	struct plan drifts = usual, stops = usual;
	unsigned claims, misses;

	(void)state;
	claims_of(&usual, &usual, 1, 400, 0, &claims, &misses);
	assert_int_equal(claims, 0); /* all below GS_RUN_COMPARE_LEAST */
	assert_true(misses <= 12);   /* 5 % of 400 are 20, and single runs are trusted less */
	drifts.drift = 0.05; /* neighbours are alike: their own spread would be far too narrow */
	claims_of(&drifts, &drifts, 1, 400, 0, &claims, &misses);
	assert_true(misses <= 16);
	assert_true(claims <= misses);
	claims_of(&drifts, &drifts, 3, 200, 0, &claims, &misses);
	assert_true(misses <= 20);
	stops.every = 50; /* a checkpoint */
	stops.long_ms = 2000;
	claims_of(&stops, &stops, 1, 200, 0, &claims, &misses);
	assert_int_equal(claims, 0);
}

static void a_long_first_step_changes_nothing(void **state)
{
	struct plan starts = usual;
	struct trial t;

	(void)state;
	starts.every = MOST;
	starts.long_ms = 20000;
	t = try(&usual, 1, &starts, 1, 5);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SAME);
	assert_true(fabs(t.result.percent.mean) < 1);
	end_trial(&t);
}

/* 0.6 % is there and is seen; equal runs may differ by that, so one run of each is no proof. */
static void a_near_miss_is_not_claimed(void **state)
{
	struct plan near = usual, moved = usual;
	unsigned claims, misses;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	near.forward_ms = 80.6;
	near.noise = 0.001;
	t = try(&near, 1, &near, 1, 7);
	end_trial(&t);
	claims_of(&usual, &near, 1, 50, 0.6, &claims, &misses);
	assert_int_equal(claims, 0);
	t = try(&usual, 1, &near, 1, 8);
	assert_null(t.result.named);
	assert_non_null(strstr(gs_run_compare_headline(&t.result, text), "no difference shown"));
	end_trial(&t);
	/* With several runs on each side it is one. */
	near.forward_ms = 81.5;
	claims_of(&usual, &near, 4, 50, 1.5, &claims, &misses);
	assert_true(claims >= 45);
	/* As much longer here as it is shorter there. */
	moved.collate_ms = 30;
	moved.forward_ms = 70;
	t = try(&usual, 1, &moved, 1, 9);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SAME);
	assert_null(t.result.named);
	assert_true(isnan(t.result.items[0].share));
	end_trial(&t);
}

static void where_no_place_makes_half_none_is_named(void **state)
{
	struct plan slow = usual;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	slow.collate_ms = 40;
	slow.no_python = slow.no_account = true;
	t = try(&usual, 1, &slow, 1, 11);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SLOWER);
	assert_null(t.result.named);
	assert_non_null(strstr(gs_run_compare_headline(&t.result, text), "where is not known"));
	assert_true(has_note(&t.result, "wall-clock account"));
	end_trial(&t);
}

static void too_few_steps_say_nothing(void **state)
{
	struct plan few = usual, none = usual;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	few.n_steps = GS_RUN_COMPARE_MIN_BLOCKS - 1;
	none.n_steps = 0;
	t = try(&usual, 1, &few, 1, 13);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_UNKNOWN);
	assert_string_equal(
		gs_run_compare_headline(&t.result, text),
		"step time: not known: new1.gst has 9 steps, and a comparison needs 10 at least");
	end_trial(&t);
	t = try(&none, 1, &usual, 1, 13);
	assert_non_null(strstr(gs_run_compare_headline(&t.result, text),
			       "no steps were found in base0.gst"));
	end_trial(&t);
	few.n_steps = GS_RUN_COMPARE_MIN_BLOCKS; /* a block each */
	t = try(&usual, 1, &few, 1, 13);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SAME);
	end_trial(&t);
}

/* Without steps: of several runs on a side a difference is shown, of one on each it is only told. */
static void whole_runs_are_compared(void **state)
{
	struct plan base = usual, slow, watched;
	struct trial t;
	char text[GS_RUN_COMPARE_HEADLINE_BYTES];

	(void)state;
	base.n_steps = 0;
	base.whole_ms = 10000;
	base.disk_ms = 1000;
	slow = watched = base;
	slow.whole_ms = 12000;
	slow.disk_ms = 3000;
	watched.whole_ms = 0;
	t = try(&base, 4, &slow, 4, 17);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_UNKNOWN);
	assert_int_equal(t.result.whole.verdict, GS_RUN_COMPARE_SLOWER);
	assert_true(fabs(t.result.whole.percent.mean - 20) < 4);
	assert_true(t.result.whole.percent.plus_minus < 10);
	assert_non_null(t.result.cause[GS_RUN_COMPARE_WHOLE]);
	assert_string_equal(t.result.cause[GS_RUN_COMPARE_WHOLE]->name,
			    gs_account_part_title(GS_PART_DISK));
	gs_run_compare_headline(&t.result, text);
	assert_non_null(strstr(text, "step time: not known: no steps were found"));
	assert_non_null(strstr(text, "slower (1"));
	end_trial(&t);
	t = try(&base, 4, &base, 4, 19);
	assert_int_equal(t.result.whole.verdict, GS_RUN_COMPARE_SAME);
	assert_null(t.result.cause[GS_RUN_COMPARE_WHOLE]);
	end_trial(&t);
	t = try(&base, 1, &slow, 1, 21);
	assert_true(t.result.whole.is_known && isnan(t.result.whole.percent.plus_minus));
	assert_int_equal(t.result.whole.verdict, GS_RUN_COMPARE_UNKNOWN);
	assert_null(t.result.cause[GS_RUN_COMPARE_WHOLE]);
	assert_non_null(strstr(gs_run_compare_headline(&t.result, text),
			       "one run on each side does not show how much equal runs differ"));
	end_trial(&t);
	/* How long it was watched says nothing of the program. */
	t = try(&base, 4, &watched, 1, 23);
	assert_false(t.result.whole.is_known);
	assert_true(has_note(&t.result, "not of a command that ended by itself"));
	end_trial(&t);
	/* Steps say more than the whole. */
	base.n_steps = usual.n_steps;
	t = try(&base, 1, &base, 1, 25);
	assert_int_equal(t.result.verdict, GS_RUN_COMPARE_SAME);
	assert_false(t.result.whole.is_known);
	end_trial(&t);
}

static void other_work_is_noted(void **state)
{
	struct plan other = usual;
	struct trial t;

	(void)state;
	other.anchor = "aten::mm";
	other.host = "node8";
	t = try(&usual, 1, &other, 1, 15);
	assert_true(has_note(&t.result, "they may not be the same work"));
	assert_true(has_note(&t.result, "new1.gst is of another machine: node8, not node7"));
	end_trial(&t);
}

static json_t *read_json(const struct gs_run_compare_result *results, size_t n)
{
	const struct gs_run_compare_style style = {.format = GS_RUN_COMPARE_JSON};
	json_error_t error;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	json_t *json;

	assert_int_equal(gs_run_compare_write(out, results, n, &style), 0);
	fclose(out);
	json = json_loads(text, 0, &error);
	assert_non_null(json);
	free(text);
	return json;
}

static void json_has_what_the_text_has(void **state)
{
	struct plan slow = usual;
	struct trial t;
	json_t *json, *c;

	(void)state;
	slow.collate_ms = 40;
	t = try(&usual, 2, &slow, 3, 17);
	json = read_json(&t.result, 1);
	c = json_array_get(json_object_get(json, "comparisons"), 0);
	assert_string_equal(json_string_value(json_object_get(c, "verdict")), "slower");
	assert_true(fabs(json_real_value(json_object_get(c, "difference_percent")) - 20) < 2);
	assert_int_equal(json_array_size(json_object_get(json_object_get(c, "base"), "runs")), 2);
	assert_int_equal(json_array_size(json_object_get(json_object_get(c, "changed"), "runs")),
			 3);
	assert_string_equal(json_string_value(json_object_get(json_object_get(c, "cause"), "name")),
			    "collate (loader.py)");
	assert_false(has_note(&t.result, "one run on each side"));
	json_decref(json);
	end_trial(&t);
}

/* Names of functions are a traced program's: they may be anything. */
static void hostile_names_are_harmless(void **state)
{
	const struct gs_run_compare_style style = {.width = 80};
	struct plan evil = usual;
	struct trial t;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out;

	(void)state;
	evil.anchor = "\x1b[31m\n\"}\xff<script>";
	t = try(&evil, 1, &usual, 1, 19);
	out = open_memstream(&text, &bytes);
	assert_int_equal(gs_run_compare_write(out, &t.result, 1, &style), 0);
	fclose(out);
	assert_null(strchr(text, 0x1b));
	free(text);
	json_decref(read_json(&t.result, 1));
	end_trial(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_slowdown_is_named),
		cmocka_unit_test(workers_are_named_beside_it),
		cmocka_unit_test(of_nested_operators_the_inner_is_named),
		cmocka_unit_test(equal_runs_do_not_differ),
		cmocka_unit_test(a_long_first_step_changes_nothing),
		cmocka_unit_test(a_near_miss_is_not_claimed),
		cmocka_unit_test(where_no_place_makes_half_none_is_named),
		cmocka_unit_test(too_few_steps_say_nothing),
		cmocka_unit_test(whole_runs_are_compared),
		cmocka_unit_test(other_work_is_noted),
		cmocka_unit_test(json_has_what_the_text_has),
		cmocka_unit_test(hostile_names_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
