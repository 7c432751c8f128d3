/*
 * Between the files of this door. start.c begins when the program does, plan.c knows which functions are wanted,
 * module.c reads what the loader has in memory, bind.c puts thunks in place of pointers, loader.c answers dlsym()
 * and its like, call.c makes records.
 *
 * Nothing here may fail loudly: what cannot be done is left as it was, and is then not seen.
 */
#ifndef GS_COMPANION_CALLS_CALLS_INT_H
#define GS_COMPANION_CALLS_CALLS_INT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/companion/file.h"

/* --- locks: held for some us, never while others' code runs --- */

struct calls_lock {
	uint64_t owner; /* process << 32 | thread; 0: it is free */
};

/* False: this thread holds it already, in what a signal handler has interrupted. */
bool calls_lock_take(struct calls_lock *lock);
void calls_lock_drop(struct calls_lock *lock);

/* --- plan.c --- */

#define CALLS_FUNCS_MAX GS_FUNC_FIXED

/* Read the plan in the folder; false: there is none that can be believed, or it does not want calls. */
bool calls_plan_read(const char *folder, struct gs_companion_plan *ret_plan);

/* NULL: its calls are not wanted. */
const struct gs_companion_func *calls_plan_find(const char *name);
const struct gs_companion_func *calls_plan_row(unsigned id);

/* --- module.c --- */

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

bool calls_text_same(const char *a, const char *b);
bool calls_text_begins(const char *text, const char *with);

/* --- bind.c --- */

/* Look at all modules, once. */
void calls_bind_start(void);

/* Look at modules that have come since the last time. Any thread. */
void calls_bind_new(void);

/* The program loads something. */
void calls_bind_loading(void);

/* The thunk of a wanted function that the program gets a pointer to; the pointer itself where it is not wanted, or
 * not to be had. */
void *calls_bind_pointer(const char *name, void *real);

/* Has the module of this address a search path of its own, or is it not known? */
bool calls_bind_has_path(const void *address);

/* The address of a function where it is defined in the module that has real; NULL. */
void *calls_bind_sibling(const char *name, const void *real);

/* --- loader.c, thunks.S --- */

enum calls_special {
	CALLS_NOT_SPECIAL,
	CALLS_DLSYM,
	CALLS_DLOPEN,
	CALLS_ADDRESS,
	CALLS_ADDRESS_V2
};

enum calls_special calls_special_of(const char *name);

/* What is to stand in its place; real itself where there is another one of it already. */
void *calls_special_bind(enum calls_special special, void *real);

/* For thunks.S: true: *ret_result is the answer. */
bool calls_answer_dlsym(void *handle, const char *name, const void *caller, void **ret_result);
bool calls_answer_dlopen(const char *file, uintptr_t mode, const void *caller, void **ret_result);

extern void *calls_real_dlsym, *calls_real_dlopen;
void calls_dlsym(void);
void calls_dlopen(void);

#endif
