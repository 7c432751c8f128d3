/* Patterns of Python functions as characters, ready to be compared by the kernel side. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "model/python.h"

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

int gs_py_glob_parse(const char *text, struct gs_py_glob *ret_glob)
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
