#include "core/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void gs_buf_fini(struct gs_buf *buf)
{
	free(buf->data);
	*buf = GS_BUF_INIT(buf->max_bytes);
}

static int refuse_append(struct gs_buf *buf, int r)
{
	if (buf->r == 0)
		buf->r = r;
	return r;
}

int gs_buf_reserve(struct gs_buf *buf, size_t extra_bytes)
{
	size_t need, capacity;
	uint8_t *data;

	if (extra_bytes > buf->max_bytes || buf->bytes > buf->max_bytes - extra_bytes)
		return refuse_append(buf, -ENOBUFS);
	need = buf->bytes + extra_bytes;
	if (need <= buf->capacity_bytes)
		return 0;
	capacity = buf->capacity_bytes ? buf->capacity_bytes : 256;
	while (capacity < need)
		capacity = capacity > buf->max_bytes / 2 ? buf->max_bytes : capacity * 2;
	if (capacity > buf->max_bytes)
		capacity = buf->max_bytes;
	if (capacity == SIZE_MAX)
		return refuse_append(buf, -ENOMEM);
	/* One byte more than capacity says: the end that gs_buf_printf() writes is not content. */
	data = realloc(buf->data, capacity + 1);
	if (!data)
		return refuse_append(buf, -ENOMEM);
	buf->data = data;
	buf->capacity_bytes = capacity;
	return 0;
}

int gs_buf_put(struct gs_buf *buf, const void *data, size_t bytes)
{
	int r = gs_buf_reserve(buf, bytes);

	if (r < 0)
		return r;
	if (bytes)
		memcpy(buf->data + buf->bytes, data, bytes);
	buf->bytes += bytes;
	return 0;
}

int gs_buf_puts(struct gs_buf *buf, const char *text)
{
	return gs_buf_put(buf, text, strlen(text));
}

int gs_buf_printf(struct gs_buf *buf, const char *fmt, ...)
{
	va_list ap, again;
	int n, r;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	r = n < 0 ? -EINVAL : gs_buf_reserve(buf, (size_t)n);
	if (r == 0 && !buf->data)
		r = gs_buf_reserve(buf, 1); /* of an empty text there is the end at least */
	if (r == 0) {
		vsnprintf((char *)buf->data + buf->bytes, (size_t)n + 1, fmt, again);
		buf->bytes += (size_t)n;
	}
	va_end(again);
	return r;
}

void *gs_buf_extend(struct gs_buf *buf, size_t bytes)
{
	void *p;

	/* Also of no bytes there is a pointer, which only failure has not. */
	if (gs_buf_reserve(buf, bytes) < 0 || (!buf->data && gs_buf_reserve(buf, 1) < 0))
		return NULL;
	p = buf->data + buf->bytes;
	memset(p, 0, bytes);
	buf->bytes += bytes;
	return p;
}
