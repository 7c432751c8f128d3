/*
 * The way through. Most records need nothing: they are looked at and, when a whole batch is such,
 * the very same batch goes on to next. When a record is to be changed or joined by others, the run
 * before it is copied in one piece into a batch of our own:
 *
 *	in:   [ a | b | free | c | d ]            out:  [ a | b | free' | COUNTER | c | d ]
 *	       ^---------- run -----^ copied at once, then changed; later ones likewise
 *
 * What a function means is found out by its name once, at its first call, and kept by its id, so
 * that a call of no interest costs one look into an array.
 */
#include "pipeline/correlate/correlate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/dict.h"
#include "model/summary/memory.h"
#include "model/trace/func.h"
#include "model/trace/record_account.h"
#include "pipeline/correlate/comm.h"
#include "pipeline/correlate/sync.h"
#include "pipeline/correlate/torch_memory.h"
#include "pipeline/gpu_memory/gpu_memory.h"

#define MAX_FUNCTIONS (2 * GS_FUNC_MAX) /* ids beyond have no meaning here */

/* Strings of our own: of device and of host memory, of PyTorch's devices, of each kind of memory by
 * device, the last of them not known. */
#define TRACK_DEVICES TORCH_MAX_DEVICES
#define TORCH_NAMES   2
#define KIND_NAMES    (TORCH_NAMES + TORCH_MAX_DEVICES)
#define N_TRACK_KINDS (GS_MEMORY_VIRTUAL - GS_MEMORY_DEVICE + 1)
#define N_NAMES       (KIND_NAMES + (TRACK_DEVICES + 1) * N_TRACK_KINDS)
#define FIRST_NAMES   ((1u << 16) - N_NAMES)

enum meaning {
	MEANS_UNKNOWN = 0, /* not looked at, or not announced yet */
	MEANS_NOTHING,
	MEANS_MEMORY,
	MEANS_COMM_END,
	MEANS_TORCH_ALLOC,
	MEANS_TORCH_FREE,
	MEANS_SYNC, /* and enum gs_activity_kind, twice; one more: a thread's own default stream */
};

_Static_assert(MEANS_SYNC + 2 * GS_ACTIVITY_KINDS < 256, "a meaning is a byte");

struct gs_correlate {
	struct gs_sink sink;
	struct gs_sink next;
	struct gs_dict *dict;       /* owned */
	struct gs_memory *memory;   /* owned */
	struct gs_activity *places; /* owned; asked only on which device threads are */
	struct comms comms;
	struct syncs syncs;
	struct torch_memory torch;
	uint64_t n_untracked;
	uint64_t now_ns;   /* newest end of a call */
	struct gs_buf out; /* the changed batch */
	struct gs_buf extra;
	size_t copied_bytes;                 /* of the batch in hand, already in out */
	bool failed;                         /* no memory for out: the batch goes on unchanged */
	uint32_t names;                      /* string id of the first of N_NAMES names */
	uint64_t named[(N_NAMES + 63) / 64]; /* by bit: they were announced */
	struct gs_memory_function memory_meaning[MAX_FUNCTIONS]; /* by function id, as is: */
	uint8_t meaning[MAX_FUNCTIONS];                          /* enum meaning, by function id */
};

static int span_push(void *ctx, const struct gs_batch *batch);
static int span_flush(void *ctx);

int gs_correlate_new(const struct gs_sink *next, struct gs_correlate **ret_span)
{
	struct gs_correlate *s = calloc(1, sizeof(*s));

	if (s)
		s->dict = gs_dict_new();
	if (!s || !s->dict || gs_memory_new(&s->memory) < 0 ||
	    gs_activity_new(NULL, &s->places) < 0) {
		if (s) {
			gs_dict_free(&s->dict);
			gs_memory_free(&s->memory);
		}
		free(s);
		return -ENOMEM;
	}
	s->sink = (struct gs_sink){.push = span_push, .flush = span_flush, .ctx = s};
	s->next = *next;
	s->out = GS_BUF_INIT(SIZE_MAX / 2);
	s->extra = GS_BUF_INIT(SIZE_MAX / 2);
	s->names = FIRST_NAMES;
	correlate_comms_init(&s->comms);
	correlate_torch_memory_init(&s->torch);
	*ret_span = s;
	return 0;
}

void gs_correlate_free(struct gs_correlate **span)
{
	struct gs_correlate *s = *span;

	if (!s)
		return;
	gs_memory_free(&s->memory);
	gs_activity_free(&s->places);
	correlate_torch_memory_fini(&s->torch);
	correlate_comms_fini(&s->comms);
	correlate_syncs_fini(&s->syncs);
	gs_buf_fini(&s->out);
	gs_buf_fini(&s->extra);
	gs_dict_free(&s->dict);
	free(s);
	*span = NULL;
}

const struct gs_sink *gs_correlate_sink(struct gs_correlate *s)
{
	return &s->sink;
}

uint64_t gs_correlate_untracked(const struct gs_correlate *s)
{
	return s->n_untracked + gs_memory_untracked(s->memory);
}

/* --- the changed batch --- */

/* Copy the batch up to end into out, of which the last record may then be changed. */
static bool copy_until(struct gs_correlate *s, const struct gs_batch *batch, size_t end)
{
	if (end > s->copied_bytes &&
	    gs_buf_put(&s->out, (const char *)batch->data + s->copied_bytes,
		       end - s->copied_bytes) < 0) {
		s->failed = true;
		return false;
	}
	s->copied_bytes = end;
	return true;
}

/* The copy of the record that ends where out ends. */
static void *last_copied(struct gs_correlate *s, const struct gs_record *r)
{
	return s->out.data + s->out.bytes - r->bytes;
}

/* The string of a name, announced when it has not been; 0: no room. */
static uint32_t name_string(struct gs_correlate *s, uint32_t name, const char *text)
{
	uint64_t *named = &s->named[name / 64], bit = 1ull << name % 64;

	if (*named & bit)
		return s->names + name;
	if (s->names + N_NAMES > GS_DICT_MAX_ID ||
	    gs_record_put_string(&s->out, s->names + name, text, strlen(text)) < 0)
		return 0;
	*named |= bit;
	return s->names + name;
}

static uint32_t name_torch_device(struct gs_correlate *s, uint32_t device)
{
	char text[sizeof(GS_CORRELATE_TORCH_COUNTER) + 8];

	snprintf(text, sizeof(text), GS_CORRELATE_TORCH_COUNTER "%u", device);
	return name_string(s, TORCH_NAMES + device, text);
}

/* 0: it has no track. */
static uint32_t name_sum(struct gs_correlate *s, const struct gs_memory_change *change)
{
	bool is_known = change->device != GS_MEMORY_DEVICE_UNKNOWN;
	uint32_t slot = is_known ? change->device : TRACK_DEVICES;
	char text[96];

	if (change->kind == GS_MEMORY_ON_DEVICE)
		return name_string(s, 0, GS_CORRELATE_DEVICE_COUNTER);
	if (change->kind == GS_MEMORY_ON_HOST)
		return name_string(s, 1, GS_CORRELATE_HOST_COUNTER);
	if (change->kind > GS_MEMORY_VIRTUAL || (is_known && slot >= TRACK_DEVICES))
		return 0;
	if (is_known)
		snprintf(text, sizeof(text), GS_CORRELATE_KIND_COUNTER "%u, %s", slot,
			 gs_memory_kind_name(change->kind));
	else
		snprintf(text, sizeof(text), GS_CORRELATE_KIND_COUNTER "?, %s",
			 gs_memory_kind_name(change->kind));
	return name_string(s, KIND_NAMES + slot * N_TRACK_KINDS + change->kind - GS_MEMORY_DEVICE,
			   text);
}

/* A string of ingest's that comes up to ours: move ahead to the end of the next power of two. */
static void make_way(struct gs_correlate *s, uint32_t id)
{
	if (id >= GS_DICT_MAX_ID || id < s->names)
		return;
	while (s->names <= id)
		s->names = (s->names + N_NAMES) * 2 - N_NAMES;
	memset(s->named, 0, sizeof(s->named));
}

static void put_counter(struct gs_correlate *s, uint32_t process, uint32_t name_str,
			uint64_t time_ns, uint64_t bytes)
{
	struct gs_rec_counter *c = gs_record_put(&s->out, GS_REC_COUNTER, sizeof(*c), 0);

	if (!c)
		return;
	c->process = process;
	c->name_str = name_str;
	c->time_ns = time_ns;
	c->value = (int64_t)bytes;
	c->unit = GS_UNIT_BYTES;
}

/* Counters of all sums that changed by the record that ends there. */
static void put_changes(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
			uint64_t time_ns)
{
	struct gs_memory_change change;

	while (gs_memory_next_change(s->memory, &change)) {
		uint32_t name_str;

		if (!copy_until(s, batch, end))
			continue;
		name_str = name_sum(s, &change);
		/* Threads' calls may be reported out of order, a counter's values may not. */
		if (*change.time_ns < time_ns)
			*change.time_ns = time_ns;
		if (name_str)
			put_counter(s, change.process, name_str, *change.time_ns,
				    change.live_bytes);
	}
}

/* --- records --- */

static enum meaning find_meaning(struct gs_correlate *s, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(s->dict, function);
	const char *name = f ? gs_dict_string(s->dict, f->name_str) : "";
	struct gs_activity_function sync;

	if (!*name)
		return MEANS_UNKNOWN;
	if (f->layer == GS_LAYER_TORCH_MEM)
		return f->func_class == GS_CLASS_ALLOC  ? MEANS_TORCH_ALLOC
		       : f->func_class == GS_CLASS_FREE ? MEANS_TORCH_FREE
							: MEANS_NOTHING;
	s->memory_meaning[function] = gs_memory_function_of(f->layer, f->func_class, name);
	sync = gs_activity_function_of(f->layer, f->func_class, name);
	if (sync.kind != GS_ACTIVITY_NOTHING && sync.work != GS_ACTIVITY_HOST_FUNCTIONS)
		return MEANS_SYNC + 2 * sync.kind + sync.per_thread;
	if (s->memory_meaning[function].verb != GS_MEMORY_NOTHING)
		return MEANS_MEMORY;
	if (strcmp(name, "ncclCommDestroy") == 0 || strcmp(name, "ncclCommAbort") == 0)
		return MEANS_COMM_END;
	return MEANS_NOTHING;
}

static void take_memory(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
			uint32_t process, const struct gs_rec_call *c)
{
	struct gs_memory_function f = s->memory_meaning[c->function];
	uint64_t bytes = gs_memory_take(s->memory, process, c, f);
	bool is_free = f.verb == GS_MEMORY_FREE || f.verb == GS_MEMORY_FREE_NCCL ||
		       f.verb == GS_MEMORY_RELEASE;

	if (bytes && is_free && copy_until(s, batch, end))
		((struct gs_rec_call *)last_copied(s, &c->head))->bytes = bytes;
	put_changes(s, batch, end, c->start_ns + c->dur_ns);
}

/* The calling thread is on another device from then on. */
static void take_place(struct gs_correlate *s, uint32_t process, const struct gs_rec_call *c,
		       unsigned kind, bool per_thread)
{
	gs_activity_take_record(
		s->places, process, c,
		(struct gs_activity_function){.kind = (uint8_t)kind, .per_thread = per_thread});
	gs_memory_set_device(s->memory, process, c->thread,
			     gs_activity_thread_context(s->places, c->thread));
}

static void take_sync(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
		      uint32_t process, const struct gs_rec_call *c, unsigned kind)
{
	bool waited = false;
	uint64_t flow = correlate_syncs_take(&s->syncs, process, c, kind / 2, kind % 2, &waited);
	struct gs_rec_call *copy;

	if (!flow || !copy_until(s, batch, end))
		return;
	copy = last_copied(s, &c->head);
	copy->flow = flow;
	if (waited)
		copy->call_flags |= GS_CALL_WAITED;
}

/* Of PyTorch's allocator: the counter of its device, and the bytes of a free. */
static void take_torch(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
		       uint32_t process, const struct gs_rec_call *c, bool is_free)
{
	struct torch_device *d;
	uint64_t bytes = 0;
	uint32_t name_str;

	if (is_free)
		d = correlate_torch_memory_free(&s->torch, process, c, &bytes);
	else
		d = correlate_torch_memory_alloc(&s->torch, process, c, &s->n_untracked);
	/* A segment's first block begins where it does. */
	if (!is_free)
		gs_memory_mark_segment(s->memory, process, c->arg[0]);
	if (!d || d->device < 0 || d->device >= TORCH_MAX_DEVICES || !copy_until(s, batch, end))
		return;
	if (is_free)
		((struct gs_rec_call *)last_copied(s, &c->head))->bytes = bytes;
	name_str = name_torch_device(s, (uint32_t)d->device);
	if (c->start_ns > d->reported_ns)
		d->reported_ns = c->start_ns;
	if (name_str)
		put_counter(s, process, name_str, d->reported_ns, d->live_bytes);
}

/* What is left at the end, before END. */
static void finish_torch(struct gs_correlate *s, const struct gs_batch *batch, size_t begin)
{
	if (!s->torch.n_devices || !copy_until(s, batch, begin))
		return;
	if (correlate_torch_memory_finish(&s->torch, s->memory, &s->out) < 0)
		s->failed = true;
}

static void finish_memory(struct gs_correlate *s, const struct gs_batch *batch, size_t begin)
{
	/* Where it has nothing to say, the batch goes on as it is. */
	if (gs_memory_is_empty(s->memory) || !copy_until(s, batch, begin))
		return;
	if (gs_memory_put_records(s->memory, &s->out) < 0)
		s->failed = true;
}

/* A call that may mean something; end is where it ends in the batch. */
static __attribute__((noinline)) void take_call(struct gs_correlate *s,
						const struct gs_batch *batch, size_t end,
						const struct gs_rec_call *c)
{
	enum meaning meaning = s->meaning[c->function];
	const struct gs_rec_thread *t;

	if (meaning == MEANS_UNKNOWN)
		meaning = s->meaning[c->function] = (uint8_t)find_meaning(s, c->function);
	if (meaning == MEANS_UNKNOWN || meaning == MEANS_NOTHING ||
	    (c->call_flags & GS_CALL_UNFINISHED))
		return;
	t = gs_dict_thread(s->dict, c->thread);
	if (!t)
		return;
	/* Of these, failed ones mean something, too. */
	if (s->memory_meaning[c->function].verb != GS_MEMORY_NOTHING)
		take_memory(s, batch, end, t->process, c);
	if (c->failed)
		return;
	if (meaning >= MEANS_SYNC + 2 * GS_ACTIVITY_SET_DEVICE) {
		meaning -= MEANS_SYNC;
		take_place(s, t->process, c, meaning / 2, meaning % 2);
		return;
	}
	if (meaning >= MEANS_SYNC) {
		take_sync(s, batch, end, t->process, c, meaning - MEANS_SYNC);
		return;
	}
	switch (meaning) {
	case MEANS_TORCH_ALLOC:
	case MEANS_TORCH_FREE:
		take_torch(s, batch, end, t->process, c, meaning == MEANS_TORCH_FREE);
		break;
	case MEANS_COMM_END:
		correlate_comms_end(&s->comms, t->process, c->arg[0]);
		break;
	default:
		break;
	}
}

static void take_comm(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
		      const struct gs_rec_comm *r)
{
	bool init_all = strcmp(gs_dict_string(s->dict, r->origin_str), "ncclCommInitAll") == 0;
	struct gs_rec_comm completed;

	memcpy(&completed, r, sizeof(completed));
	correlate_comms_take(&s->comms, &completed, init_all, &s->extra);
	if (memcmp(&completed, r, sizeof(completed)) != 0 && copy_until(s, batch, end))
		memcpy(last_copied(s, &r->head), &completed, sizeof(completed));
	if (s->extra.bytes && copy_until(s, batch, end) &&
	    gs_buf_put(&s->out, s->extra.data, s->extra.bytes) < 0)
		s->failed = true;
	gs_buf_reset(&s->extra);
}

/* The same id again: exec. What the program before had is gone. */
static void take_process(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
			 const struct gs_rec_process *r)
{
	const struct gs_rec_process *before = gs_dict_process(s->dict, r->id);
	bool runs_another = gs_process_runs_another(before, r);

	if (runs_another) {
		correlate_comms_end_process(&s->comms, r->id);
		correlate_syncs_drop(&s->syncs, r->id);
		correlate_torch_memory_drop(&s->torch, r->id);
		gs_memory_drop_process(s->memory, r->id);
		put_changes(s, batch, end, s->now_ns);
	}
	gs_activity_follow(s->places, s->dict, &r->head);
	gs_memory_set_late(s->memory, r->id, !runs_another && gs_activity_is_late(s->dict, r));
}

/* A thread's account says when its process ended. */
static void take_account(struct gs_correlate *s, const struct gs_rec_account *r)
{
	if (!(r->account_flags & GS_ACCOUNT_ENDED) || r->tid != r->pid)
		return;
	for (uint32_t id = gs_dict_max_process(s->dict); id > 0; id--) {
		const struct gs_rec_process *p = gs_dict_process(s->dict, id);

		if (p && p->pid == r->pid) {
			gs_memory_end_process(s->memory, id);
			return;
		}
	}
}

/* A record that is not a CALL. */
static __attribute__((noinline)) void take_other(struct gs_correlate *s,
						 const struct gs_batch *batch, size_t end,
						 const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_STRING:
		make_way(s, ((const struct gs_rec_string *)r)->id);
		break;
	case GS_REC_PROCESS:
		take_process(s, batch, end, (const void *)r);
		break;
	case GS_REC_ACCOUNT:
		take_account(s, (const void *)r);
		break;
	case GS_REC_FUNCTION: {
		const struct gs_rec_function *f = (const void *)r;

		if (f->id < MAX_FUNCTIONS)
			s->meaning[f->id] = MEANS_UNKNOWN;
		break;
	}
	case GS_REC_END:
		finish_torch(s, batch, end - r->bytes);
		finish_memory(s, batch, end - r->bytes);
		break;
	case GS_REC_COMM:
		take_comm(s, batch, end, (const void *)r);
		return; /* the dictionary's own communicators are not asked for */
	default:
		break;
	}
	/* Without memory, or with an id out of range, what uses it means nothing here. */
	(void)gs_dict_apply(s->dict, r);
}

static int span_push(void *ctx, const struct gs_batch *batch)
{
	const struct gs_record *r;
	struct gs_correlate *s = ctx;
	struct gs_batch changed;
	size_t offset = 0;

	gs_buf_reset(&s->out);
	s->copied_bytes = 0;
	s->failed = false;
	while ((r = gs_record_next(batch, &offset)) != NULL) {
		const struct gs_rec_call *c = (const void *)r;

		if (r->kind != GS_REC_CALL) {
			take_other(s, batch, offset, r);
			continue;
		}
		if (c->start_ns + c->dur_ns > s->now_ns)
			s->now_ns = c->start_ns + c->dur_ns;
		if (c->function < MAX_FUNCTIONS && s->meaning[c->function] != MEANS_NOTHING)
			take_call(s, batch, offset, c);
	}
	if (!s->out.bytes && !s->failed)
		return s->next.push(s->next.ctx, batch);
	if (s->failed || !copy_until(s, batch, batch->bytes)) {
		/* The names may have been in what is not sent. */
		memset(s->named, 0, sizeof(s->named));
		return s->next.push(s->next.ctx, batch);
	}
	changed = (struct gs_batch){s->out.data, s->out.bytes};
	return s->next.push(s->next.ctx, &changed);
}

static int span_flush(void *ctx)
{
	struct gs_correlate *s = ctx;

	return s->next.flush ? s->next.flush(s->next.ctx) : 0;
}
