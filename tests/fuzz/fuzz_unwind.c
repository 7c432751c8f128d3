/*
 * Unwind tables and symbols by address: the input is an ELF file, read as one. Every byte of its
 * code that a table begins at, and some between, are looked up, stepped from and named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sources/elf/code.h"
#include "replay_main.h"
#include "sources/unwind/cfi.h"
#include "sources/unwind/symbolize.h"

static bool read_any(void *ctx, uint64_t addr, uint64_t *ret_value)
{
	*ret_value = addr * 0x9e3779b97f4a7c15ull;
	return addr % 5 != 0;
}

static void look_at(struct gs_cfi *cfi, struct gs_symbols *symbols, uint64_t vaddr)
{
	struct gs_regs regs = {.known = 0x1f0c8};
	struct gs_cfi_row row;
	char name[256];
	uint64_t slot;

	for (unsigned i = 0; i < GS_REG_COUNT; i++)
		regs.value[i] = 0x1000u + 8u * i;
	if (cfi && gs_cfi_find(cfi, vaddr, &row) == 0)
		(void)gs_cfi_step(&row, 0x10000, read_any, NULL, &regs, &slot);
	if (symbols && gs_symbols_name(symbols, vaddr, name, sizeof(name)) && !name[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_symbols *symbols = NULL;
	struct gs_elf *elf = NULL;
	struct gs_cfi *cfi = NULL;
	struct gs_elf_segments segments = {.n = 0};
	char path[64], link[256];
	uint64_t vaddr;
	uint32_t crc;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (gs_elf_open(path, &elf, NULL) == 0) {
		if (gs_elf_debug_link(elf, link, &crc) && !link[0])
			abort();
		(void)gs_elf_code_segments(elf, &segments);
		(void)gs_cfi_new(elf, &cfi);
		(void)gs_symbols_new(elf, NULL, &symbols);
		for (uint64_t off = 0; off < bytes; off += bytes / 512 + 1)
			if (gs_elf_vaddr_of(&segments, off, &vaddr))
				look_at(cfi, symbols, vaddr);
		gs_symbols_free(&symbols);
		gs_cfi_free(&cfi);
		gs_elf_close(&elf);
	}
	if (gs_elf_open_debug(path, NULL, &elf, NULL) == 0) {
		(void)gs_symbols_new(elf, NULL, &symbols);
		gs_symbols_free(&symbols);
		gs_elf_close(&elf);
	}
	close(fd);
	return 0;
}
