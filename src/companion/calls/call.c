/*
 * Calls: an entry opens a frame in the thread's slot of the file, a return closes it and writes one record. A frame
 * that lies at or below the present stack pointer was left by a jump or an exception: it is noticed at the thread's
 * next call. The rules are those of the kernel side (src/bpf/calls/call.bpf.h): model/call has what they share.
 */
#include "companion/calls/calls_int.h"

#include <sys/uio.h>

#include "companion/calls/thunk.h"
#include "companion/ring/ring.h"
#include "companion/ring/sys.h"
#include "model/call/inner.h"
#include "model/call/outcome.h"

#define NAME_MAX_BYTES (GS_COMPANION_RECORD_MAX / 2) /* of a kernel, with its zero */
#define FIRST_PAGE     4096u

/* The call has read it itself when it succeeded; what a failed one was given need not be there. */
static bool gs_call_read(void *to, uint32_t bytes, uint64_t from, struct gs_outcome *o)
{
	struct iovec here = {to, bytes}, there = {(void *)from, bytes};
	long pid;

	if (!o->failed && from >= FIRST_PAGE) {
		__builtin_memcpy(to, (const void *)from, bytes);
		return true;
	}
	pid = COMPANION_SYS3(getpid, 0, 0, 0);
	if (COMPANION_SYS6(process_vm_readv, pid, &here, 1, &there, 1, 0) == (long)bytes)
		return true;
	__builtin_memset(to, 0, bytes);
	o->flags |= GS_CALL_ARGS_UNREAD;
	return false;
}

#define GS_CALL_DESC(id) (&calls_plan_row(id)->desc)
#define GS_CALL_GLOBAL   static
#define GS_CALL_APART
#include "model/call/memory.h"

struct calls_way { /* as thunks.S takes it, in two registers */
	void *real;
	int64_t n_words; /* negative: it is not recorded */
};

/* The name is GS_COMPANION_AROUND. */
__attribute__((visibility("default"))) struct gs_companion_around *calls_gpuscope_around(void);

static __thread struct gs_companion_around calls_around __attribute__((tls_model("initial-exec")));

struct gs_companion_around *calls_gpuscope_around(void)
{
	return &calls_around;
}

struct calls_way calls_enter(uint32_t number, const uint64_t *args, uint64_t sp);
void calls_leave(uint32_t number, int32_t ret, uint64_t sp);

/* A text of the program, as far as it can be read, which need not be whole: also what a call is given that has yet to
 * look at it. Its length; 0: there is none. */
static size_t read_text(uint64_t from, char *out, size_t bytes)
{
	struct iovec here = {out, bytes}, there = {(void *)from, bytes};
	long pid = COMPANION_SYS3(getpid, 0, 0, 0),
	     got = COMPANION_SYS6(process_vm_readv, pid, &here, 1, &there, 1, 0);
	size_t n = 0;

	while (got > 0 && n < (size_t)got && out[n])
		n++;
	return n < bytes ? n : bytes - 1;
}

/* The name by which a kernel is asked for: once for each kernel, so that a system call may be made for it. */
static void write_asked(struct companion_self *s, uint64_t from, uint64_t time, unsigned func,
			unsigned layer)
{
	struct gs_companion_asked *a;
	char name[NAME_MAX_BYTES];
	size_t n = read_text(from, name, sizeof(name)), bytes = (sizeof(*a) + n + 8) / 8 * 8;

	if (!n)
		return;
	a = companion_put_in(s, GS_COMPANION_ASKED, bytes, layer);
	if (!a)
		return;
	a->time = time;
	a->func = func;
	a->pad = 0;
	__builtin_memset(a->name + n, 0, bytes - sizeof(*a) - n);
	__builtin_memcpy(a->name, name, n);
	companion_publish_in(s, a);
}

/* How many of the open frames are still open. */
static uint32_t frames_left(struct gs_companion_slot *slot, uint64_t sp)
{
	uint32_t depth = slot->n_open;

	if (depth > GS_COMPANION_OPEN_MAX)
		depth = 0;
	while (depth && slot->open[depth - 1].sp <= sp) {
		const struct gs_companion_func *row = calls_plan_row(slot->open[--depth].func);

		slot->lost[GS_COMPANION_LOST_LEFT][row ? row->desc.layer : 0]++;
	}
	slot->n_open = depth;
	return depth;
}

static bool is_inner(struct gs_frame *outer, const struct gs_companion_func *row)
{
	const struct gs_companion_func *around = calls_plan_row(outer->func);

	return around && gs_call_is_inner(&around->desc, &row->desc, around == row, &outer->flags);
}

static void save_words(struct gs_frame *f, const struct gs_func_desc *d, const uint64_t *args,
		       uint64_t sp)
{
	const uint64_t *stack = (const uint64_t *)sp + 1;

	for (unsigned i = 0; i < GS_V_STACK; i++)
		f->v[i] = args[i];
	if (d->n_stack & GS_V_LOW) {
		for (unsigned i = 0; i < GS_V_STACK; i++)
			if (d->n_stack & 1u << i)
				f->v[i] &= 0xffffffff;
		return;
	}
	for (unsigned i = 0; i < d->n_stack; i++)
		f->v[GS_V_STACK + i] = stack[i];
}

/* args: the six argument registers; sp: where the return address lies. */
struct calls_way calls_enter(uint32_t number, const uint64_t *args, uint64_t sp)
{
	const struct calls_thunk *t = &calls_thunk[number];
	const struct calls_way pass = {t->real, -1};
	struct companion_self *s = companion_thread();
	struct gs_companion_slot *slot;
	struct gs_frame *f;
	uint32_t depth;

	if (!s)
		return pass;
	slot = s->slot;
	depth = slot->n_open;
	if (depth) {
		depth = frames_left(slot, sp);
		if (depth && is_inner(&slot->open[depth - 1], t->row)) {
			/* Of an alias this is the function itself: one call. */
			if (!slot->open[depth - 1].jumps ||
			    slot->open[depth - 1].func != t->row->id)
				slot->inner[t->row->id]++;
			/* The runtime asks the driver for it by the name that a launch is known by. */
			if (t->row->desc.post == GS_POST_KERNEL_NAME)
				write_asked(s, args[2], companion_now(), t->row->id,
					    t->row->desc.layer);
			return pass;
		}
	}
	if (depth >= GS_COMPANION_OPEN_MAX) {
		slot->lost[GS_COMPANION_LOST_DEEP][t->row->desc.layer]++;
		return pass;
	}
	f = &slot->open[depth];
	f->sp = sp;
	f->func = t->row->id;
	f->flags = 0;
	f->jumps = t->is_alias;
	f->inside = t->row->desc.inside;
	save_words(f, &t->row->desc, args, sp);
	f->start_ns = companion_now();
	__atomic_store_n(&slot->n_open, depth + 1, __ATOMIC_RELEASE);
	return (struct calls_way){t->real, t->n_words};
}

/* A call whose arguments or bytes lie in memory, or come by its return. */
static void fill_rare(struct gs_companion_call *c, struct gs_frame *f, const struct gs_func_desc *d,
		      struct gs_outcome *o)
{
	struct gs_event_call e = {.aux = c->aux, .stream = c->stream};

	for (unsigned i = 0; i < 4; i++)
		e.arg[i] = c->arg[i];
	gs_call_fill(&e, f, o, o->id);
	c->aux = e.aux;
	c->stream = e.stream;
	for (unsigned i = 0; i < 4; i++)
		c->arg[i] = e.arg[i];
}

static uint64_t bytes_of(struct gs_frame *f, const struct gs_func_desc *d, struct gs_outcome *o)
{
	if (d->v_bytes == GS_V_NONE && d->post != GS_POST_COPY3D_RT &&
	    d->post != GS_POST_COPY2D_DRV && d->post != GS_POST_COPY3D_DRV)
		return 0;
	if (!gs_call_has_bytes_in_memory(d->post))
		return gs_args_bytes(f, d);
	gs_call_bytes_read(f, o, o->id);
	return o->bytes;
}

/* A call that found no room: it is in the sums, not in the trace. */
static void add_up(struct companion_self *s, struct gs_frame *f, const struct gs_func_desc *d,
		   struct gs_outcome *o)
{
	struct gs_companion_sum *sum = companion_sum_of(s, o->id, d->layer);

	if (!sum)
		return;
	companion_sum_add(sum, o->dur_ns, o->failed ? o->ret : 0);
	if (!o->failed)
		sum->bytes += bytes_of(f, d, o);
}

static void write_call(struct companion_self *s, struct gs_frame *f, const struct gs_func_desc *d,
		       struct gs_outcome *o, uint16_t cpu, uint32_t depth)
{
	struct gs_companion_call *c = companion_put_in(s, GS_COMPANION_CALL, sizeof(*c), d->layer);

	if (!c) {
		add_up(s, f, d, o);
		return;
	}
	c->start = f->start_ns;
	c->dur = o->dur_ns;
	c->func = (uint16_t)o->id;
	c->cpu = cpu;
	c->depth = (uint8_t)depth;
	c->python = (uint16_t)calls_around.python;
	c->ret = o->ret;
	c->aux = (uint32_t)gs_args_word(f, d->v_aux);
	c->stream = gs_args_word(f, d->v_stream);
	for (unsigned i = 0; i < 4; i++)
		c->arg[i] = gs_args_word(f, d->v_arg[i]);
	c->bytes = bytes_of(f, d, o);
	switch (d->post) {
	case GS_POST_NONE:
		break;
	case GS_POST_LAUNCH_RT:
	case GS_POST_LAUNCH_DRV:
	case GS_POST_NCCL:
		gs_args_words(f, d, (__u64 *)c->arg, &c->aux);
		break;
	default:
		fill_rare(c, f, d, o);
	}
	c->flags = (uint8_t)(f->flags | o->flags);
	companion_publish_in(s, c);
}

static void fill_comm_list(struct gs_companion_comm *c, const struct gs_frame *f, uint32_t post,
			   struct gs_outcome *o)
{
	uint32_t n = (uint32_t)(post == GS_POST_COMM_INIT_ALL ? f->v[1] : f->v[2]), rank;

	c->n_list = (uint16_t)(n < 65535 ? n : 65535);
	if (post == GS_POST_COMM_INIT_ALL) {
		c->n_ranks = (int32_t)n;
		n = n < GS_COMM_LIST_MAX ? n : GS_COMM_LIST_MAX;
		c->n_list = (uint16_t)(gs_call_read(c->list, n * 8, f->v[0], o) ? n : 0);
		return;
	}
	for (uint32_t i = 0; i < n && i < GS_COMM_LIST_MAX; i++)
		if (gs_call_read(&rank, 4, f->v[1] + i * 4, o))
			c->list[i] = rank;
}

/* What the call that made a communicator says of it (src/bpf/calls/nccl.bpf.c). */
static void fill_comm(struct gs_companion_comm *c, const struct gs_frame *f, uint32_t post,
		      struct gs_outcome *o)
{
	switch (post) {
	case GS_POST_COMM_INIT: /* the id goes by value: in memory, right above the return address */
	case GS_POST_COMM_INIT_SCALABLE:
		gs_call_read(&c->comm, 8, f->v[0], o);
		c->n_ranks = (int32_t)f->v[1];
		c->rank = (int32_t)f->v[2];
		gs_call_read(c->unique_id, sizeof(c->unique_id),
			     post == GS_POST_COMM_INIT ? f->sp + 8 : f->v[4], o);
		return;
	case GS_POST_COMM_INIT_ALL:
		fill_comm_list(c, f, post, o);
		return;
	case GS_POST_COMM_SPLIT:
		c->parent = f->v[0];
		c->color = (int32_t)f->v[1];
		c->key = (int32_t)f->v[2];
		gs_call_read(&c->comm, 8, f->v[3], o);
		return;
	case GS_POST_COMM_SHRINK:
		c->parent = f->v[0];
		gs_call_read(&c->comm, 8, f->v[3], o);
		fill_comm_list(c, f, post, o);
		return;
	case GS_POST_COMM_RANK:
		c->comm = f->v[0];
		gs_call_read(&c->rank, 4, f->v[1], o);
		return;
	case GS_POST_COMM_SIZE:
		c->comm = f->v[0];
		gs_call_read(&c->n_ranks, 4, f->v[1], o);
		return;
	}
}

static void write_comm(struct companion_self *s, const struct gs_frame *f,
		       const struct gs_func_desc *d, struct gs_outcome *o)
{
	struct gs_companion_comm comm = {.time = f->start_ns + o->dur_ns,
					 .func = (uint16_t)o->id,
					 .ret = o->ret,
					 .n_ranks = -1,
					 .rank = -1};
	struct gs_companion_comm *c;

	fill_comm(&comm, f, d->post, o);
	c = companion_put_in(s, GS_COMPANION_COMM, sizeof(*c), d->layer);
	if (!c)
		return;
	comm.head = c->head;
	*c = comm;
	companion_publish_in(s, c);
}

void calls_leave(uint32_t number, int32_t ret, uint64_t sp)
{
	const struct gs_func_desc *d = &calls_thunk[number].row->desc;
	struct companion_self *s = &companion_self;
	struct gs_outcome o = {.ret = ret, .id = calls_thunk[number].row->id};
	struct gs_companion_slot *slot = s->slot;
	struct gs_frame *f;
	uint16_t cpu;
	uint32_t depth;
	uint64_t now = companion_now_cpu(&cpu);

	/* A child that was made within the call has another file, or none. */
	if (!slot || s->epoch != companion_live->epoch)
		return;
	/* Calls that were made within this one and left by a jump lie above it in the list. */
	for (depth = slot->n_open; depth && depth <= GS_COMPANION_OPEN_MAX; depth--)
		if (slot->open[depth - 1].sp >= sp)
			break;
	if (!depth || depth > GS_COMPANION_OPEN_MAX || slot->open[depth - 1].sp != sp)
		return;
	f = &slot->open[--depth];
	o.dur_ns = now - f->start_ns;
	o.failed = ret && ret != d->not_error;
	calls_around.launches += d->op == GS_CLASS_LAUNCH || d->op == GS_CLASS_GRAPH_LAUNCH;
	if (!companion_live->head->stopped) {
		if (d->post == GS_POST_KERNEL_NAME && !o.failed)
			write_asked(s, f->v[2], f->start_ns, o.id, d->layer);
		write_call(s, f, d, &o, cpu, depth);
		if (d->layer == GS_LAYER_NCCL && d->post >= GS_POST_COMM_INIT && !o.failed)
			write_comm(s, f, d, &o);
	}
	__atomic_store_n(&slot->n_open, depth, __ATOMIC_RELEASE);
}
