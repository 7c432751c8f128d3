#include "commands/agent_gpu/agent_gpu.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/common/ask.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "core/text/json.h"
#include "model/summary/memory.h"
#include "model/trace/func.h"
#include "pipeline/gpu_meter/gpu_meter.h"
#include "sources/identity/job.h"

#define REQUESTS_MAX 64
#define POLL_NS      100000000ull
#define TICK_NS      500000000ull
#define USUAL_NS     60000000000ull
#define JOBS_NS      2000000000ull /* between two looks at which processes a job has */

struct request {
	char what[72];
	uint32_t pid;      /* of a process; 0: a job */
	const char *job;   /* its id, in what */
	uint64_t until_ns; /* monotonic */
};

struct agent_gpu {
	struct gs_gpu_snapshot *(*snapshot)(void *ctx);
	void *ctx; /* of it; lent */
	pthread_t thread;
	pthread_mutex_t lock; /* what follows */
	pthread_cond_t wake;
	bool runs, stop, has_changed;
	bool reads_inside;
	uint64_t linger_ns; /* for which sums stay after the last request */
	struct request request[REQUESTS_MAX];
	size_t n_requests;
	uint64_t n_taken;  /* so far */
	char trouble[256]; /* why there are no probes; "" nothing */
	/* As of the last tick. */
	struct gs_gpu_meter_row *rows; /* owned */
	size_t n_rows;
	struct gs_gpu_meter_memory *memory; /* owned */
	size_t n_memory;
	struct {
		char uuid[80];
		struct gs_process_gpu_total total;
	} gpu[GS_PROCESS_GPU_DEVICES_MAX];
	size_t n_gpus;
	unsigned n_probes, n_unread, n_inside;
	int unread_reason;
	uint64_t n_lost, cpu_ns;
};

struct agent_gpu *agent_gpu_new(struct gs_gpu_snapshot *(*snapshot)(void *ctx), void *ctx)
{
	struct agent_gpu *g = calloc(1, sizeof(*g));
	pthread_condattr_t attr;

	if (!g)
		return NULL;
	g->snapshot = snapshot;
	g->ctx = ctx;
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->wake, &attr);
	pthread_condattr_destroy(&attr);
	return g;
}

void agent_gpu_free(struct agent_gpu **ref)
{
	struct agent_gpu *g = *ref;
	bool runs;

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	runs = g->runs;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	if (runs)
		pthread_join(g->thread, NULL);
	pthread_cond_destroy(&g->wake);
	pthread_mutex_destroy(&g->lock);
	free(g->rows);
	free(g->memory);
	free(g);
	*ref = NULL;
}

/* --- the thread --- */

struct choice { /* which processes are traced now */
	pid_t pids[GS_GPU_METER_PROCESSES_MAX];
	size_t n;
};

static void add_pid(struct choice *c, uint32_t pid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->pids[i] == (pid_t)pid)
			return;
	if (c->n < GS_GPU_METER_PROCESSES_MAX)
		c->pids[c->n++] = (pid_t)pid;
}

static void add_job(struct choice *c, struct gs_jobs *jobs, const struct gs_jobs_list *list,
		    const char *id)
{
	for (size_t i = 0; i < list->n_processes; i++)
		if (strcmp(list->job[list->process[i].job].id, id) == 0)
			add_pid(c, list->process[i].pid);
}

/* access() of its folder in /proc would go by the real user's rights, as in the flight recorder. */
static bool is_alive(uint32_t pid)
{
	return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* Requests whose time is over end. */
static size_t copy_requests(struct agent_gpu *g, struct request *ret)
{
	uint64_t now_ns = gs_clock_mono_ns();
	size_t n = 0;

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->n_requests; i++) {
		if (g->request[i].until_ns <= now_ns)
			continue;
		g->request[n] = g->request[i];
		g->request[n].job = g->request[n].pid ? NULL : g->request[n].what + 4;
		ret[n] = g->request[n];
		ret[n].job = ret[n].pid ? NULL : ret[n].what + 4;
		n++;
	}
	g->n_requests = n;
	pthread_mutex_unlock(&g->lock);
	return n;
}

static void choose_processes(struct gs_jobs *jobs, const struct request *requests, size_t n,
			     struct choice *ret)
{
	struct gs_jobs_list list = {0};
	bool asks_jobs = false;

	ret->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (requests[i].pid && is_alive(requests[i].pid))
			add_pid(ret, requests[i].pid);
		asks_jobs |= !requests[i].pid;
	}
	if (!asks_jobs || !jobs || gs_jobs_list(jobs, 0, &list) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (requests[i].job)
			add_job(ret, jobs, &list, requests[i].job);
	gs_jobs_list_fini(&list);
}

static void see_gpus(struct agent_gpu *g, struct gs_gpu_meter *meter)
{
	struct gs_gpu_snapshot *gpus = g->snapshot(g->ctx);

	gs_gpu_meter_see_gpus(meter, gpus);
	gs_gpu_snapshot_free(&gpus);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
		       ? (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec
		       : 0;
}

static void publish_sums(struct agent_gpu *g, const struct gs_gpu_meter *meter)
{
	size_t n_rows = gs_gpu_meter_count(meter), n = gs_gpu_meter_count_memory(meter);
	struct gs_gpu_meter_row *rows = calloc(n_rows + 1, sizeof(*rows));
	struct gs_gpu_meter_memory *memory = calloc(n + 1, sizeof(*memory));
	const char *uuid;

	for (size_t i = 0; rows && i < n_rows; i++)
		gs_gpu_meter_read(meter, i, &rows[i]);
	for (size_t i = 0; memory && i < n; i++)
		gs_gpu_meter_read_memory(meter, i, &memory[i]);
	pthread_mutex_lock(&g->lock);
	free(g->rows);
	free(g->memory);
	g->rows = rows;
	g->n_rows = rows ? n_rows : 0;
	g->memory = memory;
	g->n_memory = memory ? n : 0;
	g->n_gpus = 0;
	for (size_t i = 0; i < gs_gpu_meter_count_gpus(meter); i++) {
		struct gs_process_gpu_total total;

		if (!gs_gpu_meter_read_gpu(meter, i, &uuid, &total))
			continue;
		snprintf(g->gpu[g->n_gpus].uuid, sizeof(g->gpu->uuid), "%s", uuid);
		g->gpu[g->n_gpus++].total = total;
	}
	g->n_probes = gs_gpu_meter_probes(meter);
	g->n_unread = gs_gpu_meter_unread(meter, &g->unread_reason);
	g->n_inside = gs_gpu_meter_inside(meter);
	g->n_lost = gs_gpu_meter_lost(meter);
	g->cpu_ns = thread_cpu_ns();
	pthread_mutex_unlock(&g->lock);
}

static void report_trouble(struct agent_gpu *g, const char *text)
{
	pthread_mutex_lock(&g->lock);
	if (text[0] && strcmp(g->trouble, text) != 0)
		gs_cli_print_message("agent: cannot trace GPU use of processes: %s", text);
	snprintf(g->trouble, sizeof(g->trouble), "%s", text);
	pthread_mutex_unlock(&g->lock);
}

/* As long as there are requests. */
static void trace_on(struct agent_gpu *g, struct gs_gpu_meter *meter, struct gs_jobs *jobs)
{
	struct request requests[REQUESTS_MAX];
	uint64_t tick_ns = 0, jobs_ns = 0;
	struct choice choice;
	struct gs_err err = {{0}};
	size_t n;

	while ((n = copy_requests(g, requests)) > 0) {
		uint64_t now_ns = gs_clock_mono_ns();
		struct timespec due;
		bool changed;

		pthread_mutex_lock(&g->lock);
		changed = g->has_changed;
		g->has_changed = false;
		pthread_mutex_unlock(&g->lock);
		if (changed || now_ns - jobs_ns >= JOBS_NS) {
			int r;

			jobs_ns = now_ns;
			see_gpus(g, meter);
			choose_processes(jobs, requests, n, &choice);
			err = (struct gs_err){{0}};
			r = gs_gpu_meter_choose(meter, choice.pids, choice.n, &err);
			report_trouble(g, r < 0 ? gs_err_text(&err, r) : "");
		}
		gs_gpu_meter_poll(meter);
		if (now_ns - tick_ns >= TICK_NS) {
			tick_ns = now_ns;
			see_gpus(g, meter);
			gs_gpu_meter_tick(meter);
			publish_sums(g, meter);
		}
		now_ns = gs_clock_mono_ns() + POLL_NS;
		due = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
		pthread_mutex_lock(&g->lock);
		if (!g->has_changed && !g->stop)
			pthread_cond_timedwait(&g->wake, &g->lock, &due);
		if (g->stop)
			g->n_requests = 0;
		pthread_mutex_unlock(&g->lock);
	}
	/* What was still on its way belongs to the sums. */
	(void)gs_gpu_meter_choose(meter, NULL, 0, NULL);
	gs_gpu_meter_tick(meter);
	publish_sums(g, meter);
}

static void forget_sums(struct agent_gpu *g)
{
	pthread_mutex_lock(&g->lock);
	gs_free_p(&g->rows);
	gs_free_p(&g->memory);
	g->n_rows = g->n_memory = g->n_gpus = 0;
	g->n_probes = g->n_inside = 0;
	pthread_mutex_unlock(&g->lock);
}

/* False: none has come within the time (UINT64_MAX: however long), or the agent ends. */
static bool wait_for_request(struct agent_gpu *g, uint64_t time_ns)
{
	uint64_t end_ns = gs_clock_mono_ns() + time_ns;
	struct timespec end = {(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};
	bool come;
	int r = 0;

	pthread_mutex_lock(&g->lock);
	while (!g->stop && !g->n_requests && r != ETIMEDOUT)
		r = time_ns == UINT64_MAX ? pthread_cond_wait(&g->wake, &g->lock)
					  : pthread_cond_timedwait(&g->wake, &g->lock, &end);
	come = !g->stop && g->n_requests;
	pthread_mutex_unlock(&g->lock);
	return come;
}

static uint64_t linger_of(struct agent_gpu *g)
{
	uint64_t linger_ns;

	pthread_mutex_lock(&g->lock);
	linger_ns = g->linger_ns;
	pthread_mutex_unlock(&g->lock);
	return linger_ns;
}

/* Where it cannot be, all is seen by probes. */
static void read_inside(struct agent_gpu *g, struct gs_gpu_meter *meter)
{
	struct gs_err err = {{0}};
	bool reads;
	int r;

	pthread_mutex_lock(&g->lock);
	reads = g->reads_inside;
	pthread_mutex_unlock(&g->lock);
	r = reads ? gs_gpu_meter_read_inside(meter, NULL, &err) : 0;
	if (r < 0)
		gs_cli_print_message("agent: reports from inside are not read: %s",
				     gs_err_text(&err, r));
}

/* From a request until its sums have been there for a while after the last one. */
static void serve_while_asked(struct agent_gpu *g, struct gs_jobs *jobs)
{
	struct gs_gpu_meter *meter = NULL;
	struct gs_err err = {{0}};
	int r = gs_gpu_meter_open(&meter, &err);

	if (r < 0) {
		report_trouble(g, gs_err_text(&err, r));
		pthread_mutex_lock(&g->lock);
		g->n_requests = 0;
		pthread_mutex_unlock(&g->lock);
		return;
	}
	read_inside(g, meter);
	do
		trace_on(g, meter, jobs);
	while (wait_for_request(g, linger_of(g)));
	gs_gpu_meter_close(&meter);
	forget_sums(g);
}

static void *serve_requests(void *arg)
{
	const struct gs_jobs_options o = {.size = sizeof(o), .no_controller = true};
	struct agent_gpu *g = arg;
	struct gs_jobs *jobs = NULL;

	(void)gs_jobs_new(&o, &jobs, NULL);
	while (wait_for_request(g, UINT64_MAX))
		serve_while_asked(g, jobs);
	gs_jobs_free(&jobs);
	return NULL;
}

/* --- requests --- */

static int parse_what(const char *what, struct request *ret, struct gs_err *err)
{
	char *end;
	unsigned long pid;

	if (strlen(what) >= sizeof(ret->what))
		return gs_err_set(err, -EINVAL, "%.40s... is neither a process id nor job:ID",
				  what);
	snprintf(ret->what, sizeof(ret->what), "%s", what);
	if (strncmp(what, "job:", 4) == 0 && what[4])
		return 0;
	pid = strtoul(what, &end, 10);
	if (!isdigit((unsigned char)what[0]) || *end || !pid || pid > INT32_MAX)
		return gs_err_set(err, -EINVAL, "%s is neither a process id nor job:ID", what);
	ret->pid = (uint32_t)pid;
	return 0;
}

static bool job_exists(const char *id)
{
	const struct gs_jobs_options o = {.size = sizeof(o), .no_controller = true};
	struct gs_jobs_list list = {0};
	struct gs_jobs *jobs = NULL;
	bool found = false;

	if (gs_jobs_new(&o, &jobs, NULL) == 0 && gs_jobs_list(jobs, 0, &list) == 0)
		for (size_t i = 0; i < list.n_jobs; i++)
			found |= strcmp(list.job[i].id, id) == 0;
	gs_jobs_list_fini(&list);
	gs_jobs_free(&jobs);
	return found;
}

static int start_thread(struct agent_gpu *g, struct gs_err *err)
{
	sigset_t all, before;
	int r;

	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&g->thread, NULL, serve_requests, g);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	g->runs = r == 0;
	return r < 0 ? gs_err_set(err, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

/* The caller holds the lock. */
static int put_request(struct agent_gpu *g, const struct request *wanted, uint64_t time_ns,
		       struct gs_err *err)
{
	size_t i = 0;

	while (i < g->n_requests && strcmp(g->request[i].what, wanted->what) != 0)
		i++;
	if (!time_ns && (i == g->n_requests || g->request[i].until_ns <= gs_clock_mono_ns()))
		return gs_err_set(err, -ENOENT, "%s is not traced", wanted->what);
	if (i == REQUESTS_MAX)
		return gs_err_set(err, -EBUSY, "%d requests are already active, which is the limit",
				  REQUESTS_MAX);
	if (i == g->n_requests)
		g->n_requests++;
	g->request[i] = *wanted;
	g->request[i].until_ns = time_ns ? gs_clock_mono_ns() + time_ns : 0;
	g->n_taken += time_ns != 0;
	g->has_changed = true;
	pthread_cond_signal(&g->wake);
	return g->runs ? 0 : start_thread(g, err);
}

int agent_gpu_request(struct agent_gpu *g, const char *what, uint64_t time_ns, uint64_t linger_ns,
		      struct gs_err *err)
{
	struct request wanted = {0};
	int r = parse_what(what, &wanted, err);

	if (r < 0)
		return r;
	if (time_ns && wanted.pid && !is_alive(wanted.pid))
		return gs_err_set(err, -ENOENT, "there is no process %u", wanted.pid);
	if (time_ns && !wanted.pid && !job_exists(wanted.what + 4))
		return gs_err_set(err, -ENOENT, "no process of job %s runs on this node",
				  wanted.what + 4);
	pthread_mutex_lock(&g->lock);
	g->linger_ns = linger_ns;
	r = put_request(g, &wanted, time_ns, err);
	pthread_mutex_unlock(&g->lock);
	return r;
}

void agent_gpu_set_inside(struct agent_gpu *g, bool reads)
{
	pthread_mutex_lock(&g->lock);
	g->reads_inside = reads;
	pthread_mutex_unlock(&g->lock);
}

int agent_gpu_ask(struct agent_gpu *g, const struct agent_gpu_limits *limits, const char *what,
		  uint64_t time_ns, char *answer, size_t bytes)
{
	char text[GS_FMT_BYTES];
	struct gs_err err = {{0}};
	int r;

	agent_gpu_set_inside(g, limits->reads_inside);
	if (time_ns == AGENT_GPU_USUAL)
		time_ns = limits->max_ns && limits->max_ns < USUAL_NS ? limits->max_ns : USUAL_NS;
	if (time_ns > limits->max_ns) {
		snprintf(answer, bytes, "error: at most %s: processes.gpu_use_max",
			 gs_fmt_ns(text, limits->max_ns));
		return -EPERM;
	}
	r = agent_gpu_request(g, what, time_ns, limits->linger_ns, &err);
	if (r < 0)
		snprintf(answer, bytes, "%s: %s", gs_cli_answer_word(r), gs_err_text(&err, r));
	else if (time_ns)
		snprintf(answer, bytes, "ok: GPU use of %s is traced for %s", what,
			 gs_fmt_ns(text, time_ns));
	else
		snprintf(answer, bytes, "ok: GPU use of %s is no longer traced", what);
	return r;
}

int agent_gpu_parse_words(const char *words, char ret_what[80], uint64_t *ret_time_ns, char *answer,
			  size_t bytes)
{
	char time[32] = "";
	int n = sscanf(words, "%79s %31s", ret_what, time);

	*ret_time_ns = AGENT_GPU_USUAL;
	if (n >= 1 && (n == 1 || gs_parse_ns(time, 1, ret_time_ns) == 0))
		return 0;
	snprintf(answer, bytes, "error: trace-gpu takes a process or job, and a time");
	return -EINVAL;
}

/* --- what was found --- */

void agent_gpu_status(struct agent_gpu *g, struct gs_buf *out)
{
	char text[GS_FMT_BYTES];
	uint64_t now_ns = gs_clock_mono_ns();

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->n_requests; i++)
		if (g->request[i].until_ns > now_ns)
			(void)gs_buf_printf(out, "GPU use of %s: traced for %s more\n",
					    g->request[i].what,
					    gs_fmt_ns(text, g->request[i].until_ns - now_ns));
	if (g->trouble[0])
		(void)gs_buf_printf(out, "GPU use of processes: not traced: %s\n", g->trouble);
	if (g->n_unread)
		(void)gs_buf_printf(out,
				    "GPU use of processes: %u reports from inside not read: %s\n",
				    g->n_unread, strerror(-g->unread_reason));
	pthread_mutex_unlock(&g->lock);
}

static void put_row_json(struct gs_buf *out, const struct gs_gpu_meter_row *r)
{
	const struct gs_process_gpu_row *s = &r->sums;
	char key[48];

	gs_json_open(out, NULL, '{');
	gs_json_u64(out, "pid", r->pid);
	gs_json_text(out, "comm", r->comm);
	gs_json_text(out, "gpu", r->gpu);
	gs_json_bool(out, "ended", r->ended);
	gs_json_double(out, "active_max_seconds", (double)s->active_max_ns / 1e9);
	gs_json_double(out, "active_min_seconds", (double)s->active_min_ns / 1e9);
	gs_json_double(out, "core_seconds", s->core_s);
	gs_json_double(out, "core_share_seconds", s->core_share_s);
	gs_json_double(out, "occupied_seconds", s->place_s);
	gs_json_u64(out, "launches_with_known_needs", s->n_needs_known);
	gs_json_double(out, "wait_seconds", (double)s->wait_ns / 1e9);
	gs_json_u64(out, "kernels", s->n[GS_ACTIVITY_KERNELS]);
	gs_json_u64(out, "graphs", s->n[GS_ACTIVITY_GRAPHS]);
	gs_json_u64(out, "memsets", s->n[GS_ACTIVITY_MEMSETS]);
	for (unsigned kind = GS_COPY_H2H; kind <= GS_COPY_P2P; kind++) {
		snprintf(key, sizeof(key), "copied_%s_bytes", gs_copy_kind_name(kind));
		gs_json_u64(out, key, s->bytes[GS_ACTIVITY_COPIES + kind]);
	}
	if (r->driver_bytes >= 0)
		gs_json_i64(out, "driver_memory_bytes", r->driver_bytes);
	gs_json_close(out, '}');
}

void agent_gpu_document(struct agent_gpu *g, struct gs_buf *out)
{
	uint64_t now_ns = gs_clock_mono_ns();

	pthread_mutex_lock(&g->lock);
	gs_json_open(out, NULL, '{');
	gs_json_open(out, "requests", '[');
	for (size_t i = 0; i < g->n_requests; i++) {
		const struct request *q = &g->request[i];

		if (q->until_ns <= now_ns)
			continue;
		gs_json_open(out, NULL, '{');
		gs_json_text(out, "what", q->what);
		gs_json_double(out, "left_seconds", (double)(q->until_ns - now_ns) / 1e9);
		gs_json_close(out, '}');
	}
	gs_json_close(out, ']');
	if (g->trouble[0])
		gs_json_text(out, "trouble", g->trouble);
	gs_json_u64(out, "lost", g->n_lost);
	gs_json_open(out, "processes", '[');
	for (size_t i = 0; i < g->n_rows; i++)
		put_row_json(out, &g->rows[i]);
	gs_json_close(out, ']');
	gs_json_close(out, '}');
	pthread_mutex_unlock(&g->lock);
}

/* Values of rows that are families of their own. */
static const struct row_family {
	const char *name, *unit, *help;
	size_t offset;
	bool is_ns, is_double;
} row_families[] = {
#define SUM(member) .offset = offsetof(struct gs_process_gpu_row, member)
	{"gpuscope_process_gpu_core_seconds", "seconds",
	 "Time of kernels times the mean of their grids' threads, at most the GPU's cores; streams that overlap add up. A bound from the host's calls.",
	 SUM(core_s), .is_double = true},
	{"gpuscope_process_gpu_core_share_seconds", "seconds",
	 "Core time as in gpuscope_process_gpu_core_seconds, divided in proportion where processes together used more cores than the GPU has.",
	 SUM(core_share_s), .is_double = true},
	{"gpuscope_process_gpu_occupied_seconds", "seconds",
	 "Upper bound of active time times the theoretical occupancy of the launched kernels (by registers, shared memory and block size), of launches whose needs are known.",
	 SUM(place_s), .is_double = true},
	{"gpuscope_process_gpu_wait_seconds", "seconds",
	 "Time that threads of the process waited for the GPU in calls.", SUM(wait_ns),
	 .is_ns = true},
	{"gpuscope_process_gpu_waits", "",
	 "Calls in which threads of the process waited for the GPU.", SUM(n_waits)},
	{"gpuscope_process_gpu_kernel_threads", "",
	 "Threads of the grids of all kernels that the process launched.", SUM(threads)},
#undef SUM
};

static void put_line(struct gs_metrics *p, const struct gs_gpu_meter_row *r, const char *label,
		     const char *value_of_label, double value)
{
	char pid[16];
	struct gs_metrics_label l[] = {
		{"pid", pid}, {"comm", r->comm}, {"uuid", r->gpu}, {label, value_of_label}};

	snprintf(pid, sizeof(pid), "%u", r->pid);
	gs_metrics_line(p, "", l, label ? 4 : 3, value, 0);
}

static double value_of(const struct row_family *f, const struct gs_process_gpu_row *sums)
{
	const char *at = (const char *)sums + f->offset;
	uint64_t n;
	double d;

	if (f->is_double) {
		memcpy(&d, at, sizeof(d));
		return d;
	}
	memcpy(&n, at, sizeof(n));
	return f->is_ns ? (double)n / 1e9 : (double)n;
}

static void put_rows(struct gs_metrics *p, const struct agent_gpu *g)
{
	gs_metrics_family(
		p, "gpuscope_process_gpu_active_seconds", GS_METRICS_COUNTER, "seconds",
		"Time in which work of the process was pending on the GPU, the union over its streams. bound: max (upper bound) or min (lower bound), as seen from calls of the host; not measured on the device.");
	for (size_t i = 0; i < g->n_rows; i++) {
		const struct gs_process_gpu_row *s = &g->rows[i].sums;

		put_line(p, &g->rows[i], "bound", "max", (double)s->active_max_ns / 1e9);
		put_line(p, &g->rows[i], "bound", "min", (double)s->active_min_ns / 1e9);
	}
	for (size_t k = 0; k < GS_ARRAY_LEN(row_families); k++) {
		const struct row_family *f = &row_families[k];

		gs_metrics_family(p, f->name, GS_METRICS_COUNTER, f->unit, f->help);
		for (size_t i = 0; i < g->n_rows; i++)
			put_line(p, &g->rows[i], NULL, NULL, value_of(f, &g->rows[i].sums));
	}
}

static void put_work(struct gs_metrics *p, const struct agent_gpu *g)
{
	static const struct {
		const char *name;
		unsigned work;
	} kinds[] = {{"kernel", GS_ACTIVITY_KERNELS},
		     {"graph", GS_ACTIVITY_GRAPHS},
		     {"memset", GS_ACTIVITY_MEMSETS}};

	gs_metrics_family(
		p, "gpuscope_process_gpu_launches", GS_METRICS_COUNTER, "",
		"Kernels, graphs and memsets that the process launched successfully, by kind.");
	for (size_t i = 0; i < g->n_rows; i++)
		for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++)
			put_line(p, &g->rows[i], "kind", kinds[k].name,
				 (double)g->rows[i].sums.n[kinds[k].work]);
	gs_metrics_family(p, "gpuscope_process_gpu_copies", GS_METRICS_COUNTER, "",
			  "Copies that the process requested, by direction.");
	for (size_t i = 0; i < g->n_rows; i++)
		for (unsigned kind = GS_COPY_H2H; kind <= GS_COPY_P2P; kind++)
			put_line(p, &g->rows[i], "direction", gs_copy_kind_name(kind),
				 (double)g->rows[i].sums.n[GS_ACTIVITY_COPIES + kind]);
	gs_metrics_family(p, "gpuscope_process_gpu_copied_bytes", GS_METRICS_COUNTER, "bytes",
			  "Bytes of the copies that the process requested, by direction.");
	for (size_t i = 0; i < g->n_rows; i++)
		for (unsigned kind = GS_COPY_H2H; kind <= GS_COPY_P2P; kind++)
			put_line(p, &g->rows[i], "direction", gs_copy_kind_name(kind),
				 (double)g->rows[i].sums.bytes[GS_ACTIVITY_COPIES + kind]);
}

static void put_allocated(struct gs_metrics *p, const struct agent_gpu *g, bool peak)
{
	for (size_t i = 0; i < g->n_memory; i++) {
		const struct gs_gpu_meter_memory *x = &g->memory[i];
		struct gs_gpu_meter_row row = {.pid = x->pid};

		memcpy(row.comm, x->comm, sizeof(row.comm));
		memcpy(row.gpu, x->gpu, sizeof(row.gpu));
		put_line(p, &row, "kind", gs_memory_kind_name(x->kind),
			 (double)(peak ? x->peak_bytes : x->live_bytes));
	}
}

static void put_memory(struct gs_metrics *p, const struct agent_gpu *g)
{
	gs_metrics_family(
		p, "gpuscope_process_gpu_allocated_bytes", GS_METRICS_GAUGE, "bytes",
		"Memory allocated by traced calls and not freed, by kind: of devices, and of the host (pinned, registered; without a uuid).");
	put_allocated(p, g, false);
	gs_metrics_family(p, "gpuscope_process_gpu_allocated_peak_bytes", GS_METRICS_GAUGE, "bytes",
			  "Maximum of gpuscope_process_gpu_allocated_bytes.");
	put_allocated(p, g, true);
	gs_metrics_family(
		p, "gpuscope_process_gpu_memory_bytes", GS_METRICS_GAUGE, "bytes",
		"Device memory of the process as the driver reports it, contexts and code included.");
	for (size_t i = 0; i < g->n_rows; i++)
		if (g->rows[i].driver_bytes >= 0)
			put_line(p, &g->rows[i], NULL, NULL, (double)g->rows[i].driver_bytes);
	gs_metrics_family(p, "gpuscope_process_gpu_memory_peak_bytes", GS_METRICS_GAUGE, "bytes",
			  "Maximum of gpuscope_process_gpu_memory_bytes when it was read.");
	for (size_t i = 0; i < g->n_rows; i++)
		if (g->rows[i].driver_peak_bytes >= 0)
			put_line(p, &g->rows[i], NULL, NULL, (double)g->rows[i].driver_peak_bytes);
}

static void put_gpus(struct gs_metrics *p, const struct agent_gpu *g)
{
	gs_metrics_family(
		p, "gpuscope_process_gpu_any_active_seconds", GS_METRICS_COUNTER, "seconds",
		"Time in which work of any traced process was pending on the GPU, at most.");
	for (size_t i = 0; i < g->n_gpus; i++) {
		struct gs_metrics_label l = {"uuid", g->gpu[i].uuid};

		gs_metrics_line(p, "", &l, 1, (double)g->gpu[i].total.active_max_ns / 1e9, 0);
	}
	gs_metrics_family(
		p, "gpuscope_process_gpu_core_factor", GS_METRICS_GAUGE, "",
		"How many times the GPU's cores the traced processes used together in the last half second; at least 1.");
	for (size_t i = 0; i < g->n_gpus; i++) {
		struct gs_metrics_label l = {"uuid", g->gpu[i].uuid};

		gs_metrics_line(p, "", &l, 1, g->gpu[i].total.core_factor, 0);
	}
}

void agent_gpu_metrics(struct gs_metrics *p, struct agent_gpu *g)
{
	pthread_mutex_lock(&g->lock);
	if (g->n_taken) {
		gs_metrics_one(p, "gpuscope_agent_process_gpu_requests", GS_METRICS_COUNTER,
			       (double)g->n_taken, "Requests to trace the GPU use of processes.");
		gs_metrics_one(p, "gpuscope_agent_process_gpu_running", GS_METRICS_GAUGE,
			       (double)g->n_requests,
			       "Active requests to trace the GPU use of processes.");
		gs_metrics_one(p, "gpuscope_agent_process_gpu_probes", GS_METRICS_GAUGE,
			       g->n_probes, "Probes attached to trace the GPU use of processes.");
		gs_metrics_one(p, "gpuscope_agent_process_gpu_inside", GS_METRICS_GAUGE,
			       g->n_inside,
			       "Processes whose GPU use is read from inside, without probes.");
		gs_metrics_one(p, "gpuscope_agent_process_gpu_lost", GS_METRICS_COUNTER,
			       (double)g->n_lost,
			       "Calls and events missing in the traced GPU use of processes.");
		gs_metrics_one(p, "gpuscope_agent_process_gpu_cpu_seconds", GS_METRICS_COUNTER,
			       (double)g->cpu_ns / 1e9,
			       "CPU time used to trace the GPU use of processes.");
	}
	put_rows(p, g);
	put_work(p, g);
	put_memory(p, g);
	put_gpus(p, g);
	pthread_mutex_unlock(&g->lock);
}
