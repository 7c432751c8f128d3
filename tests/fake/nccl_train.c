/*
 * Processes that call the stand-in NCCL, each a known number of times: what gpuscope says that NCCL handed over is
 * compared with that.
 *
 *	nccl_train RANKS STEPS [STOP_RANK STOP_STEPS [PAUSE_US]]
 *
 * Each step a rank calls ncclAllReduce of 1,000,000 floats and of 16, ncclAllGather of 5,000 halves, and, as one group,
 * ncclSend to the next and ncclRecv from the rank before, of 3,000 ints; in each tenth step ncclBroadcast of 10 bytes
 * (ncclUint8) from rank 1. STOP_RANK (-1: none) makes STOP_STEPS steps alone. Prints what each rank has called.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_abi.h"
#include "nccl_protos.h"

static int n_failed;

static void expect(ncclResult_t r)
{
	n_failed += r != ncclSuccess;
}

static void run_step(ncclComm_t comm, int n_ranks, int rank, int step)
{
	static char data[64];

	expect(ncclAllReduce(data, data, 1000000, ncclFloat32, ncclSum, comm, NULL));
	expect(ncclAllReduce(data, data, 16, ncclFloat32, ncclSum, comm, NULL));
	expect(ncclAllGather(data, data, 5000, ncclFloat16, comm, NULL));
	expect(ncclGroupStart());
	expect(ncclSend(data, 3000, ncclInt32, (rank + 1) % n_ranks, comm, NULL));
	expect(ncclRecv(data, 3000, ncclInt32, (rank + n_ranks - 1) % n_ranks, comm, NULL));
	expect(ncclGroupEnd());
	if (step % 10 == 9)
		expect(ncclBroadcast(data, data, 10, ncclUint8, 1, comm, NULL));
}

static int run_rank(ncclUniqueId id, int n_ranks, int rank, int n_steps, useconds_t pause_us)
{
	ncclComm_t comm;

	if (ncclCommInitRank(&comm, n_ranks, id, rank) != ncclSuccess)
		return 1;
	for (int i = 0; i < n_steps; i++) {
		run_step(comm, n_ranks, rank, i);
		if (pause_us)
			usleep(pause_us);
	}
	printf("rank %d pid %d steps %d failed %d\n", rank, (int)getpid(), n_steps, n_failed);
	fflush(stdout);
	return ncclCommDestroy(comm) != ncclSuccess || n_failed;
}

int main(int argc, char **argv)
{
	int n_ranks = argc > 1 ? atoi(argv[1]) : 2, n_steps = argc > 2 ? atoi(argv[2]) : 100;
	int stop_rank = argc > 3 ? atoi(argv[3]) : -1, stop_steps = argc > 4 ? atoi(argv[4]) : 0;
	useconds_t pause_us = argc > 5 ? (useconds_t)atoi(argv[5]) : 0;
	int status, n_bad = 0;
	ncclUniqueId id;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return 1;
	for (int rank = 0; rank < n_ranks; rank++)
		if (fork() == 0)
			_exit(run_rank(id, n_ranks, rank, rank == stop_rank ? stop_steps : n_steps,
				       pause_us));
	while (wait(&status) > 0)
		n_bad += status != 0;
	return n_bad != 0;
}
