/* The sender's side of the socket to the holder. What is asked is waited for: the holder has a
 * thread for it. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "net/uplink/uplink_int.h"

#define REPLY_MAX (GS_QUEUE_BATCH_MAX + 4096)

static const struct gs_sender_wait forever = {.until_ns = UINT64_MAX};

static void send_out(struct gs_wire_out *out)
{
	if (out->r < 0 || gs_sender_send(GS_SENDER_SOCKET, out->buf, -1, &forever) < 0)
		_exit(0); /* the holder is gone, or would wait for nothing */
}

/* The next message; NEWS and PING are taken here. */
static enum gs_uplink_message next_message(struct gs_uplink_line *l, int *ret_fd)
{
	uint32_t kind;
	struct gs_wire_in in;

	if (gs_sender_receive(GS_SENDER_SOCKET, &l->in, REPLY_MAX, &kind, ret_fd, &forever) < 0)
		_exit(0);
	in = GS_WIRE_IN(l->in.data, l->in.bytes);
	if (kind == LINK_PING)
		l->pinged = true;
	if (kind == LINK_NEWS) {
		l->news = (struct gs_uplink_news){.stopping = gs_wire_u8(&in)};
		l->news.ended = gs_wire_u8(&in);
		l->news.drain_until_ns = gs_wire_u64(&in);
	}
	return (enum gs_uplink_message)kind;
}

static int wait_reply(struct gs_uplink_line *l, struct gs_uplink_reply *ret, int *ret_fd)
{
	struct gs_wire_in in;
	enum gs_uplink_message said;

	while ((said = next_message(l, ret_fd)) != LINK_REPLY)
		if (said != LINK_NEWS && said != LINK_PING)
			_exit(1);
	in = GS_WIRE_IN(l->in.data, l->in.bytes);
	if (!uplink_take_reply(&in, ret))
		_exit(1);
	return ret->r;
}

static int ask_holder(struct gs_uplink_line *l, enum gs_uplink_message what, uint64_t number,
		      struct gs_uplink_reply *ret, int *ret_fd)
{
	struct gs_wire_out out = {&l->ask, 0};
	size_t at = gs_sender_begin(&out);

	gs_wire_put_u64(&out, number);
	gs_sender_close(&out, at, what);
	send_out(&out);
	return wait_reply(l, ret, ret_fd);
}

int uplink_ask_question(struct gs_uplink_line *l, const struct gs_uplink_question *asked,
			struct gs_uplink_reply *ret)
{
	struct gs_wire_out out = {&l->ask, 0};
	size_t at = gs_sender_begin(&out);

	uplink_put_question(&out, asked);
	gs_sender_close(&out, at, LINK_QUESTION);
	send_out(&out);
	return wait_reply(l, ret, NULL);
}

int gs_uplink_ask(struct gs_uplink_line *l, enum gs_uplink_message what, uint64_t number,
		  struct gs_uplink_reply *ret)
{
	return ask_holder(l, what, number, ret, NULL);
}

int uplink_ask_socket(void *line, size_t address)
{
	struct gs_uplink_reply reply;
	int fd = -1, r = ask_holder(line, LINK_CONNECT, address, &reply, &fd);

	if (r == 0 && fd < 0)
		return -ECONNREFUSED;
	return r < 0 ? r : fd;
}

void uplink_report(struct gs_uplink_line *l, enum gs_uplink_message what)
{
	struct gs_wire_out out = {&l->ask, 0};
	size_t at = gs_sender_begin(&out);

	if (what == LINK_STATE) {
		uplink_put_state(&out, &l->state);
		l->reported = l->state;
		l->pinged = false;
	}
	gs_sender_close(&out, at, what);
	send_out(&out);
}

void uplink_report_text(struct gs_uplink_line *l, const char *text)
{
	struct gs_wire_out out = {&l->ask, 0};
	size_t at = gs_sender_begin(&out);

	gs_wire_put_text(&out, text);
	gs_sender_close(&out, at, LINK_SAY);
	send_out(&out);
}

void gs_uplink_report_config(struct gs_uplink_line *l, const struct gs_uplink_config *desired)
{
	struct gs_wire_out out = {&l->ask, 0};
	size_t at = gs_sender_begin(&out);

	uplink_put_config(&out, desired);
	gs_sender_close(&out, at, LINK_CONFIG);
	send_out(&out);
}

void uplink_listen(struct gs_uplink_line *l)
{
	struct pollfd p = {GS_SENDER_SOCKET, POLLIN, 0};
	enum gs_uplink_message said;

	while (poll(&p, 1, 0) > 0) {
		said = next_message(l, NULL);
		if (said != LINK_NEWS && said != LINK_PING)
			_exit(1);
	}
}
