/*
 * Who is a rank, and how far they are apart. A rank is unlike the others when it is more than three
 * median absolute deviations from the median, and far enough from it to matter: of two none is.
 */
#include "output/report/summary_ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"

#define GAP          2
#define MAX_ROWS     8
#define MIN_PCT      0.5 /* smaller parts are left out */
#define ODD_PCT      2.0 /* of wall time: less makes no rank unlike the others */
#define DEVIATIONS   3
#define MIN_LAUNCHES 10 /* fewer say nothing of a pace */

/* --- who --- */

static int32_t rank_of(const struct gs_summary *s, uint32_t pid)
{
	int32_t rank = -1, n_ranks = 1;

	for (size_t i = 0; i < s->n_comms; i++) {
		const struct gs_comm_summary *c = &s->comms[i];

		if (c->pid != pid || c->rank < 0 || c->n_ranks <= n_ranks)
			continue;
		rank = c->rank;
		n_ranks = c->n_ranks;
	}
	for (size_t i = 0; rank < 0 && i < s->n_mpi_ranks; i++)
		if (s->mpi_ranks[i].pid == pid && s->mpi_ranks[i].n_ranks > 1)
			rank = s->mpi_ranks[i].rank;
	return rank;
}

static uint64_t busy_ns(const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(t->time_ns, part_ns);

	return wall_ns - gs_account_parked_ns(part_ns);
}

/* The thread that launches the most, or the first one if that waits for it; where none does the first one, or the busiest
 * if that one is parked. */
static const struct gs_account_thread *pace_of(const struct gs_summary *s, uint32_t pid)
{
	const struct gs_account_thread *first = NULL, *busiest = NULL, *launches = NULL;

	for (size_t i = 0; i < s->account.n_threads; i++) {
		const struct gs_account_thread *t = &s->account.threads[i];
		uint64_t n = t->launches + t->collectives;

		if (t->pid != pid)
			continue;
		if (t->tid == pid)
			first = t;
		if (!busiest || busy_ns(t) > busy_ns(busiest))
			busiest = t;
		if (n >= MIN_LAUNCHES &&
		    (!launches || n > launches->launches + launches->collectives))
			launches = t;
	}
	if (launches)
		return gs_summary_pace_thread(first, launches);
	return first && !first->idle ? first : busiest;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_rank *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int gs_report_ranks_find(const struct gs_summary *s, struct gs_ranks *ret_ranks)
{
	struct gs_rank *items = calloc(s->n_processes + 1, sizeof(*items));
	size_t n = 0, n_known = 0;

	*ret_ranks = (struct gs_ranks){0};
	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];
		struct gs_rank *r = &items[n++];

		r->pid = p->pid;
		r->rank = rank_of(s, p->pid);
		r->process = p;
		r->thread = pace_of(s, p->pid);
		r->wall_ns = r->thread && r->thread->wall_ns ? r->thread->wall_ns : s->duration_ns;
		n_known += r->rank >= 0;
	}
	qsort(items, n, sizeof(*items), compare_ranks);
	/* Those without a rank are the first. */
	if (n_known) {
		memmove(items, items + (n - n_known), n_known * sizeof(*items));
		n = n_known;
	}
	*ret_ranks = (struct gs_ranks){.items = items, .n = n};
	return 0;
}

void gs_report_ranks_fini(struct gs_ranks *ranks)
{
	free(ranks->items);
	*ranks = (struct gs_ranks){0};
}

const char *gs_report_rank_name(const struct gs_rank *rank, char out[16])
{
	if (rank->rank >= 0)
		snprintf(out, 16, "%" PRId32, rank->rank);
	else
		snprintf(out, 16, "pid %" PRIu32, rank->pid);
	return out;
}

/* --- how far apart --- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

int gs_report_spread_find(const double *values, size_t n, double least,
			  struct gs_spread *ret_spread)
{
	double *sorted GS_FREE = calloc(n + 1, sizeof(*sorted)), deviation;
	struct gs_spread s = {.odd = SIZE_MAX};
	size_t farthest = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	s.min = sorted[0];
	s.max = sorted[n - 1];
	s.median = median_of(sorted, n);
	for (size_t i = 0; i < n; i++) {
		sorted[i] = fabs(values[i] - s.median);
		if (values[i] > values[s.at_max])
			s.at_max = i;
		if (sorted[i] > fabs(values[farthest] - s.median))
			farthest = i;
	}
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	deviation = median_of(sorted, n);
	if (sorted[n - 1] > DEVIATIONS * deviation && sorted[n - 1] >= least)
		s.odd = farthest;
	*ret_spread = s;
	return 0;
}

/* --- the account --- */

struct part {
	const char *title;
	struct gs_spread spread; /* per cent of wall time */
};

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->spread.median != y->spread.median)
		return x->spread.median > y->spread.median ? -1 : 1;
	return x->spread.max > y->spread.max ? -1 : x->spread.max < y->spread.max;
}

/* The parts that matter for any rank, the largest first; how many, or -ENOMEM. */
static int find_parts(const struct gs_ranks *ranks, struct part parts[GS_PART_COUNT])
{
	double *values GS_FREE = calloc(ranks->n * GS_PART_COUNT + 1, sizeof(*values));
	size_t n_accounted = 0;
	int n = 0;

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < ranks->n; i++) {
		uint64_t part_ns[GS_PART_COUNT], wall_ns;

		wall_ns = gs_account_parts(ranks->items[i].thread->time_ns, part_ns);
		n_accounted += wall_ns != 0;
		for (unsigned p = 0; p < GS_PART_COUNT && wall_ns; p++)
			values[p * ranks->n + i] = 100 * (double)part_ns[p] / (double)wall_ns;
	}
	for (unsigned p = 0; p < GS_PART_COUNT && n_accounted; p++) {
		parts[n].title = gs_account_part_title(p);
		if (gs_report_spread_find(values + p * ranks->n, ranks->n, ODD_PCT,
					  &parts[n].spread) < 0)
			return -ENOMEM;
		n += parts[n].spread.max >= MIN_PCT;
	}
	qsort(parts, (size_t)n, sizeof(*parts), compare_parts);
	return n;
}

/* How long each rank came after the first one at collectives, on the communicator where that is most. Which is
 * unlike the others is known better than by distances, and of two ranks too. 1 or 0: there is such a row,
 * or -ENOMEM. */
static int find_lateness(const struct gs_summary *s, const struct gs_ranks *ranks,
			 struct part *ret_part)
{
	const struct gs_collectives_summary *c = s->collectives;
	double *values GS_FREE = calloc(ranks->n + 1, sizeof(*values));
	size_t late = SIZE_MAX;

	if (!values)
		return -ENOMEM;
	if (!c || !c->n_matched)
		return 0;
	for (size_t i = 0; i < ranks->n; i++) {
		const struct gs_rank *r = &ranks->items[i];
		uint64_t most_ns = 0;

		for (size_t j = 0; j < c->n_comms; j++)
			for (size_t k = 0; k < c->comms[j].n_seen; k++)
				if (c->comms[j].ranks[k].pid == r->pid &&
				    c->comms[j].ranks[k].late_total_ns > most_ns)
					most_ns = c->comms[j].ranks[k].late_total_ns;
		values[i] = r->wall_ns ? 100 * (double)most_ns / (double)r->wall_ns : 0;
		if (c->comms[0].late && c->comms[0].late->pid == r->pid)
			late = i;
	}
	ret_part->title = "late at collectives";
	if (gs_report_spread_find(values, ranks->n, ODD_PCT, &ret_part->spread) < 0)
		return -ENOMEM;
	ret_part->spread.odd = late;
	return ret_part->spread.max >= MIN_PCT;
}

static void put_percent(struct gs_grid *g, double percent)
{
	char text[16];

	snprintf(text, sizeof(text), "%.1f", percent);
	gs_grid_right(g, GS_INK_PLAIN, text);
}

/* Where the most is, and which is unlike the others. */
void gs_report_summary_put_odd(struct gs_grid *g, const struct gs_ranks *ranks,
			       const struct gs_spread *spread)
{
	char name[16], text[32];

	gs_grid_right(g, GS_INK_PLAIN, gs_report_rank_name(&ranks->items[spread->at_max], name));
	if (spread->odd == SIZE_MAX) {
		gs_grid_rest(g, GS_INK_DIM, "-", GS_CUT_END);
		return;
	}
	snprintf(text, sizeof(text), "%s (%s)",
		 gs_report_rank_name(&ranks->items[spread->odd], name),
		 spread->odd == spread->at_max ? "high" : "low");
	gs_grid_rest(g, GS_INK_WARN, text, GS_CUT_END);
}

static void put_part(struct gs_grid *g, const struct gs_ranks *ranks, const struct part *part)
{
	const struct gs_spread *s = &part->spread;

	gs_grid_left(g, GS_INK_PLAIN, part->title, GS_CUT_END);
	put_percent(g, s->min);
	put_percent(g, s->median);
	put_percent(g, s->max);
	gs_report_summary_put_odd(g, ranks, s);
}

static void put_heads(struct gs_grid *g)
{
	gs_grid_left(g, GS_INK_DIM, "% of wall time", GS_CUT_END);
	gs_grid_right(g, GS_INK_DIM, "min");
	gs_grid_right(g, GS_INK_DIM, "median");
	gs_grid_right(g, GS_INK_DIM, "max");
	gs_grid_right(g, GS_INK_DIM, "max at");
	gs_grid_rest(g, GS_INK_DIM, "unlike the others", GS_CUT_END);
}

bool gs_report_summary_ranks_account(struct gs_page *page, const struct gs_summary *s,
				     const struct gs_ranks *ranks)
{
	struct gs_grid g = {.page = page, .measuring = true};
	struct part parts[GS_PART_COUNT], late;
	char head[160];
	int n, has_late;

	if (ranks->n < 2)
		return false;
	for (size_t i = 0; i < ranks->n; i++)
		if (!ranks->items[i].thread)
			return false;
	n = find_parts(ranks, parts);
	has_late = n > 0 ? find_lateness(s, ranks, &late) : 0;
	gs_pen_check(page->pen, n < 0 ? n : has_late < 0 ? has_late : 0);
	if (n <= 0 || has_late < 0)
		return false;
	snprintf(head, sizeof(head),
		 "Where the time went: %zu %s, each by the thread that sets its pace", ranks->n,
		 ranks->items[0].rank >= 0 ? "ranks" : "processes");
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, head, GS_CUT_END);
	gs_page_line(page);
	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g);
		for (int i = 0; i < n && i < MAX_ROWS; i++)
			put_part(&g, ranks, &parts[i]);
		if (has_late)
			put_part(&g, ranks, &late);
		if (pass == 0)
			gs_grid_fit(&g, 0, strlen("unlike the others"));
	}
	return true;
}
