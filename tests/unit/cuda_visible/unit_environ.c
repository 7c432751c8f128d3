/* The environment of running processes, which they have changed. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/cuda_visible/environ.h"

extern char **environ;

static const gs_reader_serve_fn services[GS_READER_N_SERVICES] = {
	[GS_READER_ENVIRON] = gs_cuda_visible_environ_serve,
};

struct child {
	pid_t pid;
	int ready, stay; /* this side's ends of its pipes; a program may write more than is read */
};

/* A process that has run prepare(), or a program that writes a line and waits for its input to end. */
static struct child start(void (*prepare)(void), char *const *argv)
{
	int ready[2], stay[2];
	struct child c;
	char one;

	assert_int_equal(pipe2(ready, O_CLOEXEC) || pipe2(stay, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		if (prepare)
			prepare();
		if (argv) {
			dup2(ready[1], 1);
			dup2(stay[0], 0);
			execvp(argv[0], argv);
			_exit(127);
		}
		close(stay[1]);
		one = '1';
		if (write(ready[1], &one, 1) != 1 || read(stay[0], &one, 1) != 0)
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	close(stay[0]);
	assert_int_equal(read(ready[0], &one, 1), 1);
	c.ready = ready[0];
	c.stay = stay[1];
	return c;
}

static void stop(struct child *c)
{
	if (c->stay < 0)
		return;
	close(c->ready);
	close(c->stay);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

/* want: '|' for the zero behind each variable; NULL: it cannot be read. */
static void check(const char *what, struct child c, const char *want)
{
	const struct gs_reader_options here = {.name = "tests", .here = services};
	char text[GS_CUDA_ENVIRON_BYTES];
	struct gs_reader *reader = NULL;
	struct gs_cuda_environ *e;
	size_t bytes;

	assert_int_equal(gs_reader_new(&here, &reader, NULL), 0);
	e = gs_cuda_visible_environ_new(reader);
	assert_non_null(e);
	for (int again = 0; again < 2; again++) { /* what files have is remembered */
		int r = gs_cuda_visible_environ_read(e, (uint32_t)c.pid, text, &bytes);

		if (!want) {
			assert_true(r < 0);
			continue;
		}
		if (r < 0)
			fail_msg("%s: %s", what, strerror(-r));
		for (size_t i = 0; i < bytes; i++)
			if (!text[i])
				text[i] = '|';
		if (bytes != strlen(want) || memcmp(text, want, bytes) != 0)
			fail_msg("%s: %.*s", what, (int)bytes, text);
	}
	gs_cuda_visible_environ_free(&e);
	gs_reader_free(&reader);
	stop(&c);
}

static void set_one(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
}

static void set_all(void)
{
	static char order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";

	for (int i = 0; i < 300; i++) {
		char name[16];

		snprintf(name, sizeof(name), "V%d", i);
		setenv(name, "x", 1);
	}
	putenv(order);
	setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	setenv("CUDA_VISIBLE_DEVICES", "3", 1);
	setenv("CUDA_VISIBLE_DEVICES_NOT", "4", 1);
}

static void take_away(void)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void clear_all(void)
{
	clearenv();
}

/* Pointers to nowhere, without an end; and a text without one. */
static void point_nowhere(void)
{
	static char *many[20000];
	char *last = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const char name[] = "CUDA_VISIBLE_DEVICES=";

	munmap(last + 4096, 4096);
	memset(last, '7', 4096);
	memcpy(last, name, sizeof(name) - 1);
	for (size_t i = 0; i < GS_ARRAY_LEN(many); i++)
		many[i] = i % 2 ? last : (char *)(uintptr_t)(i + 1);
	environ = many;
}

static void point_at_text(void)
{
	static char *few[3] = {"CUDA_VISIBLE_DEVICES=9", (char *)1, NULL};

	environ = few;
}

static void test_changed(void **state)
{
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	check("as it was", start(NULL, NULL), "CUDA_VISIBLE_DEVICES=0|");
	check("set", start(set_one, NULL), "CUDA_VISIBLE_DEVICES=1|");
	check("set among many", start(set_all, NULL),
	      "CUDA_VISIBLE_DEVICES=3|CUDA_DEVICE_ORDER=PCI_BUS_ID|NVIDIA_VISIBLE_DEVICES=all|");
	check("unset", start(take_away, NULL), "");
	check("none at all", start(clear_all, NULL), NULL);
	check("an array of its own", start(point_at_text, NULL), "CUDA_VISIBLE_DEVICES=9|");
	check("an array without an end", start(point_nowhere, NULL), NULL);
}

static void test_programs(void **state)
{
	char *shell[] = {"sh", "-c", "echo x; read y", NULL};
	char *python[] = {
		"/usr/bin/python3", "-c",
		"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'; "
		"os.environ.pop('NVIDIA_VISIBLE_DEVICES', None); print('x', flush=True); input()",
		NULL};

	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
	check("a shell", start(NULL, shell), "CUDA_VISIBLE_DEVICES=0|NVIDIA_VISIBLE_DEVICES=all|");
	if (access(python[0], X_OK) == 0)
		check("Python", start(NULL, python), "CUDA_VISIBLE_DEVICES=1|");
	unsetenv("NVIDIA_VISIBLE_DEVICES");
}

static void test_gone(void **state)
{
	struct child c = start(NULL, NULL);

	stop(&c);
	c.ready = c.stay = -1;
	check("gone", c, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests_name("cuda_visible/environ", tests, NULL, NULL);
}
