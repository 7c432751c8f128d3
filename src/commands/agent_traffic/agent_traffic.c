/*
 * Counts TCP traffic. Programs in the kernel add it up in rows (sources/traffic). A thread removes unused rows from the
 * kernel; each request for figures also reads the rows at that time.
 */
#include "commands/agent_traffic/agent_traffic.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/common/cli.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "sources/identity/job.h"
#include "sources/traffic/table.h"

#define PAUSE_NS 5000000000ull /* between two readings of the thread */

#define ASKERS_MAX 256 /* clients that are listed by address in one growth */

struct agent_traffic {
	pthread_t thread;
	pthread_mutex_t lock; /* protects all below; ollama_port does not change */
	pthread_cond_t wake;
	bool stop;
	struct gs_traffic *source;      /* owned, as the next two */
	struct gs_traffic_table *table; /* rows as peers */
	struct gs_jobs *jobs;           /* which job a process belongs to */
	uint16_t ollama_port;
};

static void job_of(void *ctx, uint32_t pid, char *out, size_t bytes)
{
	struct agent_traffic *t = ctx;
	struct gs_job_task task;
	const struct gs_job *job = gs_jobs_lookup(t->jobs, pid, &task);
	/* Other kinds (users, process trees) would add nothing to the name of the application. */
	bool is_one = job && job->kind != GS_JOB_NONE && job->kind <= GS_JOB_UNIT;

	snprintf(out, bytes, "%s", is_one ? job->id : "");
}

/* Adds what the kernel counted since the last time, and removes rows that are no longer used. The caller holds the lock.
 * 0, or a negative errno that is logged. */
static int read_rows(struct agent_traffic *t)
{
	uint64_t now_ns = gs_clock_mono_ns();
	const struct gs_traffic_key *key;
	struct gs_traffic_found *found;
	struct gs_traffic_row last;
	size_t n;
	int r = gs_traffic_read(t->source, &found, &n);

	if (r == 0)
		r = gs_traffic_table_take(t->table, found, n, now_ns);
	if (r < 0) {
		gs_log(GS_LOG_WARNING, GS_LOG_HTTP, "agent: traffic: cannot read: %s",
		       strerror(-r));
		return r;
	}
	while ((key = gs_traffic_table_next_idle(t->table, now_ns)) != NULL) {
		/* Between reading and deleting a row, a new connection may count in it and be lost. Rows are
		 * deleted only after a long idle time, which makes that unlikely. */
		r = gs_traffic_take(t->source, key, &last);
		gs_traffic_table_end(t->table, key, r == 0 ? &last : NULL);
	}
	return 0;
}

static void *keep_reading(void *arg)
{
	struct agent_traffic *t = arg;
	struct timespec due;
	uint64_t due_ns;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		(void)read_rows(t);
		due_ns = gs_clock_mono_ns() + PAUSE_NS;
		due.tv_sec = (time_t)(due_ns / 1000000000);
		due.tv_nsec = (long)(due_ns % 1000000000);
		while (!t->stop && pthread_cond_timedwait(&t->wake, &t->lock, &due) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Splits a list that was checked already. Returns how many ports it has, which may be more than fit. */
static size_t split_ports(const char *text, uint16_t port[GS_TRAFFIC_PORTS])
{
	size_t n = 0;

	for (; *text; n++) {
		char *end;
		long number = strtol(text, &end, 10);

		if (n < GS_TRAFFIC_PORTS)
			port[n] = (uint16_t)number;
		text = end + (*end == ',');
	}
	return n;
}

static void free_traffic(struct agent_traffic *t)
{
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	gs_traffic_close(&t->source);
	gs_traffic_table_free(&t->table);
	gs_jobs_free(&t->jobs);
	free(t);
}

static int open_traffic(struct agent_traffic *t, const struct agent_traffic_conf *conf,
			struct gs_err *err)
{
	const struct gs_traffic_table_options table = {.size = sizeof(table),
						       .max_peers = (uint32_t)conf->max_peers,
						       .max_named = (uint32_t)conf->peers,
						       .linger_ns = conf->linger_ns,
						       .job_of = job_of,
						       .ctx = t};
	/* Only the id is shown, so neither slurmd nor the controller is asked. */
	const struct gs_jobs_options jobs = {
		.size = sizeof(jobs), .no_node = true, .no_controller = true};
	uint16_t port[GS_TRAFFIC_PORTS];
	const struct gs_traffic_options source = {.size = sizeof(source),
						  .port = port,
						  .n_ports = split_ports(conf->ports, port),
						  .max_rows = (uint32_t)conf->max_peers};
	int r = gs_traffic_table_new(&table, gs_clock_mono_ns(), &t->table);

	if (source.n_ports > GS_TRAFFIC_PORTS)
		return gs_err_set(err, -EINVAL, "traffic.ports: at most %d ports",
				  GS_TRAFFIC_PORTS);
	if (r == 0)
		r = gs_jobs_new(&jobs, &t->jobs, err);
	return r == 0 ? gs_traffic_open(&source, &t->source, err) : r;
}

struct agent_traffic *agent_traffic_start(const struct agent_traffic_conf *conf)
{
	struct gs_err err = {{0}};
	struct agent_traffic *t;
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	if (!conf->enabled)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t) {
		gs_cli_print_message("agent: traffic: %s", strerror(ENOMEM));
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	t->ollama_port = (uint16_t)conf->ollama_port;
	r = open_traffic(t, conf, &err);
	if (r == 0) {
		/* Signals are the main thread's. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = -pthread_create(&t->thread, NULL, keep_reading, t);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (r < 0) {
		gs_cli_print_message("agent: traffic is not counted: %s", gs_err_text(&err, r));
		free_traffic(t);
		return NULL;
	}
	if (gs_traffic_missing(t->source))
		gs_cli_print_message("agent: traffic: %s", gs_traffic_missing(t->source));
	return t;
}

void agent_traffic_stop(struct agent_traffic **ref)
{
	struct agent_traffic *t = *ref;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	free_traffic(t);
	*ref = NULL;
}

bool agent_traffic_copy(struct agent_traffic *t, struct gs_traffic_list *ret_list,
			const char **ret_missing)
{
	struct gs_traffic_state losses;
	int r;

	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	(void)read_rows(t);
	r = gs_traffic_table_copy(t->table, ret_list);
	gs_traffic_losses(t->source, &losses);
	pthread_mutex_unlock(&t->lock);
	if (r < 0)
		return false;
	ret_list->full_rows = losses.full_rows;
	ret_list->lost = losses.lost_marks;
	*ret_missing = gs_traffic_missing(t->source);
	return true;
}

bool agent_traffic_grown(struct agent_traffic *t, struct gs_traffic_growth *ret_growth)
{
	int r;

	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	(void)read_rows(t);
	r = gs_traffic_table_grown(t->table, t->ollama_port, ASKERS_MAX, gs_clock_mono_ns(),
				   ret_growth);
	pthread_mutex_unlock(&t->lock);
	if (r < 0)
		return false;
	ret_growth->sends_known = !gs_traffic_missing(t->source);
	return true;
}
