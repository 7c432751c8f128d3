/*
 * A head listens at head-PORT.sock, PORT being that of its first address, so that who knows the
 * address of a head on this machine finds its socket, whichever of several heads it is.
 */
#include "commands/head/head_local.h"

#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/local.h"
#include "core/base/mem.h"
#include "core/base/net.h"
#include "commands/common/cli.h"

#define PATH_BYTES 108 /* of struct sockaddr_un */

static bool path_of(size_t folder, const char *port, char out[PATH_BYTES])
{
	char base[PATH_BYTES];

	return gs_folder_sockets(folder, base, sizeof(base)) &&
	       snprintf(out, PATH_BYTES, "%s/head-%s.sock", base, port) < PATH_BYTES;
}

/* The group that may connect too; false: there is none of this name. */
static bool group_of(const char *name, gid_t *ret_group)
{
	const struct group *g = name[0] ? getgrnam(name) : NULL;

	*ret_group = g ? g->gr_gid : (gid_t)-1;
	return g || !name[0];
}

int head_local_open(const struct gs_head_conf *conf, struct gs_head *head, char *ret_path,
		    size_t bytes, struct gs_err *err)
{
	const char *chosen = conf->nodes.control_socket;
	char host[256], port[8], path[PATH_BYTES] = "";
	struct gs_local_options o = {.path = path,
				     .group = conf->nodes.control_group,
				     .path_key = "nodes.control_socket",
				     .group_key = "nodes.control_group"};
	struct gs_err why = {{0}};
	gid_t group;
	int fd;

	ret_path[0] = '\0';
	if (strcmp(chosen, "none") == 0)
		return 0;
	if (!group_of(conf->nodes.control_group, &group))
		return gs_err_set(err, -EINVAL, "nodes.control_group: there is no group \"%s\"",
				  conf->nodes.control_group);
	if (chosen[0]) {
		if (snprintf(path, sizeof(path), "%s", chosen) >= (int)sizeof(path))
			return gs_err_set(err, -ENAMETOOLONG,
					  "nodes.control_socket: %s is too long", chosen);
	} else if (gs_net_split(gs_head_address(head, 0), host, sizeof(host), port, sizeof(port)) &&
		   path_of(0, port, path)) {
		gs_local_make_folder(path);
	} else {
		gs_cli_print_message(
			"no control socket: no runtime or home directory; set nodes.control_socket");
		return 0;
	}
	fd = gs_local_listen(&o, chosen[0] ? err : &why);
	if (fd < 0 && chosen[0])
		return fd;
	if (fd < 0) {
		gs_cli_print_message("no control socket: %s", gs_err_text(&why, fd));
		return 0;
	}
	snprintf(ret_path, bytes, "%s", path);
	return gs_head_add_local(head, fd, group);
}

void head_local_close(char *path)
{
	if (path[0])
		(void)unlink(path);
	path[0] = '\0';
}

static bool is_loopback(const char *host)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (strcmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The head of root, of ourselves, or of the service: no other user's. */
static bool is_ours(int fd, const char *path)
{
	static const char system[] = GS_FOLDER_SOCKETS_SYSTEM "/";
	uid_t uid;

	return gs_local_trusts(fd, (gid_t)-1, &uid) ||
	       strncmp(path, system, sizeof(system) - 1) == 0;
}

bool head_local_find(const char *address, char *out, size_t bytes)
{
	char host[256], port[8], path[PATH_BYTES];

	if (!gs_net_split(address, host, sizeof(host), port, sizeof(port)) || !is_loopback(host))
		return false;
	for (size_t i = 0; path_of(i, port, path); i++) {
		GS_CLOSE int fd = gs_local_connect(path);

		if (fd >= 0 && is_ours(fd, path))
			return snprintf(out, bytes, "unix:%s", path) < (int)bytes;
	}
	return false;
}
