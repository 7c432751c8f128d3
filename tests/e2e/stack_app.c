/*
 * Calls of the stand-in's functions from stacks of many shapes. At each the program says what
 * libgcc's unwinder sees there: a line of JSON with the file and the offset in it of each return
 * address. Compiled by stacks.py in many ways.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define EXPORT   __attribute__((visibility("default")))

#ifdef OWN_CUDA
/* A program that is linked statically brings the function along. */
EXPORT NOINLINE int cudaMalloc(void **p, size_t n)
{
	*p = malloc(n);
	__asm__ volatile("" ::"r"(p) : "memory");
	return 0;
}
#else
int cudaMalloc(void **p, size_t n);
#endif

static void tell(const char *tag)
{
	void *pc[256];
	int n = backtrace(pc, 256);
	char line[1024];
	FILE *maps;

	printf("{\"tag\": \"%s\", \"frames\": [", tag);
	for (int i = 1; i < n; i++) {
		unsigned long start, end, off, at = (unsigned long)pc[i];
		char path[512] = "";

		maps = fopen("/proc/self/maps", "r");
		while (fgets(line, sizeof(line), maps))
			if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %511s", &start, &end, &off,
				   path) >= 3 &&
			    start <= at && at < end)
				break;
		fclose(maps);
		printf("%s[\"%s\", %lu]", i > 1 ? ", " : "", path, at - start + off);
	}
	printf("]}\n");
	fflush(stdout);
}

/* The present function is told by its return address in both lists. */
EXPORT NOINLINE void leaf(const char *tag)
{
	void *p;

	tell(tag);
	cudaMalloc(&p, 64);
	__asm__ volatile("" ::"r"(p) : "memory");
}

EXPORT NOINLINE int deep(int n, const char *tag)
{
	volatile char pad[40];

	pad[0] = (char)n;
	if (n == 0)
		leaf(tag);
	else
		pad[1] = (char)deep(n - 1, tag);
	return pad[0];
}

static void on_signal(int number)
{
	leaf(number == SIGUSR1 ? "signal" : "altstack");
}

static int compare(const void *a, const void *b)
{
	static int done;

	if (!done++)
		leaf("callback");
	return *(const int *)a - *(const int *)b;
}

static void *in_thread(void *arg)
{
	deep(3, arg);
	return NULL;
}

/* A call that is traced too: its return address on the stack is the kernel's while it runs. */
EXPORT NOINLINE int cudaMemset(void *p, int v, size_t n)
{
	leaf("nested");
	__asm__ volatile("" ::"r"(p) : "memory");
	return 0;
}

EXPORT NOINLINE int through_memset(void)
{
	int r = cudaMemset(NULL, 0, 0);

	__asm__ volatile("" ::: "memory");
	return r + 1;
}

/* Moves the stack pointer by an amount that only the frame pointer remembers. */
EXPORT NOINLINE void with_alloca(int n)
{
	char *p = __builtin_alloca((size_t)n);

	memset(p, 0, (size_t)n);
	__asm__ volatile("" ::"r"(p) : "memory");
	leaf("alloca");
	__asm__ volatile("" ::"r"(p) : "memory");
}

static void in_library(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);
	void (*call)(void (*)(const char *), const char *);

	*(void **)&call = lib ? dlsym(lib, "library_entry") : NULL;
	if (!call) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	call(leaf, "library");
}

int main(int argc, char **argv)
{
	static char stack[1 << 16];
	struct sigaction on_stack = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};
	int numbers[5] = {3, 1, 2, 5, 4};
	pthread_t thread;

	usleep(100000);
	leaf("plain");
	usleep(200000); /* long enough for the first stack to be looked at */
	deep(10, "deep10");
	deep(60, "deep60");
	deep(300, "deep300");
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	sigaltstack(&alt, NULL);
	sigaction(SIGUSR2, &on_stack, NULL);
	raise(SIGUSR2);
	qsort(numbers, 5, sizeof(int), compare);
	with_alloca(777);
	through_memset();
	pthread_create(&thread, NULL, in_thread, "thread");
	pthread_join(thread, NULL);
	if (argc > 1)
		in_library(argv[1]);
	usleep(200000);
	return 0;
}
