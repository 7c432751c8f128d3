#include "pipeline/correlate/python_glob.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "model/trace/python_match.h"

static int take_pattern(struct gs_py_pattern *p, const char *text, const char *end)
{
	while (text < end) {
		uint32_t c = gs_py_next_char(&text);

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

bool gs_correlate_matches_py_glob(const struct gs_py_glob *glob, const char *file, const char *name)
{
	return gs_py_glob_matches(glob, file, name);
}
