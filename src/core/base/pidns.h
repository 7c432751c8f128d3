/* The namespace of process ids that this process is in: a container mostly has its own. */
#ifndef GS_CORE_BASE_PIDNS_H
#define GS_CORE_BASE_PIDNS_H

#include <stdint.h>

/* Its inode; 0 for the first one, whose ids are the kernel's own (or when it is not known). */
uint32_t gs_pid_namespace(void);

/* A thread of the kernel, in the flags of /proc/PID/stat (include/linux/sched.h). That it descends
 * from process 2 is true in the first namespace alone. */
#define GS_PF_KTHREAD 0x00200000u

#endif
