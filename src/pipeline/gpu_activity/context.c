/*
 * Which context a thread's calls are for. cudaSetDevice() chooses the primary context of a device; the
 * driver has a stack of contexts for each thread (cuCtxPushCurrent, cuCtxPopCurrent), whose top one
 * cuCtxSetCurrent and cudaSetDevice replace. A handle of a context is known by the call that gave it:
 * cuCtxCreate, or cuDevicePrimaryCtxRetain, whose context is that of cudaSetDevice(). That may come later
 * than the choice: the runtime (CUDA 13, driver 580) has handles by ways of its own, and for a thread that
 * chose no device it calls cuCtxSetCurrent before cuDevicePrimaryCtxRetain.
 *
 * The end of a call that gives a handle may not be seen (bpf/calls/first.bpf.h), and so not its handle: it is
 * taken to be the next one that nothing else is known of, until a call says otherwise. A library may also ask
 * for the handle that is current (cuCtxGetCurrent, which is called too often to be traced) and choose it in
 * another thread: it is that of the one GPU that the process has, or of the stream that such a thread uses, as
 * CUDA refuses one of another context. Until then it is of an unknown device, and a context apart from others.
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

static void put_thread(struct activity_thread *t, struct activity_place place)
{
	t->by_handle = 0;
	if (t->at.device == place.device && t->at.own == place.own)
		return;
	t->at = place;
	t->context = 0; /* found again at the thread's next call */
}

/* Threads that are in that context, or will be when they pop others, are elsewhere. */
static void replace_place(struct gs_activity *a, uint32_t process, uint32_t own,
			  struct activity_place place)
{
	for (uint32_t i = 0; i < a->n_threads; i++) {
		struct activity_thread *t = &a->threads[i];

		if (t->process != process)
			continue;
		for (unsigned n = 0; n < t->n_below; n++)
			if (t->below[n].own == own)
				t->below[n] = place;
		if (t->at.own == own)
			put_thread(t, place);
	}
}

/* Threads that chose that handle last. */
static void move_threads(struct gs_activity *a, uint32_t process, uint64_t handle,
			 struct activity_place place)
{
	for (uint32_t i = 0; i < a->n_threads; i++)
		if (a->threads[i].process == process && a->threads[i].by_handle == handle)
			put_thread(&a->threads[i], place);
}

/* The context of that handle is no more. Threads that had chosen it have none that is known. */
static void release_handle(struct gs_activity *a, uint32_t process, uint32_t i)
{
	for (uint32_t c = a->processes[process].contexts; c; c = a->contexts[c].next)
		if (a->contexts[c].own == i)
			a->contexts[c].own = ACTIVITY_CONTEXT_ENDED;
	replace_place(a, process, i, (struct activity_place){.device = GS_ACTIVITY_DEVICE_UNKNOWN});
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

/* The only one whose handle was not seen: of this thread, or else of all. 0: none, or it is not clear. */
static uint32_t find_unseen(const struct gs_activity *a, uint32_t process, uint32_t thread)
{
	uint32_t found[2] = {0};
	unsigned n[2] = {0};

	for (uint32_t i = a->processes[process].handles; i; i = a->handles[i].next) {
		bool is_of_thread = a->handles[i].thread == thread;

		if (a->handles[i].handle)
			continue;
		found[is_of_thread] = i;
		n[is_of_thread]++;
	}
	if (n[true])
		return n[true] == 1 ? found[true] : 0;
	return n[false] == 1 ? found[false] : 0;
}

/* What is known of the device's primary context, of which there is one. 0: nothing. */
static uint32_t find_primary(const struct gs_activity *a, uint32_t process, uint32_t device)
{
	uint32_t i = a->processes[process].handles;

	while (i && !(a->handles[i].is_primary && a->handles[i].device == device))
		i = a->handles[i].next;
	return i;
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
			a->handles[i].is_guessed = true;
			update_context(a, process, i);
		}
	}
	if (!i && handle)
		i = add_handle(a, process, unseen_context(a, process, handle));
	return i ? place_of(a, i) : (struct activity_place){.device = GS_ACTIVITY_DEVICE_UNKNOWN};
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

static struct activity_handle given_handle(const struct gs_activity_call *call)
{
	return (struct activity_handle){
		.handle = call->event[0], .device = call->flags, .thread = call->thread};
}

/* Of cuCtxCreate; the handle is 0 where it was not seen. */
static struct activity_place learn_made(struct gs_activity *a, uint32_t process,
					const struct gs_activity_call *call)
{
	struct activity_handle h = given_handle(call);
	uint32_t i = h.handle ? find_handle(a, process, h.handle) : 0;

	if (i)
		release_handle(a, process, i);
	i = add_handle(a, process, h);
	return i ? place_of(a, i) : (struct activity_place){.device = h.device};
}

/* A context that was apart until now is the primary one of that device. Where both have streams they stay two,
 * as what is known of their work is not put together. */
static void make_primary(struct gs_activity *a, uint32_t process, uint32_t i, uint32_t device)
{
	uint32_t apart = 0, primary = 0;

	for (uint32_t c = a->processes[process].contexts; c; c = a->contexts[c].next) {
		if (a->contexts[c].own == i)
			apart = c;
		else if (!a->contexts[c].own && a->contexts[c].sums.context == device)
			primary = c;
	}
	a->handles[i].device = device;
	a->handles[i].is_primary = !apart || !primary;
	if (apart) {
		a->contexts[apart].own = a->handles[i].is_primary ? 0 : i;
		a->contexts[apart].sums.context = device;
		a->contexts[apart].sums.handle = 0;
	}
	replace_place(a, process, i, place_of(a, i));
}

/* What that handle was taken for is another context, whose handle was not seen yet. */
static void take_back(struct gs_activity *a, uint32_t process, uint32_t i)
{
	a->handles[i].handle = 0;
	a->handles[i].is_guessed = false;
	update_context(a, process, i);
}

/* Of cuDevicePrimaryCtxRetain, likewise. The handle may have been chosen before. */
static void learn_primary(struct gs_activity *a, uint32_t process,
			  const struct gs_activity_call *call)
{
	struct activity_handle h = given_handle(call);
	uint32_t primary = find_primary(a, process, h.device);
	uint32_t i = h.handle ? find_handle(a, process, h.handle) : primary;

	if (i && i == primary) { /* again, as some libraries do for each of their calls */
		if (h.handle)
			a->handles[i].is_guessed = false;
		return;
	}
	h.is_primary = true;
	if (i && a->handles[i].is_guessed) {
		take_back(a, process, i);
		i = 0;
	}
	if (!i && primary) {
		if (a->handles[primary].is_guessed)
			move_threads(a, process, a->handles[primary].handle,
				     (struct activity_place){.device = GS_ACTIVITY_DEVICE_UNKNOWN});
		a->handles[primary].handle = h.handle;
		i = primary;
	} else if (!i) {
		i = add_handle(a, process, h);
	} else {
		if (primary && !a->handles[primary].handle)
			unlink_handle(a, process, primary);
		make_primary(a, process, i, h.device);
	}
	if (!h.handle)
		return;
	if (i)
		a->handles[i].is_guessed = false;
	move_threads(a, process, h.handle,
		     i ? place_of(a, i) : (struct activity_place){.device = h.device});
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
		t->by_handle = handle;
		break;
	case GS_ACTIVITY_CONTEXT_PUSH:
		push_place(t, activity_context_place(a, t->process, call->thread, handle));
		t->by_handle = handle;
		break;
	case GS_ACTIVITY_CONTEXT_POP:
		pop_place(t);
		break;
	case GS_ACTIVITY_CONTEXT_NEW:
		push_place(t, learn_made(a, t->process, call));
		break;
	case GS_ACTIVITY_CONTEXT_PRIMARY:
		learn_primary(a, t->process, call);
		break;
	case GS_ACTIVITY_CONTEXT_END:
		end_handle(a, t, handle, closing);
		break;
	default:
		break;
	}
}
