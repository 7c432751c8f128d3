/* JSON as the API writes it: compact, whatever bytes came in. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api_int.h"
#include "text/put.h"
#include "text/text.h"

static void start(struct gs_buf *out, const char *key)
{
	char last = out->bytes ? (char)out->data[out->bytes - 1] : '[';

	if (last != '{' && last != '[')
		(void)gs_buf_put(out, ",", 1);
	if (key) {
		(void)gs_text_json(out, key);
		(void)gs_buf_put(out, ":", 1);
	}
}

void j_open(struct gs_buf *out, const char *key, char bracket)
{
	start(out, key);
	(void)gs_buf_put(out, &bracket, 1);
}

void j_close(struct gs_buf *out, char bracket)
{
	(void)gs_buf_put(out, &bracket, 1);
}

void j_text(struct gs_buf *out, const char *key, const char *text)
{
	start(out, key);
	(void)gs_text_json(out, text);
}

void j_i64(struct gs_buf *out, const char *key, int64_t v)
{
	char text[24];

	start(out, key);
	(void)gs_buf_put(out, text, (size_t)(gs_put_i64(text, v) - text)); /* a heat map has many */
}

void j_u64(struct gs_buf *out, const char *key, uint64_t v)
{
	char text[24];

	start(out, key);
	(void)gs_buf_put(out, text, (size_t)(gs_put_u64(text, v) - text));
}

void j_double(struct gs_buf *out, const char *key, double v)
{
	char text[40];

	if (!isfinite(v)) {
		j_null(out, key);
		return;
	}
	start(out, key);
	snprintf(text, sizeof(text), "%.9g", v);
	for (char *p = text; *p; p++)
		if (*p == ',') /* some users' languages */
			*p = '.';
	(void)gs_buf_puts(out, text);
}

void j_bool(struct gs_buf *out, const char *key, bool v)
{
	start(out, key);
	(void)gs_buf_puts(out, v ? "true" : "false");
}

void j_null(struct gs_buf *out, const char *key)
{
	start(out, key);
	(void)gs_buf_puts(out, "null");
}

void j_time(struct gs_buf *out, const char *key, int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	char text[48];
	struct tm tm;
	size_t n;

	if (wall_ns <= 0 || !gmtime_r(&s, &tm)) {
		j_null(out, key);
		return;
	}
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(wall_ns % 1000000000 / 1000000));
	j_text(out, key, text);
}
