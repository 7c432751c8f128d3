/*
 * Between the files of this door. start.c begins when the program does, plan.c knows which functions are wanted,
 * module.c reads what the loader has in memory, bind.c puts thunks in place of pointers, loader.c answers dlsym()
 * and its like, call.c makes records.
 *
 * Nothing here may fail loudly: what cannot be done is left as it was, and is then not seen.
 */
#ifndef GS_COMPANION_CALLS_CALLS_INT_H
#define GS_COMPANION_CALLS_CALLS_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "companion/calls/module.h"
#include "model/companion/file.h"

/* --- plan.c --- */

#define CALLS_FUNCS_MAX GS_FUNC_FIXED

/* Read the plan in the folder; false: there is none that can be believed, or it does not want calls. */
bool calls_plan_read(const char *folder, struct gs_companion_plan *ret_plan);

/* NULL: its calls are not wanted. */
const struct gs_companion_func *calls_plan_find(const char *name);
const struct gs_companion_func *calls_plan_row(unsigned id);

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
