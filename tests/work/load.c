/*
 * Programs of a known amount of work, one by name:
 *
 *   calls N        N getppid, N / 2 failing open, N / 4 reads of 100 bytes of /dev/zero
 *   ppid N         N getppid, the least that a call can be
 *   int80 N        N getppid by the 32-bit door of the kernel
 *   uring N        N operations that do nothing, N / 2 writes of 100 bytes
 *   burn S         one thread computes for S seconds
 *   nap S          sleeps by nanosleep, poll of nothing, select of nothing: a third each
 *   pingpong N     two processes, a byte through two pipes N times
 *   lock S         a second thread waits for a mutex that is held for S seconds; says how long it did
 *   locks S        the same twice, first for a moment; the second time when it is released
 *   release PID    lets that program go on, and ends when it has ended
 *   direct FILE    reads FILE past the page cache
 *   cached FILE    reads FILE through it, twice
 *   sync FILE N    N writes of 64 KiB past the page cache that end on the medium, then N fdatasync
 *   aio FILE N W   N times 64 operations of 4 KiB by libaio past the page cache; W: writes
 *   mmsg N         N times 100 messages by one sendmmsg and one recvmmsg, over loopback
 *   tcp N          N times 1000 bytes over loopback, to a child that waits S = 0.3 seconds first
 *   refused        a connection that nobody takes
 *   tree N         N children one after the other, each with two threads, each of 10 getppid
 *   tty S          polls a pseudo terminal for S seconds
 *   rate N S       N getppid a second for S seconds (N = 0: as fast as it can); prints how many
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(double s)
{
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

	nanosleep(&t, NULL);
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int calls(long n)
{
	int zero = open("/dev/zero", O_RDONLY);
	char buf[100];

	for (long i = 0; i < n; i++)
		syscall(SYS_getppid);
	for (long i = 0; i < n / 2; i++)
		syscall(SYS_open, "/nowhere/at/all", O_RDONLY);
	for (long i = 0; i < n / 4; i++) {
		if (read(zero, buf, sizeof(buf)) != sizeof(buf))
			die("read");
	}
	return 0;
}

static int ppid(long n)
{
	for (long i = 0; i < n; i++)
		syscall(SYS_getppid);
	return 0;
}

static int int80(long n)
{
	for (long i = 0; i < n; i++) {
		long r = 64; /* getppid, asm/unistd_32.h */

		__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
		if (r < 0)
			return 77; /* no 32-bit door in this kernel */
	}
	return 0;
}

static int uring(long n)
{
	struct io_uring_params p = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 8, &p);
	int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	static char bytes[100];
	struct io_uring_sqe *sqes;
	unsigned *tail, *head, *ctail, *mask, *array;
	uint8_t *sq;

	if (fd < 0)
		return 77;
	if (file < 0)
		die("file");
	sq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQES);
	if (sq == MAP_FAILED || sqes == MAP_FAILED || !(p.features & IORING_FEAT_SINGLE_MMAP))
		return 77;
	tail = (unsigned *)(sq + p.sq_off.tail);
	mask = (unsigned *)(sq + p.sq_off.ring_mask);
	array = (unsigned *)(sq + p.sq_off.array);
	head = (unsigned *)(sq + p.cq_off.head);
	ctail = (unsigned *)(sq + p.cq_off.tail);
	for (long i = 0; i < n + n / 2; i++) {
		unsigned at = *tail & *mask;

		memset(&sqes[at], 0, sizeof(sqes[at]));
		sqes[at].opcode = i < n ? IORING_OP_NOP : IORING_OP_WRITE;
		if (i >= n) {
			sqes[at].fd = file;
			sqes[at].addr = (uintptr_t)bytes;
			sqes[at].len = sizeof(bytes);
		}
		array[at] = at;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
			die("io_uring_enter");
		__atomic_store_n(head, __atomic_load_n(ctail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	}
	return 0;
}

static int burn(double s)
{
	double end = now() + s;
	volatile uint64_t x = 0;

	while (now() < end) {
		for (int i = 0; i < 100000; i++)
			x += (uint64_t)i * x;
	}
	fprintf(stderr, "%.9f\n", (double)clock() / CLOCKS_PER_SEC);
	return 0;
}

static int naps(double s)
{
	struct timeval t = {0, (suseconds_t)(s / 3 * 1e6)};

	nap(s / 3);
	poll(NULL, 0, (int)(s / 3 * 1000));
	select(0, NULL, NULL, NULL, &t);
	return 0;
}

static int pingpong(long n)
{
	int to[2], back[2];
	char c = 0;

	if (pipe(to) < 0 || pipe(back) < 0)
		die("pipe");
	if (fork() == 0) {
		for (long i = 0; i < n; i++) {
			if (read(to[0], &c, 1) != 1 || write(back[1], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (long i = 0; i < n; i++) {
		if (write(to[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			die("pipe");
	}
	wait(NULL);
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static atomic_bool is_waiting;

static void *wait_for_mutex(void *none)
{
	double begin = now();

	is_waiting = true;
	pthread_mutex_lock(&mutex);
	fprintf(stderr, "%.9f\n", now() - begin);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static int lock(double s)
{
	pthread_t t;
	double begin;

	is_waiting = false;
	pthread_mutex_lock(&mutex);
	pthread_create(&t, NULL, wait_for_mutex, NULL);
	while (!is_waiting)
		sched_yield();
	nap(s);
	pthread_mutex_unlock(&mutex);
	begin = now();
	/* Waits as long as the other thread still waits for a processor, by the same system call. */
	pthread_join(t, NULL);
	fprintf(stderr, "%.9f\n", now() - begin);
	return 0;
}

static int lock_twice(double s)
{
	sigset_t go;
	int signal;

	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	/* Once before: later no page and no file of it is new, whose coming is a wait in the kernel. */
	lock(0.01);
	puts("ready");
	fflush(stdout);
	sigwait(&go, &signal);
	return lock(s);
}

static int release(pid_t pid)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	if (end.fd < 0 || kill(pid, SIGUSR1) < 0)
		die("release");
	return poll(&end, 1, -1) == 1 ? 0 : 1;
}

static int read_file(const char *path, int flags)
{
	int fd = open(path, O_RDONLY | flags);
	void *buf;
	ssize_t n;

	if (fd < 0)
		die(path);
	if (posix_memalign(&buf, 4096, 1 << 16))
		die("memory");
	while ((n = read(fd, buf, 1 << 16)) > 0)
		;
	if (n < 0)
		die("read");
	close(fd);
	return 0;
}

static int sync_writes(const char *path, long n)
{
	int fd = open(path, O_WRONLY | O_DIRECT | O_DSYNC);
	void *buf;

	if (fd < 0)
		die(path);
	if (posix_memalign(&buf, 4096, 1 << 16))
		die("memory");
	memset(buf, 1, 1 << 16);
	/* Over and over the same place: after the first time no metadata changes. */
	for (long i = 0; i < n; i++) {
		if (pwrite(fd, buf, 1 << 16, 0) != 1 << 16)
			die("pwrite");
	}
	for (long i = 0; i < n; i++) {
		if (fdatasync(fd) < 0)
			die("fdatasync");
	}
	close(fd);
	return 0;
}

static int aio(const char *path, long n, bool write)
{
	enum { DEPTH = 64, BLOCK = 4096 };
	int fd = open(path, O_RDWR | O_DIRECT);
	struct iocb blocks[DEPTH] = {0}, *list[DEPTH];
	struct io_event events[DEPTH];
	aio_context_t ring = 0;
	void *buf;

	if (fd < 0)
		die(path);
	if (posix_memalign(&buf, BLOCK, BLOCK) || syscall(SYS_io_setup, DEPTH, &ring) < 0)
		return 77;
	memset(buf, 2, BLOCK);
	for (long i = 0; i < n; i++) {
		long done = 0;

		for (long j = 0; j < DEPTH; j++) {
			blocks[j] = (struct iocb){
				.aio_fildes = (uint32_t)fd,
				.aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
				.aio_buf = (uintptr_t)buf,
				.aio_nbytes = BLOCK,
				.aio_offset = (i + 7 * j) % DEPTH * 2 * BLOCK,
			};
			list[j] = &blocks[j];
		}
		if (syscall(SYS_io_submit, ring, DEPTH, list) != DEPTH)
			die("io_submit");
		while (done < DEPTH) {
			long r = syscall(SYS_io_getevents, ring, DEPTH, DEPTH, events, NULL);

			if (r < 1)
				die("io_getevents");
			done += r;
		}
	}
	close(fd);
	return 0;
}

static int tcp(long n)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), s;
	char buf[1000] = "";

	if (bind(l, (void *)&a, len) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (void *)&a, &len) < 0)
		die("listen");
	if (fork() == 0) {
		s = accept(l, NULL, NULL);
		nap(0.3);
		for (long i = 0; i < n; i++) {
			if (send(s, buf, sizeof(buf), 0) != sizeof(buf))
				_exit(1);
		}
		_exit(0);
	}
	close(l);
	s = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(s, (void *)&a, sizeof(a)) < 0)
		die("connect");
	for (long left = n * 1000; left > 0;) {
		ssize_t got = recv(s, buf, sizeof(buf), 0);

		if (got <= 0)
			die("recv");
		left -= got;
	}
	if (write(s, buf, 1) != 1)
		perror("write");
	wait(NULL);
	return 0;
}

static int refused(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	a.sin_port = htons(1);
	return connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof(a)) == 0;
}

static void *ten_calls(void *none)
{
	for (int i = 0; i < 10; i++)
		syscall(SYS_getppid);
	return NULL;
}

static int tree(long n)
{
	for (long i = 0; i < n; i++) {
		if (fork() == 0) {
			pthread_t t[2];

			for (int j = 0; j < 2; j++)
				pthread_create(&t[j], NULL, ten_calls, NULL);
			for (int j = 0; j < 2; j++)
				pthread_join(t[j], NULL);
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}

static int tty(double s)
{
	int m = posix_openpt(O_RDWR | O_NOCTTY), fd;
	struct pollfd p = {.events = POLLIN};

	if (m < 0 || grantpt(m) < 0 || unlockpt(m) < 0)
		return 77;
	fd = open(ptsname(m), O_RDWR | O_NOCTTY);
	if (fd < 0)
		return 77;
	p.fd = fd;
	poll(&p, 1, (int)(s * 1000));
	return 0;
}

static int rate(double per_s, double s)
{
	double begin = now(), end = begin + s;
	uint64_t n = 0;

	while (now() < end) {
		for (int i = 0; i < 1000; i++)
			syscall(SYS_getppid);
		n += 1000;
		/* Waits by computing: the processor is to be busy, as a job's is. */
		while (per_s > 0 && now() < begin + (double)n / per_s && now() < end)
			;
	}
	printf("%.0f\n", (double)n / (now() - begin));
	return 0;
}

/* Message j of a hundred has 1 + j bytes: 5050 in all. */
static int many_messages(long n)
{
	enum { MESSAGES = 100 };
	struct mmsghdr out[MESSAGES] = {0}, in[MESSAGES] = {0};
	struct iovec from[MESSAGES], to[MESSAGES];
	char buf[MESSAGES] = {0}, got[MESSAGES][MESSAGES];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (void *)&a, bytes) || getsockname(fd, (void *)&a, &bytes) ||
	    connect(fd, (void *)&a, bytes))
		die("socket");
	for (int j = 0; j < MESSAGES; j++) {
		from[j] = (struct iovec){buf, (size_t)j + 1};
		to[j] = (struct iovec){got[j], MESSAGES};
		out[j].msg_hdr = (struct msghdr){.msg_iov = &from[j], .msg_iovlen = 1};
		in[j].msg_hdr = (struct msghdr){.msg_iov = &to[j], .msg_iovlen = 1};
	}
	for (long i = 0; i < n; i++) {
		if (sendmmsg(fd, out, MESSAGES, 0) != MESSAGES)
			die("sendmmsg");
		if (recvmmsg(fd, in, MESSAGES, 0, NULL) != MESSAGES)
			die("recvmmsg");
	}
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "0";

	if (!strcmp(what, "calls"))
		return calls(atol(arg));
	if (!strcmp(what, "ppid"))
		return ppid(atol(arg));
	if (!strcmp(what, "int80"))
		return int80(atol(arg));
	if (!strcmp(what, "uring"))
		return uring(atol(arg));
	if (!strcmp(what, "burn"))
		return burn(atof(arg));
	if (!strcmp(what, "nap"))
		return naps(atof(arg));
	if (!strcmp(what, "pingpong"))
		return pingpong(atol(arg));
	if (!strcmp(what, "lock"))
		return lock(atof(arg));
	if (!strcmp(what, "locks"))
		return lock_twice(atof(arg));
	if (!strcmp(what, "release"))
		return release((pid_t)atol(arg));
	if (!strcmp(what, "direct"))
		return read_file(arg, O_DIRECT);
	if (!strcmp(what, "cached"))
		return read_file(arg, 0) || read_file(arg, 0);
	if (!strcmp(what, "aio"))
		return aio(arg, argc > 3 ? atol(argv[3]) : 1, argc > 4);
	if (!strcmp(what, "sync"))
		return sync_writes(arg, argc > 3 ? atol(argv[3]) : 1);
	if (!strcmp(what, "mmsg"))
		return many_messages(atol(arg));
	if (!strcmp(what, "tcp"))
		return tcp(atol(arg));
	if (!strcmp(what, "refused"))
		return refused();
	if (!strcmp(what, "tree"))
		return tree(atol(arg));
	if (!strcmp(what, "tty"))
		return tty(atof(arg));
	if (!strcmp(what, "rate"))
		return rate(atof(arg), argc > 3 ? atof(argv[3]) : 1);
	fprintf(stderr, "work_load: no such work\n");
	return 2;
}
