/* The last seconds of a stream: which records a file has, what is said of those it has not, and what memory is used. */
#include "common.h"

#include "model/trace/record_account.h"
#include "model/trace/record_hang.h"
#include "model/trace/record_stack.h"
#include "pipeline/recording/keep.h"

#define SECOND 1000000000ull
#define BEGIN  (100 * SECOND)

static struct gs_keep *keep_of(uint64_t keep_ns, uint64_t max_bytes)
{
	const struct gs_keep_options o = {.keep_ns = keep_ns, .max_bytes = max_bytes};
	struct gs_keep *k = NULL;

	assert_int_equal(gs_keep_new(&o, &k), 0);
	return k;
}

static void push(struct gs_keep *k, struct gs_buf *b)
{
	const struct gs_sink *sink = gs_keep_sink(k);
	struct gs_batch batch = batch_of(b);

	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	gs_buf_reset(b);
}

static struct gs_buf written(struct gs_keep *k, uint64_t end_ns, struct gs_keep_file *ret)
{
	char path[] = "/tmp/unit_keep.XXXXXX";
	int fd = mkstemp(path);
	struct gs_recording_stats stats;
	struct gs_err err = {{0}};
	struct gs_buf b;
	struct stat st;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(gs_keep_write(k, path, end_ns, "a test", true, ret, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	b = read_file(path, &stats);
	assert_int_equal(stats.cut_bytes + stats.skipped_bytes, 0);
	unlink(path);
	return b;
}

/* The first record of the kind. */
static const void *first_of(const struct gs_buf *b, unsigned kind)
{
	struct gs_batch batch = batch_of(b);

	gs_records_for_each (&batch, r) {
		if (r->kind == kind)
			return r;
	}
	return NULL;
}

static size_t count_of(const struct gs_buf *b, unsigned kind)
{
	struct gs_batch batch = batch_of(b);
	size_t n = 0;

	gs_records_for_each (&batch, r) {
		n += r->kind == kind;
	}
	return n;
}

static void put_stream_begin(struct gs_buf *b)
{
	put_definitions(b);
	((struct gs_rec_session *)(void *)b->data)->start_ns = BEGIN;
}

/* One call a millisecond, which takes half of it and ends at i ms; arg[0] is i. */
static void put_calls(struct gs_buf *b, uint64_t from, uint64_t n)
{
	for (uint64_t i = from; i < from + n; i++) {
		struct gs_rec_call *c;

		put_call(b, i);
		c = (void *)(b->data + b->bytes - sizeof(*c));
		c->start_ns = BEGIN + i * 1000000 - 500000;
		c->dur_ns = 500000;
		c->arg[0] = i;
	}
}

static void exact_time(void **state)
{
	struct gs_keep *k = keep_of(5 * SECOND, 64u << 20), *copy = NULL;
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	const struct gs_rec_call *first;
	const struct gs_rec_loss *loss;
	const struct gs_rec_session *session;
	const struct gs_rec_end *end;

	put_stream_begin(&b);
	push(k, &b);
	put_calls(&b, 1, 60000); /* 7.2 MiB: many chunks */
	push(k, &b);
	out = written(k, BEGIN + 60 * SECOND, &file);
	/* From 55.000 s on, that one included. */
	assert_int_equal(file.from_ns, BEGIN + 55 * SECOND);
	assert_int_equal(file.n_calls, 5001);
	assert_int_equal(file.n_before, 60000 - 5001);
	assert_false(file.is_short);
	assert_int_equal(count_of(&out, GS_REC_CALL), 5001);
	first = first_of(&out, GS_REC_CALL);
	assert_int_equal(first->arg[0], 55000);
	loss = first_of(&out, GS_REC_LOSS);
	assert_int_equal(loss->cause, GS_LOSS_KEPT);
	assert_int_equal(loss->count, 60000 - 5001);
	session = (const void *)out.data;
	assert_int_equal(session->head.kind, GS_REC_SESSION);
	assert_int_equal(session->start_ns, BEGIN + 55 * SECOND);
	assert_int_equal(count_of(&out, GS_REC_SESSION), 1);
	assert_int_equal(count_of(&out, GS_REC_FUNCTION), 2);
	end = first_of(&out, GS_REC_END);
	assert_int_equal(end->end_ns, BEGIN + 60 * SECOND);
	gs_buf_fini(&out);

	/* A copy has the same, whatever comes and goes. */
	assert_int_equal(gs_keep_copy(k, &copy), 0);
	put_calls(&b, 60001, 1000);
	push(k, &b);
	out = written(copy, BEGIN + 60 * SECOND, &file);
	assert_int_equal(file.n_calls, 5001);
	assert_int_equal(file.n_before, 60000 - 5001);
	gs_buf_fini(&out);

	/* What is kept stays; later, less of it is of the time. */
	out = written(k, BEGIN + 63 * SECOND, &file);
	assert_int_equal(file.n_calls, 3001);
	assert_int_equal(file.n_calls + file.n_before, 61000);
	gs_buf_fini(&out);

	/* What came after its end is not in it, either. */
	out = written(k, BEGIN + 60 * SECOND, &file);
	assert_int_equal(file.n_calls, 5001);
	assert_int_equal(file.n_before, 60000 - 5001);
	gs_buf_fini(&out);

	/* With nothing in it, too. */
	out = written(k, BEGIN + 90 * SECOND, &file);
	assert_int_equal(file.n_calls, 0);
	assert_int_equal(file.n_before, 61000);
	loss = first_of(&out, GS_REC_LOSS);
	assert_int_equal(loss->count, 61000);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	gs_keep_free(&k);
	assert_null(k);
	gs_keep_free(&copy);
}

static void short_run(void **state)
{
	struct gs_keep *k = keep_of(60 * SECOND, 64u << 20);
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	const struct gs_rec_session *session;
	const struct gs_rec_process *p;
	struct gs_err err = {{0}};

	assert_int_equal(gs_keep_write(k, "/nonexistent/x.gst", 1, NULL, true, &file, &err),
			 -ENODATA);
	put_stream_begin(&b);
	((struct gs_rec_process *)(void *)(size_t)first_of(&b, GS_REC_PROCESS))->head.flags =
		GS_PROCESS_BEGUN;
	put_calls(&b, 1, 7000);
	put_end(&b);
	push(k, &b);
	out = written(k, BEGIN + 8 * SECOND, &file);
	assert_int_equal(file.n_calls, 7000);
	assert_int_equal(file.n_before, 0);
	assert_null(first_of(&out, GS_REC_LOSS));
	session = first_of(&out, GS_REC_SESSION);
	assert_int_equal(session->start_ns, BEGIN);
	p = first_of(&out, GS_REC_PROCESS);
	assert_int_equal(p->head.flags, GS_PROCESS_BEGUN);
	assert_int_equal(count_of(&out, GS_REC_END), 1);
	gs_buf_fini(&out);
	assert_int_equal(gs_keep_write(k, "/nonexistent/x.gst", 1, NULL, true, &file, &err),
			 -ENOENT);
	gs_buf_fini(&b);
	gs_keep_free(&k);
}

/* Names that were in use before it, as they were then; what begins in it was seen from its begin on. */
static void definitions(void **state)
{
	struct gs_keep *k = keep_of(1 * SECOND, 64u << 20);
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	struct gs_rec_process *p;
	struct gs_batch batch;
	uint32_t begun[2] = {0}, comm[2] = {0};
	size_t n = 0, before_call = 0;

	put_stream_begin(&b);
	p = (void *)(size_t)first_of(&b, GS_REC_PROCESS);
	p->head.flags = GS_PROCESS_BEGUN;
	put_calls(&b, 1, 20000);
	/* Half a second ago it has begun to run another program. */
	put_string(&b, 6, "sh");
	put_process(&b, 1, 6);
	p = (void *)(b.data + b.bytes - sizeof(*p));
	p->head.flags = GS_PROCESS_BEGUN;
	put_calls(&b, 20001, 500);
	push(k, &b);
	out = written(k, BEGIN + 20500000000ull, &file);
	batch = batch_of(&out);
	gs_records_for_each (&batch, r) {
		const struct gs_rec_process *q = (const void *)r;

		if (r->kind == GS_REC_CALL)
			before_call++;
		if (r->kind != GS_REC_PROCESS)
			continue;
		assert_true(n < 2);
		assert_int_equal(before_call, n ? 501 : 0);
		begun[n] = q->head.flags;
		comm[n++] = q->comm_str;
	}
	assert_int_equal(n, 2);
	assert_int_equal(comm[0], 3);
	assert_int_equal(begun[0], 0);
	assert_int_equal(comm[1], 6);
	assert_int_equal(begun[1], GS_PROCESS_BEGUN);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	gs_keep_free(&k);
}

static void put_account(struct gs_buf *b, uint64_t born_ns, uint64_t time_ns, uint64_t ns)
{
	struct gs_rec_account *a =
		gs_record_put(b, GS_REC_ACCOUNT, sizeof(*a), 4 * sizeof(a->ns[0]));

	a->pid = a->tid = 77;
	a->n_states = a->n_insides = 2;
	a->born_ns = born_ns;
	a->time_ns = time_ns;
	for (unsigned i = 0; i < 4; i++)
		a->ns[i] = ns + i;
}

static void running_totals(void **state)
{
	struct gs_keep *k = keep_of(10 * SECOND, 64u << 20);
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	const struct gs_rec_account *a;

	put_stream_begin(&b);
	put_account(&b, BEGIN, BEGIN + 10 * SECOND, 100);
	put_calls(&b, 10000, 10000); /* to 20 s */
	put_account(&b, BEGIN, BEGIN + 20 * SECOND, 1000);
	put_calls(&b, 20001, 10000);
	put_account(&b, BEGIN, BEGIN + 30 * SECOND, 5000);
	push(k, &b);
	out = written(k, BEGIN + 31 * SECOND, &file);
	assert_int_equal(count_of(&out, GS_REC_ACCOUNT), 1);
	a = first_of(&out, GS_REC_ACCOUNT);
	assert_int_equal(a->born_ns, BEGIN + 20 * SECOND);
	assert_int_equal(a->time_ns, BEGIN + 30 * SECOND);
	assert_int_equal(a->ns[0], 4000);
	assert_int_equal(a->ns[3], 4000);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	gs_keep_free(&k);
}

/* A hang that is over before it is none of it; values go with their call. */
static void pairs_and_hangs(void **state)
{
	struct gs_keep *k = keep_of(1 * SECOND, 64u << 20);
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	struct gs_rec_hang *h;
	struct gs_rec_values *v;

	put_stream_begin(&b);
	for (uint32_t number = 1; number <= 2; number++) {
		h = gs_record_put(&b, GS_REC_HANG, sizeof(*h), sizeof(h->ranks[0]));
		h->number = number;
		h->n_listed = 1;
	}
	put_calls(&b, 1, 5000);
	h = gs_record_put(&b, GS_REC_HANG, sizeof(*h), 0);
	h->number = 1;
	h->ended_ns = BEGIN + 4 * SECOND;
	for (uint64_t i = 5001; i <= 10000; i++) {
		v = gs_record_put(&b, GS_REC_VALUES, sizeof(*v), sizeof(v->values[0]));
		v->n_values = 1;
		put_calls(&b, i, 1);
	}
	push(k, &b);
	out = written(k, BEGIN + 10 * SECOND, &file);
	assert_int_equal(count_of(&out, GS_REC_HANG), 1);
	h = (void *)(size_t)first_of(&out, GS_REC_HANG);
	assert_int_equal(h->number, 2);
	assert_int_equal(count_of(&out, GS_REC_CALL), 1001);
	assert_int_equal(count_of(&out, GS_REC_VALUES), 1001);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	gs_keep_free(&k);
}

/* However much comes: what went for its size is counted, and the file says from when on it is whole. */
static void bounded_memory(void **state)
{
	struct gs_keep *k = keep_of(1000 * SECOND, GS_KEEP_BYTES_MIN);
	struct gs_buf b = records(), out;
	struct gs_keep_file file;
	const struct gs_rec_call *first;
	uint64_t noise = 88172645463325252ull;
	const uint64_t n = 100000;

	put_stream_begin(&b);
	for (uint64_t i = 1; i <= n; i++) {
		struct gs_rec_call *c;

		put_calls(&b, i, 1);
		c = (void *)(b.data + b.bytes - sizeof(*c));
		for (unsigned w = 1; w < 4; w++) { /* hard to compress */
			noise ^= noise << 13;
			noise ^= noise >> 7;
			noise ^= noise << 17;
			c->arg[w] = noise;
		}
		if (b.bytes > 100000)
			push(k, &b);
		assert_true(gs_keep_bytes(k) <= GS_KEEP_BYTES_MIN + (512u << 10));
	}
	push(k, &b);
	assert_true(gs_keep_peak_bytes(k) <= GS_KEEP_BYTES_MIN + (512u << 10));
	out = written(k, BEGIN + n * 1000000, &file);
	assert_true(file.is_short);
	assert_int_equal(file.n_calls + file.n_before, n);
	assert_true(file.n_calls > 5000 && file.n_before > 5000);
	/* Whole from then on: no call of it is missing. */
	first = first_of(&out, GS_REC_CALL);
	assert_int_equal(first->arg[0], n - file.n_calls + 1);
	assert_true(first->start_ns + first->dur_ns >= file.from_ns);
	assert_true(file.from_ns > BEGIN + (n - file.n_calls) * 1000000);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	gs_keep_free(&k);
}

static void wrong_use(void **state)
{
	struct gs_keep *k = NULL;
	struct gs_keep_options o = {.keep_ns = 0, .max_bytes = GS_KEEP_BYTES_MIN};
	const struct gs_sink *sink;
	uint64_t malformed[2] = {5};

	assert_int_equal(gs_keep_new(&o, &k), -EINVAL);
	o = (struct gs_keep_options){.keep_ns = 1, .max_bytes = GS_KEEP_BYTES_MIN - 1};
	assert_int_equal(gs_keep_new(&o, &k), -EINVAL);
	k = keep_of(1, GS_KEEP_BYTES_MIN);
	sink = gs_keep_sink(k);
	assert_int_equal(sink->push(sink->ctx, &(struct gs_batch){malformed, sizeof(malformed)}),
			 -EINVAL);
	gs_keep_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_time),      cmocka_unit_test(short_run),
		cmocka_unit_test(definitions),     cmocka_unit_test(running_totals),
		cmocka_unit_test(pairs_and_hangs), cmocka_unit_test(bounded_memory),
		cmocka_unit_test(wrong_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
