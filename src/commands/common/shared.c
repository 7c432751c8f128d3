#include "commands/common/shared.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "core/base/log.h"
#include "core/base/secret.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "sources/identity/identity.h"

#define PID_MAX (1u << 22) /* PID_MAX_LIMIT, linux/threads.h */

#define AT(member)                                                                                 \
	GS_CLI_AT(struct gs_cli_connection, member), GS_CLI_GIVEN(struct gs_cli_connection, given)

const struct gs_cli_option gs_cli_connection_options[] = {
	{"tls", 0, NULL, "use TLS; verify the head with the system's CAs", GS_CLI_FLAG, AT(tls)},
	{"ca", 0, "FILE", "CA certificate to verify the head (PEM)", GS_CLI_TEXT, AT(ca),
	 .env = "GPUSCOPE_CA"},
	{"cert", 0, "FILE", "client certificate (PEM)", GS_CLI_TEXT, AT(cert),
	 .env = "GPUSCOPE_CERT"},
	{"key", 0, "FILE", "key of the client certificate (PEM)", GS_CLI_TEXT, AT(key),
	 .env = "GPUSCOPE_KEY"},
	{"server-name", 0, "NAME", "name in the head's certificate (its address)", GS_CLI_TEXT,
	 AT(server_name)},
	{"token-file", 0, "FILE", "file with the token in its first line", GS_CLI_TEXT,
	 AT(token_file), .env = "GPUSCOPE_TOKEN_FILE"},
	GS_CLI_END};

int gs_cli_connection_check(void *connection, struct gs_err *err)
{
	struct gs_cli_connection *c = connection;

	if (!c->cert != !c->key)
		return gs_err_set(err, -EINVAL, "--cert and --key go together");
	c->tls |= c->ca || c->cert;
	return 0;
}

static const char *token_of_environment(void)
{
	const char *token = getenv(GS_CLI_ENV_TOKEN);

	return token && *token ? token : NULL;
}

bool gs_cli_connection_has_token(const struct gs_cli_connection *c)
{
	return c->token_file || token_of_environment();
}

int gs_cli_connection_token(const struct gs_cli_connection *c, char *out, size_t bytes,
			    struct gs_err *err)
{
	const char *token = token_of_environment();

	out[0] = '\0';
	if (c->token_file)
		return gs_token_read(c->token_file, "the token file", out, bytes, err);
	if (!token)
		return 0;
	if (strlen(token) >= bytes)
		return gs_err_set(err, -EINVAL, GS_CLI_ENV_TOKEN ": longer than %zu characters",
				  bytes - 1);
	snprintf(out, bytes, "%s", token);
	return 0;
}

int gs_cli_parse_pid(const char *text, uint32_t *ret_pid)
{
	char *end;
	unsigned long pid = strtoul(text, &end, 10);

	*ret_pid = (uint32_t)pid;
	return text[0] < '0' || text[0] > '9' || *end || !pid || pid > PID_MAX ? -EINVAL : 0;
}

int gs_cli_parse_user(const char *text, uint32_t *ret_uid)
{
	const struct passwd *pw = getpwnam(text);
	char *end;
	unsigned long uid = strtoul(text, &end, 10);

	*ret_uid = pw ? pw->pw_uid : (uint32_t)uid;
	return pw || (text[0] >= '0' && text[0] <= '9' && !*end && uid < UINT32_MAX) ? 0 : -EINVAL;
}

int gs_cli_set_commands(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err)
{
	return gs_identity_choose_commands(argument) ? 0 : -EINVAL;
}

int gs_cli_set_width(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	int *width = (int *)((char *)target + option->offset);

	return gs_cli_parse_width(argument, width) ? 0 : -EINVAL;
}

int gs_cli_set_view(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct gs_report_summary_style *style =
		(struct gs_report_summary_style *)((char *)target + option->offset);

	return gs_report_summary_view_parse(argument, &style->view);
}

int gs_cli_set_stream_limit(void *target, const struct gs_cli_option *option, char *argument,
			    struct gs_err *err)
{
	return gs_activity_config_set(
		(struct gs_activity_config *)((char *)target + option->offset), argument);
}

int gs_cli_set_memory(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct gs_report_summary_style *style =
		(struct gs_report_summary_style *)((char *)target + option->offset);

	style->view = GS_SUMMARY_MEMORY;
	return 0;
}

int gs_cli_set_format(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	enum gs_report_summary_format *format =
		(enum gs_report_summary_format *)((char *)target + option->offset);

	return gs_report_summary_format_parse(argument, format);
}

int gs_cli_set_quiet(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	gs_cli_be_quiet();
	return 0;
}

int gs_cli_raise_log_level(void *target, const struct gs_cli_option *option, char *argument,
			   struct gs_err *err)
{
	gs_log_set_level(gs_log_level() + 1);
	return 0;
}

int gs_cli_set_log_level(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err)
{
	enum gs_log_level level;
	int r = gs_log_parse_level(argument, &level);

	if (r == 0)
		gs_log_set_level(level);
	return r;
}

int gs_cli_add_log_topic(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err)
{
	return gs_log_add_topic(argument);
}

const struct gs_cli_option gs_cli_log_options[] = {GS_CLI_VERBOSE, GS_CLI_LOG_LEVEL,
						   GS_CLI_LOG_TOPIC, GS_CLI_END};
