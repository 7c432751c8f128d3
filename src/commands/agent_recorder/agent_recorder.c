/*
 * Programs of the flight recorder. Every two seconds, a thread lists the jobs. For processes of a chosen job that no
 * program records yet (such as those of a new Slurm step) it starts a program, and it ends a program when its processes
 * have ended. A program follows the children of its processes by itself.
 */
#include "commands/agent_recorder/agent_recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commands/agent_findings/agent_findings.h"
#include "commands/common/cli.h"
#include "commands/common/ask.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/text/json.h"
#include "sources/identity/job.h"

#define LOOK_NS      2000000000ull
#define RETRY_NS     60000000000ull /* pause after a program of a job failed */
#define END_NS       10000000000ull /* longest wait for programs to end when the agent stops */
#define PIDS_MAX     64             /* processes that one program can be given */
#define KNOWN_MAX    4096
#define ANCESTRY_MAX 64

struct program {
	pid_t pid; /* 0: free */
	char job[64];
	pid_t known[KNOWN_MAX]; /* processes that it records, as of the last pass */
	size_t n_known;
	uint64_t since_ns; /* start; monotonic */
	uint64_t saved_ns; /* when it last wrote for a finding; monotonic, 0: never */
	bool is_ending;    /* SIGTERM was sent */
};

/* A job whose program failed: no new one is started before until_ns (monotonic). */
struct failure {
	char job[64];
	uint64_t until_ns;
};

struct agent_recorder {
	struct agent_recorder_conf conf;
	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows, up to files */
	pthread_cond_t wake;
	bool stop;
	struct program *programs;                    /* owned; conf.max_jobs of them */
	struct failure failures[AGENT_RECORDER_MAX]; /* the latest, as a ring */
	size_t n_failures;                           /* so far */
	uint64_t n_started, n_failed, n_left_out;
	bool has_reported_full;
	struct agent_recorder_files files; /* as of the last pass */
	uint64_t seen_finding;             /* number of the last finding seen; main thread only */
};

/* --- programs --- */

/* Runs in the child of a process with threads: only async-signal-safe functions may be called. */
static void become_recorder(char *const *words, pid_t parent)
{
	sigset_t mask;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* If the agent is killed, SIGHUP has the program write the last seconds. */
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	if (getppid() != parent)
		_exit(1);
	umask(0077);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	/* SIGUSR1 must not kill the program before it handles the signal. */
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	execv("/proc/self/exe", words);
	_exit(127);
}

static pid_t start_program(const struct agent_recorder_conf *c, const struct program *p)
{
	char keep[32], memory[32], hang[32], path[400], pids[PIDS_MAX * 12] = "";
	char *words[] = {"gpuscope",    "trace",        "--no-gpu",
			 "--follow",    "--keep-on",    "hang,finding,death",
			 "--keep-last", keep,           "--keep-memory",
			 memory,        "--hang-after", hang,
			 "-o",          path,           "--summary",
			 "/dev/null",   "-p",           pids,
			 NULL};
	pid_t parent = getpid(), pid;
	size_t n = 0;

	snprintf(keep, sizeof(keep), "%llums", (unsigned long long)(c->keep_ns / 1000000));
	snprintf(memory, sizeof(memory), "%lldM", (long long)c->memory_mib);
	snprintf(hang, sizeof(hang), "%llums", (unsigned long long)(c->hang_after_ns / 1000000));
	agent_recorder_name(c->directory, p->job, path, sizeof(path));
	for (size_t i = 0; i < p->n_known && i < PIDS_MAX; i++)
		n += (size_t)snprintf(pids + n, sizeof(pids) - n, "%s%d", i ? "," : "",
				      (int)p->known[i]);
	pid = fork();
	if (pid == 0)
		become_recorder(words, parent);
	return pid;
}

static bool is_known(const struct program *p, pid_t pid)
{
	for (size_t i = 0; i < p->n_known; i++)
		if (p->known[i] == pid)
			return true;
	return false;
}

static pid_t parent_of(pid_t pid)
{
	char path[64], line[512];
	GS_FCLOSE FILE *f = NULL;
	const char *end;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	end = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Whether the process is the agent or a descendant of it, which is never recorded. */
static bool is_own(pid_t pid)
{
	for (unsigned depth = 0; pid > 1 && depth < ANCESTRY_MAX; depth++, pid = parent_of(pid))
		if (pid == getpid())
			return true;
	return false;
}

/* The program of this job that records the process: it was given the process or one of its ancestors. NULL: none. */
static struct program *program_of(struct agent_recorder *r, const char *job, pid_t pid)
{
	for (unsigned depth = 0; pid > 1 && depth < ANCESTRY_MAX; depth++, pid = parent_of(pid))
		for (int64_t i = 0; i < r->conf.max_jobs; i++)
			if (r->programs[i].pid && strcmp(r->programs[i].job, job) == 0 &&
			    is_known(&r->programs[i], pid))
				return &r->programs[i];
	return NULL;
}

static bool is_chosen(const struct agent_recorder_conf *c, const struct gs_job *job)
{
	char patterns[sizeof(c->jobs)], *save = NULL;

	snprintf(patterns, sizeof(patterns), "%s", c->jobs);
	for (char *w = strtok_r(patterns, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		w += strspn(w, " ");
		if (fnmatch(w, job->id, 0) == 0 || (job->name[0] && fnmatch(w, job->name, 0) == 0))
			return true;
	}
	return false;
}

static bool has_failed(const struct agent_recorder *r, const char *job, uint64_t now_ns)
{
	for (size_t i = 0; i < AGENT_RECORDER_MAX; i++)
		if (r->failures[i].until_ns > now_ns && strcmp(r->failures[i].job, job) == 0)
			return true;
	return false;
}

static struct program *free_program(struct agent_recorder *r)
{
	for (int64_t i = 0; i < r->conf.max_jobs; i++)
		if (!r->programs[i].pid)
			return &r->programs[i];
	return NULL;
}

static void report_full(struct agent_recorder *r)
{
	r->n_left_out++;
	if (!r->has_reported_full)
		gs_cli_print_message(
			"agent: recorder: more jobs than recorder.max_jobs (%lld): the others are not recorded",
			(long long)r->conf.max_jobs);
	r->has_reported_full = true;
}

/* Starts a program for the processes of a job that no program records yet. The caller holds the lock. */
static void record_job(struct agent_recorder *r, const struct gs_jobs_list *list, size_t job,
		       uint64_t now_ns)
{
	const char *id = list->job[job].id;
	struct program *to = free_program(r), *of;
	size_t n_new = 0;

	for (size_t i = 0; i < list->n_processes; i++) {
		pid_t pid = (pid_t)list->process[i].pid;

		if (list->process[i].job != job)
			continue;
		of = program_of(r, id, pid);
		if (!of && is_own(pid))
			continue;
		if (of && of->n_known < KNOWN_MAX && !is_known(of, pid))
			of->known[of->n_known++] = pid;
		if (of)
			continue;
		if (to && n_new < PIDS_MAX)
			to->known[n_new] = pid;
		n_new++;
	}
	if (!n_new || has_failed(r, id, now_ns))
		return;
	if (!to) {
		report_full(r);
		return;
	}
	to->n_known = n_new < PIDS_MAX ? n_new : PIDS_MAX;
	snprintf(to->job, sizeof(to->job), "%s", id);
	to->since_ns = now_ns;
	to->saved_ns = 0;
	to->is_ending = false;
	to->pid = start_program(&r->conf, to);
	if (to->pid < 0) {
		gs_cli_print_message("agent: recorder: cannot start a process: %s",
				     strerror(errno));
		to->pid = 0;
		r->n_failed++;
		return;
	}
	r->n_started++;
	gs_cli_print_message("agent: recorder: recording the last seconds of job %s", id);
}

/* access() of its folder in /proc would go by the real user's rights, who sees no processes of others where proc is
 * mounted so (ProtectProc= of the unit). */
static bool is_alive(pid_t pid)
{
	return kill(pid, 0) == 0 || errno == EPERM;
}

/* Forgets processes that have ended, and ends programs that have none left. */
static void end_idle_programs(struct agent_recorder *r)
{
	for (int64_t k = 0; k < r->conf.max_jobs; k++) {
		struct program *p = &r->programs[k];
		size_t n = 0;

		for (size_t i = 0; i < p->n_known; i++)
			if (is_alive(p->known[i]))
				p->known[n++] = p->known[i];
		p->n_known = n;
		if (p->pid && !n && !p->is_ending) {
			p->is_ending = true;
			kill(p->pid, SIGTERM);
		}
	}
}

static void note_failure(struct agent_recorder *r, const struct program *p, int status)
{
	struct failure *f = &r->failures[r->n_failures++ % AGENT_RECORDER_MAX];

	snprintf(f->job, sizeof(f->job), "%s", p->job);
	f->until_ns = gs_clock_mono_ns() + RETRY_NS;
	r->n_failed++;
	gs_cli_print_message("agent: recorder: the program for job %s ended with %s %d", p->job,
			     WIFSIGNALED(status) ? "signal" : "status",
			     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static size_t reap_programs(struct agent_recorder *r)
{
	size_t n_left = 0;

	for (int64_t k = 0; k < r->conf.max_jobs; k++) {
		struct program *p = &r->programs[k];
		int status;

		if (!p->pid)
			continue;
		if (waitpid(p->pid, &status, WNOHANG) != p->pid) {
			n_left++;
			continue;
		}
		if (!p->is_ending)
			note_failure(r, p, status);
		p->pid = 0;
		p->n_known = 0;
	}
	return n_left;
}

/* --- the thread --- */

static void read_jobs_once(struct agent_recorder *r, struct gs_jobs *jobs)
{
	const struct agent_recorder_conf *c = &r->conf;
	struct gs_jobs_list list = {0};
	struct agent_recorder_files files = {0};
	int listed = gs_jobs_list(jobs, 0, &list);

	(void)agent_recorder_prune(c->directory, (uint64_t)c->max_files, (uint64_t)c->max_mib << 20,
				   &files);
	pthread_mutex_lock(&r->lock);
	(void)reap_programs(r);
	for (size_t i = 0; listed == 0 && i < list.n_jobs; i++)
		if (is_chosen(c, &list.job[i]))
			record_job(r, &list, i, gs_clock_mono_ns());
	end_idle_programs(r);
	agent_recorder_files_fini(&r->files);
	r->files = files;
	pthread_mutex_unlock(&r->lock);
	gs_jobs_list_fini(&list);
}

static void wait_for_next(struct agent_recorder *r)
{
	uint64_t due_ns = gs_clock_mono_ns() + LOOK_NS;
	struct timespec due = {(time_t)(due_ns / 1000000000), (long)(due_ns % 1000000000)};

	pthread_mutex_lock(&r->lock);
	if (!r->stop)
		pthread_cond_timedwait(&r->wake, &r->lock, &due);
	pthread_mutex_unlock(&r->lock);
}

static void end_all_programs(struct agent_recorder *r)
{
	const struct timespec pause = {0, 20000000};
	uint64_t end_ns = gs_clock_mono_ns() + END_NS;

	for (int64_t k = 0; k < r->conf.max_jobs; k++) {
		r->programs[k].is_ending = true;
		if (r->programs[k].pid)
			kill(r->programs[k].pid, SIGTERM);
	}
	while (reap_programs(r) && gs_clock_mono_ns() < end_ns)
		nanosleep(&pause, NULL);
	for (int64_t k = 0; k < r->conf.max_jobs; k++)
		if (r->programs[k].pid)
			kill(r->programs[k].pid, SIGKILL);
}

/* Its children get their signal when this thread ends. */
static void *record_jobs(void *arg)
{
	const struct gs_jobs_options o = {.size = sizeof(o), .no_controller = true};
	struct agent_recorder *r = arg;
	struct gs_jobs *jobs = NULL;
	struct gs_err err = {{0}};
	bool stop = gs_jobs_new(&o, &jobs, &err) < 0;

	if (stop)
		gs_cli_print_message("agent: recorder: %s", gs_err_text(&err, -ENOMEM));
	while (!stop) {
		read_jobs_once(r, jobs);
		wait_for_next(r);
		pthread_mutex_lock(&r->lock);
		stop = r->stop;
		pthread_mutex_unlock(&r->lock);
	}
	end_all_programs(r);
	gs_jobs_free(&jobs);
	return NULL;
}

/* --- life --- */

static void recorder_free(struct agent_recorder *r)
{
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	agent_recorder_files_fini(&r->files);
	free(r->programs);
	free(r);
}

int agent_recorder_start(const struct agent_recorder_conf *conf, struct agent_recorder **ret,
			 struct gs_err *err)
{
	struct agent_recorder *r;
	pthread_condattr_t attr;
	sigset_t all, before;
	int e;

	if (!conf->jobs[0])
		return 0;
	e = agent_recorder_prepare(conf->directory, err);
	if (e < 0)
		return e;
	r = calloc(1, sizeof(*r));
	if (!r)
		return gs_err_set(err, -ENOMEM, "out of memory");
	r->conf = *conf;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->wake, &attr);
	pthread_condattr_destroy(&attr);
	r->programs = calloc((size_t)conf->max_jobs, sizeof(*r->programs));
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = r->programs ? -pthread_create(&r->thread, NULL, record_jobs, r) : -ENOMEM;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e < 0) {
		recorder_free(r);
		return gs_err_set(err, e, "cannot start a thread: %s", strerror(-e));
	}
	*ret = r;
	return 0;
}

void agent_recorder_stop(struct agent_recorder **ref)
{
	struct agent_recorder *r = *ref;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	recorder_free(r);
	*ref = NULL;
}

/* --- requests --- */

int agent_recorder_save(struct agent_recorder *r, const char *what, struct gs_err *err)
{
	const char *job = what && strncmp(what, "job:", 4) == 0 ? what + 4 : what;
	int n = 0;

	if (!r)
		return gs_err_set(err, -ENOTSUP, "no jobs are recorded; set recorder.jobs");
	pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; k < r->conf.max_jobs; k++) {
		struct program *p = &r->programs[k];

		if (!p->pid || p->is_ending || (job && strcmp(p->job, job) != 0))
			continue;
		kill(p->pid, SIGUSR1);
		n++;
	}
	pthread_mutex_unlock(&r->lock);
	if (n)
		return n;
	return job ? gs_err_set(err, -ENOENT, "job %s is not recorded", job)
		   : gs_err_set(err, -ENOENT, "no job is recorded now");
}

void agent_recorder_take_words(struct agent_recorder *r, const char *words, struct gs_buf *answer)
{
	struct gs_err err = {{0}};
	int n;

	words += strspn(words, " ");
	n = agent_recorder_save(r, *words ? words : NULL, &err);
	if (n < 0)
		(void)gs_buf_printf(answer, "%s: %s\n", gs_cli_answer_word(n),
				    gs_err_text(&err, n));
	else
		(void)gs_buf_printf(answer, "ok: %d recording%s will be written\n", n,
				    n == 1 ? "" : "s");
}

void agent_recorder_serve_save(struct agent_recorder *r, const struct gs_http_request *request,
			       struct gs_http_reply *reply)
{
	const char *what = request->param[0];
	struct gs_err err = {{0}};
	int n = agent_recorder_save(r, strcmp(what, "all") == 0 ? NULL : what, &err);

	if (n < 0) {
		gs_http_error(reply, 404, gs_err_text(&err, n));
		return;
	}
	reply->type = "text/plain; charset=utf-8";
	(void)gs_buf_printf(&reply->body, "ok: %d recording%s will be written\n", n,
			    n == 1 ? "" : "s");
}

/* Has programs write for a finding; each at most once per keep_ns. The signal carries the finding (what), which the
 * program writes into the file as the reason. */
static void save_finding(void *ctx, const char *job, int what)
{
	struct agent_recorder *r = ctx;
	uint64_t now_ns = gs_clock_mono_ns();

	pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; k < r->conf.max_jobs; k++) {
		struct program *p = &r->programs[k];

		if (!p->pid || p->is_ending || (job[0] && strcmp(job, p->job) != 0) ||
		    (p->saved_ns && now_ns - p->saved_ns < r->conf.keep_ns))
			continue;
		p->saved_ns = now_ns;
		sigqueue(p->pid, SIGUSR1, (union sigval){.sival_int = what});
	}
	pthread_mutex_unlock(&r->lock);
}

void agent_recorder_follow(struct agent_recorder *r, struct agent_findings *findings)
{
	if (r)
		r->seen_finding =
			agent_findings_each_begun(findings, r->seen_finding, save_finding, r);
}

/* --- what there is --- */

void agent_recorder_status(struct agent_recorder *r, struct gs_buf *out)
{
	char time[GS_FMT_BYTES], size[GS_FMT_BYTES];
	uint64_t now_ns = gs_clock_mono_ns();

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; k < r->conf.max_jobs; k++)
		if (r->programs[k].pid)
			(void)gs_buf_printf(out, "recorder: job %s, %zu processes, for %s\n",
					    r->programs[k].job, r->programs[k].n_known,
					    gs_fmt_ns(time, now_ns - r->programs[k].since_ns));
	(void)gs_buf_printf(out, "recorder: %zu files, %s, in %s\n", r->files.n_files,
			    gs_fmt_bytes(size, r->files.bytes), r->conf.directory);
	pthread_mutex_unlock(&r->lock);
}

void agent_recorder_document(struct agent_recorder *r, struct gs_buf *out)
{
	gs_json_open(out, NULL, '{');
	gs_json_bool(out, "enabled", r != NULL);
	gs_json_open(out, "jobs", '[');
	if (r)
		pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; r && k < r->conf.max_jobs; k++) {
		if (!r->programs[k].pid)
			continue;
		gs_json_open(out, NULL, '{');
		gs_json_text(out, "id", r->programs[k].job);
		gs_json_u64(out, "processes", r->programs[k].n_known);
		gs_json_close(out, '}');
	}
	gs_json_close(out, ']');
	gs_json_open(out, "files", '[');
	for (size_t i = 0; r && i < r->files.n_files; i++) {
		gs_json_open(out, NULL, '{');
		gs_json_text(out, "name", r->files.file[i].name);
		gs_json_text(out, "reason", r->files.file[i].reason);
		gs_json_u64(out, "bytes", r->files.file[i].bytes);
		gs_json_double(out, "time", (double)r->files.file[i].wall_ns / 1e9);
		gs_json_close(out, '}');
	}
	if (r)
		pthread_mutex_unlock(&r->lock);
	gs_json_close(out, ']');
	gs_json_close(out, '}');
	(void)gs_buf_puts(out, "\n");
}

void agent_recorder_metrics(struct agent_recorder *r, struct gs_metrics *p)
{
	size_t n = 0;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; k < r->conf.max_jobs; k++)
		n += r->programs[k].pid != 0;
	gs_metrics_one(p, "gpuscope_agent_recorder_running", GS_METRICS_GAUGE, (double)n,
		       "Programs of the flight recorder that trace a job now.");
	gs_metrics_one(p, "gpuscope_agent_recorder_failed", GS_METRICS_COUNTER, (double)r->n_failed,
		       "Programs of the flight recorder that failed.");
	gs_metrics_one(p, "gpuscope_agent_recorder_files", GS_METRICS_GAUGE,
		       (double)r->files.n_files, "Files of the flight recorder.");
	gs_metrics_one(p, "gpuscope_agent_recorder_bytes", GS_METRICS_GAUGE, (double)r->files.bytes,
		       "Size of the flight recorder's files.");
	pthread_mutex_unlock(&r->lock);
}

int agent_recorder_read(struct agent_recorder *r, const char *name, uint64_t offset,
			uint32_t max_bytes, struct gs_buf *out, uint64_t *ret_total_bytes)
{
	/* Its configuration does not change while it runs. */
	return r ? agent_recorder_read_file(r->conf.directory, name, offset, max_bytes, out,
					    ret_total_bytes)
		 : -ENOTSUP;
}
