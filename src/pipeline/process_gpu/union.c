#include "pipeline/process_gpu/union.h"

#include <string.h>

static void remove_intervals(struct process_gpu_union *u, uint32_t first, uint32_t n)
{
	memmove(&u->at[first], &u->at[first + n], (u->n - first - n) * sizeof(u->at[0]));
	u->n -= n;
}

static void seal_oldest(struct process_gpu_union *u)
{
	u->sum_ns += u->at[0].end_ns - u->at[0].start_ns;
	u->sealed_ns = u->at[0].end_ns;
	remove_intervals(u, 0, 1);
}

void process_gpu_union_add(struct process_gpu_union *u, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t first, last;

	if (start_ns < u->sealed_ns)
		start_ns = u->sealed_ns;
	if (end_ns <= start_ns)
		return;
	/* [first, last) are those that it touches: mostly the newest, or none. */
	for (last = u->n; last && u->at[last - 1].start_ns > end_ns; last--)
		;
	for (first = last; first && u->at[first - 1].end_ns >= start_ns; first--)
		;
	if (first < last) {
		if (u->at[first].start_ns < start_ns)
			start_ns = u->at[first].start_ns;
		if (u->at[last - 1].end_ns > end_ns)
			end_ns = u->at[last - 1].end_ns;
		u->at[first] = (struct process_gpu_interval){start_ns, end_ns};
		remove_intervals(u, first + 1, last - first - 1);
		return;
	}
	if (u->n == PROCESS_GPU_INTERVALS) {
		seal_oldest(u);
		if (first)
			first--;
		else
			start_ns = start_ns > u->sealed_ns ? start_ns : u->sealed_ns;
		if (end_ns <= start_ns)
			return;
	}
	memmove(&u->at[first + 1], &u->at[first], (u->n - first) * sizeof(u->at[0]));
	u->at[first] = (struct process_gpu_interval){start_ns, end_ns};
	u->n++;
}

uint64_t process_gpu_union_seal(struct process_gpu_union *u, uint64_t until_ns)
{
	while (u->n && u->at[0].end_ns <= until_ns)
		seal_oldest(u);
	if (u->n && u->at[0].start_ns < until_ns) {
		u->sum_ns += until_ns - u->at[0].start_ns;
		u->at[0].start_ns = until_ns;
	}
	if (until_ns > u->sealed_ns)
		u->sealed_ns = until_ns;
	return u->sum_ns;
}
