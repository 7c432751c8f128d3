/*
 * The environment that a process has now, as far as it says which GPUs CUDA shows it: /proc/PID/environ has that with
 * which its program began, and programs choose their GPUs later (os.environ of Python, setenv of a launcher).
 *
 * The C library keeps it where `environ` points: that variable is found by the files that the process maps, read by
 * a process without rights (core/reader/reader.h), the rest is the process's own memory. All of it is of any content:
 * what is read is bounded, and only the variables that matter are kept. One object, one thread.
 */
#ifndef GS_SOURCES_CUDA_VISIBLE_ENVIRON_H
#define GS_SOURCES_CUDA_VISIBLE_ENVIRON_H

#include <stddef.h>
#include <stdint.h>

#include "core/reader/reader.h"

#define GS_CUDA_ENVIRON_BYTES 16384 /* of what is kept; more is left out */

struct gs_cuda_environ;

/* reader is borrowed. NULL: no memory. */
struct gs_cuda_environ *gs_cuda_visible_environ_new(struct gs_reader *reader);
void gs_cuda_visible_environ_free(struct gs_cuda_environ **environ);

/* The variables that gs_cuda_visible_parse() looks at, as /proc/PID/environ would have them. 0 or a negative
 * errno: it could not be found or read. */
int gs_cuda_visible_environ_read(struct gs_cuda_environ *environ, uint32_t pid,
				 char ret_text[GS_CUDA_ENVIRON_BYTES], size_t *ret_bytes);

/* GS_READER_ENVIRON of a reader. -EBADMSG: the request is none. */
int gs_cuda_visible_environ_serve(void **state, struct gs_reader_request *request,
				  struct gs_wire_out *reply, struct gs_err *err);

#endif
