/*
 * The Python stack of the present thread, read from the interpreter's own structures while the
 * thread is stopped in our probe or interrupted by our timer: no thread is paused, no lock is taken.
 *
 *     _PyRuntime -> interpreters -> thread states: the one whose thread id is this thread's
 *                                        | (remembered, and checked each time it is used)
 *                                        v
 *                                   innermost frame -> its caller -> ...
 *                                        |
 *                                   code object + place in it
 *
 * Offsets come from struct gs_py_proc. Memory that cannot be read now (swapped out, or the
 * structure is just being changed) ends the stack and is counted. Each frame also gives a word made
 * of the code object's pointers to its names and line table: when another code object takes the
 * place of a freed one, it differs, and the names are sent again.
 *
 * All state is in a scratch area of the processor. A timer may interrupt a probe there and, on
 * preemptible kernels, another thread may come in between, so there are several, taken and given
 * back.
 */
#ifndef GS_BPF_CALLS_PYTHON_BPF_H
#define GS_BPF_CALLS_PYTHON_BPF_H

#include "model/trace/class.h"
#include "stack.bpf.h"

#define PY_N_SCRATCH 4
#define PY_MAX_SCAN  1024 /* thread states and interpreters looked at for one */
#define PY_SCAN_SOME 32
#define PY_MAX_SKIP  128  /* frames of C code in one stack */
#define PY_TAG_BITS  7ull /* low bits of a frame's pointer to its code that are flags (3.14) */
/* A thread without a Python state is not looked for again before this many times what the search
 * took. */
#define PY_RETRY 64

struct py_scratch {
	__u32 busy;
	__u32 n; /* frames found */
	struct gs_py_proc proc;
	__u64 frame;    /* to be read next */
	__u64 self;     /* pthread_self() */
	__u64 state;    /* while searching: looked at next; then what was found */
	__u64 table_at; /* of the code object that is being sent */
	__u64 interp;   /* while searching: whose states come next */
	__u64 hash;
	__u32 pid, tid;
	__u32 flags; /* enum gs_stack_flag */
	__u32 found;
	__u64 names[4];
	__u8 buf[GS_PY_STATE_BYTES + 8];
	__u64 tag[GS_STACK_MAX];
	/* Of pycall.bpf.c: where in a text and in a pattern the comparison is. */
	__u32 text_at, glob_at, star_text, star_glob;
	struct stack_event stack;
	struct gs_event_code code;
	__u8 table[2 * GS_PY_TABLE_BYTES]; /* of code; one half used, so that a mask bounds it */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PY_N_SCRATCH);
	__type(key, __u32);
	__type(value, struct py_scratch);
} gs_py_scratch SEC(".maps");

struct py_code_key {
	__u64 code;
	__u64 pid;
};

/* Code objects that were sent, and what distinguishes them from others at the same address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct py_code_key);
	__type(value, __u64);
} gs_py_codes SEC(".maps");

static __always_inline struct py_scratch *py_scratch_take(void)
{
	for (__u32 i = 0; i < PY_N_SCRATCH; i++) {
		__u32 key = i;
		struct py_scratch *w = bpf_map_lookup_elem(&gs_py_scratch, &key);

		if (w && __sync_val_compare_and_swap(&w->busy, 0, 1) == 0)
			return w;
	}
	return NULL;
}

static __always_inline __u64 py_read(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)address);
	return v;
}

/* A word of what was read into buf: a thread state or a frame. */
static __always_inline __u64 py_word(const struct py_scratch *w, __u32 off)
{
	return *(const __u64 *)(w->buf + (off & (GS_PY_STATE_BYTES - 8)));
}

/* --- the thread's state --- */

static __always_inline bool py_read_state(struct py_scratch *w, __u64 state)
{
	__u32 bytes = w->proc.state_bytes;

	if (bytes > GS_PY_STATE_BYTES)
		return false;
	return bpf_probe_read_user(w->buf, bytes, (void *)state) == 0;
}

/* One step of the search; false when it is over. Not inlined: it is verified once. */
__noinline int py_scan_step(struct py_scratch *w)
{
	if (!w)
		return 0;
	if (!w->state) {
		if (!w->interp)
			return 0;
		w->state = py_read(w->interp + w->proc.interp_threads);
		w->interp = py_read(w->interp + w->proc.interp_next);
		return 1;
	}
	if (!py_read_state(w, w->state)) {
		w->flags |= GS_STACK_PARTIAL;
		return 0;
	}
	if (py_word(w, w->proc.state_thread_id) == w->self) {
		w->found = 1;
		return 0;
	}
	w->state = py_word(w, w->proc.state_next);
	return 1;
}

/* Loops are functions of their own, so that what comes after one is not verified again for each of
 * its possible ends. */
__noinline int py_scan_some(struct py_scratch *w)
{
	for (int i = 0; i < PY_SCAN_SOME; i++)
		if (!py_scan_step(w))
			return 0;
	return 1;
}

__noinline int py_scan(struct py_scratch *w)
{
	if (!w)
		return 0;
	w->state = 0;
	w->interp = py_read(w->proc.runtime + w->proc.runtime_interp);
	w->found = 0;
	for (int i = 0; i < PY_MAX_SCAN / PY_SCAN_SOME; i++)
		if (!py_scan_some(w))
			break;
	return 0;
}

/* A state found before: is it still this thread's, and in its interpreter's list? A freed one keeps
 * its bytes for a while, but nothing points to it. */
static __always_inline bool py_state_is_good(struct py_scratch *w, __u64 state)
{
	__u64 prev;

	if (!py_read_state(w, state) || py_word(w, w->proc.state_thread_id) != w->self)
		return false;
	prev = py_word(w, w->proc.state_prev);
	if (prev)
		return py_read(prev + w->proc.state_next) == state;
	return py_read(py_word(w, w->proc.state_interp) + w->proc.interp_threads) == state;
}

/* Leaves the thread's state in buf; known is where it was found last, and retry_ns when it is worth
 * looking for it again. False: this thread has none, or (flags) it was not readable. */
static __always_inline bool py_find_state(struct py_scratch *w, __u64 *known, __u64 *retry_ns)
{
	__u64 began;

	if (*known && py_state_is_good(w, *known))
		return true;
	*known = 0;
	began = bpf_ktime_get_ns();
	if (began < *retry_ns)
		return false;
	py_scan(w);
	/* A call that released the GIL: a state may have been freed while it was looked at. */
	if (w->flags & GS_STACK_PARTIAL) {
		w->flags = 0;
		py_scan(w);
	}
	if (w->found) {
		*known = w->state;
		return true;
	}
	if (w->state || w->interp) /* more than PY_MAX_SCAN */
		w->flags |= GS_STACK_PARTIAL;
	*retry_ns = began + PY_RETRY * (bpf_ktime_get_ns() - began);
	return false;
}

/* --- frames --- */

/* Where the code that runs begins: in the code object, or in the thread's own copy of it. */
static __always_inline __u64 py_code_begin(const struct py_scratch *w, __u64 code)
{
	__u64 copies;

	if (w->proc.frame_tlbc == GS_PY_NONE)
		return code + w->proc.code_begin;
	copies = py_read(code + w->proc.code_tlbc);
	if (!copies)
		return code + w->proc.code_begin;
	/* struct _PyCodeArray: a size, and the pointers. */
	return py_read(copies + 8 + 8 * (py_word(w, w->proc.frame_tlbc) & 0xffffffff));
}

static __always_inline __u64 py_place(const struct py_scratch *w, __u64 code, __u32 off)
{
	__s32 last = (__s32) * (const __u32 *)(w->buf + (off & (GS_PY_FRAME_BYTES - 4)));

	if (w->proc.at_kind == GS_PY_AT_POINTER)
		return py_word(w, off) - py_code_begin(w, code);
	/* Before its first instruction a frame has -1. */
	return (__s64)last * (w->proc.at_kind == GS_PY_AT_UNITS && last > 0 ? 2 : 1);
}

/* Distinguishes a code object from another one at the same address. */
static __always_inline __u64 py_tag(struct py_scratch *w)
{
	/* The fourth word is the line table from 3.11 on; before it is not constant. */
	__u64 tag = stack_mix(stack_mix(stack_mix(0, w->names[0]), w->names[1]), w->names[2]);

	return w->proc.version >= 0x030b ? stack_mix(tag, w->names[3]) : tag;
}

/* The frame that 3.12 and newer put below an __init__ that a call of a class runs without leaving
 * the evaluation loop (_Py_InitCleanup in Objects/codeobject.c or Python/specialize.c): its names
 * are one object, and it has no line. Tracebacks do not show it. */
static __always_inline bool py_is_cleanup(const struct py_scratch *w, __u64 code)
{
	__s32 first_line = 1;

	if (w->proc.version < 0x030c || w->names[0] != w->names[1] || w->names[0] != w->names[2])
		return false;
	bpf_probe_read_user(&first_line, 4, (void *)(code + w->proc.code_first_line));
	return first_line == 0;
}

/* One frame; false at the end of the stack. Not inlined: it is verified once. */
__noinline int py_frame_step(struct py_scratch *w)
{
	__u32 bytes, n;
	__u64 code, at, tag;

	if (!w || !w->frame)
		return 0;
	bytes = w->proc.frame_bytes;
	if (bytes > GS_PY_FRAME_BYTES ||
	    bpf_probe_read_user(w->buf, bytes, (void *)w->frame) != 0) {
		w->flags |= GS_STACK_PARTIAL;
		return 0;
	}
	w->frame = py_word(w, w->proc.frame_previous);
	if (w->proc.frame_owner != GS_PY_NONE &&
	    w->buf[w->proc.frame_owner & (GS_PY_FRAME_BYTES - 1)] >= 3)
		return 1;
	n = w->n;
	if (n >= GS_STACK_MAX) {
		w->flags |= GS_STACK_TRUNCATED;
		return 0;
	}
	code = py_word(w, w->proc.frame_code) & ~PY_TAG_BITS;
	if (bpf_probe_read_user(w->names, sizeof(w->names),
				(void *)(code + w->proc.code_filename)) != 0) {
		w->flags |= GS_STACK_PARTIAL;
		return 0;
	}
	if (py_is_cleanup(w, code))
		return 1;
	at = py_place(w, code, w->proc.frame_at);
	tag = py_tag(w);
	w->stack.frames[n].code = code;
	w->stack.frames[n].at = at;
	w->tag[n] = tag;
	w->hash = stack_mix(stack_mix(stack_mix(w->hash, code), at), tag);
	w->n = n + 1;
	return 1;
}

__noinline int py_frames(struct py_scratch *w)
{
	for (int i = 0; i < GS_STACK_MAX + PY_MAX_SKIP; i++)
		if (!py_frame_step(w))
			break;
	return 0;
}

/* --- code objects --- */

/* Keeps the compiler from proving a bound that the verifier does not see. */
#define PY_BOUND(v, mask)                                                                          \
	do {                                                                                       \
		asm volatile("" : "+r"(v));                                                        \
		(v) &= (mask);                                                                     \
	} while (0)

/* A str: what it is, and its first max bytes into out. */
static __always_inline void py_copy_text(struct py_scratch *w, __u64 text, struct gs_py_text *ret,
					 __u8 *out, __u32 max)
{
	__u64 length = 0, bytes;
	__u32 state = 0, kind;

	__builtin_memset(ret, 0, sizeof(*ret));
	if (bpf_probe_read_user(&length, 8, (void *)(text + w->proc.text_length)) != 0 ||
	    bpf_probe_read_user(&state, 4, (void *)(text + w->proc.text_state)) != 0)
		return;
	state >>= w->proc.text_shift & 31;
	kind = state & 7;
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4)) /* not compact */
		return;
	ret->address = text + (state & 16 ? w->proc.text_ascii : w->proc.text_compact);
	ret->length = length < 0xffffffff ? length : 0xffffffff;
	bytes = (__u64)ret->length * kind;
	/* max is a power of two; the last character of a text so long is left out. */
	if (bytes >= max)
		bytes = max - 4;
	PY_BOUND(bytes, max - 1);
	if (bpf_probe_read_user(out, bytes, (void *)ret->address) != 0)
		bytes = 0;
	ret->char_bytes = kind;
	ret->n_bytes = bytes;
}

/* Sends the code object with the piece of its line table at e->table_off. */
static __always_inline bool py_send_code(struct py_scratch *w)
{
	struct gs_event_code *e = &w->code;
	__u64 left = e->table_bytes - e->table_off;
	__u32 n = left < GS_PY_TABLE_BYTES ? left : GS_PY_TABLE_BYTES;

	PY_BOUND(n, 2 * GS_PY_TABLE_BYTES - 1);
	if (bpf_probe_read_user(w->table, n, (void *)(w->table_at + e->table_off)) != 0)
		n = 0;
	e->table_n_bytes = n;
	e->head.bytes = sizeof(*e) + n;
	return bpf_ringbuf_output(&gs_ring, e, sizeof(*e) + n, BPF_RB_NO_WAKEUP) == 0;
}

/* The next piece of a line table; false after the last. Not inlined: verified once. */
__noinline int py_piece_step(struct py_scratch *w)
{
	if (!w)
		return 0;
	w->code.table_off += GS_PY_TABLE_BYTES;
	if (w->code.table_off >= w->code.table_bytes || w->code.table_off >= GS_PY_TABLE_MAX)
		return 0;
	return py_send_code(w);
}

__noinline int py_pieces(struct py_scratch *w)
{
	for (int i = 0; i < GS_PY_TABLE_MAX / GS_PY_TABLE_BYTES; i++)
		if (!py_piece_step(w))
			break;
	return 0;
}

/* Sends the code object of frame number i, if that was not done. Not inlined: verified once. */
__noinline int py_code_step(struct py_scratch *w, __u32 i)
{
	struct gs_event_code *e;
	struct py_code_key key = {};
	__u64 *tag, own_tag, names[4], table, bytes = 0, name;

	if (!w || i >= GS_STACK_MAX || i >= w->n)
		return 0;
	key.code = w->stack.frames[i].code;
	key.pid = w->pid;
	tag = bpf_map_lookup_elem(&gs_py_codes, &key);
	if (tag && *tag == w->tag[i])
		return 1;
	if (bpf_probe_read_user(names, sizeof(names), (void *)(key.code + w->proc.code_filename)))
		return 1;
	/* Before 3.11: file, name, table; since: file, name, qualified name, table. */
	name = w->proc.version >= 0x030b ? names[2] : names[1];
	table = w->proc.version >= 0x030b ? names[3] : names[2];
	e = &w->code;
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = bpf_ktime_get_ns();
	e->code = key.code;
	e->pid = w->pid;
	e->tid = w->tid;
	e->version = w->proc.version;
	bpf_probe_read_user(&e->first_line, 4, (void *)(key.code + w->proc.code_first_line));
	py_copy_text(w, names[0], &e->file, e->file_text, GS_PY_FILE_BYTES);
	py_copy_text(w, name, &e->name, e->name_text, GS_PY_NAME_BYTES);
	bpf_probe_read_user(&bytes, 8, (void *)(table + w->proc.bytes_length));
	w->table_at = table + w->proc.bytes_data;
	e->table_bytes = bytes;
	e->head.kind = GS_EV_CODE;
	if (py_send_code(w)) {
		/* Linux 6.1 takes no argument of a global function as a map's value. */
		own_tag = w->tag[i];
		bpf_map_update_elem(&gs_py_codes, &key, &own_tag, BPF_ANY);
		py_pieces(w);
	}
	return 1;
}

__noinline int py_codes(struct py_scratch *w)
{
	for (__u32 i = 0; i < GS_STACK_MAX; i++)
		if (!py_code_step(w, i))
			break;
	return 0;
}

/* --- the whole --- */

/* The number of the stack in w; 0 when there is none. */
static __always_inline __u32 py_take(struct py_scratch *w, __u32 pid, __u32 tid, __u64 *known,
				     __u64 *retry_ns)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct stack_key key = {.kind = GS_STACK_PYTHON};
	__u64 at;
	__u32 id;

	w->n = 0;
	w->flags = 0;
	w->hash = 0;
	w->pid = key.pid = pid;
	w->tid = tid;
	w->self = BPF_CORE_READ(task, thread.fsbase);
	if (!py_find_state(w, known, retry_ns))
		return 0;
	at = py_word(w, w->proc.state_frame);
	/* Kept on the C stack up to 3.12, which a thread between two calls has not. */
	w->frame =
		at && w->proc.cframe_frame != GS_PY_NONE ? py_read(at + w->proc.cframe_frame) : at;
	py_frames(w);
	if (w->frame && !w->flags)
		w->flags |= GS_STACK_TRUNCATED;
	if (!w->n)
		return 0;
	key.hash = stack_mix(w->hash, w->flags);
	id = stack_known(&key);
	if (id)
		return id;
	py_codes(w);
	w->stack.head.n_frames = w->n;
	w->stack.head.flags = w->flags;
	id = stack_send(&w->stack, &key, w->tid);
	if (!id)
		w->flags |= GS_STACK_PARTIAL;
	return id;
}

/* The number of the Python stack of the present thread; 0 when it has none, while one that could not
 * be read is counted as lost. */
static __always_inline __u32 py_stack_now(__u32 pid, __u32 tid, __u64 *known, __u64 *retry_ns)
{
	struct gs_py_proc *proc = bpf_map_lookup_elem(&gs_py_procs, &pid);
	struct py_scratch *w;
	__u32 id;

	if (!proc)
		return 0;
	w = py_scratch_take();
	if (!w) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_STACK);
		return 0;
	}
	w->proc = *proc;
	id = py_take(w, pid, tid, known, retry_ns);
	if (w->flags & GS_STACK_PARTIAL)
		count_loss(GS_LAYER_PYTHON, GS_LOSS_STACK);
	w->busy = 0;
	return id;
}

/* The same of the thread that holds this slot. Not inlined, and global: each program that uses it is
 * verified without it. */
__noinline __u32 py_stack_of(__u32 slot)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);

	return t ? py_stack_now(t->pid, t->tid, &t->py_state, &t->py_retry_ns) : 0;
}

/* The Python stack at a call of this class, where one is asked for there; else 0. */
static __always_inline __u32 py_stack_at_call(__u32 slot, __u32 op)
{
	return gs_config.py_stack_at & stack_at_of(op) ? py_stack_of(slot) : 0;
}

/* The same at the end of an operator or user's probe that took so long. */
static __always_inline __u32 py_stack_at_scope(__u32 slot, __u64 dur_ns)
{
	if (!(gs_config.py_stack_at & GS_AT_SLOW_SCOPE) || dur_ns < gs_config.slow_scope_ns)
		return 0;
	return py_stack_of(slot);
}

#endif
