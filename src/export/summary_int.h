/*
 * Among the files that render a summary: the pen they write with, and one renderer by format.
 *
 * The pen gathers text and hands it to the file in pieces. Its first error sticks: what comes
 * after it is dropped, and gs_pen_close() returns it, so that renderers need not look at every
 * single write.
 *
 * JSON and YAML are one document in two spellings. summary_doc.c alone knows which keys there are;
 * it speaks to a gs_doc, whose functions know how a key, a list or a number is spelled.
 */
#ifndef GS_EXPORT_SUMMARY_INT_H
#define GS_EXPORT_SUMMARY_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "export/export.h"
#include "model/summary.h"

struct gs_pen {
	FILE *out; /* borrowed */
	struct gs_buf buf;
	int r;
};

void gs_pen_open(struct gs_pen *pen, FILE *out);

/* Writes the rest, makes sure that the file took it, and frees. 0 or the first error. */
int gs_pen_close(struct gs_pen *pen);

/* Remember r when it is the first error. */
void gs_pen_check(struct gs_pen *pen, int r);

void gs_pen_puts(struct gs_pen *pen, const char *text);
void gs_pen_printf(struct gs_pen *pen, const char *fmt, ...) GS_PRINTF(2, 3);

/* Hands on what is gathered when it is a good piece; called between lines. */
void gs_pen_yield(struct gs_pen *pen);

/* A document being written. In maps every value has a key, in lists key is NULL. */
struct gs_doc;

struct gs_doc_ops {
	/* empty: no value follows; flat: all that follow are plain, a format may put them on one
	 * line */
	void (*begin)(struct gs_doc *doc, const char *key, bool list, bool empty, bool flat);
	void (*end)(struct gs_doc *doc);
	void (*key)(struct gs_doc *doc, const char *key); /* starts a plain value */
	int (*text)(struct gs_buf *buf, const char *text);
};

#define GS_DOC_DEPTH_MAX 12

struct gs_doc {
	const struct gs_doc_ops *ops;
	struct gs_pen *pen;
	unsigned depth;
	struct {
		bool list;
		bool flat;
		size_t n; /* values so far */
	} level[GS_DOC_DEPTH_MAX];
};

/* The whole summary as one map. */
void gs_doc_summary(struct gs_doc *doc, const struct gs_summary *summary);

void gs_summary_table(struct gs_pen *pen, const struct gs_summary *summary,
		      const struct gs_summary_style *style);
void gs_summary_json(struct gs_pen *pen, const struct gs_summary *summary,
		     const struct gs_summary_style *style);
void gs_summary_csv(struct gs_pen *pen, const struct gs_summary *summary,
		    const struct gs_summary_style *style);
void gs_summary_yaml(struct gs_pen *pen, const struct gs_summary *summary,
		     const struct gs_summary_style *style);

/* A text of the summary, "" instead of NULL. */
static inline const char *gs_text_of(const char *text)
{
	return text ? text : "";
}

#endif
