/*
 * The server's context of TLS by OpenSSL, linked statically into the release build (which is why the
 * server is not libmicrohttpd: its TLS is GnuTLS, whose libraries cannot be linked in, and a GPU
 * node has them or not). Contexts are filled in net/tls/context.c, bytes go through net/tls/wire.h.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "net/http/http_int.h"
#include "net/tls/context.h"

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

int gs_http_tls_open(const struct gs_http_pem *pem, SSL_CTX **ret_ctx, struct gs_err *err)
{
	SSL_CTX *ctx;
	int r = -ENOMEM;

	ERR_clear_error();
	ctx = gs_tls_context_new(true);
	if (ctx)
		r = gs_tls_context_own_bytes(ctx, &pem->cert, &pem->key, pem->name[0], pem->name[1],
					     err);
	if (r == 0 && pem->client_ca.bytes)
		r = gs_tls_context_trust_bytes(ctx, &pem->client_ca, pem->name[2], true, err);
	ERR_clear_error();
	if (r < 0) {
		gs_http_tls_close(&ctx);
		return r;
	}
	*ret_ctx = ctx;
	return 0;
}

void gs_http_tls_close(SSL_CTX **ctx)
{
	SSL_CTX_free(*ctx);
	*ctx = NULL;
}

bool gs_http_tls_has_name(const SSL_CTX *ctx, const char *name)
{
	X509 *certificate = SSL_CTX_get0_certificate(ctx);

	return certificate && X509_check_host(certificate, name, 0, 0, NULL) == 1;
}
