/* Launches by kernel: of several processes, of functions that are one kernel after another, and those chosen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/trace/record_kernel.h"
#include "records.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/aggregate/kernel_choose.h"

enum { LAUNCH = 1, COPY };

static void put_kernel(struct stream *s, uint32_t process, uint64_t function, uint32_t name_str,
		       uint32_t registers)
{
	struct gs_rec_kernel *k = put_record(s, GS_REC_KERNEL, sizeof(*k), 0);

	k->process = process;
	k->function = function;
	k->how = name_str ? GS_KERNEL_LOADED : GS_KERNEL_UNKNOWN;
	k->name_str = k->short_str = k->symbol_str = name_str;
	k->registers = registers;
	k->sm = registers ? 90 : 0;
}

static void put_launches(struct stream *s, uint32_t thread, uint64_t function, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct gs_rec_call *c = put_call(s, thread, LAUNCH, 100 * i, 10);

		c->arg[0] = function;
		c->arg[1] = 4 | 2ull << 32; /* grid 4, 2, 1; block 32, 2, 1 */
		c->arg[2] = 1 | 32ull << 32;
		c->arg[3] = 2 | 1ull << 32;
		c->aux = 64;
		c->failed = i == 0;
	}
}

/* Threads 1 and 2 of processes of the same number. */
static void put_start(struct stream *s)
{
	put_process(s, 1, 11, "one");
	put_process(s, 2, 12, "two");
	put_thread(s, 1, 1, 11, "one");
	put_thread(s, 2, 2, 12, "two");
	put_function(s, LAUNCH, GS_LAYER_CUDA_DRIVER, GS_CLASS_LAUNCH, "cuLaunchKernel");
	put_function(s, COPY, GS_LAYER_CUDA_DRIVER, GS_CLASS_COPY, "cuMemcpy");
}

static struct gs_summary *summary_of(struct stream *s)
{
	struct gs_aggregate *view = NULL;
	struct gs_summary *summary = NULL;

	assert_int_equal(gs_aggregate_new(&view), 0);
	assert_int_equal(stream_push(s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	gs_aggregate_free(&view);
	return summary;
}

static const struct gs_kernel_summary *find(const struct gs_summary *s, const char *name)
{
	for (size_t i = 0; i < s->n_kernels; i++)
		if (strcmp(s->kernels[i].name, name) == 0)
			return &s->kernels[i];
	return NULL;
}

static void processes_share_a_kernel(void **state)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *sum = NULL;
	STREAM s = STREAM_INIT;
	const struct gs_kernel_summary *k;
	uint32_t name;

	put_start(&s);
	name = put_text(&s, "scale");
	put_kernel(&s, 1, 0x100, name, 0);
	put_kernel(&s, 2, 0x200, name, 0);
	put_launches(&s, 1, 0x100, 3);
	put_launches(&s, 2, 0x200, 5);
	put_launches(&s, 2, 0x300, 2);
	put_call(&s, 2, COPY, 0, 1)->arg[0] = 0x100;
	put_kernel(&s, 2, 0x200, name, 40); /* at the end: what it needs */
	sum = summary_of(&s);
	assert_int_equal(sum->n_kernels, 2);
	assert_int_equal(sum->kernel_launches, 10);
	assert_int_equal(sum->unknown_launches, 2);
	k = &sum->kernels[0];
	assert_string_equal(k->name, "scale");
	assert_int_equal(k->launches, 8);
	assert_int_equal(k->failed, 2);
	assert_int_equal(k->host_ns, 80);
	assert_int_equal(k->blocks, 8 * 8);
	assert_int_equal(k->threads, 8 * 64);
	assert_int_equal(k->dynamic_shared_bytes, 8 * 64);
	assert_int_equal(k->registers, 40);
	k = &sum->kernels[1];
	assert_string_equal(k->name, "");
	assert_int_equal(k->function, 0x300);
	assert_int_equal(k->pid, 12);
}

static void a_handle_is_one_kernel_after_another(void **state)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *sum = NULL;
	STREAM s = STREAM_INIT;
	uint32_t first, second;

	put_start(&s);
	first = put_text(&s, "first");
	second = put_text(&s, "second");
	put_kernel(&s, 1, 0x100, first, 0);
	put_launches(&s, 1, 0x100, 3);
	put_kernel(&s, 1, 0x100, second, 0);
	put_launches(&s, 1, 0x100, 4);
	put_kernel(&s, 1, 0x100, 0, 0); /* another program */
	put_launches(&s, 1, 0x100, 5);
	sum = summary_of(&s);
	assert_int_equal(find(sum, "first")->launches, 3);
	assert_int_equal(find(sum, "second")->launches, 4);
	assert_int_equal(find(sum, "")->launches, 5);
}

static void a_name_may_come_late(void **state)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *sum = NULL;
	STREAM s = STREAM_INIT;

	put_start(&s);
	put_launches(&s, 1, 0x100, 3);
	put_kernel(&s, 1, 0x100, put_text(&s, "late"), 0);
	put_launches(&s, 1, 0x100, 4);
	sum = summary_of(&s);
	assert_int_equal(sum->n_kernels, 1);
	assert_int_equal(find(sum, "late")->launches, 7);
}

static void kernels_are_chosen(void **state)
{
	static const char *const globs[] = {"sc*", "third"};
	struct gs_aggregate_kernels *kernels = gs_aggregate_kernels_new(globs, 2);
	struct gs_batch batch, left;
	unsigned n_launches = 0, n_copies = 0;
	STREAM s = STREAM_INIT;

	assert_non_null(kernels);
	put_start(&s);
	put_kernel(&s, 1, 0x100, put_text(&s, "scale"), 0);
	put_kernel(&s, 1, 0x200, put_text(&s, "fill"), 0);
	put_launches(&s, 1, 0x100, 3);
	put_launches(&s, 1, 0x200, 4);
	put_launches(&s, 1, 0x300, 1);
	put_launches(&s, 2, 0x100, 1); /* of another process */
	put_call(&s, 1, COPY, 0, 1);
	put_kernel(&s, 1, 0x100, put_text(&s, "other"), 0);
	put_launches(&s, 1, 0x100, 5);
	put_kernel(&s, 1, 0x200, put_text(&s, "third"), 0);
	put_launches(&s, 1, 0x200, 6);
	batch = stream_batch(&s);
	assert_int_equal(gs_aggregate_kernels_choose(kernels, &batch, &left), 0);
	gs_records_for_each (&left, r) {
		const struct gs_rec_call *c = (const void *)r;

		n_launches += r->kind == GS_REC_CALL && c->function == LAUNCH;
		n_copies += r->kind == GS_REC_CALL && c->function == COPY;
	}
	assert_int_equal(n_launches, 3 + 6);
	assert_int_equal(n_copies, 1);
	assert_int_equal(gs_aggregate_kernels_n_chosen(kernels), 9);
	assert_int_equal(gs_aggregate_kernels_n_left_out(kernels), 11);
	gs_aggregate_kernels_free(&kernels);
	assert_null(kernels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_share_a_kernel),
		cmocka_unit_test(a_handle_is_one_kernel_after_another),
		cmocka_unit_test(a_name_may_come_late),
		cmocka_unit_test(kernels_are_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
