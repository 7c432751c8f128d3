/*
 * A running trace. As in `gpuscope trace`, one thread controls (ends of processes, newly loaded
 * libraries) and another one consumes events, so that the ring does not fill while probes are attached to a library,
 * which takes the kernel some ms. Both have all signals blocked. The control thread also ends the trace: when the
 * command or the processes have ended, when the time is over, or on request.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "library/gpuscope/live_int.h"

#define POLL_NS    20000000ull
#define BUSY_NS    2000000ull /* pause after a pass that took long */
#define DRAIN_NS   500000000ull
#define CONTROL_MS 250
#define REST_NS    300000000ull /* time limit for reading files at the end */

extern char **environ;

/* --- callbacks of the probe, in the control thread or in live_trace_start() --- */

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	live_output_attach(&((struct live_trace *)ctx)->output, attach);
}

static void on_late(void *ctx, const char *path, pid_t pid, uint64_t gap_ns)
{
	struct live_trace *t = ctx;
	char detail[512];

	if (pid)
		snprintf(detail, sizeof(detail),
			 "%.400s in process %d: probes were attached %.1f ms after it was loaded",
			 path, (int)pid, (double)gap_ns / 1e6);
	else
		snprintf(detail, sizeof(detail), "%.400s: its process ended before that", path);
	live_output_loss(&t->output, GS_LOSS_LATE, detail, 1);
}

static void on_process(void *ctx, pid_t pid)
{
	live_output_process(&((struct live_trace *)ctx)->output, pid);
}

/* --- the consumer --- */

static void *consume_events(void *ctx)
{
	struct live_trace *t = ctx;
	uint64_t next_drain_ns = gs_clock_mono_ns() + DRAIN_NS;

	gs_guard_enter(t->consumer_guard);
	while (!atomic_load(&t->consumer_stop)) {
		uint64_t before = gs_clock_mono_ns(), took;
		bool drain = before >= next_drain_ns;
		struct timespec pause = {0};

		if (drain)
			live_output_refused(&t->output, t->consumer_guard);
		live_output_poll(&t->output, t->probe, drain);
		if (drain)
			next_drain_ns = before + DRAIN_NS;
		took = gs_clock_mono_ns() - before;
		pause.tv_nsec = (long)(took > POLL_NS / 4 ? BUSY_NS : POLL_NS);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* --- control --- */

/* Whether reading files should stop; called by the guards. */
static bool is_over(void *ctx)
{
	struct live_trace *t = ctx;
	uint64_t until_ns = atomic_load(&t->rest_until_ns);

	return until_ns ? gs_clock_mono_ns() > until_ns : atomic_load(&t->stop);
}

static void note_command_end(struct live_trace *t)
{
	int status;

	gs_close_p(&t->program_fd);
	snprintf(t->reason, sizeof(t->reason), "the command ended");
	/* The caller of the library may have waited for it already. */
	if (waitpid(t->program.pid, &status, WNOHANG) == t->program.pid) {
		t->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		if (WIFSIGNALED(status))
			snprintf(t->reason, sizeof(t->reason),
				 "the command was killed by signal %d", WTERMSIG(status));
	}
	t->program.pid = -1;
}

/* True when tracing is over. */
static bool check_ends(struct live_trace *t, const struct pollfd *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++) {
		if (!fds[i].revents)
			continue;
		if (fds[i].fd == t->program_fd) {
			note_command_end(t);
			return true;
		}
		for (size_t k = 0; k < t->n_pids; k++)
			if (t->pid_fds[k] == fds[i].fd) {
				gs_close_p(&t->pid_fds[k]);
				t->n_pids_left--;
				break;
			}
	}
	if (t->ends_with_pids && !t->n_pids_left) {
		snprintf(t->reason, sizeof(t->reason), "the traced process%s ended",
			 t->n_pids > 1 ? "es" : "");
		return true;
	}
	if (atomic_load(&t->stop)) {
		snprintf(t->reason, sizeof(t->reason), "stopped");
		return true;
	}
	if (t->duration_ns && gs_clock_mono_ns() - t->start_ns >= t->duration_ns) {
		snprintf(t->reason, sizeof(t->reason), "the duration is over");
		return true;
	}
	return false;
}

static int time_left_ms(const struct live_trace *t)
{
	uint64_t elapsed_ns = gs_clock_mono_ns() - t->start_ns, left;

	if (gs_uprobe_n_waiting(t->probe))
		return 0;
	if (!t->duration_ns)
		return CONTROL_MS;
	left = elapsed_ns < t->duration_ns ? (t->duration_ns - elapsed_ns) / 1000000 + 1 : 0;
	return left < CONTROL_MS ? (int)left : CONTROL_MS;
}

static void control_trace(struct live_trace *t)
{
	struct pollfd fds[3 + LIVE_PIDS_MAX];
	uint64_t next_slow_ns = 0, now_ns;
	size_t n;

	do {
		n = 0;
		fds[n++] = (struct pollfd){.fd = gs_uprobe_watch_fd(t->probe), .events = POLLIN};
		fds[n++] = (struct pollfd){.fd = t->wake_fd, .events = POLLIN};
		if (t->program_fd >= 0)
			fds[n++] = (struct pollfd){.fd = t->program_fd, .events = POLLIN};
		for (size_t i = 0; i < t->n_pids; i++)
			if (t->pid_fds[i] >= 0)
				fds[n++] = (struct pollfd){.fd = t->pid_fds[i], .events = POLLIN};
		poll(fds, n, time_left_ms(t));
		now_ns = gs_clock_mono_ns();
		if (fds[0].revents || gs_uprobe_n_waiting(t->probe) ||
		    (fds[0].fd < 0 && now_ns >= next_slow_ns))
			gs_uprobe_watch_poll(t->probe);
		if (now_ns >= next_slow_ns) {
			gs_uprobe_rescan(t->probe);
			live_output_refused(&t->output, t->guard);
			next_slow_ns = now_ns + CONTROL_MS * 1000000ull;
		}
	} while (!check_ends(t, fds, n));
}

static void stop_consumer(struct live_trace *t)
{
	if (!t->consumer_runs)
		return;
	atomic_store(&t->consumer_stop, true);
	pthread_join(t->consumer, NULL);
	t->consumer_runs = false;
}

static void finish_trace(struct live_trace *t)
{
	struct gs_err err = {{0}};
	size_t n_waiting;
	int r;

	stop_consumer(t);
	atomic_store(&t->rest_until_ns, gs_clock_mono_ns() + REST_NS);
	gs_guard_set_deadline(t->guard, 0); /* takes back that it was stopped */
	/* Libraries mapped in the last moments are at least reported. */
	gs_uprobe_watch_end(t->probe);
	n_waiting = gs_uprobe_n_waiting(t->probe);
	if (n_waiting)
		live_output_loss(&t->output, GS_LOSS_LATE, "files not read before tracing ended",
				 n_waiting);
	gs_uprobe_report_missing(t->probe);
	live_output_refused(&t->output, t->guard);
	r = live_output_end(&t->output, t->probe, t->exit_status, t->reason, &err);
	gs_uprobe_free(&t->probe);
	pthread_mutex_lock(&t->state_lock);
	t->error = r;
	t->error_text = err;
	t->finished = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->state_lock);
}

static void *run_control(void *ctx)
{
	struct live_trace *t = ctx;

	gs_guard_enter(t->guard);
	control_trace(t);
	finish_trace(t);
	return NULL;
}

/* --- start --- */

static int open_targets(struct live_trace *t, const struct gs_trace_options *o, struct gs_err *err)
{
	for (size_t i = 0; i < o->n_pids; i++) {
		t->pid_fds[i] = (int)syscall(SYS_pidfd_open, o->pids[i], 0);
		if (t->pid_fds[i] < 0)
			return gs_err_set(err, -errno, "process %d: %s", (int)o->pids[i],
					  strerror(errno));
		t->n_pids++;
		t->n_pids_left++;
		if (gs_library_may_scan(o->pids[i], err) < 0)
			return -EPERM;
	}
	t->ends_with_pids = o->n_pids && !(o->flags & GS_TRACE_FOLLOW);
	return 0;
}

static int prepare_command(struct live_trace *t, const struct gs_trace_options *o,
			   const sigset_t *mask, struct gs_err *err)
{
	const struct gs_program_options po = {
		.size = sizeof(po), .words = (char *const *)o->command, .mask = mask};
	int r = gs_program_prepare(&po, &t->program);

	if (r < 0)
		return gs_err_set(err, r, "cannot start a process: %s", strerror(-r));
	t->program_fd = (int)syscall(SYS_pidfd_open, t->program.pid, 0);
	return t->program_fd < 0 ? -errno : 0;
}

static int start_probe(struct live_trace *t, const struct gs_trace_options *o, struct gs_err *err)
{
	struct gs_uprobe_options po = {
		.size = sizeof(po),
		.events = !(o->flags & GS_TRACE_SUMMARY_ONLY),
		.marks = true,
		.min_dur_ns = o->min_dur_ns,
		.ring_bytes = o->ring_bytes,
		.pids = o->n_pids ? o->pids : &t->program.pid,
		.n_pids = o->n_pids ? o->n_pids : t->program.pid > 0,
		.follow = o->command || o->flags & GS_TRACE_FOLLOW,
		.all = o->flags & GS_TRACE_ALL,
		.uid = -1,
		.comm = o->comm,
		.cgroup = o->cgroup,
		.layers = t->plan.layers,
		.globs = t->plan.globs,
		.n_globs = t->plan.n_globs,
		.ops = t->plan.ops,
		.n_ops = t->plan.n_ops,
		.users = t->plan.users,
		.funcs = t->funcs,
		.on_attach = on_attach,
		.on_late = on_late,
		.on_process = on_process,
		.ctx = t,
	};

	return gs_uprobe_new(&po, &t->probe, err);
}

/* Attaches to everything that exists before the first event. */
static void attach_first(struct live_trace *t, const struct gs_trace_options *o)
{
	if (o->command) {
		gs_program_attach(t->probe, (char *const *)o->command, environ);
		return;
	}
	gs_uprobe_attach_running(t->probe);
	/* For future processes: the usual places of libraries. */
	if (!t->ends_with_pids)
		gs_uprobe_attach_candidates(t->probe, "/proc/self/exe", environ);
}

static int new_guards(struct live_trace *t)
{
	const struct gs_guard_options o = {.size = sizeof(o), .stop = is_over, .ctx = t};
	int r = gs_guard_new(&o, &t->guard);

	return r == 0 ? gs_guard_new(&o, &t->consumer_guard) : r;
}

/* Everything before the threads. */
static int open_all(struct live_trace *t, const struct gs_trace_options *o, const sigset_t *mask,
		    struct gs_err *err)
{
	int r = live_plan_make(o, &t->plan, err);

	if (r == 0)
		r = open_targets(t, o, err);
	if (r < 0)
		return r;
	t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->funcs = gs_func_set_new();
	if (t->wake_fd < 0 || !t->funcs)
		return t->wake_fd < 0 ? -errno : -ENOMEM;
	if (o->command)
		r = prepare_command(t, o, mask, err);
	if (r == 0)
		r = start_probe(t, o, err);
	if (r == 0)
		r = live_output_init(&t->output, o, &t->plan, t->funcs,
				     gs_uprobe_attach_mode(t->probe), err);
	return r;
}

static int start_threads(struct live_trace *t, const struct gs_trace_options *o, struct gs_err *err)
{
	int r = -pthread_create(&t->consumer, NULL, consume_events, t);

	t->consumer_runs = r == 0;
	if (r == 0) {
		attach_first(t, o);
		t->start_ns = gs_clock_mono_ns();
		r = o->command ? gs_program_start(&t->program, o->command[0], err) : 0;
	}
	if (r == 0) {
		r = -pthread_create(&t->control, NULL, run_control, t);
		t->control_runs = r == 0;
	}
	return r;
}

int live_trace_start(const struct gs_trace_options *options, struct live_trace **ret_live,
		     struct gs_err *err)
{
	struct live_trace *t = calloc(1, sizeof(*t));
	struct gs_guard *guard_before;
	sigset_t all, before;
	int r;

	if (!t)
		return -ENOMEM;
	t->program = GS_PROGRAM_INIT;
	t->program_fd = t->wake_fd = -1;
	t->exit_status = -1;
	t->duration_ns = options->duration_ns;
	memset(t->pid_fds, -1, sizeof(t->pid_fds));
	pthread_mutex_init(&t->output.lock, NULL);
	pthread_mutex_init(&t->state_lock, NULL);
	{
		pthread_condattr_t attr;

		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&t->changed, &attr);
		pthread_condattr_destroy(&attr);
	}
	/* Threads have the mask of their maker. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = new_guards(t);
	guard_before = gs_guard_enter(t->guard);
	if (r == 0)
		r = open_all(t, options, &before, err);
	if (r == 0)
		r = start_threads(t, options, err);
	gs_guard_enter(guard_before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		live_trace_free(&t);
	else
		*ret_live = t;
	return r;
}

void live_trace_free(struct live_trace **live)
{
	struct live_trace *t = *live;

	if (!t)
		return;
	if (t->control_runs) {
		live_trace_stop(t, NULL);
		pthread_join(t->control, NULL);
	} else {
		stop_consumer(t);
		gs_program_abandon(&t->program);
	}
	gs_uprobe_free(&t->probe);
	live_output_fini(&t->output);
	live_plan_fini(&t->plan);
	gs_func_set_free(&t->funcs);
	gs_guard_free(&t->guard);
	gs_guard_free(&t->consumer_guard);
	gs_close_p(&t->program_fd);
	gs_close_p(&t->wake_fd);
	gs_close_p(&t->program.go_fd);
	gs_close_p(&t->program.error_fd);
	for (size_t i = 0; i < t->n_pids; i++)
		gs_close_p(&t->pid_fds[i]);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->state_lock);
	pthread_mutex_destroy(&t->output.lock);
	free(t);
	*live = NULL;
}

/* --- called from the threads of the caller --- */

int live_trace_wait(struct live_trace *t, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000)};
	int r = 0;

	pthread_mutex_lock(&t->state_lock);
	while (!t->finished && r != ETIMEDOUT)
		r = until_ns == UINT64_MAX
			    ? pthread_cond_wait(&t->changed, &t->state_lock)
			    : pthread_cond_timedwait(&t->changed, &t->state_lock, &until);
	r = t->finished ? GS_NEXT_END : GS_NEXT_TIMEOUT;
	pthread_mutex_unlock(&t->state_lock);
	return r;
}

int live_trace_stop(struct live_trace *t, struct gs_err *err)
{
	const uint64_t one = 1;
	int r;

	atomic_store(&t->stop, true);
	(void)!write(t->wake_fd, &one, sizeof(one));
	live_trace_wait(t, UINT64_MAX);
	pthread_mutex_lock(&t->state_lock);
	r = t->error;
	if (r < 0)
		gs_err_set(err, r, "%s", gs_err_text(&t->error_text, r));
	pthread_mutex_unlock(&t->state_lock);
	return r;
}

struct record_queue *live_trace_queue(struct live_trace *t)
{
	return t->output.queue;
}

int64_t live_trace_boot_minus_mono_ns(const struct live_trace *t)
{
	return t->output.boot_minus_mono_ns;
}

void live_trace_lock(struct live_trace *t, struct gs_aggregate **ret_view,
		     struct gs_findings **ret_findings, uint32_t *ret_layers, bool *ret_ended)
{
	pthread_mutex_lock(&t->output.lock);
	*ret_view = t->output.view;
	*ret_findings = t->output.findings;
	*ret_layers = t->plan.layers;
	*ret_ended = t->output.ended;
}

void live_trace_unlock(struct live_trace *t)
{
	pthread_mutex_unlock(&t->output.lock);
}
