/*
 * Events, cells and open calls to records. gs_ingest_event() for a call of a known thread is the path
 * that every traced call takes: one look into a small table, one record.
 */
#include "pipeline/ingest/ingest.h"

#include <string.h>

#include "core/base/clock.h"
#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_mark.h"
#include "model/trace/record_stack.h"

static void count_bad_event(struct gs_ingest *f)
{
	f->pending_loss[GS_LOSS_EVENT_BAD]++;
}

bool gs_ingest_call(struct gs_ingest *f, const struct gs_event_call *ev,
		    const struct gs_event_values *values)
{
	const struct gs_func *func = gs_ingest_function(f, ev->func);
	const struct gs_func *scope = ev->scope ? gs_ingest_function(f, ev->scope) : NULL;
	struct gs_rec_call *c;
	uint32_t thread;

	if (!func || !ev->pid || !ev->tid || (ev->scope && !scope))
		return false;
	thread = gs_ingest_thread(f, ev->pid, ev->tid);
	if (!thread) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return true;
	}
	if (!f->seen[ev->tid % GS_INGEST_CACHE].uses_gpu && func->desc.layer <= GS_LAYER_NCCL)
		gs_ingest_uses_gpu(f, ev->pid, ev->tid);
	if (values && !gs_ingest_put_values(f, values))
		return false;
	if ((func->desc.op == GS_CLASS_LAUNCH && func->desc.layer <= GS_LAYER_CUDA_DRIVER) ||
	    func->desc.post == GS_POST_GRAPH_KERNEL)
		gs_ingest_launch(f, func, ev);
	else if (func->desc.post == GS_POST_KERNEL_NAME || func->desc.post == GS_POST_KERNEL_OF ||
		 func->desc.post == GS_POST_KERNEL_SAID)
		gs_ingest_kernel_handle(f, func, ev);
	c = gs_ingest_put(f, GS_REC_CALL, sizeof(*c), 0);
	c->start_ns = ev->start_ns + (uint64_t)f->boot_minus_mono_ns;
	c->dur_ns = ev->dur_ns;
	c->thread = thread;
	c->function = func->id;
	c->ret = ev->ret;
	c->aux = ev->aux;
	c->cpu = ev->cpu;
	c->depth = ev->depth;
	c->call_flags = ev->flags;
	c->failed = ev->ret != 0 && ev->ret != func->desc.not_error;
	c->bytes = ev->bytes;
	c->stream = ev->stream;
	memcpy(c->arg, ev->arg, sizeof(c->arg));
	c->scope = scope ? scope->id : 0;
	c->py_stack = ev->py_stack;
	c->native_stack = gs_ingest_native_id(f, ev->native_stack);
	return true;
}

static bool put_mark(struct gs_ingest *f, const struct gs_event_mark *ev)
{
	const struct gs_func *func = gs_ingest_function(f, ev->func);
	struct gs_rec_mark *m;
	uint32_t thread;

	if (!func || !ev->pid || !ev->tid)
		return false;
	thread = gs_ingest_thread(f, ev->pid, ev->tid);
	if (!thread) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return true;
	}
	m = gs_ingest_put(f, GS_REC_MARK, sizeof(*m), 0);
	m->time_ns = ev->time_ns + (uint64_t)f->boot_minus_mono_ns;
	m->dur_ns = ev->dur_ns;
	m->called = ev->called;
	m->covered_ns = ev->covered_ns;
	m->cpu_ns = ev->cpu_ns;
	m->calls = ev->calls;
	m->thread = thread;
	m->function = func->id;
	return true;
}

#define ANY_BYTES 0xffff /* its size is checked where it is read */

void gs_ingest_event(struct gs_ingest *f, const struct gs_event *ev)
{
	static const uint16_t kind_bytes[GS_EV_COUNT] = {
		[GS_EV_CALL] = sizeof(struct gs_event_call),
		[GS_EV_COMM] = sizeof(struct gs_event_comm),
		[GS_EV_TASK] = ANY_BYTES,
		[GS_EV_STACK] = ANY_BYTES,
		[GS_EV_SAMPLE] = sizeof(struct gs_event_sample),
		[GS_EV_WAIT] = sizeof(struct gs_event_wait),
		[GS_EV_MARK] = sizeof(struct gs_event_mark),
		[GS_EV_CODE] = ANY_BYTES,
		[GS_EV_STACK_BYTES] = ANY_BYTES,
		[GS_EV_PYFUNC] = ANY_BYTES,
		[GS_EV_KERNEL] = sizeof(struct gs_event_kernel),
	};
	bool good = false;

	if (f->ended)
		return;
	if (ev->kind == GS_EV_VALUES) { /* of its own length each */
		if (!gs_ingest_values(f, ev))
			count_bad_event(f);
		gs_ingest_settle(f);
		return;
	}
	/* The kernel side is of the same build: other sizes than these are damage. */
	if (ev->kind < GS_EV_COUNT &&
	    (ev->bytes == kind_bytes[ev->kind] || kind_bytes[ev->kind] == ANY_BYTES)) {
		switch (ev->kind) {
		case GS_EV_STACK:
			good = gs_ingest_stack(f, (const void *)ev);
			break;
		case GS_EV_SAMPLE:
			good = gs_ingest_sample(f, (const void *)ev);
			break;
		case GS_EV_WAIT:
			good = gs_ingest_wait(f, (const void *)ev);
			break;
		case GS_EV_MARK:
			good = put_mark(f, (const void *)ev);
			break;
		case GS_EV_CODE:
			good = gs_ingest_code(f, (const void *)ev);
			break;
		case GS_EV_PYFUNC:
			good = gs_ingest_pyfunc_named(f, (const void *)ev);
			break;
		case GS_EV_STACK_BYTES:
			good = gs_ingest_native(f, (const void *)ev);
			break;
		case GS_EV_CALL:
			good = gs_ingest_call(f, (const void *)ev, NULL);
			break;
		case GS_EV_KERNEL:
			good = gs_ingest_kernel_asked(f, (const void *)ev);
			break;
		case GS_EV_COMM:
			good = gs_ingest_comm(f, (const void *)ev);
			break;
		case GS_EV_TASK:
			good = gs_ingest_task(f, (const void *)ev);
			if (good) {
				gs_ingest_native_task(f, (const void *)ev);
				gs_ingest_kernels_task(f, (const void *)ev);
			}
			break;
		}
	}
	if (!good)
		count_bad_event(f);
	gs_ingest_settle(f);
}

/* Non-zero differences of the two histograms, modulo 2^32; returns how many. */
static uint32_t hist_difference(const struct gs_cell *before, const struct gs_cell *now,
				struct gs_rec_bucket out[GS_HIST_N_BUCKETS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GS_HIST_N_BUCKETS; i++) {
		uint32_t d = now->hist[i] - before->hist[i];

		if (d)
			out[n++] = (struct gs_rec_bucket){.bucket = i, .count = d};
	}
	return n;
}

/* A code has its slot for as long as the cell lives; slots fill up in order. */
static void error_difference(const struct gs_cell *before, const struct gs_cell *now,
			     struct gs_rec_stats *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < GS_ERR_CODES; i++) {
		uint32_t d = now->err_count[i] - before->err_count[i];

		if (now->err_code[i] && d) {
			s->err_code[n] = now->err_code[i];
			s->err_count[n++] = d;
		}
	}
}

static bool use_changed(const struct gs_cell *before, const struct gs_cell *now)
{
	return memcmp(&before->use, &now->use, sizeof(now->use)) != 0 ||
	       memcmp(&before->py, &now->py, sizeof(now->py)) != 0;
}

static void put_use(struct gs_ingest *f, uint32_t thread, uint32_t function,
		    const struct gs_cell *before, const struct gs_cell *now)
{
	const struct gs_use *a = &before->use, *b = &now->use;
	struct gs_rec_use *u;

	if (!use_changed(before, now))
		return;
	u = gs_ingest_put(f, GS_REC_USE, sizeof(*u), 0);
	u->thread = thread;
	u->function = function;
	u->time_ns = gs_clock_boot_ns();
	u->launches = b->launches - a->launches;
	u->copies = b->copies - a->copies;
	u->allocs = b->allocs - a->allocs;
	u->collectives = b->collectives - a->collectives;
	u->others = b->others - a->others;
	u->total_ns = b->total_ns - a->total_ns;
	u->bytes = b->bytes - a->bytes;
	u->py_self_ns = now->py.self_ns - before->py.self_ns;
	u->py_launches = now->py.launches - before->py.launches;
	u->py_resumes = now->py.resumes - before->py.resumes;
}

static bool cell_grew(const struct gs_cell *before, const struct gs_cell *now)
{
	return now->calls >= before->calls && now->errors >= before->errors &&
	       now->total_ns >= before->total_ns && now->bytes >= before->bytes &&
	       now->inner >= before->inner && now->skipped >= before->skipped &&
	       now->stepped >= before->stepped;
}

void gs_ingest_cell(struct gs_ingest *f, const struct gs_thread *thread,
		    const struct gs_cell *before, const struct gs_cell *now)
{
	struct gs_rec_bucket buckets[GS_HIST_N_BUCKETS];
	const struct gs_func *func;
	struct gs_rec_stats *s;
	uint32_t n, id;

	if (f->ended)
		return;
	n = hist_difference(before, now, buckets);
	if (n == 0 && now->calls == before->calls && now->errors == before->errors &&
	    now->total_ns == before->total_ns && now->bytes == before->bytes &&
	    now->inner == before->inner && now->skipped == before->skipped &&
	    now->stepped == before->stepped && !use_changed(before, now))
		return;
	/* A Python function is known to feed alone. */
	func = now->func < GS_FUNC_MAX ? gs_func_set_get(f->funcs, now->func)
				       : gs_ingest_pyfunc(f, now->func);
	if (!func || !thread->pid || !thread->tid || !cell_grew(before, now)) {
		count_bad_event(f);
		return;
	}
	id = gs_ingest_thread_find(f, thread->pid, thread->tid, thread->comm, now->thread_slot);
	if (!id) {
		f->pending_loss[GS_LOSS_NO_THREAD] += now->calls - before->calls;
		return;
	}
	gs_ingest_function(f, now->func);
	put_use(f, id, func->id, before, now);
	if (now->skipped != before->skipped)
		gs_ingest_loss(f, func->desc.layer, GS_LOSS_BUDGET, func->name,
			       now->skipped - before->skipped);
	if (n == 0 && now->calls == before->calls && now->inner == before->inner &&
	    now->stepped == before->stepped) {
		gs_ingest_settle(f);
		return;
	}
	s = gs_ingest_put(f, GS_REC_STATS, sizeof(*s), n * sizeof(s->buckets[0]));
	s->thread = id;
	s->function = func->id;
	s->time_ns = gs_clock_boot_ns();
	s->calls = now->calls - before->calls;
	s->errors = now->errors - before->errors;
	s->total_ns = now->total_ns - before->total_ns;
	s->max_ns = now->max_ns;
	s->bytes = now->bytes - before->bytes;
	s->inner = now->inner - before->inner;
	s->stepped = (uint32_t)(now->stepped - before->stepped);
	error_difference(before, now, s);
	s->n_buckets = n;
	memcpy(s->buckets, buckets, n * sizeof(buckets[0]));
	gs_ingest_settle(f);
}

void gs_ingest_open_call(struct gs_ingest *f, const struct gs_thread *thread,
			 const struct gs_frame *frame, unsigned depth, uint64_t now_mono_ns)
{
	const struct gs_func *func;
	struct gs_rec_call *c;
	uint32_t id;

	if (f->ended)
		return;
	func = gs_ingest_function(f, frame->func);
	if (!func || !thread->pid || !thread->tid) {
		count_bad_event(f);
		return;
	}
	id = gs_ingest_thread_find(f, thread->pid, thread->tid, thread->comm, 0);
	if (!id) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return;
	}
	c = gs_ingest_put(f, GS_REC_CALL, sizeof(*c), 0);
	c->start_ns = frame->start_ns + (uint64_t)f->boot_minus_mono_ns;
	c->dur_ns = now_mono_ns > frame->start_ns ? now_mono_ns - frame->start_ns : 0;
	c->thread = id;
	c->function = func->id;
	c->depth = (uint8_t)depth;
	c->call_flags = frame->flags | GS_CALL_UNFINISHED;
	gs_ingest_open_args(&func->desc, frame, c);
	gs_ingest_settle(f);
}

void gs_ingest_open_scope(struct gs_ingest *f, const struct gs_thread *thread, unsigned depth,
			  uint64_t now_mono_ns)
{
	const struct gs_scope *scope = &thread->scope[depth];
	const struct gs_func *func;
	struct gs_rec_call *c;
	const struct gs_func *outer;
	uint32_t id, around = depth ? thread->scope[depth - 1].func : 0;

	if (f->ended)
		return;
	func = gs_ingest_function(f, scope->func);
	outer = around ? gs_ingest_function(f, around) : NULL;
	if (!func || !thread->pid || !thread->tid || (around && !outer)) {
		count_bad_event(f);
		return;
	}
	id = gs_ingest_thread_find(f, thread->pid, thread->tid, thread->comm, 0);
	if (!id) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return;
	}
	c = gs_ingest_put(f, GS_REC_CALL, sizeof(*c), 0);
	c->start_ns = scope->start_ns + (uint64_t)f->boot_minus_mono_ns;
	c->dur_ns = now_mono_ns > scope->start_ns ? now_mono_ns - scope->start_ns : 0;
	c->thread = id;
	c->function = func->id;
	c->depth = (uint8_t)depth;
	c->call_flags = GS_CALL_UNFINISHED;
	c->scope = outer ? outer->id : 0;
	gs_ingest_settle(f);
}
