/*
 * The library's beginning: before the program's, and before that of other libraries (-z initfirst), when libc may not
 * be ready. Where nothing says that this process is to be looked at, nothing is done.
 */
#include "companion/calls/calls_int.h"

#include <fcntl.h>

#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

#define PIECE 4096

/* The folder that the environment names, as the program was started with it: getenv() has none yet. What is left of
 * a name that a piece of the file ends within is matched on in the next. False: none is named. */
static bool find_folder(char *out, size_t bytes)
{
	static const char wanted[] = GS_COMPANION_FOLDER_ENV "=";
	int fd = (int)COMPANION_SYS4(openat, AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC,
				     0);
	size_t matched = 0, n_out = 0;
	bool whole = false, ours = true; /* of the present variable, so far */
	char piece[PIECE];
	long n;

	while (fd >= 0 && !whole && (n = COMPANION_SYS3(read, fd, piece, sizeof(piece))) > 0) {
		for (long i = 0; i < n && !whole; i++) {
			if (ours && matched == sizeof(wanted) - 1) {
				if (n_out == bytes)
					ours = false;
				else
					out[n_out++] = piece[i];
				whole = ours && !piece[i];
			} else {
				ours = ours && piece[i] == wanted[matched];
				matched += ours;
			}
			if (!piece[i] && !whole) {
				ours = true;
				matched = n_out = 0;
			}
		}
	}
	if (fd >= 0)
		COMPANION_SYS3(close, fd, 0, 0);
	return whole && out[0] == '/';
}

__attribute__((constructor)) static void start_looking(void)
{
	struct companion_setup setup = {0};
	struct gs_companion_plan plan;

	/* The loader preloads nothing into programs with others' rights; this is for what else may have. */
	if (COMPANION_SYS3(getuid, 0, 0, 0) != COMPANION_SYS3(geteuid, 0, 0, 0) ||
	    !find_folder(setup.folder, sizeof(setup.folder)) ||
	    !calls_plan_read(setup.folder, &plan))
		return;
	setup.clock = plan.clock;
	setup.doors = plan.doors;
	setup.n_slots = plan.n_slots;
	setup.ring_bytes = plan.ring_bytes;
	setup.ns_per_tick = plan.ns_per_tick;
	/* Known from here on; a process that is not known is seen by probes. */
	if (companion_start(&setup) == 0 && companion_announce())
		calls_bind_start();
}
