#include "headcmd/head_token.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/secret.h"
#include "head/head.h"

#define TOKEN_BYTES    256
#define TOKENS_MAX     1024
#define FILE_MAX_BYTES (1U << 20)

struct token {
	char text[TOKEN_BYTES]; /* zero behind its end */
	unsigned role;          /* enum gs_head_role */
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
	char *save = NULL, *role = strtok_r(line, " \t\r\n", &save), *text, *more;
	struct token *grown;

	if (!role || role[0] == '#')
		return 0;
	text = strtok_r(NULL, " \t\r\n", &save);
	more = strtok_r(NULL, " \t\r\n", &save);
	if (!text || more || !role_of(role))
		return gs_err_set(
			err, -EINVAL,
			"%s:%u: a line is ROLE TOKEN, and a role is node, read or control", path,
			number);
	if (strlen(text) >= TOKEN_BYTES || strlen(text) < 8 || *n == TOKENS_MAX)
		return gs_err_set(err, -EINVAL,
				  "%s:%u: a token has 8 to %d letters; at most %d lines", path,
				  number, TOKEN_BYTES - 1, TOKENS_MAX);
	grown = reallocarray(*list, *n + 1, sizeof(*grown));
	if (!grown)
		return gs_err_set(err, -ENOMEM, "no memory");
	*list = grown;
	memset(&grown[*n], 0, sizeof(*grown));
	memcpy(grown[*n].text, text, strlen(text));
	grown[(*n)++].role = role_of(role);
	return 0;
}

static int load(const char *path, struct token **ret_list, size_t *ret_n, struct gs_err *err)
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
	r = load(path, &t->token, &t->n, err);
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
	int r = load(tokens->path, &list, &n, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&tokens->lock);
	free(tokens->token);
	tokens->token = list;
	tokens->n = n;
	pthread_mutex_unlock(&tokens->lock);
	return 0;
}

/* The time tells nothing of where they differ. */
static bool same(const char a[TOKEN_BYTES], const char b[TOKEN_BYTES])
{
	volatile unsigned char differs = 0;

	for (size_t i = 0; i < TOKEN_BYTES; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}

static bool enough(unsigned has, unsigned needs)
{
	return needs == GS_HEAD_ROLE_ANY || has == needs ||
	       (has == GS_HEAD_ROLE_CONTROL && needs == GS_HEAD_ROLE_READ);
}

enum gs_rpc_status head_tokens_authorize(void *ctx, const struct gs_rpc_call *call,
					 const struct gs_rpc_method *method, const char *token)
{
	struct head_tokens *t = ctx;
	char shown[TOKEN_BYTES] = "";
	bool known = false, allowed = false;

	if (!token || strlen(token) >= sizeof(shown))
		return GS_RPC_UNAUTHENTICATED;
	memcpy(shown, token, strlen(token));
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++) /* all of them, also behind one that fits */
		if (same(shown, t->token[i].text)) {
			known = true;
			allowed |= enough(t->token[i].role, method->role);
		}
	pthread_mutex_unlock(&t->lock);
	explicit_bzero(shown, sizeof(shown));
	return allowed ? GS_RPC_OK : known ? GS_RPC_PERMISSION_DENIED : GS_RPC_UNAUTHENTICATED;
}
