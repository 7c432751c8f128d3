/*
 * Findings of a recording are one screen, at most 45 lines of 100 columns, however many there are: merged by kind
 * and name, those that matter most first; each of them when they fit or when all are asked for.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/text/fit.h"
#include "core/text/text.h"
#include "output/findings/table.h"
#include "unit/rounds.h"

#define MANY   200
#define ROUNDS TEST_ROUNDS(300)
#define SECOND 1000000000ull
#define TEXT                                                                                       \
	"a long text that says at length what was seen, when, where and why that may have been so"

/* The same numbers in each run. */
static unsigned draw(uint32_t *state, unsigned below)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % below;
}

static void fill_finding(struct gs_explain_finding *f, uint32_t *state, unsigned n)
{
	*f = (struct gs_explain_finding){.subject = 1 + draw(state, GS_EXPLAIN_NVLINK),
					 .pid = 4242,
					 .ended_ns = draw(state, 2) ? 0 : 2000 * SECOND,
					 .after = 2,
					 .begun = {.detector = "change",
						   .since_ns = draw(state, 1000) * SECOND,
						   .before = 1,
						   .after = 2,
						   .score = draw(state, 100),
						   .limit = 5,
						   .n_before = 100,
						   .n_after = 20}};
	if (f->subject != GS_EXPLAIN_STEPS)
		snprintf(f->name, sizeof(f->name), "node17 GPU %u", draw(state, 40));
	if (draw(state, 2)) {
		f->cause.key = "disk";
		snprintf(f->cause.text, sizeof(f->cause.text), TEXT);
	}
	f->n_beside = n ? draw(state, GS_EXPLAIN_BESIDE + 1) : 0;
	for (uint32_t i = 0; i < f->n_beside; i++)
		f->beside[i] = draw(state, n);
}

static char *render(const struct gs_findings_table *t)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	struct gs_pen pen;
	struct gs_page page;

	assert_non_null(f);
	gs_pen_open(&pen, f);
	gs_page_init(&page, &pen, 100, false);
	gs_findings_put_table(&page, t);
	gs_page_fini(&page);
	assert_int_equal(gs_pen_close(&pen), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

static unsigned check_lines(const char *text)
{
	unsigned n = 0;

	for (const char *p = text, *end; *p; p = end + 1, n++) {
		char line[8192];

		end = strchr(p, '\n');
		assert_non_null(end);
		snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
		if (gs_text_columns(line) > 100)
			fail_msg("%zu columns: %s", gs_text_columns(line), line);
	}
	return n;
}

static void many_findings_are_one_screen(void **state)
{
	static struct gs_explain_finding findings[MANY];
	static struct gs_hang_rank_summary ranks[MANY];
	static struct gs_hang_summary hangs[20];
	static const unsigned counts[] = {0, 1, 4, 9, 30, MANY};
	uint32_t seed = 1;
	unsigned n_merged = 0, n_whole = 0;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		ranks[i] = (struct gs_hang_rank_summary){.rank = (int)i,
							 .state = "missing",
							 .text = TEXT,
							 .python = TEXT,
							 .native = TEXT};
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned n = counts[draw(&seed, GS_ARRAY_LEN(counts))];
		struct gs_explain_result result = {
			.findings = findings, .n_findings = n, .n_steps = 3000};
		struct gs_summary summary = {.hangs = hangs, .n_hangs = draw(&seed, 20)};
		struct gs_findings_table t = {
			.file = "run.gst", .result = &result, .summary = &summary};
		char *text GS_FREE = NULL, *all GS_FREE = NULL;
		unsigned lines;

		if (draw(&seed, 2))
			summary.n_hangs = 0;
		for (unsigned k = 0; k < n; k++)
			fill_finding(&findings[k], &seed, n);
		for (unsigned k = 0; k < GS_ARRAY_LEN(hangs); k++)
			hangs[k] = (struct gs_hang_summary){.kind = "waits",
							    .text = TEXT,
							    .ranks = ranks,
							    .n_listed = draw(&seed, MANY)};
		text = render(&t);
		lines = check_lines(text);
		if (lines > GS_FIT_SCREEN_LINES)
			fail_msg("%u lines:\n%s", lines, text);
		assert_true(strncmp(text, "run.gst: ", 9) == 0);
		t.all = true;
		all = render(&t);
		if (strcmp(all, text) == 0) {
			n_whole++;
			continue;
		}
		assert_true(check_lines(all) > GS_FIT_SCREEN_LINES);
		assert_non_null(strstr(text, "--all"));
		n_merged++;
		assert_null(strstr(all, "--all"));
	}
	assert_true(n_whole > ROUNDS / 20 && n_merged > ROUNDS / 4);
}

/* The worst of a kind stands for all, an error of a GPU before what calls took. */
static void what_matters_comes_first(void **state)
{
	struct gs_explain_finding findings[41];
	struct gs_explain_result result = {.findings = findings, .n_findings = 41};
	struct gs_summary summary = {0};
	struct gs_findings_table t = {.file = "run.gst", .result = &result, .summary = &summary};
	char *text GS_FREE = NULL;

	(void)state;
	for (unsigned i = 0; i < 41; i++)
		findings[i] =
			(struct gs_explain_finding){.subject = GS_EXPLAIN_CALLS,
						    .name = "cudaMemcpy",
						    .begun = {.detector = "density",
							      .since_ns = i * SECOND,
							      .before = 1000,
							      .after = i == 20 ? 9000000 : 2000,
							      .score = i == 20 ? 50 : 10,
							      .limit = 5}};
	findings[40] = (struct gs_explain_finding){.subject = GS_EXPLAIN_XID,
						   .name = "GPU 0",
						   .xid = 79,
						   .begun = {.detector = "errors", .score = 1}};
	text = render(&t);
	assert_true(strstr(text, "GPU 0") < strstr(text, "cudaMemcpy"));
	assert_non_null(
		strstr(text, "after 20.0 s: cudaMemcpy: unusual latencies (1.00 us -> 9.00 ms)"));
	assert_non_null(strstr(text, "(and 39 more such)"));
	assert_null(strstr(text, "... and"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_findings_are_one_screen),
		cmocka_unit_test(what_matters_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
