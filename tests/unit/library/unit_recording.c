/* Recordings by the library alone: items of all kinds, what is lent until when, a file that grows. */
#include "../recording/common.h"

#include <gpuscope/gpuscope.h>
#include <pthread.h>

#include "model/trace/func.h"
#include "model/trace/record_hang.h"

static struct gs_trace *open_file(const char *path, bool follow)
{
	struct gs_open_options o = {.size = sizeof(o), .follow = follow};
	struct gs_trace *t;

	assert_int_equal(gs_trace_new(&t), 0);
	assert_int_equal(gs_trace_open(t, path, &o), 0);
	return t;
}

static void put_names(struct gs_buf *b)
{
	put_session(b);
	put_string(b, 3, "train");
	put_string(b, 4, "loader");
	put_string(b, 5, "cudaLaunchKernel");
	put_process(b, 1, 3);
	put_thread(b, 1, 1, 4);
	put_function(b, 1, 5);
	put_function(b, 2, 5);
}

static void put_value(struct gs_rec_values *v, uint32_t type, uint64_t value)
{
	v->values[v->n_values].name_str = 4;
	v->values[v->n_values].value_type = type;
	v->values[v->n_values++].value = value;
}

static void put_rest(struct gs_buf *b)
{
	const double half = 0.5;
	uint64_t bits;
	struct gs_rec_values *v =
		gs_record_put(b, GS_REC_VALUES, sizeof(*v), 4 * sizeof(v->values[0]));
	struct gs_rec_loss *l;
	struct gs_rec_end *e;

	memcpy(&bits, &half, sizeof(bits));
	put_value(v, GS_VALUE_U64, 7);
	put_value(v, GS_VALUE_I64, (uint64_t)-7);
	put_value(v, GS_VALUE_F64, bits);
	put_value(v, GS_VALUE_STR, 3);
	put_call(b, 1);
	l = gs_record_put(b, GS_REC_LOSS, sizeof(*l), 0);
	l->cause = GS_LOSS_RING_FULL;
	l->count = 11;
	e = gs_record_put(b, GS_REC_END, sizeof(*e), 0);
	e->exit_status = 3;
	e->reason_str = 3;
}

static const struct gs_item *next(struct gs_trace *t, unsigned kind)
{
	const struct gs_item *item = NULL;

	assert_int_equal(gs_trace_next(t, GS_FOREVER, &item), GS_NEXT_ITEM);
	assert_int_equal(item->kind, kind);
	return item;
}

static void check_call(const struct gs_call *c)
{
	assert_int_equal(c->head.size, sizeof(*c));
	assert_int_equal(c->start_ns, 1000005000);
	assert_int_equal(c->pid, 4001);
	assert_int_equal(c->tid, 4001);
	assert_string_equal(c->name, "cudaLaunchKernel");
	assert_string_equal(c->layer, "cuda-runtime");
	assert_string_equal(c->thread, "loader");
	assert_string_equal(c->process, "train");
	assert_int_equal(c->n_values, 4);
	assert_int_equal(c->values[0]->u, 7);
	assert_int_equal(c->values[1]->i, -7);
	assert_true(c->values[2]->f == 0.5);
	assert_string_equal(c->values[3]->text, "train");
	assert_string_equal(c->values[3]->name, "loader");
}

static void items(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records();
	const struct gs_clock *clock;
	const struct gs_result *result;
	const struct gs_item *item;
	struct gs_trace *t;

	put_names(&b);
	put_rest(&b);
	write_file(f.path, NULL, &b);
	t = open_file(f.path, false);
	assert_int_equal(gs_trace_clock(t, &clock), -EAGAIN);
	assert_int_equal(gs_trace_open(t, f.path, NULL), -EBUSY);
	assert_int_equal(gs_trace_fd(t), -EBADF);
	assert_string_equal(((const struct gs_process *)next(t, GS_ITEM_PROCESS))->comm, "train");
	check_call((const struct gs_call *)next(t, GS_ITEM_CALL));
	assert_int_equal(((const struct gs_lost *)next(t, GS_ITEM_LOST))->count, 11);
	assert_int_equal(((const struct gs_end *)next(t, GS_ITEM_END))->exit_status, 3);
	assert_int_equal(gs_trace_next(t, GS_FOREVER, &item), GS_NEXT_END);
	assert_int_equal(gs_trace_next(t, 0, &item), GS_NEXT_END);
	assert_int_equal(gs_trace_clock(t, &clock), 0);
	assert_int_equal(clock->to_wall_ns, 1700000000000000000);
	assert_int_equal(gs_trace_result(t, &result), 0);
	assert_string_equal(result->host, "node17");
	assert_int_equal(result->n_functions, 1);
	assert_int_equal(result->functions[0]->calls, 1);
	assert_int_equal(result->complete, 1);
	gs_trace_free(t);
	gs_buf_fini(&b);
	close(f.fd);
}

static void put_hang(struct gs_buf *b, uint32_t n_ranks, uint64_t ended_ns)
{
	struct gs_rec_hang *h =
		gs_record_put(b, GS_REC_HANG, sizeof(*h), n_ranks * sizeof(h->ranks[0]));

	h->since_ns = 1000006000;
	h->found_ns = 1000009000;
	h->ended_ns = ended_ns;
	h->id_hash = 0xabc;
	h->call = 7;
	h->number = 2;
	h->n_ranks = 4;
	h->has_arrived = ended_ns != 0;
	h->n_listed = n_ranks;
	for (uint32_t i = 0; i < n_ranks; i++)
		h->ranks[i] = (struct gs_rec_hang_rank){.rank = 3,
							.pid = 4001,
							.tid = 4002,
							.signal = 9,
							.state_str = 3,
							.calls = 6,
							.last_ns = 1000005500,
							.last_count = 1024,
							.last_function = 1,
							.last_type = 7,
							.python_str = 4};
	if (n_ranks)
		h->kind_str = h->text_str = 4;
}

static void check_hang(const struct gs_hang *h)
{
	assert_int_equal(h->head.size, sizeof(*h));
	assert_int_equal(h->number, 2);
	assert_int_equal(h->n_comm_ranks, 4);
	assert_int_equal(h->begun_ns, 1000006000);
	assert_int_equal(h->found_ns, 1000009000);
	assert_int_equal(h->comm, 0xabc);
	assert_int_equal(h->call, 7);
	assert_string_equal(h->sort, "loader");
	assert_string_equal(h->text, "loader");
	assert_int_equal(h->n_ranks, 1);
	assert_int_equal(h->ranks[0]->size, sizeof(*h->ranks[0]));
	assert_int_equal(h->ranks[0]->rank, 3);
	assert_int_equal(h->ranks[0]->tid, 4002);
	assert_int_equal(h->ranks[0]->signal, 9);
	assert_int_equal(h->ranks[0]->calls, 6);
	assert_int_equal(h->ranks[0]->last_ns, 1000005500);
	assert_int_equal(h->ranks[0]->last_count, 1024);
	assert_string_equal(h->ranks[0]->last_function, "cudaLaunchKernel");
	assert_string_equal(h->ranks[0]->last_type, "float32");
	assert_string_equal(h->ranks[0]->state, "train");
	assert_string_equal(h->ranks[0]->text, "");
	assert_string_equal(h->ranks[0]->python_stack, "loader");
	assert_string_equal(h->ranks[0]->native_stack, "");
}

/* As items, found and over, and as one in the result, which also has the user of a process. */
static void hangs(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records();
	const struct gs_result *result;
	const struct gs_hang *hang;
	struct gs_trace *t;

	put_names(&b);
	put_call(&b, 1);
	put_hang(&b, 1, 0);
	put_hang(&b, 0, 1000010000);
	write_file(f.path, NULL, &b);
	t = open_file(f.path, false);
	assert_int_equal(((const struct gs_process *)next(t, GS_ITEM_PROCESS))->uid, 1000);
	next(t, GS_ITEM_CALL);
	hang = (const struct gs_hang *)next(t, GS_ITEM_HANG);
	check_hang(hang);
	assert_int_equal(hang->ended_ns, 0);
	assert_int_equal(hang->has_arrived, 0);
	hang = (const struct gs_hang *)next(t, GS_ITEM_HANG);
	assert_int_equal(hang->number, 2);
	assert_int_equal(hang->n_ranks, 0);
	assert_int_equal(hang->ended_ns, 1000010000);
	assert_int_equal(gs_trace_finish(t, GS_FOREVER), GS_NEXT_END);
	assert_int_equal(gs_trace_result(t, &result), 0);
	assert_int_equal(result->n_hangs, 1);
	check_hang(result->hangs[0]);
	assert_int_equal(result->hangs[0]->ended_ns, 1000010000);
	assert_int_equal(result->hangs[0]->has_arrived, 1);
	assert_int_equal(result->n_processes, 1);
	assert_int_equal(result->processes[0]->uid, 1000);
	gs_trace_free(t);
	gs_buf_fini(&b);
	close(f.fd);
}

/* A name that comes again ends what one call hands out: texts of it are lent. */
static void names_again(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records();
	const struct gs_item *const *many;
	struct gs_trace *t;
	size_t n, n_calls = 0;

	put_names(&b);
	for (int i = 0; i < 10; i++) {
		put_call(&b, 0);
		put_string(&b, 5,
			   i % 2 ? "cudaLaunchKernel" : "cudaLaunchKernelExC, which is longer");
	}
	write_file(f.path, NULL, &b);
	t = open_file(f.path, false);
	while (gs_trace_next_many(t, GS_FOREVER, 1000, &many, &n) == GS_NEXT_ITEM)
		for (size_t i = 0; i < n; i++) {
			if (many[i]->kind != GS_ITEM_CALL)
				continue;
			assert_string_equal(((const struct gs_call *)many[i])->name,
					    n_calls % 2 ? "cudaLaunchKernelExC, which is longer"
							: "cudaLaunchKernel");
			n_calls++;
		}
	assert_int_equal(n_calls, 10);
	gs_trace_free(t);
	gs_buf_fini(&b);
	close(f.fd);
}

/* Ids that nothing was given, and too large ones: texts are "". */
static void wrong_ids(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records();
	struct gs_rec_call *c;
	struct gs_trace *t;
	const struct gs_call *call;

	put_session(&b);
	put_string(&b, UINT32_MAX, "out of range");
	c = gs_record_put(&b, GS_REC_CALL, sizeof(*c), 0);
	c->thread = c->function = c->scope = UINT32_MAX;
	write_file(f.path, NULL, &b);
	t = open_file(f.path, false);
	call = (const struct gs_call *)next(t, GS_ITEM_CALL);
	assert_string_equal(call->name, "");
	assert_string_equal(call->thread, "");
	assert_string_equal(call->scope, "");
	gs_trace_free(t);
	gs_buf_fini(&b);
	close(f.fd);
}

struct growing {
	struct memory_file f;
	struct gs_recording *file;
	struct gs_trace *trace;
	unsigned n;
	bool has_end;
};

static void *write_slowly(void *ctx)
{
	struct growing *g = ctx;
	const struct gs_sink *sink = gs_recording_sink(g->file);
	struct gs_buf b = records();

	put_names(&b);
	for (unsigned i = 0; i < g->n; i++) {
		struct gs_batch batch;

		put_call(&b, i);
		if (i == g->n - 1 && g->has_end)
			put_end(&b);
		batch = batch_of(&b);
		assert_int_equal(sink->push(sink->ctx, &batch), 0);
		gs_buf_reset(&b);
		if (i % 100 == 99)
			usleep(10000);
	}
	assert_int_equal(gs_recording_close(&g->file, NULL), 0);
	if (!g->has_end)
		assert_int_equal(gs_trace_stop(g->trace), 0);
	gs_buf_fini(&b);
	return NULL;
}

static void follow(struct growing *g)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 4096};
	const struct gs_item *item;
	pthread_t writer;
	unsigned n = 0;
	int r;

	g->f = memory_file();
	/* There is a file when it is opened. */
	assert_int_equal(gs_recording_create(g->f.path, &o, &g->file, NULL), 0);
	g->trace = open_file(g->f.path, true);
	assert_int_equal(gs_trace_next(g->trace, 1000000, &item), GS_NEXT_TIMEOUT);
	assert_int_equal(pthread_create(&writer, NULL, write_slowly, g), 0);
	while ((r = gs_trace_next(g->trace, 20000000, &item)) != GS_NEXT_END) {
		assert_true(r == GS_NEXT_ITEM || r == GS_NEXT_TIMEOUT);
		n += r == GS_NEXT_ITEM && item->kind == GS_ITEM_CALL;
	}
	pthread_join(writer, NULL);
	/* Stopped, it ends where the file ended then. */
	assert_true(g->has_end ? n == g->n : n <= g->n);
	gs_trace_free(g->trace);
	close(g->f.fd);
}

static void grows_to_its_end(void **state)
{
	follow(&(struct growing){.n = 1000, .has_end = true});
}

static void is_stopped(void **state)
{
	follow(&(struct growing){.n = 500});
}

static void misuse(void **state)
{
	const struct gs_result *result;
	const struct gs_item *item;
	struct gs_trace *t;

	assert_int_equal(gs_trace_new(&t), 0);
	assert_string_equal(gs_trace_error(t), "");
	assert_int_equal(gs_trace_next(t, 0, &item), -ENODATA);
	assert_int_equal(gs_trace_result(t, &result), -ENODATA);
	assert_string_equal(gs_trace_error(t), "nothing was started or opened");
	assert_int_equal(gs_trace_open(t, "/nowhere/x.gst", NULL), -ENOENT);
	assert_int_equal(gs_trace_open(t, "/etc/hostname", NULL), -EBADMSG);
	assert_int_equal(gs_trace_open(t, NULL, NULL), -EINVAL);
	assert_int_equal(gs_trace_start(t, NULL), -EINVAL);
	gs_trace_free(t);
	gs_trace_free(NULL);
	assert_int_equal(gs_trace_next(NULL, 0, &item), -EINVAL);
	assert_string_equal(gs_trace_error(NULL), "no handle: out of memory");
	assert_null(gs_device_key(100000));
	assert_non_null(gs_device_key(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items),
		cmocka_unit_test(hangs),
		cmocka_unit_test(names_again),
		cmocka_unit_test(wrong_ids),
		cmocka_unit_test(grows_to_its_end),
		cmocka_unit_test(is_stopped),
		cmocka_unit_test(misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
