/* Memory is given back, what must stay stays, and everything reads as before. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/shrink.h"

#define PAGE 4096

static const char *const code = "00400000-00500000 r-xp 00001000 fe:01 1234   /usr/bin/a b\n";

static enum gs_shrink_kind kind(const char *head, const char *rss, const char *anonymous,
				const char *locked)
{
	struct gs_shrink_mapping m = {0};

	assert_false(gs_shrink_line(&m, head));
	assert_true(gs_shrink_line(&m, "Size:               1024 kB\n"));
	assert_true(gs_shrink_line(&m, rss));
	assert_true(gs_shrink_line(&m, "Private_Clean:         0 kB\n"));
	assert_true(gs_shrink_line(&m, anonymous));
	if (locked)
		assert_true(gs_shrink_line(&m, locked));
	assert_true(gs_shrink_line(&m, "VmFlags: rd ex mr mw me\n"));
	return gs_shrink_kind_of(&m);
}

static void test_lines(void **state)
{
	struct gs_shrink_mapping m = {0};

	assert_int_equal(kind(code, "Rss:  40 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_FILE);
	/* A breakpoint in the code; locked; nothing there; cut off. */
	assert_int_equal(kind(code, "Rss:  40 kB\n", "Anonymous: 4 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind(code, "Rss:  40 kB\n", "Anonymous: 0 kB\n", "Locked: 40 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind(code, "Rss:  0 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind(code, "Rss:  40 kB\n", "Anonymous: 0 kB\n", NULL), GS_SHRINK_NOT);
	/* Writable, shared, without a file, the kernel's own. */
	assert_int_equal(kind("00400000-00500000 rw-p 00001000 fe:01 1234 /usr/bin/a\n",
			      "Rss:  40 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind("00400000-00500000 r--s 00001000 fe:01 1234 /usr/bin/a\n",
			      "Rss:  40 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind("00400000-00500000 r--p 00000000 00:00 0 \n", "Rss:  40 kB\n",
			      "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind("00400000-00500000 r--p 00000000 00:06 531 /dev/nvidiactl\n",
			      "Rss:  40 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind("7ffd1000-7ffd3000 r-xp 00000000 00:00 0      [vdso]\n",
			      "Rss:  4 kB\n", "Anonymous: 0 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_NOT);
	assert_int_equal(kind("7ffc0000-7ffd3000 rw-p 00000000 00:00 0      [stack]\n",
			      "Rss:  40 kB\n", "Anonymous: 40 kB\n", "Locked: 0 kB\n"),
			 GS_SHRINK_STACK);
	/* Not lines of smaps. */
	assert_true(gs_shrink_line(&m, ""));
	assert_true(gs_shrink_line(&m, "zz-11 r--p 0 0:0 1 /x\n"));
	assert_int_equal(gs_shrink_kind_of(&m), GS_SHRINK_NOT);
}

static unsigned resident(void *at, size_t bytes)
{
	/* mincore tells of the page cache for files; pagemap tells of this process. */
	GS_CLOSE int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	unsigned n = 0;

	assert_true(fd >= 0);
	for (size_t i = 0; i < bytes / PAGE; i++) {
		uint64_t entry = 0;
		off_t where = (off_t)(((uintptr_t)at / PAGE + i) * 8);

		assert_int_equal(pread(fd, &entry, 8, where), 8);
		n += entry >> 63;
	}
	return n;
}

static void test_mappings(void **state)
{
	char path[] = "/tmp/gs_shrink_XXXXXX", *text = malloc(64 * PAGE);
	int fd = mkstemp(path);
	struct gs_shrunk s = {0};
	char *clean, *written;

	if (sysconf(_SC_PAGESIZE) != PAGE)
		skip();
	assert_true(fd >= 0);
	for (size_t i = 0; i < 64 * PAGE; i++)
		text[i] = (char)('a' + i / PAGE % 26);
	assert_int_equal(write(fd, text, 64 * PAGE), 64 * PAGE);
	clean = mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	written = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(clean != MAP_FAILED && written != MAP_FAILED);
	written[5 * PAGE] = '!';
	/* As the loader leaves relocated data. */
	assert_int_equal(mprotect(written, 64 * PAGE, PROT_READ), 0);
	assert_int_equal(memcmp(clean, text, 64 * PAGE), 0);
	assert_int_equal(memcmp(written + 6 * PAGE, text + 6 * PAGE, PAGE), 0);
	assert_true(resident(clean, 64 * PAGE) == 64);

	assert_int_equal(gs_shrink_mappings(&s), 0);
	assert_true(s.file_bytes >= 64 * PAGE);
	assert_true(s.n_mappings >= 2); /* this program's code as well */
	assert_int_equal(resident(clean, 64 * PAGE), 0);
	assert_true(resident(written, 64 * PAGE) >= 2);
	assert_int_equal(written[5 * PAGE], '!');
	assert_int_equal(memcmp(clean, text, 64 * PAGE), 0);
	munmap(clean, 64 * PAGE);
	munmap(written, 64 * PAGE);
	close(fd);
	unlink(path);
	free(text);
}

/* Uses a lot of stack, once. */
static __attribute__((noinline)) unsigned dig(void)
{
	volatile char deep[1 << 20];

	for (size_t i = 0; i < sizeof(deep); i += 512)
		deep[i] = (char)i;
	return (unsigned)deep[512];
}

static void *on_a_thread(void *arg)
{
	struct gs_shrunk *s = arg;

	assert_int_equal(gs_shrink_mappings(s), 0);
	return NULL;
}

static void test_stack(void **state)
{
	struct gs_shrunk s = {0};
	char mark[64] = "stays";
	pthread_t thread;

	(void)dig();
	assert_int_equal(pthread_create(&thread, NULL, on_a_thread, &s), 0);
	pthread_join(thread, NULL);
	assert_int_equal(s.stack_bytes, 0);
	assert_int_equal(gs_shrink_mappings(&s), 0);
	assert_true(s.stack_bytes >= 512 << 10);
	assert_string_equal(mark, "stays");
	assert_true(dig() == 0);
}

static void test_zeroes(void **state)
{
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sysconf(_SC_PAGESIZE) != PAGE)
		skip();
	assert_true(p != MAP_FAILED);
	memset(p, 0, 16 * PAGE);
	p[4 * PAGE + 7] = 1;
	p[6 * PAGE - 1] = 2;
	p[9 * PAGE] = 3;
	assert_int_equal(resident(p, 16 * PAGE), 16);
	/* Not aligned: the pages at both ends are not whole. */
	assert_int_equal(gs_shrink_zeroes(p + 8, 16 * PAGE - 16), 11 * PAGE);
	assert_int_equal(resident(p, 16 * PAGE), 5);
	assert_int_equal(p[4 * PAGE + 7], 1);
	assert_int_equal(p[6 * PAGE - 1], 2);
	assert_int_equal(p[9 * PAGE], 3);
	assert_int_equal(p[10 * PAGE], 0);
	assert_int_equal(gs_shrink_zeroes(p, 0), 0);
	assert_int_equal(gs_shrink_zeroes(p + 1, 100), 0);
	munmap(p, 16 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_zeroes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
