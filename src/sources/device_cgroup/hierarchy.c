/*
 * Where the control groups of a process are, seen from here and through the host's root.
 *
 * /proc/PID/cgroup has paths as the reader's cgroup namespace sees them. In the first namespace they
 * are absolute. In a container they begin at the container's own group: "/" is that group, and
 * "/../x" a group beside it, whose absolute path nothing says. There our own group is looked for in
 * the host's hierarchy by the number of its inode, which is the same in every mount of it.
 *
 * Paths of groups are names that their owners chose. They are opened below the hierarchy's folder
 * part by part: neither ".." nor a link nor a mount leads out of it; and the group must have the
 * process in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "sources/device_cgroup/device_int.h"

#define CGROUP_TEXT_BYTES 65536
#define PROCS_BYTES       (1 << 20)
#define WALK_GROUPS_MAX   200000 /* groups of a host that are looked through, at most */
#define WALK_DEPTH_MAX    64
#define FIRST_CGROUP_NS   0xEFFFFFFBull /* PROC_CGROUP_INIT_INO of include/linux/proc_ns.h */

/* One part of a path: no link, and for what is not the last one a folder. */
static int open_part(int dir_fd, const char *name, size_t len, int flags)
{
	char part[NAME_MAX + 1];
	struct stat st;
	int fd;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(part, name, len);
	part[len] = '\0';
	if (strcmp(part, "..") == 0)
		return -EXDEV;
	/* With O_PATH a link is opened itself. */
	fd = openat(dir_fd, part, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return fd;
	close(fd);
	return -ELOOP;
}

/* Part by part, as openat2(2) would with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS: units of systemd with
 * RestrictSUIDSGID= have no openat2 (its man page), and those of our agent have that. */
int device_host_openat(int dir_fd, const char *path, int flags)
{
	GS_CLOSE int fd = -1;

	for (const char *at = path + strspn(path, "/"); *at;) {
		size_t len = strcspn(at, "/"), gap = strspn(at + len, "/");
		bool last = !at[len + gap];
		int next = open_part(fd < 0 ? dir_fd : fd, at, len,
				     last ? flags : O_PATH | O_DIRECTORY);

		if (next < 0)
			return next;
		gs_close_p(&fd);
		fd = next;
		at += len + gap;
	}
	return fd >= 0 ? gs_take_fd(&fd) : open_part(dir_fd, ".", 1, flags);
}

/* A folder of this file system; -1: there is none. */
static int open_hierarchy(int root_fd, const char *path, long magic)
{
	int fd = device_host_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	struct statfs fs;

	if (fd >= 0 && (fstatfs(fd, &fs) < 0 || fs.f_type != magic)) {
		close(fd);
		return -1;
	}
	return fd < 0 ? -1 : fd;
}

static int open_version(int root_fd, enum device_version version)
{
	int fd;

	if (version == DEVICE_V1)
		return open_hierarchy(root_fd, "sys/fs/cgroup/devices", CGROUP_SUPER_MAGIC);
	fd = open_hierarchy(root_fd, "sys/fs/cgroup", CGROUP2_SUPER_MAGIC);
	return fd >= 0 ? fd : open_hierarchy(root_fd, "sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC);
}

/* What the host's /proc calls us; -ENOENT: we are not in there. */
static int own_pid_at(int root_fd)
{
	char text[16] = "";
	GS_CLOSE int fd = device_host_openat(root_fd, "proc", O_RDONLY | O_DIRECTORY);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "self", text, sizeof(text) - 1);
	int pid = n > 0 ? atoi(text) : 0;

	return pid > 0 ? pid : -ENOENT;
}

int gs_device_own_pid(const struct gs_device_options *o)
{
	GS_CLOSE int root_fd =
		open(o->host_root ? o->host_root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root_fd < 0 ? -errno : own_pid_at(root_fd);
}

int device_host_open(const char *host_root, struct device_host *ret, struct gs_err *err)
{
	struct stat st;

	*ret = (struct device_host)DEVICE_HOST_INIT;
	if (host_root && strlen(host_root) >= sizeof(ret->root))
		return gs_err_set(err, -EINVAL, "the path of the host's root is too long");
	snprintf(ret->root, sizeof(ret->root), "%s",
		 host_root && strcmp(host_root, "/") != 0 ? host_root : "");
	ret->root_fd = open(host_root ? host_root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->root_fd < 0)
		return gs_err_set(err, -errno, "cannot open the host's root %s: %s", host_root,
				  strerror(errno));
	ret->v1_fd = open_version(ret->root_fd, DEVICE_V1);
	ret->v2_fd = open_version(ret->root_fd, DEVICE_V2);
	ret->initial_cgroups =
		stat("/proc/self/ns/cgroup", &st) < 0 || st.st_ino == FIRST_CGROUP_NS;
	ret->same_pids = own_pid_at(ret->root_fd) == (int)getpid();
	if (ret->v1_fd >= 0 || ret->v2_fd >= 0)
		return 0;
	device_host_close(ret);
	return gs_err_set(err, -ENODEV, "no control groups at %s/sys/fs/cgroup", ret->root);
}

void device_host_close(struct device_host *host)
{
	gs_close_p(&host->root_fd);
	gs_close_p(&host->v1_fd);
	gs_close_p(&host->v2_fd);
}

ssize_t device_read_text(int dir_fd, const char *path, char *out, size_t bytes)
{
	GS_CLOSE int fd = device_host_openat(dir_fd, path, O_RDONLY | O_NONBLOCK);
	size_t at = 0;
	ssize_t n = 1;

	out[0] = '\0';
	if (fd < 0)
		return fd;
	while (n > 0 && at < bytes - 1) {
		n = read(fd, out + at, bytes - 1 - at);
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	out[at] = '\0';
	return (ssize_t)at;
}

int device_open_process(const struct device_host *host, int pid, int *ret_fd, struct gs_err *err)
{
	char path[32];
	struct statfs fs;
	GS_CLOSE int fd = -1;

	*ret_fd = -1;
	snprintf(path, sizeof(path), "proc/%d", pid);
	fd = pid > 0 ? device_host_openat(host->root_fd, path, O_RDONLY | O_DIRECTORY) : -ENOENT;
	if (fd == -ENOENT)
		return gs_err_set(err, -ESRCH, "no process %d", pid);
	if (fd < 0)
		return gs_err_set(err, fd, "cannot open %s/%s: %s", host->root, path,
				  strerror(-fd));
	if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return gs_err_set(err, -EINVAL, "%s/proc is no procfs", host->root);
	*ret_fd = gs_take_fd(&fd);
	return 0;
}

static bool lists_devices(const char *controllers, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = strcspn(controllers + at, ",:");

		if (n == 7 && memcmp(controllers + at, "devices", 7) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

bool device_parse_cgroup(const char *text, enum device_version version, char *out, size_t bytes)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n"), id = strcspn(line, ":\n");
		const char *controllers = line + id + 1;
		size_t n_controllers = id < len ? strcspn(controllers, ":\n") : 0;
		const char *path = controllers + n_controllers + 1;

		if (id < len && controllers + n_controllers < line + len &&
		    (version == DEVICE_V1 ? lists_devices(controllers, n_controllers)
					  : id == 1 && line[0] == '0' && n_controllers == 0)) {
			size_t n = (size_t)(line + len - path);

			/* The kernel cuts a path at 4095 bytes without a sign (6.18). */
			if (n == 0 || n + 1 >= bytes)
				return false;
			memcpy(out, path, n);
			out[n] = '\0';
			return true;
		}
		line += len + (line[len] == '\n');
	}
	return false;
}

int device_join_path(const char *prefix, const char *path, char *out, size_t bytes)
{
	size_t n = strlen(prefix), len;

	if (n >= bytes || path[0] != '/')
		return -EINVAL;
	memcpy(out, prefix, n + 1);
	while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || !path[3])) {
		while (n && out[n - 1] != '/')
			n--;
		if (!n)
			return -EINVAL; /* it leaves the top */
		out[--n] = '\0';
		path += 3;
	}
	for (const char *at = path; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return -EINVAL;
	for (const char *at = path; *at; at += len) {
		at += *at == '/';
		len = strcspn(at, "/");
		if ((len == 2 && memcmp(at, "..", 2) == 0) || (len == 1 && *at == '.') ||
		    (len == 0 && *at == '/') || len > NAME_MAX)
			return -EINVAL;
	}
	if (strcmp(path, "/") == 0 && n)
		path = "";
	if (n + strlen(path) >= bytes)
		return -EINVAL;
	strcpy(out + n, path);
	if (!out[0])
		strcpy(out, "/");
	return 0;
}

struct walk {
	uint64_t inode;
	unsigned left; /* groups that may still be looked at */
	char *path;    /* of the folder that is looked through, without the last slash */
	size_t bytes;
};

/* 1 found (w->path is it), 0 not below this folder, or a negative errno. Takes fd. */
static int walk_groups(struct walk *w, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	size_t n = strlen(w->path);
	int r = 0;

	if (!dir) {
		close(fd);
		return -errno;
	}
	while (r == 0 && (e = readdir(dir))) {
		int length, child;

		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		length = snprintf(w->path + n, w->bytes - n, "/%s", e->d_name);
		if (length < 0 || (size_t)length >= w->bytes - n || !w->left--) {
			r = -ENAMETOOLONG;
		} else if (e->d_ino == w->inode) {
			r = 1;
		} else if (depth < WALK_DEPTH_MAX) {
			child = openat(dirfd(dir), e->d_name,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			r = child < 0 ? 0 : walk_groups(w, child, depth + 1);
		}
		if (r == 0)
			w->path[n] = '\0';
	}
	closedir(dir);
	return r;
}

/* Our own group as the host's hierarchy has it, "" its top. */
static int find_own_group(const struct device_host *host, enum device_version version, char *out,
			  size_t bytes, struct gs_err *err)
{
	int base_fd = version == DEVICE_V1 ? host->v1_fd : host->v2_fd;
	GS_CLOSE int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	GS_CLOSE int own_fd = root_fd < 0 ? -1 : open_version(root_fd, version);
	struct walk w = {.left = WALK_GROUPS_MAX, .path = out, .bytes = bytes};
	struct stat own, base;
	int r, copy;

	out[0] = '\0';
	if (own_fd < 0 || fstat(own_fd, &own) < 0 || fstat(base_fd, &base) < 0)
		return gs_err_set(
			err, -ENODEV,
			"cannot find the own control group: no hierarchy at /sys/fs/cgroup");
	if (own.st_ino == base.st_ino)
		return 0;
	w.inode = own.st_ino;
	copy = openat(base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = copy < 0 ? -errno : walk_groups(&w, copy, 0);
	if (r == 1)
		return 0;
	return gs_err_set(
		err, r < 0 ? r : -ENODEV,
		"cannot find the own control group below %s/sys/fs/cgroup: mount the host's hierarchy there",
		host->root);
}

static bool has_process(int group_fd, int pid)
{
	GS_FREE char *text = malloc(PROCS_BYTES);
	ssize_t n = text ? device_read_text(group_fd, "cgroup.procs", text, PROCS_BYTES) : -ENOMEM;

	/* A threaded group does not list processes; what is cut has too many of them to be sure. */
	if (n < 0 || n == PROCS_BYTES - 1)
		return true;
	for (char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (atoi(at) == pid)
			return true;
	return false;
}

static int open_path(const struct device_host *host, enum device_version version, const char *path,
		     struct device_group *ret)
{
	int base_fd = version == DEVICE_V1 ? host->v1_fd : host->v2_fd;
	int fd = device_host_openat(base_fd, path, O_RDONLY | O_DIRECTORY);
	struct stat st, base;

	if (fd < 0)
		return fd;
	/* Nothing that is mounted on a group. */
	if (fstat(fd, &st) < 0 || fstat(base_fd, &base) < 0 || st.st_dev != base.st_dev) {
		close(fd);
		return -EXDEV;
	}
	ret->fd = fd;
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	return 0;
}

int device_open_group(const struct device_host *host, int proc_fd, int pid,
		      enum device_version version, struct device_group *ret, struct gs_err *err)
{
	GS_FREE char *text = malloc(CGROUP_TEXT_BYTES);
	char seen[GS_DEVICE_PATH_BYTES], prefix[GS_DEVICE_PATH_BYTES] = "",
					 path[GS_DEVICE_PATH_BYTES];
	ssize_t n;
	int r;

	ret->fd = -1;
	ret->path[0] = '\0';
	if ((version == DEVICE_V1 ? host->v1_fd : host->v2_fd) < 0)
		return 0;
	if (!text)
		return gs_err_set(err, -ENOMEM, "no memory");
	n = device_read_text(proc_fd, "cgroup", text, CGROUP_TEXT_BYTES);
	if (n < 0)
		return gs_err_set(err, (int)(n == -ENOENT ? -ESRCH : n),
				  "cannot read the control groups of process %d: %s", pid,
				  strerror((int)-n));
	if (n == CGROUP_TEXT_BYTES - 1 || !device_parse_cgroup(text, version, seen, sizeof(seen)))
		return version == DEVICE_V1
			       ? 0
			       : gs_err_set(
					 err, -EINVAL,
					 "the control group of process %d has a path that is too long",
					 pid);
	if (!host->initial_cgroups) {
		r = find_own_group(host, version, prefix, sizeof(prefix), err);
		if (r < 0)
			return r;
	}
	r = device_join_path(prefix, seen, path, sizeof(path));
	if (r < 0)
		return gs_err_set(
			err, r,
			"the control group of process %d is refused: its path is outside of the hierarchy, too long, or has control characters",
			pid);
	r = open_path(host, version, path, ret);
	if (r < 0)
		return gs_err_set(
			err, r, "cannot open the control group %.300s of process %d: %s", path, pid,
			r == -ENOENT ? "it is gone, or not below the host's root" : strerror(-r));
	/* Version 1 makes a list that lacks some processes while others are started. */
	if (version == DEVICE_V2 && host->same_pids && !has_process(ret->fd, pid)) {
		gs_close_p(&ret->fd);
		return gs_err_set(
			err, -EAGAIN,
			"process %d is not in the control group %.300s: it has just moved or ended",
			pid, path);
	}
	return 0;
}

bool device_open_level(const struct device_host *host, enum device_version version,
		       const struct device_group *group, unsigned level, struct device_group *ret)
{
	char path[GS_DEVICE_PATH_BYTES] = "/";
	const char *at = group->path;

	ret->fd = -1;
	for (unsigned i = 0; i < level && *at; i++)
		at += 1 + strcspn(at + 1, "/");
	/* At its own name, or the group is the top. */
	if (!*at || !group->path[1])
		return false;
	if (level)
		snprintf(path, sizeof(path), "%.*s", (int)(at - group->path), group->path);
	return open_path(host, version, path, ret) == 0;
}

void device_close_group(struct device_group *group)
{
	gs_close_p(&group->fd);
}
