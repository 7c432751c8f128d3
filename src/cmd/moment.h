/* Moments of this machine, one at a time: GPUs, the machine, its processes with names and jobs. */
#ifndef GS_CMD_MOMENT_H
#define GS_CMD_MOMENT_H

#include <stdbool.h>

#include "base/err.h"
#include "model/host.h"

struct moment_reader;

/* nvml: the library, NULL the usual one. */
int moment_reader_new(const char *nvml, struct moment_reader **ret_reader, struct gs_err *err);
void moment_reader_free(struct moment_reader **reader);

/* Read now; groups: enum gs_gpu_group, 0 all. all: every process, not only those on GPUs. The
 * moment is the caller's. 0, or -ENOMEM and the like. */
int moment_read(struct moment_reader *reader, unsigned groups, bool all,
		struct gs_node_snapshot **ret_node);

/* Let go of the driver, take it up again. */
void moment_release(struct moment_reader *reader);
void moment_resume(struct moment_reader *reader);

#endif
