/*
 * Sends metrics to an engine that others run, instead of waiting to be scraped: Prometheus remote
 * write 1.0 (Prometheus, VictoriaMetrics, Mimir, Thanos) or OTLP over HTTP or gRPC (any OpenTelemetry
 * collector), by which log records go as well. What is sent is what /metrics shows: every interval the same families are put into
 * the protocol's message, which is kept in a spool until the receiver has taken it, so that an
 * engine that is away for an hour has no hole afterwards.
 *
 * A thread of its own makes and sends; memory and disk are bounded, and what is given up is
 * counted.
 */
#ifndef GS_OUTPUT_METRICS_PUSH_PUSH_H
#define GS_OUTPUT_METRICS_PUSH_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "output/metrics/metrics.h"

enum gs_push_protocol {
	GS_PUSH_REMOTE_WRITE = 0,
	GS_PUSH_OTLP = 1,
	GS_PUSH_OTLP_LOGS = 2,
	GS_PUSH_OTLP_TRACES = 3, /* of gs_push_put(): nothing is rendered */
};

/* Numbers of OpenTelemetry. */
enum gs_push_log_severity {
	GS_PUSH_LOG_INFO = 9,
	GS_PUSH_LOG_WARN = 13,
	GS_PUSH_LOG_ERROR = 17,
};

struct gs_push_log { /* a log record; texts are lent */
	int64_t wall_ns;
	enum gs_push_log_severity severity;
	const char *event; /* its kind: "gpuscope.xid" */
	const char *body;
	const struct gs_metrics_label *attribute; /* n_attributes; without a value: left out */
	size_t n_attributes;
};

struct push_message;

/* For render_logs. 0, -ENOMEM or -ENOBUFS. */
int gs_push_log_put(struct push_message *message, const struct gs_push_log *log);

#define GS_PUSH_LABELS_MAX        16
#define GS_PUSH_LABEL_NAME_BYTES  64 /* with the terminating 0, as the next two */
#define GS_PUSH_LABEL_VALUE_BYTES 256
#define GS_PUSH_LABELS_BYTES      512 /* of a text of them */
#define GS_PUSH_MORE              1   /* outcome of render */

struct gs_push_options {
	size_t size;                    /* of this struct */
	enum gs_push_protocol protocol; /* what the receiver at url takes */
	/* "http://host:8428/api/v1/write", "https://host:4318/v1/metrics"; of OTLP also
	 * "grpc://host:4317", "grpcs://host:4317" */
	const char *url;
	const char *token;    /* "Authorization: Bearer"; NULL or "": none */
	const char *ca_file;  /* PEM; NULL or "": the system's */
	uint64_t interval_ns; /* 0: 15 s */
	uint64_t timeout_ns;  /* of one request; 0: 10 s */
	/* Put on every series ("instance", "job", "cluster"; of OTLP on the resource); lent. */
	const char *label_name[GS_PUSH_LABELS_MAX], *label_value[GS_PUSH_LABELS_MAX];
	size_t n_labels;
	const char *spool_dir;    /* NULL or "": in memory alone */
	uint64_t spool_max_bytes; /* 0: 64 MiB */
	/* Puts the families, on the thread. What is much comes in parts, each a message of its own:
	 * GS_PUSH_MORE, and it is called again with the next number; the first is 0. Else 0, the
	 * last one, or a negative errno. A failure of out is for the caller to see. */
	int (*render)(void *ctx, unsigned part, struct gs_metrics *out);
	/* Of GS_PUSH_OTLP_LOGS in its place: puts what is new since the last call. */
	int (*render_logs)(void *ctx, struct push_message *out);
	/* One line when it begins to fail, and when it works again. May be NULL. */
	void (*on_message)(void *ctx, const char *text);
	void *ctx;
};

struct gs_push;

/* Copies the options. -ENOENT: no libcurl; -EBUSY: another program has the spool; -EINVAL: no http
 * or https URL. */
int gs_push_start(const struct gs_push_options *options, struct gs_push **ret_push,
		  struct gs_err *err);

/* Of GS_PUSH_OTLP_TRACES: a whole message with so many spans, copied, is sent within a second. Any
 * thread. What has no room is dropped and counted. 0 or a negative errno. */
int gs_push_put(struct gs_push *push, const void *data, size_t bytes, uint32_t n_items);

/* Sends what waits, for at most drain_ns; the rest stays in the spool. Then its thread is over, and
 * gs_push_stats() says what became of all. */
void gs_push_end(struct gs_push *push, uint64_t drain_ns);

/* gs_push_end(), and it is gone. */
void gs_push_stop(struct gs_push **push, uint64_t drain_ns);

struct gs_push_stats {               /* since the start */
	uint64_t requests, failures; /* sent; that failed and are tried again */
	uint64_t samples;            /* taken by the receiver */
	uint64_t rejected_samples;   /* the receiver will never take them: dropped */
	uint64_t lost_samples;       /* given up for lack of room */
	uint64_t bytes;              /* on the wire */
	uint64_t waiting_batches, waiting_samples, waiting_bytes; /* in the spool, as of now */
	uint64_t render_errors; /* messages that could not be made */
	uint64_t last_ok_wall_ns;
	char trouble[256]; /* of the last request; "" it was taken */
};

/* As of now. Any thread. */
void gs_push_stats(struct gs_push *push, struct gs_push_stats *ret_stats);

bool gs_push_url_valid(const char *url);      /* http:// or https://, a host, below 512 bytes */
bool gs_push_otlp_url_valid(const char *url); /* or grpc://, grpcs:// */

/* Adds labels written as NAME=VALUE,NAME=VALUE to the options, which then point into text (it is
 * cut up). -EINVAL: not such a text, a name that is there already, or too many. */
int gs_push_labels_add(char *text, struct gs_push_options *options);

/* A text that can be added to the labels job and instance. */
bool gs_push_labels_valid(const char *text);

/* Is libsnappy here, by which remote write is compressed? Loads it. */
bool gs_push_has_snappy(void);

#endif
