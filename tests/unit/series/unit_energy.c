#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "core/series/energy.h"

#define S    1000000000ll
#define FROM (1000 * S)

static void near(double got, double wanted, double by)
{
	if (!(fabs(got - wanted) <= by))
		fail_msg("%g is not %g", got, wanted);
}

static void nothing(void **state)
{
	struct gs_energy e = {0};

	assert_true(isnan(gs_energy_joules(&e)));
	gs_energy_add(&e, FROM, NAN, NAN, NAN, S);
	assert_true(isnan(gs_energy_joules(&e)));
	gs_energy_add(&e, FROM + S, 5, NAN, NAN, S);
	near(gs_energy_joules(&e), 0, 0);
}

/* A counter alone, whatever it jumps by; through a gap; and begun anew. */
static void counter_alone(void **state)
{
	struct gs_energy e = {0};

	for (int i = 0; i < 10; i++)
		gs_energy_add(&e, FROM + i * S, 1000 + 300 * i, NAN, NAN, 2 * S);
	near(gs_energy_joules(&e), 2700, 1e-9);
	gs_energy_add(&e, FROM + 100 * S, 30000, NAN, NAN, 2 * S);
	near(gs_energy_joules(&e), 29000, 1e-9);
	gs_energy_add(&e, FROM + 101 * S, 10, NAN, NAN, 2 * S);
	gs_energy_add(&e, FROM + 102 * S, 20, NAN, NAN, 2 * S);
	near(gs_energy_joules(&e), 29010, 1e-9);
}

/* It starts again from 0 and passes the value that it had before: nothing is lost on the way. */
static void counter_passes_itself(void **state)
{
	struct gs_energy e = {0};

	for (int i = 0; i < 10; i++)
		gs_energy_add(&e, FROM + i * S, 1000 + 300 * i, NAN, NAN, 2 * S);
	for (int i = 0; i < 30; i++)
		gs_energy_add(&e, FROM + (10 + i) * S, 250 * i, NAN, NAN, 2 * S);
	near(gs_energy_joules(&e), 2700 + 29 * 250, 1e-9);
}

static void power_alone(void **state)
{
	struct gs_energy e = {0};

	for (int i = 0; i < 10; i++)
		gs_energy_add(&e, FROM + i * S, NAN, 200, NAN, 3 * S);
	gs_energy_add(&e, FROM + 60 * S, NAN, 200, NAN, 3 * S); /* behind a gap */
	near(gs_energy_joules(&e), 9 * 200, 1e-9);
}

/* The power that was seen missed half of what was used: the counter knows. It stands still for ten
 * samples at a time, and its first value is of some time ago. */
static void slow_counter(void **state)
{
	struct gs_energy e = {0};
	double joules = 500;

	for (int i = 0; i <= 100; i++) {
		if (i && i % 10 == 0)
			joules = 1000 + 400.0 * i;
		gs_energy_add(&e, FROM + i * S, joules, 200, 700, 3 * S);
	}
	/* The first ten seconds are the power's to tell. */
	near(gs_energy_joules(&e), 10 * 200 + 90 * 400, 1e-6);
}

/* No power makes such a growth: of another source, or begun anew higher. */
static void too_much(void **state)
{
	struct gs_energy e = {0};

	for (int i = 0; i < 10; i++)
		gs_energy_add(&e, FROM + i * S, i % 2 ? 90000 + 200.0 * i : 200.0 * i, 200, 700,
			      3 * S);
	near(gs_energy_joules(&e), 9 * 200, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),     cmocka_unit_test(counter_alone),
		cmocka_unit_test(power_alone), cmocka_unit_test(slow_counter),
		cmocka_unit_test(too_much),    cmocka_unit_test(counter_passes_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
