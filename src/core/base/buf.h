/*
 * A growable byte buffer with a maximum. Growth doubles; what would pass the maximum is refused
 * with -ENOBUFS and leaves the buffer as it was.
 */
#ifndef GS_CORE_BASE_BUF_H
#define GS_CORE_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"

struct gs_buf {
	uint8_t *data; /* owned; NULL while capacity_bytes is 0 */
	size_t bytes;  /* of content */
	size_t capacity_bytes;
	size_t max_bytes; /* of content; fixed at GS_BUF_INIT() */
	int r; /* the first refusal since the content began: what is there is not whole; or 0 */
};

#define GS_BUF_INIT(max) ((struct gs_buf){.max_bytes = (max)})

/* Frees the data; the buffer is empty then, keeps its maximum and may be used again. */
void gs_buf_fini(struct gs_buf *buf);

/* Make room for extra more bytes. 0, -ENOMEM or -ENOBUFS (the maximum). */
int gs_buf_reserve(struct gs_buf *buf, size_t extra_bytes);

/* Append; 0 or the error of gs_buf_reserve(). After what gs_buf_printf() appends stands a zero
 * that is not content. */
int gs_buf_put(struct gs_buf *buf, const void *data, size_t bytes);
int gs_buf_puts(struct gs_buf *buf, const char *text);
int gs_buf_printf(struct gs_buf *buf, const char *fmt, ...) GS_PRINTF(2, 3);

/* Append room for bytes, zeroed, and return it; NULL when it could not be had. The pointer is good
 * until the next append. */
void *gs_buf_extend(struct gs_buf *buf, size_t bytes);

/* Forget the content and keep the memory. */
static inline void gs_buf_reset(struct gs_buf *buf)
{
	buf->bytes = 0;
	buf->r = 0;
}

#endif
