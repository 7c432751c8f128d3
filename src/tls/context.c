/* What both ends and both protocols have of TLS. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "tls/context.h"

SSL_CTX *gs_tls_context_new(bool server)
{
	SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"gpuscope", 8);
	return ctx;
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

static int no_passphrase(char *out, int bytes, int writing, void *ctx)
{
	(void)out, (void)bytes, (void)writing;
	*(bool *)ctx = true;
	return 0;
}

static int load_key(SSL_CTX *ctx, const char *cert, const char *key, struct gs_err *err)
{
	bool encrypted = false, fits;

	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
	fits = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, NULL);
	if (!fits && ERR_GET_REASON(ERR_peek_last_error()) != X509_R_KEY_VALUES_MISMATCH)
		return gs_err_set(err, -EINVAL,
				  encrypted ? "the key %s is encrypted: one without a passphrase "
					      "is needed"
					    : "%s holds no private key in PEM",
				  key);
	if (!fits || SSL_CTX_check_private_key(ctx) != 1)
		return gs_err_set(err, -EINVAL, "the key %s does not belong to the certificate %s",
				  key, cert);
	return 0;
}

int gs_tls_context_own(SSL_CTX *ctx, const char *cert, const char *key, struct gs_err *err)
{
	int r = readable(cert, "certificate", err);

	if (r == 0)
		r = readable(key, "key", err);
	if (r < 0)
		return r;
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return gs_err_set(err, -EINVAL, "%s holds no certificate in PEM that can be used",
				  cert);
	r = load_key(ctx, cert, key, err);
	return r < 0 ? r : gs_secret_check(key, "the key", err);
}

int gs_tls_context_trust(SSL_CTX *ctx, const char *ca, bool server, const char *what,
			 struct gs_err *err)
{
	int r = readable(ca, what, err);

	if (r < 0)
		return r;
	if (SSL_CTX_load_verify_locations(ctx, ca, NULL) != 1)
		return gs_err_set(err, -EINVAL, "%s holds no certificates in PEM", ca);
	if (server)
		SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(ca));
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
			   NULL);
	return 0;
}
