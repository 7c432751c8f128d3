/* Engines of one rule under a clock of the test's own; what they tell is written down. */
#ifndef TESTS_UNIT_ALERT_ALERT_TEST_H
#define TESTS_UNIT_ALERT_ALERT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "analysis/alert/alert.h"
#include "core/base/mem.h"

#define S       1000000000ull
#define WALL_NS 1700000000000000000ll /* of the test's second 0 */

struct told {
	char text[4096]; /* "12 START r gpu0\n": second, event, rule, subject */
	struct gs_alert_message last;
	uint64_t now_s;
	unsigned n;
};

static void note(void *ctx, const struct gs_alert_message *m)
{
	static const char *const names[] = {"?", "START", "END", "STILL"};
	struct told *t = ctx;
	size_t n = strlen(t->text);

	snprintf(t->text + n, sizeof(t->text) - n, "%llu %s %s %s%s%s\n",
		 (unsigned long long)t->now_s, names[m->event], m->rule, m->id,
		 m->cause[0] ? " " : "", m->cause);
	t->last = *m;
	t->n++;
}

GS_UNUSED static struct gs_alerts *engine_of(const struct gs_alert_rule_text *texts, size_t n,
					     struct told *told, uint64_t repeat_ns,
					     unsigned max_per_minute)
{
	struct gs_alerts_options o = {.size = sizeof(o),
				      .host = "n1",
				      .repeat_ns = repeat_ns,
				      .max_per_minute = max_per_minute,
				      .sink = note,
				      .ctx = told};
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	struct gs_alerts *a = NULL;

	memset(told, 0, sizeof(*told));
	for (size_t i = 0; i < n; i++) {
		enum gs_alert_part part;
		struct gs_err err = {{0}};

		if (gs_alert_rule_new(&texts[i], &rules[i], &part, &err) < 0)
			fail_msg("%s", err.text);
	}
	assert_int_equal(gs_alerts_new(&o, rules, n, &a), 0);
	return a;
}

/* The GPU's temperature at a second of the test. */
GS_UNUSED static void push(struct gs_alerts *a, struct told *t, const char *id, uint64_t now_s,
			   double celsius)
{
	struct gs_alert_subject s;

	t->now_s = now_s;
	gs_alert_subject_init(&s, GS_ALERT_GPU, id);
	gs_alert_subject_set(&s, "temperature_celsius", celsius);
	gs_alerts_push(a, &s, now_s * S, WALL_NS + (int64_t)(now_s * S));
}

GS_UNUSED static const struct gs_alert_rule_text hot = {
	.name = "hot",
	.condition = "temperature_celsius > 90",
	.clear = "temperature_celsius < 80",
	.for_ns = 30 * S,
	.cooldown_ns = 60 * S,
	.severity = GS_ALERT_WARNING,
};

#endif
