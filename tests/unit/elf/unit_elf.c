/*
 * ELF files made by the compiler, whole, stripped, without section headers, cut short and patched.
 * Where a function lies is checked against the loaded library: the bytes at the offset found must
 * be those at the function's address.
 */
#include "unit/elf/workshop.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include "elf/elf_int.h"

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

static int make_files(void **state)
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
static void drop_sections(const char *from, const char *to)
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

static struct gs_elf *open_file(const char *name)
{
	struct gs_elf *elf = NULL;
	struct gs_err err = {0};
	int r = gs_elf_open(shop_path("%s", name), &elf, &err);

	if (r < 0)
		fail_msg("%s: %d %s", name, r, err.text);
	return elf;
}

static struct gs_elf_symbol find_one(struct gs_elf *elf, const char *name, bool with_static)
{
	struct gs_elf_symbol symbol = {.file_off = 1};
	struct gs_err err = {0};

	assert_int_equal(gs_elf_find(elf, &name, 1, with_static, &symbol, &err), 0);
	return symbol;
}

static void assert_code(struct gs_elf *elf, const struct gs_elf_symbol *symbol, const void *code)
{
	uint8_t bytes[32];
	size_t n = symbol->size_bytes < sizeof(bytes) ? symbol->size_bytes : sizeof(bytes);

	assert_true(symbol->found);
	assert_true(n > 4);
	assert_int_equal(gs_elf_read(elf, symbol->file_off, bytes, n), n);
	assert_memory_equal(bytes, code, n);
}

static void assert_refused(const char *path, int code)
{
	struct gs_elf *elf = NULL;
	struct gs_err err = {0};

	assert_int_equal(gs_elf_open(path, &elf, &err), code);
	assert_null(elf);
	assert_true(err.text[0] != 0);
	assert_int_equal(gs_elf_open(path, &elf, NULL), code);
}

/* ---- open ---- */

static void refuses_other_files(void **state)
{
	const struct {
		size_t at;
		uint8_t value;
	} patches[] = {{0, 'x'},
		       {EI_CLASS, ELFCLASS32},
		       {EI_DATA, ELFDATA2MSB},
		       {18, EM_386},
		       {16, ET_REL},
		       {16, ET_CORE},
		       {54, 55},
		       {56, 0},
		       {57, 0xff},
		       {58, 63}};
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);

	assert_refused(shop_path("missing"), -ENOENT);
	assert_refused(shop_dir, -ENOEXEC);
	assert_int_equal(mkfifo(shop_path("fifo"), 0600), 0);
	assert_refused(shop_path("fifo"), -ENOEXEC);
	shop_write_text("empty", "");
	assert_refused(shop_path("empty"), -ENOEXEC);
	assert_refused(shop_path("lib.c"), -ENOEXEC);
	for (size_t i = 0; i < GS_ARRAY_LEN(patches); i++) {
		uint8_t kept = data[patches[i].at];

		data[patches[i].at] = patches[i].value;
		shop_write("patched", data, bytes);
		assert_refused(shop_path("patched"), -ENOEXEC);
		data[patches[i].at] = kept;
	}
}

static void refuses_what_is_cut_short(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	GS_CLOSE int fd = memfd_create("cut", MFD_CLOEXEC);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(write(fd, data, bytes), bytes);
	for (size_t n = bytes - 1; n > 0; n -= n > 4096 ? 61 : 1) { /* every one below 4 KiB */
		assert_int_equal(ftruncate(fd, (off_t)n), 0);
		assert_refused(path, -ENOEXEC);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_refused(path, -ENOEXEC);
}

/* Closing twice and closing nothing is allowed. */
static void closes_once(void **state)
{
	struct gs_elf *elf = open_file("lib.so");

	gs_elf_close(&elf);
	assert_null(elf);
	gs_elf_close(&elf);
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

	while (dynamic->d_tag != DT_HASH)
		dynamic++;
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

/* ---- malformed tables ---- */

static int find_in(const char *name, bool with_static, struct gs_err *err)
{
	ELF_CLOSE struct gs_elf *elf = open_file(name);
	const char *const names[] = {"plain_one", "static_one", "no_such"};
	struct gs_elf_symbol symbols[3];

	(void)gs_elf_defines(elf, "plain_one");
	(void)gs_elf_has_symtab(elf);
	return gs_elf_find(elf, names, 3, with_static, symbols, err);
}

static void refuses_malformed_hash_tables(void **state)
{
	const struct {
		unsigned word;
		uint32_t value;
		int result;
	} patches[] = {
		{0, 0, 0},                 /* no buckets: defines nothing */
		{0, 0xffffffff, -ENOEXEC}, /* buckets behind the end */
		{1, 0xffffff, -ENOEXEC},   /* a bucket below the first symbol */
		{2, 0, -ENOEXEC},          /* no filter */
		{2, 3, -ENOEXEC},          /* not a power of two */
		{2, 1u << 31, -ENOEXEC},   /* behind the end */
		{3, 64, -ENOEXEC},         /* a shift of all bits */
	};
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	ELF_CLOSE struct gs_elf *elf = open_file("lib.so");
	uint32_t *head = (uint32_t *)(data + elf->gnu_hash_off);
	uint32_t *bloom = head + 4, *buckets = bloom + 2 * head[2], *chain = buckets + head[0];
	size_t n_chain = (data + elf->dynsym.sym_off - (uint8_t *)chain) / 4;
	int r;

	for (size_t i = 0; i < GS_ARRAY_LEN(patches); i++) {
		uint32_t kept = head[patches[i].word];
		struct gs_err err = {0};

		head[patches[i].word] = patches[i].value;
		if (patches[i].word == 1)
			memset(bloom, 0xff, 8ul * head[2]);
		shop_write("hash.so", data, bytes);
		assert_int_equal(find_in("hash.so", false, &err), patches[i].result);
		assert_int_equal(err.text[0] != 0, patches[i].result < 0);
		head[patches[i].word] = kept;
	}
	/* Chains that never end. */
	for (size_t i = 0; i < n_chain; i++)
		chain[i] &= ~1u;
	shop_write("hash.so", data, bytes);
	r = find_in("hash.so", false, NULL);
	assert_true(r == 0 || r == -ENOEXEC);
	/* And buckets that point far behind the end. */
	for (size_t i = 0; i < head[0]; i++)
		buckets[i] = 0xfffffff0;
	shop_write("hash.so", data, bytes);
	assert_int_equal(find_in("hash.so", false, NULL), -ENOEXEC);
}

static Elf64_Shdr *section_of(uint8_t *data, uint32_t type)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)data;
	Elf64_Shdr *sh = (Elf64_Shdr *)(data + eh->e_shoff);

	for (unsigned i = 0; i < eh->e_shnum; i++) {
		if (sh[i].sh_type == type)
			return &sh[i];
	}
	fail();
	return NULL;
}

static void refuses_malformed_symtabs(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	Elf64_Shdr *sh = section_of(data, SHT_SYMTAB), kept = *sh;
	struct gs_err err = {0};

	for (int i = 0; i < 5; i++) {
		*sh = kept;
		switch (i) {
		case 0:
			sh->sh_entsize = 23;
			break;
		case 1:
			sh->sh_link = 0xffff;
			break;
		case 2:
			sh->sh_link = 0;
			break;
		case 3:
			sh->sh_offset = UINT64_MAX - 8;
			break;
		case 4:
			sh->sh_size = bytes;
			break;
		}
		shop_write("symtab.so", data, bytes);
		err.text[0] = 0;
		assert_int_equal(find_in("symtab.so", true, &err), -ENOEXEC);
		assert_true(err.text[0] != 0);
		/* What the loader uses is whole. */
		assert_int_equal(find_in("symtab.so", false, &err), 0);
	}
	*sh = kept;
	sh->sh_size = (1ull << 30) + 24;
	shop_write("symtab.so", data, bytes);
	assert_int_equal(truncate(shop_path("symtab.so"), 3ll << 30), 0);
	assert_int_equal(find_in("symtab.so", true, &err), -EFBIG);
	assert_int_equal(unlink(shop_path("symtab.so")), 0);
}

/* A string table that is one wanted name over and over. */
static void bounds_what_it_remembers(void **state)
{
	enum { N = 70000 };
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("lib.so", &bytes);
	Elf64_Shdr *sh = section_of(data, SHT_SYMTAB);
	Elf64_Shdr *str = (Elf64_Shdr *)(data + ((Elf64_Ehdr *)data)->e_shoff) + sh->sh_link;
	GS_FREE uint8_t *grown = malloc(bytes + 11ul * N);
	struct gs_err err = {0};

	str->sh_offset = bytes;
	str->sh_size = 11ul * N;
	memcpy(grown, data, bytes);
	for (size_t i = 0; i < N; i++)
		memcpy(grown + bytes + 11 * i, "static_one", 11);
	shop_write("strings.so", grown, bytes + 11ul * N);
	assert_int_equal(find_in("strings.so", true, &err), -ENOBUFS);
	assert_non_null(strstr(err.text, "too big"));
}

static void survives_any_patch(void **state)
{
	size_t bytes;
	GS_FREE uint8_t *data = shop_read("sysv.so", &bytes);
	GS_CLOSE int fd = memfd_create("patched", MFD_CLOEXEC);
	uint32_t seed = 1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(write(fd, data, bytes), bytes);
	for (int i = 0; i < 4000; i++) {
		ELF_CLOSE struct gs_elf *elf = NULL;
		const char *const names[] = {"plain_one", "static_one", "f"};
		struct gs_elf_symbol symbols[3];
		struct gs_elf_needs needs = {0};
		uint8_t byte;
		size_t at;

		seed = seed * 1664525 + 1013904223;
		at = i % 2 ? (seed >> 8) % 4096 : bytes - 1 - (seed >> 8) % 4096;
		byte = (uint8_t)(seed >> 24);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		if (gs_elf_open(path, &elf, NULL) == 0) {
			(void)gs_elf_find(elf, names, 3, true, symbols, NULL);
			(void)gs_elf_build_id(elf);
			if (gs_elf_read_needs(elf, &needs) == 0)
				gs_elf_needs_fini(&needs);
		}
		assert_int_equal(pwrite(fd, data + at, 1, (off_t)at), 1);
	}
}

static void survives_a_file_that_shrinks(void **state)
{
	ELF_CLOSE struct gs_elf *elf = NULL;
	const char *name = "plain_one";
	struct gs_elf_symbol symbol = {.file_off = 42};
	struct gs_elf_needs needs = {0};
	struct gs_err err = {0};
	char bytes[8];

	assert_true(shop_run("cp lib.so shrinks.so"));
	elf = open_file("shrinks.so");
	assert_int_equal(truncate(shop_path("shrinks.so"), 100), 0);
	assert_false(gs_elf_defines(elf, name));
	assert_int_equal(gs_elf_find(elf, &name, 1, true, &symbol, &err), -ENOEXEC);
	assert_int_equal(symbol.file_off, 42); /* untouched */
	assert_false(gs_elf_has_symtab(elf));
	assert_string_equal(gs_elf_build_id(elf), "");
	assert_int_equal(gs_elf_read_needs(elf, &needs), -ENOEXEC);
	assert_int_equal(gs_elf_read(elf, 4096, bytes, 8), -ENOEXEC);
}

/* ---- the rest ---- */

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
		cmocka_unit_test(refuses_other_files),
		cmocka_unit_test(refuses_what_is_cut_short),
		cmocka_unit_test(closes_once),
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
		cmocka_unit_test(refuses_malformed_hash_tables),
		cmocka_unit_test(refuses_malformed_symtabs),
		cmocka_unit_test(bounds_what_it_remembers),
		cmocka_unit_test(survives_any_patch),
		cmocka_unit_test(survives_a_file_that_shrinks),
		cmocka_unit_test(reads_bytes),
		cmocka_unit_test(tells_the_build_id),
		cmocka_unit_test(reads_what_a_file_needs),
	};

	return cmocka_run_group_tests(tests, make_files, shop_close);
}
