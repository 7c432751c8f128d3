#include "core/base/local.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/mem.h"

#define BACKLOG    64
#define GROUPS_MAX 65536 /* NGROUPS_MAX of Linux */

static int address_of(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

int gs_local_connect(const char *path)
{
	struct sockaddr_un a;
	int r = address_of(path, &a), fd, saved;

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	saved = errno;
	close(fd);
	return -saved;
}

void gs_local_make_folder(const char *path)
{
	char folder[128];
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path || (size_t)(slash - path) >= sizeof(folder))
		return;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	(void)mkdir(folder, 0755);
}

/* A socket that was left behind when its program was killed stands in the way. */
static int remove_stale(const struct gs_local_options *o, struct gs_err *err)
{
	struct stat st;
	int fd;

	if (lstat(o->path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return gs_err_set(err, -EEXIST, "%s: %s exists and is not a socket", o->path_key,
				  o->path);
	fd = gs_local_connect(o->path);
	if (fd >= 0) {
		close(fd);
		return gs_err_set(
			err, -EADDRINUSE,
			"%s: another program listens at %s; give this one a path of its own",
			o->path_key, o->path);
	}
	if (fd == -ECONNREFUSED && unlink(o->path) < 0)
		return gs_err_set(err, -errno, "%s: cannot remove the old %s: %s", o->path_key,
				  o->path, strerror(errno));
	return 0;
}

static int set_group(const struct gs_local_options *o, struct gs_err *err)
{
	bool has = o->group && o->group[0];
	const struct group *g = has ? getgrnam(o->group) : NULL;

	if (!has)
		return 0;
	if (!g)
		return gs_err_set(err, -EINVAL, "%s: there is no group \"%s\"", o->group_key,
				  o->group);
	if (chown(o->path, (uid_t)-1, g->gr_gid) < 0 || chmod(o->path, 0660) < 0)
		return gs_err_set(err, -errno, "%s: cannot give %s to %s: %s", o->group_key,
				  o->path, o->group, strerror(errno));
	return 0;
}

int gs_local_listen(const struct gs_local_options *o, struct gs_err *err)
{
	struct sockaddr_un a;
	mode_t before;
	int fd, r, e = 0;

	if (address_of(o->path, &a) < 0)
		return gs_err_set(err, -ENAMETOOLONG, "%s: %s is too long", o->path_key, o->path);
	r = remove_stale(o, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return gs_err_set(err, -errno, "%s: no socket: %s", o->path_key, strerror(errno));
	/* No one else may connect, not even for a moment. */
	before = umask(0177);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		e = errno;
	umask(before);
	if (!e) {
		r = set_group(o, err);
		if (r == 0 && listen(fd, BACKLOG) < 0)
			e = errno;
	}
	if (e)
		r = gs_err_set(err, -e, "%s: cannot listen at %s: %s", o->path_key, o->path,
			       strerror(e));
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

bool gs_local_is(int fd)
{
	int domain = 0;
	socklen_t bytes = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

static bool in_group(int fd, const struct ucred *user, gid_t group)
{
	GS_FREE gid_t *list = malloc(GROUPS_MAX * sizeof(*list));
	socklen_t bytes = GROUPS_MAX * sizeof(*list);

	if (user->gid == group)
		return true;
	if (!list || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, list, &bytes) < 0)
		return false;
	for (size_t i = 0; i < bytes / sizeof(*list); i++)
		if (list[i] == group)
			return true;
	return false;
}

bool gs_local_trusts(int fd, gid_t group, uid_t *ret_uid)
{
	struct ucred user = {.uid = (uid_t)-1};
	socklen_t bytes = sizeof(user);

	*ret_uid = (uid_t)-1;
	if (!gs_local_is(fd) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &bytes) < 0)
		return false;
	*ret_uid = user.uid;
	return user.uid == 0 || user.uid == geteuid() ||
	       (group != (gid_t)-1 && in_group(fd, &user, group));
}
