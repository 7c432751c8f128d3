/*
 * The files that the ELF tests look at, and the first steps with one.
 */
#ifndef TESTS_UNIT_ELF_SAMPLE_H
#define TESTS_UNIT_ELF_SAMPLE_H

#include "unit/elf/workshop.h"

#include <elf.h>

#include "sources/elf/elf_int.h"

#define ELF_CLOSE GS_CLEANUP(gs_elf_close)

static const char lib_source[] =
	"#define F(name, n) __attribute__((noinline)) int name(int x)"
	" { __asm__ volatile(\"movl $\" #n \", %%eax\" ::: \"eax\"); return x * 3 + n; }\n"
	"F(plain_one, 1001)\n"
	"F(plain_two, 1002)\n"
	"F(f, 1003)\n"
	"F(ab, 1004)\n"
	"__attribute__((weak)) F(weak_one, 1005)\n"
	"__attribute__((visibility(\"hidden\"))) F(hidden_one, 1006)\n"
	"static F(static_one, 1007)\n"
	"static F(tail_of_static_one, 1008)\n"
	"static F(versioned_cc_mark, 1009)\n"
	"static int (*choose(void))(int) { return plain_one; }\n"
	"int indirect_one(int x) __attribute__((ifunc(\"choose\")));\n"
	"int data_one[64] = {1};\n"
	"extern int undefined_one(int x);\n"
	"int (*static_at(int i))(int)\n"
	"{\n"
	"	static int (*const all[])(int) = {static_one, tail_of_static_one,\n"
	"		versioned_cc_mark, hidden_one};\n"
	"	return i < 4 ? all[i] : undefined_one;\n"
	"}\n";

static const char twin_source[] = "int twin(int x) { return x + 77777; }\n";

static inline int make_files(void **state)
{
	if (shop_open(state) != 0)
		return -1;
	shop_write_text("lib.c", lib_source);
	shop_write_text("twin.c", twin_source);
	shop_write_text("main.c", "static int twin(int x) { return x + 1; }\n"
				  "int in_program(int x) { return twin(x) + 3; }\n"
				  "int main(void) { return in_program(-4); }\n");
	if (!shop_run("cc -O1 -fPIC -shared -Wl,--hash-style=gnu -Wl,--build-id=0x00ff17 "
		      "lib.c -o lib.so"))
		return -1;
	return shop_run("cc -O1 -fPIC -shared -Wl,--hash-style=sysv -Wl,--build-id=none "
			"lib.c -o sysv.so") &&
			       shop_run("strip -s -o stripped.so lib.so")
		       ? 0
		       : -1;
}

/* Write a copy without section headers, and without what follows the last segment. */
static inline void drop_sections(const char *from, const char *to)
{
	size_t bytes, end = 0;
	GS_FREE uint8_t *data = shop_read(from, &bytes);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)data;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(data + eh->e_phoff);

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_offset + ph[i].p_filesz > end)
			end = ph[i].p_offset + ph[i].p_filesz;
	}
	eh->e_shoff = 0;
	eh->e_shnum = 0;
	eh->e_shstrndx = 0;
	shop_write(to, data, end);
}

static inline struct gs_elf *open_file(const char *name)
{
	struct gs_elf *elf = NULL;
	struct gs_err err = {0};
	int r = gs_elf_open(shop_path("%s", name), &elf, &err);

	if (r < 0)
		fail_msg("%s: %d %s", name, r, err.text);
	return elf;
}

static inline struct gs_elf_symbol find_one(struct gs_elf *elf, const char *name, bool with_static)
{
	struct gs_elf_symbol symbol = {.file_off = 1};
	struct gs_err err = {0};

	assert_int_equal(gs_elf_find(elf, &name, 1, with_static, &symbol, &err), 0);
	return symbol;
}

static inline void assert_refused(const char *path, int code)
{
	struct gs_elf *elf = NULL;
	struct gs_err err = {0};

	assert_int_equal(gs_elf_open(path, &elf, &err), code);
	assert_null(elf);
	assert_true(err.text[0] != 0);
	assert_int_equal(gs_elf_open(path, &elf, NULL), code);
}

#endif
