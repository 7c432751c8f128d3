/* Between native.c (unwinding), native_maps.c (processes), native_file.c (files) and native_ask.c
 * (what a reader knows of them). */
#ifndef GS_SOURCES_UNWIND_NATIVE_INT_H
#define GS_SOURCES_UNWIND_NATIVE_INT_H

#include <limits.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "sources/elf/code.h"
#include "sources/elf/library.h"
#include "sources/cubin/stubs.h"
#include "core/reader/reader.h"
#include "sources/unwind/cfi.h"
#include "sources/unwind/native.h"

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
	uint32_t uid;              /* of its owner */
	bool is_vdso, cannot_open; /* tried, and never again */
	bool is_open, asked_debug; /* in the reader; its debug file was looked for */
	unsigned generation;       /* of the reader that has it open */
	bool has_symtab;
	char *build_id, *debug_link;      /* owned; NULL: none, or not open */
	struct gs_elf_segments *segments; /* owned; NULL: never open */
	size_t index_bytes;               /* of its tables, in the reader */
	uint64_t used;                    /* when, in uses of all files */
	struct gs_cubin_handle *handles;  /* owned: variables with handles of kernels */
	size_t n_handles;
	uint8_t handle_tries; /* so often they were asked for in vain, or the most: not to be asked again */
};

struct native_answer { /* what opening says; texts are lent until the next question */
	struct gs_elf_segments segments;
	bool has_symtab;
	const char *build_id, *debug_link;
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
	uint64_t read_ns;  /* when its maps were read last; 0 never */
	uint64_t tried_ns; /* likewise, also in vain */
	uint64_t exec_ns;  /* of its program, as notices say; 0 unknown */
	uint64_t task_ns;  /* of its last fork or exec, as the kernel side says; likewise */
	uint64_t made_ns;  /* when its map of generated code was opened last; 0 never */
	bool made_asked, made_refused; /* the reader knows it; it is none that is believed */
	uint64_t used;
};

struct native_row { /* kept by file and address */
	uint32_t file;
	int16_t result; /* of gs_cfi_find() */
	uint64_t vaddr;
	struct gs_cfi_row row;
};

struct gs_native {
	struct gs_reader *reader; /* borrowed */
	struct gs_buf request, reply;
	struct native_file *files; /* owned; 1 .. n_files */
	uint32_t n_files, capacity;
	struct gs_map file_of_id; /* hash of the identity -> file */
	uint32_t vdso;            /* 0: not made yet */
	int vdso_fd;              /* owned; -1 */
	unsigned n_open;
	size_t index_bytes; /* of symbols and scanned unwind tables */
	size_t path_bytes;
	uint64_t uses;
	uint64_t now_ns; /* when the present stack is looked at */

	struct native_process procs[NATIVE_MAX_PROCS];
	struct gs_map proc_of_pid;
	size_t n_maps; /* of all of them */

	struct native_row rows[NATIVE_ROWS];
};

/* --- native_file.c --- */

/* The number of a file, 0 when there are too many or no memory. */
uint32_t native_file_of(struct gs_native *n, uint32_t pid, const struct gs_mapped_file *mapped);
uint32_t native_file_vdso(struct gs_native *n);

/* Have it opened when it is not; NULL where it cannot be. */
struct native_file *native_file_open(struct gs_native *n, uint32_t file);

/* The row for an address of it. As gs_cfi_find(). */
int native_file_row(struct gs_native *n, uint32_t file, uint64_t vaddr, struct gs_cfi_row *ret_row);

/* The name of an address of it. */
bool native_file_name(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		      size_t bytes);

/* The kernel that is registered for the host function at an address of it. */
bool native_file_kernel(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
			size_t bytes);
void native_files_fini(struct gs_native *n);

/* --- native_maps.c --- */

/* The mapping of a process at an address; its maps are read again when they are unknown, or old, or
 * do not have it. NULL: nothing is mapped there, or the process is gone. */
const struct native_map *native_map_find(struct gs_native *n, uint32_t pid, uint64_t pc);

/* The name that a process gives to code that it has made. */
bool native_made_name(struct gs_native *n, uint32_t pid, uint64_t pc, char *ret_name, size_t bytes);

/* All of a process, read again when they are unknown or old; lent until the next call. NULL: nothing is known. */
const struct native_map *native_maps_of(struct gs_native *n, uint32_t pid, size_t *ret_n);

void native_processes_fini(struct gs_native *n);

/* --- native_ask.c: each returns 0, -ESTALE when the reader does not know the file any more, or
 * another negative errno. --- */

int native_ask_open(struct gs_native *n, uint32_t file, int fd, struct native_answer *ret_answer);
int native_ask_row(struct gs_native *n, uint32_t file, uint64_t vaddr, struct gs_cfi_row *ret_row);
int native_ask_debug(struct gs_native *n, uint32_t file, const char *path, bool by_build_id, int fd,
		     bool *ret_taken);
/* -ENOENT: it has none. */
int native_ask_name(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		    size_t bytes);
/* -ENOENT: no kernel is registered for it. */
int native_ask_kernel(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		      size_t bytes);
/* *ret_handles is the caller's to free. */
int native_ask_handles(struct gs_native *n, uint32_t file, struct gs_cubin_handle **ret_handles,
		       size_t *ret_n);
int native_ask_needs(struct gs_native *n, uint32_t file, uint32_t sm,
		     struct gs_cubin_wanted *wanted, size_t n_wanted);
void native_ask_drop(struct gs_native *n, uint32_t file);
void native_ask_close(struct gs_native *n, uint32_t file);
int native_ask_made(struct gs_native *n, uint32_t pid, uint64_t pc, uint64_t now_ns, int fd,
		    char *ret_name, size_t bytes);
void native_ask_forget(struct gs_native *n, uint32_t pid);

#endif
