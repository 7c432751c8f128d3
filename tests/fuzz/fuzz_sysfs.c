/* Texts of sysfs files of AMD's driver, and bus ids from wherever they come. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/amdgpu/amdgpu.h"
#include "core/base/pci.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), bus[32];
	uint64_t a, b;

	if (!text)
		return 0;
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (gs_amdgpu_parse_levels(text, &a, &b))
		assert(a && a <= b);
	gs_amdgpu_parse_number(text, &a);
	if (gs_pci_bus_id(text, bus))
		assert(strlen(bus) == 16);
	free(text);
	return 0;
}
