/*
 * Requests and answers over one connection: of TCP on loopback, or a pair of Unix sockets. One thread has both ends, so that
 * nothing waits and its processor time is all that a request costs.
 *
 * usage: traffic_load tcp|unix REQUESTS     prints the port, waits for a line, then processor time of a request in ns
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST 200
#define ANSWER  1000

static int fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_tcp(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &n))
		fail("listen");
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	if (getchar() == EOF)
		exit(0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd[0], (struct sockaddr *)&a, sizeof(a)))
		fail("connect");
	fd[1] = accept(listener, NULL, NULL);
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void pass_bytes(int from, int to, size_t bytes)
{
	static char data[ANSWER];

	if (send(from, data, bytes, 0) != (ssize_t)bytes ||
	    recv(to, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("a request");
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	long n = argc == 3 ? atol(argv[2]) : 0;
	int fd[2];

	if (n < 1) {
		fprintf(stderr, "usage: traffic_load tcp|unix REQUESTS\n");
		return 2;
	}
	if (strcmp(argv[1], "tcp") == 0) {
		open_tcp(fd);
	} else {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
			fail("socketpair");
		printf("0\n");
		fflush(stdout);
		if (getchar() == EOF)
			return 0;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (long i = 0; i < n; i++) {
		pass_bytes(fd[0], fd[1], REQUEST);
		pass_bytes(fd[1], fd[0], ANSWER);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("%.1f\n",
	       ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
		       (double)n);
	return 0;
}
