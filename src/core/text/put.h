/*
 * Numbers and texts into memory that the caller has made sure is large enough: a trace file is made
 * of millions of them. What is no UTF-8 becomes U+FFFD,
 * and so does what steers the text around it (gs_text_is_steering()).
 */
#ifndef GS_CORE_TEXT_PUT_H
#define GS_CORE_TEXT_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GS_PUT_MAX       4096 /* bytes used of a text; at most six times that are written */
#define GS_PUT_MAX_SHORT 128  /* of a text in the end of a file */
#define GS_PUT_DOUBLE    32   /* bytes that gs_put_double() needs at most */
#define GS_PUT_TIME      48   /* and gs_put_time() */

/* Texts and numbers; each writes at p, without a terminator, and returns where it ended. */
char *gs_put_u64(char *p, uint64_t v);
char *gs_put_i64(char *p, int64_t v);
char *gs_put_hex(char *p, uint64_t v);                          /* "0x7f00" */
char *gs_put_double(char *p, double v);                         /* of all documents; finite */
char *gs_put_us(char *p, uint64_t ns);                          /* "12.345": microseconds */
char *gs_put_dim3(char *p, uint32_t x, uint32_t y, uint32_t z); /* "128,2,1" */
char *gs_put_utf8(char *p, const char *text, size_t max_bytes); /* U+FFFD for what is not */
char *gs_put_json(char *p, const char *text, size_t max_bytes); /* the same, quoted and escaped */
char *gs_put_csv(char *p, const char *text, size_t max_bytes);  /* the same, as gs_text_csv() */
char *gs_put_xml(char *p, const char *text, size_t max_bytes);  /* the same, as content or value */

/* RFC 3339 in UTC with digits (0 to 9) of the second's fraction; wall_ns is above 0 */
char *gs_put_time(char *p, int64_t wall_ns, unsigned digits);

/* One character below 0x80 that a JSON string holds only escaped; at most six bytes. */
char *gs_put_json_escape(char *p, uint8_t c);

/* A text of this program's own, as it is. */
static inline char *gs_put(char *p, const char *text)
{
	size_t n = strlen(text);

	memcpy(p, text, n);
	return p + n;
}

#endif
