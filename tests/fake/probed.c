/*
 * A program for described probes: calls with arguments of all sorts, static probes with and without
 * a semaphore, recursion, threads. `probed N` makes N rounds of each and prints what the tests
 * compare with.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned short gs_test_guarded_semaphore __attribute__((section(".probes"), used));
#define _SDT_HAS_SEMAPHORES 1
unsigned short gs_test_step_semaphore __attribute__((section(".probes"), used));
#include <sys/sdt.h>

struct item {
	int kind;
	unsigned short tag;
	long size;
	double weight;
	float ratio;
	const char *name;
	struct item *next;
	char label[8];
};

/* Nothing of a call may be left out because its result is known. */
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
#define PROBED  __attribute__((noinline, noclone, used))

int work(long size, int kind, const char *name, struct item *item, long *out, char byte,
	 long seventh, int eighth);
int recurse(int n);
void guarded(int n);
int twin_of_other_file(int n);

PROBED int work(long size, int kind, const char *name, struct item *item, long *out, char byte,
		long seventh, int eighth)
{
	KEEP(name);
	KEEP(item);
	*out = size * 2;
	KEEP(out);
	STAP_PROBE3(gs_test, step, size, kind, name);
	return kind - 1 + (byte == 0) + (seventh < 0) + (eighth == 12345);
}

PROBED int recurse(int n)
{
	KEEP(&n);
	return n ? recurse(n - 1) + 1 : 0;
}

PROBED void guarded(int n)
{
	if (gs_test_guarded_semaphore)
		STAP_PROBE2(gs_test, guarded, n, (short)-n);
}

static PROBED int twin(int n)
{
	KEEP(&n);
	return n + 1;
}

static void *rounds(void *arg)
{
	int n = *(int *)arg;
	struct item inner = {.kind = 7, .size = 99, .name = "inner", .label = "inner"};
	struct item item = {.label = {'e', 'x', 'a', 'c', 't', 'l', 'y', '8'},
			    .kind = -3,
			    .tag = 65535,
			    .size = 5,
			    .weight = 2.5,
			    .ratio = 0.25f,
			    .name = "outer",
			    .next = &inner};
	char odd[] = "odd",
	     even[] = "even, and so long that it has to be cut: "
		      "0123456789012345678901234567890123456789012345678901234567890123"
		      "4567890123456789012345678901234567890123456789";
	long out;

	for (int i = 0; i < n; i++) {
		work(i * 1000L, i % 3 - 1, i % 2 ? odd : even, &item, &out, (char)i, -i, 100 + i);
		recurse(i % 5);
		guarded(i);
		twin(i);
		twin_of_other_file(i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10, n_threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t threads[64];

	for (int i = 1; i < n_threads && i < 64; i++)
		pthread_create(&threads[i], NULL, rounds, &n);
	rounds(&n);
	for (int i = 1; i < n_threads && i < 64; i++)
		pthread_join(threads[i], NULL);
	printf("{\"pid\": 0, \"functions\": {}, \"inner\": {}, \"surprises\": 0}\n");
	return 0;
}
