/*
 * Programs that are short of one thing by construction, until they are killed:
 *
 *   busy            one thread computes and never waits
 *   duty PERCENT    computes for that share of each 100 ms, by the clock, and sleeps the rest
 *   lock THREADS    threads that need one mutex for nearly all that they do
 *   timers THREADS  threads that wait on a condition each, 150 ms at a time; one more sleeps for good
 *   stream          one thread copies arrays larger than the caches
 *   direct FILE N   reads 4 KiB at random places past the page cache, beside N parked threads
 *   mix FILE        two threads compute, one reads as direct does
 *   poll            sleeps 1 ms, again and again
 *   select          waits in select for a client that never comes
 *   answer PORT MS  answers each request of 64 bytes after MS milliseconds
 *   ask PORT        sends a request of 64 bytes, waits for its answer, again and again
 *   sink PORT       reads 64 KiB every 50 ms of what it is sent
 *   push PORT       sends as much as the peer takes
 *   touch FILE      maps FILE and reads pages of it at random places
 *   hog MIB         children that fill so much memory, one after the other
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT */
#endif
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

static volatile double sink;
static const char *file;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sleep_s(double s)
{
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

	nanosleep(&t, NULL);
}

static void compute(long n)
{
	double x = 1;

	for (long i = 0; i < n; i++)
		x = x * 1.0000001 + 1e-9;
	sink = x;
}

static void compute_until(double end_s)
{
	while (now_s() < end_s)
		compute(2000);
}

static void *busy_thread(void *unused)
{
	(void)unused;
	for (;;)
		compute(1000000);
	return NULL;
}

static void *lock_thread(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&mutex);
		compute(200000);
		pthread_mutex_unlock(&mutex);
		compute(100);
	}
	return NULL;
}

static void *parked_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	return NULL;
}

static void *timer_thread(void *unused)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t work = PTHREAD_COND_INITIALIZER;
	struct timespec t;

	(void)unused;
	pthread_mutex_lock(&own);
	for (;;) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 150000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&work, &own, &t);
	}
	return NULL;
}

static void *direct_thread(void *unused)
{
	int fd = open(file, O_RDONLY | O_DIRECT);
	unsigned seed = (unsigned)getpid();
	struct stat st;
	void *block;

	(void)unused;
	if (fd < 0 || fstat(fd, &st) < 0 || posix_memalign(&block, BLOCK, BLOCK))
		fail(file);
	for (;;) {
		off_t at = (off_t)(rand_r(&seed) % (unsigned)(st.st_size / BLOCK)) * BLOCK;

		if (pread(fd, block, BLOCK, at) != BLOCK)
			fail("pread");
	}
	return NULL;
}

/* Computes on a piece of the file while the next one comes. */
static void run_ahead(void)
{
	const size_t bytes = 1u << 20;
	int fd = open(file, O_RDONLY);
	char *piece = malloc(bytes);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !piece)
		fail(file);
	for (off_t at = 0;; at = (at + (off_t)bytes) % (st.st_size - (off_t)bytes)) {
		double cpu_s = (double)clock() / CLOCKS_PER_SEC;

		posix_fadvise(fd, at, (off_t)bytes, POSIX_FADV_WILLNEED);
		while ((double)clock() / CLOCKS_PER_SEC < cpu_s + 0.02)
			compute(2000);
		if (pread(fd, piece, bytes, at) != (ssize_t)bytes)
			fail("pread");
		posix_fadvise(fd, at, (off_t)bytes, POSIX_FADV_DONTNEED);
	}
}

static void start_threads(long n, void *(*run)(void *))
{
	pthread_t thread;

	for (long i = 0; i < n; i++)
		if (pthread_create(&thread, NULL, run, NULL))
			fail("pthread_create");
}

static void run_duty(double percent)
{
	for (;;) {
		double begin_s = now_s();

		compute_until(begin_s + percent / 1000);
		sleep_s(begin_s + 0.1 - now_s() > 0 ? begin_s + 0.1 - now_s() : 0);
	}
}

static void run_stream(void)
{
	const size_t bytes = 64u << 20;
	char *a = malloc(bytes), *b = malloc(bytes);

	if (!a || !b)
		fail("malloc");
	memset(a, 1, bytes);
	for (;;) {
		memcpy(b, a, bytes);
		memcpy(a, b, bytes);
	}
}

static void run_touch(void)
{
	int fd = open(file, O_RDONLY);
	unsigned seed = 1;
	struct stat st;
	const char *at;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(file);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || madvise((void *)at, (size_t)st.st_size, MADV_RANDOM))
		fail("mmap");
	for (;;)
		sink = at[(size_t)(rand_r(&seed) % (unsigned)(st.st_size / BLOCK)) * BLOCK];
}

static void run_hog(size_t bytes)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			volatile char *at = malloc(bytes);

			for (size_t i = 0; at && i < bytes; i += BLOCK)
				at[i] = 1;
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) < 0)
			fail("fork");
	}
}

static int listen_at(const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				.sin_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, 4))
		fail("listen");
	return fd;
}

static int connect_to(const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				.sin_port = htons((uint16_t)atoi(port))};

	for (int i = 0; i < 600; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (void *)&a, sizeof(a)) == 0)
			return fd;
		close(fd);
		sleep_s(0.1);
	}
	fail("connect");
	return -1;
}

static void run_answer(const char *port, double ms)
{
	int fd = accept(listen_at(port), NULL, NULL);
	char text[64];

	while (recv(fd, text, sizeof(text), MSG_WAITALL) == sizeof(text)) {
		sleep_s(ms / 1000);
		if (send(fd, text, sizeof(text), 0) < 0)
			fail("send");
	}
}

static void run_ask(const char *port)
{
	int fd = connect_to(port);
	char text[64] = "";

	while (send(fd, text, sizeof(text), 0) == sizeof(text) &&
	       recv(fd, text, sizeof(text), MSG_WAITALL) == sizeof(text))
		;
}

static void run_sink(const char *port)
{
	int fd = accept(listen_at(port), NULL, NULL);
	static char text[65536];

	while (recv(fd, text, sizeof(text), 0) > 0)
		sleep_s(0.05);
}

static void run_push(const char *port)
{
	int fd = connect_to(port);
	static char text[65536];

	while (send(fd, text, sizeof(text), 0) > 0)
		;
}

static void run_select(void)
{
	int fd = listen_at("0");

	for (;;) {
		struct timeval second = {1, 0};
		fd_set set;

		FD_ZERO(&set);
		FD_SET(fd, &set);
		select(fd + 1, &set, NULL, NULL, &second);
	}
}

static void run_named(const char *what, const char *a, const char *b)
{
	long n = strtol(a, NULL, 10);

	file = a;
	if (strcmp(what, "busy") == 0)
		busy_thread(NULL);
	if (strcmp(what, "duty") == 0)
		run_duty(strtod(a, NULL));
	if (strcmp(what, "lock") == 0) {
		start_threads(n - 1, lock_thread);
		lock_thread(NULL);
	}
	if (strcmp(what, "timers") == 0) {
		start_threads(n, timer_thread);
		sleep_s(1e6);
	}
	if (strcmp(what, "stream") == 0)
		run_stream();
	if (strcmp(what, "direct") == 0) {
		start_threads(strtol(b, NULL, 10), parked_thread);
		direct_thread(NULL);
	}
	if (strcmp(what, "ahead") == 0)
		run_ahead();
	if (strcmp(what, "mix") == 0) {
		start_threads(2, busy_thread);
		direct_thread(NULL);
	}
	while (strcmp(what, "poll") == 0)
		sleep_s(0.001);
	if (strcmp(what, "select") == 0)
		run_select();
	if (strcmp(what, "answer") == 0)
		run_answer(a, strtod(b, NULL));
	if (strcmp(what, "ask") == 0)
		run_ask(a);
	if (strcmp(what, "sink") == 0)
		run_sink(a);
	if (strcmp(what, "push") == 0)
		run_push(a);
	if (strcmp(what, "touch") == 0)
		run_touch();
	if (strcmp(what, "hog") == 0)
		run_hog((size_t)n << 20);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	run_named(argv[1], argc > 2 ? argv[2] : "0", argc > 3 ? argv[3] : "0");
	return 2;
}
