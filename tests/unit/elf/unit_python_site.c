/* Where an interpreter can be probed: this program has functions, variables and static probes named
 * as those of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/sdt.h>

#include "sources/elf/object.h"
#include "sources/elf/python_site.h"
#include "model/trace/kernel_side.h"
#include "model/trace/python.h"

uint64_t _PyRuntime[80] __attribute__((used)) = {1};
const unsigned long Py_Version __attribute__((used)) = 0x030b02f0;
static volatile int sink;

static __attribute__((noinline, used)) void gc_collect_main(void)
{
	STAP_PROBE1(python, gc__start, 0);
	sink++;
	STAP_PROBE1(python, gc__done, 0);
}

static __attribute__((noinline, used)) void take_gil(void)
{
	sink++;
	STAP_PROBE3(python, function__return, "file", "name", 3);
}

/* As gcc names what link-time optimization made local. */
static void take_gil_copy(void) __asm__("take_gil.lto_priv.0");
static __attribute__((noinline, used)) void take_gil_copy(void)
{
	sink++;
}

static struct gs_elf *open_self(void)
{
	struct gs_elf *elf = NULL;
	struct gs_err err;

	gc_collect_main();
	take_gil();
	take_gil_copy();
	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, &err), 0);
	return elf;
}

static void test_functions(void **state)
{
	struct gs_python_site sites[GS_PYTHON_SITE_MAX];
	struct gs_elf *elf = open_self();
	struct gs_err err;
	unsigned n = 9;

	assert_int_equal(gs_elf_python_sites(elf, GS_PYTHON_COLLECTS, sites, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(sites[0].name, "gc_collect_main");
	assert_true(sites[0].symbol.file_off > 0);
	assert_int_equal(gs_elf_python_sites(elf, GS_PYTHON_TAKES_LOCK, sites, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(sites[0].name, "take_gil");
	assert_string_equal(sites[1].name, "take_gil.lto_priv.0");
	assert_int_equal(gs_elf_python_sites(elf, GS_PYTHON_RETAKES_LOCK, sites, &n, &err), 0);
	assert_int_equal(n, 0);
	gs_elf_close(&elf);
}

static void test_gc_probes(void **state)
{
	struct gs_python_site sites[GS_PYTHON_SITE_MAX];
	struct gs_elf *elf = open_self();
	struct gs_usdt_places probes[2];
	struct gs_err err;
	unsigned n;

	assert_int_equal(gs_elf_python_gc_probes(elf, probes, &err), 0);
	assert_int_equal(probes[0].n, 1);
	assert_int_equal(probes[1].n, 1);
	assert_int_equal(gs_elf_python_sites(elf, GS_PYTHON_COLLECTS, sites, &n, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(probes[i].at[0].file_off >= sites[0].symbol.file_off);
		assert_true(probes[i].at[0].file_off <
			    sites[0].symbol.file_off + sites[0].symbol.size_bytes);
		assert_int_equal(probes[i].at[0].cookie, 0);
	}
	assert_true(probes[0].at[0].file_off < probes[1].at[0].file_off);
	gs_elf_close(&elf);
}

static void test_left_probe(void **state)
{
	struct gs_elf *elf = open_self();
	struct gs_usdt_places probe;
	struct gs_err err;
	const char *runtime = "_PyRuntime";
	uint64_t at, wanted = 0;

	assert_int_equal(gs_elf_python_left_probe(elf, 0x030b, &probe, &err), 0);
	assert_int_equal(probe.n, 1);
	/* The way that the kernel side goes from the instruction; addresses of the file. */
	assert_int_equal(gs_elf_objects(elf, &runtime, 1, &wanted), 0);
	at = (probe.at[0].vaddr & ~(GS_PYCALL_WORD - 1)) +
	     (probe.at[0].cookie >> GS_COOKIE_FRAME_SHIFT) * GS_PYCALL_WORD;
	assert_int_equal(at, wanted);
	gs_elf_close(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_gc_probes),
		cmocka_unit_test(test_left_probe),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
