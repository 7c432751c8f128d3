/* Who has the one place that NCCL gives a plug-in for profilers: what the user set is never replaced. */
#ifndef GS_COMMANDS_TRACE_TRACE_NCCL_H
#define GS_COMMANDS_TRACE_TRACE_NCCL_H

#include "core/base/err.h"

#define TRACE_NCCL_PLUGIN "NCCL_PROFILER_PLUGIN" /* names that plug-in */

/* 0: it is free; -EBUSY: err says who has it. Looks at this process's environment, which the command is given. */
int trace_nccl_check_free(struct gs_err *err);

#endif
