/*
 * The queue and its thread. Samples come from another thread and are in the queue when
 * gs_mysql_put() returns; the thread gives the oldest to the sender and forgets it when the server has
 * committed it, or has said that it had it before.
 *
 * A batch whose data the tables do not take (SQLSTATE 22 and 23) is dropped and counted; whatever
 * else fails (no server, no table, no right, a full disk) is tried again, however long it takes.
 */
#include "output/mysql/mysql_int.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/secret.h"
#include "core/queue/queue.h"
#include "sources/sampler/sampler.h"

#define BACKOFF_NS  1000000000ull
#define BACKOFF_MAX 60000000000ull
#define REMOVE_NS   3600000000000ull /* between two removals of old rows */
#define REMOVE_MAX  5000             /* rows of one statement */
#define REMOVE_RUNS 400              /* statements of one removal and table */
#define EARLY_NS    20000000         /* a reading that comes so early belongs to its turn */

struct gs_mysql {
	struct gs_mysql_options o;
	struct gs_mysql_conf conf;
	char host[256], socket[256], password[512];
	struct mysql_target target; /* of these */
	unsigned tables;            /* enum gs_mysql_tables, ored */
	uint64_t due_ns;            /* of the next sample, monotonic; of who puts */
	struct gs_buf rows;         /* likewise, as the next */
	struct gs_sampler *sampler;
	pthread_t thread;
	atomic_bool abort; /* of a request that runs */
	/* Of the thread. */
	struct mysql_holder holder;
	uint64_t n_failures; /* one after the other */
	uint64_t retry_ns;   /* monotonic: not before */
	uint64_t remove_ns;  /* monotonic: old rows are removed then */
	bool is_reported;

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t wake;
	struct gs_queue *spool;
	struct gs_mysql_stats stats;
	bool is_stopping;
};

static void report_line(struct gs_mysql *m, const char *fmt, ...) GS_PRINTF(2, 3);
static void report_line(struct gs_mysql *m, const char *fmt, ...)
{
	char text[768];
	va_list args;

	if (!m->o.on_message)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	m->o.on_message(m->o.ctx, text);
}

/* --- sending, on the thread --- */

static void wait_longer(struct gs_mysql *m)
{
	uint64_t delay = BACKOFF_NS << (m->n_failures < 6 ? m->n_failures : 6), random = 0;

	m->n_failures++;
	delay = delay < BACKOFF_MAX ? delay : BACKOFF_MAX;
	/* Somewhere in its second half: many agents lost the same server. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == (ssize_t)sizeof(random))
		delay = delay / 2 + random % (delay / 2);
	m->retry_ns = gs_clock_mono_ns() + delay;
}

static void note_failure(struct gs_mysql *m, const char *why)
{
	pthread_mutex_lock(&m->lock);
	m->stats.failures++;
	m->stats.is_connected = m->holder.is_connected;
	snprintf(m->stats.trouble, sizeof(m->stats.trouble), "%s", why);
	pthread_mutex_unlock(&m->lock);
	if (!m->is_reported && !m->abort)
		report_line(m, "%s does not accept samples: %s; they are buffered meanwhile",
			    m->conf.server, why);
	m->is_reported = true;
	wait_longer(m);
}

static void finish_batch(struct gs_mysql *m, const struct gs_queue_batch *b,
			 const struct mysql_result *result)
{
	bool is_refused = result->outcome == MYSQL_REFUSED;

	pthread_mutex_lock(&m->lock);
	if (is_refused)
		m->stats.rejected_samples += b->n_samples;
	else if (result->outcome == MYSQL_DONE_BEFORE)
		m->stats.repeated_samples += b->n_samples;
	else
		m->stats.samples += b->n_samples;
	if (!is_refused)
		m->stats.last_ok_wall_ns = gs_clock_wall_ns();
	m->stats.is_connected = m->holder.is_connected;
	snprintf(m->stats.trouble, sizeof(m->stats.trouble), "%s", result->text);
	gs_queue_ack(m->spool, b->seq);
	pthread_mutex_unlock(&m->lock);
	if (is_refused)
		report_line(m, "%s permanently refuses %u samples: %s", m->conf.server,
			    b->n_samples, result->text);
	else if (m->is_reported)
		report_line(m, "%s accepts samples again", m->conf.server);
	m->is_reported = m->is_reported && is_refused;
	m->n_failures = 0;
	m->retry_ns = 0;
}

static void send_batch(struct gs_mysql *m, const struct gs_queue_batch *b)
{
	const struct mysql_batch batch = {.stream = gs_queue_stream(m->spool),
					  .seq = b->seq,
					  .n_samples = b->n_samples,
					  .n_lost_samples = b->lost_samples,
					  .node = m->conf.node,
					  .rows = b->data,
					  .bytes = b->bytes};
	struct mysql_result result = {0};

	mysql_ask_store(&m->holder, &m->target, m->conf.tls_ca, &batch, &m->abort, &result);
	if (result.outcome == MYSQL_FAILED || result.outcome == MYSQL_GONE)
		note_failure(m, result.text);
	else
		finish_batch(m, b, &result);
}

/* What waits, one after the other, until there is none or one fails. */
static void send_all(struct gs_mysql *m)
{
	struct gs_queue_batch b;
	int r = 0;

	while (r != GS_QUEUE_END && m->retry_ns <= gs_clock_mono_ns() && !m->abort) {
		pthread_mutex_lock(&m->lock);
		r = gs_queue_get(m->spool, 0, &b);
		pthread_mutex_unlock(&m->lock);
		if (r == 0)
			send_batch(m, &b);
		else if (r < 0 && r != -EBADMSG && r != -EIO)
			break;
	}
}

/* False: it failed. */
static bool remove_of_table(struct gs_mysql *m, const struct mysql_table *t, const char *before)
{
	const struct mysql_delete rows = {.table = t->name,
					  .time_column = t->column[0].name,
					  .node = m->conf.node,
					  .before = before,
					  .n_max = REMOVE_MAX};
	struct mysql_result result = {.n_rows = REMOVE_MAX};

	for (int i = 0; i < REMOVE_RUNS && result.n_rows == REMOVE_MAX && !m->abort; i++) {
		mysql_ask_delete(&m->holder, &m->target, m->conf.tls_ca, &rows, &m->abort, &result);
		if (result.outcome != MYSQL_DONE) {
			if (!m->abort)
				report_line(m, "cannot remove old rows of %s: %s", t->name,
					    result.text);
			return false;
		}
		pthread_mutex_lock(&m->lock);
		m->stats.removed_rows += result.n_rows;
		pthread_mutex_unlock(&m->lock);
	}
	return true;
}

/* Only when a batch was just stored: the server is there. */
static void remove_old(struct gs_mysql *m)
{
	char before[MYSQL_TIME_BYTES];
	bool done = true;

	if (!m->conf.retention_ns || !m->holder.is_connected || m->remove_ns > gs_clock_mono_ns())
		return;
	mysql_format_time((int64_t)(gs_clock_wall_ns() - m->conf.retention_ns), true, before);
	for (size_t i = 0; i < MYSQL_TABLES && done && !m->abort; i++)
		if ((m->tables & mysql_tables[i].schemas) && !mysql_tables[i].is_kept)
			done = remove_of_table(m, &mysql_tables[i], before);
	m->remove_ns = gs_clock_mono_ns() + REMOVE_NS;
}

/* Until there is something to send, or it is time to try again, or to end. */
static bool wait_for_work(struct gs_mysql *m)
{
	struct gs_queue_stats st;
	bool is_stopping;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		uint64_t now = gs_clock_mono_ns();
		struct timespec at = {(time_t)(m->retry_ns / 1000000000ull),
				      (long)(m->retry_ns % 1000000000ull)};

		gs_queue_stats(m->spool, &st);
		if (m->is_stopping || (st.n_batches && m->retry_ns <= now))
			break;
		if (st.n_batches)
			pthread_cond_timedwait(&m->wake, &m->lock, &at);
		else
			pthread_cond_wait(&m->wake, &m->lock);
	}
	is_stopping = m->is_stopping;
	pthread_mutex_unlock(&m->lock);
	return is_stopping;
}

static void *run_thread(void *arg)
{
	struct gs_mysql *m = arg;
	bool is_stopping = false;

	while (!is_stopping) {
		is_stopping = wait_for_work(m);
		if (is_stopping)
			m->retry_ns = 0;
		send_all(m);
		if (!is_stopping)
			remove_old(m);
	}
	mysql_end_sender(&m->holder);
	return NULL;
}

/* --- life --- */

static bool is_local(const struct mysql_target *t)
{
	return !t->host || strcmp(t->host, "localhost") == 0 || strncmp(t->host, "127.", 4) == 0 ||
	       strcmp(t->host, "::1") == 0;
}

static int set_target(struct gs_mysql *m, struct gs_err *err)
{
	const struct gs_mysql_conf *c = &m->conf;
	struct mysql_target *t = &m->target;
	int r;

	if (!mysql_split_server(c->server, m->host, m->socket, &t->port))
		return gs_err_set(err, -EINVAL, "mysql.server: %s is no server", c->server);
	r = gs_secret_read(c->password_file, "the password of mysql", m->password,
			   sizeof(m->password), err);
	if (r < 0)
		return r;
	t->host = m->host[0] ? m->host : NULL;
	t->socket = m->socket[0] ? m->socket : NULL;
	t->database = c->database;
	t->user = c->user;
	t->password = m->password;
	t->tls = c->tls && (c->tls_ca[0] || !is_local(t));
	t->has_authorities = c->tls_ca[0] != 0;
	return 0;
}

static int open_spool(struct gs_mysql *m, struct gs_err *err)
{
	struct gs_queue_options qo = {.size = sizeof(qo), .segment_bytes = 1 << 20};
	char parent[sizeof(m->conf.spool)];
	char *slash;

	qo.dir = m->conf.spool[0] ? m->conf.spool : NULL;
	qo.max_bytes = qo.max_memory_bytes = (uint64_t)m->conf.spool_max_mib << 20;
	/* The queue makes its folder, but not the one around it. */
	memcpy(parent, m->conf.spool, sizeof(parent));
	slash = strrchr(parent, '/');
	if (qo.dir && slash && slash > parent) {
		*slash = 0;
		(void)mkdir(parent, 0755);
	}
	return gs_queue_open(&qo, &m->spool, err);
}

static void free_mysql(struct gs_mysql **mysql)
{
	struct gs_mysql *m = *mysql;

	mysql_end_sender(&m->holder);
	gs_queue_close(&m->spool);
	gs_sampler_free(&m->sampler);
	gs_buf_fini(&m->rows);
	explicit_bzero(m->password, sizeof(m->password));
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->wake);
	gs_free_p(mysql);
}

int gs_mysql_start(const struct gs_mysql_options *options, struct gs_mysql **ret,
		   struct gs_err *err)
{
	struct gs_mysql *m;
	pthread_condattr_t attr;
	int r;

	*ret = NULL;
	if (!options->conf->server[0])
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return gs_err_set(err, -ENOMEM, "no memory");
	m->o = *options;
	m->conf = *options->conf;
	m->holder.process = GS_SANDBOX_NO_CHILD;
	m->tables = mysql_schema_tables(m->conf.schema);
	m->rows = GS_BUF_INIT(GS_QUEUE_BATCH_MAX);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&m->lock, NULL);
	if (!m->conf.node[0])
		(void)gethostname(m->conf.node, sizeof(m->conf.node) - 1);
	r = set_target(m, err);
	if (r == 0)
		r = gs_sampler_new(&m->sampler, err);
	if (r == 0)
		r = mysql_start_sender(&m->holder, err);
	if (r == 0)
		r = open_spool(m, err);
	if (r == 0) {
		r = -pthread_create(&m->thread, NULL, run_thread, m);
		if (r < 0)
			(void)gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	if (r < 0) {
		free_mysql(&m);
		return gs_err_prefix(err, r, "mysql");
	}
	*ret = m;
	return 0;
}

bool gs_mysql_take_turn(struct gs_mysql *m)
{
	uint64_t now = gs_clock_mono_ns();

	if (now + EARLY_NS < m->due_ns)
		return false;
	m->due_ns = m->due_ns + m->conf.interval_ns > now ? m->due_ns + m->conf.interval_ns
							  : now + m->conf.interval_ns;
	return true;
}

static int queue_sample(struct gs_mysql *m, const struct gs_node_snapshot *node,
			const struct gs_traffic_growth *traffic)
{
	struct gs_wire_out out = {&m->rows, 0};
	struct gs_queue_batch b = {
		.first_wall_ns = node->wall_ns, .last_wall_ns = node->wall_ns, .n_samples = 1};
	int r;

	gs_buf_reset(&m->rows);
	mysql_put_sample(&out, m->tables, m->conf.node, node, traffic);
	b.data = m->rows.data;
	b.bytes = m->rows.bytes;
	b.raw_bytes = (uint32_t)m->rows.bytes;
	pthread_mutex_lock(&m->lock);
	r = out.r < 0 ? out.r : gs_queue_put(m->spool, &b);
	pthread_cond_signal(&m->wake);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int gs_mysql_put(struct gs_mysql *m, struct gs_gpu_snapshot *gpu, struct gs_job_accounts *jobs,
		 const struct gs_traffic_growth *traffic)
{
	struct gs_node_snapshot *node = calloc(1, sizeof(*node));
	int r;

	if (!node) {
		gs_job_accounts_free(&jobs);
		return -ENOMEM;
	}
	node->gpu = gpu;
	node->jobs = jobs;
	r = gs_sampler_fill(m->sampler, false, true, node);
	if (r == 0)
		r = queue_sample(m, node, traffic);
	node->gpu = NULL; /* not ours */
	gs_node_snapshot_free(&node);
	return r;
}

uint64_t gs_mysql_stop(struct gs_mysql **mysql, uint64_t drain_ns)
{
	struct gs_mysql *m = *mysql;
	struct gs_mysql_stats stats;
	struct timespec until;

	if (!m)
		return 0;
	pthread_mutex_lock(&m->lock);
	m->is_stopping = true;
	pthread_cond_signal(&m->wake);
	pthread_mutex_unlock(&m->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(drain_ns / 1000000000ull);
	if (pthread_timedjoin_np(m->thread, NULL, &until) != 0) {
		m->abort = true;
		pthread_join(m->thread, NULL);
	}
	gs_mysql_read_stats(m, &stats);
	free_mysql(mysql);
	return stats.waiting_samples;
}

void gs_mysql_read_stats(struct gs_mysql *m, struct gs_mysql_stats *ret_stats)
{
	struct gs_queue_stats st;

	pthread_mutex_lock(&m->lock);
	gs_queue_stats(m->spool, &st);
	*ret_stats = m->stats;
	pthread_mutex_unlock(&m->lock);
	ret_stats->waiting_samples = st.n_samples;
	ret_stats->lost_samples = st.lost_samples;
}
