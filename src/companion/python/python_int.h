/*
 * Between the files of this door. start.c begins when the program does and finds interpreters, api.c what of CPython's C
 * API they have, monitor.c (3.12 and newer) and profile.c (3.8 to 3.11) are called at each begin and end of a function,
 * code.c gives functions numbers, stack.c keeps what is open and adds up.
 *
 * Of CPython only functions that it exports are used, found by name when the program runs: nothing is compiled against
 * it. Its objects are pointers here that nothing is known of; where something is read out of one (profile.c), what is
 * read is compared with what CPython says of the same object first.
 */
#ifndef GS_COMPANION_PYTHON_PYTHON_INT_H
#define GS_COMPANION_PYTHON_PYTHON_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "companion/ring/ring.h"
#include "model/companion/python.h"

#define PYTHON_HOT  __attribute__((hot))
#define PYTHON_COLD __attribute__((cold, noinline))

/* --- api.c --- */

typedef struct python_object PyObject; /* CPython's own names, which the C API has in its texts */
typedef PyObject *(*python_c_function)(PyObject *self, PyObject *const *args, ssize_t n);

struct python_method { /* PyMethodDef */
	const char *name;
	python_c_function call;
	int flags;
	const char *doc;
};
#define PYTHON_FASTCALL 0x80 /* METH_FASTCALL */
#define PYTHON_O        0x08 /* METH_O */
typedef PyObject *(*python_method_o)(PyObject *self, PyObject *argument);

typedef int (*python_hook)(const char *event, PyObject *args, void *ctx);
typedef int (*python_profile_function)(PyObject *self, PyObject *frame, int what, PyObject *arg);

/* Functions of CPython by their names there; the rest may be missing. */
#define PYTHON_API(X)                                                                              \
	X(int, Py_IsInitialized, (void))                                                           \
	X(const char *, Py_GetVersion, (void))                                                     \
	X(int, PySys_AddAuditHook, (python_hook, void *))                                          \
	X(PyObject *, PySys_GetObject, (const char *))                                             \
	X(PyObject *, PyObject_GetAttrString, (PyObject *, const char *))                          \
	X(PyObject *, PyObject_CallMethod, (PyObject *, const char *, const char *, ...))          \
	X(PyObject *, PyUnicode_AsEncodedString, (PyObject *, const char *, const char *))         \
	X(int, PyBytes_AsStringAndSize, (PyObject *, char **, ssize_t *))                          \
	X(long, PyLong_AsLong, (PyObject *))                                                       \
	X(PyObject *, PyLong_FromVoidPtr, (void *))                                                \
	X(void *, PyLong_AsVoidPtr, (PyObject *))                                                  \
	X(PyObject *, PyCFunction_NewEx, (const struct python_method *, PyObject *, PyObject *))   \
	X(PyObject *, PyWeakref_NewRef, (PyObject *, PyObject *))                                  \
	X(void, Py_IncRef, (PyObject *))                                                           \
	X(void, Py_DecRef, (PyObject *))                                                           \
	X(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))                              \
	X(void, PyErr_Restore, (PyObject *, PyObject *, PyObject *))                               \
	X(void, PyErr_Clear, (void))

#define PYTHON_API_MORE(X)                                                                         \
	X(void *, PyThreadState_GetUnchecked, (void))  /* 3.13 */                                  \
	X(void *, _PyThreadState_UncheckedGet, (void)) /* up to 3.12 */                            \
	X(void *, PyInterpreterState_Get, (void))      /* 3.9 */                                   \
	X(int64_t, PyInterpreterState_GetID, (void *))                                             \
	X(void, PyEval_SetProfile, (python_profile_function, PyObject *))                          \
	X(void *, PyInterpreterState_ThreadHead, (void *))                                         \
	X(void *, PyThreadState_Next, (void *))                                                    \
	X(int, PyFrame_GetLasti, (PyObject *)) /* 3.11 */                                          \
	X(int, Py_AddPendingCall, (int (*)(void *), void *))                                       \
	X(PyObject *, PyImport_ImportModule, (const char *))                                       \
	X(int, PyObject_SetAttrString, (PyObject *, const char *, PyObject *))                     \
	X(void, PyErr_SetString, (PyObject *, const char *))                                       \
	X(void *, PyInterpreterState_Head, (void))                                                 \
	X(void *, PyInterpreterState_Next, (void *))

#define PYTHON_MEMBER(result, name, arguments) result(*name) arguments;
struct python_api {
	uint16_t version; /* 0x030c is 3.12 */
	bool is_free_threaded;
	PYTHON_API(PYTHON_MEMBER)
	PYTHON_API_MORE(PYTHON_MEMBER)
	PyObject *none;            /* Py_None */
	PyObject *const *stop;     /* PyExc_StopIteration; may be NULL */
	const void *function_type; /* PyCFunction_Type */
	struct gs_companion_around *(*around)(
		void); /* of the door to calls; NULL: it is not open */
};
#undef PYTHON_MEMBER

extern struct python_api python_api;

/* False: the program exports no interpreter; *ret_why why one cannot be used, NULL: there is none. */
bool python_api_find(const char **ret_why);

/* The state of the calling thread; NULL: it has none, or not the lock. */
void *python_thread_state(void);

/* A whole number that is an attribute of an object; -1: there is none, no error is left. */
long python_api_number(PyObject *object, const char *attribute);

/* --- start.c --- */

/* This thread is in our own calls of the interpreter, whose events are no news. */
extern __thread bool python_is_busy __attribute__((tls_model("initial-exec")));

/* Say once what cannot be seen, or who has what we would have; a printf format without conversions but %s. */
void python_report(enum gs_companion_python_what what, const char *format, const char *more);

/* What was said is to be said again: to another one. */
void python_report_again(void);

extern struct gs_companion_python_plan python_plan;

/* What is asked for, of the folder; *setup gets it. False: there is no plan that can be believed. */
bool python_read_plans(const char *folder, struct companion_setup *setup);

/* --- late.c --- */

/* Tracing is over. True: this library came into a program that ran, and has nothing registered in it any more. With the
 * interpreter's lock. */
bool python_late_leave(void) PYTHON_COLD;

/* As the interpreter names it, which looks for it in a library that it is to load as a module. */
PyObject *PyInit_gpuscope_companion_python(void);

/* When is who reads looked for the next time, in ticks? */
extern uint64_t python_late_check_at;
void python_late_check(uint64_t now) PYTHON_COLD;

/* --- code.c --- */

#define PYTHON_UNKNOWN UINT32_MAX
#define PYTHON_TABLE   (1u << 17) /* code objects, at most three quarters of it */

extern uint64_t *python_code_table; /* code object / 8 << 16 | number; 0 empty, 1 was one */

/* Number of a function that is met for the first time; 0: it is not wanted; PYTHON_UNKNOWN: it has none, counted. With the
 * interpreter's lock. */
uint32_t python_code_meet(PyObject *code) PYTHON_COLD;

/* Where a generator of this number begins (bytes from the first instruction); -1: it is none, or not known. */
int python_code_begin(uint32_t number);

/* The names so far into this file, when it is new: the epoch'th of the process. */
void python_code_put_names(struct gs_companion_python_names *names, uint64_t epoch);

bool python_code_start(void);

/* All is new, for another reader: functions get their numbers when they are met again. No thread records. */
bool python_code_again(void);

#define PYTHON_ASK 0xffffu /* in place of a number: this code object was met before that */

static inline uint32_t python_code_slot(const void *code)
{
	return (uint32_t)(((uintptr_t)code >> 3) * 0x9e3779b97f4a7c15ull >> (64 - 17));
}

static inline uint32_t python_code_find(const void *code)
{
	uint64_t wanted = (uintptr_t)code >> 3;

	for (uint32_t at = python_code_slot(code);; at = (at + 1) & (PYTHON_TABLE - 1)) {
		uint64_t word = __atomic_load_n(&python_code_table[at], __ATOMIC_RELAXED);

		if (word >> 16 == wanted)
			return COMPANION_UNLIKELY((word & 0xffff) == PYTHON_ASK) ? PYTHON_UNKNOWN
										 : word & 0xffff;
		if (!word)
			return PYTHON_UNKNOWN;
	}
}

static inline uint32_t python_code_number(PyObject *code)
{
	uint32_t number = python_code_find(code);

	return COMPANION_UNLIKELY(number == PYTHON_UNKNOWN) ? python_code_meet(code) : number;
}

/* --- stack.c --- */

/* A function of the calling thread begins or goes on; false: it is not recorded. */
bool python_stack_enter(const void *code, uint32_t number, bool is_resumed) PYTHON_HOT;
/* One ends; false: it is not the innermost of those that are recorded, and nothing was done. */
bool python_stack_leave(const void *code) PYTHON_HOT;
/* That one ends nevertheless, if it is wanted. */
void python_stack_leave_other(const void *code) PYTHON_COLD;

/* Tracing is over: nothing more is recorded in this process. */
static inline bool python_is_over(void)
{
	const struct companion_live *live = companion_live;

	return !live || live->failed || (live->epoch && live->head->stopped);
}

/* --- monitor.c, profile.c --- */

/* In the present interpreter. False: it cannot be, said, or is to be tried again (*ret_again). */
bool python_monitor_begin(bool *ret_again);

/* The same when it is asked for late, in the main interpreter; again: places that were switched off are on again. False: *ret_why
 * is set. And the end of it: no function of ours is called from there on. */
bool python_monitor_late(bool again, const char **ret_why);
void python_monitor_end(void);

bool python_profile_start(void);
/* In the present thread: what came of the hook. */
void python_profile_check(const char *event);

#endif
