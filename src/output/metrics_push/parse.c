/* The text of a scrape: Prometheus's 0.0.4 and OpenMetrics 1.0, as far as both are made here. */
#include "output/metrics_push/push_int.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct family {
	char name[256], unit[64], help[512];
	enum push_type type;
};

static bool is_name(const char *s, size_t bytes)
{
	if (!bytes || isdigit((unsigned char)*s))
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != ':')
			return false;
	return true;
}

/* The line's family: its name, with what types put behind it. */
static bool belongs_to_family(const struct family *f, const char *name)
{
	size_t n = strlen(f->name);

	return n && strncmp(name, f->name, n) == 0 &&
	       (name[n] == 0 || strcmp(name + n, "_total") == 0 || strcmp(name + n, "_info") == 0);
}

static enum push_type type_of(const char *word)
{
	return strcmp(word, "gauge") == 0     ? PUSH_GAUGE
	       : strcmp(word, "counter") == 0 ? PUSH_COUNTER
	       : strcmp(word, "info") == 0    ? PUSH_INFO
					      : PUSH_UNKNOWN;
}

/* "# TYPE name counter" and the like; what is of a new name begins a new family. */
static void parse_comment(struct family *f, char *line)
{
	char *save, *what, *name, *rest;

	(void)strtok_r(line, " ", &save);
	what = strtok_r(NULL, " ", &save);
	name = what ? strtok_r(NULL, " ", &save) : NULL;
	rest = name ? save : NULL;
	if (!rest ||
	    (strcmp(what, "TYPE") != 0 && strcmp(what, "UNIT") != 0 && strcmp(what, "HELP") != 0))
		return;
	if (strcmp(f->name, name) != 0) {
		*f = (struct family){.type = PUSH_UNKNOWN};
		snprintf(f->name, sizeof(f->name), "%s", name);
	}
	if (*what == 'T')
		f->type = type_of(rest);
	else
		snprintf(*what == 'U' ? f->unit : f->help,
			 *what == 'U' ? sizeof(f->unit) : sizeof(f->help), "%s", rest);
}

/* A quoted value at *p, unescaped in place. NULL: it does not end. */
static char *unquote_value(char **p)
{
	char *in = *p + 1, *out = in, *value = in;

	if (**p != '"')
		return NULL;
	for (; *in && *in != '"'; in++) {
		if (*in == '\\' && in[1]) {
			in++;
			*out++ = *in == 'n' ? '\n' : *in;
		} else {
			*out++ = *in;
		}
	}
	if (*in != '"')
		return NULL;
	*p = in + 1;
	*out = 0;
	return value;
}

/* Behind '{'. The end, NULL: not understood. */
static char *parse_labels(char *p, struct push_sample *s)
{
	while (*p != '}') {
		char *name = p, *value;
		size_t bytes = strcspn(p, "=");

		if (p[bytes] != '=' || !is_name(name, bytes) || s->n_labels == PUSH_LABELS_MAX)
			return NULL;
		p += bytes + 1;
		value = unquote_value(&p);
		if (!value)
			return NULL;
		name[bytes] = 0;
		s->label[s->n_labels++] = (struct push_label){name, value};
		if (*p == ',')
			p++;
		else if (*p != '}')
			return NULL;
	}
	return p + 1;
}

static bool parse_number(char *text, double *ret_value)
{
	char *end;

	*ret_value = strtod(text, &end);
	return end != text && *end == 0;
}

static bool parse_sample(char *line, bool openmetrics, struct push_sample *s)
{
	size_t bytes = strcspn(line, "{ ");
	char *p = line + bytes, *save, *value, *time;
	char sign = *p;
	double t = 0;

	if (!sign || !is_name(line, bytes))
		return false;
	s->name = line;
	s->n_labels = 0;
	*p++ = 0;
	if (sign == '{') {
		p = parse_labels(p, s);
		if (!p)
			return false;
	}
	value = strtok_r(p, " ", &save);
	time = value ? strtok_r(NULL, " ", &save) : NULL;
	if (!value || !parse_number(value, &s->value) || (time && !parse_number(time, &t)) ||
	    !isfinite(t) || fabs(t) > 1e15)
		return false;
	s->time_ms = (int64_t)(openmetrics ? t * 1000 : t);
	return true;
}

int push_parse(char *text, size_t bytes, int (*fn)(void *ctx, const struct push_sample *sample),
	       void *ctx, uint64_t *ret_bad)
{
	static const char eof[] = "# EOF\n";
	bool openmetrics = bytes >= sizeof(eof) - 1 &&
			   memcmp(text + bytes - (sizeof(eof) - 1), eof, sizeof(eof) - 1) == 0;
	struct family family = {.type = PUSH_UNKNOWN};
	struct push_sample s;
	char *end = text + bytes;
	int r = 0;

	*ret_bad = 0;
	for (char *line = text, *next; r == 0 && line < end; line = next) {
		char *newline = memchr(line, '\n', (size_t)(end - line));

		if (!newline) { /* every line ends in one */
			++*ret_bad;
			break;
		}
		next = newline + 1;
		*newline = 0;
		if (memchr(line, 0, (size_t)(newline - line))) {
			++*ret_bad;
			continue;
		}
		if (*line == '#') {
			parse_comment(&family, line);
		} else if (*line) {
			if (!parse_sample(line, openmetrics, &s)) {
				++*ret_bad;
				continue;
			}
			s.type = belongs_to_family(&family, s.name) ? family.type : PUSH_UNKNOWN;
			s.unit = s.type == PUSH_UNKNOWN ? "" : family.unit;
			s.help = s.type == PUSH_UNKNOWN ? "" : family.help;
			r = fn(ctx, &s);
		}
	}
	return r;
}
