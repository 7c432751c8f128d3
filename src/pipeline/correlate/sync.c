#include "pipeline/correlate/sync.h"

#include <string.h>

#include "core/base/mem.h"

#define FIRST_ENTRIES 64
#define MAX_DEPS      4

/* cuda_runtime_api.h: cudaStreamLegacy and cudaStreamPerThread (the driver's are the same). */
#define STREAM_LEGACY     1
#define STREAM_PER_THREAD 2

enum entry_kind { ENTRY_PROCESS = 1, ENTRY_STREAM = 2, ENTRY_EVENT = 3 };

struct key {
	uint64_t handle;
	uint32_t process;
	uint32_t thread; /* of a thread's own default stream; else 0 */
	uint32_t entry_kind;
	uint32_t pad;
};

/* A stretch of work: its number, and the entry of the stream that it is in. */
struct stretch {
	uint64_t id;
	uint32_t stream;
};

struct sync_entry {
	struct key key;
	/* Of a stream. tail: what is done last in it, its own work or that of an event that it
	 * waits for. Of an event: what was last when it was recorded. Of a process: its newest
	 * work. */
	struct stretch tail;
	uint64_t waited_id; /* stretches of this stream up to this are done; of a process: of all */
	bool open;          /* work goes on in the stretch that the tail names */
	bool capturing;
	uint8_t n_deps;
	struct stretch deps[MAX_DEPS]; /* done when this stream is: events that it waited for */
};

void correlate_syncs_fini(struct syncs *s)
{
	free(s->entries);
	free(s->slots);
}

static uint32_t *find_key(const struct syncs *s, const struct key *k)
{
	uint64_t h = (k->handle ^ (uint64_t)k->process << 32 ^ k->thread) * 0x9e3779b97f4a7c15ull;

	h ^= (h >> 32) * k->entry_kind;
	for (;; h++) {
		uint32_t *slot = &s->slots[h & (s->n_slots - 1)];

		if (!*slot || memcmp(&s->entries[*slot].key, k, sizeof(*k)) == 0)
			return slot;
	}
}

static void forget_all(struct syncs *s)
{
	memset(s->slots, 0, s->n_slots * sizeof(*s->slots));
	s->n_entries = 1;
}

static bool grow_syncs(struct syncs *s)
{
	uint32_t capacity = s->capacity ? 2 * s->capacity : FIRST_ENTRIES;
	struct sync_entry *entries;
	uint32_t *slots;

	slots = calloc(2 * (size_t)capacity, sizeof(*slots));
	entries = slots ? realloc(s->entries, capacity * sizeof(*entries)) : NULL;
	if (!entries) {
		free(slots);
		return false;
	}
	free(s->slots);
	s->slots = slots;
	s->n_slots = 2 * capacity;
	s->entries = entries;
	s->capacity = capacity;
	if (!s->n_entries)
		memset(&entries[s->n_entries++], 0, sizeof(*entries));
	for (uint32_t i = 1; i < s->n_entries; i++)
		*find_key(s, &entries[i].key) = i;
	return true;
}

/* The number of an entry, 0: it is not there (and there is no memory, when it is to be made). */
static uint32_t entry_of(struct syncs *s, const struct key *k, bool make)
{
	uint32_t *slot;

	if (!s->capacity && (!make || !grow_syncs(s)))
		return 0;
	slot = find_key(s, k);
	if (*slot || !make)
		return *slot;
	if (s->n_entries == s->capacity) {
		if (s->capacity >= SYNC_MAX_ENTRIES)
			forget_all(s);
		else if (!grow_syncs(s))
			return 0;
		slot = find_key(s, k);
	}
	s->entries[s->n_entries] = (struct sync_entry){.key = *k};
	*slot = s->n_entries;
	return s->n_entries++;
}

static uint32_t process_of(struct syncs *s, uint32_t process, bool make)
{
	struct key k = {.process = process, .entry_kind = ENTRY_PROCESS};

	return entry_of(s, &k, make);
}

static uint32_t event_of(struct syncs *s, uint32_t process, uint64_t handle, bool make)
{
	struct key k = {.handle = handle, .process = process, .entry_kind = ENTRY_EVENT};

	return entry_of(s, &k, make);
}

static uint32_t stream_of(struct syncs *s, uint32_t process, const struct gs_rec_call *c,
			  bool per_thread, bool make)
{
	struct key k = {.handle = c->stream, .process = process, .entry_kind = ENTRY_STREAM};

	if (k.handle == STREAM_PER_THREAD || (k.handle == 0 && per_thread)) {
		k.handle = STREAM_PER_THREAD;
		k.thread = c->thread;
	} else if (k.handle == STREAM_LEGACY) {
		k.handle = 0;
	}
	return entry_of(s, &k, make);
}

/* True when the stretch has not been waited for. */
static bool is_due(struct syncs *s, uint32_t process, struct stretch t)
{
	uint32_t p = process_of(s, process, false);

	return t.id && t.stream && t.id > s->entries[t.stream].waited_id &&
	       (!p || t.id > s->entries[p].waited_id);
}

static void is_done(struct syncs *s, struct stretch t)
{
	if (t.stream && t.id > s->entries[t.stream].waited_id)
		s->entries[t.stream].waited_id = t.id;
}

/* All that is in the stream now is done, and what it waited for. */
static void stream_is_done(struct syncs *s, uint32_t stream)
{
	struct sync_entry *e = &s->entries[stream];

	is_done(s, e->tail);
	for (unsigned i = 0; i < e->n_deps; i++)
		is_done(s, e->deps[i]);
	e->n_deps = 0;
	e->open = false;
}

/* What a stream waits for beside its tail. When there are too many, one is forgotten: it may be
 * waited for once more. */
static void push_dep(struct sync_entry *e, struct stretch t)
{
	if (!t.id)
		return;
	e->deps[e->n_deps % MAX_DEPS] = t;
	e->n_deps += e->n_deps < MAX_DEPS;
}

static uint64_t take_work(struct syncs *s, uint32_t process, uint32_t stream)
{
	uint32_t p = process_of(s, process, true);
	struct sync_entry *e;

	/* Making the process may have forgotten all. */
	if (!p || stream >= s->n_entries || s->entries[stream].key.entry_kind != ENTRY_STREAM)
		return 0;
	e = &s->entries[stream];
	if (e->capturing)
		return 0;
	if (!e->open || e->tail.id <= s->entries[p].waited_id) {
		if (e->tail.stream != stream)
			push_dep(e, e->tail);
		e->tail = (struct stretch){++s->last_id, stream};
		e->open = true;
	}
	s->entries[p].tail = e->tail;
	return e->tail.id;
}

static uint64_t wait_stream(struct syncs *s, uint32_t process, uint32_t stream)
{
	const struct sync_entry *e = &s->entries[stream];
	uint64_t id = is_due(s, process, e->tail) ? e->tail.id : 0;

	for (unsigned i = 0; !id && i < e->n_deps; i++)
		if (is_due(s, process, e->deps[i]))
			id = e->deps[i].id;
	stream_is_done(s, stream);
	return id;
}

static uint64_t wait_event(struct syncs *s, uint32_t process, uint32_t event)
{
	struct stretch t = s->entries[event].tail;
	bool due = is_due(s, process, t);

	is_done(s, t);
	return due ? t.id : 0;
}

static uint64_t wait_device(struct syncs *s, uint32_t process)
{
	uint32_t p = process_of(s, process, false);
	struct stretch t;

	if (!p || s->entries[p].waited_id >= s->last_id)
		return 0;
	t = s->entries[p].tail;
	/* The newest was waited for already: the newest of those that were not. */
	if (!is_due(s, process, t)) {
		t.id = 0;
		for (uint32_t i = 1; i < s->n_entries; i++) {
			const struct sync_entry *e = &s->entries[i];

			if (e->key.process == process && e->key.entry_kind == ENTRY_STREAM &&
			    e->tail.stream == i && e->tail.id > t.id && is_due(s, process, e->tail))
				t = e->tail;
		}
	}
	s->entries[p].waited_id = s->last_id;
	return t.id;
}

static void stream_waits(struct syncs *s, uint32_t stream, uint32_t event)
{
	struct sync_entry *e = &s->entries[stream];
	struct stretch t = s->entries[event].tail;

	if (!t.id || t.stream == stream)
		return;
	/* The last of the stream is now the event's, until it is given work of its own. */
	push_dep(e, e->tail);
	e->tail = t;
	e->open = false;
}

uint64_t correlate_syncs_take(struct syncs *s, uint32_t process, const struct gs_rec_call *c,
			      enum gs_activity_kind kind, bool per_thread, bool *ret_waited)
{
	bool has_event = kind == GS_ACTIVITY_RECORD || kind == GS_ACTIVITY_STREAM_WAITS;
	uint32_t stream = 0, event = 0;
	uint64_t id;

	*ret_waited = kind == GS_ACTIVITY_WAIT_DEVICE || kind == GS_ACTIVITY_WAIT_EVENT ||
		      kind == GS_ACTIVITY_WAIT_STREAM ||
		      (kind == GS_ACTIVITY_COPY && gs_activity_copy_waits(c->aux, c->bytes));
	if (kind == GS_ACTIVITY_WAIT_DEVICE)
		return wait_device(s, process);
	if (c->ret && (kind == GS_ACTIVITY_ASK_STREAM || kind == GS_ACTIVITY_ASK_EVENT))
		return 0; /* "not ready" is no failure, but not done either */
	if (kind == GS_ACTIVITY_WAIT_EVENT || kind == GS_ACTIVITY_ASK_EVENT ||
	    kind == GS_ACTIVITY_EVENT_END || has_event)
		event = event_of(s, process, c->arg[0], kind == GS_ACTIVITY_RECORD);
	if (kind == GS_ACTIVITY_WAIT_EVENT || kind == GS_ACTIVITY_ASK_EVENT ||
	    kind == GS_ACTIVITY_EVENT_END) {
		id = event ? wait_event(s, process, event) : 0;
		if (event && kind == GS_ACTIVITY_EVENT_END)
			s->entries[event].tail.id = 0;
		return kind == GS_ACTIVITY_WAIT_EVENT ? id : 0;
	}
	stream = stream_of(s, process, c, per_thread,
			   kind == GS_ACTIVITY_WORK || kind == GS_ACTIVITY_COPY ||
				   kind == GS_ACTIVITY_STREAM_WAITS ||
				   kind == GS_ACTIVITY_CAPTURE_BEGIN);
	/* Making the stream may have forgotten all. */
	if (!stream || (has_event && event &&
			(event >= s->n_entries || s->entries[event].key.entry_kind != ENTRY_EVENT)))
		return 0;
	if (kind == GS_ACTIVITY_RECORD && !event)
		return 0;
	switch (kind) {
	case GS_ACTIVITY_WORK:
		return take_work(s, process, stream);
	case GS_ACTIVITY_COPY:
		return *ret_waited ? wait_stream(s, process, stream)
				   : take_work(s, process, stream);
	case GS_ACTIVITY_WAIT_STREAM:
		return wait_stream(s, process, stream);
	case GS_ACTIVITY_ASK_STREAM:
		stream_is_done(s, stream);
		break;
	case GS_ACTIVITY_RECORD:
		s->entries[event].tail = s->entries[stream].tail;
		s->entries[stream].open = false;
		break;
	case GS_ACTIVITY_STREAM_WAITS:
		if (event)
			stream_waits(s, stream, event);
		break;
	case GS_ACTIVITY_CAPTURE_BEGIN:
		s->entries[stream].capturing = true;
		break;
	case GS_ACTIVITY_CAPTURE_END:
		s->entries[stream].capturing = false;
		break;
	case GS_ACTIVITY_STREAM_END: /* another may get its handle; its work goes on */
		s->entries[stream].open = false;
		s->entries[stream].capturing = false;
		s->entries[stream].n_deps = 0;
		break;
	default:
		break;
	}
	return 0;
}

void correlate_syncs_drop(struct syncs *s, uint32_t process)
{
	for (uint32_t i = 1; i < s->n_entries; i++)
		if (s->entries[i].key.process == process)
			s->entries[i] = (struct sync_entry){.key = s->entries[i].key};
}
