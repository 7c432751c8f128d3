/*
 * CUDA code: the input is a fat binary, read in small pieces as a file may be, and a cubin, a text of PTX
 * and a block of LZ4 at the same time.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "sources/cubin/cubin.h"

struct input {
	const uint8_t *data;
	size_t bytes;
};

static long read_input(void *ctx, uint64_t off, void *to, size_t bytes)
{
	const struct input *in = ctx;
	size_t left = off < in->bytes ? in->bytes - (size_t)off : 0;

	if (bytes > left)
		bytes = left;
	if (bytes > 100)
		bytes = 100;
	memcpy(to, in->data + (left ? off : 0), bytes);
	return (long)bytes;
}

static int check_kernel(void *ctx, const struct gs_cubin_kernel *k)
{
	(void)ctx;
	assert(strlen(k->name) > 0 && strlen(k->name) < GS_CUBIN_NAME_BYTES);
	assert(k->max_threads <= UINT16_MAX);
	return 0;
}

static void look_through(const uint8_t *data, size_t bytes)
{
	struct input in = {data, bytes};
	struct gs_fatbin_source source = {.read = read_input, .ctx = &in, .bytes = bytes};
	struct gs_fatbin_element e;
	struct gs_fatbins *f;

	if (gs_fatbins_new(&source, &f) < 0)
		abort();
	while (gs_fatbins_next(f, &e) == 1) {
		assert(e.off + e.packed_bytes <= bytes);
		/* What a short input claims of itself would be more work than its length allows. */
		if (e.unpacked_bytes <= 64 * bytes + 4096)
			gs_fatbins_kernels(f, &e, check_kernel, NULL);
	}
	gs_fatbins_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes + 1), out[4096];

	if (!copy)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	look_through(copy, bytes);
	gs_cubin_each_kernel(copy, bytes, check_kernel, NULL);
	gs_ptx_each_kernel((const char *)copy, bytes, 90, check_kernel, NULL);
	assert(gs_lz4_unpack(copy, bytes, out, sizeof(out)) <= (long)sizeof(out));
	free(copy);
	return 0;
}
