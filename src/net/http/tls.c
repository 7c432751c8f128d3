/*
 * TLS by OpenSSL, linked statically into the release build (which is why the server is not
 * libmicrohttpd: its TLS is GnuTLS, whose libraries cannot be linked in, and a GPU node has them or
 * not). What it does with sockets that never block; contexts are made in net/tls/context.c.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "net/http/http_int.h"
#include "net/tls/context.h"

struct gs_http_tls {
	SSL_CTX *ctx;
};

struct gs_http_tls_conn {
	SSL *ssl;
};

int gs_http_pem_read(struct gs_http_pem *pem, const char *cert, const char *key,
		     const char *client_ca, struct gs_err *err)
{
	int r = gs_tls_file_read(cert, "certificate", &pem->cert, err);

	if (r == 0)
		r = gs_tls_file_read(key, "key", &pem->key, err);
	if (r == 0 && client_ca && client_ca[0])
		r = gs_tls_file_read(client_ca, "certificate of clients", &pem->client_ca, err);
	snprintf(pem->name[0], sizeof(pem->name[0]), "%s", cert);
	snprintf(pem->name[1], sizeof(pem->name[1]), "%s", key);
	snprintf(pem->name[2], sizeof(pem->name[2]), "%s", client_ca ? client_ca : "");
	return r;
}

void gs_http_pem_forget(struct gs_http_pem *pem)
{
	gs_tls_file_forget(&pem->cert);
	gs_tls_file_forget(&pem->key);
	gs_tls_file_forget(&pem->client_ca);
}

int gs_http_tls_open(const struct gs_http_pem *pem, struct gs_http_tls **ret_tls,
		     struct gs_err *err)
{
	struct gs_http_tls *tls = calloc(1, sizeof(*tls));
	int r = -ENOMEM;

	ERR_clear_error();
	if (tls)
		tls->ctx = gs_tls_context_new(true);
	if (tls && tls->ctx)
		r = gs_tls_context_own_bytes(tls->ctx, &pem->cert, &pem->key, pem->name[0],
					     pem->name[1], err);
	if (r == 0 && pem->client_ca.bytes)
		r = gs_tls_context_trust_bytes(tls->ctx, &pem->client_ca, pem->name[2], true, err);
	ERR_clear_error();
	if (r < 0) {
		gs_http_tls_close(&tls);
		return r;
	}
	*ret_tls = tls;
	return 0;
}

void gs_http_tls_close(struct gs_http_tls **tls)
{
	if (!*tls)
		return;
	SSL_CTX_free((*tls)->ctx);
	free(*tls);
	*tls = NULL;
}

bool gs_http_tls_has_name(const struct gs_http_tls *tls, const char *name)
{
	X509 *certificate = SSL_CTX_get0_certificate(tls->ctx);

	return certificate && X509_check_host(certificate, name, 0, 0, NULL) == 1;
}

struct gs_http_tls_conn *gs_http_tls_conn_new(struct gs_http_tls *tls, int fd)
{
	struct gs_http_tls_conn *c = calloc(1, sizeof(*c));

	if (c)
		c->ssl = SSL_new(tls->ctx); /* holds the context while it lives */
	if (!c || !c->ssl || SSL_set_fd(c->ssl, fd) != 1) {
		gs_http_tls_conn_free(&c);
		return NULL;
	}
	SSL_set_accept_state(c->ssl);
	return c;
}

void gs_http_tls_conn_free(struct gs_http_tls_conn **conn)
{
	if (!*conn)
		return;
	SSL_free((*conn)->ssl);
	free(*conn);
	*conn = NULL;
}

static int outcome_of(SSL *ssl, int r)
{
	int e = SSL_get_error(ssl, r), reason = ERR_GET_REASON(ERR_peek_error());

	ERR_clear_error();
	if (e == SSL_ERROR_WANT_READ)
		return GS_HTTP_TLS_WANT_READ;
	if (e == SSL_ERROR_WANT_WRITE)
		return GS_HTTP_TLS_WANT_WRITE;
	return e == SSL_ERROR_SSL && reason == SSL_R_HTTP_REQUEST ? GS_HTTP_TLS_PLAIN_HTTP
								  : GS_HTTP_TLS_FAILED;
}

int gs_http_tls_conn_accept(struct gs_http_tls_conn *conn)
{
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(conn->ssl);
	return r == 1 ? 0 : outcome_of(conn->ssl, r);
}

ssize_t gs_http_tls_conn_read(struct gs_http_tls_conn *conn, void *data, size_t bytes)
{
	size_t n = 0;
	int r, e;

	ERR_clear_error();
	r = SSL_read_ex(conn->ssl, data, bytes, &n);
	if (r == 1)
		return (ssize_t)n;
	e = SSL_get_error(conn->ssl, r);
	return e == SSL_ERROR_ZERO_RETURN ? 0 : outcome_of(conn->ssl, r);
}

ssize_t gs_http_tls_conn_write(struct gs_http_tls_conn *conn, const void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	ERR_clear_error();
	r = SSL_write_ex(conn->ssl, data, bytes, &n);
	return r == 1 ? (ssize_t)n : outcome_of(conn->ssl, r);
}

void gs_http_tls_conn_shutdown(struct gs_http_tls_conn *conn)
{
	ERR_clear_error();
	(void)SSL_shutdown(conn->ssl);
	ERR_clear_error();
}
