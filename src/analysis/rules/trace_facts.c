/*
 * What the rules ask for, out of a summary. The pace setter is the thread that the summary names;
 * a process that worker processes feed stands in place of a worker that was named because it was
 * the more active.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "analysis/rules/trace_int.h"
#include "model/trace/attach.h"
#include "model/trace/class.h"
#include "model/trace/event.h"

#define WORKER_ALIVE 0.50 /* a worker lives at least so long */
#define HELPER_WORK  0.20 /* of the launches, by a thread that helps */
#define FED_WAIT     0.50 /* of its time a process waits for pipes that workers feed */
#define FED_ACTIVE                                                                                 \
	0.005 /* and does something with what comes: what only watches children does not */
#define ONLY_LOCKED 0.80 /* of its time a thread does nothing else: it began with something */
#define CONTENDS    0.15 /* of its time a thread runs, and waits for locks */
#define TURN        0.01 /* the same, of one that seldom gets a lock, */
#define ALWAYS_TURN 0.80 /* of the time one of them has it */

double rules_share_of(uint64_t ns, uint64_t wall_ns)
{
	return wall_ns ? (double)ns / (double)wall_ns : 0;
}

const char *rules_name_run(const struct gs_summary *s)
{
	bool is_imported = s->attach_mode && strcmp(s->attach_mode, GS_SESSION_IMPORTED) == 0;

	return is_imported ? GS_SESSION_IMPORTED : "this run";
}

bool rules_is_python(const struct facts *f)
{
	return strncmp(f->pace->process ? f->pace->process : "", "python", 6) == 0;
}

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
	double waits = f->share[GS_PART_LOCK],
	       covered = rules_share_of(active_ns, f->pace->wall_ns);

	if (covered > waits)
		covered = waits;
	if (!active_ns || covered <= 0)
		return;
	f->share[GS_PART_LOCK] -= covered;
	for (unsigned i = 0; i < GS_PART_COUNT; i++) {
		if (i == GS_PART_LOCK || i == GS_PART_POLL || i == GS_PART_PIPE ||
		    i == GS_PART_CHILD || i == GS_PART_NETWORK || i == GS_PART_SLEEP)
			continue;
		f->share[i] += covered * rules_share_of(part_ns[i], active_ns);
	}
}

static double ran_share(const struct facts *f, const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT];

	gs_account_parts(t->time_ns, part_ns);
	return rules_share_of(part_ns[GS_PART_CPU] + part_ns[GS_PART_OPERATOR] +
				      part_ns[GS_PART_CUDA],
			      f->pace->wall_ns);
}

/* A thread of its process that launches while the pace setter waits for it: both take turns on purpose. */
static bool is_helper(const struct facts *f, const struct gs_account_thread *t)
{
	return t != f->pace && t->pid == f->pace->pid && t->launches &&
	       (double)t->launches >= HELPER_WORK * (double)f->pace->launches;
}

static double active_share(const struct facts *f, const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT];

	gs_account_parts(t->time_ns, part_ns);
	return rules_share_of(t->wall_ns - gs_account_parked_ns(part_ns) - part_ns[GS_PART_SLEEP],
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
		    rules_share_of(t->wall_ns, f->pace->wall_ns) < WORKER_ALIVE)
			continue;
		f->n_workers++;
		all_ns += gs_account_parts(t->time_ns, part_ns);
		for (unsigned p = 0; p < GS_PART_COUNT; p++)
			sum_ns[p] += part_ns[p];
	}
	for (unsigned p = 0; p < GS_PART_COUNT; p++)
		f->worker_share[p] = rules_share_of(sum_ns[p], all_ns);
}

/* Signals that say that something went wrong: others end processes on purpose. */
static bool is_fault_signal(unsigned number)
{
	return number == SIGKILL || number == SIGSEGV || number == SIGBUS || number == SIGABRT ||
	       number == SIGILL || number == SIGFPE;
}

static const struct gs_account_thread *find_crashed(const struct gs_account_summary *a)
{
	for (size_t i = 0; i < a->n_threads; i++)
		if (a->threads[i].tid == a->threads[i].pid && a->threads[i].ended &&
		    is_fault_signal(a->threads[i].end_signal))
			return &a->threads[i];
	return NULL;
}

/* A worker is forked by the process that it feeds and runs no other program; that one waits for
 * what comes through a pipe. (A pool's owner waits for a lock.) */
static const struct gs_account_thread *fed_process_of(const struct gs_account_summary *a,
						      const struct gs_account_thread *t)
{
	for (size_t i = 0; i < a->n_threads && !t->launches && !t->collectives; i++) {
		const struct gs_account_thread *p = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT], waited_ns;

		if (p->pid != t->parent_pid || p->tid != p->pid ||
		    strcmp(p->process ? p->process : "", t->process ? t->process : "") != 0)
			continue;
		gs_account_parts(p->time_ns, part_ns);
		waited_ns = gs_account_parked_ns(part_ns) + part_ns[GS_PART_SLEEP];
		if (rules_share_of(part_ns[GS_PART_PIPE] + part_ns[GS_PART_POLL], p->wall_ns) >=
			    FED_WAIT &&
		    rules_share_of(p->wall_ns - waited_ns, p->wall_ns) >= FED_ACTIVE)
			return p;
	}
	return t;
}

static const struct gs_account_thread *account_thread(const struct gs_account_summary *a,
						      uint32_t pid, uint32_t tid)
{
	for (size_t i = 0; i < a->n_threads; i++)
		if (a->threads[i].pid == pid && a->threads[i].tid == tid)
			return &a->threads[i];
	return NULL;
}

static void consider_loader(struct facts *f, const struct gs_account_thread *t,
			    const struct gs_function_stats *fn)
{
	double share = t ? rules_share_of(fn->total_ns, rules_whole_ns(t)) : 0;

	if (share <= f->loader_share || fn->layer != GS_LAYER_TORCH ||
	    strncmp(fn->name, "enumerate(DataLoader)#", 22) != 0)
		return;
	f->loader_thread = t;
	f->loader_name = fn->name;
	f->loader_share = share < 1 ? share : 1;
	f->loader_calls = fn->calls;
}

/* Of the process of the pace setter, or where nothing launches, of any. */
static void find_loader(struct facts *f)
{
	const struct gs_summary *s = f->s;

	for (size_t i = 0; i < s->n_attached; i++)
		f->has_torch |= s->attached[i].path && strstr(s->attached[i].path, "libtorch");
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		if (f->pace->launches && p->pid != f->pace->pid)
			continue;
		for (size_t j = 0; j < p->n_threads; j++) {
			const struct gs_function_list *list = &p->threads[j].functions;

			for (size_t k = 0; k < list->n; k++)
				consider_loader(
					f, account_thread(&s->account, p->pid, p->threads[j].tid),
					&list->items[k]);
		}
	}
}

static bool is_own_thread(const struct facts *f, const struct gs_account_thread *t)
{
	return t->pid == f->pace->pid && !is_helper(f, t);
}

/* The first thread of a process that runs the same program for the same parent. */
static bool is_sibling(const struct facts *f, const struct gs_account_thread *t)
{
	const char *process = t->process ? t->process : "";

	return t->tid == t->pid && t->parent_pid == f->pace->parent_pid &&
	       strcmp(process, f->pace->process ? f->pace->process : "") == 0;
}

/* A lock is not handed on in turn: one thread may get it again at once, and most of the time. 0: they
 * take no turns. */
static size_t count_turns(const struct facts *f,
			  bool (*is_among)(const struct facts *, const struct gs_account_thread *))
{
	const struct gs_account_summary *a = &f->s->account;
	double all = 0, ready = 0, most = 0;
	size_t n = 0;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];
		double does;

		if (!is_among(f, t))
			continue;
		gs_account_parts(t->time_ns, part_ns);
		if (rules_share_of(part_ns[GS_PART_LOCK], f->pace->wall_ns) < TURN)
			continue;
		does = rules_share_of(part_ns[GS_PART_SLEEP] + part_ns[GS_PART_CPU] +
					      part_ns[GS_PART_OPERATOR],
				      f->pace->wall_ns);
		n += does >= TURN;
		all += does;
		ready += rules_share_of(part_ns[GS_PART_RUNQUEUE], f->pace->wall_ns);
		most = does > most ? does : most;
	}
	/* Who has its turn may be kept waiting for a processor. */
	if (all - most < TURN || all > RULES_TURNS || all + ready < ALWAYS_TURN)
		return 0;
	return n > 2 ? n : 2;
}

static void find_sleeper(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];
		double sleeps;

		if (t == f->pace || !is_own_thread(f, t))
			continue;
		gs_account_parts(t->time_ns, part_ns);
		sleeps = rules_share_of(part_ns[GS_PART_SLEEP], f->pace->wall_ns);
		if (sleeps >= RULES_ASLEEP && sleeps > f->sleeper_share) {
			f->sleeper = t;
			f->sleeper_share = sleeps;
		}
	}
}

/* Threads without work wait for events, not for a mutex: that one is held. */
static void find_mutex(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		double share =
			rules_share_of(t->time_ns[GS_STATE_MUTEX][GS_INSIDE_NONE] +
					       t->time_ns[GS_STATE_MUTEX][GS_INSIDE_OPERATOR],
				       f->pace->wall_ns);

		if (!is_own_thread(f, t))
			continue;
		f->n_at_mutex += share >= TURN;
		f->mutex_share = share > f->mutex_share ? share : f->mutex_share;
	}
}

static void find_contention(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];
		double lock, busy;

		gs_account_parts(t->time_ns, part_ns);
		lock = rules_share_of(part_ns[GS_PART_LOCK], f->pace->wall_ns);
		busy = rules_share_of(part_ns[GS_PART_CPU] + part_ns[GS_PART_OPERATOR] +
					      part_ns[GS_PART_RUNQUEUE],
				      f->pace->wall_ns);
		if (rules_share_of(part_ns[GS_PART_LOCK], t->wall_ns) < ONLY_LOCKED)
			f->n_not_locked++;
		if (t->pid != f->pace->pid || is_helper(f, t))
			continue;
		f->process_busy += rules_share_of(part_ns[GS_PART_CPU] + part_ns[GS_PART_OPERATOR],
						  f->pace->wall_ns);
		/* One may also sleep while it holds the lock. */
		busy += rules_share_of(part_ns[GS_PART_SLEEP], f->pace->wall_ns);
		f->n_contending += lock >= CONTENDS && busy >= CONTENDS;
	}
}

/* Only the process of the critical thread has its start-up left out; the others' time is of the whole run. */
static void add_cpus(struct facts *f, uint32_t critical_pid)
{
	const struct gs_account_summary *a = &f->s->account;
	uint64_t all_ns = f->s->duration_ns;
	uint64_t steady_ns = all_ns > f->start_up_ns ? all_ns - f->start_up_ns : all_ns;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t wall_ns = t->pid == critical_pid ? steady_ns : all_ns;

		/* The account is read when the run is over, on a full machine much later. */
		wall_ns = t->wall_ns > wall_ns ? t->wall_ns : wall_ns;
		for (unsigned in = 0; in < GS_INSIDE_COUNT; in++)
			f->cpus += rules_share_of(t->time_ns[GS_STATE_CPU][in], wall_ns);
	}
}

void rules_gather_facts(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;
	const struct gs_account_thread *critical = gs_summary_critical_thread(a);
	uint64_t part_ns[GS_PART_COUNT];

	f->seconds = (double)f->s->duration_ns / 1e9;
	if (critical)
		f->pace = fed_process_of(a, critical);
	add_cpus(f, critical ? critical->pid : 0);
	f->crashed = find_crashed(a);
	if (!f->pace)
		return;
	f->seconds = (double)f->pace->wall_ns / 1e9;
	gs_account_parts(f->pace->time_ns, part_ns);
	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		f->share[i] = rules_share_of(part_ns[i], f->pace->wall_ns);
	count_calls(f, f->pace);
	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];

		if (t == f->pace || t->pid != f->pace->pid)
			continue;
		f->others_active += active_share(f, t);
		if (is_helper(f, t)) {
			count_calls(f, t);
			merge_helper(f, t);
		} else {
			f->others_ran += ran_share(f, t);
		}
	}
	find_workers(f);
	find_loader(f);
	find_contention(f);
	f->n_taking_turns = count_turns(f, is_own_thread);
	f->n_processes_in_turn = count_turns(f, is_sibling);
	find_sleeper(f);
	find_mutex(f);
	rules_find_late(f);
}
