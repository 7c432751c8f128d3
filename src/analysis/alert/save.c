/*
 * What outlives a restart, as lines of text:
 *
 *   gpuscope-alerts 1
 *   firing RULE KIND START_WALL_NS ID
 *   cooling RULE KIND UNTIL_WALL_NS ID
 *
 * The ID is last because it may hold blanks.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analysis/alert/alert_int.h"

#define HEAD "gpuscope-alerts 1"

/* A file of another time shall not keep a rule silent for years. */
#define COOL_MAX_NS (7 * 86400 * 1000000000ll)

int gs_alerts_save(const struct gs_alerts *a, uint64_t now_ns, int64_t wall_ns, struct gs_buf *out)
{
	int r = gs_buf_puts(out, HEAD "\n");

	for (size_t i = 0; r == 0 && i < a->n_entries; i++) {
		const struct entry *e = &a->entry[i];
		const struct gs_alert_rule *rule = a->rule[e->rule];

		if (strchr(e->id, '\n'))
			continue;
		if (e->state == ENTRY_FIRING)
			r = gs_buf_printf(out, "firing %s %s %" PRId64 " %s\n", rule->name,
					  gs_alert_kind_name(rule->kind), e->start_wall_ns, e->id);
		else if (e->cool_until_ns > now_ns)
			r = gs_buf_printf(out, "cooling %s %s %" PRId64 " %s\n", rule->name,
					  gs_alert_kind_name(rule->kind),
					  wall_ns + (int64_t)(e->cool_until_ns - now_ns), e->id);
	}
	return r;
}

static int find_rule(const struct gs_alerts *a, const char *name, const char *kind)
{
	for (size_t i = 0; i < a->n_rules; i++)
		if (strcmp(a->rule[i]->name, name) == 0 &&
		    strcmp(gs_alert_kind_name(a->rule[i]->kind), kind) == 0)
			return (int)i;
	return -1;
}

/* One line without its end. -ENOENT: of a rule that is gone; -EINVAL: not such a line. */
static int take_line(struct gs_alerts *a, const char *line, uint64_t now_ns, int64_t wall_ns)
{
	char word[16], name[GS_ALERT_NAME_BYTES], kind[8];
	int64_t time_ns;
	int at = 0, rule;
	struct entry *e;
	bool firing;

	if (sscanf(line, "%15s %47s %7s %" SCNd64 " %n", word, name, kind, &time_ns, &at) != 4 ||
	    !at || !line[at] || strlen(line + at) >= GS_ALERT_ID_BYTES)
		return -EINVAL;
	firing = strcmp(word, "firing") == 0;
	if ((!firing && strcmp(word, "cooling") != 0) || time_ns < 0)
		return -EINVAL;
	rule = find_rule(a, name, kind);
	if (rule < 0)
		return -ENOENT;
	if (!firing && (time_ns <= wall_ns || time_ns - wall_ns > COOL_MAX_NS))
		return 0; /* it is over */
	e = gs_alert_entry(a, (uint32_t)rule, line + at, true);
	if (!e)
		return 0; /* counted */
	e->seen_ns = now_ns;
	if (firing) {
		e->state = ENTRY_FIRING;
		e->start_wall_ns = time_ns;
		e->sent_ns = now_ns;
	} else {
		e->cool_until_ns = now_ns + (uint64_t)(time_ns - wall_ns);
	}
	return 0;
}

int gs_alerts_restore(struct gs_alerts *a, const char *text, size_t bytes, uint64_t now_ns,
		      int64_t wall_ns, uint64_t *ret_ignored, struct gs_err *err)
{
	size_t number = 0;

	*ret_ignored = 0;
	while (bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t n = end ? (size_t)(end - text) : bytes;
		char line[512];
		int r = 0;

		number++;
		if (n >= sizeof(line) || memchr(text, '\0', n))
			r = -EINVAL;
		if (r == 0) {
			memcpy(line, text, n);
			line[n] = '\0';
			if (number == 1)
				r = strcmp(line, HEAD) == 0 ? 0 : -EINVAL;
			else if (n)
				r = take_line(a, line, now_ns, wall_ns);
		}
		if (r == -ENOENT)
			++*ret_ignored;
		else if (r < 0)
			return gs_err_set(err, -EINVAL, "line %zu is not a saved alert", number);
		text += n + (end != NULL);
		bytes -= n + (end != NULL);
	}
	return 0;
}
