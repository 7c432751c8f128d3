/*
 * Requests to an interpreter: where its offsets say, in a child with memory laid out as CPython's, and nowhere else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/python_attach/python_attach.h"
#include "sources/unwind/python.h"

#define STATE_BYTES  832
#define INTERP_BYTES 8192
#define PATH_AT      308
#define PENDING_AT   304
#define BREAKER_AT   24

struct interp {
	uint8_t bytes[INTERP_BYTES];
};

/* What the child has, by the parent's own mapping of it: shared, so that the test sees and changes it. */
struct fake {
	uint64_t words[128]; /* _Py_DebugOffsets, and the begin of _PyRuntime */
	uint64_t head;       /* of the interpreters */
	struct interp interp[2];
	uint8_t state[2][STATE_BYTES];
};

static struct fake *fake;

static void put(void *of, size_t at, uint64_t value, size_t bytes)
{
	memcpy((uint8_t *)of + at, &value, bytes);
}

static uint64_t get(const void *of, size_t at, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)of + at, bytes);
	return v;
}

/* 3.14, and a sub-interpreter before the main one. */
static void lay_out(void)
{
	static const uint64_t support[] = {BREAKER_AT, PENDING_AT, 8076, 0, 4, 512};
	uint64_t *w = fake->words;

	memset(fake, 0, sizeof(*fake));
	memcpy(w, "xdebugpy", 8);
	w[1] = 0x030e0af0;
	w[3] = sizeof(*fake);
	w[5] = offsetof(struct fake, head);
	w[6] = INTERP_BYTES;
	w[7] = 7280;
	w[8] = 7272;
	w[10] = 7360;
	w[22] = STATE_BYTES;
	w[25] = 16;
	memcpy(&w[89], support, sizeof(support));
	fake->head = (uintptr_t)&fake->interp[1];
	for (unsigned i = 0; i < 2; i++) {
		put(&fake->interp[i], 7280, i, 8);
		put(&fake->interp[i], 7272, i ? (uintptr_t)&fake->interp[0] : 0, 8);
		put(&fake->interp[i], 7360, (uintptr_t)fake->state[i], 8);
		put(&fake->interp[i], 8076, 1, 4);
		put(fake->state[i], 16, (uintptr_t)&fake->interp[i], 8);
	}
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int open_child(pid_t pid, struct gs_python_attach *a, struct gs_err *err)
{
	return gs_python_attach_open(pid, (uintptr_t)fake, a, err);
}

static void offsets(void **state)
{
	struct gs_python_attach_offsets o;

	lay_out();
	assert_int_equal(gs_python_attach_read_offsets(fake->words, 760, &o), 0);
	assert_int_equal(o.version, 0x030e);
	assert_false(o.is_free_threaded);
	assert_int_equal(o.state_pending, PENDING_AT);
	assert_int_equal(o.state_path, PATH_AT);
	assert_int_equal(o.path_bytes, 512);
	assert_int_equal(o.interp_enabled, 8076);
	assert_int_equal(o.interp_main, 7360);
	assert_int_equal(gs_python_attach_read_offsets(fake->words, 759, &o), -ENOTSUP);
	assert_int_equal(gs_python_attach_read_offsets(fake->words, 23, &o), -ENOENT);
	assert_int_equal(gs_python_attach_read_offsets("notacookie in here......", 24, &o),
			 -ENOENT);
}

/* Each of these words by itself makes the rest not believed. */
static void bad_offsets(void **state)
{
	static const struct {
		unsigned word;
		uint64_t value;
	} bad[] = {{1, 0x030e00b1},
		   {1, 0x030d0af0},
		   {1, 0x031000f0},
		   {2, 2},
		   {5, 1u << 20},
		   {5, 4},
		   {7, INTERP_BYTES},
		   {10, INTERP_BYTES - 4},
		   {10, 7280},
		   {25, 9},
		   {89, STATE_BYTES},
		   {89, UINT64_MAX - 7},
		   {89, PENDING_AT},
		   {90, STATE_BYTES - 4},
		   {90, UINT64_MAX - 3},
		   {91, INTERP_BYTES},
		   {91, 8077},
		   {92, 8},
		   {93, 0},
		   {94, 0},
		   {94, 1u << 20},
		   {94, STATE_BYTES}};
	struct gs_python_attach_offsets o;

	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		lay_out();
		fake->words[bad[i].word] = bad[i].value;
		if (gs_python_attach_read_offsets(fake->words, sizeof(fake->words), &o) != -ENOTSUP)
			fail_msg("word %u: %llx was believed", bad[i].word,
				 (unsigned long long)bad[i].value);
	}
}

/* The main interpreter's main thread is asked, by its path, its mark and one byte. */
static void asks(void **state)
{
	struct gs_python_attach a = GS_PYTHON_ATTACH_INIT;
	uint8_t before[STATE_BYTES];
	bool taken = true;
	pid_t pid;

	lay_out();
	put(fake->state[0], BREAKER_AT, 0x1234560000000111, 8);
	memset(fake->state[0] + PATH_AT, 'x', 512);
	memcpy(before, fake->state[1], sizeof(before));
	pid = start_child();
	assert_int_equal(open_child(pid, &a, NULL), 0);
	assert_int_equal(gs_python_attach_ask(&a, "/dev/shm/a.py"), 0);
	assert_string_equal((char *)fake->state[0] + PATH_AT, "/dev/shm/a.py");
	assert_int_equal(get(fake->state[0], PENDING_AT, 4), 1);
	/* The version above the bits is as it was; the collector's bit is neither set nor taken away, that for the lock is. */
	assert_int_equal(get(fake->state[0], BREAKER_AT, 8), 0x123456000000013e);
	assert_memory_equal(fake->state[1], before, sizeof(before));
	assert_int_equal(gs_python_attach_is_taken(&a, &taken), 0);
	assert_false(taken);
	assert_int_equal(gs_python_attach_ask(&a, "/dev/shm/b.py"), -EBUSY);
	assert_string_equal((char *)fake->state[0] + PATH_AT, "/dev/shm/a.py");
	end_child(pid);
	assert_int_equal(gs_python_attach_is_taken(&a, &taken), -ESRCH);
	assert_int_equal(gs_python_attach_ask(&a, "/dev/shm/a.py"), -ESRCH);
	gs_python_attach_close(&a);
}

static void withdraws(void **state)
{
	struct gs_python_attach a = GS_PYTHON_ATTACH_INIT;
	char path[600];
	bool taken = true;
	pid_t pid;

	lay_out();
	pid = start_child();
	assert_int_equal(open_child(pid, &a, NULL), 0);
	memset(path, 'p', sizeof(path));
	path[511] = '\0';
	assert_int_equal(gs_python_attach_ask(&a, path), 0);
	assert_int_equal(gs_python_attach_withdraw(&a, &taken), 0);
	assert_false(taken);
	assert_int_equal(get(fake->state[0], PENDING_AT, 4), 0);
	assert_int_equal(fake->state[0][PATH_AT], 0);
	path[511] = 'p';
	path[512] = '\0';
	assert_int_equal(gs_python_attach_ask(&a, path), -ENAMETOOLONG);
	/* Taken: the interpreter has taken the mark away. */
	assert_int_equal(gs_python_attach_ask(&a, "/a.py"), 0);
	put(fake->state[0], PENDING_AT, 0, 4);
	assert_int_equal(gs_python_attach_withdraw(&a, &taken), 0);
	assert_true(taken);
	end_child(pid);
	gs_python_attach_close(&a);
}

/* Nothing is written where something is not as it has to be. */
static void refuses(void **state)
{
	struct gs_python_attach a = GS_PYTHON_ATTACH_INIT;
	struct gs_err err = {{0}};
	pid_t pid;

	lay_out();
	pid = start_child();
	put(&fake->interp[0], 8076, 0, 4);
	assert_int_equal(open_child(pid, &a, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "PYTHON_DISABLE_REMOTE_DEBUG"));
	lay_out();
	put(&fake->interp[0], 8076, 0x55555555, 4);
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	put(fake->state[0], 16, (uintptr_t)&fake->interp[1], 8);
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	put(fake->state[0], PENDING_AT, 7, 4);
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	put(&fake->interp[0], 7360, 0, 8);
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	put(&fake->interp[1], 7272, (uintptr_t)&fake->interp[1], 8); /* a ring of them */
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	fake->head = 0;
	assert_int_equal(open_child(pid, &a, &err), -EBADMSG);
	lay_out();
	fake->head = 8;
	assert_int_equal(open_child(pid, &a, &err), -EFAULT);
	lay_out();
	fake->words[1] = 0x030d00f0;
	assert_int_equal(open_child(pid, &a, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "3.14"));
	assert_int_equal(a.pid_fd, -1);
	end_child(pid);
	assert_int_equal(open_child(pid, &a, &err), -ESRCH);
}

/* A child that was forked with the request in its memory, which then is its own. */
static void children(void **state)
{
	static struct fake own;
	struct gs_python_attach a = GS_PYTHON_ATTACH_INIT;
	int to_parent[2];
	pid_t pid, child = 0;
	int32_t pending;
	char first;

	lay_out();
	assert_int_equal(pipe(to_parent), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* As an interpreter's, in memory that a child has a copy of. */
		own = *fake;
		own.head = (uintptr_t)&own.interp[0];
		put(&own.interp[0], 7360, (uintptr_t)own.state[0], 8);
		put(own.state[0], 16, (uintptr_t)&own.interp[0], 8);
		put(own.state[0], PENDING_AT, 1, 4);
		memcpy(own.state[0] + PATH_AT, "/a.py", 6);
		child = fork();
		if (!child)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		else if (write(to_parent[1], &child, sizeof(child)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(to_parent[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(gs_python_attach_open(pid, (uintptr_t)&own, &a, NULL), 0);
	gs_python_attach_withdraw_children(&a, "/b.py");
	assert_int_equal(gs_python_peek(child, (uintptr_t)own.state[0] + PENDING_AT, &pending, 4),
			 0);
	assert_int_equal(pending, 1);
	gs_python_attach_withdraw_children(&a, "/a.py");
	assert_int_equal(gs_python_peek(child, (uintptr_t)own.state[0] + PENDING_AT, &pending, 4),
			 0);
	assert_int_equal(pending, 0);
	assert_int_equal(gs_python_peek(child, (uintptr_t)own.state[0] + PATH_AT, &first, 1), 0);
	assert_int_equal(first, 0);
	/* The parent's own is left. */
	assert_int_equal(gs_python_peek(pid, (uintptr_t)own.state[0] + PENDING_AT, &pending, 4), 0);
	assert_int_equal(pending, 1);
	kill(child, SIGKILL);
	end_child(pid);
	gs_python_attach_close(&a);
	close(to_parent[0]);
	close(to_parent[1]);
}

static void scripts(void **state)
{
	struct gs_buf text = GS_BUF_INIT(8192);

	assert_int_equal(
		gs_python_attach_write_begin(&text, "/usr/lib/l.so", "/dev/shm/x", 12, true), 0);
	assert_int_equal(gs_buf_put(&text, "", 1), 0);
	assert_non_null(strstr((char *)text.data, "run(b'/dev/shm/x', 12, 1)"));
	assert_int_equal(gs_python_attach_write_begin(&text, "/usr/l'.so", "/dev/shm/x", 12, true),
			 -EINVAL);
	assert_int_equal(gs_python_attach_write_begin(&text, "/l.so", "/dev/shm/\n", 12, true),
			 -EINVAL);
	gs_buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets), cmocka_unit_test(bad_offsets),
		cmocka_unit_test(asks),    cmocka_unit_test(withdraws),
		cmocka_unit_test(refuses), cmocka_unit_test(children),
		cmocka_unit_test(scripts),
	};

	fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return fake == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
