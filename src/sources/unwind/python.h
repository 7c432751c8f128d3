/*
 * Python from outside: where an interpreter keeps its threads and frames, and what the raw parts
 * of a code object say. The kernel side reads the frames (bpf/calls/python.bpf.h).
 *
 * CPython 3.8 to 3.14, on x86-64, as released: system, conda, pyenv, uv; in the executable or in
 * libpython; a free-threaded build from 3.13 on.
 */
#ifndef GS_SOURCES_UNWIND_PYTHON_H
#define GS_SOURCES_UNWIND_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "model/trace/python.h"
#include "core/reader/reader.h"

/* Finds interpreters and remembers what each file said. One thread. */
struct gs_pythons;

/* Files are read by reader, which is borrowed. NULL: no memory. */
struct gs_pythons *gs_pythons_new(struct gs_reader *reader);
void gs_pythons_free(struct gs_pythons **pythons);

/* The interpreter that a process has mapped, with its version as text ("3.12"). 0; -ENOENT: it has
 * none; -ESRCH: no such process; -EAGAIN: it has one that is not in place yet, ask again; -ENOTSUP
 * or another with a text: it has one whose stacks cannot be read; ret_proc->version is that of such
 * a one, as far as it is known: GS_PYTHONS_OLD, or 0; and ->runtime where its variables are, or 0. */
#define GS_PYTHONS_OLD 0x0300 /* before 3.7 */
int gs_pythons_find(struct gs_pythons *pythons, pid_t pid, struct gs_py_proc *ret_proc,
		    struct gs_err *err);

/* GS_READER_PYTHON of a reader. -EBADMSG: the request is none. */
int gs_python_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
		    struct gs_err *err);

/* --- python_layout.c: offsets by version --- */

#define GS_PY_DEBUG_BYTES 800 /* of _PyRuntime that may hold _Py_DebugOffsets */

/* Fill all but runtime from the table of released versions, 3.8 to 3.12 (0x0308 to 0x030c).
 * -ENOTSUP: another version. */
int gs_python_layout(uint16_t version, struct gs_py_proc *ret_proc);

/* The same from the first bytes of _PyRuntime of 3.13 and newer. -ENOENT: no debug offsets;
 * -ENOTSUP: of a version, or with values, that are not known. */
int gs_python_layout_debug(const void *data, size_t bytes, struct gs_py_proc *ret_proc);

/* --- python_line.c --- */

/* The line of the instruction at_bytes from the first, by the line table of a code object. first:
 * its first line. 0: the table says that the instruction has none, or it does not reach so far. */
uint32_t gs_python_line(uint16_t version, const uint8_t *table, size_t table_bytes, int32_t first,
			int64_t at_bytes);

/* --- python_text.c --- */

/* Characters of char_bytes each (Latin-1, UCS-2, UCS-4) as UTF-8 with an end; what is no character
 * becomes U+FFFD, control characters '?'. As many as fit. Returns the bytes written without the
 * end. */
size_t gs_python_text(const void *data, size_t bytes, unsigned char_bytes, char *out,
		      size_t out_bytes);

/* --- python_find.c --- */

/* Distinguishes the program that the process runs from those before and after an exec
 * (struct gs_py_proc's image). -EAGAIN: it is just being started; -ESRCH: no such process. */
int gs_python_image(pid_t pid, uint64_t *ret_image);

/* Exactly bytes of another process's memory. 0 or a negative errno. */
int gs_python_peek(pid_t pid, uint64_t address, void *to, size_t bytes);

#endif
