/* Records of memory with the names that a summary says them by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/trace/record_node.h"
#include "pipeline/holders/holders.h"
#include "unit/aggregate/records.h"

struct world {
	struct stream s;
	struct gs_dict *dict;
	struct gs_holders *holders;
	struct gs_summary *summary;
	uint64_t n_moments; /* a second apart */
};

static void make_world(struct world *w)
{
	*w = (struct world){.s = STREAM_INIT, .dict = gs_dict_new()};
	w->summary = calloc(1, sizeof(*w->summary));
	if (!w->dict || !w->summary || gs_holders_new(&w->holders) < 0)
		abort();
	gs_dict_keep_stacks(w->dict);
}

static void free_world(struct world *w)
{
	stream_fini(&w->s);
	gs_dict_free(&w->dict);
	gs_holders_free(&w->holders);
	gs_summary_free(&w->summary);
}

#define WORLD GS_CLEANUP(free_world) struct world

/* Everything that was put, then the summary. */
static const struct gs_memory_summary *summarize(struct world *w)
{
	struct gs_batch batch = stream_batch(&w->s);

	gs_records_for_each (&batch, r) {
		if (r->kind >= GS_REC_GPU_INFO && r->kind != GS_REC_MARK &&
		    r->kind != GS_REC_KERNEL)
			assert_true(gs_holders_take(w->holders, r));
		else
			gs_dict_apply(w->dict, r);
	}
	assert_int_equal(gs_holders_summarize(w->holders, w->dict, w->summary), 0);
	return w->summary->memory;
}

static void put_sum(struct world *w, uint32_t process, uint32_t device, unsigned kind,
		    uint64_t bytes)
{
	struct gs_rec_memory *r = put_record(&w->s, GS_REC_MEMORY, sizeof(*r), 0);

	r->process = process;
	r->device = device;
	r->kind = kind;
	r->live_bytes = bytes;
}

static struct gs_rec_memory_site *put_site(struct world *w, uint64_t live_bytes,
					   uint64_t peak_bytes)
{
	struct gs_rec_memory_site *r = put_record(&w->s, GS_REC_MEMORY_SITE, sizeof(*r), 0);

	r->process = 1;
	r->kind = GS_MEMORY_DEVICE;
	r->function = 1;
	r->live_bytes = live_bytes;
	r->live_blocks = live_bytes != 0;
	r->peak_bytes = peak_bytes;
	r->allocations = 1;
	return r;
}

static void put_frame(struct world *w, uint32_t id, unsigned kind, const char *function,
		      const char *file, uint32_t line)
{
	uint32_t function_str = *function ? put_text(&w->s, function) : 0,
		 file_str = put_text(&w->s, file);
	struct gs_rec_frame *f = put_record(&w->s, GS_REC_FRAME, sizeof(*f), 0);

	f->id = id;
	f->frame_kind = (uint16_t)kind;
	f->function_str = function_str;
	f->file_str = file_str;
	f->line = line;
	f->file_off = 0x1230;
}

static void put_stack(struct world *w, uint32_t id, unsigned kind, uint32_t a, uint32_t b)
{
	struct gs_rec_stack *s =
		put_record(&w->s, GS_REC_STACK, sizeof(*s), 2 * sizeof(s->frames[0]));

	s->id = id;
	s->process = 1;
	s->stack_kind = (uint16_t)kind;
	s->n_frames = 2;
	s->frames[0] = a;
	s->frames[1] = b;
}

static void rows(void **state)
{
	WORLD w;
	const struct gs_memory_summary *m;
	uint32_t gpus;

	make_world(&w);
	put_sum(&w, 2, 0, GS_MEMORY_DEVICE, 5);
	put_sum(&w, 1, GS_MEMORY_DEVICE_ALL, GS_MEMORY_ON_DEVICE, 4);
	put_sum(&w, 1, GS_MEMORY_DEVICE_UNKNOWN, GS_MEMORY_DEVICE, 3);
	put_sum(&w, 1, 1, GS_MEMORY_ON_DEVICE, 2);
	put_sum(&w, 1, 1, GS_MEMORY_DEVICE, 1);
	gpus = put_text(&w.s, "GPU-a,GPU-b");
	put_process(&w.s, 1, 100, "one");
	put_process(&w.s, 2, 200, "two");
	{
		struct gs_rec_process *p = put_record(&w.s, GS_REC_PROCESS, sizeof(*p), 0);

		p->id = 1;
		p->pid = 100;
		p->gpus_str = gpus;
		p->comm_str = gpus + 1;
	}
	m = summarize(&w);
	assert_int_equal(m->n_rows, 5);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(m->rows[i].sums.live_bytes, i + 1);
	assert_string_equal(m->rows[0].gpu, "GPU-b");
	assert_string_equal(m->rows[0].comm, "one");
	assert_string_equal(m->rows[2].gpu, "");
	assert_string_equal(m->rows[3].gpu, "");
	assert_int_equal(m->rows[4].pid, 200);
	assert_string_equal(m->rows[4].gpu, "");
}

static void places(void **state)
{
	WORLD w;
	const struct gs_memory_summary *m;

	make_world(&w);
	put_process(&w.s, 1, 100, "one");
	put_function(&w.s, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMalloc");
	put_function(&w.s, 2, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::add");
	put_frame(&w, 1, GS_FRAME_PYTHON, "empty", "/usr/lib/python3.11/x.py", 4);
	put_frame(&w, 2, GS_FRAME_PYTHON, "step", "/home/u/train.py", 12);
	put_frame(&w, GS_NATIVE_ID | 1, GS_FRAME_NATIVE, "cudaMalloc", "/opt/app", 0);
	put_frame(&w, GS_NATIVE_ID | 2, GS_FRAME_NATIVE, "make_weights", "/opt/app", 0);
	put_frame(&w, GS_NATIVE_ID | 3, GS_FRAME_NATIVE, "", "/lib/libcudart.so.13", 0);
	put_frame(&w, GS_NATIVE_ID | 4, GS_FRAME_NATIVE, "", "/opt/libx.so", 0);
	put_stack(&w, 1, GS_STACK_PYTHON, 1, 2);
	put_stack(&w, GS_NATIVE_ID | 1, GS_STACK_NATIVE, GS_NATIVE_ID | 1, GS_NATIVE_ID | 2);
	put_stack(&w, GS_NATIVE_ID | 2, GS_STACK_NATIVE, GS_NATIVE_ID | 3, GS_NATIVE_ID | 4);
	put_stack(&w, GS_NATIVE_ID | 3, GS_STACK_NATIVE, GS_NATIVE_ID | 1, GS_NATIVE_ID | 3);
	put_sum(&w, 1, 0, GS_MEMORY_DEVICE, 1);
	put_site(&w, 50, 60)->py_stack = 1;
	put_site(&w, 7, 9)->native_stack = GS_NATIVE_ID | 1;
	put_site(&w, 8, 9)->native_stack = GS_NATIVE_ID | 2;
	put_site(&w, 0, 100)->scope = 2;
	put_site(&w, 0, 50)->native_stack = GS_NATIVE_ID | 3; /* of CUDA alone */
	put_site(&w, 20, 30)->native_stack = GS_NATIVE_ID | 1;
	put_site(&w, 0, 2)->process = 0; /* those that found no room */
	{
		struct gs_rec_memory_site *both = put_site(&w, 1, 1);

		both->py_stack = 1;
		both->native_stack = GS_NATIVE_ID | 1;
	}
	m = summarize(&w);
	assert_int_equal(m->n_places, 6);
	assert_string_equal(m->places[0].place, "/home/u/train.py:12 step");
	assert_int_equal(m->places[0].sums.live_bytes, 51);
	assert_string_equal(m->places[1].place, "make_weights (app)");
	assert_string_equal(m->places[1].function, "cudaMalloc");
	assert_int_equal(m->places[1].sums.live_bytes, 27);
	assert_int_equal(m->places[1].sums.live_blocks, 2);
	assert_int_equal(m->places[1].sums.peak_bytes, 39);
	assert_int_equal(m->places[1].sums.allocations, 2);
	assert_string_equal(m->places[2].place, "libx.so+0x1230");
	assert_string_equal(m->places[3].place, "aten::add");
	assert_string_equal(m->places[4].place, "unknown");
	assert_string_equal(m->places[5].place, "");
}

/* A moment of a machine with these GPUs. */
static void put_moment(struct world *w, const char *const *gpus, uint32_t n)
{
	struct gs_rec_host_sample *moment =
		put_record(&w->s, GS_REC_HOST_SAMPLE, sizeof(*moment), 0);

	moment->time_ns = ++w->n_moments * 1000000000ull;
	for (uint32_t i = 0; i < n; i++) {
		size_t bytes = strlen(gpus[i]);
		struct gs_rec_gpu_info *r = put_record(&w->s, GS_REC_GPU_INFO, sizeof(*r), bytes);

		r->gpu = i;
		r->text_bytes[0] = (uint16_t)bytes;
		memcpy(r + 1, gpus[i], bytes);
	}
}

static struct gs_rec_gpu_process *put_gpu_process(struct world *w, uint32_t gpu, uint32_t pid,
						  int64_t bytes)
{
	struct gs_rec_gpu_process *r = put_record(&w->s, GS_REC_GPU_PROCESS, sizeof(*r), 0);

	r->gpu = gpu;
	r->pid = pid;
	r->used_bytes = bytes;
	return r;
}

static void measured(void **state)
{
	static const char *const two[] = {"GPU-a", "GPU-b"}, *const other[] = {"GPU-b"};
	WORLD w;
	const struct gs_memory_summary *m;

	make_world(&w);
	put_process(&w.s, 1, 100, "one");
	put_process(&w.s, 2, 200, "two");
	put_moment(&w, two, 2);
	put_gpu_process(&w, 0, 100, 1000);
	put_gpu_process(&w, 1, 100, 10);
	put_gpu_process(&w, 1, 999, 77); /* not of the trace */
	put_gpu_process(&w, 7, 100, 5);  /* of no GPU */
	put_moment(&w, other, 1);        /* numbered anew */
	put_gpu_process(&w, 0, 100, 500);
	put_gpu_process(&w, 0, 200, -1); /* not known */
	put_gpu_process(&w, 1, 100, 6);
	put_moment(&w, other, 1);
	put_gpu_process(&w, 0, 100, 30);
	put_gpu_process(&w, 0, 100, 9999)->gone = 1;
	m = summarize(&w);
	assert_int_equal(m->n_rows, 0);
	assert_int_equal(m->n_measured, 2);
	assert_string_equal(m->measured[0].gpu, "GPU-a");
	assert_int_equal(m->measured[0].last_bytes, 1000);
	assert_true(m->measured[0].is_late);
	assert_string_equal(m->measured[1].gpu, "GPU-b");
	assert_int_equal(m->measured[1].first_bytes, 10);
	assert_int_equal(m->measured[1].peak_bytes, 500);
	assert_int_equal(m->measured[1].last_bytes, 30);
	assert_int_equal(m->measured[1].n_readings, 3);
	assert_int_equal(m->measured[1].device, GS_MEMORY_DEVICE_UNKNOWN);
}

/* What is in a list that was kept counts once, and how long nobody looked is known. */
static void measured_seldom(void **state)
{
	static const char *const one[] = {"GPU-a"};
	WORLD w;
	const struct gs_memory_summary *m;

	make_world(&w);
	put_process(&w.s, 1, 100, "once");
	put_process(&w.s, 2, 200, "long ago");
	put_process(&w.s, 3, 300, "known");
	for (unsigned i = 1; i <= 12; i++) {
		put_moment(&w, one, 1);
		put_gpu_process(&w, 0, 100, 648)->kept = i > 1;
		if (i <= 9) /* read at 1, 2, 3, listed until 9 */
			put_gpu_process(&w, 0, 200, 10 * i)->kept = i > 3;
		put_gpu_process(&w, 0, 300, 7 + i)->kept = i % 2 == 0;
	}
	m = summarize(&w);
	assert_int_equal(m->n_measured, 3);
	assert_int_equal(m->measured[0].n_readings, 1);
	assert_int_equal(m->measured[0].unread_ns, 11000000000ull);
	assert_false(gs_memory_knows_last(&m->measured[0]));
	assert_int_equal(m->measured[1].n_readings, 3);
	assert_int_equal(m->measured[1].unread_ns, 7000000000ull);
	assert_int_equal(m->measured[1].last_bytes, 30);
	assert_false(gs_memory_knows_last(&m->measured[1]));
	assert_int_equal(m->measured[2].n_readings, 6);
	assert_int_equal(m->measured[2].unread_ns, 1000000000ull);
	assert_int_equal(m->measured[2].last_bytes, 18);
	assert_true(gs_memory_knows_last(&m->measured[2]));
}

/* The ledger's sum of the same GPU stands beside it. */
static void measured_and_held(void **state)
{
	static const char *const two[] = {"GPU-a", "GPU-b"};
	WORLD w;
	const struct gs_memory_summary *m;
	struct gs_rec_process *p;
	uint32_t gpus;

	make_world(&w);
	gpus = put_text(&w.s, "GPU-b,GPU-a");
	p = put_record(&w.s, GS_REC_PROCESS, sizeof(*p), 0);
	p->head.flags = GS_PROCESS_BEGUN;
	p->id = 1;
	p->pid = 100;
	p->gpus_str = gpus;
	put_sum(&w, 1, 0, GS_MEMORY_ON_DEVICE, 40);
	put_sum(&w, 1, 1, GS_MEMORY_ON_DEVICE, 50);
	put_sum(&w, 1, GS_MEMORY_DEVICE_ALL, GS_MEMORY_ON_DEVICE, 90);
	put_moment(&w, two, 2);
	put_gpu_process(&w, 0, 100, 1000);
	put_gpu_process(&w, 1, 100, 2000);
	m = summarize(&w);
	assert_int_equal(m->n_measured, 2);
	assert_false(m->measured[0].is_late);
	assert_int_equal(m->measured[0].device, 1);
	assert_int_equal(m->measured[0].live_bytes, 50);
	assert_int_equal(m->measured[1].device, 0);
	assert_int_equal(m->measured[1].live_bytes, 40);
}

static void nothing(void **state)
{
	WORLD w;

	make_world(&w);
	assert_null(summarize(&w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),
		cmocka_unit_test(places),
		cmocka_unit_test(measured),
		cmocka_unit_test(measured_seldom),
		cmocka_unit_test(measured_and_held),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
