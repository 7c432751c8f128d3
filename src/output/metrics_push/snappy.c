/* Snappy's block format (google/snappy, format_description.txt): the length as a varint, then
 * elements; one kind of element is a run of literal bytes. */
#include "output/metrics_push/push_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#define LITERAL_MAX 65536 /* of one element, with a two-byte length */

static int (*compress)(const char *in, size_t bytes, char *out, size_t *out_bytes);
static size_t (*max_length)(size_t bytes);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_library(void)
{
	void *library = dlopen("libsnappy.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	*(void **)&max_length = dlsym(library, "snappy_max_compressed_length");
	if (max_length)
		*(void **)&compress = dlsym(library, "snappy_compress");
}

bool gs_push_has_snappy(void)
{
	pthread_once(&once, load_library);
	return compress != NULL;
}

int push_snappy_plain(const struct gs_buf *in, struct gs_buf *out)
{
	size_t left = in->bytes, n = in->bytes;
	uint8_t head[10], k = 0;
	int r;

	do
		head[k++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
	while (n >>= 7);
	r = gs_buf_put(out, head, k);
	while (r == 0 && left) {
		size_t part = left < LITERAL_MAX ? left : LITERAL_MAX;

		/* tag 61 << 2: a literal whose length less one stands in the next two bytes */
		head[0] = 61 << 2;
		head[1] = (uint8_t)((part - 1) & 0xff);
		head[2] = (uint8_t)((part - 1) >> 8);
		r = gs_buf_put(out, head, 3);
		if (r == 0)
			r = gs_buf_put(out, in->data + (in->bytes - left), part);
		left -= part;
	}
	return r;
}

int push_snappy(const struct gs_buf *in, struct gs_buf *out)
{
	size_t bytes;
	int r;

	pthread_once(&once, load_library);
	if (!compress)
		return push_snappy_plain(in, out);
	bytes = max_length(in->bytes);
	r = gs_buf_reserve(out, bytes);
	if (r < 0)
		return r;
	if (compress((const char *)in->data, in->bytes, (char *)out->data + out->bytes, &bytes) !=
	    0)
		return push_snappy_plain(in, out);
	out->bytes += bytes;
	return 0;
}
