/*
 * Command lines without their secrets: passwords, tokens and keys become "***", all else stays as
 * it is. For whatever shows command lines to others: tables, files, pages, reports.
 *
 * It is a matter of patterns: options and variables with the name of a secret, users in URLs,
 * headers, short options of some programs, the shapes of well-known tokens. What has none of these
 * stays; a site adds names of its own in GS_SCRUB_WORDS_PATH, one on each line, with
 * * and ? for what may be there (glob(7)), whatever the case of letters.
 */
#ifndef GS_CORE_SCRUB_SCRUB_H
#define GS_CORE_SCRUB_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#define GS_SCRUB_WORDS_PATH "/etc/gpuscope/secret-words"

/* The arguments of a command as /proc/PID/cmdline has them: a zero after each. Never longer than
 * they were by more than two bytes a secret; what finds no room in out is cut. Returns the bytes
 * written. Reads each byte a few times at most. Any thread. */
size_t gs_scrub_arguments(const char *arguments, size_t bytes, char *out, size_t out_bytes);

/* The same of a text: arguments that were joined by blanks already, or a line of a shell. out is
 * terminated, and may not be text. Values with blanks are known by their quotes only, so arguments
 * are better scrubbed before they are joined. */
void gs_scrub_text(const char *text, char *out, size_t out_bytes);

/* A JSON document with every text called "command" in it scrubbed, or, whole, made empty. Owned by
 * the caller (free). 0, -EINVAL: it is no JSON, or -ENOMEM. */
int gs_scrub_json(const char *text, size_t bytes, bool whole, char **ret_text);

#endif
