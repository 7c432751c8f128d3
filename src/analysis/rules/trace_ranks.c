/*
 * Rules about ranks: a thread that waits in collectives, of NCCL or of MPI, or for a GPU on which they run. Which rank the others
 * wait for is known where whole calls were recorded (pipeline/collectives): by when the hosts made them, all on one clock. A host
 * that calls last keeps others waiting only if it does not wait itself: one that is merely less far ahead of its GPU does.
 * What it does instead explains its lateness only where the other ranks do less of it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/rules/trace_int.h"
#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"

#define ARRIVES_LAST   "arrives last"
#define GPU_WAITS      0.50 /* for the GPU, which runs collectives and little else */
#define KERNELS_AROUND 16   /* launches for a collective: the collective is the work */
#define LATE_PART      0.10 /* of the time between the first and the last the others wait for it */
#define LATE_SAID      0.05 /* likewise, where it is said beside another wait */
#define LATE_CAUSE     0.50 /* of the time that the others wait more, by one part of its time */
#define LATE_MORE      0.05 /* at least, and of its own time */
#define LATE_WAITS     0.20 /* of the pace setter's time a late rank waits itself, at most */

/* The communicator whose late rank costs most, else the one that is called most; NULL: none is matched. */
static const struct gs_collectives_comm *arrivals_of(const struct gs_summary *s)
{
	const struct gs_collectives_summary *c = s->collectives;

	return c && c->n_comms && c->comms[0].n_matched ? &c->comms[0] : NULL;
}

/* The thread of a process that launches and communicates most; its first one, where that takes part, as the backward pass of
 * PyTorch has a thread of its own, which begins when the first one comes to it, whatever made that late. */
static const struct gs_account_thread *main_thread_of(const struct gs_account_summary *a,
						      uint32_t pid)
{
	const struct gs_account_thread *best = NULL, *first = NULL;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];

		if (t->pid != pid)
			continue;
		if (t->tid == pid)
			first = t;
		if (!best || t->launches + t->collectives > best->launches + best->collectives)
			best = t;
	}
	return gs_summary_takes_part(first, best) ? first : best;
}

static uint64_t waits_of(const struct gs_account_summary *a, uint32_t pid)
{
	uint64_t part_ns[GS_PART_COUNT], sum_ns = 0;

	for (size_t i = 0; i < a->n_threads; i++) {
		if (a->threads[i].pid != pid)
			continue;
		gs_account_parts(a->threads[i].time_ns, part_ns);
		sum_ns += part_ns[GS_PART_GPU_WAIT] + part_ns[GS_PART_NCCL];
	}
	return sum_ns;
}

void rules_find_late(struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	f->arrivals = arrivals_of(f->s);
	f->late = f->arrivals ? f->arrivals->late : NULL;
	f->late_thread = f->late ? main_thread_of(a, f->late->pid) : NULL;
	if (f->late_thread)
		f->late_waits = rules_share_of(waits_of(a, f->late->pid), rules_whole_ns(f->pace));
}

/* "arrives last at 92 % of 1,200 collectives of communicator 0x1f, 4.1 ms after the one before it on average" */
static void describe_lateness(const struct facts *f, struct gs_buf *text)
{
	const struct gs_collectives_comm *c = f->arrivals;
	char n[GS_FMT_BYTES], by[GS_FMT_BYTES];

	rules_add_text(text,
		       ARRIVES_LAST " at %.0f %% of %s collectives of communicator 0x%" PRIx64
				    ", %s after the one before it on average",
		       100 * rules_share_of(f->late->n_last, c->n_matched),
		       gs_fmt_count(n, c->n_matched), c->id,
		       gs_fmt_ns(by, f->late->margin_sum_ns / f->late->n_last));
}

static void describe_late_rank(const struct facts *f, struct gs_buf *text)
{
	rules_add_text(text, "rank %" PRId32 " (process %" PRIu32 ") ", f->late->rank,
		       f->late->pid);
	describe_lateness(f, text);
}

static bool text_has(const struct gs_buf *text, const char *words)
{
	return text->bytes && memmem(text->data, text->bytes, words, strlen(words));
}

/* Of the time between the first and the last collective the others wait for the late rank. */
static double costs_others(const struct facts *f)
{
	return rules_share_of(f->late->missing_ns, f->arrivals->span_ns);
}

void rules_describe_late_rank(const struct facts *f, struct gs_buf *text)
{
	if (!f->late || text_has(text, ARRIVES_LAST) || costs_others(f) < LATE_PART)
		return;
	if (f->late->pid == f->pace->pid) {
		rules_add_text(text, "; it is rank %" PRId32 ", for which the others wait: it ",
			       f->late->rank);
		describe_lateness(f, text);
	} else {
		rules_add_text(text, "; ");
		describe_late_rank(f, text);
	}
}

/* What is known of the ranks that a wait in collectives is for. */
static void describe_arrivals(const struct facts *f, struct gs_buf *text)
{
	const struct gs_collectives_summary *all = f->s->collectives;
	char n[GS_FMT_BYTES];

	if (f->late && costs_others(f) >= LATE_SAID) {
		rules_add_text(text, "; ");
		describe_late_rank(f, text);
	} else if (f->late) {
		rules_add_text(
			text,
			"; no rank keeps the others waiting for more than %.0f %% of the time at %s collectives of communicator 0x%" PRIx64,
			ceil(100 * costs_others(f)), gs_fmt_count(n, f->arrivals->n_matched),
			f->arrivals->id);
	} else if (f->arrivals) {
		rules_add_text(
			text,
			"; no rank stands out as late at %s collectives of communicator 0x%" PRIx64,
			gs_fmt_count(n, f->arrivals->n_matched), f->arrivals->id);
	} else if (all && all->left_out[GS_COLLECTIVES_UNKNOWN]) {
		rules_add_text(
			text,
			"; which rank arrives last is known where the trace begins before its communicators are made");
	}
}

void rules_describe_collectives(const struct facts *f, struct gs_buf *text)
{
	if (!f->collectives)
		return;
	rules_add_text(
		text, "; collectives run there too, so part of it may be waiting for another rank");
	/* Of its own rank the verdict says so at its end. */
	if (f->arrivals && (!f->late || f->late->pid != f->pace->pid))
		describe_arrivals(f, text);
}

bool rules_is_of_ranks(const struct facts *f, rules_holds_fn *holds)
{
	return f->late_thread && costs_others(f) >= LATE_SAID &&
	       (holds == rules_holds_late_rank || holds == rules_holds_nccl ||
		holds == rules_holds_collectives);
}

static bool is_wait_for_ranks(unsigned part)
{
	return part == GS_PART_GPU_WAIT || part == GS_PART_NCCL;
}

/* How a rank spends its time, and how the other ranks do; shares of the time of the threads that set their pace. */
struct comparison {
	double late[GS_PART_COUNT], others[GS_PART_COUNT]; /* of the others the median */
	double late_waits, others_wait; /* likewise: what waits for ranks, together */
	size_t n_others;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The lower one of two; they are put in order. */
static double median_of(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[(n - 1) / 2];
}

/* Of a part; part GS_PART_COUNT: of all waits for ranks. */
static double share_of_part(const struct gs_account_thread *t, unsigned part)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(t->time_ns, part_ns);

	return part < GS_PART_COUNT
		       ? rules_share_of(part_ns[part], wall_ns)
		       : rules_share_of(part_ns[GS_PART_GPU_WAIT] + part_ns[GS_PART_NCCL], wall_ns);
}

/* n_others 0: no other rank is known, or there is no memory. */
static struct comparison compare_ranks(const struct facts *f)
{
	const struct gs_collectives_comm *c = f->arrivals;
	GS_FREE const struct gs_account_thread **others = calloc(c->n_seen, sizeof(*others));
	GS_FREE double *shares = calloc(c->n_seen, sizeof(*shares));
	struct comparison with = {.n_others = 0};

	for (size_t i = 0; others && shares && i < c->n_seen; i++) {
		const struct gs_account_thread *t = main_thread_of(&f->s->account, c->ranks[i].pid);

		if (t && c->ranks[i].pid != f->late->pid)
			others[with.n_others++] = t;
	}
	for (unsigned part = 0; part <= GS_PART_COUNT; part++) {
		bool is_waits = part == GS_PART_COUNT;
		double *late = is_waits ? &with.late_waits : &with.late[part];
		double *median = is_waits ? &with.others_wait : &with.others[part];

		*late = share_of_part(f->late_thread, part);
		for (size_t i = 0; i < with.n_others; i++)
			shares[i] = share_of_part(others[i], part);
		if (with.n_others)
			*median = median_of(shares, with.n_others);
	}
	return with;
}

/*
 * A late rank works while the others wait for it. What it does then explains its lateness only where the others do not do it
 * as much: a machine that stops all ranks alike makes none of them late. GS_PART_COUNT: no part makes half of the time
 * that the others wait more.
 */
static unsigned find_cause(const struct comparison *with)
{
	double most = fmax(LATE_MORE, LATE_CAUSE * (with->others_wait - with->late_waits));
	unsigned cause = GS_PART_COUNT;

	for (unsigned part = 0; part < GS_PART_COUNT && with->others_wait > with->late_waits;
	     part++) {
		double more = with->late[part] - with->others[part];

		if (is_wait_for_ranks(part) || more < most)
			continue;
		most = more;
		cause = part;
	}
	return cause;
}

static unsigned most_of(const double shares[GS_PART_COUNT])
{
	unsigned most = 0;

	for (unsigned part = 1; part < GS_PART_COUNT; part++)
		if (shares[part] > shares[most])
			most = part;
	return most;
}

static void describe_cause(const struct facts *f, struct gs_buf *text)
{
	const struct comparison with = compare_ranks(f);
	unsigned most = most_of(with.late), cause = with.n_others ? find_cause(&with) : most;

	if (cause == GS_PART_COUNT) {
		rules_add_text(
			text,
			"; why it is late is not known: its thread spent most time \"%s\" (%.0f %%), those of the other ranks %.0f %% (median)",
			gs_account_part_title(most), 100 * with.late[most],
			100 * with.others[most]);
		return;
	}
	rules_add_text(text, ": its thread spent %.0f %% %s", 100 * with.late[cause],
		       gs_account_part_title(cause));
	if (with.n_others)
		rules_add_text(text, ", those of the other ranks %.0f %% (median)",
			       100 * with.others[cause]);
}

/* The pace setter waits for another rank, which does not wait itself. */
bool rules_holds_late_rank(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_GPU_WAIT] + f->share[GS_PART_NCCL];
	if (!f->late_thread || f->late->pid == f->pace->pid || *ret_share < RULES_COMMUNICATION ||
	    f->late_waits >= LATE_WAITS || costs_others(f) < LATE_PART)
		return false;
	describe_late_rank(f, text);
	rules_add_text(text, "; itself it waits for the GPU and in NCCL for %.0f %% only",
		       100 * f->late_waits);
	describe_cause(f, text);
	return true;
}

bool rules_holds_nccl(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_NCCL];
	if (*ret_share < RULES_COMMUNICATION)
		return false;
	rules_add_text(text, "its host time is in NCCL's calls");
	describe_arrivals(f, text);
	return true;
}

/* Hardly a kernel is launched for each collective. */
bool rules_holds_collectives(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char count[GS_FMT_BYTES];

	*ret_share = f->share[GS_PART_GPU_WAIT];
	if (*ret_share < GPU_WAITS || !f->collectives || 2 * f->collectives < f->waits ||
	    f->launches > KERNELS_AROUND * f->collectives)
		return false;
	rules_add_text(
		text,
		"the host waits for the GPU, which has %s collectives to do and few kernels (%" PRIu64
		" for each)",
		gs_fmt_count(count, f->collectives), f->launches / f->collectives);
	describe_arrivals(f, text);
	return true;
}

bool rules_holds_mpi(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	*ret_share = f->share[GS_PART_MPI];
	if (*ret_share >= RULES_MPI_BOUND)
		rules_add_text(text,
			       "it is in MPI's calls: it moves data, or waits for other ranks");
	return *ret_share >= RULES_MPI_BOUND;
}
