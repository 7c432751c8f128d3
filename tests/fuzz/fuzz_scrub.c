/* Command lines of strangers: nothing outside of them is read, the output keeps its bounds, and a
 * secret behind an option of its own is never in it. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/scrub/scrub.h"
#include "replay_main.h"

/* The input, and then an option whose value must go, whatever came before. */
static void check_option(const uint8_t *data, size_t bytes)
{
	static const char option[] = "\0--wandb-api-key\0SECRET-9-VALUE";
	size_t n = bytes + sizeof(option), written;
	char *in = malloc(n), *out = malloc(2 * n + 64);

	if (in && out && !(data && bytes && memmem(data, bytes, "VALUE", 5))) {
		if (data && bytes)
			memcpy(in, data, bytes);
		memcpy(in + bytes, option, sizeof(option));
		written = gs_scrub_arguments(in, n, out, 2 * n + 64);
		assert(!memmem(out, written, "SECRET-9-VALUE", 14));
	}
	free(in);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *in = malloc(bytes + 1), *out = malloc(bytes + 1), small[32];

	if (!in || !out)
		abort();
	if (bytes)
		memcpy(in, data, bytes);
	in[bytes] = '\0';
	assert(gs_scrub_arguments(in, bytes, out, bytes) <= bytes);
	gs_scrub_text(in, out, bytes + 1);
	assert(strlen(out) <= bytes);
	gs_scrub_text(in, small, sizeof(small));
	assert(memchr(small, '\0', sizeof(small)));
	check_option(data, bytes);
	free(in);
	free(out);
	return 0;
}
