/* Between the files of the room. */
#ifndef GS_CORE_SANDBOX_SANDBOX_INT_H
#define GS_CORE_SANDBOX_SANDBOX_INT_H

#include "core/base/sanitizer.h"
#include "core/sandbox/sandbox.h"

/* Restrict this thread to the sandbox's paths. 0, -ENOSYS or -EOPNOTSUPP (this kernel has it not,
 * or it is switched off), or another negative errno. */
int sandbox_restrict_paths(const struct gs_sandbox *sandbox);

#endif
