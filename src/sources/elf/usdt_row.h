/* What a described probe reads at one site of a static probe. */
#ifndef GS_SOURCES_ELF_USDT_ROW_H
#define GS_SOURCES_ELF_USDT_ROW_H

#include "sources/elf/usdt.h"
#include "model/trace/user_set.h"

/* The row of a described probe in a file: what is the same everywhere, and, of a static probe, how
 * this site passes its arguments (site NULL: a function). ret_names takes GS_USER_VALUE_MAX. NULL,
 * or why this site cannot be probed (bytes of text in why). */
const char *gs_usdt_row(const struct gs_user_spec *spec, const struct gs_usdt_site *site,
			struct gs_user_row *ret_row, struct gs_user_name *ret_names, char *why,
			size_t bytes);

#endif
