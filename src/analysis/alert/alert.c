/* The memory of rules: which fires for which subject, since when, and what may be sent. */
#include "analysis/alert/alert_int.h"
#include "core/base/vec.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MINUTE_NS 60000000000ull

int gs_alerts_new(const struct gs_alerts_options *o, struct gs_alert_rule **rules, size_t n_rules,
		  struct gs_alerts **ret)
{
	struct gs_alerts *a = n_rules <= GS_ALERT_RULES_MAX ? calloc(1, sizeof(*a)) : NULL;

	for (size_t i = 0; i < n_rules; i++)
		if (a)
			a->rule[i] = gs_take(rules[i]);
		else
			gs_alert_rule_free(&rules[i]);
	if (!a)
		return n_rules <= GS_ALERT_RULES_MAX ? -ENOMEM : -E2BIG;
	a->n_rules = n_rules;
	a->options = *o;
	snprintf(a->host, sizeof(a->host), "%s", o->host ? o->host : "");
	a->options.host = a->host;
	if (!o->max_per_minute || o->max_per_minute > GS_ALERT_MINUTE_MAX)
		a->options.max_per_minute = GS_ALERT_MINUTE_MAX;
	a->by_key = GS_MAP_INIT(GS_ALERT_ENTRIES_MAX);
	*ret = a;
	return 0;
}

void gs_alerts_free(struct gs_alerts **ref)
{
	struct gs_alerts *a = *ref;

	if (!a)
		return;
	for (size_t i = 0; i < a->n_rules; i++)
		gs_alert_rule_free(&a->rule[i]);
	for (size_t i = 0; i < a->n_entries; i++)
		free(a->entry[i].last);
	free(a->entry);
	gs_map_fini(&a->by_key);
	free(a);
	*ref = NULL;
}

bool gs_alerts_wants(const struct gs_alerts *a, enum gs_alert_kind kind)
{
	for (size_t i = 0; i < a->n_rules; i++)
		if (a->rule[i]->kind == kind)
			return true;
	return false;
}

/* Of names, not of numbers: a file kept from before knows rules by name. */
static uint64_t key_of(const struct gs_alert_rule *rule, const char *id)
{
	char text[GS_ALERT_NAME_BYTES + GS_ALERT_ID_BYTES + 16];
	int n = snprintf(text, sizeof(text), "%s\n%d\n%s", rule->name, (int)rule->kind, id);

	return gs_hash_bytes(text, (size_t)n);
}

static struct entry *add_entry(struct gs_alerts *a, uint64_t key)
{
	struct entry *e;

	if (a->n_entries >= GS_ALERT_ENTRIES_MAX ||
	    !gs_vec_reserve(&a->entry, &a->n_room, a->n_entries + 1) ||
	    gs_map_put(&a->by_key, key, a->n_entries) < 0) {
		a->stats.full++;
		return NULL;
	}
	e = &a->entry[a->n_entries++];
	memset(e, 0, sizeof(*e));
	e->key = key;
	return e;
}

struct entry *gs_alert_entry(struct gs_alerts *a, uint32_t rule, const char *id, bool make)
{
	uint64_t key = key_of(a->rule[rule], id), at;
	struct entry *e;

	if (gs_map_get(&a->by_key, key, &at)) {
		e = &a->entry[at];
		/* Two pairs with one hash: the later one goes without. */
		if (e->rule != rule || strcmp(e->id, id) != 0) {
			a->stats.full += make;
			return NULL;
		}
		return e;
	}
	e = make ? add_entry(a, key) : NULL;
	if (e) {
		e->rule = rule;
		snprintf(e->id, sizeof(e->id), "%s", id);
	}
	return e;
}

/* The last takes its place. */
void gs_alert_entry_drop(struct gs_alerts *a, struct entry *e)
{
	struct entry *last = &a->entry[a->n_entries - 1];

	gs_map_del(&a->by_key, e->key);
	free(e->last);
	if (e != last) {
		*e = *last;
		(void)gs_map_put(&a->by_key, e->key, (uint64_t)(e - a->entry)); /* is there */
	}
	a->n_entries--;
}

static void put_evidence(const struct gs_alert_rule *rule, const struct gs_alert_subject *s,
			 struct gs_alert_message *m)
{
	unsigned names[GS_ALERT_EVIDENCE_MAX];

	m->n_evidence = gs_expr_names(rule->when, names, GS_ALERT_EVIDENCE_MAX);
	for (size_t i = 0; i < m->n_evidence; i++) {
		gs_alert_value_key(rule->kind, names[i], m->evidence[i].key,
				   sizeof(m->evidence[i].key));
		m->evidence[i].value = s->v[names[i]];
	}
}

static void message_of(const struct gs_alerts *a, const struct entry *e,
		       const struct gs_alert_subject *s, struct gs_alert_message *m)
{
	const struct gs_alert_rule *rule = a->rule[e->rule];
	char text[GS_ALERT_ID_BYTES + 32];
	int n;

	memset(m, 0, sizeof(*m));
	m->severity = rule->severity;
	m->kind = rule->kind;
	snprintf(m->rule, sizeof(m->rule), "%s", rule->name);
	snprintf(m->id, sizeof(m->id), "%s", e->id);
	m->is_of_health = rule->gpu_condition != GS_GPU_CONDITION_NONE;
	snprintf(m->condition, sizeof(m->condition), "%s", rule->condition);
	snprintf(m->host, sizeof(m->host), "%s", a->host);
	m->start_wall_ns = e->start_wall_ns;
	n = snprintf(text, sizeof(text), "%016llx %lld", (unsigned long long)e->key,
		     (long long)e->start_wall_ns);
	snprintf(m->key, sizeof(m->key), "%016llx",
		 (unsigned long long)gs_hash_bytes(text, (size_t)n));
	snprintf(m->title, sizeof(m->title), "%s %s", gs_alert_kind_name(rule->kind), e->id);
	if (!s)
		return;
	snprintf(m->title, sizeof(m->title), "%s", s->title);
	memcpy(m->label, s->label, sizeof(m->label));
	m->n_labels = s->n_labels;
	put_evidence(rule, s, m);
	gs_alert_rule_text(rule, s, m->text, sizeof(m->text));
}

static void report_message(struct gs_alerts *a, const struct gs_alert_message *m)
{
	if (a->options.sink)
		a->options.sink(a->options.ctx, m);
}

/* GPUs for which a rule begins at one moment are one start: they have one cause, and one message. */
static bool joins_start(const struct gs_alerts *a, const struct entry *e, uint64_t now_ns)
{
	return a->rule[e->rule]->kind == GS_ALERT_GPU && a->rule_start_ns[e->rule] == now_ns + 1;
}

/* Whether one more may start within this minute. */
static bool minute_has_room(const struct gs_alerts *a, const struct entry *e, uint64_t now_ns)
{
	size_t max = a->options.max_per_minute;
	uint64_t oldest = a->start_ns[a->n_starts % max];

	return a->n_starts < max || now_ns - oldest >= MINUTE_NS || joins_start(a, e, now_ns);
}

static void start_alert(struct gs_alerts *a, struct entry *e, const struct gs_alert_subject *s,
			uint64_t now_ns, int64_t wall_ns)
{
	e->state = ENTRY_FIRING;
	e->sent_ns = now_ns;
	e->start_wall_ns = wall_ns;
	e->cool_until_ns = 0;
	if (!joins_start(a, e, now_ns))
		a->start_ns[a->n_starts++ % a->options.max_per_minute] = now_ns;
	a->rule_start_ns[e->rule] = now_ns + 1;
	a->stats.started++;
	a->generation++;
	e->last = malloc(sizeof(*e->last));
	if (!e->last) { /* it is sent all the same, from the stack */
		struct gs_alert_message m;

		message_of(a, e, s, &m);
		m.event = GS_ALERT_START;
		report_message(a, &m);
		return;
	}
	message_of(a, e, s, e->last);
	e->last->event = GS_ALERT_START;
	report_message(a, e->last);
}

/* subject NULL: it is gone. */
static void end_alert(struct gs_alerts *a, struct entry *e, const struct gs_alert_subject *s,
		      const char *cause, uint64_t now_ns, int64_t wall_ns)
{
	struct gs_alert_message m;

	if (!s && e->last)
		m = *e->last;
	else
		message_of(a, e, s, &m);
	m.event = GS_ALERT_END;
	m.end_wall_ns = wall_ns;
	/* The rule's own message says that it holds. */
	if (s)
		gs_alert_rule_values(a->rule[e->rule], s, "no longer ", m.text, sizeof(m.text));
	snprintf(m.cause, sizeof(m.cause), "%s", cause);
	free(e->last);
	e->last = NULL;
	e->state = ENTRY_QUIET;
	e->cool_until_ns = now_ns + a->rule[e->rule]->cooldown_ns;
	a->stats.ended++;
	a->generation++;
	report_message(a, &m);
}

static void pend_alert(struct gs_alerts *a, struct entry *e, const struct gs_alert_subject *s,
		       uint64_t now_ns, int64_t wall_ns)
{
	const struct gs_alert_rule *rule = a->rule[e->rule];

	if (e->state == ENTRY_QUIET) {
		e->state = ENTRY_PENDING;
		e->since_ns = now_ns;
		e->was_limited = e->was_cooled = false;
	}
	if (now_ns - e->since_ns < rule->for_ns)
		return;
	if (now_ns < e->cool_until_ns) {
		a->stats.cooled += !e->was_cooled;
		e->was_cooled = true;
	} else if (!minute_has_room(a, e, now_ns)) {
		a->stats.limited += !e->was_limited;
		e->was_limited = true;
	} else {
		start_alert(a, e, s, now_ns, wall_ns);
	}
}

static double truth_of(double v)
{
	return isnan(v) ? NAN : v != 0;
}

static void burn_entry(struct gs_alerts *a, struct entry *e, const struct gs_alert_subject *s,
		       double holds, uint64_t now_ns, int64_t wall_ns)
{
	const struct gs_alert_rule *rule = a->rule[e->rule];
	bool over = rule->clear ? truth_of(gs_expr_value_of(rule->clear, s->v)) == 1 : holds == 0;

	if (over) {
		end_alert(a, e, s, "cleared", now_ns, wall_ns);
	} else if (a->options.repeat_ns && now_ns - e->sent_ns >= a->options.repeat_ns) {
		struct gs_alert_message m;

		e->sent_ns = now_ns;
		message_of(a, e, s, &m);
		m.event = GS_ALERT_STILL;
		report_message(a, &m);
	}
}

void gs_alerts_push(struct gs_alerts *a, const struct gs_alert_subject *s, uint64_t now_ns,
		    int64_t wall_ns)
{
	for (uint32_t i = 0; i < a->n_rules; i++) {
		struct entry *e;
		double holds;

		if (a->rule[i]->kind != s->kind)
			continue;
		holds = truth_of(gs_expr_value_of(a->rule[i]->when, s->v));
		e = gs_alert_entry(a, i, s->id, holds == 1);
		if (!e)
			continue;
		e->seen_ns = now_ns;
		if (e->state == ENTRY_FIRING)
			burn_entry(a, e, s, holds, now_ns, wall_ns);
		else if (holds == 1)
			pend_alert(a, e, s, now_ns, wall_ns);
		else
			e->state = ENTRY_QUIET;
		if (e->state == ENTRY_QUIET && now_ns >= e->cool_until_ns)
			gs_alert_entry_drop(a, e);
	}
}

void gs_alerts_sweep(struct gs_alerts *a, enum gs_alert_kind kind, uint64_t since_ns,
		     uint64_t now_ns, int64_t wall_ns)
{
	for (size_t i = a->n_entries; i > 0; i--) {
		struct entry *e = &a->entry[i - 1];

		if (a->rule[e->rule]->kind != kind || e->seen_ns >= since_ns)
			continue;
		if (e->state == ENTRY_FIRING)
			end_alert(a, e, NULL, "gone", now_ns, wall_ns);
		e->state = ENTRY_QUIET;
		if (now_ns >= e->cool_until_ns)
			gs_alert_entry_drop(a, e);
	}
}

void gs_alerts_stats(const struct gs_alerts *a, struct gs_alerts_stats *ret)
{
	*ret = a->stats;
	ret->firing = ret->pending = 0;
	for (size_t i = 0; i < a->n_entries; i++) {
		ret->firing += a->entry[i].state == ENTRY_FIRING;
		ret->pending += a->entry[i].state == ENTRY_PENDING;
	}
}

void gs_alerts_firing(const struct gs_alerts *a, gs_alert_sink_fn fn, void *ctx)
{
	for (size_t i = 0; i < a->n_entries; i++) {
		const struct entry *e = &a->entry[i];
		struct gs_alert_message m;

		if (e->state != ENTRY_FIRING)
			continue;
		if (e->last) {
			fn(ctx, e->last);
			continue;
		}
		/* From before a restart: its values are not known any more. */
		m = (struct gs_alert_message){.event = GS_ALERT_STILL,
					      .severity = a->rule[e->rule]->severity,
					      .kind = a->rule[e->rule]->kind,
					      .start_wall_ns = e->start_wall_ns};
		snprintf(m.rule, sizeof(m.rule), "%s", a->rule[e->rule]->name);
		snprintf(m.id, sizeof(m.id), "%s", e->id);
		snprintf(m.text, sizeof(m.text), "%s of %s is still firing since before a restart",
			 m.rule, m.id);
		fn(ctx, &m);
	}
}

uint64_t gs_alerts_generation(const struct gs_alerts *a)
{
	return a->generation;
}
