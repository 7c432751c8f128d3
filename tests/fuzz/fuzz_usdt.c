/* Static probes: the input is a file with notes, those of an interpreter among them, and also the
 * text of arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sources/elf/python_site.h"
#include "model/trace/kernel_side.h"
#include "replay_main.h"

static int on_site(void *ctx, const struct gs_usdt_site *site)
{
	if (site->file_off >= *(size_t *)ctx || site->n_args > GS_USDT_ARG_MAX)
		abort();
	return 0;
}

static void python(struct gs_elf *elf)
{
	struct gs_python_site sites[GS_PYTHON_SITE_MAX];
	struct gs_usdt_places gc[2], left;
	struct gs_elf_symbol cleared;
	const char *name, *reason;
	struct gs_err err;
	unsigned n = 0;

	if (gs_elf_python_sites(elf, GS_PYTHON_COLLECTS, sites, &n, &err) == 0 &&
	    n > GS_PYTHON_SITE_MAX)
		abort();
	if (gs_elf_python_gc_probes(elf, gc, &err) == 0 && !gc[0].n != !gc[1].n)
		abort();
	if (gs_elf_python_left_probe(elf, 0x030b, &left, &err) == 0)
		for (unsigned i = 0; i < left.n; i++)
			if (left.at[i].cookie >> GS_COOKIE_FRAME_SHIFT > GS_COOKIE_FRAME_MAX)
				abort();
	if (gs_elf_python_cleared(elf, &cleared, &name, &reason) > 0 &&
	    (reason || !name || !cleared.found))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_usdt_arg args[GS_USDT_ARG_MAX];
	char *text = malloc(bytes + 1), path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct gs_elf *elf = NULL;
	struct gs_err err;
	const char *bad;

	if (!text || fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (gs_usdt_parse_args(text, args, &bad) > GS_USDT_ARG_MAX)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (gs_elf_open(path, &elf, &err) == 0) {
		(void)gs_elf_usdt(elf, on_site, &bytes, &err);
		python(elf);
	}
	gs_elf_close(&elf);
	close(fd);
	free(text);
	return 0;
}
