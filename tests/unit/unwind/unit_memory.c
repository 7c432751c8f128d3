/*
 * How much memory reading a very large library takes: one as large as PyTorch's own build, with as
 * many symbols (libtorch_cpu.so of 2.11: 451 MB, 77,895 dynamic symbols, 541,801 in all) and twice
 * as many texts. Each way of reading it is measured in a process of its own, from when that begins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/unwind/symbolize.h"
#include "core/base/sanitizer.h"

#define N_DYNAMIC  77895u
#define N_SYMBOLS  541801u
#define TEXT_OFF   0x1000u
#define TEXT_BYTES (400u << 20) /* a hole in the file */
#define CONST_OFF  (TEXT_OFF + TEXT_BYTES)
#define FUNC_BYTES 512u
#define LIMIT_KIB  (64u << 10)

static char path[] = "/tmp/gpuscope_unit_memory_XXXXXX";

struct writer {
	FILE *f;
	uint64_t at;
};

static void put(struct writer *w, const void *data, size_t bytes)
{
	assert_int_equal(fwrite(data, 1, bytes, w->f), bytes);
	w->at += bytes;
}

/* The name of function i: as long as those of PyTorch mostly are. */
static int name_of(unsigned i, bool dynamic, char out[128])
{
	return snprintf(out, 128,
			dynamic ? "_ZN2at4_ops9op_%06u4callERKNS_6TensorES4_RKN3c106ScalarE"
				: "_ZN2at6native12_GLOBAL__N_19kernel_%06uILi3EEEvRNS_18Tensor"
				  "IteratorBaseEl",
			i);
}

/* Symbols of n functions one behind the other, and their names. */
static void put_symbols(struct writer *w, unsigned n, bool dynamic, Elf64_Shdr *ret_symbols,
			Elf64_Shdr *ret_names)
{
	Elf64_Sym s = {0};
	uint32_t name = 1;
	char text[128];

	*ret_symbols = (Elf64_Shdr){.sh_type = dynamic ? SHT_DYNSYM : SHT_SYMTAB,
				    .sh_offset = w->at,
				    .sh_size = (uint64_t)n * sizeof(s) + sizeof(s),
				    .sh_info = 1,
				    .sh_entsize = sizeof(s)};
	put(w, &s, sizeof(s));
	for (unsigned i = 0; i < n; i++) {
		s = (Elf64_Sym){.st_name = name,
				.st_info =
					ELF64_ST_INFO(dynamic ? STB_GLOBAL : STB_LOCAL, STT_FUNC),
				.st_shndx = 1,
				.st_value = TEXT_OFF + (uint64_t)i * FUNC_BYTES,
				.st_size = FUNC_BYTES};
		put(w, &s, sizeof(s));
		name += (uint32_t)name_of(i, dynamic, text) + 1;
	}
	*ret_names = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = w->at, .sh_size = name};
	put(w, "", 1);
	for (unsigned i = 0; i < n; i++)
		put(w, text, (size_t)name_of(i, dynamic, text) + 1);
}

static void put_texts(struct writer *w, Elf64_Shdr *ret)
{
	char text[256];

	*ret = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
			    .sh_flags = SHF_ALLOC,
			    .sh_addr = CONST_OFF,
			    .sh_offset = CONST_OFF};
	for (unsigned i = 0; i < 2 * N_DYNAMIC; i++)
		put(w, text,
		    (size_t)snprintf(
			    text, sizeof(text),
			    "op_%06u.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
			    "Tensor",
			    i) +
			    1);
	ret->sh_size = w->at - CONST_OFF;
}

enum { NONE, TEXT, CONST, DYNSYM, DYNSTR, SYMTAB, STRTAB, NAMES, N_SECTIONS };

static void write_library(void)
{
	static const char section_names[] =
		"\0.text\0.rodata\0.dynsym\0.dynstr\0.symtab\0.strtab\0.shstrtab";
	static const uint32_t name_at[N_SECTIONS] = {0, 1, 7, 15, 23, 31, 39, 47};
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(head),
			   .e_ehsize = sizeof(head),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1,
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = N_SECTIONS,
			   .e_shstrndx = NAMES};
	Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = 0x1000};
	Elf64_Shdr sections[N_SECTIONS] = {{0}};
	struct writer w = {.f = fdopen(mkstemp(path), "w"), .at = CONST_OFF};

	assert_non_null(w.f);
	assert_int_equal(fseek(w.f, CONST_OFF, SEEK_SET), 0);
	put_texts(&w, &sections[CONST]);
	load.p_filesz = load.p_memsz = w.at;
	sections[TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				      .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				      .sh_addr = TEXT_OFF,
				      .sh_offset = TEXT_OFF,
				      .sh_size = TEXT_BYTES};
	put_symbols(&w, N_DYNAMIC, true, &sections[DYNSYM], &sections[DYNSTR]);
	put_symbols(&w, N_SYMBOLS, false, &sections[SYMTAB], &sections[STRTAB]);
	sections[DYNSYM].sh_link = DYNSTR;
	sections[SYMTAB].sh_link = STRTAB;
	sections[NAMES] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_offset = w.at, .sh_size = sizeof(section_names)};
	put(&w, section_names, sizeof(section_names));
	for (unsigned i = 0; i < N_SECTIONS; i++)
		sections[i].sh_name = name_at[i];
	head.e_shoff = w.at;
	put(&w, sections, sizeof(sections));
	assert_int_equal(fseek(w.f, 0, SEEK_SET), 0);
	put(&w, &head, sizeof(head));
	put(&w, &load, sizeof(load));
	assert_int_equal(fclose(w.f), 0);
}

/* --- what is measured: each returns how much it has found --- */

static int count_symbol(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	++*(unsigned *)ctx;
	return 0;
}

static int count_text(void *ctx, const char *text)
{
	++*(unsigned *)ctx;
	return 0;
}

static int count_function(void *ctx, const struct gs_elf_function *function)
{
	++*(unsigned *)ctx;
	return 0;
}

static unsigned read_operators(struct gs_elf *elf)
{
	struct gs_err err;
	unsigned n = 0;

	return gs_elf_each_symbol(elf, "_ZN", count_symbol, &n, &err) == 0 &&
			       gs_elf_each_text(elf, ") -> ", count_text, &n, &err) == 0
		       ? n
		       : 0;
}

static unsigned read_functions(struct gs_elf *elf)
{
	struct gs_err err;
	unsigned n = 0;

	return gs_elf_functions(elf, count_function, &n, &err) == 0 ? n : 0;
}

static unsigned find_some(struct gs_elf *elf)
{
	char texts[64][128];
	const char *names[64];
	struct gs_elf_symbol symbols[64];
	struct gs_err err;
	unsigned n = 0;

	for (unsigned i = 0; i < 64; i++) {
		name_of(i * 1000, i % 2, texts[i]);
		names[i] = texts[i];
	}
	if (gs_elf_find(elf, names, 64, true, symbols, &err) < 0)
		return 0;
	for (unsigned i = 0; i < 64; i++)
		n += symbols[i].found;
	return n;
}

static unsigned name_addresses(struct gs_elf *elf)
{
	GS_CLEANUP(gs_symbols_free) struct gs_symbols *s = NULL;
	char name[256], wanted[32];
	unsigned n = 0;

	if (gs_symbols_new(elf, NULL, &s) < 0)
		return 0;
	for (unsigned i = 0; i < N_SYMBOLS; i += 1000) {
		snprintf(wanted, sizeof(wanted), "kernel_%06u", i);
		n += gs_symbols_name(s, TEXT_OFF + (uint64_t)i * FUNC_BYTES + 7, name,
				     sizeof(name)) &&
		     strstr(name, wanted);
	}
	return n;
}

/* KiB of memory that this process has had at most since clear_refs was written. */
static unsigned long peak_kib(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			break;
	return kib;
}

static void forget_peak(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/clear_refs", "we");

	if (f)
		fputs("5", f); /* CLEAR_REFS_MM_HIWATER_RSS, fs/proc/task_mmu.c */
}

static void measure(unsigned (*read_it)(struct gs_elf *), unsigned wanted)
{
	unsigned long result[3] = {0};
	int pipe_fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct gs_elf *elf;
		struct gs_err err;

		forget_peak();
		result[0] = peak_kib();
		if (gs_elf_open(path, &elf, &err) < 0)
			_exit(1);
		result[2] = read_it(elf);
		result[1] = peak_kib();
		_exit(write(pipe_fds[1], result, sizeof(result)) != sizeof(result));
	}
	close(pipe_fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(pipe_fds[0], result, sizeof(result)), sizeof(result));
	close(pipe_fds[0]);
	print_message("%lu of %u found, %lu KiB at most, %lu of these before\n", result[2], wanted,
		      result[1], result[0]);
	assert_int_equal(result[2], wanted);
	assert_true(result[1] > 0);
#ifndef GS_SANITIZER_ADDRESS /* its shadow is of another size */
	assert_true(result[1] < LIMIT_KIB);
#endif
}

static void operators(void **state)
{
	measure(read_operators, N_DYNAMIC + 2 * N_DYNAMIC);
}

static void functions(void **state)
{
	measure(read_functions, N_DYNAMIC + N_SYMBOLS);
}

static void lookups(void **state)
{
	measure(find_some, 64);
}

static void names(void **state)
{
	measure(name_addresses, (N_SYMBOLS + 999) / 1000);
}

static int make(void **state)
{
	write_library();
	return 0;
}

static int drop(void **state)
{
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators),
		cmocka_unit_test(functions),
		cmocka_unit_test(lookups),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
