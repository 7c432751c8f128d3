/*
 * Stacks, samples and the code objects that stacks name.
 *
 *   CODE    the names and the line table of a code object are kept, by process and address
 *   STACK   each frame becomes a line by that table, and a FRAME when that place was not recorded
 *           yet; the numbers of the FRAMEs make the STACK, under the number the kernel side gave
 *   SAMPLE  is passed on, as WAIT is
 *
 * Frames are recorded once for all processes: those of the same program have the same lines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_stack.h"
#include "sources/unwind/python.h"

#define CODES_MAX  131072
#define FRAMES_MAX (1u << 20)
#define TABLES_MAX (128u << 20) /* of all */

struct code {
	uint32_t pid;
	uint32_t file_str, function_str;
	int32_t first_line;
	uint64_t address;
	uint16_t version;
	bool table_cut;       /* pieces of it are missing */
	uint32_t table_bytes; /* there already */
	uint32_t table_whole; /* what there is room for */
	uint8_t *table;       /* owned */
};

struct gs_ingest_stacks {
	struct gs_map code_of; /* hash of process and address -> index */
	struct code *codes;    /* owned; a ring: the oldest is overwritten */
	uint32_t n_codes, code_hand;
	size_t tables_bytes;
	struct gs_map frame_of; /* what a FRAME says -> its id */
	uint32_t last_frame;
};

int gs_ingest_stacks_init(struct gs_ingest *f)
{
	struct gs_ingest_stacks *s = calloc(1, sizeof(*s));

	f->stacks = s;
	if (!s)
		return -ENOMEM;
	s->code_of = GS_MAP_INIT(CODES_MAX);
	s->frame_of = GS_MAP_INIT(FRAMES_MAX);
	return 0;
}

void gs_ingest_stacks_fini(struct gs_ingest *f)
{
	struct gs_ingest_stacks *s = f->stacks;

	if (!s)
		return;
	for (uint32_t i = 0; s->codes && i < s->n_codes; i++)
		free(s->codes[i].table);
	free(s->codes);
	gs_map_fini(&s->code_of);
	gs_map_fini(&s->frame_of);
	free(s);
	f->stacks = NULL;
}

/* --- code objects --- */

static uint64_t code_key(uint32_t pid, uint64_t address)
{
	uint64_t k[2] = {pid, address};

	return gs_hash_bytes(k, sizeof(k));
}

static struct code *code_get(const struct gs_ingest_stacks *s, uint32_t pid, uint64_t address)
{
	struct code *c;
	uint64_t idx;

	if (!gs_map_get(&s->code_of, code_key(pid, address), &idx))
		return NULL;
	c = &s->codes[idx];
	return c->pid == pid && c->address == address ? c : NULL;
}

static void code_forget(struct gs_ingest_stacks *s, struct code *c)
{
	s->tables_bytes -= c->table_whole;
	free(c->table);
	gs_map_del(&s->code_of, code_key(c->pid, c->address));
	*c = (struct code){0};
}

/* A place for a code object, emptied. NULL: no memory. */
static struct code *code_place(struct gs_ingest_stacks *s, uint32_t pid, uint64_t address)
{
	struct code *c = code_get(s, pid, address);
	uint64_t idx;

	if (c)
		code_forget(s, c);
	if (!s->codes)
		s->codes = calloc(CODES_MAX, sizeof(*s->codes));
	if (!s->codes)
		return NULL;
	if (!c && s->n_codes < CODES_MAX) {
		c = &s->codes[s->n_codes++];
	} else if (!c) {
		c = &s->codes[s->code_hand++ % CODES_MAX];
		if (c->pid)
			code_forget(s, c);
	}
	idx = (uint64_t)(c - s->codes);
	if (gs_map_put(&s->code_of, code_key(pid, address), idx) < 0)
		return NULL;
	c->pid = pid;
	c->address = address;
	return c;
}

void gs_ingest_python_text(uint32_t pid, const struct gs_py_text *t, const uint8_t *bytes,
			   size_t max_bytes, char out[GS_INGEST_TEXT_BYTES])
{
	size_t n = t->n_bytes < max_bytes ? t->n_bytes : max_bytes;
	uint64_t whole = (uint64_t)t->length * t->char_bytes;
	uint8_t raw[GS_INGEST_TEXT_BYTES];

	if (whole > n) {
		size_t want = whole < sizeof(raw) ? whole : sizeof(raw) / 4 * 4;

		if (gs_python_peek((pid_t)pid, t->address, raw, want) == 0 &&
		    memcmp(raw, bytes, n) == 0) {
			bytes = raw;
			n = want;
		}
	}
	gs_python_text(bytes, n, t->char_bytes, out, GS_INGEST_TEXT_BYTES);
}

static uint32_t intern_text(struct gs_ingest *f, uint32_t pid, const struct gs_py_text *t,
			    const uint8_t *bytes, size_t max_bytes)
{
	char text[GS_INGEST_TEXT_BYTES];

	gs_ingest_python_text(pid, t, bytes, max_bytes, text);
	return gs_ingest_intern(f, text);
}

/* A piece of the line table: they come in order, unless one found no room in the ring. */
static void take_table(struct gs_ingest_stacks *s, struct code *c, const struct gs_event_code *ev)
{
	if (ev->table_off == 0) {
		size_t whole =
			ev->table_bytes < GS_PY_TABLE_MAX ? ev->table_bytes : GS_PY_TABLE_MAX;

		c->table = whole && s->tables_bytes + whole <= TABLES_MAX ? malloc(whole) : NULL;
		c->table_whole = c->table ? (uint32_t)whole : 0;
		s->tables_bytes += c->table_whole;
	}
	if (ev->table_off == c->table_bytes &&
	    ev->table_n_bytes <= c->table_whole - c->table_bytes) {
		if (ev->table_n_bytes)
			memcpy(c->table + c->table_bytes, ev->table, ev->table_n_bytes);
		c->table_bytes += ev->table_n_bytes;
	}
	c->table_cut = c->table_bytes < ev->table_bytes;
}

bool gs_ingest_code(struct gs_ingest *f, const struct gs_event_code *ev)
{
	struct gs_ingest_stacks *s = f->stacks;
	struct code *c;

	if (ev->head.bytes < sizeof(*ev) || !ev->pid ||
	    ev->table_n_bytes != ev->head.bytes - sizeof(*ev))
		return false;
	c = ev->table_off ? code_get(s, ev->pid, ev->code) : code_place(s, ev->pid, ev->code);
	if (!c)
		return true; /* its frames will be counted */
	if (ev->table_off == 0) {
		c->version = ev->version;
		c->first_line = ev->first_line;
		c->file_str =
			intern_text(f, ev->pid, &ev->file, ev->file_text, sizeof(ev->file_text));
		c->function_str =
			intern_text(f, ev->pid, &ev->name, ev->name_text, sizeof(ev->name_text));
	}
	take_table(s, c, ev);
	return true;
}

/* --- frames --- */

/* The id of a frame, recorded when it is new; 0 when there are too many. */
static uint32_t frame_id(struct gs_ingest *f, const struct gs_rec_frame *want)
{
	struct gs_ingest_stacks *s = f->stacks;
	uint64_t key = gs_hash_bytes(&want->frame_kind,
				     sizeof(*want) - offsetof(struct gs_rec_frame, frame_kind)),
		 id;
	struct gs_rec_frame *r;

	if (gs_map_get(&s->frame_of, key, &id))
		return (uint32_t)id;
	if (gs_map_put(&s->frame_of, key, s->last_frame + 1) < 0)
		return 0;
	r = gs_ingest_put(f, GS_REC_FRAME, sizeof(*r), 0);
	r->id = ++s->last_frame;
	r->frame_kind = want->frame_kind;
	r->function_str = want->function_str;
	r->file_str = want->file_str;
	r->line = want->line;
	r->first_line = want->first_line;
	r->file_off = want->file_off;
	return r->id;
}

static uint32_t python_frame(struct gs_ingest *f, uint32_t pid, const struct gs_raw_frame *raw)
{
	const struct code *c = code_get(f->stacks, pid, raw->code);
	struct gs_rec_frame r = {.frame_kind = GS_FRAME_PYTHON};

	if (c) {
		r.function_str = c->function_str;
		r.file_str = c->file_str;
		r.first_line = c->first_line > 0 ? (uint32_t)c->first_line : 0;
		r.line = gs_python_line(c->version, c->table, c->table_bytes, c->first_line,
					(int64_t)raw->at);
	}
	if (!r.function_str || (!r.line && (!c || c->table_cut)))
		f->pending_loss[GS_LOSS_FRAME]++;
	return frame_id(f, &r);
}

bool gs_ingest_stack(struct gs_ingest *f, const struct gs_event_stack *ev)
{
	uint32_t ids[GS_STACK_MAX], process;
	struct gs_rec_stack *r;

	if (ev->head.bytes < sizeof(*ev) || ev->n_frames > GS_STACK_MAX || !ev->id ||
	    ev->head.bytes != sizeof(*ev) + ev->n_frames * sizeof(ev->frames[0]) ||
	    ev->kind != GS_STACK_PYTHON || !ev->pid || !ev->tid)
		return false;
	if (!gs_ingest_thread(f, ev->pid, ev->tid)) {
		f->pending_loss[GS_LOSS_STACK]++;
		return true;
	}
	process = gs_ingest_process_id(f, ev->pid);
	for (unsigned i = 0; i < ev->n_frames; i++)
		ids[i] = python_frame(f, ev->pid, &ev->frames[i]);
	r = gs_ingest_put(f, GS_REC_STACK, sizeof(*r), ev->n_frames * sizeof(ids[0]));
	r->id = ev->id;
	r->process = process;
	r->stack_kind = ev->kind;
	r->stack_flags = ev->flags;
	r->n_frames = ev->n_frames;
	memcpy(r->frames, ids, ev->n_frames * sizeof(ids[0]));
	return true;
}

bool gs_ingest_sample(struct gs_ingest *f, const struct gs_event_sample *ev)
{
	const struct gs_func *scope = ev->scope ? gs_ingest_function(f, ev->scope) : NULL;
	struct gs_rec_sample *r;
	uint32_t thread;

	if (ev->head.bytes != sizeof(*ev) || !ev->pid || !ev->tid || (ev->scope && !scope))
		return false;
	thread = gs_ingest_thread(f, ev->pid, ev->tid);
	if (!thread) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return true;
	}
	r = gs_ingest_put(f, GS_REC_SAMPLE, sizeof(*r), 0);
	r->time_ns = ev->time_ns + (uint64_t)f->boot_minus_mono_ns;
	r->period_ns = ev->period_ns;
	r->thread = thread;
	r->scope = scope ? scope->id : 0;
	r->py_stack = ev->py_stack;
	r->native_stack = gs_ingest_native_id(f, ev->native_stack);
	r->cpu = ev->cpu;
	return true;
}

bool gs_ingest_wait(struct gs_ingest *f, const struct gs_event_wait *ev)
{
	struct gs_rec_wait *r;
	uint32_t thread;

	if (!ev->pid || !ev->tid || ev->cause >= GS_WAIT_COUNT)
		return false;
	thread = gs_ingest_thread(f, ev->pid, ev->tid);
	if (!thread) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return true;
	}
	r = gs_ingest_put(f, GS_REC_WAIT, sizeof(*r), 0);
	r->time_ns = ev->time_ns + (uint64_t)f->boot_minus_mono_ns;
	r->wait_ns = ev->wait_ns;
	r->thread = thread;
	r->py_stack = ev->py_stack;
	r->cause = ev->cause;
	return true;
}
