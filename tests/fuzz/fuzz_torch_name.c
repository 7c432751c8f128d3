/* Names of operators: mangled symbols, schemas, and patterns against names. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/elf/torch_name.h"
#include "replay_main.h"

/* Up to the first zero a pattern, behind it a name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 2);
	const char *part, *name;
	size_t n, part_bytes;

	if (!text)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = text[bytes + 1] = '\0';
	n = strlen(text);
	name = text + n + 1;
	if (gs_torch_part(text, &part, &part_bytes) &&
	    (part < text || part + part_bytes > text + n || part_bytes >= GS_TORCH_NAME_BYTES))
		abort();
	if (gs_torch_schema_name(text) > n)
		abort();
	(void)gs_torch_span(text);
	(void)gs_torch_span_site(text);
	(void)gs_torch_eacgm_name(text);
	(void)gs_torch_is_trivial(text);
	/* The library's names are long; a pattern of the user's is short, but backtracking is not
	 * to take its time from their product. */
	if (n < 64 && strlen(name) < GS_TORCH_NAME_BYTES)
		(void)gs_torch_matches(text, name);
	free(text);
	return 0;
}
