/* Between the files of the room. */
#ifndef GS_CORE_SANDBOX_SANDBOX_INT_H
#define GS_CORE_SANDBOX_SANDBOX_INT_H

#include "core/sandbox/sandbox.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_WITH_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_WITH_SANITIZER 1
#endif

/* Restrict this thread to the sandbox's paths. 0, -ENOSYS or -EOPNOTSUPP (this kernel has it not,
 * or it is switched off), or another negative errno. */
int sandbox_restrict_paths(const struct gs_sandbox *sandbox);

#endif
