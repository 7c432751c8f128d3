/*
 * Native stacks: a copy from the kernel side becomes a list of functions, recorded once each (FRAME),
 * and a STACK, recorded once for each process. The kernel side numbers captures; the number that a call
 * or sample carries is exchanged for that of the STACK, which is known when the call comes: its
 * copy was put into the ring before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_stack.h"
#include "sources/unwind/native.h"

#define CAPTURES       65536u /* remembered; a power of two: far more than a ring holds */
#define FRAMES_MAX     (1u << 20)
#define STACKS_MAX     (1u << 20)
#define MAX_NAME_BYTES 4096

#define DEFERRED_MAX 256u           /* captures of processes that are not known yet */
#define DEFERRED_NS  10000000000ull /* none waits longer: ids of processes come again */
#define ROOM_NS      1000000000ull  /* after which one gives way where there is no room */

struct deferred {
	struct gs_event_stack_bytes *event; /* owned */
	uint32_t stack;                     /* the STACK that it will be */
	uint64_t since_ns; /* when it began to wait: it may have been long in the ring */
};

struct capture {
	uint32_t id;
	uint32_t stack;
};

struct gs_ingest_native {
	struct gs_native *native; /* owned */
	struct gs_map frame_of;   /* hash of a place in code -> FRAME */
	struct gs_map stack_of;   /* hash of process and frames -> STACK */
	uint32_t n_frames, n_stacks;
	struct capture captures[CAPTURES];
	struct deferred deferred[DEFERRED_MAX];
	uint32_t n_deferred;
	bool has_news;                /* code was mapped since they were tried last */
	struct gs_native_stack stack; /* of the present event */
	char name[MAX_NAME_BYTES];
};

static void native_free(struct gs_ingest_native *n)
{
	for (uint32_t i = 0; i < n->n_deferred; i++)
		free(n->deferred[i].event);
	gs_native_free(&n->native);
	gs_map_fini(&n->frame_of);
	gs_map_fini(&n->stack_of);
	free(n);
}

void gs_ingest_native_fini(struct gs_ingest *f)
{
	if (f->native)
		native_free(f->native);
	f->native = NULL;
}

/* Made when the first stack comes: most runs take none. */
static struct gs_ingest_native *native_get(struct gs_ingest *f)
{
	struct gs_ingest_native *n = f->native;

	if (n || !f->reader)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	if (gs_native_new(f->reader, &n->native) < 0) {
		free(n);
		return NULL;
	}
	n->frame_of = GS_MAP_INIT(FRAMES_MAX);
	n->stack_of = GS_MAP_INIT(STACKS_MAX);
	return f->native = n;
}

struct gs_native *gs_ingest_native_object(struct gs_ingest *f)
{
	struct gs_ingest_native *n = native_get(f);

	return n ? n->native : NULL;
}

void gs_ingest_native_task(struct gs_ingest *f, const struct gs_event_task *ev)
{
	if (!f->native)
		return;
	if (ev->change == GS_TASK_FORK)
		gs_native_fork(f->native->native, ev->pid, ev->parent_pid, ev->time_ns);
	else if (ev->change == GS_TASK_EXEC)
		gs_native_stale(f->native->native, ev->pid, ev->time_ns);
}

void gs_ingest_map(struct gs_ingest *f, uint32_t pid, uint64_t mono_ns,
		   const struct gs_mapping *mapping)
{
	struct gs_ingest_native *n = f->ended ? NULL : native_get(f);

	if (n)
		n->has_news = true;
	if (n && mapping)
		gs_native_map(n->native, pid, mono_ns, mapping);
	else if (n)
		gs_native_exec(n->native, pid, mono_ns);
}

/* The FRAME of a place, recorded when it is new; 0 when there are too many. */
static uint32_t frame_id(struct gs_ingest *f, uint32_t pid, const struct gs_native_frame *frame)
{
	struct gs_ingest_native *n = f->native;
	/* Code without a file (written by a compiler at run time) is its process's own. */
	uint64_t where[3] = {frame->file, frame->file ? frame->file_off : frame->pc,
			     frame->file ? 0 : pid};
	uint64_t key = gs_hash_bytes(where, sizeof(where)), known;
	uint32_t function_str, file_str;
	struct gs_rec_frame *r;
	bool named;

	if (gs_map_get(&n->frame_of, key, &known))
		return (uint32_t)known;
	if (gs_map_put(&n->frame_of, key, GS_NATIVE_ID | (n->n_frames + 1)) < 0)
		return 0;
	n->n_frames++;
	named = gs_native_name(n->native, frame, n->name, sizeof(n->name));
	if (!named)
		f->pending_loss[GS_LOSS_FRAME]++;
	function_str = gs_ingest_intern(f, named ? n->name : "");
	file_str = gs_ingest_intern(f, gs_native_path(n->native, frame->file));
	r = gs_ingest_put(f, GS_REC_FRAME, sizeof(*r), 0);
	r->id = GS_NATIVE_ID | n->n_frames;
	r->frame_kind = GS_FRAME_NATIVE;
	r->function_str = function_str;
	r->file_str = file_str;
	r->file_off = frame->file ? frame->file_off : frame->pc;
	gs_ingest_settle(f); /* a stack of long names is more than a batch has to spare */
	return GS_NATIVE_ID | n->n_frames;
}

static bool find_frames(struct gs_ingest *f, uint32_t pid, const struct gs_native_stack *s,
			uint32_t frames[GS_STACK_MAX])
{
	for (unsigned i = 0; i < s->n_frames; i++) {
		frames[i] = frame_id(f, pid, &s->frames[i]);
		if (!frames[i])
			return false;
	}
	return true;
}

static void put_stack(struct gs_ingest *f, uint32_t id, uint32_t process,
		      const struct gs_native_stack *s, const uint32_t *frames)
{
	struct gs_rec_stack *r =
		gs_ingest_put(f, GS_REC_STACK, sizeof(*r), s->n_frames * sizeof(r->frames[0]));

	r->id = id;
	r->process = process;
	r->stack_kind = GS_STACK_NATIVE;
	r->stack_flags = (uint16_t)s->flags;
	r->n_frames = s->n_frames;
	memcpy(r->frames, frames, s->n_frames * sizeof(r->frames[0]));
}

/* The STACK of these frames; 0 when there are too many. */
static uint32_t stack_id(struct gs_ingest *f, uint32_t process, uint32_t pid,
			 const struct gs_native_stack *s)
{
	struct gs_ingest_native *n = f->native;
	uint32_t words[GS_STACK_MAX + 2] = {process, s->flags};
	uint64_t key, known;
	uint32_t id;

	if (!find_frames(f, pid, s, words + 2))
		return 0;
	key = gs_hash_bytes(words, (2 + s->n_frames) * sizeof(words[0]));
	if (gs_map_get(&n->stack_of, key, &known))
		return (uint32_t)known;
	id = GS_NATIVE_ID | (n->n_stacks + 1);
	if (gs_map_put(&n->stack_of, key, id) < 0)
		return 0;
	n->n_stacks++;
	put_stack(f, id, process, s, words + 2);
	return id;
}

static bool is_older(const struct deferred *d, uint64_t ns)
{
	return gs_clock_mono_ns() - d->since_ns >= ns;
}

/* News of what a process has mapped come by another way than its stacks, and may come later: the
 * stack gets its number now and its frames when they can be found. How long it waits does not depend on how
 * old it is: what kept its reader from it for seconds kept the other one as well. */
static uint32_t defer_stack(struct gs_ingest *f, const struct gs_event_stack_bytes *ev)
{
	struct gs_ingest_native *n = f->native;
	struct deferred *d;

	if (n->n_deferred == DEFERRED_MAX && (n->has_news || is_older(&n->deferred[0], ROOM_NS)))
		gs_ingest_native_retry(f, false);
	if (n->n_deferred == DEFERRED_MAX)
		return 0;
	d = &n->deferred[n->n_deferred];
	d->event = malloc(ev->head.bytes);
	if (!d->event)
		return 0;
	memcpy(d->event, ev, ev->head.bytes);
	d->stack = GS_NATIVE_ID | ++n->n_stacks;
	d->since_ns = gs_clock_mono_ns();
	n->n_deferred++;
	return d->stack;
}

void gs_ingest_native_retry(struct gs_ingest *f, bool last)
{
	struct gs_ingest_native *n = f->native;
	uint32_t frames[GS_STACK_MAX], left = 0;
	uint64_t most_ns;

	if (!n)
		return;
	most_ns = n->n_deferred == DEFERRED_MAX ? ROOM_NS : DEFERRED_NS;
	n->has_news = false;
	for (uint32_t i = 0; i < n->n_deferred; i++) {
		struct deferred d = n->deferred[i];
		int r = gs_native_unwind(n->native, d.event, &n->stack);

		if (r == -ESRCH && !last && !is_older(&d, most_ns)) {
			n->deferred[left++] = d;
			continue;
		}
		/* One that stays unknown is recorded as a stack without frames: its number is in use.
		 */
		if (r < 0 || !find_frames(f, d.event->pid, &n->stack, frames)) {
			n->stack.n_frames = 0;
			n->stack.flags = GS_STACK_PARTIAL;
			f->pending_loss[GS_LOSS_STACK]++;
		}
		gs_ingest_thread(f, d.event->pid, d.event->tid);
		put_stack(f, d.stack, gs_ingest_process_id(f, d.event->pid), &n->stack, frames);
		gs_ingest_settle(f);
		free(d.event);
	}
	n->n_deferred = left;
}

bool gs_ingest_native(struct gs_ingest *f, const struct gs_event_stack_bytes *ev)
{
	struct gs_ingest_native *n = native_get(f);
	uint32_t process, id = 0;
	int r;

	if (ev->head.bytes < sizeof(*ev) || !ev->id || !ev->pid || !ev->tid)
		return false;
	if (!n) {
		f->pending_loss[GS_LOSS_STACK]++;
		return true;
	}
	r = gs_native_unwind(n->native, ev, &n->stack);
	if (r == -EINVAL)
		return false;
	if (r == 0 && n->stack.n_frames) {
		gs_ingest_thread(f, ev->pid, ev->tid);
		process = gs_ingest_process_id(f, ev->pid);
		id = stack_id(f, process, ev->pid, &n->stack);
	} else if (r == -ESRCH) {
		id = defer_stack(f, ev);
	}
	if (!id)
		f->pending_loss[GS_LOSS_STACK]++;
	n->captures[ev->id & (CAPTURES - 1)] = (struct capture){ev->id, id};
	return true;
}

uint32_t gs_ingest_native_id(const struct gs_ingest *f, uint32_t capture)
{
	const struct capture *c = f->native ? &f->native->captures[capture & (CAPTURES - 1)] : NULL;

	return capture && c && c->id == capture ? c->stack : 0;
}
