/* gpuscope head: the centre to which nodes deliver. */
#include <argp.h>
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
#include "commands/head/head_local.h"
#include "commands/head/head_token.h"
#include "server/api/api.h"
#include "compat/gswarm/gswarm.h"
#include "server/head/head_conf.h"
#include "server/head/session.h"
#include "server/head/head_push.h"

#define CERT_WARN_S   (7 * 86400) /* before it expires */
#define CONF_PATH     "/etc/gpuscope/head.yaml"
#define LISTEN_MAX    16
#define OVERRIDES_MAX 32
#define TICK_MS       1000
#define HTTP_PORT     "8091"

enum {
	OPT_LISTEN = 256,
	OPT_DATA,
	OPT_FREQ,
	OPT_BANDWIDTH,
	OPT_NVLINK,
	OPT_CERT,
	OPT_KEY,
	OPT_CLIENT_CA,
	OPT_NO_BANDWIDTH,
	OPT_NO_NVLINK,
	OPT_KEEP,
	OPT_KEEP_BYTES,
	OPT_TOKENS,
	OPT_ALLOW_EXIT,
	OPT_BACKGROUND,
	OPT_HTTP_PORT,
	OPT_HTTP_LISTEN,
	OPT_HTTP_HOSTS,
	OPT_HTTP_ANONYMOUS,
	OPT_ANONYMOUS_CONTROL,
	OPT_PRINT,
	OPT_CHECK,
};

/* Options are keys of the configuration: what they say wins over the file, also when it is read
 * again. */
static const struct {
	int option;
	const char *name, *key, *value; /* value NULL: the argument */
} keys[] = {
	{OPT_LISTEN, "listen", "nodes.listen", NULL},
	{OPT_DATA, "data", "store.path", NULL},
	{OPT_FREQ, "freq", "sampling.interval", NULL},
	{OPT_BANDWIDTH, "enable-bandwidth", "sampling.bandwidth", "true"},
	{OPT_NO_BANDWIDTH, "disable-bandwidth", "sampling.bandwidth", "false"},
	{OPT_NVLINK, "enable-nvlink", "sampling.nvlink", "true"},
	{OPT_NO_NVLINK, "disable-nvlink", "sampling.nvlink", "false"},
	{OPT_KEEP, "keep", "store.keep", NULL},
	{OPT_KEEP_BYTES, "keep-bytes", "store.keep_size", NULL},
	{OPT_TOKENS, "token-file", "nodes.token_file", NULL},
	{OPT_ALLOW_EXIT, "allow-exit", "nodes.allow_exit", "true"},
	{OPT_HTTP_PORT, "http-port", "http.port", NULL},
	{OPT_HTTP_LISTEN, "http-listen", "http.host", NULL},
	{OPT_HTTP_HOSTS, "http-hosts", "http.hosts", NULL},
	{OPT_HTTP_ANONYMOUS, "http-anonymous", "http.anonymous", "true"},
	{OPT_ANONYMOUS_CONTROL, "anonymous-control", "nodes.anonymous_control", "true"},
	{OPT_CERT, "tls-cert", "nodes.tls_cert", NULL},
	{OPT_KEY, "tls-key", "nodes.tls_key", NULL},
	{OPT_CLIENT_CA, "tls-client-ca", "nodes.tls_client_ca", NULL},
};

struct head_command {
	const char *path; /* of the configuration; NULL: the usual one, if it is there */
	struct gs_head_override override[OVERRIDES_MAX];
	size_t n_overrides;
	char listen_text[1024]; /* of options */
	bool background, print, check;

	struct gs_head_conf conf; /* in use */
	struct gs_head_options head;
	const char *listen[LISTEN_MAX]; /* into listen_split */
	char listen_split[1024];
	struct head_tokens *tokens;
	struct gs_gswarm *gswarm;
	struct gs_api *api;
	char data[4096], hostname[65];
	char local[128]; /* its Unix socket; "" none */
	struct gs_systemd_watchdog watchdog;
	int ready_fd; /* of --background: told that it listens */
};

static void log_head(void *ctx, const char *text)
{
	gs_cli_say("%s", text);
}

/* --- configuration --- */

static int read_conf(const struct head_command *c, struct gs_head_conf *ret_conf,
		     struct gs_err *err)
{
	/* Without --config the usual one, if it is there. */
	const char *path = c->path || access(CONF_PATH, F_OK) < 0 ? c->path : CONF_PATH;

	return gs_head_conf_read(path, c->override, c->n_overrides, ret_conf, gs_cli_say_text, err);
}

static void override_key(struct head_command *c, struct argp_state *state, size_t key,
			 const char *arg)
{
	size_t i = 0;

	while (i < c->n_overrides && c->override[i].key != keys[key].key)
		i++;
	if (i == OVERRIDES_MAX)
		argp_error(state, "more than %d options", OVERRIDES_MAX);
	c->override[i] = (struct gs_head_override){keys[key].name, keys[key].key,
						   keys[key].value ? keys[key].value : arg};
	c->n_overrides += i == c->n_overrides;
}

/* May come again: as a list. */
static const char *another_address(struct head_command *c, struct argp_state *state,
				   const char *arg)
{
	size_t n = strlen(c->listen_text);

	if (n + strlen(arg) + 2 > sizeof(c->listen_text))
		argp_error(state, "more addresses than there is room for");
	snprintf(c->listen_text + n, sizeof(c->listen_text) - n, "%s%s", n ? "," : "", arg);
	return c->listen_text;
}

/* Without a unit: milliseconds, as gswarm's. */
static const char *with_unit(struct argp_state *state, const char *arg)
{
	static char text[64];
	uint64_t ns;

	if (gs_parse_ns(arg, 1000000ull, &ns) < 0 || ns < GS_HEAD_INTERVAL_LEAST_NS ||
	    ns > GS_HEAD_INTERVAL_MOST_NS)
		argp_error(state, "--freq takes 50 (ms) to 1h, such as 500 or 2s");
	snprintf(text, sizeof(text), "%lluns", (unsigned long long)ns);
	return text;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct head_command *c = state->input;
	const char *value = arg;

	for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
		if (keys[i].option != key)
			continue;
		if (key == OPT_LISTEN)
			value = another_address(c, state, arg);
		else if (key == OPT_FREQ)
			value = with_unit(state, arg);
		override_key(c, state, i, value);
		return 0;
	}
	switch (key) {
	case 'c':
		c->path = arg;
		return 0;
	case OPT_PRINT:
		c->print = true;
		return 0;
	case OPT_CHECK:
		c->check = true;
		return 0;
	case OPT_BACKGROUND:
		c->background = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "what is \"%s\"? head takes options only", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print_defaults(void)
{
	struct gs_buf out = GS_BUF_INIT(1 << 20);
	int r = gs_conf_print(&gs_head_conf_schema, &out);

	if (r == 0 && (fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0))
		r = -errno;
	gs_buf_fini(&out);
	if (r < 0)
		gs_cli_say("cannot print: %s", strerror(-r));
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
		.interval_ns = conf->sampling.interval_ns,
		.bandwidth = conf->sampling.bandwidth,
		.nvlink = conf->sampling.nvlink,
		.say = log_head,
	};
	gs_head_conf_keep(conf, &o->keep);
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

/* Whoever can reach the address can do everything, and can read along. */
static void warn_unprotected(const struct head_command *c)
{
	int64_t left_s;
	size_t unbound;

	if (c->head.tls_cert && gs_grpc_certificate_left(c->head.tls_cert, &left_s) &&
	    left_s < CERT_WARN_S)
		gs_cli_say(left_s < 0
				   ? "warning: the certificate %s has expired: nobody will connect"
				   : "warning: the certificate %s expires within %lld day%s: "
				     "a new one is read at SIGHUP",
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
			gs_cli_say(
				"warning: %zu token%s of nodes say%s not of which: who has one can "
				"deliver as any node; write `node TOKEN NAME`, or `node TOKEN *`",
				unbound, unbound == 1 ? "" : "s", unbound == 1 ? "s" : "");
		unbound = 0;
		if (!c->tokens && !c->head.tls_client_ca)
			gs_cli_say(c->conf.nodes.anonymous_control
					   ? "warning: anyone who reaches %s can deliver, read and "
					     "control: give --token-file or --tls-client-ca"
					   : "warning: anyone who reaches %s can deliver and read: "
					     "give --token-file or --tls-client-ca",
				   l);
		if (!c->head.tls_cert)
			gs_cli_say("warning: what goes over %s, tokens too, is not encrypted: give "
				   "--tls-cert and --tls-key",
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
		gs_cli_say("cannot go to the background: %s", strerror(errno));
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
		gs_cli_say("runs in the background, process %d", (int)pid);
	else if (waitpid(pid, ret_status, 0) == pid)
		*ret_status = WIFEXITED(*ret_status) ? WEXITSTATUS(*ret_status) : GS_EXIT_FAILED;
	return true;
}

/* From now on nobody sees what is said: it goes to a file beside the data. */
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
		gs_cli_say("nobody waits for this head to listen");
	gs_close_p(&c->ready_fd);
}

static void told_to_exit(void *ctx)
{
	kill(getpid(), SIGTERM);
}

static void apply_conf(struct head_command *c, struct gs_head *head)
{
	GS_FREE struct gs_head_conf *now = calloc(1, sizeof(*now));
	struct gs_err err = {{0}};
	int r = now ? read_conf(c, now, &err) : -ENOMEM;

	if (r < 0) {
		gs_cli_say("the old configuration stays: %s", gs_err_text(&err, r));
		return;
	}
	gs_head_apply(head, &c->conf, now, c->hostname);
	memcpy(&c->conf, now, sizeof(*now));
	gs_cli_say("read the configuration again");
}

/* Configuration, tokens and certificates may have changed. */
static void reload_conf(struct head_command *c, struct gs_head *head)
{
	struct gs_err err = {{0}};
	int r;

	gs_systemd_reloading();
	r = c->tokens ? head_tokens_reload(c->tokens, &err) : 0;
	if (r < 0)
		gs_cli_say("the old tokens stay: %s", gs_err_text(&err, r));
	err.text[0] = 0;
	r = gs_head_reload_tls(head, &err);
	if (r == 0 && c->api)
		r = gs_api_reload(c->api, &err);
	if (r < 0)
		gs_cli_say("the old certificate stays: %s", gs_err_text(&err, r));
	else
		gs_cli_say("read tokens and certificates again");
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
		snprintf(why, bytes, "this certificate is of %.120s, and not of %s", names,
			 hostname);
		return false;
	}
	return !c->tokens || head_tokens_may_be(c->tokens, call, hostname, why, bytes);
}

/* As over HTTP: whole to who may control, scrubbed to who may read and is known, nothing of it to
 * whom nobody knows. A certificate is that of a node, which has no business with others' commands.
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
			"without tokens, changes are made on the head's machine, by root or by the "
			"user who runs the head (`gpuscope session`); give the head --token-file, "
			"or --anonymous-control for anyone";
	c->head.exit = c->conf.nodes.allow_exit ? told_to_exit : NULL;
	c->gswarm = gs_gswarm_new();
	if (r == 0 && !c->gswarm)
		r = gs_err_set(err, -ENOMEM, "no memory");
	if (r < 0)
		return r;
	c->head.service = gs_gswarm_service(c->gswarm);
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

/* The usual port may be taken by another head: that is told, and this one goes on without. */
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
		.anonymous = c->conf.http.anonymous,
		.guarded = !c->conf.nodes.anonymous_control,
		.token_role = c->tokens ? http_role : NULL,
		.token_ctx = c->tokens,
		.grpc_address = gs_head_address(head, 0),
	};
	char listen[280];
	int r;

	if (port[0] && atoi(port) == 0)
		return 0;
	snprintf(listen, sizeof(listen), "%s%.200s%s:%s", six ? "[" : "", host, six ? "]" : "",
		 port[0] ? port : HTTP_PORT);
	o.listen = listen;
	r = gs_api_start(&o, &c->api, err);
	if (r == -EADDRINUSE && !port[0] && strcmp(host, "127.0.0.1") == 0) {
		gs_cli_say("no HTTP: %s (--http-port takes another one)", gs_err_text(err, r));
		return 0;
	}
	if (r == 0 && !c->tokens && strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0 &&
	    strcmp(host, "localhost") != 0)
		gs_cli_say(
			c->conf.http.anonymous
				? "warning: anyone who can connect to %s can read and control by "
				  "HTTP: give --token-file"
				: "without --token-file, HTTP on %s gives other machines metrics "
				  "only (--http-anonymous)",
			host);
	if (r == 0)
		gs_cli_say("page and API on %s://%s", o.tls_cert ? "https" : "http",
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
		gs_cli_say("cannot wait for signals: %s", strerror(errno));
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
		gs_gswarm_free(&c->gswarm);
		gs_cli_say("%s", gs_err_text(&err, r));
		head_tokens_free(&c->tokens);
		return gs_cli_exit_status_of(r);
	}
	gs_cli_say("head on %s, data in %s", gs_head_address(head, 0), c->head.data);
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
	gs_gswarm_free(&c->gswarm);
	head_tokens_free(&c->tokens);
	return GS_EXIT_DONE;
}

int gs_cmd_head(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"config", 'c', "FILE", 0,
		 "Configuration (" CONF_PATH ", if it is there); options win over it", 0},
		{"check-config", OPT_CHECK, NULL, 0, "Only check the configuration", 0},
		{"print-config", OPT_PRINT, NULL, 0, "Print the default configuration, commented",
		 0},
		{"listen", OPT_LISTEN, "HOST:PORT", 0,
		 "Where nodes connect to; may come again (127.0.0.1:8090)", 1},
		{"data", OPT_DATA, "DIR", 0,
		 "Where everything is kept (/var/lib/gpuscope/head, or below ~/.local/state)", 1},
		{"keep", OPT_KEEP, "TIME", 0,
		 "How long what no session covers is kept: 12h, 7d, forever (7d)", 1},
		{"keep-bytes", OPT_KEEP_BYTES, "BYTES", 0,
		 "And how much; then the oldest of it is removed (no limit)", 1},
		{"background", OPT_BACKGROUND, NULL, 0,
		 "Return when it listens; what it says goes to head.log beside the data", 1},
		{"allow-exit", OPT_ALLOW_EXIT, NULL, 0,
		 "gswarm's call Exit ends this head (it is refused)", 1},
		{"freq", OPT_FREQ, "MS", 0, "Between samples (1s); sessions may ask for less", 2},
		{"enable-bandwidth", OPT_BANDWIDTH, NULL, 0, "PCIe and memory counters", 2},
		{"enable-nvlink", OPT_NVLINK, NULL, 0, "NVLink counters", 2},
		{"disable-bandwidth", OPT_NO_BANDWIDTH, NULL, OPTION_HIDDEN, NULL, 2},
		{"disable-nvlink", OPT_NO_NVLINK, NULL, OPTION_HIDDEN, NULL, 2},
		{"http-port", OPT_HTTP_PORT, "PORT", 0,
		 "Of the page and the HTTP API (8091); 0: none", 1},
		{"http-listen", OPT_HTTP_LISTEN, "HOST", 0,
		 "Address of the page and the HTTP API (127.0.0.1)", 1},
		{"http-hosts", OPT_HTTP_HOSTS, "NAME,...", 0,
		 "Further names of this server in requests; *: any", 1},
		{"http-anonymous", OPT_HTTP_ANONYMOUS, NULL, 0,
		 "Without tokens: page and API for other machines too", 1},
		{"anonymous-control", OPT_ANONYMOUS_CONTROL, NULL, 0,
		 "Without tokens: anyone who can connect may control sessions", 1},
		{"tls-cert", OPT_CERT, "FILE", 0, "Encrypt: our certificate (PEM)", 3},
		{"tls-key", OPT_KEY, "FILE", 0, "Its key (PEM)", 3},
		{"tls-client-ca", OPT_CLIENT_CA, "FILE", 0,
		 "Only nodes with a certificate of this authority (PEM)", 3},
		{"token-file", OPT_TOKENS, "FILE", 0,
		 "Who may call what: lines of ROLE TOKEN, a role is node, read or control", 3},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "The centre of a cluster: nodes deliver what they measure (gpuscope "
		       "connect), and "
		       "it keeps it.",
		.help_filter = gs_cli_help_filter,
	};
	static struct head_command c = {.ready_fd = -1};
	struct gs_err err = {{0}};
	int r;

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &c))
		return GS_EXIT_USAGE;
	if (c.print)
		return print_defaults();
	(void)gethostname(c.hostname, sizeof(c.hostname) - 1);
	r = read_conf(&c, &c.conf, &err);
	if (r == 0)
		r = set_options(&c, &err);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		return r == -EINVAL ? GS_EXIT_USAGE : gs_cli_exit_status_of(r);
	}
	if (c.check) {
		printf("%s: ok\n", c.path ? c.path : CONF_PATH);
		return GS_EXIT_DONE;
	}
	return run_head(&c);
}
