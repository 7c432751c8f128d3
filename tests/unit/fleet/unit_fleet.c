/* Ranks on two nodes: what each adds up to, sent about once a second, and what a head finds in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/fleet.h"
#include "analysis/fleet/sums.h"
#include "core/base/mem.h"
#include "model/trace/func.h"

#define S       1000000000ull
#define MS      1000000ull
#define N_RANKS 4
#define COMM    0x1234abcdull

/* Two nodes, ranks 0 1 and 2 3, whose boot clocks and times of day differ from the head's. */
struct node {
	struct gs_fleet_sums *sums;
	struct gs_fleet_source source;
	int64_t boot_ns, wall_minus_boot_ns; /* at second 0 of the test */
};

struct job {
	struct node nodes[2];
	struct gs_fleet *fleet;
	int64_t begin_ns;             /* of the head's clock, at second 0 */
	struct gs_fleet_finding last; /* newest that was handed out */
	unsigned n_found;             /* so often */
};

static struct node *node_of(struct job *job, int rank)
{
	return &job->nodes[rank / (N_RANKS / 2)];
}

static uint32_t function_of(const char *name)
{
	return gs_func_by_name(name)->id;
}

static void add_rank(struct job *job, int rank)
{
	gs_fleet_sums_set_member(node_of(job, rank)->sums, (uint32_t)rank + 1,
				 100u + (uint32_t)rank, COMM, rank, N_RANKS, "4711");
}

static void begin_job(struct job *job, uint64_t error_ns)
{
	*job = (struct job){.begin_ns = 1700000000ll * (int64_t)S, .fleet = gs_fleet_new()};
	for (int i = 0; i < 2; i++) {
		/* Node 1 booted later, and its clock is 5 s slow, which the head has estimated. */
		int64_t offset_ns = i ? 5 * (int64_t)S : 0;
		struct node *n = &job->nodes[i];

		n->sums = gs_fleet_sums_new();
		n->source = (struct gs_fleet_source){.node = i + 1,
						     .name = i ? "b" : "a",
						     .offset_ns = offset_ns,
						     .error_ns = error_ns};
		n->boot_ns = (i ? 70 : 900000) * (int64_t)S;
		n->wall_minus_boot_ns = job->begin_ns - offset_ns - n->boot_ns;
	}
	for (int rank = 0; rank < N_RANKS; rank++)
		add_rank(job, rank);
}

static void end_job(struct job *job)
{
	gs_fleet_free(&job->fleet);
	for (int i = 0; i < 2; i++)
		gs_fleet_sums_free(&job->nodes[i].sums);
}

static void call(struct job *job, int rank, uint64_t at_ns, uint64_t dur_ns, bool is_inside)
{
	struct node *n = node_of(job, rank);

	gs_fleet_sums_take_call(n->sums, (uint32_t)rank + 1, function_of("ncclAllReduce"),
				(uint64_t)n->boot_ns + at_ns, dur_ns, is_inside);
}

static void send_node(struct job *job, int node, uint64_t now_ns, bool is_last)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(1 << 20);
	struct node *n = &job->nodes[node];
	struct gs_batch batch;

	gs_fleet_sums_put(n->sums, (uint64_t)n->boot_ns + now_ns, n->wall_minus_boot_ns, is_last,
			  &out);
	batch = (struct gs_batch){out.data, out.bytes};
	gs_records_for_each (&batch, r)
		assert_int_equal(gs_fleet_take(job->fleet, &n->source, (const void *)r,
					       job->begin_ns + (int64_t)now_ns),
				 0);
}

static void tick(struct job *job, uint64_t now_ns)
{
	const struct gs_fleet_finding *f;

	gs_fleet_tick(job->fleet, job->begin_ns + (int64_t)now_ns);
	while ((f = gs_fleet_next(job->fleet))) {
		job->last = *f;
		job->n_found++;
	}
}

/* Seconds from to to - 1 with `per` collectives each; `late` arrives so much later than the others, who wait for it. */
static void run_seconds(struct job *job, unsigned from, unsigned to, unsigned per, int late,
			uint64_t late_ns)
{
	for (unsigned second = from; second < to; second++) {
		for (unsigned i = 0; i < per; i++)
			for (int rank = 0; rank < N_RANKS; rank++) {
				uint64_t at = second * S + i * (S / per) + 1;

				call(job, rank, rank == late ? at + late_ns : at,
				     rank == late ? 1000 : late_ns + 1000, false);
			}
		for (int node = 0; node < 2; node++)
			send_node(job, node, (second + 1) * S + (uint64_t)node * 300 * MS, false);
		tick(job, (second + 1) * S + 400 * MS);
	}
}

static void test_late_rank(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, 2 * MS);
	run_seconds(&job, 0, 10, 1, -1, 0);
	assert_int_equal(job.n_found, 0);
	run_seconds(&job, 10, 16, 1, 3, 100 * MS);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_LATE);
	assert_int_equal(job.last.about[0].rank, 3);
	assert_string_equal(job.last.about[0].node, "b");
	assert_int_equal(job.last.about[0].pid, 103);
	assert_string_equal(job.last.job, "4711");
	assert_int_equal(job.last.n_seen, N_RANKS);
	assert_true(fabs(job.last.late_ns - 100e6) < 1e6);
	assert_true(fabs(job.last.ratio - 0.1) < 0.01);
	assert_true(fabs(job.last.error_ns - 4e6) < 1);
	assert_true(fabs(job.last.others_inside_ratio - 0.1) < 0.01);
	assert_true(job.last.inside_ratio < 0.01);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"rank 3 of 4 (b, pid 103) arrives last at collectives: 100 ms (+/- 4 ms) after the median rank, 10 % of the time between two of them; 4 of 4 comparisons");
	/* It is over when others are as late. */
	run_seconds(&job, 16, 22, 1, -1, 0);
	assert_int_equal(job.n_found, 2);
	assert_int_equal(job.last.number, 1);
	assert_true(job.last.end_ns > job.last.begin_ns);
	end_job(&job);
}

/* Any number of collectives a second, which need not be the same in all records, have marks in common. */
static void test_marks_meet(void **state)
{
	static const unsigned per[] = {2, 3, 7, 50, 333, 1000};

	for (size_t i = 0; i < GS_ARRAY_LEN(per); i++) {
		uint64_t late_ns = S / per[i] / 10;
		struct job job;

		begin_job(&job, 0);
		run_seconds(&job, 0, 20, per[i], 1, late_ns);
		assert_int_equal(job.n_found, 1);
		assert_int_equal(job.last.about[0].rank, 1);
		assert_true(fabs(job.last.ratio - 0.1) < 0.005);
		end_job(&job);
	}
}

/* What clocks may explain is not found, and neither is little or what changes hands. */
static void test_not_late(void **state)
{
	struct job job;

	begin_job(&job, 60 * MS);
	run_seconds(&job, 0, 20, 1, 3, 100 * MS);
	assert_int_equal(job.n_found, 0);
	end_job(&job);
	begin_job(&job, MS);
	run_seconds(&job, 0, 20, 1, 3, 20 * MS);
	assert_int_equal(job.n_found, 0);
	for (unsigned second = 20; second < 60; second++)
		run_seconds(&job, second, second + 1, 1, (int)second % N_RANKS, 200 * MS);
	assert_int_equal(job.n_found, 0);
	end_job(&job);
}

/* A record that is lost on the way costs nothing: sums go on. */
static void test_lost_records(void **state)
{
	struct job job;

	begin_job(&job, MS);
	for (unsigned second = 0; second < 24; second++) {
		for (int rank = 0; rank < N_RANKS; rank++)
			call(&job, rank, second * S + (rank == 2 ? 150 * MS : 0) + 1, 1000, false);
		for (int node = 0; node < 2; node++)
			if (second % 4 != 1 || node)
				send_node(&job, node, (second + 1) * S, false);
		tick(&job, (second + 1) * S + MS);
	}
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.about[0].rank, 2);
	assert_true(fabs(job.last.late_ns - 150e6) < 1e6);
	end_job(&job);
}

static void quiet_seconds(struct job *job, unsigned from, unsigned to, unsigned nodes)
{
	for (unsigned second = from; second < to; second++) {
		for (int node = 0; node < 2; node++)
			if (nodes >> node & 1)
				send_node(job, node, (second + 1) * S, false);
		tick(job, (second + 1) * S + MS);
	}
}

static void test_hang(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, MS);
	run_seconds(&job, 0, 5, 1, -1, 0);
	for (int rank = 0; rank < N_RANKS; rank++)
		if (rank != 2)
			call(&job, rank, 5 * S + 1, 0, true);
	/* The same call once more changes nothing. */
	call(&job, 0, 5 * S + 1, 0, true);
	quiet_seconds(&job, 5, 9, 3);
	assert_int_equal(job.n_found, 0);
	quiet_seconds(&job, 9, 11, 3);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_HANG);
	assert_int_equal(job.last.n_about, 1);
	assert_int_equal(job.last.about[0].rank, 2);
	assert_int_equal(job.last.about[0].state, GS_FLEET_MISSING);
	assert_int_equal(job.last.n_waiting, 3);
	assert_int_equal(job.last.call, 6);
	assert_string_equal(job.last.about[0].node, "b");
	assert_true(job.last.begin_ns == job.begin_ns + 5 * (int64_t)S + 1);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"3 of 4 ranks wait in collective 6, ncclAllReduce for rank 2 (b, pid 102), which has not called it; its last: ncclAllReduce");
	/* Its process ends: the same finding says so. */
	gs_fleet_sums_end_process(job.nodes[1].sums, 102);
	quiet_seconds(&job, 11, 13, 3);
	assert_int_equal(job.n_found, 2);
	assert_int_equal(job.last.number, 1);
	assert_int_equal(job.last.about[0].state, GS_FLEET_ENDED);
	assert_int_equal(job.last.end_ns, 0);
	/* All end. */
	for (uint32_t pid = 100; pid < 104; pid++)
		gs_fleet_sums_end_process(job.nodes[pid / 102].sums, pid);
	quiet_seconds(&job, 13, 15, 3);
	assert_int_equal(job.n_found, 3);
	assert_true(job.last.end_ns > 0);
	end_job(&job);
}

/* A hang that passes; ranks that are idle; a node of which nothing comes. */
static void test_hang_ends(void **state)
{
	struct gs_fleet_counts counts;
	struct job job;

	begin_job(&job, MS);
	run_seconds(&job, 0, 5, 1, -1, 0);
	quiet_seconds(&job, 5, 60, 3);
	assert_int_equal(job.n_found, 0);
	for (int rank = 0; rank < 3; rank++)
		call(&job, rank, 60 * S + 1, 0, true);
	quiet_seconds(&job, 60, 67, 3);
	assert_int_equal(job.n_found, 1);
	call(&job, 3, 67 * S + 1, 1000, false);
	quiet_seconds(&job, 67, 69, 3);
	assert_int_equal(job.n_found, 2);
	assert_true(job.last.end_ns > 0);
	for (int rank = 0; rank < 2; rank++)
		call(&job, rank, 69 * S + 1, 0, true);
	quiet_seconds(&job, 69, 90, 1);
	assert_int_equal(job.last.about[0].state, GS_FLEET_SILENT);
	assert_int_equal(job.last.n_about, 2);
	gs_fleet_counts(job.fleet, &counts);
	assert_int_equal(counts.n_ranks, 4);
	assert_int_equal(counts.n_holding, 1);
	/* Tracing ends there: nothing is known, and nothing is said. */
	send_node(&job, 0, 91 * S, true);
	send_node(&job, 1, 91 * S, true);
	tick(&job, 91 * S + MS);
	assert_true(job.last.end_ns > 0);
	gs_fleet_counts(job.fleet, &counts);
	assert_int_equal(counts.n_ranks, 0);
	assert_int_equal(counts.n_comms, 0);
	end_job(&job);
}

static void test_lost_calls(void **state)
{
	struct job job;

	begin_job(&job, MS);
	gs_fleet_sums_lose_calls(job.nodes[0].sums, 101);
	run_seconds(&job, 0, 20, 1, 3, 300 * MS);
	assert_int_equal(job.n_found, 0);
	end_job(&job);
}

/* Bytes of others: refused, and bounded. */
static void test_foreign(void **state)
{
	const struct gs_fleet_source source = {.node = 1, .name = "a"},
				     other = {.node = 2, .name = "b"};
	const struct gs_rec_rank good = {.id_hash = 1, .n_ranks = 4, .time_ns = S};
	struct gs_fleet *fleet = gs_fleet_new();
	struct gs_fleet_counts counts;
	struct gs_rec_rank r;

	assert_int_equal(gs_fleet_take(fleet, &source, &good, (int64_t)S), 0);
	assert_int_equal(gs_fleet_take(fleet, &other, &good, (int64_t)S), -EEXIST);
#define REFUSED(member, value)                                                                     \
	r = good;                                                                                  \
	r.member = value;                                                                          \
	assert_int_equal(gs_fleet_take(fleet, &source, &r, (int64_t)S), -EINVAL)
	REFUSED(id_hash, 0);
	REFUSED(n_ranks, 1);
	REFUSED(n_ranks, INT32_MAX);
	REFUSED(rank, -1);
	REFUSED(rank, 4);
	REFUSED(time_ns, UINT64_MAX);
	REFUSED(wall_minus_boot_ns, INT64_MIN);
	REFUSED(last_ns, 2 * S);
	REFUSED(mark_ns, 2 * S);
	REFUSED(mark, 1);
	REFUSED(last_name[0], '\n');
	r = good;
	memset(r.job, 'x', sizeof(r.job));
	assert_int_equal(gs_fleet_take(fleet, &source, &r, (int64_t)S), -EINVAL);
	for (unsigned i = 0; i < 2 * GS_FLEET_MAX_COMMS; i++) {
		r = good;
		r.id_hash = 2 + i;
		gs_fleet_take(fleet, &source, &r, (int64_t)S);
	}
	r = good;
	r.n_ranks = 1 << 20;
	r.id_hash = 2;
	for (int i = 0; i < 2 * GS_FLEET_MAX_RANKS; i++) {
		r.rank = i;
		gs_fleet_take(fleet, &source, &r, (int64_t)S);
	}
	gs_fleet_counts(fleet, &counts);
	assert_true(counts.n_ranks <= GS_FLEET_MAX_RANKS);
	assert_int_equal(counts.n_comms, GS_FLEET_MAX_COMMS);
	assert_true(counts.n_left_out > GS_FLEET_MAX_COMMS);
	/* Nothing more of them: they go. */
	gs_fleet_tick(fleet, (int64_t)(S + GS_FLEET_GONE_NS + S));
	gs_fleet_counts(fleet, &counts);
	assert_int_equal(counts.n_ranks, 0);
	assert_int_equal(counts.n_comms, 0);
	gs_fleet_free(&fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_rank),  cmocka_unit_test(test_marks_meet),
		cmocka_unit_test(test_not_late),   cmocka_unit_test(test_lost_records),
		cmocka_unit_test(test_hang),       cmocka_unit_test(test_hang_ends),
		cmocka_unit_test(test_lost_calls), cmocka_unit_test(test_foreign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
