/* A configuration of alerts with its rules, and files of alerts that were kept. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/alert/conf.h"
#include "replay_main.h"

static void tell(void *ctx, const struct gs_alert_message *m)
{
	assert(memchr(m->text, '\0', sizeof(m->text)) && memchr(m->title, '\0', sizeof(m->title)));
	++*(unsigned *)ctx;
}

/* Every rule looks at a subject of its kind that has half of its values. */
static void run_rules(const struct gs_alert_conf *conf)
{
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	unsigned told = 0;
	struct gs_alerts_options o = {.size = sizeof(o), .sink = tell, .ctx = &told};
	struct gs_alerts *a;
	size_t n;

	assert(gs_alert_conf_rules(conf, rules, &n) == 0);
	if (gs_alerts_new(&o, rules, n, &a) < 0)
		return;
	for (int kind = GS_ALERT_JOB; kind < GS_ALERT_KINDS; kind++)
		for (uint64_t round = 0; round < 4; round++) {
			struct gs_alert_subject s;

			gs_alert_subject_init(&s, (enum gs_alert_kind)kind, "x");
			for (unsigned i = round % 2; i < GS_ALERT_VALUES_MAX; i += 2)
				s.v[i] = (double)i * (double)round;
			gs_alerts_push(a, &s, round * 3600000000000ull, 5);
		}
	gs_alerts_free(&a);
}

static void restore(const uint8_t *data, size_t bytes)
{
	static const struct gs_alert_rule_text text = {.name = "hot",
						       .condition = "temperature_celsius > 1"};
	struct gs_alerts_options o = {.size = sizeof(o)};
	struct gs_buf kept = GS_BUF_INIT(GS_ALERT_KEEP_BYTES);
	struct gs_err err = {{0}};
	struct gs_alert_rule *rule;
	enum gs_alert_part part;
	struct gs_alerts *a;
	uint64_t ignored;

	assert(gs_alert_rule_new(&text, &rule, &part, &err) == 0);
	if (gs_alerts_new(&o, &rule, 1, &a) < 0)
		return;
	if (gs_alerts_restore(a, (const char *)data, bytes, 7, 1700000000000000000, &ignored,
			      &err) < 0)
		assert(err.text[0]);
	/* What was taken can be kept again. */
	assert(gs_alerts_save(a, 7, 1700000000000000000, &kept) == 0);
	assert(gs_alerts_restore(a, (char *)kept.data, kept.bytes, 7, 1700000000000000000, &ignored,
				 &err) == 0);
	gs_buf_fini(&kept);
	gs_alerts_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_alert_conf *conf = calloc(1, sizeof(*conf));
	struct gs_err err = {{0}};
	unsigned line, column;
	char foreign[64];
	int r;

	if (!conf)
		return 0;
	r = gs_conf_parse(gs_alert_conf_schema(), "f", data, bytes, conf, NULL, &err);
	if (r == 0) {
		gs_alert_conf_resolve(conf);
		gs_alert_conf_foreign(conf, foreign, sizeof(foreign));
		assert(memchr(conf->email[0].recipients, '\0', sizeof(conf->email[0].recipients)));
		assert(conf->queue >= 1 && conf->max_per_minute >= 1);
		run_rules(conf);
	} else if (r != -ENOMEM) {
		assert(r == -EINVAL && sscanf(err.text, "f:%u:%u: ", &line, &column) == 2);
	}
	free(conf);
	restore(data, bytes);
	return 0;
}
