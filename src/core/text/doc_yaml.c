/*
 * YAML: block style, two blanks for each level. Written
 * so that readers of YAML 1.1 and of 1.2 see the same: every text that either could take for
 * something else is in double quotes.
 */
#include "core/base/mem.h"
#include "core/text/doc.h"
#include "core/text/text.h"

/* What stands before a value: its line's indent, "- " in a list, the key in a map. */
static void start_value(struct gs_doc *doc, const char *key)
{
	struct gs_pen *pen = doc->pen;
	unsigned at = doc->depth;
	bool first;

	if (!at)
		return;
	first = doc->level[at - 1].n++ == 0;
	if (doc->level[at - 1].list)
		gs_pen_printf(pen, "%*s- ", (int)(at - 1) * 2, "");
	else if (!first || at < 2 || !doc->level[at - 2].list)
		gs_pen_printf(pen, "%*s", (int)(at - 1) * 2, "");
	/* else: the first key of a map in a list stands after the dash */
	if (key) {
		gs_pen_check(pen, gs_text_yaml(&pen->buf, key));
		gs_pen_puts(pen, ":");
	}
}

static void start_plain(struct gs_doc *doc, const char *key)
{
	/* Ends the line of the value before it. */
	if (doc->level[doc->depth - 1].n)
		gs_pen_puts(doc->pen, "\n");
	start_value(doc, key);
	if (key)
		gs_pen_puts(doc->pen, " ");
}

static void begin_value(struct gs_doc *doc, const char *key, bool list, bool empty,
			bool flat GS_UNUSED)
{
	if (doc->depth && doc->level[doc->depth - 1].n)
		gs_pen_puts(doc->pen, "\n");
	start_value(doc, key);
	if (empty)
		gs_pen_puts(doc->pen, list ? " []" : " {}");
	else if (key)
		gs_pen_puts(doc->pen, "\n");
	doc->level[doc->depth].list = list;
	doc->level[doc->depth].n = 0;
	doc->depth++;
}

static void end_value(struct gs_doc *doc)
{
	doc->depth--;
}

const struct gs_doc_ops gs_doc_yaml = {begin_value, end_value, start_plain, gs_text_yaml};
