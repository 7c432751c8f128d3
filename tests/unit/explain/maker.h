/* Steps and accounts put together by hand, for tests of findings and of their causes. */
#ifndef TESTS_UNIT_EXPLAIN_MAKER_H
#define TESTS_UNIT_EXPLAIN_MAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../detect/random.h"
#include "../tui/sample.h"
#include "analysis/explain/explain.h"
#include "core/base/mem.h"

#define S 1000000000ull

struct maker {
	struct gs_explain *e;
	uint64_t now_ns, random;
	struct gs_explain_result result;
};

static inline GS_UNUSED struct maker begin(void)
{
	struct maker m = {.now_ns = SAMPLE_START_NS, .random = 3};

	assert_int_equal(gs_explain_new(&m.e), 0);
	return m;
}

static inline GS_UNUSED void take_steps(struct maker *m, unsigned slot, uint32_t run, unsigned n,
					double ns)
{
	for (unsigned i = 0; i < n; i++) {
		double dur_ns = ns * (1 + 0.01 * draw_normal(&m->random));
		struct gs_explain_step s = {.slot = slot,
					    .run = run,
					    .pid = 100,
					    .tid = 101,
					    .start_ns = m->now_ns,
					    .dur_ns = (uint64_t)dur_ns,
					    .regular = true};

		assert_int_equal(gs_explain_take_step(m->e, &s), 0);
		m->now_ns += s.dur_ns;
	}
}

static inline GS_UNUSED void finish(struct maker *m, unsigned slot, uint32_t run)
{
	assert_int_equal(gs_explain_finish(m->e, slot, run, &m->result), 0);
}

/* Steps with an account of their thread, a second apart; more_ns of each step go to part, the rest to the
 * processor. */
static inline GS_UNUSED void take_accounted(struct maker *m, struct gs_explain_account *account,
					    unsigned n_steps, double ns, unsigned part,
					    double more_ns)
{
	for (unsigned i = 0; i < n_steps; i++) {
		uint64_t from_ns = m->now_ns;

		take_steps(m, 0, 1, 1, ns);
		account->part_ns[part] += (uint64_t)more_ns;
		account->part_ns[GS_PART_CPU] += m->now_ns - from_ns - (uint64_t)more_ns;
		if (m->now_ns - account->time_ns < S)
			continue;
		account->time_ns = m->now_ns;
		gs_explain_take_account(m->e, account);
	}
}

#endif
