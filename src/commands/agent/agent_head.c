/*
 * Delivery of what the agent reads to a head. The main thread makes a sample of each reading and
 * puts it into the link, whose own thread does whatever has to wait for the network; the server's
 * thread asks for numbers only.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_head.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_report.h"
#include "commands/agent/agent_state.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/secret.h"
#include "commands/common/cli.h"
#include "net/uplink/uplink.h"
#include "model/node/record.h"
#include "sources/sampler/sampler.h"

#define HEADS_MAX  8
#define DRAIN_NS   5000000000ull
#define RECORD_MAX (8u << 20) /* of one sample */

struct agent_head {
	struct agent_recorder *recorder; /* lent; NULL: none, or the head has no say in it */
	struct gs_uplink *link;
	struct agent_report *report; /* NULL: jobs are not delivered */
	struct gs_sampler *sampler;
	struct gs_buf records;
	bool all_processes;
	_Atomic uint64_t desired_ns; /* between two samples, as the head wants; 0 each */
	uint64_t due_ns;             /* monotonic */
	_Atomic uint64_t n_delivered, n_failed;
	bool reported_failed;
};

/* --- the link's callbacks, on its thread --- */

static void on_desired_config(void *ctx, const struct gs_uplink_config *desired)
{
	((struct agent_head *)ctx)->desired_ns = desired->interval_ns;
}

/* What a user of the head wants of the flight recorder. */
static int on_question(void *ctx, const struct gs_uplink_question *q, struct gs_buf *out,
		       uint64_t *ret_total_bytes)
{
	struct agent_head *h = ctx;
	struct gs_err err = {{0}};
	int r = -EINVAL;

	switch (q->kind) {
	case GS_UPLINK_RECORDER:
		agent_recorder_document(h->recorder, out);
		return 0;
	case GS_UPLINK_RECORDER_FILE:
		r = agent_recorder_read(h->recorder, q->name, q->offset, q->max_bytes, out,
					ret_total_bytes);
		if (r == -ENOENT)
			(void)gs_err_set(&err, r, "the node has no such file");
		break;
	case GS_UPLINK_RECORDER_SAVE:
		r = agent_recorder_save(h->recorder, strcmp(q->name, "all") == 0 ? NULL : q->name,
					&err);
		break;
	}
	if (r < 0) {
		gs_buf_reset(out);
		(void)gs_buf_puts(out, gs_err_text(&err, r));
	}
	return r < 0 ? r : 0;
}

static void print_message(void *ctx, const char *text)
{
	gs_cli_print_message("agent: %s", text);
}

/* --- life --- */

static int start_link(struct agent_head *h, const struct agent_conf *c, struct gs_err *err)
{
	char addresses[sizeof(c->head.addresses)], token[512] = "";
	const char *address[HEADS_MAX];
	struct gs_uplink_options o = {
		.size = sizeof(o),
		.addresses = address,
		.tls = c->head.tls || c->head.tls_ca[0] || c->head.tls_cert[0],
		.tls_ca = c->head.tls_ca[0] ? c->head.tls_ca : NULL,
		.tls_cert = c->head.tls_cert[0] ? c->head.tls_cert : NULL,
		.tls_key = c->head.tls_key[0] ? c->head.tls_key : NULL,
		.server_name = c->head.server_name[0] ? c->head.server_name : NULL,
		.kind = GS_UPLINK_SAMPLES,
		.machine_id = c->head.machine_id[0] ? c->head.machine_id : NULL,
		.instance = c->head.instance,
		.spool_dir = c->head.resilient ? c->head.spool : NULL,
		.desired = on_desired_config,
		.on_message = print_message,
		.question = on_question,
		.ctx = h,
	};
	char parent[sizeof(c->head.spool)];
	char *save = NULL, *slash;
	int r = 0;

	(void)gs_parse_bytes(c->head.spool_max, &o.spool_max_bytes); /* checked when it was read */
	strcpy(addresses, c->head.addresses);
	for (char *w = strtok_r(addresses, ", ", &save); w && o.n_addresses < HEADS_MAX;
	     w = strtok_r(NULL, ", ", &save))
		address[o.n_addresses++] = w;
	if (c->head.token_file[0])
		r = gs_token_read(c->head.token_file, "head.token_file", token, sizeof(token), err);
	o.token = token[0] ? token : NULL;
	/* The spool makes its folder, but not the one around it. */
	strcpy(parent, c->head.spool);
	slash = strrchr(parent, '/');
	if (o.spool_dir && slash && slash > parent) {
		*slash = 0;
		(void)mkdir(parent, 0755);
	}
	if (r == 0)
		r = gs_uplink_start(&o, &h->link, err);
	if (r == 0 && c->head.jobs && c->jobs.enabled)
		r = agent_report_start(&o, c->head.jobs_interval_ns, &h->report, err);
	explicit_bzero(token, sizeof(token));
	return r;
}

int agent_head_start(const struct agent_conf *conf, struct agent_recorder *recorder,
		     struct agent_head **ret_head, struct gs_err *err)
{
	struct agent_head *h;
	int r;

	*ret_head = NULL;
	if (!conf->head.addresses[0])
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	h->records = GS_BUF_INIT(RECORD_MAX);
	h->all_processes = conf->head.all_processes;
	h->recorder = conf->recorder.by_head ? recorder : NULL;
	r = gs_sampler_new(&h->sampler, err);
	if (r == 0)
		r = start_link(h, conf, err);
	if (r < 0)
		agent_head_stop(&h);
	else
		*ret_head = h;
	return r;
}

void agent_head_stop(struct agent_head **head)
{
	struct agent_head *h = *head;
	uint64_t left;

	if (!h)
		return;
	left = gs_uplink_stop(&h->link, DRAIN_NS, false);
	if (left)
		gs_log(GS_LOG_WARNING, GS_LOG_HEAD,
		       "agent: %llu samples not delivered to the head yet",
		       (unsigned long long)left);
	left = agent_report_stop(&h->report, DRAIN_NS);
	if (left)
		gs_log(GS_LOG_WARNING, GS_LOG_HEAD,
		       "agent: %llu job reports not delivered to the head yet",
		       (unsigned long long)left);
	gs_sampler_free(&h->sampler);
	gs_buf_fini(&h->records);
	gs_free_p(head);
}

/* --- samples --- */

/* The GPUs are lent. */
static int deliver_sample(struct agent_head *h, struct gs_gpu_snapshot *gpu,
			  struct agent_jobs *jobs)
{
	struct gs_node_snapshot *node = calloc(1, sizeof(*node));
	struct gs_uplink_span span = {.n_samples = 1};
	struct gs_batch batch;
	int r;

	if (!node)
		return -ENOMEM;
	node->gpu = gpu;
	r = gs_sampler_fill(h->sampler, h->all_processes, true, node);
	if (jobs)
		agent_jobs_times(jobs, &node->times, &node->n_times);
	gs_buf_reset(&h->records);
	if (r == 0)
		r = gs_node_encode(&h->records, node);
	span.first_wall_ns = span.last_wall_ns = node->wall_ns;
	node->gpu = NULL; /* not ours */
	gs_node_snapshot_free(&node);
	if (r < 0)
		return r;
	batch = (struct gs_batch){h->records.data, h->records.bytes};
	return gs_uplink_push(h->link, &batch, &span);
}

void agent_head_take(struct agent_head *h, struct gs_gpu_snapshot *gpu, struct agent_jobs *jobs)
{
	uint64_t now = gs_clock_mono_ns(), desired_ns;
	int r;

	/* A reading that comes a little early belongs to its turn. */
	if (!h || now + 20000000 < h->due_ns)
		return;
	desired_ns = h->desired_ns;
	h->due_ns = h->due_ns + desired_ns > now ? h->due_ns + desired_ns : now + desired_ns;
	r = deliver_sample(h, gpu, jobs);
	if (r == 0) {
		h->n_delivered++;
		return;
	}
	h->n_failed++;
	if (!h->reported_failed)
		gs_cli_print_message(
			"agent: cannot spool a sample for the head: %s; further failures are only counted",
			strerror(-r));
	h->reported_failed = true;
}

void agent_head_take_jobs(struct agent_head *h, const struct gs_job_accounts *accounts)
{
	if (h)
		agent_report_take(h->report, accounts);
}

void agent_head_end_jobs(struct agent_head *h, const struct gs_job_accounts *accounts)
{
	if (h)
		agent_report_end(h->report, accounts);
}

void agent_head_stats(struct agent_head *h, struct agent_head_stats *ret)
{
	struct gs_uplink_stats st;

	gs_uplink_stats(h->link, &st);
	*ret = (struct agent_head_stats){
		.connected = st.state == GS_UPLINK_CONNECTED,
		.connects = st.connects,
		.samples = h->n_delivered,
		.failed = h->n_failed,
		.acked_batches = st.acked_batches,
		.sent_bytes = st.sent_bytes,
		.waiting_samples = st.waiting_samples,
		.waiting_bytes = st.waiting_bytes,
		.lost_samples = st.lost_samples,
		.spool_failed = st.spool_error != 0,
	};
	memcpy(ret->trouble, st.trouble, sizeof(ret->trouble));
	ret->has_reports = h->report;
	if (h->report)
		agent_report_stats(h->report, &ret->reports);
}
