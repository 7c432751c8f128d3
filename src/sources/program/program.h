/*
 * The command that is traced: forked before the probes are made, so that its pid can be followed, and
 * held at a pipe until they are in place. Its standard streams, environment and folder are those of
 * the caller. Works in a program with threads, too.
 */
#ifndef GS_SOURCES_PROGRAM_PROGRAM_H
#define GS_SOURCES_PROGRAM_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/err.h"

struct gs_uprobe;

struct gs_program {
	pid_t pid;    /* of a child of ours, to be waited for by the caller; -1: none */
	int go_fd;    /* a byte lets it start; owned, -1 closed */
	int error_fd; /* the errno of a failed exec; closed by a successful one. Owned, -1 closed */
};

#define GS_PROGRAM_INIT ((struct gs_program){.pid = -1, .go_fd = -1, .error_fd = -1})

struct gs_program_options {
	size_t size;          /* of this struct */
	char *const *words;   /* as for execvp(3); borrowed until it has started */
	const sigset_t *mask; /* its blocked signals */
	/* Called in the child when it may start, before its program begins; NULL: nothing. */
	void (*enter)(const void *ctx);
	const void *enter_ctx;
};

/* A child that waits before it becomes the command. 0 or a negative errno. */
int gs_program_prepare(const struct gs_program_options *options, struct gs_program *ret_program);

/* Lets it run. -ENOENT: command not found, or another negative errno of execve(2), with err; it is gone
 * then. */
int gs_program_start(struct gs_program *program, const char *name, struct gs_err *err);

/* Ends a child that never started; of none it only closes what is open. */
void gs_program_abandon(struct gs_program *program);

/* Attach to the files that the command, or a program that is named in its words, may load. */
void gs_program_attach(struct gs_uprobe *probe, char *const *words, char *const *environment);

#endif
