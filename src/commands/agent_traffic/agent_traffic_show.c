/* TCP traffic as metrics and as JSON. Both begin with a copy of the figures, so no lock is held while they are written. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "commands/agent_traffic/agent_traffic.h"
#include "core/base/mem.h"
#include "core/text/json.h"

#define LABELS 5

/* Labels of one line of metrics. */
struct series {
	const char *application, *peer, *job;
	bool accepted;
	uint16_t port;
};

static size_t label_series(const struct series *s, char port[8], struct gs_metrics_label l[LABELS])
{
	snprintf(port, 8, "%u", s->port);
	l[0] = (struct gs_metrics_label){"application", s->application};
	l[1] = (struct gs_metrics_label){"side", s->port ? s->accepted ? "server" : "client" : ""};
	l[2] = (struct gs_metrics_label){"port", s->port ? port : ""};
	l[3] = (struct gs_metrics_label){"peer", s->peer};
	l[4] = (struct gs_metrics_label){"job", s->job};
	return LABELS;
}

static const struct {
	const char *name, *unit, *help;
	enum gs_metrics_kind kind;
	size_t offset; /* in struct gs_traffic_sums */
} rows[] = {
	{"gpuscope_traffic_connections", "", "TCP connections accepted (server) or made (client).",
	 GS_METRICS_COUNTER, offsetof(struct gs_traffic_sums, connections)},
	{"gpuscope_traffic_failed_connections", "", "TCP connection attempts that failed.",
	 GS_METRICS_COUNTER, offsetof(struct gs_traffic_sums, failed)},
	{"gpuscope_traffic_received_bytes", "bytes",
	 "Bytes that the application read from TCP connections.", GS_METRICS_COUNTER,
	 offsetof(struct gs_traffic_sums, received_bytes)},
	{"gpuscope_traffic_sent_bytes", "bytes",
	 "Bytes that the application wrote to TCP connections.", GS_METRICS_COUNTER,
	 offsetof(struct gs_traffic_sums, sent_bytes)},
	{"gpuscope_traffic_sends", "",
	 "Calls that sent data. A server that streams tokens usually makes one call per token.",
	 GS_METRICS_COUNTER, offsetof(struct gs_traffic_sums, sends)},
	{"gpuscope_traffic_requests", "",
	 "Requests: data from the client that follows data from the server, or starts the connection.",
	 GS_METRICS_COUNTER, offsetof(struct gs_traffic_sums, requests)},
};

static void put_sums(struct gs_metrics *p, const struct gs_traffic_list *list)
{
	struct gs_metrics_label l[LABELS];
	char port[8];

	for (size_t k = 0; k < GS_ARRAY_LEN(rows); k++) {
		gs_metrics_family(p, rows[k].name, rows[k].kind, rows[k].unit, rows[k].help);
		for (size_t i = 0; i < list->n_peers; i++) {
			const struct gs_traffic_peer *e = &list->peer[i];
			const struct series s = {e->application, e->address, e->job, e->accepted,
						 e->port};

			if (e->is_named)
				gs_metrics_line(
					p, "", l, label_series(&s, port, l),
					(double)*(const uint64_t *)((const char *)&e->named +
								    rows[k].offset),
					0);
		}
		for (size_t i = 0; i < list->n_services; i++) {
			const struct gs_traffic_service *v = &list->service[i];
			const struct series s = {v->application, "other", "", v->accepted, v->port};

			if (v->unnamed.connections || v->unnamed.received_bytes ||
			    v->unnamed.sent_bytes || v->unnamed.failed)
				gs_metrics_line(
					p, "", l, label_series(&s, port, l),
					(double)*(const uint64_t *)((const char *)&v->unnamed +
								    rows[k].offset),
					0);
		}
	}
}

/* Response times, in the form of Prometheus's histograms. By port only: buckets for each peer would be too many series. */
static void put_answers(struct gs_metrics *p, const struct gs_traffic_list *list)
{
	static const struct {
		const char *name;
		enum gs_metrics_kind kind;
		const char *unit, *help;
	} parts[] = {
		{"gpuscope_traffic_response_seconds_bucket", GS_METRICS_BARE, "",
		 "Requests answered within le seconds, counted from their arrival (server) or sending (client) to the first byte of the response."},
		{"gpuscope_traffic_response_seconds_sum", GS_METRICS_BARE, "seconds",
		 "Time from requests to the first byte of their responses."},
		{"gpuscope_traffic_response_seconds_count", GS_METRICS_BARE, "",
		 "Requests whose response has begun."}};
	struct gs_metrics_label l[LABELS];
	char port[8], le[32];

	for (size_t k = 0; k < GS_ARRAY_LEN(parts); k++) {
		gs_metrics_family(p, parts[k].name, parts[k].kind, parts[k].unit, parts[k].help);
		for (size_t i = 0; i < list->n_services; i++) {
			const struct gs_traffic_service *v = &list->service[i];
			const struct series s = {v->application, "", "", v->accepted, v->port};
			size_t n = label_series(&s, port, l);
			uint64_t sum = 0;

			if (!v->sums.answers)
				continue;
			if (k > 0) {
				gs_metrics_line(p, "", l, n,
						k == 1 ? (double)v->sums.answer_ns / 1e9
						       : (double)v->sums.answers,
						0);
				continue;
			}
			l[3] = (struct gs_metrics_label){"le", le};
			for (int b = 0; b < GS_TRAFFIC_BUCKETS; b++) {
				sum += v->sums.answer_log2[b];
				if (b < GS_TRAFFIC_BUCKETS - 1)
					snprintf(le, sizeof(le), "%.6f", ldexp(1e-6, b));
				else
					snprintf(le, sizeof(le), "+Inf");
				gs_metrics_line(p, "", l, n, (double)sum, 0);
			}
		}
	}
}

/* Open connections. The peer "other" has those of its service that belong to no named peer. */
static void put_open(struct gs_metrics *p, const struct gs_traffic_list *list)
{
	struct gs_metrics_label l[LABELS];
	char port[8];

	gs_metrics_family(p, "gpuscope_traffic_open_connections", GS_METRICS_GAUGE, "",
			  "Open TCP connections.");
	for (size_t i = 0; i < list->n_peers; i++) {
		const struct gs_traffic_peer *e = &list->peer[i];
		const struct series s = {e->application, e->address, e->job, e->accepted, e->port};

		if (e->is_named)
			gs_metrics_line(p, "", l, label_series(&s, port, l), (double)e->sums.open,
					0);
	}
	for (size_t i = 0; i < list->n_services; i++) {
		const struct gs_traffic_service *v = &list->service[i];
		const struct series s = {v->application, "other", "", v->accepted, v->port};
		int64_t open = v->sums.open;

		for (size_t k = 0; k < list->n_peers; k++) {
			const struct gs_traffic_peer *e = &list->peer[k];

			if (e->is_named && e->service == i)
				open -= e->sums.open;
		}
		if (open || v->unnamed.connections)
			gs_metrics_line(p, "", l, label_series(&s, port, l), (double)open, 0);
	}
}

void agent_traffic_metrics(struct agent_traffic *t, struct gs_metrics *p)
{
	GS_CLEANUP(gs_traffic_list_fini) struct gs_traffic_list list = {0};
	const char *missing;

	if (!agent_traffic_copy(t, &list, &missing))
		return;
	put_sums(p, &list);
	put_open(p, &list);
	put_answers(p, &list);
	gs_metrics_one(p, "gpuscope_traffic_peers", GS_METRICS_GAUGE, (double)list.n_peers,
		       "Peers in memory; each is an application, a port and an address.");
	gs_metrics_one(
		p, "gpuscope_traffic_evicted_peers", GS_METRICS_COUNTER, (double)list.evicted_peers,
		"Peers dropped from memory for new ones because of traffic.max_peers; the totals of their port keep their figures.");
	gs_metrics_one(
		p, "gpuscope_traffic_unseparated_peers", GS_METRICS_COUNTER, (double)list.full_rows,
		"Times that the kernel's table had no room for a new peer, whose figures then count for the port without an address.");
	gs_metrics_one(p, "gpuscope_traffic_lost_connections", GS_METRICS_COUNTER,
		       (double)list.lost,
		       "Connections not counted because the kernel had no memory to track them.");
}

/* --- the API --- */

static void put_document_sums(struct gs_buf *out, const struct gs_traffic_sums *s)
{
	gs_json_u64(out, "connections", s->connections);
	gs_json_u64(out, "failed_connections", s->failed);
	gs_json_u64(out, "open_connections", s->open > 0 ? (uint64_t)s->open : 0);
	gs_json_u64(out, "received_bytes", s->received_bytes);
	gs_json_u64(out, "sent_bytes", s->sent_bytes);
	gs_json_u64(out, "sends", s->sends);
	gs_json_u64(out, "requests", s->requests);
	gs_json_u64(out, "answered_requests", s->answers);
	gs_json_double(out, "response_seconds_mean",
		       s->answers ? (double)s->answer_ns / 1e9 / (double)s->answers : NAN);
	gs_json_double(out, "response_seconds_p50", gs_traffic_quantile(s, 0.5));
	gs_json_double(out, "response_seconds_p99", gs_traffic_quantile(s, 0.99));
}

static void put_document_port(struct gs_buf *out, const char *application, bool accepted,
			      uint16_t port)
{
	gs_json_text(out, "application", application);
	gs_json_text(out, "side", port ? accepted ? "server" : "client" : "");
	gs_json_u64(out, "port", port);
}

void agent_traffic_document(struct agent_traffic *t, struct gs_buf *out)
{
	GS_CLEANUP(gs_traffic_list_fini) struct gs_traffic_list list = {0};
	const char *missing = NULL;
	bool known = agent_traffic_copy(t, &list, &missing);

	gs_json_open(out, NULL, '{');
	gs_json_bool(out, "enabled", known);
	gs_json_text(out, "missing", missing ? missing : "");
	gs_json_u64(out, "evicted_peers", list.evicted_peers);
	gs_json_u64(out, "unseparated_peers", list.full_rows);
	gs_json_u64(out, "lost_connections", list.lost);
	gs_json_open(out, "ports", '[');
	for (size_t i = 0; i < list.n_services; i++) {
		const struct gs_traffic_service *v = &list.service[i];

		if (!v->port && !v->sums.connections && !v->sums.received_bytes &&
		    !v->sums.sent_bytes)
			continue;
		gs_json_open(out, NULL, '{');
		put_document_port(out, v->application, v->accepted, v->port);
		put_document_sums(out, &v->sums);
		gs_json_close(out, '}');
	}
	gs_json_close(out, ']');
	gs_json_open(out, "peers", '[');
	for (size_t i = 0; i < list.n_peers; i++) {
		const struct gs_traffic_peer *e = &list.peer[i];

		gs_json_open(out, NULL, '{');
		put_document_port(out, e->application, e->accepted, e->port);
		gs_json_text(out, "peer", e->address);
		gs_json_text(out, "job", e->job);
		put_document_sums(out, &e->sums);
		gs_json_close(out, '}');
	}
	gs_json_close(out, ']');
	gs_json_close(out, '}');
	(void)gs_buf_puts(out, "\n");
}
