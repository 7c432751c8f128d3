/*
 * What comparing ranks over nodes costs: a job of many ranks on nodes of eight, each second of which has one step of so many
 * collectives in which all meet, or so many steps with as many of them each. Printed are shares of a core: of a node for what its ranks add up to, and of the head for taking the
 * records of all nodes and comparing them, without the network and the store. Time is simulated; processor time is not.
 *
 *     fleet [RANKS [COLLECTIVES [SECONDS [STEPS]]]]     1000, 50, 120, and steps a second: 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analysis/fleet/fleet.h"
#include "analysis/fleet/sums.h"
#include "core/base/mem.h"
#include "model/trace/func.h"

#define S     1000000000ull
#define MS    1000000ull
#define PER   8 /* ranks of a node */
#define COMM  0x1234abcdull
#define BEGIN 1700000000ll

struct node {
	struct gs_fleet_sums *sums;
	char name[16];
	uint64_t boot_ns; /* at second 0 */
};

struct bench {
	unsigned n_ranks, per_second, seconds, steps;
	struct node *nodes;
	unsigned n_nodes;
	struct gs_fleet *fleet;
	uint64_t node_ns, head_ns, n_records, n_bytes; /* processor time */
	unsigned n_found;
};

static uint64_t processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void make_nodes(struct bench *b)
{
	b->n_nodes = (b->n_ranks + PER - 1) / PER;
	b->nodes = calloc(b->n_nodes, sizeof(*b->nodes));
	b->fleet = gs_fleet_new();
	if (!b->nodes || !b->fleet)
		abort();
	for (unsigned i = 0; i < b->n_nodes; i++) {
		b->nodes[i].sums = gs_fleet_sums_new();
		b->nodes[i].boot_ns = (i * 977 + 13) * S;
		snprintf(b->nodes[i].name, sizeof(b->nodes[i].name), "node%u", i);
		for (unsigned r = i * PER; r < (i + 1) * PER && r < b->n_ranks; r++)
			gs_fleet_sums_set_member(b->nodes[i].sums, r % PER + 1, 100 + r, COMM,
						 (int32_t)r, (int32_t)b->n_ranks, "4711");
	}
}

/* From half of the time on one rank is 10 % late at each, and all others wait. */
static void run_node(const struct bench *b, unsigned node, unsigned second, uint32_t function)
{
	uint64_t late_ns = second >= b->seconds / 2 ? S / b->per_second / 10 : 0;
	struct node *n = &b->nodes[node];

	for (unsigned i = 0; i < b->per_second; i++)
		for (unsigned r = node * PER; r < (node + 1) * PER && r < b->n_ranks; r++) {
			uint64_t at =
				n->boot_ns + second * S + i * (S / b->per_second) + r % 97 * 1000;
			const struct gs_hang_call call = {.op = {.function = function,
								 .aux = 7 | 0xffffu << 16,
								 .count = 1024},
							  .start_ns = at + (r == 3 ? late_ns : 0)};

			gs_fleet_sums_take_call(n->sums, r % PER + 1, &call, 1000, false);
			gs_fleet_sums_take_stay(
				n->sums, r % PER + 1,
				gs_fleet_sums_number_of(n->sums, r % PER + 1, call.start_ns),
				call.start_ns, at + late_ns + MS / 4);
		}
}

/* The collectives of a second are spread over its steps alike. */
static void put_steps(const struct bench *b, unsigned node, unsigned second, uint64_t boot_ns,
		      struct gs_buf *out)
{
	struct node *n = &b->nodes[node];

	for (unsigned r = node * PER; r < (node + 1) * PER && r < b->n_ranks; r++) {
		struct gs_fleet_step step = {.slot = r % PER, .run = 1, .pid = 100 + r};
		const struct gs_fleet_step_figures figures = {.pid = 100 + r,
							      .slot = r % PER,
							      .run = 1,
							      .n_steps = (uint64_t)(second + 1) *
									 b->steps,
							      .median_ns = S / b->steps,
							      .p95_ns = S / b->steps};

		for (unsigned i = 0; i < b->steps; i++) {
			step.start_ns = n->boot_ns + second * S + i * (S / b->steps);
			step.dur_ns = S / b->steps;
			gs_fleet_sums_take_step(n->sums, &step);
		}
		gs_fleet_sums_put_steps(n->sums, &figures, boot_ns, out);
	}
}

static void count_steps(void *ctx, const struct gs_fleet_steps *steps)
{
	*(uint64_t *)ctx += steps->n_compared;
}

static void take_records(struct bench *b, unsigned node, const struct gs_buf *out, int64_t now_ns)
{
	const struct gs_fleet_source source = {
		.node = node + 1, .name = b->nodes[node].name, .error_ns = 50 * MS};
	const struct gs_batch batch = {out->data, out->bytes};

	b->n_bytes += out->bytes;
	gs_records_for_each (&batch, r) {
		int ret = r->kind == GS_REC_RANK
				  ? gs_fleet_take(b->fleet, &source, (const void *)r, now_ns)
			  : r->kind == GS_REC_RANK_STEPS
				  ? gs_fleet_take_steps(b->fleet, &source, (const void *)r)
				  : gs_fleet_take_stay(b->fleet, &source, (const void *)r);

		if (ret < 0) {
			fprintf(stderr, "a record was refused: %d\n", ret);
			exit(1);
		}
		b->n_records++;
	}
}

static void run_second(struct bench *b, unsigned second, uint32_t function)
{
	int64_t now_ns = (BEGIN + second + 1) * (int64_t)S;
	uint64_t begin;

	for (unsigned i = 0; i < b->n_nodes; i++) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(16 << 20);
		uint64_t boot_ns = b->nodes[i].boot_ns + (second + 1) * S;

		begin = processor_ns();
		run_node(b, i, second, function);
		gs_fleet_sums_put(b->nodes[i].sums, boot_ns, now_ns - (int64_t)boot_ns, false,
				  &out);
		if (b->steps)
			put_steps(b, i, second, boot_ns, &out);
		b->node_ns += processor_ns() - begin;
		begin = processor_ns();
		take_records(b, i, &out, now_ns);
		b->head_ns += processor_ns() - begin;
	}
	begin = processor_ns();
	gs_fleet_tick(b->fleet, now_ns);
	for (const struct gs_fleet_finding *f; (f = gs_fleet_next(b->fleet));)
		b->n_found = f->number > b->n_found ? (unsigned)f->number : b->n_found;
	b->head_ns += processor_ns() - begin;
}

static unsigned number_of(int argc, char **argv, int i, unsigned usual)
{
	return argc > i ? (unsigned)strtoul(argv[i], NULL, 10) : usual;
}

int main(int argc, char **argv)
{
	struct bench b = {.n_ranks = number_of(argc, argv, 1, 1000),
			  .per_second = number_of(argc, argv, 2, 50),
			  .seconds = number_of(argc, argv, 3, 120),
			  .steps = number_of(argc, argv, 4, 1)};
	uint32_t function = gs_func_by_name("ncclAllReduce")->id;
	struct gs_fleet_counts counts;
	uint64_t n_compared = 0;
	double head, node;

	if (b.n_ranks < 4 || !b.per_second || !b.seconds) {
		fputs("usage: fleet [RANKS [COLLECTIVES [SECONDS [STEPS]]]]\n", stderr);
		return 2;
	}
	make_nodes(&b);
	for (unsigned second = 0; second < b.seconds; second++)
		run_second(&b, second, function);
	gs_fleet_counts(b.fleet, &counts);
	if (gs_fleet_each_steps(b.fleet, "", 1, count_steps, &n_compared) < 0)
		abort();
	head = (double)b.head_ns / 1e9 / b.seconds;
	node = (double)b.node_ns / 1e9 / b.seconds / b.n_nodes;
	printf("%u ranks on %u nodes, %u collectives and %u steps a second, %u s: %u findings, clocks of %u pairs, %llu steps compared\n",
	       b.n_ranks, b.n_nodes, b.per_second, b.steps, b.seconds, b.n_found, counts.n_clocks,
	       (unsigned long long)n_compared);
	printf("head: %.3f %% of a core (1 core: %.0f x as many), %.0f records and %.0f kB a second\n",
	       100 * head, 1 / head, (double)b.n_records / b.seconds,
	       (double)b.n_bytes / b.seconds / 1000);
	printf("node: %.4f %% of a core (0.5 %%: %.0f x as much)\n", 100 * node, 0.005 / node);
	for (unsigned i = 0; i < b.n_nodes; i++)
		gs_fleet_sums_free(&b.nodes[i].sums);
	gs_fleet_free(&b.fleet);
	free(b.nodes);
	return 0;
}
