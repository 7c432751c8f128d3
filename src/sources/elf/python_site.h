/*
 * Where an interpreter does something beside running code: collecting garbage, and taking its lock.
 */
#ifndef GS_SOURCES_ELF_PYTHON_SITE_H
#define GS_SOURCES_ELF_PYTHON_SITE_H

#include "sources/elf/usdt.h"

#define GS_PYTHON_SITE_MAX 16

enum gs_python_deed {
	GS_PYTHON_COLLECTS,
	GS_PYTHON_TAKES_LOCK,   /* wherever it does */
	GS_PYTHON_RETAKES_LOCK, /* exported: where C code takes the lock back */
};

struct gs_python_site {
	const char *name;            /* what it is called in the function table; static */
	struct gs_elf_symbol symbol; /* where it is */
};

/* The functions of the file that do it, *ret_n of them. 0 or a negative errno with a text. */
int gs_elf_python_sites(struct gs_elf *elf, enum gs_python_deed deed,
			struct gs_python_site ret_sites[GS_PYTHON_SITE_MAX], unsigned *ret_n,
			struct gs_err *err);

/* The static probes of collections, where an interpreter was built with them: ret_probes[0] when
 * one begins, [1] when it ends, in the same function with the same stack pointer. n of both is 0
 * unless both are there. */
int gs_elf_python_gc_probes(struct gs_elf *elf, struct gs_usdt_places ret_probes[2],
			    struct gs_err *err);

/* The static probe by which CPython 3.8 to 3.11 reports that a function is left: by return, yield or
 * an exception. n is 0 where it was not built with it, and in any other version. (function__entry
 * has to look up a line before it is passed, and is in 3.11 under sys.setprofile() and its like
 * only; 3.12 to 3.14 have neither.) version: gs_elf_python_version(), which of 3.11 is looked up.
 * The cookies hold the distance to _PyRuntime (GS_PYCALL_WORD); n is also 0 where that is too far. */
int gs_elf_python_left_probe(struct gs_elf *elf, unsigned version, struct gs_usdt_places *ret_probe,
			     struct gs_err *err);

/* The function that CPython 3.12 to 3.14 calls once for each frame of Python code that has ended, by a
 * return or an exception, whether Python or C called it: _PyEvalFrameClearAndPop() in 3.12, which only
 * the full table of symbols has, _PyEval_FrameClearAndPop() since, which is exported. *ret_name is one of
 * these names, of the program's life. 0: *ret_reason says why there is none whose calls would be
 * complete, NULL: an interpreter that it is not asked of (older). 1: found. Or a negative errno. */
int gs_elf_python_cleared(struct gs_elf *elf, struct gs_elf_symbol *ret_symbol,
			  const char **ret_name, const char **ret_reason);

#endif
