/* The sender's thread: connecting, waiting, trying again. */
#include "net/uplink/uplink_int.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define REFUSED_RETRY_NS 60000000000ull

static const struct gs_uplink_protocol *other; /* NULL: none; set once, before any thread */

void gs_uplink_set_other(const struct gs_uplink_protocol *protocol)
{
	other = protocol;
}

const struct gs_uplink_protocol *uplink_other(void)
{
	return other;
}

void gs_uplink_log(struct gs_uplink_line *l, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	uplink_report_text(l, text);
}

static void set_state(struct gs_uplink_line *l, unsigned state, const char *trouble)
{
	l->state.state = state;
	snprintf(l->state.trouble, sizeof(l->state.trouble), "%s", trouble);
	if (state != GS_UPLINK_CONNECTED)
		l->state.head[0] = 0;
}

void gs_uplink_give_up(struct gs_uplink_line *l, uint64_t seq, const char *why)
{
	struct gs_uplink_reply reply;

	if (gs_uplink_ask(l, LINK_DROP, seq, &reply) < 0)
		return;
	l->given_up.n++;
	l->given_up.seq = seq;
	snprintf(l->given_up.why, sizeof(l->given_up.why), "%s", why);
}

static void report_given_up(struct gs_uplink_line *l)
{
	const struct gs_uplink_given_up *g = &l->given_up;

	if (g->n)
		gs_uplink_log(
			l, "%llu batch%s dropped and counted as lost (the last is number %llu): %s",
			(unsigned long long)g->n, g->n == 1 ? "" : "es", (unsigned long long)g->seq,
			g->why);
	l->given_up.n = 0;
}

/* --- the connection --- */

static void forget_flight(struct gs_uplink_line *l)
{
	l->flight_bytes = l->flight_batches = 0;
	l->next_send = 0;
	l->welcomed = l->blocked = false;
}

static void try_later(struct gs_uplink_line *l, const char *why)
{
	uint64_t random = 0;
	uint64_t delay_ns;

	if (getrandom(&random, sizeof(random), 0) < 0)
		random = gs_clock_mono_ns();
	if (l->connected_ns)
		gs_grpc_backoff_held(&l->backoff, gs_clock_mono_ns() - l->connected_ns);
	l->connected_ns = 0;
	delay_ns = gs_grpc_backoff_next_ns(&l->backoff, random);
	l->state.retry_ns = gs_clock_mono_ns() + delay_ns;
	set_state(l, GS_UPLINK_WAITING, why);
	gs_uplink_log(l, "no connection to the head: %s; next attempt in %.1f s", why,
		      (double)delay_ns / 1e9);
}

void gs_uplink_failed(struct gs_uplink_line *l, enum gs_grpc_status status, const char *text,
		      bool final)
{
	if (l->request)
		gs_grpc_request_cancel(&l->request);
	forget_flight(l);
	if (final) {
		/* It may be mended there: a token, a certificate. */
		l->state.retry_ns = gs_clock_mono_ns() + REFUSED_RETRY_NS;
		set_state(l, GS_UPLINK_REFUSED, text[0] ? text : gs_grpc_status_name(status));
		gs_uplink_log(l, "the head refuses this node: %s",
			      text[0] ? text : gs_grpc_status_name(status));
	} else if (gs_grpc_client_connected(l->client)) {
		snprintf(l->state.trouble, sizeof(l->state.trouble), "%s", text);
	}
	gs_grpc_client_disconnect(l->client, false);
}

void gs_uplink_switch(struct gs_uplink_line *l, const struct gs_uplink_protocol *protocol)
{
	l->protocol = protocol;
	forget_flight(l);
	l->protocol->begin(l);
}

static void on_connected(void *ctx, const char *address)
{
	struct gs_uplink_line *l = ctx;

	l->connected_ns = gs_clock_mono_ns();
	snprintf(l->state.head, sizeof(l->state.head), "%s", address);
	l->state.trouble[0] = 0;
	/* A head may have become another one meanwhile. */
	gs_uplink_switch(l, &link_node);
}

static void on_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	struct gs_uplink_line *l = ctx;
	char text[256];

	l->request = NULL;
	forget_flight(l);
	snprintf(text, sizeof(text), "%s", l->state.trouble[0] ? l->state.trouble : why);
	if (l->state.state != GS_UPLINK_REFUSED && !l->left)
		try_later(l, text[0] ? text : gs_grpc_status_name(status));
}

static void connect_now(struct gs_uplink_line *l)
{
	int r;

	l->state.retry_ns = UINT64_MAX;
	set_state(l, GS_UPLINK_CONNECTING, "");
	r = gs_grpc_client_connect(l->client);
	if (r < 0 && r != -EALREADY)
		try_later(l, strerror(-r));
}

/* --- the loop --- */

/* Whether nothing is left to do, or there is no time for it. */
static bool is_finished(struct gs_uplink_line *l)
{
	struct gs_uplink_reply st;

	if (!l->news.stopping)
		return false;
	(void)gs_uplink_ask(l, LINK_WAITING, 0, &st);
	return (st.n_batches == 0 && (l->ended_sent || !l->news.ended || l->state.is_other)) ||
	       l->state.state == GS_UPLINK_REFUSED || gs_clock_mono_ns() >= l->news.drain_until_ns;
}

static int wait_ms(const struct gs_uplink_line *l)
{
	uint64_t next = gs_grpc_client_next_ns(l->client), now = gs_clock_mono_ns();

	if (l->state.retry_ns < next)
		next = l->state.retry_ns;
	if (l->news.stopping && l->news.drain_until_ns < next)
		next = l->news.drain_until_ns;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static bool is_same_state(const struct gs_uplink_line_state *a,
			  const struct gs_uplink_line_state *b)
{
	return a->state == b->state && a->is_other == b->is_other &&
	       strcmp(a->head, b->head) == 0 && strcmp(a->trouble, b->trouble) == 0 &&
	       a->retry_ns == b->retry_ns && a->connects == b->connects &&
	       a->sent_batches == b->sent_batches && a->sent_bytes == b->sent_bytes &&
	       a->acked_batches == b->acked_batches;
}

static void run_line(struct gs_uplink_line *l)
{
	bool tried_at_stop = false;

	connect_now(l);
	for (;;) {
		struct pollfd fds[2] = {{gs_grpc_client_fd(l->client), POLLIN, 0},
					{GS_SENDER_SOCKET, POLLIN, 0}};
		bool done;

		if (l->request && !l->blocked)
			l->protocol->pump(l);
		done = is_finished(l);
		report_given_up(l);
		if (l->pinged || !is_same_state(&l->state, &l->reported))
			uplink_report(l, LINK_STATE);
		if (done)
			break;
		if (l->news.stopping && !tried_at_stop && l->state.retry_ns != UINT64_MAX)
			l->state.retry_ns = 0; /* once more, at once */
		tried_at_stop |= l->news.stopping;
		(void)poll(fds, 2, wait_ms(l));
		uplink_listen(l);
		gs_grpc_client_work(l->client);
		if (l->state.retry_ns <= gs_clock_mono_ns())
			connect_now(l);
	}
	if (l->request)
		l->protocol->end(l);
	l->left = true;
	gs_grpc_client_disconnect(l->client, true);
	/* The last frames go out; a head that does not take them is not waited for. */
	for (int i = 0; i < 20 && gs_grpc_client_connected(l->client); i++)
		gs_grpc_client_wait(l->client, 50000000);
	uplink_report(l, LINK_STATE);
	uplink_report(l, LINK_DONE);
}

/* --- the start --- */

static void take_name(struct gs_wire_in *in, char *out, size_t bytes)
{
	const char *text = gs_wire_text(in);

	snprintf(out, bytes, "%s", text ? text : "");
}

/* A file that the holder has opened: the next descriptor, while it may still be opened by its name
 * in /proc. */
static const char *take_file(struct gs_wire_in *in, int *fd, char *name, size_t bytes)
{
	if (!gs_wire_u8(in))
		return NULL;
	snprintf(name, bytes, "/proc/self/fd/%d", (*fd)++);
	return name;
}

/* What holder.c's put_start() says. The rights are given up when the keys are read, before the
 * first name is looked up. */
static int take_start(struct gs_uplink_line *l)
{
	const struct gs_sender_wait forever = {.until_ns = UINT64_MAX};
	const char *address[GS_GRPC_LISTEN_MAX];
	char files[3][32];
	struct gs_grpc_client_options c = {
		.size = sizeof(c),
		.addresses = address,
		.events = {.connected = on_connected, .disconnected = on_disconnected},
		.connect_local = uplink_ask_socket,
		.ctx = l,
		.max_queue_bytes = 2 * LINK_FLIGHT_BYTES + (8u << 20),
	};
	int fd = GS_SENDER_FIRST_FILE, r;
	struct gs_wire_in in;
	uint32_t kind;

	r = gs_sender_receive(GS_SENDER_SOCKET, &l->in, GS_SENDER_MAX_BYTES, &kind, NULL, &forever);
	if (r < 0 || kind != LINK_START)
		return -EPROTO;
	in = GS_WIRE_IN(l->in.data, l->in.bytes);
	l->kind = (enum gs_uplink_kind)gs_wire_u32(&in);
	l->run = gs_wire_u64(&in);
	take_name(&in, l->machine_id, sizeof(l->machine_id));
	take_name(&in, l->instance, sizeof(l->instance));
	take_name(&in, l->hostname, sizeof(l->hostname));
	take_name(&in, l->title, sizeof(l->title));
	c.token = gs_wire_text(&in);
	c.server_name = gs_wire_text(&in);
	c.tls = gs_wire_u8(&in);
	c.tls_ca = take_file(&in, &fd, files[0], sizeof(files[0]));
	c.tls_cert = take_file(&in, &fd, files[1], sizeof(files[1]));
	c.tls_key = take_file(&in, &fd, files[2], sizeof(files[2]));
	c.n_addresses = gs_wire_count(&in, 5);
	if (c.n_addresses > GS_GRPC_LISTEN_MAX)
		return -EPROTO;
	for (size_t i = 0; i < c.n_addresses; i++)
		address[i] = gs_wire_text(&in);
	if (!gs_wire_is_done(&in))
		return -EPROTO;
	r = gs_grpc_client_new(&c, &l->client, NULL);
	explicit_bzero(l->in.data, l->in.bytes);
	while (fd > GS_SENDER_FIRST_FILE)
		close(--fd);
	return r;
}

int gs_uplink_sender_main(void)
{
	static struct gs_uplink_line l;
	struct gs_wire_out out = {&l.ask, 0};
	size_t at;

	l.in = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	l.ask = GS_BUF_INIT(LINK_MESSAGE_MAX + 1024);
	l.out = GS_BUF_INIT(GS_QUEUE_BATCH_MAX + 65536);
	l.protocol = &link_node;
	l.state.state = GS_UPLINK_CONNECTING;
	l.state.retry_ns = UINT64_MAX;
	if (take_start(&l) < 0)
		return 1;
	at = gs_sender_begin(&out);
	gs_wire_put_u32(&out, gs_sender_confine());
	gs_sender_close(&out, at, LINK_HELLO);
	if (gs_sender_send(GS_SENDER_SOCKET, &l.ask, -1,
			   &(struct gs_sender_wait){.until_ns = UINT64_MAX}) < 0)
		return 1;
	run_line(&l);
	_exit(0); /* nothing to tidy up */
}
