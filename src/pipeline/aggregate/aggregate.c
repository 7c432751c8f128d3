/*
 * Counting. A CALL is the hot path (it must keep up with more than a million a second): look up the
 * accumulator by two array indices and add to it. Everything that is seldom (the first call of a
 * function in a thread, failures, communicators, announcements) is out of line. Memory grows with
 * the number of threads and functions seen and never with the number of calls.
 */
#include "pipeline/aggregate/aggregate.h"

#include <errno.h>
#include <string.h>

#include "pipeline/collectives/collectives.h"
#include "pipeline/collectives/stays.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/record_stack.h"
#include "pipeline/aggregate/tally.h"

static int view_push(void *ctx, const struct gs_batch *batch);

int gs_aggregate_new(struct gs_aggregate **ret_view)
{
	struct gs_aggregate *v = calloc(1, sizeof(*v));

	if (v)
		v->dict = gs_dict_new();
	if (!v || !v->dict || gs_activity_new(NULL, &v->activity) < 0 ||
	    gs_holders_new(&v->holders) < 0 || gs_accuracy_new(&v->accuracy) < 0) {
		gs_aggregate_free(&v);
		return -ENOMEM;
	}
	gs_dict_keep_stacks(v->dict);
	gs_activity_set_busy_sink(v->activity, gs_accuracy_busy, v->accuracy);
	v->sink = (struct gs_sink){.push = view_push, .ctx = v};
	v->comm_idx = GS_MAP_INIT(GS_AGGREGATE_MAX_COMMS);
	gs_aggregate_mpi_init(v);
	v->account_idx = GS_MAP_INIT(GS_AGGREGATE_MAX_ACCOUNTS);
	v->kernel_idx = GS_MAP_INIT(GS_AGGREGATE_MAX_KERNELS);
	v->funcs[0].kind = FUNC_PLAIN;
	v->n_accs = 1;
	*ret_view = v;
	return 0;
}

void gs_aggregate_free(struct gs_aggregate **view)
{
	struct gs_aggregate *v = *view;

	if (!v)
		return;
	for (uint32_t i = 0; i < v->n_threads; i++)
		free(v->threads[i].cell);
	free(v->threads);
	for (uint32_t i = 1; i < v->n_accs; i++)
		free(v->accs[i].hist);
	free(v->accs);
	for (uint32_t i = 0; i < v->n_funcs; i++) /* none was touched past them */
		free(v->funcs[i].errs);
	free(v->comms.items);
	free(v->lost.items);
	free(v->attached.items);
	free(v->open.items);
	gs_collectives_stays_free(&v->stays);
	gs_aggregate_probed_fini(v);
	gs_aggregate_mpi_fini(v);
	gs_aggregate_steps_fini(v);
	gs_collectives_free(&v->collectives);
	gs_activity_free(&v->activity);
	gs_accuracy_free(&v->accuracy);
	gs_gpu_times_free(&v->gpu_times);
	gs_nccl_ops_free(&v->nccl_ops);
	free(v->kernels.items);
	gs_holders_free(&v->holders);
	gs_hangs_fini(&v->hangs);
	gs_map_fini(&v->kernel_idx);
	free(v->accounts.items);
	gs_map_fini(&v->account_idx);
	gs_map_fini(&v->comm_idx);
	gs_aggregate_lines_free(v);
	gs_dict_free(&v->dict);
	free(v);
	*view = NULL;
}

struct gs_activity *gs_aggregate_activity(struct gs_aggregate *v)
{
	return v->activity;
}

const struct gs_sink *gs_aggregate_sink(struct gs_aggregate *v)
{
	return &v->sink;
}

void *gs_aggregate_grow(struct array *a, size_t item_bytes, size_t max)
{
	void *item;

	if (a->n >= max)
		return NULL;
	if (a->n == a->n_room &&
	    !gs_vec_grow(&a->items, item_bytes, &a->n_room, a->n + 1, SIZE_MAX))
		return NULL;
	item = (char *)a->items + a->n++ * item_bytes;
	return memset(item, 0, item_bytes);
}

static struct acc *new_acc(struct gs_aggregate *v, uint32_t function, uint32_t *cell)
{
	struct acc *a;

	if (!gs_vec_reserve(&v->accs, &v->n_accs_room, v->n_accs + 1))
		return NULL;
	a = &v->accs[v->n_accs];
	*a = (struct acc){.hist = calloc(GS_HIST_N_BUCKETS, sizeof(*a->hist))};
	if (!a->hist)
		return NULL;
	*cell = v->n_accs++;
	if (function >= v->n_funcs)
		v->n_funcs = function + 1;
	return a;
}

/* The accumulator of a pair seen for the first time, or of one that has no place of its own. */
static __attribute__((noinline)) struct acc *place_acc(struct gs_aggregate *v, uint32_t thread,
						       uint32_t function)
{
	struct view_thread *t;

	if (function >= GS_AGGREGATE_MAX_FUNCTIONS)
		function = 0;
	if (thread >= GS_DICT_MAX_ID)
		thread = 0;
	if (!gs_vec_reach(&v->threads, &v->n_threads, thread))
		return NULL;
	/* Thread 0 may always have accumulators: it is where the others' calls go when there are
	 * too many, and it has at most GS_AGGREGATE_MAX_FUNCTIONS of them. */
	t = &v->threads[thread];
	if (v->n_accs >= GS_AGGREGATE_MAX_PAIRS && (function >= t->n_cells || !t->cell[function]))
		t = &v->threads[0];
	if (!gs_vec_reach(&t->cell, &t->n_cells, function))
		return NULL;
	return t->cell[function] ? &v->accs[t->cell[function]]
				 : new_acc(v, function, &t->cell[function]);
}

static inline struct acc *find_acc(struct gs_aggregate *v, uint32_t thread, uint32_t function)
{
	if (thread < v->n_threads) {
		const struct view_thread *t = &v->threads[thread];

		if (function < t->n_cells && t->cell[function])
			return &v->accs[t->cell[function]];
	}
	return place_acc(v, thread, function);
}

int gs_aggregate_acc_add(struct acc *sum, const struct acc *more)
{
	sum->calls += more->calls;
	sum->total_ns += more->total_ns;
	sum->bytes += more->bytes;
	sum->errors += more->errors;
	sum->inner += more->inner;
	sum->stepped += more->stepped;
	if (more->max_ns > sum->max_ns)
		sum->max_ns = more->max_ns;
	if (!sum->hist)
		sum->hist = calloc(GS_HIST_N_BUCKETS, sizeof(*sum->hist));
	if (!sum->hist)
		return -ENOMEM;
	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		sum->hist[i] += more->hist[i];
	return 0;
}

static void count_error(struct view_func *f, int32_t code, uint64_t count)
{
	for (uint32_t i = 0; i < f->n_errs; i++) {
		if (f->errs[i].code == code) {
			f->errs[i].count += count;
			return;
		}
	}
	if (code != 0 && f->n_errs < GS_AGGREGATE_MAX_ERRORS) {
		if (gs_vec_reserve_next(&f->errs, f->n_errs)) {
			f->errs[f->n_errs++] = (struct err_count){code, count};
			return;
		}
	}
	f->n_other_errs += count;
}

static struct view_func *func_of(struct gs_aggregate *v, uint32_t function)
{
	function = function < GS_AGGREGATE_MAX_FUNCTIONS ? function : 0;
	if (function >= v->n_funcs)
		v->n_funcs = function + 1;
	return &v->funcs[function];
}

/* --- communicators --- */

static uint64_t comm_key(uint32_t process, uint64_t comm)
{
	/* Handles are heap addresses: the parts do not overlap, but for odd ones (see find_comm).
	 */
	return comm >> 4 ^ (uint64_t)process << 43;
}

static struct view_comm *find_comm(struct gs_aggregate *v, uint32_t process, uint64_t comm)
{
	struct view_comm *c;
	uint64_t idx;

	if (!gs_map_get(&v->comm_idx, comm_key(process, comm), &idx))
		return NULL;
	c = (struct view_comm *)v->comms.items + idx;
	return c->process == process && c->comm == comm ? c : NULL;
}

static struct view_comm *add_comm(struct gs_aggregate *v, uint32_t process, uint64_t comm)
{
	struct view_comm *c = gs_aggregate_grow(&v->comms, sizeof(*c), GS_AGGREGATE_MAX_COMMS);

	if (!c || gs_map_put(&v->comm_idx, comm_key(process, comm), v->comms.n - 1) < 0) {
		v->comms.n -= c != NULL;
		v->n_left_out++;
		return NULL;
	}
	c->process = process;
	c->comm = comm;
	c->rank = c->n_ranks = -1;
	c->color = GS_COMM_NO_SPLIT;
	return c;
}

/* What is known of both agrees: it is the same communicator, reported again. */
static bool same_comm(const struct view_comm *c, const struct gs_rec_comm *r)
{
	if (c->ended)
		return false;
	return (c->rank < 0 || r->rank < 0 || c->rank == r->rank) &&
	       (c->n_ranks < 0 || r->n_ranks < 0 || c->n_ranks == r->n_ranks) &&
	       (!c->id_hash || !r->id_hash || c->id_hash == r->id_hash) &&
	       (!c->announced || c->parent == r->parent || !r->parent);
}

static void take_comm(struct gs_aggregate *v, const struct gs_rec_comm *r)
{
	struct view_comm *c;

	if (!r->comm) /* a rank that took part in a split and got none */
		return;
	c = find_comm(v, r->process, r->comm);
	if (!c || !same_comm(c, r))
		c = add_comm(v, r->process, r->comm);
	if (!c)
		return;
	c->announced = true;
	if (r->rank >= 0)
		c->rank = r->rank;
	if (r->n_ranks >= 0)
		c->n_ranks = r->n_ranks;
	if (r->id_hash)
		c->id_hash = r->id_hash;
	if (r->parent) {
		c->parent = r->parent;
		c->color = r->color;
		c->key = r->key;
	}
	if (r->origin_str && !c->origin_str)
		c->origin_str = r->origin_str;
	gs_aggregate_take_member(v, c);
}

static void end_comms_of(struct gs_aggregate *v, uint32_t process)
{
	struct view_comm *c = v->comms.items;

	for (size_t i = 0; i < v->comms.n; i++)
		if (c[i].process == process)
			c[i].ended = true;
}

static enum func_kind func_kind(const struct gs_aggregate *v, uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, function);
	const char *name = f ? gs_dict_string(v->dict, f->name_str) : "";

	if (!*name)
		return FUNC_NEW;
	if (f->func_class == GS_CLASS_PYTHON)
		return FUNC_PYTHON;
	if (f->layer == GS_LAYER_MPI)
		return FUNC_PLAIN;
	if (f->func_class == GS_CLASS_COLLECTIVE)
		return FUNC_COLLECTIVE;
	if (f->func_class == GS_CLASS_P2P)
		return FUNC_COMM_USE;
	if (f->func_class == GS_CLASS_GROUP || f->func_class == GS_CLASS_SYNC)
		return FUNC_STAY;
	if (strcmp(name, "ncclCommDestroy") == 0 || strcmp(name, "ncclCommAbort") == 0)
		return FUNC_COMM_END;
	return FUNC_PLAIN;
}

/* The same sorts as the kernel side's (src/bpf/calls/cell.bpf.h). */
static __attribute__((noinline)) void take_scope(struct gs_aggregate *v,
						 const struct gs_rec_call *call)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, call->function);
	struct view_use *u = &func_of(v, call->scope)->use;

	if (!f || (f->layer != GS_LAYER_CUDA_RUNTIME && f->layer != GS_LAYER_CUDA_DRIVER &&
		   f->layer != GS_LAYER_NCCL))
		return;
	switch (f->func_class) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
		u->launches++;
		break;
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
		u->copies++;
		break;
	case GS_CLASS_ALLOC:
		u->allocs++;
		break;
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		u->collectives++;
		break;
	default:
		u->others++;
	}
	u->total_ns += call->dur_ns;
	/* Bytes of frees are found out later, and only in a whole trace. */
	if (!call->failed && f->func_class != GS_CLASS_FREE)
		u->bytes += call->bytes;
}

static void take_use(struct gs_aggregate *v, const struct gs_rec_use *r)
{
	struct view_use *u = &func_of(v, r->function)->use;

	u->launches += r->launches;
	u->copies += r->copies;
	u->allocs += r->allocs;
	u->collectives += r->collectives;
	u->others += r->others;
	u->total_ns += r->total_ns;
	u->bytes += r->bytes;
	if (r->head.bytes >= sizeof(*r)) {
		struct view_func *f = func_of(v, r->function);

		f->py_self_ns += r->py_self_ns;
		f->py_launches += r->py_launches;
		f->py_resumes += r->py_resumes;
	}
	if (r->time_ns > v->last_ns)
		v->last_ns = r->time_ns;
}

static bool is_about_comm(const struct view_func *f)
{
	return f->kind == FUNC_COMM_USE || f->kind == FUNC_COLLECTIVE || f->kind == FUNC_COMM_END;
}

/* A call that is not FUNC_PLAIN. */
static __attribute__((noinline)) void take_special(struct gs_aggregate *v, struct view_func *f,
						   const struct gs_rec_call *call)
{
	const struct gs_rec_thread *t;
	struct view_comm *c;
	uint64_t handle;

	if (f->kind == FUNC_NEW)
		f->kind = func_kind(v, call->function);
	if (f->kind == FUNC_PYTHON) {
		f->py_self_ns += call->arg[0];
		f->py_launches += call->arg[1];
		f->py_resumes += (call->call_flags & GS_CALL_RESUMED) != 0;
	}
	if (!is_about_comm(f))
		return;
	t = gs_dict_thread(v->dict, call->thread);
	handle = call->arg[f->kind != FUNC_COMM_END];
	if (!t || !handle || (call->failed && f->kind != FUNC_COLLECTIVE))
		return;
	c = find_comm(v, t->process, handle);
	if (f->kind == FUNC_COMM_END) {
		if (c)
			gs_aggregate_take_member_end(v, c);
		return;
	}
	/* Made before tracing began, when it was never announced. */
	if (!c && !call->failed)
		c = add_comm(v, t->process, handle);
	if (f->kind == FUNC_COLLECTIVE)
		gs_aggregate_take_arrival(v, c, call);
	if (c && !call->failed && !(call->call_flags & GS_CALL_UNFINISHED)) {
		c->calls++;
		c->bytes += call->bytes;
	}
}

/* --- records --- */

static void take_open_call(struct gs_aggregate *v, const struct gs_rec_call *call)
{
	struct view_open *o = gs_aggregate_grow(&v->open, sizeof(*o), GS_AGGREGATE_MAX_OPEN);

	if (!o) {
		v->n_left_out++;
		return;
	}
	*o = (struct view_open){.thread = call->thread,
				.function = call->function,
				.age_ns = call->dur_ns,
				.depth = call->depth};
}

static inline int take_call(struct gs_aggregate *v, const struct gs_rec_call *call)
{
	uint64_t end_ns = call->start_ns + call->dur_ns;
	struct view_func *f = func_of(v, call->function);
	struct acc *a;

	if (end_ns > v->last_ns)
		v->last_ns = end_ns;
	v->native.taken += call->native_stack != 0;
	if (call->call_flags & (GS_CALL_UNFINISHED | GS_CALL_ADDED_UP)) {
		if (call->call_flags & GS_CALL_UNFINISHED)
			take_open_call(v, call);
		if (f->kind == FUNC_NEW)
			f->kind = func_kind(v, call->function);
		/* Its rank has arrived. */
		if (f->kind == FUNC_COLLECTIVE && !(call->call_flags & GS_CALL_ARGS_UNREAD))
			take_special(v, f, call);
		return 0;
	}
	a = find_acc(v, call->thread, call->function);
	if (!a)
		return -ENOMEM;
	f->calls++;
	a->calls++;
	if (!(call->call_flags & GS_CALL_UNTIMED)) {
		a->total_ns += call->dur_ns;
		if (call->dur_ns > a->max_ns)
			a->max_ns = call->dur_ns;
		a->hist[gs_hist_bucket(call->dur_ns)]++;
	}
	if (call->call_flags & GS_CALL_UNTIMED) {
		/* Nor is known whether it succeeded. */
	} else if (call->failed) {
		a->errors++;
		count_error(f, call->ret, 1);
	} else {
		a->bytes += call->bytes;
	}
	if (f->kind != FUNC_PLAIN)
		take_special(v, f, call);
	if (call->scope)
		take_scope(v, call);
	gs_activity_follow(v->activity, v->dict, &call->head);
	if (f->kind == FUNC_COLLECTIVE || f->kind == FUNC_STAY)
		gs_aggregate_take_stay(v, call);
	gs_aggregate_take_launch(v, call);
	gs_aggregate_take_step(v, call);
	return call->py_stack ? gs_aggregate_line_call(v, call) : 0;
}

static int take_stats(struct gs_aggregate *v, const struct gs_rec_stats *s)
{
	struct acc *a = find_acc(v, s->thread, s->function);
	struct view_func *f = func_of(v, s->function);
	uint64_t named = 0;

	if (s->time_ns > v->last_ns)
		v->last_ns = s->time_ns;
	if (!a)
		return -ENOMEM;
	gs_aggregate_take_added_up(v, s);
	f->calls += s->calls;
	a->calls += s->calls;
	a->errors += s->errors;
	a->total_ns += s->total_ns;
	a->bytes += s->bytes;
	a->inner += s->inner;
	a->stepped += s->stepped;
	if (s->max_ns > a->max_ns)
		a->max_ns = s->max_ns;
	for (uint32_t i = 0; i < s->n_buckets; i++) {
		uint32_t b = s->buckets[i].bucket;

		a->hist[b < GS_HIST_N_BUCKETS ? b : GS_HIST_N_BUCKETS - 1] += s->buckets[i].count;
	}
	for (unsigned i = 0; i < GS_ARRAY_LEN(s->err_code); i++) {
		if (!s->err_code[i] || !s->err_count[i])
			continue;
		count_error(f, s->err_code[i], s->err_count[i]);
		named += s->err_count[i];
	}
	if (s->errors > named)
		count_error(f, 0, s->errors - named);
	return 0;
}

static bool cause_is_of_calls(unsigned cause)
{
	switch (cause) {
	case GS_LOSS_RING_FULL:
	case GS_LOSS_TOO_DEEP:
	case GS_LOSS_NO_THREAD:
	case GS_LOSS_NO_CELL:
	case GS_LOSS_UNMATCHED:
	case GS_LOSS_EVENT_BAD:
		return true;
	default:
		return false;
	}
}

static bool add_lost(struct gs_aggregate *v, unsigned layer, unsigned cause, uint32_t detail_str,
		     uint64_t count, size_t max)
{
	struct view_lost *l = v->lost.items;

	for (size_t i = 0; i < v->lost.n; i++) {
		if (l[i].layer == layer && l[i].cause == cause && l[i].detail_str == detail_str) {
			l[i].count += count;
			return true;
		}
	}
	l = gs_aggregate_grow(&v->lost, sizeof(*l), max);
	if (l)
		*l = (struct view_lost){(uint16_t)layer, (uint16_t)cause, detail_str, count};
	return l != NULL;
}

static void take_loss(struct gs_aggregate *v, const struct gs_rec_loss *r)
{
	if (cause_is_of_calls(r->cause))
		v->n_lost_calls += r->count;
	gs_aggregate_take_lost_calls(v, r);
	/* Too many details: by cause alone, for which a few places are kept. */
	if (!add_lost(v, r->layer, r->cause, r->detail_str, r->count,
		      GS_AGGREGATE_MAX_LOST - GS_LOSS_COUNT) &&
	    !add_lost(v, 0, r->cause, 0, r->count, GS_AGGREGATE_MAX_LOST))
		v->n_left_out++;
}

static int take_entity(struct gs_aggregate *v, const struct gs_record *r)
{
	int ret;

	if (r->kind == GS_REC_PROCESS) {
		const struct gs_rec_process *p = (const void *)r;

		/* exec: its handles are gone. */
		if (gs_dict_process(v->dict, p->id) && !(p->head.flags & GS_PROCESS_SAME))
			end_comms_of(v, p->id);
	}
	gs_activity_follow(v->activity, v->dict, r);
	ret = gs_accuracy_take(v->accuracy, r);
	if (ret == 0)
		ret = gs_dict_apply(v->dict, r);
	if (r->kind == GS_REC_FUNCTION) {
		const struct gs_rec_function *f = (const void *)r;

		if (f->id && f->id < GS_AGGREGATE_MAX_FUNCTIONS)
			v->funcs[f->id].kind = FUNC_NEW;
	}
	/* An id out of range: what uses it counts as unknown. */
	if (ret != -ENOMEM)
		ret = gs_gpu_times_take(&v->gpu_times, v->dict, r);
	return ret == -ENOMEM ? ret : gs_nccl_ops_take(&v->nccl_ops, v->dict, r);
}

static void take_native(struct gs_aggregate *v, const struct gs_record *r)
{
	const struct gs_rec_sample *sample = (const void *)r;
	const struct gs_rec_frame *frame = (const void *)r;
	const struct gs_rec_stack *stack = (const void *)r;

	if (r->kind == GS_REC_SAMPLE)
		v->native.taken += sample->native_stack != 0;
	if (r->kind == GS_REC_FRAME && frame->frame_kind == GS_FRAME_NATIVE)
		v->native.unnamed += frame->function_str == 0;
	if (r->kind == GS_REC_STACK && stack->stack_kind == GS_STACK_NATIVE) {
		v->native.different++;
		v->native.cut += stack->stack_flags != 0;
	}
}

static void take_cost(struct gs_aggregate *v, const struct gs_rec_counter *c)
{
	const char *name = gs_dict_string(v->dict, c->name_str);

	if (c->value < 0)
		return;
	if (strcmp(name, GS_COUNTER_CALL) == 0)
		v->call_cost_ns = (uint64_t)c->value;
	if (strcmp(name, GS_COUNTER_STEP) == 0)
		v->step_ns = (uint64_t)c->value;
	if (strcmp(name, GS_COUNTER_MEAN) == 0) {
		v->has_cost = true;
		v->cost_ppm = (uint64_t)c->value;
	}
	if (strcmp(name, GS_COUNTER_COST) != 0)
		return;
	/* A moment at the end says nothing of the program. */
	if (c->time_ns - v->cost_last_ns >= 40000000 && (uint64_t)c->value > v->cost_worst_ppm)
		v->cost_worst_ppm = (uint64_t)c->value;
	v->cost_last_ns = c->time_ns;
}

static int take_other(struct gs_aggregate *v, const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_LOSS:
		take_loss(v, (const void *)r);
		return 0;
	case GS_REC_ATTACH: {
		struct gs_rec_attach *a =
			gs_aggregate_grow(&v->attached, sizeof(*a), GS_AGGREGATE_MAX_ATTACHED);

		if (a)
			memcpy(a, r, sizeof(*a));
		else
			v->n_left_out++;
		return 0;
	}
	case GS_REC_USE:
		take_use(v, (const void *)r);
		return 0;
	case GS_REC_COMM:
		take_comm(v, (const void *)r);
		return 0;
	case GS_REC_COUNTER: {
		const struct gs_rec_counter *c = (const void *)r;

		if (c->time_ns > v->last_ns)
			v->last_ns = c->time_ns;
		if (!c->process)
			take_cost(v, c);
		return 0;
	}
	case GS_REC_SAMPLE:
		take_native(v, r);
		return gs_aggregate_line_sample(v, (const void *)r);
	case GS_REC_MARK:
		gs_aggregate_take_mark(v, (const void *)r);
		return 0;
	case GS_REC_WAIT:
		return gs_aggregate_line_wait(v, (const void *)r);
	case GS_REC_FRAME:
	case GS_REC_STACK:
		take_native(v, r);
		return take_entity(v, r);
	case GS_REC_AGGREGATE:
		return gs_aggregate_take_aggregate(v, (const void *)r);
	case GS_REC_MPI:
		gs_aggregate_take_mpi(v, (const void *)r);
		return 0;
	case GS_REC_ALLOCATOR: {
		void *a = gs_aggregate_grow(&v->allocators, sizeof(struct gs_rec_allocator),
					    GS_AGGREGATE_MAX_COMMS);

		if (a)
			memcpy(a, r, sizeof(struct gs_rec_allocator));
		else
			v->n_left_out++;
		return 0;
	}
	case GS_REC_LEAK: {
		void *l = gs_aggregate_grow(&v->leaks, sizeof(struct gs_rec_leak),
					    GS_AGGREGATE_MAX_COMMS);

		if (l)
			memcpy(l, r, sizeof(struct gs_rec_leak));
		else
			v->n_left_out++;
		return 0;
	}
	case GS_REC_HOST_SAMPLE:
	case GS_REC_GPU_INFO:
	case GS_REC_GPU_PROCESS:
		v->n_left_out += !gs_holders_take(v->holders, r);
		return take_entity(v, r);
	case GS_REC_MEMORY:
	case GS_REC_MEMORY_SITE:
		v->n_left_out += !gs_holders_take(v->holders, r);
		return 0;
	case GS_REC_HANG:
		v->n_left_out += !gs_hangs_take(&v->hangs, (const void *)r);
		return 0;
	case GS_REC_ACCOUNT:
		return gs_aggregate_take_account(v, (const void *)r);
	case GS_REC_END:
		memcpy(&v->end, r, sizeof(v->end));
		v->ended = true;
		return 0;
	default:
		return take_entity(v, r);
	}
}

static int view_push(void *ctx, const struct gs_batch *batch)
{
	const struct gs_record *r;
	struct gs_aggregate *v = ctx;
	size_t offset = 0;
	int ret = 0;

	while ((r = gs_record_next(batch, &offset)) != NULL) {
		int one = r->kind == GS_REC_CALL    ? take_call(v, (const void *)r)
			  : r->kind == GS_REC_STATS ? take_stats(v, (const void *)r)
						    : take_other(v, r);

		if (one < 0)
			ret = one;
	}
	return ret < 0 ? ret : offset < batch->bytes ? -EBADMSG : 0;
}

uint64_t gs_aggregate_calls(const struct gs_aggregate *v, unsigned layer)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < v->n_funcs; i++) {
		const struct gs_rec_function *f;

		if (!v->funcs[i].calls)
			continue;
		f = gs_dict_function(v->dict, i);
		if (!layer || (f && f->layer == layer))
			calls += v->funcs[i].calls;
	}
	return calls;
}

uint64_t gs_aggregate_lost(const struct gs_aggregate *v)
{
	return v->n_lost_calls;
}
