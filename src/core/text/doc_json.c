/*
 * JSON (RFC 8259): two blanks for each level, and what is flat (a function, an
 * error) on one line, so that a person can read it and grep finds whole functions.
 */
#include "core/base/mem.h"
#include "core/text/doc.h"
#include "core/text/text.h"

/* What stands before a value: a comma, a line or a blank, the key. */
static void start_value(struct gs_doc *doc, const char *key)
{
	struct gs_pen *pen = doc->pen;
	bool first;

	if (!doc->depth)
		return;
	first = doc->level[doc->depth - 1].n++ == 0;
	if (doc->level[doc->depth - 1].flat)
		gs_pen_puts(pen, first ? "" : ", ");
	else
		gs_pen_printf(pen, "%s\n%*s", first ? "" : ",", (int)doc->depth * 2, "");
	if (key) {
		gs_pen_check(pen, doc->ops->text(&pen->buf, key));
		gs_pen_puts(pen, ": ");
	}
}

static void begin_value(struct gs_doc *doc, const char *key, bool list, bool empty GS_UNUSED,
			bool flat)
{
	bool inside_flat = doc->depth && doc->level[doc->depth - 1].flat;

	start_value(doc, key);
	gs_pen_puts(doc->pen, list ? "[" : "{");
	doc->level[doc->depth].list = list;
	doc->level[doc->depth].flat = flat || inside_flat;
	doc->level[doc->depth].n = 0;
	doc->depth++;
}

static void end_value(struct gs_doc *doc)
{
	doc->depth--;
	if (doc->level[doc->depth].n && !doc->level[doc->depth].flat)
		gs_pen_printf(doc->pen, "\n%*s", (int)doc->depth * 2, "");
	gs_pen_puts(doc->pen, doc->level[doc->depth].list ? "]" : "}");
}

/* Elements end and comments begin with '<'. */
static int put_script_text(struct gs_buf *buf, const char *text)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf plain = GS_BUF_INIT(buf->max_bytes);
	int r = gs_text_json(&plain, text);

	for (size_t i = 0; i < plain.bytes && r >= 0; i++)
		r = plain.data[i] == '<' ? gs_buf_put(buf, "\\u003c", 6)
					 : gs_buf_put(buf, plain.data + i, 1);
	return r;
}

const struct gs_doc_ops gs_doc_json = {begin_value, end_value, start_value, gs_text_json};
const struct gs_doc_ops gs_doc_script = {begin_value, end_value, start_value, put_script_text};
