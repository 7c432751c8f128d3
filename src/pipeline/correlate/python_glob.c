#include "pipeline/correlate/python_glob.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The next character of UTF-8 text; a byte that is none stands for itself (Latin-1). */
static uint32_t next_char(const char **text)
{
	const uint8_t *t = (const uint8_t *)*text;
	unsigned n = *t >= 0xf0 ? 3 : *t >= 0xe0 ? 2 : *t >= 0xc0 ? 1 : 0;
	uint32_t c = *t & (n ? 0x3fu >> n : 0xffu);

	for (unsigned i = 1; i <= n; i++) {
		if ((t[i] & 0xc0) != 0x80) {
			*text += 1;
			return *t;
		}
		c = c << 6 | (t[i] & 0x3fu);
	}
	*text += n + 1;
	return c;
}

static int take_pattern(struct gs_py_pattern *p, const char *text, const char *end)
{
	while (text < end) {
		uint32_t c = next_char(&text);

		if (c == '*' && p->n && p->chars[p->n - 1] == GS_PY_GLOB_ANY)
			continue;
		if (p->n == GS_PY_GLOB_CHARS)
			return -E2BIG;
		p->chars[p->n++] = c == '*' ? GS_PY_GLOB_ANY : c == '?' ? GS_PY_GLOB_ONE : c;
	}
	/* Of a * alone nothing has to be compared. */
	if (p->n == 1 && p->chars[0] == GS_PY_GLOB_ANY)
		p->n = 0;
	return 0;
}

int gs_correlate_parse_py_glob(const char *text, struct gs_py_glob *ret_glob)
{
	const char *colon = strrchr(text, ':'), *name = colon ? colon + 1 : text;
	int r = 0;

	*ret_glob = (struct gs_py_glob){0};
	if (!*text)
		return -EINVAL;
	/* A file is given by the end of its path, unless from the root on. */
	if (colon && colon > text && *text != '/' && *text != '*') {
		ret_glob->file.chars[0] = GS_PY_GLOB_ANY;
		ret_glob->file.chars[1] = '/';
		ret_glob->file.n = 2;
	}
	if (colon)
		r = take_pattern(&ret_glob->file, text, colon);
	return r < 0 ? r : take_pattern(&ret_glob->name, name, name + strlen(name));
}

/* * first stands for nothing, and for one character more each time that what follows does not
 * match. As bpf/calls/pycall.bpf.c does it. */
static bool matches_from(const struct gs_py_pattern *p, unsigned from, const char *text)
{
	const char *star_text = NULL;
	unsigned at = from, star = 0;

	for (;;) {
		const char *next = text;
		uint32_t c = *text ? next_char(&next) : 0, want = at < p->n ? p->chars[at] : 0;

		if (want == GS_PY_GLOB_ANY) {
			star = ++at;
			star_text = text;
		} else if (!c && !want) {
			return true;
		} else if (c && (want == GS_PY_GLOB_ONE || want == c)) {
			text = next;
			at++;
		} else if (!star_text || !c) {
			return false;
		} else {
			next_char(&star_text);
			text = star_text;
			at = star;
		}
	}
}

static bool pattern_matches(const struct gs_py_pattern *p, const char *text)
{
	return !p->n || matches_from(p, 0, text) ||
	       (p->n >= 2 && p->chars[0] == GS_PY_GLOB_ANY && p->chars[1] == '/' &&
		matches_from(p, 2, text));
}

bool gs_correlate_matches_py_glob(const struct gs_py_glob *glob, const char *file, const char *name)
{
	return pattern_matches(&glob->file, file) && pattern_matches(&glob->name, name);
}
