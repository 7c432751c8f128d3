/*
 * Call frame information itself: the input is the content of .eh_frame in a program that is
 * otherwise in order, so that no byte of it is spent on headers. The table is scanned, rows are
 * looked up and stepped by; how much is read for a row is bounded by the length of its entry.
 */
#include "sparse_file.h"

#include <elf.h>

#include "sources/elf/elf.h"
#include "replay_main.h"
#include "sources/unwind/cfi.h"

#define AT        0x1000u /* of the section, in the file and in memory */
#define MAX_BYTES (1u << 20)

static bool read_any(void *ctx, uint64_t addr, uint64_t *ret_value)
{
	*ret_value = addr * 0x9e3779b97f4a7c15ull;
	return addr % 5 != 0;
}

static int make_program(const uint8_t *data, size_t bytes)
{
	static const char strings[] = "\0.eh_frame\0.shstrtab";
	const uint64_t strings_at = AT + bytes,
		       headers_at = (strings_at + sizeof(strings) + 7) / 8 * 8;
	const Elf64_Ehdr eh = {.e_ident = ELFMAG "\2\1\1",
			       .e_type = ET_DYN,
			       .e_machine = EM_X86_64,
			       .e_phoff = sizeof(eh),
			       .e_shoff = headers_at,
			       .e_phentsize = sizeof(Elf64_Phdr),
			       .e_phnum = 1,
			       .e_shentsize = sizeof(Elf64_Shdr),
			       .e_shnum = 3,
			       .e_shstrndx = 2};
	const Elf64_Phdr ph = {.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_filesz = AT + bytes,
			       .p_memsz = AT + bytes};
	const Elf64_Shdr sh[3] = {{0},
				  {.sh_name = 1,
				   .sh_type = SHT_PROGBITS,
				   .sh_flags = SHF_ALLOC,
				   .sh_addr = AT,
				   .sh_offset = AT,
				   .sh_size = bytes},
				  {.sh_name = 11,
				   .sh_type = SHT_STRTAB,
				   .sh_offset = strings_at,
				   .sh_size = sizeof(strings)}};
	int fd = memfd_create("cfi", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, &eh, sizeof(eh), 0) < 0 ||
	    pwrite(fd, &ph, sizeof(ph), sizeof(eh)) < 0 || pwrite(fd, data, bytes, AT) < 0 ||
	    pwrite(fd, strings, sizeof(strings), (off_t)strings_at) < 0 ||
	    pwrite(fd, sh, sizeof(sh), (off_t)headers_at) < 0)
		abort();
	return fd;
}

static void look_at(struct gs_cfi *cfi, uint64_t vaddr)
{
	uint64_t before = gs_guard_bytes_read(sparse_guard()), slot;
	struct gs_regs regs = {.known = 0x1f0c8};
	struct gs_cfi_row row;

	for (unsigned i = 0; i < GS_REG_COUNT; i++)
		regs.value[i] = 0x1000u + 8u * i;
	if (gs_cfi_find(cfi, vaddr, &row) == 0)
		(void)gs_cfi_step(&row, 0x10000, read_any, NULL, &regs, &slot);
	/* An entry and what it refers to, each read at most twice, and the search. */
	if (gs_guard_bytes_read(sparse_guard()) - before > 512u << 10)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t before = gs_guard_bytes_read(sparse_guard());
	struct gs_elf *elf = NULL;
	struct gs_cfi *cfi = NULL;
	char path[32];
	int fd;

	if (bytes > MAX_BYTES)
		return 0;
	fd = make_program(data, bytes);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (gs_elf_open(path, &elf, NULL) < 0)
		abort();
	if (gs_cfi_new(elf, &cfi) == 0) {
		/* Each entry is read once, and the one that it refers to, which any may share. */
		if (gs_guard_bytes_read(sparse_guard()) - before > (1ull << 20) + 8192 * bytes)
			abort();
		for (unsigned i = 0; i < 64; i++)
			look_at(cfi, AT + i * (uint64_t)(bytes / 64 + 1));
		look_at(cfi, 0);
		look_at(cfi, UINT64_MAX);
	}
	gs_cfi_free(&cfi);
	gs_elf_close(&elf);
	close(fd);
	return 0;
}
