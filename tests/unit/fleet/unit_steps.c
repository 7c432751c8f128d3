/* Steps of ranks on two nodes: sent with the collectives in them, put side by side by a head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/fleet.h"
#include "analysis/fleet/sums.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "model/trace/hist.h"

#define S       1000000000ull
#define MS      1000000ull
#define N_RANKS 4
#define COMM    0x1234abcdull
#define PER     3 /* collectives in a step */

/* Ranks 0 1 and 2 3; the boot clock of the second node is another one, and its time of day 5 s slow. */
struct job {
	struct gs_fleet_sums *sums[2];
	struct gs_fleet_source sources[2];
	int64_t boot_ns[2], wall_minus_boot_ns[2], begin_ns;
	struct gs_fleet *fleet;
	uint64_t n_steps[N_RANKS];
	uint32_t run[N_RANKS];
	uint64_t late_ns;               /* of rank 3 in each third step */
	size_t most_bytes, most_listed; /* of a record of steps */
};

static void begin_job(struct job *job, uint64_t error_ns)
{
	*job = (struct job){.begin_ns = 1700000000ll * (int64_t)S, .fleet = gs_fleet_new()};
	for (int i = 0; i < 2; i++) {
		int64_t offset_ns = i ? 5 * (int64_t)S : 0;

		job->sums[i] = gs_fleet_sums_new();
		job->sources[i] = (struct gs_fleet_source){.node = i + 1,
							   .name = i ? "b" : "a",
							   .offset_ns = offset_ns,
							   .error_ns = error_ns};
		job->boot_ns[i] = (i ? 70 : 900000) * (int64_t)S;
		job->wall_minus_boot_ns[i] = job->begin_ns - offset_ns - job->boot_ns[i];
	}
	for (int rank = 0; rank < N_RANKS; rank++) {
		gs_fleet_sums_set_member(job->sums[rank / 2], (uint32_t)rank + 1,
					 100u + (uint32_t)rank, COMM, rank, N_RANKS, "4711");
		/* And a communicator of the two ranks of a node, which is not the one of the job. */
		gs_fleet_sums_set_member(job->sums[rank / 2], (uint32_t)rank + 11,
					 100u + (uint32_t)rank, COMM + 1 + (uint64_t)rank / 2,
					 rank % 2, 2, "4711");
		job->run[rank] = 1;
	}
}

static void end_job(struct job *job)
{
	gs_fleet_free(&job->fleet);
	for (int i = 0; i < 2; i++)
		gs_fleet_sums_free(&job->sums[i]);
}

static void call(struct job *job, int rank, uint32_t member, uint64_t at_ns)
{
	struct gs_hang_call c = {
		.op = {gs_func_by_name("ncclAllReduce")->id, 7 | 0xffffu << 16, 1024},
		.start_ns = (uint64_t)job->boot_ns[rank / 2] + at_ns};

	gs_fleet_sums_take_call(job->sums[rank / 2], member, &c, MS, false);
}

static void take_step(struct job *job, int rank, uint64_t at_ns, uint64_t dur_ns)
{
	struct gs_fleet_step step = {.slot = (unsigned)rank,
				     .run = job->run[rank],
				     .pid = 100u + (uint32_t)rank,
				     .start_ns = (uint64_t)job->boot_ns[rank / 2] + at_ns,
				     .dur_ns = dur_ns};

	gs_fleet_sums_take_step(job->sums[rank / 2], &step);
	job->n_steps[rank]++;
}

static void take_record(struct job *job, int node, const struct gs_record *r, int64_t now_ns)
{
	const struct gs_rec_rank_steps *steps = (const void *)r;
	int result =
		r->kind == GS_REC_RANK_STEPS
			? gs_fleet_take_steps(job->fleet, &job->sources[node], steps)
			: gs_fleet_take(job->fleet, &job->sources[node], (const void *)r, now_ns);

	assert_int_equal(result, 0);
	if (r->kind != GS_REC_RANK_STEPS)
		return;
	assert_int_equal(steps->id_hash, COMM);
	job->most_bytes = r->bytes > job->most_bytes ? r->bytes : job->most_bytes;
	job->most_listed = steps->n_listed > job->most_listed ? steps->n_listed : job->most_listed;
}

static void send_node(struct job *job, int node, uint64_t now_ns)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(1 << 20);
	uint64_t boot_ns = (uint64_t)job->boot_ns[node] + now_ns;
	struct gs_batch batch;

	assert_true(gs_fleet_sums_put(job->sums[node], boot_ns, job->wall_minus_boot_ns[node],
				      false, &out));
	for (int rank = 2 * node; rank < 2 * node + 2; rank++) {
		const struct gs_fleet_step_figures figures = {.pid = 100u + (uint32_t)rank,
							      .slot = (unsigned)rank,
							      .run = job->run[rank],
							      .n_steps = job->n_steps[rank],
							      .median_ns =
								      (100u + (uint32_t)rank) * MS,
							      .p95_ns = 200 * MS};

		gs_fleet_sums_put_steps(job->sums[node], &figures, boot_ns, &out);
	}
	batch = (struct gs_batch){out.data, out.bytes};
	gs_records_for_each (&batch, r)
		take_record(job, node, r, job->begin_ns + (int64_t)now_ns);
}

/* A second with `per_s` steps of each rank. A rank's step ends where its next one begins; traces of the second node begin with
 * the fourth step. */
static void run_second(struct job *job, unsigned second, unsigned per_s)
{
	uint64_t dur_ns = S / per_s;

	for (unsigned i = 0; i < per_s; i++)
		for (int rank = 0; rank < N_RANKS; rank++) {
			uint64_t at = second * S + i * dur_ns;
			bool is_late = rank == 3 && (second * per_s + i) % 3 == 2;

			for (unsigned k = 0; k < PER; k++) {
				uint64_t when = at + (k + 1) * dur_ns / 8;

				call(job, rank, (uint32_t)rank + 1,
				     is_late ? when + job->late_ns : when);
			}
			call(job, rank, (uint32_t)rank + 11, at + dur_ns / 2);
			if (rank < 2 || second * per_s + i >= 3)
				take_step(job, rank, at, rank == 1 ? dur_ns + MS / 10 : dur_ns);
		}
	for (int node = 0; node < 2; node++)
		send_node(job, node, (second + 1) * S + (uint64_t)node * 300 * MS);
	gs_fleet_tick(job->fleet, job->begin_ns + (int64_t)((second + 1) * S + 400 * MS));
}

struct seen {
	struct gs_fleet_steps steps;
	struct gs_fleet_step_rank ranks[N_RANKS];
	struct gs_fleet_slow_step slow[GS_FLEET_SLOW_STEPS];
	unsigned n; /* communicators */
	char text[8192];
};

static void see(void *ctx, const struct gs_fleet_steps *steps)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(1 << 16);
	struct seen *seen = ctx;

	seen->n++;
	seen->steps = *steps;
	assert_true(steps->n_listed <= N_RANKS);
	if (steps->n_slow)
		memcpy(seen->slow, steps->slow, steps->n_slow * sizeof(*steps->slow));
	for (uint32_t i = 0; i < steps->n_listed; i++)
		seen->ranks[i] = steps->ranks[i];
	gs_fleet_put_steps_text(&out, steps, steps->since_ns + (int64_t)S);
	assert_true(out.r == 0 && out.bytes < sizeof(seen->text));
	memcpy(seen->text, out.data, out.bytes);
}

static struct seen look(const struct job *job, const char *name, uint32_t max_ranks)
{
	struct seen seen = {.n = 0};

	assert_int_equal(gs_fleet_each_steps(job->fleet, name, max_ranks, see, &seen), 0);
	return seen;
}

static void test_slowest_rank(void **state)
{
	struct job job;
	struct seen seen;

	begin_job(&job, 2 * MS);
	job.late_ns = 50 * MS;
	for (unsigned second = 0; second < 20; second++)
		run_second(&job, second, 4);
	seen = look(&job, "4711", 100);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.steps.id, COMM);
	assert_string_equal(seen.steps.job, "4711");
	assert_int_equal(seen.steps.n_with, N_RANKS);
	assert_in_range(seen.steps.n_compared, 70, 80);
	assert_int_equal(seen.steps.n_known, seen.steps.n_compared);
	assert_int_equal(seen.steps.n_unlike, 0);
	assert_int_equal(seen.ranks[0].rank, 3);
	assert_string_equal(seen.ranks[0].node, "b");
	assert_int_equal(seen.ranks[0].n_compared, seen.steps.n_compared);
	assert_in_range(seen.ranks[0].n_slowest, seen.steps.n_compared / 3 - 1,
			seen.steps.n_compared / 3 + 1);
	for (unsigned i = 1; i < N_RANKS; i++)
		assert_int_equal(seen.ranks[i].n_slowest, 0);
	/* In a third of the steps by 50 ms. */
	assert_true(fabs(seen.ranks[0].late_ns - 50e6 / 3) < 1e6);
	assert_true(fabs(seen.ranks[1].late_ns) < 1);
	assert_true(fabs(seen.ranks[0].inside_ratio - PER * 1e6 / 250e6) < 1e-6);
	/* What the traces say of all steps is shown as it is. */
	assert_int_equal(seen.ranks[0].median_ns, 103 * MS);
	assert_int_equal(seen.steps.least_median_ns, 100 * MS);
	assert_int_equal(seen.steps.most_median_ns, 103 * MS);
	/* Rank 1's steps are 0.1 ms longer. */
	assert_true(fabs((double)seen.steps.spread_median_ns - 1e5) <=
		    1e5 * GS_HIST_ERROR_PCT / 100);
	assert_true(fabs(seen.steps.error_ns - 4e6) < 1);
	assert_int_equal(seen.steps.n_slow, GS_FLEET_SLOW_STEPS);
	assert_non_null(strstr(seen.text, "rank 3 (b, pid 103) is last, 50.0 ms (+/- 4.00 ms)"));
	assert_non_null(
		strstr(seen.text, "job 4711, communicator 0x1234abcd: steps of 4 of 4 ranks"));
	/* Of another job; and no more ranks than asked for. */
	assert_int_equal(look(&job, "4712", 100).n, 0);
	assert_int_equal(look(&job, "", 2).steps.n_listed, 2);
	end_job(&job);
}

/* The same with clocks that may explain it: then nothing is said. */
static void test_not_known(void **state)
{
	struct job job;
	struct seen seen;

	begin_job(&job, 60 * MS);
	job.late_ns = 50 * MS;
	for (unsigned second = 0; second < 20; second++)
		run_second(&job, second, 4);
	seen = look(&job, NULL, 100);
	assert_in_range(seen.steps.n_compared, 70, 80);
	assert_int_equal(seen.steps.n_known, 0);
	for (unsigned i = 0; i < N_RANKS; i++)
		assert_int_equal(seen.ranks[i].n_slowest, 0);
	assert_non_null(
		strstr(seen.text, "the slowest rank is not known: clocks may be 120 ms apart"));
	end_job(&job);
	/* Ranks that are alike are not said to be slow either. */
	begin_job(&job, MS);
	for (unsigned second = 0; second < 20; second++)
		run_second(&job, second, 4);
	seen = look(&job, NULL, 100);
	assert_int_equal(seen.steps.n_known, seen.steps.n_compared);
	assert_int_equal(seen.ranks[0].n_slowest, 0);
	assert_non_null(strstr(seen.text, "no rank stands out"));
	end_job(&job);
}

/* However many steps there are, a record has a few, and all ranks the same ones. */
static void test_many_steps(void **state)
{
	static const unsigned per_s[] = {1, 7, 20, 33, 100, 200};

	for (size_t i = 0; i < GS_ARRAY_LEN(per_s); i++) {
		struct job job;
		struct seen seen;

		begin_job(&job, 0);
		for (unsigned second = 0; second < 20; second++)
			run_second(&job, second, per_s[i]);
		seen = look(&job, NULL, 100);
		assert_true(seen.steps.n_compared >= (per_s[i] > 16 ? 7 : per_s[i]) * 14);
		assert_int_equal(seen.ranks[0].n_steps, job.n_steps[seen.ranks[0].rank]);
		assert_true(job.most_listed <= GS_RANK_STEPS);
		assert_true(job.most_bytes <= sizeof(struct gs_rec_rank_steps) +
						      GS_RANK_STEPS * sizeof(struct gs_rank_step));
		end_job(&job);
	}
}

/* Another run: what was compared is void. */
static void test_another_run(void **state)
{
	struct job job;
	struct seen seen;

	begin_job(&job, 0);
	for (unsigned second = 0; second < 10; second++)
		run_second(&job, second, 4);
	for (int rank = 0; rank < N_RANKS; rank++) {
		job.run[rank] = 2;
		job.n_steps[rank] = 0;
	}
	for (unsigned second = 10; second < 15; second++)
		run_second(&job, second, 4);
	seen = look(&job, NULL, 100);
	assert_int_equal(seen.ranks[0].n_steps, 20);
	assert_in_range(seen.steps.n_compared, 15, 20);
	end_job(&job);
}

/* A rank that makes more collectives in its steps, or none that are the others', is not compared with them. */
static void test_unlike(void **state)
{
	struct job job;
	struct seen seen;

	begin_job(&job, 0);
	for (unsigned second = 0; second < 10; second++) {
		for (unsigned i = 0; i < 4; i++)
			for (int rank = 0; rank < N_RANKS; rank++) {
				uint64_t at = second * S + i * (S / 4);

				call(&job, rank, (uint32_t)rank + 1, at + 10 * MS);
				call(&job, rank, (uint32_t)rank + 1, at + 20 * MS);
				/* What rank 2's trace takes for a step are two. */
				if (rank != 2 || i % 2)
					take_step(&job, rank, rank == 2 ? at - S / 4 : at,
						  rank == 2 ? S / 2 : S / 4);
			}
		for (int node = 0; node < 2; node++)
			send_node(&job, node, (second + 1) * S);
		gs_fleet_tick(job.fleet, job.begin_ns + (int64_t)(second + 1) * (int64_t)S);
	}
	seen = look(&job, NULL, 100);
	assert_int_equal(seen.steps.n_compared, 0);
	assert_true(seen.steps.n_unlike > 20);
	assert_non_null(strstr(seen.text, "no step of several ranks is known yet"));
	end_job(&job);
}

/* What no node makes is refused, and a record of another process. */
static void test_refused(void **state)
{
	struct {
		struct gs_rec_rank_steps r;
		struct gs_rank_step step;
	} known = {.r = {.head = {.bytes = sizeof(known), .kind = GS_REC_RANK_STEPS},
			 .id_hash = COMM,
			 .n_ranks = N_RANKS,
			 .pid = 100,
			 .run = 1,
			 .n_listed = 1},
		   .step = {.call = 1, .n_calls = 1, .start_ns = S, .dur_ns = S}},
	  s;
	struct job job;

	begin_job(&job, 0);
	for (unsigned second = 0; second < 3; second++)
		run_second(&job, second, 4);
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[0], &known.r), 0);
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[1], &known.r), -ENOENT);
	s = known;
	s.r.pid = 99;
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[0], &s.r), -ENOENT);
	s = known;
	s.r.n_listed = 2;
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[0], &s.r), -EINVAL);
	s = known;
	s.step.n_calls = 0;
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[0], &s.r), -EINVAL);
	s = known;
	s.step.dur_ns = UINT64_MAX;
	assert_int_equal(gs_fleet_take_steps(job.fleet, &job.sources[0], &s.r), -EINVAL);
	end_job(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slowest_rank), cmocka_unit_test(test_not_known),
		cmocka_unit_test(test_many_steps),   cmocka_unit_test(test_another_run),
		cmocka_unit_test(test_unlike),       cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
