/*
 * Probes that the user describes, and static probes (USDT): one generic program that follows a row
 * of a table (model/user_probe.h), which the probe's cookie names. Nothing is compiled on the
 * machine that is traced.
 *
 * What is read at the entry waits in a frame of the thread for the return. The frame is at the same
 * time the event: it is copied into the ring as it stands. It belongs to the thread alone, so that
 * a program that is interrupted by another thread's finds it as it left it; a per-CPU buffer would
 * not be.
 *
 * What reads values, filters and adds up are functions of their own in the verifier's eyes (global,
 * with numbers for arguments), looked at once each: inlined, or with pointers, they multiply.
 */
#include "scope.bpf.h"
#include "session.bpf.h"

#include "model/user_probe.h"

#define OPEN_MASK (GS_USER_DEPTH_MAX - 1)
#define VALUE_STR 5 /* GS_VALUE_STR of model/record_stack.h */

#define OPERAND_MASK (GS_USER_STACK_MAX - 1)
#define N_REGS       21 /* of struct pt_regs */
#define REG_AX       10
#define REG_SP       19

struct user_frame {
	__u64 start_ns;
	__u64 sp; /* 0: closed, but others of the same call above it are not */
	__u64 ip;
	__u64 reg[N_REGS];                /* as they were when the probe was hit */
	__u64 operand[GS_USER_STACK_MAX]; /* of the filter */
	volatile __u64 n_operands;        /* lest it be kept in a register */
	struct gs_event_values e;
};

struct user_thread {
	__u32 tid;
	__u32 depth;
	struct user_frame frame[GS_USER_DEPTH_MAX];
};

/* Filled by user space, a row before the first probe that names it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GS_USER_ROW_MAX);
	__type(key, __u32);
	__type(value, struct gs_user_row);
} gs_user_rows SEC(".maps");

/* By the slot of the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GS_THREAD_MAX);
	__type(key, __u32);
	__type(value, struct user_thread);
} gs_user_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GS_USER_CELL_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gs_user_cell_key);
	__type(value, struct gs_user_cell);
} gs_user_cells SEC(".maps");

/* A cell that is new. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gs_user_cell);
} gs_user_no_cell SEC(".maps");

/* --- values --- */

/* What is not in memory at this moment, such as a constant that nobody has looked at before, reads
 * as not there: a program that may wait for it (BPF_F_SLEEPABLE) may not use the queue of free
 * thread slots, nor the map of cgroups. */
static __always_inline bool read_memory(void *to, __u32 bytes, __u64 from)
{
	return bpf_probe_read_user(to, bytes, (void *)from) == 0;
}

static __always_inline __u64 narrow(__u64 v, __u32 bytes, bool is_signed)
{
	__u32 shift = (64 - bytes * 8) & 63;

	v <<= shift;
	return is_signed ? (__u64)((__s64)v >> shift) : v >> shift;
}

static __always_inline __u64 read_register(const struct user_frame *f, __u32 reg)
{
	return reg < N_REGS ? f->reg[reg] : 0;
}

/* Where the way to the value begins. */
static __always_inline bool value_start(const struct user_frame *f, const struct gs_user_value *v,
					__u64 *ret)
{
	if (v->from == GS_FROM_STACK)
		return read_memory(ret, sizeof(*ret), f->reg[REG_SP] + v->add);
	/* No register is one beyond the last; a constant has none. */
	*ret = (read_register(f, v->reg) >> (v->shift & 63)) +
	       (read_register(f, v->index_reg) << (v->index_shift & 3)) + v->add;
	return true;
}

/* From there to the value itself. */
static __always_inline bool value_follow(const struct gs_user_value *v, __u64 a, __u64 *ret)
{
	for (int i = 0; i < GS_USER_CHAIN_MAX; i++) {
		__u32 bytes = i + 1 == v->n_chain ? v->bytes : 8;
		__u64 next = 0;

		if (i >= v->n_chain)
			break;
		if (bytes > 8)
			bytes = 8;
		if (!read_memory(&next, bytes, a + v->chain[i]))
			return false;
		a = next;
	}
	*ret = narrow(a, v->bytes, v->is_signed);
	return true;
}

/* As gs_user_hash() of model/user_probe.h. */
static __always_inline __u64 hash_text(const struct user_frame *f, __u32 slot)
{
	__u64 h = 0xcbf29ce484222325ull;

	for (int i = 0; i < GS_USER_TEXT_BYTES - 1; i++) {
		__u8 c = f->e.text[slot][i];

		if (!c)
			break;
		h = (h ^ c) * 0x100000001b3ull;
	}
	return h;
}

/* The string that value i points to, or, in place, so many bytes of memory or fewer. */
static __always_inline bool read_text(struct user_frame *f, const struct gs_user_value *v, __u32 i,
				      bool hash)
{
	__u32 slot = v->text;
	__u64 from = f->e.value[i];
	char *text;

	if (slot >= GS_USER_TEXT_MAX)
		return false;
	text = f->e.text[slot];
	f->e.value[i] = 0;
	if (v->text_bytes) {
		__u32 n = v->text_bytes & (GS_USER_TEXT_BYTES - 1);

		if (bpf_probe_read_user(text, n, (void *)(from + v->text_add)))
			return false;
		text[n] = 0;
	} else if (bpf_probe_read_user_str(text, GS_USER_TEXT_BYTES, (void *)from) < 0) {
		return false;
	}
	if (hash)
		f->e.value[i] = hash_text(f, slot);
	return true;
}

static __always_inline struct user_frame *frame_of(__u32 slot, __u32 depth)
{
	struct user_thread *u = bpf_map_lookup_elem(&gs_user_threads, &slot);

	return u ? &u->frame[depth & OPEN_MASK] : NULL;
}

static __always_inline bool read_value(struct user_frame *f, const struct gs_user_row *row, __u32 i,
				       bool is_return)
{
	const struct gs_user_value *v = &row->values[i];
	__u64 x = f->e.value[i];

	if (!(is_return && v->when == GS_WHEN_MEMORY_LATER) && !value_start(f, v, &x))
		return false;
	f->e.value[i] = x;
	if (!is_return && v->when == GS_WHEN_MEMORY_LATER)
		return true;
	if (!value_follow(v, x, &x))
		return false;
	f->e.value[i] = x;
	return v->value_type != VALUE_STR || read_text(f, v, i, row->flags & GS_USER_HASH);
}

/* Those values that are to be read now. */
__noinline int user_read_values(__u32 slot, __u32 depth, __u32 row_id, __u32 is_return)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = frame_of(slot, depth);

	if (!row || !f)
		return 0;
	for (__u32 i = 0; i < GS_USER_VALUE_MAX; i++) {
		const struct gs_user_value *v = &row->values[i];

		if (i >= row->n_values)
			break;
		if (v->when == (is_return ? GS_WHEN_ENTRY : GS_WHEN_RETURN))
			continue;
		if (read_value(f, row, i, is_return))
			continue;
		f->e.value[i] = 0;
		f->e.unread |= 1u << i;
		if (v->value_type == VALUE_STR && v->text < GS_USER_TEXT_MAX)
			f->e.text[v->text][0] = 0;
	}
	return 0;
}

/* --- filters --- */

static __always_inline __u64 divide(__u64 a, __u64 b, bool is_signed, bool rest)
{
	bool minus_a = is_signed && (__s64)a < 0, minus_b = is_signed && (__s64)b < 0;
	__u64 r;

	/* The instruction set has no signed division before v4. By zero is zero, as it defines. */
	if (!b)
		return 0;
	a = minus_a ? -a : a;
	b = minus_b ? -b : b;
	r = rest ? a % b : a / b;
	return (rest ? minus_a : minus_a != minus_b) ? -r : r;
}

static __always_inline __u64 operate(__u32 code, __u64 a, __u64 b)
{
	__s64 sa = a, sb = b;

	switch (code) {
	case GS_OP_ADD:
		return a + b;
	case GS_OP_SUB:
		return a - b;
	case GS_OP_MUL:
		return a * b;
	case GS_OP_DIV:
	case GS_OP_DIV_S:
		return divide(a, b, code == GS_OP_DIV_S, false);
	case GS_OP_MOD:
	case GS_OP_MOD_S:
		return divide(a, b, code == GS_OP_MOD_S, true);
	case GS_OP_BIT_AND:
		return a & b;
	case GS_OP_BIT_OR:
		return a | b;
	case GS_OP_BIT_XOR:
		return a ^ b;
	case GS_OP_SHL:
		return b < 64 ? a << (b & 63) : 0;
	case GS_OP_SHR:
		return b < 64 ? a >> (b & 63) : 0;
	case GS_OP_SHR_S:
		return sa >> (b < 64 ? b & 63 : 63);
	case GS_OP_EQ:
		return a == b;
	case GS_OP_NE:
		return a != b;
	case GS_OP_LT:
		return a < b;
	case GS_OP_LT_S:
		return sa < sb;
	case GS_OP_LE:
		return a <= b;
	case GS_OP_LE_S:
		return sa <= sb;
	case GS_OP_GT:
		return a > b;
	case GS_OP_GT_S:
		return sa > sb;
	case GS_OP_GE:
		return a >= b;
	case GS_OP_GE_S:
		return sa >= sb;
	case GS_OP_AND:
		return a && b;
	case GS_OP_OR:
		return a || b;
	}
	return 0;
}

static __always_inline __u64 push(const struct gs_user_op *op, const struct user_frame *f,
				  __u64 dur_ns)
{
	switch (op->code) {
	case GS_OP_VALUE:
		return f->e.value[op->arg & (GS_USER_VALUE_MAX - 1)];
	case GS_OP_DURATION:
		return dur_ns;
	case GS_OP_PID:
		return current_ids() >> 32;
	case GS_OP_TID:
		return (__u32)current_ids();
	}
	return op->imm;
}

/* The operands and how many there are, are in the frame, whose content the verifier does not
 * follow: in registers each step would multiply the states it has to look at. */
__noinline int user_filter_passes(__u32 slot, __u32 depth, __u32 row_id, __u64 dur_ns)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = frame_of(slot, depth);

	if (!row || !f)
		return 0;
	f->n_operands = 0;
	for (int i = 0; i < GS_USER_OP_MAX; i++) {
		const struct gs_user_op *op = &row->ops[i];
		__u32 n = f->n_operands, top = (n - 1) & OPERAND_MASK;
		__u64 a;

		if (i >= row->n_ops)
			break;
		if (op->code <= GS_OP_TID) {
			f->operand[n & OPERAND_MASK] = push(op, f, dur_ns);
			f->n_operands = n + 1;
			continue;
		}
		a = f->operand[top];
		if (op->code <= GS_OP_NEGATE) {
			f->operand[top] = op->code == GS_OP_NOT      ? !a
					  : op->code == GS_OP_INVERT ? ~a
								     : -a;
			continue;
		}
		n = (n - 2) & OPERAND_MASK;
		f->operand[n] = operate(op->code, f->operand[n], a);
		f->n_operands = n + 1;
	}
	return f->operand[0] != 0;
}

/* --- what becomes of a call --- */

static __always_inline struct gs_user_cell *user_cell_get(const struct gs_user_row *row,
							  __u32 row_id)
{
	__u64 id = current_ids();
	struct gs_user_cell_key key = {.pid = id >> 32, .tid = (__u32)id, .func = row->func};
	struct gs_user_cell *c;
	__u32 zero = 0;

	if (row->aggregate)
		key.row = row_id; /* the value's name and type are those of the row */
	c = bpf_map_lookup_elem(&gs_user_cells, &key);
	if (c)
		return c;
	c = bpf_map_lookup_elem(&gs_user_no_cell, &zero);
	if (c)
		bpf_map_update_elem(&gs_user_cells, &key, c, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&gs_user_cells, &key);
	if (c)
		bpf_get_current_comm(c->comm, sizeof(c->comm));
	else
		lose(row->layer, GS_LOSS_NO_CELL);
	return c;
}

static __always_inline void add_value(struct gs_user_cell *c, __u64 v, bool is_signed)
{
	__u32 bucket = gs_hist_bucket(is_signed && (__s64)v < 0 ? 0 : v);

	if (!c->n_values || (is_signed ? (__s64)v < (__s64)c->min : v < c->min))
		c->min = v;
	if (!c->n_values || (is_signed ? (__s64)v > (__s64)c->max : v > c->max))
		c->max = v;
	c->n_values++;
	c->sum += v;
	if (bucket < GS_HIST_N_BUCKETS)
		c->hist[bucket]++;
}

__noinline int user_add_up(__u32 slot, __u32 depth, __u32 row_id, __u64 dur_ns)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = frame_of(slot, depth);
	__u32 bucket = gs_hist_bucket(dur_ns), i;
	struct gs_user_cell *c;

	if (!row || !f)
		return 0;
	c = user_cell_get(row, row_id);
	if (!c)
		return 0;
	i = row->aggregate_value;
	c->calls++;
	c->total_ns += dur_ns;
	if (dur_ns > c->max_ns)
		c->max_ns = dur_ns;
	c->bytes += f->e.call.bytes;
	if (bucket < GS_HIST_N_BUCKETS)
		c->hist_ns[bucket]++;
	if (i < GS_USER_VALUE_MAX && !(f->e.unread & 1u << i))
		add_value(c, f->e.value[i], row->values[i].is_signed);
	return 0;
}

static __always_inline __u64 picked(const struct user_frame *f, __u32 i)
{
	return i < GS_USER_VALUE_MAX ? f->e.value[i] : 0;
}

/* The stacks that the row asks for: at the entry of a place, else at the return, where the
 * innermost function is the one that called. */
static __always_inline void take_stacks(const struct pt_regs *ctx, const struct gs_user_row *row,
					struct gs_event_call *e, __u32 slot)
{
	struct native_regs regs;

	e->py_stack = e->native_stack = 0;
	if (gs_config.py_stack_at & GS_AT_PROBE && row->flags & GS_USER_PY_STACK)
		e->py_stack = py_stack_of(slot);
	if (gs_config.native_stack_at & GS_AT_PROBE && row->flags & GS_USER_NATIVE_STACK) {
		native_take_regs(&regs, ctx);
		e->native_stack = native_send(&regs, row->layer, row->flags & GS_USER_RETURN);
	}
}

static __always_inline bool send(const struct pt_regs *ctx, const struct gs_user_row *row,
				 __u32 row_id, struct user_frame *f, const struct gs_thread *t,
				 __u32 slot, __u32 scope_depth, __u64 dur_ns)
{
	__u32 bytes = sizeof(struct gs_event_call), n_texts = row->n_texts;
	struct gs_event_call *e = &f->e.call;

	e->head.kind = GS_EV_CALL;
	if (row->n_values && !(row->flags & GS_USER_FIELDS)) {
		if (n_texts > GS_USER_TEXT_MAX)
			n_texts = GS_USER_TEXT_MAX;
		bytes = GS_EVENT_VALUES_BYTES(0) + n_texts * GS_USER_TEXT_BYTES;
		e->head.kind = GS_EV_VALUES;
	}
	e->head.bytes = bytes;
	e->head.pad = 0;
	e->start_ns = f->start_ns;
	e->dur_ns = dur_ns;
	e->pid = t->pid;
	e->tid = t->tid;
	e->ret = 0;
	e->func = row->func;
	e->cpu = bpf_get_smp_processor_id();
	e->depth = scope_depth;
	e->flags = f->e.unread ? GS_CALL_ARGS_UNREAD : 0;
	if (!(row->flags & GS_USER_RETURN))
		e->flags |= GS_CALL_INSTANT;
	e->scope = scope_depth ? t->scope[(scope_depth - 1) & SCOPE_MASK].func : 0;
	e->aux = picked(f, row->v_aux);
	e->stream = picked(f, row->v_stream);
	e->arg[0] = picked(f, row->v_arg0);
	e->arg[1] = e->arg[2] = e->arg[3] = 0;
	take_stacks(ctx, row, e, slot);
	f->e.row = row_id;
	f->e.n_values = row->n_values;
	f->e.n_texts = n_texts;
	return bpf_ringbuf_output(&gs_ring, e, bytes, BPF_RB_NO_WAKEUP) == 0;
}

/* A call with all its values read: filtered, then sent or added up. */
static __always_inline void account(const struct pt_regs *ctx, const struct gs_user_row *row,
				    __u32 row_id, struct user_frame *f, const struct gs_thread *t,
				    __u32 slot, __u32 depth, __u32 scope_depth, __u64 dur_ns)
{
	f->e.call.bytes = picked(f, row->v_bytes);
	if (!row->aggregate && (gs_config.events || row->flags & GS_USER_ALWAYS)) {
		if (mode_of(row->func) != GS_MODE_EVENTS)
			lose(row->layer, GS_LOSS_THINNED);
		else if (row->flags & GS_USER_RETURN && dur_ns < gs_config.min_dur_ns)
			lose(row->layer, GS_LOSS_SHORT);
		else if (send(ctx, row, row_id, f, t, slot, scope_depth, dur_ns))
			return;
		else
			lose(row->layer, GS_LOSS_RING_FULL);
	}
	user_add_up(slot, depth, row_id, dur_ns);
}

/* --- entry --- */

static __always_inline struct user_thread *user_thread_get(const struct gs_thread *t, __u32 slot)
{
	struct user_thread *u = bpf_map_lookup_elem(&gs_user_threads, &slot);

	if (u && u->tid != t->tid) { /* the slot was another thread's */
		u->tid = t->tid;
		u->depth = 0;
	}
	return u;
}

/* Frames below the stack pointer were left by a jump; so was one at the same place of another
 * function, by a tail call. Several probes of one function open frames at the same place: in these
 * the instruction is the same, and no row comes twice. A place inside a function (is_place) may
 * have the stack pointer of its entry. */
static __always_inline void drop_stale(struct user_thread *u, __u64 sp, __u64 ip, __u32 row_id,
				       __u32 layer, bool is_place)
{
	__u32 depth = u->depth;

	for (int i = 0; i < GS_USER_DEPTH_MAX && depth; i++) {
		struct user_frame *f = &u->frame[(depth - 1) & OPEN_MASK];

		if (f->sp > sp ||
		    (f->sp == sp && (is_place || (f->ip == ip && f->e.row != row_id))))
			break;
		depth--;
		if (f->sp)
			lose(layer, GS_LOSS_UNMATCHED);
	}
	u->depth = depth;
}

/* The frame is closed, and with it go those on top that are closed too, or were left by a jump.
 * Probes of one function see its return in the order in which they saw its entry, so those above
 * may still be open. */
static __always_inline void frame_close(struct user_thread *u, struct user_frame *f)
{
	__u64 sp = f->sp;
	__u32 depth = u->depth;

	f->sp = 0;
	for (int i = 0; i < GS_USER_DEPTH_MAX && depth; i++) {
		if (u->frame[(depth - 1) & OPEN_MASK].sp >= sp)
			break;
		depth--;
	}
	u->depth = depth;
}

/* The probe as the scope of what is called inside. Returns how many are open around it. */
static __always_inline __u32 scope_open(struct gs_thread *t, __u32 slot, __u64 sp,
					const struct gs_user_row *row, __u64 now, bool is_second)
{
	__u32 depth = t->scope_depth;
	struct gs_scope *s;

	if (!(row->flags & GS_USER_RETURN)) {
		for (int i = 0; i < GS_SCOPE_MAX && depth; i++, depth--)
			if (t->scope[(depth - 1) & SCOPE_MASK].sp >= sp)
				break;
		return depth;
	}
	/* Of several probes of one function the first is the scope. */
	if (is_second && depth)
		return depth - 1;
	if (depth)
		depth = scope_drop_stale(t, slot, depth, sp, row->func);
	t->scope_depth = depth;
	if (depth >= GS_SCOPE_MAX)
		return depth;
	s = &t->scope[depth & SCOPE_MASK];
	s->start_ns = now;
	s->sp = sp;
	s->func = row->func;
	s->layer = row->layer;
	s->resumed = 0;
	s->cell = 0;
	s->inside_ns = 0;
	s->launches = 0;
	t->scope_depth = depth + 1;
	return depth;
}

/* True when a return is wanted: *ret_place, never 0, names the frame. */
static __always_inline bool user_enter(struct pt_regs *ctx, __u64 *ret_place)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 row_id = cookie & (GS_USER_ROW_MAX - 1), slot, depth, scope;
	struct gs_kernel_state *state = state_get();
	const struct gs_user_row *row;
	struct user_thread *u;
	struct user_frame *f;
	struct gs_thread *t;
	/* Read once: of a second read the compiler makes a pointer into the context, which the
	 * verifier refuses. */
	__u64 now, sp = ctx->sp, ip = ctx->ip;
	bool is_second = false;

	row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	if (!row || !row->func || !state || state->stopped)
		return false;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(state, row->layer, &slot);
	if (!t || turn_skips(t, cookie))
		return false;
	if (cookie & GS_COOKIE_STEPPED)
		gs_step_add(slot, row->func, row->layer, false);
	if (gs_config.modes && mode_skips(mode_of(row->func))) {
		gs_scope_skip(slot, row->func, row->layer, false);
		return false;
	}
	u = user_thread_get(t, slot);
	if (!u)
		return false;
	drop_stale(u, sp, ip, row_id, row->layer, !(row->flags & GS_USER_RETURN));
	depth = u->depth;
	if (depth >= GS_USER_DEPTH_MAX) {
		lose(row->layer, GS_LOSS_TOO_DEEP);
		return false;
	}
	if (depth)
		is_second = u->frame[(depth - 1) & OPEN_MASK].sp == sp;
	f = &u->frame[depth & OPEN_MASK];
	f->ip = ip;
	f->e.unread = 0;
	f->e.row = row_id;
	f->sp = sp;
	if (row->n_values) {
		bpf_probe_read_kernel(f->reg, sizeof(f->reg), ctx);
		user_read_values(slot, depth, row_id, false);
	}
	if (row->n_ops && !(row->flags & GS_USER_FILTER_LATE) &&
	    !user_filter_passes(slot, depth, row_id, 0)) {
		gs_scope_skip(slot, row->func, row->layer, true);
		return false;
	}
	now = bpf_ktime_get_ns();
	f->start_ns = now;
	scope = scope_open(t, slot, sp, row, now, is_second);
	if (!(row->flags & GS_USER_RETURN)) {
		account(ctx, row, row_id, f, t, slot, depth, scope, 0);
		return false;
	}
	u->depth = depth + 1;
	*ret_place = slot | (__u64)depth << 16 | (__u64)(scope & 255) << 24 | (__u64)row_id << 32 |
		     1ull << 63;
	return true;
}

/* --- return --- */

static __always_inline void user_close(struct pt_regs *ctx, struct gs_thread *t,
				       struct user_thread *u, __u32 slot, __u32 depth, __u32 row_id,
				       __u64 now)
{
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct user_frame *f = &u->frame[depth & OPEN_MASK];
	__u64 dur_ns = now - f->start_ns, sp = f->sp;
	__u32 scope = t->scope_depth;

	frame_close(u, f);
	if (!row || !sp)
		return;
	/* The scope that was opened with the same stack pointer, and what is still open inside. */
	for (int i = 0; i < GS_SCOPE_MAX && scope; i++) {
		struct gs_scope *s = &t->scope[(scope - 1) & SCOPE_MASK];

		if (s->sp > sp || (s->sp == sp && s->func != row->func))
			break;
		scope--;
		if (s->sp == sp) {
			scope_settle(t, scope, dur_ns);
			break;
		}
	}
	t->scope_depth = scope;
	if (row->n_values) {
		f->reg[REG_AX] = ctx->ax;
		user_read_values(slot, depth, row_id, true);
	}
	if (row->n_ops && row->flags & GS_USER_FILTER_LATE &&
	    !user_filter_passes(slot, depth, row_id, dur_ns)) {
		gs_scope_skip(slot, row->func, row->layer, true);
		return;
	}
	account(ctx, row, row_id, f, t, slot, depth, scope, dur_ns);
}

static __always_inline void user_leave(struct pt_regs *ctx, __u64 place)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = place & 0xffff, depth = place >> 16 & 0xff, row_id = place >> 32 & 0xffff;
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct user_thread *u = bpf_map_lookup_elem(&gs_user_threads, &slot);
	struct gs_kernel_state *state = state_get();

	if (!t || !u || !state || state->stopped)
		return;
	if (u->tid != t->tid || depth >= u->depth || u->frame[depth & OPEN_MASK].e.row != row_id) {
		lose(GS_LAYER_USER, GS_LOSS_UNMATCHED);
		return;
	}
	user_close(ctx, t, u, slot, depth, row_id, now);
}

/* A return caught by a probe of its own: its frame is the one that was opened with the same stack
 * pointer (at a return it is one word higher: the return address is gone). */
static __always_inline void user_leave_unpaired(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp - 8;
	__u32 row_id = bpf_get_attach_cookie(ctx) & (GS_USER_ROW_MAX - 1), slot, depth;
	struct gs_kernel_state *state = state_get();
	struct gs_task_mark *m = mark_get(false);
	struct user_thread *u;
	struct gs_thread *t;

	if (!m || !m->slot || !state || state->stopped)
		return;
	slot = m->slot;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	u = bpf_map_lookup_elem(&gs_user_threads, &slot);
	if (!t || !u || u->tid != t->tid)
		return;
	depth = u->depth;
	for (int i = 0; i < GS_USER_DEPTH_MAX && depth; i++) {
		struct user_frame *f = &u->frame[(depth - 1) & OPEN_MASK];

		if (f->sp > sp)
			return;
		depth--;
		if (f->sp == sp && f->e.row == row_id) {
			user_close(ctx, t, u, slot, depth, row_id, now);
			return;
		}
	}
}

SEC("?uprobe")
int gs_user_session(struct pt_regs *ctx)
{
	__u64 *place = bpf_session_cookie();

	if (session_is_return(place)) {
		user_leave(ctx, *place);
		return 0;
	}
	return user_enter(ctx, place) ? 0 : SESSION_NO_RETURN;
}

SEC("?uprobe")
int gs_user_enter(struct pt_regs *ctx)
{
	__u64 place;

	user_enter(ctx, &place);
	return 0;
}

SEC("?uprobe")
int gs_user_leave(struct pt_regs *ctx)
{
	user_leave_unpaired(ctx);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
