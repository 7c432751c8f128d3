/*
 * demo_train: looks to a tracer like data-parallel training of a transformer, and needs no GPU.
 *
 * The program starts one process for each rank, with RANK, LOCAL_RANK and WORLD_SIZE in their
 * environment as torchrun does. In a rank, a loader thread copies batches to the device from pinned
 * memory, the main thread launches forward, backward and optimizer (through the runtime, and
 * straight through the driver as cuBLAS does) and a reducer thread sends buckets of gradients
 * through NCCL. A few things go wrong, as they do: the device runs out of memory and the request is
 * made smaller, a copy is called wrongly, a block is never freed, and rank 1 now and then waits for
 * its data. The stand-in libraries take about as long for a call as the real ones.
 */
#include <errno.h>
#include <signal.h>
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi.h"

#define MIB              (1ull << 20)
#define N_SLOTS          2 /* batches under way */
#define N_BUCKETS        4 /* of gradients, a step */
#define RANK_MAX         16
#define LAYER_MAX        256
#define BATCH_BYTES      (4 * MIB)
#define BUCKET_ELEMENTS  (25 * MIB / 2) /* bf16 */
#define STEPS_TO_OOM     37
#define STEPS_TO_MISTAKE 53
#define STEPS_TO_SAVE    100
#define STEPS_TO_LEAK    25
#define STEPS_TO_STALL   50

static struct {
	unsigned steps, ranks, layers;
	int rank; /* -1: the launcher */
	int id_fd;
} opt = {.steps = 420, .ranks = 2, .layers = 12, .rank = -1, .id_fd = -1};

struct slot {
	void *host, *device;
	cudaEvent_t copied;
	sem_t free, full;
};

static struct {
	cudaStream_t compute, copy, reduce;
	cudaEvent_t step_done, gradients[N_BUCKETS], reduced;
	struct slot slots[N_SLOTS];
	void *weights[LAYER_MAX], *buckets[N_BUCKETS], *activations[LAYER_MAX];
	void *host_loss, *device_loss, *save_room;
	ncclComm_t comm;
	sem_t bucket_ready, all_reduced;
	uint64_t launches;
} job;

/* What a launch names. Functions, so that an address has a symbol. */
#define KERNEL(name)                                                                               \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
	}
KERNEL(layer_norm_forward)
KERNEL(softmax_dropout)
KERNEL(gelu_forward)
KERNEL(flash_attention_forward)
KERNEL(gemm_bf16_128x256)
KERNEL(gemm_bf16_256x128)
KERNEL(layer_norm_backward)
KERNEL(gelu_backward)
KERNEL(flash_attention_backward)
KERNEL(adamw_multi_tensor)
KERNEL(cross_entropy)

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "demo_train: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(1);
}

static void must(int r, const char *what)
{
	if (r != 0)
		die("%s returned %d", what, r);
}

#define MUST(call) must((int)(call), #call)

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What the framework does between calls. */
static void think_us(unsigned us)
{
	uint64_t end_ns = now_ns() + us * 1000ull;

	while (now_ns() < end_ns)
		;
}

/* --- launches --- */

/* Frameworks ask for the device and for errors around each launch. */
static void before_launch(void)
{
	int device;

	for (int i = 0; i < 4; i++)
		MUST(cudaGetDevice(&device));
	think_us(3);
	job.launches++;
}

static void launch(void (*kernel)(void), unsigned blocks, unsigned threads, unsigned shared_bytes)
{
	void *params[1] = {&blocks};

	before_launch();
	MUST(cudaLaunchKernel((const void *)kernel, (dim3){blocks, 1, 1}, (dim3){threads, 1, 1},
			      params, shared_bytes, job.compute));
	MUST(cudaGetLastError());
}

static void launch_clusters(void (*kernel)(void), unsigned blocks, unsigned heads)
{
	void *params[1] = {&blocks};
	cudaLaunchConfig_t config = {.gridDim = {blocks, heads, 1},
				     .blockDim = {128, 1, 1},
				     .dynamicSmemBytes = 164 << 10,
				     .stream = job.compute};

	before_launch();
	MUST(cudaLaunchKernelExC(&config, (const void *)kernel, params));
}

/* Matrix products go past the runtime. */
static void multiply(void (*kernel)(void), unsigned m, unsigned n)
{
	void *params[1] = {&m};

	before_launch();
	MUST(cuLaunchKernel((CUfunction)kernel, m / 128, n / 128, 1, 384, 1, 1, 196 << 10,
			    job.compute, params, NULL));
}

/* --- a step --- */

static void forward(unsigned layer)
{
	MUST(cudaMallocAsync(&job.activations[layer], (8 + layer % 5) * MIB, job.compute));
	launch(layer_norm_forward, 2048 + layer, 256, 4096);
	multiply(gemm_bf16_128x256, 4096, 3072);
	launch_clusters(flash_attention_forward, 64, 16);
	multiply(gemm_bf16_128x256, 4096, 1024);
	launch(softmax_dropout, 4096, 128, 0);
	multiply(gemm_bf16_256x128, 4096, 4096);
	launch(gelu_forward, 8192 + layer * 16, 256, 0);
	multiply(gemm_bf16_256x128, 4096, 1024);
}

static void backward(unsigned layer)
{
	for (unsigned i = 0; i < 4; i++) {
		multiply(gemm_bf16_128x256, 4096, 1024 * (i + 1));
		multiply(gemm_bf16_256x128, 1024 * (i + 1), 4096);
	}
	launch(gelu_backward, 8192, 256, 0);
	launch_clusters(flash_attention_backward, 64, 16);
	launch(layer_norm_backward, 2048 + layer, 256, 8192);
	launch(softmax_dropout, 4096, 128, 0);
	MUST(cudaFreeAsync(job.activations[layer], job.compute));
}

static void optimize(void)
{
	MUST(cudaStreamWaitEvent(job.compute, job.reduced, 0));
	for (unsigned i = 0; i < N_BUCKETS; i++)
		launch(adamw_multi_tensor, 320 + i, 512, 0);
	for (unsigned i = 0; i < N_BUCKETS; i++)
		MUST(cudaMemsetAsync(job.buckets[i], 0, BUCKET_ELEMENTS * 2, job.compute));
}

/* A workspace of a size that never fits is asked for; after the refusal a smaller one is taken. */
static void run_out_of_memory(void)
{
	void *workspace = NULL;
	size_t bytes = 1024ull << 30;

	while (cudaMallocAsync(&workspace, bytes, job.compute) == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		bytes /= 256;
	}
	MUST(cudaFreeAsync(workspace, job.compute));
}

static void go_wrong(unsigned step)
{
	void *forgotten;

	if (step % STEPS_TO_OOM == STEPS_TO_OOM - 1)
		run_out_of_memory();
	if (step % STEPS_TO_MISTAKE == STEPS_TO_MISTAKE - 1) {
		if (cudaMemcpyAsync(NULL, job.host_loss, 64, cudaMemcpyHostToDevice, job.compute) !=
		    cudaErrorInvalidValue)
			die("a copy to nowhere succeeded");
		cudaGetLastError();
	}
	if (step % STEPS_TO_LEAK == STEPS_TO_LEAK - 1)
		MUST(cudaMalloc(&forgotten, 3 * MIB));
	if (step % STEPS_TO_SAVE == STEPS_TO_SAVE - 1)
		MUST(cudaMemcpy(job.save_room, job.weights[0], 64 * MIB, cudaMemcpyDeviceToHost));
}

static void train_step(unsigned step)
{
	struct slot *slot = &job.slots[step % N_SLOTS];

	sem_wait(&slot->full);
	MUST(cudaStreamWaitEvent(job.compute, slot->copied, 0));
	for (unsigned l = 0; l < opt.layers; l++)
		forward(l);
	launch(cross_entropy, 4096, 256, 0);
	for (unsigned l = opt.layers, bucket = 0; l-- > 0;) {
		backward(l);
		if (l * N_BUCKETS / opt.layers == N_BUCKETS - 1 - bucket &&
		    (l == 0 || (l - 1) * N_BUCKETS / opt.layers != N_BUCKETS - 1 - bucket)) {
			MUST(cudaEventRecord(job.gradients[bucket++], job.compute));
			sem_post(&job.bucket_ready);
		}
	}
	sem_wait(&job.all_reduced);
	optimize();
	MUST(cudaMemcpyAsync(job.host_loss, job.device_loss, 4, cudaMemcpyDeviceToHost,
			     job.compute));
	MUST(cudaEventRecord(job.step_done, job.compute));
	while (cudaEventQuery(job.step_done) == cudaErrorNotReady) {
		cudaGetLastError();
		think_us(20);
	}
	MUST(cudaStreamSynchronize(job.compute));
	sem_post(&slot->free);
	go_wrong(step);
}

/* --- the other threads --- */

static void *load(void *unused)
{
	pthread_setname_np(pthread_self(), "loader");
	MUST(cudaSetDevice(opt.rank % 8));
	for (unsigned step = 0; step < opt.steps; step++) {
		struct slot *slot = &job.slots[step % N_SLOTS];

		sem_wait(&slot->free);
		if (opt.rank == 1 && step % STEPS_TO_STALL == STEPS_TO_STALL - 1)
			usleep(60000); /* the disk is slow */
		MUST(cudaMemcpyAsync(slot->device, slot->host, BATCH_BYTES, cudaMemcpyHostToDevice,
				     job.copy));
		MUST(cudaEventRecord(slot->copied, job.copy));
		sem_post(&slot->full);
	}
	return NULL;
}

static void *reduce(void *unused)
{
	pthread_setname_np(pthread_self(), "reducer");
	MUST(cudaSetDevice(opt.rank % 8));
	for (unsigned step = 0; step < opt.steps; step++) {
		for (unsigned i = 0; i < N_BUCKETS; i++) {
			char *at = job.buckets[i];

			sem_wait(&job.bucket_ready);
			MUST(cudaStreamWaitEvent(job.reduce, job.gradients[i], 0));
			MUST(ncclGroupStart());
			for (unsigned k = 0; k < 2; k++, at += BUCKET_ELEMENTS)
				MUST(ncclAllReduce(at, at, BUCKET_ELEMENTS / 2, ncclBfloat16,
						   ncclAvg, job.comm, job.reduce));
			MUST(ncclGroupEnd());
		}
		MUST(cudaEventRecord(job.reduced, job.reduce));
		sem_post(&job.all_reduced);
	}
	return NULL;
}

/* --- a rank --- */

/* Rank 0 makes the id of the communicator and tells the others. */
static ncclUniqueId share_id(void)
{
	ncclUniqueId id;

	if (opt.rank == 0) {
		MUST(ncclGetUniqueId(&id));
		for (unsigned i = 1; i < opt.ranks; i++)
			if (write(opt.id_fd, &id, sizeof(id)) != sizeof(id))
				die("cannot tell the communicator's id");
	} else if (read(opt.id_fd, &id, sizeof(id)) != sizeof(id)) {
		die("cannot learn the communicator's id");
	}
	close(opt.id_fd);
	return id;
}

static void set_up(void)
{
	ncclConfig_t config = {
		.size = sizeof(config), .magic = NCCL_CONFIG_MAGIC, .version = NCCL_VERSION_CODE};
	ncclUniqueId id = share_id();
	size_t free_bytes, total_bytes;

	MUST(cudaSetDevice(opt.rank % 8));
	MUST(cudaMemGetInfo(&free_bytes, &total_bytes));
	MUST(cudaStreamCreateWithFlags(&job.compute, 1));
	MUST(cudaStreamCreateWithFlags(&job.copy, 1));
	MUST(cudaStreamCreateWithPriority(&job.reduce, 1, -5));
	MUST(cudaEventCreateWithFlags(&job.step_done, 2));
	MUST(cudaEventCreateWithFlags(&job.reduced, 2));
	for (unsigned i = 0; i < opt.layers; i++)
		MUST(cudaMalloc(&job.weights[i], 64 * MIB));
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		MUST(cudaMalloc(&job.buckets[i], BUCKET_ELEMENTS * 2));
		MUST(cudaEventCreateWithFlags(&job.gradients[i], 2));
	}
	for (unsigned i = 0; i < N_SLOTS; i++) {
		struct slot *slot = &job.slots[i];

		MUST(cudaHostAlloc(&slot->host, BATCH_BYTES, 0));
		MUST(cudaMalloc(&slot->device, BATCH_BYTES));
		MUST(cudaEventCreateWithFlags(&slot->copied, 2));
		sem_init(&slot->free, 0, 1);
		sem_init(&slot->full, 0, 0);
	}
	MUST(cudaHostAlloc(&job.host_loss, 64, 0));
	MUST(cudaHostAlloc(&job.save_room, 64 * MIB, 0));
	MUST(cudaMalloc(&job.device_loss, 64));
	sem_init(&job.bucket_ready, 0, 0);
	sem_init(&job.all_reduced, 0, 0);
	MUST(ncclCommInitRankConfig(&job.comm, (int)opt.ranks, id, opt.rank, &config));
	for (unsigned i = 0; i < opt.layers; i++)
		MUST(ncclBroadcast(job.weights[i], job.weights[i], 32 * MIB, ncclBfloat16, 0,
				   job.comm, job.reduce));
}

static void tear_down(void)
{
	MUST(cudaDeviceSynchronize());
	MUST(ncclCommDestroy(job.comm));
	for (unsigned i = 0; i < opt.layers; i++)
		MUST(cudaFree(job.weights[i]));
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		MUST(cudaFree(job.buckets[i]));
		MUST(cudaEventDestroy(job.gradients[i]));
	}
	for (unsigned i = 0; i < N_SLOTS; i++) {
		MUST(cudaFreeHost(job.slots[i].host));
		MUST(cudaFree(job.slots[i].device));
		MUST(cudaEventDestroy(job.slots[i].copied));
	}
	MUST(cudaFreeHost(job.host_loss));
	MUST(cudaFreeHost(job.save_room));
	MUST(cudaFree(job.device_loss));
	MUST(cudaEventDestroy(job.step_done));
	MUST(cudaEventDestroy(job.reduced));
	MUST(cudaStreamDestroy(job.compute));
	MUST(cudaStreamDestroy(job.copy));
	MUST(cudaStreamDestroy(job.reduce));
}

static int run_rank(void)
{
	pthread_t loader, reducer;
	uint64_t start_ns;
	double seconds;

	set_up();
	start_ns = now_ns();
	if (pthread_create(&loader, NULL, load, NULL) ||
	    pthread_create(&reducer, NULL, reduce, NULL))
		die("cannot start a thread");
	for (unsigned step = 0; step < opt.steps; step++)
		train_step(step);
	pthread_join(loader, NULL);
	pthread_join(reducer, NULL);
	seconds = (double)(now_ns() - start_ns) / 1e9;
	tear_down();
	printf("rank %d: %u steps in %.2f s, %.1f steps/s, %.0f launches/s\n", opt.rank, opt.steps,
	       seconds, opt.steps / seconds, (double)job.launches / seconds);
	return 0;
}

/* --- the launcher --- */

static void set_number(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

static pid_t start_rank(const char *self, unsigned rank, const int pipe_fds[2])
{
	char numbers[5][16];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* Ranks of a run that was killed train on for nobody. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(pipe_fds[rank != 0]);
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
	set_number("WORLD_SIZE", opt.ranks);
	snprintf(numbers[0], sizeof(numbers[0]), "%u", rank);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", pipe_fds[rank == 0]);
	snprintf(numbers[2], sizeof(numbers[2]), "%u", opt.steps);
	snprintf(numbers[3], sizeof(numbers[3]), "%u", opt.ranks);
	snprintf(numbers[4], sizeof(numbers[4]), "%u", opt.layers);
	execl(self, "demo_train", "--rank", numbers[0], "--id-fd", numbers[1], "--steps",
	      numbers[2], "--ranks", numbers[3], "--layers", numbers[4], (char *)NULL);
	die("cannot start a rank: %s", strerror(errno));
}

static int run_ranks(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	uint64_t start_ns = now_ns();
	int pipe_fds[2], bad = 0;

	if (n < 0 || pipe(pipe_fds) != 0)
		die("cannot start ranks: %s", strerror(errno));
	self[n] = '\0';
	/* As long as on a real machine, unless the caller wants otherwise. */
	setenv("FAKE_CUDA_PACE", "1", 0);
	setenv("FAKE_CUDA_SYNC_US", "8500", 0);
	for (unsigned rank = 0; rank < opt.ranks; rank++)
		if (start_rank(self, rank, pipe_fds) < 0)
			die("cannot fork: %s", strerror(errno));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	for (unsigned rank = 0; rank < opt.ranks; rank++) {
		int status;

		if (wait(&status) < 0 || status != 0)
			bad = 1;
	}
	printf("demo_train: %u ranks, %u steps, %.1f steps/s%s\n", opt.ranks, opt.steps,
	       opt.steps / ((double)(now_ns() - start_ns) / 1e9), bad ? ", failed" : "");
	return bad;
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		die("'%s' is not a number from %u to %u", text, min, max);
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"steps", required_argument, NULL, 's'},  {"ranks", required_argument, NULL, 'n'},
		{"layers", required_argument, NULL, 'l'}, {"rank", required_argument, NULL, 'r'},
		{"id-fd", required_argument, NULL, 'i'},  {NULL, 0, NULL, 0},
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (c) {
		case 's':
			opt.steps = number(optarg, 1, 10000000);
			break;
		case 'n':
			opt.ranks = number(optarg, 1, RANK_MAX);
			break;
		case 'l':
			opt.layers = number(optarg, N_BUCKETS, LAYER_MAX);
			break;
		case 'r':
			opt.rank = (int)number(optarg, 0, RANK_MAX - 1);
			break;
		case 'i':
			opt.id_fd = (int)number(optarg, 0, 1 << 20);
			break;
		default:
			fprintf(stderr, "usage: demo_train [--steps N] [--ranks N] [--layers N]\n");
			return 2;
		}
	return opt.rank >= 0 ? run_rank() : run_ranks();
}
