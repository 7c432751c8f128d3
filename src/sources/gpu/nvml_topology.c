/* How GPUs are connected: by NVLinks that are up, else by what they share of PCIe. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

const char *const gs_nvml_topology_names[] = {
	"",     "X",    "PIX",  "PXB",  "PHB",  "NODE", "SYS",  "NV1",  "NV2",
	"NV3",  "NV4",  "NV5",  "NV6",  "NV7",  "NV8",  "NV9",  "NV10", "NV11",
	"NV12", "NV13", "NV14", "NV15", "NV16", "NV17", "NV18",
};
enum { TOPOLOGY_SELF = 1, TOPOLOGY_PIX = 2, TOPOLOGY_NV0 = 6 };

/* Links of a GPU that are up: those to a switch, or those to the GPU with this bus id. */
static unsigned links_to(struct gs_nvml *nv, struct gs_nvml_device *dev, const char *bus_id)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NVML_LINKS_MAX; i++) {
		unsigned up = 0, type = 255;
		struct nvml_pci pci = {{0}};
		char remote[32] = "";

		if (NVML(nv, uplink_state, dev->handle, i, &up) != NVML_OK)
			break;
		if (!up)
			continue;
		NVML(nv, link_type, dev->handle, i, &type);
		if (!bus_id) {
			n += type == NVML_LINK_TO_SWITCH;
			continue;
		}
		if (type != NVML_LINK_TO_SWITCH &&
		    NVML(nv, link_pci, dev->handle, i, &pci) == NVML_OK) {
			pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
			n += gs_pci_bus_id(pci.bus_id, remote) && strcmp(remote, bus_id) == 0;
		}
	}
	return n;
}

static uint8_t connection_of(struct gs_nvml *nv, struct gs_nvml_device *a, struct gs_nvml_device *b)
{
	unsigned level = 0, n, m;

	if (!a->handle || !b->handle)
		return 0;
	n = links_to(nv, a, b->info.pci_bus_id);
	if (!n) {
		/* Through switches every GPU reaches every other with all its links. */
		n = links_to(nv, a, NULL);
		m = n ? links_to(nv, b, NULL) : 0;
		n = n < m ? n : m;
	}
	if (n)
		return (uint8_t)(TOPOLOGY_NV0 + (n <= NVML_LINKS_MAX ? n : NVML_LINKS_MAX));
	if (NVML(nv, topology, a->handle, b->handle, &level) != NVML_OK)
		return 0;
	switch (level) {
	case NVML_TOPOLOGY_INTERNAL:
	case NVML_TOPOLOGY_SINGLE:
		return TOPOLOGY_PIX;
	case NVML_TOPOLOGY_MULTIPLE:
		return TOPOLOGY_PIX + 1;
	case NVML_TOPOLOGY_HOSTBRIDGE:
		return TOPOLOGY_PIX + 2;
	case NVML_TOPOLOGY_NODE:
		return TOPOLOGY_PIX + 3;
	case NVML_TOPOLOGY_SYSTEM:
		return TOPOLOGY_PIX + 4;
	default:
		return 0;
	}
}

void gs_nvml_topology(struct gs_nvml *nv)
{
	unsigned n = nv->n_devices;

	gs_free_p(&nv->topology);
	nv->topology = calloc((size_t)n * n + 1, 1);
	if (!nv->topology)
		return;
	for (unsigned i = 0; i < n; i++) {
		struct gs_nvml_device *a = &nv->device[i];

		for (unsigned j = 0; j <= i; j++) {
			struct gs_nvml_device *b = &nv->device[j];
			uint8_t *at = &nv->topology[i * n + j];

			if (a->parent_index == b->parent_index)
				*at = TOPOLOGY_SELF;
			else if (a->info.is_mig || b->info.is_mig) /* as their GPUs are */
				*at = nv->topology[a->parent_index * n + b->parent_index];
			else
				*at = connection_of(nv, a, b);
			nv->topology[j * n + i] = *at;
		}
	}
}
