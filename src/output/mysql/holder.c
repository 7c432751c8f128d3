/* The holder's side: one sender, which has the password and one connection. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "output/mysql/mysql_int.h"

#define HELLO_NS     60000000000ull /* the library and what it needs from a slow disk */
#define REQUEST_NS   90000000000ull /* more than the library's own limits of time add up to */
#define ANSWER_MAX   4096
#define CA_MAX_BYTES (4u << 20)

void mysql_end_sender(struct mysql_holder *h)
{
	(void)gs_sandbox_end_child(&h->process);
	h->is_connected = false;
}

static void end_lost(struct mysql_holder *h, int r, struct mysql_result *ret)
{
	char why[80];

	ret->outcome = MYSQL_GONE;
	h->is_connected = false;
	if (r == -ECANCELED) {
		(void)gs_sandbox_end_child(&h->process);
		snprintf(ret->text, sizeof(ret->text), "stopped");
		return;
	}
	snprintf(ret->text, sizeof(ret->text), "the process that sends %s",
		 gs_sender_lost(r, gs_sandbox_end_child(&h->process), why, sizeof(why)));
}

int mysql_start_sender(struct mysql_holder *h, struct gs_err *err)
{
	const struct gs_sender_wait wait = {.until_ns = gs_clock_mono_ns() + HELLO_NS};
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(ANSWER_MAX);
	struct mysql_result lost = {0};
	const char *why_not = "";
	uint32_t kind, held;
	int r;

	if (h->process.pid)
		return 0;
	h->is_connected = false;
	r = gs_sender_start(MYSQL_WORK, NULL, 0, &h->process, err);
	if (r < 0)
		return r;
	r = gs_sender_receive(h->process.fd, &in, in.max_bytes, &kind, NULL, &wait);
	if (r == 0) {
		struct gs_wire_in w = GS_WIRE_IN(in.data, in.bytes);

		held = gs_wire_u32(&w);
		why_not = gs_wire_line(&w);
		if (kind != MYSQL_HELLO || !gs_wire_is_done(&w) ||
		    !gs_sandbox_trusts_child("sends", held, GS_LOG_HTTP))
			r = -EBADMSG;
	}
	if (r < 0) {
		end_lost(h, r, &lost);
		return gs_err_set(err, r, "%s", lost.text);
	}
	if (why_not && !why_not[0])
		return 0;
	mysql_end_sender(h);
	return gs_err_set(err, -ENOENT, "%s", why_not ? why_not : "no libmariadb");
}

static void exchange_messages(struct mysql_holder *h, struct gs_wire_out *out, int pass_fd,
			      const atomic_bool *stop, struct mysql_result *ret)
{
	const struct gs_sender_wait wait = {.until_ns = gs_clock_mono_ns() + REQUEST_NS,
					    .stop = stop};
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(ANSWER_MAX);
	const char *text = NULL;
	uint32_t kind, outcome = MYSQL_OUTCOMES;
	int r = out->r < 0 ? out->r : gs_sender_send(h->process.fd, out->buf, pass_fd, &wait);

	*ret = (struct mysql_result){0};
	/* It may have said something before it ended. */
	if (r == 0 || r == -EPIPE)
		r = gs_sender_receive(h->process.fd, &in, in.max_bytes, &kind, NULL, &wait);
	if (r == 0) {
		struct gs_wire_in w = GS_WIRE_IN(in.data, in.bytes);

		outcome = gs_wire_u8(&w);
		ret->n_rows = gs_wire_u64(&w);
		text = gs_wire_line(&w);
		if (kind != MYSQL_RESULT || !gs_wire_is_done(&w) || !text ||
		    outcome >= MYSQL_OUTCOMES)
			r = -EBADMSG;
	}
	if (r < 0) {
		end_lost(h, r, ret);
		return;
	}
	ret->outcome = (enum mysql_outcome)outcome;
	snprintf(ret->text, sizeof(ret->text), "%s", text);
	if (ret->outcome == MYSQL_GONE)
		h->is_connected = false;
}

/* The file's content without its name, where one is wanted: a descriptor, or -1. */
static int open_authorities(const char *path, int *ret_fd, struct gs_err *err)
{
	GS_CLOSE int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	GS_CLOSE int to = memfd_create("authorities", MFD_CLOEXEC);
	char part[16384];
	size_t all = 0;
	ssize_t n = 0;

	if (from < 0 || to < 0)
		return gs_err_set(err, -errno, "cannot read the certificates %s: %s", path,
				  strerror(errno));
	while ((n = read(from, part, sizeof(part))) > 0 && all <= CA_MAX_BYTES) {
		if (write(to, part, (size_t)n) != n)
			return gs_err_set(err, -ENOMEM, "no memory for the certificates %s", path);
		all += (size_t)n;
	}
	if (n != 0)
		return gs_err_set(err, n < 0 ? -errno : -EFBIG,
				  "cannot read the certificates %s: %s", path,
				  n < 0 ? strerror(errno) : "they are too large");
	*ret_fd = gs_take_fd(&to);
	return 0;
}

static void connect_server(struct mysql_holder *h, const struct mysql_target *t,
			   const char *ca_file, const atomic_bool *stop, struct mysql_result *ret)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(ANSWER_MAX);
	struct gs_wire_out out = {&buf, 0};
	GS_CLOSE int ca = -1;
	struct gs_err err = {{0}};
	int r = mysql_start_sender(h, &err);
	size_t at;

	if (r == 0 && ca_file[0])
		r = open_authorities(ca_file, &ca, &err);
	if (r < 0) {
		*ret = (struct mysql_result){.outcome = MYSQL_GONE};
		snprintf(ret->text, sizeof(ret->text), "%s", gs_err_text(&err, r));
		return;
	}
	at = gs_sender_begin(&out);
	gs_wire_put_text(&out, t->host);
	gs_wire_put_text(&out, t->socket);
	gs_wire_put_u16(&out, t->port);
	gs_wire_put_text(&out, t->database);
	gs_wire_put_text(&out, t->user);
	gs_wire_put_text(&out, t->password);
	gs_wire_put_u8(&out, t->tls);
	gs_wire_put_u8(&out, ca >= 0);
	gs_sender_close(&out, at, MYSQL_CONNECT);
	exchange_messages(h, &out, ca, stop, ret);
	h->is_connected = ret->outcome == MYSQL_DONE;
}

/* put makes the message, again for each attempt: a message is wiped when it has been sent. */
static void ask_server(struct mysql_holder *h, const struct mysql_target *target,
		       const char *ca_file, void (*put)(struct gs_wire_out *out, const void *what),
		       const void *what, const atomic_bool *stop, struct mysql_result *ret)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(GS_SENDER_MAX_BYTES);

	for (bool is_fresh = false; !is_fresh;) {
		struct gs_wire_out out = {&buf, 0};

		if (!h->is_connected) {
			is_fresh = true;
			connect_server(h, target, ca_file, stop, ret);
			if (ret->outcome != MYSQL_DONE)
				return;
		}
		put(&out, what);
		exchange_messages(h, &out, -1, stop, ret);
		/* Servers close connections that are idle for long. */
		if (ret->outcome != MYSQL_GONE || !h->process.pid)
			return;
	}
}

static void put_store(struct gs_wire_out *out, const void *what)
{
	const struct mysql_batch *b = what;
	size_t at = gs_sender_begin(out);

	gs_wire_put_u64(out, b->stream);
	gs_wire_put_u64(out, b->seq);
	gs_wire_put_u64(out, b->n_samples);
	gs_wire_put_u64(out, b->n_lost_samples);
	gs_wire_put_text(out, b->node);
	gs_wire_put_u32(out, (uint32_t)b->bytes);
	gs_wire_put(out, b->rows, b->bytes);
	gs_sender_close(out, at, MYSQL_STORE);
}

static void put_delete(struct gs_wire_out *out, const void *what)
{
	const struct mysql_delete *d = what;
	size_t at = gs_sender_begin(out);

	gs_wire_put_text(out, d->table);
	gs_wire_put_text(out, d->time_column);
	gs_wire_put_text(out, d->node);
	gs_wire_put_text(out, d->before);
	gs_wire_put_u32(out, d->n_max);
	gs_sender_close(out, at, MYSQL_DELETE);
}

void mysql_ask_store(struct mysql_holder *h, const struct mysql_target *target, const char *ca_file,
		     const struct mysql_batch *batch, const atomic_bool *stop,
		     struct mysql_result *ret)
{
	ask_server(h, target, ca_file, put_store, batch, stop, ret);
}

void mysql_ask_delete(struct mysql_holder *h, const struct mysql_target *target,
		      const char *ca_file, const struct mysql_delete *rows, const atomic_bool *stop,
		      struct mysql_result *ret)
{
	ask_server(h, target, ca_file, put_delete, rows, stop, ret);
}
