/*
 * gpuscope connect: sends this node's samples to a head for as long as it runs, and buffers them
 * while the head is unreachable. The main thread reads; the link (src/link) has a thread of its own for everything that may
 * have to wait for the network.
 */
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
#define RECORD_MAX        (8u << 20) /* of one sample */

struct connect_options {
	const char *heads[HEADS_MAX];
	size_t n_heads;
	struct gs_uplink_options link;
	bool resilient, bandwidth, nvlink, all_processes, quiet;
	const char *nvml;
	uint64_t interval_ns;    /* 0: as the head says */
	const char *backlog_dir; /* NULL: the usual one */
	struct gs_cli_connection connection;
};

struct connect {
	const struct connect_options *o;
	struct gs_uplink *link;
	struct gs_gpu *gpu;
	struct gs_sampler *sampler;
	struct gs_buf records;
	int signal_fd, desired_fd;
	pthread_mutex_t lock;
	struct gs_uplink_config desired; /* under the lock */
	uint64_t n_read, n_missed, n_not_kept;
	struct gs_backlog *left; /* owned */
};

/* --- the link's callbacks, on its thread --- */

static void on_desired_config(void *ctx, const struct gs_uplink_config *desired)
{
	struct connect *c = ctx;
	const uint64_t one = 1;

	pthread_mutex_lock(&c->lock);
	c->desired = *desired;
	pthread_mutex_unlock(&c->lock);
	if (write(c->desired_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static void print_message(void *ctx, const char *text)
{
	const struct connect *c = ctx;

	if (!c->o->quiet)
		gs_cli_print_message("%s", text);
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

static int read_one(struct connect *c, const struct gs_uplink_config *desired, uint64_t missed)
{
	struct gs_node_snapshot *node = NULL;
	int r = -ENOMEM;

	node = calloc(1, sizeof(*node));
	if (node)
		r = gs_gpu_read_groups(c->gpu, groups_of(c, desired), &node->gpu);
	if (r == 0)
		r = gs_sampler_fill(c->sampler, c->o->all_processes, true, node);
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
		gs_cli_print_message("cannot spool sample: %s (further failures are only counted)",
				     strerror(-r));
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
	struct pollfd fds[2] = {{c->signal_fd, POLLIN, 0}, {c->desired_fd, POLLIN, 0}};
	uint64_t now = gs_clock_mono_ns(), drop;

	if (due_ns > now) {
		struct timespec left = {(time_t)((due_ns - now) / 1000000000ull),
					(long)((due_ns - now) % 1000000000ull)};

		(void)ppoll(fds, 2, &left, NULL);
	} else {
		(void)poll(fds, 2, 0);
	}
	if (fds[1].revents && read(c->desired_fd, &drop, sizeof(drop)) < 0)
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

/* Refused by the first head ever asked: it should not be found out next morning. */
static bool refused_at_once(struct connect *c)
{
	struct gs_uplink_stats st;

	gs_uplink_stats(c->link, &st);
	return st.state == GS_UPLINK_REFUSED && st.connects == 0;
}

static int run_loop(struct connect *c)
{
	struct gs_schedule turns;
	struct gs_uplink_config desired;
	bool end = false;
	int r = 0;

	gs_schedule_start(&turns, INTERVAL_NS, gs_clock_mono_ns());
	while (r == 0 && !end && !refused_at_once(c)) {
		uint64_t now = gs_clock_mono_ns(), missed;

		pthread_mutex_lock(&c->lock);
		desired = c->desired;
		pthread_mutex_unlock(&c->lock);
		gs_schedule_set_interval(&turns, interval_of(c, &desired), now);
		gs_gpu_set_budget(c->gpu, budget_of(turns.interval_ns));
		if (now < turns.next_ns) {
			end = wait_until(c, turns.next_ns);
			continue;
		}
		missed = gs_schedule_take(&turns, now);
		c->n_missed += missed;
		r = read_one(c, &desired, missed);
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
	c->desired_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->signal_fd < 0 || c->desired_fd < 0)
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

static void print_backlog(void *ctx, const char *text)
{
	gs_cli_print_message("%s", text);
}

/* Traces and reports of this machine that ended while the head was away. */
static void deliver_left(struct connect *c)
{
	struct gs_backlog_options o = {.size = sizeof(o),
				       .like = &c->o->link,
				       .link = c->link,
				       .on_message = print_backlog};
	char base[512] = "";
	struct gs_err err;

	if (c->o->backlog_dir)
		snprintf(base, sizeof(base), "%s", c->o->backlog_dir);
	else
		(void)gs_folder_state(base, sizeof(base), "the spool", "--backlog-dir", &err);
	o.base = base;
	if (base[0])
		gs_backlog_start(&o, &c->left);
}

static void report_end(const struct connect *c, const struct gs_uplink_stats *st, uint64_t left)
{
	gs_cli_print_message(
		"%llu samples read, %llu missed; %llu batches delivered, %llu samples wait%s, %llu lost",
		(unsigned long long)c->n_read, (unsigned long long)c->n_missed,
		(unsigned long long)st->acked_batches, (unsigned long long)left,
		left ? (c->o->resilient ? " in the spool for the next start"
					: " and are dropped (--resilient keeps them)")
		     : "",
		(unsigned long long)st->lost_samples);
}

static int run_connect(struct connect_options *o)
{
	struct connect c = {.o = o,
			    .records = GS_BUF_INIT(RECORD_MAX),
			    .signal_fd = -1,
			    .desired_fd = -1,
			    .lock = PTHREAD_MUTEX_INITIALIZER};
	char token[512] = "", spool[640];
	struct gs_uplink_stats st = {.state = 0};
	struct gs_err err = {{0}};
	uint64_t left;
	bool refused;
	int r = block_signals(&c, &err);

	if (r == 0 && gs_cli_connection_has_token(&o->connection))
		r = gs_cli_connection_token(&o->connection, token, sizeof(token), &err);
	if (r == 0 && o->resilient && !o->link.spool_dir) {
		r = default_spool(spool, sizeof(spool), o->link.instance ? o->link.instance : "",
				  &err);
		o->link.spool_dir = spool;
	}
	if (r == 0)
		r = gs_sampler_new(&c.sampler, &err);
	if (r == 0)
		r = open_gpu(o, &c.gpu, &err);
	if (r == 0) {
		o->link.token = token[0] ? token : NULL;
		o->link.desired = on_desired_config;
		o->link.on_message = print_message;
		o->link.ctx = &c;
		r = gs_uplink_start(&o->link, &c.link, &err);
	}
	if (r == 0)
		deliver_left(&c);
	explicit_bzero(token, sizeof(token));
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		gs_sampler_free(&c.sampler);
		gs_gpu_close(&c.gpu);
		return gs_cli_exit_status_of(r);
	}
	r = run_loop(&c);
	gs_uplink_stats(c.link, &st);
	refused = st.state == GS_UPLINK_REFUSED && st.connects == 0;
	if (r < 0)
		gs_cli_print_message("cannot read this node: %s", strerror(-r));
	gs_backlog_stop(&c.left);
	left = gs_uplink_drain(c.link, refused ? 0 : DRAIN_NS, false);
	gs_uplink_stats(c.link, &st); /* with what was delivered only now */
	(void)gs_uplink_stop(&c.link, 0, false);
	report_end(&c, &st, left);
	gs_sampler_free(&c.sampler);
	gs_gpu_close(&c.gpu);
	gs_buf_fini(&c.records);
	gs_close_p(&c.signal_fd);
	gs_close_p(&c.desired_fd);
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

static int add_head(void *target, char **words, struct gs_err *err)
{
	struct connect_options *o = target;

	if (o->n_heads == HEADS_MAX)
		return gs_err_set(err, -EINVAL, "more than %d heads", HEADS_MAX);
	o->heads[o->n_heads++] = words[0];
	return remote_check_address(words[0], err);
}

static int set_name(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	memcpy((char *)target + option->offset, &argument, sizeof(argument));
	return instance_valid(argument) && (argument[0] || !option->data) ? 0 : -EINVAL;
}

static int check_options(void *target, struct gs_err *err)
{
	struct connect_options *o = target;

	if (!o->n_heads && remote_head_from_environment(&o->heads[0], err) < 0)
		return -EINVAL;
	o->n_heads += !o->n_heads && o->heads[0];
	if (!o->n_heads)
		return gs_err_set(
			err, -EINVAL,
			"give the head's HOST:PORT (a head listens on 8090), or set GPUSCOPE_HEAD");
	o->resilient |= o->link.spool_dir != NULL;
	return 0;
}

#define AT(member) GS_CLI_AT(struct connect_options, member)
#define NAME_TAKES "letters, digits, '.', '_' and '-', 63 at most"

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("Buffering:"),
	{"resilient", 0, NULL, "spool on disk: data survives restarts of this machine", GS_CLI_FLAG,
	 AT(resilient)},
	{"spool", 0, "DIR", "spool directory for undelivered data (implies --resilient)",
	 GS_CLI_TEXT, AT(link.spool_dir)},
	{"spool-max", 0, "BYTES", "spool size limit (256M); then the oldest is dropped",
	 GS_CLI_BYTES, AT(link.spool_max_bytes), .min = 1 << 20},
	{"backlog-dir", 0, "DIR", "also send undelivered traces and reports from here", GS_CLI_TEXT,
	 AT(backlog_dir)},
	{"memory-max", 0, "BYTES", "buffer without --resilient or when the disk is full (32M)",
	 GS_CLI_BYTES, AT(link.memory_max_bytes), .min = 64 << 10},
	GS_CLI_TITLE("Measurement:"),
	{"interval", 'i', "TIME", "time between samples (the head's, else 1s)", GS_CLI_TIME,
	 AT(interval_ns), .min = INTERVAL_LEAST_NS, .max = 3600000000000ull},
	{"enable-bandwidth", 0, NULL, "read PCIe and memory counters even if the head does not ask",
	 GS_CLI_FLAG, AT(bandwidth)},
	{"enable-nvlink", 0, NULL, "read NVLink counters even if the head does not ask",
	 GS_CLI_FLAG, AT(nvlink)},
	{"all-processes", 'a', NULL, "send every process, not only those on GPUs", GS_CLI_FLAG,
	 AT(all_processes)},
	GS_CLI_COMMANDS,
	GS_CLI_NO_ARGS,
	GS_CLI_TITLE("This program:"),
	{"instance", 0, "NAME", "name of this instance, to run several on one machine", GS_CLI_SET,
	 AT(link.instance), .takes = NAME_TAKES, .set = set_name},
	{"machine-id", 0, "ID", "override /etc/machine-id", GS_CLI_SET, AT(link.machine_id),
	 .takes = NAME_TAKES, .set = set_name, .data = 1},
	{"quiet", 'q', NULL, "do not report connections made and lost", GS_CLI_FLAG, AT(quiet)},
	GS_CLI_NVML(struct connect_options, nvml),
	GS_CLI_VERBOSE,
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_END};

const struct gs_cli_command gs_cli_connect = {
	.name = "gpuscope connect",
	.usage = "HEAD:PORT...",
	.about =
		"Sends this node's samples to a head (gpuscope head), and buffers while it is unreachable.",
	.notes =
		"Of several heads, later ones are fallbacks. SIGUSR1 releases the GPU driver, SIGUSR2 reattaches.",
	.brief =
		"resilient spool spool-max interval enable-bandwidth all-processes no-args tls ca cert key token-file quiet verbose",
	.options = option_table,
	.groups = {GS_CLI_CONNECTION(struct connect_options, connection)},
	.take_word = add_head,
	.check = check_options,
};

int gs_cmd_connect(int argc, char **argv)
{
	struct connect_options o = {
		.link = {.size = sizeof(struct gs_uplink_options), .kind = GS_UPLINK_SAMPLES}};
	int status;

	gs_cli_hold_signals();
	if (!gs_cli_parse(&gs_cli_connect, argc, argv, &o, &status))
		return status;
	o.link.addresses = o.heads;
	o.link.n_addresses = o.n_heads;
	o.link.tls = o.connection.tls;
	o.link.tls_ca = o.connection.ca;
	o.link.tls_cert = o.connection.cert;
	o.link.tls_key = o.connection.key;
	o.link.server_name = o.connection.server_name;
	return run_connect(&o);
}
