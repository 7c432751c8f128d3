/*
 * A stream of records put together by hand, for tests of those who read records.
 */
#ifndef GS_TESTS_RECORDS_H
#define GS_TESTS_RECORDS_H

#include <string.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "model/trace/record.h"

struct stream {
	struct gs_buf buf;
	uint32_t n_strings;
};

#define STREAM_INIT ((struct stream){.buf = GS_BUF_INIT(1u << 30)})

static inline GS_UNUSED void stream_fini(struct stream *s)
{
	gs_buf_fini(&s->buf);
}

#define STREAM GS_CLEANUP(stream_fini) struct stream

static inline GS_UNUSED struct gs_batch stream_batch(const struct stream *s)
{
	return (struct gs_batch){s->buf.data, s->buf.bytes};
}

/* Push what was put so far and start the next batch. */
static inline GS_UNUSED int stream_push(struct stream *s, const struct gs_sink *sink)
{
	struct gs_batch b = stream_batch(s);
	int r = sink->push(sink->ctx, &b);

	gs_buf_reset(&s->buf);
	return r;
}

static inline GS_UNUSED uint32_t put_text(struct stream *s, const char *text)
{
	if (gs_record_put_string(&s->buf, ++s->n_strings, text, strlen(text)) < 0)
		abort();
	return s->n_strings;
}

static inline GS_UNUSED void *put_record(struct stream *s, enum gs_record_kind kind, size_t bytes,
					 size_t tail_bytes)
{
	void *r = gs_record_put(&s->buf, kind, bytes, tail_bytes);

	if (!r)
		abort();
	return r;
}

static inline GS_UNUSED void put_process(struct stream *s, uint32_t id, uint32_t pid,
					 const char *comm)
{
	uint32_t str = put_text(s, comm);
	struct gs_rec_process *p = put_record(s, GS_REC_PROCESS, sizeof(*p), 0);

	p->id = id;
	p->pid = pid;
	p->ns_pid = pid + 1;
	p->parent_pid = 1;
	p->uid = 1000;
	p->comm_str = str;
	p->exe_str = str;
	p->cmdline_str = str;
}

static inline GS_UNUSED void put_thread(struct stream *s, uint32_t id, uint32_t process,
					uint32_t tid, const char *comm)
{
	uint32_t str = put_text(s, comm);
	struct gs_rec_thread *t = put_record(s, GS_REC_THREAD, sizeof(*t), 0);

	t->id = id;
	t->process = process;
	t->tid = tid;
	t->comm_str = str;
}

static inline GS_UNUSED void put_function(struct stream *s, uint32_t id, unsigned layer,
					  unsigned func_class, const char *name)
{
	uint32_t str = put_text(s, name);
	struct gs_rec_function *f = put_record(s, GS_REC_FUNCTION, sizeof(*f), 0);

	f->id = id;
	f->layer = (uint16_t)layer;
	f->func_class = (uint16_t)func_class;
	f->name_str = str;
}

/* Good until the next put. */
static inline GS_UNUSED struct gs_rec_call *
put_call(struct stream *s, uint32_t thread, uint32_t function, uint64_t start_ns, uint64_t dur_ns)
{
	struct gs_rec_call *c = put_record(s, GS_REC_CALL, sizeof(*c), 0);

	c->thread = thread;
	c->function = function;
	c->start_ns = start_ns;
	c->dur_ns = dur_ns;
	return c;
}

static inline GS_UNUSED struct gs_rec_comm *put_comm(struct stream *s, uint32_t process,
						     uint64_t comm, int32_t rank, int32_t n_ranks,
						     uint64_t id_hash)
{
	struct gs_rec_comm *c = put_record(s, GS_REC_COMM, sizeof(*c), 0);

	c->process = process;
	c->comm = comm;
	c->rank = rank;
	c->n_ranks = n_ranks;
	c->id_hash = id_hash;
	c->color = GS_COMM_NO_SPLIT;
	return c;
}

#endif
