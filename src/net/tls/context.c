/* What both ends and both protocols have of TLS. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/secret.h"
#include "net/tls/context.h"

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

#define FILE_MAX_BYTES (1U << 20)

/* OpenSSL's own words for a missing file are long; what is wrong is asked first. */
int gs_tls_file_read(const char *path, const char *what, struct gs_buf *out, struct gs_err *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : 1;

	*out = GS_BUF_INIT(FILE_MAX_BYTES);
	while (n > 0) {
		if (gs_buf_reserve(out, 4096) < 0)
			return gs_err_set(err, -EFBIG, "the %s %s is larger than 1 MiB", what,
					  path);
		n = read(fd, out->data + out->bytes, 4096);
		out->bytes += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return gs_err_set(err, -errno, "cannot read the %s %s: %s", what, path,
				  strerror(errno));
	return 0;
}

void gs_tls_file_forget(struct gs_buf *file)
{
	if (file->data)
		explicit_bzero(file->data, file->capacity_bytes);
	gs_buf_fini(file);
}

static int no_passphrase(char *out, int bytes, int writing, void *ctx)
{
	(void)out, (void)bytes, (void)writing;
	*(bool *)ctx = true;
	return 0;
}

static BIO *open_bytes(const struct gs_buf *file)
{
	return BIO_new_mem_buf(file->data ? (const void *)file->data : "", (int)file->bytes);
}

/* As SSL_CTX_use_certificate_chain_file(): ours first, then those above it. */
static bool load_chain(SSL_CTX *ctx, const struct gs_buf *file)
{
	BIO *from = open_bytes(file);
	X509 *own = from ? PEM_read_bio_X509_AUX(from, NULL, NULL, NULL) : NULL, *above;
	bool done = own && SSL_CTX_use_certificate(ctx, own) == 1 &&
		    SSL_CTX_clear_chain_certs(ctx) == 1;

	while (done && (above = PEM_read_bio_X509(from, NULL, NULL, NULL))) {
		done = SSL_CTX_add0_chain_cert(ctx, above) == 1;
		if (!done)
			X509_free(above);
	}
	/* At the end there is no further one; anything else is a certificate that is none. */
	done = done && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	X509_free(own);
	BIO_free(from);
	if (done)
		ERR_clear_error();
	return done;
}

static int load_key(SSL_CTX *ctx, const struct gs_buf *file, const char *cert, const char *key,
		    struct gs_err *err)
{
	bool encrypted = false, fits;
	BIO *from = open_bytes(file);
	EVP_PKEY *own =
		from ? PEM_read_bio_PrivateKey(from, NULL, no_passphrase, &encrypted) : NULL;

	BIO_free(from);
	if (!own)
		return gs_err_set(
			err, -EINVAL,
			encrypted ? "the key %s is encrypted: one without a passphrase is needed"
				  : "%s holds no private key in PEM",
			key);
	fits = SSL_CTX_use_PrivateKey(ctx, own) == 1 && SSL_CTX_check_private_key(ctx) == 1;
	EVP_PKEY_free(own);
	if (!fits)
		return gs_err_set(err, -EINVAL, "the key %s does not belong to the certificate %s",
				  key, cert);
	return 0;
}

int gs_tls_context_own_bytes(SSL_CTX *ctx, const struct gs_buf *cert_file,
			     const struct gs_buf *key_file, const char *cert, const char *key,
			     struct gs_err *err)
{
	ERR_clear_error();
	if (!load_chain(ctx, cert_file))
		return gs_err_set(err, -EINVAL, "%s holds no certificate in PEM that can be used",
				  cert);
	return load_key(ctx, key_file, cert, key, err);
}

int gs_tls_context_own(SSL_CTX *ctx, const char *cert, const char *key, struct gs_err *err)
{
	GS_CLEANUP(gs_tls_file_forget) struct gs_buf cert_file = GS_BUF_INIT(0);
	GS_CLEANUP(gs_tls_file_forget) struct gs_buf key_file = GS_BUF_INIT(0);
	int r = gs_tls_file_read(cert, "certificate", &cert_file, err);

	if (r == 0)
		r = gs_tls_file_read(key, "key", &key_file, err);
	if (r == 0)
		r = gs_tls_context_own_bytes(ctx, &cert_file, &key_file, cert, key, err);
	return r < 0 ? r : gs_secret_check(key, "the key", err);
}

int gs_tls_context_trust_bytes(SSL_CTX *ctx, const struct gs_buf *ca_file, const char *ca,
			       bool server, struct gs_err *err)
{
	BIO *from = open_bytes(ca_file);
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	X509 *trusted;
	unsigned n = 0;

	while (from && (trusted = PEM_read_bio_X509_AUX(from, NULL, NULL, NULL))) {
		n += X509_STORE_add_cert(store, trusted) == 1 &&
		     (!server || SSL_CTX_add_client_CA(ctx, trusted) == 1);
		X509_free(trusted);
	}
	BIO_free(from);
	if (!n)
		return gs_err_set(err, -EINVAL, "%s holds no certificates in PEM", ca);
	ERR_clear_error();
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
			   NULL);
	return 0;
}

int gs_tls_context_trust(SSL_CTX *ctx, const char *ca, bool server, const char *what,
			 struct gs_err *err)
{
	GS_CLEANUP(gs_tls_file_forget) struct gs_buf file = GS_BUF_INIT(0);
	int r = gs_tls_file_read(ca, what, &file, err);

	return r < 0 ? r : gs_tls_context_trust_bytes(ctx, &file, ca, server, err);
}
