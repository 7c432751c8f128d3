/*
 * TLS as gRPC has it: the only file of the room that knows OpenSSL. Both ends speak HTTP/2 alone, so
 * ALPN must agree upon "h2" (RFC 9113, 3.2). Bytes go through net/tls/wire.h.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

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

int gs_grpc_wire_start(struct gs_tls_wire *w, const struct gs_grpc_tls *tls,
		       const char *server_name)
{
	return gs_tls_wire_start(w, tls ? tls->ctx : NULL, tls && tls->server, server_name);
}

int gs_grpc_wire_handshake(struct gs_tls_wire *w)
{
	const unsigned char *protocol = NULL;
	unsigned bytes = 0;
	int r = gs_tls_wire_handshake(w);

	if (r < 0 || !w->ssl)
		return r;
	SSL_get0_alpn_selected(w->ssl, &protocol, &bytes);
	return bytes == 2 && memcmp(protocol, "h2", 2) == 0 ? 0 : -EPROTONOSUPPORT;
}

void gs_grpc_wire_identity(const struct gs_tls_wire *w, char *out, size_t bytes)
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

void gs_grpc_wire_names(const struct gs_tls_wire *w, const char *identity, char *out, size_t bytes)
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
