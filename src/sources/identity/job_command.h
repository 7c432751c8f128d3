/* Commands of Slurm, run in the background. */
#ifndef GS_SOURCES_IDENTITY_JOB_COMMAND_H
#define GS_SOURCES_IDENTITY_JOB_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"

struct gs_command {
	pid_t pid; /* 0: none runs */
	int fd;    /* of its standard output */
	uint64_t end_ns;
	struct gs_buf out; /* what it wrote so far */
	bool has_ended;    /* it closed its output */
	bool is_long;      /* it wrote more than out may hold */
};

#define GS_COMMAND_INIT(max) ((struct gs_command){.fd = -1, .out = GS_BUF_INIT(max)})

enum gs_command_state {
	GS_COMMAND_RUNS = 1,
	GS_COMMAND_DONE = 2, /* status 0, all it wrote is in out */
	GS_COMMAND_FAILED = 3,
	GS_COMMAND_LATE = 4, /* it was ended */
	GS_COMMAND_LONG = 5, /* it wrote more than out's maximum, and was ended */
};

/* The program's path in one of the folders, false when there is none to be executed. */
bool gs_command_find(const char *folders, const char *program, char *out, size_t bytes);

/* Start it without a shell, with nothing of our environment and no input. 0 or an error. */
int gs_command_start(struct gs_command *command, char *const argv[], char *const envp[],
		     uint64_t limit_ns);
enum gs_command_state gs_command_poll(struct gs_command *command, uint64_t wait_ns);
void gs_command_fini(struct gs_command *command);

#endif
