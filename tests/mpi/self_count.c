/*
 * Makes known calls of MPI with any number of ranks and counts them itself: `self_count FILE [GO]`
 * leaves FILE.RANK with lines "call NAME CALLS BYTES" and "peer DIRECTION COMM PEER CALLS BYTES"
 * (COMM: world or half), and "barrier_ns NS", a wait in a barrier. What it says is what tests compare a trace with. With GO each rank leaves
 * FILE.PID.ready after MPI_Init and waits until there is a file GO. Built by mpicc; with
 * -DINIT_THREAD it calls MPI_Init_thread and never MPI_Init.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_NAMES 64
#define N_PEERS 64
#define ROUNDS  7

static struct {
	const char *name;
	long calls, bytes;
} calls[N_NAMES];

static struct {
	const char *direction, *comm;
	int peer;
	long calls, bytes;
} peers[N_PEERS];

static int rank, n_ranks;

static void call(const char *name, long bytes)
{
	int i = 0;

	while (calls[i].name && strcmp(calls[i].name, name))
		i++;
	calls[i].name = name;
	calls[i].calls++;
	calls[i].bytes += bytes;
}

static void peer(const char *direction, const char *comm, int who, long bytes)
{
	int i = 0;

	while (peers[i].direction && (strcmp(peers[i].direction, direction) ||
				      strcmp(peers[i].comm, comm) || peers[i].peer != who))
		i++;
	peers[i].direction = direction;
	peers[i].comm = comm;
	peers[i].peer = who;
	peers[i].calls++;
	peers[i].bytes += bytes;
}

/* To the right and from the left, each way there is. */
static void exchange(void)
{
	int right = (rank + 1) % n_ranks, left = (rank + n_ranks - 1) % n_ranks;
	double out[100] = {0}, in[200];
	MPI_Request requests[2];
	MPI_Status status;

	for (int i = 1; i <= ROUNDS; i++) {
		/* A receive with more room than the message needs; the status says how long it was.
		 */
		MPI_Isend(out, i, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Recv(in, 200, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		call("MPI_Isend", i * 8);
		call("MPI_Recv", i * 8);
		call("MPI_Wait", 0);
		peer("sent", "world", right, i * 8);
		peer("received", "world", left, i * 8);

		/* Without a status: the room is what is known. */
		MPI_Irecv(in, 50, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]);
		MPI_Send(out, 10 * i > 50 ? 50 : 10 * i, MPI_INT, right, 2, MPI_COMM_WORLD);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		call("MPI_Irecv", 200);
		call("MPI_Send", (10 * i > 50 ? 50 : 10 * i) * 4);
		call("MPI_Wait", 0);
		peer("posted", "world", left, 200);
		peer("sent", "world", right, (10 * i > 50 ? 50 : 10 * i) * 4);

		MPI_Sendrecv(out, 3, MPI_CHAR, right, 3, in, 30, MPI_CHAR, left, 3, MPI_COMM_WORLD,
			     &status);
		call("MPI_Sendrecv", 6);
		peer("sent", "world", right, 3);
		peer("received", "world", left, 3);

		/* Nobody: moves nothing. */
		MPI_Send(out, 5, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD);
		call("MPI_Send", 0);
	}
}

static void collect(MPI_Comm comm, int n)
{
	double *a = calloc(4096, sizeof(*a)), *b = calloc(4096, sizeof(*b));
	int counts[64], offsets[64], sum = 0;

	for (int i = 0; i < n; i++) {
		counts[i] = i + 1;
		offsets[i] = sum;
		sum += i + 1;
	}
	MPI_Barrier(comm);
	call("MPI_Barrier", 0);
	MPI_Bcast(a, 9, MPI_DOUBLE, 0, comm);
	call("MPI_Bcast", 72);
	MPI_Reduce(a, b, 5, MPI_FLOAT, MPI_SUM, 0, comm);
	call("MPI_Reduce", 20);
	MPI_Allreduce(a, b, 6, MPI_DOUBLE, MPI_SUM, comm);
	MPI_Allreduce(MPI_IN_PLACE, b, 4, MPI_LONG, MPI_SUM, comm);
	call("MPI_Allreduce", 48);
	call("MPI_Allreduce", 32);
	MPI_Allgather(a, 3, MPI_INT, b, 3, MPI_INT, comm);
	call("MPI_Allgather", 12);
	MPI_Allgather(MPI_IN_PLACE, 77, MPI_DATATYPE_NULL, b, 2, MPI_DOUBLE, comm);
	call("MPI_Allgather", 16);
	MPI_Gather(a, 4, MPI_SHORT, b, 4, MPI_SHORT, 0, comm);
	call("MPI_Gather", 8);
	MPI_Scatter(a, 2, MPI_DOUBLE, b, 2, MPI_DOUBLE, 0, comm);
	call("MPI_Scatter", 16);
	MPI_Alltoall(a, 2, MPI_INT, b, 2, MPI_INT, comm);
	call("MPI_Alltoall", 8L * n);
	MPI_Reduce_scatter(a, b, counts, MPI_DOUBLE, MPI_SUM, comm);
	call("MPI_Reduce_scatter", 8L * sum);
	MPI_Reduce_scatter_block(a, b, 3, MPI_DOUBLE, MPI_SUM, comm);
	call("MPI_Reduce_scatter_block", 24L * n);
	{
		int rank_here, same[64], where[64];

		MPI_Comm_rank(comm, &rank_here);
		call("MPI_Comm_rank", 0);
		for (int i = 0; i < n; i++) {
			same[i] = 2;
			where[i] = 2 * i;
		}
		MPI_Alltoallv(a, same, where, MPI_DOUBLE, b, same, where, MPI_DOUBLE, comm);
		call("MPI_Alltoallv", 16L * n);
		MPI_Allgatherv(a, counts[rank_here], MPI_FLOAT, b, counts, offsets, MPI_FLOAT,
			       comm);
		call("MPI_Allgatherv", 4L * counts[rank_here]);
	}
	free(a);
	free(b);
}

static void half(void)
{
	int rank_here, n_here, x = 1, y;
	MPI_Comm comm;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
	call("MPI_Comm_split", 0);
	MPI_Comm_rank(comm, &rank_here);
	call("MPI_Comm_rank", 0);
	MPI_Comm_size(comm, &n_here);
	call("MPI_Comm_size", 0);
	collect(comm, n_here);
	if (n_here > 1) {
		int to = (rank_here + 1) % n_here, from = (rank_here + n_here - 1) % n_here;

		MPI_Sendrecv(&x, 1, MPI_INT, to, 5, &y, 1, MPI_INT, from, 5, comm,
			     MPI_STATUS_IGNORE);
		call("MPI_Sendrecv", 8);
		peer("sent", "half", to, 4);
		peer("posted", "half", from, 4);
	}
	MPI_Comm_free(&comm);
	call("MPI_Comm_free", 0);
}

static void window(void)
{
	int here[16] = {0}, there[4] = {1};
	MPI_Win win;

	MPI_Win_create(here, sizeof(here), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	call("MPI_Win_create", 0);
	MPI_Win_fence(0, win);
	MPI_Put(there, 4, MPI_INT, (rank + 1) % n_ranks, 0, 4, MPI_INT, win);
	MPI_Win_fence(0, win);
	MPI_Get(there, 2, MPI_INT, (rank + 1) % n_ranks, 8, 2, MPI_INT, win);
	MPI_Accumulate(there, 3, MPI_INT, (rank + 1) % n_ranks, 4, 3, MPI_INT, MPI_SUM, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < 3; i++)
		call("MPI_Win_fence", 0);
	call("MPI_Put", 16);
	call("MPI_Get", 8);
	call("MPI_Accumulate", 12);
	MPI_Win_free(&win);
	call("MPI_Win_free", 0);
	peer("sent", "window", (rank + 1) % n_ranks, 16);
	peer("posted", "window", (rank + 1) % n_ranks, 8);
	peer("sent", "window", (rank + 1) % n_ranks, 12);
}

static void file(const char *path)
{
	char text[32] = "some words";
	MPI_File f;

	MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
	call("MPI_File_open", 0);
	MPI_File_write_at_all(f, rank * 32, text, 32, MPI_CHAR, MPI_STATUS_IGNORE);
	call("MPI_File_write_at_all", 32);
	MPI_File_read_at(f, rank * 32, text, 16, MPI_CHAR, MPI_STATUS_IGNORE);
	call("MPI_File_read_at", 16);
	MPI_File_close(&f);
	call("MPI_File_close", 0);
}

static void wait_for(const char *ready, const char *go)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.%d.ready", ready, (int)getpid());
	f = fopen(path, "w");
	if (f)
		fclose(f);
	while (access(go, F_OK) != 0)
		usleep(20000);
}

/* How long the first rank waits in a barrier for the others, by a clock around it. */
static long long late_ns(void)
{
	struct timespec a, b;

	if (rank)
		usleep(400000);
	clock_gettime(CLOCK_MONOTONIC, &a);
	MPI_Barrier(MPI_COMM_WORLD);
	clock_gettime(CLOCK_MONOTONIC, &b);
	call("MPI_Barrier", 0);
	return (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec;
}

int main(int argc, char **argv)
{
	long long barrier_ns;
	char path[4096];
	FILE *f;

	if (argc < 2)
		return 2;
#ifdef INIT_THREAD
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	call("MPI_Init_thread", 0);
#else
	MPI_Init(&argc, &argv);
	call("MPI_Init", 0);
#endif
	if (argc > 2)
		wait_for(argv[1], argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	call("MPI_Comm_rank", 0);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	call("MPI_Comm_size", 0);
	barrier_ns = late_ns();
	exchange();
	collect(MPI_COMM_WORLD, n_ranks);
	half();
	window();
	snprintf(path, sizeof(path), "%s.data", argv[1]);
	file(path);
	MPI_Finalize();
	call("MPI_Finalize", 0);
	snprintf(path, sizeof(path), "%s.%d", argv[1], rank);
	f = fopen(path, "w");
	if (!f)
		return 1;
	fprintf(f, "pid %d\nranks %d\nbarrier_ns %lld\n", (int)getpid(), n_ranks, barrier_ns);
	for (int i = 0; calls[i].name; i++)
		fprintf(f, "call %s %ld %ld\n", calls[i].name, calls[i].calls, calls[i].bytes);
	for (int i = 0; peers[i].direction; i++)
		fprintf(f, "peer %s %s %d %ld %ld\n", peers[i].direction, peers[i].comm,
			peers[i].peer, peers[i].calls, peers[i].bytes);
	return fclose(f) != 0;
}
