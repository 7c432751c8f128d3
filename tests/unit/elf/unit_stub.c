/* To which function a stub jumps, in libraries linked in each of the ways that linkers know. */
#include "unit/elf/sample.h"

static const char caller_source[] = "void free(void *);\n"
				    "int puts(const char *);\n"
				    "static __attribute__((noinline)) int own(int x) { __asm__ "
				    "volatile(\"\"); return x + 1; }\n"
				    "int calls_free(int x) { free(0); return x; }\n"
				    "int calls_puts(int x) { puts(\"\"); return x; }\n"
				    "int calls_own(int x) { return own(x) + 1; }\n"
				    "void *takes_free(void) { return (void *)free; }\n";

static int make_callers(void **state)
{
	static const char *const ways[] = {"-Wl,-z,lazy", "-Wl,-z,now",
					   "-fcf-protection=full -Wl,-z,ibtplt",
					   "-Wl,-z,now -Wl,--hash-style=sysv"};

	if (shop_open(state) != 0)
		return -1;
	shop_write_text("caller.c", caller_source);
	for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++)
		if (!shop_run("cc -O1 -fno-builtin -fPIC -shared -fno-optimize-sibling-calls %s "
			      "caller.c "
			      "-o caller%zu.so && strip -s caller%zu.so",
			      ways[i], i, i))
			return -1;
	return 0;
}

/* Where the first direct call of the function leads in the file. */
static uint64_t callee_of(struct gs_elf *elf, const char *name)
{
	struct gs_elf_symbol symbol = find_one(elf, name, false);
	uint8_t code[64];
	int32_t rel;

	assert_true(symbol.found && symbol.size_bytes <= sizeof(code));
	assert_int_equal(gs_elf_read(elf, symbol.file_off, code, symbol.size_bytes),
			 symbol.size_bytes);
	for (size_t at = 0; at + 5 <= symbol.size_bytes; at++) {
		if (code[at] != 0xe8)
			continue;
		memcpy(&rel, code + at + 1, sizeof(rel));
		return symbol.file_off + at + 5 + (uint64_t)(int64_t)rel;
	}
	fail_msg("%s calls nobody", name);
	return 0;
}

static void names_what_stubs_lead_to(void **state)
{
	for (int i = 0; i < 4; i++) {
		char file[32], name[16];
		ELF_CLOSE struct gs_elf *elf = NULL;
		uint64_t at;

		snprintf(file, sizeof(file), "caller%d.so", i);
		elf = open_file(file);
		at = callee_of(elf, "calls_free");
		assert_int_equal(gs_elf_stub_name(elf, at, name, sizeof(name)), 0);
		assert_string_equal(name, "free");
		assert_int_equal(gs_elf_stub_name(elf, at, name, 5), 0);
		assert_int_equal(gs_elf_stub_name(elf, at, name, 4), -ENOENT);
		at = callee_of(elf, "calls_puts");
		assert_int_equal(gs_elf_stub_name(elf, at, name, sizeof(name)), 0);
		assert_string_equal(name, "puts");
		at = callee_of(elf, "calls_own");
		assert_int_equal(gs_elf_stub_name(elf, at, name, sizeof(name)), -ENOENT);
		assert_int_equal(gs_elf_stub_name(elf, UINT64_MAX, name, sizeof(name)), -ENOENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names_what_stubs_lead_to)};

	return cmocka_run_group_tests(tests, make_callers, shop_close);
}
