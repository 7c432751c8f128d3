/* The path of every traced call: no allocation once its threads and functions are known. Linked
 * with --wrap for the allocating functions. With an argument, tells what an event costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "ingest_test.h"

#define N_EVENTS 1000000

/* The linker asks for these names. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static uint64_t n_allocations;

void *__wrap_malloc(size_t bytes)
{
	n_allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	n_allocations++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	n_allocations++;
	return __real_realloc(p, bytes);
}

static bool tell;

static void send_many(struct fixture *x, unsigned n, unsigned n_threads)
{
	static const char *const names[] = {"cudaLaunchKernel", "cudaMemcpyAsync", "ncclAllReduce",
					    "cuMemAlloc_v2"};
	struct gs_event_call ev[4];

	for (unsigned i = 0; i < 4; i++)
		ev[i] = make_call(40, 41, names[i]);
	for (unsigned i = 0; i < n; i++) {
		struct gs_event_call *e = &ev[i % 4];

		e->tid = 41 + i % n_threads;
		e->start_ns += 1000;
		gs_ingest_event(x->feed, &e->head);
	}
}

/* n_threads up to the cache's size, and more than it holds. */
static void run_of(struct fixture *x, unsigned n_threads)
{
	uint64_t before, start_ns;

	x->capture.drop = true;
	fake_put_stat(x->proc, 40, "train", 1, 5);
	send_many(x, 16 * n_threads, n_threads);
	before = n_allocations;
	start_ns = gs_clock_mono_ns();
	send_many(x, N_EVENTS, n_threads);
	start_ns = gs_clock_mono_ns() - start_ns;
	assert_int_equal(n_allocations, before);
	assert_true(before > 0);
	if (tell)
		print_message("%u threads: %.1f ns per call event\n", n_threads,
			      (double)start_ns / N_EVENTS);
	assert_true(x->capture.n_pushes > N_EVENTS / 4096);
}

static void one_thread(void **state)
{
	run_of(*state, 1);
}

static void some_threads(void **state)
{
	run_of(*state, 64);
}

static void more_threads_than_the_cache_holds(void **state)
{
	run_of(*state, 4000);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(one_thread),
		FEED_TEST(some_threads),
		FEED_TEST(more_threads_than_the_cache_holds),
	};

	tell = argc > 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
