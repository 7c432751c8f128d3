/* The sender's side: one request after another, by libcurl. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "net/http_client/http_client_int.h"

static const struct gs_sender_wait forever = {.until_ns = UINT64_MAX};

static void send_out(struct gs_wire_out *out)
{
	if (out->r < 0 || gs_sender_send(GS_SENDER_SOCKET, out->buf, -1, &forever) < 0)
		_exit(0); /* the holder is gone, or would wait for nothing */
}

struct answer {
	uint64_t left; /* that the holder wants */
};

static int pass_answer(void *ctx, const void *data, size_t bytes)
{
	struct answer *a = ctx;
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(FETCH_DATA_MAX + 64);

	if (bytes > a->left)
		bytes = a->left;
	a->left -= bytes;
	while (bytes) {
		size_t n = bytes < FETCH_DATA_MAX ? bytes : FETCH_DATA_MAX, at;
		struct gs_wire_out out = {&buf, 0};

		at = gs_sender_begin(&out);
		gs_wire_put(&out, data, n);
		gs_sender_close(&out, at, FETCH_DATA);
		send_out(&out);
		data = (const char *)data + n;
		bytes -= n;
	}
	return 0;
}

/* False: the holder never says that. */
static bool serve_one(uint32_t kind, struct gs_wire_in *in, const char *ca_file,
		      struct http_client_result *ret)
{
	static const atomic_bool never;
	struct gs_http_client_http http;
	struct gs_http_client_mail mail;
	struct answer answer;

	if (kind == FETCH_HTTP && http_client_take_http(in, &http, &answer.left)) {
		http.ca_file = ca_file;
		http.stop = &never; /* then the holder ends this process */
		http.take = pass_answer;
		http.take_ctx = &answer;
		http_client_perform_http(&http, ret);
		return true;
	}
	if (kind == FETCH_MAIL && http_client_take_mail(in, &mail)) {
		mail.ca_file = ca_file;
		mail.stop = &never;
		http_client_perform_mail(&mail, ret);
		return true;
	}
	return false;
}

int gs_http_client_sender_main(void)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(65536);
	struct gs_wire_out out = {&buf, 0};
	/* Before: it loads libraries, reads their configuration, and has not read a byte of others
	 * by then. */
	const char *why_not = http_client_load_curl();
	size_t at = gs_sender_begin(&out);

	gs_wire_put_u32(&out, gs_sender_confine());
	gs_wire_put_text(&out, why_not);
	gs_sender_close(&out, at, FETCH_HELLO);
	send_out(&out);
	for (;;) {
		struct http_client_result result = {0};
		struct gs_wire_in w;
		char ca_file[64] = "";
		uint32_t kind;
		int fd;

		if (gs_sender_receive(GS_SENDER_SOCKET, &in, in.max_bytes, &kind, &fd, &forever) <
		    0)
			_exit(0);
		w = GS_WIRE_IN(in.data, in.bytes);
		if (fd >= 0) /* memory: it has no other name */
			snprintf(ca_file, sizeof(ca_file), "/proc/self/fd/%d", fd);
		if (!serve_one(kind, &w, ca_file, &result))
			_exit(1);
		gs_close_p(&fd);
		explicit_bzero(in.data, in.bytes);
		at = gs_sender_begin(&out);
		http_client_put_result(&out, &result);
		gs_sender_close(&out, at, FETCH_DONE);
		send_out(&out);
	}
}
