/*
 * A program with operators: PATH of the stand-in for PyTorch ("-" it is linked), how many times. Each time: a span around
 * aten::outer, in which aten::inner.Tensor launches a kernel and the outer one launches two; one kernel is launched after all of
 * them. "threads": a span that begins in one thread ends in another. "fork": a child does the same. "killed": it is killed in the
 * midst of an operator.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct size {
	unsigned x, y, z;
};
int cudaLaunchKernel(const void *function, struct size grid, struct size block, void **arguments,
		     size_t shared, void *stream);

struct record {
	uint64_t words[8];
};
static void (*begin)(struct record *r, const char *name, const char *overload);
static void (*end)(struct record *r);

static void launch(void)
{
	const struct size one = {1, 1, 1};

	cudaLaunchKernel((void *)launch, one, one, NULL, 0, NULL);
}

static void run(int times)
{
	for (int i = 0; i < times; i++) {
		struct record span, outer, inner;

		begin(&span, "my span", NULL);
		begin(&outer, "aten::outer", "");
		launch();
		begin(&inner, "aten::inner", "Tensor");
		launch();
		end(&inner);
		launch();
		end(&outer);
		end(&span);
		launch();
	}
}

static void *end_it(void *record)
{
	end(record);
	return NULL;
}

static void run_threads(int times)
{
	for (int i = 0; i < times; i++) {
		struct record *span = calloc(1, sizeof(*span));
		struct record op;
		pthread_t thread;

		begin(span, "ends elsewhere", NULL);
		pthread_create(&thread, NULL, end_it, span);
		pthread_join(thread, NULL);
		begin(&op, "aten::after", "");
		end(&op);
		free(span);
	}
}

int main(int argc, char **argv)
{
	int times = atoi(argv[2]);
	const char *how = argc > 3 ? argv[3] : "";
	void *torch = dlopen(strcmp(argv[1], "-") == 0 ? NULL : argv[1], RTLD_NOW | RTLD_LOCAL);

	*(void **)&begin = torch ? dlsym(torch, "observe_operator") : NULL;
	*(void **)&end = torch ? dlsym(torch, "_ZN2at14RecordFunction3endEv") : NULL;
	if (!begin || !end) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (strcmp(how, "threads") == 0)
		run_threads(times);
	else
		run(times);
	if (strcmp(how, "fork") == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			run(2 * times);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	if (strcmp(how, "killed") == 0) {
		struct record span, op;

		begin(&span, "my span", NULL);
		begin(&op, "aten::hangs", "");
		kill(getpid(), SIGKILL);
	}
	return 0;
}
