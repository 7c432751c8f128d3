/* Rules: from what a person wrote to what is evaluated, and their texts. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/alert/alert_int.h"

static const char *const severities[] = {"info", "warning", "critical"};

const char *gs_alert_severity_name(enum gs_alert_severity s)
{
	return (unsigned)s < GS_ARRAY_LEN(severities) ? severities[s] : severities[1];
}

int gs_alert_severity_parse(const char *name, enum gs_alert_severity *ret)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(severities); i++)
		if (strcmp(severities[i], name) == 0) {
			*ret = (enum gs_alert_severity)i;
			return 0;
		}
	return -EINVAL;
}

static int of_job(const char *word)
{
	return gs_alert_value_of(GS_ALERT_JOB, word);
}

static int of_gpu(const char *word)
{
	return gs_alert_value_of(GS_ALERT_GPU, word);
}

static int of_node(const char *word)
{
	return gs_alert_value_of(GS_ALERT_NODE, word);
}

static gs_expr_find_fn const finders[GS_ALERT_KINDS] = {NULL, of_job, of_gpu, of_node};

/* Known by any kind: only to distinguish a slip of spelling from a mixture of kinds. */
static int of_any(const char *word)
{
	int found = -1;

	for (int kind = GS_ALERT_JOB; found < 0 && kind < GS_ALERT_KINDS; kind++)
		found = finders[kind](word);
	return found;
}

static int check_name(const char *name, struct gs_err *err)
{
	size_t n = strlen(name);

	if (!n || n >= GS_ALERT_NAME_BYTES)
		return gs_err_set(err, -EINVAL, "a rule's name has 1 to %d characters",
				  GS_ALERT_NAME_BYTES - 1);
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("_-.", name[i]))
			return gs_err_set(
				err, -EINVAL,
				"a rule's name has letters, digits, \"_\", \"-\" and \".\" only");
	return 0;
}

static int parse_when(const struct gs_alert_rule_text *t, struct gs_alert_rule *rule,
		      struct gs_err *err)
{
	struct gs_expr *any = NULL;
	struct gs_err why = {{0}};
	int r = -EINVAL;

	if (t->kind != GS_ALERT_NONE) {
		rule->kind = t->kind;
		return gs_expr_parse_names(t->condition, finders[t->kind], &rule->when, err);
	}
	for (int kind = GS_ALERT_JOB; kind < GS_ALERT_KINDS; kind++) {
		r = gs_expr_parse_names(t->condition, finders[kind], &rule->when, &why);
		if (r == 0) {
			rule->kind = (enum gs_alert_kind)kind;
			return 0;
		}
		if (r == -ENOMEM)
			return r;
	}
	r = gs_expr_parse_names(t->condition, of_any, &any, err);
	gs_expr_free(&any);
	return r < 0 ? r
		     : gs_err_set(
			       err, -EINVAL,
			       "\"%.200s\": values of jobs, GPUs and the node in one condition; a rule is about one of them",
			       t->condition);
}

/* The word between braces at text ("{name}..."); its length with the braces, 0 when it is none. */
static size_t read_braced_word(const char *text, char word[64])
{
	size_t n = strcspn(text + 1, "{}");

	if (text[1 + n] != '}' || n == 0 || n >= 64)
		return 0;
	memcpy(word, text + 1, n);
	word[n] = '\0';
	return n + 2;
}

static int check_message(const struct gs_alert_rule *rule, const char *message, struct gs_err *err)
{
	char word[64];

	if (strlen(message) >= sizeof(rule->message))
		return gs_err_set(err, -E2BIG, "a message has at most %zu bytes",
				  sizeof(rule->message) - 1);
	for (const char *at = strchr(message, '{'); at; at = strchr(at + 1, '{')) {
		if (!read_braced_word(at, word))
			return gs_err_set(
				err, -EINVAL,
				"column %zu: a brace is not closed; write it as in {cpu_percent}",
				(size_t)(at - message) + 1);
		if (finders[rule->kind](word) < 0)
			return gs_err_set(err, -EINVAL, "column %zu: a %s has no value \"%s\"",
					  (size_t)(at - message) + 1,
					  gs_alert_kind_name(rule->kind), word);
	}
	return 0;
}

int gs_alert_rule_new(const struct gs_alert_rule_text *t, struct gs_alert_rule **ret_rule,
		      enum gs_alert_part *ret_part, struct gs_err *err)
{
	const char *clear = t->clear ? t->clear : "", *message = t->message ? t->message : "";
	struct gs_alert_rule *rule = calloc(1, sizeof(*rule));
	int r;

	if (!rule)
		return -ENOMEM;
	*ret_part = GS_ALERT_PART_NAME;
	r = check_name(t->name, err);
	if (r == 0) {
		*ret_part = GS_ALERT_PART_CONDITION;
		r = strlen(t->condition) >= sizeof(rule->condition)
			    ? gs_err_set(err, -E2BIG, "a condition has at most %zu bytes",
					 sizeof(rule->condition) - 1)
			    : parse_when(t, rule, err);
	}
	if (r == 0 && clear[0]) {
		*ret_part = GS_ALERT_PART_CLEAR;
		r = gs_expr_parse_names(clear, finders[rule->kind], &rule->clear, err);
	}
	if (r == 0) {
		*ret_part = GS_ALERT_PART_MESSAGE;
		r = check_message(rule, message, err);
	}
	if (r < 0) {
		gs_alert_rule_free(&rule);
		return r;
	}
	snprintf(rule->name, sizeof(rule->name), "%s", t->name);
	snprintf(rule->condition, sizeof(rule->condition), "%s", t->condition);
	snprintf(rule->message, sizeof(rule->message), "%s", message);
	rule->gpu_condition = t->is_of_health ? t->gpu_condition : GS_GPU_CONDITION_NONE;
	rule->severity = t->severity;
	rule->for_ns = t->for_ns;
	rule->cooldown_ns = t->cooldown_ns;
	*ret_rule = rule;
	return 0;
}

void gs_alert_rule_free(struct gs_alert_rule **ref)
{
	struct gs_alert_rule *rule = *ref;

	if (!rule)
		return;
	gs_expr_free(&rule->when);
	gs_expr_free(&rule->clear);
	free(rule);
	*ref = NULL;
}

/* Four digits are enough for people; large ones whole. */
static int put_value(char *out, size_t bytes, double v)
{
	if (isnan(v))
		return snprintf(out, bytes, "unknown");
	if (fabs(v) >= 1000 || v == rint(v))
		return snprintf(out, bytes, "%.0f", v);
	return snprintf(out, bytes, "%.4g", v);
}

void gs_alert_rule_text(const struct gs_alert_rule *rule, const struct gs_alert_subject *s,
			char *out, size_t bytes)
{
	const char *at = rule->message;
	char word[64];
	size_t n = 0;

	out[0] = '\0';
	while (*at && n < bytes - 1) {
		size_t taken = *at == '{' ? read_braced_word(at, word) : 0;

		if (taken)
			n += (size_t)put_value(out + n, bytes - n,
					       s->v[gs_alert_value_of(rule->kind, word)]);
		else
			n += (size_t)snprintf(out + n, bytes - n, "%c", *at);
		at += taken ? taken : 1;
	}
	if (!rule->message[0])
		gs_alert_rule_values(rule, s, "", out, bytes);
	for (size_t i = 0; i < s->n_health; i++)
		if (s->health[i].condition == rule->gpu_condition)
			snprintf(out, bytes, "%s. %s", s->health[i].text,
				 gs_gpu_condition_advice(rule->gpu_condition));
}

void gs_alert_rule_values(const struct gs_alert_rule *rule, const struct gs_alert_subject *s,
			  const char *lead, char *out, size_t bytes)
{
	unsigned names[GS_ALERT_EVIDENCE_MAX];
	size_t n = (size_t)snprintf(out, bytes, "%s%s", lead, rule->condition);
	size_t k = gs_expr_names(rule->when, names, GS_ARRAY_LEN(names));

	for (size_t i = 0; i < k && n < bytes; i++) {
		char key[96];

		gs_alert_value_key(rule->kind, names[i], key, sizeof(key));
		n += (size_t)snprintf(out + n, bytes - n, "%s%s = ", i ? ", " : ": ", key);
		if (n < bytes)
			n += (size_t)put_value(out + n, bytes - n, s->v[names[i]]);
	}
}
