/*
 * A chip's PCI device numbers share their upper byte, and a chip has one compute capability (pci.ids; CUDA GPUs of
 * developer.nvidia.com). What is not here, newer chips among them, is not known.
 */
#include "sources/cubin/device.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"

#define VENDOR_NVIDIA 0x10de
#define CLASS_DISPLAY 0x03 /* of controllers: VGA, 3D */

static const struct {
	uint8_t from, to; /* upper bytes of device numbers */
	uint8_t sm;
} chips[] = {
	{0x1d, 0x1d, 70},  /* GV100 */
	{0x1e, 0x1f, 75},  /* TU102 to TU106 */
	{0x21, 0x21, 75},  /* TU116, TU117 */
	{0x20, 0x20, 80},  /* GA100 */
	{0x22, 0x22, 86},  /* GA102 */
	{0x24, 0x25, 86},  /* GA104 to GA107 */
	{0x23, 0x23, 90},  /* GH100 */
	{0x26, 0x28, 89},  /* AD102 to AD107 */
	{0x29, 0x29, 100}, /* GB100 */
	{0x2b, 0x2d, 120}, /* GB202 to GB207 */
	{0x2f, 0x2f, 120}, /* GB205 */
	{0x2e, 0x2e, 121}, /* GB20B */
};

static unsigned long read_number(const char *folder, const char *device, const char *name)
{
	GS_FCLOSE FILE *f = NULL;
	char path[512], text[32] = "";

	snprintf(path, sizeof(path), "%s/%s/%s", folder, device, name);
	f = fopen(path, "re");
	if (f)
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	return strtoul(text, NULL, 16);
}

static uint32_t sm_of_device(unsigned long device)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(chips); i++)
		if (device >> 8 >= chips[i].from && device >> 8 <= chips[i].to)
			return chips[i].sm;
	return 0;
}

uint32_t gs_cubin_device_sm(const char *pci_folder)
{
	const char *folder = pci_folder ? pci_folder : "/sys/bus/pci/devices";
	DIR *dir = opendir(folder);
	struct dirent *entry;
	uint32_t all = 0;

	while (dir && (entry = readdir(dir)) && !gs_guard_stopped()) {
		uint32_t sm;

		if (entry->d_name[0] == '.' ||
		    read_number(folder, entry->d_name, "vendor") != VENDOR_NVIDIA ||
		    read_number(folder, entry->d_name, "class") >> 16 != CLASS_DISPLAY)
			continue;
		sm = sm_of_device(read_number(folder, entry->d_name, "device"));
		if (!sm || (all && all != sm)) {
			all = 0;
			break;
		}
		all = sm;
	}
	if (dir)
		closedir(dir);
	return all;
}
