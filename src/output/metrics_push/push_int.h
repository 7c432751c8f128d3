/* Private to the room: a scrape's text, read; and the two messages made of it. */
#ifndef GS_OUTPUT_METRICS_PUSH_PUSH_INT_H
#define GS_OUTPUT_METRICS_PUSH_PUSH_INT_H

#include "output/metrics_push/push.h"

#define PUSH_LABELS_MAX 64
#define PUSH_TEXT_MAX   4096 /* of names and values of one line, unescaped */

enum push_type { PUSH_UNKNOWN, PUSH_GAUGE, PUSH_COUNTER, PUSH_INFO };

struct push_label {
	const char *name, *value;
};

/* One line of the text; everything is lent for the call. */
struct push_sample {
	const char *name; /* as on the line: a counter's with "_total" */
	struct push_label label[PUSH_LABELS_MAX];
	size_t n_labels;
	double value;
	int64_t time_ms; /* 0: the line has none */
	enum push_type type;
	const char *unit, *help; /* of its family; "" none */
};

/* Calls fn for each sample, until it returns other than 0, which is returned. Times are ms without
 * a point (Prometheus's text) or seconds (OpenMetrics, which ends in "# EOF"). ret_bad: lines that
 * are not understood. The text is changed while it is read and is not terminated. */
int push_parse(char *text, size_t bytes, int (*fn)(void *ctx, const struct push_sample *sample),
	       void *ctx, uint64_t *ret_bad);

struct push_message {
	struct gs_buf out; /* protobuf, not packed */
	size_t n_samples;
	const struct gs_push_options *options;
	int64_t now_ms, start_ms;
	/* OTLP: the metric that is open. */
	char open_name[256];
	enum push_type open_type;
	size_t resource_at, scope_at, metric_at, data_at; /* where their lengths stand */
};

/* begin, any number of put, end. 0, or -ENOBUFS, -ENOMEM. */
int push_remote_write_put(void *message, const struct push_sample *sample);
int push_otlp_begin(struct push_message *m);
int push_otlp_put(void *message, const struct push_sample *sample);
int push_otlp_end(struct push_message *m);

/* Snappy's block format; by libsnappy where it is, else as one run of literals, which every reader
 * takes too. 0, -ENOMEM, -ENOBUFS. */
int push_snappy(const struct gs_buf *in, struct gs_buf *out);
/* As libsnappy were not there. */
int push_snappy_plain(const struct gs_buf *in, struct gs_buf *out);

#endif
