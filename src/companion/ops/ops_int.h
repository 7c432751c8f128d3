/*
 * Between the files of this door: PyTorch's operators by its own observer (RecordFunction), which reports each begin
 * and end. The library is preloaded. start.c begins and notices that the program has loaded PyTorch; torch.c knows
 * PyTorch's functions, tries its observer out and registers; op.c makes records of it; name.c has the names
 * and which of them are wanted.
 *
 * Nothing here may fail loudly: where PyTorch is not as it is known to be it is left alone, and is seen by probes.
 */
#ifndef GS_COMPANION_OPS_OPS_INT_H
#define GS_COMPANION_OPS_OPS_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/companion/ops.h"

#define OPS_SETTINGS_ENV   "GPUSCOPE_COMPANION_OPS"
#define OPS_SETTINGS_BYTES 8192u

/* What a name is of. */
enum ops_kind {
	OPS_FUNCTION = 0, /* an operator, or what PyTorch itself marks */
	OPS_NODE = 1,     /* a step of a backward pass */
	OPS_SPAN = 2,     /* what the program marks: record_function() */
	OPS_KINDS
};

/* --- name.c --- */

/* "default" or "all"; "names", and a glob in each line after it; "instead", and after it by turns an operator and what it is
 * to be called. False: it is none of these, or there is no memory. */
bool ops_name_start(const char *settings);

/* Can any of that kind be wanted? */
bool ops_name_wants(enum ops_kind kind);

/* The number of what PyTorch's record is called; 0: it is not wanted. name: the record's. */
uint32_t ops_name_find(enum ops_kind kind, const void *record, const char *name);

/* The number of the name of backward passes; 0: they are not wanted, or nothing is registered yet. */
uint32_t ops_name_pass(void);
/* It is from now on. */
void ops_name_start_passes(void);

/* Its text. */
const char *ops_name_text(uint32_t number);

/* --- op.c --- */

/* What PyTorch calls: at a begin, by kind, with the place for what the end is given, and at an end. */
typedef void *(*ops_start_fn)(void **ret_context, const void *record);
typedef void (*ops_end_fn)(const void *record, void *context);
extern const ops_start_fn ops_op_starts[OPS_KINDS];
extern const ops_end_fn ops_op_ends[OPS_KINDS];

/* For thunk.S: a backward pass begins (sp: where its return address lies), and ends. What is to be called. */
void *ops_op_enter(uint64_t sp);
void ops_op_leave(uint64_t sp);

/* What an unwinder asks when an exception leaves it (the C++ ABI's _Unwind_Personality_Fn). */
int ops_op_personality(int version, int actions, uint64_t exception_class, void *exception,
		       void *context);

/* --- torch.c --- */

/* PyTorch's functions, found by name. */
const char *ops_torch_name(const void *record);

/* The name of its operator, with its namespace and overload ("aten::add.Tensor"), from that of the record; 0: it is none
 * of an operator. */
size_t ops_torch_operator(const void *record, const char *name, char *out, size_t bytes);

/* Exceptions that are on their way in this thread. */
uint32_t ops_torch_thrown(void);

/* find: the address of a function of PyTorch by its name, or NULL. Register for what is wanted, when PyTorch's observer
 * stands the test. */
enum gs_companion_state ops_torch_start(void *(*find)(const char *name));

/* --- start.c, thunk.S --- */

extern void *ops_real_dlsym;

/* Where another library than this one defines a function; NULL. */
void *ops_start_find(const char *name);

/* Has PyTorch come since the last time? For thunk.S: code there asks for that function. Any thread. */
void ops_start_notice(const char *name, uintptr_t caller);

#endif
