/*
 * One program that has all of it: calls of CUDA's runtime and driver, GPU work of which CUPTI's stand-in tells, and
 * collectives of NCCL, each as often as it is told:
 *
 *   inside_all_app CALLS KERNELS COLLECTIVES [SECONDS]
 *
 * With SECONDS it does that again and again for so long, from two threads, and starts a child of one call now and then. It ends with
 * a line of what it did: "calls N kernels N collectives N children N failed N".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_US 2000

typedef struct {
	char internal[128];
} ncclUniqueId;

int cudaMalloc(void **ptr, size_t bytes);
int cudaFree(void *ptr);
int cuMemAlloc_v2(uint64_t *ptr, size_t bytes);
int cuMemFree_v2(uint64_t ptr);
int ncclGetUniqueId(ncclUniqueId *id);
int ncclCommInitRank(void **comm, int n_ranks, ncclUniqueId id, int rank);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm,
		  void *stream);
int ncclCommDestroy(void *comm);
uint64_t fake_cupti_now(void);
uint64_t fake_cupti_kernel(const char *name, uint32_t stream, uint64_t start, uint64_t end);

static long n_calls, n_kernels, n_collectives, n_children, n_failed;

/* As libcuda does within cuInit(). */
static void load_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;

	if (path && (!begin || begin() != 1))
		__atomic_add_fetch(&n_failed, 1, __ATOMIC_RELAXED);
}

static void make_calls(long n)
{
	int bad = 0;

	for (long i = 0; i < n; i++) {
		uint64_t device;
		void *ptr;

		bad += cudaMalloc(&ptr, 64) != 0 || cudaFree(ptr) != 0;
		bad += cuMemAlloc_v2(&device, 32) != 0 || cuMemFree_v2(device) != 0;
	}
	__atomic_add_fetch(&n_calls, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&n_failed, bad, __ATOMIC_RELAXED);
}

static void run_kernels(long n)
{
	uint64_t at = fake_cupti_now();

	for (long i = 0; i < n; i++)
		at = fake_cupti_kernel("_Z6kernelPfi", 7, at, at + 1000) + 1000;
	n_kernels += n;
}

static void reduce(void *comm, long n)
{
	static char data[64];

	for (long i = 0; i < n; i++)
		n_failed += ncclAllReduce(data, data, 16, 7, 0, comm, NULL) != 0;
	n_collectives += n;
}

/* A child that becomes a program of one call: what the stand-ins lock may be held by the other thread when it is made. */
static void make_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (freopen("/dev/null", "w", stdout))
			execl("/proc/self/exe", "child", "1", "0", "0", (char *)NULL);
		_exit(99);
	}
	n_failed += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
	n_children++;
}

static int is_over; /* for the other thread */

static void *call_beside(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		make_calls(100);
		usleep(PAUSE_US);
	}
	return unused;
}

static void run_for(time_t seconds, const long *n, void *comm)
{
	time_t end = time(NULL) + seconds;
	pthread_t other;
	int r = pthread_create(&other, NULL, call_beside, NULL);

	for (long round = 0; time(NULL) < end; round++) {
		make_calls(n[0]);
		run_kernels(n[1]);
		reduce(comm, n[2]);
		if (round % 100 == 99)
			make_child();
		usleep(PAUSE_US);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	n_failed += r != 0 || pthread_join(other, NULL) != 0;
}

int main(int argc, char **argv)
{
	ncclUniqueId id;
	void *comm;
	long n[4] = {0};

	for (int i = 1; i < argc && i <= 4; i++)
		n[i - 1] = atol(argv[i]);
	load_injection();
	n_failed += ncclGetUniqueId(&id) != 0;
	n_failed += ncclCommInitRank(&comm, 1, id, 0) != 0;
	if (n[3]) {
		run_for(n[3], n, comm);
	} else {
		make_calls(n[0]);
		run_kernels(n[1]);
		reduce(comm, n[2]);
	}
	n_failed += ncclCommDestroy(comm) != 0;
	printf("calls %ld kernels %ld collectives %ld children %ld failed %ld\n", n_calls,
	       n_kernels, n_collectives, n_children, n_failed);
	return n_failed != 0;
}
