/*
 * Probes that the user describes, and static probes (USDT): one generic program that follows a row
 * of a table (model/trace/user_probe.h), which the probe's cookie names. Nothing is compiled on the
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
#include "bpf/calls/scope.bpf.h"
#include "bpf/calls/session.bpf.h"
#include "bpf/user/user_frame.bpf.h"

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
		count_loss(row->layer, GS_LOSS_NO_CELL);
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

static __always_inline __u64 pick_value(const struct user_frame *f, __u32 i)
{
	return i < GS_USER_VALUE_MAX ? f->e.value[i] : 0;
}

/* The stacks that the row asks for: at the entry of a place, else at the return, where the
 * innermost function is the one that called. at_ret: the ret is still to be made. */
static __always_inline void take_stacks(const struct pt_regs *ctx, const struct gs_user_row *row,
					struct gs_event_call *e, __u32 slot, bool at_ret)
{
	struct native_regs regs;

	e->py_stack = e->native_stack = 0;
	if (gs_config.py_stack_at & GS_AT_PROBE && row->flags & GS_USER_PY_STACK)
		e->py_stack = py_stack_of(slot);
	if (gs_config.native_stack_at & GS_AT_PROBE && row->flags & GS_USER_NATIVE_STACK) {
		native_take_regs(&regs, ctx);
		if (!at_ret || native_after_ret(&regs))
			e->native_stack =
				native_send(&regs, row->layer, row->flags & GS_USER_RETURN);
	}
}

static __always_inline bool send_values(const struct pt_regs *ctx, const struct gs_user_row *row,
					__u32 row_id, struct user_frame *f,
					const struct gs_thread *t, __u32 slot, __u32 scope_depth,
					__u64 dur_ns, bool at_ret)
{
	__u64 bytes = sizeof(struct gs_event_call), n_texts = row->n_texts;
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
	e->aux = pick_value(f, row->v_aux);
	e->stream = pick_value(f, row->v_stream);
	e->arg[0] = pick_value(f, row->v_arg0);
	e->arg[1] = e->arg[2] = e->arg[3] = 0;
	take_stacks(ctx, row, e, slot, at_ret);
	f->e.row = row_id;
	f->e.n_values = row->n_values;
	f->e.n_texts = n_texts;
	/* The verifier of Linux 6.1 has lost the bound of the texts by now. */
	barrier_var(bytes);
	if (bytes > sizeof(struct gs_event_values))
		return false;
	return bpf_ringbuf_output(&gs_ring, e, bytes, BPF_RB_NO_WAKEUP) == 0;
}

/* A call with all its values read: filtered, then sent or added up. */
static __always_inline void account_values(const struct pt_regs *ctx, const struct gs_user_row *row,
					   __u32 row_id, struct user_frame *f,
					   const struct gs_thread *t, __u32 slot, __u32 depth,
					   __u32 scope_depth, __u64 dur_ns, bool at_ret)
{
	f->e.call.bytes = pick_value(f, row->v_bytes);
	if (!row->aggregate && (gs_config.events || row->flags & GS_USER_ALWAYS)) {
		if (mode_of(row->func) != GS_MODE_EVENTS)
			count_loss(row->layer, GS_LOSS_THINNED);
		else if (row->flags & GS_USER_RETURN && dur_ns < gs_config.min_dur_ns)
			count_loss(row->layer, GS_LOSS_SHORT);
		else if (send_values(ctx, row, row_id, f, t, slot, scope_depth, dur_ns, at_ret))
			return;
		else
			count_loss(row->layer, GS_LOSS_RING_FULL);
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
 * the instruction is the same, and no row comes twice: one that does shows that all of them were
 * left by an exception. A place inside a function (is_place) may
 * have the stack pointer of its entry. */
static __always_inline void drop_stale(struct user_thread *u, __u64 sp, __u64 ip, __u32 row_id,
				       __u32 layer, bool is_place)
{
	__u32 depth = u->depth;
	bool again = false;

	for (int i = 0; i < GS_USER_DEPTH_MAX && depth > i; i++) {
		struct user_frame *f = &u->frame[(depth - 1 - i) & OPEN_MASK];

		if (f->sp < sp)
			continue;
		if (f->sp > sp || f->ip != ip)
			break;
		again |= f->e.row == row_id;
	}
	for (int i = 0; i < GS_USER_DEPTH_MAX && depth; i++) {
		struct user_frame *f = &u->frame[(depth - 1) & OPEN_MASK];

		if (f->sp > sp || (f->sp == sp && (is_place || (f->ip == ip && !again))))
			break;
		depth--;
		if (f->sp)
			count_loss(layer, GS_LOSS_UNMATCHED);
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
	s->resumed = SCOPE_OF_FRAME;
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
		count_loss(row->layer, GS_LOSS_TOO_DEEP);
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
		account_values(ctx, row, row_id, f, t, slot, depth, scope, 0, false);
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
				       __u64 now, bool at_ret)
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
	account_values(ctx, row, row_id, f, t, slot, depth, scope, dur_ns, at_ret);
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
		count_loss(GS_LAYER_USER, GS_LOSS_UNMATCHED);
		return;
	}
	user_close(ctx, t, u, slot, depth, row_id, now, false);
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
			user_close(ctx, t, u, slot, depth, row_id, now, false);
			return;
		}
	}
}

/* By a probe where the function is left: its frame was opened with this stack pointer, or one up to
 * the size of its frame above. */
static __always_inline void user_leave_at(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns(), sp = ctx->sp;
	__u32 row_id = cookie & (GS_USER_ROW_MAX - 1),
	      frame_bytes = cookie >> GS_COOKIE_FRAME_SHIFT;
	const struct gs_user_row *row = bpf_map_lookup_elem(&gs_user_rows, &row_id);
	struct gs_kernel_state *state = state_get();
	struct user_thread *u;
	struct gs_thread *t;
	__u32 slot, depth;

	if (!row || !state || state->stopped)
		return;
	t = thread_known(&slot);
	if (!t || turn_skips(t, cookie))
		return;
	if (cookie & GS_COOKIE_STEPPED)
		gs_step_add(slot, row->func, row->layer, true);
	if (!cookie_leaves(ctx, cookie))
		return;
	u = bpf_map_lookup_elem(&gs_user_threads, &slot);
	if (!u || u->tid != t->tid)
		return;
	depth = u->depth;
	for (int i = 0; i < GS_USER_DEPTH_MAX && depth; i++) {
		struct user_frame *f = &u->frame[(depth - 1) & OPEN_MASK];

		if (f->sp > sp + frame_bytes)
			return;
		depth--;
		if (f->sp >= sp && f->e.row == row_id) {
			user_close(ctx, t, u, slot, depth, row_id, now, true);
			return;
		}
		if (f->sp && f->sp < sp) /* left by a jump or an exception */
			count_loss(row->layer, GS_LOSS_UNMATCHED);
	}
}

static __always_inline bool user_is_exit(struct pt_regs *ctx)
{
	return bpf_get_attach_cookie(ctx) & GS_COOKIE_EXIT;
}

static __always_inline bool user_has_exits(struct pt_regs *ctx)
{
	return bpf_get_attach_cookie(ctx) & GS_COOKIE_BY_EXITS;
}

SEC("?uprobe")
int gs_user_session(struct pt_regs *ctx)
{
	__u64 *place = bpf_session_cookie();

	if (session_is_return(place)) {
		user_leave(ctx, *place);
		return 0;
	}
	if (user_is_exit(ctx)) {
		user_leave_at(ctx);
		return SESSION_NO_RETURN;
	}
	return user_enter(ctx, place) && !user_has_exits(ctx) ? 0 : SESSION_NO_RETURN;
}

SEC("?uprobe")
int gs_user_enter(struct pt_regs *ctx)
{
	__u64 place;

	if (user_is_exit(ctx))
		user_leave_at(ctx);
	else
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
