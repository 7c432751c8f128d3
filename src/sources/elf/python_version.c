/* Which Python an interpreter is. File names say nothing: "python3", "app", "libpython3.so". */
#include "core/base/mem.h"
#include "sources/elf/elf.h"

uint16_t gs_elf_python_version(struct gs_elf *elf)
{
	/* Each came with the version (Doc/data/stable_abi.dat, Doc/c-api). */
	static const struct {
		const char *name;
		uint16_t version;
	} since[] = {
		{"PyFrame_GetLasti", 0x030b},
		{"PyIter_Send", 0x030a},
		{"PyFrame_GetBack", 0x0309},
		{"PyConfig_InitPythonConfig", 0x0308},
	};
	const char *names[GS_ARRAY_LEN(since)];
	struct gs_elf_symbol symbols[GS_ARRAY_LEN(since)];
	struct gs_err err = {{0}};

	for (size_t i = 0; i < GS_ARRAY_LEN(since); i++)
		names[i] = since[i].name;
	if (gs_elf_find(elf, names, GS_ARRAY_LEN(since), true, symbols, &err) < 0)
		return 0;
	for (size_t i = 0; i < GS_ARRAY_LEN(since); i++)
		if (symbols[i].found)
			return since[i].version;
	return 0;
}
