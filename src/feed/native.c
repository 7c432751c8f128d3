/*
 * Native stacks: a copy from the kernel side becomes a list of functions, told once each (FRAME),
 * and a STACK, told once for each process. The kernel side numbers captures; the number that a call
 * or sample carries is exchanged for that of the STACK, which is known when the call comes: its
 * copy was put into the ring before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "feed/feed_int.h"
#include "model/record_stack.h"
#include "stack/native.h"

#define CAPTURES       65536u /* remembered; a power of two: far more than a ring holds */
#define FRAMES_MAX     (1u << 20)
#define STACKS_MAX     (1u << 20)
#define MAX_NAME_BYTES 4096

struct capture {
	uint32_t id;
	uint32_t stack;
};

struct gs_feed_native {
	struct gs_native *native; /* owned */
	struct gs_map frame_of;   /* hash of a place in code -> FRAME */
	struct gs_map stack_of;   /* hash of process and frames -> STACK */
	uint32_t n_frames, n_stacks;
	struct capture captures[CAPTURES];
	struct gs_native_stack stack; /* of the present event */
	char name[MAX_NAME_BYTES];
};

static void native_free(struct gs_feed_native *n)
{
	gs_native_free(&n->native);
	gs_map_fini(&n->frame_of);
	gs_map_fini(&n->stack_of);
	free(n);
}

void gs_feed_native_fini(struct gs_feed *f)
{
	if (f->native)
		native_free(f->native);
	f->native = NULL;
}

/* Made when the first stack comes: most runs take none. */
static struct gs_feed_native *native_get(struct gs_feed *f)
{
	struct gs_feed_native *n = f->native;

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	if (gs_native_new(&n->native) < 0) {
		free(n);
		return NULL;
	}
	n->frame_of = GS_MAP_INIT(FRAMES_MAX);
	n->stack_of = GS_MAP_INIT(STACKS_MAX);
	return f->native = n;
}

void gs_feed_native_task(struct gs_feed *f, const struct gs_event_task *ev)
{
	if (!f->native)
		return;
	if (ev->change == GS_TASK_FORK)
		gs_native_fork(f->native->native, ev->pid, ev->parent_pid);
	else if (ev->change == GS_TASK_EXEC)
		gs_native_exec(f->native->native, ev->pid);
}

/* The FRAME of a place, told when it is new; 0 when there are too many. */
static uint32_t frame_id(struct gs_feed *f, uint32_t pid, const struct gs_native_frame *frame)
{
	struct gs_feed_native *n = f->native;
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
	function_str = gs_feed_intern(f, named ? n->name : "");
	file_str = gs_feed_intern(f, gs_native_path(n->native, frame->file));
	r = gs_feed_put(f, GS_REC_FRAME, sizeof(*r), 0);
	r->id = GS_NATIVE_ID | n->n_frames;
	r->frame_kind = GS_FRAME_NATIVE;
	r->function_str = function_str;
	r->file_str = file_str;
	r->file_off = frame->file ? frame->file_off : frame->pc;
	gs_feed_settle(f); /* a stack of long names is more than a batch has to spare */
	return GS_NATIVE_ID | n->n_frames;
}

/* The STACK of these frames; 0 when there are too many. */
static uint32_t stack_id(struct gs_feed *f, uint32_t process, uint32_t pid,
			 const struct gs_native_stack *s)
{
	struct gs_feed_native *n = f->native;
	uint32_t words[GS_STACK_MAX + 2] = {process, s->flags};
	struct gs_rec_stack *r;
	uint64_t key, known;

	for (unsigned i = 0; i < s->n_frames; i++) {
		words[2 + i] = frame_id(f, pid, &s->frames[i]);
		if (!words[2 + i])
			return 0;
	}
	key = gs_hash_bytes(words, (2 + s->n_frames) * sizeof(words[0]));
	if (gs_map_get(&n->stack_of, key, &known))
		return (uint32_t)known;
	if (gs_map_put(&n->stack_of, key, GS_NATIVE_ID | (n->n_stacks + 1)) < 0)
		return 0;
	n->n_stacks++;
	r = gs_feed_put(f, GS_REC_STACK, sizeof(*r), s->n_frames * sizeof(r->frames[0]));
	r->id = GS_NATIVE_ID | n->n_stacks;
	r->process = process;
	r->stack_kind = GS_STACK_NATIVE;
	r->stack_flags = (uint16_t)s->flags;
	r->n_frames = s->n_frames;
	memcpy(r->frames, words + 2, s->n_frames * sizeof(r->frames[0]));
	return r->id;
}

bool gs_feed_native(struct gs_feed *f, const struct gs_event_stack_bytes *ev)
{
	struct gs_feed_native *n = native_get(f);
	uint32_t process, id = 0;
	int r;

	if (!n || !ev->id || !ev->pid || !ev->tid)
		return !n;
	r = gs_native_unwind(n->native, ev, &n->stack);
	if (r == -EINVAL)
		return false;
	if (r == 0 && n->stack.n_frames) {
		gs_feed_thread(f, ev->pid, ev->tid);
		process = gs_feed_process_id(f, ev->pid);
		id = stack_id(f, process, ev->pid, &n->stack);
	}
	if (!id)
		f->pending_loss[GS_LOSS_STACK]++;
	n->captures[ev->id & (CAPTURES - 1)] = (struct capture){ev->id, id};
	return true;
}

uint32_t gs_feed_native_id(const struct gs_feed *f, uint32_t capture)
{
	const struct capture *c = f->native ? &f->native->captures[capture & (CAPTURES - 1)] : NULL;

	return capture && c && c->id == capture ? c->stack : 0;
}
