/* Between the files of the server. */
#ifndef GS_NET_HTTP_HTTP_INT_H
#define GS_NET_HTTP_HTTP_INT_H

#include <sys/types.h>

#include "net/http/http.h"

#define GS_HTTP_SECRETS_MAX 64

/* --- request.c: what comes from clients --- */

/* Parse the head of a request in data, which is changed (terminators) and lent to ret_request.
 * Returns the bytes of the head, 0 when it is not whole yet, or the negative status that the client
 * shall get (-400, -431, -501, -505). */
ssize_t gs_http_parse(char *data, size_t bytes, struct gs_http_request *ret_request);

/* Whether the header Accept-Encoding (may be NULL) takes gzip. */
bool gs_http_accepts_gzip(const char *accept_encoding);

/* --- auth.c --- */

struct gs_http_secrets {
	char secret[GS_HTTP_SECRETS_MAX][GS_HTTP_SECRET_MAX]; /* zeros after the text */
	unsigned n;
};

struct gs_http_auth {
	bool tokens, basic; /* which are asked for */
	struct gs_http_secrets token, user;
	unsigned (*token_role)(void *ctx, const char *token); /* instead of token; may be NULL */
	void *token_ctx;
};

enum gs_http_role { GS_HTTP_ROLE_NONE = 0, GS_HTTP_ROLE_READ = 1, GS_HTTP_ROLE_CONTROL = 2 };

/* 0, or a negative errno with err. path NULL or "": none. */
int gs_http_auth_load(struct gs_http_auth *auth, const char *token_file, const char *basic_file,
		      struct gs_err *err);

/* What this header Authorization (may be NULL) allows. Takes as long whatever is wrong. */
enum gs_http_role gs_http_auth_role(const struct gs_http_auth *auth, const char *authorization);

/* --- host.c --- */

#define GS_HTTP_HOST_MAX 256 /* bytes of a name, zero included */

struct gs_http_hosts {
	char names[4096]; /* in small letters, each with a zero after it */
	size_t bytes;
	bool any; /* the configuration lists "*" */
};

enum gs_http_host { GS_HTTP_HOST_INVALID = 0, GS_HTTP_HOST_NAME = 1, GS_HTTP_HOST_ADDRESS = 2 };

/* A header Host without its port, in small letters. */
enum gs_http_host gs_http_host_parse(const char *text, char ret_name[GS_HTTP_HOST_MAX]);

/* The names of this machine, that of listen ("HOST:PORT"), and those listed (with commas; may be
 * NULL). */
void gs_http_hosts_load(struct gs_http_hosts *hosts, const char *listen, const char *listed);

/* name: of gs_http_host_parse(). */
bool gs_http_host_known(const struct gs_http_hosts *hosts, const char *name);

#define GS_HTTP_ORIGIN_MAX 200 /* bytes, zero included */

/* Whether this header Origin (may be NULL) is one of the list (with commas; may be NULL). */
bool gs_http_origin_listed(const char *list, const char *origin);

/* --- route.c --- */

struct gs_http_site { /* lent */
	const struct gs_http_route *routes;
	size_t n_routes;
	void *ctx;
	const struct gs_http_auth *auth;
	const struct gs_http_hosts *hosts;
	const struct ssl_ctx_st *tls; /* NULL: none. Pages of ours have it as well */
	bool client_ca;               /* each connection has shown a certificate */
	bool anonymous;               /* other machines may read without a secret */
	bool guarded;                 /* control needs one */
};

/* Whether the path is of this pattern; then with its parameters. */
bool gs_http_matches(const char *pattern, struct gs_http_request *q);

/* Fill the reply: by the route's handler, or with why there is none. more: room for headers. */
void gs_http_serve(const struct gs_http_site *site, struct gs_http_request *request,
		   struct gs_http_reply *reply, char *more, size_t more_bytes);

/* What is wrong with a request that gs_http_parse() refused. Lent for ever. */
const char *gs_http_refusal_reason(int status);

/* --- reply.c --- */

const char *gs_http_status_text(int status);

enum gs_http_framing {
	GS_HTTP_WHOLE,   /* Content-Length, and the body after the head */
	GS_HTTP_CHUNKED, /* head only: chunks follow */
	GS_HTTP_TO_END,  /* head only: what follows ends with the connection */
};

/* What of a request shapes its reply. */
struct gs_http_shape {
	bool head, gzip, http_1_0, keep_alive;
	char origin[GS_HTTP_ORIGIN_MAX]; /* whose page may read it; "" none but our own */
};

/* Head and body of the reply as bytes to send; the body is compressed when that is asked for and
 * pays. 0 or -ENOMEM. */
int gs_http_reply_write(struct gs_buf *out, const struct gs_http_shape *shape,
			struct gs_http_reply *reply, const char *more_headers,
			enum gs_http_framing framing);

/* Whether a header If-None-Match (may be NULL) names this etag (may be NULL). */
bool gs_http_etag_known(const char *if_none_match, const char *etag);

/* A body that a handler could not write whole becomes the error that says so: none is sent that
 * ends in the middle and looks whole. */
void gs_http_reply_check(struct gs_http_reply *reply);

/* What the reply owns is freed. */
void gs_http_reply_fini(struct gs_http_reply *reply);

/* --- tls.c: the only file of the room that knows OpenSSL --- */

struct ssl_ctx_st; /* OpenSSL's SSL_CTX: certificate and key */

/* What the files of a server hold: certificate, key, who signs those of clients (may be empty). */
struct gs_http_pem {
	struct gs_buf cert, key, client_ca;
	char name[3][256]; /* for messages */
};

int gs_http_pem_read(struct gs_http_pem *pem, const char *cert, const char *key,
		     const char *client_ca, struct gs_err *err);
void gs_http_pem_forget(struct gs_http_pem *pem);

int gs_http_tls_open(const struct gs_http_pem *pem, struct ssl_ctx_st **ret_ctx,
		     struct gs_err *err);
void gs_http_tls_close(struct ssl_ctx_st **ctx);

/* Whether the certificate is of this name. */
bool gs_http_tls_has_name(const struct ssl_ctx_st *ctx, const char *name);

/* --- listen.c --- */

/* A listening socket that systemd opened for this process (sd_listen_fds(3)); -ENOENT: there is
 * none. Taken once. */
int gs_http_listen_inherited(char *ret_address, size_t bytes, struct gs_err *err);

/* A non-blocking listening socket; ret_address: "127.0.0.1:14780". A negative errno with err. */
int gs_http_listen(const char *text, char *ret_address, size_t bytes, struct gs_err *err);

#endif
