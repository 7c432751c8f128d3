/*
 * Processes that meet at collectives of the stand-in NCCL, until one of them does what makes the others
 * wait: for tests of what gpuscope says of that.
 *
 *	stuck MODE [MS]
 *
 * Four ranks make 20 steps of ncclAllGather, which nobody waits in, and ncclAllReduce, in which each waits
 * for all. At step 10 rank 2, by MODE:
 *
 *	sleep     does nothing for MS before its all-reduce; spin: computes without a system call
 *	skip      leaves out the ncclAllGather; all wait for MS at the end, as in the next three
 *	function  calls ncclReduceScatter in place of it; count: half of it; type: int32 in place of float32
 *	join      calls ncclCommInitRank after MS alone, before all of this
 *	die       is killed, and the others wait for MS
 *	idle      so do all others: they do nothing for MS, each in its own time
 *	steady    nothing; the ranks make MS steps without a pause in between
 *
 * "at NS" on standard output says when that was (boot clock), and "pid N" which process it is.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi.h"
#include "nccl_protos.h"

#define N_RANKS 4
#define N_STEPS 20
#define AT_STEP 10
#define ODD     2

static pthread_barrier_t *meeting;
static const char *mode;
static unsigned wait_ms;

/* Called by the stand-in in an all-reduce. */
__attribute__((visibility("default"))) void fake_nccl_meet(void);
void fake_nccl_meet(void)
{
	pthread_barrier_wait(meeting);
}

/* Likewise in ncclCommInitRank. */
__attribute__((visibility("default"))) void fake_nccl_join(void);
void fake_nccl_join(void)
{
	pthread_barrier_wait(meeting);
}

static void say_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	printf("at %lld pid %d\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec, (int)getpid());
	fflush(stdout);
}

static void do_nothing(void)
{
	struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The clock is looked at seldom: a stack in it would say nothing of who spins. */
static __attribute__((noinline)) void spin_here(uint64_t until_ms)
{
	while (now_ms() < until_ms)
		for (volatile unsigned i = 0; i < 50000000; i++)
			;
}

static bool is_mode(const char *name)
{
	return strcmp(mode, name) == 0;
}

static void gather_odd(ncclComm_t comm, void *buf)
{
	say_time();
	if (is_mode("function"))
		ncclReduceScatter(buf, buf, 512, ncclFloat32, ncclSum, comm, NULL);
	else if (is_mode("count"))
		ncclAllGather(buf, buf, 256, ncclFloat32, comm, NULL);
	else if (is_mode("type"))
		ncclAllGather(buf, buf, 512, ncclInt32, comm, NULL);
	else if (!is_mode("skip"))
		ncclAllGather(buf, buf, 512, ncclFloat32, comm, NULL);
	if (is_mode("sleep"))
		do_nothing();
	else if (is_mode("spin"))
		spin_here(now_ms() + wait_ms);
	else if (is_mode("die"))
		raise(SIGKILL);
}

static int run_rank(ncclUniqueId id, int rank)
{
	static char buf[65536];
	int n_steps = is_mode("steady") ? (int)wait_ms : N_STEPS;
	ncclComm_t comm;

	if (rank == ODD && is_mode("join")) {
		say_time();
		do_nothing();
	}
	if (ncclCommInitRank(&comm, N_RANKS, id, rank) != ncclSuccess)
		return 1;
	for (int step = 0; step < n_steps; step++) {
		if (!is_mode("steady"))
			usleep(2000);
		if (step == AT_STEP && is_mode("idle"))
			do_nothing();
		if (step == AT_STEP && is_mode("die"))
			alarm(wait_ms / 1000);
		if (step == AT_STEP && rank == ODD && !is_mode("steady") && !is_mode("join"))
			gather_odd(comm, buf);
		else
			ncclAllGather(buf, buf, 512, ncclFloat32, comm, NULL);
		ncclAllReduce(buf, buf, 1024, ncclFloat32, ncclSum, comm, NULL);
	}
	if (is_mode("skip") || is_mode("function") || is_mode("count") || is_mode("type"))
		do_nothing();
	return ncclCommDestroy(comm) != ncclSuccess;
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t attr;
	ncclUniqueId id;

	if (argc < 2)
		return 2;
	mode = argv[1];
	wait_ms = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED || ncclGetUniqueId(&id) != ncclSuccess)
		return 1;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(meeting, &attr, N_RANKS);
	for (int r = 0; r < N_RANKS; r++)
		if (fork() == 0)
			_exit(run_rank(id, r));
	while (wait(NULL) > 0)
		;
	return 0;
}
