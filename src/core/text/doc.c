#include "core/text/doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void gs_doc_begin_map(struct gs_doc *doc, const char *key)
{
	doc->ops->begin(doc, key, false, false, false);
}

void gs_doc_begin_flat(struct gs_doc *doc, const char *key)
{
	doc->ops->begin(doc, key, false, false, true);
}

void gs_doc_begin_list(struct gs_doc *doc, const char *key, size_t n)
{
	doc->ops->begin(doc, key, true, n == 0, false);
}

void gs_doc_begin_flat_list(struct gs_doc *doc, const char *key)
{
	doc->ops->begin(doc, key, true, false, true);
}

void gs_doc_end(struct gs_doc *doc)
{
	doc->ops->end(doc);
	gs_pen_yield(doc->pen);
}

void gs_doc_put_null(struct gs_doc *doc, const char *key)
{
	doc->ops->key(doc, key);
	gs_pen_puts(doc->pen, "null");
}

void gs_doc_put_u64(struct gs_doc *doc, const char *key, uint64_t v)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%llu", (unsigned long long)v);
}

void gs_doc_put_u64_if(struct gs_doc *doc, const char *key, uint64_t v, bool known)
{
	if (known)
		gs_doc_put_u64(doc, key, v);
	else
		gs_doc_put_null(doc, key);
}

void gs_doc_put_i64_if(struct gs_doc *doc, const char *key, int64_t v, bool known)
{
	if (!known) {
		gs_doc_put_null(doc, key);
		return;
	}
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%lld", (long long)v);
}

/* Tenths: a printed double would take the decimal sign of the user's language. */
void gs_doc_put_tenths(struct gs_doc *doc, const char *key, unsigned tenths)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%u.%u", tenths / 10, tenths % 10);
}

void gs_doc_put_bool(struct gs_doc *doc, const char *key, bool v)
{
	doc->ops->key(doc, key);
	gs_pen_puts(doc->pen, v ? "true" : "false");
}

/* The empty text is an unknown one. */
void gs_doc_put_text(struct gs_doc *doc, const char *key, const char *text)
{
	if (!text || !*text) {
		gs_doc_put_null(doc, key);
		return;
	}
	gs_doc_put_word(doc, key, text);
}

void gs_doc_put_word(struct gs_doc *doc, const char *key, const char *text)
{
	doc->ops->key(doc, key);
	gs_pen_check(doc->pen, doc->ops->text(&doc->pen->buf, text));
}

void gs_doc_put_spelled(struct gs_doc *doc, const char *key, const char *text, size_t bytes)
{
	doc->ops->key(doc, key);
	gs_pen_check(doc->pen, gs_buf_put(&doc->pen->buf, text, bytes));
}

/* RFC 3339 in UTC, with all of its nanoseconds. */
void gs_doc_put_time(struct gs_doc *doc, const char *key, int64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	char date[32] = "", text[64];
	struct tm tm;

	if (wall_ns <= 0 || !gmtime_r(&seconds, &tm) ||
	    !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm)) {
		gs_doc_put_null(doc, key);
		return;
	}
	snprintf(text, sizeof(text), "%s.%09uZ", date, (unsigned)(wall_ns % 1000000000));
	gs_doc_put_text(doc, key, text);
}

void gs_pen_double(struct gs_pen *pen, double v)
{
	char text[40];

	/* Whole numbers of a reasonable size without an exponent: bytes are numbers for all who
	 * read. */
	if (v == floor(v) && fabs(v) < 9e15) {
		gs_pen_printf(pen, "%.0f", v);
		return;
	}
	/* The fewest digits that are read back as the same number. */
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	for (char *p = text; *p; p++)
		if (*p == ',')
			*p = '.';
	gs_pen_puts(pen, text);
}

void gs_doc_put_double(struct gs_doc *doc, const char *key, double v)
{
	if (!isfinite(v)) {
		gs_doc_put_null(doc, key);
		return;
	}
	doc->ops->key(doc, key);
	gs_pen_double(doc->pen, v);
}
