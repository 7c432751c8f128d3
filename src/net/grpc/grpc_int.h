/* Between the files of the room. */
#ifndef GS_NET_GRPC_GRPC_INT_H
#define GS_NET_GRPC_GRPC_INT_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/buf.h"
#include "core/base/timer.h"
#include "net/grpc/grpc_client.h"
#include "net/tls/wire.h"

/* --- text.c: what stands in headers --- */

/* Percent-encoded as grpc-message wants it; what does not fit is cut at a whole character. */
void gs_grpc_percent_encode(const char *text, char *out, size_t bytes);
/* The reverse; what is no valid escape stays as it is. */
void gs_grpc_percent_decode(const char *text, size_t text_bytes, char *out, size_t bytes);

/* "100m" → ns; false: it is none. Saturates. */
bool gs_grpc_timeout_parse(const char *text, uint64_t *ret_ns);
#define GS_GRPC_TIMEOUT_MAX 12
void gs_grpc_timeout_format(uint64_t ns, char out[GS_GRPC_TIMEOUT_MAX]);

size_t gs_grpc_bin_encode(const void *data, size_t bytes, char *out); /* 4/3 of bytes + 4 */

/* Whether a peer's program may use this name and value as metadata. */
bool gs_grpc_name_valid(const char *name);
bool gs_grpc_value_valid(const char *value, size_t bytes);

/* The status of an HTTP status or HTTP/2 error in a place where none of gRPC came. */
enum gs_grpc_status gs_grpc_status_of_http(int http_status);
enum gs_grpc_status gs_grpc_status_of_h2(uint32_t error_code);

/* --- metadata.c: names and values that came or shall go --- */

struct gs_grpc_table {
	struct gs_buf text; /* name\0value\0 ... */
	uint32_t *offset;   /* of names, then values, in turn; owned */
	size_t n, room;     /* pairs */
	size_t bytes;       /* as HTTP/2 counts them: + 32 each */
	size_t max_bytes;
};

/* 0, -ENOBUFS (max_bytes) or -ENOMEM. */
int gs_grpc_table_add(struct gs_grpc_table *table, const void *name, size_t name_bytes,
		      const void *value, size_t value_bytes);
/* Check name and value and encode "-bin" values. Also -EINVAL. */
int gs_grpc_table_add_own(struct gs_grpc_table *table, const char *name, const void *value,
			  size_t bytes);
const char *gs_grpc_table_get(const struct gs_grpc_table *table, const char *name);
bool gs_grpc_table_at(const struct gs_grpc_table *table, size_t i, struct gs_grpc_metadata *ret);
void gs_grpc_table_fini(struct gs_grpc_table *table);

/* --- frame.c: messages in and out of runs of bytes --- */

#define GS_GRPC_HEAD_BYTES 5 /* compressed flag, length of 4 bytes, big endian */

/* How much memory all messages that are not whole may take, together. */
struct gs_grpc_held {
	_Atomic uint64_t bytes;
	uint64_t max_bytes;
};

struct gs_grpc_inbox {
	struct gs_grpc_held *held;
	size_t max_message_bytes;
	uint8_t head[GS_GRPC_HEAD_BYTES];
	unsigned n_head;
	size_t message_bytes;  /* that the head says */
	struct gs_buf partial; /* of the message that is not whole */
	struct gs_buf waiting; /* came while it was not wanted */
	size_t waiting_offset;
	const uint8_t *lent; /* the chunk that has just come */
	size_t lent_bytes;
	size_t held_bytes; /* our part of held */
	bool failed;
};

void gs_grpc_inbox_init(struct gs_grpc_inbox *inbox, struct gs_grpc_held *held,
			size_t max_message_bytes);
void gs_grpc_inbox_fini(struct gs_grpc_inbox *inbox);
/* Lend a chunk, until gs_grpc_inbox_keep(). */
int gs_grpc_inbox_put(struct gs_grpc_inbox *inbox, const uint8_t *data, size_t bytes);
/* The next whole message, lent until the next call: 1; 0: none is whole; -EMSGSIZE; -EOPNOTSUPP:
 * compressed; -EPROTO: no such flag; -ENOBUFS: held; -ENOMEM. ret_used: bytes of the stream used
 * up, also with 0. */
int gs_grpc_inbox_next(struct gs_grpc_inbox *inbox, const void **ret_data, size_t *ret_bytes,
		       size_t *ret_used);
/* Copy what is left of the lent chunk. 0, -ENOBUFS or -ENOMEM. */
int gs_grpc_inbox_keep(struct gs_grpc_inbox *inbox);
/* Nothing has begun that is not whole. */
bool gs_grpc_inbox_empty(const struct gs_grpc_inbox *inbox);

struct gs_grpc_outbox {
	struct gs_grpc_out *first, *last;
	size_t offset; /* of the first */
	size_t bytes, messages;
};

/* 0 or -ENOMEM; max_bytes: -ENOBUFS unless empty. -EMSGSIZE: more than the head can say. */
int gs_grpc_outbox_put(struct gs_grpc_outbox *box, const void *data, size_t bytes,
		       size_t max_bytes);
/* Take at most bytes; ret_messages, ret_message_bytes: those that are now wholly taken. */
size_t gs_grpc_outbox_take(struct gs_grpc_outbox *box, uint8_t *out, size_t bytes,
			   uint64_t *ret_messages, uint64_t *ret_message_bytes);
void gs_grpc_outbox_fini(struct gs_grpc_outbox *box);

/* --- tls.c: what of OpenSSL the room knows --- */

struct gs_grpc_tls;
struct gs_grpc_tls_options {
	const char *ca, *cert, *key;
	bool server;
};

int gs_grpc_tls_open(const struct gs_grpc_tls_options *options, struct gs_grpc_tls **ret_tls,
		     struct gs_err *err);
void gs_grpc_tls_close(struct gs_grpc_tls **tls);

/* tls may be NULL. server_name: of clients. 0 or -ENOMEM. */
int gs_grpc_wire_start(struct gs_tls_wire *wire, const struct gs_grpc_tls *tls,
		       const char *server_name);
/* 0, -EAGAIN; -EPROTONOSUPPORT: TLS, but not for HTTP/2; other. */
int gs_grpc_wire_handshake(struct gs_tls_wire *wire);
/* Common name in the peer's certificate; "": none. */
void gs_grpc_wire_identity(const struct gs_tls_wire *wire, char *out, size_t bytes);
/* All names of the certificate, with commas; identity: what the function above wrote. */
void gs_grpc_wire_names(const struct gs_tls_wire *wire, const char *identity, char *out,
			size_t bytes);

/* --- names of headers --- */

/* A name and value for nghttp2; both must live until the frame is packed (nghttp2 copies them). */
static inline nghttp2_nv gs_grpc_nv(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, __builtin_strlen(name),
			    __builtin_strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* One run of frames out of an nghttp2 session, and into out, until it holds up_to bytes. 0 or a
 * negative errno. */
int gs_grpc_pull(nghttp2_session *h2, struct gs_buf *out, size_t up_to);

#endif
