/* Processes, their contexts, threads, streams and events: found by number or handle, made, ended. */
#include <string.h>

#include "core/base/vec.h"
#include "model/trace/dict.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

/* Places that are looked at when two keys are the same by chance. */
#define MAX_PROBES 4

static uint64_t mix_words(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;

	return h ^ h >> 29;
}

/* --- processes and contexts --- */

static uint32_t make_process(struct gs_activity *a, uint32_t number)
{
	uint32_t i = a->n_processes;

	if (i > a->config.max_processes ||
	    !gs_vec_reserve(&a->processes, &a->cap_processes, i + 1) ||
	    gs_map_put(&a->process_idx, number, i) < 0)
		return 0;
	a->processes[i] = (struct activity_process){.number = number, .caller = number};
	a->n_processes++;
	return i;
}

uint32_t activity_context_find(struct gs_activity *a, uint32_t process, struct activity_place place)
{
	uint32_t i;

	for (i = a->processes[process].contexts; i; i = a->contexts[i].next)
		if (a->contexts[i].own == place.own &&
		    (place.own || a->contexts[i].sums.context == place.device))
			return i;
	i = a->n_contexts;
	if (i > a->config.max_contexts || !gs_vec_reserve(&a->contexts, &a->cap_contexts, i + 1))
		return 0;
	a->contexts[i] = (struct activity_context){
		.process = process,
		.own = place.own,
		.next = a->processes[process].contexts,
		.sums = {.process = a->processes[process].number,
			 /* It may have become known since the thread chose it. */
			 .context = place.own ? a->handles[place.own].device : place.device,
			 .handle = place.own ? a->handles[place.own].handle : 0}};
	a->processes[process].contexts = i;
	a->n_contexts++;
	return i;
}

struct activity_thread *activity_thread_reach(struct gs_activity *a,
					      const struct gs_activity_call *call)
{
	struct activity_thread *t;
	uint64_t process;

	if (call->thread >= GS_DICT_MAX_ID ||
	    (call->thread >= a->n_threads &&
	     !gs_vec_reach(&a->threads, &a->n_threads, call->thread)))
		return NULL;
	t = &a->threads[call->thread];
	if (!gs_map_get(&a->process_idx, call->process, &process))
		process = make_process(a, call->process);
	if (!process)
		return NULL;
	if (t->process != process) {
		uint32_t device =
			call->process < a->n_origins ? a->origins[call->process].device : 0;

		*t = (struct activity_thread){
			.process = (uint32_t)process, .at.device = device, .chosen = device};
	}
	return t;
}

/* A thread that is new, whose process is, or whose context changed. */
static __attribute__((noinline)) struct activity_thread *
place_thread(struct gs_activity *a, const struct gs_activity_call *call)
{
	struct activity_thread *t = activity_thread_reach(a, call);

	if (!t)
		return NULL;
	t->stream = 0;
	t->context = activity_context_find(a, t->process, t->at);
	return t->context ? t : NULL;
}

struct activity_thread *activity_thread_of(struct gs_activity *a,
					   const struct gs_activity_call *call)
{
	struct activity_thread *t = call->thread < a->n_threads ? &a->threads[call->thread] : NULL;

	if (t && t->context && a->processes[t->process].number == call->process)
		return t;
	t = place_thread(a, call);
	if (!t)
		a->n_limit[GS_ACTIVITY_LIMIT_PROCESSES]++;
	return t;
}

/* --- streams --- */

struct stream_key {
	uint64_t handle;
	uint32_t context; /* of the process, or the one of a default stream */
	uint32_t thread;
	uint32_t process;
};

static struct stream_key key_of_stream(const struct activity_thread *t,
				       const struct gs_activity_call *call)
{
	struct stream_key k = {.handle = call->stream, .process = t->process};

	if (k.handle == ACTIVITY_STREAM_LEGACY)
		k.handle = 0;
	if (call->stream == 0 && call->function.per_thread)
		k.handle = ACTIVITY_STREAM_PER_THREAD;
	if (k.handle == ACTIVITY_STREAM_PER_THREAD)
		k.thread = call->thread;
	if (k.handle <= ACTIVITY_STREAM_PER_THREAD)
		k.context = t->context;
	return k;
}

static uint64_t hash_stream(const struct stream_key *k)
{
	return mix_words(mix_words(k->handle, (uint64_t)k->process << 32 | k->context), k->thread);
}

static bool is_stream(const struct gs_activity *a, uint32_t i, const struct stream_key *k)
{
	const struct activity_stream *s = &a->streams[i];

	return s->context && !s->ended && s->handle == k->handle && s->thread == k->thread &&
	       a->contexts[s->context].process == k->process &&
	       (!k->context || s->context == k->context);
}

/* The stream of this key; 0: there is none. *ret_place: its place in the map, or a free one. */
static uint32_t look_up_stream(const struct gs_activity *a, const struct stream_key *k,
			       uint64_t *ret_place)
{
	uint64_t place = hash_stream(k), i, free_place = place;
	bool has_free = false;

	for (unsigned n = 0; n < MAX_PROBES; n++, place++) {
		*ret_place = place;
		if (gs_map_get(&a->stream_idx, place, &i)) {
			if (is_stream(a, (uint32_t)i, k))
				return (uint32_t)i;
		} else if (!has_free) {
			has_free = true;
			free_place = place;
		}
	}
	*ret_place = free_place;
	return 0;
}

/* The slot of the oldest stream that ended; what it did goes into the rest of its context. */
static uint32_t take_idle_slot(struct gs_activity *a)
{
	uint32_t i = a->idle_first;
	struct activity_stream *s = &a->streams[i];
	struct activity_context *c;

	if (!i)
		return 0;
	a->idle_first = s->idle_next;
	if (!a->idle_first)
		a->idle_last = 0;
	c = &a->contexts[s->context];
	activity_totals_add(&c->sums.rest, &s->totals);
	c->sums.n_rest++;
	return i;
}

static uint32_t take_slot(struct gs_activity *a)
{
	uint32_t i = a->n_streams;

	if (i > a->config.max_streams)
		return take_idle_slot(a);
	if (!gs_vec_reserve(&a->streams, &a->cap_streams, i + 1))
		return 0;
	a->streams[i].generation = 0;
	a->n_streams++;
	return i;
}

static uint32_t make_stream(struct gs_activity *a, const struct activity_thread *t,
			    const struct stream_key *k, uint64_t place, uint32_t nth)
{
	struct activity_context *c = &a->contexts[t->context];
	uint32_t i = take_slot(a);
	struct activity_stream *s;

	s = i ? &a->streams[i] : NULL;
	if (i && gs_map_put(&a->stream_idx, place, i) < 0) {
		*s = (struct activity_stream){.generation = s->generation};
		a->n_streams -= i + 1 == a->n_streams;
		i = 0;
	}
	if (!i) {
		a->n_limit[GS_ACTIVITY_LIMIT_STREAMS]++;
		return 0;
	}
	*s = (struct activity_stream){.handle = k->handle,
				      .next_number = 1,
				      .context = t->context,
				      .generation = s->generation + 1,
				      .thread = k->thread,
				      .nth = nth};
	c->sums.n_streams++;
	if (k->handle <= ACTIVITY_STREAM_PER_THREAD)
		s->blocking = GS_ACTIVITY_BLOCKING;
	s->is_legacy = k->handle == 0;
	return i;
}

uint32_t activity_stream_find(struct gs_activity *a, struct activity_thread *t,
			      const struct gs_activity_call *call)
{
	struct stream_key k = key_of_stream(t, call);
	uint64_t place;
	uint32_t i;

	if (t->stream && t->handle == k.handle) {
		const struct activity_stream *s = &a->streams[t->stream];

		if (s->generation == t->generation && !s->ended)
			return t->stream;
	}
	i = look_up_stream(a, &k, &place);
	if (i && t->at.own && a->handles[t->at.own].device == GS_ACTIVITY_DEVICE_UNKNOWN)
		activity_context_learn(a, t, i);
	if (!i)
		i = make_stream(a, t, &k, place, 0);
	t->stream = i;
	t->handle = k.handle;
	t->generation = i ? a->streams[i].generation : 0;
	return i;
}

void activity_stream_create(struct gs_activity *a, struct activity_thread *t,
			    const struct gs_activity_call *call)
{
	struct stream_key k = key_of_stream(t, call);
	uint32_t nth = 0, i;
	uint64_t place;

	if (k.handle <= ACTIVITY_STREAM_PER_THREAD)
		return;
	i = look_up_stream(a, &k, &place);
	if (i) {
		nth = a->streams[i].nth + 1;
		activity_stream_end(a, i);
	}
	i = make_stream(a, t, &k, place, nth);
	if (i)
		a->streams[i].blocking = call->flags & ACTIVITY_NON_BLOCKING
						 ? GS_ACTIVITY_NON_BLOCKING
						 : GS_ACTIVITY_BLOCKING;
}

void activity_stream_end(struct gs_activity *a, uint32_t stream)
{
	struct activity_stream *s = &a->streams[stream];

	struct stream_key k = {.handle = s->handle,
			       .thread = s->thread,
			       .process = a->contexts[s->context].process};
	uint64_t place;

	if (s->ended)
		return;
	if (k.handle <= ACTIVITY_STREAM_PER_THREAD)
		k.context = s->context;
	if (look_up_stream(a, &k, &place) == stream)
		gs_map_del(&a->stream_idx, place);
	s->ended = true;
	s->capture = 0;
	if (!s->n_segments)
		activity_stream_retire(a, stream);
}

void activity_stream_retire(struct gs_activity *a, uint32_t stream)
{
	struct activity_stream *s = &a->streams[stream];

	s->idle_next = 0;
	if (a->idle_last)
		a->streams[a->idle_last].idle_next = stream;
	else
		a->idle_first = stream;
	a->idle_last = stream;
}

/* --- events --- */

/* The slot of an event; 0: it is not there. *ret_place as for streams. */
static uint32_t look_up_event(const struct gs_activity *a, uint32_t process, uint64_t handle,
			      uint64_t *ret_place)
{
	uint64_t place = mix_words(handle, process), i, free_place = place;
	bool has_free = false;

	for (unsigned n = 0; n < MAX_PROBES; n++, place++) {
		*ret_place = place;
		if (!gs_map_get(&a->event_idx, place, &i)) {
			if (!has_free)
				free_place = place;
			has_free = true;
		} else if (a->events[i].process == process && a->events[i].handle == handle) {
			return (uint32_t)i;
		}
	}
	*ret_place = free_place;
	return 0;
}

/* The event of that slot is no more. */
static void free_event_slot(struct gs_activity *a, uint32_t i)
{
	a->events[i] = (struct activity_event){.capture = a->free_event};
	a->free_event = i;
}

/* A slot for one more: a new one, or that of the oldest. */
static uint32_t take_event_slot(struct gs_activity *a)
{
	uint32_t i = a->free_event;
	uint64_t place;

	if (i) {
		a->free_event = a->events[i].capture;
		return i;
	}
	i = a->n_events;
	if (i <= a->config.max_events) {
		if (!gs_vec_reserve(&a->events, &a->cap_events, i + 1))
			return 0;
		a->n_events++;
		return i;
	}
	i = a->next_victim ? a->next_victim : 1;
	a->next_victim = i % a->config.max_events + 1;
	if (look_up_event(a, a->events[i].process, a->events[i].handle, &place) == i)
		gs_map_del(&a->event_idx, place);
	a->n_limit[GS_ACTIVITY_LIMIT_EVENTS]++;
	return i;
}

struct activity_event *activity_event_find(struct gs_activity *a, uint32_t process, uint64_t handle,
					   bool make)
{
	uint64_t place;
	uint32_t i = look_up_event(a, process, handle, &place);

	if (i)
		return &a->events[i];
	if (!make)
		return NULL;
	i = take_event_slot(a);
	/* The place may have been that of the one that made room, or free then. */
	if (i)
		look_up_event(a, process, handle, &place);
	if (!i || gs_map_put(&a->event_idx, place, i) < 0) {
		a->n_limit[GS_ACTIVITY_LIMIT_EVENTS]++;
		if (i)
			free_event_slot(a, i);
		return NULL;
	}
	a->events[i] = (struct activity_event){.handle = handle, .process = process};
	return &a->events[i];
}

void activity_event_forget(struct gs_activity *a, uint32_t process, uint64_t handle)
{
	uint64_t place;
	uint32_t i = look_up_event(a, process, handle, &place);

	if (!i)
		return;
	gs_map_del(&a->event_idx, place);
	free_event_slot(a, i);
}
