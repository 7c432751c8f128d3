/* gpuscope head: the centre to which nodes deliver. */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/fmt.h"
#include "cmd/cmd.h"
#include "head/head.h"

#define LISTEN_MAX 16
#define TICK_MS    1000

enum {
	OPT_LISTEN = 256,
	OPT_DATA,
	OPT_FREQ,
	OPT_BANDWIDTH,
	OPT_NVLINK,
	OPT_CERT,
	OPT_KEY,
	OPT_CLIENT_CA
};

struct head_command {
	struct gs_head_options head;
	const char *listen[LISTEN_MAX];
};

static void say(void *ctx, const char *text)
{
	gs_say("%s", text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct head_command *c = state->input;
	struct gs_head_options *o = &c->head;

	switch (key) {
	case OPT_LISTEN:
		if (o->n_listen == LISTEN_MAX)
			argp_error(state, "more than %d addresses", LISTEN_MAX);
		c->listen[o->n_listen++] = arg;
		return 0;
	case OPT_DATA:
		o->data = arg;
		return 0;
	case OPT_FREQ:
		if (gs_parse_ns(arg, 1000000ull, &o->interval_ns) < 0 ||
		    o->interval_ns < 50000000ull || o->interval_ns > 3600000000000ull)
			argp_error(state, "--freq takes 50 (ms) to 1h, such as 500 or 2s");
		return 0;
	case OPT_BANDWIDTH:
		o->bandwidth = true;
		return 0;
	case OPT_NVLINK:
		o->nvlink = true;
		return 0;
	case OPT_CERT:
		o->tls_cert = arg;
		return 0;
	case OPT_KEY:
		o->tls_key = arg;
		return 0;
	case OPT_CLIENT_CA:
		o->tls_client_ca = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "what is \"%s\"? head takes options only", arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->n_listen)
			c->listen[o->n_listen++] = "127.0.0.1:8090";
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int run(struct head_command *c)
{
	struct gs_head *head = NULL;
	struct gs_err err = {{0}};
	GS_CLOSE int signal_fd = -1;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (signal_fd < 0) {
		gs_say("cannot wait for signals: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	c->head.listen = c->listen;
	c->head.say = say;
	r = gs_head_start(&c->head, &head, &err);
	if (r < 0) {
		gs_say("%s", gs_err_text(&err, r));
		return gs_exit_status_of(r);
	}
	gs_say("head on %s, data in %s", gs_head_address(head, 0), c->head.data);
	for (;;) {
		struct pollfd fd = {signal_fd, POLLIN, 0};

		if (poll(&fd, 1, TICK_MS) > 0)
			break;
		gs_head_tick(head);
	}
	gs_head_stop(&head);
	return GS_EXIT_DONE;
}

int gs_cmd_head(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"listen", OPT_LISTEN, "HOST:PORT", 0,
		 "Where nodes connect to; may come again (127.0.0.1:8090)", 1},
		{"data", OPT_DATA, "DIR", 0, "Where everything is kept (/var/lib/gpuscope/head)",
		 1},
		{"freq", OPT_FREQ, "MS", 0, "Between samples (1s); sessions may ask for less", 2},
		{"enable-bandwidth", OPT_BANDWIDTH, NULL, 0, "PCIe and memory counters", 2},
		{"enable-nvlink", OPT_NVLINK, NULL, 0, "NVLink counters", 2},
		{"tls-cert", OPT_CERT, "FILE", 0, "Encrypt: our certificate (PEM)", 3},
		{"tls-key", OPT_KEY, "FILE", 0, "Its key (PEM)", 3},
		{"tls-client-ca", OPT_CLIENT_CA, "FILE", 0,
		 "Only nodes with a certificate of this authority (PEM)", 3},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "The centre of a cluster: nodes deliver what they measure (gpuscope "
		       "connect), and "
		       "it keeps it.",
		.help_filter = gs_cmd_help_filter,
	};
	struct head_command c = {
		.head = {.size = sizeof(c.head), .data = "/var/lib/gpuscope/head"}};

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &c))
		return GS_EXIT_USAGE;
	return run(&c);
}
