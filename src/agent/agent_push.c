/* Metrics to engines of others: what /metrics shows, by remote write and OTLP (src/push). */
#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "base/secret.h"
#include "cmd/cmd.h"
#include "push/push.h"

#define DRAIN_NS 5000000000ull

static const char *const names[AGENT_PUSHES] = {"remote_write", "otlp"};

struct agent_push {
	struct agent_state *state; /* lent */
	struct gs_push *push[AGENT_PUSHES];
};

/* Units and types are in OpenMetrics alone. */
static int render(void *ctx, struct gs_buf *out)
{
	const struct agent_push *a = ctx;

	return agent_render(a->state, true, out);
}

static void say(void *ctx, const char *text)
{
	gs_say("agent: push: %s", text);
}

static int open_one(struct agent_push *a, int which, const struct agent_conf *conf,
		    struct gs_err *err)
{
	const struct agent_push_conf *c = &conf->push[which];
	const char *instance = c->instance[0] ? c->instance : conf->metrics.hostname;
	struct gs_push_options o = {
		.size = sizeof(o),
		.protocol = (enum gs_push_protocol)which,
		.url = c->url,
		.ca_file = c->ca_file,
		.interval_ns = c->interval_ns,
		.label_name = {"job", "instance"},
		.label_value = {c->job, instance},
		.n_labels = 2,
		.spool_dir = c->spool,
		.spool_max_bytes = (uint64_t)c->spool_max_mib << 20,
		.render = render,
		.say = say,
		.ctx = a,
	};
	char token[512] = "", what[64], labels[sizeof(c->labels)];
	int r = 0;

	if (!c->url[0])
		return 0;
	strcpy(labels, c->labels);
	r = gs_push_labels_add(labels, &o);
	if (r < 0)
		return gs_err_set(err, r, "push.%s.labels: %s", names[which], c->labels);
	snprintf(what, sizeof(what), "the token of push.%s", names[which]);
	if (c->token_file[0])
		r = gs_secret_read(c->token_file, what, token, sizeof(token), err);
	o.token = token;
	if (r == 0)
		r = gs_push_start(&o, &a->push[which], err);
	explicit_bzero(token, sizeof(token));
	return r < 0 ? gs_err_prefix(err, r, "push.%s", names[which]) : 0;
}

int agent_push_open(const struct agent_conf *conf, struct agent_state *state,
		    struct agent_push **ret, struct gs_err *err)
{
	struct agent_push *a;
	int r = 0;

	if (!conf->push[AGENT_REMOTE_WRITE].url[0] && !conf->push[AGENT_OTLP].url[0])
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return gs_err_set(err, -ENOMEM, "no memory");
	a->state = state;
	for (int i = 0; r == 0 && i < AGENT_PUSHES; i++)
		r = open_one(a, i, conf, err);
	if (r < 0)
		agent_push_close(&a);
	else
		*ret = a;
	return r;
}

void agent_push_close(struct agent_push **push)
{
	struct agent_push *a = *push;

	if (!a)
		return;
	for (int i = 0; i < AGENT_PUSHES; i++)
		gs_push_stop(&a->push[i], DRAIN_NS);
	gs_free_p(push);
}

bool agent_push_same(const struct agent_conf *a, const struct agent_conf *b)
{
	return memcmp(a->push, b->push, sizeof(a->push)) == 0 &&
	       strcmp(a->metrics.hostname, b->metrics.hostname) == 0;
}

/* --- its own metrics --- */

enum { SAMPLES, REJECTED, LOST, FAILURES, BAD, WAITING, BYTES, LAST, FIELDS };

static double field(const struct gs_push_stats *s, int which)
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
		return (double)(s->bad_lines + s->render_errors);
	case WAITING:
		return (double)s->waiting_samples;
	case BYTES:
		return (double)s->bytes;
	}
	return (double)s->last_ok_wall_ns / 1e9;
}

void agent_push_metrics(struct gs_prom *p, struct agent_push *push)
{
	static const struct {
		const char *name, *unit, *help;
		enum gs_prom_kind kind;
	} families[FIELDS] = {
		[SAMPLES] = {"gpuscope_agent_push_samples", "", "Samples that a receiver took.",
			     GS_PROM_COUNTER},
		[REJECTED] = {"gpuscope_agent_push_rejected_samples", "",
			      "Samples that a receiver refused for good.", GS_PROM_COUNTER},
		[LOST] = {"gpuscope_agent_push_lost_samples", "",
			  "Samples given up for want of room.", GS_PROM_COUNTER},
		[FAILURES] = {"gpuscope_agent_push_failures", "",
			      "Requests that failed and were tried again.", GS_PROM_COUNTER},
		[BAD] = {"gpuscope_agent_push_errors", "",
			 "Texts and lines that could not be sent.", GS_PROM_COUNTER},
		[WAITING] = {"gpuscope_agent_push_waiting_samples", "",
			     "Samples that wait for their receiver.", GS_PROM_GAUGE},
		[BYTES] = {"gpuscope_agent_push_bytes", "bytes", "Bytes that receivers took.",
			   GS_PROM_COUNTER},
		[LAST] = {"gpuscope_agent_push_last_success_timestamp_seconds", "seconds",
			  "When a receiver took something last.", GS_PROM_GAUGE},
	};
	struct gs_push_stats stats[AGENT_PUSHES];

	for (int i = 0; push && i < AGENT_PUSHES; i++)
		if (push->push[i])
			gs_push_stats(push->push[i], &stats[i]);
	for (int f = 0; push && f < FIELDS; f++) {
		gs_prom_family(p, families[f].name, families[f].kind, families[f].unit,
			       families[f].help);
		for (int i = 0; i < AGENT_PUSHES; i++) {
			struct gs_prom_label label = {"protocol", names[i]};

			if (push->push[i])
				gs_prom_line(p, "", &label, 1, field(&stats[i], f), 0);
		}
	}
}
