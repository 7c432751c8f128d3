/* Traces of a whole machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"
#include "analysis/rules/trace.h"

#include "trace_run.h"

/* Of a whole machine one process's trouble is no verdict; that of one that launches work is. */
static void a_whole_machine_has_no_single_cause(void **state)
{
	for (unsigned launches = 0; launches <= 10000; launches += 10000) {
		struct gs_account_thread *t;
		struct run r;

		run_begin(&r);
		r.s->command = "all processes";
		t = add_thread(&r, 100, 100, 1);
		if (launches)
			add_calls(&r, 0, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel",
				  launches, 100);
		rest(t, GS_STATE_CPU);
		gs_verdict_trace(r.s);
		assert_int_equal(!launches, strstr(r.s->verdict.evidence,
						   "process 100 (app) was the busiest") != NULL);
		assert_int_equal(!launches, r.s->verdict.is_unknown);
		expect(&r, launches ? "cpu_bound" : "not_known");
	}
}

static void a_quiet_machine_has_no_busiest_process(void **state)
{
	struct gs_account_thread *t;
	struct run r;

	run_begin(&r);
	r.s->command = "all processes";
	t = add_thread(&r, 100, 100, 1);
	spend(t, GS_STATE_CPU, GS_INSIDE_NONE, RUN / 100);
	rest(t, GS_STATE_SLEEP);
	gs_verdict_trace(r.s);
	assert_null(strstr(r.s->verdict.evidence, "busiest"));
	expect(&r, "not_known");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_machine_has_no_single_cause),
		cmocka_unit_test(a_quiet_machine_has_no_busiest_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
