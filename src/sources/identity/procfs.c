/*
 * The texts of /proc/PID, taken apart. The name of a task is chosen by the task: it may hold
 * blanks, parentheses and newlines, and nothing may be found by looking for these before its end.
 */
#include "sources/identity/identity_int.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/pidns.h"
#include "core/scrub/scrub.h"
#include "sources/identity/identity.h"

void gs_identity_copy_clean(char *out, size_t out_bytes, const char *text, size_t bytes)
{
	size_t n = bytes < out_bytes ? bytes : out_bytes - 1;

	if (n < bytes) {
		/* The cut: back to the start of the character that it would go through. */
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80 && out_bytes - 1 - n < 3)
			n--;
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		out[i] = c < 0x20 || c == 0x7f ? '?' : text[i];
	}
	out[n] = '\0';
}

/* A decimal number at *at, which moves after it; false when there is none. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	uint64_t v = 0;

	while (p < end && *p >= '0' && *p <= '9')
		v = v * 10 + (uint64_t)(*p++ - '0');
	if (p == *at)
		return false;
	*at = p;
	*ret = v;
	return true;
}

static void skip_blanks(const char **at, const char *end)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		(*at)++;
}

bool gs_identity_parse_stat(const char *text, size_t bytes, struct gs_identity_stat *ret)
{
	enum {
		STATE = 3,
		PARENT = 4,
		FLAGS = 9,
		THREADS = 20,
		START = 22
	}; /* fields as proc(5) counts them */
	const char *end = text + bytes, *open = memchr(text, '(', bytes);
	const char *close = memrchr(text, ')', bytes), *p;
	uint64_t value = 0, parent = 0, flags = 0, threads = 0;
	char state = 0;

	if (!open || !close || close < open)
		return false;
	p = close + 1;
	for (int field = 3; field <= START; field++) {
		skip_blanks(&p, end);
		if (p == end || *p == '\n')
			return false;
		if (field == STATE)
			state = *p;
		if (field == PARENT || field == FLAGS || field == THREADS || field == START) {
			if (!take_number(&p, end, &value))
				return false;
			if (field == PARENT)
				parent = value;
			else if (field == FLAGS)
				flags = value;
			else if (field == THREADS)
				threads = value;
		} else {
			while (p < end && *p != ' ' && *p != '\n')
				p++;
		}
	}
	/* The last field read must have ended: a text cut within a number would lie. */
	if (p == end || (*p != ' ' && *p != '\n'))
		return false;
	ret->parent_pid = (uint32_t)parent;
	ret->start_ticks = value;
	ret->n_threads = threads;
	ret->state = state;
	ret->is_kernel = flags & GS_PF_KTHREAD;
	gs_identity_copy_clean(ret->comm, sizeof(ret->comm), open + 1, (size_t)(close - open - 1));
	return true;
}

void gs_identity_parse_status(const char *text, size_t bytes, uint32_t *ret_uid,
			      uint32_t *ret_ns_pid)
{
	const char *end = text + bytes;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *p;
		uint64_t value;

		if (!eol)
			eol = end;
		if (eol - text > 4 && memcmp(text, "Uid:", 4) == 0) {
			p = text + 4;
			skip_blanks(&p, eol);
			if (take_number(&p, eol, &value))
				*ret_uid = (uint32_t)value;
		} else if (eol - text > 6 && memcmp(text, "NSpid:", 6) == 0) {
			/* One number for each namespace, from outside in. */
			for (p = text + 6, skip_blanks(&p, eol); take_number(&p, eol, &value);
			     skip_blanks(&p, eol))
				*ret_ns_pid = (uint32_t)value;
		}
		text = eol < end ? eol + 1 : end;
	}
}

static _Atomic enum gs_identity_commands kept_commands;

void gs_identity_keep_commands(enum gs_identity_commands which)
{
	kept_commands = which;
}

bool gs_identity_choose_commands(const char *name)
{
	static const char *const names[] = {"scrubbed", "name", "full"};

	for (unsigned i = 0; i < GS_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0) {
			gs_identity_keep_commands((enum gs_identity_commands)i);
			return true;
		}
	return false;
}

void gs_identity_command_line(const char *arguments, size_t bytes, char *out, size_t out_bytes)
{
	/* Control bytes become one '?' each, so that as much fits as out holds. */
	char kept[GS_IDENTITY_CMDLINE_BYTES];

	out[0] = '\0';
	switch ((enum gs_identity_commands)kept_commands) { /* clang 14 takes no _Atomic there */
	case GS_IDENTITY_COMMANDS_NAME:
		return;
	case GS_IDENTITY_COMMANDS_FULL:
		break;
	case GS_IDENTITY_COMMANDS_SCRUBBED:
		bytes = gs_scrub_arguments(arguments, bytes, kept, sizeof(kept));
		arguments = kept;
	}
	gs_identity_parse_cmdline(arguments, bytes, out, out_bytes);
}

void gs_identity_parse_cmdline(const char *data, size_t bytes, char *out, size_t out_bytes)
{
	while (bytes && data[bytes - 1] == '\0')
		bytes--;
	gs_identity_copy_clean(out, out_bytes, data, bytes);
	/* The cleaning made '?' of what stood between the arguments. */
	for (size_t i = 0; out[i]; i++)
		if (data[i] == '\0')
			out[i] = ' ';
}
