/* The link's thread: connecting, waiting, trying again; and what others call. */
#include "link/link_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/mem.h"

#define REFUSED_RETRY_NS 60000000000ull

void link_say(struct gs_link *l, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!l->o.say)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	l->o.say(l->o.ctx, text);
}

static void wake(struct gs_link *l)
{
	const uint64_t one = 1;

	/* A full counter wakes as well. */
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void set_state(struct gs_link *l, unsigned state, const char *trouble)
{
	pthread_mutex_lock(&l->lock);
	l->stats.state = state;
	snprintf(l->stats.trouble, sizeof(l->stats.trouble), "%s", trouble);
	if (state != GS_LINK_CONNECTED)
		l->stats.head[0] = 0;
	pthread_mutex_unlock(&l->lock);
}

/* Written under the lock, which the thread itself needs not take to read it. */
static void retry_at(struct gs_link *l, uint64_t mono_ns)
{
	pthread_mutex_lock(&l->lock);
	l->retry_ns = mono_ns;
	pthread_mutex_unlock(&l->lock);
}

void link_give_up(struct gs_link *l, uint64_t seq, const char *why)
{
	if (gs_spool_drop(l->spool, seq) < 0)
		return;
	l->given_up.n++;
	l->given_up.seq = seq;
	snprintf(l->given_up.why, sizeof(l->given_up.why), "%s", why);
}

static void tell_given_up(struct gs_link *l)
{
	struct link_given_up g;

	pthread_mutex_lock(&l->lock);
	g = l->given_up;
	l->given_up.n = 0;
	pthread_mutex_unlock(&l->lock);
	if (g.n)
		link_say(l,
			 "%llu batch%s given up and counted as lost (the last is number %llu): %s",
			 (unsigned long long)g.n, g.n == 1 ? "" : "es", (unsigned long long)g.seq,
			 g.why);
}

/* --- the connection --- */

static void forget_flight(struct gs_link *l)
{
	l->flight_bytes = l->flight_batches = 0;
	l->next_send = 0;
	l->welcomed = l->blocked = false;
}

static void try_later(struct gs_link *l, const char *why)
{
	uint64_t random = 0;
	uint64_t delay_ns;

	if (getrandom(&random, sizeof(random), 0) < 0)
		random = gs_clock_mono_ns();
	if (l->connected_ns)
		gs_rpc_backoff_held(&l->backoff, gs_clock_mono_ns() - l->connected_ns);
	l->connected_ns = 0;
	delay_ns = gs_rpc_backoff_next_ns(&l->backoff, random);
	retry_at(l, gs_clock_mono_ns() + delay_ns);
	set_state(l, GS_LINK_WAITING, why);
	link_say(l, "no connection to the head: %s; next attempt in %.1f s", why,
		 (double)delay_ns / 1e9);
}

void link_failed(struct gs_link *l, enum gs_rpc_status status, const char *text, bool final)
{
	if (l->request)
		gs_rpc_request_cancel(&l->request);
	forget_flight(l);
	if (final) {
		/* Somebody may mend it there: a token, a certificate. */
		retry_at(l, gs_clock_mono_ns() + REFUSED_RETRY_NS);
		set_state(l, GS_LINK_REFUSED, text[0] ? text : gs_rpc_status_name(status));
		link_say(l, "the head refuses us: %s", text[0] ? text : gs_rpc_status_name(status));
	} else if (gs_rpc_client_connected(l->client)) {
		pthread_mutex_lock(&l->lock);
		snprintf(l->stats.trouble, sizeof(l->stats.trouble), "%s", text);
		pthread_mutex_unlock(&l->lock);
	}
	gs_rpc_client_disconnect(l->client, false);
}

void link_switch(struct gs_link *l, const struct link_protocol *protocol)
{
	l->protocol = protocol;
	forget_flight(l);
	l->protocol->begin(l);
}

static void on_connected(void *ctx, const char *address)
{
	struct gs_link *l = ctx;

	l->connected_ns = gs_clock_mono_ns();
	pthread_mutex_lock(&l->lock);
	snprintf(l->stats.head, sizeof(l->stats.head), "%s", address);
	l->stats.trouble[0] = 0;
	pthread_mutex_unlock(&l->lock);
	/* A head may have become another one meanwhile. */
	link_switch(l, &link_node);
}

static void on_disconnected(void *ctx, enum gs_rpc_status status, const char *why)
{
	struct gs_link *l = ctx;
	char text[256];

	l->request = NULL;
	forget_flight(l);
	pthread_mutex_lock(&l->lock);
	snprintf(text, sizeof(text), "%s", l->stats.trouble[0] ? l->stats.trouble : why);
	pthread_mutex_unlock(&l->lock);
	if (l->stats.state != GS_LINK_REFUSED && !l->left)
		try_later(l, text[0] ? text : gs_rpc_status_name(status));
}

static void connect_now(struct gs_link *l)
{
	int r;

	retry_at(l, UINT64_MAX);
	set_state(l, GS_LINK_CONNECTING, "");
	r = gs_rpc_client_connect(l->client);
	if (r < 0 && r != -EALREADY)
		try_later(l, strerror(-r));
}

/* --- the thread --- */

/* Whether nothing is left to do, or there is no time for it. */
static bool finished(struct gs_link *l)
{
	struct gs_spool_stats st;

	if (!l->stopping)
		return false;
	gs_spool_stats(l->spool, &st);
	return (st.n_batches == 0 && (l->ended_sent || !l->ended || l->stats.gswarm)) ||
	       l->stats.state == GS_LINK_REFUSED || gs_clock_mono_ns() >= l->drain_until_ns;
}

/* stop_ns: when to stop at the latest, UINT64_MAX: not. */
static int wait_ms(const struct gs_link *l, uint64_t stop_ns)
{
	uint64_t next = gs_rpc_client_next_ns(l->client), now = gs_clock_mono_ns();

	if (l->retry_ns < next)
		next = l->retry_ns;
	if (stop_ns < next)
		next = stop_ns;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static void *run(void *arg)
{
	struct gs_link *l = arg;
	bool tried_at_stop = false;

	connect_now(l);
	for (;;) {
		struct pollfd fds[2] = {{gs_rpc_client_fd(l->client), POLLIN, 0},
					{l->wake_fd, POLLIN, 0}};
		uint64_t drop, stop_ns;
		bool done, stopping;

		pthread_mutex_lock(&l->lock);
		if (l->request && !l->blocked)
			l->protocol->pump(l);
		done = finished(l);
		stopping = l->stopping;
		stop_ns = stopping ? l->drain_until_ns : UINT64_MAX;
		pthread_mutex_unlock(&l->lock);
		tell_given_up(l);
		if (done)
			break;
		if (stopping && !tried_at_stop && l->retry_ns != UINT64_MAX)
			retry_at(l, 0); /* once more, at once */
		tried_at_stop |= stopping;
		(void)poll(fds, 2, wait_ms(l, stop_ns));
		if (fds[1].revents && read(l->wake_fd, &drop, sizeof(drop)) < 0)
			drop = 0;
		gs_rpc_client_work(l->client);
		if (l->retry_ns <= gs_clock_mono_ns())
			connect_now(l);
	}
	if (l->request)
		l->protocol->end(l);
	l->left = true;
	gs_rpc_client_disconnect(l->client, true);
	/* The last frames go out; a head that does not take them is not waited for. */
	for (int i = 0; i < 20 && gs_rpc_client_connected(l->client); i++)
		gs_rpc_client_wait(l->client, 50000000);
	return NULL;
}

/* --- life --- */

int gs_link_machine_id(char *out, size_t bytes)
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

static int take_names(struct gs_link *l, const struct gs_link_options *o, struct gs_err *err)
{
	snprintf(l->instance, sizeof(l->instance), "%s", o->instance ? o->instance : "");
	take_title(l->title, sizeof(l->title), o->title ? o->title : "");
	snprintf(l->token, sizeof(l->token), "%s", o->token ? o->token : "");
	if (o->hostname)
		snprintf(l->hostname, sizeof(l->hostname), "%s", o->hostname);
	else
		(void)gethostname(l->hostname, sizeof(l->hostname) - 1);
	if (o->machine_id) {
		snprintf(l->machine_id, sizeof(l->machine_id), "%s", o->machine_id);
		return 0;
	}
	if (gs_link_machine_id(l->machine_id, sizeof(l->machine_id)) < 0)
		return gs_err_set(err, -ENOENT,
				  "this machine has no number of its own (/etc/machine-id): run "
				  "systemd-machine-id-setup or give --machine-id");
	return 0;
}

static int open_client(struct gs_link *l, const struct gs_link_options *o, struct gs_err *err)
{
	struct gs_rpc_client_options c = {
		.size = sizeof(c),
		.addresses = o->addresses,
		.n_addresses = o->n_addresses,
		.tls = o->tls,
		.tls_ca = o->tls_ca,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.server_name = o->server_name,
		.token = l->token[0] ? l->token : NULL,
		.events = {.connected = on_connected, .disconnected = on_disconnected},
		.ctx = l,
		.max_queue_bytes = 2 * LINK_FLIGHT_BYTES + (8u << 20),
	};

	return gs_rpc_client_new(&c, &l->client, err);
}

static void free_link(struct gs_link **link)
{
	struct gs_link *l = *link;

	gs_rpc_client_free(&l->client);
	gs_spool_close(&l->spool);
	gs_buf_fini(&l->packed);
	gs_buf_fini(&l->out);
	gs_close_p(&l->wake_fd);
	pthread_mutex_destroy(&l->lock);
	gs_free_p(link);
}

int gs_link_start(const struct gs_link_options *options, struct gs_link **ret_link,
		  struct gs_err *err)
{
	struct gs_spool_options spool = {.size = sizeof(spool),
					 .dir = options->spool_dir,
					 .max_bytes = options->spool_max_bytes,
					 .max_memory_bytes = options->memory_max_bytes,
					 .keep_oldest = options->keep_oldest};
	struct gs_link *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&l->lock, NULL);
	l->o = *options;
	l->out = GS_BUF_INIT(GS_SPOOL_BATCH_MAX + 65536);
	l->packed = GS_BUF_INIT(2 * GS_SPOOL_BATCH_MAX);
	l->protocol = &link_node;
	if (getrandom(&l->run, sizeof(l->run), 0) < 0)
		l->run = gs_clock_boot_ns();
	l->retry_ns = UINT64_MAX;
	l->stats.state = GS_LINK_CONNECTING;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->wake_fd < 0 ? gs_err_set(err, -errno, "eventfd: %s", strerror(errno)) : 0;
	if (r == 0)
		r = take_names(l, options, err);
	if (r == 0)
		r = gs_spool_open(&spool, &l->spool, err);
	if (r == 0)
		r = open_client(l, options, err);
	if (r == 0) {
		r = -pthread_create(&l->thread, NULL, run, l);
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

int gs_link_push(struct gs_link *link, const struct gs_batch *records,
		 const struct gs_link_span *span)
{
	struct gs_spool_batch b = {
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
	if (records->bytes > GS_SPOOL_BATCH_MAX) { /* no head takes it: counted as lost there */
		b.raw_bytes = UINT32_MAX;
		r = gs_spool_put(link->spool, &b);
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
		r = gs_spool_put(link->spool, &b);
	}
	pthread_mutex_unlock(&link->lock);
	wake(link);
	return r;
}

void gs_link_stats(struct gs_link *link, struct gs_link_stats *ret_stats)
{
	struct gs_spool_stats st;
	uint64_t now = gs_clock_mono_ns(), retry_ns;

	pthread_mutex_lock(&link->lock);
	gs_spool_stats(link->spool, &st);
	*ret_stats = link->stats;
	retry_ns = link->retry_ns;
	pthread_mutex_unlock(&link->lock);
	ret_stats->retry_in_ns =
		ret_stats->state == GS_LINK_WAITING && retry_ns > now && retry_ns != UINT64_MAX
			? retry_ns - now
			: 0;
	ret_stats->waiting_batches = st.n_batches;
	ret_stats->waiting_samples = st.n_samples;
	ret_stats->waiting_bytes = st.bytes;
	ret_stats->memory_samples = st.memory_samples;
	ret_stats->lost_batches = st.lost_batches;
	ret_stats->lost_samples = st.lost_samples;
	ret_stats->spool_error = st.disk_error;
}

uint64_t gs_link_drain(struct gs_link *l, uint64_t drain_ns, bool ended)
{
	struct gs_spool_stats st;

	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	l->ended = ended;
	l->drain_until_ns = gs_clock_mono_ns() + drain_ns;
	pthread_mutex_unlock(&l->lock);
	wake(l);
	if (!l->joined)
		pthread_join(l->thread, NULL);
	l->joined = true;
	gs_spool_save(l->spool);
	gs_spool_stats(l->spool, &st);
	return st.n_samples;
}

uint64_t gs_link_stop(struct gs_link **link, uint64_t drain_ns, bool ended)
{
	uint64_t left;

	if (!*link)
		return 0;
	left = gs_link_drain(*link, drain_ns, ended);
	free_link(link);
	return left;
}
