/* Unix sockets: who is at the other end is what the kernel says. */
#ifndef GS_CORE_BASE_LOCAL_H
#define GS_CORE_BASE_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/err.h"

struct gs_local_options {                 /* texts are borrowed for the call */
	const char *path;                 /* of the socket */
	const char *group;                /* may connect beside the owner; "" or NULL: none */
	const char *path_key, *group_key; /* what messages call them: "control.path" */
};

/* A non-blocking listening socket that its owner, root and the group may connect to; what a killed
 * program left at the path is removed. The caller closes it and unlinks the path. A negative errno
 * with err. */
int gs_local_listen(const struct gs_local_options *options, struct gs_err *err);

/* A connected socket, for the caller to close. -ECONNREFUSED: left by a program that was killed.
 * -ENAMETOOLONG, -ENOENT, -EACCES, ... */
int gs_local_connect(const char *path);

/* The folder of the path, where it is not there yet. */
void gs_local_make_folder(const char *path);

bool gs_local_is(int fd); /* a Unix socket, and no other */

/* The user at the other end of a Unix socket is root, our own, or of the group (-1: none). */
bool gs_local_trusts(int fd, gid_t group, uid_t *ret_uid);

#endif
