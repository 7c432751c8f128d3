/* The plan: which functions' calls are wanted. Copied at the start, its numbers checked, found by name. */
#include "companion/calls/calls_int.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "companion/ring/sys.h"

#define PLAN_MAX (1u << 20)
#define TABLE    4096u /* a power of two, twice CALLS_FUNCS_MAX at least */

static struct gs_companion_func *rows; /* in the copy, as are names */
static const char *names;
static uint32_t n_rows;
static uint16_t table[TABLE];               /* hash of a name -> row + 1 */
static uint16_t row_of_id[CALLS_FUNCS_MAX]; /* likewise */

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return (h ^ h >> 15) & (TABLE - 1);
}

static bool open_plan(const char *folder, int *ret_fd, uint64_t *ret_bytes)
{
	int dir = (int)COMPANION_SYS4(openat, AT_FDCWD, folder,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	uid_t user = (uid_t)COMPANION_SYS3(geteuid, 0, 0, 0);
	struct stat st;
	int fd;

	if (dir < 0)
		return false;
	fd = (int)COMPANION_SYS4(openat, dir, GS_COMPANION_PLAN_NAME,
				 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	COMPANION_SYS3(close, dir, 0, 0);
	if (fd < 0)
		return false;
	if (COMPANION_SYS3(fstat, fd, &st, 0) == 0 && S_ISREG(st.st_mode) && st.st_uid == user &&
	    !(st.st_mode & 077) && st.st_size > (long)sizeof(struct gs_companion_plan) &&
	    st.st_size <= PLAN_MAX) {
		*ret_fd = fd;
		*ret_bytes = (uint64_t)st.st_size;
		return true;
	}
	COMPANION_SYS3(close, fd, 0, 0);
	return false;
}

/* The whole file, in memory of ours; NULL. */
static uint8_t *read_plan(const char *folder, uint64_t *ret_bytes)
{
	uint64_t done = 0;
	long at, n = 1;
	int fd;

	if (!open_plan(folder, &fd, ret_bytes))
		return NULL;
	at = COMPANION_SYS6(mmap, 0, *ret_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	while (at > 0 && n > 0 && done < *ret_bytes) {
		n = COMPANION_SYS3(read, fd, at + (long)done, *ret_bytes - done);
		done += n > 0 ? (uint64_t)n : 0;
	}
	COMPANION_SYS3(close, fd, 0, 0);
	if (at > 0 && done == *ret_bytes)
		return (uint8_t *)at;
	if (at > 0)
		COMPANION_SYS3(munmap, at, *ret_bytes, 0);
	return NULL;
}

static bool row_is_good(const struct gs_companion_func *f, uint32_t name_bytes)
{
	const struct gs_func_desc *d = &f->desc;
	bool good = f->name_at < name_bytes && f->id && f->id < CALLS_FUNCS_MAX &&
		    (d->n_stack & GS_V_LOW || d->n_stack <= GS_V_NONE - GS_V_STACK) &&
		    d->layer < GS_LAYER_MAX && d->v_bytes <= GS_V_NONE &&
		    d->v_bytes2 <= GS_V_NONE && d->v_stream <= GS_V_NONE;

	for (unsigned i = 0; i < 4; i++)
		good &= d->v_arg[i] <= GS_V_NONE;
	return good;
}

static bool take_rows(uint8_t *copy, uint64_t bytes, const struct gs_companion_plan *plan)
{
	uint64_t row_bytes = (uint64_t)plan->n_funcs * sizeof(*rows);

	if (plan->n_funcs >= CALLS_FUNCS_MAX || !plan->name_bytes ||
	    bytes != sizeof(*plan) + row_bytes + plan->name_bytes || copy[bytes - 1])
		return false;
	rows = (struct gs_companion_func *)(copy + sizeof(*plan));
	names = (const char *)copy + sizeof(*plan) + row_bytes;
	for (n_rows = 0; n_rows < plan->n_funcs; n_rows++) {
		const struct gs_companion_func *f = &rows[n_rows];
		uint32_t at;

		if (!row_is_good(f, plan->name_bytes))
			return false;
		for (at = hash_of(names + f->name_at); table[at]; at = (at + 1) & (TABLE - 1))
			;
		table[at] = (uint16_t)(n_rows + 1);
		row_of_id[f->id] = (uint16_t)(n_rows + 1);
	}
	return n_rows > 0;
}

bool calls_plan_read(const char *folder, struct gs_companion_plan *ret_plan)
{
	uint64_t bytes;
	uint8_t *copy = read_plan(folder, &bytes);
	const struct gs_companion_plan *plan = (const void *)copy;

	if (!copy)
		return false;
	*ret_plan = *plan;
	return plan->magic == GS_COMPANION_PLAN && plan->version == GS_COMPANION_VERSION &&
	       plan->doors & 1u << GS_COMPANION_CALLS && plan->clock <= GS_COMPANION_TSC &&
	       plan->n_slots && plan->n_slots <= GS_COMPANION_SLOTS_MAX &&
	       plan->ring_bytes >= GS_COMPANION_RING_MIN &&
	       plan->ring_bytes <= GS_COMPANION_RING_MAX &&
	       !(plan->ring_bytes & (plan->ring_bytes - 1)) && take_rows(copy, bytes, plan);
}

const struct gs_companion_func *calls_plan_find(const char *name)
{
	/* Most symbols of a program are none of these. */
	if (name[0] != 'c' && name[0] != 'n' && name[0] != '_')
		return NULL;
	/* What programs that are compiled with CUDA 13 launch by, with the same arguments (crt/host_runtime.h). */
	if (calls_text_begins(name, "__cudaLaunch"))
		name += 2;
	for (uint32_t at = hash_of(name); table[at]; at = (at + 1) & (TABLE - 1)) {
		const struct gs_companion_func *f = &rows[table[at] - 1];

		if (calls_text_same(names + f->name_at, name))
			return f;
	}
	return NULL;
}

const struct gs_companion_func *calls_plan_row(unsigned id)
{
	return id < CALLS_FUNCS_MAX && row_of_id[id] ? &rows[row_of_id[id] - 1] : NULL;
}
