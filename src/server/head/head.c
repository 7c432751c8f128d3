/* The head's life. */
#include "server/head/head_int.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "core/base/clock.h"

#define INTERVAL_NS 1000000000ull
#define GRACE_NS    1000000000ull

void head_log(struct gs_head *h, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!h->o.on_message)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	h->o.on_message(h->o.on_message_ctx, text);
}

static enum gs_grpc_status authorize_call(void *ctx, const struct gs_grpc_call *call,
					  const struct gs_grpc_method *method, const char *token)
{
	const struct gs_head *h = ctx;

	return h->o.authorize ? h->o.authorize(h->o.authorize_ctx, call, method, token)
			      : GS_GRPC_OK;
}

enum gs_session_export_commands head_may_see(const struct gs_head *h,
					     const struct gs_grpc_call *call)
{
	return h->o.may_see ? h->o.may_see(h->o.may_see_ctx, call)
			    : GS_SESSION_EXPORT_COMMANDS_NONE;
}

int head_know_node(void *ctx, const struct gs_store_node *node)
{
	struct gs_head *h = ctx;
	struct gs_registry_node n = {.id = node->id, .last_wall_ns = node->last_wall_ns};

	memcpy(n.machine_id, node->machine_id, sizeof(n.machine_id));
	memcpy(n.instance, node->instance, sizeof(n.instance));
	memcpy(n.hostname, node->hostname, sizeof(n.hostname));
	return gs_registry_put(h->cluster, &n);
}

int head_know_stream(void *ctx, const struct gs_store_stream *stream)
{
	struct gs_head *h = ctx;

	if (stream->kind != GS_STORE_JOBS)
		gs_registry_counts(h->cluster, stream->node, stream->n_samples,
				   stream->lost_samples, stream->missed_samples);
	return 0;
}

static int start_rpc(struct gs_head *h, struct gs_err *err)
{
	const struct gs_head_service *service = &h->o.service;
	size_t n = 1 + HEAD_N_CONTROL + service->n_methods;
	struct gs_grpc_server_options o = {
		.size = sizeof(o),
		.listen = h->o.listen,
		.n_listen = h->o.n_listen,
		.tls_cert = h->o.tls_cert,
		.tls_key = h->o.tls_key,
		.tls_client_ca = h->o.tls_client_ca,
		.n_methods = n,
		.ctx = h,
		.authorize = authorize_call,
		.denied = h->o.denied,
	};

	o.methods = h->methods = calloc(n, sizeof(*h->methods));
	if (!h->methods)
		return gs_err_set(err, -ENOMEM, "no memory");
	h->methods[0] = head_node_method;
	memcpy(&h->methods[1], head_control_methods, sizeof(head_control_methods));
	if (service->n_methods) {
		memcpy(&h->methods[1 + HEAD_N_CONTROL], service->methods,
		       service->n_methods * sizeof(*h->methods));
		service->begin(service->ctx, h);
	}
	return gs_grpc_server_start(&o, &h->rpc, err);
}

static int start_files(struct gs_head *h, struct gs_err *err)
{
	const struct gs_session_export_files_options o = {h->o.output_dir, h->o.data,
							  h->o.on_message, h->o.on_message_ctx};

	return o.dir && o.dir[0] ? gs_session_export_files_open(&o, &h->files, err) : 0;
}

struct gs_session_export_files *gs_head_files(struct gs_head *head)
{
	return head->files;
}

int gs_head_start(const struct gs_head_options *options, struct gs_head **ret_head,
		  struct gs_err *err)
{
	struct gs_head *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&h->lock, NULL);
	pthread_mutex_init(&h->push_lock, NULL);
	pthread_cond_init(&h->more_reads, NULL);
	h->wish_version = 1;
	h->o = *options;
	h->o.interval_ns = options->interval_ns ? options->interval_ns : INTERVAL_NS;
	h->raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);
	h->cluster = gs_registry_new();
	r = h->cluster ? head_fleet_start(h, err) : gs_err_set(err, -ENOMEM, "no memory");
	if (r == 0)
		r = head_store_start(h, err);
	if (r == 0)
		r = head_reader_start(h, err);
	if (r == 0)
		r = start_files(h, err);
	if (r == 0)
		r = head_rollup_start(h, err);
	if (r == 0)
		r = start_rpc(h, err);
	if (r < 0) {
		gs_head_stop(&h);
		return r;
	}
	*ret_head = h;
	return 0;
}

void gs_head_stop(struct gs_head **head)
{
	struct gs_head *h = *head;

	if (!h)
		return;
	gs_head_push_end(h);
	if (h->rpc)
		gs_grpc_server_stop(&h->rpc, GRACE_NS);
	gs_session_export_files_stop(h->files);
	head_rollup_stop(h); /* it waits for a job at most */
	head_jobs_end(h);
	head_export_stop(h);
	head_store_stop(h);
	head_fleet_stop(h);
	gs_session_export_files_free(&h->files);
	free(h->methods);
	free(h->active);
	gs_registry_free(&h->cluster);
	gs_buf_fini(&h->raw);
	pthread_mutex_destroy(&h->lock);
	pthread_mutex_destroy(&h->push_lock);
	gs_free_p(head);
}

static void report_health(void *ctx, const struct gs_registry_node *node)
{
	head_log(ctx, node->healthy ? "node %s delivers again" : "node %s is silent",
		 node->hostname);
}

void gs_head_tick(struct gs_head *head)
{
	gs_registry_tick(head->cluster, gs_clock_mono_ns(), report_health, head);
	head_fleet_tick(head);
	gs_session_export_files_tick(head->files);
	head_keep(head);
}

int gs_head_reload_tls(struct gs_head *head, struct gs_err *err)
{
	return head->o.tls_cert && head->o.tls_cert[0] ? gs_grpc_server_reload_tls(head->rpc, err)
						       : 0;
}

int gs_head_exit(struct gs_head *head, const char *peer)
{
	if (!head->o.exit)
		return -EPERM;
	head_log(head, "stopped by a request from %s", peer);
	head->o.exit(head->o.exit_ctx);
	return 0;
}

const char *gs_head_address(const struct gs_head *head, size_t i)
{
	return gs_grpc_server_address(head->rpc, i);
}

int gs_head_add_local(struct gs_head *head, int fd, gid_t group)
{
	return gs_grpc_server_add_local(head->rpc, fd, group);
}

struct gs_registry *gs_head_cluster(struct gs_head *head)
{
	return head->cluster;
}

static void come_around(void *arg)
{
	struct gs_head *h = arg;

	h->asked = false;
}

bool gs_head_answers(struct gs_head *head)
{
	if (head->asked)
		return false;
	head->asked = true;
	/* Who has no memory for the question has not been asked. */
	if (gs_grpc_server_post(head->rpc, come_around, head) < 0)
		head->asked = false;
	return true;
}

void gs_head_stats(struct gs_head *head, struct gs_head_stats *ret_stats)
{
	pthread_mutex_lock(&head->lock);
	*ret_stats = head->stats;
	ret_stats->waiting_batches = head->n_queue;
	ret_stats->waiting_bytes = head->queue_bytes;
	ret_stats->paused_streams = head->n_paused;
	pthread_mutex_unlock(&head->lock);
}
