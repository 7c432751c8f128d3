/* Private to the room: the writers of both messages. */
#ifndef GS_OUTPUT_METRICS_PUSH_PUSH_INT_H
#define GS_OUTPUT_METRICS_PUSH_PUSH_INT_H

#include "core/text/otlp.h"
#include "output/metrics_push/push.h"

struct push_message {
	struct gs_buf out; /* protobuf, not packed */
	size_t n_samples;
	const struct gs_push_options *options;
	int64_t now_ms, start_ms;
	struct gs_otlp_message otlp;
	/* OTLP: the metric that is open. */
	bool is_open, is_sum, is_monotonic;
	size_t metric_at, data_at; /* where their lengths stand */
};

/* Writers of samples, whose ctx is a struct push_message; OTLP has a beginning and an end. 0,
 * -ENOBUFS or -ENOMEM. */
gs_metrics_put_fn push_remote_write_put, push_otlp_put;
int push_otlp_begin(struct push_message *m);
int push_otlp_end(struct push_message *m);

/* Of the answer to what was taken: how many samples or records it was not, and why. */
uint64_t push_otlp_rejected(const struct gs_buf *answer, char *ret_why, size_t bytes);
/* Of the answer to an error over HTTP: its text; false: it is no such message. */
bool push_otlp_error(const struct gs_buf *answer, char *ret_text, size_t bytes);

/* Snappy's block format; by libsnappy where it is, else as one run of literals, which every reader
 * takes too. 0, -ENOMEM, -ENOBUFS. */
int push_snappy(const struct gs_buf *in, struct gs_buf *out);
/* As libsnappy were not there. */
int push_snappy_plain(const struct gs_buf *in, struct gs_buf *out);

#endif
