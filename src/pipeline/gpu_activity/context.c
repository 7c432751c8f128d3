/*
 * Which context a thread's calls are for. cudaSetDevice() chooses the primary context of a device; the
 * driver has a stack of contexts for each thread (cuCtxPushCurrent, cuCtxPopCurrent), whose top one
 * cuCtxSetCurrent and cudaSetDevice replace. A handle of a context is known by the call that gave it:
 * cuCtxCreate, or cuDevicePrimaryCtxRetain, whose context is that of cudaSetDevice().
 *
 * The end of a process's first call of each is not seen (bpf/calls/first.bpf.h), and so not its handle:
 * that is the next one that nothing else is known of. A library may also ask for the handle that is
 * current (cuCtxGetCurrent, which is called too often to be traced) and choose it in another thread: it is
 * that of the one GPU that the process has, or of the stream that such a thread uses, as CUDA refuses one of
 * another context. Until then it is of an unknown device, and a context apart from others.
 */
#include "core/base/vec.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

static void unlink_handle(struct gs_activity *a, uint32_t process, uint32_t i)
{
	uint32_t *at = &a->processes[process].handles;

	while (*at && *at != i)
		at = &a->handles[*at].next;
	if (*at)
		*at = a->handles[i].next;
	a->handles[i] = (struct activity_handle){.next = a->free_handle};
	a->free_handle = i;
}

/* The context of that handle is no more. Threads that had chosen it have none that is known. */
static void release_handle(struct gs_activity *a, uint32_t process, uint32_t i)
{
	for (uint32_t c = a->processes[process].contexts; c; c = a->contexts[c].next)
		if (a->contexts[c].own == i)
			a->contexts[c].own = ACTIVITY_CONTEXT_ENDED;
	for (uint32_t t = 0; t < a->n_threads; t++)
		if (a->threads[t].process == process && a->threads[t].at.own == i) {
			a->threads[t].at =
				(struct activity_place){.device = GS_ACTIVITY_DEVICE_UNKNOWN};
			a->threads[t].context = 0;
		}
	unlink_handle(a, process, i);
}

void activity_context_forget(struct gs_activity *a, uint32_t process)
{
	while (a->processes[process].handles)
		unlink_handle(a, process, a->processes[process].handles);
}

static uint32_t find_handle(const struct gs_activity *a, uint32_t process, uint64_t handle)
{
	uint32_t i = a->processes[process].handles;

	while (i && a->handles[i].handle != handle)
		i = a->handles[i].next;
	return i;
}

/* 0: no room. */
static uint32_t add_handle(struct gs_activity *a, uint32_t process, struct activity_handle h)
{
	uint32_t i = a->free_handle;

	if (i) {
		a->free_handle = a->handles[i].next;
	} else {
		i = a->n_handles;
		if (i > a->config.max_contexts ||
		    !gs_vec_reserve(&a->handles, &a->cap_handles, i + 1)) {
			a->n_limit[GS_ACTIVITY_LIMIT_PROCESSES]++;
			return 0;
		}
		a->n_handles++;
	}
	h.next = a->processes[process].handles;
	a->processes[process].handles = i;
	a->handles[i] = h;
	return i;
}

/* The one whose handle was not seen: of this thread, or the only one. 0: none, or it is not clear. */
static uint32_t find_unseen(const struct gs_activity *a, uint32_t process, uint32_t thread)
{
	uint32_t found = 0;
	unsigned n = 0;

	for (uint32_t i = a->processes[process].handles; i; i = a->handles[i].next) {
		if (a->handles[i].handle)
			continue;
		if (a->handles[i].thread == thread)
			return i;
		found = i;
		n++;
	}
	return n == 1 ? found : 0;
}

static struct activity_place place_of(const struct gs_activity *a, uint32_t i)
{
	const struct activity_handle *h = &a->handles[i];

	return (struct activity_place){.device = h->device, .own = h->is_primary ? 0 : i};
}

/* Of a context that exists already. */
static void update_context(struct gs_activity *a, uint32_t process, uint32_t own)
{
	for (uint32_t i = a->processes[process].contexts; i; i = a->contexts[i].next)
		if (a->contexts[i].own == own) {
			a->contexts[i].sums.context = a->handles[own].device;
			a->contexts[i].sums.handle = a->handles[own].handle;
		}
}

/* A context that was not seen to be made: the primary one of the only GPU, or of what is not known. */
static struct activity_handle unseen_context(const struct gs_activity *a, uint32_t process,
					     uint64_t handle)
{
	uint32_t number = a->processes[process].number;
	struct activity_handle h = {.handle = handle, .device = GS_ACTIVITY_DEVICE_UNKNOWN};

	if (number < a->n_origins && a->origins[number].has_one) {
		h.device = 0;
		h.is_primary = a->origins[number].begun;
	}
	return h;
}

struct activity_place activity_context_place(struct gs_activity *a, uint32_t process,
					     uint32_t thread, uint64_t handle)
{
	uint32_t i = handle ? find_handle(a, process, handle) : 0;

	if (!i && handle) {
		i = find_unseen(a, process, thread);
		if (i) {
			a->handles[i].handle = handle;
			update_context(a, process, i);
		}
	}
	if (!i && handle)
		i = add_handle(a, process, unseen_context(a, process, handle));
	return i ? place_of(a, i) : (struct activity_place){.device = GS_ACTIVITY_DEVICE_UNKNOWN};
}

static void put_thread(struct activity_thread *t, struct activity_place place)
{
	if (t->at.device == place.device && t->at.own == place.own)
		return;
	t->at = place;
	t->context = 0; /* found again at the thread's next call */
}

void activity_context_learn(struct gs_activity *a, struct activity_thread *t, uint32_t stream)
{
	const struct activity_context *c = &a->contexts[a->streams[stream].context];
	struct activity_handle *h = &a->handles[t->at.own];

	if (c->own == t->at.own || c->sums.context == GS_ACTIVITY_DEVICE_UNKNOWN)
		return;
	h->device = c->sums.context;
	if (c->own) { /* that has a handle already, which is another one */
		update_context(a, t->process, t->at.own);
		return;
	}
	h->is_primary = true;
	t->at = (struct activity_place){.device = h->device};
	t->context = a->streams[stream].context;
}

static void push_place(struct activity_thread *t, struct activity_place place)
{
	if (t->n_below == ACTIVITY_PUSHED) {
		t->lost_below = true;
		t->n_below--;
		for (unsigned i = 0; i < t->n_below; i++)
			t->below[i] = t->below[i + 1];
	}
	t->below[t->n_below++] = t->at;
	put_thread(t, place);
}

/* Below all is the runtime's choice, where no more was pushed than was seen. */
static void pop_place(struct activity_thread *t)
{
	uint32_t device = t->lost_below ? GS_ACTIVITY_DEVICE_UNKNOWN : t->chosen;

	put_thread(t,
		   t->n_below ? t->below[--t->n_below] : (struct activity_place){.device = device});
}

/* What a call says of the handle that it gave; 0 where that was not seen. */
static struct activity_place learn_handle(struct gs_activity *a, uint32_t process,
					  const struct gs_activity_call *call, bool is_primary)
{
	struct activity_handle h = {.handle = call->event[0],
				    .device = call->flags,
				    .thread = call->thread,
				    .is_primary = is_primary};
	uint32_t i = h.handle ? find_handle(a, process, h.handle) : 0;

	if (i && is_primary) { /* again, or it was chosen before it was known */
		a->handles[i].device = h.device;
		update_context(a, process, i);
		return place_of(a, i);
	}
	if (i)
		release_handle(a, process, i);
	i = add_handle(a, process, h);
	return i ? place_of(a, i) : (struct activity_place){.device = h.device};
}

/* Its number may be another's next. */
static void end_handle(struct gs_activity *a, struct activity_thread *t, uint64_t handle,
		       struct activity_closing *closing)
{
	uint32_t i = handle ? find_handle(a, t->process, handle) : 0;

	if (!i || a->handles[i].is_primary)
		return;
	for (uint32_t c = a->processes[t->process].contexts; c; c = a->contexts[c].next)
		if (a->contexts[c].own == i)
			activity_end_context(a, c, closing);
	if (t->at.own == i)
		pop_place(t);
	release_handle(a, t->process, i);
}

void activity_context_take(struct gs_activity *a, struct activity_thread *t,
			   const struct gs_activity_call *call, struct activity_closing *closing)
{
	uint64_t handle = call->event[0];

	switch (call->function.kind) {
	case GS_ACTIVITY_SET_DEVICE:
		t->chosen = call->flags;
		put_thread(t, (struct activity_place){.device = call->flags});
		break;
	case GS_ACTIVITY_CONTEXT_SET:
		put_thread(t, handle ? activity_context_place(a, t->process, call->thread, handle)
				     : (struct activity_place){.device = t->chosen});
		break;
	case GS_ACTIVITY_CONTEXT_PUSH:
		push_place(t, activity_context_place(a, t->process, call->thread, handle));
		break;
	case GS_ACTIVITY_CONTEXT_POP:
		pop_place(t);
		break;
	case GS_ACTIVITY_CONTEXT_NEW:
		push_place(t, learn_handle(a, t->process, call, false));
		break;
	case GS_ACTIVITY_CONTEXT_PRIMARY:
		learn_handle(a, t->process, call, true);
		break;
	case GS_ACTIVITY_CONTEXT_END:
		end_handle(a, t, handle, closing);
		break;
	default:
		break;
	}
}
