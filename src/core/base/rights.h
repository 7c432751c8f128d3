/* Which capabilities this process has: asked in one way by all that depend on one. */
#ifndef GS_CORE_BASE_RIGHTS_H
#define GS_CORE_BASE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers of linux/capability.h that older headers lack (Linux 5.8). */
#define GS_CAP_PERFMON 38
#define GS_CAP_BPF     39

/* Bit n: capability n is in force in the calling thread. All bits where the kernel does not say. */
uint64_t gs_rights_effective(void);

/* CAP_SYS_PTRACE and its like. Of what CAP_SYS_ADMIN included before Linux 5.8, BPF and PERFMON, that is enough. */
bool gs_rights_have(unsigned capability);

#endif
