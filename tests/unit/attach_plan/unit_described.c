/*
 * Described functions and static probes found by a reader: the same as found here, and nothing of
 * an answer that was not asked for. The service runs in this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/attach_plan/described.h"

int described_one(int a);
int described_two(int a);
int _Z9scoped_onei(int a);

__attribute__((noinline)) int described_one(int a)
{
	DTRACE_PROBE1(unit, site, a);
	return a + 1;
}

__attribute__((noinline)) int described_two(int a)
{
	__asm__ volatile("");
	return a * 2 + 7;
}

__attribute__((noinline)) int _Z9scoped_onei(int a)
{
	__asm__ volatile("");
	return a / 3;
}

static struct gs_buf seen; /* what the handlers were called with, as text */

static void on_attach(void *ctx, const struct gs_attach *a)
{
	gs_buf_printf(&seen, "told %s %s %d\n", a->function, a->reason, a->status);
}

static int on_function(void *ctx, const struct gs_described_function *f)
{
	gs_buf_printf(&seen, "%u %s %llx %llu %d site %d+%u %s scope %d", f->want, f->name,
		      (unsigned long long)f->file_off, (unsigned long long)f->size_bytes,
		      f->indirect, (int)f->site.kind, f->site.offset_bytes,
		      f->site.reason ? f->site.reason : "-", f->has_scope);
	for (size_t i = 0; i < f->plan->n; i++)
		gs_buf_printf(&seen, " %llx:%llx", (unsigned long long)f->plan->places[i].file_off,
			      (unsigned long long)f->plan->places[i].cookie);
	gs_buf_puts(&seen, "\n");
	return 0;
}

static int on_site(void *ctx, const struct gs_described_site *d)
{
	gs_buf_printf(&seen, "%u %s:%s %llx %u args %s %d\n", d->want, d->site->provider,
		      d->site->name, (unsigned long long)d->site->file_off, d->site->n_args,
		      d->site->arguments, d->is_nop5);
	return 0;
}

static const struct gs_described_handler handler = {on_function, on_site, NULL};
static const struct gs_attach_plan_options options = {.many_links = true, .on_attach = on_attach};
static const struct gs_described_want wants[] = {
	{.function = "described_*", .is_glob = true},
	{.function = "described_*"}, /* a name, and of no function */
	{.function = "described_two", .if_defined = true},
	{.function = "nowhere", .if_defined = true},
	{.function = "_Z9scoped_onei", .scope = true},
	{.provider = "un*", .probe = "site"},
};
static const struct gs_described_query query = {
	.options = &options, .path = "/some/file", .wants = wants, .n_wants = GS_ARRAY_LEN(wants)};

static const char *found(void)
{
	return seen.bytes ? (const char *)seen.data : "";
}

static void find_here(const char *path)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;

	gs_buf_reset(&seen);
	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	assert_int_equal(gs_attach_plan_described(&query, elf, &handler, NULL), 0);
}

static void find_by_reader(const char *path)
{
	static const gs_reader_serve_fn services[GS_READER_N_SERVICES] = {
		[GS_READER_DESCRIBED] = gs_attach_plan_serve_described};
	const struct gs_reader_options here = {.name = "tests", .here = services};
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = NULL;
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	gs_buf_reset(&seen);
	assert_int_equal(gs_reader_new(&here, &reader, NULL), 0);
	assert_int_equal(gs_attach_plan_ask_described(&query, reader, fd, &handler, NULL), 0);
}

static void test_same_as_here(void **state)
{
	static const char *const paths[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6"};

	for (unsigned i = 0; i < GS_ARRAY_LEN(paths); i++) {
		GS_FREE char *here = NULL;

		if (access(paths[i], R_OK) < 0)
			continue;
		find_here(paths[i]);
		here = strdup(found());
		find_by_reader(paths[i]);
		assert_string_equal(found(), here);
	}
}

static void test_what_was_asked_for(void **state)
{
	find_by_reader("/proc/self/exe");
	assert_non_null(strstr(found(), "0 described_two"));
	assert_non_null(strstr(found(), "2 described_two"));
	assert_non_null(strstr(found(), "4 _Z9scoped_onei"));
	assert_non_null(strstr(found(), "5 unit:site"));
	assert_null(strstr(found(), "1 described"));
	assert_null(strstr(found(), "nowhere"));
}

/* ---- forged answers ---- */

struct forgery {
	uint32_t want;
	const char *name;
	uint64_t file_off, cookie;
	uint8_t kind, has_scope, family;
	uint32_t offset;
};

#define FILE_BYTES 1000

static int take(struct gs_buf *answer)
{
	struct gs_wire_in in = GS_WIRE_IN(answer->data, answer->bytes);

	gs_buf_reset(&seen);
	return gs_attach_plan_take_described(&query, FILE_BYTES, &in, &handler);
}

static void put_forged(struct gs_buf *buf, const struct forgery *f)
{
	struct gs_wire_out out = {.buf = buf};

	gs_wire_put_u8(&out, 1);
	gs_wire_put_u32(&out, f->want);
	gs_wire_put_text(&out, f->name);
	gs_wire_put_u64(&out, f->file_off);
	gs_wire_put_u64(&out, 10);
	gs_wire_put_u8(&out, 0);
	gs_wire_put_u8(&out, f->kind);
	gs_wire_put_u32(&out, f->offset);
	gs_wire_put_text(&out, NULL);
	gs_wire_put_u8(&out, f->has_scope);
	for (unsigned i = 0; i < 3; i++)
		gs_wire_put_u32(&out, 0);
	gs_wire_put_u32(&out, f->has_scope);
	if (f->has_scope) {
		gs_wire_put_u64(&out, f->file_off);
		gs_wire_put_u64(&out, 0);
		gs_wire_put_u64(&out, f->cookie);
		gs_wire_put_u16(&out, 0);
		gs_wire_put_u8(&out, f->family);
		gs_wire_put_u8(&out, 0);
	}
	gs_wire_put_u8(&out, 0);
}

static void test_forged_answers(void **state)
{
	const struct forgery forged[] = {
		{0, "described_x", 1000, 0, 1, 0, 0, 0},
		{0, "described_x", 10, 0, 2, 0, 0, 990},
		{0, "described_x", 10, 0, 0, 0, 0, 0},
		{0, "described_x", 10, 0, 4, 0, 0, 0},
		{0, "described_x", 10, 0, 5, 0, 0, 0},
		{0, "system", 10, 0, 1, 0, 0, 0},
		{1, "described_x", 10, 0, 1, 0, 0, 0},
		{5, "site", 10, 0, 1, 0, 0, 0},
		{6, "described_x", 10, 0, 1, 0, 0, 0},
		{0, "described_x", 10, 0, 1, 1, GS_FAMILY_USCOPE, 0},
		{4, "_Z9scoped_onei", 10, 5, 1, 1, GS_FAMILY_USCOPE, 0},
		{4, "_Z9scoped_onei", 10, 1 << 24, 1, 1, GS_FAMILY_USCOPE, 0},
		{4, "_Z9scoped_onei", 10, 0, 1, 1, GS_FAMILY_CUDA, 0},
	};
	const struct forgery fine[] = {
		{0, "described_x", 999, 0, 1, 0, 0, 0},
		{4, "_Z9scoped_onei", 10, 1 << 16, 1, 1, GS_FAMILY_USCOPE, 0}};
	GS_CLEANUP(gs_buf_fini) struct gs_buf answer = GS_BUF_INIT(1 << 16);
	size_t bytes;

	for (size_t i = 0; i < GS_ARRAY_LEN(forged); i++) {
		gs_buf_reset(&answer);
		put_forged(&answer, &forged[i]);
		if (take(&answer) != -EBADMSG)
			fail_msg("forgery %zu was taken", i);
		assert_int_equal(seen.bytes, 0);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(fine); i++) {
		gs_buf_reset(&answer);
		put_forged(&answer, &fine[i]);
		assert_int_equal(take(&answer), 0);
		bytes = answer.bytes;
		for (answer.bytes = 0; answer.bytes < bytes; answer.bytes++)
			assert_int_equal(take(&answer), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_here),
		cmocka_unit_test(test_what_was_asked_for),
		cmocka_unit_test(test_forged_answers),
	};
	int failed;

	seen = GS_BUF_INIT(1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	gs_buf_fini(&seen);
	return failed;
}
