/* The section `mysql` of configurations: its keys, and what they mean together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/net.h"
#include "output/mysql/mysql_int.h"

#define DEFAULT_PORT 3306

const char *const gs_mysql_schema_names[] = {"gpuscope", "eacgm", "both", NULL};

bool mysql_split_server(const char *server, char host[256], char socket[256], uint16_t *ret_port)
{
	char port[16];
	char *end;
	unsigned long number;

	host[0] = socket[0] = '\0';
	*ret_port = DEFAULT_PORT;
	if (strncmp(server, "unix:", 5) == 0) {
		/* As long as an address of a socket can be. */
		if (server[5] != '/' || strlen(server + 5) >= 108)
			return false;
		snprintf(socket, 256, "%s", server + 5);
		return true;
	}
	if (!server[0] || server[strcspn(server, " \t\r\n/@\"'")])
		return false;
	if (!strchr(server, ':')) {
		snprintf(host, 256, "%s", server);
		return strlen(server) < 256;
	}
	if (!gs_net_split(server, host, 256, port, sizeof(port)) || !host[0])
		return false;
	number = strtoul(port, &end, 10);
	*ret_port = (uint16_t)number;
	return port[0] && !*end && number > 0 && number < 65536;
}

static bool is_server(const char *text)
{
	char host[256], socket[256];
	uint16_t port;

	return mysql_split_server(text, host, socket, &port);
}

#define MYSQL_AT(field_of) offsetof(struct gs_mysql_conf, field_of)
#define MYSQL_TEXT(field_of)                                                                       \
	.kind = GS_CONF_TEXT, .offset = MYSQL_AT(field_of),                                        \
	.bytes = sizeof(((struct gs_mysql_conf *)0)->field_of)

const struct gs_conf_key gs_mysql_conf_keys[GS_MYSQL_CONF_KEYS] = {
	{.name = "server",
	 MYSQL_TEXT(server),
	 .preset = "",
	 .comment =
		 "HOST, HOST:PORT or unix:/PATH of the server's socket; empty: nothing is written.",
	 .valid = is_server,
	 .expects = "HOST, HOST:PORT, [IPv6]:PORT or unix:/PATH"},
	{.name = "database",
	 MYSQL_TEXT(database),
	 .preset = "gpuscope",
	 .comment =
		 "Database with the tables that `gpuscope agent --print-schema=gpuscope` creates."},
	{.name = "user", MYSQL_TEXT(user), .preset = "gpuscope", .comment = "Database user."},
	{.name = "password_file",
	 MYSQL_TEXT(password_file),
	 .preset = "",
	 .comment =
		 "File with the user's password in its first line; there is no default password."},
	{.name = "schema",
	 .kind = GS_CONF_CHOICE,
	 .offset = MYSQL_AT(schema),
	 .preset = "gpuscope",
	 .comment =
		 "Tables to write: gpuscope, eacgm (those that eACGM's Grafana dashboard reads), both.",
	 .choices = gs_mysql_schema_names},
	{.name = "node",
	 MYSQL_TEXT(node),
	 .preset = "",
	 .comment = "Name of this node in the tables; empty: the machine's name."},
	{.name = "interval",
	 .kind = GS_CONF_DURATION,
	 .offset = MYSQL_AT(interval_ns),
	 .preset = "10s",
	 .comment = "Time between two samples.",
	 .min = GS_CONF_S / 10,
	 .max = GS_CONF_H},
	{.name = "retention",
	 .kind = GS_CONF_DURATION,
	 .offset = MYSQL_AT(retention_ns),
	 .preset = "720h",
	 .comment = "Remove rows of this node that are older; 0: remove nothing.",
	 .min = 0,
	 .max = 100000 * GS_CONF_H},
	{.name = "tls",
	 .kind = GS_CONF_BOOL,
	 .offset = MYSQL_AT(tls),
	 .preset = "true",
	 .comment =
		 "Require TLS and a valid certificate; servers on this machine: only with tls_ca."},
	{.name = "tls_ca",
	 MYSQL_TEXT(tls_ca),
	 .preset = "",
	 .comment = "CA certificate to verify the server (PEM); empty: the system's."},
	{.name = "spool",
	 MYSQL_TEXT(spool),
	 .preset = "/var/lib/gpuscope-agent/spool-mysql",
	 .comment = "Directory for samples that the server has not committed yet; empty: they are\n"
		    "buffered in memory, and lost when this program ends."},
	{.name = "spool_max_mib",
	 .kind = GS_CONF_NUMBER,
	 .offset = MYSQL_AT(spool_max_mib),
	 .preset = "64",
	 .comment = "Spool size limit, in MiB; then the oldest samples are dropped and counted.",
	 .min = 1,
	 .max = 1 << 20},
};

int gs_mysql_conf_check(const struct gs_mysql_conf *c, const struct gs_conf_where *where,
			struct gs_err *err)
{
	if (!c->server[0])
		return 0;
	if (!c->password_file[0])
		return gs_conf_refuse(where, "mysql.password_file", err,
				      "server without password_file: there is no default password");
	if (!c->database[0] || !c->user[0])
		return gs_conf_refuse(where, c->user[0] ? "mysql.database" : "mysql.user", err,
				      "server without database and user");
	if (c->tls_ca[0] && !c->tls)
		return gs_conf_refuse(where, "mysql.tls_ca", err,
				      "tls_ca with tls: false: there is no TLS");
	if (c->tls_ca[0] && strncmp(c->server, "unix:", 5) == 0)
		return gs_conf_refuse(where, "mysql.tls_ca", err,
				      "tls_ca with a Unix socket: there is no TLS");
	return 0;
}
