/*
 * Bytes over a socket, with TLS by OpenSSL or without: the only file of the room that knows
 * OpenSSL. Both ends speak HTTP/2 alone, so ALPN must agree upon "h2" (RFC 9113, 3.2).
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/grpc/grpc_int.h"
#include "net/tls/context.h"

struct gs_grpc_tls {
	SSL_CTX *ctx;
	bool server;
};

static const unsigned char alpn_h2[] = {2, 'h', '2'};

static bool is_given(const char *path)
{
	return path && path[0];
}

bool gs_grpc_certificate_left(const char *cert, int64_t *ret_s)
{
	FILE *f = fopen(cert, "re");
	X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
	int days, seconds;
	bool known = x && ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)) == 1;

	if (known)
		*ret_s = (int64_t)days * 86400 + seconds;
	X509_free(x);
	if (f)
		fclose(f);
	ERR_clear_error();
	return known;
}

/* A binary that is not of this machine's distribution looks for the system's certificates where its
 * own has them: so also where others do. */
static int load_system(SSL_CTX *ctx, struct gs_err *err)
{
	static const char *const bundles[] = {
		"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch */
		"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* newer ones */
		"/etc/ssl/ca-bundle.pem",                            /* SUSE */
	};
	bool any = SSL_CTX_set_default_verify_paths(ctx) == 1;

	for (size_t i = 0; i < GS_ARRAY_LEN(bundles); i++)
		any |= access(bundles[i], R_OK) == 0 &&
		       SSL_CTX_load_verify_locations(ctx, bundles[i], NULL) == 1;
	return any ? 0 : gs_err_set(err, -EINVAL, "the system's certificates cannot be read");
}

static int load_files(SSL_CTX *ctx, const struct gs_grpc_tls_options *o, struct gs_err *err)
{
	int r = 0;

	if (is_given(o->cert) != is_given(o->key))
		return gs_err_set(err, -EINVAL,
				  "a certificate and its key are needed, not one alone");
	if (o->server && !is_given(o->cert))
		return gs_err_set(
			err, -EINVAL,
			"clients can be asked for certificates only by a server that has one");
	if (is_given(o->cert))
		r = gs_tls_context_own(ctx, o->cert, o->key, err);
	if (r == 0 && is_given(o->ca))
		return gs_tls_context_trust(ctx, o->ca, o->server, "certificates of an authority",
					    err);
	if (r == 0 && !o->server) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
		r = load_system(ctx, err);
	}
	return r;
}

static int select_h2(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
		     const unsigned char *in, unsigned in_bytes, void *ctx)
{
	(void)ssl, (void)ctx;
	if (SSL_select_next_proto((unsigned char **)out, out_bytes, alpn_h2, sizeof(alpn_h2), in,
				  in_bytes) == OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_OK;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int gs_grpc_tls_open(const struct gs_grpc_tls_options *o, struct gs_grpc_tls **ret_tls,
		     struct gs_err *err)
{
	GS_CLEANUP(gs_grpc_tls_close) struct gs_grpc_tls *tls = calloc(1, sizeof(*tls));
	int r;

	ERR_clear_error();
	if (!tls || !(tls->ctx = gs_tls_context_new(o->server)))
		return -ENOMEM;
	tls->server = o->server;
	if (o->server)
		SSL_CTX_set_alpn_select_cb(tls->ctx, select_h2, NULL);
	else
		SSL_CTX_set_alpn_protos(tls->ctx, alpn_h2, sizeof(alpn_h2));
	r = load_files(tls->ctx, o, err);
	ERR_clear_error();
	if (r < 0)
		return r;
	*ret_tls = gs_take(tls);
	return 0;
}

void gs_grpc_tls_close(struct gs_grpc_tls **tls)
{
	if (!*tls)
		return;
	SSL_CTX_free((*tls)->ctx);
	free(*tls);
	*tls = NULL;
}

/* --- connections --- */

/* OpenSSL's own way to a socket is write(2), which ends a program with SIGPIPE when the peer is
 * gone; and the users of this room should not have to know. */
static int bio_write(BIO *bio, const char *data, int bytes)
{
	ssize_t n = send((int)(intptr_t)BIO_get_data(bio), data, (size_t)bytes, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int bio_read(BIO *bio, char *data, int bytes)
{
	ssize_t n = recv((int)(intptr_t)BIO_get_data(bio), data, (size_t)bytes, 0);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
	(void)number, (void)pointer;
	if (what == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_method(void)
{
	bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gs_grpc");
	if (!bio_method)
		return;
	BIO_meth_set_write(bio_method, bio_write);
	BIO_meth_set_read(bio_method, bio_read);
	BIO_meth_set_ctrl(bio_method, bio_ctrl);
}

static bool set_socket(SSL *ssl, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *bio;

	pthread_once(&once, make_method);
	bio = bio_method ? BIO_new(bio_method) : NULL;
	if (!bio)
		return false;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	return true;
}

/* The name that the certificate must have: a DNS name, or an IP address. */
static bool expect_name(SSL *ssl, const char *name)
{
	struct in6_addr any;

	if (inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

int gs_grpc_wire_init(struct gs_grpc_wire *w, int fd, struct gs_grpc_tls *tls,
		      const char *server_name)
{
	SSL *ssl;

	*w = (struct gs_grpc_wire){.fd = fd, .wants = EPOLLIN};
	if (!tls)
		return 0;
	ERR_clear_error();
	w->ssl = ssl = SSL_new(tls->ctx); /* holds the context while it lives */
	if (!ssl || !set_socket(ssl, fd) ||
	    (!tls->server && server_name && !expect_name(ssl, server_name))) {
		ERR_clear_error();
		gs_grpc_wire_fini(w);
		return -ENOMEM;
	}
	if (tls->server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	return 0;
}

static ssize_t plain_result(struct gs_grpc_wire *w, ssize_t n, unsigned wants)
{
	if (n >= 0)
		return n;
	w->wants = wants;
	return errno == EINTR ? -EAGAIN : -errno;
}

static void say_why(struct gs_grpc_wire *w)
{
	unsigned long e = ERR_peek_last_error();
	long verified = SSL_get_verify_result(w->ssl);

	if (verified != X509_V_OK)
		snprintf(w->why, sizeof(w->why), "the other side's certificate is not accepted: %s",
			 X509_verify_cert_error_string(verified));
	else if (ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST ||
		 ERR_GET_REASON(e) == SSL_R_WRONG_VERSION_NUMBER) {
		snprintf(w->why, sizeof(w->why), "the head does not speak TLS: leave out --tls");
		w->no_tls = true;
	} else if (e && ERR_reason_error_string(e))
		snprintf(w->why, sizeof(w->why), "TLS: %s", ERR_reason_error_string(e));
}

static int tls_result(struct gs_grpc_wire *w, int r)
{
	int saved = errno, e = SSL_get_error(w->ssl, r);

	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
		w->wants = e == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT;
		return -EAGAIN;
	}
	say_why(w);
	ERR_clear_error();
	return e == SSL_ERROR_SYSCALL && saved ? -saved : -ECONNRESET;
}

int gs_grpc_wire_handshake(struct gs_grpc_wire *w)
{
	const unsigned char *protocol = NULL;
	unsigned bytes = 0;
	int r;

	if (!w->ssl)
		return 0;
	ERR_clear_error();
	r = SSL_do_handshake(w->ssl);
	if (r != 1)
		return tls_result(w, r);
	SSL_get0_alpn_selected(w->ssl, &protocol, &bytes);
	if (bytes == 2 && memcmp(protocol, "h2", 2) == 0)
		return 0;
	snprintf(w->why, sizeof(w->why), "the other side speaks TLS, but not HTTP/2 (ALPN \"h2\")");
	return -EPROTONOSUPPORT;
}

ssize_t gs_grpc_wire_read(struct gs_grpc_wire *w, void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	if (!w->ssl)
		return plain_result(w, recv(w->fd, data, bytes, 0), EPOLLIN);
	ERR_clear_error();
	r = SSL_read_ex(w->ssl, data, bytes, &n);
	if (r == 1)
		return (ssize_t)n;
	return SSL_get_error(w->ssl, r) == SSL_ERROR_ZERO_RETURN ? 0 : tls_result(w, r);
}

ssize_t gs_grpc_wire_write(struct gs_grpc_wire *w, const void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	if (!w->ssl)
		return plain_result(w, send(w->fd, data, bytes, MSG_NOSIGNAL), EPOLLOUT);
	ERR_clear_error();
	r = SSL_write_ex(w->ssl, data, bytes, &n);
	return r == 1 ? (ssize_t)n : tls_result(w, r);
}

void gs_grpc_wire_identity(const struct gs_grpc_wire *w, char *out, size_t bytes)
{
	X509 *cert = w->ssl ? SSL_get0_peer_certificate(w->ssl) : NULL;

	out[0] = '\0';
	if (!cert || SSL_get_verify_result(w->ssl) != X509_V_OK)
		return;
	/* Returns the bytes of the whole name, which may hold a zero that a C text would end at. */
	int n = X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, out,
					  (int)bytes);
	if (n < 0 || (size_t)n != strlen(out))
		out[0] = '\0';
}

/* A name that can stand in a list, and is not cut off. */
static void add_name(char *out, size_t bytes, const char *name, size_t n)
{
	size_t at = strlen(out);

	if (!n || at + n + 2 > bytes)
		return;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= 0x20 || name[i] == 0x7f || name[i] == ',')
			return;
	snprintf(out + at, bytes - at, "%s%.*s", at ? "," : "", (int)n, name);
}

void gs_grpc_wire_names(const struct gs_grpc_wire *w, const char *identity, char *out, size_t bytes)
{
	X509 *cert = w->ssl ? SSL_get0_peer_certificate(w->ssl) : NULL;
	GENERAL_NAMES *all;

	out[0] = '\0';
	if (!cert || SSL_get_verify_result(w->ssl) != X509_V_OK)
		return;
	all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);

		if (name->type == GEN_DNS)
			add_name(out, bytes, (const char *)ASN1_STRING_get0_data(name->d.dNSName),
				 (size_t)ASN1_STRING_length(name->d.dNSName));
	}
	GENERAL_NAMES_free(all);
	add_name(out, bytes, identity, strlen(identity));
}

void gs_grpc_wire_shut(struct gs_grpc_wire *w)
{
	if (w->ssl) {
		ERR_clear_error();
		(void)SSL_shutdown(w->ssl);
		ERR_clear_error();
	}
	(void)shutdown(w->fd, SHUT_WR);
}

void gs_grpc_wire_fini(struct gs_grpc_wire *w)
{
	SSL_free(w->ssl);
	w->ssl = NULL;
	gs_close_p(&w->fd);
}
