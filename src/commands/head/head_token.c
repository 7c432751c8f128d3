#include "commands/head/head_token.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "core/base/secret.h"
#include "core/base/vec.h"
#include "server/head/head.h"

#define TOKEN_BYTES    256
#define TOKENS_MAX     4096
#define NAMES_BYTES    256
#define FILE_MAX_BYTES (1U << 20)

struct token {
	char text[TOKEN_BYTES];  /* zero after its end */
	unsigned role;           /* enum gs_head_role */
	char names[NAMES_BYTES]; /* of nodes, with commas; "": any */
};

struct head_tokens {
	char path[4096];
	pthread_mutex_t lock; /* what follows */
	struct token *token;
	size_t n;
};

static unsigned role_of(const char *word)
{
	return strcmp(word, "node") == 0      ? GS_HEAD_ROLE_NODE
	       : strcmp(word, "read") == 0    ? GS_HEAD_ROLE_READ
	       : strcmp(word, "control") == 0 ? GS_HEAD_ROLE_CONTROL
					      : GS_HEAD_ROLE_ANY;
}

static int add_line(const char *path, unsigned number, char *line, struct token **list, size_t *n,
		    struct gs_err *err)
{
	char *save = NULL, *role = strtok_r(line, " \t\r\n", &save), *text, *names, *more;
	struct token *grown;

	if (!role || role[0] == '#')
		return 0;
	text = strtok_r(NULL, " \t\r\n", &save);
	names = strtok_r(NULL, " \t\r\n", &save);
	more = strtok_r(NULL, " \t\r\n", &save);
	if (!text || more || !role_of(role))
		return gs_err_set(
			err, -EINVAL,
			"%s:%u: a line is ROLE TOKEN, and a role is node, read or control", path,
			number);
	if (names && (role_of(role) != GS_HEAD_ROLE_NODE || strlen(names) >= NAMES_BYTES))
		return gs_err_set(
			err, -EINVAL,
			"%s:%u: only node tokens may name nodes, in at most %d characters", path,
			number, NAMES_BYTES - 1);
	if (strlen(text) >= TOKEN_BYTES || strlen(text) < 8 || *n == TOKENS_MAX)
		return gs_err_set(err, -EINVAL,
				  "%s:%u: a token has 8 to %d characters; at most %d lines", path,
				  number, TOKEN_BYTES - 1, TOKENS_MAX);
	if (!gs_vec_reserve_next(list, *n))
		return gs_err_set(err, -ENOMEM, "no memory");
	grown = *list;
	memset(&grown[*n], 0, sizeof(*grown));
	memcpy(grown[*n].text, text, strlen(text));
	snprintf(grown[*n].names, NAMES_BYTES, "%s", names ? names : "");
	grown[(*n)++].role = role_of(role);
	return 0;
}

static int load_tokens(const char *path, struct token **ret_list, size_t *ret_n, struct gs_err *err)
{
	GS_FREE char *text = malloc(FILE_MAX_BYTES);
	char *next = text;
	struct token *list = NULL;
	size_t n = 0;
	unsigned number = 0;
	int r;

	if (!text)
		return gs_err_set(err, -ENOMEM, "no memory");
	r = gs_secret_load(path, "the token file", text, FILE_MAX_BYTES, err);
	if (r < 0)
		return r;
	for (char *line = strsep(&next, "\n"); r == 0 && line; line = strsep(&next, "\n"))
		r = add_line(path, ++number, line, &list, &n, err);
	explicit_bzero(text, FILE_MAX_BYTES);
	if (r == 0 && n == 0)
		r = gs_err_set(err, -EINVAL,
			       "the token file %s holds no token: a line is ROLE TOKEN", path);
	if (r < 0) {
		free(list);
		return r;
	}
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int head_tokens_read(const char *path, struct head_tokens **ret_tokens, struct gs_err *err)
{
	struct head_tokens *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return gs_err_set(err, -ENOMEM, "no memory");
	pthread_mutex_init(&t->lock, NULL);
	snprintf(t->path, sizeof(t->path), "%s", path);
	r = load_tokens(path, &t->token, &t->n, err);
	if (r < 0)
		head_tokens_free(&t);
	else
		*ret_tokens = t;
	return r;
}

void head_tokens_free(struct head_tokens **tokens)
{
	struct head_tokens *t = *tokens;

	if (!t)
		return;
	if (t->token)
		explicit_bzero(t->token, t->n * sizeof(*t->token));
	free(t->token);
	pthread_mutex_destroy(&t->lock);
	gs_free_p(tokens);
}

int head_tokens_reload(struct head_tokens *tokens, struct gs_err *err)
{
	struct token *list;
	size_t n;
	int r = load_tokens(tokens->path, &list, &n, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&tokens->lock);
	free(tokens->token);
	tokens->token = list;
	tokens->n = n;
	pthread_mutex_unlock(&tokens->lock);
	return 0;
}

/* The time says nothing of where they differ. */
static bool is_same_token(const char a[TOKEN_BYTES], const char b[TOKEN_BYTES])
{
	volatile unsigned char differs = 0;

	for (size_t i = 0; i < TOKEN_BYTES; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}

static bool is_enough(unsigned has, unsigned needs)
{
	return needs == GS_HEAD_ROLE_ANY || has == needs ||
	       (has == GS_HEAD_ROLE_CONTROL && needs == GS_HEAD_ROLE_READ);
}

enum gs_grpc_status head_tokens_authorize(void *ctx, const struct gs_grpc_call *call,
					  const struct gs_grpc_method *method, const char *token)
{
	struct head_tokens *t = ctx;
	char shown[TOKEN_BYTES] = "";
	bool known = false, allowed = false;

	if (!token || strlen(token) >= sizeof(shown))
		return GS_GRPC_UNAUTHENTICATED;
	memcpy(shown, token, strlen(token));
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++) /* all of them, also after one that fits */
		if (is_same_token(shown, t->token[i].text)) {
			known = true;
			allowed |= is_enough(t->token[i].role, method->role);
		}
	pthread_mutex_unlock(&t->lock);
	explicit_bzero(shown, sizeof(shown));
	return allowed ? GS_GRPC_OK : known ? GS_GRPC_PERMISSION_DENIED : GS_GRPC_UNAUTHENTICATED;
}

/* --- which node --- */

static bool is_any(const char *names)
{
	return !names[0] || strcmp(names, "*") == 0;
}

/* Hosts say their short name or the whole one, and so do who writes tokens and certificates. */
static bool name_fits(const char *name, const char *hostname)
{
	size_t n = strcspn(name, "."), h = strcspn(hostname, ".");

	if (fnmatch(name, hostname, FNM_CASEFOLD) == 0)
		return true;
	if ((name[n] != 0) == (hostname[h] != 0) || strpbrk(name, "*?["))
		return false;
	return n == h && strncasecmp(name, hostname, n) == 0;
}

bool head_names_fit(const char *names, const char *hostname)
{
	char name[NAMES_BYTES];

	while (*names) {
		size_t n = strcspn(names, ",");

		if (n && n < sizeof(name)) {
			memcpy(name, names, n);
			name[n] = '\0';
			if (name_fits(name, hostname))
				return true;
		}
		names += n + (names[n] == ',');
	}
	return false;
}

/* What stands after "Bearer ", into a token's room; false: it is none that a line could hold. */
static bool token_of(const struct gs_grpc_call *call, char ret[TOKEN_BYTES])
{
	const char *text = gs_grpc_call_metadata(call, "authorization");

	memset(ret, 0, TOKEN_BYTES);
	if (!text || strncasecmp(text, "bearer ", 7) != 0)
		return false;
	text += 7 + strspn(text + 7, " ");
	if (strlen(text) >= TOKEN_BYTES)
		return false;
	memcpy(ret, text, strlen(text));
	return true;
}

unsigned head_tokens_role(struct head_tokens *t, const struct gs_grpc_call *call)
{
	unsigned role = GS_HEAD_ROLE_ANY;
	char shown[TOKEN_BYTES];

	if (!token_of(call, shown))
		return role;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (is_same_token(shown, t->token[i].text) && t->token[i].role > role)
			role = t->token[i].role;
	pthread_mutex_unlock(&t->lock);
	explicit_bzero(shown, sizeof(shown));
	return role;
}

bool head_tokens_may_be(struct head_tokens *t, const struct gs_grpc_call *call,
			const char *hostname, char *why, size_t bytes)
{
	bool is_named = false, is_others = false, is_open = false;
	char shown[TOKEN_BYTES], names[NAMES_BYTES] = "";

	if (!token_of(call, shown)) {
		snprintf(why, bytes, "a node shows one token");
		return false;
	}
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++) {
		const struct token *line = &t->token[i];
		bool is_its = is_same_token(shown, line->text), any = is_any(line->names);
		bool fits = line->role == GS_HEAD_ROLE_NODE && !any &&
			    head_names_fit(line->names, hostname);

		is_named |= is_its && fits;
		is_others |= !is_its && fits;
		is_open |= is_its && any && line->role == GS_HEAD_ROLE_NODE;
		if (is_its && !any)
			memcpy(names, line->names, sizeof(names));
	}
	pthread_mutex_unlock(&t->lock);
	explicit_bzero(shown, sizeof(shown));
	if (is_named || (is_open && !is_others))
		return true;
	if (is_open)
		snprintf(why, bytes, "%s has a token of its own in the head's token file",
			 hostname);
	else
		snprintf(why, bytes, "this token is for node %.120s, not for %s", names, hostname);
	return false;
}

size_t head_tokens_unbound(struct head_tokens *t)
{
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		n += t->token[i].role == GS_HEAD_ROLE_NODE && !t->token[i].names[0];
	pthread_mutex_unlock(&t->lock);
	return n;
}
