/*
 * A command line is taken apart as the program that got it does: an argument after an option whose
 * name says "secret" is the secret, whatever is in it. Where there are only blanks to go by (a
 * script after -c, a title that a program gave itself), quotes bound a value.
 */
#include "core/scrub/scrub.h"

#include <ctype.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"

#define DEPTH_MAX          4 /* of lines in arguments of lines */
#define NAME_MAX_BYTES     64
#define USERINFO_MAX_BYTES 1024
#define PARTS_MAX          12
#define WORDS_MAX          64

struct output {
	char *out;
	size_t bytes, capacity_bytes;
};

static void put_bytes(struct output *o, const char *data, size_t bytes)
{
	size_t left = o->capacity_bytes - o->bytes;

	if (bytes > left)
		bytes = left;
	memcpy(o->out + o->bytes, data, bytes);
	o->bytes += bytes;
}

static void put_mark(struct output *o)
{
	put_bytes(o, "***", 3);
}

/* --- names --- */

struct name { /* in small letters, in parts: "openAI_api-key" is open, ai, api, key */
	char text[NAME_MAX_BYTES + PARTS_MAX];
	char *part[PARTS_MAX];
	size_t n;
};

static bool is_one_of(const char *text, const char *const *list)
{
	while (*list && strcmp(text, *list) != 0)
		list++;
	return *list;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static void split_name(const char *text, size_t bytes, struct name *name)
{
	size_t at = 0;
	bool fresh = true;

	name->n = 0;
	if (bytes > NAME_MAX_BYTES) { /* its end says what it is */
		text += bytes - NAME_MAX_BYTES;
		bytes = NAME_MAX_BYTES;
	}
	for (size_t i = 0; i < bytes; i++) {
		bool letter = isalnum((unsigned char)text[i]);

		fresh |=
			i && isupper((unsigned char)text[i]) && islower((unsigned char)text[i - 1]);
		if (!letter) {
			fresh = true;
			continue;
		}
		if (fresh) {
			if (name->n == PARTS_MAX)
				break;
			if (at)
				name->text[at++] = '\0';
			name->part[name->n++] = name->text + at;
			fresh = false;
		}
		name->text[at++] = (char)tolower((unsigned char)text[i]);
	}
	name->text[at] = '\0';
	/* PASSWORD2, token_1 */
	while (name->n &&
	       strspn(name->part[name->n - 1], "0123456789") == strlen(name->part[name->n - 1]))
		name->n--;
	if (name->n) {
		char *last = name->part[name->n - 1];
		size_t n = strlen(last);

		while (n && isdigit((unsigned char)last[n - 1]))
			last[--n] = '\0';
	}
}

static struct {
	pthread_once_t once;
	char text[4096];
	const char *word[WORDS_MAX];
	size_t n;
} own_words = {.once = PTHREAD_ONCE_INIT};

static void read_own_words(void)
{
	GS_FCLOSE FILE *f = fopen(GS_SCRUB_WORDS_PATH, "re");
	size_t n = f ? fread(own_words.text, 1, sizeof(own_words.text) - 1, f) : 0;
	char *save = NULL;

	own_words.text[n] = '\0';
	for (char *w = strtok_r(own_words.text, "\n", &save); w && own_words.n < WORDS_MAX;
	     w = strtok_r(NULL, "\n", &save)) {
		w += strspn(w, " \t-");
		w[strcspn(w, " \t\r")] = '\0';
		if (*w && *w != '#')
			own_words.word[own_words.n++] = w;
	}
}

static bool is_own_word(const char *text, size_t bytes)
{
	char name[NAME_MAX_BYTES + 1];

	pthread_once(&own_words.once, read_own_words);
	if (bytes > NAME_MAX_BYTES) /* no word is longer than that */
		return false;
	memcpy(name, text, bytes);
	name[bytes] = '\0';
	for (size_t i = 0; i < own_words.n; i++)
		if (fnmatch(own_words.word[i], name, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

enum secret {
	SECRET_NONE,
	SECRET_VALUE, /* whatever the value is */
	SECRET_KEY,   /* not when the value is the path of a file */
	SECRET_AUTH,  /* as of a header: a scheme may come first */
};

/* What a name says of its value. */
static enum secret secret_of_name(const char *text, size_t bytes)
{
	static const char *const no[] = {"no", "ask", "disable", "without", "num", "max", NULL};
	static const char *const tail[] = {
		"file",  "path",    "dir",      "env",     "name",     "type",  "id",
		"ids",   "len",     "length",   "size",    "count",    "limit", "ttl",
		"stdin", "prompt",  "policy",   "timeout", "expiry",   "store", "fd",
		"cmd",   "command", "provider", "helper",  "rotation", NULL};
	static const char *const secrets[] = {"pass",    "passcode", "passin",     "passout",
					      "pwd",     "sshpass",  "storepass",  "keypass",
					      "secrets", "creds",    "credential", "credentials",
					      "jwt",     "sig",      "signature",  NULL};
	static const char *const token_of[] = {
		"eos",     "bos",  "pad",   "unk",   "mask",   "sep",   "cls",
		"special", "next", "image", "video", "audio",  "per",   "n",
		"num",     "max",  "min",   "stop",  "start",  "end",   "decoder",
		"prompt",  "new",  "fake",  "bot",   "prefix", "split", NULL};
	static const char *const key_of[] = {
		"api",     "access",  "secret", "private",  "auth",    "encryption", "signing",
		"wandb",   "openai",  "hf",     "license",  "account", "storage",    "master",
		"service", "datadog", "dd",     "mistral",  "groq",    "ai",         "anthropic",
		"shared",  "session", "client", "function", NULL};
	struct name name;
	const char *last;

	if (is_own_word(text, bytes))
		return SECRET_VALUE;
	split_name(text, bytes, &name);
	if (!name.n || is_one_of(name.part[0], no))
		return SECRET_NONE;
	last = name.part[name.n - 1];
	if (is_one_of(last, tail))
		return SECRET_NONE;
	if (strcmp(last, "authorization") == 0 || strcmp(last, "auth") == 0 ||
	    strcmp(last, "cookie") == 0)
		return SECRET_AUTH;
	if (ends_with(last, "token") &&
	    (name.n == 1 || !is_one_of(name.part[name.n - 2], token_of)))
		return SECRET_VALUE;
	if (strcmp(last, "key") == 0 && name.n == 1)
		return SECRET_KEY;
	if ((strcmp(last, "key") == 0 || strcmp(last, "keys") == 0) && name.n > 1 &&
	    is_one_of(name.part[name.n - 2], key_of))
		return SECRET_KEY;
	if (ends_with(last, "apikey") || ends_with(last, "accesskey") ||
	    ends_with(last, "secretkey") || is_one_of(last, secrets))
		return SECRET_VALUE;
	for (size_t i = 0; i < name.n; i++)
		if (ends_with(name.part[i], "password") || ends_with(name.part[i], "passwd") ||
		    ends_with(name.part[i], "passphrase") || ends_with(name.part[i], "secret"))
			return SECRET_VALUE;
	return SECRET_NONE;
}

/* --- values --- */

static bool is_path(const char *v, size_t n)
{
	return (n > 1 && v[0] == '/' && memchr(v + 1, '/', n - 1)) ||
	       (n > 2 && (memcmp(v, "./", 2) == 0 || memcmp(v, "~/", 2) == 0)) ||
	       (n > 3 && memcmp(v, "../", 3) == 0) ||
	       (n > 4 && (memcmp(v + n - 4, ".pem", 4) == 0 || memcmp(v + n - 4, ".key", 4) == 0));
}

static bool is_digits(const char *v, size_t n)
{
	while (n && isdigit((unsigned char)v[n - 1]))
		n--;
	return n == 0;
}

/* What is no secret, whatever the name. */
static bool is_plain(enum secret kind, const char *v, size_t n)
{
	static const char *const words[] = {"true", "false", "yes",  "no",   "on",
					    "off",  "none",  "null", "basic"};

	while (n && (v[0] == '"' || v[0] == '\'' || v[0] == '\\'))
		v++, n--;
	while (n && (v[n - 1] == '"' || v[n - 1] == '\''))
		n--;
	if (n == 0 || (n <= 2 && is_digits(v, n)))
		return true;
	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
		if (strlen(words[i]) == n && strncasecmp(words[i], v, n) == 0)
			return true;
	if (v[0] == '<' && v[n - 1] == '>') /* <pad> */
		return true;
	return kind == SECRET_KEY && is_path(v, n);
}

static void put_value(struct output *o, enum secret kind, const char *v, size_t n)
{
	if (is_plain(kind, v, n))
		put_bytes(o, v, n);
	else
		put_mark(o);
}

static bool has_digit(const char *v, size_t n)
{
	while (n && !isdigit((unsigned char)v[n - 1]))
		n--;
	return n;
}

/* Tokens that are known by their shape: a beginning, and so many characters more at least. */
static size_t token_bytes(const char *p, size_t n)
{
	static const struct {
		const char *begin;
		unsigned char least;
	} shapes[] = {{"AKIA", 16},     {"ASIA", 16},     {"hf_", 16},      {"sk-", 16},
		      {"sk_live_", 10}, {"rk_live_", 10}, {"sk_test_", 10}, {"ghp_", 16},
		      {"gho_", 16},     {"ghu_", 16},     {"ghs_", 16},     {"ghr_", 16},
		      {"glpat-", 16},   {"xoxa-", 10},    {"xoxb-", 10},    {"github_pat_", 16},
		      {"xoxp-", 10},    {"xoxr-", 10},    {"xoxs-", 10},    {"AIza", 30},
		      {"ya29.", 16},    {"eyJ", 24},      {"npm_", 20},     {"pypi-", 20},
		      {"nvapi-", 20},   {"gsk_", 20},     {"r8_", 20},      {"SG.", 30},
		      {"hvs.", 16},     {"dop_v1_", 20},  {"xapp-", 10},    {"dckr_pat_", 10}};

	for (size_t i = 0; i < GS_ARRAY_LEN(shapes); i++) {
		size_t begin = strlen(shapes[i].begin), end = begin;

		if (n < begin + shapes[i].least || memcmp(p, shapes[i].begin, begin) != 0)
			continue;
		while (end < n && is_name_char(p[end]))
			end++;
		if (end >= begin + shapes[i].least && has_digit(p, end))
			return end;
	}
	return 0;
}

/* After "://": the bytes of "user:password" before the '@', 0: there is none. After a password it
 * is the last '@', since people forget to escape those within; without one, that of the authority.
 */
static size_t userinfo_bytes(const char *p, size_t n)
{
	size_t authority = 0, first = 0, last = 0, end = 0;
	const char *colon;

	if (n && p[0] == '[') /* an address of IPv6 */
		return 0;
	if (n > USERINFO_MAX_BYTES)
		n = USERINFO_MAX_BYTES;
	for (; end < n && p[end] && !strchr(" \t\n\"'<>", p[end]); end++) {
		if (!authority && strchr("/?#", p[end]))
			authority = end;
		if (p[end] == '@') {
			last = end;
			first = first ? first : end;
		}
	}
	if (!authority)
		authority = end;
	colon = memchr(p, ':', first && first < authority ? first : authority);
	/* "host:80/a@b" has a port and no password. */
	if (colon &&
	    !(first > authority && is_digits(colon + 1, (size_t)(p + authority - colon) - 1)))
		return last;
	return first < authority ? first : 0;
}

/* Where a value in the middle of a word ends: at a quote, or before the next "name=". */
static size_t value_bytes(const char *v, size_t n)
{
	size_t end = 0;

	if (n && (v[0] == '"' || v[0] == '\'')) {
		const char *close = memchr(v + 1, v[0], n - 1);

		return close ? (size_t)(close - v) + 1 : n;
	}
	for (; end < n; end++) {
		size_t next = end + 1;

		if (strchr("\"'`)}]|<>", v[end]) && v[end])
			break;
		if (!strchr("&;, \t\n", v[end]) || !v[end])
			continue;
		while (next < n && (is_name_char(v[next]) || v[next] == '"'))
			next++;
		if (next < n && (v[next] == '=' || v[next] == ':'))
			break;
		end = next - 1;
	}
	return end;
}

/* --- words --- */

struct line {
	enum secret pending; /* the next word is the value */
	char pending_after;  /* 0: all of it; otherwise what follows the first of these */
	const struct program *program;
	bool login;
	bool script; /* the word before was -c */
};

/* Short options that take a secret. */
static const struct program {
	const char *name; /* "mysql*": programs that begin so */
	char letter;
	bool attached, separate; /* -pSECRET, -p SECRET */
	char after;              /* the secret begins after it */
	bool login;              /* after the word login only */
} programs[] = {
	{"mysql*", 'p', true, false, 0, false},     {"mariadb*", 'p', true, false, 0, false},
	{"sshpass", 'p', true, true, 0, false},     {"docker", 'p', true, true, 0, true},
	{"podman", 'p', true, true, 0, true},       {"nerdctl", 'p', true, true, 0, true},
	{"skopeo", 'p', true, true, 0, true},       {"az", 'p', true, true, 0, true},
	{"redis-cli", 'a', false, true, 0, false},  {"curl", 'u', true, true, ':', false},
	{"curl", 'U', true, true, ':', false},      {"lftp", 'u', true, true, ',', false},
	{"ldap*", 'w', true, true, 0, false},       {"mongo*", 'p', true, true, 0, false},
	{"smbclient", 'U', true, true, '%', false}, {"7z*", 'p', true, false, 0, false},
	{"zip", 'P', true, true, 0, false},         {"unzip", 'P', true, true, 0, false},
	{"ipmitool", 'P', true, true, 0, false},    {"sqlcmd", 'P', true, true, 0, false},
	{"bcp", 'P', true, true, 0, false},         {"cqlsh", 'p', true, true, 0, false},
	{"openssl", 'k', false, true, 0, false},    {"rdesktop", 'p', true, true, 0, false},
	{"snmp*", 'A', false, true, 0, false},      {"snmp*", 'X', false, true, 0, false},
};

static bool is_program(const char *pattern, const char *word, size_t bytes)
{
	size_t n = strlen(pattern);

	if (pattern[n - 1] == '*')
		return bytes >= n - 1 && memcmp(pattern, word, n - 1) == 0;
	return bytes == n && memcmp(pattern, word, n) == 0;
}

/* The word may name a program, after sudo or in a script too. */
static void notice_program(struct line *l, const char *word, size_t bytes)
{
	const char *slash = memrchr(word, '/', bytes);

	if (slash) {
		bytes -= (size_t)(slash + 1 - word);
		word = slash + 1;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(programs); i++)
		if (is_program(programs[i].name, word, bytes)) {
			l->program = &programs[i];
			l->login = false;
			return;
		}
}

static const struct program *option_of(const struct line *l, char letter)
{
	const struct program *p = l->program;

	for (; p && p < programs + GS_ARRAY_LEN(programs) && strcmp(p->name, l->program->name) == 0;
	     p++)
		if (p->letter == letter && (!p->login || l->login))
			return p;
	return NULL;
}

/* "user:secret" */
static void put_after(struct output *o, char after, const char *v, size_t n)
{
	const char *at = after ? memchr(v, after, n) : NULL;

	if (after && !at) {
		put_bytes(o, v, n);
		return;
	}
	if (at)
		put_bytes(o, v, (size_t)(at - v) + 1);
	if (!at || (size_t)(at - v) + 1 < n)
		put_mark(o);
}

/* What stands anywhere in a word: "name=secret", users in URLs, tokens by their shape. */
static void scrub_inside(struct output *o, struct line *l, const char *w, size_t n)
{
	size_t i = 0;

	while (i < n && o->bytes < o->capacity_bytes) {
		size_t run = i, known;
		enum secret kind;

		while (run < n && is_name_char(w[run]))
			run++;
		if (run == i) {
			if (n - i > 3 && memcmp(w + i, "://", 3) == 0) {
				size_t user = userinfo_bytes(w + i + 3, n - i - 3);
				const char *colon = memchr(w + i + 3, ':', user);

				put_bytes(o, "://", 3);
				i += 3;
				/* A user alone is no secret, but as a token. */
				if (colon) {
					put_bytes(o, w + i, (size_t)(colon + 1 - (w + i)));
					put_mark(o);
					i += user;
				} else if (user >= 20) {
					put_mark(o);
					i += user;
				}
				continue;
			}
			put_bytes(o, w + i++, 1);
			continue;
		}
		known = token_bytes(w + i, n - i);
		if (known) {
			put_mark(o);
			i += known;
			continue;
		}
		put_bytes(o, w + i, run - i);
		kind = run < n ? secret_of_name(w + i, run - i) : SECRET_NONE;
		i = run;
		if (kind == SECRET_NONE)
			continue;
		if (run < n && (w[run] == '"' || w[run] == '\''))
			run++;
		if (run == n || (w[run] != '=' && w[run] != ':') ||
		    (run + 2 < n && memcmp(w + run, "://", 3) == 0))
			continue;
		run++;
		put_bytes(o, w + i, run - i);
		i = run;
		if (i == n && w[n - 1] == ':') {
			l->pending = kind;
			continue;
		}
		run = value_bytes(w + i, n - i);
		put_value(o, kind, w + i, run);
		i += run;
	}
}

static void scrub_line(struct output *o, const char *text, size_t n, int depth, bool quotes);

/* "--name", "--name=value", "NAME=value", "Header: value". True: the word is done. */
static bool scrub_option(struct output *o, struct line *l, const char *w, size_t n)
{
	size_t dash = 0, end;
	enum secret kind;

	while (dash < n && (w[dash] == '-' || w[dash] == '+'))
		dash++;
	end = dash;
	while (end < n && is_name_char(w[end]))
		end++;
	if (end == dash)
		return false;
	if (dash == 2 && l->program && strcmp(l->program->name, "curl") == 0 && end - dash >= 4 &&
	    memcmp(w + end - 4, "user", 4) == 0) { /* --user, --proxy-user */
		put_bytes(o, w, end == n ? n : end + 1);
		if (end == n) {
			l->pending = SECRET_VALUE;
			l->pending_after = ':';
		} else {
			put_after(o, ':', w + end + 1, n - end - 1);
		}
		return true;
	}
	kind = secret_of_name(w + dash, end - dash);
	if (kind == SECRET_NONE)
		return false;
	if (end == n && dash) {
		put_bytes(o, w, n);
		l->pending = kind;
		return true;
	}
	if (end < n && (w[end] == '=' || w[end] == ':') &&
	    !(n - end > 2 && memcmp(w + end, "://", 3) == 0)) {
		put_bytes(o, w, end + 1);
		if (end + 1 == n)
			l->pending = w[end] == ':' ? kind : SECRET_NONE;
		else
			put_value(o, kind, w + end + 1, n - end - 1);
		return true;
	}
	return false;
}

static bool scrub_short_option(struct output *o, struct line *l, const char *w, size_t n)
{
	const struct program *p;

	if (n < 2 || w[0] != '-' || w[1] == '-')
		return false;
	p = option_of(l, w[1]);
	if (!p)
		return false;
	if (strcmp(p->name, "sshpass") == 0) /* what follows is another program's */
		l->program = NULL;
	if (n == 2 && p->separate) {
		put_bytes(o, w, n);
		l->pending = SECRET_VALUE;
		l->pending_after = p->after;
		return true;
	}
	if (n == 2 || !p->attached)
		return false;
	put_bytes(o, w, 2);
	put_after(o, p->after, w + 2, n - 2);
	return true;
}

/* The value of the word before. False: it cannot be one. */
static bool scrub_pending(struct output *o, struct line *l, const char *w, size_t n)
{
	static const char *const schemes[] = {"bearer", "basic", "token", "digest", "negotiate"};
	enum secret kind = l->pending;
	char after = l->pending_after;

	l->pending_after = 0;
	l->pending = SECRET_NONE;
	/* A switch without a value came before another option. */
	if (n > 1 && w[0] == '-' && (w[1] == '-' || n == 2))
		return false;
	for (size_t i = 0; kind == SECRET_AUTH && i < GS_ARRAY_LEN(schemes); i++)
		if (strlen(schemes[i]) == n && strncasecmp(schemes[i], w, n) == 0) {
			put_bytes(o, w, n);
			l->pending = SECRET_VALUE;
			return true;
		}
	if (after)
		put_after(o, after, w, n);
	else
		put_value(o, kind, w, n);
	return true;
}

static bool is_script_option(const char *w, size_t n)
{
	return n >= 2 && n <= 5 && w[0] == '-' && w[1] != '-' && w[n - 1] == 'c';
}

static bool is_word(const char *w, size_t n)
{
	while (n && isalnum((unsigned char)w[n - 1]))
		n--;
	return n == 0;
}

static void scrub_word(struct output *o, struct line *l, const char *w, size_t n, int depth)
{
	bool script = l->script, blanks = false;

	if (n == 0) { /* an empty value */
		l->pending = SECRET_NONE;
		l->pending_after = 0;
	}
	if (n == 0 || (l->pending && scrub_pending(o, l, w, n)))
		return;
	l->script = is_script_option(w, n);
	if (n > 2 && (w[0] == '"' || w[0] == '\'') && w[n - 1] == w[0] && depth < DEPTH_MAX) {
		put_bytes(o, w, 1);
		l->script = script;
		scrub_word(o, l, w + 1, n - 2, depth + 1);
		put_bytes(o, w, 1);
		return;
	}
	if (w[0] != '-')
		notice_program(l, w, n);
	for (size_t i = 0; i < n && !blanks; i++)
		blanks = w[i] == ' ' || w[i] == '\t' || w[i] == '\n';
	if (!(script && blanks) && (scrub_short_option(o, l, w, n) || scrub_option(o, l, w, n)))
		return;
	if (l->login && n >= 20 && has_digit(w, n) && is_word(w, n)) { /* wandb login KEY */
		l->login = false;
		put_mark(o);
		return;
	}
	if (n == 5 && memcmp(w, "login", 5) == 0)
		l->login = true;
	if (n == 6 && strncasecmp(w, "bearer", 6) == 0)
		l->pending = SECRET_VALUE;
	if (blanks && depth < DEPTH_MAX)
		scrub_line(o, w, n, depth + 1, depth % 2 == 0);
	else
		scrub_inside(o, l, w, n);
}

/* Words between blanks; with quotes, blanks within those belong to the word. */
static void scrub_line(struct output *o, const char *text, size_t n, int depth, bool quotes)
{
	struct line line = {0};
	bool single = quotes, twofold = quotes; /* whether there may be another closing one */
	size_t i = 0;

	while (i < n && o->bytes < o->capacity_bytes) {
		size_t end = i;

		while (end < n && (text[end] == ' ' || text[end] == '\t' || text[end] == '\n'))
			end++;
		put_bytes(o, text + i, end - i);
		i = end;
		while (end < n && text[end] != ' ' && text[end] != '\t' && text[end] != '\n') {
			bool *more = text[end] == '"' ? &twofold : &single;

			if ((text[end] == '"' || text[end] == '\'') && *more) {
				const char *close = memchr(text + end + 1, text[end], n - end - 1);

				if (close)
					end = (size_t)(close - text);
				else
					*more = false;
			}
			end++;
		}
		scrub_word(o, &line, text + i, end - i, depth);
		i = end;
	}
}

size_t gs_scrub_arguments(const char *arguments, size_t bytes, char *out, size_t out_bytes)
{
	struct output o = {.out = out, .capacity_bytes = out_bytes};
	struct line line = {0};
	size_t i = 0;

	while (i < bytes && o.bytes < out_bytes) {
		size_t n = strnlen(arguments + i, bytes - i);

		scrub_word(&o, &line, arguments + i, n, 0);
		i += n;
		if (i++ < bytes)
			put_bytes(&o, "", 1);
	}
	return o.bytes;
}

void gs_scrub_text(const char *text, char *out, size_t out_bytes)
{
	struct output o = {.out = out, .capacity_bytes = out_bytes - 1};

	scrub_line(&o, text, strlen(text), 1, true);
	out[o.bytes] = '\0';
}
