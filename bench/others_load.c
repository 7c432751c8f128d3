/*
 * others_load LOAD: reads a number of operations from each line of its input, makes so many, and
 * prints the processor time that they took it and its children, in ns. LOAD is dd (read a byte,
 * write a byte), pipe (two threads wake each other by pipes), pread, socket (two threads and a
 * socket pair), or fork (with exit and wait). bench/others.py asks for short runs in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int there[2], back[2]; /* to the second thread and from it */
static int zero = -1, null = -1;

static void die(const char *what)
{
	fprintf(stderr, "others_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *answer(void *ctx)
{
	char c;

	while (read(there[0], &c, 1) == 1)
		if (write(back[1], &c, 1) != 1)
			die("write");
	return ctx;
}

static void start_answering(void)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, answer, NULL);
	if (errno)
		die("pthread_create");
}

static void open_pipe(void)
{
	if (pipe(there) < 0 || pipe(back) < 0)
		die("pipe");
	start_answering();
}

static void open_socket(void)
{
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		die("socketpair");
	there[1] = back[0] = s[0];
	there[0] = back[1] = s[1];
	start_answering();
}

static void open_files(void)
{
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (zero < 0 || null < 0)
		die("open");
}

static void open_exe(void)
{
	zero = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (zero < 0)
		die("open");
}

static void open_nothing(void)
{
}

static void turn_dd(void)
{
	char c;

	if (read(zero, &c, 1) != 1 || write(null, &c, 1) != 1)
		die("dd");
}

static void turn_pread(void)
{
	char block[4096];

	if (pread(zero, block, sizeof(block), 0) != (ssize_t)sizeof(block))
		die("pread");
}

static void turn_there_and_back(void)
{
	char c = 0;

	if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
		die("there and back");
}

static void turn_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		die("fork");
}

static const struct {
	const char *name;
	void (*open)(void);
	void (*turn)(void);
} loads[] = {
	{"dd", open_files, turn_dd},       {"pipe", open_pipe, turn_there_and_back},
	{"pread", open_exe, turn_pread},   {"socket", open_socket, turn_there_and_back},
	{"fork", open_nothing, turn_fork},
};

static uint64_t used_ns(void)
{
	static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
	uint64_t us = 0;

	for (int i = 0; i < 2; i++) {
		struct rusage u;

		if (getrusage(whose[i], &u) < 0)
			die("getrusage");
		us += (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
		      (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	}
	return us * 1000;
}

int main(int argc, char **argv)
{
	char line[64];

	for (size_t i = 0; argc == 2 && i < sizeof(loads) / sizeof(*loads); i++) {
		if (strcmp(argv[1], loads[i].name) != 0)
			continue;
		loads[i].open();
		printf("ready\n");
		fflush(stdout);
		while (fgets(line, sizeof(line), stdin)) {
			unsigned long n = strtoul(line, NULL, 10);
			uint64_t before = used_ns();

			while (n--)
				loads[i].turn();
			printf("%llu\n", (unsigned long long)(used_ns() - before));
			fflush(stdout);
		}
		return 0;
	}
	fprintf(stderr, "others_load dd|pipe|pread|socket|fork\n");
	return 2;
}
