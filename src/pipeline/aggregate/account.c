/*
 * Where the time of threads went: the last ACCOUNT of each, and which of them sets the pace.
 *
 * The pace is set by the thread that launches the most work. Where none launches, it is looked for
 * from the process that was traced first downward: a process whose first thread only waits for
 * others (a shell, a launcher) is passed over for the busiest of its children, and in the process
 * that is left it is the first thread, unless that one is parked: then the busiest one.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

#define MAX_DEPTH    8  /* launchers that start launchers */
#define INACTIVE_PCT 20 /* of its time a thread does something that watches others */
#define SHARED_PCT   20 /* of one thread's time, by all threads of a process together */
#define CHILD_PCT    50 /* of its time a thread waits for its children to end */
#define MIN_LAUNCHES 10 /* fewer say nothing of a pace */

static uint64_t account_key(const struct gs_rec_account *r)
{
	const uint64_t name[] = {(uint64_t)r->pid << 32 | r->tid, r->born_ns};

	return gs_hash_bytes(name, sizeof(name));
}

int gs_aggregate_take_account(struct gs_aggregate *v, const struct gs_rec_account *r)
{
	struct view_account *a = NULL;
	uint64_t key = account_key(r), idx;

	if (r->time_ns > v->last_ns)
		v->last_ns = r->time_ns;
	if (gs_map_get(&v->account_idx, key, &idx)) {
		a = &((struct view_account *)v->accounts.items)[idx];
	} else {
		a = gs_aggregate_grow(&v->accounts, sizeof(*a), GS_AGGREGATE_MAX_ACCOUNTS);
		if (a && gs_map_put(&v->account_idx, key, v->accounts.n - 1) < 0) {
			v->accounts.n--;
			a = NULL;
		}
	}
	if (!a && !(r->account_flags & GS_ACCOUNT_ENDED))
		return 0; /* it comes again, with more */
	if (!a) {
		a = &v->account_rest;
		v->n_account_rest++;
	} else {
		memset(a, 0, offsetof(struct view_account, start_up_ns));
	}
	a->pid = r->pid;
	a->tid = r->tid;
	a->uid = r->uid;
	a->parent_pid = r->parent_pid;
	a->comm_str = r->comm_str;
	a->process_str = r->process_str;
	a->ended = r->account_flags & GS_ACCOUNT_ENDED;
	a->end_signal = (uint8_t)(r->account_flags >> GS_ACCOUNT_SIGNAL_SHIFT) & 0x7f;
	a->born_ns = r->born_ns;
	a->time_ns = r->time_ns;
	/* States and calls that only a newer writer knows are of no known reason. */
	for (unsigned state = 0; state < r->n_states; state++)
		for (unsigned in = 0; in < r->n_insides; in++)
			a->ns[state < GS_STATE_COUNT ? state : GS_STATE_OTHER]
			     [in < GS_INSIDE_COUNT ? in : GS_INSIDE_NONE] +=
				r->ns[(size_t)state * r->n_insides + in];
	if (r->account_flags & GS_ACCOUNT_AT_LAUNCH)
		memcpy(a->start_up_ns, a->ns, sizeof(a->ns));
	return 0;
}

/* --- the summary --- */

static bool is_parked(const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(t->time_ns, part_ns);

	return gs_account_parked_ns(part_ns) > wall_ns / 100 * GS_ACCOUNT_IDLE_PCT;
}

/* It waits and sleeps, as a process that only watches its children does. */
static bool is_inactive(const struct gs_account_thread *t)
{
	return gs_summary_active_ns(t) < t->wall_ns / 100 * INACTIVE_PCT;
}

static bool is_waiting(const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(t->time_ns, part_ns);

	return t->idle || part_ns[GS_PART_CHILD] > wall_ns / 100 * CHILD_PCT;
}

/* What the thread launched, by the functions that were counted for it. */
static void take_calls(const struct gs_summary *s, struct gs_account_thread *t)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		for (size_t j = 0; p->pid == t->pid && j < p->n_threads; j++) {
			const struct gs_function_list *list = &p->threads[j].functions;

			for (size_t k = 0; p->threads[j].tid == t->tid && k < list->n; k++) {
				const struct gs_function_stats *f = &list->items[k];

				if (f->func_class == GS_CLASS_LAUNCH ||
				    f->func_class == GS_CLASS_GRAPH_LAUNCH)
					t->launches += f->calls;
				if (f->func_class == GS_CLASS_COLLECTIVE ||
				    f->func_class == GS_CLASS_P2P)
					t->collectives += f->calls;
			}
		}
	}
}

static int compare_threads(const void *a, const void *b)
{
	const struct gs_account_thread *x = a, *y = b;
	uint64_t x_ns = gs_summary_active_ns(x), y_ns = gs_summary_active_ns(y);

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x_ns != y_ns)
		return x_ns > y_ns ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static struct gs_account_thread *most_launches(struct gs_account_summary *a)
{
	struct gs_account_thread *best = NULL;

	for (size_t i = 0; i < a->n_threads; i++) {
		struct gs_account_thread *t = &a->threads[i];
		uint64_t n = t->launches + t->collectives;

		if (n >= MIN_LAUNCHES && (!best || n > best->launches + best->collectives))
			best = t;
	}
	return best;
}

/* They are sorted by process. */
static struct gs_account_thread *first_thread(struct gs_account_summary *a, uint32_t pid)
{
	size_t from = 0, to = a->n_threads;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (a->threads[middle].pid < pid)
			from = middle + 1;
		else
			to = middle;
	}
	for (; from < a->n_threads && a->threads[from].pid == pid; from++)
		if (a->threads[from].tid == pid)
			return &a->threads[from];
	return NULL;
}

/* Of the processes whose parent is not traced, or (parent) of the children of that one that lived so long,
 * that whose first thread was the most active. */
static struct gs_account_thread *process_below(struct gs_account_summary *a, uint32_t parent,
					       uint64_t least_ns)
{
	struct gs_account_thread *best = NULL;

	for (size_t i = 0; i < a->n_threads; i++) {
		struct gs_account_thread *t = &a->threads[i];

		if (t->tid != t->pid || t->wall_ns < least_ns)
			continue;
		if (parent ? t->parent_pid != parent || t->pid == parent
			   : first_thread(a, t->parent_pid) != NULL)
			continue;
		if (!best || gs_summary_active_ns(t) > gs_summary_active_ns(best))
			best = t;
	}
	return best;
}

/* pid 0: of all processes. */
static struct gs_account_thread *busiest_thread(struct gs_account_summary *a, uint32_t pid)
{
	struct gs_account_thread *best = NULL;

	for (size_t i = 0; i < a->n_threads; i++)
		if ((!pid || a->threads[i].pid == pid) &&
		    (!best || gs_summary_active_ns(&a->threads[i]) > gs_summary_active_ns(best)))
			best = &a->threads[i];
	return best;
}

/* Of all threads of a process together: each of a server's may do little. */
static uint64_t process_active_ns(const struct gs_account_summary *a, uint32_t pid)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < a->n_threads; i++)
		sum_ns += a->threads[i].pid == pid ? gs_summary_active_ns(&a->threads[i]) : 0;
	return sum_ns;
}

static struct gs_account_thread *pace_without_launches(struct gs_account_summary *a)
{
	struct gs_account_thread *t = process_below(a, 0, 0), *busiest, *child;

	for (int depth = 0; t && (is_waiting(t) || is_inactive(t)) && depth < MAX_DEPTH; depth++) {
		busiest = busiest_thread(a, t->pid);
		if (busiest && busiest != t && !busiest->idle && !is_inactive(busiest))
			return busiest;
		if (busiest && t->idle &&
		    process_active_ns(a, t->pid) >= t->wall_ns / 100 * SHARED_PCT)
			return busiest;
		/* A sleeping or working parent gives way to a more active child only; never to a short one. */
		child = process_below(a, t->pid, t->wall_ns / 2);
		if (!child ||
		    (!is_waiting(t) &&
		     gs_summary_active_ns(child) <= 2 * gs_summary_active_ns(t)) ||
		    (!is_inactive(t) && gs_summary_active_ns(child) <= gs_summary_active_ns(t)))
			break;
		t = child;
	}
	return t;
}

/* Of processes that have nothing to do with each other none waits for another one's pace. */
static bool is_of_machine(const struct gs_aggregate *v, const struct gs_rec_session *session)
{
	return session &&
	       strcmp(gs_dict_string(v->dict, session->command_str), GS_SESSION_OF_MACHINE) == 0;
}

int gs_aggregate_add_account(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct gs_rec_session *session = gs_dict_session(v->dict);
	const struct view_account *from = v->accounts.items;
	struct gs_account_summary *a = &s->account;
	struct gs_account_thread *pace;

	if (!v->accounts.n)
		return 0;
	a->threads = gs_summary_alloc(s, v->accounts.n * sizeof(*a->threads));
	if (!a->threads)
		return -ENOMEM;
	a->n_rest = v->n_account_rest;
	memcpy(a->rest_ns, v->account_rest.ns, sizeof(a->rest_ns));
	for (size_t i = 0; i < v->accounts.n; i++) {
		struct gs_account_thread *t = &a->threads[a->n_threads++];
		uint64_t part_ns[GS_PART_COUNT];

		t->pid = from[i].pid;
		t->tid = from[i].tid;
		t->parent_pid = from[i].parent_pid;
		t->comm = gs_summary_text(s, gs_dict_string(v->dict, from[i].comm_str));
		t->process = gs_summary_text(s, gs_dict_string(v->dict, from[i].process_str));
		t->ended = from[i].ended;
		t->end_signal = from[i].end_signal;
		t->start_ns = session && from[i].born_ns > session->start_ns
				      ? from[i].born_ns - session->start_ns
				      : 0;
		memcpy(t->time_ns, from[i].ns, sizeof(t->time_ns));
		memcpy(t->start_up_ns, from[i].start_up_ns, sizeof(t->start_up_ns));
		t->wall_ns = gs_account_parts(t->time_ns, part_ns);
		t->idle = is_parked(t);
		take_calls(s, t);
	}
	qsort(a->threads, a->n_threads, sizeof(*a->threads), compare_threads);
	pace = most_launches(a);
	if (pace && gs_summary_pace_thread(first_thread(a, pace->pid), pace) != pace)
		pace = first_thread(a, pace->pid);
	else if (!pace)
		pace = is_of_machine(v, session) ? busiest_thread(a, 0) : pace_without_launches(a);
	if (pace)
		pace->critical = true;
	return 0;
}
