/*
 * CUDA code: the input is a fat binary, read in small pieces as a file may be, and a cubin, a text of PTX,
 * a block of LZ4, the name of a kernel and a program that registers kernels at the same time.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include "replay_main.h"
#include "sources/cubin/cubin.h"
#include "sources/cubin/needs.h"
#include "sources/cubin/short_name.h"
#include "sources/cubin/stubs.h"

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

static void look_into_program(const uint8_t *data, size_t bytes)
{
	struct gs_cubin_wanted wanted[2] = {{.name = "_Z3addPf"}, {.name = "none"}};
	const struct gs_cubin_handle *handles;
	struct gs_cubin_stubs *stubs = NULL;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct gs_elf *elf = NULL;
	char name[256];
	size_t n;

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	if (gs_elf_open_fd(&fd, "fuzz", false, &elf, NULL) == 0) {
		if (gs_cubin_stubs_new(elf, &stubs) == 0) {
			handles = gs_cubin_stubs_handles(stubs, &n);
			for (size_t i = 0; i < n; i++) {
				assert(i == 0 || handles[i - 1].vaddr <= handles[i].vaddr);
				if (gs_cubin_stubs_name(stubs, elf, handles[i].stub, name,
							sizeof(name)))
					assert(strlen(name) < sizeof(name));
			}
			gs_cubin_stubs_free(&stubs);
		}
		if (bytes < 65536) /* else what it claims to unpack to may be too much work */
			(void)gs_cubin_find_needs(elf, 90, wanted, 1, NULL);
		assert(!wanted[1].found);
	}
	gs_elf_close(&elf);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes + 1), out[4096];
	char text[GS_KERNEL_SHORT_BYTES];

	if (!copy)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	look_through(copy, bytes);
	gs_cubin_each_kernel(copy, bytes, check_kernel, NULL);
	gs_ptx_each_kernel((const char *)copy, bytes, 90, check_kernel, NULL);
	assert(gs_lz4_unpack(copy, bytes, out, sizeof(out)) <= (long)sizeof(out));
	look_into_program(copy, bytes);
	copy[bytes] = '\0';
	gs_kernel_short_name((const char *)copy, text);
	assert(strlen(text) < sizeof(text) && (!*text) == (!*copy));
	free(copy);
	return 0;
}
