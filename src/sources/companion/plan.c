/* The plan that traced processes read as they begin: rows of the function table, as chosen. */
#include "sources/companion/companion.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "model/companion/python.h"
#include "model/trace/func.h"

#define PLAN_MAX (1u << 20)

/* The rows, then their names. How many there are, or a negative errno. */
static int put_rows(struct gs_buf *buf, const bool *wanted, uint32_t *ret_name_bytes)
{
	uint32_t name_at = 0;
	int n = 0, r = 0;

	for (unsigned id = 1; r == 0 && id < GS_FUNC_FIXED && id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);
		struct gs_companion_func row = {
			.name_at = name_at, .id = (uint16_t)id, .desc = f->desc};

		if (!wanted[id])
			continue;
		r = gs_buf_put(buf, &row, sizeof(row));
		name_at += (uint32_t)strlen(f->name) + 1;
		n++;
	}
	for (unsigned id = 1; r == 0 && id < GS_FUNC_FIXED && id <= gs_func_count(); id++)
		if (wanted[id])
			r = gs_buf_put(buf, gs_func_by_id(id)->name,
				       strlen(gs_func_by_id(id)->name) + 1);
	*ret_name_bytes = name_at;
	return r < 0 ? r : n;
}

/* Whole when it has its name: processes that begin meanwhile read the one before. */
static int write_whole(const char *folder, const char *name, const void *data, size_t bytes)
{
	char path[320], first[360];
	GS_CLOSE int fd = -1;
	int r = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(first, sizeof(first), "%s.%d", path, (int)getpid());
	fd = open(first, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, data, bytes) != (ssize_t)bytes)
		r = -EIO;
	else if (fchmod(fd, 0600) < 0 || rename(first, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(first);
	return r;
}

int gs_companion_plan_write(const char *folder, uint32_t doors, const bool *wanted,
			    uint32_t ring_bytes, struct gs_err *err)
{
	struct gs_companion_plan head = {
		.magic = GS_COMPANION_PLAN,
		.version = GS_COMPANION_VERSION,
		.doors = doors,
		.n_slots = GS_COMPANION_SLOTS_MAX,
		.ring_bytes = ring_bytes,
		.ns_per_tick = 1ull << 32,
	};
	struct gs_buf buf = GS_BUF_INIT(PLAN_MAX);
	int r;

	if (gs_companion_tsc_is_clock()) {
		head.clock = GS_COMPANION_TSC;
		head.ns_per_tick = gs_companion_ns_per_tick();
	}
	r = gs_buf_put(&buf, &head, sizeof(head));

	if (r == 0)
		r = put_rows(&buf, wanted, &head.name_bytes);
	if (r >= 0) {
		head.n_funcs = (uint32_t)r;
		memcpy(buf.data, &head, sizeof(head));
		r = write_whole(folder, GS_COMPANION_PLAN_NAME, buf.data, buf.bytes);
	}
	gs_buf_fini(&buf);
	if (r < 0)
		return gs_err_set(err, r, "%s: %s", folder, strerror(-r));
	return 0;
}

int gs_companion_plan_write_python(const char *folder, bool events, const struct gs_py_glob *globs,
				   size_t n_globs, struct gs_err *err)
{
	static struct gs_companion_python_plan plan; /* large */
	int r;

	plan = (struct gs_companion_python_plan){.magic = GS_COMPANION_PYTHON_PLAN,
						 .version = GS_COMPANION_VERSION,
						 .events = events,
						 .n_globs = (uint32_t)n_globs};
	memcpy(plan.globs, globs, n_globs * sizeof(*globs));
	r = write_whole(folder, GS_COMPANION_PYTHON_PLAN_NAME, &plan, sizeof(plan));
	return r < 0 ? gs_err_set(err, r, "%s: %s", folder, strerror(-r)) : 0;
}
