/*
 * Files that cost little to make and much to read: holes of a GiB as tables, sections that share
 * their bytes, chains of hashes without end. What is counted is the bytes that are read for them.
 */
#include "unit/elf/workshop.h"

#include <elf.h>

#include "core/base/foreign.h"
#include "sources/elf/elf.h"

#define GIB  (1ull << 30)
#define BASE 8192

static struct gs_guard *guard;

struct sparse { /* header, one segment of code, five sections: two tables and their strings */
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
};

/* A table of symbols and its strings, n bytes each, as .symtab; nothing of them is written. */
static const char *make_sparse(const char *name, uint64_t n)
{
	const char *path = shop_path("%s", name);
	GS_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct sparse s = {
		.eh = {.e_ident = ELFMAG "\2\1\1",
		       .e_type = ET_DYN,
		       .e_machine = EM_X86_64,
		       .e_version = 1,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_shoff = 4096,
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1,
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shnum = 3},
		.ph = {.p_type = PT_LOAD,
		       .p_flags = PF_R | PF_X,
		       .p_filesz = 4096,
		       .p_memsz = 4096},
	};
	const Elf64_Shdr sh[3] = {{0},
				  {.sh_type = SHT_SYMTAB,
				   .sh_offset = BASE,
				   .sh_size = n / 24 * 24,
				   .sh_link = 2,
				   .sh_entsize = 24},
				  {.sh_type = SHT_STRTAB, .sh_offset = BASE + n, .sh_size = n}};

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &s, sizeof(s), 0), sizeof(s));
	assert_int_equal(pwrite(fd, sh, sizeof(sh), 4096), sizeof(sh));
	assert_int_equal(ftruncate(fd, (off_t)(BASE + 2 * n)), 0);
	return path;
}

static void put(const char *path, const void *data, size_t bytes, uint64_t off)
{
	GS_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, data, bytes, (off_t)off), bytes);
}

static void holes_cost_nothing(void **state)
{
	static const char *const names[] = {"cudaFree", "cudaMalloc"};
	struct gs_elf_symbol found[2];
	const char *path = make_sparse("holes", GIB - GIB % 24);
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	uint64_t before = gs_guard_bytes_read(guard);

	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	assert_int_equal(gs_elf_find(elf, names, 2, true, found, NULL), 0);
	assert_false(found[0].found || found[1].found);
	assert_true(gs_guard_bytes_read(guard) - before < 4u << 20);
}

/* What stands between holes is found as if they were written. */
static void what_is_between_holes_is_found(void **state)
{
	static const char *const names[] = {"cudaFree", "cudaMalloc", "cudaMemcpy"};
	const uint64_t n = GIB - GIB % 24;
	const char *path = make_sparse("islands", n);
	const uint64_t at[2] = {3 << 20, n - 4096}, sym[2] = {200000, n / 24 - 5};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct gs_elf_symbol found[3];
	uint64_t before = gs_guard_bytes_read(guard);

	for (unsigned i = 0; i < 2; i++) {
		Elf64_Sym s = {.st_name = (uint32_t)at[i] + 1,
			       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			       .st_shndx = 1,
			       .st_value = 64 + i,
			       .st_size = 1};

		put(path, names[i], strlen(names[i]), BASE + n + at[i] + 1);
		put(path, &s, sizeof(s), BASE + 24 * sym[i]);
	}
	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	assert_int_equal(gs_elf_find(elf, names, 3, true, found, NULL), 0);
	assert_true(found[0].found && found[1].found && !found[2].found);
	assert_int_equal(found[0].file_off, 64);
	assert_int_equal(found[1].file_off, 65);
	assert_true(gs_guard_bytes_read(guard) - before < 8u << 20);
}

static int no_text(void *ctx, const char *text)
{
	return 0;
}

static void sections_do_not_share_bytes(void **state)
{
	enum { N = 60000 };
	GS_FREE Elf64_Shdr *sh = calloc(N, sizeof(*sh));
	const uint64_t bytes = 32u << 20, off = 1u << 20;
	const char *path = make_sparse("overlap", 4096);
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	Elf64_Ehdr eh = {.e_ident = ELFMAG "\2\1\1",
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phoff = sizeof(Elf64_Ehdr),
			 .e_shoff = off + bytes,
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = N};
	struct gs_err err = {{0}};
	uint64_t before;

	for (unsigned i = 1; i < N; i++)
		sh[i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				     .sh_flags = SHF_ALLOC,
				     .sh_offset = off,
				     .sh_size = bytes};
	put(path, &eh, sizeof(eh), 0);
	put(path, sh, N * sizeof(*sh), off + bytes);
	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	before = gs_guard_bytes_read(guard);
	assert_int_equal(gs_elf_each_text(elf, ") -> ", no_text, NULL, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "malformed"));
	assert_true(gs_guard_bytes_read(guard) - before < 2 * bytes);
}

/* Two names whose hashes are those of every symbol: each look-up would walk all of them. */
static void a_share_ends_what_is_long(void **state)
{
	static const char block[4096];
	const char *path = make_sparse("long", 48u << 20);
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	static const char *const names[] = {"cudaFree"};
	struct gs_elf_symbol found;
	struct gs_err err = {{0}};
	char what[64];
	int r = 0;

	for (uint64_t off = BASE; off < 96u << 20; off += sizeof(block))
		put(path, block, sizeof(block), off);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	for (unsigned i = 0; r == 0 && i < 4096; i++)
		r = gs_elf_find(elf, names, 1, true, &found, &err);
	assert_int_equal(r, -EDQUOT);
	assert_non_null(strstr(err.text, "costs too much"));
	assert_int_equal(gs_guard_refused(guard, GS_REFUSED_FILE_BYTES, what, sizeof(what)), 1);
}

/* 32 MiB of strings of one byte, and two symbols. */
static void strings_are_not_more_than_symbols(void **state)
{
	static char block[1 << 20];
	const uint64_t n = 32u << 20;
	const char *path = make_sparse("strings", n);
	const Elf64_Shdr sh = {.sh_type = SHT_SYMTAB,
			       .sh_offset = BASE,
			       .sh_size = 48,
			       .sh_link = 2,
			       .sh_entsize = 24};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	static const char *const names[] = {"cudaFree"};
	uint64_t before = gs_guard_bytes_read(guard);
	struct gs_elf_symbol found;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 2 ? 'x' : 0;
	for (uint64_t off = 0; off < n; off += sizeof(block))
		put(path, block, sizeof(block), BASE + n + off);
	put(path, &sh, sizeof(sh), 4096 + sizeof(sh));
	assert_int_equal(gs_elf_open(path, &elf, NULL), 0);
	assert_int_equal(gs_elf_find(elf, names, 1, true, &found, NULL), -ENOEXEC);
	assert_true(gs_guard_bytes_read(guard) - before < 4u << 20);
}

static bool stop_at_once(void *ctx)
{
	return true;
}

static void the_end_comes_between_blocks(void **state)
{
	const struct gs_guard_options o = {.size = sizeof(o), .stop = stop_at_once};
	GS_CLEANUP(gs_guard_free) struct gs_guard *stopped = NULL;
	static const char *const names[] = {"cudaFree"};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct gs_elf_symbol found;
	struct gs_err err = {{0}};

	assert_int_equal(gs_guard_new(&o, &stopped), 0);
	gs_guard_enter(stopped);
	assert_int_equal(gs_elf_open(shop_path("long"), &elf, NULL), 0);
	assert_int_equal(gs_elf_find(elf, names, 1, true, &found, &err), -ECANCELED);
	assert_non_null(strstr(err.text, "the run ended"));
	assert_true(gs_guard_bytes_read(stopped) < 4u << 20);
	gs_guard_enter(guard);
}

static int start(void **state)
{
	const struct gs_guard_options o = {.size = sizeof(o)};

	if (gs_guard_new(&o, &guard) < 0)
		return -1;
	gs_guard_enter(guard);
	return shop_open(state);
}

static int stop(void **state)
{
	gs_guard_free(&guard);
	return shop_close(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_cost_nothing),
		cmocka_unit_test(what_is_between_holes_is_found),
		cmocka_unit_test(sections_do_not_share_bytes),
		cmocka_unit_test(a_share_ends_what_is_long),
		cmocka_unit_test(strings_are_not_more_than_symbols),
		cmocka_unit_test(the_end_comes_between_blocks),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
