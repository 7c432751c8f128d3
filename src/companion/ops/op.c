/*
 * Operators: a begin opens a scope in the thread's slot of the file, an end closes it and writes one record. What ends
 * in another thread (PyTorch's collectives do) is closed by the thread that began it, at its next operator.
 */
#include "companion/ops/ops_int.h"

#include "companion/ops/execute.h"
#include "companion/ring/ring.h"

#define ENDED_MAX 64u

/* Records that ended in threads which had not begun them. */
static struct {
	uint64_t n; /* so far */
	struct {
		uint64_t record, time;
	} ended[ENDED_MAX];
} elsewhere;

static __thread uint64_t n_seen __attribute__((tls_model("initial-exec"))); /* of elsewhere */

/* --- one that is over --- */

static uint32_t name_around(const struct gs_companion_slot *slot, uint32_t depth)
{
	while (depth && !slot->scope[depth - 1].record)
		depth--;
	return depth ? slot->scope[depth - 1].name : 0;
}

static bool is_in_op(const struct gs_companion_slot *slot, uint32_t depth)
{
	while (depth && (!slot->scope[depth - 1].record || slot->scope[depth - 1].is_span))
		depth--;
	return depth > 0;
}

static void write_op(struct companion_self *s, const struct gs_companion_scope *o, uint32_t depth,
		     uint64_t now, uint16_t cpu, bool is_thrown)
{
	struct gs_companion_op *r =
		companion_put_in(s, GS_COMPANION_OP, sizeof(*r), GS_LAYER_TORCH);
	struct gs_companion_sum *sum;

	if (!r) {
		sum = companion_sum_of(s, o->name, GS_LAYER_TORCH);
		if (sum)
			companion_sum_add(sum, now - o->start, is_thrown);
		return;
	}
	r->start = o->start;
	r->dur = now - o->start;
	r->name = (uint16_t)o->name;
	r->outer = (uint16_t)name_around(s->slot, depth);
	r->cpu = cpu;
	r->depth = (uint8_t)depth;
	r->flags = (uint8_t)((is_thrown ? GS_COMPANION_OP_THROWN : 0) |
			     (o->is_span ? GS_COMPANION_OP_SPAN : 0) |
			     (is_in_op(s->slot, depth) ? GS_COMPANION_OP_IN_OP : 0));
	companion_publish_in(s, r);
}

/* What lies in it goes on; it is gone when that is over, too. */
static void close_scope(struct companion_self *s, uint32_t i, uint64_t now, uint16_t cpu,
			bool is_thrown)
{
	struct gs_companion_slot *slot = s->slot;
	uint32_t n = slot->n_open;

	write_op(s, &slot->scope[i], i, now, cpu, is_thrown);
	slot->scope[i].record = 0;
	while (n && !slot->scope[n - 1].record)
		n--;
	__atomic_store_n(&slot->n_open, n, __ATOMIC_RELEASE);
}

/* The innermost one of that record; -1: there is none. */
static int find_scope(const struct gs_companion_slot *slot, uint64_t record)
{
	for (uint32_t i = slot->n_open; i > 0; i--)
		if (slot->scope[i - 1].record == record)
			return (int)i - 1;
	return -1;
}

static void note_elsewhere(uint64_t record, uint64_t now)
{
	uint64_t i = __atomic_fetch_add(&elsewhere.n, 1, __ATOMIC_ACQ_REL) % ENDED_MAX;

	__atomic_store_n(&elsewhere.ended[i].record, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&elsewhere.ended[i].time, now, __ATOMIC_RELEASE);
	__atomic_store_n(&elsewhere.ended[i].record, record, __ATOMIC_RELEASE);
}

/* Close what other threads have ended since the last time. */
static __attribute__((noinline)) void close_elsewhere(struct companion_self *s, uint64_t n)
{
	uint64_t from = n - n_seen > ENDED_MAX ? n - ENDED_MAX : n_seen;
	uint16_t cpu;

	companion_now_cpu(&cpu);
	for (; from < n; from++) {
		uint64_t record = __atomic_load_n(&elsewhere.ended[from % ENDED_MAX].record,
						  __ATOMIC_ACQUIRE),
			 time = __atomic_load_n(&elsewhere.ended[from % ENDED_MAX].time,
						__ATOMIC_ACQUIRE);
		int i = record ? find_scope(s->slot, record) : -1;

		/* Later ones may lie at the same address. */
		if (i >= 0 && s->slot->scope[i].start <= time)
			close_scope(s, (uint32_t)i, time, cpu, false);
	}
	n_seen = n;
}

/* --- what PyTorch calls --- */

/* The thread, when it is recorded; its list of open scopes is as it should be. */
static inline struct companion_self *thread_now(void)
{
	struct companion_self *s = companion_thread();
	uint64_t n = __atomic_load_n(&elsewhere.n, __ATOMIC_ACQUIRE);

	if (!s)
		return NULL;
	if (COMPANION_UNLIKELY(s->slot->n_open > GS_COMPANION_OPS_OPEN))
		s->slot->n_open = 0;
	if (COMPANION_UNLIKELY(n != n_seen))
		close_elsewhere(s, n);
	return s;
}

/* False: there is no room for it. */
static bool write_name(struct companion_self *s, uint32_t number, const char *text)
{
	struct gs_companion_op_name *r;
	size_t n = 0, bytes;

	while (text[n])
		n++;
	bytes = (sizeof(*r) + n + 8) / 8 * 8;
	r = companion_put_in(s, GS_COMPANION_OP_NAME, bytes, GS_LAYER_NONE);
	if (!r)
		return false;
	r->number = number;
	r->pad = 0;
	for (size_t i = 0; i < bytes - sizeof(*r); i++)
		r->text[i] = i < n ? text[i] : '\0';
	companion_publish_in(s, r);
	return true;
}

/* In the file of which process each name has been written: a forked child has one of its own. */
static uint64_t written_in[GS_COMPANION_OP_NAMES];

static inline bool name_is_written(struct companion_self *s, uint32_t number)
{
	if (!COMPANION_UNLIKELY(__atomic_load_n(&written_in[number], __ATOMIC_ACQUIRE) != s->epoch))
		return true;
	if (!write_name(s, number, ops_name_text(number)))
		return false;
	__atomic_store_n(&written_in[number], s->epoch, __ATOMIC_RELEASE);
	return true;
}

static inline void open_scope(struct companion_self *s, uint32_t number, uint64_t record,
			      bool is_span)
{
	uint32_t depth = s->slot->n_open;
	struct gs_companion_scope *o;

	if (COMPANION_UNLIKELY(depth >= GS_COMPANION_OPS_OPEN)) {
		s->slot->lost[GS_COMPANION_LOST_DEEP][GS_LAYER_TORCH]++;
		return;
	}
	if (!name_is_written(s, number)) {
		s->slot->lost[GS_COMPANION_LOST_SUM][GS_LAYER_TORCH]++;
		return;
	}
	o = &s->slot->scope[depth];
	o->record = record;
	o->name = number;
	o->is_span = is_span;
	o->thrown = ops_torch_thrown();
	o->start = companion_now();
	__atomic_store_n(&s->slot->n_open, depth + 1, __ATOMIC_RELEASE);
}

static inline void *start_op(enum ops_kind kind, void **ret_context, const void *record)
{
	struct companion_self *s = thread_now();
	uint32_t number = s ? ops_name_find(kind, record, ops_torch_name(record)) : 0;

	*ret_context = NULL;
	if (number)
		open_scope(s, number, (uint64_t)record, kind == OPS_SPAN);
	return ret_context;
}

static void *start_function(void **ret_context, const void *record)
{
	return start_op(OPS_FUNCTION, ret_context, record);
}

static void *start_node(void **ret_context, const void *record)
{
	return start_op(OPS_NODE, ret_context, record);
}

static void *start_span(void **ret_context, const void *record)
{
	return start_op(OPS_SPAN, ret_context, record);
}

const ops_start_fn ops_op_starts[OPS_KINDS] = {start_function, start_node, start_span};

/* False: it is not open in this thread, as it was not wanted for example. */
static inline bool end_op(const void *record)
{
	uint16_t cpu;
	uint64_t now = companion_now_cpu(&cpu);
	struct companion_self *s = thread_now();
	int i = s ? find_scope(s->slot, (uint64_t)record) : -1;

	if (i >= 0)
		close_scope(s, (uint32_t)i, now, cpu,
			    ops_torch_thrown() > s->slot->scope[i].thrown);
	return i >= 0;
}

static void end_function(const void *record, void *context)
{
	end_op(record);
}

static void end_span(const void *record, void *context)
{
	if (!end_op(record))
		note_elsewhere((uint64_t)record, companion_now());
}

const ops_end_fn ops_op_ends[OPS_KINDS] = {end_function, end_function, end_span};

/* --- backward passes --- */

#define EXECUTE_TEXT(name)    EXECUTE_TEXT_OF(name)
#define EXECUTE_TEXT_OF(name) #name
#define PASS                  1u /* in the address of a record: PyTorch's are even */
#define CLEANUP_PHASE         2  /* _UA_CLEANUP_PHASE */
#define CONTINUE_UNWIND       8  /* _URC_CONTINUE_UNWIND */

/* Those that were left by a jump lie at or below the present one. */
static void drop_left(struct companion_self *s, uint64_t sp)
{
	struct gs_companion_slot *slot = s->slot;

	for (uint32_t i = slot->n_open; i > 0; i--) {
		struct gs_companion_scope *o = &slot->scope[i - 1];

		if (!(o->record & PASS) || o->record > sp + PASS)
			continue;
		slot->lost[GS_COMPANION_LOST_LEFT][GS_LAYER_TORCH]++;
		slot->n_open = i - 1;
	}
}

void *ops_op_enter(uint64_t sp)
{
	static void *real;
	uint32_t number = ops_name_pass();
	struct companion_self *s = number ? thread_now() : NULL;

	if (s) {
		drop_left(s, sp);
		open_scope(s, number, sp | PASS, false);
	}
	if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE))
		__atomic_store_n(&real, ops_start_find(EXECUTE_TEXT(OPS_EXECUTE)),
				 __ATOMIC_RELEASE);
	return real;
}

void ops_op_leave(uint64_t sp)
{
	end_op((const void *)(sp | PASS));
}

/* Nothing is done here but to note it: the innermost pass is the one that is left. */
int ops_op_personality(int version, int actions, uint64_t exception_class, void *exception,
		       void *context)
{
	struct companion_self *s = actions & CLEANUP_PHASE && ops_name_pass() ? thread_now() : NULL;

	for (uint32_t i = s ? s->slot->n_open : 0; i > 0; i--) {
		uint16_t cpu;
		uint64_t now = companion_now_cpu(&cpu);

		if (!(s->slot->scope[i - 1].record & PASS))
			continue;
		close_scope(s, i - 1, now, cpu, true);
		break;
	}
	return CONTINUE_UNWIND;
}
