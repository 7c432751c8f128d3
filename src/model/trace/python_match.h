/* Patterns that choose Python functions, compared with texts in UTF-8: in gpuscope, and in traced programs. The kernel side
 * does the same with the interpreter's own texts (bpf/calls/pycall.bpf.c). */
#ifndef GS_MODEL_TRACE_PYTHON_MATCH_H
#define GS_MODEL_TRACE_PYTHON_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/python.h"

/* The next character of UTF-8 text; a byte that is none stands for itself (Latin-1). */
static inline uint32_t gs_py_next_char(const char **text)
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

/* * first stands for nothing, and for one character more each time that what follows does not match. */
static inline bool gs_py_matches_from(const struct gs_py_pattern *p, unsigned from,
				      const char *text)
{
	const char *star_text = NULL;
	unsigned at = from, star = 0;

	for (;;) {
		const char *next = text;
		uint32_t c = *text ? gs_py_next_char(&next) : 0,
			 want = at < p->n ? p->chars[at] : 0;

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
			gs_py_next_char(&star_text);
			text = star_text;
			at = star;
		}
	}
}

/* Of a path also its end alone may match. */
static inline bool gs_py_pattern_matches(const struct gs_py_pattern *p, const char *text)
{
	return !p->n || gs_py_matches_from(p, 0, text) ||
	       (p->n >= 2 && p->chars[0] == GS_PY_GLOB_ANY && p->chars[1] == '/' &&
		gs_py_matches_from(p, 2, text));
}

/* Is that function, by its file and name, among those that the pattern chooses? */
static inline bool gs_py_glob_matches(const struct gs_py_glob *glob, const char *file,
				      const char *name)
{
	return gs_py_pattern_matches(&glob->file, file) && gs_py_pattern_matches(&glob->name, name);
}

#endif
