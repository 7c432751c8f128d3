/* Records of the kernel's log: a part of an XID's text is chosen by the program (its name). */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/gpu/gpu_int.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is seen. */
	char *text = malloc(bytes ? bytes : 1);
	struct gs_gpu_event e;
	uint64_t ns;

	if (!text)
		return 0;
	if (bytes)
		memcpy(text, data, bytes);
	if (gs_kmsg_parse(text, bytes, &e, &ns)) {
		assert(e.xid && memchr(e.text, '\0', sizeof(e.text)));
		assert(strlen(e.pci_bus_id) == 16);
		for (size_t i = 0; e.text[i]; i++)
			assert((unsigned char)e.text[i] >= 0x20 && e.text[i] != 0x7f);
	}
	free(text);
	return 0;
}
