/* The demangler: whatever the symbol, it ends, and stays inside of the buffer. */
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "core/demangle/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *symbol = malloc(bytes + 1), out[512];

	if (!symbol)
		abort();
	memcpy(symbol, data, bytes);
	symbol[bytes] = 0;
	if (gs_demangle_symbol(symbol, out, sizeof(out)) && strlen(out) >= sizeof(out))
		abort();
	free(symbol);
	return 0;
}
