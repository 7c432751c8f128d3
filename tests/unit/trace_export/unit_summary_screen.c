/*
 * The default page is one screen, at most 45 lines of 100 columns, whatever there is: summaries with any
 * number of processes, ranks, GPUs, hangs, errors, losses, Python lines and probes with values, long names
 * among them. The verdict stays whole and the hints stay, and what was cut says which option shows it.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/text/fit.h"
#include "core/text/text.h"
#include "model/summary/activity.h"
#include "model/trace/func.h"
#include "output/report/summary.h"
#include "summary_sample.h"

#define MANY   80
#define ROUNDS 500
#define TEXT                                                                                       \
	" and a long text that says at length what was seen, when, where and why that may have been"

static char *render(const struct gs_summary *s, const struct gs_report_summary_style *style)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(gs_report_summary_write(f, s, GS_SUMMARY_TABLE, style), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void check_columns(const char *text, unsigned most)
{
	for (const char *p = text, *end; *p; p = end + 1) {
		char line[4096];

		end = strchr(p, '\n');
		assert_non_null(end);
		snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
		if (gs_text_columns(line) > most)
			fail_msg("%zu columns: %s", gs_text_columns(line), line);
	}
}

/* The same numbers in each run. */
static unsigned draw(uint32_t *state, unsigned below)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % below;
}

/* One of few or of many. */
static unsigned draw_count(uint32_t *state, unsigned n_sample)
{
	const unsigned counts[] = {0, 1, n_sample, 9, 33, MANY};
	unsigned n = counts[draw(state, GS_ARRAY_LEN(counts))];

	return n < MANY ? n : MANY;
}

/* Copies of what the sample has, again and again. */
#define REPEAT(s, list, n_list, state)                                                             \
	do {                                                                                       \
		static __typeof__(*(s)->list) copies[MANY];                                        \
		unsigned n = draw_count(state, (unsigned)(s)->n_list);                             \
                                                                                                   \
		for (unsigned i = 0; i < n; i++)                                                   \
			copies[i] = (s)->list[i % (s)->n_list];                                    \
		(s)->list = copies;                                                                \
		(s)->n_list = n;                                                                   \
	} while (0)

/* Values of described probes, and PyTorch's allocator: the sample has none. */
static void fill_probed(struct gs_summary *s, uint32_t *state)
{
	static struct gs_hist_range ranges[40];
	static struct gs_aggregate_summary aggregates[MANY];
	static struct gs_allocator_summary allocators[MANY];
	static struct gs_leak_summary leaks[MANY];

	for (unsigned i = 0; i < GS_ARRAY_LEN(ranges); i++)
		ranges[i] = (struct gs_hist_range){.from = 1ull << i, .to = 2ull << i, .count = i};
	for (unsigned i = 0; i < MANY; i++) {
		aggregates[i] = (struct gs_aggregate_summary){.pid = i,
							      .comm = "python",
							      .function = "batch" TEXT,
							      .value = "size",
							      .aggregate = 3,
							      .count = 7,
							      .ranges = ranges,
							      .n_ranges = GS_ARRAY_LEN(ranges)};
		allocators[i] = (struct gs_allocator_summary){
			.pid = i, .comm = "python", .device = (int)i, .reserved_bytes = 1 << 20};
		leaks[i] =
			(struct gs_leak_summary){.pid = i, .site = TEXT, .blocks = 1, .bytes = 1};
	}
	s->aggregates = aggregates;
	s->n_aggregates = draw_count(state, 2);
	s->allocators = allocators;
	s->n_allocators = draw_count(state, 2);
	s->leaks = leaks;
	s->n_leaks = draw_count(state, 2);
}

/* Processes by their ids, as ranks of one communicator or not, each with a thread. */
static void fill_processes(struct gs_summary *s, uint32_t *state)
{
	static struct gs_process_summary processes[MANY];
	static struct gs_account_thread threads[MANY];
	static struct gs_comm_summary comms[MANY];
	unsigned n = draw_count(state, 2);

	for (unsigned i = 0; i < n; i++) {
		processes[i] = s->processes[i % 2];
		processes[i].pid = 4242 + i;
		threads[i] = s->account.threads[0];
		threads[i].pid = threads[i].tid = 4242 + i;
		threads[i].critical = i == 0;
		threads[i].time_ns[draw(state, GS_STATE_COUNT)][0] += 1000000000ull * i;
		comms[i] = s->comms[0];
		comms[i].pid = 4242 + i;
		comms[i].rank = (int)i;
		comms[i].n_ranks = MANY;
	}
	s->processes = processes;
	s->n_processes = n;
	s->account.threads = threads;
	s->account.n_threads = n;
	s->comms = comms;
	s->n_comms = draw(state, 2) ? n : 0;
}

static struct gs_summary make_summary(uint32_t *state)
{
	struct gs_summary s = sample_full();

	fill_processes(&s, state);
	REPEAT(&s, errors, n_errors, state);
	REPEAT(&s, attach_failures, n_attach_failures, state);
	REPEAT(&s, lost, n_lost, state);
	REPEAT(&s, open_calls, n_open_calls, state);
	REPEAT(&s, hangs, n_hangs, state);
	REPEAT(&s, gpus, n_gpus, state);
	REPEAT(&s, python_lines, n_python_lines, state);
	REPEAT(&s, python_functions, n_python_functions, state);
	fill_probed(&s, state);
	s.verdict.evidence = draw(state, 2) ? TEXT TEXT TEXT : s.verdict.evidence;
	s.complete = draw(state, 2);
	s.has_python = draw(state, 2);
	if (draw(state, 2))
		s.command = "python" TEXT TEXT TEXT;
	if (draw(state, 2))
		s.steps.n_steps = 0;
	if (draw(state, 2))
		s.gpu_time = NULL;
	if (draw(state, 2))
		s.nccl = NULL;
	if (draw(state, 2))
		s.collectives = NULL;
	return s;
}

static void test_one_screen(void **state GS_UNUSED)
{
	struct gs_report_summary_style style = {.size = sizeof(style),
						.width = 100,
						.n_top = GS_SUMMARY_TOP_SHORT,
						.view = GS_SUMMARY_SHORT};
	unsigned n_cut = 0, n_whole = 0;
	uint32_t seed = 1;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct gs_summary s = make_summary(&seed);
		char *text GS_FREE = NULL;

		style.gpus = i % 2;
		style.recording = i % 2 ? "run.gst" : NULL;
		text = render(&s, &style);
		check_columns(text, style.width);
		if (lines_of(text) > GS_FIT_SCREEN_LINES)
			fail_msg("%u lines:\n%s", lines_of(text), text);
		assert_true(strncmp(text, "Verdict: GPU-bound", 18) == 0);
		assert_non_null(strstr(text, "  more  gpuscope top\n"));
		assert_non_null(strstr(text, "more: "));
		if (strstr(text, "... the rest: "))
			n_cut++;
		else
			n_whole++;
	}
	assert_true(n_cut > ROUNDS / 10);
	assert_true(n_whole > ROUNDS / 100);
}

/* Who asks for more gets all of it. */
static void test_asked_for(void **state GS_UNUSED)
{
	struct gs_report_summary_style style = {.size = sizeof(style),
						.width = 100,
						.n_top = 0,
						.view = GS_SUMMARY_SHORT,
						.gpus = true};
	uint32_t seed = 1;

	for (unsigned i = 0; i < 20; i++) {
		struct gs_summary s = make_summary(&seed);
		char *text GS_FREE = render(&s, &style);

		assert_null(strstr(text, "... the rest: "));
	}
}

/* What is to be left out when there is no room: never the first section, nor the last. */
static void test_sections(void **state GS_UNUSED)
{
	for (unsigned most = 4; most < 60; most++) {
		char *text GS_FREE = NULL;
		size_t bytes;
		FILE *f = open_memstream(&text, &bytes);
		struct gs_pen pen;
		struct gs_page page;
		struct gs_fit fit;

		gs_pen_open(&pen, f);
		gs_page_init(&page, &pen, 40, false);
		gs_page_fit_begin(&fit, &page);
		for (unsigned i = 0; i < 5; i++) {
			char line[16];

			gs_page_fit_section(&fit, i ? 4 : 2, i && i < 4 ? "--all" : NULL);
			for (unsigned k = 0; k < (i && i < 4 ? 12 : 2); k++) {
				snprintf(line, sizeof(line), "%u.%u", i, k);
				gs_page_words(&page, GS_INK_PLAIN, line);
			}
		}
		gs_page_fit_end(&fit, most);
		gs_page_fini(&page);
		assert_int_equal(gs_pen_close(&pen), 0);
		assert_int_equal(fclose(f), 0);
		assert_true(lines_of(text) <= most);
		/* Down to three lines each there is always something to cut. */
		if (most >= 2 + 3 * 3 + 2)
			assert_int_equal(lines_of(text), most < 40 ? most : 40);
		assert_non_null(strstr(text, "0.0\n0.1\n"));
		assert_non_null(strstr(text, "4.0\n4.1\n"));
		if ((most < 40 && lines_of(text) > 4) !=
		    (strstr(text, "... the rest: --all") != NULL))
			fail_msg("%u:\n%s", most, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections),
		cmocka_unit_test(test_one_screen),
		cmocka_unit_test(test_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
