/*
 * Everything that reads an ELF file. The input is the file; a memory file holds it, so that it is
 * read as a real one is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sources/elf/elf_int.h"
#include "replay_main.h"

static const char *const names[] = {"main",       "f",          "ab", "cudaMalloc",   "plain_one",
				    "static_one", "cudaMalloc", "",   "ncclAllReduce"};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

static int on_function(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	if (strlen(name) > 4095 || symbol->file_off >= *(size_t *)ctx)
		abort();
	return 0;
}

static int on_text(void *ctx, const char *text)
{
	(void)ctx;
	if (strlen(text) > 4095 || !strstr(text, "a"))
		abort();
	return 0;
}

static void check_symbols(const struct gs_elf_symbol *symbols, size_t bytes)
{
	for (size_t i = 0; i < N_NAMES; i++) {
		if (symbols[i].found && symbols[i].file_off >= bytes)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_elf_symbol symbols[N_NAMES];
	struct gs_elf_needs needs;
	struct gs_elf *elf = NULL;
	struct gs_err err;
	char path[64], out[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (gs_elf_open(path, &elf, &err) == 0) {
		gs_elf_each_symbol(elf, "", on_function, &bytes, &err);
		gs_elf_each_text(elf, "a", on_text, NULL, &err);
		(void)gs_elf_defines(elf, "cudaMalloc");
		if (gs_elf_find(elf, names, N_NAMES, false, symbols, &err) == 0)
			check_symbols(symbols, bytes);
		if (gs_elf_find(elf, names, N_NAMES, true, symbols, &err) == 0)
			check_symbols(symbols, bytes);
		(void)gs_elf_has_symtab(elf);
		if (strlen(gs_elf_build_id(elf)) > 128)
			abort();
		if (gs_elf_read_needs(elf, &needs) == 0)
			gs_elf_needs_fini(&needs);
		for (size_t at = 0; at < bytes && at < 4096; at += 16) {
			if (gs_elf_stub_name(elf, at, out, sizeof(out)) == 0 &&
			    !memchr(out, 0, sizeof(out)))
				abort();
		}
		if (gs_elf_read(elf, bytes / 2, out, sizeof(out)) < 0)
			abort();
		gs_elf_close(&elf);
	}
	close(fd);
	return 0;
}
