/*
 * Which files the process may still open by their names, by Landlock (Linux 5.13). The structures
 * and numbers are those of linux/landlock.h of Linux 6.12, written out here because the headers of
 * the distributions that gpuscope is built on are older than the kernels that it runs on. A kernel
 * takes a structure that is longer than its own as long as the rest is zero, and refuses bits that
 * it does not know, so these are chosen by the version that it says.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox_int.h"

#define NR_CREATE_RULESET 444 /* the same on every machine (asm-generic/unistd.h) */
#define NR_ADD_RULE       445
#define NR_RESTRICT_SELF  446

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1

enum { /* LANDLOCK_ACCESS_FS_* */
       FS_EXECUTE = 1 << 0,
       FS_WRITE_FILE = 1 << 1,
       FS_READ_FILE = 1 << 2,
       FS_READ_DIR = 1 << 3,
       FS_FIRST = (1 << 13) - 1, /* all of version 1 */
       FS_REFER = 1 << 13,       /* version 2 */
       FS_TRUNCATE = 1 << 14,    /* 3 */
       FS_IOCTL_DEV = 1 << 15,   /* 5 */
       FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
       NET_BIND_CONNECT = 3, /* 4 */
       SCOPE_ALL = 3,        /* 6: abstract Unix sockets and signals of those outside */
};

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_beneath {
	uint64_t access;
	int32_t parent_fd;
} __attribute__((packed));

static uint64_t known_access(long version)
{
	return FS_FIRST | (version >= 2 ? FS_REFER : 0) | (version >= 3 ? FS_TRUNCATE : 0) |
	       (version >= 5 ? FS_IOCTL_DEV : 0);
}

static int add_path(int ruleset, const struct gs_sandbox_path *path, uint64_t known)
{
	GS_CLOSE int fd = open(path->path, O_PATH | O_CLOEXEC);
	struct path_beneath rule = {.parent_fd = fd};
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (path->access & GS_SANDBOX_READ)
		rule.access |= FS_READ_FILE | FS_READ_DIR;
	if (path->access & GS_SANDBOX_WRITE)
		rule.access |= known & ~(uint64_t)(FS_EXECUTE | FS_READ_FILE | FS_READ_DIR);
	if (path->access & GS_SANDBOX_EXECUTE)
		rule.access |= FS_EXECUTE;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.access &= FS_OF_FILES;
	rule.access &= known;
	return syscall(NR_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int sandbox_restrict_paths(const struct gs_sandbox *s)
{
	long version = syscall(NR_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset rules = {.fs = known_access(version)};
	GS_CLOSE int fd = -1;

	if (version < 0)
		return -errno;
	if (version >= 4 && !s->tcp)
		rules.net = NET_BIND_CONNECT;
	if (version >= 6)
		rules.scoped = SCOPE_ALL;
	/* Older kernels have a shorter structure, and the rest of ours is zero there. */
	fd = (int)syscall(NR_CREATE_RULESET, &rules, sizeof(rules), 0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < s->n_paths; i++) {
		int r = add_path(fd, &s->paths[i], rules.fs);

		if (r < 0)
			return r;
	}
	return syscall(NR_RESTRICT_SELF, fd, 0) < 0 ? -errno : 0;
}
