/*
 * XIDs as NVML reports them, waited for in a thread of its own: nvmlEventSetWait is the one call that
 * NVML lets run beside others. The thread never waits longer than a quarter of a second in it, so
 * that the library can be shut down; it holds a reference to the library and to the queue, and
 * when its call never comes back both outlive their owner.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define WAIT_MS      250u
#define STOP_WAIT_MS 600u

struct waiter {
	struct gs_nvml_library *library; /* a reference */
	struct gs_gpu_events *events;    /* a reference */
	unsigned n;
	struct {
		nvml_dev handle;
		char uuid[80];
		char bus_id[32];
	} gpu[];
};

static void report_event(const struct waiter *w, const struct nvml_event *from)
{
	struct gs_gpu_event e = {.time_ns = gs_clock_boot_ns(), .source = GS_GPU_EVENT_NVML};

	for (unsigned i = 0; i < w->n; i++)
		if (w->gpu[i].handle == from->device) {
			snprintf(e.uuid, sizeof(e.uuid), "%s", w->gpu[i].uuid);
			snprintf(e.pci_bus_id, sizeof(e.pci_bus_id), "%s", w->gpu[i].bus_id);
		}
	switch (from->type) {
	case NVML_EVENT_XID:
		e.xid = (uint32_t)from->data;
		snprintf(e.text, sizeof(e.text), "%s", gs_gpu_xid_text(e.xid));
		break;
	case NVML_EVENT_DOUBLE_BIT_ECC:
		snprintf(e.text, sizeof(e.text), "double-bit memory error");
		break;
	case NVML_EVENT_GPU_UNAVAILABLE:
		snprintf(e.text, sizeof(e.text), "GPU unavailable");
		break;
	case NVML_EVENT_RECOVERY_ACTION:
		snprintf(e.text, sizeof(e.text), "recovery action changed to %llu", from->data);
		break;
	default:
		snprintf(e.text, sizeof(e.text), "event 0x%llx", from->type);
	}
	gs_gpu_events_add(w->events, &e);
}

static void *wait_for_events(void *arg)
{
	struct waiter *w = arg;
	struct gs_nvml_library *library = w->library;

	while (!atomic_load(&library->stop)) {
		struct nvml_event e = {0};
		nvml_return r = library->api.event_wait(library->event_set, &e, WAIT_MS);

		if (r == NVML_OK)
			report_event(w, &e);
		else if (r == NVML_GPU_IS_LOST) /* of one; the others may still have events */
			usleep(WAIT_MS * 1000);
		else if (r != NVML_TIMEOUT)
			break;
	}
	atomic_store(&library->event_thread_runs, false);
	gs_nvml_library_unref(&w->library);
	gs_gpu_events_unref(&w->events);
	free(w);
	return NULL;
}

/* Register the events that each GPU has; returns how many have any. */
static unsigned register_all(struct gs_nvml *nv)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nv->n_devices; i++) {
		struct gs_nvml_device *dev = &nv->device[i];
		unsigned long long types = 0;

		if (dev->parent || !dev->handle ||
		    NVML(nv, event_types, dev->handle, &types) != NVML_OK)
			continue;
		types &= NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_GPU_UNAVAILABLE |
			 NVML_EVENT_RECOVERY_ACTION;
		if (types &&
		    NVML(nv, event_register, dev->handle, types, nv->library->event_set) == NVML_OK)
			n++;
	}
	return n;
}

static struct waiter *waiter_new(struct gs_nvml *nv)
{
	struct waiter *w = calloc(1, sizeof(*w) + nv->n_devices * sizeof(w->gpu[0]));

	if (!w)
		return NULL;
	for (unsigned i = 0; i < nv->n_devices; i++) {
		const struct gs_nvml_device *dev = &nv->device[i];

		if (dev->parent || !dev->handle)
			continue;
		w->gpu[w->n].handle = dev->handle;
		memcpy(w->gpu[w->n].uuid, dev->info.uuid, sizeof(dev->info.uuid));
		memcpy(w->gpu[w->n].bus_id, dev->info.pci_bus_id, sizeof(dev->info.pci_bus_id));
		w->n++;
	}
	w->library = nv->library;
	atomic_fetch_add(&w->library->refs, 1);
	w->events = gs_gpu_events_ref(nv->events);
	return w;
}

void gs_nvml_events_start(struct gs_nvml *nv)
{
	struct gs_nvml_library *library = nv->library;
	struct waiter *w = NULL;
	pthread_attr_t attr;
	pthread_t thread;

	if (!library->api.event_wait || !library->api.event_set_free ||
	    NVML(nv, event_set_new, &library->event_set) != NVML_OK)
		return;
	if (register_all(nv))
		w = waiter_new(nv);
	if (!w) {
		NVML(nv, event_set_free, library->event_set);
		library->event_set = NULL;
		return;
	}
	atomic_store(&library->stop, false);
	atomic_store(&library->event_thread_runs, true);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, wait_for_events, w) != 0) {
		atomic_store(&library->event_thread_runs, false);
		gs_nvml_library_unref(&w->library);
		gs_gpu_events_unref(&w->events);
		free(w);
		gs_log(GS_LOG_INFO, GS_LOG_GPU,
		       "nvml: no thread for events: XIDs come from the kernel's log only");
	}
	pthread_attr_destroy(&attr);
}

bool gs_nvml_events_stop(struct gs_nvml *nv)
{
	struct gs_nvml_library *library = nv->library;

	if (!library || !library->event_set)
		return true;
	atomic_store(&library->stop, true);
	for (unsigned ms = 0; atomic_load(&library->event_thread_runs); ms++) {
		if (ms >= STOP_WAIT_MS)
			return false;
		usleep(1000);
	}
	NVML(nv, event_set_free, library->event_set);
	library->event_set = NULL;
	return true;
}
