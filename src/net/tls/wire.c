/* Sockets of ours, with TLS by OpenSSL or without. */
#include "net/tls/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/base/mem.h"

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "wants is for both");

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
	bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gs_tls");
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

int gs_tls_wire_start(struct gs_tls_wire *w, SSL_CTX *ctx, bool server, const char *client_name)
{
	SSL *ssl;

	w->wants = POLLIN;
	if (!ctx)
		return 0;
	ERR_clear_error();
	w->ssl = ssl = SSL_new(ctx); /* holds the context while it lives */
	if (!ssl || !set_socket(ssl, w->fd) ||
	    (!server && client_name && !expect_name(ssl, client_name))) {
		ERR_clear_error();
		SSL_free(ssl);
		w->ssl = NULL;
		return -ENOMEM;
	}
	if (server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	return 0;
}

static ssize_t plain_result(struct gs_tls_wire *w, ssize_t n, short wants)
{
	if (n >= 0)
		return n;
	w->wants = wants;
	return errno == EINTR ? -EAGAIN : -errno;
}

static void note_fault(struct gs_tls_wire *w)
{
	unsigned long e = ERR_peek_last_error();
	long verified = SSL_get_verify_result(w->ssl);

	w->reason = e ? ERR_reason_error_string(e) : NULL;
	w->fault = w->reason ? GS_TLS_FAULT_OTHER : GS_TLS_FAULT_NONE;
	if (verified != X509_V_OK) {
		w->fault = GS_TLS_FAULT_CERTIFICATE;
		w->reason = X509_verify_cert_error_string(verified);
	} else if (ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST) {
		w->fault = GS_TLS_FAULT_PLAIN_HTTP;
	} else if (ERR_GET_REASON(e) == SSL_R_WRONG_VERSION_NUMBER) {
		w->fault = GS_TLS_FAULT_NO_TLS;
	}
}

static int tls_result(struct gs_tls_wire *w, int r)
{
	int saved = errno, e = SSL_get_error(w->ssl, r);

	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
		w->wants = e == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		return -EAGAIN;
	}
	note_fault(w);
	ERR_clear_error();
	return e == SSL_ERROR_SYSCALL && saved ? -saved : -ECONNRESET;
}

int gs_tls_wire_handshake(struct gs_tls_wire *w)
{
	int r;

	if (!w->ssl)
		return 0;
	ERR_clear_error();
	r = SSL_do_handshake(w->ssl);
	return r == 1 ? 0 : tls_result(w, r);
}

ssize_t gs_tls_wire_read(struct gs_tls_wire *w, void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	if (!w->ssl)
		return plain_result(w, recv(w->fd, data, bytes, 0), POLLIN);
	ERR_clear_error();
	r = SSL_read_ex(w->ssl, data, bytes, &n);
	if (r == 1)
		return (ssize_t)n;
	return SSL_get_error(w->ssl, r) == SSL_ERROR_ZERO_RETURN ? 0 : tls_result(w, r);
}

ssize_t gs_tls_wire_write(struct gs_tls_wire *w, const void *data, size_t bytes)
{
	size_t n = 0;
	int r;

	if (!w->ssl)
		return plain_result(w, send(w->fd, data, bytes, MSG_NOSIGNAL), POLLOUT);
	ERR_clear_error();
	r = SSL_write_ex(w->ssl, data, bytes, &n);
	return r == 1 ? (ssize_t)n : tls_result(w, r);
}

void gs_tls_wire_shut(struct gs_tls_wire *w)
{
	if (w->ssl) {
		ERR_clear_error();
		(void)SSL_shutdown(w->ssl);
		ERR_clear_error();
	}
	(void)shutdown(w->fd, SHUT_WR);
}

void gs_tls_wire_fini(struct gs_tls_wire *w)
{
	SSL_free(w->ssl);
	w->ssl = NULL;
	gs_close_p(&w->fd);
}
