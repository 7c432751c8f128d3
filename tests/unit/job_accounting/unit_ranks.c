/* Ranks of jobs: each one counted, bounded, and the report of the largest step. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/job_accounting/ranks.h"

static uint32_t find(struct gs_accounting_ranks *r, const char *step, int32_t rank)
{
	struct gs_job_task t = {.rank = rank};

	snprintf(t.step, sizeof(t.step), "%s", step);
	return gs_accounting_ranks_find(r, &t);
}

/* More than the agent once counted, and no more than there is room for. */
static void every_rank(void **state)
{
	struct gs_accounting_ranks r = {0};

	for (int32_t i = 0; i < GS_RANKS_MAX; i++)
		assert_int_equal(find(&r, i % 2 ? "1" : "0", i / 2), i + 1);
	assert_int_equal(find(&r, "2", 0), 0);
	assert_int_equal(find(&r, "1", 700), 2 * 700 + 2);
	assert_int_equal(r.n_ranks, GS_RANKS_MAX);
	gs_accounting_ranks_fini(&r);
	assert_int_equal(find(&r, "2", 0), 1);
	gs_accounting_ranks_fini(&r);
}

static void report_of_the_largest_step(void **state)
{
	static const char *const steps[] = {"7", "batch", "3"};
	static const int n[] = {2, 1, 2};
	struct gs_accounting_ranks r = {0};
	struct gs_job_report job = {0};

	for (int k = 1; k >= 0; k--)
		for (size_t i = 0; i < 3; i++)
			if (k < n[i])
				assert_true(find(&r, steps[i], k));
	for (uint32_t i = 0; i < r.n_ranks; i++)
		r.rank[i].work.time_ns[GS_TIME_CPU] = (r.rank[i].rank + 1ull) * 1000000000;
	/* "3" and "7" have two each; rank 0 of "3" was seen last. */
	assert_int_equal(gs_accounting_ranks_report(r.rank, r.n_ranks, &job), 0);
	assert_int_equal(job.n_ranks, 2);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(job.ranks[i].step, "3");
		assert_int_equal(job.ranks[i].rank, i);
		assert_true(job.ranks[i].cpu_s == i + 1);
		assert_true(isnan(job.ranks[i].gpu_ratio));
	}
	assert_int_equal(job.imbalance.rank, 1);
	free(job.ranks);
	gs_accounting_ranks_fini(&r);
}

/* A task of srun's that is a launcher is no rank beside those that it launched: on the second node of
 * two, its number is none of theirs. */
static void a_launcher_is_no_rank(void **state)
{
	struct gs_accounting_ranks r = {0};
	struct gs_job_report job = {0};
	struct gs_job_task t = {.step = "0", .launched = true};

	assert_int_equal(find(&r, "0", 1), 1);
	for (t.rank = 3; t.rank < 6; t.rank++)
		assert_int_equal(gs_accounting_ranks_find(&r, &t), t.rank - 1);
	t.rank = 1;
	assert_int_equal(gs_accounting_ranks_find(&r, &t), 5);
	assert_int_equal(find(&r, "0", 1), 1);
	for (int32_t i = 0; i < 3; i++)
		assert_true(find(&r, "1", i));
	r.rank[0].work.time_ns[GS_TIME_CPU] = 9000000000;
	assert_int_equal(gs_accounting_ranks_report(r.rank, r.n_ranks, &job), 0);
	assert_int_equal(job.n_ranks, 4);
	assert_int_equal(job.ranks[0].rank, 1);
	assert_int_equal(job.ranks[1].rank, 3);
	assert_true(job.ranks[0].cpu_s == 0);
	free(job.ranks);
	gs_accounting_ranks_fini(&r);
}

/* The share of a rank is weighted by time; its memory is the highest. */
static void gpus_of_a_rank(void **state)
{
	struct gs_accounting_ranks r = {0};
	struct gs_job_report job = {0};
	struct gs_gpu_process p = {.sm_ratio = 0.9, .used_bytes = 70};

	assert_int_equal(find(&r, "0", 0), 1);
	gs_accounting_rank_add_gpu(&r.rank[0], &p, 0);
	p = (struct gs_gpu_process){.sm_ratio = 0.25, .used_bytes = 20};
	gs_accounting_rank_add_gpu(&r.rank[0], &p, 3000000000);
	p.sm_ratio = 0.65;
	gs_accounting_rank_add_gpu(&r.rank[0], &p, 1000000000);
	p = (struct gs_gpu_process){.sm_ratio = -1, .used_bytes = -1};
	gs_accounting_rank_add_gpu(&r.rank[0], &p, 9000000000);
	assert_int_equal(gs_accounting_ranks_report(r.rank, r.n_ranks, &job), 0);
	assert_true(fabs(job.ranks[0].gpu_ratio - 0.35) < 1e-6);
	assert_int_equal(job.ranks[0].gpu_memory_bytes, 70);
	free(job.ranks);
	gs_accounting_ranks_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rank),
		cmocka_unit_test(report_of_the_largest_step),
		cmocka_unit_test(a_launcher_is_no_rank),
		cmocka_unit_test(gpus_of_a_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
