/* A verdict on a run, of any command: the same lines for people, the same keys for programs. */
#ifndef GS_CORE_TEXT_VERDICT_H
#define GS_CORE_TEXT_VERDICT_H

#include <stdbool.h>

#include "core/text/doc.h"
#include "core/text/page.h"

struct gs_verdict_text {        /* texts are borrowed */
	const char *class_name; /* "io_bound"; NULL: there is none */
	const char *title;      /* the same for people */
	const char *evidence;   /* the figures that decided it, as a sentence */
	const char *advice;     /* what to do next */
	const char *command;    /* that shows more */
	double share;           /* of wall time; below 0 or NAN: it is not by time */
	double confidence;      /* 0 to 1 */
	bool is_unknown;        /* no cause is named */
};

/* At most 8 lines; nothing where there is none. */
void gs_text_verdict_table(struct gs_page *page, const struct gs_verdict_text *verdict);
/* The map "verdict"; null where there is none. */
void gs_text_verdict_doc(struct gs_doc *doc, const struct gs_verdict_text *verdict);

#endif
