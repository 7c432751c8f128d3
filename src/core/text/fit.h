/*
 * A text of sections that has to fit on one screen, whatever is in them. The page writes into a draft;
 * at the end the sections that are longest lose their last lines first, each down to the lines that it
 * keeps, then down to three, and at last those at the end are left out. What was cut ends in a line that
 * names the option which shows the rest; a section that no option shows keeps its lines. So sections put what matters most first.
 */
#ifndef GS_CORE_TEXT_FIT_H
#define GS_CORE_TEXT_FIT_H

#include "core/text/page.h"

#define GS_FIT_MAX          32 /* sections; what comes after them belongs to the last */
#define GS_FIT_SCREEN_LINES 45

struct gs_page_fit_section {
	size_t from_bytes;  /* in the draft */
	unsigned n_keep;    /* lines it keeps as long as others have more */
	const char *option; /* that shows its rest; borrowed, NULL: none does */
	size_t n_lines;     /* it has, */
	size_t n_shown;     /* and of these are written, the line on the rest among them */
};

struct gs_fit {
	struct gs_page *page; /* borrowed */
	struct gs_pen *pen;   /* borrowed: that of the page, while it writes into the draft */
	struct gs_pen draft;
	struct gs_page_fit_section sections[GS_FIT_MAX];
	size_t n;
};

/* From here on the page writes into the draft. Between lines. */
void gs_page_fit_begin(struct gs_fit *fit, struct gs_page *page);

/* The next section begins here. option: text after "the rest: "; borrowed until the end, NULL: none. */
void gs_page_fit_section(struct gs_fit *fit, unsigned n_keep, const char *option);

/* Writes the sections, in at most so many lines (0: all), and frees the draft. The page writes as before.
 * The first section and the last are never left out as a whole. */
void gs_page_fit_end(struct gs_fit *fit, unsigned n_lines);

#endif
