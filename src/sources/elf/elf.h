/*
 * ELF files of traced programs: where a function begins in the file, which names a file defines,
 * its build id. Only what is asked for is read (a library of 450 MB costs some MB of memory), and
 * nothing in a file is trusted: a malformed one gives an error, never a wrong read.
 */
#ifndef GS_SOURCES_ELF_ELF_H
#define GS_SOURCES_ELF_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/foreign.h"

struct gs_elf; /* an open file */

struct gs_elf_symbol {
	uint64_t file_off;   /* where its first byte lies in the file: what a uprobe takes */
	uint64_t size_bytes; /* as the symbol table says, may be 0 */
	bool found;          /* the file defines it: the rest is known */
	bool dynamic;        /* from .dynsym; false: from .symtab */
};

/* Opens an ELF64 little-endian file of this machine's kind. -ENOEXEC: not such a file. *ret_elf is
 * the caller's to close. One object may be used by one thread at a time. */
int gs_elf_open(const char *path, struct gs_elf **ret_elf, struct gs_err *err);
void gs_elf_close(struct gs_elf **elf);

/* The same for a file of debug information that was parted from its program: only its sections
 * (.symtab) and its build id can be read. want (core/base/foreign.h) may be NULL; -ESTALE: another
 * file than the wanted one stands at the path. */
int gs_elf_open_debug(const char *path, const struct gs_foreign_want *want, struct gs_elf **ret_elf,
		      struct gs_err *err);

/* Either, of a file that is open already; name is for error texts. *fd is taken, also on failure.
 */
int gs_elf_open_fd(int *fd, const char *name, bool only_debug, struct gs_elf **ret_elf,
		   struct gs_err *err);

/* What it was opened as: for messages. Lent until close. */
const char *gs_elf_path(const struct gs_elf *elf);

/* The open file itself. Lent until close. */
struct gs_foreign *gs_elf_file(const struct gs_elf *elf);

/* True when the dynamic symbol table defines the name as a function; reads a few hundred bytes
 * (through .gnu.hash; the whole .dynsym only where a file has no such table). */
bool gs_elf_defines(struct gs_elf *elf, const char *name);

/* Look n functions up by name: in .dynsym and, with_static, for those not there in .symtab too.
 * ret_symbols[i] answers names[i]. Indirect functions (STT_GNU_IFUNC) and undefined symbols do not
 * count as found. 0 also when none was found; negative when the tables cannot be read. */
int gs_elf_find(struct gs_elf *elf, const char *const *names, size_t n, bool with_static,
		struct gs_elf_symbol *ret_symbols, struct gs_err *err);

/* The version of the interpreter that the file is, by which functions of the documented interface
 * it has: 0x0308 to 0x030a, 0x030b (3.11 or newer); 0: none, or older. */
uint16_t gs_elf_python_version(struct gs_elf *elf);

/* A function of a file, of .dynsym or .symtab; those in both come twice, at the same place. */
struct gs_elf_function {
	const char *name;  /* lent during the call; without its version */
	uint64_t file_off; /* as in struct gs_elf_symbol */
	uint64_t size_bytes;
	bool dynamic;  /* likewise */
	bool local;    /* several of one name may be there */
	bool indirect; /* chooses at load time which function it is: no place for a probe */
};

typedef int (*gs_elf_function_fn)(void *ctx, const struct gs_elf_function *function);

/* Visit every function. A non-zero return of fn ends the walk and is passed on. Memory does not
 * grow with the file. Else 0, -ENOMEM, or -ENOEXEC: damaged; with err. */
int gs_elf_functions(struct gs_elf *elf, gs_elf_function_fn fn, void *ctx, struct gs_err *err);

/* Visit the functions of .dynsym whose names begin with prefix, in the order of their names in the
 * string table; what is lent is good during the call. Names of more than 4,095 bytes are left out.
 * Memory: 24 bytes a function, and two windows. 0, what fn returned when that was not 0, or a
 * negative errno. */
typedef int (*gs_elf_symbol_fn)(void *ctx, const char *name, const struct gs_elf_symbol *symbol);
int gs_elf_each_symbol(struct gs_elf *elf, const char *prefix, gs_elf_symbol_fn fn, void *ctx,
		       struct gs_err *err);

/* Visit the texts of the file's constant data (ended by a NUL, of at most 4,095 bytes) that contain
 * needle; each once, through a window, at most 262,144 (-EFBIG). Return values as above. */
typedef int (*gs_elf_text_fn)(void *ctx, const char *text);
int gs_elf_each_text(struct gs_elf *elf, const char *needle, gs_elf_text_fn fn, void *ctx,
		     struct gs_err *err);

/* The name of the function of another file, or of this one through the linker, to which the stub at
 * file_off (of .plt and the like) jumps. -ENOENT: no such stub stands there, or its name does not
 * fit. Reads the relocations: who asks often keeps the answer. */
int gs_elf_stub_name(struct gs_elf *elf, uint64_t file_off, char *ret_name, size_t bytes);

/* The function of this file to which the indirect jump at file_off leads as long as the program
 * does not change where: entries of NVIDIA's driver are such stubs. Its size is the distance to the
 * next function with unwind tables. -ENOENT: it is not known; -ENOEXEC: damaged. */
int gs_elf_stub_body(struct gs_elf *elf, uint64_t file_off, uint64_t *ret_off, uint64_t *ret_bytes);

/* How many bytes the function that begins at file_off has: the distance to the next one with unwind
 * tables. -ENOENT: none begins there; -ENOEXEC: damaged. */
int gs_elf_function_bytes(struct gs_elf *elf, uint64_t file_off, uint64_t *ret_bytes);

/* True when the file has a .symtab (is not stripped). */
bool gs_elf_has_symtab(struct gs_elf *elf);

/* Up to bytes of the file at file_off; how many were there (0 at the end), or a negative errno. */
long gs_elf_read(struct gs_elf *elf, uint64_t file_off, void *buf, size_t bytes);

/* The GNU build id in hex, "" when it has none. Lent until close. */
const char *gs_elf_build_id(struct gs_elf *elf);

#endif
