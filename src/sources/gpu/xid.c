/*
 * Events on their way to a snapshot. NVML and the kernel's log report the same XID within
 * milliseconds of each other: both become one event. So an event waits until both have reported it,
 * or long enough that the other will not.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define TOGETHER_NS 2000000000ull

struct gs_gpu_events *gs_gpu_events_new(void)
{
	struct gs_gpu_events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	atomic_store(&events->refs, 1);
	pthread_mutex_init(&events->lock, NULL);
	return events;
}

struct gs_gpu_events *gs_gpu_events_ref(struct gs_gpu_events *events)
{
	atomic_fetch_add(&events->refs, 1);
	return events;
}

void gs_gpu_events_unref(struct gs_gpu_events **ref)
{
	struct gs_gpu_events *events = *ref;

	*ref = NULL;
	if (events && atomic_fetch_sub(&events->refs, 1) == 1) {
		pthread_mutex_destroy(&events->lock);
		free(events);
	}
}

static bool is_same_event(const struct gs_gpu_event *a, const struct gs_gpu_event *b)
{
	uint64_t apart_ns =
		a->time_ns > b->time_ns ? a->time_ns - b->time_ns : b->time_ns - a->time_ns;

	return a->xid && a->xid == b->xid && apart_ns <= TOGETHER_NS && !(a->source & b->source) &&
	       strcmp(a->pci_bus_id, b->pci_bus_id) == 0;
}

void gs_gpu_events_add(struct gs_gpu_events *events, const struct gs_gpu_event *event)
{
	pthread_mutex_lock(&events->lock);
	for (unsigned i = 0; i < events->n; i++) {
		struct gs_gpu_event *e = &events->item[i];

		if (!is_same_event(e, event))
			continue;
		e->source |= event->source;
		if (event->time_ns < e->time_ns)
			e->time_ns = event->time_ns;
		if (!e->uuid[0])
			memcpy(e->uuid, event->uuid, sizeof(e->uuid));
		/* The kernel's words say more: process, address, engine. */
		if (event->source & GS_GPU_EVENT_KMSG)
			memcpy(e->text, event->text, sizeof(e->text));
		pthread_mutex_unlock(&events->lock);
		return;
	}
	if (events->n < GS_GPU_EVENTS_MAX)
		events->item[events->n++] = *event;
	else
		events->lost++;
	pthread_mutex_unlock(&events->lock);
}

unsigned gs_gpu_events_take(struct gs_gpu_events *events, unsigned sources, uint64_t now_ns,
			    struct gs_gpu_event *ret_items)
{
	unsigned n = 0, kept = 0;

	pthread_mutex_lock(&events->lock);
	for (unsigned i = 0; i < events->n; i++) {
		struct gs_gpu_event *e = &events->item[i];

		if (!e->xid || (e->source & sources) == sources ||
		    now_ns >= e->time_ns + TOGETHER_NS)
			ret_items[n++] = *e;
		else
			events->item[kept++] = *e;
	}
	events->n = kept;
	pthread_mutex_unlock(&events->lock);
	return n;
}
