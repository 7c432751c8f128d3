/*
 * Who may ask. The first byte says what the rest is: a file of tokens or of users, whose secrets
 * are then given back in a header and have to be let in; or a header Authorization, which is let in
 * only with a secret that is there.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "net/http/http_int.h"
#include "replay_main.h"

static unsigned role_of(void *ctx, const char *token)
{
	(void)ctx;
	return strcmp(token, "look") == 0 ? GS_HTTP_ROLE_READ : GS_HTTP_ROLE_NONE;
}

/* Base64 of "user:password". */
static void basic_header(const char *secret, char out[GS_HTTP_SECRET_MAX * 2])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(secret);
	char *at = out + sprintf(out, "bAsIc  ");

	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = (uint32_t)(uint8_t)secret[i] << 16;

		bits |= i + 1 < n ? (uint32_t)(uint8_t)secret[i + 1] << 8 : 0;
		bits |= i + 2 < n ? (uint8_t)secret[i + 2] : 0;
		*at++ = digits[bits >> 18];
		*at++ = digits[bits >> 12 & 63];
		*at++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
		*at++ = i + 2 < n ? digits[bits & 63] : '=';
	}
	*at = '\0';
}

static void read_file(const uint8_t *data, size_t bytes, bool users)
{
	static struct gs_http_auth auth;
	char path[32], header[GS_HTTP_SECRET_MAX * 2];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	const struct gs_http_secrets *s = users ? &auth.user : &auth.token;
	int r;

	assert(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && fchmod(fd, 0600) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = gs_http_auth_load(&auth, users ? "" : path, users ? path : NULL, NULL);
	close(fd);
	if (r < 0)
		return;
	assert(s->n > 0 && s->n <= GS_HTTP_SECRETS_MAX);
	for (unsigned i = 0; i < s->n; i++) {
		const char *secret = s->secret[i];

		assert(secret[0] && memchr(secret, '\0', GS_HTTP_SECRET_MAX));
		if (users)
			basic_header(secret, header);
		else
			snprintf(header, sizeof(header), "Bearer %s", secret);
		if (secret[0] != ' ') /* which a header cannot carry */
			assert(gs_http_auth_role(&auth, header) == GS_HTTP_ROLE_CONTROL);
	}
	assert(gs_http_auth_role(&auth, NULL) == GS_HTTP_ROLE_NONE);
}

static void read_header(const char *header, bool roles)
{
	static struct gs_http_auth auth = {
		.tokens = true, .basic = true, .token = {.n = 2}, .user = {.n = 1}};
	enum gs_http_role role;

	strcpy(auth.token.secret[0], "token");
	strcpy(auth.token.secret[1], "another");
	strcpy(auth.user.secret[0], "user:password");
	auth.token_role = roles ? role_of : NULL;
	role = gs_http_auth_role(&auth, header);
	if (role == GS_HTTP_ROLE_NONE)
		return;
	if (role == GS_HTTP_ROLE_READ)
		assert(roles && strstr(header, "look"));
	else
		assert((!roles && (strstr(header, "token") || strstr(header, "another"))) ||
		       strstr(header, "dXNlcjpwYXNzd29yZ"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	GS_FREE char *text = malloc(bytes + 1);

	if (!text || bytes == 0)
		return 0;
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = '\0';
	if (data[0] % 4 < 2)
		read_file(data + 1, bytes - 1, data[0] % 4);
	else
		read_header(text, data[0] % 4 == 3);
	return 0;
}
