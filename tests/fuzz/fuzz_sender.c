/*
 * What a process that talks to the network says to the one that started it, and the reverse: a
 * sender that a server has taken over may say anything. The first byte chooses what reads the rest.
 * What is accepted keeps its bounds, and is the same once written and read again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sender/sender.h"
#include "net/http_client/http_client_int.h"
#include "net/uplink/uplink_int.h"
#include "replay_main.h"

#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

#define STREAM_MAX 60000 /* what a socket takes at once */

/* The bytes as a stream: no message is longer than allowed, none is made of what did not come. */
static void read_stream(const uint8_t *data, size_t bytes)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(1u << 20);
	const struct gs_sender_wait wait = {.until_ns = UINT64_MAX};
	size_t got = 0;
	uint32_t kind;
	int ends[2], fd;

	if (bytes > STREAM_MAX)
		return;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK(!bytes || write(ends[0], data, bytes) == (ssize_t)bytes);
	close(ends[0]);
	while (gs_sender_receive(ends[1], &in, LINK_MESSAGE_MAX, &kind, &fd, &wait) == 0) {
		got += 2 * sizeof(uint32_t) + in.bytes;
		CHECK(in.bytes <= LINK_MESSAGE_MAX && got <= bytes && fd < 0);
	}
	close(ends[1]);
}

/* Is the written form the one that was read, as far as that is the only one? */
static void check_same(const struct gs_wire_out *out, const uint8_t *data, size_t bytes)
{
	CHECK(out->r == 0 && out->buf->bytes == bytes);
	CHECK(!bytes || memcmp(out->buf->data, data, bytes) == 0);
}

static void read_http(struct gs_wire_in *in, struct gs_wire_out *out)
{
	struct gs_http_client_http first, second;
	struct gs_wire_in again;
	uint64_t most, most_again;

	if (!http_client_take_http(in, &first, &most))
		return;
	http_client_put_http(out, &first, most);
	again = GS_WIRE_IN(out->buf->data, out->buf->bytes);
	CHECK(out->r == 0 && http_client_take_http(&again, &second, &most_again) &&
	      most == most_again);
	CHECK(strcmp(first.url, second.url) == 0 && first.timeout_ns == second.timeout_ns);
	CHECK(!first.body == !second.body && first.grpc == second.grpc);
	CHECK(!first.body ||
	      (first.bytes == second.bytes && memcmp(first.body, second.body, first.bytes) == 0));
}

static void read_mail(struct gs_wire_in *in, struct gs_wire_out *out)
{
	struct gs_http_client_mail first, second;
	struct gs_wire_in again;

	if (!http_client_take_mail(in, &first))
		return;
	http_client_put_mail(out, &first);
	again = GS_WIRE_IN(out->buf->data, out->buf->bytes);
	CHECK(out->r == 0 && http_client_take_mail(&again, &second));
	CHECK(strcmp(first.recipients, second.recipients) == 0 && first.bytes == second.bytes);
}

static void read_result(struct gs_wire_in *in, struct gs_wire_out *out)
{
	struct http_client_result first, second;
	struct gs_wire_in again;

	if (!http_client_take_result(in, &first))
		return;
	CHECK(first.r <= 0 && first.r > -4096 && first.status >= 0 && first.status < 1000);
	http_client_put_result(out, &first);
	again = GS_WIRE_IN(out->buf->data, out->buf->bytes);
	CHECK(out->r == 0 && http_client_take_result(&again, &second));
	CHECK(first.r == second.r && first.status == second.status &&
	      first.retry_after_ns == second.retry_after_ns &&
	      strcmp(first.err.text, second.err.text) == 0);
}

static void read_reply(struct gs_wire_in *in, struct gs_wire_out *out, const uint8_t *data,
		       size_t bytes)
{
	struct gs_uplink_reply reply = {0};

	if (!uplink_take_reply(in, &reply))
		return;
	uplink_put_reply(out, &reply);
	check_same(out, data, bytes);
}

static void read_state(struct gs_wire_in *in, struct gs_wire_out *out)
{
	const struct gs_uplink_line_state before = {.connects = 1, .sent_bytes = 1000};
	struct gs_uplink_line_state first, second;
	struct gs_wire_in again;

	if (!uplink_take_state(in, &before, &first))
		return;
	CHECK(first.connects >= 1 && first.sent_bytes >= 1000);
	CHECK(strlen(first.head) < sizeof(first.head));
	uplink_put_state(out, &first);
	again = GS_WIRE_IN(out->buf->data, out->buf->bytes);
	CHECK(out->r == 0 && uplink_take_state(&again, &before, &second));
	CHECK(strcmp(first.trouble, second.trouble) == 0 && first.retry_ns == second.retry_ns);
}

static void read_wish(struct gs_wire_in *in)
{
	struct gs_uplink_config desired;

	CHECK(!uplink_take_config(in, &desired) || desired.interval_ns <= UPLINK_INTERVAL_MAX_NS);
}

static void read_question(struct gs_wire_in *in, struct gs_wire_out *out, const uint8_t *data,
			  size_t bytes)
{
	struct gs_uplink_question asked;

	if (!uplink_take_question(in, &asked))
		return;
	CHECK(asked.max_bytes <= GS_UPLINK_ANSWER_MAX && strlen(asked.name) < sizeof(asked.name));
	uplink_put_question(out, &asked);
	check_same(out, data, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	struct gs_wire_out out = {&buf, 0};
	GS_FREE uint8_t *copy = malloc(bytes + 1);
	struct gs_wire_in in;
	uint8_t what;

	CHECK(copy);
	if (!bytes)
		return 0;
	what = *data++;
	memcpy(copy, data, --bytes);
	in = GS_WIRE_IN(copy, bytes);
	switch (what % 8) {
	case 0:
		read_stream(data, bytes);
		break;
	case 1:
		read_http(&in, &out);
		break;
	case 2:
		read_mail(&in, &out);
		break;
	case 3:
		read_result(&in, &out);
		break;
	case 4:
		read_reply(&in, &out, data, bytes);
		break;
	case 5:
		read_state(&in, &out);
		break;
	case 6:
		read_wish(&in);
		break;
	case 7:
		read_question(&in, &out, data, bytes);
		break;
	}
	return 0;
}
