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

#include "../detect/random.h"
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

static struct gs_hang_op op_of(const char *function, uint64_t count)
{
	const uint32_t float32 = 7, no_root = 0xffff;

	return (struct gs_hang_op){function_of(function), float32 | no_root << 16, count};
}

static void call_op(struct job *job, int rank, struct gs_hang_op op, uint64_t at_ns,
		    uint64_t dur_ns, bool is_inside)
{
	struct node *n = node_of(job, rank);
	struct gs_hang_call call = {.op = op, .start_ns = (uint64_t)n->boot_ns + at_ns};

	gs_fleet_sums_take_call(n->sums, (uint32_t)rank + 1, &call, dur_ns, is_inside);
}

static void call(struct job *job, int rank, uint64_t at_ns, uint64_t dur_ns, bool is_inside)
{
	call_op(job, rank, op_of("ncclAllReduce", 1024), at_ns, dur_ns, is_inside);
}

/* The rank's newest call, made at that time, is known to be over at the other. */
static void stay(struct job *job, int rank, uint64_t entered_ns, uint64_t left_ns)
{
	struct node *n = node_of(job, rank);
	uint64_t boot_ns = (uint64_t)n->boot_ns;
	uint64_t number =
		gs_fleet_sums_number_of(n->sums, (uint32_t)rank + 1, boot_ns + entered_ns);

	assert_true(number > 0);
	gs_fleet_sums_take_stay(n->sums, (uint32_t)rank + 1, number, boot_ns + entered_ns,
				boot_ns + left_ns);
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
		if (r->kind == GS_REC_RANK_STAY)
			assert_int_equal(
				gs_fleet_take_stay(job->fleet, &n->source, (const void *)r), 0);
		else
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

/* Likewise with one collective of `n` ranks a period, in which all wait for the last; each knows of its end left_ns later. */
static void run_met(struct job *job, unsigned from, unsigned to, uint64_t period_ns, int late,
		    uint64_t late_ns, uint64_t left_ns)
{
	for (unsigned second = from; second < to; second++) {
		for (uint64_t at = second * S + 1; at < (second + 1) * S; at += period_ns)
			for (int rank = 0; rank < N_RANKS; rank++) {
				uint64_t entered = rank == late ? at + late_ns : at;

				call(job, rank, entered, 1000, false);
				stay(job, rank, entered, at + late_ns + left_ns);
			}
		for (int node = 0; node < 2; node++)
			send_node(job, node, (second + 1) * S + (uint64_t)node * 300 * MS, false);
		tick(job, (second + 1) * S + 400 * MS);
	}
}

/* The head knows clocks to 60 ms each, or not at all; collectives in which ranks meet tell more. */
static void test_clocks_of_collectives(void **state)
{
	static const uint64_t errors_ns[] = {60 * MS, 3600 * S};
	struct gs_fleet_counts counts;
	struct job job;

	for (size_t i = 0; i < GS_ARRAY_LEN(errors_ns); i++) {
		begin_job(&job, errors_ns[i]);
		/* It is wrong, too, by what it says that it may be. */
		job.nodes[1].source.offset_ns += 50 * (int64_t)MS;
		run_met(&job, 0, 10, 100 * MS, -1, 0, 2 * MS);
		gs_fleet_counts(job.fleet, &counts);
		assert_int_equal(counts.n_clocks, 1);
		assert_int_equal(job.n_found, 0);
		run_met(&job, 10, 20, 100 * MS, 3, 20 * MS, 2 * MS);
		assert_int_equal(job.n_found, 1);
		assert_int_equal(job.last.kind, GS_FLEET_LATE);
		assert_int_equal(job.last.about[0].rank, 3);
		assert_true(job.last.has_clocks && job.last.is_known);
		assert_true(job.last.error_ns > 0 && job.last.error_ns < 5e6);
		assert_true(fabs(job.last.late_ns - 20e6) < job.last.error_ns);
		end_job(&job);
		/* Without them nothing is known of it. */
		begin_job(&job, errors_ns[i]);
		run_seconds(&job, 0, 20, 10, 3, 20 * MS);
		assert_int_equal(job.n_found, 0);
		end_job(&job);
	}
}

/* Of many seeds: clocks off by anything, work of any length. Nobody is late who is not, and who is late enough is found. */
static void test_clocks_of_many(void **state)
{
	unsigned n_found = 0;

	for (unsigned seed = 1; seed <= 60; seed++) {
		uint64_t random = seed, left_ns;
		struct job job;

		begin_job(&job, 3600 * S);
		job.nodes[1].source.offset_ns += (int64_t)((draw_uniform(&random) - 0.5) * 100e9);
		left_ns = (uint64_t)(draw_uniform(&random) * 10e6) + 1;
		run_met(&job, 0, 10, 100 * MS, -1, 0, left_ns);
		assert_int_equal(job.n_found, 0);
		run_met(&job, 10, 18, 100 * MS, (int)(seed % N_RANKS), 30 * MS, left_ns);
		n_found += job.n_found;
		assert_true(!job.n_found || job.last.about[0].rank == (int)(seed % N_RANKS));
		assert_true(!job.n_found || fabs(job.last.late_ns - 30e6) <= job.last.error_ns);
		end_job(&job);
	}
	assert_int_equal(n_found, 60);
}

/* The head's estimate and collectives contradict each other: one is wrong, and no rank is called late. What is found of a
 * slowdown says that it is not known whether one is. */
static void test_clocks_not_known(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, MS);
	job.nodes[1].source.offset_ns += 50 * (int64_t)MS;
	run_met(&job, 0, 20, 100 * MS, -1, 0, 2 * MS);
	assert_int_equal(job.n_found, 0);
	end_job(&job);

	begin_job(&job, 60 * MS);
	run_seconds(&job, 0, 140, 10, -1, 0);
	run_seconds(&job, 140, 160, 8, 2, 30 * MS);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_SLOW);
	assert_false(job.last.is_known);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"the 4 ranks take 25 % longer from one collective to the next (100 ms -> 125 ms), whether one is late is not known: clocks of nodes may be 1.2e+02 ms apart");
	end_job(&job);

	/* A rank is late, and then clocks are known no longer: neither is it over, nor is it late for sure. */
	begin_job(&job, MS);
	run_seconds(&job, 0, 8, 1, 3, 100 * MS);
	assert_int_equal(job.n_found, 1);
	assert_true(job.last.is_known);
	job.nodes[1].source.error_ns = 3600 * S;
	run_seconds(&job, 8, 16, 1, 3, 100 * MS);
	assert_int_equal(job.n_found, 2);
	assert_int_equal(job.last.end_ns, 0);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"whether rank 3 of 4 (b, pid 103) still arrives last at collectives is not known: it is not known how far clocks of nodes are apart; it was 100 ms after the median rank in 7 of 8 comparisons");
	job.nodes[1].source.error_ns = MS;
	run_seconds(&job, 16, 24, 1, 3, 100 * MS);
	assert_true(job.last.is_known);
	assert_int_equal(job.last.end_ns, 0);
	run_seconds(&job, 24, 32, 1, -1, 0);
	assert_true(job.last.end_ns > 0);
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

/* At second 5 rank 2 does something else than a gather; then all go on for some seconds, and are quiet. */
static void run_mismatch(struct job *job, const struct gs_hang_op *odd)
{
	begin_job(job, MS);
	run_seconds(job, 0, 5, 2, -1, 0);
	for (int rank = 0; rank < N_RANKS; rank++)
		if (rank != 2)
			call_op(job, rank, op_of("ncclAllGather", 512), 5 * S + 1, 1000, false);
		else if (odd)
			call_op(job, rank, *odd, 5 * S + 1, 1000, false);
	run_seconds(job, 6, 20, 2, -1, 0);
	assert_int_equal(job->n_found, 1);
	assert_int_equal(job->last.kind, GS_FLEET_DIFFERS);
	assert_true(job->last.found_ns <= job->begin_ns + 10 * (int64_t)S);
	assert_int_equal(job->last.n_about, 1);
	assert_int_equal(job->last.about[0].rank, 2);
	assert_int_equal(job->last.call, 11);
	quiet_seconds(job, 20, 40, 3);
	assert_int_equal(job->n_found, 1); /* a rank that is a call behind is no hang as well */
}

static void test_mismatch(void **state)
{
	const struct {
		struct gs_hang_op odd;
		enum gs_fleet_state state;
		const char *said;
	} cases[] = {
		{{0}, GS_FLEET_SKIPPED, "skipped collective 11, ncclAllGather of 512 float32"},
		{op_of("ncclAllGather", 256), GS_FLEET_ODD,
		 "called ncclAllGather of 256 float32 as collective 11, the others ncclAllGather of 512 float32"},
		{op_of("ncclReduceScatter", 512), GS_FLEET_ODD,
		 "called ncclReduceScatter of 512 float32 as collective 11, the others ncclAllGather of 512 float32"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		char text[GS_FLEET_TEXT_BYTES], want[GS_FLEET_TEXT_BYTES];
		struct job job;

		run_mismatch(&job, i ? &cases[i].odd : NULL);
		assert_int_equal(job.last.about[0].state, cases[i].state);
		snprintf(want, sizeof(want), "rank 2 of 4 (b, pid 102) %s", cases[i].said);
		assert_string_equal(gs_fleet_text(&job.last, text), want);
		/* The job runs again: it is over. */
		gs_fleet_sums_end_process(job.nodes[0].sums, 100);
		gs_fleet_sums_end_process(job.nodes[0].sums, 101);
		gs_fleet_sums_end_process(job.nodes[1].sums, 102);
		gs_fleet_sums_end_process(job.nodes[1].sums, 103);
		quiet_seconds(&job, 40, 42, 3);
		assert_true(job.last.end_ns > 0);
		end_job(&job);
	}
}

/* One call too many, and one that waits in what the others do not call. */
static void test_mismatch_hangs(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, MS);
	run_seconds(&job, 0, 5, 1, -1, 0);
	for (int rank = 0; rank < N_RANKS; rank++)
		call_op(&job, rank, op_of(rank == 1 ? "ncclReduce" : "ncclAllReduce", 8), 5 * S + 1,
			1000, true);
	quiet_seconds(&job, 5, 20, 3);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_DIFFERS);
	assert_int_equal(job.last.about[0].rank, 1);
	assert_int_equal(job.last.about[0].state, GS_FLEET_ODD);
	/* What it waits in the others call, too, and again nobody says that it hangs. */
	for (int rank = 0; rank < 3; rank++)
		call(&job, rank, 20 * S + 1, 1000, true);
	quiet_seconds(&job, 20, 40, 3);
	assert_int_equal(job.n_found, 1);
	end_job(&job);

	begin_job(&job, MS);
	run_seconds(&job, 0, 5, 1, -1, 0);
	call_op(&job, 3, op_of("ncclBroadcast", 1), 5 * S + 1, 1000, false);
	run_seconds(&job, 6, 12, 1, -1, 0);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.about[0].state, GS_FLEET_EXTRA);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"rank 3 of 4 (b, pid 103) called ncclBroadcast of 1 float32 once too often as collective 6, the others ncclAllReduce of 1024 float32");
	end_job(&job);
}

/* All ranks take longer, and are in time as before; one that is late is a finding of its own, and so is no pause. */
static void test_slowdown(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, MS);
	run_seconds(&job, 0, 100, 10, -1, 0);
	/* One checkpoint, and a validation that makes nothing slower. */
	run_seconds(&job, 103, 140, 10, -1, 0);
	assert_int_equal(job.n_found, 0);
	run_seconds(&job, 140, 160, 8, -1, 0);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_SLOW);
	assert_true(fabs(job.last.ratio - 0.25) < 0.02);
	assert_int_equal(job.last.n_about, 0);
	assert_string_equal(job.last.job, "4711");
	assert_true(job.last.begin_ns > job.begin_ns + 138 * (int64_t)S);
	assert_string_equal(
		gs_fleet_text(&job.last, text),
		"the 4 ranks take 25 % longer from one collective to the next (100 ms -> 125 ms), and none is late");
	run_seconds(&job, 160, 180, 10, -1, 0);
	assert_int_equal(job.n_found, 2);
	assert_true(job.last.end_ns > 0);
	run_seconds(&job, 180, 200, 8, 2, 60 * MS);
	assert_int_equal(job.last.kind, GS_FLEET_LATE);
	assert_int_equal(job.n_found, 3);
	end_job(&job);
}

/* More calls than are listed: it is known whose and between which. */
static void test_mismatch_sums(void **state)
{
	char text[GS_FLEET_TEXT_BYTES];
	struct job job;

	begin_job(&job, MS);
	run_seconds(&job, 0, 5, 300, -1, 0);
	for (int rank = 0; rank < N_RANKS; rank++)
		call_op(&job, rank, op_of("ncclAllGather", rank == 0 ? 4 : 8), 5 * S + 1, 10,
			false);
	run_seconds(&job, 6, 16, 300, -1, 0);
	assert_int_equal(job.n_found, 1);
	assert_int_equal(job.last.kind, GS_FLEET_DIFFERS);
	assert_int_equal(job.last.n_about, 1);
	assert_int_equal(job.last.about[0].rank, 0);
	assert_true(job.last.call <= 1501 && job.last.last_call >= 1501);
	assert_non_null(strstr(gs_fleet_text(&job.last, text),
			       "rank 0 of 4 (a, pid 100) made other calls than the others among "
			       "collectives "));
	end_job(&job);
}

/* The older form of a function is the same; numbers of operations that programs make differ. */
static void test_same_calls(void **state)
{
	struct gs_hang_op old = op_of("ncclBcast", 8), other = op_of("ncclBroadcast", 8);
	struct job job;

	begin_job(&job, MS);
	old.aux |= 7u << 8;
	other.aux |= 8u << 8;
	for (unsigned i = 0; i < 200; i++) {
		for (int rank = 0; rank < N_RANKS; rank++)
			call_op(&job, rank, rank % 2 ? old : other, i * 50 * MS + 1, 1000, false);
		if (i % 20 == 19) {
			send_node(&job, 0, (i / 20 + 1) * S, false);
			send_node(&job, 1, (i / 20 + 1) * S, false);
			tick(&job, (i / 20 + 1) * S + MS);
		}
	}
	assert_int_equal(job.n_found, 0);
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
	const struct gs_rec_rank good = {
		.head.bytes = sizeof(good), .id_hash = 1, .n_ranks = 4, .time_ns = S};
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
	REFUSED(n_listed, 1);
	REFUSED(last_name[0], '\n');
	r = good;
	memset(r.job, 'x', sizeof(r.job));
	assert_int_equal(gs_fleet_take(fleet, &source, &r, (int64_t)S), -EINVAL);
	{
		const struct gs_rec_rank_stay known = {
			.id_hash = 1, .n_ranks = 4, .number = 1, .entered_ns = S, .left_ns = S};
		struct gs_rec_rank_stay s = known;

		assert_int_equal(gs_fleet_take_stay(fleet, &source, &s), 0);
		assert_int_equal(gs_fleet_take_stay(fleet, &other, &s), -ENOENT);
		s.rank = 1;
		assert_int_equal(gs_fleet_take_stay(fleet, &source, &s), -ENOENT);
		s = known;
		s.number = 0;
		assert_int_equal(gs_fleet_take_stay(fleet, &source, &s), -EINVAL);
		s = known;
		s.entered_ns = 2 * S;
		assert_int_equal(gs_fleet_take_stay(fleet, &source, &s), -EINVAL);
		s.left_ns = UINT64_MAX;
		assert_int_equal(gs_fleet_take_stay(fleet, &source, &s), -EINVAL);
	}
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
		cmocka_unit_test(test_late_rank),      cmocka_unit_test(test_marks_meet),
		cmocka_unit_test(test_not_late),       cmocka_unit_test(test_lost_records),
		cmocka_unit_test(test_hang),           cmocka_unit_test(test_hang_ends),
		cmocka_unit_test(test_lost_calls),     cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_mismatch),       cmocka_unit_test(test_mismatch_hangs),
		cmocka_unit_test(test_mismatch_sums),  cmocka_unit_test(test_same_calls),
		cmocka_unit_test(test_slowdown),       cmocka_unit_test(test_clocks_of_collectives),
		cmocka_unit_test(test_clocks_of_many), cmocka_unit_test(test_clocks_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
