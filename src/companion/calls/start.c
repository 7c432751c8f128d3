/*
 * The library's beginning: before the program's, and before that of other libraries (-z initfirst), when libc may not
 * be ready. Where nothing says that this process is to be looked at, nothing is done.
 */
#include "companion/calls/calls_int.h"

#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

__attribute__((constructor)) static void start_looking(void)
{
	struct companion_setup setup = {0};
	struct gs_companion_plan plan;

	/* The loader preloads nothing into programs with others' rights; this is for what else may have. */
	if (COMPANION_SYS3(getuid, 0, 0, 0) != COMPANION_SYS3(geteuid, 0, 0, 0) ||
	    !companion_find_variable(GS_COMPANION_FOLDER_ENV, setup.folder, sizeof(setup.folder)) ||
	    setup.folder[0] != '/' || !calls_plan_read(setup.folder, &plan))
		return;
	setup.clock = plan.clock;
	setup.doors = 1u << GS_COMPANION_CALLS;
	setup.n_slots = plan.n_slots;
	setup.ring_bytes = plan.ring_bytes;
	setup.ns_per_tick = plan.ns_per_tick;
	/* Known from here on; a process that is not known is seen by probes. */
	if (companion_start(&setup) == 0 && companion_announce())
		calls_bind_start();
}
