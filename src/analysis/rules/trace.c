/*
 * The rules are asked in the order of the table; the first that holds names the class. First what
 * went wrong, then whether there is enough to judge, then causes, those that explain others before
 * what they explain: a thread that waits for workers waits in poll, so workers are asked first.
 *
 * All shares are of the wall time of the thread that sets the pace. In PyTorch a second thread of
 * the process runs the backward pass while the first waits for it: what a thread that launches too
 * did meanwhile stands in place of that wait.
 */
#include "analysis/rules/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/class.h"
#include "analysis/rules/trace_int.h"
#include "model/trace/event.h"
#include "model/trace/func.h"

#define TEXT_BYTES 512

/* The command that shows which lines of Python run or wait. */
#define PYTHON_LINES "gpuscope trace --layer python -- COMMAND"

#define FASTER_GPU_WORK                                                                            \
	"make the GPU's work cheaper: lower precision, fused kernels, larger batches; or add GPUs"

/* Thresholds: shares of wall time unless it is said otherwise. */
#define STARVED        0.25 /* ready without a processor */
#define QUIET          0.05 /* active for less: not worth a name */
#define LOCK_BOUND     0.40
#define GIL_BOUND      0.25 /* in waits for the interpreter's lock, by its own probes */
#define DISK_BOUND     0.40
#define NETWORK_BOUND  0.50
#define MEMORY_BOUND   0.20 /* in page faults */
#define CPU_BOUND      0.60
#define CHILD_BOUND    0.50
#define HANG_NS        10000000000ull /* a call is open for so long, */
#define HANG_SOON_NS   3000000000ull  /* or so long, */
#define HANG_WHOLE     0.90           /* and for so much of the run: it is likely, not certain */
#define THROTTLED      0.25           /* of the periods of a quota */
#define LOADS_DATA     0.30           /* operators of PyTorch fill less: it may load data */
#define ALL_LOCKED     0.90           /* waiting for locks, and nothing else */
#define TURNS_LEAST    0.30           /* processors that threads with one lock use, at least */
#define SURE_OF_SHARED 0.60           /* confidence where collectives run on the GPU too */
#define SIGNAL_STATUS  128            /* exit statuses above it are those of signals */
#define HANG_SHARE     0.50           /* and for so much of the run */

struct rule {
	const char *class_name, *title;
	double threshold; /* of the share; 0: confidence does not come from it */
	rules_holds_fn *holds;
	const char *advice, *command;
	double max_confidence; /* of what is likely and not certain; 0: no limit */
};

void rules_add_text(struct gs_buf *text, const char *fmt, ...)
{
	char piece[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(piece, sizeof(piece), fmt, ap);
	va_end(ap);
	/* Without memory the sentence is cut: the class stands all the same. */
	(void)gs_buf_puts(text, piece);
}

/* --- rules: what went wrong --- */

static void describe_errors(const struct gs_summary *s, struct gs_buf *text)
{
	char count[GS_FMT_BYTES];

	for (size_t i = 0, n = 0; i < s->n_errors && n < 2; i++) {
		const struct gs_error_count *e = &s->errors[i];

		if (gs_error_is_usual(e->layer, e->function, e->code))
			continue;
		n++;
		rules_add_text(text, "; %s returned %s %s time%s", e->function, e->name,
			       gs_fmt_count(count, e->count), e->count == 1 ? "" : "s");
	}
}

static bool has_errors(const struct gs_summary *s)
{
	for (size_t i = 0; i < s->n_errors; i++)
		if (!gs_error_is_usual(s->errors[i].layer, s->errors[i].function,
				       s->errors[i].code))
			return true;
	return false;
}

static bool has_failed(const struct facts *f)
{
	const char *reason = f->s->end_reason ? f->s->end_reason : "";

	/* A user who interrupts a program gets its status too. */
	return f->s->exit_status > 0 && strncmp(reason, "interrupted", 11) != 0;
}

/* A crash, a command that could not run, errors of traced calls. A status alone may be an answer,
 * as that of grep: then the cause of the time comes first, and the status with it. */
static bool holds_failed(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const char *reason = f->s->end_reason ? f->s->end_reason : "";
	int status = f->s->exit_status;

	*ret_share = -1;
	if (!has_failed(f) ||
	    (status != 126 && status != 127 && status <= SIGNAL_STATUS && !has_errors(f->s) &&
	     !f->crashed && f->pace && f->pace->wall_ns >= GS_VERDICT_MIN_NS))
		return false;
	rules_add_text(text, "%s, exit status %d", *reason ? reason : "the command ended", status);
	if (status > SIGNAL_STATUS && status <= SIGNAL_STATUS + SIGRTMAX)
		rules_add_text(text, " (%s)", strsignal(status - SIGNAL_STATUS));
	if (f->crashed)
		rules_add_text(text, "; process %u (%s) was killed by a signal: %s",
			       f->crashed->pid, f->crashed->process ? f->crashed->process : "",
			       strsignal(f->crashed->end_signal));
	describe_errors(f->s, text);
	return true;
}

static bool describe_open_call(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_open_call *c = f->s->open_calls;
	char age[GS_FMT_BYTES];

	*ret_share = rules_share_of(c->age_ns, f->s->duration_ns);
	rules_add_text(text, "%s of thread %u (%s) had not returned for %s when tracing ended",
		       c->function, c->tid, c->comm ? c->comm : "", gs_fmt_ns(age, c->age_ns));
	describe_errors(f->s, text);
	return true;
}

/* Found while tracing, and not over because the last rank came. */
static bool holds_rank_hang(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_hang_summary *h = NULL;

	for (size_t i = 0; i < f->s->n_hangs && !h; i++)
		if (!f->s->hangs[i].has_arrived && strcmp(f->s->hangs[i].kind, "differs") != 0)
			h = &f->s->hangs[i];
	if (!h)
		return false;
	*ret_share = rules_share_of(
		f->s->duration_ns > h->since_ns ? f->s->duration_ns - h->since_ns : 0,
		f->s->duration_ns);
	rules_add_text(text, "%s", h->text);
	if (h->n_listed && *h->ranks[0].python)
		rules_add_text(text, "; rank %d is at %s", h->ranks[0].rank, h->ranks[0].python);
	return true;
}

static bool holds_hang(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_open_call *c = f->s->open_calls;

	if (!f->s->n_open_calls || c->age_ns < HANG_NS ||
	    rules_share_of(c->age_ns, f->s->duration_ns) < HANG_SHARE)
		return false;
	return describe_open_call(f, text, ret_share);
}

/* Nothing else happened in the whole run. */
static bool holds_hang_soon(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_open_call *c = f->s->open_calls;

	if (!f->s->n_open_calls || c->age_ns < HANG_SOON_NS ||
	    rules_share_of(c->age_ns, f->s->duration_ns) < HANG_WHOLE)
		return false;
	return describe_open_call(f, text, ret_share);
}

static bool holds_cut_off(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = -1;
	if (f->pace || f->s->n_processes || f->s->complete)
		return false;
	rules_add_text(text, "the recording was cut off before any process was in it");
	return true;
}

static bool holds_nothing_seen(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = -1;
	if (f->pace || f->s->n_processes)
		return false;
	rules_add_text(
		text,
		"this summary has no process: no selected process ran, or none made a traced call");
	return true;
}

static bool holds_no_account(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = -1;
	if (!f->pace)
		rules_add_text(text, "there is no wall-clock account of %s", rules_name_run(f->s));
	return !f->pace;
}

/* What one process is short of, the machine is not; work on a GPU is what such a trace is made for. */
static bool holds_whole_machine(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_account_thread *t = f->pace;
	double active = rules_share_of(gs_summary_active_ns(t), t->wall_ns);

	*ret_share = -1;
	if (!f->s->command || strcmp(f->s->command, GS_SESSION_OF_MACHINE) != 0 || f->launches ||
	    f->collectives)
		return false;
	rules_add_text(text, "all processes were traced, and none launched work on a GPU");
	if (active >= QUIET)
		rules_add_text(text,
			       "; process %" PRIu32 " (%s) was the busiest, active for %.0f %%",
			       t->pid, t->comm, 100 * active);
	return true;
}

static bool holds_too_short(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char time[GS_FMT_BYTES];

	*ret_share = -1;
	if (f->pace->wall_ns >= GS_VERDICT_MIN_NS)
		return false;
	rules_add_text(text, "%s is mostly start-up", gs_fmt_ns(time, f->pace->wall_ns));
	return true;
}

/* --- rules: causes --- */

static bool holds_throttled(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_summary *s = f->s;
	char time[GS_FMT_BYTES];
	double periods = rules_share_of(s->throttled_periods, s->quota_periods);

	*ret_share = f->share[GS_PART_RUNQUEUE];
	if (*ret_share < STARVED || periods < THROTTLED)
		return false;
	rules_add_text(text,
		       "the CPU quota of its cgroup stopped it in %.0f %% of %" PRIu64
		       " periods, for %s summed over CPUs",
		       100 * periods, s->quota_periods, gs_fmt_ns(time, s->throttled_ns));
	return true;
}

static bool holds_starved(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_RUNQUEUE];
	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		if (f->share[i] > *ret_share)
			return false; /* there is a larger cause */
	if (*ret_share < STARVED)
		return false;
	rules_add_text(
		text,
		"it was ready to run and no CPU was free; all traced threads together used %.1f CPUs",
		f->cpus);
	return true;
}

/* Only what was seen at the lock itself says that it is that one. */
static bool holds_gil(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	uint64_t waited_ns = 0, waits = 0;
	char count[GS_FMT_BYTES];

	for (size_t i = 0; i < f->s->n_processes; i++) {
		const struct gs_process_summary *p = &f->s->processes[i];

		for (size_t j = 0; p->pid == f->pace->pid && j < p->n_threads; j++) {
			const struct gs_function_list *list = &p->threads[j].functions;

			for (size_t k = 0; p->threads[j].tid == f->pace->tid && k < list->n; k++) {
				if (list->items[k].func_class != GS_CLASS_GIL)
					continue;
				waited_ns += list->items[k].total_ns;
				waits += list->items[k].calls;
			}
		}
	}
	*ret_share = rules_share_of(waited_ns, rules_whole_ns(f->pace));
	if (*ret_share < GIL_BOUND)
		return false;
	rules_add_text(text,
		       "it waited %s times for the interpreter's lock, which another thread held",
		       gs_fmt_count(count, waits));
	return true;
}

/* Python's threads take turns: several run and wait for locks, and together they use one
 * processor. Other locks do so too, so it is likely, not certain. */
static bool holds_turns(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	size_t n = f->n_taking_turns ? f->n_taking_turns : f->n_contending;

	*ret_share = f->process_busy / (f->process_busy > 1 ? f->process_busy : 1);
	if (!rules_is_python(f) || n < 2 || f->process_busy < TURNS_LEAST ||
	    f->process_busy > RULES_TURNS)
		return false;
	rules_add_text(
		text,
		"%zu threads of this Python process run in turn and use %.1f CPUs together, as those do that share the interpreter's lock; --python-gil shows each wait for it",
		n, f->process_busy);
	return true;
}

/* The thread of its process that did most meanwhile: it may hold what is waited for. */
static void describe_busiest(const struct facts *f, struct gs_buf *text)
{
	const struct gs_account_summary *a = &f->s->account;
	const struct gs_account_thread *best = NULL;
	double most = 0;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];
		double active;

		if (t->pid != f->pace->pid || t == f->pace)
			continue;
		gs_account_parts(t->time_ns, part_ns);
		active = rules_share_of(t->wall_ns - gs_account_parked_ns(part_ns),
					f->pace->wall_ns);
		if (active > most) {
			most = active;
			best = t;
		}
	}
	if (best)
		rules_add_text(
			text,
			"; the most active of its process was thread %u (%s), %.0f %% of the time",
			best->tid, best->comm ? best->comm : "", 100 * most);
}

static bool holds_lock(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_LOCK];
	if (*ret_share < LOCK_BOUND)
		return false;
	rules_add_text(text, "it waits in futex for another thread or process");
	if (f->n_taking_turns)
		rules_add_text(
			text, "; threads of its process take turns, as those do that share a lock");
	else if (f->n_processes_in_turn)
		rules_add_text(
			text,
			"; %zu processes of this program take turns, as those do that share a lock",
			f->n_processes_in_turn);
	describe_busiest(f, text);
	if (rules_is_python(f))
		rules_add_text(text, "; --python-gil shows whether it is the interpreter's lock");
	return true;
}

static bool holds_memory(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_FAULT];
	if (*ret_share >= MEMORY_BOUND)
		rules_add_text(text, "it waits in page faults and in changes of its memory map");
	return *ret_share >= MEMORY_BOUND;
}

static bool holds_disk(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_DISK];
	if (*ret_share >= DISK_BOUND)
		rules_add_text(text, "it waits for files and disks");
	return *ret_share >= DISK_BOUND;
}

static bool holds_network(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_NETWORK];
	if (*ret_share >= NETWORK_BOUND)
		rules_add_text(text, "it waits for peers on sockets");
	return *ret_share >= NETWORK_BOUND;
}

static bool holds_child(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_CHILD];
	if (*ret_share >= CHILD_BOUND)
		rules_add_text(text, "it waits for its child processes to end");
	return *ret_share >= CHILD_BOUND;
}

/* How the targets were chosen stands in place of a command. Children of a command are always traced. */
static bool may_lack_children(const struct facts *f)
{
	const char *command = f->s->command ? f->s->command : "";

	return strncmp(command, "process ", 8) == 0 || strncmp(command, "processes ", 10) == 0;
}

/* The children of a command are traced, too. */
static bool holds_own_child(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	return !may_lack_children(f) && holds_child(f, text, ret_share);
}

static bool is_idle(const struct facts *f, double *ret_share)
{
	*ret_share = f->share[GS_PART_LOCK] + f->share[GS_PART_POLL] + f->share[GS_PART_PIPE] +
		     f->share[GS_PART_NETWORK] + f->share[GS_PART_CHILD];
	return f->pace->idle && f->others_active < RULES_OTHERS_ACTIVE && f->n_contending < 2 &&
	       !f->n_taking_turns && !f->n_processes_in_turn;
}

/* The owner of the mutex sleeps, or waits too. */
static bool holds_mutex(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_account_thread *t = f->sleeper;

	if (!is_idle(f, ret_share) || f->mutex_share < LOCK_BOUND)
		return false;
	*ret_share = f->mutex_share < 1 ? f->mutex_share : 1;
	rules_add_text(text, "%zu thread%s of its process waited for a mutex that another one held",
		       f->n_at_mutex, f->n_at_mutex == 1 ? "" : "s");
	if (t)
		rules_add_text(text,
			       "; thread %u (%s) slept for %.0f %% of the time, and may hold it",
			       t->tid, t->comm ? t->comm : "", 100 * f->sleeper_share);
	else
		rules_add_text(
			text,
			"; no traced thread was active: a deadlock, or the one that holds it waits for others");
	return true;
}

/* In the account a lock that is held looks like work that does not come. */
static bool holds_idle_beside_sleeper(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_account_thread *t = f->sleeper;

	if (!is_idle(f, ret_share) || !t || f->share[GS_PART_LOCK] < LOCK_BOUND)
		return false;
	rules_add_text(
		text,
		"no traced thread was active; thread %u (%s) of its process slept for %.0f %% of the time: the others may wait for it, or for a lock that it holds",
		t->tid, t->comm ? t->comm : "", 100 * f->sleeper_share);
	return true;
}

static uint64_t count_threads_missed(const struct gs_summary *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n_lost; i++)
		n += s->lost[i].cause == GS_LOSS_ACCOUNT ? s->lost[i].count : 0;
	return n;
}

static bool holds_idle(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	if (!is_idle(f, ret_share))
		return false;
	rules_add_text(text,
		       "no traced thread was active: all wait for other threads or processes");
	if (count_threads_missed(f->s))
		rules_add_text(text, "; %" PRIu64 " threads have no account, and may be active",
			       count_threads_missed(f->s));
	if (may_lack_children(f))
		rules_add_text(
			text, "; children of a process given by -p are traced with --follow alone");
	return true;
}

static bool holds_all_locked(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_LOCK];
	if (*ret_share < ALL_LOCKED || f->n_not_locked || f->n_taking_turns ||
	    f->n_processes_in_turn || f->s->account.n_threads < 2)
		return false;
	rules_add_text(
		text,
		"all %zu threads wait for locks and none of them runs: a deadlock, or they have no work",
		f->s->account.n_threads);
	return true;
}

/* Processes on the other side of pipes are not traced, and may be busy: no need for it to be idle otherwise. */
static bool holds_pipe(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_PIPE];
	if ((!f->pace->idle && f->n_workers) || *ret_share < CHILD_BOUND ||
	    f->others_active >= RULES_OTHERS_ACTIVE)
		return false;
	rules_add_text(
		text,
		"it waits for what other processes write into pipes, and they are not traced");
	if (may_lack_children(f))
		rules_add_text(text, "; --follow traces the children of -p too");
	return true;
}

static bool holds_asleep(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_SLEEP];
	if (*ret_share >= RULES_ASLEEP)
		rules_add_text(text, "it sleeps in nanosleep or on a timer");
	return *ret_share >= RULES_ASLEEP;
}

static bool holds_cpu(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_CPU] + f->share[GS_PART_OPERATOR] + f->share[GS_PART_CUDA];
	if (*ret_share < CPU_BOUND)
		return false;
	rules_add_text(text, "it runs; all traced threads together used %.1f CPUs", f->cpus);
	return true;
}

static bool holds_mixed(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	unsigned first = 0, second = 1;

	for (unsigned i = 0; i < GS_PART_COUNT; i++) {
		if (f->share[i] > f->share[first])
			first = i;
	}
	second = first ? 0 : 1;
	for (unsigned i = 0; i < GS_PART_COUNT; i++) {
		if (i != first && f->share[i] > f->share[second])
			second = i;
	}
	*ret_share = -1;
	rules_add_text(text, "largest parts: %s %.0f %%, %s %.0f %%", gs_account_part_title(first),
		       100 * f->share[first], gs_account_part_title(second),
		       100 * f->share[second]);
	return true;
}

static const struct rule rules[] = {
	{"failed", "ended with an error status", 0, holds_failed,
	 "read its last messages; after a kill (status 137) look for the OOM killer in the kernel's log",
	 "gpuscope trace -o run.gst -- COMMAND; gpuscope report run.gst"},
	{"hang", "ranks wait for one that does not come", 0, holds_rank_hang,
	 "look at what that rank does: its stacks are listed under hangs and mismatches of ranks",
	 "gpuscope trace -p PID --stacks native --layer python"},
	{"hang", "a call does not return", 0, holds_hang,
	 "compare it with the calls of other ranks and threads, listed under still running",
	 "gpuscope trace -p PID --stacks native --layer python"},
	{"hang", "a call does not return", 0, holds_hang_soon,
	 "compare it with the calls of other ranks and threads, listed under still running",
	 "gpuscope trace -p PID --stacks native --layer python", SURE_OF_SHARED},
	{"not_known", "not known", 0, holds_cut_off,
	 "record again, and let gpuscope end by itself or by one Ctrl-C",
	 "gpuscope trace -o run.gst -- COMMAND"},
	{"not_known", "not known", 0, holds_nothing_seen,
	 "check the process ids, names, user or cgroup that were selected", "ps -eo pid,user,comm"},
	{"not_known", "not known", 0, holds_no_account,
	 "trace the program itself, on Linux 5.15 or newer, without --disable-feature account",
	 "gpuscope trace -v -- COMMAND"},
	{"not_known", "the whole machine was traced", 0, holds_whole_machine,
	 "trace the slow job alone", "gpuscope top"},
	{"too_short", "too short", 0, holds_too_short, "trace at least some seconds",
	 "gpuscope trace -p PID --duration 10s"},
	{"throttled", "throttled by a CPU quota", STARVED, holds_throttled,
	 "raise the quota (cpu.max, the container's CPU limit), or start no more threads than it allows",
	 "gpuscope job -p PID"},
	{"cpu_starved", "starved of CPUs", STARVED, holds_starved,
	 "if that is less than the job has, other processes use the rest; else start fewer threads",
	 "gpuscope job -p PID"},
	{"input_bound", "input-bound: waits for its data loader", RULES_INPUT_BOUND,
	 rules_holds_loader,
	 "load in more worker processes (num_workers) where they compute, from faster storage or a cache where they read",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"input_bound", "input-bound: loads data in its own thread", RULES_INPUT_BOUND,
	 rules_holds_loader_samples,
	 "load in worker processes (num_workers), or prepare the data once before training",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"input_bound", "input-bound: waits for its worker processes", RULES_INPUT_BOUND,
	 rules_holds_input,
	 "give them more workers where they compute, faster storage or a cache where they read",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"communication_bound", "communication-bound: waits for a late rank", RULES_COMMUNICATION,
	 rules_holds_late_rank, NULL, "gpuscope trace -p PID --layer torch,python"},
	{"communication_bound", "communication-bound", RULES_COMMUNICATION, rules_holds_nccl,
	 "compare ranks: the one with the least time in NCCL is the one that the others wait for",
	 "gpuscope trace -o run.pftrace -- COMMAND"},
	{"mpi_bound", "communication-bound (MPI)", RULES_MPI_BOUND, rules_holds_mpi,
	 "compare ranks: the one with the least time in MPI is the one that the others wait for",
	 "gpuscope trace --format json -- COMMAND"},
	{"copy_bound", "copies to or from the GPU", RULES_COPY_BOUND, rules_holds_copies,
	 "pin the memory (pin_memory=True) and copy with non_blocking=True beside other work; copy less",
	 "gpuscope trace -o run.pftrace -- COMMAND"},
	{"communication_bound", "communication-bound", RULES_GPU_BOUND, rules_holds_collectives,
	 "compare ranks: the one that comes last to a collective is the one that the others wait for",
	 "gpuscope trace -o run.pftrace -- COMMAND", SURE_OF_SHARED},
	{"sync_heavy", "synchronises too often", RULES_SYNC_HEAVY, rules_holds_sync_heavy,
	 "remove .item(), .cpu(), print of tensors and synchronise() from the inner loop",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"gpu_bound", "GPU-bound", RULES_GPU_BOUND, rules_holds_gpu, FASTER_GPU_WORK,
	 "gpuscope top"},
	{"gpu_bound", "GPU-bound", RULES_HOST_AHEAD, rules_holds_host_ahead, FASTER_GPU_WORK,
	 "gpuscope top"},
	{"gpu_bound", "GPU-bound", RULES_GPU_BOUND, rules_holds_gpu_callbacks, FASTER_GPU_WORK,
	 "gpuscope top"},
	{"launch_bound", "launch-bound", RULES_LAUNCH_BUSY, rules_holds_launch,
	 "launch fewer, larger kernels: CUDA graphs, torch.compile, larger batches",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"launch_bound", "launch-bound, and held up by other threads", RULES_LAUNCH_BUSY,
	 rules_holds_launch_held_up,
	 "launch fewer, larger kernels (CUDA graphs, torch.compile, larger batches); move work of other threads into processes",
	 "gpuscope trace --python-gil --layer torch,python -- COMMAND", SURE_OF_SHARED},
	{"gil_bound", "bound by Python's interpreter lock", GIL_BOUND, holds_gil,
	 "use processes instead of threads, or code that releases the lock",
	 "gpuscope trace --python-gil --layer python -- COMMAND"},
	{"gil_bound", "threads take turns, as with Python's interpreter lock", TURNS_LEAST,
	 holds_turns, "use processes instead of threads, or code that releases the lock",
	 "gpuscope trace --python-gil --layer python -- COMMAND", 0.75},
	{"memory_pressure", "waits for memory", MEMORY_BOUND, holds_memory,
	 "look for swapping and for files that are read through mmap", "gpuscope job -p PID"},
	{"io_bound", "I/O-bound: disk", DISK_BOUND, holds_disk,
	 "read ahead, use larger reads, or move the data to faster storage", "gpuscope job -p PID"},
	{"network_bound", "waits for the network", NETWORK_BOUND, holds_network,
	 "look at the peer: it answers late, or the requests are small", "gpuscope job -p PID",
	 0.75},
	{"waits_for_child", "waits for child processes", CHILD_BOUND, holds_own_child,
	 "see which of its children take the time: they are traced too, each with its account",
	 "gpuscope trace --format json -- COMMAND"},
	{"waits_for_child", "waits for child processes", CHILD_BOUND, holds_child,
	 "trace the child too (--follow with -p): its time is what counts",
	 "gpuscope trace --follow -p PID --format json"},
	{"lock_bound", "waits for a mutex", LOCK_BOUND, holds_mutex,
	 "see which thread holds it, and what that one waits for",
	 "gpuscope trace -p PID --stacks native --layer python"},
	{"lock_bound", "all threads wait for locks", ALL_LOCKED, holds_all_locked,
	 "look at the stacks of its threads: each waits for a lock that another one holds, or for work",
	 "gpuscope trace -p PID --stacks native --layer python", SURE_OF_SHARED},
	{"idle", "idle, or waits for processes that are not traced", CHILD_BOUND, holds_pipe,
	 "trace the processes that write into its pipes too",
	 "gpuscope trace --follow -p PID --format json", SURE_OF_SHARED},
	{"idle", "idle, or waits for a thread that sleeps", 0, holds_idle_beside_sleeper,
	 "see where that thread sleeps, and whether it holds a lock",
	 "gpuscope trace -p PID --stacks native --layer python", SURE_OF_SHARED},
	{"idle", "idle", 0, holds_idle, "give it work; if it has some, see what it waits for",
	 "gpuscope trace -p PID --format json"},
	{"lock_bound", "waits for a lock", LOCK_BOUND, holds_lock,
	 "see which thread holds it: the busiest one of its process",
	 "gpuscope trace --format json"},
	{"asleep", "asleep on purpose", RULES_ASLEEP, holds_asleep,
	 "look for sleep() and retries with a pause in the code", PYTHON_LINES},
	{"cpu_bound", "CPU-bound", CPU_BOUND, holds_cpu,
	 "find the code that runs most; where its work can be divided, use more threads",
	 PYTHON_LINES},
	{"mixed", "no single cause", 0, holds_mixed, "start with the largest share",
	 "gpuscope trace --layer torch,python -- COMMAND"},
};

static bool has_no_cause(const struct rule *rule)
{
	return rule->holds == holds_cut_off || rule->holds == holds_nothing_seen ||
	       rule->holds == holds_no_account || rule->holds == holds_whole_machine ||
	       rule->holds == holds_too_short || rule->holds == holds_mixed;
}

/* What shows lines of Python shows nothing of other programs. */
static const char *command_for(const struct rule *rule, const struct facts *f)
{
	const char *name = f->pace && f->pace->process ? f->pace->process : "";

	if (strncmp(name, "python", 6) == 0 || strcmp(rule->command, PYTHON_LINES) != 0)
		return rule->command;
	return rule->holds == holds_asleep ? "strace -f -e trace=nanosleep,clock_nanosleep COMMAND"
					   : "perf record -g -- COMMAND; perf report";
}

/* With the pid of the process where it still ran at the end: of the late rank where one is named. */
static const char *command_of(const struct rule *rule, const struct facts *f)
{
	const char *command = command_for(rule, f), *at = strstr(command, "-p PID");
	const struct gs_account_thread *t =
		rules_is_of_ranks(f, rule->holds) ? f->late_thread : f->pace;
	char text[TEXT_BYTES];

	if (!at || !t || t->ended)
		return command;
	snprintf(text, sizeof(text), "%.*s-p %" PRIu32 "%s", (int)(at - command), command, t->pid,
		 at + strlen("-p PID"));
	return gs_summary_text(f->s, text);
}

static const char *advice_of(const struct rule *rule, const struct facts *f)
{
	char text[TEXT_BYTES];

	if (!rules_is_of_ranks(f, rule->holds))
		return rule->advice;
	snprintf(text, sizeof(text),
		 "find what rank %" PRId32 " (process %" PRIu32
		 ") does before its collectives: the others wait for it",
		 f->late->rank, f->late->pid);
	return gs_summary_text(f->s, text);
}

static bool may_load_data(const struct facts *f)
{
	return f->has_torch && !f->loader_name && f->share[GS_PART_OPERATOR] < LOADS_DATA;
}

/* Just at its threshold a cause is as likely as not. */
static double confidence_of(const struct rule *rule, const struct facts *f, double share)
{
	bool shares_gpu = f->collectives && strcmp(rule->class_name, "gpu_bound") == 0;
	double limit = shares_gpu ? SURE_OF_SHARED : rule->max_confidence, confidence = 0.95;
	double above = (share - rule->threshold) / (1 - rule->threshold);

	/* Outside of operators it may load data in its own thread: nothing says so. */
	if ((rule->holds == holds_asleep || rule->holds == holds_cpu) && may_load_data(f))
		limit = SURE_OF_SHARED;
	if (rule->holds == holds_idle && count_threads_missed(f->s))
		limit = SURE_OF_SHARED;
	if (has_no_cause(rule))
		return 0;
	if (rule->threshold > 0)
		confidence = 0.5 + 0.45 * (above > 1 ? 1 : above);
	return limit > 0 && confidence > limit ? limit : confidence;
}

/* How long a step of its process is, where steps were found. */
static void describe_steps(const struct facts *f, struct gs_buf *text)
{
	const struct gs_step_summary *t = &f->s->steps;
	char median[GS_FMT_BYTES], p95[GS_FMT_BYTES];

	if (f->pace && t->n_steps && t->pid == f->pace->pid)
		rules_add_text(text, "; %s a step, p95 %s", gs_fmt_ns(median, t->median_ns),
			       gs_fmt_ns(p95, t->p95_ns));
}

static void judge_run(struct gs_summary *s, uint64_t start_up_ns)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 14);
	struct facts f = {.s = s, .start_up_ns = start_up_ns};
	char start_up[GS_FMT_BYTES];
	double share = -1;

	rules_gather_facts(&f);
	for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
		const struct rule *r = &rules[i];

		gs_buf_reset(&text);
		if (!r->holds(&f, &text, &share))
			continue;
		if ((r->holds == holds_asleep || r->holds == holds_cpu) && may_load_data(&f))
			rules_add_text(
				&text,
				"; %.0f %% of that is in PyTorch operators; the rest may be its data loader in this thread",
				100 * f.share[GS_PART_OPERATOR]);
		if (share >= 0 || r->holds == holds_mixed)
			describe_steps(&f, &text);
		if (start_up_ns && (share >= 0 || r->holds == holds_mixed))
			rules_add_text(
				&text,
				"; its start-up of %s, until it launched work first, is not counted",
				gs_fmt_ns(start_up, start_up_ns));
		if (share >= 0 && !rules_is_of_ranks(&f, r->holds))
			rules_describe_late_rank(&f, &text);
		if (has_failed(&f) && r->holds != holds_failed)
			rules_add_text(&text, "; it ended with exit status %d", s->exit_status);
		if (gs_buf_put(&text, "", 1) < 0)
			return;
		s->verdict = (struct gs_verdict_summary){
			.class_name = r->class_name,
			.title = r->title,
			.evidence = gs_summary_text(s, (const char *)text.data),
			.advice = advice_of(r, &f),
			.command = command_of(r, &f),
			.share = share,
			.confidence = confidence_of(r, &f, share),
			.is_unknown = has_no_cause(r),
		};
		return;
	}
}

void gs_verdict_trace(struct gs_summary *s)
{
	struct gs_account_thread *whole = s->account.threads;

	judge_run(s, rules_leave_out_start_up(s));
	s->account.threads = whole;
}
