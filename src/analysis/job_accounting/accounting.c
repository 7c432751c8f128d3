/*
 * One reading: who is there (accounting_find.c), what they did (accounting_count.c), their groups, their
 * GPUs (accounting_gpu.c), and what comes of it: rates since the reading before, class and score of
 * the last minute (window.h).
 */
#include "analysis/job_accounting/accounting_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/host/pressure.h"
#include "analysis/job_report/report.h"
#include "sources/identity/job_cgroup.h"

#define LINGER_NS    300000000000ull
#define WINDOW_NS    60000000000ull
#define GPU_IDLE_NS  60000000000ull
#define YOUNG_NS     300000000ull /* nothing can be said of a job after less */
#define LEFT_OUT_MAX 65536

int gs_accounting_new(const struct gs_accounting_options *options, struct gs_accounting **ret,
		      struct gs_err *err)
{
	struct gs_accounting *a = calloc(1, sizeof(*a));
	struct gs_jobs_options jo = {.size = sizeof(jo), .no_controller = !options->ask};
	struct sysinfo machine;
	int r = 0;

	if (!a)
		return -ENOMEM;
	a->options = *options;
	a->max_jobs = options->max_jobs && options->max_jobs < GS_ACCOUNTING_JOBS_MAX
			      ? options->max_jobs
			      : GS_ACCOUNTING_JOBS_MAX;
	if (!a->options.kinds)
		a->options.kinds = 1u << GS_JOB_SLURM | 1u << GS_JOB_POD;
	if (!a->options.linger_ns)
		a->options.linger_ns = LINGER_NS;
	if (!a->options.window_ns)
		a->options.window_ns = WINDOW_NS;
	if (!a->options.gpu_idle_ns)
		a->options.gpu_idle_ns = GPU_IDLE_NS;
	snprintf(a->proc_root, sizeof(a->proc_root), "%s",
		 options->proc_root ? options->proc_root : "/proc");
	snprintf(a->cgroup_root, sizeof(a->cgroup_root), "%s",
		 options->cgroup_root ? options->cgroup_root : "/sys/fs/cgroup");
	jo.proc_root = a->proc_root;
	jo.cgroup_root = a->cgroup_root;
	jo.trusted_uid = options->trusted_uid;
	a->machine_bytes =
		sysinfo(&machine) == 0 ? (int64_t)machine.totalram * machine.mem_unit : -1;
	a->job_of = GS_MAP_INIT(1u << 20);
	a->left_out = a->claims_left_out = GS_MAP_INIT(LEFT_OUT_MAX);
	a->n_places = a->max_jobs + GS_JOB_CLAIMS_MAX;
	a->job = calloc(a->n_places, sizeof(*a->job));
	a->rules = options->rules;
	if (!a->rules)
		a->rules = a->own_rules = gs_rules_new();
	if (!a->job || !a->rules)
		r = -ENOMEM;
	if (r == 0)
		r = gs_jobs_new(&jo, &a->jobs, err);
	snprintf(a->why, sizeof(a->why), "there was no job yet");
	if (r < 0)
		gs_accounting_free(&a);
	*ret = a;
	return r;
}

void gs_accounting_free(struct gs_accounting **ref)
{
	struct gs_accounting *a = *ref;

	if (!a)
		return;
	gs_jobs_free(&a->jobs);
	gs_host_taskstats_close(&a->host);
	gs_rows_close(&a->rows);
	gs_rules_free(&a->own_rules);
	gs_map_fini(&a->job_of);
	gs_accounting_scan_fini(&a->scan);
	gs_map_fini(&a->left_out);
	gs_map_fini(&a->claims_left_out);
	for (uint32_t i = 0; a->job && i < a->n_places; i++) {
		free(a->job[i].calls);
		gs_accounting_ranks_fini(&a->job[i].ranks);
	}
	free(a->job);
	free(a->process);
	free(a);
	*ref = NULL;
}

/* --- groups --- */

/* The path of the job's own group, out of that of one of its processes; NULL: it has none. */
static const char *group_of(const struct gs_accounting *a, uint32_t pid,
			    struct gs_job_cgroup *group)
{
	char path[320], text[8192];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u/cgroup", a->proc_root, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	return gs_job_of_cgroup(text, group) && group->path[0] ? group->path : NULL;
}

static void read_pressure(struct gs_accounting *a, struct accounting_job *j, const char *path)
{
	struct gs_host_stalls s;
	const int64_t *const us[GS_PRESSURE_COUNT][2] = {
		{&s.total_us[GS_STALL_CPU_SOME], &s.cpu_full_us},
		{&s.total_us[GS_STALL_MEMORY_SOME], &s.total_us[GS_STALL_MEMORY_FULL]},
		{&s.total_us[GS_STALL_IO_SOME], &s.total_us[GS_STALL_IO_FULL]},
	};

	if (!gs_host_stalls_of_cgroup(a->cgroup_root, a->proc_root, 0, path, &s))
		return;
	j->total.stalls = s;
	for (int p = 0; p < GS_PRESSURE_COUNT; p++)
		for (int all = 0; all < 2; all++) {
			int64_t *sum_ns = &j->account.pressure_ns[p][all];
			int64_t *last = &j->pressure_last_ns[p][all];
			int64_t now;

			if (*us[p][all] < 0 || *us[p][all] > INT64_MAX / 1000)
				continue;
			now = *us[p][all] * 1000;
			if (*sum_ns < 0)
				*sum_ns = 0;
			if (*last >= 0 && now > *last)
				*sum_ns += now - *last;
			*last = now;
		}
}

/* Of the processes of a job that has no group of its own. */
static int64_t resident_bytes(const struct gs_accounting *a, uint32_t job)
{
	int64_t sum = -1, one;

	gs_map_for_each (&a->job_of, s) {
		if (s->value != job)
			continue;
		one = gs_host_rss_bytes(a->proc_root, (uint32_t)s->key);
		if (one >= 0)
			sum = (sum < 0 ? 0 : sum) + one;
	}
	return sum;
}

static void raise_to(int64_t *peak, int64_t now)
{
	if (now > *peak)
		*peak = now;
}

static void read_group(struct gs_accounting *a, struct accounting_job *j)
{
	struct gs_job_account *t = &j->account;
	struct gs_job_cgroup group;
	struct gs_host_cgroup c;
	const char *path;

	t->memory_bytes = j->rss_bytes;
	t->memory_limit_bytes =
		gs_host_memory_limit(t->job.mem_bytes, t->memory_limit_bytes, a->machine_bytes);
	if (t->job.n_cpus > 0)
		t->cores = t->job.n_cpus;
	path = j->any_pid ? group_of(a, j->any_pid, &group) : NULL;
	if (path && gs_host_cgroup_read(a->cgroup_root, a->proc_root, 0, path, &c)) {
		if (c.memory_bytes >= 0)
			t->memory_bytes = c.memory_bytes;
		/* The kernel's peak is of the group's whole life: right for a job's own group. */
		if (c.memory_peak_bytes > t->memory_peak_bytes)
			t->memory_peak_bytes = c.memory_peak_bytes;
		t->memory_limit_bytes = gs_host_memory_limit(
			t->memory_limit_bytes, c.memory_limit_bytes, a->machine_bytes);
		if (!(t->job.n_cpus > 0) && c.cores > 0)
			t->cores = c.cores;
		raise_to(&j->anonymous_peak, c.anonymous_bytes);
		raise_to(&j->cache_peak, c.cache_bytes);
		raise_to(&j->reclaimable_peak, c.reclaimable_bytes);
		j->total.group = c;
	}
	if (path)
		read_pressure(a, j, path);
	if (t->memory_bytes < 0 && j->any_pid && a->rows)
		t->memory_bytes = resident_bytes(a, (uint32_t)(j - a->job));
	if (t->memory_bytes > t->memory_peak_bytes)
		t->memory_peak_bytes = t->memory_bytes;
	if (t->memory_bytes >= 0)
		t->known |= 1u << GS_JOB_KNOWS_MEMORY;
	if (!(t->cores > 0))
		t->cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
}

/* --- what comes of it --- */

static bool knows_family(const struct gs_job_account *t, enum gs_job_family family)
{
	return t->known >> family & 1;
}

static double by_second(uint64_t now, uint64_t before, uint64_t ns)
{
	return ns && now >= before ? (double)(now - before) * 1e9 / (double)ns : NAN;
}

static uint64_t file_bytes(const struct gs_taskstats *w)
{
	struct gs_taskstats_io_count c = gs_taskstats_file_io(w);

	return c.read_bytes + c.write_bytes;
}

static uint64_t net_bytes(const struct gs_taskstats *w)
{
	return w->net_sent_bytes + w->net_received_bytes;
}

static void compute_rates(struct accounting_job *j)
{
	const struct gs_accounting_mark *n = &j->total, *b = &j->before;
	struct gs_job_account *t = &j->account;
	uint64_t ns = n->time_ns - b->time_ns;

	t->cpus = t->io_bps = t->net_bps = NAN;
	if (knows_family(t, GS_JOB_KNOWS_TIME))
		t->cpus =
			by_second(n->work.time_ns[GS_TIME_CPU], b->work.time_ns[GS_TIME_CPU], ns) /
			1e9;
	if (knows_family(t, GS_JOB_KNOWS_IO))
		t->io_bps = by_second(file_bytes(&n->work), file_bytes(&b->work), ns);
	if (knows_family(t, GS_JOB_KNOWS_NET))
		t->net_bps = by_second(net_bytes(&n->work), net_bytes(&b->work), ns);
	if (t->n_gpus <= 0)
		t->gpu_ratio = NAN;
	else if (n->gpu.held_ns > b->gpu.held_ns)
		t->gpu_ratio =
			gs_accounting_gpu_use_mean(&n->gpu, &b->gpu, GS_ACCOUNTING_GPU_USE_UTIL);
}

static void judge_job(struct gs_accounting *a, struct accounting_job *j)
{
	struct gs_job_account *t = &j->account;
	uint64_t now_s = gs_clock_wall_ns() / 1000000000;
	struct gs_job_usage u = {.pace = j->pace,
				 .cores = t->cores,
				 .known = t->known,
				 .memory_peak_bytes = t->memory_peak_bytes,
				 .memory_limit_bytes = t->memory_limit_bytes,
				 .memory_anonymous_bytes = j->anonymous_peak,
				 .memory_cache_bytes = j->cache_peak,
				 .memory_reclaimable_bytes = j->reclaimable_peak,
				 .machine_bytes = a->machine_bytes,
				 .n_gpus = t->n_gpus < 0 ? NAN : t->n_gpus,
				 .gpus_idle = t->gpus_idle < 0 ? NAN : t->gpus_idle,
				 .gpu_memory_ratio = NAN,
				 .energy_joules = NAN,
				 .imbalance_ratio = NAN,
				 .slowest_rank = NAN};
	struct gs_figures figures;
	struct gs_verdict v;

	gs_accounting_window_usage(&j->window, &j->total, &u);
	if (u.elapsed_ns < YOUNG_NS)
		return;
	if (!isnan(u.pressure_ratio[GS_STALL_CPU_SOME]))
		u.known |= 1u << GS_JOB_KNOWS_PRESSURE;
	u.run_s = t->job.start_s > 0 && now_s > (uint64_t)t->job.start_s
			  ? (double)(now_s - (uint64_t)t->job.start_s)
			  : NAN;
	u.limit_s = t->job.limit_s > 0 ? (double)t->job.limit_s : NAN;
	gs_job_report_figures_of(&u, &figures);
	gs_verdict_of(a->rules, &figures, &v);
	snprintf(t->job_class, sizeof(t->job_class), "%s", v.job_class);
	t->confidence = v.confidence;
	t->score = v.score;
	_Static_assert(GS_FIGURE_COUNT <= GS_JOB_FIGURES_MAX, "room for the figures");
	memcpy(t->figure, figures.v, sizeof(figures.v));
	t->cpu_percent = figures.v[GS_FIGURE_CPU];
	t->io_percent = figures.v[GS_FIGURE_IO];
	t->wait_percent = figures.v[GS_FIGURE_WAIT];
	t->net_percent = figures.v[GS_FIGURE_NET];
	t->memory_percent = figures.v[GS_FIGURE_MEMORY];
}

static void finish_job(struct gs_accounting *a, struct accounting_job *j, uint64_t now_ns)
{
	struct gs_job_account *t = &j->account;

	if (!j->used)
		return;
	if (t->n_processes)
		t->last_ns = now_ns;
	else if (j->found_ns < a->scan_ns && now_ns - t->last_ns >= a->options.linger_ns) {
		accounting_end_job(a, j);
		return;
	}
	j->total.time_ns = now_ns;
	compute_rates(j);
	t->work = j->total.work;
	j->before = j->total;
	/* One that has ended keeps what was said of it last. */
	if (!t->n_processes)
		return;
	judge_job(a, j);
	if (j->is_turn)
		gs_accounting_window_mark(&j->window, &j->total);
}

/* --- telling --- */

static int compare_time(const void *a, const void *b)
{
	const struct accounting_call *x = a, *y = b;
	uint64_t v = x->total_ns ? x->total_ns : x->calls, w = y->total_ns ? y->total_ns : y->calls;

	return (v < w) - (v > w);
}

/* The longest, and those that once were among them, twice as many at most. */
static int report_calls(const struct gs_accounting *a, struct accounting_job *j,
			struct gs_job_account *to)
{
	uint32_t n = 0, shown = 0;

	to->calls = NULL;
	to->n_calls = 0;
	if (!j->n_calls)
		return 0;
	to->calls = calloc(j->n_calls, sizeof(*to->calls));
	if (!to->calls)
		return -ENOMEM;
	qsort(j->calls, j->n_calls, sizeof(*j->calls), compare_time);
	for (uint32_t i = 0; i < j->n_calls; i++)
		shown += j->calls[i].shown;
	for (uint32_t i = 0; i < j->n_calls && i < a->options.n_calls; i++)
		if (!j->calls[i].shown && shown < 2 * a->options.n_calls) {
			j->calls[i].shown = true;
			shown++;
		}
	for (uint32_t i = 0; i < j->n_calls; i++) {
		if (!j->calls[i].shown)
			continue;
		gs_taskstats_call_name(j->calls[i].id, to->calls[n].name,
				       sizeof(to->calls[n].name));
		to->calls[n].calls = j->calls[i].calls;
		to->calls[n].errors = j->calls[i].errors;
		to->calls[n++].total_ns = j->calls[i].total_ns;
	}
	to->n_calls = n;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct gs_job_account *x = a, *y = b;
	int r = (x->job.kind > y->job.kind) - (x->job.kind < y->job.kind);

	return r ? r : strcmp(x->job.id, y->job.id);
}

static int by_pid(const void *a, const void *b)
{
	const struct gs_job_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void count_unanswered(const struct gs_accounting *a, struct gs_job_accounts *to)
{
	for (uint32_t i = 0; a->options.ask && i < to->n_accounts; i++) {
		unsigned set =
			to->account[i].n_processes ? gs_job_unanswered(&to->account[i].job) : 0;

		for (unsigned k = 0; k < GS_JOB_ASKED_COUNT; k++)
			to->unanswered[k] += set >> k & 1;
	}
}

static int report_jobs(struct gs_accounting *a, uint64_t now_ns, struct gs_job_accounts **ret)
{
	struct gs_job_accounts *to = calloc(1, sizeof(*to));
	struct gs_jobs_stats s;
	size_t n = 0;
	int r = 0;

	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->n_places; i++)
		n += a->job[i].used;
	to->account = calloc(n + 1, sizeof(*to->account));
	if (!to->account)
		r = -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < a->n_places; i++) {
		if (!a->job[i].used)
			continue;
		to->account[to->n_accounts] = a->job[i].account;
		r = report_calls(a, &a->job[i], &to->account[to->n_accounts]);
		if (r == 0)
			r = accounting_report_ranks(&a->job[i], &to->account[to->n_accounts]);
		to->n_accounts++;
	}
	if (r < 0) {
		gs_job_accounts_free(&to);
		return r;
	}
	to->process = calloc(a->n_processes + 1u, sizeof(*to->process));
	if (to->process && a->n_processes) {
		to->n_processes = a->n_processes;
		memcpy(to->process, a->process, a->n_processes * sizeof(*to->process));
		qsort(to->process, to->n_processes, sizeof(*to->process), by_pid);
	}
	qsort(to->account, to->n_accounts, sizeof(*to->account), by_id);
	count_unanswered(a, to);
	to->time_ns = now_ns;
	to->probes = a->rows != NULL;
	snprintf(to->why, sizeof(to->why), "%s", a->why);
	gs_jobs_stats(a->jobs, &s);
	to->trouble = a->trouble;
	if (a->rows) {
		const struct gs_taskstats_losses *l = gs_rows_lost(a->rows);

		to->trouble.lost = l->keys_full + l->cells_full + l->threads + l->requests +
				   l->aio + l->torn + l->missed;
		to->trouble.not_followed += gs_rows_not_followed(a->rows);
	}
	to->trouble.claims_left_out += s.n_claims_left_out;
	to->trouble.questions_failed =
		s.n_commands_failed + s.n_commands_late + s.n_answers_bad + s.n_answers_long;
	to->trouble.not_followed += s.n_jobs_full;
	*ret = to;
	return 0;
}

int gs_accounting_read(struct gs_accounting *a, const struct gs_gpu_snapshot *gpus,
		       struct gs_job_accounts **ret, struct gs_err *err)
{
	uint64_t began_ns = gs_clock_boot_ns(), now_ns;
	int r = accounting_scan(a, began_ns);

	if (r == 0)
		r = accounting_count(a, err);
	if (r < 0)
		return r;
	now_ns = gs_clock_boot_ns();
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->job[i].used && a->job[i].account.n_processes)
			read_group(a, &a->job[i]);
	r = accounting_gpus(a, gpus, now_ns);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < a->n_places; i++)
		finish_job(a, &a->job[i], now_ns);
	r = report_jobs(a, now_ns, ret);
	if (r == 0)
		(*ret)->read_ns = gs_clock_boot_ns() - began_ns;
	return r;
}
