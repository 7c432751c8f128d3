#include "core/text/doc.h"

#include <math.h>

#include "core/text/put.h"

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
	char text[24];

	gs_doc_put_spelled(doc, key, text, (size_t)(gs_put_u64(text, v) - text));
}

void gs_doc_put_version(struct gs_doc *doc)
{
	gs_doc_put_u64(doc, "version", GS_DOC_VERSION);
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
	char text[24];

	if (known)
		gs_doc_put_spelled(doc, key, text, (size_t)(gs_put_i64(text, v) - text));
	else
		gs_doc_put_null(doc, key);
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

/* With all of its nanoseconds. */
void gs_doc_put_time(struct gs_doc *doc, const char *key, int64_t wall_ns)
{
	char text[GS_PUT_TIME];

	if (wall_ns <= 0) {
		gs_doc_put_null(doc, key);
		return;
	}
	*gs_put_time(text, wall_ns, 9) = '\0';
	gs_doc_put_word(doc, key, text);
}

void gs_pen_double(struct gs_pen *pen, double v)
{
	char text[GS_PUT_DOUBLE];

	gs_pen_check(pen, gs_buf_put(&pen->buf, text, (size_t)(gs_put_double(text, v) - text)));
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
