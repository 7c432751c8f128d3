/*
 * Reports of this node's jobs for a head, out of their running totals: one of each job that runs,
 * now and then, which takes the place of the one before, and a last one when it has ended. The
 * thread that reads the jobs makes them; a link of their own delivers them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "analysis/job_accounting/accounting.h"
#include "analysis/job_accounting/ranks.h"
#include "commands/agent/agent_report.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "commands/common/cli.h"
#include "analysis/job_report/delivery.h"
#include "net/uplink/uplink.h"

struct entry { /* a job that is reported to the head */
	struct gs_job job;
	uint64_t first_ns;
	char report[65];
	bool finished;   /* its last report was sent, unless it comes to life again */
	uint64_t due_ns; /* monotonic: of the next report while it runs */
};

struct agent_report {
	struct gs_uplink *link; /* owned */
	struct gs_rules *rules;
	uint64_t interval_ns;
	struct gs_buf text;
	char host[65], kernel[65];
	int64_t memory_bytes;
	/* Owned each; NULL: none. */
	struct entry *entry[GS_ACCOUNTING_JOBS_MAX + GS_JOB_CLAIMS_MAX];
	_Atomic uint64_t n_kept, n_failed;
	bool reported_failed;
};

/* --- a report out of the totals --- */

static int64_t wall_of(uint64_t boot_ns)
{
	return (int64_t)(gs_clock_wall_ns() - gs_clock_boot_ns() + boot_ns);
}

static double stalled_share(const struct gs_job_account *a, enum gs_pressure p, int all,
			    uint64_t ns)
{
	return a->pressure_ns[p][all] >= 0 && ns
		       ? fmin(1, (double)a->pressure_ns[p][all] / (double)ns)
		       : NAN;
}

static void fill_usage(const struct agent_report *r, const struct gs_job_account *a,
		       struct gs_job_usage *u)
{
	uint64_t end_ns = a->last_ns, ns = end_ns > a->first_ns ? end_ns - a->first_ns : 0;
	double start_s = (double)a->job.start_s, now_s = (double)wall_of(end_ns) / 1e9;

	*u = (struct gs_job_usage){
		.elapsed_ns = ns,
		.cores = a->cores,
		.work = a->work,
		.pace = a->pace,
		.sched_rows = a->known >> GS_JOB_KNOWS_SYSCALLS & 1,
		.known = a->known & ~(1u << GS_JOB_KNOWS_PRESSURE | 1u << GS_JOB_KNOWS_CUDA |
				      1u << GS_JOB_KNOWS_MPI),
		.memory_peak_bytes = a->memory_peak_bytes,
		.memory_limit_bytes = a->memory_limit_bytes,
		.memory_anonymous_bytes = -1,
		.memory_cache_bytes = -1,
		.memory_reclaimable_bytes = -1,
		.machine_bytes = r->memory_bytes,
		.pressure_ratio = {[GS_STALL_CPU_SOME] = stalled_share(a, GS_PRESSURE_CPU, 0, ns),
				   [GS_STALL_MEMORY_SOME] =
					   stalled_share(a, GS_PRESSURE_MEMORY, 0, ns),
				   [GS_STALL_MEMORY_FULL] =
					   stalled_share(a, GS_PRESSURE_MEMORY, 1, ns),
				   [GS_STALL_IO_SOME] = stalled_share(a, GS_PRESSURE_IO, 0, ns),
				   [GS_STALL_IO_FULL] = stalled_share(a, GS_PRESSURE_IO, 1, ns)},
		.n_gpus = a->n_gpus < 0 ? NAN : __builtin_popcountll(a->gpu_seen_mask),
		.gpus_idle = a->gpu_seen_mask
				     ? __builtin_popcountll(a->gpu_seen_mask & ~a->gpu_used_mask)
				     : NAN,
		.gpu_ratio = a->util_ratio,
		.gpu_memory_ratio = a->gpu_memory_ratio,
		.sm_ratio = a->sm_ratio,
		.tensor_ratio = a->tensor_ratio,
		.dram_ratio = a->dram_ratio,
		.energy_joules = a->energy_joules,
		.gpu_mask = a->gpu_seen_mask,
		.gpu_idle_mask = a->gpu_seen_mask & ~a->gpu_used_mask,
		.launches = NAN,
		.nccl_ratio = NAN,
		.imbalance_ratio = NAN,
		.slowest_rank = NAN,
		.run_s = start_s > 0 && now_s > start_s ? now_s - start_s : NAN,
		.limit_s = a->job.limit_s > 0 ? (double)a->job.limit_s : NAN,
	};
	if (!isnan(u->pressure_ratio[GS_STALL_CPU_SOME]))
		u->known |= 1u << GS_JOB_KNOWS_PRESSURE;
}

/* The longest calls by name; only with all of them do they add up. */
static int fill_calls(const struct gs_job_account *a, struct gs_job_report *job)
{
	uint64_t sum = 0;

	job->calls = calloc(a->n_calls + 1u, sizeof(*job->calls));
	if (!job->calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->n_calls; i++) {
		const struct gs_job_call_count *from = &a->calls[i];
		struct gs_job_report_call *to = &job->calls[i];

		memcpy(to->name, from->name, sizeof(to->name));
		to->calls = from->calls;
		to->errors = from->errors;
		to->total_ns = from->total_ns;
		to->timed = from->total_ns ? from->calls : 0;
		sum += from->calls;
	}
	job->n_calls = a->n_calls;
	job->calls_partial = sum != a->work.syscalls;
	return 0;
}

static void fill_session(const struct agent_report *r, const struct gs_job_accounts *accounts,
			 const struct gs_job_account *a, struct gs_job_report_session *s)
{
	const struct gs_job_account_trouble *t = &accounts->trouble;

	*s = (struct gs_job_report_session){
		.start_wall_ns = wall_of(a->first_ns),
		.end_wall_ns = wall_of(a->last_ns),
		.elapsed_ns = a->last_ns - a->first_ns,
		.n_cpus = (int32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.memory_bytes = r->memory_bytes,
		.ebpf = accounts->probes,
		.slurm = a->job.kind == GS_JOB_SLURM,
		.filter = "all",
		.failed_reads = t->failed_reads,
	};
	memcpy(s->host, r->host, sizeof(s->host));
	memcpy(s->kernel, r->kernel, sizeof(s->kernel));
	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++)
		snprintf(s->source[i], sizeof(s->source[i]), "%s",
			 !(a->known >> i & 1) ? (accounts->why[0] ? accounts->why : "not known")
			 : accounts->probes   ? "the agent's totals, kernel probes"
					      : "the agent's totals, procfs");
	snprintf(s->source[GS_JOB_KNOWS_CUDA], sizeof(s->source[0]),
		 "not measured: the agent has no probes on CUDA and NCCL; gpuscope job has");
	snprintf(s->source[GS_JOB_KNOWS_MPI], sizeof(s->source[0]),
		 "not measured: the agent has no probes on MPI; gpuscope job has");
	snprintf(s->ranks_source, sizeof(s->ranks_source), "%s",
		 accounts->probes ? "the agent's totals, kernel probes"
				  : "not measured: the agent has no kernel probes here");
	for (unsigned i = 0; i < GS_STALL_COUNT; i++)
		s->pressure_ratio[i] = NAN;
	if (t->lost || t->not_followed)
		snprintf(
			s->loss, sizeof(s->loss),
			"on this node since the agent began: %llu rows and events of the probes, %llu processes without room",
			(unsigned long long)t->lost, (unsigned long long)t->not_followed);
}

static int make_report(struct agent_report *r, const struct gs_job_accounts *accounts,
		       const struct gs_job_account *a, const struct gs_job_report_delivery *d)
{
	struct gs_job_report_session session;
	struct gs_job_report *job = calloc(1, sizeof(*job));
	int e = job ? fill_calls(a, job) : -ENOMEM;

	if (e == 0)
		fill_usage(r, a, &job->usage); /* the ranks' imbalance goes into it */
	if (e == 0)
		e = gs_accounting_ranks_report(a->ranks, a->n_ranks, job);
	if (e < 0) {
		free(job ? job->ranks : NULL);
		free(job ? job->calls : NULL);
		free(job);
		return e;
	}
	fill_session(r, accounts, a, &session);
	session.jobs = job;
	session.n_jobs = 1;
	job->job = a->job;
	job->n_processes_seen = a->n_processes;
	job->ended = !a->n_processes;
	gs_job_report_figures_of(&job->usage, &job->figures);
	gs_verdict_of(r->rules, &job->figures, &job->verdict);
	e = gs_job_report_delivery_write(&r->text, &session, 0, d);
	gs_job_report_session_fini(&session);
	return e;
}

/* --- sending --- */

static void send_report(struct agent_report *r, const struct gs_job_accounts *accounts,
			const struct gs_job_account *a, struct entry *e, unsigned state)
{
	struct gs_job_report_delivery d = {.state = state,
					   .source = "agent",
					   .begin_wall_ns = wall_of(a->first_ns),
					   .end_wall_ns = wall_of(a->last_ns)};
	const struct gs_uplink_span span = {
		.first_wall_ns = d.begin_wall_ns, .last_wall_ns = d.end_wall_ns, .n_samples = 1};
	struct gs_batch batch;
	int code;

	memcpy(d.report, e->report, sizeof(d.report));
	snprintf(d.kind, sizeof(d.kind), "%s", gs_job_kind_name(a->job.kind));
	code = make_report(r, accounts, a, &d);
	batch = (struct gs_batch){r->text.data, r->text.bytes};
	if (code == 0)
		code = gs_uplink_push(r->link, &batch, &span);
	if (code == 0) {
		r->n_kept++;
		return;
	}
	r->n_failed++;
	if (!r->reported_failed)
		gs_cli_print_message(
			"agent: cannot spool the report of job %s for the head: %s; further failures are only counted",
			a->job.id, strerror(-code));
	r->reported_failed = true;
}

static bool is_same_job(const struct entry *e, const struct gs_job_account *a)
{
	if (!e || e->first_ns != a->first_ns || e->job.kind != a->job.kind)
		return false;
	/* What users call a job of Slurm may be learned later than its number. */
	if (a->job.kind != GS_JOB_SLURM || a->job.job_id <= 0)
		return strcmp(e->job.id, a->job.id) == 0;
	/* A claim that is proven goes on as the job; those of others to it do not. */
	return e->job.job_id == a->job.job_id && (!e->job.is_claimed || e->job.uid == a->job.uid) &&
	       (e->job.is_claimed || !a->job.is_claimed);
}

static struct entry *entry_of(struct agent_report *r, const struct gs_job_account *a,
			      uint64_t now_ns)
{
	struct entry **place = NULL;

	for (size_t i = 0; i < GS_ARRAY_LEN(r->entry); i++) {
		if (is_same_job(r->entry[i], a))
			return r->entry[i];
		if (!r->entry[i] && !place)
			place = &r->entry[i];
	}
	if (!place || !(*place = malloc(sizeof(**place))))
		return NULL;
	**place = (struct entry){
		.job = a->job, .first_ns = a->first_ns, .due_ns = now_ns + r->interval_ns};
	if (gs_job_report_delivery_name((*place)->report) < 0)
		gs_free_p(place);
	return *place;
}

/* Before new ones need their places. */
static void forget_gone(struct agent_report *r, const struct gs_job_accounts *accounts)
{
	for (size_t k = 0; k < GS_ARRAY_LEN(r->entry); k++) {
		bool there = !r->entry[k];

		for (uint32_t i = 0; !there && i < accounts->n_accounts; i++)
			there = is_same_job(r->entry[k], &accounts->account[i]);
		if (!there)
			gs_free_p(&r->entry[k]);
	}
}

void agent_report_take(struct agent_report *r, const struct gs_job_accounts *accounts)
{
	uint64_t now_ns = gs_clock_mono_ns();
	struct gs_uplink_stats st;

	if (!r)
		return;
	gs_uplink_stats(r->link, &st);
	forget_gone(r, accounts);
	for (uint32_t i = 0; i < accounts->n_accounts; i++) {
		const struct gs_job_account *a = &accounts->account[i];
		struct entry *e = entry_of(r, a, now_ns);

		if (!e) {
			r->n_failed++;
			continue;
		}
		if (!a->n_processes) {
			if (!e->finished)
				send_report(r, accounts, a, e, GS_JOB_DELIVERY_FINISHED);
			e->finished = true;
			continue;
		}
		e->finished = false;
		/* While a head is away its spool need not hold what the next report replaces. */
		if (now_ns < e->due_ns || st.waiting_batches)
			continue;
		e->due_ns = now_ns + r->interval_ns;
		send_report(r, accounts, a, e, GS_JOB_DELIVERY_RUNNING);
	}
}

static void forget_all(struct agent_report *r)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(r->entry); i++)
		gs_free_p(&r->entry[i]);
}

void agent_report_end(struct agent_report *r, const struct gs_job_accounts *accounts)
{
	if (!r || !accounts)
		return;
	for (uint32_t i = 0; i < accounts->n_accounts; i++) {
		const struct gs_job_account *a = &accounts->account[i];
		struct entry *e = a->n_processes ? entry_of(r, a, gs_clock_mono_ns()) : NULL;

		if (e)
			send_report(r, accounts, a, e, GS_JOB_DELIVERY_PARTIAL);
	}
	forget_all(r);
}

/* --- life --- */

int agent_report_start(const struct gs_uplink_options *link, uint64_t interval_ns,
		       struct agent_report **ret_report, struct gs_err *err)
{
	struct agent_report *r = calloc(1, sizeof(*r));
	struct gs_uplink_options o = *link;
	struct utsname names;
	struct sysinfo info;
	char spool[320];
	int e = 0;

	if (!r)
		return gs_err_set(err, -ENOMEM, "no memory");
	r->text = GS_BUF_INIT(2 * GS_JOB_DELIVERY_MAX);
	r->interval_ns = interval_ns;
	r->memory_bytes = sysinfo(&info) == 0 ? (int64_t)info.totalram * info.mem_unit : -1;
	if (uname(&names) == 0) {
		snprintf(r->host, sizeof(r->host), "%.64s", names.nodename);
		snprintf(r->kernel, sizeof(r->kernel), "%.64s", names.release);
	}
	r->rules = gs_rules_new();
	if (!r->rules)
		e = gs_err_set(err, -ENOMEM, "no memory");
	o.kind = GS_UPLINK_JOBS;
	o.desired = NULL; /* the link of samples gets what is to be measured */
	if (o.spool_dir) {
		snprintf(spool, sizeof(spool), "%s-jobs", o.spool_dir);
		o.spool_dir = spool;
	}
	if (e == 0)
		e = gs_uplink_start(&o, &r->link, err);
	if (e < 0)
		(void)agent_report_stop(&r, 0);
	else
		*ret_report = r;
	return e;
}

uint64_t agent_report_stop(struct agent_report **report, uint64_t drain_ns)
{
	struct agent_report *r = *report;
	uint64_t left;

	if (!r)
		return 0;
	left = gs_uplink_stop(&r->link, drain_ns, false);
	forget_all(r);
	gs_rules_free(&r->rules);
	gs_buf_fini(&r->text);
	gs_free_p(report);
	return left;
}

void agent_report_stats(struct agent_report *r, struct agent_report_stats *ret)
{
	struct gs_uplink_stats st;

	gs_uplink_stats(r->link, &st);
	*ret = (struct agent_report_stats){.reports = r->n_kept,
					   .failed = r->n_failed,
					   .waiting = st.waiting_samples,
					   .lost = st.lost_samples};
}
