/*
 * gpuscope connect: measures this node and delivers what it measured to a head, for as long as it
 * runs. The main thread reads; the link (src/link) has a thread of its own for everything that may
 * have to wait for the network.
 */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/folder.h"
#include "core/base/schedule.h"
#include "core/base/secret.h"
#include "commands/common/cli.h"
#include "commands/head/remote.h"
#include "commands/head/to_head.h"
#include "sources/gpu/gpu.h"
#include "net/uplink/uplink.h"
#include "model/node/record.h"
#include "sources/sampler/sampler.h"
#include "sources/identity/identity.h"

#define HEADS_MAX         8
#define INTERVAL_NS       1000000000ull /* when the head leaves it to us */
#define INTERVAL_LEAST_NS 50000000ull
#define DRAIN_NS          10000000000ull
#define HANG_NS           2000000000ull
#define BUDGET            0.004
#define RECORD_MAX        (8u << 20) /* of one moment */

enum {
	OPT_RESILIENT = 256,
	OPT_SPOOL,
	OPT_SPOOL_MAX,
	OPT_LEFT,
	OPT_MEMORY_MAX,
	OPT_INTERVAL,
	OPT_BANDWIDTH,
	OPT_NVLINK,
	OPT_PROCESSES,
	OPT_TLS,
	OPT_CA,
	OPT_CERT,
	OPT_KEY,
	OPT_SERVER_NAME,
	OPT_TOKEN_FILE,
	OPT_INSTANCE,
	OPT_MACHINE_ID,
	OPT_NVML,
	OPT_COMMANDS,
};

struct connect_options {
	const char *heads[HEADS_MAX];
	size_t n_heads;
	struct gs_uplink_options link;
	bool resilient, bandwidth, nvlink, all_processes, quiet;
	const char *token_file, *nvml;
	uint64_t interval_ns; /* 0: as the head says */
	const char *left;     /* NULL: the usual one */
};

struct connect {
	const struct connect_options *o;
	struct gs_uplink *link;
	struct gs_gpu *gpu;
	struct gs_sampler *moment;
	struct gs_buf records;
	int signal_fd, wish_fd;
	pthread_mutex_t lock;
	struct gs_uplink_config wish; /* under the lock */
	uint64_t n_read, n_missed, n_not_kept;
	struct gs_backlog *left; /* owned */
};

/* --- the link's callbacks, on its thread --- */

static void on_wish(void *ctx, const struct gs_uplink_config *wish)
{
	struct connect *c = ctx;
	const uint64_t one = 1;

	pthread_mutex_lock(&c->lock);
	c->wish = *wish;
	pthread_mutex_unlock(&c->lock);
	if (write(c->wish_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static void on_say(void *ctx, const char *text)
{
	const struct connect *c = ctx;

	if (!c->o->quiet)
		gs_cli_say("%s", text);
}

/* --- reading --- */

static unsigned groups_of(const struct connect *c, const struct gs_uplink_config *w)
{
	unsigned groups =
		GS_GPU_READ_BASIC | GS_GPU_READ_HEALTH | GS_GPU_READ_EVENTS | GS_GPU_READ_PROCESSES;

	/* Memory activity and PCIe come with the profiling counters where there are such. */
	if (w->bandwidth || c->o->bandwidth)
		groups |= GS_GPU_READ_GPM;
	if (w->nvlink || c->o->nvlink)
		groups |= GS_GPU_READ_LINKS | GS_GPU_READ_GPM;
	return groups;
}

static int deliver_sample(struct connect *c, const struct gs_node_snapshot *node, uint64_t missed)
{
	struct gs_uplink_span span = {.first_wall_ns = node->wall_ns,
				      .last_wall_ns = node->wall_ns,
				      .n_samples = 1,
				      .missed_samples = missed};
	struct gs_batch batch;
	int r;

	gs_buf_reset(&c->records);
	r = gs_node_encode(&c->records, node);
	if (r < 0)
		return r;
	batch = (struct gs_batch){c->records.data, c->records.bytes};
	return gs_uplink_push(c->link, &batch, &span);
}

static int read_one(struct connect *c, const struct gs_uplink_config *wish, uint64_t missed)
{
	struct gs_node_snapshot *node = NULL;
	int r = -ENOMEM;

	node = calloc(1, sizeof(*node));
	if (node)
		r = gs_gpu_read_groups(c->gpu, groups_of(c, wish), &node->gpu);
	if (r == 0)
		r = gs_sampler_fill(c->moment, c->o->all_processes, true, node);
	if (r == 0) {
		c->n_read++;
		r = deliver_sample(c, node, missed);
	} else if (r != -ENOMEM) {
		gs_node_snapshot_free(&node);
		return r;
	}
	gs_node_snapshot_free(&node);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && c->n_not_kept++ == 0)
		gs_cli_say("a sample could not be kept: %s; such are counted", strerror(-r));
	return 0;
}

static uint64_t interval_of(const struct connect *c, const struct gs_uplink_config *w)
{
	uint64_t ns = c->o->interval_ns ? c->o->interval_ns
		      : w->interval_ns  ? w->interval_ns
					: INTERVAL_NS;

	return ns < INTERVAL_LEAST_NS ? INTERVAL_LEAST_NS : ns;
}

/* As agents are: of a processor, for the driver's library at a reading a second, and in proportion
 * for more of them. */
static double budget_of(uint64_t interval_ns)
{
	return BUDGET * (interval_ns < 1000000000ull ? 1e9 / (double)interval_ns : 1);
}

/* True: a signal says that it is enough. */
static bool wait_until(struct connect *c, uint64_t due_ns)
{
	struct pollfd fds[2] = {{c->signal_fd, POLLIN, 0}, {c->wish_fd, POLLIN, 0}};
	uint64_t now = gs_clock_mono_ns(), drop;

	if (due_ns > now) {
		struct timespec left = {(time_t)((due_ns - now) / 1000000000ull),
					(long)((due_ns - now) % 1000000000ull)};

		(void)ppoll(fds, 2, &left, NULL);
	} else {
		(void)poll(fds, 2, 0);
	}
	if (fds[1].revents && read(c->wish_fd, &drop, sizeof(drop)) < 0)
		drop = 0;
	if (fds[0].revents) {
		struct signalfd_siginfo info;

		if (read(c->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
			return false;
		if (info.ssi_signo == SIGUSR1)
			gs_gpu_release(c->gpu);
		else if (info.ssi_signo == SIGUSR2)
			gs_gpu_resume(c->gpu);
		else
			return true;
	}
	return false;
}

/* Refused by the first head ever asked: nobody wants to find that out next morning. */
static bool refused_at_once(struct connect *c)
{
	struct gs_uplink_stats st;

	gs_uplink_stats(c->link, &st);
	return st.state == GS_UPLINK_REFUSED && st.connects == 0;
}

static int run_loop(struct connect *c)
{
	struct gs_schedule turns;
	struct gs_uplink_config wish;
	bool end = false;
	int r = 0;

	gs_schedule_start(&turns, INTERVAL_NS, gs_clock_mono_ns());
	while (r == 0 && !end && !refused_at_once(c)) {
		uint64_t now = gs_clock_mono_ns(), missed;

		pthread_mutex_lock(&c->lock);
		wish = c->wish;
		pthread_mutex_unlock(&c->lock);
		gs_schedule_set_interval(&turns, interval_of(c, &wish), now);
		gs_gpu_set_budget(c->gpu, budget_of(turns.interval_ns));
		if (now < turns.next_ns) {
			end = wait_until(c, turns.next_ns);
			continue;
		}
		missed = gs_schedule_take(&turns, now);
		c->n_missed += missed;
		r = read_one(c, &wish, missed);
		end = wait_until(c, 0);
	}
	return r;
}

/* --- life --- */

static int block_signals(struct connect *c, struct gs_err *err)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
		sigaddset(&set, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	c->wish_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->signal_fd < 0 || c->wish_fd < 0)
		return gs_err_set(err, -errno, "cannot wait for signals: %s", strerror(errno));
	return 0;
}

/* Where batches wait: the state folder of the system, or of the user. */
static int default_spool(char *out, size_t bytes, const char *instance, struct gs_err *err)
{
	char base[512];
	int r = gs_folder_state(base, sizeof(base), "the spool", "--spool", err);

	if (r == 0)
		snprintf(out, bytes, "%s/spool%s%s", base, instance[0] ? "-" : "", instance);
	return r;
}

static int open_gpu(const struct connect_options *o, struct gs_gpu **ret_gpu, struct gs_err *err)
{
	struct gs_gpu_options go = {
		.size = sizeof(go),
		.nvml_path = o->nvml,
		.nvml_option = "--nvml PATH",
		.hang_ns = HANG_NS,
		.budget = budget_of(o->interval_ns ? o->interval_ns : INTERVAL_NS)};

	return gs_gpu_open(&go, ret_gpu, err);
}

static void on_left(void *ctx, const char *text)
{
	gs_cli_say("%s", text);
}

/* Traces and reports of this machine that ended while the head was away. */
static void deliver_left(struct connect *c)
{
	struct gs_backlog_options o = {
		.size = sizeof(o), .like = &c->o->link, .link = c->link, .say = on_left};
	char base[512] = "";
	struct gs_err err;

	if (c->o->left)
		snprintf(base, sizeof(base), "%s", c->o->left);
	else
		(void)gs_folder_state(base, sizeof(base), "the spool", "--left", &err);
	o.base = base;
	if (base[0])
		gs_backlog_start(&o, &c->left);
}

static void report_end(const struct connect *c, const struct gs_uplink_stats *st, uint64_t left)
{
	gs_cli_say(
		"%llu samples read, %llu missed; %llu batches delivered, %llu samples wait%s, %llu "
		"lost",
		(unsigned long long)c->n_read, (unsigned long long)c->n_missed,
		(unsigned long long)st->acked_batches, (unsigned long long)left,
		left ? (c->o->resilient ? " in the spool for the next start"
					: " and are given up (--resilient keeps them)")
		     : "",
		(unsigned long long)st->lost_samples);
}

static int run_connect(struct connect_options *o)
{
	struct connect c = {.o = o,
			    .records = GS_BUF_INIT(RECORD_MAX),
			    .signal_fd = -1,
			    .wish_fd = -1,
			    .lock = PTHREAD_MUTEX_INITIALIZER};
	char token[512] = "", spool[640];
	struct gs_uplink_stats st = {.state = 0};
	struct gs_err err = {{0}};
	uint64_t left;
	bool refused;
	int r = block_signals(&c, &err);

	if (r == 0 && o->token_file)
		r = gs_token_read(o->token_file, "the token file", token, sizeof(token), &err);
	if (r == 0 && o->resilient && !o->link.spool_dir) {
		r = default_spool(spool, sizeof(spool), o->link.instance ? o->link.instance : "",
				  &err);
		o->link.spool_dir = spool;
	}
	if (r == 0)
		r = gs_sampler_new(&c.moment, &err);
	if (r == 0)
		r = open_gpu(o, &c.gpu, &err);
	if (r == 0) {
		o->link.token = token[0] ? token : NULL;
		o->link.wish = on_wish;
		o->link.say = on_say;
		o->link.ctx = &c;
		r = gs_uplink_start(&o->link, &c.link, &err);
	}
	if (r == 0)
		deliver_left(&c);
	explicit_bzero(token, sizeof(token));
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(&err, r));
		gs_sampler_free(&c.moment);
		gs_gpu_close(&c.gpu);
		return gs_cli_exit_status_of(r);
	}
	r = run_loop(&c);
	gs_uplink_stats(c.link, &st);
	refused = st.state == GS_UPLINK_REFUSED && st.connects == 0;
	if (r < 0)
		gs_cli_say("cannot read this node: %s", strerror(-r));
	gs_backlog_stop(&c.left);
	left = gs_uplink_drain(c.link, refused ? 0 : DRAIN_NS, false);
	gs_uplink_stats(c.link, &st); /* with what was delivered only now */
	(void)gs_uplink_stop(&c.link, 0, false);
	report_end(&c, &st, left);
	gs_sampler_free(&c.moment);
	gs_gpu_close(&c.gpu);
	gs_buf_fini(&c.records);
	gs_close_p(&c.signal_fd);
	gs_close_p(&c.wish_fd);
	return r < 0 ? gs_cli_exit_status_of(r) : refused ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

/* --- options --- */

static bool instance_valid(const char *text)
{
	return strlen(text) < 64 && text[0] != '.' &&
	       text[strspn(text,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] ==
		       0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct connect_options *o = state->input;

	switch (key) {
	case OPT_RESILIENT:
	case 'r':
		o->resilient = true;
		return 0;
	case OPT_SPOOL:
		o->link.spool_dir = arg;
		o->resilient = true;
		return 0;
	case OPT_SPOOL_MAX:
		if (gs_parse_bytes(arg, &o->link.spool_max_bytes) < 0 ||
		    o->link.spool_max_bytes < 1 << 20)
			argp_error(state, "--spool-max takes 1M or more, such as 256M");
		return 0;
	case OPT_LEFT:
		o->left = arg;
		return 0;
	case OPT_MEMORY_MAX:
		if (gs_parse_bytes(arg, &o->link.memory_max_bytes) < 0 ||
		    o->link.memory_max_bytes < 64 << 10)
			argp_error(state, "--memory-max takes 64K or more, such as 32M");
		return 0;
	case OPT_INTERVAL:
		if (gs_parse_ns(arg, 1000000000ull, &o->interval_ns) < 0 ||
		    o->interval_ns < INTERVAL_LEAST_NS || o->interval_ns > 3600000000000ull)
			argp_error(state,
				   "--interval takes 50ms to 1h, such as 2 (seconds) or 500ms");
		return 0;
	case OPT_BANDWIDTH:
		o->bandwidth = true;
		return 0;
	case OPT_NVLINK:
		o->nvlink = true;
		return 0;
	case OPT_PROCESSES:
	case 'a':
		o->all_processes = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case OPT_TLS:
		o->link.tls = true;
		return 0;
	case OPT_CA:
		o->link.tls = true;
		o->link.tls_ca = arg;
		return 0;
	case OPT_CERT:
		o->link.tls = true;
		o->link.tls_cert = arg;
		return 0;
	case OPT_KEY:
		o->link.tls = true;
		o->link.tls_key = arg;
		return 0;
	case OPT_SERVER_NAME:
		o->link.server_name = arg;
		return 0;
	case OPT_TOKEN_FILE:
		o->token_file = arg;
		return 0;
	case OPT_INSTANCE:
		if (!instance_valid(arg))
			argp_error(state,
				   "--instance takes letters, digits, '.', '_' and '-', 63 at "
				   "most");
		o->link.instance = arg;
		return 0;
	case OPT_MACHINE_ID:
		if (!arg[0] || !instance_valid(arg))
			argp_error(state,
				   "--machine-id takes letters, digits, '.', '_' and '-', 63 at "
				   "most");
		o->link.machine_id = arg;
		return 0;
	case OPT_COMMANDS:
		if (!gs_identity_choose_commands(arg))
			argp_error(state, "--commands takes scrubbed, name or full, not \"%s\"",
				   arg);
		return 0;
	case OPT_NVML:
		o->nvml = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->n_heads == HEADS_MAX)
			argp_error(state, "more than %d heads", HEADS_MAX);
		o->heads[o->n_heads++] = remote_address(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->n_heads)
			argp_error(state, "which head? give HOST:PORT (a head listens on 8090)");
		if (!o->link.tls_cert != !o->link.tls_key)
			argp_error(state, "--cert and --key go together");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int gs_cmd_connect(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"resilient", 'r', NULL, 0,
		 "Keep what is not delivered on disk: nothing is lost when this program or the "
		 "machine ends",
		 1},
		{"spool", OPT_SPOOL, "DIR", 0,
		 "Where to keep it (with --resilient; default /var/lib/gpuscope/spool, or below "
		 "~/.local/state)",
		 1},
		{"spool-max", OPT_SPOOL_MAX, "BYTES", 0,
		 "How much; then the oldest is given up and counted (256M)", 1},
		{"left", OPT_LEFT, "DIR", 0,
		 "Below it, in traces and reports, is what `trace --head` and `job --head` could "
		 "not "
		 "deliver: it is delivered too (/var/lib/gpuscope, or ~/.local/state/gpuscope)",
		 1},
		{"memory-max", OPT_MEMORY_MAX, "BYTES", 0,
		 "How much in memory, without --resilient or when that disk is full (32M)", 1},
		{"interval", OPT_INTERVAL, "TIME", 0, "Between samples (as the head says, or 1 s)",
		 2},
		{"enable-bandwidth", OPT_BANDWIDTH, NULL, 0,
		 "Read PCIe and memory counters, also when the head does not ask for them", 2},
		{"enable-nvlink", OPT_NVLINK, NULL, 0,
		 "Read NVLink counters, also when the head does not ask for them", 2},
		{"all-processes", 'a', NULL, 0, "Every process, not only those on GPUs", 2},
		{"tls", OPT_TLS, NULL, 0, "Encrypt, and check the head by the system's authorities",
		 3},
		{"ca", OPT_CA, "FILE", 0, "Check it by this authority (PEM)", 3},
		{"cert", OPT_CERT, "FILE", 0, "Our certificate (PEM)", 3},
		{"key", OPT_KEY, "FILE", 0, "Its key (PEM)", 3},
		{"server-name", OPT_SERVER_NAME, "NAME", 0,
		 "The name in the head's certificate, where it is not that of the address", 3},
		{"token-file", OPT_TOKEN_FILE, "FILE", 0,
		 "The token to show: the file's first line", 3},
		{"instance", OPT_INSTANCE, "NAME", 0,
		 "Tells several of these programs on one machine apart", 4},
		{"machine-id", OPT_MACHINE_ID, "ID", 0, "Instead of that in /etc/machine-id", 4},
		{"quiet", 'q', NULL, 0, "Do not tell of connections made and lost", 4},
		{"commands", OPT_COMMANDS, "WHAT", 0,
		 "arguments of processes: scrubbed, name (none), full", 2},
		{"nvml", OPT_NVML, "FILE", OPTION_HIDDEN, NULL, 4},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "HEAD:PORT...",
		.doc = "Measures this node and delivers it to a head (gpuscope head, or one of "
		       "gswarm-profiler).\vWith several heads the next one is tried when one does "
		       "not "
		       "answer. SIGUSR1 lets go of the GPUs, SIGUSR2 takes them up again.",
		.help_filter = gs_cli_help_filter,
	};
	struct connect_options o = {
		.link = {.size = sizeof(struct gs_uplink_options), .kind = GS_UPLINK_SAMPLES}};

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return GS_EXIT_USAGE;
	o.link.addresses = o.heads;
	o.link.n_addresses = o.n_heads;
	return run_connect(&o);
}
