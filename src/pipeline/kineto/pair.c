/*
 * Calls whose begin and end are two events ("ph": "B" and "E"), as eACGM and other writers of
 * Chrome's format have them. The open calls of a thread, which have begun and not ended, form a
 * linked list from the innermost outward.
 */
#include <errno.h>

#include "pipeline/kineto/kineto_int.h"

#define NOT_ENDED UINT64_MAX
#define DEPTH_MAX 255 /* open calls that are searched for the begin of an end */

int kineto_begin_call(struct kineto *k, const struct kineto_event *e)
{
	struct kineto_event open = *e;
	uint64_t below = 0;
	int r;

	(void)gs_map_get(&k->open, e->thread, &below);
	open.below = (uint32_t)below;
	open.dur_ns = NOT_ENDED;
	r = kineto_add_event(k, &open);
	if (r <= 0)
		return r;
	if (gs_map_put(&k->open, e->thread, k->n_events) < 0)
		return -ENOMEM;
	return 0;
}

void kineto_end_call(struct kineto *k, uint32_t thread, uint32_t function, uint64_t end_ns)
{
	uint64_t at = 0;

	(void)gs_map_get(&k->open, thread, &at);
	for (unsigned depth = 0; at && depth < DEPTH_MAX; depth++) {
		struct kineto_event *e = &k->events[at - 1];

		if (function && e->name != function) {
			at = e->below;
			continue;
		}
		if (end_ns < e->start_ns)
			break;
		/* Open calls inside it leave the list and stay without an end. */
		e->dur_ns = end_ns - e->start_ns;
		(void)gs_map_put(&k->open, thread, e->below);
		return;
	}
	k->stats.n_unpaired++;
}

void kineto_drop_open_calls(struct kineto *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n_events; i++)
		if (k->events[i].dur_ns != NOT_ENDED)
			k->events[n++] = k->events[i];
	k->stats.n_unpaired += k->n_events - n;
	k->stats.n_calls -= k->n_events - n;
	k->n_events = n;
}
