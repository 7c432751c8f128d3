/* Compact, and quick: a long answer has hundreds of thousands of values. */
#include <math.h>
#include <string.h>

#include "core/text/json.h"
#include "core/text/put.h"
#include "core/text/text.h"

static bool is_plain(const char *text)
{
	while (*text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\')
		text++;
	return !*text;
}

/* The comma and the key, and room for more bytes after them, of which the caller says by end_value() how
 * many there are; NULL: the buffer is at its end. Keys are mostly this program's own, and there are
 * hundreds of thousands of them in a long answer. */
static char *begin_value(struct gs_buf *out, const char *key, size_t more)
{
	char last = out->bytes ? (char)out->data[out->bytes - 1] : '[';
	size_t n = key ? strlen(key) : 0;
	char *p;

	if (gs_buf_reserve(out, n + more + 4) < 0)
		return NULL;
	p = (char *)out->data + out->bytes;
	if (last != '{' && last != '[')
		*p++ = ',';
	if (!key)
		return p;
	if (is_plain(key)) {
		*p++ = '"';
		memcpy(p, key, n);
		p += n;
		*p++ = '"';
		*p++ = ':';
		return p;
	}
	out->bytes = (size_t)(p - (char *)out->data);
	if (gs_text_json(out, key) < 0 || gs_buf_reserve(out, more + 1) < 0)
		return NULL;
	p = (char *)out->data + out->bytes;
	*p++ = ':';
	return p;
}

static void end_value(struct gs_buf *out, char *p)
{
	if (p)
		out->bytes = (size_t)(p - (char *)out->data);
}

/* A word of this program. */
static void put_word(struct gs_buf *out, const char *key, const char *text)
{
	char *p = begin_value(out, key, 8);

	end_value(out, p ? gs_put(p, text) : NULL);
}

void gs_json_open(struct gs_buf *out, const char *key, char bracket)
{
	char *p = begin_value(out, key, 1);

	if (p)
		*p++ = bracket;
	end_value(out, p);
}

void gs_json_close(struct gs_buf *out, char bracket)
{
	(void)gs_buf_put(out, &bracket, 1);
}

void gs_json_text(struct gs_buf *out, const char *key, const char *text)
{
	char *p = begin_value(out, key, 0);

	end_value(out, p);
	if (p)
		(void)gs_text_json(out, text);
}

void gs_json_i64(struct gs_buf *out, const char *key, int64_t v)
{
	char *p = begin_value(out, key, 24);

	end_value(out, p ? gs_put_i64(p, v) : NULL);
}

void gs_json_u64(struct gs_buf *out, const char *key, uint64_t v)
{
	char *p = begin_value(out, key, 24);

	end_value(out, p ? gs_put_u64(p, v) : NULL);
}

void gs_json_double(struct gs_buf *out, const char *key, double v)
{
	char *p;

	if (!isfinite(v)) {
		gs_json_null(out, key);
		return;
	}
	p = begin_value(out, key, GS_PUT_DOUBLE);
	end_value(out, p ? gs_put_double(p, v) : NULL);
}

void gs_json_bool(struct gs_buf *out, const char *key, bool v)
{
	put_word(out, key, v ? "true" : "false");
}

void gs_json_null(struct gs_buf *out, const char *key)
{
	put_word(out, key, "null");
}

void gs_json_time(struct gs_buf *out, const char *key, int64_t wall_ns)
{
	char *p;

	if (wall_ns <= 0) {
		gs_json_null(out, key);
		return;
	}
	p = begin_value(out, key, GS_PUT_TIME + 2);
	if (p) {
		*p++ = '"';
		p = gs_put_time(p, wall_ns, 3);
		*p++ = '"';
	}
	end_value(out, p);
}

void gs_json_spelled(struct gs_buf *out, const char *key, const void *text, size_t bytes)
{
	char *p = begin_value(out, key, 0);

	end_value(out, p);
	if (p)
		(void)gs_buf_put(out, text, bytes);
}
