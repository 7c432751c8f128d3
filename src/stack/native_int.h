/* Between native.c (unwinding), native_maps.c (processes) and native_file.c (files). */
#ifndef GS_STACK_NATIVE_INT_H
#define GS_STACK_NATIVE_INT_H

#include <limits.h>

#include "base/map.h"
#include "elf/library.h"
#include "stack/cfi.h"
#include "stack/native.h"
#include "stack/perf_map.h"
#include "stack/symbolize.h"

#define NATIVE_ROWS      4096u /* of unwind tables that are kept; a power of two */
#define NATIVE_MAX_FILES 16384u
#define NATIVE_MAX_PROCS 4096u
#define NATIVE_MAX_MAPS  65536u     /* executable mappings of one process */
#define NATIVE_ALL_MAPS  262144u    /* and of all together: 10 MiB */
#define NATIVE_PATHS     (8u << 20) /* bytes of the names of all files */

struct native_file {
	struct gs_file_id id;
	char *path;                /* owned; as the process names it */
	char *open_path;           /* owned */
	uint32_t pid;              /* whose root it is seen from */
	bool is_vdso, cannot_open; /* tried, and never again */
	struct gs_elf *elf;        /* owned; NULL: not open */
	struct gs_cfi *cfi;        /* owned; NULL: not read, or: */
	bool no_cfi;
	struct gs_symbols *symbols; /* owned; NULL: not read */
	uint64_t used;              /* when, in uses of all files */
};

struct native_map {
	uint64_t start, end;
	uint64_t file_off;
	uint64_t since_ns; /* when it was there */
	uint32_t file;     /* 0: none */
};

struct native_process {
	uint32_t pid;            /* 0: free */
	struct native_map *maps; /* owned, by rising start */
	size_t n_maps;
	uint64_t read_ns;         /* when its maps were read last; 0 never */
	uint64_t tried_ns;        /* likewise, also in vain */
	uint64_t exec_ns;         /* of its program; 0 unknown */
	struct gs_perf_map *made; /* owned; names of code made at run time; NULL: not asked for */
	uint64_t used;
};

struct native_row { /* kept by file and address */
	uint32_t file;
	int16_t result; /* of gs_cfi_find() */
	uint64_t vaddr;
	struct gs_cfi_row row;
};

struct gs_native {
	struct native_file *files; /* owned; 1 .. n_files */
	uint32_t n_files, capacity;
	struct gs_map file_of_id; /* hash of the identity -> file */
	uint32_t vdso;            /* 0: not made yet */
	unsigned n_open;
	size_t index_bytes; /* of symbols and scanned unwind tables */
	size_t path_bytes;
	uint64_t uses;
	uint64_t now_ns; /* when the present stack is looked at */

	struct native_process procs[NATIVE_MAX_PROCS];
	struct gs_map proc_of_pid;
	size_t n_maps;             /* of all of them */
	struct gs_perf_maps *made; /* owned */

	struct native_row rows[NATIVE_ROWS];
};

/* --- native_file.c --- */

/* The number of a file, 0 when there are too many or no memory. */
uint32_t native_file_of(struct gs_native *n, uint32_t pid, const struct gs_mapped_file *mapped);
uint32_t native_file_vdso(struct gs_native *n);

/* Open it and its tables when they are not; NULL where it cannot be. */
struct native_file *native_file_open(struct gs_native *n, uint32_t file);
struct gs_cfi *native_file_cfi(struct gs_native *n, uint32_t file);
struct gs_symbols *native_file_symbols(struct gs_native *n, uint32_t file);
void native_files_fini(struct gs_native *n);

/* --- native_maps.c --- */

/* The mapping of a process at an address; its maps are read anew when they are unknown, or old, or
 * do not have it. NULL: nothing is mapped there, or the process is gone. */
const struct native_map *native_map_find(struct gs_native *n, uint32_t pid, uint64_t pc);

/* The names that the process tells of code that it has made; NULL: it is not known, or no memory.
 */
struct gs_perf_map *native_made_of(struct gs_native *n, uint32_t pid);

void native_processes_fini(struct gs_native *n);

#endif
