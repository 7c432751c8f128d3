/*
 * Files that a person names to be written. Whatever stands under the name already, a link of
 * another user's or a file that they hold open, is not written to: a new file takes its place.
 *
 * A file that is whole at its end (a report, a figure) takes it when it is whole, so that a full
 * disk or a signal leaves what was there before. One that can be read while it grows (a recording)
 * takes it at once. A FIFO, a terminal or another device, and what /dev/stdout and /dev/fd/N stand
 * for, are written to as they are.
 */
#ifndef GS_CORE_BASE_OUTPUT_H
#define GS_CORE_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

enum gs_output_flag {
	GS_OUTPUT_GROWS = 1,   /* takes its place at once */
	GS_OUTPUT_PRIVATE = 2, /* 0600: it holds data of other users. Otherwise as the umask says */
	GS_OUTPUT_NO_SYNC = 4, /* takes its place without waiting for the disk: written often */
};

struct gs_output {                 /* GS_OUTPUT_INIT: none */
	int fd;                    /* owned, also by file */
	FILE *file;                /* gs_output_stream() */
	int dir_fd;                /* owned; of name and part */
	char name[256], part[288]; /* part "": it has its place */
	char path[256];            /* as it was given, for messages */
	bool no_sync;              /* GS_OUTPUT_NO_SYNC */
};

#define GS_OUTPUT_INIT                                                                             \
	{                                                                                          \
		.fd = -1, .dir_fd = -1                                                             \
	}

/* path NULL: standard output, as it is. A negative errno with err, "cannot write PATH: why". */
int gs_output_open(const char *path, unsigned flags, struct gs_output *ret_output,
		   struct gs_err *err);

/* The same file as a stream, which gs_output_close() closes. NULL: no memory. */
FILE *gs_output_stream(struct gs_output *output);

/* r: how the writing went. When that is 0, a file that has no place yet is synced and takes it;
 * otherwise, or when that fails, it is removed. Returns r, or the first error with err. */
int gs_output_close(struct gs_output *output, int r, struct gs_err *err);

/* Whether it could be written, by trying; nothing is left behind. 0, or a negative errno with
 * err. */
int gs_output_try(const char *path, struct gs_err *err);

/* The attribute of a file that says in words why it was written (trace --keep-last); not on every file system. */
#define GS_OUTPUT_REASON_XATTR "user.gpuscope.reason"

#endif
