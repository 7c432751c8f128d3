/* Debug files by their link: which are believed, and how much of them is read. */
#include "unit/elf/workshop.h"

#include "core/base/foreign.h"
#include "sources/elf/code.h"
#include "sources/unwind/symbolize.h"

static struct gs_guard *guard;

static int start(void **state)
{
	const struct gs_guard_options o = {.size = sizeof(o)};

	if (gs_guard_new(&o, &guard) < 0 || shop_open(state) < 0)
		return -1;
	gs_guard_enter(guard);
	/* Without a build id only the link leads to the debug file. */
	return shop_run("echo 'static int hidden(int n) { return n * 3; } int (*const at)(int) = "
			"hidden; int main(void) { return 0; }' >p.c && "
			"gcc -O1 -g -Wl,--build-id=none -o p p.c && "
			"objcopy --only-keep-debug p p.debug && strip p && "
			"objcopy --add-gnu-debuglink=p.debug p")
		       ? 0
		       : -1;
}

static int stop(void **state)
{
	gs_guard_free(&guard);
	return shop_close(state);
}

/* The debug file of the program, when one is found and believed. */
static bool take_debug(void *ctx, const char *path, bool by_build_id)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	GS_CLEANUP(gs_elf_close) struct gs_elf *debug = NULL;

	assert_false(by_build_id);
	assert_int_equal(gs_elf_open(shop_path("p"), &elf, NULL), 0);
	if (gs_elf_open_debug(path, NULL, &debug, NULL) < 0 ||
	    !gs_unwind_debug_fits(elf, debug, by_build_id, false))
		return false;
	*(bool *)ctx = strcmp(path, shop_path("p.debug")) == 0;
	return true;
}

static bool uses_debug_file(uint64_t *ret_bytes)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	const char *roots[] = {""};
	uint64_t before = gs_guard_bytes_read(guard);
	bool taken = false;
	char link[256];
	uint32_t crc;

	assert_int_equal(gs_elf_open(shop_path("p"), &elf, NULL), 0);
	assert_true(gs_elf_debug_link(elf, link, &crc));
	gs_unwind_debug_paths(gs_elf_build_id(elf), link, shop_path("p"), roots, 1, take_debug,
			      &taken);
	*ret_bytes = gs_guard_bytes_read(guard) - before;
	return taken;
}

static void one_of_root_is_believed(void **state)
{
	uint64_t bytes;

	if (getuid() != 0)
		skip();
	assert_true(uses_debug_file(&bytes));
}

static void one_of_another_user_is_not(void **state)
{
	uint64_t bytes;
	char what[160];

	if (getuid() != 0)
		skip();
	assert_int_equal(chown(shop_path("p.debug"), 65534, 65534), 0);
	assert_false(uses_debug_file(&bytes));
	assert_int_equal(gs_guard_refused(guard, GS_REFUSED_DEBUG, what, sizeof(what)), 1);
	assert_string_equal(what, shop_path("p.debug"));
	assert_int_equal(chown(shop_path("p.debug"), 0, 0), 0);
}

static void one_of_any_length_is_not(void **state)
{
	uint64_t bytes;
	char what[160];

	if (getuid() != 0)
		skip();
	assert_int_equal(truncate(shop_path("p.debug"), 3900000000), 0);
	assert_false(uses_debug_file(&bytes));
	assert_int_equal(gs_guard_refused(guard, GS_REFUSED_DEBUG, what, sizeof(what)), 1);
	assert_true(bytes < 1u << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_root_is_believed),
		cmocka_unit_test(one_of_another_user_is_not),
		cmocka_unit_test(one_of_any_length_is_not),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
