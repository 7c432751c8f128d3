/*
 * What belongs to a sample of this machine beside its GPUs: the machine, the processes on the GPUs
 * or all of them, with names and jobs. Who they are is asked once for each process and now and then
 * again, since that costs more than to read what they do. One thread.
 */
#ifndef GS_SOURCES_SAMPLER_SAMPLER_H
#define GS_SOURCES_SAMPLER_SAMPLER_H

#include <stdbool.h>

#include "core/base/err.h"
#include "model/node/host.h"

struct gs_sampler;

/* 0, or a negative errno with err: no memory, or what /proc refuses. */
int gs_sampler_new(struct gs_sampler **ret_sampler, struct gs_err *err);
void gs_sampler_free(struct gs_sampler **sampler);

/* Complete a node of which the GPUs were read: host, times, name. all: every process, not only
 * those on GPUs; names: also who they are. 0, or -ENOMEM and the like. */
int gs_sampler_fill(struct gs_sampler *sampler, bool all, bool names,
		    struct gs_node_snapshot *node);

#endif
