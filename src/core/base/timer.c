#include <errno.h>
#include <stdlib.h>

#include "core/base/timer.h"
#include "core/base/vec.h"

static void place_timer(struct gs_timers *t, size_t i, struct gs_timer *timer)
{
	t->heap[i] = timer;
	timer->index = i + 1;
}

static void sift_timer(struct gs_timers *t, size_t i)
{
	struct gs_timer *timer = t->heap[i];

	for (; i > 0 && t->heap[(i - 1) / 2]->due_ns > timer->due_ns; i = (i - 1) / 2)
		place_timer(t, i, t->heap[(i - 1) / 2]);
	for (;;) {
		size_t child = i * 2 + 1;

		if (child + 1 < t->n && t->heap[child + 1]->due_ns < t->heap[child]->due_ns)
			child++;
		if (child >= t->n || t->heap[child]->due_ns >= timer->due_ns)
			break;
		place_timer(t, i, t->heap[child]);
		i = child;
	}
	place_timer(t, i, timer);
}

int gs_timer_set(struct gs_timers *t, struct gs_timer *timer, uint64_t due_ns)
{
	size_t i = timer->index;

	if (due_ns == UINT64_MAX) {
		if (!i)
			return 0;
		timer->index = 0;
		if (i != t->n--) {
			place_timer(t, i - 1, t->heap[t->n]);
			sift_timer(t, i - 1);
		}
		if (t->n == 0) {
			free(t->heap);
			*t = (struct gs_timers){0};
		}
		return 0;
	}
	if (!i) {
		if (!gs_vec_reserve(&t->heap, &t->room, t->n + 1))
			return -ENOMEM;
		i = ++t->n;
		place_timer(t, i - 1, timer);
	}
	timer->due_ns = due_ns;
	sift_timer(t, i - 1);
	return 0;
}

uint64_t gs_timers_next_ns(const struct gs_timers *t)
{
	return t->n ? t->heap[0]->due_ns : UINT64_MAX;
}

void gs_timers_run(struct gs_timers *t, uint64_t now_ns)
{
	/* Those that are set again by their own call wait for the next turn. */
	for (size_t n = t->n; n && t->n && t->heap[0]->due_ns <= now_ns; n--) {
		struct gs_timer *timer = t->heap[0];

		gs_timer_set(t, timer, UINT64_MAX);
		timer->fire(timer);
	}
}
