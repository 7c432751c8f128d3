/* What the loader has in memory of a module; for the libraries that look for functions there. */
#ifndef GS_COMPANION_CALLS_MODULE_H
#define GS_COMPANION_CALLS_MODULE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calls_module {
	const char *name; /* as the loader has it; "" of the program */
	uintptr_t base, low, high;
	const Elf64_Dyn *dynamic;
	const Elf64_Sym *symbols;
	const char *strings;
	const char *soname; /* or NULL */
	const uint32_t *gnu_hash, *hash;
	const uint16_t *versions;
	const Elf64_Verneed *needs;
	const Elf64_Verdef *defines;
	unsigned n_needs, n_defines;
	const Elf64_Rela *rela, *plt;
	size_t n_rela, n_relative, n_plt;
	uintptr_t relro_low, relro_high;
	bool has_path; /* DT_RPATH or DT_RUNPATH: who calls dlopen() matters */
};

struct dl_phdr_info;
/* False: nothing to be read there. */
bool calls_module_read(const struct dl_phdr_info *info, struct calls_module *ret_module);

/* What a reference to the symbol asks for: its version and in which library. NULL: none. */
void calls_module_version(const struct calls_module *module, uint32_t symbol,
			  const char **ret_version, const char **ret_file);

/* The address where the module defines the function; NULL: it does not, or in another version. */
void *calls_module_define(const struct calls_module *module, const char *name, const char *version);

/* Are both texts equal; does one begin with the other? */
bool calls_text_same(const char *a, const char *b);
bool calls_text_begins(const char *text, const char *with);

#endif
