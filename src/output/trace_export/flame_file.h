/* What the two files of a flame graph share: a tree that grows while records come, and is written
 * when they have ended. Inside the room only. */
#ifndef GS_OUTPUT_TRACE_EXPORT_FLAME_FILE_H
#define GS_OUTPUT_TRACE_EXPORT_FLAME_FILE_H

#include "output/trace_export/export_int.h"
#include "pipeline/flamegraph/flame.h"

struct gs_export_flame_file {   /* the writer's state */
	struct gs_flame *flame; /* owned */
	uint64_t n_lost;        /* calls that the stream says were not seen whole */
};

/* Functions of struct gs_export_writer: export_int.h. */
uint8_t *gs_export_flame_file_start(struct gs_export *e, uint8_t *p);
uint8_t *gs_export_flame_file_record(struct gs_export *e, const struct gs_record *r, uint8_t *p);
void gs_export_flame_file_fini(void *state);

/* The tree, finished; NULL: no memory (the error of the file). */
const struct gs_flame *gs_export_flame_file_end(struct gs_export *e);

/* The node after i on the walk from a parent to its children, the heaviest first; 0 at the end. */
uint32_t gs_export_flame_file_next(const struct gs_flame_node *nodes, uint32_t i);

/* The same without what is below i. */
uint32_t gs_export_flame_file_skip(const struct gs_flame_node *nodes, uint32_t i);

#endif
