/*
 * What the tests of feed share: a feed over a made-up proc folder, a sink that keeps the whole
 * stream, and a check that every id is defined before it is used. Include after cmocka.h.
 */
#ifndef GS_TEST_FEED_H
#define GS_TEST_FEED_H

#include <errno.h>

#include "pipeline/ingest/ingest.h"
#include "model/trace/dict.h"
#include "model/trace/exec.h"
#include "model/trace/func.h"
#include "unit/identity/fake_proc.h"

#define BOOT_MINUS_MONO_NS 7000000000ll

struct capture {
	struct gs_buf stream; /* all batches, one behind the other */
	unsigned n_pushes, n_flushes;
	size_t largest_bytes;
	unsigned fail_push_at, fail_flush_at; /* from 1; 0 never */
	bool drop;                            /* count only */
};

struct fixture {
	struct fake *proc;
	struct gs_ingest *feed;
	struct capture capture;
	struct gs_batch all;  /* the captured stream */
	struct gs_dict *dict; /* of it */
};

static inline int capture_push(void *ctx, const struct gs_batch *batch)
{
	struct capture *c = ctx;

	if (++c->n_pushes == c->fail_push_at)
		return -ENOSPC;
	if (batch->bytes > c->largest_bytes)
		c->largest_bytes = batch->bytes;
	return c->drop ? 0 : gs_buf_put(&c->stream, batch->data, batch->bytes);
}

static inline int capture_flush(void *ctx)
{
	struct capture *c = ctx;

	return ++c->n_flushes == c->fail_flush_at ? -EIO : 0;
}

static inline struct gs_sink capture_sink(struct capture *c)
{
	c->stream = GS_BUF_INIT(64u << 20);
	return (struct gs_sink){.push = capture_push, .flush = capture_flush, .ctx = c};
}

static inline int feed_setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *proc;
	struct gs_ingest_options options = {
		.size = sizeof(options),
		.mode = GS_SESSION_EVENTS,
		.command = "python train.py",
		.attach_mode = "uprobes",
		.boot_minus_mono_ns = BOOT_MINUS_MONO_NS,
	};
	struct gs_sink sink = capture_sink(&x->capture);

	if (fake_setup(&proc) < 0)
		return -1;
	x->proc = proc;
	options.place = x->proc->place;
	*state = x;
	return gs_ingest_new(&options, &x->feed) || gs_ingest_add_sink(x->feed, "capture", &sink);
}

static inline int feed_teardown(void **state)
{
	struct fixture *x = *state;
	void *proc = x->proc;

	gs_ingest_free(&x->feed);
	assert_null(x->feed);
	gs_buf_fini(&x->capture.stream);
	gs_dict_free(&x->dict);
	free(x);
	return fake_teardown(&proc);
}

/* Flush, check the stream so far, and have all of it in x->all and x->dict. */
static inline void feed_take(struct fixture *x)
{
	size_t offset = 0;
	const struct gs_record *r;
	bool first = true;

	gs_ingest_flush(x->feed);
	gs_dict_free(&x->dict);
	x->dict = gs_dict_new();
	gs_dict_keep_stacks(x->dict);
	x->all = (struct gs_batch){x->capture.stream.data, x->capture.stream.bytes};
	while ((r = gs_record_next(&x->all, &offset))) {
		const struct gs_rec_thread *t = (const void *)r;
		const struct gs_rec_call *c = (const void *)r;
		const struct gs_rec_stats *s = (const void *)r;
		const struct gs_rec_comm *m = (const void *)r;

		assert_int_equal(first, r->kind == GS_REC_SESSION);
		first = false;
		if (r->kind == GS_REC_THREAD)
			assert_non_null(gs_dict_process(x->dict, t->process));
		if (r->kind == GS_REC_CALL) {
			assert_non_null(gs_dict_thread(x->dict, c->thread));
			assert_non_null(gs_dict_function(x->dict, c->function));
		}
		if (r->kind == GS_REC_STATS) {
			assert_non_null(gs_dict_thread(x->dict, s->thread));
			assert_non_null(gs_dict_function(x->dict, s->function));
		}
		if (r->kind == GS_REC_COMM)
			assert_non_null(gs_dict_process(x->dict, m->process));
		assert_int_equal(gs_dict_apply(x->dict, r), 0);
	}
	assert_int_equal(offset, x->all.bytes);
}

static inline unsigned feed_count(const struct fixture *x, enum gs_record_kind kind)
{
	unsigned n = 0;

	gs_records_for_each (&x->all, r)
		n += r->kind == kind;
	return n;
}

/* The i-th record of a kind, from 0; a negative i counts from the last. */
static inline const void *feed_record(const struct fixture *x, enum gs_record_kind kind, int i)
{
	if (i < 0)
		i += (int)feed_count(x, kind);
	gs_records_for_each (&x->all, r)
		if (r->kind == kind && i-- == 0)
			return r;
	fail_msg("no such record of kind %d", kind);
	return NULL;
}

/* What was lost for a cause, all records together. */
static inline uint64_t feed_lost(const struct fixture *x, enum gs_loss cause)
{
	uint64_t n = 0;

	gs_records_for_each (&x->all, r) {
		const struct gs_rec_loss *l = (const void *)r;

		if (r->kind == GS_REC_LOSS && l->cause == cause)
			n += l->count;
	}
	return n;
}

static inline uint16_t func_id(const char *name)
{
	const struct gs_func *f = gs_func_by_name(name);

	assert_non_null(f);
	return f->id;
}

static inline struct gs_event_call make_call(uint32_t pid, uint32_t tid, const char *function)
{
	return (struct gs_event_call){
		.head = {.kind = GS_EV_CALL, .bytes = sizeof(struct gs_event_call)},
		.start_ns = 1000,
		.dur_ns = 10,
		.pid = pid,
		.tid = tid,
		.func = func_id(function),
	};
}

static inline void send_call(struct fixture *x, uint32_t pid, uint32_t tid)
{
	struct gs_event_call ev = make_call(pid, tid, "cudaMalloc");

	gs_ingest_event(x->feed, &ev.head);
}

static inline void send_task(struct fixture *x, enum gs_task_change change, uint32_t pid,
			     uint32_t tid, const char *comm, uint32_t slot)
{
	struct gs_event_exec ev = {
		.task = {.head = {.kind = GS_EV_TASK, .bytes = sizeof(ev.task)},
			 .pid = pid,
			 .tid = tid,
			 .change = change,
			 .thread_slot = slot,
			 .parent_pid = 99},
	};

	if (change == GS_TASK_EXEC)
		ev.task.head.bytes = sizeof(ev);
	memcpy(ev.task.comm, comm, strnlen(comm, sizeof(ev.task.comm)));
	gs_ingest_event(x->feed, &ev.task.head);
}

static inline void send_exec(struct fixture *x, uint32_t pid, const char *comm, const char *file)
{
	struct gs_event_exec ev = {
		.task = {.head = {.kind = GS_EV_TASK, .bytes = sizeof(ev)},
			 .pid = pid,
			 .tid = pid,
			 .change = GS_TASK_EXEC},
	};

	snprintf(ev.task.comm, sizeof(ev.task.comm), "%s", comm);
	snprintf(ev.file, sizeof(ev.file), "%s", file);
	gs_ingest_event(x->feed, &ev.task.head);
}

/* The thread id of the last call. */
static inline uint32_t last_thread(const struct fixture *x)
{
	return ((const struct gs_rec_call *)feed_record(x, GS_REC_CALL, -1))->thread;
}

static inline const char *text_of(const struct fixture *x, uint32_t id)
{
	return gs_dict_string(x->dict, id);
}

#define FEED_TEST(name) cmocka_unit_test_setup_teardown(name, feed_setup, feed_teardown)

#endif
