/*
 * spin: calls one function of one library as fast as it can, or at a rate, in some threads, and
 * prints what a call took as JSON. Run it alone and then traced: the difference is what tracing
 * costs the traced program.
 *
 *   spin --lib FILE --func NAME [--calls N] [--chunks K] [--threads T] [--cpu C]
 *   spin --lib FILE --func NAME --rate R [--seconds S] [--threads T] [--cpu C]
 *
 * Full speed: K chunks of N calls in each thread; ns_best and ns_median are of chunks. At a rate
 * (calls a second in each thread): ns_median and ns_p99 are of calls, timed by the time-stamp
 * counter less the time that reading it takes.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "cuda_abi.h"

#define N_WORDS    11
#define THREAD_MAX 64
#define CHUNK_MAX  1000
#define SAMPLE_MAX 4000000

/* Whatever the function takes, its arguments are words, in registers and then on the stack. */
typedef uint64_t (*uprobe_target_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
				     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static struct {
	const char *lib, *func;
	unsigned calls, chunks, threads, rate, seconds;
	int cpu; /* thread k runs on cpu + k; -1 anywhere */
} opt = {.calls = 100000, .chunks = 11, .threads = 1, .seconds = 5, .cpu = -1};

struct worker {
	pthread_t thread;
	unsigned at;
	double *ns; /* of a call: averaged over a chunk, or of each */
	unsigned n_ns;
	uint64_t n_calls;
	int ret;
	uint64_t words[N_WORDS];
	uint64_t out[16]; /* where the function may write */
	cudaLaunchConfig_t config;
};

static uprobe_target_fn target;
static pthread_barrier_t start;
static double tsc_per_ns, tsc_cost;

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "spin: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int call(const struct worker *w)
{
	const uint64_t *a = w->words;

	return (int)target(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

/* Arguments that make sense to whoever decodes them, by what the name says. */
static void set_words(struct worker *w)
{
	uint64_t out = (uint64_t)w->out, func = 0x55d000000240, stream = 0x55d000001000;
	uint64_t one = 1, device = 0x7d0000000000;
	const struct {
		const char *has;
		uint64_t words[N_WORDS];
	} known[] = {
		{"LaunchKernelEx", {(uint64_t)&w->config, func, out, out}},
		{"cuLaunchKernel", {func, 64, 1, 1, 256, 1, 1, 0, stream, out, 0}},
		{"aunch", {func, 64 | one << 32, 1, 256 | one << 32, 1, out, 0, stream}},
		{"llReduce", {device, device, 1 << 20, 9, 0, out, stream}},
		{"emcpy", {device, device + 4096, 4096, 1, stream}},
		{"emset", {device, 0, 4096, stream}},
		{"lloc", {out, 4096, stream}},
		{"", {out, stream}},
	};

	w->config = (cudaLaunchConfig_t){{64, 1, 1}, {256, 1, 1}, 0, (cudaStream_t)stream, NULL, 0};
	for (size_t i = 0;; i++)
		if (strstr(opt.func, known[i].has)) {
			memcpy(w->words, known[i].words, sizeof(w->words));
			return;
		}
}

static void run_fast(struct worker *w)
{
	for (unsigned k = 0; k < opt.chunks; k++) {
		uint64_t start_ns = now_ns();

		for (unsigned i = 0; i < opt.calls; i++)
			w->ret = call(w);
		w->ns[w->n_ns++] = (double)(now_ns() - start_ns) / opt.calls;
		w->n_calls += opt.calls;
	}
}

static void run_paced(struct worker *w)
{
	double step = tsc_per_ns * 1e9 / opt.rate;
	uint64_t first = __rdtsc(), n = (uint64_t)opt.rate * opt.seconds;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t due = first + (uint64_t)((double)i * step), from, to;

		while (__rdtsc() < due)
			_mm_pause();
		from = __rdtsc();
		w->ret = call(w);
		to = __rdtsc();
		if (w->n_ns < SAMPLE_MAX)
			w->ns[w->n_ns++] = ((double)(to - from) - tsc_cost) / tsc_per_ns;
		w->n_calls++;
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;

	if (opt.cpu >= 0) {
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET((unsigned)opt.cpu + w->at, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
			die("cannot run on processor %u", (unsigned)opt.cpu + w->at);
	}
	set_words(w);
	for (unsigned i = 0; i < 100; i++) /* the first calls bind and fault */
		w->ret = call(w);
	pthread_barrier_wait(&start);
	if (opt.rate)
		run_paced(w);
	else
		run_fast(w);
	return NULL;
}

static void calibrate(void)
{
	uint64_t from_ns = now_ns(), from = __rdtsc(), cost = UINT64_MAX;

	while (now_ns() - from_ns < 20000000)
		;
	tsc_per_ns = (double)(__rdtsc() - from) / (double)(now_ns() - from_ns);
	for (int i = 0; i < 1000; i++) {
		uint64_t a = __rdtsc(), b = __rdtsc();

		if (b - a < cost)
			cost = b - a;
	}
	tsc_cost = (double)cost;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void report(const struct worker *workers, double seconds)
{
	uint64_t n_calls = 0;
	unsigned n = 0;
	double *all;

	for (unsigned k = 0; k < opt.threads; k++)
		n += workers[k].n_ns;
	all = calloc(n, sizeof(*all));
	if (!all || !n)
		die("no memory, or no call");
	n = 0;
	for (unsigned k = 0; k < opt.threads; k++) {
		memcpy(all + n, workers[k].ns, workers[k].n_ns * sizeof(*all));
		n += workers[k].n_ns;
		n_calls += workers[k].n_calls;
	}
	qsort(all, n, sizeof(*all), by_value);
	printf("{\"lib\":\"%s\",\"func\":\"%s\",\"threads\":%u,\"rate\":%u,\"calls\":%llu,"
	       "\"seconds\":%.3f,\"calls_per_s\":%.0f,\"ns_best\":%.1f,\"ns_median\":%.1f,"
	       "\"ns_p99\":%.1f,\"ret\":%d}\n",
	       opt.lib, opt.func, opt.threads, opt.rate, (unsigned long long)n_calls, seconds,
	       (double)n_calls / seconds, all[0], all[n / 2], all[(uint64_t)n * 99 / 100],
	       workers[0].ret);
	free(all);
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		die("'%s' is not a number from %u to %u", text, min, max);
	return (unsigned)n;
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"lib", required_argument, NULL, 'l'},
		{"func", required_argument, NULL, 'f'},
		{"calls", required_argument, NULL, 'n'},
		{"chunks", required_argument, NULL, 'k'},
		{"threads", required_argument, NULL, 't'},
		{"rate", required_argument, NULL, 'r'},
		{"seconds", required_argument, NULL, 's'},
		{"cpu", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (c) {
		case 'l':
			opt.lib = optarg;
			break;
		case 'f':
			opt.func = optarg;
			break;
		case 'n':
			opt.calls = number(optarg, 1, 1000000000);
			break;
		case 'k':
			opt.chunks = number(optarg, 1, CHUNK_MAX);
			break;
		case 't':
			opt.threads = number(optarg, 1, THREAD_MAX);
			break;
		case 'r':
			opt.rate = number(optarg, 1, 10000000);
			break;
		case 's':
			opt.seconds = number(optarg, 1, 3600);
			break;
		case 'c':
			opt.cpu = (int)number(optarg, 0, CPU_SETSIZE - THREAD_MAX);
			break;
		default:
			exit(2);
		}
	if (!opt.lib || !opt.func || optind < argc)
		die("--lib FILE and --func NAME are needed, and nothing but options");
}

int main(int argc, char **argv)
{
	struct worker *workers;
	uint64_t start_ns;
	void *handle;

	read_options(argc, argv);
	/* A bare name would be looked for in the system first, where the real library may be. */
	handle = strchr(opt.lib, '/') ? dlopen(opt.lib, RTLD_NOW) : NULL;
	if (!strchr(opt.lib, '/'))
		die("--lib wants a path with a slash");
	if (!handle)
		die("%s", dlerror());
	target = (uprobe_target_fn)dlsym(handle, opt.func);
	if (!target)
		die("%s", dlerror());
	calibrate();
	workers = calloc(opt.threads, sizeof(*workers));
	if (!workers || pthread_barrier_init(&start, NULL, opt.threads + 1) != 0)
		die("no memory");
	for (unsigned k = 0; k < opt.threads; k++) {
		workers[k].at = k;
		workers[k].ns = calloc(opt.rate ? SAMPLE_MAX : CHUNK_MAX, sizeof(double));
		if (!workers[k].ns ||
		    pthread_create(&workers[k].thread, NULL, run, &workers[k]) != 0)
			die("cannot start a thread");
	}
	pthread_barrier_wait(&start);
	start_ns = now_ns();
	for (unsigned k = 0; k < opt.threads; k++)
		pthread_join(workers[k].thread, NULL);
	report(workers, (double)(now_ns() - start_ns) / 1e9);
	for (unsigned k = 0; k < opt.threads; k++)
		free(workers[k].ns);
	free(workers);
	return 0;
}
