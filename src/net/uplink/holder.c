/*
 * The link's half that has the spool. Its thread starts the sender, answers what that asks, and
 * starts another when it ends, hangs or says what cannot be. Nothing here reads a byte of a head:
 * what comes over the socket was made by the sender from what it understood, and is checked again
 * as if a stranger had written it. An attacker who breaks into a sender can say that batches have arrived,
 * as the head can; not make the holder send one twice under two numbers, or forget one uncounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zstd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "net/uplink/uplink_int.h"

#define PING_NS    5000000000ull
#define HUNG_NS    15000000000ull
#define MESSAGE_NS 5000000000ull /* of one message, until it is whole */
#define END_NS     3000000000ull /* after the drain: the last frames go out */
#define SAYS_MOST  100           /* lines that a sender may have printed in a minute */

struct gs_uplink {
	struct gs_uplink_options o; /* callbacks; texts not, but in what follows */
	char machine_id[64], instance[64], hostname[65], title[256], token[512], server_name[256];
	char address[GS_GRPC_LISTEN_MAX][256];
	int tls_fd[3]; /* owned: authorities, certificate, key; -1 none */
	uint64_t run;  /* of Hello */
	pthread_t thread;
	bool joined; /* of the thread that stops it */
	int wake_fd;

	/* Only of the thread. */
	struct gs_sandbox_child process; /* pid 0: there is none */
	struct gs_buf in, message, answer;
	uint64_t started_ns, start_after_ns, ping_ns; /* monotonic */
	uint64_t asked_ns;   /* since when a sign of life is waited for; 0 it is not */
	unsigned n_failures; /* ends soon after the start, in a row */
	bool said_hello, sent_stopping;
	bool is_woken, has_news; /* there is news; it was sent, and nothing was heard since */
	uint64_t sent_seq, attempt;
	uint64_t says_since_ns;
	unsigned n_says;
	bool done;

	pthread_mutex_t lock; /* what follows */
	struct gs_queue *spool;
	struct gs_buf packed;
	struct gs_uplink_line_state state; /* of this sender */
	struct gs_uplink_stats before;     /* counts of those that ended */
	struct gs_uplink_news news;
};

static void report_line(struct gs_uplink *l, const char *fmt, ...) GS_PRINTF(2, 3);

static void report_line(struct gs_uplink *l, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!l->o.on_message)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	l->o.on_message(l->o.ctx, text);
}

static void wake_thread(struct gs_uplink *l)
{
	const uint64_t one = 1;

	/* A full counter wakes as well. */
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* --- the process --- */

static int end_sender(struct gs_uplink *l)
{
	int status = gs_sandbox_end_child(&l->process);

	gs_buf_reset(&l->message);
	pthread_mutex_lock(&l->lock);
	l->before.connects += l->state.connects;
	l->before.sent_batches += l->state.sent_batches;
	l->before.sent_bytes += l->state.sent_bytes;
	l->before.acked_batches += l->state.acked_batches;
	l->state = (struct gs_uplink_line_state){.state = GS_UPLINK_CONNECTING,
						 .retry_ns = UINT64_MAX};
	pthread_mutex_unlock(&l->lock);
	return status;
}

static void lose_sender(struct gs_uplink *l, int r)
{
	uint64_t now = gs_clock_mono_ns(), wait;
	char why[128], trouble[200];

	gs_sender_lost(r, end_sender(l), why, sizeof(why));
	snprintf(trouble, sizeof(trouble), "the process that sends %s", why);
	pthread_mutex_lock(&l->lock);
	memcpy(l->state.trouble, trouble, sizeof(trouble));
	pthread_mutex_unlock(&l->lock);
	wait = gs_sandbox_restart_wait_ns(&l->n_failures, now - l->started_ns);
	l->start_after_ns = now + wait;
	report_line(l, "%s; it is restarted%s", trouble,
		    wait > 1000000000 ? " in a few seconds" : "");
}

static struct gs_sender_wait wait_briefly(void)
{
	return (struct gs_sender_wait){.until_ns = gs_clock_mono_ns() + MESSAGE_NS};
}

static void send_message(struct gs_uplink *l, struct gs_wire_out *out, int pass_fd)
{
	const struct gs_sender_wait wait = wait_briefly();
	int r = out->r < 0 ? out->r : gs_sender_send(l->process.fd, out->buf, pass_fd, &wait);

	if (r < 0)
		lose_sender(l, r);
}

static void put_start(struct gs_uplink *l, struct gs_wire_out *out)
{
	size_t at = gs_sender_begin(out);

	gs_wire_put_u32(out, l->o.kind);
	gs_wire_put_u64(out, l->run);
	gs_wire_put_text(out, l->machine_id);
	gs_wire_put_text(out, l->instance);
	gs_wire_put_text(out, l->hostname);
	gs_wire_put_text(out, l->title);
	gs_wire_put_text(out, l->token[0] ? l->token : NULL);
	gs_wire_put_text(out, l->server_name[0] ? l->server_name : NULL);
	gs_wire_put_u8(out, l->o.tls);
	for (unsigned i = 0; i < GS_ARRAY_LEN(l->tls_fd); i++)
		gs_wire_put_u8(out, l->tls_fd[i] >= 0);
	gs_wire_put_u32(out, (uint32_t)l->o.n_addresses);
	for (size_t i = 0; i < l->o.n_addresses; i++)
		gs_wire_put_text(out, l->address[i]);
	gs_sender_close(out, at, LINK_START);
}

static void start_sender(struct gs_uplink *l)
{
	struct gs_wire_out out = {&l->message, 0};
	int fds[GS_ARRAY_LEN(l->tls_fd)];
	struct gs_err err = {{0}};
	unsigned n = 0;
	int r;

	for (unsigned i = 0; i < GS_ARRAY_LEN(l->tls_fd); i++)
		if (l->tls_fd[i] >= 0)
			fds[n++] = l->tls_fd[i];
	l->started_ns = l->asked_ns = gs_clock_mono_ns();
	l->ping_ns = l->started_ns + PING_NS;
	l->said_hello = l->has_news = l->sent_stopping = false;
	r = gs_sender_start(LINK_WORK, fds, n, &l->process, &err);
	if (r < 0) {
		report_line(l, "%s", gs_err_text(&err, r));
		lose_sender(l, r);
		return;
	}
	put_start(l, &out);
	send_message(l, &out, -1);
}

/* --- what it asks --- */

/* A socket of this machine that the configuration names: the sender, being another user, might not
 * be let in. */
static int connect_socket(const struct gs_uplink *l, uint64_t number)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	GS_CLOSE int fd = -1;
	const char *path;

	if (number >= l->o.n_addresses || strncmp(l->address[number], "unix:/", 6) != 0)
		return -EINVAL;
	path = l->address[number] + 5;
	if (strlen(path) >= sizeof(to.sun_path))
		return -EINVAL;
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return gs_take_fd(&fd);
}

/* With the lock held. False: no sender of ours asks that. */
static bool ask_spool(struct gs_uplink *l, enum gs_uplink_message what, uint64_t n,
		      struct gs_uplink_reply *ret)
{
	struct gs_queue_stats st;

	gs_queue_stats(l->spool, &st);
	switch (what) {
	case LINK_BEGIN:
		l->attempt++;
		gs_log(GS_LOG_INFO, GS_LOG_HEAD, "stream of this node: connection %llu",
		       (unsigned long long)l->attempt);
		return true;
	case LINK_WAITING:
		return true;
	case LINK_GET:
		ret->r = gs_queue_get(l->spool, n, &ret->batch);
		if (ret->r != 0)
			ret->batch = (struct gs_queue_batch){0};
		return true;
	case LINK_SENT:
		if (n >= st.next_seq)
			return false;
		gs_queue_sent(l->spool, n);
		if (n > l->sent_seq)
			l->sent_seq = n;
		return true;
	case LINK_ACK:
		if (n > l->sent_seq)
			return false;
		gs_queue_ack(l->spool, n);
		gs_log(GS_LOG_DEBUG, GS_LOG_HEAD, "stream of this node: the head has batch %llu",
		       (unsigned long long)n);
		return true;
	case LINK_RESUME:
		if (n > l->sent_seq && n >= st.opened_seq)
			return false;
		gs_queue_resume(l->spool, n);
		return true;
	case LINK_DROP:
		ret->r = gs_queue_drop(l->spool, n);
		return true;
	case LINK_RENEW:
		if (n != 0 && n != st.opened_seq)
			return false;
		ret->r = gs_queue_renew(l->spool, n);
		l->sent_seq = 0;
		return true;
	default:
		return false;
	}
}

static bool answer_line(struct gs_uplink *l, enum gs_uplink_message what, uint64_t number)
{
	struct gs_uplink_reply reply = {.r = 0};
	struct gs_wire_out out = {&l->message, 0};
	struct gs_queue_stats st;
	GS_CLOSE int fd = -1;
	size_t at = gs_sender_begin(&out);
	bool ok = true;

	if (what == LINK_CONNECT)
		fd = reply.r = connect_socket(l, number);
	if (fd >= 0)
		reply.r = 0;
	pthread_mutex_lock(&l->lock);
	if (what != LINK_CONNECT)
		ok = ask_spool(l, what, number, &reply);
	if (what == LINK_GET) /* nothing may be asked of the spool before its data are copied */
		memset(&st, 0, sizeof(st));
	else
		gs_queue_stats(l->spool, &st);
	reply.stream = gs_queue_stream(l->spool);
	reply.attempt = l->attempt;
	reply.first_seq = st.first_seq;
	reply.next_seq = st.next_seq;
	reply.opened_seq = st.opened_seq;
	reply.n_batches = st.n_batches;
	reply.sent_seq = l->sent_seq;
	reply.wall_ns = gs_clock_wall_ns();
	reply.boot_ns = gs_clock_boot_ns();
	uplink_put_reply(&out, &reply);
	pthread_mutex_unlock(&l->lock);
	gs_sender_close(&out, at, LINK_REPLY);
	if (ok)
		send_message(l, &out, fd);
	return ok;
}

/* What it is worth knowing to a head, the program decides: a sender can ask for all of it. */
static bool answer_question(struct gs_uplink *l, struct gs_wire_in *in)
{
	static const char none[] =
		"the program that sends this node's samples has no flight recorder: run gpuscope agent";
	struct gs_uplink_question asked;
	struct gs_uplink_reply reply = {.r = -ENOTSUP};
	struct gs_wire_out out = {&l->message, 0};
	uint64_t total = 0;
	size_t at;

	if (!uplink_take_question(in, &asked))
		return false;
	gs_buf_reset(&l->answer);
	if (l->o.question)
		reply.r = l->o.question(l->o.ctx, &asked, &l->answer, &total);
	else
		(void)gs_buf_puts(&l->answer, none);
	if (l->answer.r < 0)
		reply.r = l->answer.r;
	reply.batch.data = l->answer.data;
	reply.batch.bytes = l->answer.bytes;
	reply.batch.seq = total;
	at = gs_sender_begin(&out);
	uplink_put_reply(&out, &reply);
	gs_sender_close(&out, at, LINK_REPLY);
	send_message(l, &out, -1);
	return true;
}

/* A sender that does nothing but talk does not fill the disk with its lines. */
static void pass_line(struct gs_uplink *l, const char *text)
{
	uint64_t now = gs_clock_mono_ns();

	if (now - l->says_since_ns > 60000000000ull) {
		l->says_since_ns = now;
		l->n_says = 0;
	}
	if (++l->n_says <= SAYS_MOST)
		report_line(l, "%s", text);
	else
		gs_log(GS_LOG_INFO, GS_LOG_HEAD, "%s", text);
}

/* False: it says what it may not say. */
static bool take_message(struct gs_uplink *l, enum gs_uplink_message kind, struct gs_wire_in *in)
{
	struct gs_uplink_config desired;
	struct gs_uplink_line_state state;
	const char *text;
	uint64_t number;

	if (kind != LINK_HELLO && !l->said_hello)
		return false;
	switch (kind) {
	case LINK_HELLO:
		l->said_hello = gs_sandbox_trusts_child("sends", gs_wire_u32(in), GS_LOG_HEAD) &&
				gs_wire_is_done(in);
		return l->said_hello;
	case LINK_STATE:
		if (!uplink_take_state(in, &l->state, &state))
			return false;
		pthread_mutex_lock(&l->lock);
		l->state = state;
		pthread_mutex_unlock(&l->lock);
		return true;
	case LINK_SAY:
		text = gs_wire_line(in);
		if (!text || !gs_wire_is_done(in))
			return false;
		pass_line(l, text);
		return true;
	case LINK_CONFIG:
		if (!uplink_take_config(in, &desired))
			return false;
		if (l->o.desired)
			l->o.desired(l->o.ctx, &desired);
		return true;
	case LINK_QUESTION:
		return answer_question(l, in);
	case LINK_DONE:
		l->done = l->sent_stopping && gs_wire_is_done(in);
		return l->done;
	default:
		number = gs_wire_u64(in);
		return gs_wire_is_done(in) && answer_line(l, kind, number);
	}
}

static void read_message(struct gs_uplink *l)
{
	const struct gs_sender_wait wait = wait_briefly();
	struct gs_wire_in in;
	uint32_t kind;
	int r = gs_sender_receive(l->process.fd, &l->in, LINK_MESSAGE_MAX, &kind, NULL, &wait);

	in = GS_WIRE_IN(l->in.data, l->in.bytes);
	if (r == 0 && !take_message(l, (enum gs_uplink_message)kind, &in))
		r = -EBADMSG;
	l->asked_ns = 0;
	l->has_news = false; /* it asks for what waits, whenever it can send */
	if (r < 0)
		lose_sender(l, r);
}

/* --- the loop --- */

static void report_news(struct gs_uplink *l, const struct gs_uplink_news *news)
{
	struct gs_wire_out out = {&l->message, 0};
	size_t at = gs_sender_begin(&out);

	gs_wire_put_u8(&out, news->stopping);
	gs_wire_put_u8(&out, news->ended);
	gs_wire_put_u64(&out, news->drain_until_ns);
	gs_sender_close(&out, at, LINK_NEWS);
	l->has_news = true;
	l->is_woken = false;
	l->sent_stopping = news->stopping;
	send_message(l, &out, -1);
}

static void ping_sender(struct gs_uplink *l)
{
	struct gs_wire_out out = {&l->message, 0};

	gs_sender_close(&out, gs_sender_begin(&out), LINK_PING);
	l->ping_ns = gs_clock_mono_ns() + PING_NS;
	if (!l->asked_ns)
		l->asked_ns = gs_clock_mono_ns();
	send_message(l, &out, -1);
}

static int turn_wait_ms(const struct gs_uplink *l, const struct gs_uplink_news *news)
{
	uint64_t now = gs_clock_mono_ns(), next = l->process.pid ? l->ping_ns : l->start_after_ns;

	if (news->stopping && news->drain_until_ns + END_NS < next)
		next = news->drain_until_ns + END_NS;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static void turn_once(struct gs_uplink *l, const struct gs_uplink_news *news)
{
	struct pollfd fds[2] = {{l->wake_fd, POLLIN, 0}, {-1, POLLIN, 0}};
	uint64_t drop;

	if (!l->process.pid && gs_clock_mono_ns() >= l->start_after_ns)
		start_sender(l);
	if (l->process.pid && l->said_hello &&
	    (news->stopping != l->sent_stopping || (l->is_woken && !l->has_news)))
		report_news(l, news);
	fds[1].fd = l->process.fd;
	if (poll(fds, 2, turn_wait_ms(l, news)) < 0)
		return;
	if (fds[0].revents && read(l->wake_fd, &drop, sizeof(drop)) > 0)
		l->is_woken = true;
	if (l->process.pid && fds[1].revents)
		read_message(l);
	if (l->process.pid && l->asked_ns && gs_clock_mono_ns() - l->asked_ns > HUNG_NS)
		lose_sender(l, -ETIME);
	if (l->process.pid && gs_clock_mono_ns() >= l->ping_ns)
		ping_sender(l);
}

/* Whether the end has come, also for a sender that does not see it. */
static bool is_over(const struct gs_uplink *l, const struct gs_uplink_news *news)
{
	uint64_t now = gs_clock_mono_ns();

	if (!news->stopping)
		return false;
	return l->done || now >= news->drain_until_ns + END_NS ||
	       (now >= news->drain_until_ns && !(l->process.pid && l->said_hello));
}

static void *run_holder(void *arg)
{
	struct gs_uplink *l = arg;
	struct gs_uplink_news news;

	for (;;) {
		pthread_mutex_lock(&l->lock);
		news = l->news;
		pthread_mutex_unlock(&l->lock);
		if (is_over(l, &news))
			break;
		turn_once(l, &news);
	}
	(void)gs_sandbox_end_child(&l->process); /* its state stays: the last one that is known */
	return NULL;
}

/* --- life --- */

int gs_uplink_machine_id(char *out, size_t bytes)
{
	char text[64] = "", name[65] = "";
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	gs_close_p(&fd);
	/* machine-id(5): 32 hexadecimal digits and a newline; "uninitialized" at the first boot. */
	if (n >= 32 && strspn(text, "0123456789abcdef") == 32) {
		snprintf(out, bytes, "%.32s", text);
		return 0;
	}
	fd = open("/sys/class/dmi/id/product_uuid", O_RDONLY | O_CLOEXEC);
	memset(text, 0, sizeof(text));
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	gs_close_p(&fd);
	if (n >= 36) {
		snprintf(out, bytes, "%.36s", text);
		return 0;
	}
	/* Containers often have neither: their name is what others know them by. */
	if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
		return -ENOENT;
	snprintf(out, bytes, "host-%.58s", name);
	return 0;
}

/* As heads take it: no control characters, and cut between characters. */
static void take_title(char *out, size_t bytes, const char *title)
{
	size_t n = strnlen(title, bytes - 1);

	while (n > 0 && n == bytes - 1 && ((unsigned char)title[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)title[i] < 0x20 || title[i] == 0x7f ? ' ' : title[i];
	out[n] = 0;
}

static int take_names(struct gs_uplink *l, const struct gs_uplink_options *o, struct gs_err *err)
{
	snprintf(l->instance, sizeof(l->instance), "%s", o->instance ? o->instance : "");
	take_title(l->title, sizeof(l->title), o->title ? o->title : "");
	snprintf(l->token, sizeof(l->token), "%s", o->token ? o->token : "");
	snprintf(l->server_name, sizeof(l->server_name), "%s",
		 o->server_name ? o->server_name : "");
	for (size_t i = 0; i < o->n_addresses; i++)
		snprintf(l->address[i], sizeof(l->address[i]), "%s", o->addresses[i]);
	if (o->hostname)
		snprintf(l->hostname, sizeof(l->hostname), "%s", o->hostname);
	else
		(void)gethostname(l->hostname, sizeof(l->hostname) - 1);
	if (o->machine_id) {
		snprintf(l->machine_id, sizeof(l->machine_id), "%s", o->machine_id);
		return 0;
	}
	if (gs_uplink_machine_id(l->machine_id, sizeof(l->machine_id)) < 0)
		return gs_err_set(
			err, -ENOENT,
			"this machine has no machine id (/etc/machine-id): run systemd-machine-id-setup or give --machine-id");
	return 0;
}

/* The sender cannot say what is wrong with an address or a file: that is looked at here, once. The
 * files stay open for it. */
static int check_options(struct gs_uplink *l, const struct gs_uplink_options *o, struct gs_err *err)
{
	const char *const files[] = {o->tls_ca, o->tls_cert, o->tls_key};
	const struct gs_grpc_client_options c = {
		.size = sizeof(c),
		.addresses = o->addresses,
		.n_addresses = o->n_addresses,
		.tls = o->tls,
		.tls_ca = o->tls_ca,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.server_name = o->server_name,
		.token = o->token,
	};
	struct gs_grpc_client *client = NULL;
	int r = gs_grpc_client_new(&c, &client, err);

	gs_grpc_client_free(&client);
	for (unsigned i = 0; r == 0 && o->tls && i < GS_ARRAY_LEN(files); i++) {
		if (!files[i] || !files[i][0])
			continue;
		l->tls_fd[i] = open(files[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (l->tls_fd[i] < 0)
			r = gs_err_set(err, -errno, "cannot read %s: %s", files[i],
				       strerror(errno));
	}
	return r;
}

static void free_link(struct gs_uplink **link)
{
	struct gs_uplink *l = *link;

	gs_queue_close(&l->spool);
	gs_buf_fini(&l->packed);
	gs_buf_fini(&l->in);
	gs_buf_fini(&l->message);
	gs_buf_fini(&l->answer);
	gs_close_p(&l->wake_fd);
	for (unsigned i = 0; i < GS_ARRAY_LEN(l->tls_fd); i++)
		gs_close_p(&l->tls_fd[i]);
	explicit_bzero(l->token, sizeof(l->token));
	pthread_mutex_destroy(&l->lock);
	gs_free_p(link);
}

int gs_uplink_start(const struct gs_uplink_options *options, struct gs_uplink **ret_link,
		    struct gs_err *err)
{
	struct gs_queue_options spool = {.size = sizeof(spool),
					 .dir = options->spool_dir,
					 .max_bytes = options->spool_max_bytes,
					 .max_memory_bytes = options->memory_max_bytes,
					 .keep_oldest = options->keep_oldest};
	struct gs_uplink *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&l->lock, NULL);
	l->o = *options;
	l->in = GS_BUF_INIT(LINK_MESSAGE_MAX);
	l->message = GS_BUF_INIT(GS_QUEUE_BATCH_MAX + 65536);
	l->answer = GS_BUF_INIT(GS_UPLINK_ANSWER_MAX);
	l->packed = GS_BUF_INIT(2 * GS_QUEUE_BATCH_MAX);
	l->process.fd = l->tls_fd[0] = l->tls_fd[1] = l->tls_fd[2] = -1;
	if (getrandom(&l->run, sizeof(l->run), 0) < 0)
		l->run = gs_clock_boot_ns();
	l->state.retry_ns = UINT64_MAX;
	l->state.state = GS_UPLINK_CONNECTING;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->wake_fd < 0 ? gs_err_set(err, -errno, "eventfd: %s", strerror(errno)) : 0;
	if (r == 0)
		r = check_options(l, options, err);
	if (r == 0)
		r = take_names(l, options, err);
	if (r == 0)
		r = gs_queue_open(&spool, &l->spool, err);
	if (r == 0) {
		r = -pthread_create(&l->thread, NULL, run_holder, l);
		if (r < 0)
			r = gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	if (r < 0) {
		free_link(&l);
		return r;
	}
	*ret_link = l;
	return 0;
}

int gs_uplink_push(struct gs_uplink *link, const struct gs_batch *records,
		   const struct gs_uplink_span *span)
{
	struct gs_queue_batch b = {
		.first_wall_ns = span->first_wall_ns,
		.last_wall_ns = span->last_wall_ns,
		.n_samples = span->n_samples,
		.missed_samples = span->missed_samples,
		.raw_bytes = (uint32_t)records->bytes,
	};
	size_t n;
	int r;

	pthread_mutex_lock(&link->lock);
	gs_buf_reset(&link->packed);
	if (records->bytes > GS_QUEUE_BATCH_MAX) { /* no head takes it: counted as lost there */
		b.raw_bytes = UINT32_MAX;
		r = gs_queue_put(link->spool, &b);
		pthread_mutex_unlock(&link->lock);
		return r;
	}
	r = gs_buf_reserve(&link->packed, ZSTD_compressBound(records->bytes));
	if (r == 0) {
		n = ZSTD_compress(link->packed.data, link->packed.capacity_bytes, records->data,
				  records->bytes, 1);
		b.codec = ZSTD_isError(n) ? 0 : 1; /* enum Codec */
		b.data = b.codec ? link->packed.data : records->data;
		b.bytes = b.codec ? n : records->bytes;
		r = gs_queue_put(link->spool, &b);
	}
	pthread_mutex_unlock(&link->lock);
	wake_thread(link);
	return r;
}

void gs_uplink_stats(struct gs_uplink *link, struct gs_uplink_stats *ret_stats)
{
	struct gs_queue_stats st;
	const struct gs_uplink_line_state *s = &link->state;
	uint64_t now = gs_clock_mono_ns();

	pthread_mutex_lock(&link->lock);
	gs_queue_stats(link->spool, &st);
	*ret_stats = (struct gs_uplink_stats){
		.state = s->state,
		.is_other = s->is_other,
		.retry_in_ns = s->state == GS_UPLINK_WAITING && s->retry_ns > now &&
					       s->retry_ns != UINT64_MAX
				       ? s->retry_ns - now
				       : 0,
		.connects = link->before.connects + s->connects,
		.sent_batches = link->before.sent_batches + s->sent_batches,
		.sent_bytes = link->before.sent_bytes + s->sent_bytes,
		.acked_batches = link->before.acked_batches + s->acked_batches,
		.waiting_batches = st.n_batches,
		.waiting_samples = st.n_samples,
		.waiting_bytes = st.bytes,
		.memory_samples = st.memory_samples,
		.lost_batches = st.lost_batches,
		.lost_samples = st.lost_samples,
		.spool_error = st.disk_error,
	};
	memcpy(ret_stats->head, s->head, sizeof(s->head));
	memcpy(ret_stats->trouble, s->trouble, sizeof(s->trouble));
	pthread_mutex_unlock(&link->lock);
}

uint64_t gs_uplink_drain(struct gs_uplink *l, uint64_t drain_ns, bool ended)
{
	struct gs_queue_stats st;

	pthread_mutex_lock(&l->lock);
	l->news = (struct gs_uplink_news){true, ended, gs_clock_mono_ns() + drain_ns};
	pthread_mutex_unlock(&l->lock);
	wake_thread(l);
	if (!l->joined)
		pthread_join(l->thread, NULL);
	l->joined = true;
	gs_queue_save(l->spool);
	gs_queue_stats(l->spool, &st);
	return st.n_samples;
}

uint64_t gs_uplink_stop(struct gs_uplink **link, uint64_t drain_ns, bool ended)
{
	uint64_t left;

	if (!*link)
		return 0;
	left = gs_uplink_drain(*link, drain_ns, ended);
	free_link(link);
	return left;
}
