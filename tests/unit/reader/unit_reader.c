/*
 * Readers that answer, are late, die, are killed and lie. The services are this file's own; the
 * process, its sandbox and the holder's side are the product's.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/reader/reader_int.h"
#include "core/sandbox/sandbox.h"

enum deed { ECHO, PREAD, REFUSE, SPIN, DIE, LIE, COUNT, SAY_PID, TOO_MUCH };

static void send_raw(const void *data, size_t bytes)
{
	struct iovec part = {(void *)(uintptr_t)data, bytes};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	if (sendmsg(READER_SOCKET, &m, 0) < 0)
		_exit(9);
}

/* Answers that no reader gives which is what it was. */
static void send_lie(unsigned nth)
{
	static const struct reader_reply_head lies[] = {
		{.message = READER_DONE, .bytes = 1, .text_bytes = 2},
		{.message = READER_DONE, .bytes = 5000, .text_bytes = 5000},
		{.message = READER_DONE, .bytes = UINT32_MAX},
		{.message = READER_DONE, .status = 7},
		{.message = READER_DONE, .status = -100000},
		{.message = 77},
		{.message = READER_LOG, .status = 0},
		{.message = READER_LOG, .status = GS_LOG_N_LEVELS},
		{.message = READER_LOG, .status = READER_LOG_STATUS(1, GS_LOG_N_TOPICS)},
		{.message = READER_HELLO, .bytes = 100},
	};
	static const char bytes[8192];

	if (nth >= GS_ARRAY_LEN(lies))
		_exit(9);
	send_raw(&lies[nth], sizeof(lies[nth]));
	for (unsigned i = 0; i < 8192; i++) /* 64 MiB: more than may come */
		send_raw(bytes, sizeof(bytes));
}

static int serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
		 struct gs_err *err)
{
	unsigned deed = gs_wire_u8(&request->in);
	uint32_t *count = *state;
	char text[8] = "";

	switch (deed) {
	case ECHO:
		gs_wire_put(reply, request->in.at, (size_t)(request->in.end - request->in.at));
		return 0;
	case PREAD:
		if (pread(request->fds[0], text, sizeof(text) - 1, 0) < 0)
			return -errno;
		gs_wire_put_text(reply, text);
		return 0;
	case REFUSE:
		return gs_err_set(err, -ENOEXEC, "not one of\033[31m these");
	case SPIN:
		for (volatile uint64_t i = 0;; i++)
			;
	case DIE:
		raise(SIGKILL);
		abort();
	case LIE:
		send_lie(gs_wire_u8(&request->in));
		return 0;
	case COUNT:
		if (!count)
			*state = count = calloc(1, sizeof(*count));
		gs_wire_put_u32(reply, ++*count);
		return 0;
	case SAY_PID:
		gs_wire_put_u32(reply, (uint32_t)getpid());
		return 0;
	case TOO_MUCH:
		for (unsigned i = 0; i < 40; i++)
			gs_wire_put(reply, calloc(1, 1 << 20), 1 << 20);
		return 0;
	}
	return -EINVAL;
}

static int ask_more(struct gs_reader *reader, enum deed deed, const void *more, size_t bytes,
		    const int *fds, unsigned n_fds, struct gs_buf *reply, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_READER_MAX_BYTES);
	struct gs_wire_out out = {.buf = &request};

	gs_wire_put_u8(&out, (uint8_t)deed);
	gs_wire_put(&out, more, bytes);
	return gs_reader_ask(reader, GS_READER_PLAN, &request, fds, n_fds, reply, err);
}

static uint32_t ask_u32(struct gs_reader *reader, enum deed deed, const int *fds, unsigned n_fds)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	struct gs_wire_in in;

	assert_int_equal(ask_more(reader, deed, NULL, 0, fds, n_fds, &reply, NULL), 0);
	in = GS_WIRE_IN(reply.data, reply.bytes);
	return gs_wire_u32(&in);
}

static struct gs_reader *make(const struct gs_reader_options *options)
{
	struct gs_reader *reader = NULL;

	assert_int_equal(gs_reader_new(options, &reader, NULL), 0);
	return reader;
}

static const struct gs_reader_options plain = {.name = "tests"};
static const struct gs_reader_options hasty = {.name = "tests", .late_ms = 300};
static const struct gs_reader_options patient = {.name = "tests", .late_ms = 8000};

static void test_answers(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&plain);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(GS_READER_MAX_BYTES);
	static char big[3 << 20];
	struct gs_err err;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct gs_wire_in in;

	memset(big, 'x', sizeof(big));
	assert_int_equal(ask_more(reader, ECHO, "hello", 5, NULL, 0, &reply, &err), 0);
	assert_int_equal(reply.bytes, 5);
	assert_memory_equal(reply.data, "hello", 5);
	/* More than a socket takes at a time, in both directions. */
	assert_int_equal(ask_more(reader, ECHO, big, sizeof(big), NULL, 0, &reply, &err), 0);
	assert_int_equal(reply.bytes, sizeof(big));
	assert_memory_equal(reply.data, big, sizeof(big));
	assert_int_equal(ask_more(reader, PREAD, NULL, 0, &fd, 1, &reply, &err), 0);
	in = GS_WIRE_IN(reply.data, reply.bytes);
	assert_memory_equal(gs_wire_text(&in), "\177ELF", 4);
	assert_int_equal(ask_more(reader, REFUSE, NULL, 0, NULL, 0, &reply, &err), -ENOEXEC);
	assert_string_equal(err.text, "not one of?[31m these");
	assert_int_equal(ask_more(reader, TOO_MUCH, NULL, 0, NULL, 0, &reply, &err), -ENOBUFS);
	assert_true(gs_reader_held(reader) & GS_SANDBOX_SECCOMP);
	assert_int_equal(gs_reader_stats(reader)->n_requests, 5);
	assert_int_equal(gs_reader_generation(reader), 1);
	close(fd);
}

/* It spins: its own alarm, or the holder's patience, ends it, and it is not asked again. */
static void test_late(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&hasty);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	struct gs_err err;

	assert_int_equal(ask_more(reader, SPIN, NULL, 0, NULL, 0, &reply, &err), -ETIME);
	assert_int_equal(gs_reader_stats(reader)->n_late, 1);
	assert_int_equal(gs_reader_generation(reader), 1);
}

/* What the reader's process takes counts for the owner of what it reads, until he has no share. */
static void test_processor_time(void **state)
{
	const struct gs_guard_options limits = {.size = sizeof(limits)};
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&patient);
	GS_CLEANUP(gs_reader_free) struct gs_reader *spins = make(&hasty);
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	char what[64];
	int r = 0;

	assert_int_equal(gs_guard_new(&limits, &guard), 0);
	gs_guard_enter(guard);
	gs_reader_set_owner(reader, 1234);
	/* Where others have the processor it may get none in its time. */
	for (unsigned i = 0; !gs_guard_time_ns(guard) && i < 100; i++)
		assert_int_equal(ask_more(spins, SPIN, NULL, 0, NULL, 0, &reply, NULL), -ETIME);
	assert_true(gs_guard_time_ns(guard) > 0);
	/* Some may grow back in between. */
	while (r != -EDQUOT) {
		assert_int_equal(gs_guard_charge_time(1234, 1ull << 40, NULL), -EDQUOT);
		r = ask_more(reader, ECHO, "x", 1, NULL, 0, &reply, NULL);
	}
	assert_int_equal(gs_guard_refused(guard, GS_REFUSED_USER_TIME, what, sizeof(what)), 1);
	assert_string_equal(what, "a file of user 1234");
	gs_reader_set_owner(reader, 1235);
	assert_int_equal(ask_more(reader, ECHO, "x", 1, NULL, 0, &reply, NULL), 0);
	gs_guard_enter(NULL);
}

static void test_stopped_by_a_signal(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&patient);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	uint32_t pid = ask_u32(reader, SAY_PID, NULL, 0);

	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	assert_int_equal(ask_more(reader, ECHO, "x", 1, NULL, 0, &reply, NULL), -ETIME);
	assert_int_not_equal(ask_u32(reader, SAY_PID, NULL, 0), pid);
	assert_int_equal(gs_reader_stats(reader)->n_late, 1);
}

/* One that is killed from outside costs nothing but a start. */
static void test_killed_between_requests(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&plain);

	for (unsigned i = 1; i <= 10; i++) {
		uint32_t pid = ask_u32(reader, SAY_PID, NULL, 0);

		assert_int_equal(gs_reader_generation(reader), i);
		assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	}
	assert_int_equal(gs_reader_stats(reader)->n_late, 0);
}

static void test_dies_of_its_request(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&plain);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	struct gs_err err;

	assert_int_equal(ask_more(reader, DIE, NULL, 0, NULL, 0, &reply, &err), -EIO);
	assert_non_null(strstr(err.text, "signal 9"));
	assert_int_equal(ask_u32(reader, COUNT, NULL, 0), 1);
	assert_int_equal(gs_reader_stats(reader)->n_died, 16);
}

static void test_lies(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&plain);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	struct gs_err err;
	uint8_t nth = 0;

	for (; nth < 8; nth++) {
		assert_int_equal(ask_more(reader, LIE, &nth, 1, NULL, 0, &reply, &err), -EBADMSG);
		assert_true(reply.capacity_bytes <= 1 << 20);
		assert_int_equal(gs_reader_stats(reader)->n_bad, nth + 1u);
	}
	assert_int_equal(ask_u32(reader, COUNT, NULL, 0), 1);
}

static bool never_goes_on(void *ctx)
{
	return ++*(unsigned *)ctx > 2;
}

static void test_stop(void **state)
{
	unsigned asked = 0;
	const struct gs_guard_options options = {
		.size = sizeof(options), .stop = never_goes_on, .ctx = &asked};
	GS_CLEANUP(gs_guard_free) struct gs_guard *guard = NULL;
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = make(&plain);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);

	assert_int_equal(gs_guard_new(&options, &guard), 0);
	gs_guard_enter(guard);
	assert_int_equal(ask_more(reader, SPIN, NULL, 0, NULL, 0, &reply, NULL), -ECANCELED);
}

/* Who has read a file of one user reads none of another's. */
static void test_users_are_apart(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = NULL;
	const struct gs_reader_options keeps = {.name = "tests", .keeps_state = true};
	enum { N = 5 };
	uint32_t pids[N];
	int fds[N];

	if (geteuid() != 0)
		skip();
	for (unsigned i = 0; i < N; i++) {
		char path[] = "/tmp/gpuscope-reader-XXXXXX";

		fds[i] = mkstemp(path);
		assert_true(fds[i] >= 0);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(fchown(fds[i], i ? 4000 + i : 0, 0), 0);
	}
	reader = make(&plain);
	for (unsigned i = 0; i < N; i++) {
		pids[i] = ask_u32(reader, SAY_PID, &fds[i], 1);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(pids[i], pids[k]);
	}
	/* The last ones are there still, that of the first user made room. */
	assert_int_equal(gs_reader_stats(reader)->n_replaced, 1);
	assert_int_equal(ask_u32(reader, SAY_PID, &fds[4], 1), pids[4]);
	assert_int_equal(ask_u32(reader, SAY_PID, &fds[2], 1), pids[2]);
	assert_int_equal(ask_u32(reader, SAY_PID, &fds[0], 1), pids[0]);
	assert_int_not_equal(ask_u32(reader, SAY_PID, &fds[1], 1), pids[1]);
	assert_int_equal(gs_reader_stats(reader)->n_replaced, 2);
	gs_reader_free(&reader);
	reader = make(&keeps);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(ask_u32(reader, COUNT, &fds[i], 1), i + 1);
	for (unsigned i = 0; i < N; i++)
		close(fds[i]);
}

/* It has its socket alone, whatever we have open. */
static void test_descriptors(void **state)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = NULL;
	int ours = open("/etc/passwd", O_RDONLY); /* not closed by exec */
	char path[64], target[64];
	uint32_t pid;

	reader = make(&plain);
	pid = ask_u32(reader, SAY_PID, NULL, 0);
	for (int fd = 0; fd < 64; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		if (fd < READER_SOCKET && n > 0)
			assert_true(strcmp(target, "/dev/null") == 0 || fd == 2);
		else if (fd == READER_SOCKET && n > 0)
			assert_memory_equal(target, "socket:", 7);
		else
			assert_true(n < 0);
	}
	close(ours);
}

int main(int argc, char **argv)
{
	static const gs_reader_serve_fn services[GS_READER_N_SERVICES] = {[GS_READER_PLAN] = serve};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_processor_time),
		cmocka_unit_test(test_stopped_by_a_signal),
		cmocka_unit_test(test_killed_between_requests),
		cmocka_unit_test(test_dies_of_its_request),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_users_are_apart),
		cmocka_unit_test(test_descriptors),
	};

	if (gs_reader_is_called(argc, argv))
		return gs_reader_main(argc, argv, services);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
