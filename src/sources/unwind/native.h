/*
 * Native stacks of running processes: where their code is mapped, who called whom, and what the
 * functions are called. One object, one thread. Files are found through the process's own root.
 *
 * Bounds: GS_NATIVE_MAX_OPEN files are open at one time, the indexes of symbols take at most
 * GS_NATIVE_INDEX_BYTES, the rows of unwind tables that are kept 1.5 MiB, mappings 10 MiB, names of
 * generated code GS_PERF_MAPS_BYTES; what was used longest ago goes, and is read again when needed.
 */
#ifndef GS_SOURCES_UNWIND_NATIVE_H
#define GS_SOURCES_UNWIND_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/event.h"
#include "sources/cubin/needs.h"
#include "core/reader/reader.h"

#define GS_NATIVE_MAX_OPEN    192
#define GS_NATIVE_INDEX_BYTES (24u << 20)

struct gs_native;

struct gs_native_frame {
	uint32_t file;     /* for gs_native_path(); 0: code that belongs to no file */
	uint64_t file_off; /* of the instruction (of a call: of its last byte); 0 without a file */
	uint64_t vaddr;    /* the same as an address of the file */
	uint64_t pc;       /* in the process */
	uint32_t pid;
	bool signal; /* the kernel put this frame there to run a signal handler */
};

struct gs_native_stack {
	unsigned n_frames;
	unsigned flags;                              /* enum gs_stack_flag */
	struct gs_native_frame frames[GS_STACK_MAX]; /* the innermost first */
};

/* Files are read by reader, which is borrowed and keeps its state. 0 or -ENOMEM. */
int gs_native_new(struct gs_reader *reader, struct gs_native **ret_native);
void gs_native_free(struct gs_native **native);

/* What happens to processes: a new program, a child that begins with its parent's memory, code that
 * is mapped. Times (monotonic) show what came first: news of the two kinds come by different ways.
 */
struct gs_mapping;
void gs_native_exec(struct gs_native *native, uint32_t pid, uint64_t mono_ns);
void gs_native_fork(struct gs_native *native, uint32_t pid, uint32_t parent_pid, uint64_t mono_ns);
/* A new program has begun, as the kernel side says, just after the time of gs_native_exec(): what is known may be of an earlier one. */
void gs_native_stale(struct gs_native *native, uint32_t pid, uint64_t mono_ns);
void gs_native_map(struct gs_native *native, uint32_t pid, uint64_t mono_ns,
		   const struct gs_mapping *mapping);

/* GS_READER_NATIVE of a reader. -EBADMSG: the request is none; -ESTALE: of an unknown file. */
int gs_native_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
		    struct gs_err *err);

/* Unwind a copied stack; event is as long as its head says. 0; -ESRCH: nothing is known of the
 * code that it runs (its process is gone, or news of what it mapped are yet to come); -EINVAL:
 * malformed. */
int gs_native_unwind(struct gs_native *native, const struct gs_event_stack_bytes *event,
		     struct gs_native_stack *ret_stack);

/* The file of a frame as its process names it; "" for 0. Lent. */
const char *gs_native_path(const struct gs_native *native, uint32_t file);

/* The function of a frame, demangled. False: it has no name. */
bool gs_native_name(struct gs_native *native, const struct gs_native_frame *frame, char *ret_name,
		    size_t bytes);

/* Where an address of a process is in its code, as a frame. False: there is none, or the process is
 * gone and its mappings were not known. */
bool gs_native_find(struct gs_native *native, uint32_t pid, uint64_t pc,
		    struct gs_native_frame *ret_frame);

/* The name of the kernel, as the compiler mangled it, that a program launches by the host function
 * that begins there. False: no kernel is registered for it. */
bool gs_native_kernel(struct gs_native *native, const struct gs_native_frame *frame, char *ret_name,
		      size_t bytes);

/* The address of the host function of the kernel that this handle is, of a process that lives: by the
 * variables that nvcc's programs keep handles in. False: none has it. */
bool gs_native_host_function(struct gs_native *native, uint32_t pid, uint64_t handle,
			     uint64_t *ret_host);

/* What kernels of a file need: gs_cubin_find_needs() in the reader. Names are all different; how many are asked for
 * at one time is bounded by GS_NATIVE_WANTED_BYTES of them. 0 or a negative errno. */
#define GS_NATIVE_WANTED_BYTES (3u << 20)
int gs_native_needs(struct gs_native *native, uint32_t file, uint32_t sm,
		    struct gs_cubin_wanted *wanted, size_t n);

#endif
