/*
 * load: programs whose trouble is known by construction and that C can say best: training loops on
 * the stand-ins of CUDA and NCCL, and mutexes. A loop ends by the clock (--seconds, 4).
 *
 *   load gpu   computes --begin-ms; then a step: wait --input-ms for a loader process that writes into a pipe, compute
 *              --compute-ms, --launches times (launch, then --think-us of host code, then
 *              synchronize with --sync=each), --copies blocking copies of --copy-mb, one all-reduce
 *              with --reduce, synchronize with --sync=step, --sync=reduce (the stream of the
 *              all-reduce). How long a synchronisation takes is FAKE_CUDA_SYNC_US.
 *   load crew  a training loop of PyTorch: this thread makes half of --launches, as Python with a lock that it gives back where it
 *              waits; a helper makes the other half meanwhile; then it synchronises. A third thread has the lock for --hold-ms
 *              again and again, asleep or (--pins) computing, then computes --compute-ms and reads a pipe that is late
 *   load mutex --threads threads share a mutex, held for --hold-ms (asleep), then each computes
 *              --compute-ms. The first of them holds it --first times in a row (1)
 *   load pool  --threads threads wait for a condition, the main thread computes
 */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi.h"

static struct {
	double seconds;
	unsigned begin_ms, input_ms, compute_ms, hold_ms, launches, think_us, copies, copy_mb,
		threads, first;
	bool reduce, pins;
	char sync; /* each, step, reduce, none: its first letter */
} opt = {.seconds = 4, .launches = 20, .threads = 4, .first = 1, .sync = 'n'};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static double end_s;

static double clock_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool time_is_left(void)
{
	return clock_s(CLOCK_MONOTONIC) < end_s;
}

/* Of this thread's processor time. */
static void compute_us(unsigned us)
{
	double end = clock_s(CLOCK_THREAD_CPUTIME_ID) + us / 1e6;

	while (us && clock_s(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

static int start_loader(void)
{
	int fds[2];

	if (pipe(fds) != 0)
		exit(1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		do
			sleep_ms(opt.input_ms);
		while (write(fds[1], "x", 1) == 1);
		_exit(0);
	}
	return fds[0];
}

static void kernel(void)
{
}

static int run_gpu(void)
{
	int loader = opt.input_ms ? start_loader() : -1;
	size_t bytes = (size_t)(opt.copy_mb ? opt.copy_mb : 1) << 20;
	void *host = calloc(1, bytes), *device, *gradients, *params[1] = {&bytes};
	cudaStream_t compute, reduce;
	ncclUniqueId id;
	ncclComm_t comm;
	char byte;

	if (cudaStreamCreate(&compute) || cudaStreamCreate(&reduce) || cudaMalloc(&device, bytes) ||
	    cudaMalloc(&gradients, bytes) || ncclGetUniqueId(&id) ||
	    ncclCommInitRank(&comm, 2, id, 0))
		return 1;
	compute_us(opt.begin_ms * 1000);
	while (time_is_left()) {
		if (loader >= 0 && read(loader, &byte, 1) != 1)
			return 1;
		compute_us(opt.compute_ms * 1000);
		for (unsigned i = 0; i < opt.launches; i++) {
			cudaLaunchKernel((const void *)kernel, (dim3){64, 1, 1}, (dim3){256, 1, 1},
					 params, 0, compute);
			compute_us(opt.think_us);
			if (opt.sync == 'e')
				cudaStreamSynchronize(compute);
		}
		for (unsigned i = 0; i < opt.copies; i++)
			cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
		if (opt.reduce)
			ncclAllReduce(gradients, gradients, bytes / 4, ncclFloat32, ncclSum, comm,
				      reduce);
		if (opt.sync == 's' || opt.sync == 'r')
			cudaStreamSynchronize(opt.sync == 'r' ? reduce : compute);
	}
	return 0;
}

static struct {
	cudaStream_t stream;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool helps;
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void launch_half(void)
{
	void *params[1] = {&crew};

	for (unsigned i = 0; i < opt.launches / 2; i++) {
		cudaLaunchKernel((const void *)kernel, (dim3){64, 1, 1}, (dim3){256, 1, 1}, params,
				 0, crew.stream);
		compute_us(opt.think_us);
	}
}

static void *help(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&crew.lock);
		while (!crew.helps)
			pthread_cond_wait(&crew.changed, &crew.lock);
		pthread_mutex_unlock(&crew.lock);
		launch_half();
		pthread_mutex_lock(&crew.lock);
		crew.helps = false;
		pthread_cond_broadcast(&crew.changed);
		pthread_mutex_unlock(&crew.lock);
	}
	return arg;
}

static void *hold(void *arg)
{
	int loader = start_loader();
	char byte;

	while (read(loader, &byte, 1) == 1) {
		pthread_mutex_lock(&mutex);
		if (opt.pins)
			compute_us(opt.hold_ms * 1000);
		else
			sleep_ms(opt.hold_ms);
		pthread_mutex_unlock(&mutex);
		compute_us(opt.compute_ms * 1000);
	}
	return arg;
}

static int run_crew(void)
{
	pthread_t threads[2];

	if (cudaStreamCreate(&crew.stream) || pthread_create(&threads[0], NULL, help, NULL) ||
	    pthread_create(&threads[1], NULL, hold, NULL))
		return 1;
	while (time_is_left()) {
		pthread_mutex_lock(&mutex);
		launch_half();
		pthread_mutex_unlock(&mutex);
		pthread_mutex_lock(&crew.lock);
		crew.helps = true;
		pthread_cond_broadcast(&crew.changed);
		while (crew.helps)
			pthread_cond_wait(&crew.changed, &crew.lock);
		pthread_mutex_unlock(&crew.lock);
		cudaStreamSynchronize(crew.stream);
	}
	return 0;
}

static _Atomic unsigned n_waiting, n_holds, n_contenders;

/* Who gives a mutex back and asks for it again at once mostly gets it, before those that are woken: how often is chance, and
 * depends on other programs. So it waits until another one has had it. */
static void *contend(void *arg)
{
	bool is_first = n_contenders++ == 0;

	for (unsigned in_row = 1; time_is_left(); in_row++) {
		unsigned hold;

		n_waiting++;
		pthread_mutex_lock(&mutex);
		n_waiting--;
		hold = ++n_holds;
		if (opt.hold_ms)
			sleep_ms(opt.hold_ms);
		pthread_mutex_unlock(&mutex);
		compute_us(opt.compute_ms * 1000);
		if (is_first && in_row < opt.first)
			continue;
		in_row = 0;
		while (n_waiting && n_holds == hold && time_is_left())
			usleep(100);
	}
	return arg;
}

static void *park(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&never, &mutex);
	return arg;
}

static int run_threads(void *(*body)(void *), bool joins)
{
	pthread_t threads[64];

	for (unsigned i = 0; i < opt.threads && i < 64; i++)
		if (pthread_create(&threads[i], NULL, body, NULL))
			return 1;
	while (!joins && time_is_left())
		compute_us(50000);
	for (unsigned i = 0; joins && i < opt.threads && i < 64; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"begin-ms", required_argument, NULL, 'b'},
		{"input-ms", required_argument, NULL, 'i'},
		{"compute-ms", required_argument, NULL, 'c'},
		{"hold-ms", required_argument, NULL, 'h'},
		{"launches", required_argument, NULL, 'l'},
		{"think-us", required_argument, NULL, 't'},
		{"copies", required_argument, NULL, 'p'},
		{"copy-mb", required_argument, NULL, 'm'},
		{"threads", required_argument, NULL, 'n'},
		{"first", required_argument, NULL, 'f'},
		{"reduce", no_argument, NULL, 'r'},
		{"pins", no_argument, NULL, 'w'},
		{"sync", required_argument, NULL, 'y'},
		{NULL, 0, NULL, 0},
	};
	unsigned *numbers[128] = {
		['b'] = &opt.begin_ms, ['i'] = &opt.input_ms, ['c'] = &opt.compute_ms,
		['h'] = &opt.hold_ms,  ['l'] = &opt.launches, ['t'] = &opt.think_us,
		['p'] = &opt.copies,   ['m'] = &opt.copy_mb,  ['n'] = &opt.threads,
		['f'] = &opt.first};
	const char *what;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 's')
			opt.seconds = strtod(optarg, NULL);
		else if (c == 'y')
			opt.sync = optarg[0];
		else if (c == 'r')
			opt.reduce = true;
		else if (c == 'w')
			opt.pins = true;
		else if (c == '?')
			return 2;
		else
			*numbers[c] = (unsigned)strtoul(optarg, NULL, 10);
	}
	what = optind < argc ? argv[optind] : "";
	end_s = clock_s(CLOCK_MONOTONIC) + opt.seconds;
	if (strcmp(what, "gpu") == 0)
		return run_gpu();
	if (strcmp(what, "crew") == 0)
		return run_crew();
	if (strcmp(what, "mutex") == 0)
		return run_threads(contend, true);
	if (strcmp(what, "pool") == 0)
		return run_threads(park, false);
	fprintf(stderr, "usage: load [OPTION...] gpu|crew|mutex|pool\n");
	return 2;
}
