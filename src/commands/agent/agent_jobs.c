/*
 * The jobs of this node in the agent: a thread of its own reads them (analysis/job_accounting), so that neither
 * a slow /proc holds up the GPUs nor a hung driver the jobs; the server renders what was read last.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "analysis/job_accounting/accounting.h"
#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_head.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_state.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "commands/common/cli.h"
#include "output/metrics/job.h"

struct agent_jobs {
	struct agent_state *state; /* lent: the GPUs */
	struct agent_jobs_conf conf;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	struct gs_job_accounts *latest; /* owned; NULL before the first reading */
	uint64_t reads, failed, read_cpu_ns;
};

static uint32_t kinds_of(const struct agent_jobs_conf *c)
{
	return (uint32_t)c->slurm << GS_JOB_SLURM | (uint32_t)c->pods << GS_JOB_POD |
	       (uint32_t)c->containers << GS_JOB_CONTAINER | (uint32_t)c->units << GS_JOB_UNIT |
	       (uint32_t)c->cgroups << GS_JOB_CGROUP | (uint32_t)c->users << GS_JOB_USER;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
		       ? (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec
		       : 0;
}

static struct gs_gpu_snapshot *gpus_now(struct agent_jobs *j)
{
	struct gs_gpu_snapshot *copy = NULL;

	pthread_mutex_lock(&j->state->lock);
	if (j->state->latest && j->state->latest->state == GS_GPU_STATE_OK)
		copy = gs_gpu_snapshot_copy(j->state->latest);
	pthread_mutex_unlock(&j->state->lock);
	return copy;
}

/* It outlives the jobs. */
static struct agent_head *head_of(struct agent_jobs *j)
{
	struct agent_head *head;

	pthread_mutex_lock(&j->state->lock);
	head = j->state->head;
	pthread_mutex_unlock(&j->state->lock);
	return head;
}

static void read_once(struct agent_jobs *j, struct gs_accounting *account)
{
	struct gs_gpu_snapshot *gpus = gpus_now(j);
	struct gs_job_accounts *fresh = NULL, *old = NULL;
	struct gs_err err = {{0}};
	int r = gs_accounting_read(account, gpus, &fresh, &err);

	gs_gpu_snapshot_free(&gpus);
	if (r == 0)
		agent_head_take_jobs(head_of(j), fresh);
	if (r == 0)
		gs_log(GS_LOG_DEBUG, GS_LOG_JOBS, "%u jobs read in %.1f ms", fresh->n_accounts,
		       (double)fresh->read_ns / 1e6);
	pthread_mutex_lock(&j->lock);
	j->reads++;
	j->read_cpu_ns = thread_cpu_ns();
	if (r < 0) {
		/* The same trouble each time is reported once. */
		if (!j->failed++)
			gs_cli_print_message("agent: cannot read the jobs: %s",
					     gs_err_text(&err, r));
	} else {
		old = j->latest;
		j->latest = fresh;
	}
	pthread_mutex_unlock(&j->lock);
	gs_job_accounts_free(&old);
}

struct gs_job_accounts *agent_jobs_copy(struct agent_jobs *j)
{
	struct gs_job_accounts *copy;

	pthread_mutex_lock(&j->lock);
	copy = j->latest ? gs_job_accounts_copy(j->latest) : NULL;
	pthread_mutex_unlock(&j->lock);
	return copy;
}

void agent_jobs_times(struct agent_jobs *j, struct gs_job_process **ret, uint32_t *ret_n)
{
	struct gs_job_process *times = NULL;
	uint32_t n;

	pthread_mutex_lock(&j->lock);
	n = j->latest ? j->latest->n_processes : 0;
	if (n)
		times = malloc(n * sizeof(*times));
	if (times)
		memcpy(times, j->latest->process, n * sizeof(*times));
	pthread_mutex_unlock(&j->lock);
	*ret = times;
	*ret_n = times ? n : 0;
}

static void *read_on(void *arg)
{
	struct agent_jobs *j = arg;
	struct gs_accounting *account = NULL;
	struct gs_err err = {{0}};
	const struct gs_accounting_options o = {
		.size = sizeof(o),
		.kinds = kinds_of(&j->conf),
		.max_jobs = (uint32_t)j->conf.max,
		.probes = j->conf.probes,
		.ask = j->conf.controller,
		.n_calls = (uint32_t)j->conf.syscalls,
		.linger_ns = j->conf.linger_ns,
		.window_ns = j->conf.window_ns,
		.gpu_idle_ns = j->conf.gpu_idle_ns,
	};
	int r = gs_accounting_new(&o, &account, &err);
	struct timespec due;

	if (r < 0) {
		gs_cli_print_message("agent: no jobs: %s", gs_err_text(&err, r));
		return NULL;
	}
	clock_gettime(CLOCK_MONOTONIC, &due);
	pthread_mutex_lock(&j->lock);
	while (!j->stop) {
		uint64_t interval_ns = j->conf.interval_ns, now_ns, due_ns;

		pthread_mutex_unlock(&j->lock);
		read_once(j, account);
		pthread_mutex_lock(&j->lock);
		/* A reading that took long is not followed by one that makes up for it. */
		now_ns = gs_clock_mono_ns();
		due_ns = (uint64_t)due.tv_sec * 1000000000 + (uint64_t)due.tv_nsec + interval_ns;
		if (due_ns < now_ns)
			due_ns = now_ns;
		due.tv_sec = (time_t)(due_ns / 1000000000);
		due.tv_nsec = (long)(due_ns % 1000000000);
		while (!j->stop && pthread_cond_timedwait(&j->wake, &j->lock, &due) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&j->lock);
	agent_head_end_jobs(head_of(j), j->latest);
	gs_accounting_free(&account);
	return NULL;
}

int agent_jobs_start(const struct agent_jobs_conf *conf, struct agent_state *state,
		     struct agent_jobs **ret, struct gs_err *err)
{
	struct agent_jobs *j;
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	*ret = NULL;
	if (!conf->enabled || !kinds_of(conf))
		return 0;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->conf = *conf;
	j->state = state;
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&j->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&j->thread, NULL, read_on, j);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		pthread_cond_destroy(&j->wake);
		pthread_mutex_destroy(&j->lock);
		free(j);
		return gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	*ret = j;
	return 0;
}

void agent_jobs_stop(struct agent_jobs **ref)
{
	struct agent_jobs *j = *ref;

	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	j->stop = true;
	pthread_cond_signal(&j->wake);
	pthread_mutex_unlock(&j->lock);
	pthread_join(j->thread, NULL);
	pthread_cond_destroy(&j->wake);
	pthread_mutex_destroy(&j->lock);
	gs_job_accounts_free(&j->latest);
	free(j);
	*ref = NULL;
}

bool agent_jobs_same(const struct agent_jobs_conf *a, const struct agent_jobs_conf *b)
{
	return a->enabled == b->enabled && kinds_of(a) == kinds_of(b) && a->probes == b->probes &&
	       a->controller == b->controller && a->interval_ns == b->interval_ns &&
	       a->max == b->max && a->syscalls == b->syscalls && a->linger_ns == b->linger_ns &&
	       a->window_ns == b->window_ns && a->gpu_idle_ns == b->gpu_idle_ns;
}

static void put_trouble(struct gs_metrics *p, const struct gs_job_account_trouble *t)
{
	const struct {
		const char *cause;
		uint64_t n;
	} of[] = {
		{"not_followed", t->not_followed},    {"lost", t->lost},
		{"rank_left_out", t->ranks_left_out}, {"failed_read", t->failed_reads},
		{"slurm", t->questions_failed},
	};

	gs_metrics_one(p, "gpuscope_agent_jobs_left_out", GS_METRICS_COUNTER,
		       (double)t->jobs_left_out, "Jobs that are not exported because of jobs.max.");
	gs_metrics_one(
		p, "gpuscope_agent_job_claims_left_out", GS_METRICS_COUNTER,
		(double)t->claims_left_out,
		"Job claims that are not tracked: too many at once, or too many of one user.");
	gs_metrics_family(
		p, "gpuscope_agent_jobs_errors", GS_METRICS_COUNTER, "",
		"Data missing in the totals of jobs, by cause: not_followed, processes beyond the limit; lost, rows and events of the probes; rank_left_out, processes whose rank has no row because their job has too many; failed_read, files; slurm, requests to Slurm without an answer.");
	for (size_t i = 0; i < GS_ARRAY_LEN(of); i++) {
		struct gs_metrics_label l = {"cause", of[i].cause};

		gs_metrics_line(p, "", &l, 1, (double)of[i].n, 0);
	}
}

static void put_unanswered(struct gs_metrics *p, const struct gs_job_accounts *a)
{
	gs_metrics_family(
		p, "gpuscope_agent_jobs_unanswered", GS_METRICS_GAUGE, "",
		"Running Slurm jobs whose figure is missing because Slurm has not answered, by figure.");
	for (unsigned i = 0; i < GS_JOB_ASKED_COUNT; i++) {
		struct gs_metrics_label l = {"figure", gs_job_asked_name(i)};

		gs_metrics_line(p, "", &l, 1, a->unanswered[i], 0);
	}
}

void agent_jobs_render(struct agent_jobs *j, struct gs_metrics *p,
		       const struct gs_gpu_snapshot *gpus, int names)
{
	const struct gs_job_accounts *a;

	pthread_mutex_lock(&j->lock);
	a = j->latest;
	gs_metrics_one(p, "gpuscope_agent_jobs_reads", GS_METRICS_COUNTER, (double)j->reads,
		       "Readings of jobs.");
	gs_metrics_one(p, "gpuscope_agent_jobs_reads_failed", GS_METRICS_COUNTER, (double)j->failed,
		       "Readings of jobs that failed.");
	gs_metrics_one(p, "gpuscope_agent_jobs_cpu_seconds", GS_METRICS_COUNTER,
		       (double)j->read_cpu_ns / 1e9, "CPU time used to read jobs.");
	if (a) {
		struct gs_metrics_label why = {"reason", a->why};

		gs_metrics_one(p, "gpuscope_agent_jobs", GS_METRICS_GAUGE, a->n_accounts,
			       "Jobs exported, including recently ended ones.");
		gs_metrics_family(
			p, "gpuscope_agent_jobs_probes", GS_METRICS_GAUGE, "",
			"1 when the kernel counts for jobs, 0 when procfs is read: system calls, network and device I/O are then unknown. reason: why, or what this kernel cannot count.");
		gs_metrics_line(p, "", &why, 1, a->probes, 0);
		gs_metrics_one(p, "gpuscope_agent_jobs_read_duration_seconds", GS_METRICS_GAUGE,
			       (double)a->read_ns / 1e9, "How long the last reading of jobs took.");
		put_trouble(p, &a->trouble);
		put_unanswered(p, a);
		gs_metrics_jobs(p, a, gpus, (enum gs_metrics_job_names)names);
	}
	pthread_mutex_unlock(&j->lock);
}
