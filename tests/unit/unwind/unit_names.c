/* Names: of this program's own functions by address, and of symbols as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "core/demangle/demangle.h"
#include "sources/unwind/symbolize.h"

static void demangles(void **state)
{
	static const struct {
		const char *symbol, *name;
	} names[] = {
		{"_ZN2at6native3addERKNS_6TensorES3_",
		 "at::native::add(at::Tensor const&, at::Tensor const&)"},
		{"_Z1fv", "f()"},
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_ZN4core3fmt5write17h0123456789abcdegE", "core::fmt::write::h0123456789abcdeg"},
		/* Rust's second mangling, as rustc 1.95 writes it. */
		{"_RNvCs6xxl1lAjzDf_1a4main", "a::main"},
		{"_RINvMNtCs6xxl1lAjzDf_1a4deepINtB3_5ThingmE4showKj3_EB5_",
		 "<a::deep::Thing<u32>>::show::<3>"},
		{"_RNCNvCs6xxl1lAjzDf_1a4main0B3_", "a::main::{closure#0}"},
		{"_RNvXCs6xxl1lAjzDf_1aINtNtB2_4deep5ThingThReEENtB2_4Says3say",
		 "<a::deep::Thing<(u8, &str)> as a::Says>::say"},
		{"_RNvCs6xxl1lAjzDf_1au9gre_6ka8i", "a::gr\xc3\xb6\xc3\x9f"
						    "e"},
		{"_RNvC1a4main.llvm.1234", "a::main"},
		{"_RINvC1a1fFG_RL0_uEuE", "a::f::<for<'a> fn(&'a ())>"},
		{"_ZL6hiddenPKc.isra.0", "hidden(char const*) [clone .isra.0]"},
	};
	char out[256];

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		assert_true(gs_demangle_symbol(names[i].symbol, out, sizeof(out)));
		assert_string_equal(out, names[i].name);
	}
}

static void leaves_other_symbols(void **state)
{
	static const char *const symbols[] = {"", "_", "main", "_Z", "_ZZZZ", "_Zfoo", "_ZN3abc",
					      "__cxa_throw", "_R", "_RNvC", "_RNvC1a9main", "_Rfoo",
					      /* For 62^9 lifetimes and more, seen, not seen, and
					       * beside a name that is not ASCII. */
					      "_RIC1xFGzzzzzzzzz_EuE", "_RMIC1xFGzzzzzzzzz_EuEu",
					      "_RIC2u1xDGzzzzzzzzz_EL_E",
					      "_RIC2u1xFGzzzzzzzzz_EuE"};
	char out[64] = "kept", longer[4000];

	for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++)
		assert_false(gs_demangle_symbol(symbols[i], out, sizeof(out)));
	assert_string_equal(out, "kept");
	memset(longer, 'P', sizeof(longer));
	memcpy(longer, "_Z1f", 4);
	longer[sizeof(longer) - 1] = 0;
	assert_false(gs_demangle_symbol(longer, out, sizeof(out)));
}

/* A symbol of 500 bytes that stands for more text than there is memory. */
static void bounds_what_a_symbol_says(void **state)
{
	char symbol[600] = "_Z1f", out[32];
	size_t n = strlen(symbol);

	n += (size_t)sprintf(symbol + n, "1AIiiE");
	for (int i = 0; i < 60; i++) {
		int id = i * 2; /* each argument is A<the one before, the one before> */
		char of[8];

		if (id == 0)
			strcpy(of, "S0_");
		else if (id < 36)
			sprintf(of, "S%c_", id < 10 ? '0' + id : 'A' + id - 10);
		else
			break;
		n += (size_t)sprintf(symbol + n, "S_I%s%sE", of, of);
	}
	if (gs_demangle_symbol(symbol, out, sizeof(out)))
		assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_true(gs_demangle_symbol("_ZN2at6native3addERKNS_6TensorES3_", out, 9));
	assert_string_equal(out, "at::nati");
}

/* The same in Rust: each type is a pair of the one before. */
static void bounds_what_rust_says(void **state)
{
	static const char digits[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char symbol[1200] = "_RINvC1a1f", out[64], before[8] = "m";

	for (int i = 0; i < 60; i++) {
		size_t at = strlen(symbol) - 2 - 1; /* numbers begin behind _R, from one on */
		size_t n = strlen(symbol);

		snprintf(symbol + n, sizeof(symbol) - n, "T%s%sE", before, before);
		if (at < 62)
			snprintf(before, sizeof(before), "B%c_", digits[at]);
		else
			snprintf(before, sizeof(before), "B%c%c_", digits[at / 62],
				 digits[at % 62]);
	}
	strcat(symbol, "E");
	assert_true(gs_demangle_symbol(symbol, out, sizeof(out)));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_memory_equal(out, "a::f::<(u32, u32), ((u32, u32), (u32, u32))", 43);
}

static void names_its_own_functions(void **state)
{
	const char *wanted[] = {"demangles", "gs_demangle_symbol", "main"};
	struct gs_symbols *symbols = NULL;
	struct gs_elf *elf = NULL;
	struct gs_elf_symbol found[3];
	char name[128];
	struct gs_elf_segments segments;
	uint64_t vaddr;

	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_elf_code_segments(elf, &segments), 0);
	assert_int_equal(gs_elf_find(elf, wanted, 3, true, found, NULL), 0);
	assert_int_equal(gs_symbols_new(elf, NULL, &symbols), 0);
	assert_true(gs_symbols_bytes(symbols) > 0);
	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++) {
		assert_true(found[i].found && found[i].size_bytes > 1);
		assert_true(gs_elf_vaddr_of(&segments, found[i].file_off, &vaddr));
		assert_true(gs_symbols_name(symbols, vaddr, name, sizeof(name)));
		assert_string_equal(name, wanted[i]);
		assert_true(gs_symbols_name(symbols, vaddr + found[i].size_bytes - 1, name,
					    sizeof(name)));
		assert_string_equal(name, wanted[i]);
	}
	assert_false(gs_symbols_name(symbols, 1, name, sizeof(name)));
	assert_false(gs_symbols_name(symbols, UINT64_MAX, name, sizeof(name)));
	gs_symbols_free(&symbols);
	gs_elf_close(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(demangles),
		cmocka_unit_test(leaves_other_symbols),
		cmocka_unit_test(bounds_what_a_symbol_says),
		cmocka_unit_test(bounds_what_rust_says),
		cmocka_unit_test(names_its_own_functions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
