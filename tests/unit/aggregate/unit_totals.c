/*
 * A random stream (fixed seed) against totals added up the long way, and the same calls once as
 * CALL and once as STATS records: the two summaries must be equal to the last field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/trace/hist.h"
#include "model/trace/record_stack.h"
#include "unit/aggregate/records.h"
#include "pipeline/aggregate/aggregate.h"

#define N_PROCESSES 3
#define N_THREADS   7 /* thread t is of process 1 + t % N_PROCESSES; ids from 1 */
#define N_FUNCTIONS 9
#define N_CALLS     20000

#define VIEW    GS_CLEANUP(gs_aggregate_free) struct gs_aggregate
#define SUMMARY GS_CLEANUP(gs_summary_free) struct gs_summary

struct call {
	uint32_t thread, function;
	uint64_t dur_ns, bytes;
	int32_t ret;
};

static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static uint32_t process_of(uint32_t thread)
{
	return 1 + thread % N_PROCESSES;
}

static void make_calls(struct call calls[N_CALLS])
{
	seed = 20240607;
	for (unsigned i = 0; i < N_CALLS; i++)
		calls[i] = (struct call){
			.thread = 1 + dice(N_THREADS),
			.function = 1 + dice(N_FUNCTIONS),
			.dur_ns = (uint64_t)dice(1u << 30) >> dice(30),
			.bytes = dice(1 << 20),
			.ret = dice(10) ? 0 : 1 + (int32_t)dice(3),
		};
}

static void put_entities(struct stream *s)
{
	char name[32];

	for (uint32_t p = 1; p <= N_PROCESSES; p++)
		put_process(s, p, 1000 + p, "p");
	for (uint32_t t = 1; t <= N_THREADS; t++)
		put_thread(s, t, process_of(t), 2000 + t, "t");
	for (uint32_t f = 1; f <= N_FUNCTIONS; f++) {
		snprintf(name, sizeof(name), "function%u", f);
		put_function(s, f, 1 + f % 3, GS_CLASS_OTHER, name);
	}
}

static struct gs_summary *summary_of_calls(const struct call *calls)
{
	struct gs_summary *sum = NULL;
	STREAM s = STREAM_INIT;
	VIEW *v = NULL;

	assert_int_equal(gs_aggregate_new(&v), 0);
	put_entities(&s);
	for (unsigned i = 0; i < N_CALLS; i++) {
		struct gs_rec_call *c =
			put_call(&s, calls[i].thread, calls[i].function, 0, calls[i].dur_ns);

		c->bytes = calls[i].bytes;
		c->ret = calls[i].ret;
		c->failed = calls[i].ret != 0;
		if (i % 997 == 0)
			assert_int_equal(stream_push(&s, gs_aggregate_sink(v)), 0);
	}
	assert_int_equal(stream_push(&s, gs_aggregate_sink(v)), 0);
	assert_int_equal(gs_aggregate_calls(v, 0), N_CALLS);
	assert_int_equal(gs_aggregate_make_summary(v, &sum), 0);
	return sum;
}

/* What the calls [from, to) of one thread and function come to. */
static void put_stats(struct stream *s, const struct call *calls, unsigned from, unsigned to,
		      uint32_t thread, uint32_t function)
{
	static uint32_t hist[GS_HIST_N_BUCKETS];
	static uint64_t max_ns[N_THREADS + 1][N_FUNCTIONS + 1]; /* so far */
	uint64_t n = 0, errors = 0, total = 0, bytes = 0;
	uint32_t n_buckets = 0, err[4] = {0};
	struct gs_rec_stats *t;

	if (from == 0)
		max_ns[thread][function] = 0;
	memset(hist, 0, sizeof(hist));
	for (unsigned i = from; i < to; i++) {
		const struct call *c = &calls[i];

		if (c->thread != thread || c->function != function)
			continue;
		n++;
		total += c->dur_ns;
		hist[gs_hist_bucket(c->dur_ns)]++;
		if (c->dur_ns > max_ns[thread][function])
			max_ns[thread][function] = c->dur_ns;
		if (c->ret) {
			errors++;
			err[c->ret]++;
		} else {
			bytes += c->bytes;
		}
	}
	if (!n)
		return;
	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		n_buckets += hist[i] != 0;
	t = put_record(s, GS_REC_STATS, sizeof(*t), n_buckets * sizeof(t->buckets[0]));
	t->thread = thread;
	t->function = function;
	t->calls = n;
	t->errors = errors;
	t->total_ns = total;
	t->max_ns = max_ns[thread][function];
	t->bytes = bytes;
	for (int32_t code = 1; code < 4; code++) {
		t->err_code[code] = err[code] ? code : 0;
		t->err_count[code] = err[code];
	}
	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		if (hist[i])
			t->buckets[t->n_buckets++] = (struct gs_rec_bucket){i, hist[i]};
}

static struct gs_summary *summary_of_stats(const struct call *calls)
{
	struct gs_summary *sum = NULL;
	STREAM s = STREAM_INIT;
	VIEW *v = NULL;

	assert_int_equal(gs_aggregate_new(&v), 0);
	put_entities(&s);
	for (unsigned from = 0, to; from < N_CALLS; from = to) {
		to = from + 6000 < N_CALLS ? from + 6000 : N_CALLS;
		for (uint32_t t = 1; t <= N_THREADS; t++)
			for (uint32_t f = 1; f <= N_FUNCTIONS; f++)
				put_stats(&s, calls, from, to, t, f);
		assert_int_equal(stream_push(&s, gs_aggregate_sink(v)), 0);
	}
	assert_int_equal(gs_aggregate_calls(v, 0), N_CALLS);
	assert_int_equal(gs_aggregate_make_summary(v, &sum), 0);
	return sum;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The list against all calls that match (0: any process, any thread). */
static void check_list(const struct gs_function_list *l, const struct call *calls, uint32_t process,
		       uint32_t thread)
{
	static uint64_t durations[N_CALLS];
	uint64_t seen = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct gs_function_stats *got = &l->items[i];
		uint64_t total = 0, bytes = 0, errors = 0, exact;
		uint32_t function;
		size_t n = 0;

		assert_int_equal(sscanf(got->name, "function%u", &function), 1);
		assert_int_equal(got->layer, 1 + function % 3);
		for (unsigned j = 0; j < N_CALLS; j++) {
			const struct call *c = &calls[j];

			if (c->function != function || (thread && c->thread != thread) ||
			    (process && process_of(c->thread) != process))
				continue;
			durations[n++] = c->dur_ns;
			total += c->dur_ns;
			errors += c->ret != 0;
			bytes += c->ret ? 0 : c->bytes;
		}
		qsort(durations, n, sizeof(durations[0]), compare_u64);
		assert_int_equal(got->calls, n);
		assert_int_equal(got->errors, errors);
		assert_int_equal(got->total_ns, total);
		assert_int_equal(got->bytes, bytes);
		assert_int_equal(got->max_ns, durations[n - 1]);
		assert_int_equal(got->mean_ns, total / n);
		exact = durations[(n + 1) / 2 - 1];
		assert_in_range(got->p50_ns,
				(uint64_t)((double)exact * (1 - GS_HIST_ERROR_PCT / 100)),
				(uint64_t)((double)exact * (1 + GS_HIST_ERROR_PCT / 100)) + 1);
		if (i) {
			const struct gs_function_stats *before = &l->items[i - 1];

			assert_true(
				before->layer < got->layer ||
				(before->layer == got->layer && before->total_ns >= got->total_ns));
		}
		seen += n;
	}
	for (unsigned j = 0; j < N_CALLS; j++)
		if ((!thread || calls[j].thread == thread) &&
		    (!process || process_of(calls[j].thread) == process))
			seen--;
	assert_int_equal(seen, 0);
}

static void totals_are_exact(void **state)
{
	static struct call calls[N_CALLS];

	make_calls(calls);

	SUMMARY *sum = summary_of_calls(calls);

	assert_int_equal(sum->functions.n, N_FUNCTIONS);
	check_list(&sum->functions, calls, 0, 0);
	assert_int_equal(sum->n_processes, N_PROCESSES);
	for (size_t i = 0; i < sum->n_processes; i++) {
		const struct gs_process_summary *p = &sum->processes[i];

		check_list(&p->functions, calls, p->pid - 1000, 0);
		for (size_t j = 0; j < p->n_threads; j++)
			check_list(&p->threads[j].functions, calls, p->pid - 1000,
				   p->threads[j].tid - 2000);
	}
	for (size_t i = 0; i < sum->n_errors; i++) {
		const struct gs_error_count *e = &sum->errors[i];
		uint32_t function;
		uint64_t n = 0;

		assert_int_equal(sscanf(e->function, "function%u", &function), 1);
		for (unsigned j = 0; j < N_CALLS; j++)
			n += calls[j].function == function && calls[j].ret == e->code;
		assert_int_equal(e->count, n);
		assert_true(i == 0 || sum->errors[i - 1].count >= e->count);
	}
	assert_int_equal(sum->n_errors, N_FUNCTIONS * 3);
}

static void same_list(const struct gs_function_list *a, const struct gs_function_list *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		struct gs_function_stats x = a->items[i], y = b->items[i];

		assert_string_equal(x.name, y.name);
		x.name = y.name = NULL;
		assert_memory_equal(&x, &y, sizeof(x));
	}
}

static void calls_and_stats_agree(void **state)
{
	static struct call calls[N_CALLS];

	make_calls(calls);

	SUMMARY *a = summary_of_calls(calls);
	SUMMARY *b = summary_of_stats(calls);

	same_list(&a->functions, &b->functions);
	assert_int_equal(a->n_processes, b->n_processes);
	for (size_t i = 0; i < a->n_processes; i++) {
		assert_int_equal(a->processes[i].pid, b->processes[i].pid);
		same_list(&a->processes[i].functions, &b->processes[i].functions);
		assert_int_equal(a->processes[i].n_threads, b->processes[i].n_threads);
		for (size_t j = 0; j < a->processes[i].n_threads; j++) {
			assert_int_equal(a->processes[i].threads[j].tid,
					 b->processes[i].threads[j].tid);
			same_list(&a->processes[i].threads[j].functions,
				  &b->processes[i].threads[j].functions);
		}
	}
	assert_int_equal(a->n_errors, b->n_errors);
	for (size_t i = 0; i < a->n_errors; i++) {
		assert_string_equal(a->errors[i].function, b->errors[i].function);
		assert_int_equal(a->errors[i].code, b->errors[i].code);
		assert_int_equal(a->errors[i].count, b->errors[i].count);
	}
}

/* Calls under operators, once with their scope in each and once as USE: the same table. */
static void by_operator_agrees(void **state)
{
	static const struct {
		unsigned layer, func_class;
		bool counts_bytes;
	} kinds[] = {{GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, true},
		     {GS_LAYER_CUDA_DRIVER, GS_CLASS_GRAPH_LAUNCH, true},
		     {GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, true},
		     {GS_LAYER_CUDA_DRIVER, GS_CLASS_MEMSET, true},
		     {GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, true},
		     {GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, true},
		     {GS_LAYER_NCCL, GS_CLASS_P2P, true},
		     {GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE, false},
		     {GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, true}};
	STREAM s = STREAM_INIT;
	struct gs_rec_use *u;

	for (int as_use = 0; as_use < 2; as_use++) {
		VIEW *v = NULL;
		SUMMARY *sum = NULL;
		uint64_t ns = 0, bytes = 0;

		assert_int_equal(gs_aggregate_new(&v), 0);
		put_process(&s, 1, 1001, "p");
		put_thread(&s, 1, 1, 1001, "t");
		put_function(&s, 700, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::mm");
		put_function(&s, 701, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::linear");
		for (uint32_t k = 0; k < GS_ARRAY_LEN(kinds); k++)
			put_function(&s, 1 + k, kinds[k].layer, kinds[k].func_class, "f");
		for (uint32_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
			for (uint32_t n = 0; n < k + 2; n++) {
				struct gs_rec_call *c;

				ns += 100 + n;
				bytes += kinds[k].counts_bytes && n ? 10 + k : 0;
				if (as_use)
					continue;
				c = put_call(&s, 1, 1 + k, 1000, 100 + n);
				c->scope = 700;
				c->bytes = 10 + k;
				c->failed = n == 0;
				c->ret = n == 0;
			}
		}
		/* An operator inside another is none of its calls. */
		if (!as_use)
			put_call(&s, 1, 700, 1000, 5)->scope = 701;
		for (int half = 0; half < 2 && as_use; half++) {
			u = put_record(&s, GS_REC_USE, sizeof(*u), 0);
			u->thread = 1;
			u->function = 700;
			u->launches = half ? 2 : 3;
			u->copies = half ? 4 : 5;
			u->allocs = half ? 6 : 0;
			u->collectives = half ? 8 : 7;
			u->others = half ? 10 : 9;
			u->total_ns = half ? ns - 7 : 7;
			u->bytes = half ? bytes : 0;
		}
		assert_int_equal(stream_push(&s, gs_aggregate_sink(v)), 0);
		assert_int_equal(gs_aggregate_make_summary(v, &sum), 0);
		assert_int_equal(sum->n_uses, 1);
		assert_string_equal(sum->uses[0].name, "aten::mm");
		assert_int_equal(sum->uses[0].layer, GS_LAYER_TORCH);
		assert_int_equal(sum->uses[0].launches, 5);
		assert_int_equal(sum->uses[0].copies, 9);
		assert_int_equal(sum->uses[0].allocs, 6);
		assert_int_equal(sum->uses[0].collectives, 15);
		assert_int_equal(sum->uses[0].others, 19);
		assert_int_equal(sum->uses[0].total_ns, ns);
		assert_int_equal(sum->uses[0].bytes, bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_are_exact),
		cmocka_unit_test(by_operator_agrees),
		cmocka_unit_test(calls_and_stats_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
