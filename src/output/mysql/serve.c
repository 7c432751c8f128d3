/* The sender's side: one request after another, by libmariadb. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "output/mysql/mysql_int.h"

static const struct gs_sender_wait forever = {.until_ns = UINT64_MAX};

static void send_out(struct gs_wire_out *out)
{
	if (out->r < 0 || gs_sender_send(GS_SENDER_SOCKET, out->buf, -1, &forever) < 0)
		_exit(0); /* the holder is gone, or would wait for nothing */
}

static bool serve_connect(struct gs_wire_in *in, int fd, struct mysql_result *ret)
{
	struct mysql_target t = {.host = gs_wire_text(in), .socket = gs_wire_text(in)};
	char ca_file[64] = "";

	t.port = gs_wire_u16(in);
	t.database = gs_wire_text(in);
	t.user = gs_wire_text(in);
	t.password = gs_wire_text(in);
	t.tls = gs_wire_u8(in);
	t.has_authorities = gs_wire_u8(in);
	if (!gs_wire_is_done(in) || !t.database || !t.user || !t.host == !t.socket ||
	    t.has_authorities != (fd >= 0))
		return false;
	if (fd >= 0) /* memory: it has no other name */
		snprintf(ca_file, sizeof(ca_file), "/proc/self/fd/%d", fd);
	mysql_connect_server(&t, ca_file, ret);
	return true;
}

static bool serve_store(struct gs_wire_in *in, struct mysql_result *ret)
{
	struct mysql_batch b = {.stream = gs_wire_u64(in)};

	b.seq = gs_wire_u64(in);
	b.n_samples = gs_wire_u64(in);
	b.n_lost_samples = gs_wire_u64(in);
	b.node = gs_wire_text(in);
	b.bytes = gs_wire_u32(in);
	b.rows = gs_wire_bytes(in, b.bytes);
	if (!gs_wire_is_done(in) || !b.node || !b.rows)
		return false;
	mysql_store_batch(&b, ret);
	return true;
}

static bool serve_delete(struct gs_wire_in *in, struct mysql_result *ret)
{
	struct mysql_delete d = {.table = gs_wire_text(in)};

	d.time_column = gs_wire_text(in);
	d.node = gs_wire_text(in);
	d.before = gs_wire_text(in);
	d.n_max = gs_wire_u32(in);
	if (!gs_wire_is_done(in) || !d.table || !d.time_column || !d.node || !d.before)
		return false;
	mysql_delete_rows(&d, ret);
	return true;
}

int gs_mysql_sender_main(void)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf buf = GS_BUF_INIT(4096);
	struct gs_wire_out out = {&buf, 0};
	/* Before: it loads libraries, and has not read a byte of others by then. */
	const char *why_not = mysql_load_library();
	size_t at = gs_sender_begin(&out);

	gs_wire_put_u32(&out, gs_sender_confine());
	gs_wire_put_text(&out, why_not);
	gs_sender_close(&out, at, MYSQL_HELLO);
	send_out(&out);
	for (;;) {
		struct mysql_result result = {0};
		struct gs_wire_in w;
		bool is_fit;
		uint32_t kind;
		int fd;

		if (gs_sender_receive(GS_SENDER_SOCKET, &in, in.max_bytes, &kind, &fd, &forever) <
		    0)
			_exit(0);
		w = GS_WIRE_IN(in.data, in.bytes);
		is_fit = kind == MYSQL_CONNECT  ? serve_connect(&w, fd, &result)
			 : kind == MYSQL_STORE  ? serve_store(&w, &result)
			 : kind == MYSQL_DELETE ? serve_delete(&w, &result)
						: false;
		if (!is_fit) /* the holder never says that */
			_exit(1);
		gs_close_p(&fd);
		explicit_bzero(in.data, in.bytes); /* a password may have been in it */
		at = gs_sender_begin(&out);
		gs_wire_put_u8(&out, (uint8_t)result.outcome);
		gs_wire_put_u64(&out, result.n_rows);
		gs_wire_put_text(&out, result.text);
		gs_sender_close(&out, at, MYSQL_RESULT);
		send_out(&out);
	}
}
