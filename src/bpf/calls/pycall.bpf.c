/*
 * Calls of Python functions, CPython 3.8 to 3.10: probes on the evaluation function, which is
 * entered once for each of them, and on the instructions by which it is left (sources/x86/exit.h),
 * or where these are not known or expensive on a static probe that is passed then. Of 3.11 there is only
 * that one, and of 3.12 to 3.14 only the function that clears a frame that has ended: calls are
 * counted, without a time.
 *
 *     frame (an argument) -> code object -> its number; a new one is asked for its file and name,
 *                                           which are compared with the patterns of the user and
 *                                           sent, once
 *
 * The number is the id of a scope from then on. A code object is known by its address, the process,
 * and a word made of its pointers to file, name and line table: another one in its place gets a
 * number of its own.
 *
 * What is read when a function is first met is in the scratch area of python.bpf.h.
 */
#include "scope.bpf.h"

/* Filled in before loading, by version from GS_PYCALL_FIRST on. */
const volatile struct gs_py_proc gs_py_layouts[GS_PYCALL_N] = {};
const volatile struct gs_py_glob gs_py_globs[GS_PY_GLOB_MAX] = {};
const volatile __u32 gs_n_py_globs = 0; /* 0: all functions are wanted */

#define LAYOUT_MASK 7

/* Of the address of a frame object: among those of one thread's stack no two are alike. */
#define FRAME_BITS(address) ((__u32)((address) >> 4))

/* The evaluation function, and what it calls to come to a static probe, have less than this on the
 * C stack (some hundred bytes). */
#define EVALUATE_BYTES 8192

/* A text is compared in at most so many steps: enough for what a line of code can be named. */
#define MAX_GLOB_STEPS 2048

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, struct gs_py_func_key);
	__type(value, struct gs_py_func);
} gs_py_funcs SEC(".maps");

/* Numbers that user space has taken back. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, GS_PYFUNC_KERNEL);
	__type(value, __u32);
} gs_free_pyfuncs SEC(".maps");

/* --- patterns --- */

/* Character i of a text; after its end 0. */
static __always_inline __u32 text_char(const struct gs_py_text *t, const __u8 *bytes, __u32 mask,
				       __u32 i)
{
	__u32 at = i * t->char_bytes;

	if (at >= t->n_bytes)
		return 0;
	if (t->char_bytes == 1)
		return bytes[at & mask];
	if (t->char_bytes == 2)
		return *(const __u16 *)(bytes + (at & mask & ~1u));
	return *(const __u32 *)(bytes + (at & mask & ~3u));
}

enum { GLOB_GOES_ON, GLOB_MATCHES, GLOB_DIFFERS };

/* One step of the comparison of a text with a pattern: * first stands for nothing, and for one
 * character more each time that what follows does not match. Not inlined: it is verified once. */
__noinline int gs_glob_step(__u32 scratch, __u32 glob, __u32 of_name)
{
	struct py_scratch *w = bpf_map_lookup_elem(&gs_py_scratch, &scratch);
	const volatile struct gs_py_pattern *p;
	__u32 text, want;

	if (!w)
		return GLOB_DIFFERS;
	glob &= GS_PY_GLOB_MAX - 1;
	p = of_name ? &gs_py_globs[glob].name : &gs_py_globs[glob].file;
	text = of_name ? text_char(&w->code.name, w->code.name_text, GS_PY_NAME_BYTES - 1,
				   w->text_at)
		       : text_char(&w->code.file, w->code.file_text, GS_PY_FILE_BYTES - 1,
				   w->text_at);
	want = w->glob_at < p->n ? p->chars[w->glob_at & (GS_PY_GLOB_CHARS - 1)] : 0;
	if (want == GS_PY_GLOB_ANY) {
		w->star_glob = ++w->glob_at;
		w->star_text = w->text_at;
		return w->glob_at >= p->n ? GLOB_MATCHES : GLOB_GOES_ON;
	}
	if (!text && !want)
		return GLOB_MATCHES;
	if (text && (want == GS_PY_GLOB_ONE || want == text)) {
		w->text_at++;
		w->glob_at++;
		return GLOB_GOES_ON;
	}
	if (!w->star_glob || !text)
		return GLOB_DIFFERS;
	w->glob_at = w->star_glob;
	w->text_at = ++w->star_text;
	return GLOB_GOES_ON;
}

__noinline int gs_glob_matches(__u32 scratch, __u32 glob, __u32 of_name)
{
	struct py_scratch *w = bpf_map_lookup_elem(&gs_py_scratch, &scratch);
	int r = GLOB_GOES_ON;

	if (!w)
		return 0;
	glob &= GS_PY_GLOB_MAX - 1;
	if (!(of_name ? gs_py_globs[glob].name.n : gs_py_globs[glob].file.n))
		return 1;
	w->text_at = w->glob_at = w->star_text = w->star_glob = 0;
	for (int i = 0; i < MAX_GLOB_STEPS && r == GLOB_GOES_ON; i++)
		r = gs_glob_step(scratch, glob, of_name);
	if (r == GLOB_MATCHES)
		return 1;
	/* The end of a path may be all of it. */
	if (of_name || gs_py_globs[glob].file.n < 2 ||
	    gs_py_globs[glob].file.chars[0] != GS_PY_GLOB_ANY ||
	    gs_py_globs[glob].file.chars[1] != '/')
		return 0;
	r = GLOB_GOES_ON;
	w->text_at = w->star_text = w->star_glob = 0;
	w->glob_at = 2;
	for (int i = 0; i < MAX_GLOB_STEPS && r == GLOB_GOES_ON; i++)
		r = gs_glob_step(scratch, glob, of_name);
	return r == GLOB_MATCHES;
}

__noinline int gs_pyfunc_wanted(__u32 scratch)
{
	if (!gs_n_py_globs)
		return 1;
	for (__u32 i = 0; i < GS_PY_GLOB_MAX && i < gs_n_py_globs; i++)
		if (gs_glob_matches(scratch, i, 0) && gs_glob_matches(scratch, i, 1))
			return 1;
	return 0;
}

/* --- functions --- */

static __always_inline __u32 number_take(void)
{
	struct gs_kernel_state *s = state_get();
	__u32 n = 0;

	if (bpf_map_pop_elem(&gs_free_pyfuncs, &n) == 0)
		return n;
	if (!s || s->n_pyfuncs >= GS_PYFUNC_KERNEL - 1)
		return 0;
	n = __sync_fetch_and_add(&s->n_pyfuncs, 1);
	return n < GS_PYFUNC_KERNEL ? GS_FUNC_MAX + n : 0;
}

/* The file and name of a code object into the scratch area, as the event that names them. */
__noinline int gs_pyfunc_read(__u32 scratch, __u64 code, __u32 layout)
{
	struct py_scratch *w = bpf_map_lookup_elem(&gs_py_scratch, &scratch);
	__u64 id = current_ids();
	struct gs_event_code *e;

	if (!w)
		return -1;
	if (layout >= GS_PYCALL_N)
		return -1;
	w->proc = *(const struct gs_py_proc *)&gs_py_layouts[layout];
	e = &w->code;
	__builtin_memset(e, 0, sizeof(*e));
	if (bpf_probe_read_user(w->names, sizeof(w->names), (void *)(code + w->proc.code_filename)))
		return -1;
	e->head.kind = GS_EV_PYFUNC;
	e->head.bytes = sizeof(*e);
	e->time_ns = bpf_ktime_get_ns();
	e->code = code;
	e->pid = id >> 32;
	e->tid = (__u32)id;
	e->version = w->proc.version;
	bpf_probe_read_user(&e->first_line, 4, (void *)(code + w->proc.code_first_line));
	py_copy_text(w, w->names[0], &e->file, e->file_text, GS_PY_FILE_BYTES);
	py_copy_text(w, w->names[1], &e->name, e->name_text, GS_PY_NAME_BYTES);
	return 0;
}

/* A function that is met for the first time, or whose name found no room in the ring before. Its
 * number; 0: it is not wanted, or (counted) has none. */
__noinline __u32 gs_pyfunc_meet(__u64 code, __u64 tag, __u32 layout)
{
	struct gs_py_func_key key = {.code = code, .pid = current_ids() >> 32};
	struct gs_py_func now = {.tag = tag}, *old = bpf_map_lookup_elem(&gs_py_funcs, &key);
	struct py_scratch *w = NULL;
	__u32 scratch = 0;

	if (old && old->tag == tag)
		now.number = old->number;
	for (int i = 0; i < PY_N_SCRATCH; i++) {
		__u32 k = i;

		w = bpf_map_lookup_elem(&gs_py_scratch, &k);
		scratch = i;
		if (w && __sync_val_compare_and_swap(&w->busy, 0, 1) == 0)
			break;
		w = NULL;
	}
	if (!w) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
		return 0;
	}
	if (gs_pyfunc_read(scratch, code, layout)) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
		w->busy = 0;
		return 0;
	}
	if (!now.number && !py_is_cleanup(w, code) && gs_pyfunc_wanted(scratch)) {
		now.number = number_take();
		if (!now.number) {
			count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
			w->busy = 0;
			return 0;
		}
	}
	w->code.func = now.number;
	now.is_sent = !now.number || bpf_ringbuf_output(&gs_ring, &w->code, sizeof(w->code),
							BPF_RB_NO_WAKEUP) == 0;
	w->busy = 0;
	bpf_map_update_elem(&gs_py_funcs, &key, &now, BPF_ANY);
	return now.number;
}

/* The number of the function that a frame runs. */
static __always_inline __u32 pyfunc_of(__u64 code, __u32 layout)
{
	struct gs_py_func_key key = {.code = code, .pid = current_ids() >> 32};
	struct gs_py_func *f;
	__u64 names[4], tag;

	/* Its file, its name and its line table (in 3.11: after the qualified name): as py_tag().
	 */
	if (bpf_probe_read_user(names, sizeof(names),
				(void *)(code + gs_py_layouts[layout].code_filename))) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
		return 0;
	}
	tag = stack_mix(stack_mix(stack_mix(0, names[0]), names[1]), names[2]);
	if (layout >= GS_PYCALL_LEFT)
		tag = stack_mix(tag, names[3]);
	f = bpf_map_lookup_elem(&gs_py_funcs, &key);
	if (f && f->tag == tag && f->is_sent)
		return f->number;
	return gs_pyfunc_meet(code, tag, layout);
}

/* --- calls --- */

/* _PyEval_EvalFrameDefault(PyFrameObject *f, int throwflag) in 3.8; (PyThreadState *tstate,
 * PyFrameObject *f, int throwflag) from 3.9 on: Python/ceval.c. */
static __always_inline void pycall_enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 layout = cookie >> GS_COOKIE_CC_SHIFT & LAYOUT_MASK;
	__u64 first = ctx->di, second = ctx->si, frame, place;
	struct gs_kernel_state *state = state_get();
	__u32 number, slot;
	struct gs_thread *t;
	__s32 last = -1;
	__u64 code = 0;

	if (!state || state->stopped)
		return;
	/* Else the compiler chooses the place in the context, which the verifier refuses. */
	asm volatile("" : "+r"(first), "+r"(second));
	frame = layout == 0 ? first : second;
	/* Of a thread that is not followed nothing is read. */
	t = thread_same(&slot);
	if (!t)
		t = thread_find(state, GS_LAYER_PYTHON, &slot);
	if (!t || turn_skips(t, cookie))
		return;
	if (bpf_probe_read_user(&code, sizeof(code),
				(void *)(frame + gs_py_layouts[layout].frame_code))) {
		count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
		return;
	}
	number = pyfunc_of(code, layout);
	/* It has passed the probe: what that costs is part of the cost of all. */
	if (!number)
		gs_scope_skip(slot, gs_config.py_func, GS_LAYER_PYTHON, true);
	if (!number || !scope_begin(ctx, t, slot, number, GS_LAYER_PYTHON, &place))
		return;
	/* A frame that has not run yet stands before its first instruction. */
	bpf_probe_read_user(&last, sizeof(last), (void *)(frame + gs_py_layouts[layout].frame_at));
	if (last >= 0)
		t->scope[place >> 16 & SCOPE_MASK].resumed = 1;
	t->scope[place >> 16 & SCOPE_MASK].frame = FRAME_BITS(frame);
}

/* The number of the Python function's scope that was opened with this stack pointer; GS_SCOPE_MAX:
 * there is none. Not inlined: what follows is verified once. */
__noinline int gs_pycall_find(__u32 slot, __u64 sp)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth = t ? t->scope_depth : 0;

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++) {
		struct gs_scope *s = &t->scope[(depth - 1) & SCOPE_MASK];

		if (s->sp > sp)
			break;
		depth--;
		if (s->sp == sp && is_pyfunc(s->func))
			return depth;
	}
	return GS_SCOPE_MAX;
}

/* Ends the function that was entered with a stack pointer so far above the present one. There is
 * none when it was not wanted, or too deep. */
static __always_inline void pycall_leave(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp + (cookie >> GS_COOKIE_FRAME_SHIFT);
	struct gs_kernel_state *state = state_get();
	struct gs_thread *t;
	__u32 slot, depth;

	if (!state || state->stopped)
		return;
	t = thread_known(&slot);
	if (!t || turn_skips(t, cookie))
		return;
	if (!t->scope_depth || t->scope[(t->scope_depth - 1) & SCOPE_MASK].sp > sp)
		return;
	depth = gs_pycall_find(slot, sp);
	if (depth >= GS_SCOPE_MAX)
		return;
	if (t->scope_depth > depth + 1)
		count_loss(GS_LAYER_PYTHON, GS_LOSS_UNMATCHED);
	scope_close(ctx, t, slot, depth, now, 0);
}

/* --- the static probe where functions are left --- */

/* The frame of the thread that has the lock, which is this one: _PyRuntime -> thread state ->
 * frame, in 3.11 by way of _PyCFrame. 0: it could not be read, and that is counted. */
static __always_inline __u64 frame_now(const struct pt_regs *ctx, __u64 cookie, __u32 layout)
{
	const volatile struct gs_py_proc *p = &gs_py_layouts[layout];
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 ip = ctx->ip, at;

	at = (ip & ~(GS_PYCALL_WORD - 1)) + (cookie >> GS_COOKIE_FRAME_SHIFT) * GS_PYCALL_WORD;
	at = py_read(at + p->runtime_current);
	if (at && py_read(at + p->state_thread_id) == BPF_CORE_READ(task, thread.fsbase))
		at = py_read(at + p->state_frame);
	else
		at = 0;
	if (at && p->cframe_frame != GS_PY_NONE)
		at = py_read(at + p->cframe_frame);
	if (!at)
		count_loss(GS_LAYER_PYTHON, GS_LOSS_PYFUNC);
	return at;
}

/* Python 3.11 and newer: calls are only known when they end. From 3.12 on the frame is the second
 * argument of void _PyEvalFrameClearAndPop(PyThreadState *, _PyInterpreterFrame *), whose pointer to
 * the code has flags in its low bits (3.14). */
static __always_inline void pycall_count(const struct pt_regs *ctx, __u64 cookie, __u32 layout)
{
	struct gs_kernel_state *state = state_get();
	__u64 frame = ctx->si, code = 0;
	__u32 number, slot;
	struct gs_thread *t;

	if (!state || state->stopped)
		return;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(state, GS_LAYER_PYTHON, &slot);
	if (!t || turn_skips(t, cookie))
		return;
	if (layout == GS_PYCALL_LEFT)
		frame = frame_now(ctx, cookie, layout);
	if (!frame)
		return;
	code = py_read(frame + gs_py_layouts[layout].frame_code) & ~PY_TAG_BITS;
	number = pyfunc_of(code, layout);
	if (!number)
		gs_scope_skip(slot, gs_config.py_func, GS_LAYER_PYTHON, true);
	else if (gs_config.modes && mode_skips(mode_of(number)))
		gs_scope_skip(slot, number, GS_LAYER_PYTHON, false);
	else
		gs_scope_untimed(slot, number, GS_LAYER_PYTHON);
}

/* The innermost scope of a Python function with this frame; GS_SCOPE_MAX: there is none. It is of
 * the evaluation function that the probe is in, or that called what the probe is in. */
__noinline int gs_pycall_of_frame(__u32 slot, __u64 sp, __u32 frame)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	__u32 depth = t ? t->scope_depth : 0;

	for (int i = 0; i < GS_SCOPE_MAX && depth && t; i++) {
		struct gs_scope *s = &t->scope[(depth - 1) & SCOPE_MASK];

		if (s->sp > sp + EVALUATE_BYTES)
			break;
		depth--;
		if (s->frame == frame && is_pyfunc(s->func))
			return depth;
	}
	return GS_SCOPE_MAX;
}

/* Python 3.8 to 3.10, where the evaluation function was entered as elsewhere. */
static __always_inline void pycall_end(const struct pt_regs *ctx, __u64 cookie, __u32 layout)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp, frame;
	struct gs_kernel_state *state = state_get();
	struct gs_thread *t;
	__u32 slot, depth;

	if (!state || state->stopped)
		return;
	t = thread_known(&slot);
	if (!t || turn_skips(t, cookie) || !t->scope_depth)
		return;
	frame = frame_now(ctx, cookie, layout);
	if (!frame)
		return;
	depth = gs_pycall_of_frame(slot, sp, FRAME_BITS(frame));
	if (depth >= GS_SCOPE_MAX)
		return;
	if (t->scope_depth > depth + 1)
		count_loss(GS_LAYER_PYTHON, GS_LOSS_UNMATCHED);
	scope_close(ctx, t, slot, depth, now, 0);
}

SEC("?uprobe")
int gs_pycall_site(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 layout = cookie >> GS_COOKIE_CC_SHIFT & LAYOUT_MASK;

	if (layout >= GS_PYCALL_N)
		return 0;
	if (cookie & GS_COOKIE_STEPPED)
		scope_step(cookie, GS_LAYER_PYTHON);
	if (!(cookie & GS_COOKIE_EXIT))
		pycall_enter(ctx, cookie);
	else if (cookie & (GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN)) {
		if (cookie_leaves(ctx, cookie))
			pycall_leave(ctx, cookie);
	} else if (layout == GS_PYCALL_LEFT) {
		pycall_count(ctx, cookie, GS_PYCALL_LEFT);
	} else if (layout == GS_PYCALL_CLEARED) {
		pycall_count(ctx, cookie, GS_PYCALL_CLEARED);
	} else {
		pycall_end(ctx, cookie, layout);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
