/* What the tests of the journal share: records of every kind, files in memory, a frame walker. */
#ifndef TESTS_UNIT_JOURNAL_COMMON_H
#define TESTS_UNIT_JOURNAL_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "pipeline/recording/recording.h"
#include "pipeline/recording/recording_int.h"
#include "model/trace/dict.h"

#define KIND_OF_THE_FUTURE 999

/* A file without a name; path leads to it, for as long as fd is open. */
struct memory_file {
	int fd;
	char path[64];
};

static inline struct memory_file memory_file(void)
{
	struct memory_file f;

	f.fd = memfd_create("journal", MFD_CLOEXEC);
	assert_true(f.fd >= 0);
	snprintf(f.path, sizeof(f.path), "/proc/%d/fd/%d", getpid(), f.fd);
	return f;
}

static inline void set_content(const struct memory_file *f, const void *data, size_t bytes)
{
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(pwrite(f->fd, data, bytes, 0), bytes);
}

static inline struct gs_buf content(const struct memory_file *f)
{
	struct gs_buf b = GS_BUF_INIT(256u << 20);
	struct stat st;
	void *p;

	assert_int_equal(fstat(f->fd, &st), 0);
	p = gs_buf_extend(&b, (size_t)st.st_size);
	if (st.st_size)
		assert_int_equal(pread(f->fd, p, (size_t)st.st_size, 0), st.st_size);
	return b;
}

static inline struct gs_batch batch_of(const struct gs_buf *b)
{
	return (struct gs_batch){b->data, b->bytes};
}

static inline struct gs_buf records(void)
{
	return GS_BUF_INIT(256u << 20);
}

static inline void put_call(struct gs_buf *b, uint64_t i)
{
	struct gs_rec_call *c = gs_record_put(b, GS_REC_CALL, sizeof(*c), 0);

	c->start_ns = 1000000000 + i * 5000;
	c->dur_ns = 1800 + i * 37 % 911;
	c->thread = 1;
	c->function = 1 + i % 2;
	c->cpu = (uint16_t)(i % 64);
	c->bytes = i * 4096;
	c->stream = 0x7f0000001000 + (i % 4) * 256;
	c->arg[0] = 0x7fab00000000 + i * 512;
}

static inline void put_string(struct gs_buf *b, uint32_t id, const char *text)
{
	assert_int_equal(gs_record_put_string(b, id, text, strlen(text)), 0);
}

static inline void put_session(struct gs_buf *b)
{
	struct gs_rec_session *s = gs_record_put(b, GS_REC_SESSION, sizeof(*s), 0);

	s->version = GS_RECORD_VERSION;
	s->mode = GS_SESSION_EVENTS;
	s->start_ns = 999999999;
	s->wall_minus_boot_ns = 1700000000000000000;
	s->host_str = 1;
	s->command_str = 2;
	put_string(b, 1, "node17");
	put_string(b, 2, "python train.py --lr 0.1");
}

static inline void put_process(struct gs_buf *b, uint32_t id, uint32_t comm_str)
{
	struct gs_rec_process *p = gs_record_put(b, GS_REC_PROCESS, sizeof(*p), 0);

	p->id = id;
	p->pid = 4000 + id;
	p->ns_pid = id;
	p->parent_pid = 1;
	p->uid = 1000;
	p->comm_str = comm_str;
	p->start_ns = 77;
}

static inline void put_thread(struct gs_buf *b, uint32_t id, uint32_t process, uint32_t comm_str)
{
	struct gs_rec_thread *t = gs_record_put(b, GS_REC_THREAD, sizeof(*t), 0);

	t->id = id;
	t->process = process;
	t->tid = 4000 + id;
	t->comm_str = comm_str;
}

static inline void put_function(struct gs_buf *b, uint32_t id, uint32_t name_str)
{
	struct gs_rec_function *f = gs_record_put(b, GS_REC_FUNCTION, sizeof(*f), 0);

	f->id = id;
	f->layer = 1;
	f->func_class = 5;
	f->name_str = name_str;
}

static inline void put_comm(struct gs_buf *b, uint64_t comm, int32_t n_ranks)
{
	struct gs_rec_comm *c = gs_record_put(b, GS_REC_COMM, sizeof(*c), 0);

	c->process = 1;
	c->rank = 3;
	c->n_ranks = n_ranks;
	c->origin_str = 5;
	c->comm = comm;
	c->id_hash = 0x1234567890abcdef;
	c->color = GS_COMM_NO_SPLIT;
	c->key = -7;
	c->n_excluded = 20;
	c->excluded[0] = 5;
	c->excluded[15] = 9;
}

/* SESSION to COMM: what the calls of put_call() refer to. */
static inline void put_definitions(struct gs_buf *b)
{
	put_session(b);
	put_string(b, 3, "python");
	put_process(b, 1, 3);
	put_thread(b, 1, 1, 3);
	put_string(b, 4, "cudaMemcpyAsync");
	put_function(b, 1, 4);
	put_string(b, 5, "ncclCommInitRank");
	put_function(b, 2, 5);
	put_comm(b, 0x55550000, 8);
}

static inline void put_stats(struct gs_buf *b)
{
	struct gs_rec_stats *s =
		gs_record_put(b, GS_REC_STATS, sizeof(*s), 2 * sizeof(s->buckets[0]));

	s->thread = 1;
	s->function = 2;
	s->time_ns = 2000000000;
	s->calls = 12;
	s->errors = 2;
	s->total_ns = 123456;
	s->max_ns = 65536;
	s->bytes = 1 << 20;
	s->inner = 3;
	s->err_code[0] = 2;
	s->err_count[0] = 2;
	s->n_buckets = 2;
	s->buckets[0] = (struct gs_rec_bucket){40, 7};
	s->buckets[1] = (struct gs_rec_bucket){41, 5};
}

static inline void put_counter(struct gs_buf *b)
{
	struct gs_rec_counter *c = gs_record_put(b, GS_REC_COUNTER, sizeof(*c), 0);

	c->process = 1;
	c->name_str = 3;
	c->time_ns = 2000000001;
	c->value = -5;
	c->unit = GS_UNIT_BYTES;
}

static inline void put_end(struct gs_buf *b)
{
	struct gs_rec_end *e = gs_record_put(b, GS_REC_END, sizeof(*e), 0);

	e->end_ns = 3000000000;
	e->exit_status = -1;
}

/* One of each kind, and one that this version does not know. */
static inline void put_all_kinds(struct gs_buf *b)
{
	struct gs_rec_loss *l;
	struct gs_rec_attach *a;
	struct gs_record *future;

	put_definitions(b);
	put_call(b, 7);
	put_stats(b);
	l = gs_record_put(b, GS_REC_LOSS, sizeof(*l), 0);
	l->layer = 3;
	l->cause = 1;
	l->count = 99;
	a = gs_record_put(b, GS_REC_ATTACH, sizeof(*a), 0);
	a->path_str = 3;
	a->status = -2;
	a->n_probes = 300;
	put_counter(b);
	future = gs_record_put(b, KIND_OF_THE_FUTURE, sizeof(*future), 24);
	memset(future + 1, 0x5a, 24);
	put_end(b);
}

/* Write the records as one push. */
static inline void write_file(const char *path, const struct gs_recording_options *o,
			      const struct gs_buf *b)
{
	struct gs_batch batch = batch_of(b);
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;
	struct gs_err err = {0};

	assert_int_equal(gs_recording_create(path, o, &j, &err), 0);
	sink = gs_recording_sink(j);
	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	assert_int_equal(gs_recording_close(&j, &err), 0);
	assert_null(j);
}

/* All that the reader hands out, one behind the other. */
static inline struct gs_buf read_file(const char *path, struct gs_recording_stats *ret_stats)
{
	struct gs_recording_reader *r = NULL;
	struct gs_buf b = records();
	struct gs_err err = {0};
	struct gs_batch batch;
	int e;

	e = gs_recording_open(path, &r, &err);
	if (e < 0)
		fail_msg("%s", err.text);
	while ((e = gs_recording_next(r, &batch)) == 0)
		assert_int_equal(gs_buf_put(&b, batch.data, batch.bytes), 0);
	assert_int_equal(e, GS_RECORDING_EOF);
	if (ret_stats)
		gs_recording_stats(r, ret_stats);
	gs_recording_reader_close(&r);
	assert_null(r);
	return b;
}

static inline void assert_same(const struct gs_buf *a, const struct gs_buf *b)
{
	assert_int_equal(a->bytes, b->bytes);
	if (a->bytes)
		assert_memory_equal(a->data, b->data, a->bytes);
}

/* The frames of a whole file, found without the reader. */
struct frame {
	struct gs_frame_header header;
	size_t off;
	size_t bytes; /* header and payload */
	uint8_t *raw; /* owned */
};

struct frames {
	struct frame *items; /* owned */
	size_t n;
};

static inline struct frames walk(const struct gs_buf *file)
{
	size_t off = sizeof(struct gs_recording_header);
	struct frames f = {0};

	while (off < file->bytes) {
		struct frame *x;

		if ((f.n & (f.n - 1)) == 0) /* full, as the room doubles */
			f.items = realloc(f.items, (f.n ? 2 * f.n : 1) * sizeof(*f.items));
		x = &f.items[f.n++];
		x->off = off;
		memcpy(&x->header, file->data + off, sizeof(x->header));
		assert_int_equal(x->header.magic, GS_FRAME_MAGIC);
		assert_int_equal(x->header.sequence, f.n - 1);
		x->bytes = sizeof(x->header) + x->header.payload_bytes;
		assert_true(off + x->bytes <= file->bytes);
		x->raw = malloc(x->header.raw_bytes);
		assert_int_equal(ZSTD_decompress(x->raw, x->header.raw_bytes,
						 file->data + off + sizeof(x->header),
						 x->header.payload_bytes),
				 x->header.raw_bytes);
		off += x->bytes;
	}
	return f;
}

static inline void frames_fini(struct frames *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->items[i].raw);
	free(f->items);
}

static inline bool is_snapshot(const struct frame *f)
{
	return f->header.flags & GS_FRAME_SNAPSHOT;
}

#endif
