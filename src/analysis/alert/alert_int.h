/* Between the files of this room. */
#ifndef GS_ANALYSIS_ALERT_ALERT_INT_H
#define GS_ANALYSIS_ALERT_ALERT_INT_H

#include "analysis/alert/alert.h"
#include "core/base/map.h"
#include "analysis/rules/expr.h"

struct gs_alert_rule {
	char name[GS_ALERT_NAME_BYTES];
	char condition[GS_ALERT_TEXT_BYTES];
	char message[GS_ALERT_TEXT_BYTES];
	struct gs_expr *when, *clear;        /* owned; clear may be NULL */
	enum gs_gpu_condition gpu_condition; /* GS_GPU_CONDITION_NONE: not of health */
	enum gs_alert_kind kind;
	enum gs_alert_severity severity;
	uint64_t for_ns, cooldown_ns;
};

enum entry_state { ENTRY_QUIET, ENTRY_PENDING, ENTRY_FIRING };

struct entry {
	uint64_t key; /* of rule and subject */
	uint32_t rule;
	enum entry_state state;
	char id[GS_ALERT_ID_BYTES];
	uint64_t since_ns;            /* pending: when the condition began to hold */
	uint64_t sent_ns;             /* firing: the last message */
	uint64_t seen_ns;             /* the subject's last values */
	uint64_t cool_until_ns;       /* 0: no cool-down */
	bool was_limited, was_cooled; /* counted once for each time that it is pending */
	int64_t start_wall_ns;
	struct gs_alert_message *last; /* owned; firing: what was sent, NULL after a restart */
};

struct gs_alerts {
	struct gs_alerts_options options;
	char host[65];
	struct gs_alert_rule *rule[GS_ALERT_RULES_MAX];
	size_t n_rules;
	struct entry *entry; /* owned, n_entries of n_room; quiet ones without cool-down go */
	size_t n_entries, n_room;
	struct gs_map by_key;                   /* entry's key → index */
	uint64_t start_ns[GS_ALERT_MINUTE_MAX]; /* ring: the last starts */
	size_t n_starts;
	uint64_t rule_start_ns[GS_ALERT_RULES_MAX]; /* the last start of each, plus 1; 0 none */
	uint64_t generation;
	struct gs_alerts_stats stats;
};

/* The entry of a rule and a subject; NULL: none, or (make) no room. */
struct entry *gs_alert_entry(struct gs_alerts *a, uint32_t rule, const char *id, bool make);
void gs_alert_entry_drop(struct gs_alerts *a, struct entry *e);

/* The text for people, with {names} filled in. */
void gs_alert_rule_text(const struct gs_alert_rule *rule, const struct gs_alert_subject *subject,
			char *out, size_t bytes);
/* The condition after lead, with the values that it has now: "no longer lost == 1: lost = 0". */
void gs_alert_rule_values(const struct gs_alert_rule *rule, const struct gs_alert_subject *subject,
			  const char *lead, char *out, size_t bytes);

#endif
