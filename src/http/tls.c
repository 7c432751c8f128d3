/*
 * TLS by OpenSSL, linked statically into the release build (which is why the server is not
 * libmicrohttpd: its TLS is GnuTLS, whose libraries cannot be linked in, and a GPU node has them or
 * not).
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "http/http_int.h"

struct gs_tls {
	SSL_CTX *ctx;
};

struct gs_tls_conn {
	SSL *ssl;
};

static int no_passphrase(char *out, int bytes, int writing, void *ctx)
{
	(void)out, (void)bytes, (void)writing;
	*(bool *)ctx = true;
	return 0;
}

/* OpenSSL's own words for a missing file are long; what is wrong is asked first. */
static int readable(const char *path, const char *what, struct gs_err *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return gs_err_set(err, -errno, "cannot read the %s %s: %s", what, path,
				  strerror(errno));
	return 0;
}

static int load_files(SSL_CTX *ctx, const char *cert, const char *key, const char *client_ca,
		      struct gs_err *err)
{
	bool encrypted = false;
	int r = readable(cert, "certificate", err);

	if (r == 0)
		r = readable(key, "key", err);
	if (r == 0 && client_ca && client_ca[0])
		r = readable(client_ca, "certificate of clients", err);
	if (r < 0)
		return r;
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return gs_err_set(err, -EINVAL, "%s holds no certificate in PEM that can be used",
				  cert);
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) {
		if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
			return gs_err_set(err, -EINVAL,
					  "the key %s does not belong to the certificate %s", key,
					  cert);
		if (encrypted)
			return gs_err_set(err, -EINVAL,
					  "the key %s is encrypted: the agent needs one without a "
					  "passphrase",
					  key);
		return gs_err_set(err, -EINVAL, "%s holds no private key in PEM", key);
	}
	if (SSL_CTX_check_private_key(ctx) != 1)
		return gs_err_set(err, -EINVAL, "the key %s does not belong to the certificate %s",
				  key, cert);
	if (client_ca && client_ca[0]) {
		if (SSL_CTX_load_verify_locations(ctx, client_ca, NULL) != 1)
			return gs_err_set(err, -EINVAL, "%s holds no certificates in PEM",
					  client_ca);
		SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(client_ca));
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return 0;
}

int gs_tls_open(const char *cert, const char *key, const char *client_ca, struct gs_tls **ret_tls,
		struct gs_err *err)
{
	struct gs_tls *tls = calloc(1, sizeof(*tls));
	int r = -ENOMEM;

	ERR_clear_error();
	if (tls)
		tls->ctx = SSL_CTX_new(TLS_server_method());
	if (tls && tls->ctx) {
		SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
		SSL_CTX_set_options(tls->ctx,
				    SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
					    SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
		SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
						   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
						   SSL_MODE_RELEASE_BUFFERS);
		SSL_CTX_set_session_id_context(tls->ctx, (const unsigned char *)"gpuscope", 8);
		r = load_files(tls->ctx, cert, key, client_ca, err);
	}
	ERR_clear_error();
	if (r < 0) {
		gs_tls_close(&tls);
		return r;
	}
	*ret_tls = tls;
	return 0;
}

void gs_tls_close(struct gs_tls **tls)
{
	if (!*tls)
		return;
	SSL_CTX_free((*tls)->ctx);
	free(*tls);
	*tls = NULL;
}

struct gs_tls_conn *gs_tls_conn_new(struct gs_tls *tls, int fd)
{
	struct gs_tls_conn *c = calloc(1, sizeof(*c));

	if (c)
		c->ssl = SSL_new(tls->ctx); /* holds the context while it lives */
	if (!c || !c->ssl || SSL_set_fd(c->ssl, fd) != 1) {
		gs_tls_conn_free(&c);
		return NULL;
	}
	SSL_set_accept_state(c->ssl);
	return c;
}

void gs_tls_conn_free(struct gs_tls_conn **conn)
{
	if (!*conn)
		return;
	SSL_free((*conn)->ssl);
	free(*conn);
	*conn = NULL;
}

static int outcome(SSL *ssl, int r)
{
	int e = SSL_get_error(ssl, r), reason = ERR_GET_REASON(ERR_peek_error());

	ERR_clear_error();
	if (e == SSL_ERROR_WANT_READ)
		return GS_TLS_WANT_READ;
	if (e == SSL_ERROR_WANT_WRITE)
		return GS_TLS_WANT_WRITE;
	return e == SSL_ERROR_SSL && reason == SSL_R_HTTP_REQUEST ? GS_TLS_PLAIN_HTTP
								  : GS_TLS_FAILED;
}

int gs_tls_conn_accept(struct gs_tls_conn *conn)
{
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(conn->ssl);
	return r == 1 ? 0 : outcome(conn->ssl, r);
}

ssize_t gs_tls_conn_read(struct gs_tls_conn *conn, void *data, size_t bytes)
{
	size_t n = 0;
	int r, e;

	ERR_clear_error();
	r = SSL_read_ex(conn->ssl, data, bytes, &n);
	if (r == 1)
		return (ssize_t)n;
	e = SSL_get_error(conn->ssl, r);
	return e == SSL_ERROR_ZERO_RETURN ? 0 : outcome(conn->ssl, r);
}

ssize_t gs_tls_conn_write(struct gs_tls_conn *conn, const void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	ERR_clear_error();
	r = SSL_write_ex(conn->ssl, data, bytes, &n);
	return r == 1 ? (ssize_t)n : outcome(conn->ssl, r);
}

void gs_tls_conn_shutdown(struct gs_tls_conn *conn)
{
	ERR_clear_error();
	(void)SSL_shutdown(conn->ssl);
	ERR_clear_error();
}
