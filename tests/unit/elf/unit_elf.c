/*
 * ELF files made by the compiler, whole, stripped, without section headers. Where a function lies
 * is checked against the loaded library: the bytes at the offset found must be those at the
 * function's address.
 */
#include "unit/elf/sample.h"

#include <dlfcn.h>

static void assert_code(struct gs_elf *elf, const struct gs_elf_symbol *symbol, const void *code)
{
	uint8_t bytes[32];
	size_t n = symbol->size_bytes < sizeof(bytes) ? symbol->size_bytes : sizeof(bytes);

	assert_true(symbol->found);
	assert_true(n > 4);
	assert_int_equal(gs_elf_read(elf, symbol->file_off, bytes, n), n);
	assert_memory_equal(bytes, code, n);
}

/* ---- symbols ---- */

static void finds_exported_functions(struct gs_elf *elf, void *handle)
{
	const char *const names[] = {"plain_one", "plain_two", "f", "ab", "weak_one", "static_at"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		struct gs_elf_symbol symbol = find_one(elf, names[i], false);

		assert_true(symbol.dynamic);
		assert_code(elf, &symbol, dlsym(handle, names[i]));
		assert_true(gs_elf_defines(elf, names[i]));
	}
}

static void finds_no_others(struct gs_elf *elf, bool with_static)
{
	const char *const names[] = {"indirect_one", "data_one",   "undefined_one", "",
				     "plain_on",     "plain_one_", "lain_one"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		assert_false(find_one(elf, names[i], with_static).found);
		assert_false(gs_elf_defines(elf, names[i]));
	}
}

/* Calls of the library through undefined_one need it from somewhere. */
int undefined_one(int x);
__attribute__((visibility("default"))) int undefined_one(int x)
{
	return x;
}

static void *load(const char *name)
{
	void *handle = dlopen(shop_path("%s", name), RTLD_LAZY | RTLD_LOCAL);

	if (!handle)
		fail_msg("%s", dlerror());
	return handle;
}

static void finds_in_a_library(void **state)
{
	ELF_CLOSE struct gs_elf *elf = open_file("lib.so");
	void *handle = load("lib.so");
	int (*(*static_at)(int))(int) = dlsym(handle, "static_at");
	const char *const names[] = {"static_one", "tail_of_static_one", "versioned_cc_mark",
				     "hidden_one"};
	struct gs_elf_symbol symbol;

	finds_exported_functions(elf, handle);
	finds_no_others(elf, false);
	finds_no_others(elf, true);
	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		assert_false(find_one(elf, names[i], false).found);
		assert_false(gs_elf_defines(elf, names[i]));
		symbol = find_one(elf, names[i], true);
		assert_false(symbol.dynamic);
		assert_code(elf, &symbol, (void *)static_at((int)i));
	}
	assert_true(gs_elf_has_symtab(elf));
	dlclose(handle);
}

static void finds_many_at_once(void **state)
{
	ELF_CLOSE struct gs_elf *elf = open_file("lib.so");
	const char *const names[] = {"plain_one", "static_one", "no_such",   "static_one",
				     "f",         "",           "plain_one", "ab"};
	struct gs_elf_symbol symbols[GS_ARRAY_LEN(names)], one;

	assert_int_equal(gs_elf_find(elf, names, GS_ARRAY_LEN(names), true, symbols, NULL), 0);
	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		one = find_one(elf, names[i], true);
		assert_int_equal(symbols[i].found, i != 2 && i != 5);
		assert_int_equal(symbols[i].found, one.found);
		assert_int_equal(symbols[i].file_off, one.file_off);
		assert_int_equal(symbols[i].dynamic, one.dynamic);
	}
	assert_int_equal(gs_elf_find(elf, NULL, 0, true, NULL, NULL), 0);
}

static void finds_very_long_names(void **state)
{
	char name[3000], source[3100];
	const char *names = name;
	struct gs_elf_symbol symbol;

	memset(name, 'l', sizeof(name));
	name[sizeof(name) - 1] = 0;
	snprintf(source, sizeof(source), "int %s(int x) { return x + 5; }\n", name);
	shop_write_text("long.c", source);
	assert_true(shop_run("cc -fPIC -shared long.c -o long.so"));
	for (int hidden = 0; hidden < 2; hidden++) {
		ELF_CLOSE struct gs_elf *elf = open_file("long.so");

		symbol = find_one(elf, name, true);
		assert_true(symbol.found);
		assert_int_equal(symbol.dynamic, !hidden);
		name[sizeof(name) - 2] = 'x';
		assert_int_equal(gs_elf_find(elf, &names, 1, true, &symbol, NULL), 0);
		assert_false(symbol.found);
		name[sizeof(name) - 2] = 'l';
		if (!hidden)
			assert_true(shop_run("cc -fPIC -fvisibility=hidden -shared long.c "
					     "-o long.so"));
	}
}

static void finds_in_a_stripped_library(void **state)
{
	ELF_CLOSE struct gs_elf *elf = open_file("stripped.so");
	void *handle = load("stripped.so");

	finds_exported_functions(elf, handle);
	finds_no_others(elf, true);
	assert_false(find_one(elf, "static_one", true).found);
	assert_false(gs_elf_has_symtab(elf));
	dlclose(handle);
}

static void finds_without_section_headers(void **state)
{
	const char *const from[] = {"lib.so", "sysv.so"};

	for (size_t i = 0; i < GS_ARRAY_LEN(from); i++) {
		ELF_CLOSE struct gs_elf *elf = NULL;
		void *handle;

		drop_sections(from[i], "bare.so");
		elf = open_file("bare.so");
		handle = load("bare.so");
		finds_exported_functions(elf, handle);
		finds_no_others(elf, true);
		assert_false(find_one(elf, "static_one", true).found);
		assert_false(gs_elf_has_symtab(elf));
		dlclose(handle);
		assert_int_equal(unlink(shop_path("bare.so")), 0);
	}
}

static void finds_without_gnu_hash(void **state)
{
	ELF_CLOSE struct gs_elf *elf = open_file("sysv.so");
	void *handle = load("sysv.so");

	assert_int_equal(elf->gnu_hash_off, 0);
	finds_exported_functions(elf, handle);
	finds_no_others(elf, true);
	assert_false(find_one(elf, "static_one", true).dynamic);
	assert_true(find_one(elf, "static_one", true).found);
	dlclose(handle);
}

/* Neither of the hash tables: the section headers say how many symbols there are. */
static void finds_by_the_section_alone(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("sysv.so", &bytes);
	ELF_CLOSE struct gs_elf *elf = open_file("sysv.so");
	Elf64_Dyn *dynamic = (Elf64_Dyn *)(data + elf->dynamic_off);
	ELF_CLOSE struct gs_elf *patched = NULL, *bare = NULL;

	while (dynamic->d_tag != DT_HASH) {
		assert_int_not_equal(dynamic->d_tag, DT_NULL);
		dynamic++;
	}
	dynamic->d_tag = DT_DEBUG;
	shop_write("nohash.so", data, bytes);
	patched = open_file("nohash.so");
	assert_true(find_one(patched, "plain_one", false).dynamic);
	assert_int_equal(find_one(patched, "plain_one", false).file_off,
			 find_one(elf, "plain_one", false).file_off);
	drop_sections("nohash.so", "bare.so");
	bare = open_file("bare.so");
	assert_false(find_one(bare, "plain_one", true).found);
}

static void finds_in_programs(void **state)
{
	const char *const kinds[] = {"-pie", "-no-pie", "-static", "-static-pie"};

	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
		ELF_CLOSE struct gs_elf *elf = NULL;
		struct gs_elf_symbol symbol;
		const uint32_t global_twins = 77777;
		uint8_t code[64];

		if (!shop_run("cc -O0 %s main.c twin.c -o program 2>err", kinds[i])) {
			print_message("skipped %s: the compiler cannot make it\n", kinds[i]);
			continue;
		}
		elf = open_file("program");
		assert_false(find_one(elf, "in_program", false).found);
		symbol = find_one(elf, "in_program", true);
		assert_true(symbol.found);
		assert_false(symbol.dynamic);
		assert_true(symbol.size_bytes > 4);
		assert_int_equal(gs_elf_read(elf, symbol.file_off, code, 4), 4);
		/* endbr64, or push %rbp */
		assert_true(code[0] == 0xf3 || code[0] == 0x55);
		assert_false(gs_elf_defines(elf, "in_program"));
		/* Of two of a name, the one that other files see. */
		symbol = find_one(elf, "twin", true);
		assert_true(symbol.found && symbol.size_bytes <= sizeof(code));
		assert_int_equal(gs_elf_read(elf, symbol.file_off, code, symbol.size_bytes),
				 symbol.size_bytes);
		assert_non_null(memmem(code, symbol.size_bytes, &global_twins, 4));
	}
}

/* "name@@VERSION" is "name"; "name@VERSION" and what only ends so are not. */
static void takes_versions_off_names(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	ELF_CLOSE struct gs_elf *whole = open_file("lib.so"), *elf = NULL;
	char *name;

	name = memmem(data + bytes / 2, bytes - bytes / 2, "\0versioned_cc_mark", 19);
	assert_non_null(name);
	memcpy(name + 1, "versioned@@_mark", 16);
	shop_write("versioned.so", data, bytes);
	elf = open_file("versioned.so");
	assert_false(find_one(elf, "versioned_cc_mark", true).found);
	assert_int_equal(find_one(elf, "versioned", true).file_off,
			 find_one(whole, "versioned_cc_mark", true).file_off);
	assert_false(find_one(elf, "ersioned", true).found);
	gs_elf_close(&elf);
	memcpy(name + 1, "versioned_@_mark", 16);
	shop_write("versioned.so", data, bytes);
	elf = open_file("versioned.so");
	assert_false(find_one(elf, "versioned_", true).found);
}

/* A symbol whose address is in no executable segment has no code to probe. */
static void wants_executable_code(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)data;
	Elf64_Phdr *ph = (Elf64_Phdr *)(data + eh->e_phoff);
	ELF_CLOSE struct gs_elf *elf = NULL;

	for (unsigned i = 0; i < eh->e_phnum; i++)
		ph[i].p_flags &= ~(Elf64_Word)PF_X;
	shop_write("nocode.so", data, bytes);
	elf = open_file("nocode.so");
	assert_false(find_one(elf, "plain_one", true).found);
	assert_false(find_one(elf, "static_one", true).found);
	assert_false(gs_elf_defines(elf, "plain_one"));
}

/* More symbols and strings than fit into a block, so that names lie across its end. */
static void streams_big_tables(void **state)
{
	enum { N_SYMBOLS = 60000, N_NAMES = 3000, STEP = N_SYMBOLS / N_NAMES };
	GS_FREE char *names = malloc(N_NAMES * 48);
	const char **list = calloc(N_NAMES, sizeof(*list));
	struct gs_elf_symbol *symbols = calloc(N_NAMES, sizeof(*symbols));
	ELF_CLOSE struct gs_elf *elf = NULL;
	FILE *f = fopen(shop_path("big.s"), "we");

	assert_non_null(f);
	fprintf(f, ".text\n");
	for (int i = 0; i < N_SYMBOLS; i++)
		fprintf(f, ".type fn%d_%.*s, @function\nfn%d_%.*s: .byte 0x90\n", i, i % 23,
			"abcdefghijklmnopqrstuvwxyz", i, i % 23, "abcdefghijklmnopqrstuvwxyz");
	fclose(f);
	assert_true(shop_run("cc -shared -nostdlib big.s -o big.so"));
	elf = open_file("big.so");
	for (int i = 0; i < N_NAMES; i++) {
		list[i] = names + 48 * i;
		snprintf(names + 48 * i, 48, "fn%d_%.*s", i * STEP, i * STEP % 23,
			 "abcdefghijklmnopqrstuvwxyz");
	}
	assert_int_equal(gs_elf_find(elf, list, N_NAMES, true, symbols, NULL), 0);
	for (int i = 0; i < N_NAMES; i++) {
		if (!symbols[i].found)
			fail_msg("%s is not found", list[i]);
		assert_int_equal(symbols[i].file_off - symbols[0].file_off, i * STEP);
	}
	free(list);
	free(symbols);
}

/* ---- the rest ---- */

struct visited {
	const char *prefix;
	size_t n;
	bool seen[3];
};

static const char *const exported[] = {"pre_one", "pre_two", "other"};

static int on_symbol(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	struct visited *v = ctx;

	assert_int_equal(strncmp(name, v->prefix, strlen(v->prefix)), 0);
	assert_true(symbol->found && symbol->dynamic && symbol->size_bytes);
	for (size_t i = 0; i < GS_ARRAY_LEN(exported); i++)
		v->seen[i] |= strcmp(name, exported[i]) == 0;
	v->n++;
	return 0;
}

static int stop(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	return ++*(int *)ctx == 2 ? 42 : 0;
}

static int on_text(void *ctx, const char *text)
{
	char *all = ctx;

	strcat(strcat(all, text), "|");
	return 0;
}

static void visits_all_of_a_library(void **state)
{
	struct visited pre = {.prefix = "pre_"}, all = {.prefix = ""};
	struct gs_elf *elf = NULL;
	char texts[512] = "";
	int n = 0;

	shop_write_text("each.c",
			"int pre_one(void) { return 1; } int pre_two(void) { return 2; }\n"
			"int other(void) { return 3; } static int pre_hidden(void) { return 4; }\n"
			"int pre_data = 5; int (*const p)(void) = pre_hidden;\n"
			"const char *const t[] = {\"a -> b\", \"none\", \"xa -> c\"};\n");
	assert_true(shop_run("cc -fPIC -shared each.c -o each.so"));
	assert_int_equal(gs_elf_open(shop_path("each.so"), &elf, NULL), 0);
	assert_int_equal(gs_elf_each_symbol(elf, "pre_", on_symbol, &pre, NULL), 0);
	assert_int_equal(pre.n, 2);
	assert_true(pre.seen[0] && pre.seen[1]);
	assert_int_equal(gs_elf_each_symbol(elf, "", on_symbol, &all, NULL), 0);
	assert_true(all.n >= 3 && all.seen[0] && all.seen[1] && all.seen[2]);
	assert_int_equal(gs_elf_each_symbol(elf, "", stop, &n, NULL), 42);
	assert_int_equal(gs_elf_each_text(elf, " -> ", on_text, texts, NULL), 0);
	assert_non_null(strstr(texts, "a -> b|"));
	assert_non_null(strstr(texts, "xa -> c|"));
	assert_null(strstr(texts, "none"));
	gs_elf_close(&elf);
}

/* More names, and a longer constant section, than a window holds. */
static void visits_all_of_a_big_library(void **state)
{
	struct visited v = {.prefix = "big_"};
	struct gs_elf *elf = NULL;
	FILE *f = fopen(shop_path("each_big.s"), "we");
	char texts[64] = "";

	assert_non_null(f);
	for (int i = 0; i < 30000; i++)
		fprintf(f,
			".globl big_function_with_a_rather_long_name_%d\n"
			".type big_function_with_a_rather_long_name_%d,@function\n"
			"big_function_with_a_rather_long_name_%d: ret\n"
			".size big_function_with_a_rather_long_name_%d, 1\n",
			i, i, i, i);
	fprintf(f, ".section .rodata\n.zero 262140\n.asciz \"over -> the edge\"\n.zero 600000\n"
		   ".asciz \"far -> away\"\n");
	fclose(f);
	assert_true(shop_run("cc -shared -nostdlib each_big.s -o each_big.so"));
	assert_int_equal(gs_elf_open(shop_path("each_big.so"), &elf, NULL), 0);
	assert_int_equal(gs_elf_each_symbol(elf, "big_", on_symbol, &v, NULL), 0);
	assert_int_equal(v.n, 30000);
	assert_int_equal(gs_elf_each_text(elf, " -> ", on_text, texts, NULL), 0);
	assert_string_equal(texts, "over -> the edge|far -> away|");
	gs_elf_close(&elf);
}

static void reads_bytes(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	ELF_CLOSE struct gs_elf *elf = open_file("lib.so");
	uint8_t out[64];

	assert_int_equal(gs_elf_read(elf, 100, out, 64), 64);
	assert_memory_equal(out, data + 100, 64);
	assert_int_equal(gs_elf_read(elf, bytes - 10, out, 64), 10);
	assert_memory_equal(out, data + bytes - 10, 10);
	assert_int_equal(gs_elf_read(elf, bytes, out, 64), 0);
	assert_int_equal(gs_elf_read(elf, UINT64_MAX, out, 64), 0);
	assert_int_equal(gs_elf_read(elf, 0, out, 0), 0);
}

static void tells_the_build_id(void **state)
{
	ELF_CLOSE struct gs_elf *elf = open_file("lib.so"), *none = open_file("sysv.so");
	ELF_CLOSE struct gs_elf *bare = NULL;

	assert_string_equal(gs_elf_build_id(elf), "00ff17");
	assert_string_equal(gs_elf_build_id(elf), "00ff17");
	assert_string_equal(gs_elf_build_id(none), "");
	drop_sections("lib.so", "bare.so");
	bare = open_file("bare.so");
	assert_string_equal(gs_elf_build_id(bare), "00ff17");
}

/* Others come before it, in notes of the same segment. */
static void passes_over_other_notes(void **state)
{
	ELF_CLOSE struct gs_elf *elf = NULL;

	shop_write_text("notes.s", ".section .note.first, \"a\", @note\n"
				   ".balign 4\n.long 2, 5, 3\n.asciz \"X\"\n.balign 4\n"
				   ".byte 1, 2, 3, 4, 5\n.balign 4\n"
				   ".long 4, 4, 3\n.asciz \"GNU\"\n.byte 0xab, 0xcd, 0, 1\n");
	assert_true(shop_run("cc -nostdlib -shared -Wl,--build-id=none notes.s -o notes.so"));
	elf = open_file("notes.so");
	assert_string_equal(gs_elf_build_id(elf), "abcd0001");
}

/* Where the number of sections does not fit into the header it is in the first of them. */
static void counts_very_many_sections(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)data;
	Elf64_Shdr *first = (Elf64_Shdr *)(data + eh->e_shoff);
	ELF_CLOSE struct gs_elf *elf = NULL;

	first->sh_size = eh->e_shnum;
	eh->e_shnum = 0;
	shop_write("sections.so", data, bytes);
	elf = open_file("sections.so");
	assert_true(find_one(elf, "static_one", true).found);
	first->sh_size = UINT64_MAX / 64 + 2;
	shop_write("sections.so", data, bytes);
	assert_refused(shop_path("sections.so"), -ENOEXEC);
	eh->e_shoff = bytes - 8;
	shop_write("sections.so", data, bytes);
	assert_refused(shop_path("sections.so"), -ENOEXEC);
}

static void reads_long_texts(void **state)
{
	struct gs_elf_needs needs = {0};
	ELF_CLOSE struct gs_elf *elf = NULL;
	char folder[2001];

	memset(folder, 'r', sizeof(folder));
	folder[0] = '/';
	folder[sizeof(folder) - 1] = 0;
	assert_true(shop_run("cc -fPIC -shared -nostdlib -Wl,-rpath,%s lib.c -o rpath.so", folder));
	elf = open_file("rpath.so");
	assert_int_equal(gs_elf_read_needs(elf, &needs), 0);
	assert_string_equal(needs.runpath ? needs.runpath : needs.rpath, folder);
	gs_elf_needs_fini(&needs);
}

static void refuses_texts_behind_their_table(void **state)
{
	ELF_CLOSE struct gs_elf *whole = NULL, *elf = NULL;
	struct gs_elf_needs needs = {0};
	GS_FREE uint8_t *data = NULL;
	Elf64_Dyn *dynamic;
	size_t bytes;

	assert_true(shop_run("cc -fPIC -shared lib.c -Wl,--no-as-needed -lc -o text.so"));
	data = shop_read("text.so", &bytes);
	whole = open_file("text.so");
	dynamic = (Elf64_Dyn *)(data + whole->dynamic_off);
	while (dynamic->d_tag != DT_NEEDED) {
		assert_int_not_equal(dynamic->d_tag, DT_NULL);
		dynamic++;
	}
	dynamic->d_un.d_val = whole->dynsym.str_bytes;
	shop_write("text.so", data, bytes);
	elf = open_file("text.so");
	assert_int_equal(gs_elf_read_needs(elf, &needs), -ENOEXEC);
	assert_null(needs.needed);
	assert_true(find_one(elf, "plain_one", false).found);
}

static void reads_what_a_file_needs(void **state)
{
	struct gs_elf_needs needs = {0};
	ELF_CLOSE struct gs_elf *elf = NULL, *old = NULL;

	assert_true(shop_run("cc -fPIC -shared twin.c -o libtwin.so"));
	assert_true(shop_run("cc -fPIC -shared -Wl,--no-as-needed -Wl,--enable-new-dtags "
			     "-Wl,-rpath,'$ORIGIN/a:/b' lib.c -L. -ltwin -o needs.so"));
	assert_true(shop_run("cc -fPIC -shared -nostdlib -Wl,--disable-new-dtags "
			     "-Wl,-rpath,/c lib.c -o old.so"));
	elf = open_file("needs.so");
	assert_int_equal(gs_elf_read_needs(elf, &needs), 0);
	assert_string_equal(needs.runpath, "$ORIGIN/a:/b");
	assert_null(needs.rpath);
	assert_true(needs.n_needed >= 2);
	assert_string_equal(needs.needed[0], "libtwin.so");
	gs_elf_needs_fini(&needs);
	old = open_file("old.so");
	assert_int_equal(gs_elf_read_needs(old, &needs), 0);
	assert_string_equal(needs.rpath, "/c");
	assert_null(needs.runpath);
	assert_int_equal(needs.n_needed, 0);
	gs_elf_needs_fini(&needs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_in_a_library),
		cmocka_unit_test(finds_many_at_once),
		cmocka_unit_test(finds_very_long_names),
		cmocka_unit_test(finds_in_a_stripped_library),
		cmocka_unit_test(finds_without_section_headers),
		cmocka_unit_test(finds_without_gnu_hash),
		cmocka_unit_test(finds_by_the_section_alone),
		cmocka_unit_test(finds_in_programs),
		cmocka_unit_test(takes_versions_off_names),
		cmocka_unit_test(wants_executable_code),
		cmocka_unit_test(streams_big_tables),
		cmocka_unit_test(visits_all_of_a_library),
		cmocka_unit_test(visits_all_of_a_big_library),
		cmocka_unit_test(reads_bytes),
		cmocka_unit_test(tells_the_build_id),
		cmocka_unit_test(passes_over_other_notes),
		cmocka_unit_test(counts_very_many_sections),
		cmocka_unit_test(reads_long_texts),
		cmocka_unit_test(refuses_texts_behind_their_table),
		cmocka_unit_test(reads_what_a_file_needs),
	};

	return cmocka_run_group_tests(tests, make_files, shop_close);
}
