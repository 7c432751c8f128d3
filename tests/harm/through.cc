/*
 * Calls functions of a library (through_cpp.cc, through_c.c) with callbacks that return, throw, end
 * the thread, or are cancelled. Prints what became of each; run without and with probes, it has to
 * print the same.
 */
#include <cstdio>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <unistd.h>

#include "through.h"

static volatile int waits;

static long returns(long n)
{
	return n + 1;
}

static long throws(long n)
{
	if (n % 2)
		throw std::runtime_error("from a callback");
	return n + 1;
}

static long ends(long)
{
	pthread_exit(nullptr);
}

static long waits_for_ever(long)
{
	waits = 1;
	pause();
	return 0;
}

struct guard {
	const char *name;
	~guard()
	{
		std::printf("  %s released\n", name);
	}
};

struct call {
	const through *t;
	long (*fn)(long);
};

static void *in_thread(void *arg)
{
	const call *c = static_cast<const call *>(arg);
	guard g{c->t->name};

	c->t->function(c->fn, 1);
	return nullptr;
}

static void in_a_thread(const through *t, long (*fn)(long), bool cancel)
{
	call c{t, fn};
	pthread_t thread;
	void *result;

	waits = 0;
	pthread_create(&thread, nullptr, in_thread, &c);
	while (cancel && !waits)
		sched_yield();
	if (cancel)
		pthread_cancel(thread);
	pthread_join(thread, &result);
	std::printf("  %s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

int main()
{
	for (const through *t = throughs; t->name; t++) {
		long n_caught = 0, sum = 0;

		std::printf("%s\n", t->name);
		for (long i = 0; i < 100; i++) {
			try {
				sum += t->function(i % 3 ? throws : returns, i);
			} catch (const std::runtime_error &) {
				n_caught++;
			}
		}
		in_a_thread(t, ends, false);
		in_a_thread(t, waits_for_ever, true);
		sum += t->function(returns, 100);
		std::printf("  caught %ld, sum %ld\n", n_caught, sum);
	}
}
