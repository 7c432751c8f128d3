/*
 * Metrics as events: families are opened, samples are put, and a writer gets each sample with its
 * family. The writer of this room makes text, Prometheus's 0.0.4 or OpenMetrics 1.0; those of
 * output/metrics_push make the messages of remote write and OTLP, so that all three have the same
 * figures without one reading what another wrote.
 *
 * Above it, the GPU's families come from the table of model/node/gpu_field.h, under their own names
 * or under those of dcgm-exporter, so that dashboards made for it work.
 *
 * A value that is not there makes no sample. A family without samples makes no heading.
 */
#ifndef GS_OUTPUT_METRICS_METRICS_H
#define GS_OUTPUT_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "model/node/gpu.h"

#define GS_METRICS_TYPE_TEXT        "text/plain; version=0.0.4; charset=utf-8"
#define GS_METRICS_TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum gs_metrics_kind {
	GS_METRICS_GAUGE = 0,
	GS_METRICS_COUNTER = 1, /* "_total" is added to its name */
	GS_METRICS_INFO = 2,    /* "_info" is added; the value is 1 */
	GS_METRICS_BARE = 3,    /* a counter of others whose name has no "_total" */
	GS_METRICS_UPDOWN = 4,  /* OpenTelemetry's UpDownCounter; a gauge to others */
};

#define GS_METRICS_LABELS_MAX 64  /* of one sample */
#define GS_METRICS_NAME_BYTES 256 /* with the terminating 0 */

struct gs_metrics_label {
	const char *name;  /* [a-zA-Z_][a-zA-Z0-9_]*; with GS_METRICS_HARDWARE also dots */
	const char *value; /* any bytes; NULL or "": the label is left out */
};

/* What a writer gets. Everything is lent for the call. */
struct gs_metrics_sample {
	const char *name;          /* with what the kind adds to it */
	const char *family;        /* without */
	enum gs_metrics_kind kind; /* of the family */
	const char *unit, *help;   /* of the family; unit may be "" */
	bool first;                /* of its family */
	/* Values are not empty; UTF-8 in which newline is the only control character. */
	const struct gs_metrics_label *label;
	size_t n_labels;
	double value;    /* finite */
	int64_t time_ms; /* of the sample, in wall time; 0: the writer's own choice */
};

/* Puts one sample: 0, or a negative errno, and then no other one comes. */
typedef int gs_metrics_put_fn(void *ctx, const struct gs_metrics_sample *sample);

struct gs_metrics {
	gs_metrics_put_fn *put; /* the writer */
	void *ctx;              /* of put; borrowed */
	int error;              /* the first failure; after it nothing is put */
	uint64_t n_samples;     /* that were put */
	/* The family that is open; lent until the next. */
	const char *family, *unit, *help;
	enum gs_metrics_kind kind;        /* of the family */
	char name[GS_METRICS_NAME_BYTES]; /* of its samples */
	bool headed;                      /* a sample of the family was put */
	/* Of the writer of text. */
	struct gs_buf *out; /* lent; NULL: it is another one */
	bool openmetrics;
};

/* Whether this Accept header (may be NULL) prefers OpenMetrics to the older text. */
bool gs_metrics_accepts_openmetrics(const char *accept);

/* Samples become text in out. *p must stay where it is. */
void gs_metrics_init(struct gs_metrics *p, struct gs_buf *out, bool openmetrics);

/* Samples go to put. */
void gs_metrics_init_put(struct gs_metrics *p, gs_metrics_put_fn *put, void *ctx);

/* Open a family: name without "_total"; unit "" when it has none. Samples of one family follow each
 * other: a family is opened once. */
void gs_metrics_family(struct gs_metrics *p, const char *name, enum gs_metrics_kind kind,
		       const char *unit, const char *help);

/* A family of one value without labels. Its unit is seconds or bytes when the name ends so. */
void gs_metrics_one(struct gs_metrics *p, const char *name, enum gs_metrics_kind kind, double value,
		    const char *help);

/* One sample. lead: labels that come first, as gs_metrics_put_label() appended them, with a zero
 * after the last; "" none. A value that is not finite makes no sample. time_ms: see above. */
void gs_metrics_line(struct gs_metrics *p, const char *lead, const struct gs_metrics_label *labels,
		     size_t n_labels, double value, int64_t time_ms);

/* Appends a label to a lead: name, zero, value, zero; nothing without a value. 0 or the error of
 * gs_buf_put(). */
int gs_metrics_put_label(struct gs_buf *lead, const char *name, const char *value);

/* What the text needs at its end. Returns the first error. */
int gs_metrics_end(struct gs_metrics *p);

enum gs_metrics_names {
	GS_METRICS_NATIVE = 1,
	GS_METRICS_DCGM = 2,     /* as dcgm-exporter up to 4.8: %, MiB, mJ, MHz */
	GS_METRICS_DCGM_NEW = 4, /* as DCGM 4.7 and newer: base units */
	GS_METRICS_HARDWARE = 8, /* "hw.": OpenTelemetry's conventions, for its writers alone */
};

/* "native,dcgm" as a set of enum gs_metrics_names, of those with words; 0: a name is none of them, or there is none. */
unsigned gs_metrics_names_parse(const char *text);

/* XIDs of one code (xid) on one GPU (uuid, pci_bus_id) since the start: count. */
struct gs_metrics_xid {
	char uuid[80];
	char pci_bus_id[32];
	uint32_t xid;
	uint64_t count;
	uint64_t time_ns; /* of the last, boot clock */
};

struct gs_metrics_gpu_options {
	size_t size;            /* of this struct */
	unsigned names;         /* set of enum gs_metrics_names; 0: native */
	const char *hostname;   /* label of the dcgm names; NULL or "": none */
	bool links;             /* families of single NVLinks */
	bool processes;         /* families of single processes */
	unsigned max_processes; /* the largest by memory */
	bool timestamps;        /* each line carries the time at which its value was read */
	/* Each carries that of its GPU's sample instead: when values of a node were read is known
	 * to a millisecond, and engines refuse what is a millisecond older than what they have. */
	bool sample_timestamps;
	const struct gs_metrics_label
		*labels; /* n_labels: on each line of the native names, first */
	size_t n_labels;
};

/* All of a snapshot (may be NULL: nothing was read yet) and the XIDs so far. Without the native
 * names, those families are put natively all the same that packaging/prometheus/alerts.yml asks
 * for. *ret_dropped: processes left out for max_processes. */
void gs_metrics_gpu(struct gs_metrics *p, const struct gs_gpu_snapshot *gpus,
		    const struct gs_metrics_xid *xids, size_t n_xids,
		    const struct gs_metrics_gpu_options *options, unsigned *ret_dropped);

#endif
