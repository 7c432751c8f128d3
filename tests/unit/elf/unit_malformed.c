/*
 * Files that are no ELF files of ours, cut short, patched, or changed while they are open: an error
 * or less found, never a wrong read.
 */
#include "unit/elf/sample.h"

#include <sys/mman.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_other_files),
		cmocka_unit_test(refuses_what_is_cut_short),
		cmocka_unit_test(closes_once),
		cmocka_unit_test(refuses_malformed_hash_tables),
		cmocka_unit_test(refuses_malformed_symtabs),
		cmocka_unit_test(bounds_what_it_remembers),
		cmocka_unit_test(survives_any_patch),
		cmocka_unit_test(survives_a_file_that_shrinks),
	};

	return cmocka_run_group_tests(tests, make_files, shop_close);
}
