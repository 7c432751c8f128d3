/* One process, in a snapshot of its node. */
#ifndef GS_SERVER_LIVE_PROCESS_H
#define GS_SERVER_LIVE_PROCESS_H

#include "core/base/buf.h"
#include "net/http/http.h"
#include "model/node/record.h"

struct gs_live_process {
	int64_t node;        /* its number in the store */
	char node_name[160]; /* gs_node_label() of it */
	uint32_t pid;
	enum gs_http_see see; /* who asks */
};

/* The members "user" and "command", as far as who asks may see them. Of names alone both are "". */
void gs_live_put_owner(struct gs_buf *b, enum gs_http_see see, const char *user,
		       const char *command);

/* Whether the snapshot has it, on a GPU or of the machine. */
bool gs_live_process_is_there(const struct gs_node_snapshot *m, uint32_t pid);

/* When it began, by the node's time of day; 0: not known. */
int64_t gs_live_process_started(const struct gs_node_snapshot *m, uint32_t pid);

/* What it has of all its GPUs; NAN: of none it is known. */
void gs_live_process_gpus(const struct gs_gpu_snapshot *g, uint32_t pid, double *ret_memory_bytes,
			  double *ret_sm_ratio);

/* The answer. offset_ns: from the node's time of day to ours. */
void gs_live_put_process(struct gs_buf *b, const struct gs_live_process *r,
			 const struct gs_node_snapshot *m, int64_t offset_ns, bool running);

#endif
