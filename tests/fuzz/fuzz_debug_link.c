/*
 * Debug files: the input is one of any size, and a program whose link or build id leads to it.
 * Where it may lie, whether it is the program's, and what its names cost.
 */
#include "sparse_file.h"

#include "sources/elf/code.h"
#include "replay_main.h"
#include "sources/unwind/symbolize.h"

static bool any_path(void *ctx, const char *path, bool by_build_id)
{
	/* A name that leads out of the folders would open what it likes. */
	if (strstr(path, "/../") || strncmp(path, "/root", 5) != 0)
		abort();
	return false;
}

static void look(struct gs_elf *elf, struct gs_elf **debug, bool by_build_id)
{
	struct gs_symbols *symbols = NULL;
	char name[64];

	(void)gs_unwind_debug_fits(elf, *debug, by_build_id, true);
	if (gs_symbols_new(elf, debug, &symbols) == 0)
		(void)gs_symbols_name(symbols, 0x1000, name, sizeof(name));
	gs_symbols_free(&symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *const roots[] = {"/root1", "/root2"};
	uint64_t before = gs_guard_bytes_read(sparse_guard());
	struct gs_elf *elf = NULL, *debug = NULL;
	char link[256] = "";
	struct sparse_file f;
	uint32_t crc;

	sparse_open(&f, data, bytes);
	if (gs_elf_open(f.path, &elf, NULL) == 0) {
		(void)gs_elf_debug_link(elf, link, &crc);
		gs_unwind_debug_paths(gs_elf_build_id(elf), link, "/usr/bin/app", roots, 2,
				      any_path, NULL);
		for (int by_build_id = 0; by_build_id < 2; by_build_id++) {
			if (gs_elf_open_debug(f.path, NULL, &debug, NULL) == 0)
				look(elf, &debug, by_build_id);
			gs_elf_close(&debug);
		}
	}
	gs_elf_close(&elf);
	/* A checksum is taken of all of the file, holes too, as of one that root has put there; and
	 * it has at most ten times the program's size, which is itself here. */
	if (gs_guard_bytes_read(sparse_guard()) - before >
	    f.bytes + (64ull << 20) + f.n_chunks * (8ull << 20))
		abort();
	sparse_close(&f);
	return 0;
}
