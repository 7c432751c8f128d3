#include "core/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/mem.h"

#define LINKS_MAX 16

static int fail_output(struct gs_output *o, int r, struct gs_err *err)
{
	gs_close_p(&o->fd);
	gs_close_p(&o->dir_fd);
	return gs_err_set(err, r, "cannot write %s: %s", o->path, strerror(-r));
}

static bool is_trusted_owner(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* What this program has open already: no other user chooses that. */
static bool is_own_descriptor(const char *path)
{
	return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 ||
	       strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0;
}

static bool folder_is_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int open_as_it_is(struct gs_output *o, const char *path)
{
	o->fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
	return o->fd < 0 ? -errno : 0;
}

/* The folder and the name in it. */
static int open_folder(struct gs_output *o, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char folder[PATH_MAX] = ".";

	if (slash && (size_t)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1),
				      path) >= sizeof(folder))
		return -ENAMETOOLONG;
	if (!name[0])
		return path[0] ? -EISDIR : -ENOENT;
	if (strlen(name) >= sizeof(o->name))
		return -ENAMETOOLONG;
	strcpy(o->name, name);
	o->dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dir_fd < 0 && errno == EACCES) /* it may be searched and not listed */
		o->dir_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->dir_fd < 0 ? -errno : 0;
}

static int open_named(struct gs_output *o, const char *path, unsigned flags, int depth,
		      struct gs_err *err);

/* A link is followed when it is root's or our own: others' lead where they want. */
static int follow_link(struct gs_output *o, const char *path, unsigned flags, int depth,
		       struct gs_err *err)
{
	char text[PATH_MAX], target[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(o->dir_fd, o->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_output(o, -errno, err);
	if (!is_trusted_owner(st.st_uid)) {
		gs_close_p(&o->dir_fd);
		return gs_err_set(
			err, -ELOOP,
			"cannot write %s: it is a symbolic link of user %u; remove it or choose another name",
			o->path, (unsigned)st.st_uid);
	}
	if (depth == LINKS_MAX)
		return fail_output(o, -ELOOP, err);
	/* What /proc calls a link has no name to go by: a pipe, a file that was removed. */
	if (folder_is_proc(o->dir_fd)) {
		r = open_as_it_is(o, path);
		return r < 0 ? fail_output(o, r, err) : 0;
	}
	n = readlinkat(o->dir_fd, o->name, text, sizeof(text) - 1);
	if (n < 0)
		return fail_output(o, -errno, err);
	text[n] = '\0';
	gs_close_p(&o->dir_fd);
	if (snprintf(target, sizeof(target), "%.*s%s",
		     text[0] == '/' || !slash ? 0 : (int)(slash - path + 1), path,
		     text) >= (int)sizeof(target))
		return fail_output(o, -ENAMETOOLONG, err);
	return open_named(o, target, flags, depth + 1, err);
}

/* A device, a FIFO. One of another user's would hand them what is written. */
static int open_special(struct gs_output *o, const struct stat *st, struct gs_err *err)
{
	struct stat now;

	if (S_ISDIR(st->st_mode))
		return fail_output(o, -EISDIR, err);
	if (!S_ISCHR(st->st_mode) && !is_trusted_owner(st->st_uid) && geteuid() == 0)
		return fail_output(o, -EPERM, err);
	o->fd = openat(o->dir_fd, o->name, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
	if (o->fd < 0)
		return fail_output(o, -errno, err);
	if (fstat(o->fd, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino)
		return fail_output(o, -ESTALE, err);
	gs_close_p(&o->dir_fd);
	return 0;
}

static int create_part(struct gs_output *o, mode_t mode)
{
	for (int i = 0; i < 100; i++) {
		uint32_t number;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -EIO;
		/* Names have an end, too: 255 bytes. */
		snprintf(o->part, sizeof(o->part), ".%.200s.%08x", o->name, number);
		o->fd = openat(o->dir_fd, o->part,
			       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		if (o->fd >= 0 || errno != EEXIST)
			break;
	}
	if (o->fd >= 0)
		return 0;
	o->part[0] = '\0';
	return -errno;
}

/* A file in a folder where none can be made, or that is mounted over its name. */
static int open_in_place(struct gs_output *o, int why, mode_t mode)
{
	struct stat st;

	o->fd = openat(o->dir_fd, o->name, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
	if (o->fd < 0)
		return why;
	if (fstat(o->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || !is_trusted_owner(st.st_uid))
		return why;
	if (mode == 0600 && fchmod(o->fd, mode) < 0)
		return -errno;
	return ftruncate(o->fd, 0) < 0 ? -errno : 0;
}

static bool is_refused(int r)
{
	return r == -EACCES || r == -EPERM || r == -EROFS || r == -EBUSY;
}

static int take_place(struct gs_output *o)
{
	if (renameat(o->dir_fd, o->part, o->dir_fd, o->name) < 0)
		return -errno;
	o->part[0] = '\0';
	return 0;
}

static void remove_part(struct gs_output *o)
{
	if (o->part[0])
		(void)unlinkat(o->dir_fd, o->part, 0);
	o->part[0] = '\0';
}

static int open_named(struct gs_output *o, const char *path, unsigned flags, int depth,
		      struct gs_err *err)
{
	mode_t mode = flags & GS_OUTPUT_PRIVATE ? 0600 : 0666;
	struct stat st;
	int r;

	if (is_own_descriptor(path)) {
		r = open_as_it_is(o, path);
		return r < 0 ? fail_output(o, r, err) : 0;
	}
	r = open_folder(o, path);
	if (r < 0)
		return fail_output(o, r, err);
	if (fstatat(o->dir_fd, o->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISLNK(st.st_mode))
			return follow_link(o, path, flags, depth, err);
		if (!S_ISREG(st.st_mode))
			return open_special(o, &st, err);
		/* As ever: a file that may not be written is not replaced either. */
		if (faccessat(o->dir_fd, o->name, W_OK, AT_EACCESS) < 0)
			return fail_output(o, -errno, err);
	}
	r = create_part(o, mode);
	if (r == 0 && (flags & GS_OUTPUT_GROWS)) {
		r = take_place(o);
		if (r < 0) {
			remove_part(o);
			gs_close_p(&o->fd);
		}
	}
	if (is_refused(r))
		r = open_in_place(o, r, mode);
	return r < 0 ? fail_output(o, r, err) : 0;
}

int gs_output_open(const char *path, unsigned flags, struct gs_output *o, struct gs_err *err)
{
	*o = (struct gs_output)GS_OUTPUT_INIT;
	o->no_sync = flags & GS_OUTPUT_NO_SYNC;
	snprintf(o->path, sizeof(o->path), "%s", path ? path : "standard output");
	if (!path) {
		o->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		return o->fd < 0 ? fail_output(o, -errno, err) : 0;
	}
	return open_named(o, path, flags, 0, err);
}

FILE *gs_output_stream(struct gs_output *o)
{
	if (!o->file)
		o->file = fdopen(o->fd, "w");
	return o->file;
}

/* What waits in the stream, then on the way to the disk. */
static int settle_output(struct gs_output *o)
{
	if (o->file && fflush(o->file) != 0)
		return -errno;
	if (o->file && ferror(o->file))
		return -EIO;
	/* Otherwise the name could come to the disk before what is in the file. */
	return o->part[0] && !o->no_sync && fsync(o->fd) < 0 ? -errno : 0;
}

int gs_output_close(struct gs_output *o, int r, struct gs_err *err)
{
	bool failed_before = r < 0;

	if (o->fd < 0)
		return r;
	if (r == 0)
		r = settle_output(o);
	/* NFS and quotas report only now that there was no room. */
	if ((o->file ? fclose(o->file) : close(o->fd)) != 0 && r == 0)
		r = -errno;
	o->file = NULL;
	o->fd = -1;
	if (r == 0 && o->part[0])
		r = take_place(o);
	remove_part(o);
	gs_close_p(&o->dir_fd);
	if (r < 0 && !failed_before)
		return gs_err_set(err, r, "cannot write %s: %s", o->path, strerror(-r));
	return r;
}

int gs_output_try(const char *path, struct gs_err *err)
{
	struct gs_output o;
	struct stat st;
	int r;

	/* Opening a FIFO or a device may do something, waiting for a reader to begin with. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	r = gs_output_open(path, 0, &o, err);
	if (r == 0)
		(void)gs_output_close(&o, -ECANCELED, NULL);
	return r;
}
