/*
 * gpuscope trace: puts the probe, the outputs and the traced command together. The main thread
 * controls (signals, the command's end, newly loaded libraries); a second one consumes events every
 * 20 ms, so that attaching to a library, which takes the kernel some ms, never lets the ring fill.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "commands/common/cli.h"
#include "core/reader/reader.h"
#include "sources/kernel_types/kernel_types.h"
#include "core/sandbox/sandbox.h"
#include "commands/trace/trace.h"
#include "commands/trace/trace_attach.h"
#include "commands/trace_output/trace_budget.h"
#include "commands/trace_output/trace_keep.h"
#include "commands/trace/trace_gpu.h"
#include "commands/trace/trace_hangs.h"
#include "commands/trace/trace_inside.h"
#include "commands/trace/trace_kineto.h"
#include "commands/trace/trace_live.h"
#include "commands/trace/trace_quit.h"
#include "model/trace/func.h"

#define POLL_NS     20000000ull
#define BUSY_NS     2000000ull /* after a full-looking ring */
#define HARVEST_NS  500000000ull
#define GLANCE_NS   50000000ull /* between two looks at what tracing costs, with a limit */
#define GLANCE_TAX  20          /* a look may take one part in so many of the time */
#define CONTROL_MS  250
#define REGROUP_MS  25
#define MAX_KEPT    16
#define REST_NS     300000000ull  /* after Ctrl-C, for stacks that are there already, */
#define LAST_NS     100000000ull  /* for what was mapped last, without stacks */
#define REST_MAX_NS 2000000000ull /* and after any other end */

struct trace {
	struct trace_options options;
	struct gs_func_set *funcs;     /* outlives probe and output */
	struct gs_reader *reader;      /* of files; the control thread's */
	struct gs_reader *stacks;      /* of files for native stacks; NULL: there are none */
	struct gs_kernel_types *types; /* while probes are made; NULL: each reads them */
	struct gs_uprobe *probe;
	struct trace_output *output;
	struct trace_python *python;
	struct trace_budget *budget; /* NULL: what tracing costs is not known here */
	struct trace_gpu *gpu;       /* NULL: no samples of GPUs */
	struct trace_kineto *kineto; /* NULL: without --gpu-time */
	struct trace_inside *inside; /* NULL: all is seen by probes */
	struct trace_attach *attach; /* NULL: no running process is asked to be seen from inside */
	struct trace_hangs *hangs;
	struct gs_map seen_inside; /* hashes of libraries that are said to be seen from inside */
	struct gs_program child;
	int signal_fd;
	struct inherited_signals inherited;
	int pid_fds[TRACE_MAX_PIDS]; /* readable when the process has ended; -1 closed */
	size_t n_pids_left;
	uint64_t attach_ns, start_ns, duration_from_ns;
	/* What both threads read of others' files they read under these: it ends when tracing does.
	 */
	struct gs_guard *guard, *consumer_guard;
	struct signalfd_siginfo kept[MAX_KEPT]; /* signals that came while files were read */
	unsigned n_kept;
	atomic_bool consumer_stop;
	_Atomic uint64_t consumer_stop_ns;
	pthread_t consumer;
	bool consumer_runs;
	struct trace_live live;
	struct trace_quit quit;
	bool is_over;
	atomic_bool is_ending; /* signals are quit's */
	unsigned n_interrupts;
	bool child_ended;
	int child_status; /* as our exit status */
	char reason[96];
};

/* --- news from the probe --- */

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	struct trace *t = ctx;

	if (attach->status == 0)
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "%s: %u probes (%u moved, %u single-stepped)%s%s", attach->path,
		       attach->n_probes, attach->n_moved, attach->n_stepped,
		       attach->reason ? "; " : "", attach->reason ? attach->reason : "");
	else
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "%s%s%s: %s", attach->path,
		       attach->function ? ": " : "", attach->function ? attach->function : "",
		       attach->reason);
	if (t->output)
		trace_output_attach(t->output, attach);
}

/* A library of CUDA, NCCL or PyTorch, or an interpreter, in a process that is seen from inside: said once for each. */
static bool on_leaves_out(void *ctx, pid_t pid, const char *path)
{
	struct trace *t = ctx;
	int r = t->inside ? trace_output_attaches(t->output, pid, path) : 1;
	uint64_t key = gs_hash_bytes(path, strlen(path)), one;

	if (r == 0 && pid && !gs_map_get(&t->seen_inside, key, &one) &&
	    gs_map_put(&t->seen_inside, key, 1) == 0)
		on_attach(t, &(struct gs_attach){.path = path, .reason = GS_ATTACH_INSIDE});
	return r <= 0;
}

static void on_late(void *ctx, const char *path, pid_t pid, uint64_t gap_ns)
{
	struct trace *t = ctx;
	char detail[512], gap[GS_FMT_BYTES];

	if (pid)
		snprintf(detail, sizeof(detail),
			 "%.400s in process %d: probes were attached %s after it was loaded", path,
			 (int)pid, gs_fmt_ns(gap, gap_ns));
	else
		snprintf(detail, sizeof(detail), "%.400s: its process ended before that", path);
	trace_output_loss(t->output, GS_LAYER_NONE, GS_LOSS_LATE, detail, 1);
}

/* Processes that were started to be seen from inside and are not get their probes now. */
static void attach_late(struct trace *t)
{
	struct gs_inside_late late;
	pid_t pid;

	while (t->inside && (pid = trace_output_next_late(t->output, &late)) > 0) {
		on_late(t, late.what, pid, late.gap_ns);
		gs_uprobe_attach_process(t->probe, pid);
	}
}

static void on_function(void *ctx, unsigned func, const struct gs_hit *hit)
{
	trace_budget_function(((struct trace *)ctx)->budget, func, hit);
}

/* Probes removed: later calls are invisible, so report when that happened. */
static void on_off(void *ctx, unsigned func)
{
	struct trace *t = ctx;
	const struct gs_func *f = gs_func_set_get(t->funcs, func);
	const char *name = f ? f->name : "unknown";
	char detail[512], since[GS_FMT_BYTES];

	gs_fmt_ns(since, gs_clock_mono_ns() - t->start_ns);
	gs_cli_print_message("--max-overhead: the probes of %s were removed %s after the start",
			     name, since);
	snprintf(detail, sizeof(detail), "%.400s, %s after the start", name, since);
	trace_output_loss(t->output, f ? f->desc.layer : GS_LAYER_NONE, GS_LOSS_OFF, detail, 1);
}

static void on_process(void *ctx, pid_t pid)
{
	trace_output_process(((struct trace *)ctx)->output, pid);
}

static void on_exec(void *ctx, pid_t pid, uint64_t mono_ns)
{
	struct trace *t = ctx;

	if (t->output)
		trace_output_exec(t->output, pid, mono_ns);
}

static void on_map(void *ctx, pid_t pid, uint64_t mono_ns, const struct gs_mapping *mapping)
{
	trace_output_map(((struct trace *)ctx)->output, pid, mono_ns, mapping);
}

static void on_python(void *ctx, pid_t pid)
{
	trace_python_find(((struct trace *)ctx)->python, pid);
}

/* --- the consumer thread --- */

/* Signals that came while files were read are kept for read_signals(), which does what has to be
 * done: here others' locks may be held. How many ask for the end. */
static unsigned keep_signals(struct trace *t)
{
	unsigned n = 0;

	if (atomic_load(&t->is_ending))
		return trace_quit_n_signals(&t->quit);
	while (t->n_kept < MAX_KEPT &&
	       read(t->signal_fd, &t->kept[t->n_kept], sizeof(t->kept[0])) == sizeof(t->kept[0]))
		t->n_kept++;
	for (unsigned i = 0; i < t->n_kept; i++)
		n += t->kept[i].ssi_signo != SIGCHLD && t->kept[i].ssi_signo != SIGUSR1;
	return n;
}

/* Stacks of a program that was short are all read after its end. The thread that controls waits
 * then, so that signals are asked for here. */
static bool consumer_is_over(void *ctx)
{
	struct trace *t = ctx;
	uint64_t rest_ns = t->n_interrupts ? REST_NS : REST_MAX_NS;

	return atomic_load(&t->consumer_stop) &&
	       (keep_signals(t) ||
		gs_clock_mono_ns() - atomic_load(&t->consumer_stop_ns) > rest_ns);
}

static void *consume_events(void *ctx)
{
	struct trace *t = ctx;
	uint64_t next_harvest_ns = gs_clock_mono_ns() + HARVEST_NS;
	bool limited = t->options.max_overhead > 0;
	uint64_t next_glance_ns = limited ? 0 : UINT64_MAX;

	gs_guard_enter(t->consumer_guard);
	while (!atomic_load(&t->consumer_stop)) {
		uint64_t before = gs_clock_mono_ns(), took;
		bool harvest = before >= next_harvest_ns;
		struct timespec pause = {0};
		bool is_busy = false;

		if (harvest)
			trace_report_refused(t->output, t->consumer_guard);
		if (!harvest && before >= next_glance_ns)
			trace_output_glance(t->output, t->probe);
		else
			is_busy = trace_output_poll(t->output, t->probe, harvest);
		took = gs_clock_mono_ns() - before;
		if (limited && (harvest || before >= next_glance_ns))
			next_glance_ns = before + (took * GLANCE_TAX > GLANCE_NS ? took * GLANCE_TAX
										 : GLANCE_NS);
		if (harvest)
			next_harvest_ns = before + HARVEST_NS;
		/* A long drain means many events: come back sooner. */
		pause.tv_nsec = (long)(is_busy || took > POLL_NS / 4 ? BUSY_NS : POLL_NS);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static int start_consumer(struct trace *t)
{
	int e;

	if (!t->options.quiet && isatty(STDERR_FILENO))
		trace_output_want_gpu_wait(t->output);
	e = pthread_create(&t->consumer, NULL, consume_events, t);
	t->consumer_runs = e == 0;
	return -e;
}

static void stop_consumer(struct trace *t)
{
	if (!t->consumer_runs)
		return;
	atomic_store(&t->consumer_stop_ns, gs_clock_mono_ns());
	atomic_store(&t->consumer_stop, true);
	pthread_join(t->consumer, NULL);
	t->consumer_runs = false;
	trace_report_refused(t->output, t->consumer_guard);
}

/* --- control --- */

/* The command is over. As long as it is not waited for its names can still be read, and on a busy
 * machine that may not have been done yet. */
static void reap_child(struct trace *t)
{
	siginfo_t info = {0};
	int status;

	if (t->child.pid <= 0 ||
	    waitid(P_PID, (id_t)t->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid != t->child.pid)
		return;
	if (t->consumer_runs)
		trace_output_process(t->output, t->child.pid);
	if (waitpid(t->child.pid, &status, 0) != t->child.pid)
		return;
	t->child.pid = -1;
	t->child_ended = true;
	if (WIFSIGNALED(status)) {
		t->child_status = 128 + WTERMSIG(status);
		snprintf(t->reason, sizeof(t->reason), "the command was killed by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else {
		t->child_status = WEXITSTATUS(status);
		snprintf(t->reason, sizeof(t->reason), "the command ended");
	}
}

/* True when tracing is over by this signal. */
static bool on_signal(struct trace *t, const struct signalfd_siginfo *s)
{
	if (s->ssi_signo == SIGCHLD) {
		reap_child(t);
		return t->child_ended;
	}
	if (s->ssi_signo == SIGUSR1 || s->ssi_signo == SIGHUP)
		trace_output_ask_keep_signal(t->output, s);
	if (s->ssi_signo == SIGUSR1)
		return false;
	t->n_interrupts++;
	snprintf(t->reason, sizeof(t->reason), "interrupted (SIG%s)",
		 sigabbrev_np((int)s->ssi_signo));
	/* With a command of ours the first one is for the command: a terminal sends it to both; one
	 * that was sent to us alone is passed on. Its end is ours. */
	if (t->child.pid > 0 && t->n_interrupts == 1) {
		if (s->ssi_code <= 0)
			kill(t->child.pid, (int)s->ssi_signo);
		trace_live_clear(&t->live);
		gs_cli_print_message(
			"waiting for the command to end; once more stops tracing and leaves it running");
		return false;
	}
	return true;
}

/* Reading files ends with --duration, from now on. */
static void set_deadline(struct trace *t)
{
	uint64_t ns = t->options.duration_ns;

	gs_guard_set_deadline(t->guard, ns ? t->duration_from_ns + ns : 0);
}

static bool read_signals(struct trace *t)
{
	bool was_full = t->n_kept == MAX_KEPT, over = false;
	struct signalfd_siginfo s;

	for (unsigned i = 0; i < t->n_kept; i++)
		over |= on_signal(t, &t->kept[i]);
	t->n_kept = 0;
	while (read(t->signal_fd, &s, sizeof(s)) == sizeof(s))
		over |= on_signal(t, &s);
	/* Files are read on: they stopped to have the signals looked at. */
	if (was_full && !over)
		set_deadline(t);
	return over;
}

/* Asked while files are read: is tracing over by a signal? */
static bool control_is_over(void *ctx)
{
	struct trace *t = ctx;
	siginfo_t info = {0};
	unsigned n;

	if (t->is_over)
		return false; /* the deadline ends what is left */
	if (t->attach_ns && !t->start_ns && !t->options.quiet)
		trace_live_show_start(&t->live, gs_clock_mono_ns() - t->attach_ns);
	n = t->n_interrupts + keep_signals(t);
	if (t->child.pid <= 0)
		return n > 0;
	/* The first one is for the command. */
	return n > 1 || t->n_kept == MAX_KEPT ||
	       (waitid(P_PID, (id_t)t->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == t->child.pid);
}

static int new_guards(struct trace *t)
{
	struct gs_guard_options o = {.size = sizeof(o), .stop = control_is_over, .ctx = t};
	int r = gs_guard_new(&o, &t->guard);

	o.stop = consumer_is_over;
	if (r == 0)
		r = gs_guard_new(&o, &t->consumer_guard);
	gs_guard_enter(t->guard);
	return r;
}

/* True when none of the processes given by -p is left. */
static bool check_targets(struct trace *t, const struct pollfd *fds, const size_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!fds[i].revents)
			continue;
		gs_close_p(&t->pid_fds[which[i]]);
		t->n_pids_left--;
	}
	if (t->options.n_pids && !t->options.follow && !t->n_pids_left) {
		snprintf(t->reason, sizeof(t->reason), "the traced process%s ended",
			 t->options.n_pids > 1 ? "es" : "");
		return true;
	}
	return false;
}

/* The time that --duration limits begins now. */
static void begin_duration(struct trace *t)
{
	t->duration_from_ns = gs_clock_mono_ns();
	set_deadline(t);
}

static int time_left_ms(const struct trace *t)
{
	uint64_t elapsed = gs_clock_mono_ns() - t->duration_from_ns, left;

	if (!t->options.duration_ns)
		return CONTROL_MS;
	if (elapsed >= t->options.duration_ns)
		return 0;
	left = (t->options.duration_ns - elapsed) / 1000000 + 1;
	return left < CONTROL_MS ? (int)left : CONTROL_MS;
}

static void write_kept(struct trace *t)
{
	struct trace_keep_copy *copy = trace_output_take_keep(t->output);

	if (!copy)
		return;
	trace_live_clear(&t->live);
	(void)trace_keep_write(&copy);
}

static void control_trace(struct trace *t)
{
	uint64_t next_slow_ns = 0;

	for (;;) {
		struct pollfd fds[2 + TRACE_MAX_PIDS];
		size_t which[TRACE_MAX_PIDS], n = 0;
		int timeout = time_left_ms(t), retry;
		uint64_t now;

		fds[0] = (struct pollfd){.fd = t->signal_fd, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = gs_uprobe_watch_fd(t->probe), .events = POLLIN};
		for (size_t i = 0; i < t->options.n_pids; i++) {
			if (t->pid_fds[i] < 0)
				continue;
			which[n] = i;
			fds[2 + n++] = (struct pollfd){.fd = t->pid_fds[i], .events = POLLIN};
		}
		if (gs_uprobe_n_waiting(t->probe) || t->n_kept)
			timeout = 0;
		retry = trace_python_tick(t->python);
		if (retry >= 0 && retry < timeout)
			timeout = retry;
		timeout = trace_attach_tick(t->attach, t->probe, timeout);
		if (t->options.max_overhead > 0 && timeout > REGROUP_MS)
			timeout = REGROUP_MS;
		poll(fds, 2 + n, timeout);
		if (read_signals(t) || check_targets(t, fds + 2, which, n))
			return;
		now = gs_clock_mono_ns();
		gs_uprobe_regroup(t->probe);
		if (fds[1].revents || gs_uprobe_n_waiting(t->probe) ||
		    (fds[1].fd < 0 && now >= next_slow_ns))
			gs_uprobe_watch_poll(t->probe);
		if (fds[1].fd < 0 && now >= next_slow_ns)
			trace_python_find_all(t->python);
		if (now >= next_slow_ns && !gs_guard_stopped()) {
			gs_uprobe_rescan(t->probe);
			trace_report_refused(t->output, t->guard);
			trace_hangs_report(t->hangs);
			write_kept(t);
			if (!t->options.quiet)
				trace_live_show(&t->live, t->output, trace_budget_ratio(t->budget),
						gs_clock_mono_ns() - t->start_ns);
			next_slow_ns = now + CONTROL_MS * 1000000ull;
		}
		attach_late(t);
		if (!trace_budget_has_begun(t->budget))
			begin_duration(t);
		now = gs_clock_mono_ns();
		if (t->options.duration_ns && now - t->duration_from_ns >= t->options.duration_ns) {
			snprintf(t->reason, sizeof(t->reason), "--duration is over");
			return;
		}
	}
}

/* --- start and end --- */

static int start_probe(struct trace *t, struct gs_err *err)
{
	const struct trace_options *o = &t->options;
	struct gs_uprobe_options po = {
		.size = sizeof(po),
		.events = !o->summary_only,
		.marks = true,
		.min_dur_ns = o->min_dur_ns,
		.ring_bytes = o->ring_bytes,
		.disabled_features = o->disabled_features,
		.pids = o->n_pids ? o->pids : &t->child.pid,
		.n_pids = o->n_pids ? o->n_pids : t->child.pid > 0,
		.follow = o->follow || o->command,
		.all = o->all,
		.uid = o->uid,
		.comm = o->comm,
		.cgroup = o->cgroup,
		.layers = o->layers,
		.globs = o->funcs.glob,
		.n_globs = o->funcs.n,
		.users = o->users,
		.funcs = t->funcs,
		.reader = t->reader,
		.op_set = o->op_set,
		.ops = o->ops.glob,
		.n_ops = o->ops.n,
		.modes = o->max_overhead > 0 || o->estimate,
		.default_mode = o->estimate ? GS_MODE_COUNT : GS_MODE_EVENTS,
		.on_attach = on_attach,
		.on_late = on_late,
		.leaves_out = on_leaves_out,
		.on_process = on_process,
		.on_exec = on_exec,
		.on_map = on_map,
		.on_python = on_python,
		.on_function = on_function,
		.on_off = on_off,
		.py_stack_at = o->py_stack_at,
		.slow_scope_ns = o->slow_scope_ns,
		.types = t->types,
		.python_gc = o->python_gc,
		.python_gil = o->python_gil,
		.native_stack_at = o->native_stack_at,
		.maps = trace_wants_code(o),
		.stack_bytes = o->stack_bytes,
		.sample_period_ns = o->python_hz ? 1000000000u / o->python_hz : 0,
		.ctx = t,
	};

	trace_python_calls(o, &po);
	return gs_uprobe_new(&po, &t->probe, err);
}

/* What is there to attach to before the first event. */
static void attach_first(struct trace *t)
{
	const struct trace_options *o = &t->options;

	if (o->command) {
		gs_program_attach(t->probe, o->command, environ);
		return;
	}
	gs_uprobe_attach_running(t->probe);
	if (o->n_pids && !o->follow) {
		for (size_t i = 0; i < o->n_pids; i++)
			trace_python_find(t->python, o->pids[i]);
	} else {
		trace_python_find_all(t->python);
	}
	/* Processes to come: the places where any program may load its libraries from. */
	if (!o->n_pids || o->follow)
		gs_uprobe_attach_candidates(t->probe, "/proc/self/exe", environ);
}

/* Everything up to the first event. 0 or an exit status, said. */
static int start_trace(struct trace *t)
{
	const struct gs_reader_options reads_files = {.name = "files"};
	const struct gs_reader_options reads_stacks = {.name = "stacks", .keeps_state = true};
	struct gs_err err = {{0}};
	char target[1024];
	int r = trace_open_signals(&t->options, &t->inherited, &t->signal_fd), measured;

	if (r == 0)
		r = new_guards(t);
	if (r == 0)
		r = trace_open_targets(&t->options, t->pid_fds, &t->n_pids_left);
	if (r < 0)
		return r == -ESRCH ? GS_EXIT_NOTHING : GS_EXIT_FAILED;
	if (trace_check_summary(t->options.summary_path) < 0)
		return GS_EXIT_FAILED;
	t->funcs = gs_func_set_new();
	if (!t->funcs)
		return GS_EXIT_FAILED;
	r = trace_inside_new(&t->options, t->funcs, &t->inside, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return r == -ENOENT ? GS_EXIT_USAGE : GS_EXIT_FAILED;
	}
	if (t->options.command) {
		r = trace_child_prepare(&t->child, t->options.command, &t->inherited, t->inside);
		if (r < 0) {
			gs_cli_print_message("cannot start a process: %s", strerror(-r));
			return GS_EXIT_FAILED;
		}
	}
	/* As early as can be: they get ready while the probes are made. */
	r = gs_reader_new(&reads_files, &t->reader, &err);
	if (r == 0 && trace_wants_code(&t->options))
		r = gs_reader_new(&reads_stacks, &t->stacks, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return GS_EXIT_FAILED;
	}
	trace_raise_file_limit();
	trace_describe_target(&t->options, target, sizeof(target));
	/* First, while nothing else takes memory. Without permission the probe says so. */
	(void)gs_kernel_types_new(&t->types);
	measured = trace_budget_new(&t->options, t->funcs, t->types, &t->budget, &err);
	r = measured == 0 || measured == -EPERM ? start_probe(t, &err) : measured;
	gs_kernel_types_free(&t->types);
	if (r == 0)
		r = measured;
	if (r == 0) /* the programs are loaded, the command is forked, no thread stays yet */
		gs_sandbox_keep_tracing(GS_SANDBOX_GPU_COUNTERS);
	if (r == 0 && trace_check_sight(&t->options) < 0)
		return GS_EXIT_NOT_PERMITTED;
	if (r == 0)
		r = trace_output_new(&t->options, gs_uprobe_attach_mode(t->probe), target, t->funcs,
				     t->stacks, &t->output, &err);
	if (r < 0) {
		gs_cli_print_failure(&err, r);
		if (r == -ENOENT && !t->probe)
			return t->options.cgroup ? GS_EXIT_NOTHING : GS_EXIT_USAGE;
		return gs_cli_exit_status_of(r);
	}
	r = trace_python_new(&t->options, t->probe, t->reader, t->output, &t->python);
	t->hangs = trace_hangs_new(t->reader, t->output, &t->live);
	if (r == 0 && !t->hangs)
		r = -ENOMEM;
	trace_budget_set_python(t->budget, gs_uprobe_python_id(t->probe));
	trace_output_set_budget(t->output, t->budget);
	trace_output_set_inside(t->output, trace_inside_events(t->inside));
	trace_budget_tick(t->budget, NULL);
	if (r == 0)
		r = start_consumer(t);
	if (r == 0)
		r = trace_gpu_start(&t->options, t->output, &t->gpu, &err);
	if (r < 0) {
		gs_cli_print_message("cannot start a thread: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	trace_attach_start(&t->options, t->inside, t->reader, t->output, &t->attach);
	t->attach_ns = gs_clock_mono_ns();
	trace_limit_start(&t->options, t->guard, t->attach_ns);
	attach_first(t);
	trace_live_begin(&t->live);
	trace_report_start(&t->options, gs_clock_mono_ns() - t->attach_ns);
	t->kineto = trace_kineto_start(&t->options, t->output);
	t->start_ns = gs_clock_mono_ns();
	begin_duration(t);
	return t->options.command ? trace_child_start(&t->child, t->options.command) : 0;
}

/* Stops tracing and writes the results. The exit status when there was no command. */
static int finish_trace(struct trace *t)
{
	size_t n_waiting;
	bool nothing;
	int r, s = 0, head;

	trace_live_clear(&t->live);
	trace_quit_begin(&t->quit, t->n_interrupts, t->options.outputs,
			 (unsigned)t->options.n_outputs);
	atomic_store(&t->is_ending, true);
	trace_kineto_stop(&t->kineto, &t->quit.gives_up);
	trace_quit_enter(&t->quit, TRACE_QUIT_FILES);
	trace_gpu_stop(&t->gpu);
	stop_consumer(t);
	t->is_over = true;
	/* Stacks of programs that have ended need what these had mapped. */
	gs_guard_set_deadline(t->guard,
			      gs_clock_mono_ns() + (!trace_wants_code(&t->options) ? LAST_NS
						    : t->n_interrupts              ? REST_NS
										   : REST_MAX_NS));
	/* Libraries mapped in the last moments are at least reported. */
	gs_uprobe_watch_end(t->probe);
	n_waiting = gs_uprobe_n_waiting(t->probe);
	if (n_waiting)
		trace_output_loss(t->output, GS_LAYER_NONE, GS_LOSS_LATE,
				  "files not read before tracing ended", n_waiting);
	gs_uprobe_report_missing(t->probe);
	gs_uprobe_regroup_end(t->probe);
	trace_report_refused(t->output, t->guard);
	/* The stacks of the last events are read under the consumer's guard. */
	gs_guard_set_deadline(t->consumer_guard, 0);
	atomic_store(&t->consumer_stop_ns, gs_clock_mono_ns());
	gs_guard_enter(t->consumer_guard);
	trace_attach_withdraw(t->attach);
	trace_output_stop(t->output, t->probe);
	trace_attach_free(&t->attach);
	trace_hangs_report(t->hangs);
	trace_inside_report(t->inside);
	trace_report_refused(t->output, t->consumer_guard);
	gs_guard_log_costs(t->guard, t->consumer_guard);
	nothing = trace_saw_nothing(&t->options, t->output, t->probe, t->python);
	r = trace_output_end(t->output, t->child_ended ? t->child_status : -1, t->reason);
	trace_quit_enter(&t->quit, TRACE_QUIT_SUMMARY);
	if (t->options.findings)
		s = trace_output_end_findings(t->output);
	else if (t->options.estimate)
		s = trace_output_write_plan(t->output);
	else
		s = trace_output_summary(t->output);
	trace_quit_enter(&t->quit, TRACE_QUIT_WRITTEN);
	trace_budget_report(t->budget);
	/* Last: a head that does not answer must not hold the results back. */
	head = trace_output_deliver(t->output);
	if (r < 0 || s < 0 || head < 0)
		return GS_EXIT_FAILED;
	return nothing ? GS_EXIT_NOTHING : GS_EXIT_DONE;
}

/* A command that outlives the tracing is waited for: its status is to be ours. */
static void wait_for_child(struct trace *t)
{
	if (t->child.pid <= 0 || t->n_interrupts > 1)
		return;
	gs_cli_print_message(
		"tracing is over; waiting for the command to end (Ctrl-C leaves it running)");
	while (!t->child_ended) {
		struct pollfd fd = {.fd = t->signal_fd, .events = POLLIN};

		poll(&fd, 1, -1);
		if (read_signals(t) && !t->child_ended)
			return;
	}
}

static void cleanup_trace(struct trace *t)
{
	trace_kineto_stop(&t->kineto, NULL);
	trace_gpu_stop(&t->gpu);
	stop_consumer(t);
	trace_python_free(&t->python);
	trace_hangs_free(&t->hangs);
	trace_attach_free(&t->attach);
	trace_output_free(&t->output);
	trace_inside_free(&t->inside);
	gs_map_fini(&t->seen_inside);
	gs_uprobe_free(&t->probe);
	gs_reader_free(&t->reader);
	gs_reader_free(&t->stacks);
	trace_budget_free(&t->budget);
	gs_func_set_free(&t->funcs);
	gs_guard_free(&t->guard);
	gs_guard_free(&t->consumer_guard);
	for (size_t i = 0; i < t->options.n_pids; i++)
		gs_close_p(&t->pid_fds[i]);
	gs_close_p(&t->signal_fd);
	trace_options_free(&t->options);
}

static int run_trace(int argc, char **argv, const struct gs_findings_options *findings)
{
	struct trace t = {
		.child = GS_PROGRAM_INIT, .signal_fd = -1, .seen_inside = GS_MAP_INIT(4096)};
	bool done;
	int r = trace_options_parse(argc, argv, &t.options, &done);

	if (r || done) {
		trace_options_free(&t.options);
		return r;
	}
	t.options.findings = findings;
	t.options.quiet |= findings != NULL;
	/* Each call is needed, whatever is written of them. */
	t.options.summary_only &= !findings;
	memset(t.pid_fds, -1, sizeof(t.pid_fds));
	r = start_trace(&t);
	if (r) {
		gs_program_abandon(&t.child);
		cleanup_trace(&t);
		return r;
	}
	control_trace(&t);
	r = finish_trace(&t);
	gs_uprobe_free(&t.probe);
	trace_quit_end(&t.quit);
	atomic_store(&t.is_ending, false);
	wait_for_child(&t);
	cleanup_trace(&t);
	/* The command's own status comes first: to wrap it changes nothing for who waits for it. */
	return t.options.command && t.child_ended ? t.child_status : r;
}

int gs_cmd_trace(int argc, char **argv)
{
	return run_trace(argc, argv, NULL);
}

int gs_cmd_trace_findings(int argc, char **argv, const struct gs_findings_options *findings)
{
	return run_trace(argc, argv, findings);
}
