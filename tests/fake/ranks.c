/*
 * Processes that meet at collectives of the stand-in NCCL, and know by their own clock when each of
 * them made each call: what gpuscope says of arrivals is compared with that.
 *
 *	ranks RANKS STEPS SLOW_RANK SLOW_US [meet]
 *
 * Each step every rank waits for the others, sleeps for 2 ms, SLOW_RANK (-1: none) for SLOW_US more,
 * and calls ncclAllReduce; with "meet" they wait for each other in that call instead. Prints the times before and after each call as JSON: a tracer's time of
 * the call lies between them.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi.h"
#include "nccl_protos.h"

#define RANKS_MAX 16
#define STEPS_MAX 4096
#define STEP_US   2000

struct shared {
	pthread_barrier_t barrier;
	uint64_t before_ns[RANKS_MAX][STEPS_MAX], after_ns[RANKS_MAX][STEPS_MAX];
	pid_t pid[RANKS_MAX];
};

static pthread_barrier_t *meeting; /* NULL: they do not wait in the call */

/* Called by the stand-in in an all-reduce. */
__attribute__((visibility("default"))) void fake_nccl_meet(void);
void fake_nccl_meet(void)
{
	if (meeting)
		pthread_barrier_wait(meeting);
}

static uint64_t boot_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int rank_run(struct shared *s, ncclUniqueId id, int n_ranks, int rank, int n_steps,
		    unsigned sleep_us)
{
	ncclComm_t comm;

	s->pid[rank] = getpid();
	if (ncclCommInitRank(&comm, n_ranks, id, rank) != ncclSuccess)
		return 1;
	for (int i = 0; i < n_steps; i++) {
		if (!meeting)
			pthread_barrier_wait(&s->barrier);
		usleep(sleep_us);
		s->before_ns[rank][i] = boot_ns();
		if (ncclAllReduce(s, s, 1024, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess)
			return 1;
		s->after_ns[rank][i] = boot_ns();
	}
	return ncclCommDestroy(comm) != ncclSuccess;
}

static void print_times(const char *name, uint64_t times[RANKS_MAX][STEPS_MAX], int n_ranks,
			int n_steps)
{
	printf(", \"%s\": [", name);
	for (int r = 0; r < n_ranks; r++) {
		printf("%s[", r ? "], " : "");
		for (int i = 0; i < n_steps; i++)
			printf("%s%llu", i ? ", " : "", (unsigned long long)times[r][i]);
	}
	printf("]]");
}

int main(int argc, char **argv)
{
	int n_ranks, n_steps, slow, failed = 0, status;
	pthread_barrierattr_t attr;
	struct shared *s;
	ncclUniqueId id;
	unsigned slow_us;

	if (argc != 5 && (argc != 6 || strcmp(argv[5], "meet") != 0))
		return 2;
	n_ranks = atoi(argv[1]);
	n_steps = atoi(argv[2]);
	slow = atoi(argv[3]);
	slow_us = (unsigned)atoi(argv[4]);
	if (n_ranks < 1 || n_ranks > RANKS_MAX || n_steps < 1 || n_steps > STEPS_MAX)
		return 2;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED || ncclGetUniqueId(&id) != ncclSuccess)
		return 1;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->barrier, &attr, (unsigned)n_ranks);
	meeting = argc == 6 ? &s->barrier : NULL;
	for (int r = 0; r < n_ranks; r++)
		if (fork() == 0)
			_exit(rank_run(s, id, n_ranks, r, n_steps,
				       STEP_US + (r == slow ? slow_us : 0)));
	while (wait(&status) > 0)
		failed |= status;
	printf("{\"pids\": [");
	for (int r = 0; r < n_ranks; r++)
		printf("%s%d", r ? ", " : "", (int)s->pid[r]);
	printf("]");
	print_times("before_ns", s->before_ns, n_ranks, n_steps);
	print_times("after_ns", s->after_ns, n_ranks, n_steps);
	printf("}\n");
	return failed != 0;
}
