/* When alerts begin and end, to the second. */
#include "alert_test.h"

static void begins_after_for_and_ends_below_clear(void **state)
{
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 0, 90);  /* not above */
	push(a, &t, "g", 10, 91); /* begins to hold */
	push(a, &t, "g", 39, 95); /* for 29 s */
	assert_string_equal(t.text, "");
	push(a, &t, "g", 40, 95); /* for 30 s */
	assert_string_equal(t.text, "40 START hot g\n");
	push(a, &t, "g", 50, 85); /* between the two: goes on */
	push(a, &t, "g", 60, 80); /* not below */
	assert_int_equal(t.n, 1);
	push(a, &t, "g", 70, 79.9);
	assert_string_equal(t.text, "40 START hot g\n70 END hot g cleared\n");
	assert_int_equal(t.last.start_wall_ns, WALL_NS + 40 * (int64_t)S);
	assert_int_equal(t.last.end_wall_ns, WALL_NS + 70 * (int64_t)S);
	gs_alerts_free(&a);
}

static void a_gap_starts_over(void **state)
{
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 0, 95);
	push(a, &t, "g", 20, 90); /* false once */
	push(a, &t, "g", 25, 95);
	push(a, &t, "g", 54, 95);
	assert_int_equal(t.n, 0);
	push(a, &t, "g", 55, 95);
	assert_string_equal(t.text, "55 START hot g\n");
	gs_alerts_free(&a);
}

static void unknown_neither_begins_nor_ends(void **state)
{
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 0, 95);
	push(a, &t, "g", 29, NAN); /* a gap */
	push(a, &t, "g", 30, 95);
	push(a, &t, "g", 59, 95);
	assert_int_equal(t.n, 0);
	push(a, &t, "g", 60, 95);
	assert_int_equal(t.n, 1);
	push(a, &t, "g", 1000, NAN); /* and no end */
	assert_int_equal(t.n, 1);
	push(a, &t, "g", 1001, 70);
	assert_int_equal(t.n, 2);
	gs_alerts_free(&a);
}

static void without_clear_it_ends_when_false(void **state)
{
	struct gs_alert_rule_text rule = {.name = "r", .condition = "temperature_celsius > 90"};
	struct told t;
	struct gs_alerts *a = engine_of(&rule, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 1, 91); /* `for` is 0: at once */
	push(a, &t, "g", 2, NAN);
	push(a, &t, "g", 3, 90);
	push(a, &t, "g", 4, 91); /* no cool-down */
	assert_string_equal(t.text, "1 START r g\n3 END r g cleared\n4 START r g\n");
	gs_alerts_free(&a);
}

static void cool_down_is_silent(void **state)
{
	struct gs_alerts_stats stats;
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 0, 95);
	push(a, &t, "g", 30, 95);
	push(a, &t, "g", 40, 70); /* over; silent until 100 */
	push(a, &t, "g", 41, 95);
	push(a, &t, "g", 99, 95); /* held for 58 s */
	assert_int_equal(t.n, 2);
	gs_alerts_stats(a, &stats);
	assert_int_equal(stats.cooled, 1);
	assert_int_equal(stats.pending, 1);
	push(a, &t, "g", 100, 95);
	assert_string_equal(t.text, "30 START hot g\n40 END hot g cleared\n100 START hot g\n");
	gs_alerts_free(&a);
}

static void subjects_do_not_share(void **state)
{
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g0", 0, 95);
	push(a, &t, "g1", 10, 95);
	push(a, &t, "g0", 30, 95);
	push(a, &t, "g1", 39, 95);
	push(a, &t, "g1", 40, 95);
	push(a, &t, "g0", 50, 60);
	push(a, &t, "g1", 50, 95);
	assert_string_equal(t.text, "30 START hot g0\n40 START hot g1\n50 END hot g0 cleared\n");
	gs_alerts_free(&a);
}

static void at_most_so_many_begin_in_a_minute(void **state)
{
	struct gs_alert_rule_text rule = {.name = "r", .condition = "temperature_celsius > 90"};
	struct gs_alerts_stats stats;
	char id[8];
	struct told t;
	struct gs_alerts *a = engine_of(&rule, 1, &t, 0, 3);

	(void)state;
	for (int second = 0; second <= 130; second++) {
		snprintf(id, sizeof(id), "g%d", second % 8);
		push(a, &t, id, (uint64_t)second, 95);
		if (second == 7 || second == 59)
			assert_int_equal(t.n, 3);
		if (second == 62 || second == 119)
			assert_int_equal(t.n, 6); /* the next three */
	}
	assert_int_equal(t.n, 8); /* nobody is forgotten */
	gs_alerts_stats(a, &stats);
	assert_int_equal(stats.limited, 5);
	/* One that is over before it was told is not told at all. */
	gs_alerts_free(&a);
	a = engine_of(&rule, 1, &t, 0, 1);
	push(a, &t, "a", 0, 95);
	push(a, &t, "b", 1, 95);
	push(a, &t, "b", 10, 50);
	push(a, &t, "b", 70, 50);
	assert_string_equal(t.text, "0 START r a\n");
	gs_alerts_free(&a);
}

static void who_is_gone_ends(void **state)
{
	struct gs_alerts_stats stats;
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g0", 0, 95);
	push(a, &t, "g1", 0, 95);
	push(a, &t, "g0", 30, 95);
	push(a, &t, "g1", 30, 95);
	push(a, &t, "g1", 60, 95);
	t.now_s = 60;
	gs_alerts_sweep(a, GS_ALERT_JOB, 60 * S, 60 * S, WALL_NS); /* of another kind: nothing */
	gs_alerts_sweep(a, GS_ALERT_GPU, 60 * S, 60 * S, WALL_NS + 60 * (int64_t)S);
	assert_string_equal(t.text, "30 START hot g0\n30 START hot g1\n60 END hot g0 gone\n");
	assert_string_equal(t.last.text, "temperature_celsius > 90: temperature_celsius = 95");
	gs_alerts_stats(a, &stats);
	assert_int_equal(stats.firing, 1);
	gs_alerts_free(&a);
}

static void what_fires_can_be_asked(void **state)
{
	struct told t, firing = {.now_s = 0};
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g0", 0, 95);
	push(a, &t, "g1", 0, 95);
	gs_alerts_firing(a, note, &firing); /* pending is not firing */
	assert_int_equal(firing.n, 0);
	push(a, &t, "g0", 30, 95);
	push(a, &t, "g1", 30, 95);
	push(a, &t, "g1", 40, 70);
	gs_alerts_firing(a, note, &firing);
	assert_string_equal(firing.text, "0 START hot g0\n");
	gs_alerts_free(&a);
}

static void repeats_where_asked(void **state)
{
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 60 * S, 10);

	(void)state;
	for (uint64_t s = 0; s <= 160; s += 10)
		push(a, &t, "g", s, 95);
	assert_string_equal(t.text, "30 START hot g\n90 STILL hot g\n150 STILL hot g\n");
	gs_alerts_free(&a);
}

static void one_alert_has_one_key(void **state)
{
	char key[20];
	struct told t;
	struct gs_alerts *a = engine_of(&hot, 1, &t, 0, 10);

	(void)state;
	push(a, &t, "g", 0, 95);
	push(a, &t, "g", 30, 95);
	memcpy(key, t.last.key, sizeof(key));
	push(a, &t, "g", 40, 20);
	assert_string_equal(t.last.key, key);
	push(a, &t, "g", 200, 95);
	push(a, &t, "g", 230, 95);
	assert_int_equal(t.n, 3);
	assert_string_not_equal(t.last.key, key); /* the next one is another */
	gs_alerts_free(&a);
}

static void messages_have_values_filled_in(void **state)
{
	struct gs_alert_rule_text rule = {
		.name = "r",
		.condition = "temperature_celsius > 90 && utilization_percent < 50",
		.message = "{temperature_celsius} C at {utilization_percent} % ({processes})",
		.severity = GS_ALERT_CRITICAL};
	struct gs_alert_subject s;
	struct told t;
	struct gs_alerts *a = engine_of(&rule, 1, &t, 0, 10);

	(void)state;
	gs_alert_subject_init(&s, GS_ALERT_GPU, "g");
	gs_alert_subject_label(&s, "gpu", "3");
	gs_alert_subject_set(&s, "temperature_celsius", 91.25);
	gs_alert_subject_set(&s, "utilization_percent", 12);
	gs_alerts_push(a, &s, 0, WALL_NS);
	assert_string_equal(t.last.text, "91.25 C at 12 % (unknown)");
	assert_int_equal(t.last.n_evidence, 2);
	assert_string_equal(t.last.evidence[1].key, "utilization_percent");
	assert_true(t.last.evidence[1].value == 12);
	assert_int_equal(t.last.severity, GS_ALERT_CRITICAL);
	assert_string_equal(t.last.label[0].value, "3");
	assert_string_equal(t.last.host, "n1");
	gs_alerts_free(&a);
}

static void every_value_has_its_name_back(void **state)
{
	unsigned n = 0;

	(void)state;
	for (int kind = GS_ALERT_JOB; kind < GS_ALERT_KINDS; kind++)
		for (unsigned i = 0; i < GS_ALERT_VALUES_MAX; i++) {
			char key[96];

			gs_alert_value_key(kind, i, key, sizeof(key));
			if (!key[0] || strstr(key, "_percent"))
				continue; /* shares have two names */
			n++;
			if (kind == GS_ALERT_GPU && i >= GS_GPU_FIELD_COUNT &&
			    gs_gpu_field_by_key(key) >= 0)
				continue; /* no share: its percent does not exist */
			assert_int_equal(gs_alert_value_of(kind, key), i);
		}
	assert_true(n > 100);
	assert_true(gs_alert_value_of(GS_ALERT_GPU, "utilization_percent") > 0);
	assert_int_equal(gs_alert_value_of(GS_ALERT_GPU, "power_percent"), -1);
	assert_true(gs_alert_value_of(GS_ALERT_JOB, "efficiency_score") >= 0);
	assert_int_equal(gs_alert_value_of(GS_ALERT_NODE, "temperature_celsius"), -1);
}

static void kinds_follow_from_names(void **state)
{
	static const struct {
		const char *condition;
		enum gs_alert_kind kind;
	} cases[] = {{"efficiency_score < 30", GS_ALERT_JOB},
		     {"temperature_celsius > 90", GS_ALERT_GPU},
		     {"load1 > 2 * cpus", GS_ALERT_NODE},
		     {"cpu_percent > 5", GS_ALERT_JOB}}; /* of a job and of the node: the job's */

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_alert_rule_text text = {.name = "r", .condition = cases[i].condition};
		struct told t;
		struct gs_alerts *a = engine_of(&text, 1, &t, 0, 10);

		for (int kind = GS_ALERT_JOB; kind < GS_ALERT_KINDS; kind++)
			assert_int_equal(gs_alerts_wants(a, kind), kind == (int)cases[i].kind);
		gs_alerts_free(&a);
	}
}

static void a_full_table_is_counted(void **state)
{
	struct gs_alert_rule_text rule = {.name = "r", .condition = "temperature_celsius > 90"};
	struct gs_alerts_stats stats;
	char id[16];
	struct told t;
	struct gs_alerts *a = engine_of(&rule, 1, &t, 0, 1);

	(void)state;
	for (int i = 0; i < GS_ALERT_ENTRIES_MAX + 7; i++) {
		snprintf(id, sizeof(id), "g%d", i);
		push(a, &t, id, 0, 95);
	}
	gs_alerts_stats(a, &stats);
	assert_int_equal(stats.full, 7);
	assert_int_equal(stats.firing + stats.pending, GS_ALERT_ENTRIES_MAX);
	gs_alerts_sweep(a, GS_ALERT_GPU, S, S, WALL_NS);
	gs_alerts_stats(a, &stats);
	assert_int_equal(stats.firing + stats.pending, 0);
	push(a, &t, "new", 61, 95); /* there is room again */
	assert_string_equal(t.last.id, "new");
	gs_alerts_free(&a);
}

static void gpus_of_one_moment_are_one_start(void **state)
{
	struct gs_alert_rule_text rule = {.name = "r", .condition = "temperature_celsius > 90"};
	struct told t;
	struct gs_alerts *a = engine_of(&rule, 1, &t, 0, 1);

	(void)state;
	push(a, &t, "a", 0, 95);
	push(a, &t, "b", 0, 95);
	push(a, &t, "c", 1, 95);
	assert_string_equal(t.text, "0 START r a\n0 START r b\n");
	push(a, &t, "c", 61, 95);
	assert_int_equal(t.n, 3);
	gs_alerts_free(&a);
}

static struct gs_alert_message message_of_gpu(const char *rule, int gpu, const char *cause)
{
	struct gs_alert_message m = {.event = cause[0] ? GS_ALERT_END : GS_ALERT_START,
				     .kind = GS_ALERT_GPU,
				     .n_labels = 2,
				     .label = {{"node", "n1"}, {"gpu", ""}}};

	snprintf(m.rule, sizeof(m.rule), "%s", rule);
	snprintf(m.cause, sizeof(m.cause), "%s", cause);
	snprintf(m.id, sizeof(m.id), "GPU-%d", gpu);
	snprintf(m.key, sizeof(m.key), "k%d", gpu);
	snprintf(m.title, sizeof(m.title), "GPU %d (X)", gpu);
	snprintf(m.text, sizeof(m.text), "at %d degrees", 90 + gpu);
	snprintf(m.label[1].value, sizeof(m.label[1].value), "%d", gpu);
	return m;
}

static void one_cause_on_many_gpus_is_one_message(void **state)
{
	struct gs_alert_message m[24] = {
		message_of_gpu("hot", 0, ""), message_of_gpu("idle", 1, ""),
		message_of_gpu("hot", 2, ""), message_of_gpu("hot", 3, "cleared")};
	bool taken[24] = {false};
	struct gs_alert_message joined;

	(void)state;
	gs_alert_join(m, 4, taken, &joined);
	assert_int_equal(joined.n_members, 2);
	assert_string_equal(joined.title, "2 GPUs (0, 2)");
	assert_string_equal(joined.text, "at 90 degrees (GPU 0)");
	assert_string_equal(joined.member[1].id, "GPU-2");
	assert_string_equal(joined.member[1].key, "k2");
	assert_int_equal(joined.n_labels, 1); /* the node's */
	assert_true(taken[0] && !taken[1] && taken[2] && !taken[3]);
	/* One alone is as it was. */
	gs_alert_join(m, 4, taken, &joined);
	assert_memory_equal(&joined, &m[1], sizeof(joined));
	gs_alert_join(m, 4, taken, &joined);
	assert_string_equal(joined.title, "GPU 3 (X)");
	/* As many as there is room for, and the rest in another one. */
	memset(taken, 0, sizeof(taken));
	for (int i = 0; i < 24; i++)
		m[i] = message_of_gpu("hot", i, "gone");
	gs_alert_join(m, 24, taken, &joined);
	assert_int_equal(joined.n_members, GS_ALERT_MEMBERS_MAX);
	gs_alert_join(m, 24, taken, &joined);
	assert_int_equal(joined.n_members, 24 - GS_ALERT_MEMBERS_MAX);
	assert_string_equal(joined.member[0].id, "GPU-16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_after_for_and_ends_below_clear),
		cmocka_unit_test(a_gap_starts_over),
		cmocka_unit_test(unknown_neither_begins_nor_ends),
		cmocka_unit_test(without_clear_it_ends_when_false),
		cmocka_unit_test(cool_down_is_silent),
		cmocka_unit_test(subjects_do_not_share),
		cmocka_unit_test(at_most_so_many_begin_in_a_minute),
		cmocka_unit_test(who_is_gone_ends),
		cmocka_unit_test(what_fires_can_be_asked),
		cmocka_unit_test(repeats_where_asked),
		cmocka_unit_test(one_alert_has_one_key),
		cmocka_unit_test(messages_have_values_filled_in),
		cmocka_unit_test(every_value_has_its_name_back),
		cmocka_unit_test(kinds_follow_from_names),
		cmocka_unit_test(a_full_table_is_counted),
		cmocka_unit_test(gpus_of_one_moment_are_one_start),
		cmocka_unit_test(one_cause_on_many_gpus_is_one_message),
	};

	return cmocka_run_group_tests_name("alert", tests, NULL, NULL);
}
