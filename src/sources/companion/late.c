/*
 * A folder for the file of a process that runs already. It is made by the process's own root, where another user may have put
 * anything: names are resolved within that root, what was made is held by its descriptor, and is filled while it is ours
 * alone. From then on it is that user's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "model/companion/file.h"
#include "model/companion/python.h"
#include "sources/companion/companion.h"
#include "sources/companion/companion_int.h"

#define LIBRARY_MAX (16u << 20)
#define PLAN_MAX    (2u << 20)
#define WHY_BYTES   200

/* Where a folder can be, within a root. */
static const char *const parents[] = {"dev/shm", "run", "tmp", "var/tmp"};

/* --- whose process it is --- */

static int read_ids(struct gs_companion_late *late)
{
	GS_FCLOSE FILE *f = NULL;
	char path[48], line[256];
	unsigned u[4] = {0}, g[4] = {0}, n = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)late->pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	while (fgets(line, sizeof(line), f)) {
		n += sscanf(line, "Uid: %u %u %u %u", &u[0], &u[1], &u[2], &u[3]) == 4;
		n += sscanf(line, "Gid: %u %u %u %u", &g[0], &g[1], &g[2], &g[3]) == 4;
	}
	if (n != 2)
		return -ESRCH;
	late->uid = u[1];
	late->gid = g[1];
	return u[0] == u[1] && u[1] == u[2] && g[0] == g[1] && g[1] == g[2] ? 0 : -EPERM;
}

/* One that may not be dumped, as it had or has more rights than who started it, is root's there. */
static bool is_protected(const struct gs_companion_late *late)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)late->pid);
	return stat(path, &st) < 0 || st.st_uid != late->uid;
}

static bool has_our_numbers(pid_t pid)
{
	struct stat own, its;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat("/proc/self/ns/pid", &own) == 0 && stat(path, &its) == 0 &&
	       own.st_ino == its.st_ino;
}

static int check_process(struct gs_companion_late *late, struct gs_err *err)
{
	int r = read_ids(late);

	if (r == -EPERM || (r == 0 && is_protected(late)))
		return gs_err_set(
			err, -EPERM,
			"runs with other rights than its user's (setuid, capabilities): nothing is loaded into it");
	if (r < 0)
		return gs_err_set(err, r, "cannot be looked at: %s", strerror(-r));
	if (geteuid() != 0 && geteuid() != late->uid)
		return gs_err_set(err, -EPERM,
				  "is another user's, into which only root can load a library");
	if (!has_our_numbers(late->pid))
		return gs_err_set(
			err, -EXDEV,
			"runs in another PID namespace (a container): run gpuscope in there, or leave it to the probes");
	return 0;
}

/* --- folders --- */

static int open_within(int root_fd, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static void name_folder(char *name, size_t bytes)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint8_t random[6] = {0};

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		uint64_t now_ns = gs_clock_mono_ns();

		memcpy(random, &now_ns, sizeof(random));
	}
	snprintf(name, bytes, "gpuscope-%c%c%c%c%c%c", letters[random[0] % 36],
		 letters[random[1] % 36], letters[random[2] % 36], letters[random[3] % 36],
		 letters[random[4] % 36], letters[random[5] % 36]);
}

/* A new one, ours alone. Its descriptor, or a negative errno. */
static int make_folder(int parent_fd, char *name, size_t bytes)
{
	struct stat st;
	int fd = -EEXIST;

	for (unsigned i = 0; fd == -EEXIST && i < 100; i++) {
		name_folder(name, bytes);
		fd = mkdirat(parent_fd, name, 0700) < 0 ? -errno : 0;
	}
	if (fd == 0) {
		fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd < 0) {
		name[0] = '\0';
		return fd;
	}
	/* Another one in its place would not be ours. */
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700)
		return fd;
	close(fd);
	name[0] = '\0';
	return -EPERM;
}

static bool is_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static bool runs_programs(int fd)
{
	struct statvfs fs;

	return fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_NOEXEC);
}

/* In the first place that is fit; its number in parents, or a negative errno. */
static int find_place(int root_fd, bool (*is_fit)(int fd), int *ret_parent_fd, int *ret_fd,
		      char *name, size_t bytes)
{
	int r = -ENOTDIR;

	for (size_t i = 0; i < GS_ARRAY_LEN(parents); i++) {
		GS_CLOSE int parent_fd = open_within(root_fd, parents[i], O_RDONLY | O_DIRECTORY);
		int fd;

		if (parent_fd < 0 || !is_fit(parent_fd))
			continue;
		fd = make_folder(parent_fd, name, bytes);
		if (fd < 0) {
			r = fd;
			continue;
		}
		*ret_parent_fd = gs_take_fd(&parent_fd);
		*ret_fd = fd;
		return (int)i;
	}
	return r;
}

static void remove_folder(int *parent_fd, int *fd, const char *name)
{
	if (*fd >= 0)
		companion_empty_folder(gs_take_fd(fd));
	if (*parent_fd >= 0 && name[0])
		unlinkat(*parent_fd, name, AT_REMOVEDIR);
	gs_close_p(parent_fd);
}

void companion_late_free(struct gs_companion_late **ref)
{
	struct gs_companion_late *late = *ref;

	if (!late)
		return;
	remove_folder(&late->copy_parent_fd, &late->copy_fd, late->copy_name);
	remove_folder(&late->parent_fd, &late->fd, late->name);
	gs_close_p(&late->root_fd);
	free(late);
	*ref = NULL;
}

static int open_folder(struct gs_companion_late *late, struct gs_err *err)
{
	char path[48];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)late->pid);
	late->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = late->root_fd < 0 ? -errno
			      : find_place(late->root_fd, is_memory, &late->parent_fd, &late->fd,
					   late->name, sizeof(late->name));
	if (r >= 0) {
		snprintf(late->path, sizeof(late->path), "/%s/%s", parents[r], late->name);
		r = flock(late->fd, LOCK_SH | LOCK_NB) < 0 ? -errno : 0;
	}
	return r < 0 ? gs_err_set(
			       err, r,
			       "has no place for what it records (a tmpfs at /dev/shm, /run or /tmp): %s",
			       strerror(-r))
		     : 0;
}

int gs_companion_late_open(struct gs_companion_files *files, pid_t pid, bool follows,
			   struct gs_companion_late **ret_late, struct gs_err *err)
{
	struct gs_companion_late *late = calloc(1, sizeof(*late));
	int r;

	if (!late)
		return -ENOMEM;
	*late = (struct gs_companion_late){.pid = pid,
					   .follows = follows,
					   .root_fd = -1,
					   .parent_fd = -1,
					   .fd = -1,
					   .copy_parent_fd = -1,
					   .copy_fd = -1};
	r = check_process(late, err);
	if (r == 0)
		r = open_folder(late, err);
	if (r == 0)
		r = companion_files_add_late(files, late);
	if (r < 0)
		companion_late_free(&late);
	else
		*ret_late = late;
	return r;
}

const char *gs_companion_late_folder(const struct gs_companion_late *late)
{
	return late->path;
}

/* --- what is in them --- */

static int put_file(const struct gs_companion_late *late, int folder_fd, const char *name,
		    mode_t mode, const void *data, size_t bytes)
{
	GS_CLOSE int fd =
		openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0)
		return -errno;
	if (write(fd, data, bytes) != (ssize_t)bytes)
		return -EIO;
	return fchmod(fd, mode) < 0 || fchown(fd, late->uid, late->gid) < 0 ? -errno : 0;
}

int gs_companion_late_put(struct gs_companion_late *late, const char *name, const void *data,
			  size_t bytes)
{
	return late->is_given ? -EPERM : put_file(late, late->fd, name, 0600, data, bytes);
}

/* All of a file of ours; owned by the caller. */
static int read_whole(int folder_fd, const char *path, size_t most, char **ret_data,
		      size_t *ret_bytes)
{
	GS_CLOSE int fd = openat(folder_fd, path, O_RDONLY | O_CLOEXEC);
	GS_FREE char *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
		return -EFBIG;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	if (read(fd, data, (size_t)st.st_size) != (ssize_t)st.st_size)
		return -EIO;
	*ret_bytes = (size_t)st.st_size;
	*ret_data = data;
	data = NULL;
	return 0;
}

/* May everyone read it, and come to it? */
static bool is_for_all(int root_fd, const char *path)
{
	char part[4096];
	struct stat st;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return false;
	for (char *slash = part; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		GS_CLOSE int fd = -1;

		*slash = '\0';
		fd = open_within(root_fd, part, O_PATH | O_DIRECTORY);
		if (fd < 0 || fstat(fd, &st) < 0 || !(st.st_mode & S_IXOTH))
			return false;
	}
	return true;
}

/* Is the file of that name there the same as here, and one that the process may load? */
static bool has_library(const struct gs_companion_late *late, const char *path)
{
	GS_CLOSE int fd = open_within(late->root_fd, path, O_PATH);
	struct stat own, its;

	return fd >= 0 && stat(path, &own) == 0 && fstat(fd, &its) == 0 &&
	       own.st_dev == its.st_dev && own.st_ino == its.st_ino && its.st_mode & S_IROTH &&
	       runs_programs(fd) && is_for_all(late->root_fd, path);
}

int gs_companion_late_put_library(struct gs_companion_late *late, const char *path, char *out,
				  size_t out_bytes, struct gs_err *err)
{
	const char *name = strrchr(path, '/');
	GS_FREE char *data = NULL;
	size_t bytes = 0;
	int r;

	if (has_library(late, path))
		return snprintf(out, out_bytes, "%s", path) < (int)out_bytes ? 0 : -ENAMETOOLONG;
	name = name ? name + 1 : path;
	r = read_whole(AT_FDCWD, path, LIBRARY_MAX, &data, &bytes);
	if (r == 0)
		r = find_place(late->root_fd, runs_programs, &late->copy_parent_fd, &late->copy_fd,
			       late->copy_name, sizeof(late->copy_name));
	if (r >= 0) {
		snprintf(out, out_bytes, "/%s/%s/%s", parents[r], late->copy_name, name);
		r = put_file(late, late->copy_fd, name, 0700, data, bytes);
	}
	if (r == 0 && fchown(late->copy_fd, late->uid, late->gid) < 0)
		r = -errno;
	return r < 0 ? gs_err_set(
			       err, r,
			       "has no place for gpuscope's library from which programs may be run (/dev/shm, /run, /tmp, /var/tmp): %s",
			       strerror(-r))
		     : 0;
}

static int put_plan(struct gs_companion_files *files, struct gs_companion_late *late,
		    const char *name)
{
	GS_FREE char *data = NULL;
	size_t bytes;
	int r = read_whole(companion_files_folder_fd(files), name, PLAN_MAX, &data, &bytes);

	return r < 0 ? r : gs_companion_late_put(late, name, data, bytes);
}

int gs_companion_late_give(struct gs_companion_files *files, struct gs_companion_late *late)
{
	int r = put_plan(files, late, GS_COMPANION_PLAN_NAME);

	if (r == 0)
		r = put_plan(files, late, GS_COMPANION_PYTHON_PLAN_NAME);
	if (r == 0 && fchown(late->fd, late->uid, late->gid) < 0)
		r = -errno;
	late->is_given = r == 0;
	return r;
}

bool gs_companion_late_why(const struct gs_companion_late *late, char *out, size_t bytes)
{
	GS_CLOSE int fd = openat(late->fd, GS_COMPANION_LATE_NAME,
				 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[WHY_BYTES + 1];
	struct stat st;
	ssize_t n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
			    ? pread(fd, text, WHY_BYTES, 0)
			    : 0;
	char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

	/* A line that is not whole yet is written on; one that is too long is cut. */
	if (n <= 0 || (!end && n < WHY_BYTES))
		return false;
	text[end ? end - text : n] = '\0';
	for (char *c = text; *c; c++)
		*c = (unsigned char)*c < ' ' || (unsigned char)*c > '~' ? '?' : *c;
	snprintf(out, bytes, "%s", text);
	return true;
}
