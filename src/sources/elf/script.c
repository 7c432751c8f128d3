/*
 * Which program runs a script. The kernel takes the first line: "#!", a path, and all that follows
 * as one argument. Two habits hide the real interpreter:
 *
 *	#!/usr/bin/env [-S] [options] [NAME=value...] python3 ...
 *
 *	#!/bin/sh
 *	'''exec' "/a/path/too long/or with blanks/bin/python" "$0" "$@"
 *
 * the second being what pip writes where a path does not fit into the first line.
 */
#include "sources/elf/library_int.h"

#include <string.h>

#include "core/base/mem.h"

#define BLANKS " \t"

/* The next word of a line, where quotes may hold blanks; false at the end of the line. */
static bool next_word(const char **p, const char *end, char *out, size_t out_bytes)
{
	size_t n = 0;
	char quote = 0;

	while (*p < end && strchr(BLANKS, **p))
		(*p)++;
	if (*p == end)
		return false;
	for (; *p < end && (quote || !strchr(BLANKS, **p)); (*p)++) {
		char c = **p;

		if (!quote && (c == '"' || c == '\'')) {
			quote = c;
		} else if (c == quote) {
			quote = 0;
		} else if (n + 1 < out_bytes) {
			out[n++] = c;
		}
	}
	out[n] = 0;
	return true;
}

/* The command among the arguments of env. */
static bool parse_env(const char *p, const char *end, struct gs_script *script)
{
	char word[PATH_MAX];

	while (next_word(&p, end, word, sizeof(word))) {
		const char *text = word;

		if (strncmp(text, "-S", 2) == 0)
			text += 2; /* what is glued to it is the first word of the rest */
		if (strcmp(text, "-u") == 0 || strcmp(text, "-C") == 0) {
			if (!next_word(&p, end, word, sizeof(word)))
				return false;
			continue;
		}
		if (*text == 0 || *text == '-' || strchr(text, '='))
			continue;
		strcpy(script->interpreter, text);
		script->in_path = !strchr(text, '/');
		return true;
	}
	return false;
}

bool gs_elf_parse_script(const char *text, size_t bytes, struct gs_script *ret_script)
{
	struct gs_script script = {.in_path = false};
	const char *p = text + 2, *end, *exec_at;
	size_t n;

	if (bytes < 2 || memcmp(text, "#!", 2) != 0)
		return false;
	end = memchr(text, '\n', bytes);
	if (!end)
		end = text + bytes;
	if (memchr(text, 0, end - text))
		return false;
	while (p < end && strchr(BLANKS, *p))
		p++;
	for (n = 0; p < end && !strchr(BLANKS, *p); p++) {
		if (n + 1 < sizeof(script.interpreter))
			script.interpreter[n++] = *p;
	}
	if (n && script.interpreter[n - 1] == '\r')
		n--;
	script.interpreter[n] = 0;
	if (n == 0)
		return false;
	if (strcmp(gs_elf_path_name(script.interpreter), "env") == 0 && !parse_env(p, end, &script))
		return false;

	exec_at = end < text + bytes ? end + 1 : end;
	if ((size_t)(text + bytes - exec_at) > 8 && memcmp(exec_at, "'''exec'", 8) == 0) {
		const char *line_end = memchr(exec_at, '\n', text + bytes - exec_at);
		char word[PATH_MAX];

		exec_at += 8;
		if (line_end && next_word(&exec_at, line_end, word, sizeof(word)) &&
		    word[0] == '/') {
			strcpy(script.interpreter, word);
			script.in_path = false;
		}
	}
	*ret_script = script;
	return true;
}
