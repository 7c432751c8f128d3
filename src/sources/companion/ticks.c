/*
 * Ticks of the processor's counter to monotonic ns. Both clocks run at rates that differ by parts in a
 * million, and that of the monotonic clock is adjusted now and then, so that a time is put between the two
 * pairs that lie around it. When there is no room for another pair, every second one is left out: times long
 * ago are known less finely.
 */
#include "sources/companion/companion.h"

#include <cpuid.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define APART_NS 5000000ull
#define TRIES    8 /* of a pair: the quickest is taken */

bool gs_companion_tsc_is_clock(void)
{
	unsigned a, b, c, d;
	char names[256] = "";
	GS_FCLOSE FILE *f = NULL;

	/* Invariant, and with the number of the processor (rdtscp). */
	if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(d & 1u << 27) ||
	    !__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
		return false;
	/* The kernel takes it off this list when it has found it to differ between processors. */
	f = fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
	if (!f || !fgets(names, sizeof(names), f))
		return false;
	for (char *save = NULL, *w = strtok_r(names, " \n", &save); w;
	     w = strtok_r(NULL, " \n", &save))
		if (strcmp(w, "tsc") == 0)
			return true;
	return false;
}

uint64_t gs_companion_ns_per_tick(void)
{
	const struct timespec pause = {.tv_nsec = 2 * APART_NS};
	struct gs_companion_ticks t = {0};

	gs_companion_ticks_note(&t);
	for (int i = 0; i < TRIES && t.n < 2; i++) {
		nanosleep(&pause, NULL);
		gs_companion_ticks_note(&t);
	}
	if (t.n < 2)
		return 1ull << 32;
	return (uint64_t)(((unsigned __int128)(t.pairs[1].mono_ns - t.pairs[0].mono_ns) << 32) /
			  (t.pairs[1].ticks - t.pairs[0].ticks));
}

void gs_companion_ticks_add(struct gs_companion_ticks *t, uint64_t tsc, uint64_t mono_ns)
{
	if (t->n &&
	    (tsc <= t->pairs[t->n - 1].ticks || mono_ns < t->pairs[t->n - 1].mono_ns + APART_NS))
		return;
	if (t->n == GS_COMPANION_PAIRS) {
		for (unsigned i = 0; i < GS_COMPANION_PAIRS / 2; i++)
			t->pairs[i] = t->pairs[2 * i];
		t->n = GS_COMPANION_PAIRS / 2;
		t->last = 0;
	}
	t->pairs[t->n].ticks = tsc;
	t->pairs[t->n++].mono_ns = mono_ns;
}

void gs_companion_ticks_note(struct gs_companion_ticks *t)
{
	uint64_t best = UINT64_MAX, at = 0, mono_ns = 0;

	if (t->n && gs_clock_mono_ns() < t->pairs[t->n - 1].mono_ns + APART_NS)
		return;
	for (int i = 0; i < TRIES; i++) {
		uint64_t from = __builtin_ia32_rdtsc(), ns = gs_clock_mono_ns(),
			 took = __builtin_ia32_rdtsc() - from;

		if (took >= best)
			continue;
		best = took;
		at = from + took / 2;
		mono_ns = ns;
	}
	gs_companion_ticks_add(t, at, mono_ns);
}

/* Of two pairs, i and i + 1, which lie around the time or are the nearest. */
static uint64_t ns_between(const struct gs_companion_ticks *t, unsigned i, uint64_t tsc)
{
	uint64_t ticks = t->pairs[i + 1].ticks - t->pairs[i].ticks,
		 ns = t->pairs[i + 1].mono_ns - t->pairs[i].mono_ns;
	__int128 off = (__int128)tsc - t->pairs[i].ticks;
	__int128 r = (__int128)t->pairs[i].mono_ns + off * ns / ticks;

	return r < 0 ? 0 : r > UINT64_MAX ? UINT64_MAX : (uint64_t)r;
}

uint64_t gs_companion_ticks_ns(struct gs_companion_ticks *t, uint64_t tsc)
{
	unsigned low = 0, high = t->n - 1;

	if (t->n < 2)
		return 0;
	/* Mostly the last segment, or the one of the last answer. */
	if (tsc >= t->pairs[t->n - 2].ticks)
		return ns_between(t, t->n - 2, tsc);
	if (t->last + 1 < t->n && tsc >= t->pairs[t->last].ticks &&
	    tsc < t->pairs[t->last + 1].ticks)
		return ns_between(t, t->last, tsc);
	while (high - low > 1) {
		unsigned middle = (low + high) / 2;

		if (tsc >= t->pairs[middle].ticks)
			low = middle;
		else
			high = middle;
	}
	t->last = low;
	return ns_between(t, low, tsc);
}

uint64_t gs_companion_thread_ns(struct gs_companion_ticks *t,
				const struct gs_companion_thread *from, uint64_t time)
{
	return from->clock == GS_COMPANION_TSC ? gs_companion_ticks_ns(t, time) : time;
}
