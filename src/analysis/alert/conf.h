/*
 * The configuration of alerts: sections that any configuration can take in (the agent's), and a
 * schema of their own (`gpuscope job --alerts`). The e-mail section and the triggers of
 * ebpf-hpc-monitor's README (external_systems.email) and of the file it ships
 * (integrations.notifications) are read as they are.
 */
#ifndef GS_ANALYSIS_ALERT_CONF_H
#define GS_ANALYSIS_ALERT_CONF_H

#include "analysis/alert/alert.h"
#include "core/base/conf.h"

enum gs_alert_tls { GS_ALERT_TLS_AUTO, GS_ALERT_TLS_STARTTLS, GS_ALERT_TLS_TLS, GS_ALERT_TLS_NONE };
enum gs_alert_payload { GS_ALERT_PAYLOAD_GPUSCOPE, GS_ALERT_PAYLOAD_ALERTMANAGER };

#define GS_ALERT_FOREIGN_MAX 24

struct gs_alert_email { /* Fields as the keys of conf.c, texts "" where not given */
	bool enabled;
	char server[256]; /* "" none */
	int64_t port;
	int tls; /* enum gs_alert_tls */
	char username[128], password[128], password_file[256];
	char from[128];
	char recipients[1024]; /* with commas */
	char ca_file[256];
	int min_severity;
};

struct gs_alert_conf { /* Fields as the keys of conf.c, texts "" where not given */
	bool enabled;
	uint64_t interval_ns, for_ns, cooldown_ns, repeat_ns;
	uint64_t window_ns; /* of `gpuscope job`; 0: not given */
	int64_t max_per_minute;
	double hysteresis_ratio;
	char state_file[256];
	struct gs_conf_rows rules;
	int gpu_health; /* 0 no rules, else the least enum gs_gpu_severity */
	double low_efficiency, high_context_switches; /* 0: off */
	struct {
		char url[512];
		int payload; /* enum gs_alert_payload */
		char token_file[256], ca_file[256];
		int min_severity;
	} webhook;
	/* alerts.email, external_systems.email, integrations.notifications; after resolving the
	 * first is the one in use. */
	struct gs_alert_email email[3];
	double readme_triggers[2];            /* NAN not given */
	struct gs_conf_rows shipped_triggers; /* of integrations.notifications */
	uint64_t timeout_ns, give_up_ns;      /* of one attempt; of a message */
	int64_t queue;
	struct {
		bool enabled;
		char file[256]; /* "": standard error */
		int64_t max_mb, max_files;
	} log;
	uint32_t foreign[GS_ALERT_FOREIGN_MAX]; /* lines of keys of others */
};

/* The sections, for the table of a configuration that takes them in; base: the offset of its struct
 * gs_alert_conf. */
#define GS_ALERT_SECTIONS(base)                                                                              \
	{.name = "alerts",                                                                                   \
	 .comment =                                                                                          \
		 "Alert rules and notification receivers. Without rules and triggers nothing is evaluated.", \
	 .offset = (base),                                                                                   \
	 .keys = gs_alert_keys,                                                                              \
	 .n_keys = GS_ALERT_KEYS},                                                                           \
		{.name = "alerts.triggers",                                                                  \
		 .comment = "The rules of ebpf-hpc-monitor.",                                                \
		 .offset = (base),                                                                           \
		 .keys = gs_alert_trigger_keys,                                                              \
		 .n_keys = GS_ALERT_TRIGGER_KEYS},                                                           \
		{.name = "alerts.webhook",                                                                   \
		 .comment = "",                                                                              \
		 .offset = (base),                                                                           \
		 .keys = gs_alert_webhook_keys,                                                              \
		 .n_keys = GS_ALERT_WEBHOOK_KEYS},                                                           \
		{.name = "alerts.email",                                                                     \
		 .comment = "",                                                                              \
		 .offset = (base) + offsetof(struct gs_alert_conf, email),                                   \
		 .keys = gs_alert_email_keys,                                                                \
		 .n_keys = GS_ALERT_EMAIL_KEYS},                                                             \
	{                                                                                                    \
		.name = "alerts.log", .comment = "", .offset = (base), .keys = gs_alert_log_keys,            \
		.n_keys = GS_ALERT_LOG_KEYS                                                                  \
	}
enum {
	GS_ALERT_KEYS = 14,
	GS_ALERT_TRIGGER_KEYS = 2,
	GS_ALERT_WEBHOOK_KEYS = 5,
	GS_ALERT_EMAIL_KEYS = 11,
	GS_ALERT_LOG_KEYS = 4
};
extern const struct gs_conf_key gs_alert_keys[GS_ALERT_KEYS];
extern const struct gs_conf_key gs_alert_trigger_keys[GS_ALERT_TRIGGER_KEYS];
extern const struct gs_conf_key gs_alert_webhook_keys[GS_ALERT_WEBHOOK_KEYS];
extern const struct gs_conf_key gs_alert_email_keys[GS_ALERT_EMAIL_KEYS];
extern const struct gs_conf_key gs_alert_log_keys[GS_ALERT_LOG_KEYS];

/* For the check of such a configuration: what no single key decides. 0, or what gs_conf_refuse()
 * returned. */
int gs_alert_conf_check(const struct gs_alert_conf *conf, const struct gs_conf_where *where,
			struct gs_err *err);

/* Only alerts; what belongs to `gpuscope job`, to the agent or to others is passed over. */
const struct gs_conf_schema *gs_alert_conf_schema(void);

/* After reading: e-mail of other spellings into email[0]. Idempotent. */
void gs_alert_conf_resolve(struct gs_alert_conf *conf);

/* Whether anything can ever be sent: it is enabled and there is a rule or a trigger. */
bool gs_alert_conf_any(const struct gs_alert_conf *conf);

/* The names of keys of other programs, with their lines, in one line; "" none. */
void gs_alert_conf_foreign(const struct gs_alert_conf *conf, char *out, size_t bytes);

/* The rules of a configuration that was read; owned by the caller's array. 0 or -ENOMEM. */
int gs_alert_conf_rules(const struct gs_alert_conf *conf,
			struct gs_alert_rule *ret_rules[GS_ALERT_RULES_MAX], size_t *ret_n);

/* What watches for them: messages go to the sink. 0 or -ENOMEM. */
int gs_alert_conf_open(const struct gs_alert_conf *conf, const char *host, gs_alert_sink_fn sink,
		       void *ctx, struct gs_alerts **ret_alerts);

#endif
