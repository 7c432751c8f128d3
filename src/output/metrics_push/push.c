/*
 * The thread: every interval a message of all families, into the spool; and, whenever something
 * waits there, the oldest message to the receiver.
 *
 * Which answers are tried again: of remote write 5xx and 429, of OTLP 429, 502, 503 and 504, and by
 * gRPC those of try_again() (opentelemetry.io/docs/specs/otlp); what else is no success will never be one: it is dropped, and
 * counted. Order is kept, as remote write asks for.
 */
#include "output/metrics_push/push_int.h"
#include "core/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "net/http_client/http_client.h"
#include "core/queue/queue.h"

#define INTERVAL_NS 15000000000ull
#define TIMEOUT_NS  10000000000ull
#define SPOOL_BYTES (64u << 20)
#define BACKOFF_NS  1000000000ull
#define BACKOFF_MAX 60000000000ull
#define MESSAGE_MAX (16u << 20)
#define ANSWER_MAX  512

struct given { /* a message of gs_push_put() */
	struct given *next;
	size_t bytes;
	uint32_t n_items;
	int64_t wall_ns;
	uint8_t data[];
};

struct gs_push {
	struct gs_push_options o;
	char shown[512], token[512], ca_file[256], dir[512];
	char label_name[GS_PUSH_LABELS_MAX][GS_PUSH_LABEL_NAME_BYTES];
	char label_value[GS_PUSH_LABELS_MAX][GS_PUSH_LABEL_VALUE_BYTES];
	char target[700]; /* of requests, made of url */
	bool is_grpc, has_ended;
	pthread_t thread;
	atomic_bool abort; /* of a request that runs */
	/* Of the thread. */
	struct gs_buf answer, packed;
	struct push_message message;
	uint64_t n_failures; /* one after the other */
	uint64_t retry_ns;   /* monotonic: not before */
	bool is_reported, is_partial;

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t wake;
	struct gs_queue *spool; /* of the thread, but for its statistics */
	struct gs_push_stats stats;
	struct given *given, *given_last; /* a list */
	size_t given_bytes;
	uint64_t given_lost; /* of their items */
	bool stopping;
};

static bool is_url(const char *url, const char *host)
{
	return host && *host && *host != '/' && *host != ':' && strlen(url) < 512 &&
	       !url[strcspn(url, " \t\r\n\"<>")];
}

/* What follows "SCHEME://" or "SCHEMEs://"; NULL: it is another one. */
static const char *after_scheme(const char *url, const char *scheme)
{
	size_t n = strlen(scheme);

	if (strncmp(url, scheme, n) != 0)
		return NULL;
	url += n + (url[n] == 's');
	return strncmp(url, "://", 3) == 0 ? url + 3 : NULL;
}

bool gs_push_url_valid(const char *url)
{
	return is_url(url, after_scheme(url, "http"));
}

/* A server of gRPC has no paths but those of its methods. */
bool gs_push_otlp_url_valid(const char *url)
{
	const char *host = after_scheme(url, "grpc");

	return host ? is_url(url, host) && !host[strcspn(host, "/?#")] : gs_push_url_valid(url);
}

/* What is pushed, in messages; of single ones. */
static const char *what_of(const struct gs_push *p, bool one_by_one)
{
	return p->o.protocol == GS_PUSH_OTLP_TRACES ? "spans"
	       : p->o.protocol == GS_PUSH_OTLP_LOGS ? "log records"
	       : one_by_one                         ? "samples"
						    : "metrics";
}

static void log_push(struct gs_push *p, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!p->o.on_message)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	p->o.on_message(p->o.ctx, text);
}

/* --- making --- */

/* As render; *ret_error: why there is no whole message. */
static int encode_batch(struct gs_push *p, unsigned part, int *ret_error)
{
	struct push_message *m = &p->message;
	bool otlp = p->o.protocol != GS_PUSH_REMOTE_WRITE;
	bool logs = p->o.protocol == GS_PUSH_OTLP_LOGS;
	struct gs_metrics metrics;
	int r;

	gs_buf_reset(&m->out);
	m->n_samples = 0;
	m->is_open = false;
	m->now_ms = (int64_t)(gs_clock_wall_ns() / 1000000);
	gs_metrics_init_put(&metrics, otlp ? push_otlp_put : push_remote_write_put, m);
	if (otlp)
		metrics.error = push_otlp_begin(m);
	r = logs ? p->o.render_logs(p->o.ctx, m) : p->o.render(p->o.ctx, part, &metrics);
	*ret_error = r < 0 ? r : gs_metrics_end(&metrics);
	if (*ret_error == 0 && otlp)
		*ret_error = push_otlp_end(m);
	return r;
}

static int keep_batch(struct gs_push *p)
{
	struct gs_queue_batch b = {.first_wall_ns = p->message.now_ms * 1000000,
				   .last_wall_ns = p->message.now_ms * 1000000,
				   .n_samples = (uint32_t)p->message.n_samples,
				   .raw_bytes = (uint32_t)p->message.out.bytes,
				   .data = p->message.out.data,
				   .bytes = p->message.out.bytes};
	int r = 0;

	if (p->o.protocol == GS_PUSH_REMOTE_WRITE) {
		gs_buf_reset(&p->packed);
		r = push_snappy(&p->message.out, &p->packed);
		b.data = p->packed.data;
		b.bytes = p->packed.bytes;
	}
	pthread_mutex_lock(&p->lock);
	if (r == 0)
		r = gs_queue_put(p->spool, &b);
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* What gs_push_put() was given goes to the spool. */
static void take_given(struct gs_push *p)
{
	struct given *g;

	pthread_mutex_lock(&p->lock);
	while ((g = p->given)) {
		const struct gs_queue_batch b = {.first_wall_ns = g->wall_ns,
						 .last_wall_ns = g->wall_ns,
						 .n_samples = g->n_items,
						 .raw_bytes = (uint32_t)g->bytes,
						 .data = g->data,
						 .bytes = g->bytes};

		p->given = g->next;
		(void)gs_queue_put(p->spool, &b); /* what has no room is counted by it */
		free(g);
	}
	p->given_last = NULL;
	p->given_bytes = 0;
	pthread_mutex_unlock(&p->lock);
}

int gs_push_put(struct gs_push *p, const void *data, size_t bytes, uint32_t n_items)
{
	struct given *g = bytes <= MESSAGE_MAX ? malloc(sizeof(*g) + bytes) : NULL;
	int r = g ? 0 : -ENOMEM;

	if (g) {
		*g = (struct given){
			.bytes = bytes, .n_items = n_items, .wall_ns = (int64_t)gs_clock_wall_ns()};
		memcpy(g->data, data, bytes);
	}
	pthread_mutex_lock(&p->lock);
	if (r == 0 && p->given_bytes + bytes > MESSAGE_MAX)
		r = -ENOBUFS;
	if (r < 0) {
		p->given_lost += n_items;
	} else {
		*(p->given_last ? &p->given_last->next : &p->given) = g;
		p->given_last = g;
		p->given_bytes += bytes;
	}
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		free(g);
	return r;
}

static void make_batch(struct gs_push *p)
{
	uint64_t errors = 0;
	unsigned part = 0;
	int r, error;

	do {
		r = encode_batch(p, part++, &error);
		if (error == 0 && p->message.n_samples)
			(void)keep_batch(p); /* what has no room is counted by the spool */
		errors += error < 0;
	} while (r == GS_PUSH_MORE && !p->abort);
	pthread_mutex_lock(&p->lock);
	p->stats.render_errors += errors;
	pthread_mutex_unlock(&p->lock);
}

/* --- sending --- */

static bool try_again(const struct gs_push *p, long status)
{
	/* CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE, UNAVAILABLE,
	 * DATA_LOSS */
	const uint32_t of_grpc =
		1u << 1 | 1u << 4 | 1u << 8 | 1u << 10 | 1u << 11 | 1u << 14 | 1u << 15;

	if (p->is_grpc)
		return status < 32 && of_grpc >> status & 1;
	if (p->o.protocol != GS_PUSH_REMOTE_WRITE)
		return status == 429 || status == 502 || status == 503 || status == 504;
	return status == 429 || status >= 500;
}

static void wait_longer(struct gs_push *p, uint64_t asked_ns)
{
	uint64_t delay = BACKOFF_NS << (p->n_failures < 6 ? p->n_failures : 6), random = 0;

	p->n_failures++;
	delay = delay < BACKOFF_MAX ? delay : BACKOFF_MAX;
	/* Somewhere in its second half: many agents lost the same engine. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == (ssize_t)sizeof(random))
		delay = delay / 2 + random % (delay / 2);
	p->retry_ns = gs_clock_mono_ns() + (asked_ns > delay ? asked_ns : delay);
}

static void note_failure(struct gs_push *p, const char *why, uint64_t asked_ns)
{
	pthread_mutex_lock(&p->lock);
	p->stats.failures++;
	snprintf(p->stats.trouble, sizeof(p->stats.trouble), "%s", why);
	pthread_mutex_unlock(&p->lock);
	if (!p->is_reported)
		log_push(p, "%s does not accept %s: %s; they are buffered meanwhile", p->shown,
			 what_of(p, false), why);
	p->is_reported = true;
	wait_longer(p, asked_ns);
}

/* The receiver takes some of it: what it leaves is counted, and reported once. */
static uint64_t note_partial(struct gs_push *p, const struct gs_queue_batch *b)
{
	char why[200];
	uint64_t n = p->o.protocol != GS_PUSH_REMOTE_WRITE
			     ? push_otlp_rejected(&p->answer, why, sizeof(why))
			     : 0;

	n = n < b->n_samples ? n : b->n_samples;
	if (n && !p->is_partial)
		log_push(p, "%s refuses %llu of %u: %s", p->shown, (unsigned long long)n,
			 b->n_samples, why[0] ? why : "it does not say why");
	p->is_partial = n > 0;
	return n;
}

static void finish_batch(struct gs_push *p, const struct gs_queue_batch *b, bool taken,
			 const char *why)
{
	uint64_t left_out = taken ? note_partial(p, b) : 0;

	pthread_mutex_lock(&p->lock);
	p->stats.requests++;
	if (taken) {
		p->stats.samples += b->n_samples - left_out;
		p->stats.rejected_samples += left_out;
		p->stats.bytes += b->bytes;
		p->stats.last_ok_wall_ns = gs_clock_wall_ns();
	} else {
		p->stats.rejected_samples += b->n_samples;
	}
	snprintf(p->stats.trouble, sizeof(p->stats.trouble), "%s", why);
	gs_queue_ack(p->spool, b->seq);
	pthread_mutex_unlock(&p->lock);
	if (taken)
		gs_log(GS_LOG_DEBUG, GS_LOG_HTTP, "push: %s has %u samples, %zu bytes", p->shown,
		       b->n_samples, (size_t)b->bytes);
	if (!taken)
		log_push(p, "%s permanently refuses %u %s: %s", p->shown, b->n_samples,
			 what_of(p, true), why);
	else if (p->is_reported)
		log_push(p, "%s accepts %s again", p->shown, what_of(p, false));
	p->is_reported = false;
	p->n_failures = 0;
	p->retry_ns = 0;
}

/* What the receiver says of an error: its first line, or of OTLP over HTTP the text of a
 * google.rpc.Status. */
static void read_text(const struct gs_push *p, char *out, size_t bytes)
{
	const char *at = (const char *)p->answer.data;
	size_t n = p->answer.bytes < bytes - 1 ? p->answer.bytes : bytes - 1, i;

	if (p->o.protocol != GS_PUSH_REMOTE_WRITE && !p->is_grpc &&
	    push_otlp_error(&p->answer, out, bytes))
		return;
	for (i = 0; i < n && at[i] != '\r' && at[i] != '\n'; i++)
		out[i] = (unsigned char)at[i] < 0x20 || at[i] == 0x7f ? '?' : at[i];
	out[i] = '\0';
}

static void send_one(struct gs_push *p, const struct gs_queue_batch *b)
{
	struct gs_http_client_http q = {
		.url = p->target,
		.grpc = p->is_grpc,
		.token = p->token,
		.ca_file = p->ca_file,
		.type = "application/x-protobuf",
		.body = b->data,
		.bytes = b->bytes,
		.timeout_ns = p->o.timeout_ns ? p->o.timeout_ns : TIMEOUT_NS,
		.stop = &p->abort,
		.answer = &p->answer,
	};
	uint64_t asked_ns = 0;
	struct gs_err err = {{0}};
	char why[320], text[256];
	long status;
	int r;

	if (p->o.protocol == GS_PUSH_REMOTE_WRITE) {
		q.header[0] = "Content-Encoding: snappy";
		q.header[1] = "X-Prometheus-Remote-Write-Version: 0.1.0";
	}
	gs_buf_reset(&p->answer);
	r = gs_http_client_http(&q, &status, &asked_ns, &err);
	if (r < 0) {
		note_failure(p, err.text, 0);
		return;
	}
	read_text(p, text, sizeof(text));
	snprintf(why, sizeof(why), "%s %ld%s%s", p->is_grpc ? "its gRPC status is" : "it answers",
		 status, text[0] ? ": " : "", text);
	if (p->is_grpc ? status == 0 : status >= 200 && status < 300)
		finish_batch(p, b, true, "");
	else if (try_again(p, status))
		note_failure(p, why, asked_ns);
	else
		finish_batch(p, b, false, why);
}

/* What waits, one after the other, until there is none or one fails. */
static void send_all(struct gs_push *p)
{
	struct gs_queue_batch b;
	int r = 0;

	while (r != GS_QUEUE_END && p->retry_ns <= gs_clock_mono_ns() && !p->abort) {
		pthread_mutex_lock(&p->lock);
		r = gs_queue_get(p->spool, 0, &b);
		pthread_mutex_unlock(&p->lock);
		/* The data stay until the next get, and this thread alone gets. */
		if (r == 0)
			send_one(p, &b);
		else if (r < 0 && r != -EBADMSG && r != -EIO)
			break;
	}
}

/* --- the thread --- */

static bool wait_until(struct gs_push *p, uint64_t until_ns)
{
	struct timespec at = {(time_t)(until_ns / 1000000000ull), (long)(until_ns % 1000000000ull)};
	bool stop;

	pthread_mutex_lock(&p->lock);
	while (!p->stopping && gs_clock_mono_ns() < until_ns)
		pthread_cond_timedwait(&p->wake, &p->lock, &at);
	stop = p->stopping;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

static void *run_push(void *arg)
{
	struct gs_push *p = arg;
	uint64_t interval = p->o.interval_ns ? p->o.interval_ns : INTERVAL_NS;
	uint64_t due = gs_clock_mono_ns() + interval, now;
	bool stop = false;

	while (!stop) {
		uint64_t next =
			p->retry_ns > gs_clock_mono_ns() && p->retry_ns < due ? p->retry_ns : due;

		stop = wait_until(p, next);
		now = gs_clock_mono_ns();
		if (now >= due || stop) {
			(p->o.protocol == GS_PUSH_OTLP_TRACES ? take_given : make_batch)(p);
			due += ((now - due) / interval + 1) * interval;
			due = due > now ? due : now + interval;
		}
		if (stop)
			p->retry_ns = 0;
		send_all(p);
	}
	return NULL;
}

/* --- life --- */

/* Of requests: by gRPC the path is the method's. */
static void set_target(struct gs_push *p, const char *url, enum gs_push_protocol protocol)
{
	static const char *const methods[] = {
		[GS_PUSH_REMOTE_WRITE] = "",
		[GS_PUSH_OTLP] = "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
		[GS_PUSH_OTLP_LOGS] = "opentelemetry.proto.collector.logs.v1.LogsService/Export",
		[GS_PUSH_OTLP_TRACES] =
			"opentelemetry.proto.collector.trace.v1.TraceService/Export",
	};
	const char *host = protocol != GS_PUSH_REMOTE_WRITE ? after_scheme(url, "grpc") : NULL;

	p->is_grpc = host != NULL;
	if (!host)
		snprintf(p->target, sizeof(p->target), "%s", url);
	else
		snprintf(p->target, sizeof(p->target), "http%s://%s/%s", url[4] == 's' ? "s" : "",
			 host, methods[protocol]);
}

static int copy_options(struct gs_push *p, const struct gs_push_options *o, struct gs_err *err)
{
	if (!(o->protocol == GS_PUSH_REMOTE_WRITE ? gs_push_url_valid
						  : gs_push_otlp_url_valid)(o->url))
		return gs_err_set(err, -EINVAL,
				  "%s is no http:// or https:// URL (of OTLP also grpc://)",
				  o->url);
	if (o->n_labels > GS_PUSH_LABELS_MAX)
		return gs_err_set(err, -EINVAL, "more than %d labels", GS_PUSH_LABELS_MAX);
	p->o = *o;
	set_target(p, o->url, o->protocol);
	gs_http_client_shown(o->url, false, p->shown, sizeof(p->shown));
	snprintf(p->token, sizeof(p->token), "%s", o->token ? o->token : "");
	snprintf(p->ca_file, sizeof(p->ca_file), "%s", o->ca_file ? o->ca_file : "");
	snprintf(p->dir, sizeof(p->dir), "%s", o->spool_dir ? o->spool_dir : "");
	for (size_t i = 0; i < o->n_labels; i++) {
		snprintf(p->label_name[i], sizeof(p->label_name[i]), "%s", o->label_name[i]);
		snprintf(p->label_value[i], sizeof(p->label_value[i]), "%s", o->label_value[i]);
		p->o.label_name[i] = p->label_name[i];
		p->o.label_value[i] = p->label_value[i];
	}
	return 0;
}

static void free_push(struct gs_push **push)
{
	struct gs_push *p = *push;
	struct given *g;

	while ((g = p->given)) {
		p->given = g->next;
		free(g);
	}
	gs_queue_close(&p->spool);
	gs_buf_fini(&p->answer);
	gs_buf_fini(&p->packed);
	gs_buf_fini(&p->message.out);
	explicit_bzero(p->token, sizeof(p->token));
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	gs_free_p(push);
}

int gs_push_start(const struct gs_push_options *options, struct gs_push **ret_push,
		  struct gs_err *err)
{
	struct gs_queue_options so = {.size = sizeof(so)};
	struct gs_push *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;
	int r;

	if (!p)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&p->lock, NULL);
	p->answer = GS_BUF_INIT(ANSWER_MAX);
	p->packed = GS_BUF_INIT(2 * MESSAGE_MAX);
	p->message = (struct push_message){.out = GS_BUF_INIT(MESSAGE_MAX),
					   .options = &p->o,
					   .start_ms = (int64_t)(gs_clock_wall_ns() / 1000000)};
	r = copy_options(p, options, err);
	if (r == 0)
		r = gs_http_client_load(err);
	so.dir = p->dir[0] ? p->dir : NULL;
	so.max_bytes = so.max_memory_bytes =
		options->spool_max_bytes ? options->spool_max_bytes : SPOOL_BYTES;
	so.segment_bytes = 1 << 20;
	if (r == 0)
		r = gs_queue_open(&so, &p->spool, err);
	if (r == 0) {
		r = -pthread_create(&p->thread, NULL, run_push, p);
		if (r < 0)
			(void)gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	if (r < 0) {
		free_push(&p);
		return r;
	}
	*ret_push = p;
	return 0;
}

void gs_push_end(struct gs_push *p, uint64_t drain_ns)
{
	struct timespec until;

	if (p->has_ended)
		return;
	p->has_ended = true;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(drain_ns / 1000000000ull);
	if (pthread_timedjoin_np(p->thread, NULL, &until) != 0) {
		p->abort = true;
		pthread_join(p->thread, NULL);
	}
}

void gs_push_stop(struct gs_push **push, uint64_t drain_ns)
{
	if (!*push)
		return;
	gs_push_end(*push, drain_ns);
	free_push(push);
}

void gs_push_stats(struct gs_push *push, struct gs_push_stats *ret_stats)
{
	struct gs_queue_stats st;
	uint64_t given_lost;

	pthread_mutex_lock(&push->lock);
	gs_queue_stats(push->spool, &st);
	*ret_stats = push->stats;
	given_lost = push->given_lost;
	pthread_mutex_unlock(&push->lock);
	ret_stats->waiting_batches = st.n_batches;
	ret_stats->waiting_samples = st.n_samples;
	ret_stats->waiting_bytes = st.bytes;
	ret_stats->lost_samples = st.lost_samples + given_lost;
}
