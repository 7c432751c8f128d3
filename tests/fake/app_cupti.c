/*
 * A program whose GPU work CUPTI's stand-in tells of. Its arguments are what it does, in turn:
 *
 *   driver        as libcuda does within cuInit(): loads what CUDA_INJECTION64_PATH names
 *   kernels N     N kernels of three names on two streams, 1,000 + i ns each, with pauses of 1 us
 *   others        a copy, a fill, a graph, a wait
 *   wait MS
 *   until FILE    waits until the file is there
 *   profile N     as Kineto does: takes CUPTI for N kernels, and counts what it gets
 *   subscribe     to callbacks, and stays so
 *   fork N        N kernels in a child, which exits
 *   quit          _exit()
 *
 * It ends with a line of what it did: "kernels N ns SUM profiled GOT of N".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cupti_fake.h"

#define PROFILE_BYTES (1u << 16)

static const char *const names[] = {"_Z6kernelPfi", "_ZN2at6native18elementwise_kernelILi128EEEvi",
				    "ampere_sgemm_128x64_nn"};
static uint64_t n_kernels, kernel_ns, n_profiled, n_in_profile, n_foreign;

static void run_kernels(uint64_t n)
{
	uint64_t at = fake_cupti_now();

	for (uint64_t i = 0; i < n; i++) {
		at = fake_cupti_kernel(names[i % 3], 7 + (uint32_t)(i % 2), at, at + 1000 + i);
		at += 1000;
		n_kernels++;
		kernel_ns += 1000 + i;
	}
}

static void run_others(void)
{
	uint64_t at = fake_cupti_now();

	fake_cupti_copy(1, 7, 4096, at, at + 500);
	fake_cupti_fill(8192, 7, at + 600, at + 700);
	fake_cupti_graph(3, 8, at, at + 9000);
	fake_cupti_sync(3, at, at + 10000);
}

static void run_driver(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;

	if (path && (!begin || begin() != 1)) {
		fprintf(stderr, "%s: %s\n", path, begin ? "failed" : dlerror());
		exit(2);
	}
}

/* Kineto knows its buffers, and is not given others. */
static uint8_t *own[16];

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*buffer = calloc(1, PROFILE_BYTES);
	*size = PROFILE_BYTES;
	*max_records = 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!own[i]) {
			own[i] = *buffer;
			return;
		}
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint8_t *record = NULL;
	size_t i = 0;
	uint32_t kind;

	while (i < sizeof(own) / sizeof(own[0]) && own[i] != buffer)
		i++;
	if (i == sizeof(own) / sizeof(own[0])) {
		n_foreign++;
		return;
	}
	own[i] = NULL;
	while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
		memcpy(&kind, record, sizeof(kind));
		n_profiled += kind == 10;
	}
	free(buffer);
}

static void run_profiler(uint64_t n)
{
	cuptiActivityRegisterCallbacks(on_request, on_complete);
	cuptiActivityEnable(10);
	cuptiActivityEnable(5);
	run_kernels(n);
	n_in_profile += n;
	cuptiActivityDisable(10);
	cuptiActivityDisable(5);
	cuptiActivityFlushAll(1);
}

static void run_child(uint64_t n)
{
	pid_t child = fork();

	if (child == 0) {
		run_kernels(n);
		exit(0);
	}
	waitpid(child, NULL, 0);
}

static void report(void)
{
	printf("kernels %lu ns %lu profiled %lu of %lu foreign %lu\n", n_kernels, kernel_ns,
	       n_profiled, n_in_profile, n_foreign);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static void *subscriber;

	for (int i = 1; i < argc; i++) {
		const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "0";
		uint64_t n = strtoull(next, NULL, 10);

		i += strchr("kwupf", word[0]) != NULL;
		if (strcmp(word, "driver") == 0)
			run_driver();
		else if (strcmp(word, "kernels") == 0)
			run_kernels(n);
		else if (strcmp(word, "others") == 0)
			run_others();
		else if (strcmp(word, "wait") == 0)
			usleep((useconds_t)n * 1000);
		else if (strcmp(word, "until") == 0)
			while (access(next, F_OK) != 0)
				usleep(1000);
		else if (strcmp(word, "profile") == 0)
			run_profiler(n);
		else if (strcmp(word, "subscribe") == 0)
			cuptiSubscribe(&subscriber, (void *)run_others, NULL);
		else if (strcmp(word, "fork") == 0)
			run_child(n);
		else if (strcmp(word, "quit") == 0) {
			report();
			_exit(0);
		} else
			return 2;
	}
	report();
	return 0;
}
