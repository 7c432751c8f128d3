/* gpuscope head: the centre to which nodes deliver. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "core/base/fmt.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/systemd.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/head/head_addition.h"
#include "commands/head/head_local.h"
#include "commands/head/head_token.h"
#include "server/api/api.h"
#include "server/head/head_conf.h"
#include "server/head/session.h"
#include "server/head/head_push.h"

#define CERT_WARN_S   (7 * 86400) /* before it expires */
#define CONF_PATH     "/etc/gpuscope/head.yaml"
#define LISTEN_MAX    16
#define OVERRIDES_MAX 32
#define TICK_MS       1000

struct head_command {
	const char *path; /* of the configuration; NULL: the usual one, if it is there */
	struct gs_head_override override[OVERRIDES_MAX];
	size_t n_overrides;
	char listen_text[1024], interval_text[32]; /* of options */
	bool background, print, check;

	struct gs_head_conf conf; /* in use */
	struct gs_head_options head;
	const char *listen[LISTEN_MAX]; /* into listen_split */
	char listen_split[1024];
	struct head_tokens *tokens;
	void *addition; /* of head_addition.open() */
	struct gs_api *api;
	char data[4096], hostname[65];
	char local[128]; /* its Unix socket; "" none */
	struct gs_systemd_watchdog watchdog;
	int ready_fd; /* of --background: learns that it listens */
};

static const struct head_addition *head_addition; /* NULL: none; set once, before any thread */

void head_set_addition(const struct head_addition *addition)
{
	head_addition = addition;
}

static void close_addition(struct head_command *c)
{
	if (c->addition)
		head_addition->close(c->addition);
	c->addition = NULL;
}

static void log_head(void *ctx, const char *text)
{
	gs_cli_print_message("%s", text);
}

/* --- configuration --- */

static int read_conf(const struct head_command *c, struct gs_head_conf *ret_conf,
		     struct gs_err *err)
{
	/* Without --config the usual one, if it is there. */
	const char *path = c->path || access(CONF_PATH, F_OK) < 0 ? c->path : CONF_PATH;

	return gs_head_conf_read(path, c->override, c->n_overrides, ret_conf, gs_cli_print_text,
				 err);
}

/* --- options: keys of the configuration, which win over the file, also when it is read again --- */

static const struct config_key {
	const char *name, *key, *value; /* value NULL: the argument */
} config_keys[] = {
	{"listen", "nodes.listen", NULL},
	{"data", "store.path", NULL},
	{"output-dir", "store.output_dir", NULL},
	{"retention", "store.retention", NULL},
	{"retention-bytes", "store.retention_bytes", NULL},
	{"allow-exit", "nodes.allow_exit", "true"},
	{"interval", "sampling.interval", NULL},
	{"enable-bandwidth", "sampling.bandwidth", "true"},
	{"disable-bandwidth", "sampling.bandwidth", "false"},
	{"enable-nvlink", "sampling.nvlink", "true"},
	{"disable-nvlink", "sampling.nvlink", "false"},
	{"http-port", "http.port", NULL},
	{"http-listen", "http.host", NULL},
	{"http-hosts", "http.hosts", NULL},
	{"http-origins", "http.origins", NULL},
	{"http-anonymous", "http.anonymous", "true"},
	{"anonymous-control", "nodes.anonymous_control", "true"},
	{"cert", "nodes.tls_cert", NULL},
	{"key", "nodes.tls_key", NULL},
	{"client-ca", "nodes.tls_client_ca", NULL},
	{"token-file", "nodes.token_file", NULL},
};

static int set_key(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	const struct config_key *key = config_keys;
	struct head_command *c = target;
	size_t i = 0;

	while (strcmp(key->name, option->name) != 0)
		key++;
	while (i < c->n_overrides && strcmp(c->override[i].key, key->key) != 0)
		i++;
	if (i == OVERRIDES_MAX)
		return gs_err_set(err, -EINVAL, "more than %d options", OVERRIDES_MAX);
	c->override[i] = (struct gs_head_override){option->name, key->key,
						   key->value ? key->value : argument};
	c->n_overrides += i == c->n_overrides;
	return 0;
}

/* May come again: as a list. */
static int add_address(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	struct head_command *c = target;
	size_t n = strlen(c->listen_text);

	if (n + strlen(argument) + 2 > sizeof(c->listen_text))
		return gs_err_set(err, -EINVAL, "--listen: the addresses are too long");
	snprintf(c->listen_text + n, sizeof(c->listen_text) - n, "%s%s", n ? "," : "", argument);
	return set_key(target, option, c->listen_text, err);
}

/* The file wants a unit; a plain number is seconds, as everywhere. */
static int set_interval(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err)
{
	struct head_command *c = target;
	uint64_t ns;

	if (gs_parse_ns(argument, 1000000000ull, &ns) < 0 || ns < option->min || ns > option->max)
		return -EINVAL;
	snprintf(c->interval_text, sizeof(c->interval_text), "%lluns", (unsigned long long)ns);
	return set_key(target, option, c->interval_text, err);
}

#define AT(member) GS_CLI_AT(struct head_command, member)

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("Configuration (options take precedence over the file):"),
	GS_CLI_CONFIG(struct head_command, path, "configuration (default " CONF_PATH ")"),
	GS_CLI_CHECK_CONFIG(struct head_command, check),
	GS_CLI_PRINT_CONFIG(struct head_command, print),
	GS_CLI_TITLE("Service:"),
	{"listen", 0, "HOST:PORT", "address for nodes; may be repeated (127.0.0.1:8090)",
	 GS_CLI_SET, .set = add_address},
	{"data", 0, "DIR", "data directory", GS_CLI_SET, .set = set_key},
	{"output-dir", 0, "DIR", "write each stopped session to DIR: NAME.json and NAME.png",
	 GS_CLI_SET, .set = set_key},
	{"retention", 0, "TIME", "age limit of data outside sessions: 12h, 7d, forever (7d)",
	 GS_CLI_SET, .set = set_key},
	{"retention-bytes", 0, "BYTES", "size limit of data outside sessions (no limit)",
	 GS_CLI_SET, .set = set_key},
	{"background", 0, NULL, "return once it listens; log to head.log in --data", GS_CLI_FLAG,
	 AT(background)},
	{"allow-exit", 0, NULL, "allow gswarm's Exit call to stop this head", GS_CLI_SET,
	 .set = set_key},
	{"http-port", 0, "PORT", "port of the page and the HTTP API (8091); 0: none", GS_CLI_SET,
	 .set = set_key},
	{"http-listen", 0, "HOST", "address of the page and the HTTP API (127.0.0.1)", GS_CLI_SET,
	 .set = set_key},
	{"http-hosts", 0, "NAME[,NAME]", "additional host names to accept in requests; *: any",
	 GS_CLI_SET, .set = set_key},
	{"http-origins", 0, "URL[,URL]",
	 "origins whose pages may use the API from a browser (CORS)", GS_CLI_SET, .set = set_key},
	{"http-anonymous", 0, NULL, "serve page and API to other machines without tokens",
	 GS_CLI_SET, .set = set_key},
	{"anonymous-control", 0, NULL, "allow anyone to control sessions without a token",
	 GS_CLI_SET, .set = set_key},
	GS_CLI_TITLE("Measurement on nodes:"),
	{"interval", 'i', "TIME", "time between samples (1s); sessions may ask for less",
	 GS_CLI_SET, .min = GS_HEAD_INTERVAL_LEAST_NS, .max = GS_HEAD_INTERVAL_MOST_NS,
	 .takes = "a time from 50ms to 1h, such as 2 (seconds) or 500ms", .set = set_interval},
	{"enable-bandwidth", 0, NULL, "read PCIe and memory counters", GS_CLI_SET, .set = set_key},
	{"disable-bandwidth", 0, NULL, NULL, GS_CLI_SET, .set = set_key},
	{"enable-nvlink", 0, NULL, "read NVLink counters", GS_CLI_SET, .set = set_key},
	{"disable-nvlink", 0, NULL, NULL, GS_CLI_SET, .set = set_key},
	GS_CLI_VERBOSE,
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_TITLE("Access:"),
	{"cert", 0, "FILE", "use TLS: server certificate (PEM)", GS_CLI_SET, .set = set_key},
	{"key", 0, "FILE", "key of the server certificate (PEM)", GS_CLI_SET, .set = set_key},
	{"client-ca", 0, "FILE", "accept only nodes with a certificate of this CA (PEM)",
	 GS_CLI_SET, .set = set_key},
	{"token-file", 0, "FILE", "file of ROLE TOKEN lines; roles: node, read, control",
	 GS_CLI_SET, .set = set_key},
	GS_CLI_END};

static int print_defaults(void)
{
	struct gs_buf out = GS_BUF_INIT(1 << 20);
	int r = gs_conf_print(&gs_head_conf_schema, &out);

	if (r == 0 && (fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0))
		r = -errno;
	gs_buf_fini(&out);
	if (r < 0)
		gs_cli_print_message("cannot print: %s", strerror(-r));
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

/* What the configuration says, as the head takes it. Texts are lent by c. */
static int set_options(struct head_command *c, struct gs_err *err)
{
	const struct gs_head_conf *conf = &c->conf;
	struct gs_head_options *o = &c->head;
	char *next;

	*o = (struct gs_head_options){
		.size = sizeof(*o),
		.data = conf->store.path[0] ? conf->store.path : NULL,
		.listen = c->listen,
		.tls_cert = conf->nodes.tls_cert[0] ? conf->nodes.tls_cert : NULL,
		.tls_key = conf->nodes.tls_key[0] ? conf->nodes.tls_key : NULL,
		.tls_client_ca = conf->nodes.tls_client_ca[0] ? conf->nodes.tls_client_ca : NULL,
		.output_dir = conf->store.output_dir,
		.interval_ns = conf->sampling.interval_ns,
		.bandwidth = conf->sampling.bandwidth,
		.nvlink = conf->sampling.nvlink,
		.on_message = log_head,
	};
	gs_head_conf_retention(conf, &o->retention);
	memcpy(c->listen_split, conf->nodes.listen, sizeof(c->listen_split));
	for (char *at = strtok_r(c->listen_split, ",", &next); at;
	     at = strtok_r(NULL, ",", &next)) {
		if (o->n_listen == LISTEN_MAX)
			return gs_err_set(err, -EINVAL, "nodes.listen: more than %d addresses",
					  LISTEN_MAX);
		c->listen[o->n_listen++] = at;
	}
	return 0;
}

/* Anyone who can reach the address can do everything, and can read along. */
static void warn_unprotected(const struct head_command *c)
{
	int64_t left_s;
	size_t unbound;

	if (c->head.tls_cert && gs_grpc_certificate_left(c->head.tls_cert, &left_s) &&
	    left_s < CERT_WARN_S)
		gs_cli_print_message(
			left_s < 0
				? "warning: the certificate %s has expired: no client will connect"
				: "warning: the certificate %s expires within %lld day%s; replace it and send SIGHUP",
			c->head.tls_cert, (long long)((left_s + 86399) / 86400),
			left_s <= 86400 ? "" : "s");
	unbound = c->tokens ? head_tokens_unbound(c->tokens) : 0;
	for (size_t i = 0; i < c->head.n_listen; i++) {
		const char *l = c->listen[i];
		bool own = strncmp(l, "127.", 4) == 0 || strncmp(l, "[::1]:", 6) == 0 ||
			   strncmp(l, "localhost:", 10) == 0;

		if (own)
			continue;
		if (unbound)
			gs_cli_print_message(
				"warning: %zu node token%s no node, so each can submit as any node; write `node TOKEN NAME`, or `node TOKEN *`",
				unbound, unbound == 1 ? " names" : "s name");
		unbound = 0;
		if (!c->tokens && !c->head.tls_client_ca)
			gs_cli_print_message(
				c->conf.nodes.anonymous_control
					? "warning: anyone who can connect to %s can submit, read and control: give --token-file or --client-ca"
					: "warning: anyone who can connect to %s can submit and read: give --token-file or --client-ca",
				l);
		if (!c->head.tls_cert)
			gs_cli_print_message(
				"warning: traffic over %s, tokens included, is not encrypted: give --cert and --key",
				l);
	}
}

/* The parent waits until the child listens, and ends; the child goes on. True: this is the parent.
 */
static bool go_to_background(struct head_command *c, int *ret_status)
{
	int fds[2];
	char word;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		gs_cli_print_message("cannot go to the background: %s", strerror(errno));
		*ret_status = GS_EXIT_FAILED;
		return true;
	}
	if (pid == 0) {
		close(fds[0]);
		c->ready_fd = fds[1];
		setsid();
		return false;
	}
	close(fds[1]);
	*ret_status = read(fds[0], &word, 1) == 1 ? GS_EXIT_DONE : GS_EXIT_FAILED;
	close(fds[0]);
	if (*ret_status == GS_EXIT_DONE)
		gs_cli_print_message("runs in the background, process %d", (int)pid);
	else if (waitpid(pid, ret_status, 0) == pid)
		*ret_status = WIFEXITED(*ret_status) ? WEXITSTATUS(*ret_status) : GS_EXIT_FAILED;
	return true;
}

/* From now on no terminal shows what is said: it goes to a file beside the data. */
static void report_listening(struct head_command *c)
{
	char path[4200];
	int log, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	snprintf(path, sizeof(path), "%s/head.log", c->head.data);
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log >= 0) {
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		close(log);
	}
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
	if (write(c->ready_fd, "1", 1) != 1)
		gs_cli_print_message("no process waits for this head to listen");
	gs_close_p(&c->ready_fd);
}

static void exit_on_request(void *ctx)
{
	kill(getpid(), SIGTERM);
}

static void apply_conf(struct head_command *c, struct gs_head *head)
{
	GS_FREE struct gs_head_conf *now = calloc(1, sizeof(*now));
	struct gs_err err = {{0}};
	int r = now ? read_conf(c, now, &err) : -ENOMEM;

	if (r < 0) {
		gs_cli_print_message("the old configuration stays: %s", gs_err_text(&err, r));
		return;
	}
	gs_head_apply(head, &c->conf, now, c->hostname);
	memcpy(&c->conf, now, sizeof(*now));
	gs_cli_print_message("read the configuration again");
}

/* Configuration, tokens and certificates may have changed. */
static void reload_conf(struct head_command *c, struct gs_head *head)
{
	struct gs_err err = {{0}};
	int r;

	gs_systemd_reloading();
	r = c->tokens ? head_tokens_reload(c->tokens, &err) : 0;
	if (r < 0)
		gs_cli_print_message("the old tokens stay: %s", gs_err_text(&err, r));
	err.text[0] = 0;
	r = gs_head_reload_tls(head, &err);
	if (r == 0 && c->api)
		r = gs_api_reload(c->api, &err);
	if (r < 0)
		gs_cli_print_message("the old certificate stays: %s", gs_err_text(&err, r));
	else
		gs_cli_print_message("read tokens and certificates again");
	apply_conf(c, head);
	gs_systemd_ready();
}

/* A head whose servers are stuck is as good as dead: let systemd see it. */
static void feed_watchdog(struct head_command *c, struct gs_head *head)
{
	if (gs_systemd_watchdog_due(&c->watchdog) && gs_head_answers(head) &&
	    (!c->api || gs_api_answers(c->api)))
		gs_systemd_alive();
}

static void run_loop(struct head_command *c, struct gs_head *head, int signal_fd)
{
	for (;;) {
		struct pollfd fd = {signal_fd, POLLIN, 0};
		struct signalfd_siginfo info;

		if (poll(&fd, 1, TICK_MS) > 0 &&
		    read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
			if (info.ssi_signo != SIGHUP)
				return;
			reload_conf(c, head);
		}
		gs_head_tick(head);
		if (c->api)
			gs_api_tick(c->api);
		feed_watchdog(c, head);
	}
}

static int usual_folder(char *out, size_t bytes, struct gs_err *err)
{
	int r = gs_folder_state(out, bytes - sizeof("/head"), "the data", "--data", err);

	if (r == 0)
		strcat(out, "/head");
	return r;
}

/* Who may call what: a user whom the kernel names on the Unix socket, a token, and without tokens
 * anyone who reads or delivers. A certificate that the head asks for is as good as a token. */
static enum gs_grpc_status authorize_call(void *ctx, const struct gs_grpc_call *call,
					  const struct gs_grpc_method *method, const char *token)
{
	const struct head_command *c = ctx;

	if (gs_grpc_call_trusted(call))
		return GS_GRPC_OK;
	if (c->tokens)
		return head_tokens_authorize(c->tokens, call, method, token);
	if (method->role == GS_HEAD_ROLE_CONTROL && !c->conf.nodes.anonymous_control &&
	    !gs_grpc_call_identity(call))
		return GS_GRPC_PERMISSION_DENIED;
	return GS_GRPC_OK;
}

static bool may_be(void *ctx, const struct gs_grpc_call *call, const char *hostname, char *why,
		   size_t bytes)
{
	const struct head_command *c = ctx;
	const char *names = gs_grpc_call_names(call);

	if (gs_grpc_call_trusted(call))
		return true;
	if (names && c->conf.nodes.certificate_names && !head_names_fit(names, hostname)) {
		snprintf(why, bytes, "this certificate is for %.120s, not for %s", names, hostname);
		return false;
	}
	return !c->tokens || head_tokens_may_be(c->tokens, call, hostname, why, bytes);
}

/* As over HTTP: whole to a caller who may control, scrubbed to a known one who may read, nothing to
 * others. A certificate belongs to a node, which may not see the commands of other nodes.
 */
static enum gs_session_export_commands may_see(void *ctx, const struct gs_grpc_call *call)
{
	const struct head_command *c = ctx;
	unsigned role = c->tokens ? head_tokens_role(c->tokens, call) : GS_HEAD_ROLE_ANY;

	if (gs_grpc_call_trusted(call) || role == GS_HEAD_ROLE_CONTROL)
		return GS_SESSION_EXPORT_COMMANDS_STORED;
	return role == GS_HEAD_ROLE_READ || (!c->tokens && gs_grpc_call_identity(call))
		       ? GS_SESSION_EXPORT_COMMANDS_SCRUBBED
		       : GS_SESSION_EXPORT_COMMANDS_NONE;
}

static int start_head(struct head_command *c, struct gs_head **ret_head, struct gs_err *err)
{
	int r = c->head.data ? 0 : usual_folder(c->data, sizeof(c->data), err);

	if (!c->head.data)
		c->head.data = c->data;
	if (r == 0 && c->conf.nodes.token_file[0]) {
		r = head_tokens_read(c->conf.nodes.token_file, &c->tokens, err);
	}
	c->head.authorize = authorize_call;
	c->head.authorize_ctx = c;
	c->head.may_be = may_be;
	c->head.may_be_ctx = c;
	c->head.may_see = may_see;
	c->head.may_see_ctx = c;
	if (!c->conf.nodes.token_file[0])
		c->head.denied =
			"without tokens, only root and the user who runs the head may make changes, on its machine (`gpuscope session`); give the head --token-file, or --anonymous-control for anyone";
	c->head.exit = c->conf.nodes.allow_exit ? exit_on_request : NULL;
	if (r == 0 && !head_addition && c->conf.nodes.allow_exit)
		r = gs_err_set(
			err, -EINVAL,
			"--allow-exit (nodes.allow_exit) permits a call of gswarm-profiler, which this build leaves out: remove it");
	if (r == 0 && head_addition && !(c->addition = head_addition->open(&c->head.service)))
		r = gs_err_set(err, -ENOMEM, "no memory");
	if (r < 0)
		return r;
	warn_unprotected(c);
	return gs_head_start(&c->head, ret_head, err);
}

/* What a bearer token may, as the HTTP server counts it. */
static unsigned http_role(void *ctx, const char *token)
{
	static const unsigned roles[] = {GS_HEAD_ROLE_CONTROL, GS_HEAD_ROLE_READ};

	for (unsigned i = 0; i < GS_ARRAY_LEN(roles); i++) {
		const struct gs_grpc_method method = {.role = roles[i]};

		if (head_tokens_authorize(ctx, NULL, &method, token) == GS_GRPC_OK)
			return 2 - i;
	}
	return 0;
}

/* The usual port may be taken by another head: that is reported, and this one goes on without. */
static int start_http(struct head_command *c, struct gs_head *head, struct gs_err *err)
{
	const char *host = c->conf.http.host, *port = c->conf.http.port;
	bool six = strchr(host, ':') && host[0] != '[';
	struct gs_api_options o = {
		.size = sizeof(o),
		.head = head,
		.tls_cert = c->head.tls_cert,
		.tls_key = c->head.tls_key,
		.hosts = c->conf.http.hosts,
		.origins = c->conf.http.origins,
		.anonymous = c->conf.http.anonymous,
		.guarded = !c->conf.nodes.anonymous_control,
		.token_role = c->tokens ? http_role : NULL,
		.token_ctx = c->tokens,
		.grpc_address = gs_head_address(head, 0),
		.more = head_addition ? head_addition->http : NULL,
		.recorder_dir = c->conf.store.recorder_dir,
	};
	char listen[280];
	int r;

	if (port[0] && atoi(port) == 0)
		return 0;
	snprintf(listen, sizeof(listen), "%s%.200s%s:%s", six ? "[" : "", host, six ? "]" : "",
		 port[0] ? port : GS_HEAD_HTTP_PORT);
	o.listen = listen;
	(void)gs_parse_bytes(c->conf.store.recorder_max,
			     &o.recorder_max_bytes); /* checked when it was read */
	r = gs_api_start(&o, &c->api, err);
	if (r == -EADDRINUSE && !port[0] && strcmp(host, "127.0.0.1") == 0) {
		gs_cli_print_message("no HTTP: %s (--http-port takes another one)",
				     gs_err_text(err, r));
		return 0;
	}
	if (r == 0 && !c->tokens && strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0 &&
	    strcmp(host, "localhost") != 0)
		gs_cli_print_message(
			c->conf.http.anonymous
				? "warning: anyone who can connect to %s can read and control by HTTP: give --token-file"
				: "without --token-file, HTTP on %s gives other machines metrics only (--http-anonymous)",
			host);
	if (r == 0)
		gs_cli_print_message("page and API on %s://%s", o.tls_cert ? "https" : "http",
				     gs_api_address(c->api));
	return r;
}

static int run_head(struct head_command *c)
{
	struct gs_head *head = NULL;
	struct gs_err err = {{0}};
	GS_CLOSE int signal_fd = -1;
	sigset_t set;
	int r;

	if (c->background && go_to_background(c, &r))
		return r;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (signal_fd < 0) {
		gs_cli_print_message("cannot wait for signals: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	r = start_head(c, &head, &err);
	if (r == 0)
		r = head_local_open(&c->conf, head, c->local, sizeof(c->local), &err);
	if (r == 0)
		r = start_http(c, head, &err);
	if (r == 0)
		r = gs_head_push(head, c->conf.push, c->hostname, &err);
	if (r < 0) {
		head_local_close(c->local);
		gs_api_stop(&c->api);
		gs_head_stop(&head);
		close_addition(c);
		gs_cli_print_message("%s", gs_err_text(&err, r));
		head_tokens_free(&c->tokens);
		return gs_cli_exit_status_of(r);
	}
	gs_cli_print_message("head on %s, data in %s", gs_head_address(head, 0), c->head.data);
	if (c->background)
		report_listening(c);
	gs_systemd_watchdog_start(&c->watchdog);
	gs_systemd_ready();
	run_loop(c, head, signal_fd);
	gs_systemd_stopping();
	head_local_close(c->local);
	gs_head_push_end(head);
	gs_api_stop(&c->api);
	gs_head_stop(&head);
	close_addition(c);
	head_tokens_free(&c->tokens);
	return GS_EXIT_DONE;
}

const struct gs_cli_command gs_cli_head = {
	.name = "gpuscope head",
	.about = "Cluster server: collects and stores what nodes send (gpuscope connect).",
	.brief =
		"config check-config print-config listen data retention background http-port http-listen interval cert key client-ca token-file verbose",
	.options = option_table,
};

int gs_cmd_head(int argc, char **argv)
{
	static struct head_command c = {.ready_fd = -1};
	struct gs_err err = {{0}};
	int r, status;

	gs_cli_hold_signals();
	if (!gs_cli_parse(&gs_cli_head, argc, argv, &c, &status))
		return status;
	if (c.print)
		return print_defaults();
	(void)gethostname(c.hostname, sizeof(c.hostname) - 1);
	r = read_conf(&c, &c.conf, &err);
	if (r == 0)
		r = set_options(&c, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return r == -EINVAL ? GS_EXIT_USAGE : gs_cli_exit_status_of(r);
	}
	if (c.check) {
		printf("%s: ok\n", c.path ? c.path : CONF_PATH);
		return GS_EXIT_DONE;
	}
	return run_head(&c);
}
