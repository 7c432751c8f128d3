/* Peers that are broken, silent or evil: raw sockets against the server. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "grpc_pair.h"

static void on_hold(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx, (void)call, (void)data, (void)bytes;
}

static const struct gs_grpc_method methods[] = {
	{.path = "/t/Hold", .kind = GS_GRPC_STREAM, .message = on_hold},
};

#define OPTIONS .methods = methods, .n_methods = 1

/* Preface and empty SETTINGS. */
static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
#define HELLO_BYTES (sizeof(hello) - 1)

static int dial(const struct gs_grpc_server *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(gs_grpc_server_address(s, 0), ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Until the server closes; the type of the last frame it began, by a plain walk. */
static int last_frame(int fd)
{
	static uint8_t all[1 << 20];
	size_t n = 0;
	ssize_t got;
	int type = -1;

	while (n < sizeof(all) && (got = recv(fd, all + n, sizeof(all) - n, 0)) > 0)
		n += (size_t)got;
	for (size_t at = 0; at + 9 <= n;
	     at += 9 + ((size_t)all[at] << 16 | (size_t)all[at + 1] << 8 | all[at + 2]))
		type = all[at + 3];
	close(fd);
	return type;
}

static void put(int fd, const void *data, size_t bytes)
{
	/* It may close before we are done. */
	(void)!send(fd, data, bytes, MSG_NOSIGNAL);
}

static void silent(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .handshake_ns = 30 * MS};
	struct gs_grpc_server *s = start(&o);
	int nothing = dial(s), half = dial(s);

	(void)state;
	put(half, hello, 10);
	last_frame(nothing);
	last_frame(half);
	until(stats_of(s).connections_now == 0);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_SLOW], 2);
	gs_grpc_server_stop(&s, 0);
}

/* A peer that was there and is gone without a word: found out by PING. */
static void half_open(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .keepalive_ns = 20 * MS,
					   .keepalive_timeout_ns = 20 * MS};
	struct gs_grpc_server *s = start(&o);
	int fd = dial(s);

	(void)state;
	put(fd, hello, HELLO_BYTES);
	assert_int_equal(last_frame(fd), 6 /* PING */);
	until(stats_of(s).connections_now == 0);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_SILENT], 1);
	gs_grpc_server_stop(&s, 0);
}

static void idle(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .idle_ns = 30 * MS};
	struct gs_grpc_server *s = start(&o);
	int fd = dial(s);

	(void)state;
	put(fd, hello, HELLO_BYTES);
	assert_int_equal(last_frame(fd), 7 /* GOAWAY */);
	assert_int_equal(stats_of(s).idle_closed, 1);
	gs_grpc_server_stop(&s, 0);
}

static void garbage(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		enum gs_grpc_refusal why;
	} cases[] = {
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, GS_GRPC_REFUSED_HANDSHAKE},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, GS_GRPC_REFUSED_HANDSHAKE},
		/* SETTINGS of 5 bytes; DATA of stream 0; a frame of 16 MiB; HEADERS that are none
		 */
		{"\0\0\5\4\0\0\0\0\0abcde", 14, GS_GRPC_REFUSED_PROTOCOL},
		{"\0\0\1\0\0\0\0\0\0a", 10, GS_GRPC_REFUSED_PROTOCOL},
		{"\xff\xff\xff\0\0\0\0\0\1a", 10, GS_GRPC_REFUSED_PROTOCOL},
		{"\0\0\4\1\5\0\0\0\1\xff\xff\xff\xff", 13, GS_GRPC_REFUSED_PROTOCOL},
	};
	struct gs_grpc_server_options o = {OPTIONS};
	struct gs_grpc_server *s = start(&o);

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		uint64_t before = stats_of(s).refused[cases[i].why];
		int fd = dial(s);

		if (cases[i].why == GS_GRPC_REFUSED_PROTOCOL)
			put(fd, hello, HELLO_BYTES);
		put(fd, cases[i].bytes, cases[i].n);
		last_frame(fd);
		until(stats_of(s).connections_now == 0);
		assert_int_equal(stats_of(s).refused[cases[i].why], before + 1);
	}
	gs_grpc_server_stop(&s, 0);
}

/* Frames of one kind, many times: the connection is ended and counted as a flood, once. */
static void floods(void **state)
{
	static const struct {
		char frame[20];
		size_t bytes;
	} cases[] = {
		{"\0\0\x8\6\0\0\0\0\0abcdefgh", 17},  /* PING */
		{"\0\0\0\4\0\0\0\0\0", 9},            /* SETTINGS */
		{"\0\0\5\2\0\0\0\0\3\0\0\0\0\1", 14}, /* PRIORITY */
	};
	struct gs_grpc_server_options o = {OPTIONS, .min_ping_ns = UINT64_MAX};
	struct gs_grpc_server *s = start(&o);
	char many[17 * 300];

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		int fd = dial(s);

		put(fd, hello, HELLO_BYTES);
		for (size_t n = 0; n < 300; n++)
			memcpy(many + n * cases[i].bytes, cases[i].frame, cases[i].bytes);
		while (send(fd, many, 300 * cases[i].bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ||
		       errno == EAGAIN)
			if (stats_of(s).refused[GS_GRPC_REFUSED_FLOOD] > i)
				break;
		shutdown(fd, SHUT_WR);
		last_frame(fd);
		until(stats_of(s).connections_now == 0);
		assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_FLOOD], i + 1);
	}
	gs_grpc_server_stop(&s, 0);
}

/* PINGs without anything else, sooner than allowed. */
static void pings(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .min_ping_ns = 3600ULL * 1000000000};
	struct gs_grpc_server *s = start(&o);
	int fd = dial(s);
	char many[(GS_GRPC_PING_STRIKES + 2) * 17];

	(void)state;
	put(fd, hello, HELLO_BYTES);
	/* No byte may come after it has closed: that would take its last words away. */
	for (size_t at = 0; at < sizeof(many); at += 17)
		memcpy(many + at, "\0\0\x8\6\0\0\0\0\0abcdefgh", 17);
	put(fd, many, sizeof(many));
	assert_int_equal(last_frame(fd), 7 /* GOAWAY */);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_FLOOD], 1);
	gs_grpc_server_stop(&s, 0);
}

static void any_ended(void *ctx, struct gs_grpc_request *r, enum gs_grpc_status status,
		      const char *text)
{
	(void)r, (void)status, (void)text;
	*(bool *)ctx = true;
}

#define ENTRY_BYTES 3900
#define BLOCK_BYTES 16384

/* A block that puts one long header into HPACK's table and then refers to it with each byte: some
 * 12,000 times 3,900 bytes of headers in 16 KiB. */
static void bomb_block(uint8_t *block, uint32_t stream, char last_of_value)
{
	static const char head[] = "\x83\x86\x04\x1a/t/Hold/of/some/other/kind\x40\x01"
				   "a";
	size_t n = 9, rest = ENTRY_BYTES - 127;

	memcpy(block,
	       (uint8_t[]){BLOCK_BYTES >> 16, (BLOCK_BYTES >> 8) & 0xff, BLOCK_BYTES & 0xff, 1, 5},
	       5);
	for (int i = 0; i < 4; i++)
		block[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
	memcpy(block + n, head, sizeof(head) - 1);
	n += sizeof(head) - 1;
	block[n++] = 0x7f; /* the length in HPACK's groups of seven bits */
	for (; rest >= 128; rest >>= 7)
		block[n++] = (uint8_t)(rest | 128);
	block[n++] = (uint8_t)rest;
	memset(block + n, 'z', ENTRY_BYTES - 1);
	n += ENTRY_BYTES;
	block[n - 1] = (uint8_t)last_of_value;
	memset(block + n, 0xbe, 9 + BLOCK_BYTES - n); /* the newest entry of the table */
}

/* Few bytes that stand for gigabytes of headers: the connection ends after the third block, whether
 * the headers are valid or not, and each block was read to the limit alone. */
static void header_bomb(void **state)
{
	static uint8_t block[9 + BLOCK_BYTES];
	struct gs_grpc_server_options o = {OPTIONS};
	struct gs_grpc_server *s = start(&o);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t before = stats_of(s).wire_bytes_in;
		int fd = dial(s), n = 0;

		put(fd, hello, HELLO_BYTES);
		for (; n < 1000 && stats_of(s).refused[GS_GRPC_REFUSED_FLOOD] == i; n++) {
			bomb_block(block, 1 + 2 * (unsigned)n, i ? '\x01' : 'z');
			put(fd, block, sizeof(block));
			/* The server's thread has its turn: it is at most two blocks late. */
			until(stats_of(s).wire_bytes_in - before >=
				      (uint64_t)(n + 1) * sizeof(block) ||
			      stats_of(s).refused[GS_GRPC_REFUSED_FLOOD] > i);
		}
		assert_in_range(n, 2, 4);
		(void)last_frame(fd);
		until(stats_of(s).connections_now == 0);
		assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_FLOOD], i + 1);
		assert_int_equal(stats_of(s).calls, 0);
	}
	gs_grpc_server_stop(&s, 0);
}

/* Calls begun and reset at once, without end. */
static void rapid_reset(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS};
	struct gs_grpc_server *s = start(&o);
	struct link l = {0};
	struct gs_grpc_client *c = connect_to(gs_grpc_server_address(s, 0), &l);
	bool ended = false;
	struct gs_grpc_request_options call = {
		.size = sizeof(call), .path = "/t/Hold", .events.ended = any_ended, .ctx = &ended};

	(void)state;
	while (!l.n_disconnected) {
		struct gs_grpc_request *r[50];
		int n = 0;

		while (n < 50 && gs_grpc_client_call(c, &call, &r[n]) == 0)
			n++;
		gs_grpc_client_wait(c, MS);
		for (int i = 0; i < n && !ended; i++)
			gs_grpc_request_cancel(&r[i]);
		gs_grpc_client_wait(c, MS);
	}
	until(stats_of(s).connections_now == 0);
	assert_true(stats_of(s).refused[GS_GRPC_REFUSED_FLOOD] +
			    stats_of(s).refused[GS_GRPC_REFUSED_PROTOCOL] ==
		    1);
	assert_int_equal(stats_of(s).calls_now, 0);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

static void ignore_end(void *ctx, struct gs_grpc_request *r, enum gs_grpc_status status,
		       const char *text)
{
	(void)ctx, (void)r, (void)status, (void)text;
}

/* A connection with a running call, or without one. */
static struct gs_grpc_client *dial_client(struct gs_grpc_server *s, struct link *l, bool calls)
{
	const struct gs_grpc_request_options call = {
		.size = sizeof(call), .path = "/t/Hold", .events.ended = ignore_end};
	struct gs_grpc_client *c = connect_to(gs_grpc_server_address(s, 0), l);
	uint64_t before = stats_of(s).calls_now;
	struct gs_grpc_request *r = NULL;

	if (!calls || l->n_disconnected)
		return c;
	assert_int_equal(gs_grpc_client_call(c, &call, &r), 0);
	work_until(c, stats_of(s).calls_now > before);
	return c;
}

/* At the limit of an address, or of all, new connections are refused while calls run on all others.
 */
static void too_many(void **state)
{
	static const struct {
		struct gs_grpc_server_options o;
		enum gs_grpc_refusal why;
	} cases[] = {
		{{OPTIONS, .max_connections = 2, .max_connections_per_address = 9},
		 GS_GRPC_REFUSED_CONNECTIONS},
		{{OPTIONS, .max_connections_per_address = 2}, GS_GRPC_REFUSED_ADDRESS},
		{{OPTIONS, .max_connections = 4}, GS_GRPC_REFUSED_ADDRESS}, /* the half */
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_grpc_server_options o = cases[i].o;
		struct gs_grpc_server *s = start(&o);
		struct link l[3] = {0};
		struct gs_grpc_client *a = dial_client(s, &l[0], true);
		struct gs_grpc_client *b = dial_client(s, &l[1], true);
		struct gs_grpc_client *c = dial_client(s, &l[2], true);

		assert_int_equal(l[2].n_disconnected, 1);
		assert_int_equal(stats_of(s).refused[cases[i].why], 1);
		gs_grpc_client_free(&a);
		until(stats_of(s).connections_now == 1);
		assert_int_equal(gs_grpc_client_connect(c), 0);
		work_until(c, l[2].n_connected);
		gs_grpc_client_free(&b);
		gs_grpc_client_free(&c);
		gs_grpc_server_stop(&s, 0);
	}
}

/* Connections that nobody calls on make room, silent ones and such that have greeted; that with a
 * call stays. So all who come later are served, however many somebody has opened. */
static void full_of_idle_ones(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .max_connections = 16};
	struct gs_grpc_server *s = start(&o);
	struct link l[4] = {0};
	struct gs_grpc_client *holds = dial_client(s, &l[0], true), *c;
	int fd[40];

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(fd); i++) {
		fd[i] = dial(s);
		if (i % 2)
			put(fd[i], hello, HELLO_BYTES);
	}
	for (int i = 1; i < 4; i++) {
		c = dial_client(s, &l[i], true);
		assert_int_equal(l[i].n_connected, 1);
		assert_int_equal(l[i].n_disconnected, 0);
		gs_grpc_client_free(&c);
	}
	assert_true(gs_grpc_client_connected(holds));
	assert_in_range(stats_of(s).connections_now, 1, 8);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_ADDRESS], 0);
	assert_in_range(stats_of(s).refused[GS_GRPC_REFUSED_EVICTED], 40 - 8, 44);
	for (size_t i = 0; i < GS_ARRAY_LEN(fd); i++)
		close(fd[i]);
	gs_grpc_client_free(&holds);
	gs_grpc_server_stop(&s, 0);
}

/* Headers that never end are no call: neither do they hold a place, nor keep a connection. */
static void endless_headers(void **state)
{
	struct gs_grpc_server_options o = {OPTIONS, .idle_ns = 30 * MS};
	struct gs_grpc_server *s = start(&o);
	int fd = dial(s);

	(void)state;
	put(fd, hello, HELLO_BYTES);
	put(fd, "\0\0\1\1\0\0\0\0\1\x83", 10);
	assert_int_equal(last_frame(fd), 7 /* GOAWAY */);
	assert_int_equal(stats_of(s).idle_closed, 1);
	gs_grpc_server_stop(&s, 0);
}

/* Our own client, told that it asks too often: it says why, and asks half as often afterwards. */
static void pinging_client(void **state)
{
	struct gs_grpc_server_options so = {OPTIONS, .min_ping_ns = 3600ULL * 1000000000};
	struct gs_grpc_server *s = start(&so);
	const char *list[] = {gs_grpc_server_address(s, 0)};
	struct link l = {0};
	struct gs_grpc_client_options o = client_options(list, &l);
	struct gs_grpc_client_stats stats;
	struct gs_grpc_client *c = NULL;

	(void)state;
	o.keepalive_ns = MS;
	o.keepalive_idle = true;
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, l.n_disconnected);
	assert_int_equal(l.n_going_away, 1);
	if (!strstr(l.why, "too_many_pings"))
		fail_msg("%s", l.why);
	gs_grpc_client_stats(c, &stats);
	assert_true(stats.round_trip_ns > 0);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_FLOOD], 1);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

/* A client that is asked and answers stays, however long it is silent otherwise. */
static void answering_client(void **state)
{
	struct gs_grpc_server_options so = {OPTIONS, .keepalive_ns = MS,
					    .keepalive_timeout_ns = 60ULL * 1000 * MS};
	struct gs_grpc_server *s = start(&so);
	struct link l = {0};
	struct gs_grpc_client *c = connect_to(gs_grpc_server_address(s, 0), &l);
	uint64_t before = stats_of(s).wire_bytes_in;

	(void)state;
	/* The answers to twenty PINGs. */
	work_until(c, stats_of(s).wire_bytes_in >= before + 20 * 17);
	assert_int_equal(l.n_disconnected, 0);
	assert_int_equal(stats_of(s).connections_now, 1);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

/* A server that is none: the client says so and goes on. */
static void *speak_nonsense(void *arg)
{
	int listener = *(int *)arg, fd = accept(listener, NULL, NULL);

	put(fd, "SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n\r\n", 27);
	last_frame(fd);
	return NULL;
}

static void no_server(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char address[32];
	const char *list[] = {address};
	struct link l = {0};
	struct gs_grpc_client_options o = client_options(list, &l);
	struct gs_grpc_client *c = NULL;
	pthread_t thread;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&thread, NULL, speak_nonsense, &fd), 0);
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, l.n_disconnected);
	assert_int_equal(l.n_connected, 0);
	pthread_join(thread, NULL);
	/* And one that accepts and says nothing at all. */
	gs_grpc_client_free(&c);
	o.connect_ns = 50 * MS;
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, l.n_disconnected == 2);
	assert_non_null(strstr(l.why, "no answer in time"));
	gs_grpc_client_free(&c);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent),
		cmocka_unit_test(half_open),
		cmocka_unit_test(idle),
		cmocka_unit_test(garbage),
		cmocka_unit_test(floods),
		cmocka_unit_test(pings),
		cmocka_unit_test(rapid_reset),
		cmocka_unit_test(too_many),
		cmocka_unit_test(pinging_client),
		cmocka_unit_test(answering_client),
		cmocka_unit_test(no_server),
		cmocka_unit_test(header_bomb),
		cmocka_unit_test(full_of_idle_ones),
		cmocka_unit_test(endless_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
