/*
 * A document of maps, lists and plain values: JSON and YAML are one document in two spellings. Who
 * knows which keys there are speaks to a gs_doc, whose functions know how a key, a list or a number
 * is spelled.
 */
#ifndef GS_CORE_TEXT_DOC_H
#define GS_CORE_TEXT_DOC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/pen.h"

/* A document being written. In maps every value has a key, in lists key is NULL. */
struct gs_doc;

struct gs_doc_ops {
	/* empty: no value follows; flat: all that follow are plain, a format may put them on one
	 * line */
	void (*begin)(struct gs_doc *doc, const char *key, bool list, bool empty, bool flat);
	void (*end)(struct gs_doc *doc);
	void (*key)(struct gs_doc *doc, const char *key); /* starts a plain value */
	/* A text with what has to be around it and escaped in it; 0 or the error of gs_buf_put() */
	int (*text)(struct gs_buf *buf, const char *text);
};

#define GS_DOC_DEPTH_MAX 12
/* Of the documents that commands print: grows when a key of one of them goes or changes its meaning. */
#define GS_DOC_VERSION 1

struct gs_doc {
	const struct gs_doc_ops *ops; /* the spelling: gs_doc_json, ... */
	struct gs_pen *pen;           /* borrowed; keeps the first error */
	unsigned depth;               /* maps and lists that are open */
	struct {
		bool list; /* not a map */
		bool flat; /* on one line */
		size_t n;  /* values so far */
	} level[GS_DOC_DEPTH_MAX];
};

extern const struct gs_doc_ops gs_doc_json, gs_doc_yaml;
/* JSON that can stand in a <script> of a page: no text of it ends the element. */
extern const struct gs_doc_ops gs_doc_script;

/* A map, or a list of n values (0: nothing follows before its end); gs_doc_end() ends the one that
 * was begun last. At most GS_DOC_DEPTH_MAX in one another. Errors stay in the pen. */
void gs_doc_begin_map(struct gs_doc *doc, const char *key);
void gs_doc_begin_flat(struct gs_doc *doc, const char *key); /* a map of plain values */
void gs_doc_begin_list(struct gs_doc *doc, const char *key, size_t n);
/* What is in a flat map or list is flat too: JSON puts all of it on one line, for files of which a
 * line is a record. Only for JSON. */
void gs_doc_begin_flat_list(struct gs_doc *doc, const char *key);
void gs_doc_end(struct gs_doc *doc);

/* One plain value. key: borrowed for the call, in lists NULL. _if: null where it is not known;
 * tenths: 15 is written 1.5. */
void gs_doc_put_null(struct gs_doc *doc, const char *key);
void gs_doc_put_u64(struct gs_doc *doc, const char *key, uint64_t v);
void gs_doc_put_u64_if(struct gs_doc *doc, const char *key, uint64_t v, bool known);
void gs_doc_put_i64_if(struct gs_doc *doc, const char *key, int64_t v, bool known);
void gs_doc_put_tenths(struct gs_doc *doc, const char *key, unsigned tenths);
void gs_doc_put_double(struct gs_doc *doc, const char *key, double v); /* null when not finite */
/* The first value of a document that a command prints: "version", GS_DOC_VERSION. */
void gs_doc_put_version(struct gs_doc *doc);
void gs_doc_put_bool(struct gs_doc *doc, const char *key, bool v);
void gs_doc_put_text(struct gs_doc *doc, const char *key, const char *text); /* "" is null */
/* Also "", which is a text here. */
void gs_doc_put_word(struct gs_doc *doc, const char *key, const char *text);
/* A value that is spelled already, or with key NULL in a map a member with its key. */
void gs_doc_put_spelled(struct gs_doc *doc, const char *key, const char *text, size_t bytes);
void gs_doc_put_time(struct gs_doc *doc, const char *key, int64_t wall_ns); /* RFC 3339 */

/* A finite number as every format of data takes it (gs_put_double()). */
void gs_pen_double(struct gs_pen *pen, double v);

#endif
