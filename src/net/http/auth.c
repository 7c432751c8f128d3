/* Who may ask: bearer tokens and users with passwords, from files, compared in constant time. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "core/base/secret.h"
#include "net/http/http_int.h"

/* Both are zero after their text. The time says nothing of where they differ. */
static bool same_secret(const char a[GS_HTTP_SECRET_MAX], const char b[GS_HTTP_SECRET_MAX])
{
	volatile unsigned char differs = 0;

	for (size_t i = 0; i < GS_HTTP_SECRET_MAX; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}

static int add_line(struct gs_http_secrets *s, const char *path, unsigned number, char *line,
		    bool user, struct gs_err *err)
{
	size_t n = strlen(line);

	while (n && (line[n - 1] == '\r' || line[n - 1] == ' ' || line[n - 1] == '\t'))
		line[--n] = '\0';
	if (n == 0 || line[0] == '#')
		return 0;
	if (n >= GS_HTTP_SECRET_MAX)
		return gs_err_set(err, -EINVAL, "%s:%u:1: longer than %d bytes", path, number,
				  GS_HTTP_SECRET_MAX - 1);
	if (user && (line[0] == ':' || !strchr(line, ':') || !strchr(line, ':')[1]))
		return gs_err_set(err, -EINVAL, "%s:%u:1: a line is USER:PASSWORD", path, number);
	if (s->n == GS_HTTP_SECRETS_MAX)
		return gs_err_set(err, -EINVAL, "%s:%u:1: more than %d lines", path, number,
				  GS_HTTP_SECRETS_MAX);
	memcpy(s->secret[s->n++], line, n);
	return 0;
}

static int load_secrets(struct gs_http_secrets *s, const char *path, bool user, struct gs_err *err)
{
	const char *what = user ? "the file of users" : "the file of tokens";
	char text[GS_SECRET_FILE_MAX];
	unsigned number = 1;
	int r = gs_secret_load(path, what, text, sizeof(text), err);

	if (r < 0)
		return r;
	for (char *line = text, *next; r == 0 && line; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r = add_line(s, path, number, line, user, err);
	}
	explicit_bzero(text, sizeof(text));
	if (r == 0 && s->n == 0)
		return gs_err_set(err, -EINVAL, "%s %s is empty: one on each line", what, path);
	return r;
}

int gs_http_auth_load(struct gs_http_auth *auth, const char *token_file, const char *basic_file,
		      struct gs_err *err)
{
	int r = 0;

	memset(auth, 0, sizeof(*auth));
	auth->tokens = token_file && token_file[0];
	auth->basic = basic_file && basic_file[0];
	if (auth->tokens)
		r = load_secrets(&auth->token, token_file, false, err);
	if (r == 0 && auth->basic)
		r = load_secrets(&auth->user, basic_file, true, err);
	return r;
}

/* RFC 4648 base64; -1 when it is none or longer than out. */
static ssize_t decode_base64(const char *text, char *out, size_t bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	unsigned n_bits = 0;
	size_t n = 0;

	for (; *text && *text != '='; text++) {
		const char *digit = strchr(digits, *text);

		if (!digit)
			return -1;
		bits = bits << 6 | (uint32_t)(digit - digits);
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			if (n == bytes)
				return -1;
			out[n++] = (char)(bits >> n_bits);
		}
	}
	return text[strspn(text, "=")] ? -1 : (ssize_t)n;
}

static bool any_same(const struct gs_http_secrets *s, const char given[GS_HTTP_SECRET_MAX])
{
	bool found = false;

	for (unsigned i = 0; i < s->n; i++)
		found |= same_secret(s->secret[i], given);
	return found;
}

enum gs_http_role gs_http_auth_role(const struct gs_http_auth *auth, const char *authorization)
{
	char given[GS_HTTP_SECRET_MAX] = {0};
	unsigned role = GS_HTTP_ROLE_NONE;
	ssize_t n;

	if (!auth->tokens && !auth->basic)
		return GS_HTTP_ROLE_CONTROL;
	if (!authorization)
		return GS_HTTP_ROLE_NONE;
	if (strncasecmp(authorization, "bearer ", 7) == 0) {
		authorization += 7 + strspn(authorization + 7, " ");
		n = (ssize_t)strlen(authorization);
		if (n && n < GS_HTTP_SECRET_MAX) {
			memcpy(given, authorization, (size_t)n);
			if (auth->token_role)
				role = auth->token_role(auth->token_ctx, given);
			else if (any_same(&auth->token, given))
				role = GS_HTTP_ROLE_CONTROL;
		}
	} else if (auth->basic && strncasecmp(authorization, "basic ", 6) == 0) {
		authorization += 6 + strspn(authorization + 6, " ");
		n = decode_base64(authorization, given, sizeof(given) - 1);
		/* A zero within would make "user:pass\0..." equal to what is shorter. */
		if (n > 0 && !memchr(given, '\0', (size_t)n))
			role = any_same(&auth->user, given) ? GS_HTTP_ROLE_CONTROL : role;
	}
	explicit_bzero(given, sizeof(given));
	return role;
}
