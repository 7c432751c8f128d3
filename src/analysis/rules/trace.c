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
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"

#define TEXT_BYTES 512

/* The command that shows which lines of Python run or wait. */
#define PYTHON_LINES "gpuscope trace --layer python -- COMMAND"

#define FASTER_GPU_WORK                                                                            \
	"make the GPU's work cheaper: lower precision, fused kernels, larger batches; or add GPUs"

/* Thresholds: shares of wall time unless it is said otherwise. */
#define STARVED        0.25 /* ready without a processor */
#define GPU_BOUND      0.50
#define GPU_BEHIND     0.20 /* waiting, after so many launches each time: it was ahead of the GPU */
#define BEHIND_WORK    50
#define COPY_BOUND     0.40 /* in calls that copy, */
#define COPY_RATE      1e9  /* at so many bytes a second: those of a copy that waits are fewer */
#define CALLBACK_RATE  5    /* functions a second that the GPU's work ends by on the host */
#define OTHERS_ACTIVE  0.10 /* of one CPU, by the other threads of its process */
#define SYNC_HEAVY     0.20 /* waiting, in calls that wait: */
#define SYNC_RATE      200  /* so many a second, */
#define SYNC_WORK      5    /* with so few launches between two of them */
#define LAUNCH_BUSY    0.70 /* on the host's side of launches, */
#define LAUNCH_RATE    4000 /* so many launches a second, */
#define LAUNCH_WAIT    0.15 /* and less than this waiting for the GPU */
#define COMMUNICATION  0.30 /* in NCCL's calls */
#define MPI_BOUND      0.40 /* in MPI's calls */
#define INPUT_BOUND    0.30 /* waiting for worker processes */
#define WORKER_ALIVE   0.50 /* a worker lives at least so long; */
#define WORKERS_ACTIVE 0.50 /* all together do not wait for others in so much of one's time */
#define LOCK_BOUND     0.40
#define GIL_BOUND      0.25 /* in waits for the interpreter's lock, by its own probes */
#define DISK_BOUND     0.40
#define NETWORK_BOUND  0.50
#define MEMORY_BOUND   0.20 /* in page faults */
#define CPU_BOUND      0.60
#define ASLEEP         0.50
#define CHILD_BOUND    0.50
#define HANG_NS        10000000000ull /* a call is open for so long, */
#define HANG_SHARE     0.50           /* and for so much of the run */
#define HELPER_WORK    0.20           /* of the launches, by a thread that helps */

struct facts {
	struct gs_summary *s;
	const struct gs_account_thread *pace; /* NULL: no account */
	double share[GS_PART_COUNT];          /* of its wall time */
	double seconds;
	uint64_t launches, waits;             /* calls of the pace setter and its helper */
	uint64_t callbacks;                   /* host functions that they enqueued */
	uint64_t copies, copy_ns, copy_bytes; /* of the pace setter alone */
	uint64_t collectives;
	size_t n_workers;
	double worker_share[GS_PART_COUNT]; /* of the workers' time, all together */
	double cpus;                        /* processors that all traced threads used, mean */
	double others_active; /* what the other threads of its process did, of one thread's time */
};

struct rule {
	const char *class_name, *title;
	double threshold; /* of the share; 0: confidence does not come from it */
	/* Does it hold? Writes evidence and sets *ret_share, -1: it is not by time. */
	bool (*holds)(const struct facts *f, struct gs_buf *evidence, double *ret_share);
	const char *advice, *command;
};

static double share_of(uint64_t ns, uint64_t wall_ns)
{
	return wall_ns ? (double)ns / (double)wall_ns : 0;
}

static void add_text(struct gs_buf *text, const char *fmt, ...) GS_PRINTF(2, 3);

static void add_text(struct gs_buf *text, const char *fmt, ...)
{
	char piece[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(piece, sizeof(piece), fmt, ap);
	va_end(ap);
	/* Without memory the sentence is cut: the class stands all the same. */
	if (gs_buf_puts(text, piece) < 0)
		return;
}

/* --- facts --- */

static bool is_launch(const struct gs_function_stats *f)
{
	return f->func_class == GS_CLASS_LAUNCH || f->func_class == GS_CLASS_GRAPH_LAUNCH;
}

/* As gs_func_inside() has it, by what a summary knows of a function. */
static bool is_wait(const struct gs_function_stats *f)
{
	return f->layer != GS_LAYER_NCCL &&
	       (f->func_class == GS_CLASS_SYNC ||
		(f->func_class == GS_CLASS_COPY && !strstr(f->name, "Async")));
}

static void count_function(struct facts *f, const struct gs_account_thread *t,
			   const struct gs_function_stats *fn)
{
	f->launches += is_launch(fn) ? fn->calls : 0;
	f->waits += is_wait(fn) ? fn->calls : 0;
	f->callbacks += strstr(fn->name, "LaunchHostFunc") ? fn->calls : 0;
	if (t != f->pace || fn->func_class != GS_CLASS_COPY)
		return;
	f->copies += fn->calls;
	f->copy_ns += fn->total_ns;
	f->copy_bytes += fn->bytes;
}

static void count_calls(struct facts *f, const struct gs_account_thread *t)
{
	const struct gs_summary *s = f->s;

	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		for (size_t j = 0; p->pid == t->pid && j < p->n_threads; j++) {
			const struct gs_function_list *list = &p->threads[j].functions;

			for (size_t k = 0; p->threads[j].tid == t->tid && k < list->n; k++)
				count_function(f, t, &list->items[k]);
		}
	}
	f->collectives += t->collectives;
}

/* The thread that helps launches while the pace setter waits for it: its parts stand in place of
 * the wait. */
static void merge_helper(struct facts *f, const struct gs_account_thread *h)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(h->time_ns, part_ns);
	uint64_t active_ns = wall_ns - gs_account_parked_ns(part_ns) - part_ns[GS_PART_SLEEP];
	double waits = f->share[GS_PART_LOCK], covered = share_of(active_ns, f->pace->wall_ns);

	if (covered > waits)
		covered = waits;
	if (!active_ns || covered <= 0)
		return;
	f->share[GS_PART_LOCK] -= covered;
	for (unsigned i = 0; i < GS_PART_COUNT; i++) {
		if (i == GS_PART_LOCK || i == GS_PART_POLL || i == GS_PART_PIPE ||
		    i == GS_PART_CHILD || i == GS_PART_NETWORK || i == GS_PART_SLEEP)
			continue;
		f->share[i] += covered * share_of(part_ns[i], active_ns);
	}
}

static double active_share(const struct facts *f, const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT];

	gs_account_parts(t->time_ns, part_ns);
	return share_of(t->wall_ns - gs_account_parked_ns(part_ns) - part_ns[GS_PART_SLEEP],
			f->pace->wall_ns);
}

/* Children of its process that live for long and launch nothing. */
static void find_workers(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;
	uint64_t sum_ns[GS_PART_COUNT] = {0}, all_ns = 0;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];

		if (t->tid != t->pid || t->parent_pid != f->pace->pid || t->launches ||
		    share_of(t->wall_ns, f->pace->wall_ns) < WORKER_ALIVE)
			continue;
		f->n_workers++;
		all_ns += gs_account_parts(t->time_ns, part_ns);
		for (unsigned p = 0; p < GS_PART_COUNT; p++)
			sum_ns[p] += part_ns[p];
	}
	for (unsigned p = 0; p < GS_PART_COUNT; p++)
		f->worker_share[p] = share_of(sum_ns[p], all_ns);
}

static void gather_facts(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;
	uint64_t part_ns[GS_PART_COUNT], cpu_ns = 0;

	f->seconds = (double)f->s->duration_ns / 1e9;
	for (size_t i = 0; i < a->n_threads; i++) {
		if (a->threads[i].critical)
			f->pace = &a->threads[i];
		for (unsigned in = 0; in < GS_INSIDE_COUNT; in++)
			cpu_ns += a->threads[i].time_ns[GS_STATE_CPU][in];
	}
	f->cpus = share_of(cpu_ns, f->s->duration_ns);
	if (!f->pace)
		return;
	f->seconds = (double)f->pace->wall_ns / 1e9;
	gs_account_parts(f->pace->time_ns, part_ns);
	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		f->share[i] = share_of(part_ns[i], f->pace->wall_ns);
	count_calls(f, f->pace);
	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];

		if (t != f->pace && t->pid == f->pace->pid)
			f->others_active += active_share(f, t);
		if (t != f->pace && t->pid == f->pace->pid && t->launches &&
		    (double)t->launches >= HELPER_WORK * (double)f->pace->launches) {
			count_calls(f, t);
			merge_helper(f, t);
		}
	}
	find_workers(f);
}

/* The largest of the workers' parts. */
static unsigned worker_part(const struct facts *f)
{
	unsigned best = 0;

	for (unsigned p = 1; p < GS_PART_COUNT; p++)
		if (f->worker_share[p] > f->worker_share[best])
			best = p;
	return best;
}

/* --- rules: what went wrong --- */

static void say_errors(const struct gs_summary *s, struct gs_buf *text)
{
	char count[GS_FMT_BYTES];

	for (size_t i = 0; i < s->n_errors && i < 2; i++)
		add_text(text, "; %s returned %s %s time%s", s->errors[i].function,
			 s->errors[i].name, gs_fmt_count(count, s->errors[i].count),
			 s->errors[i].count == 1 ? "" : "s");
}

static bool holds_failed(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const char *reason = f->s->end_reason ? f->s->end_reason : "";

	/* A user who interrupts a program gets its status too. */
	if (f->s->exit_status <= 0 || strncmp(reason, "interrupted", 11) == 0)
		return false;
	*ret_share = -1;
	add_text(text, "%s, exit status %d", *reason ? reason : "the command ended",
		 f->s->exit_status);
	say_errors(f->s, text);
	return true;
}

static bool holds_hang(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_open_call *c = f->s->open_calls;
	char age[GS_FMT_BYTES];

	if (!f->s->n_open_calls || c->age_ns < HANG_NS ||
	    share_of(c->age_ns, f->s->duration_ns) < HANG_SHARE)
		return false;
	*ret_share = share_of(c->age_ns, f->s->duration_ns);
	add_text(text, "%s of thread %u (%s) had not returned for %s when tracing ended",
		 c->function, c->tid, c->comm ? c->comm : "", gs_fmt_ns(age, c->age_ns));
	say_errors(f->s, text);
	return true;
}

static bool holds_no_account(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = -1;
	if (!f->pace)
		add_text(text, "there is no wall-clock account of this run");
	return !f->pace;
}

static bool holds_too_short(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char time[GS_FMT_BYTES];

	*ret_share = -1;
	if (f->pace->wall_ns >= GS_VERDICT_MIN_NS)
		return false;
	add_text(text, "%s is mostly start-up", gs_fmt_ns(time, f->pace->wall_ns));
	return true;
}

/* --- rules: causes --- */

static bool holds_starved(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_RUNQUEUE];
	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		if (f->share[i] > *ret_share)
			return false; /* there is a larger cause */
	if (*ret_share < STARVED)
		return false;
	add_text(text,
		 "it was ready to run and no CPU was free; all traced threads together used %.1f "
		 "CPUs",
		 f->cpus);
	return true;
}

static bool holds_sync_heavy(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char waits[GS_FMT_BYTES], launches[GS_FMT_BYTES];
	double rate = f->seconds > 0 ? (double)f->waits / f->seconds : 0;

	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < SYNC_HEAVY || rate < SYNC_RATE || f->launches > SYNC_WORK * f->waits)
		return false;
	add_text(text, "%s calls that wait for the GPU (%.0f a second) for %s launches",
		 gs_fmt_count(waits, f->waits), rate, gs_fmt_count(launches, f->launches));
	return true;
}

/* Kernels of collectives run on the GPU until the last rank has come. */
static void say_collectives(const struct facts *f, struct gs_buf *text)
{
	if (f->collectives)
		add_text(text, "; collectives run there too, so part of it may be waiting for "
			       "another rank");
}

static bool holds_gpu(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < GPU_BOUND)
		return false;
	add_text(text,
		 "the host waits in synchronising calls and blocking copies until the GPU is done");
	say_collectives(f, text);
	return true;
}

/* It launches a step's work, and is done before the GPU is: that it works for much of the time
 * does not make the GPU wait. */
static bool holds_gpu_behind(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char waits[GS_FMT_BYTES];

	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < GPU_BEHIND || !f->waits || f->launches < BEHIND_WORK * f->waits)
		return false;
	add_text(text,
		 "the host is ahead of the GPU: after some %" PRIu64
		 " launches each it waits for it, %s times in all",
		 f->launches / f->waits, gs_fmt_count(waits, f->waits));
	say_collectives(f, text);
	return true;
}

/* JAX waits for a thread of the driver's, which runs a function when the GPU is done. */
static bool holds_gpu_callbacks(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char callbacks[GS_FMT_BYTES];

	*ret_share = f->share[GS_PART_LOCK] + f->share[GS_PART_GPU_WAIT];
	if (*ret_share < GPU_BOUND || f->others_active >= OTHERS_ACTIVE ||
	    (double)f->callbacks < CALLBACK_RATE * f->seconds)
		return false;
	add_text(text,
		 "the host waits while no thread of its process runs, until the GPU's work ends by "
		 "functions on the host (%s of them)",
		 gs_fmt_count(callbacks, f->callbacks));
	say_collectives(f, text);
	return true;
}

static bool holds_copies(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char copies[GS_FMT_BYTES], bytes[GS_FMT_BYTES], rate[GS_FMT_BYTES];
	double bytes_per_s = f->copy_ns ? (double)f->copy_bytes * 1e9 / (double)f->copy_ns : 0;

	*ret_share = share_of(f->copy_ns, f->pace->wall_ns);
	if (*ret_share < COPY_BOUND || bytes_per_s < COPY_RATE)
		return false;
	add_text(text, "%s calls that copy moved %s while it waited, at %s/s",
		 gs_fmt_count(copies, f->copies), gs_fmt_bytes(bytes, f->copy_bytes),
		 gs_fmt_bytes(rate, (uint64_t)bytes_per_s));
	return true;
}

static bool holds_communication(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_NCCL];
	if (*ret_share >= COMMUNICATION)
		add_text(text, "its host time is in NCCL's calls");
	return *ret_share >= COMMUNICATION;
}

static bool holds_mpi(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_MPI];
	if (*ret_share >= MPI_BOUND)
		add_text(text, "it is in MPI's calls: it moves data, or waits for other ranks");
	return *ret_share >= MPI_BOUND;
}

static bool holds_launch(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	double rate = f->seconds > 0 ? (double)f->launches / f->seconds : 0;

	*ret_share = f->share[GS_PART_CUDA] + f->share[GS_PART_OPERATOR] + f->share[GS_PART_CPU];
	if (rate < LAUNCH_RATE || *ret_share < LAUNCH_BUSY ||
	    f->share[GS_PART_GPU_WAIT] >= LAUNCH_WAIT)
		return false;
	add_text(text,
		 "the host prepares and makes %.0f launches a second, and waits for the GPU only "
		 "%.0f "
		 "%% "
		 "of the time",
		 rate, 100 * f->share[GS_PART_GPU_WAIT]);
	return true;
}

/* Does another thread of its process wait for pipes, as the one that pins memory does? */
static bool thread_waits_for_pipe(const struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];

		if (t->pid != f->pace->pid || t == f->pace)
			continue;
		gs_account_parts(t->time_ns, part_ns);
		if (share_of(part_ns[GS_PART_POLL] + part_ns[GS_PART_PIPE], f->pace->wall_ns) >=
		    INPUT_BOUND)
			return true;
	}
	return false;
}

/* What worker processes hand over comes by a pipe, a poll on one, or from a thread that reads it.
 * Workers that only wait themselves are not what is waited for. */
static bool holds_input(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const double *w = f->worker_share;
	unsigned part = worker_part(f);
	double active = 1 - (w[GS_PART_LOCK] + w[GS_PART_POLL] + w[GS_PART_PIPE] +
			     w[GS_PART_CHILD] + w[GS_PART_NETWORK]);

	*ret_share = f->share[GS_PART_POLL] + f->share[GS_PART_PIPE];
	if (thread_waits_for_pipe(f))
		*ret_share += f->share[GS_PART_LOCK];
	if (!f->n_workers || *ret_share < INPUT_BOUND ||
	    active * (double)f->n_workers < WORKERS_ACTIVE)
		return false;
	add_text(text, "it waits for %zu worker process%s, whose own time is %.0f %% %s",
		 f->n_workers, f->n_workers == 1 ? "" : "es", 100 * w[part],
		 gs_account_part_title(part));
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
	*ret_share = share_of(waited_ns, f->pace->wall_ns);
	if (*ret_share < GIL_BOUND)
		return false;
	add_text(text, "it waited %s times for the interpreter's lock, which another thread held",
		 gs_fmt_count(count, waits));
	return true;
}

/* The thread of its process that did most meanwhile: it may hold what is waited for. */
static void say_busiest(const struct facts *f, struct gs_buf *text)
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
		active = share_of(t->wall_ns - gs_account_parked_ns(part_ns), f->pace->wall_ns);
		if (active > most) {
			most = active;
			best = t;
		}
	}
	if (best)
		add_text(text,
			 "; the most active of its process was thread %u (%s), %.0f %% of the time",
			 best->tid, best->comm ? best->comm : "", 100 * most);
}

static bool holds_lock(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_LOCK];
	if (*ret_share < LOCK_BOUND)
		return false;
	add_text(text, "it waits in futex for another thread or process");
	say_busiest(f, text);
	if (strncmp(f->pace->process ? f->pace->process : "", "python", 6) == 0)
		add_text(text, "; --python-gil shows whether it is the interpreter's lock");
	return true;
}

static bool holds_memory(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_FAULT];
	if (*ret_share >= MEMORY_BOUND)
		add_text(text, "it sleeps in page faults and in changes of its memory map");
	return *ret_share >= MEMORY_BOUND;
}

static bool holds_disk(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_DISK];
	if (*ret_share >= DISK_BOUND)
		add_text(text, "it waits for files and disks");
	return *ret_share >= DISK_BOUND;
}

static bool holds_network(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_NETWORK];
	if (*ret_share >= NETWORK_BOUND)
		add_text(text, "it waits for peers on sockets");
	return *ret_share >= NETWORK_BOUND;
}

static bool holds_child(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_CHILD];
	if (*ret_share >= CHILD_BOUND)
		add_text(text, "it waits for processes that it started to end");
	return *ret_share >= CHILD_BOUND;
}

static bool holds_idle(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_LOCK] + f->share[GS_PART_POLL] + f->share[GS_PART_PIPE] +
		     f->share[GS_PART_NETWORK] + f->share[GS_PART_CHILD];
	if (!f->pace->idle || f->others_active >= OTHERS_ACTIVE)
		return false;
	add_text(text, "no traced thread was active: all wait for others; children of a process "
		       "given by -p are traced with --follow alone");
	return true;
}

static bool holds_asleep(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_SLEEP];
	if (*ret_share >= ASLEEP)
		add_text(text, "it sleeps in nanosleep or on a timer");
	return *ret_share >= ASLEEP;
}

static bool holds_cpu(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_CPU] + f->share[GS_PART_OPERATOR] + f->share[GS_PART_CUDA];
	if (*ret_share < CPU_BOUND)
		return false;
	add_text(text, "it runs; all traced threads together used %.1f CPUs", f->cpus);
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
	add_text(text, "largest parts: %s %.0f %%, %s %.0f %%", gs_account_part_title(first),
		 100 * f->share[first], gs_account_part_title(second), 100 * f->share[second]);
	return true;
}

static const struct rule rules[] = {
	{"failed", "ended with an error status", 0, holds_failed,
	 "read its last messages; of a kill (status 137) look for the OOM killer in the kernel's "
	 "log",
	 "gpuscope trace -o run.gst -- COMMAND; gpuscope report run.gst"},
	{"hang", "a call does not return", 0, holds_hang,
	 "compare the calls that other ranks and threads are in, listed under still running",
	 "gpuscope trace -p PID --stacks native --layer python"},
	{"not_known", "not known", 0, holds_no_account,
	 "trace without --avoid account, on Linux 5.15 or newer", "gpuscope trace -v -- COMMAND"},
	{"too_short", "too short", 0, holds_too_short, "trace at least some seconds",
	 "gpuscope trace -p PID --duration 10s"},
	{"cpu_starved", "starved of CPUs", STARVED, holds_starved,
	 "if that is less than the job has, others hold them or a quota stops it; else start fewer "
	 "threads",
	 "gpuscope job -p PID"},
	{"input_bound", "input-bound: waits for its worker processes", INPUT_BOUND, holds_input,
	 "give them more workers where they compute, faster storage or a cache where they read",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"communication_bound", "communication-bound", COMMUNICATION, holds_communication,
	 "compare ranks: the one with the least time in NCCL is the one that the others wait for",
	 "gpuscope trace -o run.pftrace -- COMMAND"},
	{"mpi_bound", "communication-bound (MPI)", MPI_BOUND, holds_mpi,
	 "compare ranks: the one with the least time in MPI is the one that the others wait for",
	 "gpuscope trace --format json -- COMMAND"},
	{"copy_bound", "copies to or from the GPU", COPY_BOUND, holds_copies,
	 "pin the memory (pin_memory=True) and copy with non_blocking=True beside other work; copy "
	 "less",
	 "gpuscope trace -o run.pftrace -- COMMAND"},
	{"sync_heavy", "synchronises too often", SYNC_HEAVY, holds_sync_heavy,
	 "remove .item(), .cpu(), print of tensors and synchronise() from the inner loop",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"gpu_bound", "GPU-bound", GPU_BOUND, holds_gpu, FASTER_GPU_WORK, "gpuscope top"},
	{"gpu_bound", "GPU-bound", GPU_BEHIND, holds_gpu_behind, FASTER_GPU_WORK, "gpuscope top"},
	{"gpu_bound", "GPU-bound", GPU_BOUND, holds_gpu_callbacks, FASTER_GPU_WORK, "gpuscope top"},
	{"launch_bound", "launch-bound", LAUNCH_BUSY, holds_launch,
	 "launch fewer, larger kernels: CUDA graphs, torch.compile, larger batches",
	 "gpuscope trace --layer torch,python -- COMMAND"},
	{"gil_bound", "bound by Python's interpreter lock", GIL_BOUND, holds_gil,
	 "use processes instead of threads, or code that releases the lock",
	 "gpuscope trace --python-gil --layer python -- COMMAND"},
	{"memory_pressure", "waits for memory", MEMORY_BOUND, holds_memory,
	 "look for swapping and for files that are read through mmap", "gpuscope job -p PID"},
	{"io_bound", "I/O-bound: disk", DISK_BOUND, holds_disk,
	 "read ahead, read larger pieces, or move the data to faster storage",
	 "gpuscope job -p PID"},
	{"idle", "idle", 0, holds_idle, "give it work; if it has some, see what it waits for",
	 "gpuscope trace -p PID --format json"},
	{"lock_bound", "waits for a lock", LOCK_BOUND, holds_lock,
	 "see which thread holds it: the busiest one of its process",
	 "gpuscope trace --format json"},
	{"network_bound", "waits for the network", NETWORK_BOUND, holds_network,
	 "look at the peer: it answers late, or little is asked at a time", "gpuscope job -p PID"},
	{"waits_for_child", "waits for child processes", CHILD_BOUND, holds_child,
	 "trace the child: it decides", "gpuscope trace --format json -- COMMAND"},
	{"asleep", "asleep on purpose", ASLEEP, holds_asleep,
	 "look for sleep() and retries with a pause in the code", PYTHON_LINES},
	{"cpu_bound", "CPU-bound", CPU_BOUND, holds_cpu,
	 "find the code that runs most; where its work can be divided, use more threads",
	 PYTHON_LINES},
	{"mixed", "no single cause", 0, holds_mixed, "begin with the largest part",
	 "gpuscope trace --layer torch,python -- COMMAND"},
};

static bool has_no_cause(const struct rule *rule)
{
	return rule->holds == holds_no_account || rule->holds == holds_too_short ||
	       rule->holds == holds_mixed;
}

/* What shows lines of Python shows nothing of other programs. */
static const char *command_of(const struct rule *rule, const struct facts *f)
{
	const char *name = f->pace && f->pace->process ? f->pace->process : "";

	if (strncmp(name, "python", 6) == 0 || strcmp(rule->command, PYTHON_LINES) != 0)
		return rule->command;
	return rule->holds == holds_asleep ? "strace -f -e trace=nanosleep,clock_nanosleep COMMAND"
					   : "perf record -g -- COMMAND; perf report";
}

/* Just at its threshold a cause is as likely as not. */
static double confidence_of(const struct rule *rule, double share)
{
	double above = (share - rule->threshold) / (1 - rule->threshold);

	if (has_no_cause(rule))
		return 0;
	if (rule->threshold <= 0)
		return 0.95;
	return 0.5 + 0.45 * (above > 1 ? 1 : above);
}

void gs_verdict_trace(struct gs_summary *s)
{
	struct gs_buf text GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 14);
	struct facts f = {.s = s};
	double share = -1;

	gather_facts(&f);
	for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
		const struct rule *r = &rules[i];

		gs_buf_reset(&text);
		if (!r->holds(&f, &text, &share))
			continue;
		if (gs_buf_put(&text, "", 1) < 0)
			return;
		s->verdict = (struct gs_verdict_summary){
			.class_name = r->class_name,
			.title = r->title,
			.evidence = gs_summary_text(s, (const char *)text.data),
			.advice = r->advice,
			.command = command_of(r, &f),
			.share = share,
			.confidence = confidence_of(r, share),
			.is_unknown = has_no_cause(r),
		};
		return;
	}
}
