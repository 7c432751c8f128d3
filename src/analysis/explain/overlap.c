/*
 * Communication and computation of a process on one GPU, by the GPU's own times: how much of the time in
 * communication nothing else ran. Work comes in no order, so it is kept until its window ends, or until there is
 * enough of it; each such stretch is a sample of the series. Without windows nothing is known, and nothing is said.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "core/base/vec.h"

#define MAX_PLACES 64   /* processes on GPUs; of more nothing is said */
#define MAX_PIECES 8192 /* of a place: then they are added up */
#define LONGEST_NS 5000000000ull
#define LEAST_NS   1000000ull /* shorter stretches say nothing */

struct work_piece {
	uint64_t start_ns, end_ns;
	bool is_comm;
};

struct work_place { /* of a process on a GPU */
	uint32_t pid, device;
	char comm[16];
	struct work_piece *pieces; /* owned */
	uint32_t n_pieces, capacity;
	uint64_t begin_ns, end_ns; /* of all pieces */
	uint64_t until_ns;         /* has been added up; what began before is cut there */
};

struct overlap {
	struct work_place places[MAX_PLACES];
	uint32_t n_places;
};

struct overlap *explain_overlap_new(void)
{
	return calloc(1, sizeof(struct overlap));
}

void explain_overlap_free(struct overlap **overlap)
{
	for (uint32_t i = 0; *overlap && i < (*overlap)->n_places; i++)
		free((*overlap)->places[i].pieces);
	free(*overlap);
	*overlap = NULL;
}

static int by_start(const void *a, const void *b)
{
	const struct work_piece *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Time in which the sort ran, and (both) in which any did. Pieces are by their start. */
static uint64_t time_of(const struct work_place *p, bool comm, bool both)
{
	uint64_t sum = 0, until = 0;

	for (uint32_t i = 0; i < p->n_pieces; i++) {
		const struct work_piece *w = &p->pieces[i];
		uint64_t start = w->start_ns > until ? w->start_ns : until;

		if ((both || w->is_comm == comm) && w->end_ns > start) {
			sum += w->end_ns - start;
			until = w->end_ns;
		}
	}
	return sum;
}

static int add_up(struct gs_explain *e, struct work_place *p)
{
	uint64_t passed_ns = p->end_ns - p->begin_ns, comm_ns, alone_ns;
	uint32_t n = p->n_pieces;
	char name[40];
	double values[2];

	if (n)
		qsort(p->pieces, n, sizeof(*p->pieces), by_start);
	comm_ns = time_of(p, true, false);
	alone_ns = time_of(p, false, true) - time_of(p, false, false);
	p->n_pieces = 0;
	p->until_ns = p->end_ns;
	if (!comm_ns || passed_ns < LEAST_NS)
		return 0;
	values[0] = (double)alone_ns / (double)comm_ns;
	values[1] = (double)comm_ns / (double)passed_ns;
	snprintf(name, sizeof(name), "%.15s %u GPU %u", p->comm, p->pid, p->device);
	return explain_feed_named(e, &gs_detect_overlap, GS_EXPLAIN_OVERLAP, name,
				  (struct owner){.job = "", .pid = p->pid}, p->end_ns, values);
}

/* NULL: there are too many. */
static struct work_place *find_work(struct overlap *o, const struct gs_explain_gpu_work *w)
{
	struct work_place *p;

	for (uint32_t i = 0; i < o->n_places; i++)
		if (o->places[i].pid == w->pid && o->places[i].device == w->device)
			return &o->places[i];
	if (o->n_places == MAX_PLACES)
		return NULL;
	p = &o->places[o->n_places++];
	*p = (struct work_place){.pid = w->pid, .device = w->device};
	snprintf(p->comm, sizeof(p->comm), "%.15s", w->comm);
	return p;
}

int explain_overlap_take(struct gs_explain *e, struct overlap *o,
			 const struct gs_explain_gpu_work *w)
{
	struct work_place *p = find_work(o, w);
	int r = 0;

	if (!p || !w->start_ns || w->end_ns <= w->start_ns || w->start_ns < p->until_ns)
		return 0;
	if (p->n_pieces == MAX_PIECES || (p->n_pieces && w->end_ns > p->begin_ns + LONGEST_NS))
		r = add_up(e, p);
	if (r < 0 || w->start_ns < p->until_ns)
		return r;
	if (!gs_vec_reserve(&p->pieces, &p->capacity, p->n_pieces + 1))
		return -ENOMEM;
	if (!p->n_pieces || w->start_ns < p->begin_ns)
		p->begin_ns = w->start_ns;
	if (!p->n_pieces || w->end_ns > p->end_ns)
		p->end_ns = w->end_ns;
	p->pieces[p->n_pieces++] = (struct work_piece){w->start_ns, w->end_ns, w->is_comm};
	return 0;
}

int explain_overlap_end(struct gs_explain *e, struct overlap *o, uint32_t pid)
{
	int r = 0;

	for (uint32_t i = 0; i < o->n_places && r == 0; i++)
		if (o->places[i].pid == pid && o->places[i].n_pieces)
			r = add_up(e, &o->places[i]);
	return r;
}
