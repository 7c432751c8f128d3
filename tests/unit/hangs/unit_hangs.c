/* Records of hangs in a summary: with names, ranks and times since the begin, and over when it is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/trace/func.h"
#include "pipeline/hangs/hangs.h"
#include "unit/aggregate/records.h"

#define START_NS 1000000000ull

struct world {
	struct stream s;
	struct gs_dict *dict;
	struct gs_hangs hangs;
	struct gs_summary *summary;
};

static int make_world(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*w = (struct world){.s = STREAM_INIT, .dict = gs_dict_new()};
	w->summary = calloc(1, sizeof(*w->summary));
	*state = w;
	return 0;
}

static int free_world(void **state)
{
	struct world *w = *state;

	stream_fini(&w->s);
	gs_dict_free(&w->dict);
	gs_hangs_fini(&w->hangs);
	gs_summary_free(&w->summary);
	free(w);
	return 0;
}

static void put_hang(struct world *w, uint32_t number, uint32_t n_ranks, uint64_t ended_ns)
{
	uint32_t kind_str = put_text(&w->s, "waits"), text_str = put_text(&w->s, "rank 1 is late");
	uint32_t state_str = put_text(&w->s, "missing"),
		 stack_str = put_text(&w->s, "lag (a.py:3)");
	struct gs_rec_hang *r;

	r = put_record(&w->s, GS_REC_HANG, sizeof(*r), n_ranks * sizeof(r->ranks[0]));
	r->since_ns = START_NS + 50;
	r->found_ns = START_NS + 90;
	r->ended_ns = ended_ns;
	r->id_hash = 0xabc;
	r->call = 7;
	r->number = number;
	r->n_ranks = 4;
	r->has_arrived = ended_ns != 0;
	r->n_listed = n_ranks;
	if (!n_ranks)
		return;
	r->kind_str = kind_str;
	r->text_str = text_str;
	r->ranks[0] = (struct gs_rec_hang_rank){.rank = 1,
						.pid = 100,
						.state_str = state_str,
						.calls = 6,
						.last_ns = START_NS + 20,
						.last_count = 1024,
						.last_function = 3,
						.last_type = 7,
						.python_str = stack_str};
}

/* What is taken in of all that was put; how many had no room. */
static unsigned summarize(struct world *w)
{
	struct gs_batch batch = stream_batch(&w->s);
	unsigned n_left_out = 0;

	gs_records_for_each (&batch, r) {
		if (r->kind == GS_REC_HANG)
			n_left_out += !gs_hangs_take(&w->hangs, (const void *)r);
		else
			gs_dict_apply(w->dict, r);
	}
	assert_int_equal(gs_hangs_summarize(&w->hangs, w->dict, START_NS, w->summary), 0);
	return n_left_out;
}

static void test_one(void **state)
{
	struct world *w = *state;
	const struct gs_hang_summary *h;

	put_function(&w->s, 3, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce");
	put_hang(w, 1, 1, 0);
	assert_int_equal(summarize(w), 0);
	assert_int_equal(w->summary->n_hangs, 1);
	h = &w->summary->hangs[0];
	assert_string_equal(h->kind, "waits");
	assert_string_equal(h->text, "rank 1 is late");
	assert_int_equal(h->since_ns, 50);
	assert_int_equal(h->found_ns, 90);
	assert_int_equal(h->ended_ns, 0);
	assert_int_equal(h->call, 7);
	assert_int_equal(h->n_listed, 1);
	assert_string_equal(h->ranks[0].state, "missing");
	assert_string_equal(h->ranks[0].last_function, "ncclAllReduce");
	assert_string_equal(h->ranks[0].last_type, "float32");
	assert_int_equal(h->ranks[0].last_age_ns, 70);
	assert_string_equal(h->ranks[0].python, "lag (a.py:3)");
	assert_string_equal(h->ranks[0].native, "");
}

static void test_over(void **state)
{
	struct world *w = *state;

	put_hang(w, 1, 1, 0);
	put_hang(w, 2, 0, 0);
	put_hang(w, 1, 0, START_NS + 200);
	assert_int_equal(summarize(w), 0);
	assert_int_equal(w->summary->n_hangs, 2);
	assert_int_equal(w->summary->hangs[0].ended_ns, 200);
	assert_true(w->summary->hangs[0].has_arrived);
	assert_int_equal(w->summary->hangs[0].n_listed, 1);
	assert_string_equal(w->summary->hangs[0].ranks[0].last_function, "");
	assert_int_equal(w->summary->hangs[1].ended_ns, 0);
}

static void test_limit(void **state)
{
	struct world *w = *state;

	for (uint32_t i = 0; i < GS_HANGS_MAX + 3; i++)
		put_hang(w, i + 1, 0, 0);
	assert_int_equal(summarize(w), 3);
	assert_int_equal(w->summary->n_hangs, GS_HANGS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one, make_world, free_world),
		cmocka_unit_test_setup_teardown(test_over, make_world, free_world),
		cmocka_unit_test_setup_teardown(test_limit, make_world, free_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
