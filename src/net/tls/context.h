/*
 * A context of OpenSSL as gpuscope's servers and clients have it: TLS 1.2 or newer, files in PEM,
 * and each thing that can be wrong with one of them in words. OpenSSL is linked statically into the
 * release build, which knows no other TLS.
 */
#ifndef GS_NET_TLS_CONTEXT_H
#define GS_NET_TLS_CONTEXT_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "core/base/err.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/* Of a server or a client. Freed by SSL_CTX_free(); NULL: no memory. */
struct ssl_ctx_st *gs_tls_context_new(bool server);

/* Our own certificate (with those above it) and its key, which has no passphrase and which not
 * everybody may read. A negative errno with err. */
int gs_tls_context_own(struct ssl_ctx_st *ctx, const char *cert, const char *key,
		       struct gs_err *err);

/* The same of what these files hold: a process that opens no files can be sent that. The names are
 * for messages. */
int gs_tls_context_own_bytes(struct ssl_ctx_st *ctx, const struct gs_buf *cert_file,
			     const struct gs_buf *key_file, const char *cert, const char *key,
			     struct gs_err *err);

/* Who may sign the peer's certificate. A server asks for one then; what: for messages, as
 * "certificate of clients". A negative errno with err. */
int gs_tls_context_trust(struct ssl_ctx_st *ctx, const char *ca, bool server, const char *what,
			 struct gs_err *err);

/* The same of what that file holds. */
int gs_tls_context_trust_bytes(struct ssl_ctx_st *ctx, const struct gs_buf *ca_file, const char *ca,
			       bool server, struct gs_err *err);

/* A file in PEM, as it is; what: for messages. -EFBIG: above 1 MiB; with err. */
int gs_tls_file_read(const char *path, const char *what, struct gs_buf *ret_file,
		     struct gs_err *err);
void gs_tls_file_forget(struct gs_buf *file); /* a key may be in it */

#endif
