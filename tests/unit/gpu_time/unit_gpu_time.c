/* What GPUs did by their own times, added up: known work, known sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/summary/gpu_time.h"
#include "pipeline/gpu_time/gpu_time.h"

#define GEMM 1u
#define NCCL 2u
#define PID  4711u

struct run {
	struct gs_gpu_times *times;
	struct gs_dict *dict;
	struct gs_summary *summary;
	const struct gs_gpu_time *g;
};

static void put_string(struct gs_dict *dict, uint32_t id, const char *text)
{
	struct gs_buf buf = GS_BUF_INIT(65536);

	assert_int_equal(gs_record_put_string(&buf, id, text, strlen(text)), 0);
	assert_int_equal(gs_dict_apply(dict, (const void *)buf.data), 0);
	gs_buf_fini(&buf);
}

static void begin(struct run *r)
{
	const struct gs_rec_process p = {
		.head = {.kind = GS_REC_PROCESS, .bytes = sizeof(p)}, .id = 1, .pid = PID};

	*r = (struct run){.dict = gs_dict_new()};
	put_string(r->dict, GEMM, "ampere_sgemm");
	put_string(r->dict, NCCL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)");
	put_string(r->dict, 3, "held by another");
	gs_dict_apply(r->dict, &p.head);
}

static void window(struct run *r, enum gs_gpu_window_what what, uint64_t time_ns)
{
	const struct gs_rec_gpu_window w = {.head = {.kind = GS_REC_GPU_WINDOW, .bytes = sizeof(w)},
					    .process = 1,
					    .what = what,
					    .time_ns = time_ns,
					    .version = 130001,
					    .dropped = 2,
					    .text_str = what == GS_GPU_WINDOW_REFUSED ? 3 : 0};

	assert_int_equal(gs_gpu_times_take(&r->times, r->dict, &w.head), 0);
}

static void work(struct run *r, enum gs_gpu_work_kind what, uint32_t name, uint64_t start_ns,
		 uint64_t end_ns)
{
	const struct gs_rec_gpu_work w = {
		.head = {.kind = GS_REC_GPU_WORK, .bytes = sizeof(w)},
		.process = 1,
		.name_str = name,
		.short_str = name,
		.work = {.what = what, .start_ns = start_ns, .end_ns = end_ns, .bytes = 100}};

	assert_int_equal(gs_gpu_times_take(&r->times, r->dict, &w.head), 0);
}

static void finish(struct run *r)
{
	r->summary = calloc(1, sizeof(*r->summary));
	assert_int_equal(gs_gpu_times_summary(r->times, r->dict, r->summary), 0);
	r->g = r->summary->gpu_time;
}

static void end(struct run *r)
{
	gs_summary_free(&r->summary);
	gs_gpu_times_free(&r->times);
	gs_dict_free(&r->dict);
}

static void kernels_and_overlap(void **state)
{
	const struct gs_gpu_time_device *d;
	struct run r;

	begin(&r);
	window(&r, GS_GPU_WINDOW_OPENED, 1000);
	/* In no order. */
	work(&r, GS_WORK_KERNEL, NCCL, 1300, 1700); /* 200 of it beside compute */
	work(&r, GS_WORK_KERNEL, GEMM, 1100, 1200);
	work(&r, GS_WORK_KERNEL, GEMM, 1500, 1800);
	work(&r, GS_WORK_KERNEL, GEMM, 1550, 1650); /* on another stream: no more compute */
	work(&r, GS_WORK_COPY, 0, 1750, 1900);      /* 50 of it */
	work(&r, GS_WORK_FILL, 0, 1890, 1910);
	work(&r, GS_WORK_SYNC, 0, 1000, 2000); /* no work of a device */
	work(&r, GS_WORK_OVERHEAD, 0, 1000, 1007);
	window(&r, GS_GPU_WINDOW_CLOSED, 2000);
	finish(&r);
	assert_int_equal(r.g->windows, 1);
	assert_int_equal(r.g->window_ns, 1000);
	assert_int_equal(r.g->overhead_ns, 7);
	assert_int_equal(r.g->dropped, 2);
	assert_int_equal(r.g->n_kernels, 2);
	assert_string_equal(r.g->kernels[0].name, "ampere_sgemm");
	assert_int_equal(r.g->kernels[0].runs, 3);
	assert_int_equal(r.g->kernels[0].total_ns, 500);
	assert_int_equal(r.g->kernels[0].min_ns, 100);
	assert_int_equal(r.g->kernels[0].max_ns, 300);
	assert_int_equal(r.g->kernels[1].total_ns, 400);
	assert_int_equal(r.g->kernel_ns, 900);
	assert_int_equal(r.g->n_devices, 1);
	d = r.g->devices;
	assert_int_equal(d->process, PID);
	assert_int_equal(d->kernels, 4);
	assert_int_equal(d->copied_bytes, 100);
	assert_int_equal(d->busy_ns[GS_GPU_TIME_ANY], 100 + 610);
	assert_int_equal(d->busy_ns[GS_GPU_TIME_COMPUTE], 400);
	assert_int_equal(d->busy_ns[GS_GPU_TIME_COMM], 400);
	assert_int_equal(d->busy_ns[GS_GPU_TIME_COPY], 160);
	assert_int_equal(gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COMM,
					  GS_GPU_TIME_COMPUTE_COMM),
			 200);
	assert_int_equal(gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COPY,
					  GS_GPU_TIME_COMPUTE_COPY),
			 50);
	assert_int_equal(d->gaps, 1);
	assert_int_equal(d->gap_ns, 100);
	end(&r);
}

/* The time between is not idle: nothing is known of it. */
static void two_windows(void **state)
{
	struct run r;

	begin(&r);
	window(&r, GS_GPU_WINDOW_OPENED, 1000);
	work(&r, GS_WORK_KERNEL, GEMM, 1100, 1200);
	window(&r, GS_GPU_WINDOW_YIELDED, 1300);
	window(&r, GS_GPU_WINDOW_OPENED, 90000);
	work(&r, GS_WORK_KERNEL, GEMM, 90100, 90200);
	work(&r, GS_WORK_KERNEL, 0, 90250, 90300); /* without a name */
	finish(&r);                                /* killed: the window ends with what is known */
	assert_int_equal(r.g->windows, 2);
	assert_int_equal(r.g->yielded, 1);
	assert_int_equal(r.g->window_ns, 300 + 300);
	assert_int_equal(r.g->devices[0].window_ns, 600);
	assert_int_equal(r.g->devices[0].gaps, 1);
	assert_int_equal(r.g->devices[0].gap_max_ns, 50);
	assert_int_equal(r.g->n_kernels, 2);
	assert_string_equal(r.g->kernels[1].name, "");
	end(&r);
}

/* Added up in pieces, the sum is the same; a time that is not known is none. */
static void many_and_untimed(void **state)
{
	struct run r;

	begin(&r);
	window(&r, GS_GPU_WINDOW_OPENED, 1);
	for (uint64_t i = 0; i < 600000; i++)
		work(&r, GS_WORK_KERNEL, GEMM, 1000 + i * 10, 1000 + i * 10 + 6);
	work(&r, GS_WORK_KERNEL, GEMM, 0, 0);
	window(&r, GS_GPU_WINDOW_CLOSED, 7000000);
	finish(&r);
	assert_int_equal(r.g->devices[0].busy_ns[GS_GPU_TIME_ANY], 600000 * 6);
	assert_int_equal(r.g->devices[0].gap_ns, 599999 * 4);
	assert_int_equal(r.g->devices[0].kernels, 600001);
	assert_int_equal(r.g->kernels[0].runs, 600000);
	assert_int_equal(r.g->untimed, 1);
	end(&r);
}

static void refused_or_nothing(void **state)
{
	struct run r;

	begin(&r);
	finish(&r);
	assert_null(r.g);
	gs_summary_free(&r.summary);
	window(&r, GS_GPU_WINDOW_REFUSED, 5);
	finish(&r);
	assert_string_equal(r.g->refusal, "held by another");
	assert_int_equal(r.g->windows, 0);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_and_overlap),
		cmocka_unit_test(two_windows),
		cmocka_unit_test(many_and_untimed),
		cmocka_unit_test(refused_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
