/*
 * Alerts: rules over the values of subjects, with memory. A rule fires for a subject when its
 * condition has held without a gap for as long as it asks, and is over when its clearing condition
 * holds; what lies between the two changes nothing (hysteresis). After that it stays silent for its
 * cool-down. Messages go to a sink; output/notify carries them to people.
 *
 *                  condition holds          held for `for`, no cool-down, limit not reached
 *     quiet ──────────────────────► pending ──────────────────────────────────────► firing ─► START
 *       ▲ ◄──── false or unknown ──────┘                                               │
 *       └──────────────── clearing condition holds, or the subject is gone ────────────┴────► END
 *
 * An unknown value (NAN) neither fires nor clears. Pure: no clock, no file, no thread of its own;
 * times come from the caller, wall times only pass through into messages and into what is kept.
 */
#ifndef GS_ANALYSIS_ALERT_ALERT_H
#define GS_ANALYSIS_ALERT_ALERT_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/alert/subject.h"
#include "core/base/buf.h"
#include "core/base/err.h"

#define GS_ALERT_NAME_BYTES   48
#define GS_ALERT_TEXT_BYTES   256
#define GS_ALERT_EVIDENCE_MAX 6
#define GS_ALERT_RULES_MAX    96
#define GS_ALERT_ENTRIES_MAX  8192 /* pairs of rule and subject that are not quiet */
#define GS_ALERT_MINUTE_MAX   1000
#define GS_ALERT_KEEP_BYTES   (4u << 20) /* of what gs_alerts_save() writes, at most */

enum gs_alert_severity { GS_ALERT_INFO = 0, GS_ALERT_WARNING = 1, GS_ALERT_CRITICAL = 2 };
/* "info", "warning", "critical"; and back: 0, or -EINVAL. */
const char *gs_alert_severity_name(enum gs_alert_severity severity);
int gs_alert_severity_parse(const char *name, enum gs_alert_severity *ret_severity);

/* A rule as a person writes it; texts are borrowed for the call. */
struct gs_alert_rule_text {
	const char *name;      /* letters, digits, "_", "-", "." */
	const char *condition; /* analysis/rules/expr.h, over the subject's values */
	const char *clear;     /* NULL or "": when the condition is false */
	const char *message;   /* NULL or "": the condition and its values. {value} is filled in */
	enum gs_alert_kind kind; /* NONE: the first of job, GPU, node that has all its names */
	enum gs_alert_severity severity; /* passes through into its messages */
	uint64_t for_ns, cooldown_ns;
	/* The message is the text and advice of the condition of GPU health that the rule is about. */
	bool is_of_health;
	enum gs_gpu_condition gpu_condition; /* then */
};

struct gs_alert_rule;

/* Which part of a rule was refused, so that the message can point there. */
enum gs_alert_part {
	GS_ALERT_PART_NAME,
	GS_ALERT_PART_CONDITION,
	GS_ALERT_PART_CLEAR,
	GS_ALERT_PART_MESSAGE
};

/* Checks and compiles it. -ENOMEM, or a negative errno with err, and *ret_part says which text is
 * wrong. The rule is the caller's until it is added. */
int gs_alert_rule_new(const struct gs_alert_rule_text *text, struct gs_alert_rule **ret_rule,
		      enum gs_alert_part *ret_part, struct gs_err *err);
void gs_alert_rule_free(struct gs_alert_rule **rule);

enum gs_alert_event {
	GS_ALERT_START = 1,
	GS_ALERT_END = 2,
	GS_ALERT_STILL = 3, /* for receivers that forget (repeat) */
};

#define GS_ALERT_MEMBERS_MAX 16

struct gs_alert_member {            /* one of the alerts that a message is about */
	char id[GS_ALERT_ID_BYTES]; /* of its subject */
	char key[20];               /* as in the message */
};

struct gs_alert_message {                /* a plain value: copied to its senders */
	enum gs_alert_event event;       /* START, STILL or END */
	enum gs_alert_severity severity; /* of the rule */
	enum gs_alert_kind kind;         /* of its subject */
	bool is_of_health; /* of a condition of GPU health, which the page shows by itself */
	char rule[GS_ALERT_NAME_BYTES];      /* the rule's name */
	char id[GS_ALERT_ID_BYTES];          /* of the subject */
	char title[160];                     /* of the subject, for people */
	char condition[GS_ALERT_TEXT_BYTES]; /* of the rule */
	char text[512];                      /* for people */
	char cause[48];                      /* of an end: "cleared", "gone", "restarted" */
	char host[65];                       /* as in the options */
	char key[20]; /* the same in START, STILL and END of one alert, in hex */
	struct gs_alert_label label[GS_ALERT_LABELS_MAX]; /* of the subject */
	size_t n_labels;
	struct { /* values that the condition names */
		char key[48];
		double value; /* NAN unknown */
	} evidence[GS_ALERT_EVIDENCE_MAX];
	size_t n_evidence;
	/* Of a message about several GPUs, which gs_alert_join() made: all of them, the first too. */
	struct gs_alert_member member[GS_ALERT_MEMBERS_MAX];
	size_t n_members; /* 0: it is about one subject */
	int64_t start_wall_ns;
	int64_t end_wall_ns; /* of END; else 0 */
};

/* The first of these messages, joined with those that say the same of other GPUs: of the same rule,
 * event and cause. What differs between them, other than in members and title, is that of the first.
 * taken: those that are in it now; it begins as none. */
void gs_alert_join(const struct gs_alert_message *messages, size_t n, bool *taken,
		   struct gs_alert_message *ret_joined);

typedef void (*gs_alert_sink_fn)(void *ctx, const struct gs_alert_message *message);

struct gs_alerts_options {
	size_t size;        /* of this struct */
	const char *host;   /* name of this machine, for messages; borrowed */
	uint64_t repeat_ns; /* 0: never */
	/* Starts; of one rule about GPUs those of one moment are one. 0: as many as there are, up to
	 * GS_ALERT_MINUTE_MAX */
	unsigned max_per_minute;
	gs_alert_sink_fn sink; /* called within push, end and sweep */
	void *ctx;
};

struct gs_alerts_stats {
	uint64_t started, ended;  /* alerts, so far */
	uint64_t limited;         /* starts that had to wait for max_per_minute */
	uint64_t cooled;          /* starts that a cool-down held back */
	uint64_t full;            /* pairs for which there was no room */
	uint64_t firing, pending; /* as of now */
};

struct gs_alerts;

/* Takes the rules over (also when it fails), n_rules <= GS_ALERT_RULES_MAX. 0, -ENOMEM, or
 * -E2BIG. */
int gs_alerts_new(const struct gs_alerts_options *options, struct gs_alert_rule **rules,
		  size_t n_rules, struct gs_alerts **ret_alerts);
void gs_alerts_free(struct gs_alerts **alerts);

/* Whether any rule is about such subjects. */
bool gs_alerts_wants(const struct gs_alerts *alerts, enum gs_alert_kind kind);

/* The values of a subject as of now_ns (any clock that only rises). */
void gs_alerts_push(struct gs_alerts *alerts, const struct gs_alert_subject *subject,
		    uint64_t now_ns, int64_t wall_ns);

/* Subjects of a kind that were not pushed since this time are gone: what fires for them ends. */
void gs_alerts_sweep(struct gs_alerts *alerts, enum gs_alert_kind kind, uint64_t since_ns,
		     uint64_t now_ns, int64_t wall_ns);

/* What fires as of now: the last message of each. */
void gs_alerts_firing(const struct gs_alerts *alerts, gs_alert_sink_fn fn, void *ctx);

/* So far, and as of now. */
void gs_alerts_stats(const struct gs_alerts *alerts, struct gs_alerts_stats *ret_stats);

/* Changes with every change of what gs_alerts_save() would write. */
uint64_t gs_alerts_generation(const struct gs_alerts *alerts);

/* What must not be sent again after a restart, as lines of text: what fires, what cools down.
 * restore() takes lines of rules that are still there; others are counted in *ret_ignored. A line
 * that is none is -EINVAL with its number in err, and what stood before it is taken. */
int gs_alerts_save(const struct gs_alerts *alerts, uint64_t now_ns, int64_t wall_ns,
		   struct gs_buf *out);
int gs_alerts_restore(struct gs_alerts *alerts, const char *text, size_t bytes, uint64_t now_ns,
		      int64_t wall_ns, uint64_t *ret_ignored, struct gs_err *err);

#endif
