/*
 * Pushing as configuration files describe it: one receiver of each protocol, each with its spool. The
 * sections, their checks, opening and the families about it are the same for every program that
 * pushes.
 */
#ifndef GS_OUTPUT_METRICS_PUSH_SET_H
#define GS_OUTPUT_METRICS_PUSH_SET_H

#include "core/base/conf.h"
#include "output/metrics/metrics.h"
#include "output/metrics_push/push.h"

#define GS_PUSH_PROTOCOLS 3 /* of enum gs_push_protocol */

struct gs_push_conf {  /* Fields as the keys of set.c, texts "" where not given */
	char url[512]; /* "": off */
	char token_file[256], ca_file[256];
	uint64_t interval_ns;
	char job[64], instance[128];
	char labels[GS_PUSH_LABELS_BYTES]; /* NAME=VALUE,... */
	char spool[256];
	int64_t spool_max_mib;
};

#define GS_PUSH_CONF_KEYS 9
extern const struct gs_conf_key gs_push_conf_keys[GS_PUSH_PROTOCOLS][GS_PUSH_CONF_KEYS];

/* For tables of sections; base: of a struct gs_push_conf[GS_PUSH_PROTOCOLS] in the whole. */
#define GS_PUSH_SECTION(base, name_, comment_, protocol)                                           \
	{                                                                                          \
		.name = name_, .comment = comment_,                                                \
		.offset = (base) + (protocol) * sizeof(struct gs_push_conf),                       \
		.keys = gs_push_conf_keys[protocol], .n_keys = GS_PUSH_CONF_KEYS                   \
	}
#define GS_PUSH_SECTIONS(base)                                                                     \
	GS_PUSH_SECTION(                                                                           \
		base, "push.remote_write",                                                         \
		"Push metrics to Prometheus, VictoriaMetrics, Mimir, Thanos: remote write 1.0.",   \
		GS_PUSH_REMOTE_WRITE),                                                             \
		GS_PUSH_SECTION(base, "push.otlp",                                                 \
				"Push metrics to an OpenTelemetry collector: OTLP.", GS_PUSH_OTLP)
/* Of programs that have logs to send. */
#define GS_PUSH_LOGS_SECTION(base)                                                                 \
	GS_PUSH_SECTION(base, "push.otlp_logs",                                                    \
			"Push findings and XID errors as logs to an OpenTelemetry collector.",     \
			GS_PUSH_OTLP_LOGS)

/* For a schema's check. 0, or what gs_conf_refuse() returned. */
int gs_push_conf_check(const struct gs_push_conf conf[GS_PUSH_PROTOCOLS],
		       const struct gs_conf_where *where, struct gs_err *err);

/* Whether a reload changes nothing of it. */
bool gs_push_conf_same(const struct gs_push_conf a[GS_PUSH_PROTOCOLS],
		       const struct gs_push_conf b[GS_PUSH_PROTOCOLS]);

struct gs_push_set;

struct gs_push_set_options {
	size_t size;                     /* of this struct */
	const struct gs_push_conf *conf; /* GS_PUSH_PROTOCOLS of them; lent for the call */
	const char *hostname;            /* the label instance where conf has none */
	/* As of struct gs_push_options, but with which of the receivers it is for; each has a
	 * thread of its own. */
	int (*render)(void *ctx, enum gs_push_protocol protocol, unsigned part,
		      struct gs_metrics *out);
	/* Likewise of logs; NULL: conf has no receiver of them. */
	int (*render_logs)(void *ctx, struct push_message *out);
	void (*on_message)(void *ctx, const char *text);
	void *ctx;
};

/* *ret_set stays NULL when no URL is given. A negative errno with err. */
int gs_push_set_open(const struct gs_push_set_options *options, struct gs_push_set **ret_set,
		     struct gs_err *err);

/* Sends what waits for some seconds; the rest stays in the spools. */
void gs_push_set_close(struct gs_push_set **set);

/* Families about it, called PREFIX_push_...; set may be NULL. */
void gs_push_set_metrics(struct gs_metrics *p, struct gs_push_set *set, const char *prefix);

#endif
