/*
 * Which kernel a host function stands for: this program registers two as nvcc writes it
 * (crt/host_runtime.h), and is then read as a file, once compiled without and once with optimisation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sources/cubin/stubs.h"
#include "sources/elf/code.h"

struct dim;

/* What makes a file one with CUDA code. */
__attribute__((section(".nv_fatbin"), used)) static const char fatbin[16] = "\x50\xed\x55\xba";

/* Named otherwise, and in this program: it is found by how it is called. */
__attribute__((noipa)) static void register_function(void **handle, const char *host, char *device,
						     const char *name, int limit, struct dim *a,
						     struct dim *b, struct dim *c, struct dim *d,
						     int *wrap)
{
	__asm__ volatile("" : : "r"(handle), "r"(host), "r"(name) : "memory");
}

__attribute__((noipa)) static void stub_scale(float *p)
{
	*p = 1;
}

__attribute__((noipa)) static void stub_fill(float *p)
{
	*p = 2;
}

__attribute__((noipa)) static void stub_other(float *p)
{
	*p = 3;
}

/* As __cudaGetKernel(). */
__attribute__((noipa)) static int get_kernel(void **handle, const void *host)
{
	*handle = (void *)(uintptr_t)host;
	return 0;
}

static void *handle_of_fill, *handle_of_other;

__attribute__((noipa)) static void register_all(void **handle)
{
	register_function(handle, (const char *)stub_fill, (char *)"_ZN3app4fillIdEEvPT_S1_",
			  "_ZN3app4fillIdEEvPT_S1_", -1, NULL, NULL, NULL, NULL, NULL);
	register_function(handle, (const char *)stub_scale, (char *)"_ZN3app5scaleEPfi",
			  "_ZN3app5scaleEPfi", -1, NULL, NULL, NULL, NULL, NULL);
	/* No name, and no -1. */
	register_function(handle, (const char *)stub_other, (char *)"two words", "two words", -1,
			  NULL, NULL, NULL, NULL, NULL);
	register_function(handle, (const char *)stub_other, (char *)"limited", "limited", 7, NULL,
			  NULL, NULL, NULL, NULL);
}

__attribute__((noipa)) static void get_handles(void)
{
	get_kernel(&handle_of_fill, (const void *)stub_fill);
	get_kernel(&handle_of_other, (const void *)stub_other); /* which is no stub */
}

static uint64_t vaddr_of(struct gs_elf *elf, const char *name)
{
	struct gs_elf_symbol symbol;
	struct gs_elf_segments code;
	uint64_t vaddr = 0;

	assert_int_equal(gs_elf_find(elf, &name, 1, true, &symbol, NULL), 0);
	assert_true(symbol.found);
	assert_int_equal(gs_elf_code_segments(elf, &code), 0);
	assert_true(gs_elf_vaddr_of(&code, symbol.file_off, &vaddr));
	return vaddr;
}

static void stubs_have_their_names(void **state)
{
	struct gs_cubin_stubs *stubs = NULL;
	struct gs_elf *elf = NULL;
	char name[64];

	register_all(NULL);
	assert_int_equal(fatbin[0], 0x50);
	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_cubin_stubs_new(elf, &stubs), 0);
	assert_int_equal(gs_cubin_stubs_count(stubs), 2);
	assert_true(gs_cubin_stubs_bytes(stubs) < 4096);
	assert_true(
		gs_cubin_stubs_name(stubs, elf, vaddr_of(elf, "stub_scale"), name, sizeof(name)));
	assert_string_equal(name, "_ZN3app5scaleEPfi");
	assert_true(
		gs_cubin_stubs_name(stubs, elf, vaddr_of(elf, "stub_fill"), name, sizeof(name)));
	assert_string_equal(name, "_ZN3app4fillIdEEvPT_S1_");
	assert_false(
		gs_cubin_stubs_name(stubs, elf, vaddr_of(elf, "stub_other"), name, sizeof(name)));
	/* A name that does not fit is none. */
	assert_false(gs_cubin_stubs_name(stubs, elf, vaddr_of(elf, "stub_fill"), name, 8));
	gs_cubin_stubs_free(&stubs);
	assert_null(stubs);
	gs_elf_close(&elf);
}

static void variables_of_handles_are_found(void **state)
{
	const struct gs_cubin_handle *handles;
	struct gs_cubin_stubs *stubs = NULL;
	struct gs_elf *elf = NULL;
	size_t n;

	get_handles();
	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_cubin_stubs_new(elf, &stubs), 0);
	handles = gs_cubin_stubs_handles(stubs, &n);
	assert_int_equal(n, 1);
	assert_int_equal(handles[0].stub, vaddr_of(elf, "stub_fill"));
	/* As far from the function as in memory. */
	assert_int_equal(handles[0].vaddr - handles[0].stub,
			 (uint64_t)(uintptr_t)&handle_of_fill - (uint64_t)(uintptr_t)stub_fill);
	gs_cubin_stubs_free(&stubs);
	gs_elf_close(&elf);
}

static void other_files_have_none(void **state)
{
	struct gs_cubin_stubs *stubs = NULL;
	struct gs_elf *elf = NULL;

	assert_int_equal(gs_elf_open("/bin/sh", &elf, NULL), 0);
	assert_int_equal(gs_cubin_stubs_new(elf, &stubs), 0);
	assert_int_equal(gs_cubin_stubs_count(stubs), 0);
	gs_cubin_stubs_free(&stubs);
	gs_elf_close(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_have_their_names),
		cmocka_unit_test(variables_of_handles_are_found),
		cmocka_unit_test(other_files_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
