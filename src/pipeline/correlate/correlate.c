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
#include "model/trace/func.h"
#include "pipeline/correlate/comm.h"
#include "pipeline/correlate/ledger.h"
#include "pipeline/correlate/sync.h"
#include "pipeline/correlate/torch_memory.h"

#define MAX_FUNCTIONS (2 * GS_FUNC_MAX)                 /* ids beyond have no meaning here */
#define N_NAMES       (SPACE_COUNT + TORCH_MAX_DEVICES) /* strings of our own */
#define FIRST_NAMES   ((1u << 16) - N_NAMES)

enum meaning {
	MEANS_UNKNOWN = 0, /* not looked at, or not announced yet */
	MEANS_NOTHING,
	MEANS_ALLOC_DEVICE,
	MEANS_ALLOC_PHYSICAL, /* cuMemCreate() */
	MEANS_ALLOC_NCCL,
	MEANS_ALLOC_HOST,
	MEANS_FREE_DEVICE,
	MEANS_FREE_HOST,
	MEANS_COMM_END,
	MEANS_TORCH_ALLOC,
	MEANS_TORCH_FREE,
	MEANS_SYNC, /* and enum gs_activity_kind, twice; one more: a thread's own default stream */
};

_Static_assert(MEANS_SYNC + 2 * GS_ACTIVITY_KINDS < 256, "a meaning is a byte");

struct gs_correlate {
	struct gs_sink sink;
	struct gs_sink next;
	struct gs_dict *dict; /* owned */
	struct ledger ledger;
	struct comms comms;
	struct syncs syncs;
	struct torch_memory torch;
	uint64_t n_untracked;
	uint64_t now_ns;   /* newest end of a call */
	struct gs_buf out; /* the changed batch */
	struct gs_buf extra;
	size_t copied_bytes;            /* of the batch in hand, already in out */
	bool failed;                    /* no memory for out: the batch goes on unchanged */
	uint32_t names;                 /* string id of the first of N_NAMES names */
	bool named;                     /* they were announced */
	uint32_t devices_named;         /* likewise, by bit: the counters of PyTorch's devices */
	uint8_t meaning[MAX_FUNCTIONS]; /* enum meaning, by function id */
};

static int span_push(void *ctx, const struct gs_batch *batch);
static int span_flush(void *ctx);

int gs_correlate_new(const struct gs_sink *next, struct gs_correlate **ret_span)
{
	struct gs_correlate *s = calloc(1, sizeof(*s));

	if (s)
		s->dict = gs_dict_new();
	if (!s || !s->dict) {
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
	correlate_ledger_fini(&s->ledger);
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
	return s->n_untracked;
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

static bool announce_names(struct gs_correlate *s)
{
	static const char *const texts[SPACE_COUNT] = {GS_CORRELATE_DEVICE_COUNTER,
						       GS_CORRELATE_HOST_COUNTER};

	if (s->named)
		return true;
	if (s->names + N_NAMES > GS_DICT_MAX_ID)
		return false;
	for (uint32_t i = 0; i < SPACE_COUNT; i++)
		if (gs_record_put_string(&s->out, s->names + i, texts[i], strlen(texts[i])) < 0)
			return false;
	s->named = true;
	return true;
}

/* The name of a device's counter. */
static bool announce_device(struct gs_correlate *s, uint32_t device)
{
	char text[sizeof(GS_CORRELATE_TORCH_COUNTER) + 8];
	int n;

	if (s->devices_named >> device & 1)
		return true;
	if (s->names + N_NAMES > GS_DICT_MAX_ID)
		return false;
	n = snprintf(text, sizeof(text), GS_CORRELATE_TORCH_COUNTER "%u", device);
	if (gs_record_put_string(&s->out, s->names + SPACE_COUNT + device, text, (size_t)n) < 0)
		return false;
	s->devices_named |= 1u << device;
	return true;
}

/* A string of feed's that comes up to ours: move ahead to the end of the next power of two. */
static void make_way(struct gs_correlate *s, uint32_t id)
{
	if (id >= GS_DICT_MAX_ID || id < s->names)
		return;
	while (s->names <= id)
		s->names = (s->names + N_NAMES) * 2 - N_NAMES;
	s->named = false;
	s->devices_named = 0;
}

/* Say the present value. out must hold all of the batch up to here. */
static void put_counter(struct gs_correlate *s, uint32_t process, enum space space,
			uint64_t time_ns)
{
	struct correlate_ledger_process *p = correlate_ledger_find_process(&s->ledger, process);
	struct gs_rec_counter *c;

	if (!announce_names(s))
		return;
	c = gs_record_put(&s->out, GS_REC_COUNTER, sizeof(*c), 0);
	if (!c)
		return;
	/* Threads' calls may be reported out of order, a counter's values may not. */
	if (time_ns < p->reported_ns[space])
		time_ns = p->reported_ns[space];
	p->reported_ns[space] = time_ns;
	c->process = process;
	c->name_str = s->names + space;
	c->time_ns = time_ns;
	c->value = (int64_t)p->live_bytes[space];
	c->unit = GS_UNIT_BYTES;
}

/* --- records --- */

static enum meaning find_meaning(const struct gs_correlate *s, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(s->dict, function);
	const char *name = f ? gs_dict_string(s->dict, f->name_str) : "";
	struct gs_activity_function sync;
	bool host;

	if (!*name)
		return MEANS_UNKNOWN;
	if (f->layer == GS_LAYER_TORCH_MEM)
		return f->func_class == GS_CLASS_ALLOC  ? MEANS_TORCH_ALLOC
		       : f->func_class == GS_CLASS_FREE ? MEANS_TORCH_FREE
							: MEANS_NOTHING;
	sync = gs_activity_function_of(f->layer, f->func_class, name);
	if (sync.kind != GS_ACTIVITY_NOTHING && sync.work != GS_ACTIVITY_HOST_FUNCTIONS)
		return MEANS_SYNC + 2 * sync.kind + sync.per_thread;
	/* Every one that pins host memory says so, and no other does: cudaMallocHost,
	 * cudaHostAlloc, cudaHostRegister, cuMemAllocHost_v2, cuMemHostAlloc, cuMemHostUnregister
	 * ... */
	host = strstr(name, "Host") != NULL;
	if (f->func_class == GS_CLASS_FREE)
		return host ? MEANS_FREE_HOST : MEANS_FREE_DEVICE;
	if (f->func_class == GS_CLASS_ALLOC && strcmp(name, "cuMemCreate") == 0)
		return MEANS_ALLOC_PHYSICAL;
	if (f->func_class == GS_CLASS_ALLOC && f->layer == GS_LAYER_NCCL)
		return MEANS_ALLOC_NCCL;
	if (f->func_class == GS_CLASS_ALLOC)
		return host ? MEANS_ALLOC_HOST : MEANS_ALLOC_DEVICE;
	if (strcmp(name, "ncclCommDestroy") == 0 || strcmp(name, "ncclCommAbort") == 0)
		return MEANS_COMM_END;
	return MEANS_NOTHING;
}

/* True when the sum changed. */
static bool take_alloc(struct gs_correlate *s, uint32_t process, const struct gs_rec_call *c,
		       enum meaning meaning)
{
	enum space space = meaning == MEANS_ALLOC_HOST ? SPACE_HOST : SPACE_DEVICE;
	struct correlate_ledger_process *p;
	uint64_t before, inner;

	if (!c->arg[0] && !c->bytes) /* an allocation of nothing */
		return false;
	p = correlate_ledger_process(&s->ledger, process);
	if (!p || !c->arg[0]) {
		s->n_untracked++;
		return false;
	}
	before = p->live_bytes[space];
	/* The physical memory that ncclMemAlloc() made inside is the same as what it returned. */
	if (meaning == MEANS_ALLOC_NCCL && p->physical && p->physical_thread == c->thread &&
	    p->physical_start_ns >= c->start_ns) {
		correlate_ledger_take(&s->ledger, process, space, p->physical, &inner);
		p->physical = 0;
	}
	if (correlate_ledger_put(&s->ledger, process, space, c->arg[0], c->bytes) < 0) {
		s->n_untracked++;
	} else if (meaning == MEANS_ALLOC_PHYSICAL) {
		p->physical = c->arg[0];
		p->physical_start_ns = c->start_ns;
		p->physical_thread = c->thread;
	}
	return p->live_bytes[space] != before;
}

static void take_free(struct gs_correlate *s, const struct gs_batch *batch, size_t end,
		      uint32_t process, const struct gs_rec_call *c, enum space space)
{
	uint64_t bytes;

	if (!correlate_ledger_take(&s->ledger, process, space, c->arg[0], &bytes) || !bytes ||
	    !copy_until(s, batch, end))
		return;
	((struct gs_rec_call *)last_copied(s, &c->head))->bytes = bytes;
	put_counter(s, process, space, c->start_ns + c->dur_ns);
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
	struct gs_rec_counter *r;
	uint64_t bytes = 0;

	if (is_free)
		d = correlate_torch_memory_free(&s->torch, process, c, &bytes);
	else
		d = correlate_torch_memory_alloc(&s->torch, process, c, &s->n_untracked);
	/* A segment's first block begins where it does. */
	if (!is_free)
		correlate_ledger_mark_segment(&s->ledger, process, c->arg[0]);
	if (!d || d->device < 0 || d->device >= TORCH_MAX_DEVICES || !copy_until(s, batch, end))
		return;
	if (is_free)
		((struct gs_rec_call *)last_copied(s, &c->head))->bytes = bytes;
	if (!announce_device(s, (uint32_t)d->device))
		return;
	r = gs_record_put(&s->out, GS_REC_COUNTER, sizeof(*r), 0);
	if (!r)
		return;
	if (c->start_ns > d->reported_ns)
		d->reported_ns = c->start_ns;
	r->process = process;
	r->name_str = s->names + SPACE_COUNT + (uint32_t)d->device;
	r->time_ns = d->reported_ns;
	r->value = (int64_t)d->live_bytes;
	r->unit = GS_UNIT_BYTES;
}

/* What is left at the end, before END. */
static void finish_torch(struct gs_correlate *s, const struct gs_batch *batch, size_t begin)
{
	if (!s->torch.n_devices || !copy_until(s, batch, begin))
		return;
	if (correlate_torch_memory_finish(&s->torch, &s->ledger, &s->out) < 0)
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
	if (meaning == MEANS_UNKNOWN || meaning == MEANS_NOTHING || c->failed ||
	    (c->call_flags & GS_CALL_UNFINISHED))
		return;
	t = gs_dict_thread(s->dict, c->thread);
	if (!t)
		return;
	if (meaning >= MEANS_SYNC) {
		take_sync(s, batch, end, t->process, c, meaning - MEANS_SYNC);
		return;
	}
	switch (meaning) {
	case MEANS_FREE_DEVICE:
	case MEANS_FREE_HOST:
		take_free(s, batch, end, t->process, c,
			  meaning == MEANS_FREE_HOST ? SPACE_HOST : SPACE_DEVICE);
		break;
	case MEANS_TORCH_ALLOC:
	case MEANS_TORCH_FREE:
		take_torch(s, batch, end, t->process, c, meaning == MEANS_TORCH_FREE);
		break;
	case MEANS_COMM_END:
		correlate_comms_end(&s->comms, t->process, c->arg[0]);
		break;
	default:
		if (take_alloc(s, t->process, c, meaning) && copy_until(s, batch, end))
			put_counter(s, t->process,
				    meaning == MEANS_ALLOC_HOST ? SPACE_HOST : SPACE_DEVICE,
				    c->start_ns + c->dur_ns);
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
	const struct correlate_ledger_process *p;
	uint64_t was[SPACE_COUNT];

	/* Or its names were not known at first. */
	if (!before || (!before->exe_str && !before->cmdline_str))
		return;
	correlate_comms_end_process(&s->comms, r->id);
	correlate_syncs_drop(&s->syncs, r->id);
	correlate_torch_memory_drop(&s->torch, r->id);
	p = correlate_ledger_find_process(&s->ledger, r->id);
	if (!p)
		return;
	memcpy(was, p->live_bytes, sizeof(was));
	correlate_ledger_drop(&s->ledger, r->id);
	for (unsigned i = 0; i < SPACE_COUNT; i++)
		if (was[i] && copy_until(s, batch, end))
			put_counter(s, r->id, i, s->now_ns);
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
	case GS_REC_FUNCTION: {
		const struct gs_rec_function *f = (const void *)r;

		if (f->id < MAX_FUNCTIONS)
			s->meaning[f->id] = MEANS_UNKNOWN;
		break;
	}
	case GS_REC_END:
		finish_torch(s, batch, end - r->bytes);
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
		s->named = false;
		s->devices_named = 0;
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
