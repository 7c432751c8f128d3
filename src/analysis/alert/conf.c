/* The tables of the configuration of alerts, and rules made of what was read. */
#include "analysis/alert/conf.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/fmt.h"

enum { NAME, CONDITION, CLEAR, FOR, COOLDOWN, SUBJECT, SEVERITY, MESSAGE };
static const char *const rule_columns[] = {"name",    "condition", "clear",   "for", "cooldown",
					   "subject", "severity",  "message", NULL};
static const char *const trigger_columns[] = {"name", "threshold", "message", NULL};
static const char *const severities[] = {"info", "warning", "critical", NULL};
static const char *const health_choices[] = {"none", "info", "warning", "critical", NULL};
static const char *const tls_choices[] = {"auto", "starttls", "tls", "none", NULL};
static const char *const payloads[] = {"gpuscope", "alertmanager", NULL};

/* The triggers of ebpf-hpc-monitor: what each compares, and in which direction. */
static const struct trigger {
	const char *name, *value;
	bool below;
	const char *message;
} triggers[] = {
	{"low_efficiency", "efficiency_score", true,
	 "efficiency is {efficiency_score} of 100, below %g"},
	{"high_context_switches", "context_switches_per_core_second", false,
	 "{context_switches_per_core_second} context switches per core and second, above %g"},
};
_Static_assert(GS_ARRAY_LEN(triggers) == 2, "room in struct gs_alert_conf");

static bool url_valid(const char *text)
{
	const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
			   : strncmp(text, "https://", 8) == 0 ? text + 8
							       : NULL;

	if (!host || !isalnum((unsigned char)host[0]) ? !host || host[0] != '[' : false)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text <= 0x20 || *text == '"' || *text == '<' || *text == '>')
			return false;
	return true;
}

static bool address_valid(const char *text)
{
	const char *at = strchr(text, '@');

	if (!at || at == text || !at[1] || strchr(at + 1, '@'))
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("@.!#$%&'*+-/=?^_`{|}~", *text))
			return false;
	return true;
}

static bool host_valid(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(".-:[]_", *c))
			return false;
	return isalnum((unsigned char)text[0]) || text[0] == '[';
}

#define AT(field)   offsetof(struct gs_alert_conf, field)
#define SIZE(field) sizeof(((struct gs_alert_conf *)0)->field)
#define KEY(name_, kind_, offset_, preset_, comment_)                                              \
	.name = name_, .kind = kind_, .offset = offset_, .preset = preset_, .comment = comment_

const struct gs_conf_key gs_alert_keys[] = {
	{KEY("enabled", GS_CONF_BOOL, AT(enabled), "true", "false: no rule is evaluated.")},
	{KEY("interval", GS_CONF_DURATION, AT(interval_ns), "5s",
	     "Time between two evaluations of the rules; at least the time between two readings."),
	 .min = GS_CONF_S / 10, .max = GS_CONF_H},
	{KEY("window", GS_CONF_DURATION, AT(window_ns), "0",
	     "For `gpuscope job`: window of job figures, which cover between half and all of it; 0: 30s. The\n"
	     "agent uses jobs.window."),
	 .max = 24 * GS_CONF_H},
	{KEY("for", GS_CONF_DURATION, AT(for_ns), "30s",
	     "How long a condition must hold continuously before its rule fires; default of rules."),
	 .max = 24 * GS_CONF_H},
	{KEY("cooldown", GS_CONF_DURATION, AT(cooldown_ns), "10m",
	     "Time after the end of an alert during which its rule does not fire again for the same subject."),
	 .max = 168 * GS_CONF_H},
	{KEY("repeat", GS_CONF_DURATION, AT(repeat_ns), "0",
	     "Send firing alerts to the webhook again at this interval; 0: never, but every minute to an\n"
	     "Alertmanager, which forgets them."),
	 .max = 24 * GS_CONF_H},
	{KEY("max_per_minute", GS_CONF_NUMBER, AT(max_per_minute), "10",
	     "Maximum number of alerts that start firing per minute; others wait for the next minute."),
	 .min = 1, .max = GS_ALERT_MINUTE_MAX},
	{KEY("hysteresis", GS_CONF_RATIO, AT(hysteresis_ratio), "10%",
	     "For triggers: how far the value must return past the threshold.")},
	{KEY("gpu_health", GS_CONF_CHOICE, AT(gpu_health), "none",
	     "Add a rule for each GPU health condition of this severity or worse; none: no such rules. Each\n"
	     "is named gpu_ and its condition: gpuscope-alerts(5)."),
	 .choices = health_choices},
	{KEY("state_file", GS_CONF_TEXT, AT(state_file), "",
	     "File for active alerts, so that they are not sent again after a restart; empty: none."),
	 .bytes = SIZE(state_file)},
	{KEY("timeout", GS_CONF_DURATION, AT(timeout_ns), "10s",
	     "Time limit of one attempt to send."),
	 .min = GS_CONF_S / 10, .max = 300 * GS_CONF_S},
	{KEY("give_up", GS_CONF_DURATION, AT(give_up_ns), "15m",
	     "A message that could not be sent for this time is dropped and counted."),
	 .min = GS_CONF_S, .max = 24 * GS_CONF_H},
	{KEY("queue", GS_CONF_NUMBER, AT(queue), "256",
	     "Maximum number of queued messages per receiver; further ones are dropped and counted."),
	 .min = 1, .max = 4096},
	{KEY("rules", GS_CONF_ROWS, AT(rules), "",
	     "Rules, each with name and condition, optionally clear, for, cooldown, subject (job, gpu, node),\n"
	     "severity (info, warning, critical), message:\n"
	     "  - {name: hot, condition: \"temperature_celsius > 90\", clear: \"temperature_celsius < 80\", for: 30s}\n"
	     "Values, units and operators: gpuscope-alerts(5)."),
	 .choices = rule_columns},
};

const struct gs_conf_key gs_alert_trigger_keys[] = {
	{KEY("low_efficiency", GS_CONF_REAL, AT(low_efficiency), "0",
	     "A job whose efficiency score is below this; 0: off."),
	 .min = 0, .max = 100},
	{KEY("high_context_switches", GS_CONF_REAL, AT(high_context_switches), "0",
	     "A job with more context switches than this per core and second; 0: off."),
	 .min = 0, .max = 1000000000},
};

const struct gs_conf_key gs_alert_webhook_keys[] = {
	{KEY("url", GS_CONF_TEXT, AT(webhook.url), "",
	     "URL to POST messages to, as JSON; empty: no webhook."),
	 .bytes = SIZE(webhook.url), .valid = url_valid,
	 .expects = "a URL such as https://alerts.example.org/hook"},
	{KEY("payload", GS_CONF_CHOICE, AT(webhook.payload), "gpuscope",
	     "gpuscope: one message. alertmanager: the form of Alertmanager's /api/v2/alerts."),
	 .choices = payloads},
	{KEY("token_file", GS_CONF_TEXT, AT(webhook.token_file), "",
	     "File with a bearer token; must not be world-readable."),
	 .bytes = SIZE(webhook.token_file)},
	{KEY("ca_file", GS_CONF_TEXT, AT(webhook.ca_file), "",
	     "CA certificates (PEM) to trust instead of the system's."),
	 .bytes = SIZE(webhook.ca_file)},
	{KEY("min_severity", GS_CONF_CHOICE, AT(webhook.min_severity), "info",
	     "Do not send less severe messages."),
	 .choices = severities},
};

#define MAIL(field)   offsetof(struct gs_alert_email, field)
#define MAILED(field) sizeof(((struct gs_alert_email *)0)->field)

const struct gs_conf_key gs_alert_email_keys[] = {
	{KEY("enabled", GS_CONF_BOOL, MAIL(enabled), "true", "false: no e-mail.")},
	{KEY("smtp_server", GS_CONF_TEXT, MAIL(server), "", "Host; empty: no e-mail."),
	 .bytes = MAILED(server), .valid = host_valid,
	 .expects = "a host such as smtp.example.org"},
	{KEY("smtp_port", GS_CONF_NUMBER, MAIL(port), "587", ""), .min = 1, .max = 65535},
	{KEY("tls", GS_CONF_CHOICE, MAIL(tls), "auto",
	     "starttls: upgrade or fail. tls: from the start (port 465). none. auto: tls on port 465, else\n"
	     "starttls where a user name is given, else starttls if the server has it."),
	 .choices = tls_choices},
	{KEY("username", GS_CONF_TEXT, MAIL(username), "", "Empty: no login."),
	 .bytes = MAILED(username)},
	{KEY("password", GS_CONF_TEXT, MAIL(password), "", ""), .bytes = MAILED(password)},
	{KEY("password_file", GS_CONF_TEXT, MAIL(password_file), "",
	     "Better than password: a file that contains it; must not be world-readable."),
	 .bytes = MAILED(password_file)},
	{KEY("from", GS_CONF_TEXT, MAIL(from), "",
	     "Empty: the user name if it is an address, else gpuscope@ and the machine's name."),
	 .bytes = MAILED(from), .valid = address_valid,
	 .expects = "an address such as alerts@example.org"},
	{KEY("recipients", GS_CONF_LIST, MAIL(recipients), "", "Addresses."),
	 .bytes = MAILED(recipients), .valid = address_valid,
	 .expects = "addresses such as [\"admin@example.org\"]"},
	{KEY("ca_file", GS_CONF_TEXT, MAIL(ca_file), "",
	     "CA certificates (PEM) to trust instead of the system's."),
	 .bytes = MAILED(ca_file)},
	{KEY("min_severity", GS_CONF_CHOICE, MAIL(min_severity), "info",
	     "Do not send less severe messages."),
	 .choices = severities},
};

const struct gs_conf_key gs_alert_log_keys[] = {
	{KEY("enabled", GS_CONF_BOOL, AT(log.enabled), "true",
	     "Log a line for each alert that fires or is resolved.")},
	{KEY("file", GS_CONF_TEXT, AT(log.file), "",
	     "Empty: standard error, which under systemd is the journal, with its priorities."),
	 .bytes = SIZE(log.file)},
	{KEY("max_mb", GS_CONF_NUMBER, AT(log.max_mb), "10",
	     "Size limit in MB; a full file is renamed to FILE.1, that to FILE.2 and so on."),
	 .min = 1, .max = 10000},
	{KEY("max_files", GS_CONF_NUMBER, AT(log.max_files), "5",
	     "Maximum number of renamed files."),
	 .min = 0, .max = 100},
};

/* Of other configurations. */
#define HIDDEN(name_, kind_, offset_, preset_)                                                     \
	KEY(name_, kind_, offset_, preset_, ""), .hidden = true

#define OTHER_EMAIL                                                                                \
	{HIDDEN("enabled", GS_CONF_BOOL, MAIL(enabled), "false")},                                 \
		{HIDDEN("smtp_server", GS_CONF_TEXT, MAIL(server), ""), .bytes = MAILED(server),   \
		 .valid = host_valid, .expects = "a host such as smtp.example.org"},               \
		{HIDDEN("smtp_port", GS_CONF_NUMBER, MAIL(port), "587"), .min = 1, .max = 65535},  \
		{HIDDEN("username", GS_CONF_TEXT, MAIL(username), ""), .bytes = MAILED(username)}, \
		{HIDDEN("password", GS_CONF_TEXT, MAIL(password), ""), .bytes = MAILED(password)}, \
	{                                                                                          \
		HIDDEN("recipients", GS_CONF_LIST, MAIL(recipients), ""),                          \
			.bytes = MAILED(recipients), .valid = address_valid,                       \
			.expects = "addresses such as [\"admin@example.org\"]"                     \
	}

static const struct gs_conf_key readme_keys[] = {OTHER_EMAIL};
static const struct gs_conf_key shipped_keys[] = {
	OTHER_EMAIL,
	{HIDDEN("triggers", GS_CONF_ROWS, AT(shipped_triggers) - AT(email[2]), ""),
	 .choices = trigger_columns},
};
static const struct gs_conf_key readme_trigger_keys[] = {
	{HIDDEN("low_efficiency", GS_CONF_REAL, AT(readme_triggers[0]), ""), .min = 0, .max = 100},
	{HIDDEN("high_context_switches", GS_CONF_REAL, AT(readme_triggers[1]), ""), .min = 0,
	 .max = 1000000000},
};

#define FOREIGN(name_, i_)                                                                         \
	{                                                                                          \
		.name = name_, .kind = GS_CONF_FOREIGN, .offset = AT(foreign[i_]), .preset = "",   \
		.comment = ""                                                                      \
	}

/* What another command of gpuscope reads out of the same file comes first and is not reported. */
#define OURS 9
static const struct gs_conf_key top_foreign[] = {
	FOREIGN("ebpf", 0),         FOREIGN("slurm", 1),        FOREIGN("classification", 2),
	FOREIGN("output", 3),       FOREIGN("sampling", 4),     FOREIGN("gpu", 5),
	FOREIGN("http", 6),         FOREIGN("metrics", 7),      FOREIGN("jobs", 8),
	FOREIGN("logging", 9),      FOREIGN("performance", 10), FOREIGN("security", 11),
	FOREIGN("experimental", 12)};
static const struct gs_conf_key external_foreign[] = {FOREIGN("prometheus", 13),
						      FOREIGN("influxdb", 14)};
static const struct gs_conf_key integrations_foreign[] = {
	FOREIGN("prometheus", 15), FOREIGN("influxdb", 16), FOREIGN("grafana", 17)};

#define SECTION(name_, offset_, table)                                                             \
	{                                                                                          \
		.name = name_, .comment = "", .offset = offset_, .keys = table,                    \
		.n_keys = GS_ARRAY_LEN(table)                                                      \
	}

static const struct gs_conf_section sections[] = {
	GS_ALERT_SECTIONS(0),
	SECTION("", 0, top_foreign),
	SECTION("external_systems", 0, external_foreign),
	SECTION("external_systems.email", AT(email[1]), readme_keys),
	SECTION("external_systems.email.triggers", 0, readme_trigger_keys),
	SECTION("integrations", 0, integrations_foreign),
	SECTION("integrations.notifications", AT(email[2]), shipped_keys),
};

void gs_alert_conf_foreign(const struct gs_alert_conf *c, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(sections); i++)
		for (size_t k = 0; k < sections[i].n_keys && n < bytes; k++) {
			const struct gs_conf_key *key = &sections[i].keys[k];
			uint32_t line;

			if (key->kind != GS_CONF_FOREIGN ||
			    key->offset < AT(foreign[0]) + OURS * sizeof(line))
				continue;
			line = *(const uint32_t *)((const char *)c + key->offset);
			if (line)
				n += (size_t)snprintf(out + n, bytes - n, "%s%s%s%s (line %u)",
						      n ? ", " : "", sections[i].name,
						      sections[i].name[0] ? "." : "", key->name,
						      line);
		}
}

/* --- rules --- */

struct maker { /* rules being made, or only checked */
	const struct gs_alert_conf *conf;
	const struct gs_conf_where *where; /* NULL: was checked before */
	struct gs_err *err;
	struct gs_alert_rule **rule;
	size_t n;
};

static int refuse_rule(const struct maker *m, const struct gs_conf_cell *at, const char *what)
{
	return m->where ? gs_conf_refuse_at(m->where, at->line, at->column, m->err, "%s", what)
			: -EINVAL;
}

static int add_rule(struct maker *m, const struct gs_alert_rule_text *text,
		    enum gs_alert_part *part, struct gs_err *why)
{
	int r;

	if (m->n == GS_ALERT_RULES_MAX)
		return gs_err_set(why, -E2BIG, "more than %d rules", GS_ALERT_RULES_MAX);
	r = gs_alert_rule_new(text, &m->rule[m->n], part, why);
	m->n += r == 0;
	return r;
}

static int read_duration(const struct maker *m, const struct gs_conf_cell *row, int column,
			 uint64_t preset_ns, uint64_t *ret_ns)
{
	const char *text = row[column].text;
	size_t n = strlen(text);
	char what[400];

	*ret_ns = preset_ns;
	if (!row[column].line)
		return 0;
	if (n && (!isdigit((unsigned char)text[n - 1]) || strcmp(text, "0") == 0) &&
	    gs_parse_ns(text, 1, ret_ns) == 0 && *ret_ns <= (uint64_t)(168 * GS_CONF_H))
		return 0;
	snprintf(
		what, sizeof(what),
		"rule \"%.47s\": %s takes 0, or a duration up to 168h, such as 30s or 5m, not \"%.60s\"",
		row[NAME].text, rule_columns[column], text);
	return refuse_rule(m, &row[column], what);
}

static int kind_of(const struct maker *m, const struct gs_conf_cell *row, enum gs_alert_kind *ret)
{
	char what[400];

	*ret = GS_ALERT_NONE;
	if (!row[SUBJECT].line)
		return 0;
	for (int kind = GS_ALERT_JOB; kind < GS_ALERT_KINDS; kind++)
		if (strcmp(gs_alert_kind_name(kind), row[SUBJECT].text) == 0) {
			*ret = (enum gs_alert_kind)kind;
			return 0;
		}
	snprintf(what, sizeof(what),
		 "rule \"%.47s\": subject takes one of job, gpu, node, not \"%.60s\"",
		 row[NAME].text, row[SUBJECT].text);
	return refuse_rule(m, &row[SUBJECT], what);
}

static int same_name(const struct maker *m, const struct gs_conf_rows *rows, size_t row)
{
	char what[400];

	for (size_t i = 0; i < row; i++) {
		if (strcmp(rows->cell[i][NAME].text, rows->cell[row][NAME].text) != 0)
			continue;
		snprintf(what, sizeof(what), "rule \"%.47s\" is defined twice, first on line %u",
			 rows->cell[row][NAME].text, rows->cell[i][NAME].line);
		return refuse_rule(m, &rows->cell[row][NAME], what);
	}
	return 0;
}

static int add_row(struct maker *m, const struct gs_conf_rows *rows, size_t i)
{
	static const int columns[] = {
		[GS_ALERT_PART_NAME] = NAME,
		[GS_ALERT_PART_CONDITION] = CONDITION,
		[GS_ALERT_PART_CLEAR] = CLEAR,
		[GS_ALERT_PART_MESSAGE] = MESSAGE,
	};
	const struct gs_conf_cell *row = rows->cell[i];
	struct gs_alert_rule_text text = {
		.name = row[NAME].text,
		.condition = row[CONDITION].text,
		.clear = row[CLEAR].text,
		.message = row[MESSAGE].text,
		.severity = GS_ALERT_WARNING,
	};
	enum gs_alert_part part;
	struct gs_err why = {{0}};
	char what[640];
	int r = same_name(m, rows, i);

	if (r == 0 && !row[CONDITION].text[0]) {
		snprintf(
			what, sizeof(what),
			"rule \"%.47s\" has no condition, such as condition: \"temperature_celsius > 90\"",
			row[NAME].text);
		return refuse_rule(m, &row[NAME], what);
	}
	if (r == 0)
		r = read_duration(m, row, FOR, m->conf->for_ns, &text.for_ns);
	if (r == 0)
		r = read_duration(m, row, COOLDOWN, m->conf->cooldown_ns, &text.cooldown_ns);
	if (r == 0)
		r = kind_of(m, row, &text.kind);
	if (r == 0 && row[SEVERITY].line &&
	    gs_alert_severity_parse(row[SEVERITY].text, &text.severity) < 0) {
		snprintf(
			what, sizeof(what),
			"rule \"%.47s\": severity takes one of info, warning, critical, not \"%.60s\"",
			row[NAME].text, row[SEVERITY].text);
		return refuse_rule(m, &row[SEVERITY], what);
	}
	if (r < 0)
		return r;
	r = add_rule(m, &text, &part, &why);
	if (r == 0 || r == -ENOMEM)
		return r;
	snprintf(what, sizeof(what), "rule \"%.47s\": %.560s", row[NAME].text, why.text);
	return refuse_rule(m, row[columns[part]].line ? &row[columns[part]] : &row[NAME], what);
}

/* A trigger as a rule of its own; hysteresis: the value must be back by a part of the threshold. */
static int add_trigger(struct maker *m, const struct trigger *t, double threshold,
		       const char *message)
{
	double back = threshold * m->conf->hysteresis_ratio;
	double clear = t->below ? threshold + back : threshold - back;
	char condition[128], cleared[128], text[256];
	struct gs_alert_rule_text rule = {
		.name = t->name,
		.condition = condition,
		.clear = cleared,
		.message = message && message[0] ? message : text,
		.kind = GS_ALERT_JOB,
		.severity = GS_ALERT_WARNING,
		.for_ns = m->conf->for_ns,
		.cooldown_ns = m->conf->cooldown_ns,
	};
	enum gs_alert_part part;

	if (t->below && clear > 100) /* of a score: the best that there is must end it */
		clear = 100;
	snprintf(condition, sizeof(condition), "%s %s %.17g", t->value, t->below ? "<" : ">",
		 threshold);
	snprintf(cleared, sizeof(cleared), "%s %s %.17g", t->value, t->below ? ">=" : "<=", clear);
	snprintf(text, sizeof(text), t->message, threshold);
	return add_rule(m, &rule, &part, m->err);
}

/* The threshold of a trigger: of ours, of the README's or of the shipped file's section. */
static int add_triggers(struct maker *m)
{
	const struct gs_alert_conf *c = m->conf;
	const double ours[] = {c->low_efficiency, c->high_context_switches};
	int r = 0;

	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(triggers); i++) {
		double threshold = ours[i];
		const char *message = NULL;

		if (!(threshold > 0) && c->email[1].enabled && c->readme_triggers[i] > 0)
			threshold = c->readme_triggers[i];
		for (size_t k = 0; k < c->shipped_triggers.n && c->email[2].enabled; k++) {
			const struct gs_conf_cell *row = c->shipped_triggers.cell[k];

			if (threshold > 0 || strcmp(row[0].text, triggers[i].name) != 0)
				continue;
			threshold = strtod(row[1].text, NULL);
			message = row[2].text;
		}
		if (threshold > 0)
			r = add_trigger(m, &triggers[i], threshold, message);
	}
	return r;
}

/* A rule for each condition of the table that is as severe as asked for. */
static int add_health_rules(struct maker *m)
{
	static const enum gs_alert_severity severity_of[] = {
		[GS_GPU_SEVERITY_NONE] = GS_ALERT_INFO,
		[GS_GPU_SEVERITY_INFO] = GS_ALERT_INFO,
		[GS_GPU_SEVERITY_WARNING] = GS_ALERT_WARNING,
		[GS_GPU_SEVERITY_CRITICAL] = GS_ALERT_CRITICAL,
	};
	int r = 0;

	for (unsigned c = 0; r == 0 && m->conf->gpu_health && c < GS_GPU_CONDITION_COUNT; c++) {
		enum gs_gpu_severity severity = gs_gpu_condition_severity((enum gs_gpu_condition)c);
		const char *key = gs_gpu_condition_key((enum gs_gpu_condition)c);
		char name[GS_ALERT_NAME_BYTES], condition[80];
		struct gs_alert_rule_text rule = {
			.name = name,
			.condition = condition,
			.kind = GS_ALERT_GPU,
			.severity = severity_of[severity],
			.for_ns = m->conf->for_ns,
			.cooldown_ns = m->conf->cooldown_ns,
			.is_of_health = true,
			.gpu_condition = (enum gs_gpu_condition)c,
		};
		enum gs_alert_part part;

		if ((int)severity < m->conf->gpu_health)
			continue;
		snprintf(name, sizeof(name), "gpu_%s", key);
		snprintf(condition, sizeof(condition), "health_%s == 1", key);
		r = add_rule(m, &rule, &part, m->err);
	}
	return r;
}

static int check_shipped(const struct maker *m)
{
	char what[300], *end;

	for (size_t k = 0; k < m->conf->shipped_triggers.n; k++) {
		const struct gs_conf_cell *row = m->conf->shipped_triggers.cell[k];
		double v = strtod(row[1].text, &end);

		if (strcmp(row[0].text, triggers[0].name) != 0 &&
		    strcmp(row[0].text, triggers[1].name) != 0) {
			snprintf(
				what, sizeof(what),
				"no trigger \"%.60s\"; the triggers are low_efficiency and high_context_switches",
				row[0].text);
			return refuse_rule(m, &row[0], what);
		}
		if (!row[1].line || *end || !isfinite(v) || v < 0) {
			snprintf(what, sizeof(what),
				 "trigger \"%.60s\": threshold takes a number, not \"%.60s\"",
				 row[0].text, row[1].text);
			return refuse_rule(m, row[1].line ? &row[1] : &row[0], what);
		}
		if (strchr(row[2].text, '{'))
			return refuse_rule(m, &row[2], "a message of a trigger without braces");
	}
	return 0;
}

static int make_rules(struct maker *m)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->conf->rules.n; i++)
		r = add_row(m, &m->conf->rules, i);
	if (r == 0)
		r = add_triggers(m);
	return r == 0 ? add_health_rules(m) : r;
}

int gs_alert_conf_rules(const struct gs_alert_conf *c,
			struct gs_alert_rule *ret_rules[GS_ALERT_RULES_MAX], size_t *ret_n)
{
	struct maker m = {.conf = c, .rule = ret_rules};
	int r = make_rules(&m);

	for (size_t i = 0; r < 0 && i < m.n; i++)
		gs_alert_rule_free(&ret_rules[i]);
	*ret_n = r < 0 ? 0 : m.n;
	return r;
}

int gs_alert_conf_open(const struct gs_alert_conf *c, const char *host, gs_alert_sink_fn sink,
		       void *ctx, struct gs_alerts **ret)
{
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	struct gs_alerts_options o = {
		.size = sizeof(o),
		.host = host,
		.repeat_ns = c->repeat_ns,
		.max_per_minute = (unsigned)c->max_per_minute,
		.sink = sink,
		.ctx = ctx,
	};
	size_t n;
	int r = gs_alert_conf_rules(c, rules, &n);

	return r == 0 ? gs_alerts_new(&o, rules, n, ret) : r;
}

static const char *const email_paths[] = {"alerts.email", "external_systems.email",
					  "integrations.notifications"};

static bool in_use(const struct gs_alert_email *e)
{
	return e->enabled && e->server[0];
}

static int check_email(const struct gs_alert_conf *c, const struct gs_conf_where *where,
		       struct gs_err *err)
{
	char key[80];
	int first = -1;

	for (int i = 0; i < 3; i++) {
		const struct gs_alert_email *e = &c->email[i];

		snprintf(key, sizeof(key), "%s.smtp_server", email_paths[i]);
		if (i && e->enabled && !e->server[0])
			return gs_conf_refuse(where, key, err, "e-mail without smtp_server");
		if (!in_use(e))
			continue;
		if (first >= 0)
			return gs_conf_refuse(where, key, err, "e-mail is already configured in %s",
					      email_paths[first]);
		first = i;
		snprintf(key, sizeof(key), "%s.recipients", email_paths[i]);
		if (!e->recipients[0])
			return gs_conf_refuse(where, key, err, "e-mail without recipients");
		snprintf(key, sizeof(key), "%s.password", email_paths[i]);
		if (e->password[0] && e->password_file[0])
			return gs_conf_refuse(where, key, err,
					      "give either password or password_file, not both");
		if ((e->password[0] || e->password_file[0]) && !e->username[0])
			return gs_conf_refuse(where, key, err, "password without username");
		snprintf(key, sizeof(key), "%s.username", email_paths[i]);
		if (e->username[0] && !e->password[0] && !e->password_file[0])
			return gs_conf_refuse(where, key, err, "username without password");
	}
	return 0;
}

int gs_alert_conf_check(const struct gs_alert_conf *c, const struct gs_conf_where *where,
			struct gs_err *err)
{
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	struct maker m = {.conf = c, .where = where, .err = err, .rule = rules};
	int r = check_shipped(&m);

	if (r == 0)
		r = make_rules(&m);
	for (size_t i = 0; i < m.n; i++)
		gs_alert_rule_free(&rules[i]);
	if (r == 0)
		r = check_email(c, where, err);
	if (r == 0 && (c->webhook.token_file[0] || c->webhook.ca_file[0]) && !c->webhook.url[0])
		r = gs_conf_refuse(where,
				   c->webhook.token_file[0] ? "alerts.webhook.token_file"
							    : "alerts.webhook.ca_file",
				   err, "a webhook without url");
	if (r == 0 && c->webhook.token_file[0] && strncmp(c->webhook.url, "https:", 6) != 0)
		r = gs_conf_refuse(where, "alerts.webhook.token_file", err,
				   "a token is not sent over http: the url must be https");
	if (r == 0 && c->log.file[0] && c->log.file[0] != '/')
		r = gs_conf_refuse(
			where, "alerts.log.file", err,
			"file takes an absolute path: a daemon has no working directory");
	return r;
}

static int check_rules(const void *whole, const struct gs_conf_where *where, struct gs_err *err)
{
	return gs_alert_conf_check(whole, where, err);
}

const struct gs_conf_schema *gs_alert_conf_schema(void)
{
	static const struct gs_conf_schema schema = {
		.comment = "Alert rules and notification receivers.",
		.bytes = sizeof(struct gs_alert_conf),
		.sections = sections,
		.n_sections = GS_ARRAY_LEN(sections),
		.check = check_rules,
	};

	return &schema;
}

void gs_alert_conf_resolve(struct gs_alert_conf *c)
{
	for (int i = 1; i < 3; i++)
		if (in_use(&c->email[i])) {
			c->email[0] = c->email[i];
			c->email[i].server[0] = '\0';
		}
	if (!c->email[0].from[0] && address_valid(c->email[0].username))
		snprintf(c->email[0].from, sizeof(c->email[0].from), "%s", c->email[0].username);
	if (c->webhook.payload == GS_ALERT_PAYLOAD_ALERTMANAGER && !c->repeat_ns)
		c->repeat_ns = 60 * GS_CONF_S;
}

bool gs_alert_conf_any(const struct gs_alert_conf *c)
{
	struct gs_alert_rule *rules[GS_ALERT_RULES_MAX];
	size_t n = 0;

	if (!c->enabled || gs_alert_conf_rules(c, rules, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		gs_alert_rule_free(&rules[i]);
	return n > 0;
}
