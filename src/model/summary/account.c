/* Which thread sets the pace, and how active one was. */
#include "model/summary/account.h"

#define FIRST_SHARE 4 /* part of the launches of the thread with the most: a quarter */

const struct gs_account_thread *gs_summary_critical_thread(const struct gs_account_summary *account)
{
	for (size_t i = 0; i < account->n_threads; i++)
		if (account->threads[i].critical)
			return &account->threads[i];
	return NULL;
}

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
