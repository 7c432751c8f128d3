/* The receivers of a configuration: keys, opening, and their families. */
#include "output/metrics_push/set.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/secret.h"

#define DRAIN_NS 5000000000ull

static const char *const names[GS_PUSH_PROTOCOLS] = {"remote_write", "otlp", "otlp_logs"};

/* --- configuration --- */

#define PUSH_AT(field_of) offsetof(struct gs_push_conf, field_of)

#define PUSH_KEYS(url_comment_, valid_, expects_)                                                                  \
	{                                                                                                          \
		{.name = "url",                                                                                    \
		 .kind = GS_CONF_TEXT,                                                                             \
		 .offset = PUSH_AT(url),                                                                           \
		 .preset = "",                                                                                     \
		 .comment = url_comment_,                                                                          \
		 .bytes = sizeof(((struct gs_push_conf *)0)->url),                                                 \
		 .valid = valid_,                                                                                  \
		 .expects = expects_},                                                                             \
			{.name = "token_file",                                                                     \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(token_file),                                                            \
			 .preset = "",                                                                             \
			 .comment = "File with a bearer token in its first line.",                                 \
			 .bytes = sizeof(((struct gs_push_conf *)0)->token_file)},                                 \
			{.name = "ca_file",                                                                        \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(ca_file),                                                               \
			 .preset = "",                                                                             \
			 .comment =                                                                                \
				 "CA certificate to verify the receiver (PEM); empty: the system's.",              \
			 .bytes = sizeof(((struct gs_push_conf *)0)->ca_file)},                                    \
			{.name = "interval",                                                                       \
			 .kind = GS_CONF_DURATION,                                                                 \
			 .offset = PUSH_AT(interval_ns),                                                           \
			 .preset = "15s",                                                                          \
			 .comment = "Time between two pushes.",                                                    \
			 .min = GS_CONF_S,                                                                         \
			 .max = GS_CONF_H},                                                                        \
			{.name = "job",                                                                            \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(job),                                                                   \
			 .preset = "gpuscope",                                                                     \
			 .comment = "The label job of every series.",                                              \
			 .bytes = sizeof(((struct gs_push_conf *)0)->job)},                                        \
			{.name = "instance",                                                                       \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(instance),                                                              \
			 .preset = "",                                                                             \
			 .comment = "The label instance; empty: the machine's name.",                              \
			 .bytes = sizeof(((struct gs_push_conf *)0)->instance)},                                   \
			{.name = "labels",                                                                         \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(labels),                                                                \
			 .preset = "",                                                                             \
			 .comment =                                                                                \
				 "Additional labels of every series: cluster=alpha,partition=gpu.",                \
			 .bytes = sizeof(((struct gs_push_conf *)0)->labels),                                      \
			 .valid = gs_push_labels_valid,                                                            \
			 .expects =                                                                                \
				 "NAME=VALUE with commas, such as \"cluster=alpha,rack=r3\" (not job, instance)"}, \
			{.name = "spool",                                                                          \
			 .kind = GS_CONF_TEXT,                                                                     \
			 .offset = PUSH_AT(spool),                                                                 \
			 .preset = "",                                                                             \
			 .comment =                                                                                \
				 "Spool directory (one for each protocol) for undelivered metrics;\n"              \
				 "empty: they are buffered in memory, and lost when this program ends.",           \
			 .bytes = sizeof(((struct gs_push_conf *)0)->spool)},                                      \
			{.name = "spool_max_mib",                                                                  \
			 .kind = GS_CONF_NUMBER,                                                                   \
			 .offset = PUSH_AT(spool_max_mib),                                                         \
			 .preset = "64",                                                                           \
			 .comment =                                                                                \
				 "Spool size limit, in MiB; then the oldest data are dropped and counted.",        \
			 .min = 1,                                                                                 \
			 .max = 1 << 20},                                                                          \
	}

#define OTLP_EXPECTS "an http://, https://, grpc:// or grpcs:// URL"

const struct gs_conf_key gs_push_conf_keys[GS_PUSH_PROTOCOLS][GS_PUSH_CONF_KEYS] = {
	[GS_PUSH_REMOTE_WRITE] = PUSH_KEYS(
		"Receiver: http://HOST:8428/api/v1/write (Prometheus: :9090). Empty: nothing is pushed.",
		gs_push_url_valid, "an http:// or https:// URL"),
	[GS_PUSH_OTLP] = PUSH_KEYS(
		"Receiver: http://HOST:4318/v1/metrics, or by gRPC grpc://HOST:4317 (grpcs: TLS).\n"
		"Empty: nothing is pushed.",
		gs_push_otlp_url_valid, OTLP_EXPECTS),
	[GS_PUSH_OTLP_LOGS] = PUSH_KEYS(
		"Receiver: http://HOST:4318/v1/logs, or by gRPC grpc://HOST:4317 (grpcs: TLS).\n"
		"Empty: nothing is pushed.",
		gs_push_otlp_url_valid, OTLP_EXPECTS),
};

int gs_push_conf_check(const struct gs_push_conf conf[GS_PUSH_PROTOCOLS],
		       const struct gs_conf_where *where, struct gs_err *err)
{
	for (int i = 1; i < GS_PUSH_PROTOCOLS; i++)
		for (int k = 0; k < i; k++) {
			char key[40];

			if (!conf[i].spool[0] || strcmp(conf[i].spool, conf[k].spool) != 0)
				continue;
			snprintf(key, sizeof(key), "push.%s.spool", names[i]);
			return gs_conf_refuse(where, key, err,
					      "push.%s uses this directory: give push.%s another",
					      names[k], names[i]);
		}
	return 0;
}

bool gs_push_conf_same(const struct gs_push_conf a[GS_PUSH_PROTOCOLS],
		       const struct gs_push_conf b[GS_PUSH_PROTOCOLS])
{
	/* Texts are zero up to their ends (gs_conf_set), and there is no padding (below). */
	return memcmp(a, b, GS_PUSH_PROTOCOLS * sizeof(*a)) == 0;
}
_Static_assert(sizeof(struct gs_push_conf) ==
		       512 + 256 + 256 + 8 + 64 + 128 + GS_PUSH_LABELS_BYTES + 256 + 8,
	       "compared byte by byte");

/* --- life --- */

struct one { /* the ctx of a gs_push */
	struct gs_push_set *set;
	enum gs_push_protocol protocol;
	struct gs_push *push; /* NULL: not wanted */
};

struct gs_push_set {
	struct gs_push_set_options o;
	struct one one[GS_PUSH_PROTOCOLS];
};

static int render_metrics(void *ctx, unsigned part, struct gs_metrics *out)
{
	const struct one *one = ctx;

	return one->set->o.render(one->set->o.ctx, one->protocol, part, out);
}

static int render_logs(void *ctx, struct push_message *out)
{
	const struct one *one = ctx;

	return one->set->o.render_logs(one->set->o.ctx, out);
}

static void log_push(void *ctx, const char *text)
{
	const struct one *one = ctx;

	if (one->set->o.on_message)
		one->set->o.on_message(one->set->o.ctx, text);
}

static int open_one(struct one *one, const struct gs_push_conf *c, const char *hostname,
		    struct gs_err *err)
{
	struct gs_push_options o = {
		.size = sizeof(o),
		.protocol = one->protocol,
		.url = c->url,
		.ca_file = c->ca_file,
		.interval_ns = c->interval_ns,
		.label_name = {"job", "instance"},
		.label_value = {c->job, c->instance[0] ? c->instance : hostname},
		.n_labels = 2,
		.spool_dir = c->spool,
		.spool_max_bytes = (uint64_t)c->spool_max_mib << 20,
		.render = render_metrics,
		.render_logs = render_logs,
		.on_message = log_push,
		.ctx = one,
	};
	char token[512] = "", what[64], labels[sizeof(c->labels)];
	int r = 0;

	if (!c->url[0])
		return 0;
	if (one->protocol != GS_PUSH_REMOTE_WRITE) {
		o.label_name[o.n_labels] = "host.name";
		o.label_value[o.n_labels++] = hostname;
	}
	strcpy(labels, c->labels);
	r = gs_push_labels_add(labels, &o);
	if (r < 0)
		return gs_err_set(err, r, "push.%s.labels: %s", names[one->protocol], c->labels);
	snprintf(what, sizeof(what), "the token of push.%s", names[one->protocol]);
	if (c->token_file[0])
		r = gs_secret_read(c->token_file, what, token, sizeof(token), err);
	o.token = token;
	if (r == 0)
		r = gs_push_start(&o, &one->push, err);
	explicit_bzero(token, sizeof(token));
	return r < 0 ? gs_err_prefix(err, r, "push.%s", names[one->protocol]) : 0;
}

int gs_push_set_open(const struct gs_push_set_options *options, struct gs_push_set **ret_set,
		     struct gs_err *err)
{
	struct gs_push_set *set;
	bool any = false;
	int r = 0;

	for (int i = 0; i < GS_PUSH_PROTOCOLS; i++)
		any |= options->conf[i].url[0] != 0;
	if (!any)
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return gs_err_set(err, -ENOMEM, "no memory");
	set->o = *options;
	for (int i = 0; i < GS_PUSH_PROTOCOLS; i++)
		set->one[i] = (struct one){.set = set, .protocol = (enum gs_push_protocol)i};
	for (int i = 0; r == 0 && i < GS_PUSH_PROTOCOLS; i++)
		r = open_one(&set->one[i], &options->conf[i], options->hostname, err);
	if (r < 0)
		gs_push_set_close(&set);
	else
		*ret_set = set;
	return r;
}

void gs_push_set_close(struct gs_push_set **set)
{
	if (!*set)
		return;
	for (int i = 0; i < GS_PUSH_PROTOCOLS; i++)
		gs_push_stop(&(*set)->one[i].push, DRAIN_NS);
	gs_free_p(set);
}

/* --- its own metrics --- */

enum { SAMPLES, REJECTED, LOST, FAILURES, BAD, WAITING, BYTES, LAST, FIELDS };

static double field_of(const struct gs_push_stats *s, int which)
{
	switch (which) {
	case SAMPLES:
		return (double)s->samples;
	case REJECTED:
		return (double)s->rejected_samples;
	case LOST:
		return (double)s->lost_samples;
	case FAILURES:
		return (double)s->failures;
	case BAD:
		return (double)s->render_errors;
	case WAITING:
		return (double)s->waiting_samples;
	case BYTES:
		return (double)s->bytes;
	}
	return (double)s->last_ok_wall_ns / 1e9;
}

void gs_push_set_metrics(struct gs_metrics *p, struct gs_push_set *set, const char *prefix)
{
	static const struct {
		const char *name, *unit, *help;
		enum gs_metrics_kind kind;
	} families[FIELDS] = {
		[SAMPLES] = {"push_samples", "", "Metric samples accepted by the receiver.",
			     GS_METRICS_COUNTER},
		[REJECTED] = {"push_rejected_samples", "",
			      "Metric samples rejected by the receiver.", GS_METRICS_COUNTER},
		[LOST] = {"push_lost_samples", "",
			  "Metric samples dropped because the queue was full.", GS_METRICS_COUNTER},
		[FAILURES] = {"push_failures", "", "Push requests that failed and were retried.",
			      GS_METRICS_COUNTER},
		[BAD] = {"push_errors", "", "Push messages that could not be made.",
			 GS_METRICS_COUNTER},
		[WAITING] = {"push_waiting_samples", "", "Metric samples waiting for the receiver.",
			     GS_METRICS_GAUGE},
		[BYTES] = {"push_bytes", "bytes", "Bytes accepted by the receiver.",
			   GS_METRICS_COUNTER},
		[LAST] = {"push_last_success_timestamp_seconds", "seconds",
			  "When the receiver last accepted data, in seconds since 1970.",
			  GS_METRICS_GAUGE},
	};
	struct gs_push_stats stats[GS_PUSH_PROTOCOLS];

	for (int i = 0; set && i < GS_PUSH_PROTOCOLS; i++)
		if (set->one[i].push)
			gs_push_stats(set->one[i].push, &stats[i]);
	for (int f = 0; set && f < FIELDS; f++) {
		char name[128];

		snprintf(name, sizeof(name), "%s_%s", prefix, families[f].name);
		gs_metrics_family(p, name, families[f].kind, families[f].unit, families[f].help);
		for (int i = 0; i < GS_PUSH_PROTOCOLS; i++) {
			struct gs_metrics_label label = {"protocol", names[i]};

			if (set->one[i].push)
				gs_metrics_line(p, "", &label, 1, field_of(&stats[i], f), 0);
		}
	}
}
