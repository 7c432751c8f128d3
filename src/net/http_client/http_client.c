/*
 * HTTP and SMTP by libcurl, opened at run time, in the sender. A transfer is one easy handle, made
 * and freed here: messages are rare, and a connection that is kept would only be found dead by the
 * next.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "net/http_client/curl_abi.h"
#include "net/http_client/http_client_int.h"

struct curl_slist; /* libcurl's */

static struct {
	int (*global_init)(long flags);
	void *(*easy_init)(void);
	void (*easy_cleanup)(void *easy);
	int (*easy_setopt)(void *easy, int option, ...);
	int (*easy_perform)(void *easy);
	int (*easy_getinfo)(void *easy, int info, ...);
	const char *(*easy_strerror)(int code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
} curl;

static char why_not[256]; /* "" it is there */

static void load_library(void)
{
	/* With OpenSSL or GnuTLS; Debian calls the latter so. */
	static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
	static const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{"curl_global_init", &curl.global_init},
		{"curl_easy_init", &curl.easy_init},
		{"curl_easy_cleanup", &curl.easy_cleanup},
		{"curl_easy_setopt", &curl.easy_setopt},
		{"curl_easy_perform", &curl.easy_perform},
		{"curl_easy_getinfo", &curl.easy_getinfo},
		{"curl_easy_strerror", &curl.easy_strerror},
		{"curl_slist_append", &curl.slist_append},
		{"curl_slist_free_all", &curl.slist_free_all},
	};
	void *library = NULL;

	for (size_t i = 0; !library && i < GS_ARRAY_LEN(names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(
			why_not, sizeof(why_not),
			"libcurl.so.4, which sends HTTP requests and e-mail, was not found: install libcurl4 (Debian, Ubuntu) or libcurl (Fedora, EL)");
		return;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
		void *p = dlsym(library, symbols[i].name);

		if (!p) {
			snprintf(why_not, sizeof(why_not), "libcurl lacks %s: it is too old",
				 symbols[i].name);
			return;
		}
		memcpy(symbols[i].at, &p, sizeof(p));
	}
	if (curl.global_init(GS_CURL_GLOBAL_ALL) != GS_CURLE_OK)
		snprintf(why_not, sizeof(why_not), "libcurl does not start");
}

const char *http_client_load_curl(void)
{
	load_library();
	return why_not;
}

const char *gs_http_client_missing(void)
{
	return http_client_load_curl();
}

const char *gs_http_client_shown(const char *url, bool is_secret, char *out, size_t bytes)
{
	const char *authority = strstr(url, "://"), *host, *end;

	authority = authority ? authority + 3 : url;
	end = authority + strcspn(authority, "/?#");
	host = authority;
	for (const char *c = authority; c < end; c++)
		if (*c == '@')
			host = c + 1;
	snprintf(out, bytes, "%.*s%.*s%.*s%s", (int)(authority - url), url, (int)(end - host), host,
		 is_secret ? 0 : (int)strcspn(end, "?#"), end,
		 is_secret && end[0] && end[1] ? "/..." : "");
	return out;
}

struct answer {
	int (*take)(void *ctx, const void *data, size_t bytes); /* NULL: dropped */
	void *take_ctx;
	uint64_t retry_after_ns;
	struct http_client_grpc *grpc; /* NULL: it is none */
};

static size_t take_answer(char *data, size_t size, size_t n, void *ctx)
{
	struct answer *a = ctx;
	const char *at = data;
	size_t bytes = size * n;

	if (a && a->grpc)
		http_client_grpc_strip(a->grpc, &at, &bytes);
	if (a && a->take && bytes)
		return a->take(a->take_ctx, at, bytes) < 0 ? 0 : size * n;
	return size * n;
}

/* "Retry-After: 30"; a date in its place says what a default says as well. */
static size_t take_header(char *data, size_t size, size_t n, void *ctx)
{
	static const char name[] = "retry-after:";
	struct answer *a = ctx;
	size_t bytes = size * n;
	char text[64];

	if (a->grpc)
		http_client_grpc_header(a->grpc, data, bytes);
	if (bytes > sizeof(name) && bytes < sizeof(text) &&
	    strncasecmp(data, name, sizeof(name) - 1) == 0) {
		memcpy(text, data, bytes);
		text[bytes] = 0;
		a->retry_after_ns =
			strtoull(text + sizeof(name) - 1, NULL, 10) % 86400 * 1000000000ull;
	}
	return bytes;
}

static int check_stop(void *ctx, int64_t down_total, int64_t down, int64_t up_total, int64_t up)
{
	const atomic_bool *stop = ctx;

	return atomic_load(stop);
}

/* What every transfer has. */
static void set_common(void *easy, const char *url, long protocols, const char *ca_file,
		       uint64_t timeout_ns, const atomic_bool *stop, struct answer *answer,
		       char *error)
{
	error[0] = '\0';
	curl.easy_setopt(easy, GS_CURLOPT_URL, url);
	curl.easy_setopt(easy, GS_CURLOPT_PROTOCOLS, protocols);
	curl.easy_setopt(easy, GS_CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(easy, GS_CURLOPT_ERRORBUFFER, error);
	curl.easy_setopt(easy, GS_CURLOPT_TIMEOUT_MS, (long)(timeout_ns / 1000000));
	curl.easy_setopt(easy, GS_CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ns / 1000000));
	curl.easy_setopt(easy, GS_CURLOPT_WRITEFUNCTION, take_answer);
	curl.easy_setopt(easy, GS_CURLOPT_WRITEDATA, answer);
	curl.easy_setopt(easy, GS_CURLOPT_NOPROGRESS, 0L);
	curl.easy_setopt(easy, GS_CURLOPT_XFERINFOFUNCTION, check_stop);
	curl.easy_setopt(easy, GS_CURLOPT_XFERINFODATA, stop);
	curl.easy_setopt(easy, GS_CURLOPT_USERAGENT, "gpuscope/" GS_VERSION);
	if (ca_file && ca_file[0])
		curl.easy_setopt(easy, GS_CURLOPT_CAINFO, ca_file);
}

static int perform_request(void *easy, const char *error, long *ret_status, struct gs_err *err)
{
	int code = curl.easy_perform(easy);

	*ret_status = 0;
	curl.easy_getinfo(easy, GS_CURLINFO_RESPONSE_CODE, ret_status);
	if (code == GS_CURLE_OK)
		return 0;
	if (code == GS_CURLE_ABORTED_BY_CALLBACK)
		return gs_err_set(err, -ECANCELED, "stopped");
	return gs_err_set(err, -EIO, "%s%s%s", curl.easy_strerror(code), error[0] ? ": " : "",
			  error);
}

static struct curl_slist *headers_of(const struct gs_http_client_http *q)
{
	const char *type = q->grpc ? "application/grpc" : q->type ? q->type : "application/json";
	struct curl_slist *list = NULL, *longer;
	char text[640];

	snprintf(text, sizeof(text), "Content-Type: %s", type);
	for (size_t i = 0; i < GS_HTTP_CLIENT_HEADERS_MAX + 3; i++) {
		if ((i == 1 && (!q->token || !q->token[0])) || (i == 2 && !q->grpc))
			continue;
		if (i == 1)
			snprintf(text, sizeof(text), "Authorization: Bearer %s", q->token);
		if (i == 2)
			snprintf(text, sizeof(text), "TE: trailers");
		if (i >= 3 && !q->header[i - 3])
			break;
		longer = curl.slist_append(list, i < 3 ? text : q->header[i - 3]);
		if (!longer) {
			curl.slist_free_all(list);
			return NULL;
		}
		list = longer;
	}
	explicit_bzero(text, sizeof(text));
	return list;
}

/* HTTP/2, which servers of gRPC speak alone: by TLS's own choice of protocols, or as known. -ENOTSUP:
 * this libcurl was made without it. */
static int set_http_2(void *easy, const char *url, struct gs_err *err)
{
	long version = strncmp(url, "https:", 6) == 0 ? GS_CURL_HTTP_VERSION_2TLS
						      : GS_CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;

	return curl.easy_setopt(easy, GS_CURLOPT_HTTP_VERSION, version) == GS_CURLE_OK
		       ? 0
		       : gs_err_set(
				 err, -ENOTSUP,
				 "this libcurl has no HTTP/2, which gRPC needs: use OTLP over HTTP");
}

static void perform_easy(void *easy, struct curl_slist *heads, const struct gs_http_client_http *q,
			 struct answer *answer, struct http_client_result *ret)
{
	GS_FREE uint8_t *framed = NULL;
	char error[GS_CURL_ERROR_SIZE];
	const void *body = q->body;
	size_t bytes = q->bytes;

	set_common(easy, q->url, GS_CURLPROTO_HTTP | GS_CURLPROTO_HTTPS, q->ca_file, q->timeout_ns,
		   q->stop, answer, error);
	curl.easy_setopt(easy, GS_CURLOPT_HTTPHEADER, heads);
	curl.easy_setopt(easy, GS_CURLOPT_HEADERFUNCTION, take_header);
	curl.easy_setopt(easy, GS_CURLOPT_HEADERDATA, answer);
	ret->r = 0;
	if (q->grpc) {
		ret->r = set_http_2(easy, q->url, &ret->err);
		body = framed = http_client_grpc_body(q, &bytes);
		if (!framed)
			ret->r = -ENOMEM;
	}
	if (ret->r < 0)
		return;
	if (body) {
		curl.easy_setopt(easy, GS_CURLOPT_POSTFIELDSIZE, (long)bytes);
		curl.easy_setopt(easy, GS_CURLOPT_POSTFIELDS, body);
	}
	ret->r = perform_request(easy, error, &ret->status, &ret->err);
}

void http_client_perform_http(const struct gs_http_client_http *q, struct http_client_result *ret)
{
	struct curl_slist *heads = headers_of(q);
	struct http_client_grpc grpc = {.status = -1};
	struct answer answer = {
		.take = q->take, .take_ctx = q->take_ctx, .grpc = q->grpc ? &grpc : NULL};
	void *easy = curl.easy_init();

	ret->r = -ENOMEM;
	if (easy && heads)
		perform_easy(easy, heads, q, &answer, ret);
	if (q->grpc && ret->r == 0) {
		ret->status = http_client_grpc_status(&grpc, ret->status);
		if (ret->status && answer.take)
			ret->r = answer.take(answer.take_ctx, grpc.message, strlen(grpc.message));
	}
	curl.slist_free_all(heads);
	if (easy)
		curl.easy_cleanup(easy);
	ret->retry_after_ns = answer.retry_after_ns;
}

struct body {
	const char *at;
	size_t left;
};

static size_t give_body(char *out, size_t size, size_t n, void *ctx)
{
	struct body *b = ctx;
	size_t k = size * n < b->left ? size * n : b->left;

	memcpy(out, b->at, k);
	b->at += k;
	b->left -= k;
	return k;
}

static struct curl_slist *recipients_of(const char *text)
{
	struct curl_slist *list = NULL;

	while (*text) {
		struct curl_slist *longer;
		char one[300];
		size_t n = strcspn(text, ",");

		snprintf(one, sizeof(one), "<%.*s>", (int)n, text);
		longer = curl.slist_append(list, one);
		if (!longer) {
			curl.slist_free_all(list);
			return NULL;
		}
		list = longer;
		text += n + (text[n] == ',');
	}
	return list;
}

void http_client_perform_mail(const struct gs_http_client_mail *m, struct http_client_result *ret)
{
	struct curl_slist *to = recipients_of(m->recipients);
	struct body body = {m->body, m->bytes};
	char error[GS_CURL_ERROR_SIZE], from[200];
	void *easy = curl.easy_init();

	ret->r = -ENOMEM;
	snprintf(from, sizeof(from), "<%s>", m->from);
	if (easy && to) {
		set_common(easy, m->url, GS_CURLPROTO_SMTP | GS_CURLPROTO_SMTPS, m->ca_file,
			   m->timeout_ns, m->stop, NULL, error);
		curl.easy_setopt(easy, GS_CURLOPT_USE_SSL, (long)m->use_ssl);
		if (m->username[0]) {
			curl.easy_setopt(easy, GS_CURLOPT_USERNAME, m->username);
			curl.easy_setopt(easy, GS_CURLOPT_PASSWORD, m->password);
		}
		curl.easy_setopt(easy, GS_CURLOPT_MAIL_FROM, from);
		curl.easy_setopt(easy, GS_CURLOPT_MAIL_RCPT, to);
		curl.easy_setopt(easy, GS_CURLOPT_READFUNCTION, give_body);
		curl.easy_setopt(easy, GS_CURLOPT_READDATA, &body);
		curl.easy_setopt(easy, GS_CURLOPT_UPLOAD, 1L);
		ret->r = perform_request(easy, error, &ret->status, &ret->err);
	}
	curl.slist_free_all(to);
	if (easy)
		curl.easy_cleanup(easy);
}
