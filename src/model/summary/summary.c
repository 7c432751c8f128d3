#include "model/summary/summary.h"

#include <stdlib.h>
#include <string.h>

void *gs_summary_alloc(struct gs_summary *s, size_t bytes)
{
	void *p;

	/* Grown at powers of two. */
	if ((s->n_allocations & (s->n_allocations - 1)) == 0) {
		size_t n = s->n_allocations ? s->n_allocations * 2 : 1;
		void **a = realloc(s->allocations, n * sizeof(*a));

		if (!a)
			return NULL;
		s->allocations = a;
	}
	p = calloc(1, bytes ? bytes : 1);
	if (p)
		s->allocations[s->n_allocations++] = p;
	return p;
}

const char *gs_summary_text(struct gs_summary *s, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *p = bytes > 1 ? gs_summary_alloc(s, bytes) : NULL;

	return p ? memcpy(p, text, bytes) : "";
}

void gs_summary_free(struct gs_summary **summary)
{
	struct gs_summary *s = *summary;

	if (!s)
		return;
	for (size_t i = 0; i < s->n_allocations; i++)
		free(s->allocations[i]);
	free(s->allocations);
	free(s);
	*summary = NULL;
}

#define FIRST_SHARE 4 /* part of the launches of the thread with the most: a quarter */

uint64_t gs_summary_active_ns(const struct gs_account_thread *t)
{
	uint64_t part_ns[GS_PART_COUNT], wall_ns = gs_account_parts(t->time_ns, part_ns);

	return wall_ns - gs_account_parked_ns(part_ns) - part_ns[GS_PART_SLEEP] -
	       part_ns[GS_PART_OTHER];
}

bool gs_summary_takes_part(const struct gs_account_thread *first,
			   const struct gs_account_thread *launches)
{
	return first && first->launches + first->collectives >=
				(launches->launches + launches->collectives) / FIRST_SHARE;
}

/* PyTorch's backward pass launches more than the forward pass, in a thread of its own, which the first
 * thread waits for: that one sets the pace, as it waits for the GPU and for data, too. */
const struct gs_account_thread *gs_summary_pace_thread(const struct gs_account_thread *first,
						       const struct gs_account_thread *launches)
{
	if (gs_summary_takes_part(first, launches) &&
	    gs_summary_active_ns(first) >= gs_summary_active_ns(launches))
		return first;
	return launches;
}
