/* Which GPUs a person means. */
#ifndef GS_SOURCES_GPU_SELECT_H
#define GS_SOURCES_GPU_SELECT_H

#include "core/base/err.h"
#include "model/node/gpu.h"

/* Leave only the GPUs that the list names, and their processes. Pieces with commas between them:
 * - an index, or a PCI bus id ("3b:00.0", "0000:3B:00", "00000000:3B:00.0"): with the parts of a
 *   divided GPU;
 * - INDEX:GPU_INSTANCE (or INDEX.GPU_INSTANCE): that part;
 * - a UUID, or a beginning of one, of five characters at least, that no other GPU has.
 * -ENODEV: a piece names no GPU; -EINVAL: it could mean several (err says which); what the others name
 * is left nevertheless. -EINVAL also: the list is empty. */
int gs_gpu_select(struct gs_gpu_snapshot *snapshot, const char *list, struct gs_err *err);

#define GS_GPU_LIST_BYTES 4096

/* Put a list after those of before. -EINVAL: it names nothing, or is too long. */
int gs_gpu_list_add(char list[GS_GPU_LIST_BYTES], const char *more, struct gs_err *err);

#endif
