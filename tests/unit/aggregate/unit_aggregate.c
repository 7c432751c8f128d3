/* One outcome of pipeline/aggregate/aggregate.h by test. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/aggregate/malloc_count.h"
#include "unit/aggregate/records.h"
#include "pipeline/aggregate/aggregate.h"

#define RT   GS_LAYER_CUDA_RUNTIME
#define DRV  GS_LAYER_CUDA_DRIVER
#define NCCL GS_LAYER_NCCL

#define VIEW    GS_CLEANUP(gs_aggregate_free) struct gs_aggregate
#define SUMMARY GS_CLEANUP(gs_summary_free) struct gs_summary

static struct gs_aggregate *new_view(void)
{
	struct gs_aggregate *v = NULL;

	assert_int_equal(gs_aggregate_new(&v), 0);
	return v;
}

static struct gs_summary *summary_of(struct gs_aggregate *v)
{
	struct gs_summary *s = NULL;

	assert_int_equal(gs_aggregate_make_summary(v, &s), 0);
	return s;
}

static void feed(struct gs_aggregate *v, struct stream *s)
{
	assert_int_equal(stream_push(s, gs_aggregate_sink(v)), 0);
}

/* Process 1 (pid 100) with threads 1 and 2 (tid 100, 101); functions 1..5. */
static void put_world(struct stream *s)
{
	put_process(s, 1, 100, "python");
	put_thread(s, 1, 1, 100, "main");
	put_thread(s, 2, 1, 101, "worker");
	put_function(s, 1, RT, GS_CLASS_COPY, "cudaMemcpy");
	put_function(s, 2, DRV, GS_CLASS_LAUNCH, "cuLaunchKernel");
	put_function(s, 3, NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce");
	put_function(s, 4, NCCL, GS_CLASS_COMM, "ncclCommDestroy");
	put_function(s, 5, RT, GS_CLASS_LAUNCH, "cudaLaunchKernel");
}

static const struct gs_function_stats *find(const struct gs_function_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->items[i].name, name) == 0)
			return &l->items[i];
	return NULL;
}

static void empty(void **state)
{
	VIEW *v = new_view();
	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->functions.n, 0);
	assert_int_equal(sum->n_processes, 0);
	assert_int_equal(sum->n_errors + sum->n_lost + sum->n_comms + sum->n_open_calls, 0);
	assert_int_equal(sum->complete, 0);
	assert_int_equal(sum->exit_status, -1);
	assert_string_equal(sum->command, "");
	assert_int_equal(sum->duration_ns, 0);
	assert_int_equal(gs_aggregate_calls(v, 0), 0);
	assert_int_equal(gs_aggregate_lost(v), 0);
	gs_aggregate_free(&v);
	assert_null(v);
	gs_aggregate_free(&v);
}

static void counts_calls(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	const struct gs_function_stats *f;
	struct gs_rec_call *c;

	put_world(&s);
	for (unsigned i = 0; i < 100; i++)
		put_call(&s, 1, 1, 1000 * i, i < 99 ? 3 : 7)->bytes = 10;
	c = put_call(&s, 1, 1, 5, 5);
	c->failed = 1;
	c->ret = 1;
	c->bytes = 1000000;
	put_call(&s, 2, 2, 0, 1000)->bytes = 0;
	put_call(&s, 2, 5, 0, 2000);
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->functions.n, 3);
	/* By layer, then by time: the launch took longer than all copies. */
	assert_string_equal(sum->functions.items[0].name, "cudaLaunchKernel");
	assert_string_equal(sum->functions.items[1].name, "cudaMemcpy");
	assert_string_equal(sum->functions.items[2].name, "cuLaunchKernel");
	f = &sum->functions.items[1];
	assert_int_equal(f->layer, RT);
	assert_int_equal(f->func_class, GS_CLASS_COPY);
	assert_int_equal(f->calls, 101);
	assert_int_equal(f->errors, 1);
	assert_int_equal(f->bytes, 1000);
	assert_int_equal(f->total_ns, 99 * 3 + 7 + 5);
	assert_int_equal(f->mean_ns, 3);
	assert_int_equal(f->max_ns, 7);
	assert_int_equal(f->p50_ns, 3);
	assert_int_equal(f->p95_ns, 3);
	assert_int_equal(f->p99_ns, 5);
	assert_int_equal(f->inner, 0);

	assert_int_equal(sum->n_processes, 1);
	assert_int_equal(sum->processes[0].pid, 100);
	assert_int_equal(sum->processes[0].ns_pid, 101);
	assert_int_equal(sum->processes[0].parent_pid, 1);
	assert_int_equal(sum->processes[0].uid, 1000);
	assert_string_equal(sum->processes[0].exe, "python");
	assert_string_equal(sum->processes[0].container, "");
	assert_int_equal(sum->processes[0].functions.n, 3);
	assert_int_equal(sum->processes[0].n_threads, 2);
	/* Most time first. */
	assert_int_equal(sum->processes[0].threads[0].tid, 101);
	assert_string_equal(sum->processes[0].threads[0].comm, "worker");
	assert_int_equal(sum->processes[0].threads[0].functions.n, 2);
	assert_int_equal(sum->processes[0].threads[1].functions.n, 1);

	assert_int_equal(gs_aggregate_calls(v, 0), 103);
	assert_int_equal(gs_aggregate_calls(v, RT), 102);
	assert_int_equal(gs_aggregate_calls(v, DRV), 1);
	assert_int_equal(gs_aggregate_calls(v, NCCL), 0);
}

static void counts_stats(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	struct gs_rec_stats *t;

	put_world(&s);
	for (unsigned i = 1; i <= 2; i++) {
		t = put_record(&s, GS_REC_STATS, sizeof(*t), 3 * sizeof(t->buckets[0]));
		t->thread = 1;
		t->function = 1;
		t->time_ns = 500 * i;
		t->calls = 10;
		t->errors = 4;
		t->total_ns = 30;
		t->max_ns = 6;
		t->bytes = 99;
		t->inner = 5;
		t->err_code[0] = 2;
		t->err_count[0] = 2;
		t->err_code[1] = 98;
		t->err_count[1] = 1;
		t->n_buckets = 3;
		t->buckets[0] = (struct gs_rec_bucket){3, 8};
		t->buckets[1] = (struct gs_rec_bucket){6, 1};
		t->buckets[2] = (struct gs_rec_bucket){4000000, 1}; /* out of range: the last */
	}
	feed(v, &s);

	SUMMARY *sum = summary_of(v);
	const struct gs_function_stats *f = find(&sum->functions, "cudaMemcpy");

	assert_non_null(f);
	assert_int_equal(f->calls, 20);
	assert_int_equal(f->errors, 8);
	assert_int_equal(f->total_ns, 60);
	assert_int_equal(f->max_ns, 6);
	assert_int_equal(f->bytes, 198);
	assert_int_equal(f->inner, 10);
	assert_int_equal(f->p50_ns, 3);
	assert_int_equal(f->p99_ns, 6); /* never more than the maximum */
	assert_int_equal(sum->n_errors, 3);
	assert_int_equal(sum->errors[0].code, 2);
	assert_string_equal(sum->errors[0].name, "cudaErrorMemoryAllocation");
	assert_string_equal(sum->errors[0].function, "cudaMemcpy");
	assert_int_equal(sum->errors[0].layer, RT);
	assert_int_equal(sum->errors[0].count, 4);
	/* Of the same count: by code. */
	assert_int_equal(sum->errors[1].code, 0);
	assert_string_equal(sum->errors[1].name, "other");
	assert_int_equal(sum->errors[1].count, 2);
	assert_int_equal(sum->errors[2].code, 98);
	assert_int_equal(gs_aggregate_calls(v, RT), 20);
}

static void error_codes(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();

	put_world(&s);
	for (int32_t code = 1; code <= GS_AGGREGATE_MAX_ERRORS + 3; code++) {
		for (int32_t i = 0; i < 1 + (code == 3); i++) {
			struct gs_rec_call *c = put_call(&s, 1, 3, 0, 1);

			c->failed = 1;
			c->ret = code * 100 + (code == 3 ? -297 : 0); /* 300 -> 3 */
		}
	}
	/* A failure that has no code. */
	put_call(&s, 2, 3, 0, 1)->failed = 1;
	/* Two functions never announced fall together. */
	for (uint32_t f = 50; f < 52; f++) {
		struct gs_rec_call *c = put_call(&s, 1, f, 0, 1);

		c->failed = 1;
		c->ret = -7;
	}
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->n_errors, GS_AGGREGATE_MAX_ERRORS + 2);
	assert_string_equal(sum->errors[0].name, "other");
	assert_int_equal(sum->errors[0].code, 0);
	assert_int_equal(sum->errors[0].count, 4);
	assert_string_equal(sum->errors[1].function, "unknown");
	assert_string_equal(sum->errors[1].name, "-7");
	assert_int_equal(sum->errors[1].layer, 0);
	assert_int_equal(sum->errors[1].count, 2);
	assert_string_equal(sum->errors[2].name, "ncclInternalError");
	assert_int_equal(sum->errors[2].count, 2);
	assert_string_equal(sum->errors[3].name, "100");
}

static void processes(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();

	put_world(&s);
	put_process(&s, 2, 100, "second"); /* the pid was used again */
	put_thread(&s, 3, 2, 100, "second");
	put_call(&s, 1, 1, 0, 10);
	put_call(&s, 3, 1, 0, 30);
	put_process(&s, 3, 300, "idle");
	put_thread(&s, 4, 3, 300, "idle");
	feed(v, &s);
	put_process(&s, 1, 100, "exec'd");
	put_call(&s, 1, 1, 0, 11);
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->n_processes, 2);
	assert_string_equal(sum->processes[0].comm, "second");
	assert_int_equal(sum->processes[0].pid, 100);
	assert_int_equal(sum->processes[0].functions.items[0].calls, 1);
	assert_string_equal(sum->processes[1].comm, "exec'd");
	assert_int_equal(sum->processes[1].pid, 100);
	assert_int_equal(sum->processes[1].functions.items[0].calls, 2);
	assert_int_equal(sum->processes[1].functions.items[0].total_ns, 21);
	assert_int_equal(sum->functions.items[0].calls, 3);
}

static void unknown_ids(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();

	put_function(&s, 1, RT, GS_CLASS_COPY, "cudaMemcpy");
	put_thread(&s, 5, 9, 55, "stray"); /* of a process never announced */
	put_call(&s, 7, 1, 0, 1);
	put_call(&s, 8, 2, 0, 1);
	put_call(&s, 0, 3, 0, 1);
	put_call(&s, UINT32_MAX, UINT32_MAX, 0, 1);
	put_call(&s, 1u << 30, GS_AGGREGATE_MAX_FUNCTIONS, 0, 1);
	put_call(&s, 5, 0, 0, 1);
	put_function(&s, GS_AGGREGATE_MAX_FUNCTIONS, RT, GS_CLASS_COPY, "beyond");
	put_function(&s, UINT32_MAX, RT, GS_CLASS_COPY, "beyond");
	put_process(&s, UINT32_MAX, 3, "beyond");
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->functions.n, 2);
	assert_string_equal(sum->functions.items[0].name, "unknown");
	assert_int_equal(sum->functions.items[0].layer, 0);
	assert_int_equal(sum->functions.items[0].calls, 5);
	assert_int_equal(sum->functions.items[1].calls, 1);
	assert_int_equal(sum->n_processes, 1);
	assert_int_equal(sum->processes[0].pid, 0);
	assert_string_equal(sum->processes[0].comm, "unknown");
	assert_int_equal(sum->processes[0].n_threads, 2);
	assert_int_equal(sum->processes[0].threads[0].tid, 0);
	assert_string_equal(sum->processes[0].threads[0].comm, "unknown");
	assert_int_equal(sum->processes[0].threads[0].functions.items[0].calls, 4);
	assert_int_equal(sum->processes[0].threads[1].tid, 55);
	assert_int_equal(gs_aggregate_calls(v, 0), 6);
	assert_int_equal(gs_aggregate_calls(v, RT), 1);
}

static void open_calls(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	struct gs_rec_call *c;

	put_world(&s);
	for (unsigned i = 0; i < 3; i++) {
		c = put_call(&s, 1 + i, i == 2 ? 77 : 1, 1000, 10 + 5 * i);
		c->call_flags = GS_CALL_UNFINISHED;
		c->depth = (uint8_t)i;
		c->bytes = 5;
	}
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->functions.n, 0);
	assert_int_equal(gs_aggregate_calls(v, 0), 0);
	assert_int_equal(sum->n_open_calls, 3);
	assert_int_equal(sum->open_calls[0].age_ns, 20); /* oldest first */
	assert_string_equal(sum->open_calls[0].function, "unknown");
	assert_int_equal(sum->open_calls[0].tid, 0);
	assert_int_equal(sum->open_calls[1].age_ns, 15);
	assert_int_equal(sum->open_calls[1].pid, 100);
	assert_int_equal(sum->open_calls[1].tid, 101);
	assert_int_equal(sum->open_calls[1].depth, 1);
	assert_int_equal(sum->open_calls[1].layer, RT);
	assert_string_equal(sum->open_calls[1].comm, "worker");
	assert_string_equal(sum->open_calls[1].function, "cudaMemcpy");
}

static void put_loss(struct stream *s, unsigned layer, unsigned cause, uint32_t detail,
		     uint64_t count)
{
	struct gs_rec_loss *l = put_record(s, GS_REC_LOSS, sizeof(*l), 0);

	l->layer = (uint16_t)layer;
	l->cause = (uint16_t)cause;
	l->detail_str = detail;
	l->count = count;
}

static void losses(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	uint32_t lib = put_text(&s, "libcuda.so");
	uint64_t total = 0;

	put_loss(&s, RT, GS_LOSS_RING_FULL, 0, 5);
	put_loss(&s, RT, GS_LOSS_RING_FULL, 0, 6);
	put_loss(&s, DRV, GS_LOSS_RING_FULL, 0, 1);
	put_loss(&s, 0, GS_LOSS_LATE, lib, 1);
	put_loss(&s, 0, GS_LOSS_SHORT, 0, 1000);
	feed(v, &s);
	{
		SUMMARY *sum = summary_of(v);

		assert_int_equal(sum->n_lost, 4);
		assert_int_equal(sum->lost[0].count, 11);
		assert_int_equal(sum->lost[0].layer, RT);
		assert_int_equal(sum->lost[0].cause, GS_LOSS_RING_FULL);
		assert_string_equal(sum->lost[0].detail, "");
		assert_string_equal(sum->lost[2].detail, "libcuda.so");
	}
	assert_int_equal(gs_aggregate_lost(v), 12); /* not what the user did not want to see */

	/* More details than there is room for: their counts stay. */
	for (uint32_t i = 0; i < 2 * GS_AGGREGATE_MAX_LOST; i++)
		put_loss(&s, 0, GS_LOSS_PROC, 1000 + i, 1);
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	for (size_t i = 0; i < sum->n_lost; i++)
		if (sum->lost[i].cause == GS_LOSS_PROC)
			total += sum->lost[i].count;
	assert_int_equal(total, 2 * GS_AGGREGATE_MAX_LOST);
	assert_true(sum->n_lost <= GS_AGGREGATE_MAX_LOST);
}

static void attached(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	uint32_t path = put_text(&s, "/lib/libnccl.so.2"), func = put_text(&s, "ncclSend");
	uint32_t why = put_text(&s, "no symbol");
	struct gs_rec_attach *a = put_record(&s, GS_REC_ATTACH, sizeof(*a), 0);

	a->path_str = path;
	a->n_probes = 30;
	a->n_moved = 20;
	a->n_stepped = 2;
	a = put_record(&s, GS_REC_ATTACH, sizeof(*a), 0);
	a->path_str = path;
	a->func_str = func;
	a->status = -ENOENT;
	a->reason_str = why;
	for (uint32_t i = 2; i < GS_AGGREGATE_MAX_ATTACHED + 5; i++)
		put_record(&s, GS_REC_ATTACH, sizeof(*a), 0);
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->n_attached, GS_AGGREGATE_MAX_ATTACHED - 1);
	assert_string_equal(sum->attached[0].path, "/lib/libnccl.so.2");
	assert_string_equal(sum->attached[0].function, "");
	assert_int_equal(sum->attached[0].n_probes, 30);
	assert_int_equal(sum->attached[0].n_moved, 20);
	assert_int_equal(sum->attached[0].n_stepped, 2);
	assert_int_equal(sum->n_attach_failures, 1);
	assert_string_equal(sum->attach_failures[0].function, "ncclSend");
	assert_string_equal(sum->attach_failures[0].reason, "no symbol");
	assert_int_equal(sum->attach_failures[0].status, -ENOENT);
	assert_int_equal(sum->n_lost, 1);
	assert_int_equal(sum->lost[0].cause, GS_LOSS_SINK);
	assert_string_equal(sum->lost[0].detail, "summary");
	assert_int_equal(sum->lost[0].count, 5);
}

static void put_reduce(struct stream *s, uint64_t comm, uint64_t bytes, bool failed)
{
	struct gs_rec_call *c = put_call(s, 1, 3, 0, 1);

	c->arg[1] = comm;
	c->bytes = bytes;
	c->failed = failed;
}

static void put_destroy(struct stream *s, uint64_t comm, bool failed)
{
	struct gs_rec_call *c = put_call(s, 1, 4, 0, 1);

	c->arg[0] = comm;
	c->failed = failed;
}

static void communicators(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	uint32_t origin;
	struct gs_rec_comm *c;

	put_world(&s);
	origin = put_text(&s, "ncclCommSplit");
	c = put_comm(&s, 1, 0xa0, -1, -1, 0);
	c->parent = 0x90;
	c->origin_str = origin;
	put_reduce(&s, 0xa0, 100, false);
	put_reduce(&s, 0xa0, 100, true);
	c = put_comm(&s, 1, 0xa0, 2, 4, 0x1234); /* told again */
	c->parent = 0x90;
	put_reduce(&s, 0xa0, 11, false);
	put_comm(&s, 1, 0, -1, -1, 0)->parent = 0x90; /* no color: no communicator */
	put_reduce(&s, 0xb0, 7, false);               /* made before tracing */
	put_reduce(&s, 0, 7, false);
	put_destroy(&s, 0xa0, true); /* failed: it lives on */
	put_comm(&s, 1, 0xa0, 2, -1, 0);
	put_destroy(&s, 0xa0, false);
	put_comm(&s, 1, 0xa0, 2, 4, 0x1234); /* the same handle, another communicator */
	put_reduce(&s, 0xa0, 5, false);
	put_comm(&s, 1, 0xa0, 3, 4, 0x1234); /* contradicts: its end was not seen */
	put_reduce(&s, 0xa0, 6, false);
	feed(v, &s);
	put_process(&s, 1, 100, "exec'd");
	put_comm(&s, 1, 0xa0, 3, 4, 0x1234);
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->n_comms, 5);
	assert_int_equal(sum->comms[0].pid, 100);
	assert_int_equal(sum->comms[0].comm, 0xa0);
	assert_int_equal(sum->comms[0].parent, 0x90);
	assert_int_equal(sum->comms[0].rank, 2);
	assert_int_equal(sum->comms[0].n_ranks, 4);
	assert_int_equal(sum->comms[0].id_hash, 0x1234);
	assert_string_equal(sum->comms[0].origin, "ncclCommSplit");
	assert_int_equal(sum->comms[0].calls, 2);
	assert_int_equal(sum->comms[0].bytes, 111);
	assert_int_equal(sum->comms[1].comm, 0xb0);
	assert_int_equal(sum->comms[1].rank, -1);
	assert_int_equal(sum->comms[1].calls, 1);
	assert_string_equal(sum->comms[1].origin, "");
	assert_int_equal(sum->comms[2].calls, 1);
	assert_int_equal(sum->comms[2].bytes, 5);
	assert_int_equal(sum->comms[3].rank, 3);
	assert_int_equal(sum->comms[3].bytes, 6);
	assert_int_equal(sum->comms[4].calls, 0);
}

static void too_many_communicators(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();

	put_world(&s);
	for (uint64_t i = 1; i <= GS_AGGREGATE_MAX_COMMS + 3; i++)
		put_comm(&s, 1, i << 4, 0, 1, i);
	for (unsigned i = 0; i < GS_AGGREGATE_MAX_OPEN + 2; i++)
		put_call(&s, 1, 1, 0, 1)->call_flags = GS_CALL_UNFINISHED;
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->n_comms, GS_AGGREGATE_MAX_COMMS);
	assert_int_equal(sum->n_open_calls, GS_AGGREGATE_MAX_OPEN);
	assert_int_equal(sum->n_lost, 1);
	assert_int_equal(sum->lost[0].count, 5);
}

static void session(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	struct gs_rec_session *ss = put_record(&s, GS_REC_SESSION, sizeof(*ss), 0);
	struct gs_rec_counter *c;
	struct gs_rec_end *e;

	ss->mode = GS_SESSION_EVENTS;
	ss->start_ns = 1000;
	ss->wall_minus_boot_ns = -300;
	ss->command_str = 1;
	ss->host_str = 2;
	ss->kernel_str = 3;
	ss->attach_mode_str = 4;
	put_text(&s, "./a.out");
	put_text(&s, "host");
	put_text(&s, "6.1");
	put_text(&s, "attach_mode");
	put_call(&s, 1, 1, 1500, 100);
	feed(v, &s);
	{
		SUMMARY *sum = summary_of(v);

		assert_int_equal(sum->complete, 0);
		assert_int_equal(sum->duration_ns, 600); /* up to the last thing seen */
		assert_int_equal(sum->exit_status, -1);
		assert_string_equal(sum->end_reason, "");
	}
	c = put_record(&s, GS_REC_COUNTER, sizeof(*c), 0);
	c->time_ns = 1700;
	feed(v, &s);
	{
		SUMMARY *sum = summary_of(v);

		assert_int_equal(sum->duration_ns, 700);
	}
	put_text(&s, "command exited");
	e = put_record(&s, GS_REC_END, sizeof(*e), 0);
	e->end_ns = 5000;
	e->exit_status = 3;
	e->reason_str = 5;
	feed(v, &s);

	SUMMARY *sum = summary_of(v);

	assert_int_equal(sum->complete, 1);
	assert_int_equal(sum->mode, GS_SESSION_EVENTS);
	assert_int_equal(sum->duration_ns, 4000);
	assert_int_equal(sum->start_wall_ns, 700);
	assert_int_equal(sum->exit_status, 3);
	assert_string_equal(sum->end_reason, "command exited");
	assert_string_equal(sum->command, "./a.out");
	assert_string_equal(sum->host, "host");
	assert_string_equal(sum->kernel, "6.1");
	assert_string_equal(sum->attach_mode, "attach_mode");
}

/* Cut anywhere, and with each record's length spoilt: what is whole before it is counted. */
static void malformed(void **state)
{
	STREAM s = STREAM_INIT, pushed = STREAM_INIT;
	struct gs_rec_stats *t;
	size_t whole, at = 0;

	put_world(&s);
	whole = s.buf.bytes;
	put_call(&s, 1, 1, 0, 1);
	t = put_record(&s, GS_REC_STATS, sizeof(*t), 8);
	t->thread = t->function = t->calls = 1;
	t->n_buckets = 1;
	for (size_t cut = 0; cut <= s.buf.bytes; cut++) {
		VIEW *v = new_view();
		struct gs_batch b = stream_batch(&s);
		const struct gs_sink *sink = gs_aggregate_sink(v);
		size_t end = whole + sizeof(struct gs_rec_call), offset = 0;

		b.bytes = cut;
		while (gs_record_next(&b, &offset))
			;
		assert_int_equal(sink->push(sink->ctx, &b), offset == cut ? 0 : -EBADMSG);
		assert_int_equal(gs_aggregate_calls(v, 0), (cut >= end) + (cut == s.buf.bytes));
	}
	gs_buf_put(&pushed.buf, s.buf.data, s.buf.bytes);
	while (at < s.buf.bytes) {
		VIEW *v = new_view();
		struct gs_record *r = (void *)(pushed.buf.data + at);
		uint16_t bytes = r->bytes;
		struct gs_batch b = stream_batch(&pushed);
		const struct gs_sink *sink = gs_aggregate_sink(v);

		r->bytes = 0;
		assert_int_equal(sink->push(sink->ctx, &b), -EBADMSG);
		r->bytes = bytes;
		at += bytes;
	}
	{
		/* More buckets than the record holds. */
		VIEW *v = new_view();

		((struct gs_rec_stats *)(pushed.buf.data + pushed.buf.bytes - sizeof(*t) - 8))
			->n_buckets = 2;
		assert_int_equal(stream_push(&pushed, gs_aggregate_sink(v)), -EBADMSG);
		assert_int_equal(gs_aggregate_calls(v, 0), 1);
	}
}

static void too_many_pairs(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	unsigned n_threads = GS_AGGREGATE_MAX_PAIRS / 2 + 10;

	put_process(&s, 1, 10, "many");
	put_function(&s, 1, RT, GS_CLASS_COPY, "cudaMemcpy");
	put_function(&s, 2, RT, GS_CLASS_COPY, "cudaMemset");
	for (uint32_t t = 1; t <= n_threads; t++)
		put_thread(&s, t, 1, t, "t");
	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t t = 1; t <= n_threads; t++) {
			put_call(&s, t, 1, 0, 1);
			put_call(&s, t, 2, 0, 1);
		}
		feed(v, &s);
	}

	SUMMARY *sum = summary_of(v);

	/* All calls of each function are there; those of the last threads under no thread. */
	assert_int_equal(sum->functions.n, 2);
	assert_int_equal(sum->functions.items[0].calls, 2 * n_threads);
	assert_int_equal(sum->functions.items[1].calls, 2 * n_threads);
	assert_int_equal(sum->n_processes, 2);
	assert_int_equal(sum->processes[1].pid, 0);
	for (size_t i = 0; i < 2; i++) {
		const char *name = sum->functions.items[i].name;
		const struct gs_function_stats *some = find(&sum->processes[0].functions, name);
		const struct gs_function_stats *rest = find(&sum->processes[1].functions, name);

		assert_non_null(some);
		assert_non_null(rest);
		assert_in_range(rest->calls, 20, 24);
		assert_int_equal(some->calls + rest->calls, 2 * n_threads);
	}
}

static void allocates_nothing_when_warm(void **state)
{
	STREAM s = STREAM_INIT;
	VIEW *v = new_view();
	unsigned long before = 0;

	put_world(&s);
	put_comm(&s, 1, 0xa0, 0, 1, 1);
	feed(v, &s);
	/* The first ones fill what is kept of streams that are never waited for. */
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 1000; i++) {
			struct gs_rec_call *c = put_call(&s, 1 + i % 2, 1 + i % 5, i, i);

			c->failed = i % 7 == 0;
			c->ret = (int32_t)(i % 11);
			c->arg[0] = c->arg[1] = 0xa0;
		}
		if (round == 3)
			before = n_mallocs;
		feed(v, &s);
	}
	assert_true(before > 0);
	assert_int_equal(n_mallocs, before);
}

/* Every allocation fails once: what is told is -ENOMEM, and nothing is leaked or lost for good. */
static void survives_want_of_memory(void **state)
{
	STREAM s = STREAM_INIT;
	bool failed = true;

	put_world(&s);
	for (unsigned i = 0; i < 300; i++) {
		struct gs_rec_call *c = put_call(&s, 1 + i % 100, 1 + i % 5, i, i);

		c->failed = i % 3 == 0;
		c->ret = (int32_t)i;
		c->arg[1] = 16 * (i + 1);
	}
	put_call(&s, 1, 1, 0, 1)->call_flags = GS_CALL_UNFINISHED;
	put_comm(&s, 1, 0xa0, 0, 1, 1);
	put_loss(&s, 0, GS_LOSS_PROC, 0, 1);
	put_record(&s, GS_REC_ATTACH, sizeof(struct gs_rec_attach), 0);
	for (unsigned long at = 1; failed; at++) {
		struct gs_batch b = stream_batch(&s);
		SUMMARY *sum = NULL;
		VIEW *v = NULL;
		int r, pushed = 0;

		n_mallocs = 0;
		fail_at = at;
		r = gs_aggregate_new(&v);
		if (r == 0)
			pushed = gs_aggregate_sink(v)->push(gs_aggregate_sink(v)->ctx, &b);
		if (r == 0)
			r = gs_aggregate_make_summary(v, &sum);
		failed = n_mallocs >= fail_at;
		fail_at = 0;
		assert_true(r == 0 || r == -ENOMEM);
		assert_true(pushed == 0 || pushed == -ENOMEM);
		assert_true(failed || (r == 0 && pushed == 0));
		if (v)
			assert_in_range(gs_aggregate_calls(v, 0), 200, 300);
		if (v && pushed == 0)
			assert_int_equal(gs_aggregate_calls(v, 0), 300);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(counts_calls),
		cmocka_unit_test(counts_stats),
		cmocka_unit_test(error_codes),
		cmocka_unit_test(processes),
		cmocka_unit_test(unknown_ids),
		cmocka_unit_test(open_calls),
		cmocka_unit_test(losses),
		cmocka_unit_test(attached),
		cmocka_unit_test(communicators),
		cmocka_unit_test(too_many_communicators),
		cmocka_unit_test(session),
		cmocka_unit_test(malformed),
		cmocka_unit_test(too_many_pairs),
		cmocka_unit_test(allocates_nothing_when_warm),
		cmocka_unit_test(survives_want_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
