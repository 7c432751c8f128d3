/*
 * Libraries of any size with little in them: each question that is asked of a library, and how much
 * is read to answer it.
 */
#include "sparse_file.h"

#include "sources/elf/code.h"
#include "sources/elf/elf.h"
#include "sources/elf/object.h"
#include "sources/elf/usdt.h"
#define FUZZ_MS_AT_ALL 3000.0 /* some bytes describe a file of gigabytes */
#include "replay_main.h"
#include "sources/unwind/cfi.h"
#include "sources/unwind/symbolize.h"

static const char *const names[] = {"cudaFree", "cuLaunchKernel", "ncclSend", "f"};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

static int any_symbol(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	return 0;
}

static int any_text(void *ctx, const char *text)
{
	return 0;
}

static int any_function(void *ctx, const struct gs_elf_function *function)
{
	return 0;
}

static int any_site(void *ctx, const struct gs_usdt_site *site)
{
	return 0;
}

static void ask(struct gs_elf *elf, unsigned question)
{
	struct gs_elf_symbol found[N_NAMES];
	struct gs_symbols *symbols = NULL;
	struct gs_cfi_row row;
	struct gs_cfi *cfi = NULL;
	uint64_t vaddr[N_NAMES];
	char name[64];

	switch (question) {
	case 0:
		(void)gs_elf_find(elf, names, N_NAMES, true, found, NULL);
		break;
	case 1:
		(void)gs_elf_each_symbol(elf, "_ZN", any_symbol, NULL, NULL);
		break;
	case 2:
		(void)gs_elf_each_text(elf, ") -> ", any_text, NULL, NULL);
		break;
	case 3:
		(void)gs_elf_functions(elf, any_function, NULL, NULL);
		break;
	case 4:
		(void)gs_elf_usdt(elf, any_site, NULL, NULL);
		break;
	case 5:
		(void)gs_elf_objects(elf, names, N_NAMES, vaddr);
		break;
	case 6:
		if (gs_symbols_new(elf, NULL, &symbols) == 0)
			(void)gs_symbols_name(symbols, 0x1000, name, sizeof(name));
		gs_symbols_free(&symbols);
		break;
	default:
		if (gs_cfi_new(elf, &cfi) == 0)
			(void)gs_cfi_find(cfi, 0x1000, &row);
		gs_cfi_free(&cfi);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sparse_file f;

	sparse_open(&f, data, bytes);
	for (unsigned question = 0; question < 8; question++) {
		uint64_t before = gs_guard_bytes_read(sparse_guard());
		struct gs_elf *elf = NULL;

		if (gs_elf_open(f.path, &elf, NULL) == 0)
			ask(elf, question);
		gs_elf_close(&elf);
		sparse_check(&f, before);
	}
	sparse_close(&f);
	return 0;
}
