/* The Unix socket of a head, on which the kernel says who calls: how it is made, and how commands
 * on the same machine find it. */
#ifndef GS_COMMANDS_HEAD_HEAD_LOCAL_H
#define GS_COMMANDS_HEAD_HEAD_LOCAL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "server/head/head_conf.h"

/* Beside the head's address. ret_path: where, "" nowhere. 0, or a negative errno with err: what was
 * configured cannot be had. The usual socket that cannot be made is only said. */
int head_local_open(const struct gs_head_conf *conf, struct gs_head *head, char *ret_path,
		    size_t bytes, struct gs_err *err);
void head_local_close(char *path);

/* "unix:PATH" of the head at this address, when that is on this machine and we may connect. */
bool head_local_find(const char *address, char *out, size_t bytes);

#endif
