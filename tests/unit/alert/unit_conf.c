/* The configuration of alerts: what is read, and what each mistake is told as. */
#include "alert_test.h"

#include "analysis/alert/conf.h"

#define RULES "alerts:\n  rules:\n    - "

static const struct {
	const char *text, *message;
} bad[] = {
	{"alerts:\n  for: 10\n",
	 "f.yaml:2:8: for takes 0, or a duration up to 24h, such as 500ms, 2s "
	 "or 1m, not \"10\""},
	{"alerts:\n  max_per_minute: 0\n",
	 "f.yaml:2:19: max_per_minute takes a whole number from 1 to 1000, not \"0\""},
	{"alerts:\n  hysteresis: 2\n",
	 "f.yaml:2:15: hysteresis takes a share from 0 to 1, or from 0% to 100%, not \"2\""},
	{"alerts:\n  trigers: {}\n",
	 "f.yaml:2:3: unknown key \"trigers\" in alerts; did you mean \"triggers\"?"},
	{"alerts:\n  triggers:\n    low_efficiency: 130\n",
	 "f.yaml:3:21: low_efficiency takes a number from 0 to 100, not \"130\""},
	{"alerts:\n  triggers:\n    low_memory: 3\n",
	 "f.yaml:3:5: unknown key \"low_memory\" in alerts.triggers; `--print-config` shows all "
	 "keys"},
	{RULES "{name: a}\n",
	 "f.yaml:3:14: rule \"a\" has no condition, such as condition: \"temperature_celsius > 90\""},
	{RULES "{condition: \"load1 > 3\"}\n", "f.yaml:3:7: an entry of rules without name"},
	{RULES "{name: a b, condition: \"load1 > 3\"}\n",
	 "f.yaml:3:14: rule \"a b\": a rule's name has letters, digits, \"_\", \"-\" and \".\" "
	 "only"},
	{RULES "{name: a, condition: \"load1 >\"}\n",
	 "f.yaml:3:28: rule \"a\": \"load1 >\", column 8: it ends where a figure or a number is "
	 "expected"},
	{RULES "{name: a, condition: \"lode1 > 3\"}\n",
	 "f.yaml:3:28: rule \"a\": \"lode1 > 3\", column 1: no figure has this name"},
	{RULES "{name: a, condition: \"load1 > 3 && temperature_celsius > 90\"}\n",
	 "f.yaml:3:28: rule \"a\": \"load1 > 3 && temperature_celsius > 90\": values of jobs, GPUs "
	 "and the node in one condition; a rule is about one of them"},
	{RULES "{name: a, condition: \"load1 > 3\", subject: gpu}\n",
	 "f.yaml:3:28: rule \"a\": \"load1 > 3\", column 1: no figure has this name"},
	{RULES "{name: a, condition: \"load1 > 3\", subject: host}\n",
	 "f.yaml:3:50: rule \"a\": subject takes one of job, gpu, node, not \"host\""},
	{RULES "{name: a, condition: \"load1 > 3\", severity: bad}\n",
	 "f.yaml:3:51: rule \"a\": severity takes one of info, warning, critical, not \"bad\""},
	{RULES "{name: a, condition: \"load1 > 3\", for: 5}\n",
	 "f.yaml:3:46: rule \"a\": for takes 0, or a duration up to 168h, such as 30s or 5m, not \"5\""},
	{RULES "{name: a, condition: \"load1 > 3\", clear: \"load1 < \"}\n",
	 "f.yaml:3:48: rule \"a\": \"load1 < \", column 9: it ends where a figure or a number is "
	 "expected"},
	{RULES "{name: a, condition: \"load1 > 3\", message: \"{load\"}\n",
	 "f.yaml:3:50: rule \"a\": column 1: a brace is not closed; write it as in {cpu_percent}"},
	{RULES "{name: a, condition: \"load1 > 3\", message: \"at {load9}\"}\n",
	 "f.yaml:3:50: rule \"a\": column 4: a node has no value \"load9\""},
	{RULES "{name: a, condition: \"load1 > 3\"}\n    - {name: a, condition: \"load5 > 3\"}\n",
	 "f.yaml:4:14: rule \"a\" is defined twice, first on line 3"},
	{RULES "{name: a, when: \"load1 > 3\"}\n",
	 "f.yaml:3:17: unknown key \"when\": rules takes a list of entries with name, condition, "
	 "clear, for, cooldown, subject, severity, message"},
	{"alerts:\n  webhook:\n    url: ftp://a/b\n",
	 "f.yaml:3:10: url takes a URL such as https://alerts.example.org/hook, not \"ftp://a/b\""},
	{"alerts:\n  webhook:\n    url: http://a/b\n    token_file: /etc/t\n",
	 "f.yaml:4:5: a token is not sent over http: the url must be https"},
	{"alerts:\n  webhook:\n    ca_file: /etc/ca\n", "f.yaml:3:5: a webhook without url"},
	{"alerts:\n  webhook:\n    payload: slack\n",
	 "f.yaml:3:14: payload takes one of gpuscope, alertmanager, not \"slack\""},
	{"alerts:\n  email:\n    smtp_server: mx\n", "f.yaml:2:3: e-mail without recipients"},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: [a]\n",
	 "f.yaml:4:18: recipients takes addresses such as [\"admin@example.org\"], not \"a\""},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: [a@b, {c: d}]\n",
	 "f.yaml:4:23: recipients takes addresses such as [\"admin@example.org\"]"},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: \"a@b\\r\\nBcc: c@d\"\n",
	 "f.yaml:4:17: recipients takes addresses such as [\"admin@example.org\"], not \"a@b??Bcc: "
	 "c@d\""},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: a@b\n    password: x\n",
	 "f.yaml:5:5: password without username"},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: a@b\n    username: x\n",
	 "f.yaml:5:5: username without password"},
	{"alerts:\n  email:\n    smtp_server: mx\n    smtp_port: 0\n",
	 "f.yaml:4:16: smtp_port takes a whole number from 1 to 65535, not \"0\""},
	{"alerts:\n  email:\n    smtp_server: mx\n    recipients: a@b\nexternal_systems:\n  "
	 "email:\n"
	 "    enabled: true\n    smtp_server: my\n    recipients: a@b\n",
	 "f.yaml:8:5: e-mail is already configured in alerts.email"},
	{"external_systems:\n  email:\n    enabled: true\n",
	 "f.yaml:2:3: e-mail without smtp_server"},
	{"integrations:\n  notifications:\n    triggers:\n      low_memory: {threshold: 3}\n",
	 "f.yaml:4:7: no trigger \"low_memory\"; the triggers are low_efficiency and high_context_switches"},
	{"integrations:\n  notifications:\n    triggers:\n      low_efficiency: {threshold: low}\n",
	 "f.yaml:4:35: trigger \"low_efficiency\": threshold takes a number, not \"low\""},
	{"alerts:\n  log:\n    file: alerts.log\n",
	 "f.yaml:3:5: file takes an absolute path: a daemon has no working directory"},
	{"alert:\n  for: 1s\n", "f.yaml:1:1: unknown key \"alert\"; did you mean \"alerts\"?"},
};

static struct gs_alert_conf *parse(const char *text, int wanted, struct gs_err *err)
{
	struct gs_alert_conf *conf = calloc(1, sizeof(*conf));
	int r;

	assert_non_null(conf);
	memset(err, 0, sizeof(*err));
	r = gs_conf_parse(gs_alert_conf_schema(), "f.yaml", text, strlen(text), conf, NULL, err);
	if (r != wanted)
		fail_msg("%d for %s: %s", r, text, err->text);
	return conf;
}

static void mistakes_are_told_where_they_stand(void **state)
{
	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		struct gs_err err;

		free(parse(bad[i].text, -EINVAL, &err));
		assert_string_equal(err.text, bad[i].message);
	}
}

/* Efficiency and switches of a job, pushed once a second from `from` to `to`. */
static void push_job(struct gs_alerts *a, struct told *t, uint64_t now_s, double score,
		     double switches)
{
	struct gs_alert_subject s;

	t->now_s = now_s;
	gs_alert_subject_init(&s, GS_ALERT_JOB, "4711");
	gs_alert_subject_set(&s, "efficiency_score", score);
	gs_alert_subject_set(&s, "context_switches_per_core_second", switches);
	gs_alerts_push(a, &s, now_s * S, WALL_NS);
}

static struct gs_alerts *engine_from(const char *text, struct told *t, struct gs_alert_conf **ret)
{
	struct gs_err err;
	struct gs_alert_conf *conf = parse(text, 0, &err);
	struct gs_alerts_options o = {.size = sizeof(o), .sink = note, .ctx = t};
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	struct gs_alerts *a = NULL;
	size_t n;

	memset(t, 0, sizeof(*t));
	gs_alert_conf_resolve(conf);
	assert_true(gs_alert_conf_any(conf));
	assert_int_equal(gs_alert_conf_rules(conf, rules, &n), 0);
	assert_int_equal(gs_alerts_new(&o, rules, n, &a), 0);
	*ret = conf;
	return a;
}

static void triggers_of_the_readme(void **state)
{
	/* As it stands in ebpf-hpc-monitor's documentation. */
	static const char text[] = "external_systems:\n  email:\n    enabled: true\n"
				   "    smtp_server: \"smtp.example.com\"\n    smtp_port: 587\n"
				   "    username: \"monitor@example.com\"\n"
				   "    password: \"password\"\n"
				   "    recipients: [\"admin@example.com\"]\n    triggers:\n"
				   "      low_efficiency: 30.0\n"
				   "      high_context_switches: 10000\n";
	struct gs_alert_conf *conf;
	struct told t;
	struct gs_alerts *a = engine_from(text, &t, &conf);

	(void)state;
	assert_string_equal(conf->email[0].server, "smtp.example.com");
	assert_string_equal(conf->email[0].recipients, "admin@example.com");
	assert_string_equal(conf->email[0].from, "monitor@example.com");
	assert_int_equal(conf->email[0].port, 587);
	push_job(a, &t, 0, 30, 10000); /* neither is beyond */
	push_job(a, &t, 1, 29, 9000);
	push_job(a, &t, 30, 29, 9000);
	assert_int_equal(t.n, 0);
	push_job(a, &t, 31, 29, 10001); /* `for` is half a minute */
	assert_string_equal(t.text, "31 START low_efficiency 4711\n");
	assert_string_equal(t.last.text, "efficiency is 29 of 100, below 30");
	push_job(a, &t, 50, 32.9, 10001); /* hysteresis: back by a tenth of 30 */
	push_job(a, &t, 61, 32.9, 9001);
	assert_int_equal(t.n, 1); /* the switches were not above for half a minute */
	push_job(a, &t, 62, 33, 10001);
	push_job(a, &t, 92, 50, 10001);
	push_job(a, &t, 93, 50, 9001);
	push_job(a, &t, 94, 50, 9000);
	assert_string_equal(t.text, "31 START low_efficiency 4711\n"
				    "62 END low_efficiency 4711 cleared\n"
				    "92 START high_context_switches 4711\n"
				    "94 END high_context_switches 4711 cleared\n");
	gs_alerts_free(&a);
	free(conf);
}

static void triggers_of_the_shipped_file(void **state)
{
	static const char text[] =
		"logging:\n  level: 'INFO'\nintegrations:\n  prometheus:\n    enabled: false\n"
		"  notifications:\n    enabled: true\n    smtp_server: 'mx'\n    smtp_port: 25\n"
		"    username: ''\n    password: ''\n    recipients: ['a@b.c', 'd@e.f']\n"
		"    triggers:\n      low_efficiency:\n        threshold: 30.0\n"
		"        message: 'Job efficiency below threshold'\n"
		"      high_context_switches:\n        threshold: 10000\n"
		"        message: 'High context switching detected'\n";
	struct gs_alert_conf *conf;
	char foreign[256];
	struct told t;
	struct gs_alerts *a = engine_from(text, &t, &conf);

	(void)state;
	assert_string_equal(conf->email[0].recipients, "a@b.c,d@e.f");
	push_job(a, &t, 0, 10, 0);
	push_job(a, &t, 30, 10, 0);
	assert_string_equal(t.last.text, "Job efficiency below threshold");
	gs_alert_conf_foreign(conf, foreign, sizeof(foreign));
	assert_string_equal(foreign, "logging (line 2), integrations.prometheus (line 5)");
	gs_alerts_free(&a);
	free(conf);
}

static void nothing_configured_is_nothing_told(void **state)
{
	static const char *const texts[] = {
		"", "alerts: {enabled: false, triggers: {low_efficiency: 30}}",
		"alerts: {webhook: {url: 'http://a'}}"};
	struct gs_err err;

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		struct gs_alert_conf *conf = parse(texts[i], 0, &err);

		assert_false(gs_alert_conf_any(conf));
		free(conf);
	}
}

static void the_default_file_is_the_default(void **state)
{
	struct gs_alert_conf *one = calloc(1, sizeof(*one)), *other;
	struct gs_buf text = GS_BUF_INIT(1 << 20);
	struct gs_err err;

	(void)state;
	gs_conf_defaults(gs_alert_conf_schema(), one);
	assert_int_equal(gs_conf_print(gs_alert_conf_schema(), &text), 0);
	assert_int_equal(gs_buf_put(&text, "", 1), 0);
	other = parse((char *)text.data, 0, &err);
	/* NAN is NAN in the same bits. */
	assert_memory_equal(one, other, sizeof(*one));
	assert_null(strstr((char *)text.data, "external_systems"));
	gs_buf_fini(&text);
	free(one);
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_told_where_they_stand),
		cmocka_unit_test(triggers_of_the_readme),
		cmocka_unit_test(triggers_of_the_shipped_file),
		cmocka_unit_test(nothing_configured_is_nothing_told),
		cmocka_unit_test(the_default_file_is_the_default),
	};

	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
