/* What outlives a restart. */
#include "alert_test.h"

static void restore(struct gs_alerts *a, const char *text, size_t bytes, uint64_t now_s,
		    int64_t wall_ns, uint64_t wanted_ignored)
{
	struct gs_err err = {{0}};
	uint64_t ignored;

	assert_int_equal(gs_alerts_restore(a, text, bytes, now_s * S, wall_ns, &ignored, &err), 0);
	assert_int_equal(ignored, wanted_ignored);
}

static void what_was_told_is_not_told_again(void **state)
{
	struct gs_buf text = GS_BUF_INIT(1 << 20);
	int64_t wall_ns = WALL_NS + 100 * (int64_t)S;
	char key[20];
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "on fire", 0, 95);
	push(a, &t, "cooling", 0, 95);
	push(a, &t, "on fire", 30, 95);
	memcpy(key, t.last.key, sizeof(key));
	push(a, &t, "cooling", 30, 95);
	push(a, &t, "cooling", 80, 20); /* silent until 140 */
	assert_int_equal(gs_alerts_save(a, 100 * S, wall_ns, &text), 0);
	gs_alerts_free(&a);

	/* The clock of the new process begins anew: at 5. */
	a = engine_of(&hot, 1, &t, 0, 10);
	restore(a, (char *)text.data, text.bytes, 5, wall_ns, 0);
	push(a, &t, "on fire", 6, 95);
	push(a, &t, "cooling", 6, 95);
	push(a, &t, "cooling", 44, 95); /* 39 s later: held for 38, cool-down for 40 */
	assert_int_equal(t.n, 0);
	push(a, &t, "cooling", 45, 95);
	push(a, &t, "on fire", 46, 20);
	assert_string_equal(t.text, "45 START hot cooling\n46 END hot on fire cleared\n");
	assert_string_equal(t.last.key, key); /* still the alert of before */
	assert_int_equal(t.last.start_wall_ns, WALL_NS + 30 * (int64_t)S);
	gs_alerts_free(&a);

	/* One who never came back is told to be gone; until then it fires, as far as is known. */
	a = engine_of(&hot, 1, &t, 0, 10);
	restore(a, (char *)text.data, text.bytes, 5, wall_ns, 0);
	struct told firing = {.now_s = 6};

	gs_alerts_firing(a, note, &firing);
	assert_string_equal(firing.text, "6 STILL hot on fire\n");
	assert_int_equal(firing.last.severity, GS_ALERT_WARNING);
	assert_int_equal(firing.last.start_wall_ns, WALL_NS + 30 * (int64_t)S);
	t.now_s = 50;
	gs_alerts_sweep(a, GS_ALERT_GPU, 20 * S, 50 * S, wall_ns);
	assert_string_equal(t.text, "50 END hot on fire gone\n");
	gs_alerts_free(&a);

	/* A rule that is no more has nothing to say. */
	struct gs_alert_rule_text other = hot;

	other.name = "other";
	a = engine_of(&other, 1, &t, 0, 10);
	restore(a, (char *)text.data, text.bytes, 5, wall_ns, 2);
	gs_alerts_sweep(a, GS_ALERT_GPU, 20 * S, 50 * S, wall_ns);
	assert_int_equal(t.n, 0);
	gs_alerts_free(&a);
	gs_buf_fini(&text);
}

static void other_files_are_refused(void **state)
{
	static const struct {
		const char *text;
		const char *message; /* NULL: taken */
	} cases[] = {
		{"", NULL},
		{"gpuscope-alerts 1\n", NULL},
		{"gpuscope-alerts 1\n\nfiring hot gpu 5 g\n", NULL},
		{"gpuscope-alerts 2\n", "line 1 is not a saved alert"},
		{"gpuscope-alerts 1\nfiring hot gpu x g\n", "line 2 is not a saved alert"},
		{"gpuscope-alerts 1\nfiring hot gpu 5\n", "line 2 is not a saved alert"},
		{"gpuscope-alerts 1\nburning hot gpu 5 g\n", "line 2 is not a saved alert"},
		{"gpuscope-alerts 1\nfiring hot gpu -5 g\n", "line 2 is not a saved alert"},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_err err = {{0}};
		uint64_t ignored;
		struct told t;
		struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);
		int r = gs_alerts_restore(a, cases[i].text, strlen(cases[i].text), S, WALL_NS,
					  &ignored, &err);

		assert_int_equal(r, cases[i].message ? -EINVAL : 0);
		assert_string_equal(err.text, cases[i].message ? cases[i].message : "");
		gs_alerts_free(&a);
	}
}

static void a_cool_down_of_years_is_not_believed(void **state)
{
	static const char text[] = "gpuscope-alerts 1\ncooling hot gpu 9000000000000000000 g\n";
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	restore(a, text, sizeof(text) - 1, 1, WALL_NS, 0);
	push(a, &t, "g", 1, 95);
	push(a, &t, "g", 31, 95);
	assert_int_equal(t.n, 1);
	gs_alerts_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_told_is_not_told_again),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(a_cool_down_of_years_is_not_believed),
	};

	return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
