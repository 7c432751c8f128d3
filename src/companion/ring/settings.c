/* The settings of a library of ours: by its environment, as the program was started with it, and by the plan in the folder. */
#include "companion/ring/ring.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "companion/ring/sys.h"

#define PIECE 4096

/* What is left of a name that a piece of the file ends within is matched on in the next. */
bool companion_find_variable(const char *name, char *out, size_t bytes)
{
	int fd = (int)COMPANION_SYS4(openat, AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC,
				     0);
	size_t matched = 0, n_out = 0;
	bool whole = false, ours = true, named = false; /* of the present variable, so far */
	char piece[PIECE] = {0};
	long n;

	while (fd >= 0 && !whole && (n = COMPANION_SYS3(read, fd, piece, sizeof(piece))) > 0) {
		for (long i = 0; i < n && !whole; i++) {
			if (named && n_out < bytes) {
				out[n_out++] = piece[i];
				whole = !piece[i];
			} else if (ours && !name[matched] && piece[i] == '=') {
				named = true;
			} else {
				ours = ours && !named && name[matched] && piece[i] == name[matched];
				matched += ours;
			}
			if (!piece[i] && !whole) {
				ours = true;
				named = false;
				matched = n_out = 0;
			}
		}
	}
	if (fd >= 0)
		COMPANION_SYS3(close, fd, 0, 0);
	return whole;
}

/* Is it this user's own file, as gpuscope made it? */
static bool is_own_file(int fd)
{
	struct stat st = {0};

	return COMPANION_SYS3(fstat, fd, &st, 0) == 0 && S_ISREG(st.st_mode) &&
	       st.st_uid == (uid_t)COMPANION_SYS3(geteuid, 0, 0, 0) && !(st.st_mode & 077);
}

bool companion_read_own(const char *folder, const char *name, void *out, size_t bytes)
{
	int dir = (int)COMPANION_SYS4(openat, AT_FDCWD, folder,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	bool good = false;
	int fd = -1;

	if (dir >= 0)
		fd = (int)COMPANION_SYS4(openat, dir, name,
					 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd >= 0)
		good = is_own_file(fd) && COMPANION_SYS3(read, fd, out, bytes) == (long)bytes;
	if (fd >= 0)
		COMPANION_SYS3(close, fd, 0, 0);
	if (dir >= 0)
		COMPANION_SYS3(close, dir, 0, 0);
	return good;
}

bool companion_read_plan(const char *folder, enum gs_companion_door door,
			 struct gs_companion_plan *ret_plan)
{
	return companion_read_own(folder, GS_COMPANION_PLAN_NAME, ret_plan, sizeof(*ret_plan)) &&
	       ret_plan->magic == GS_COMPANION_PLAN && ret_plan->version == GS_COMPANION_VERSION &&
	       ret_plan->doors & 1u << door && ret_plan->clock <= GS_COMPANION_TSC &&
	       ret_plan->ns_per_tick >> 16 && ret_plan->n_slots &&
	       ret_plan->n_slots <= GS_COMPANION_SLOTS_MAX &&
	       ret_plan->ring_bytes >= GS_COMPANION_RING_MIN &&
	       ret_plan->ring_bytes <= GS_COMPANION_RING_MAX &&
	       !(ret_plan->ring_bytes & (ret_plan->ring_bytes - 1));
}
