/*
 * Values that change slowly (limits, ECC, remapped rows, the PCIe link), NVLinks, and how GPUs are
 * connected. Counters of bytes over NVLink are read as one sum for all links at each sample; what
 * belongs to a single link waits for the slow turn: one call for each link and value adds up to
 * tens of milliseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/gpu_int.h"

const char *const gs_nvml_topology_names[] = {
	"",     "X",    "PIX",  "PXB",  "PHB",  "NODE", "SYS",  "NV1",  "NV2",
	"NV3",  "NV4",  "NV5",  "NV6",  "NV7",  "NV8",  "NV9",  "NV10", "NV11",
	"NV12", "NV13", "NV14", "NV15", "NV16", "NV17", "NV18",
};
enum { TOPOLOGY_SELF = 1, TOPOLOGY_PIX = 2, TOPOLOGY_NV0 = 6 };

static const struct gs_nvml_row slow_rows[] = {
	{NVML_FI_RETIRED_PENDING, GS_GPU_RETIRED_PENDING, 1, false},
	{NVML_FI_PCIE_CORRECTABLE, GS_GPU_PCIE_CORRECTABLE, 1, false},
	{NVML_FI_PCIE_NON_FATAL, GS_GPU_PCIE_NON_FATAL, 1, false},
	{NVML_FI_PCIE_FATAL, GS_GPU_PCIE_FATAL, 1, false},
	{NVML_FI_RECOVERY_ACTION, GS_GPU_RECOVERY_ACTION, 1, false},
	{NVML_FI_PCIE_REPLAY, GS_GPU_PCIE_REPLAYS, 1, false},
};

/* A value that one call gives, with one number. */
#define ONE(call, field, scale)                                                                    \
	do {                                                                                       \
		unsigned one_number = 0;                                                           \
		nvml_return one = NVML_OF(nv, dev, call, dev->handle, &one_number);                \
                                                                                                   \
		gs_nvml_put(dev, field, one, one_number *(scale));                                 \
	} while (0)

static void read_limits(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned id;
		enum gs_gpu_field field;
	} thresholds[] = {{NVML_THRESHOLD_SHUTDOWN, GS_GPU_TEMP_SHUTDOWN},
			  {NVML_THRESHOLD_SLOWDOWN, GS_GPU_TEMP_SLOWDOWN},
			  {NVML_THRESHOLD_MEM_MAX, GS_GPU_TEMP_MEM_MAX},
			  {NVML_THRESHOLD_GPU_MAX, GS_GPU_TEMP_GPU_MAX}},
	  clocks[] = {{NVML_CLOCK_SM, GS_GPU_CLOCK_SM_MAX},
		      {NVML_CLOCK_MEM, GS_GPU_CLOCK_MEM_MAX},
		      {NVML_CLOCK_GRAPHICS, GS_GPU_CLOCK_GRAPHICS_MAX},
		      {NVML_CLOCK_VIDEO, GS_GPU_CLOCK_VIDEO_MAX}};
	unsigned low = 0, high = 0, number = 0;
	nvml_return r;

	/* Not through NVML_OF: one threshold that is missing says nothing about the others. */
	for (size_t i = 0; i < GS_ARRAY_LEN(thresholds); i++) {
		r = NVML(nv, threshold, dev->handle, thresholds[i].id, &number);
		gs_nvml_put(dev, thresholds[i].field, r, number);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(clocks); i++) {
		r = NVML(nv, clock_max, dev->handle, clocks[i].id, &number);
		gs_nvml_put(dev, clocks[i].field, r, number * 1e6);
	}
	ONE(power_limit, GS_GPU_POWER_LIMIT, 1e-3);
	ONE(power_default, GS_GPU_POWER_LIMIT_DEFAULT, 1e-3);
	r = NVML_OF(nv, dev, power_bounds, dev->handle, &low, &high);
	gs_nvml_put(dev, GS_GPU_POWER_LIMIT_MIN, r, low * 1e-3);
	gs_nvml_put(dev, GS_GPU_POWER_LIMIT_MAX, r, high * 1e-3);
}

static void read_ecc(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned kind, counter;
		int location; /* -1: all */
		enum gs_gpu_field field;
	} counts[] = {
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, -1, GS_GPU_ECC_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, -1, GS_GPU_ECC_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_VOLATILE, -1, GS_GPU_ECC_NOW_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_VOLATILE, -1, GS_GPU_ECC_NOW_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_DRAM,
		 GS_GPU_ECC_DRAM_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_DRAM,
		 GS_GPU_ECC_DRAM_UNCORRECTED},
		{NVML_ERRORS_CORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_SRAM,
		 GS_GPU_ECC_SRAM_CORRECTED},
		{NVML_ERRORS_UNCORRECTED, NVML_ECC_AGGREGATE, NVML_LOCATION_SRAM,
		 GS_GPU_ECC_SRAM_UNCORRECTED},
	};
	unsigned now = 0, pending = 0;
	nvml_return r = NVML_OF(nv, dev, ecc_mode, dev->handle, &now, &pending);

	gs_nvml_put(dev, GS_GPU_ECC_ENABLED, r, now);
	for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++) {
		unsigned long long n = 0;

		if (counts[i].location < 0)
			r = NVML(nv, ecc_total, dev->handle, counts[i].kind, counts[i].counter, &n);
		else
			r = NVML(nv, ecc_at, dev->handle, counts[i].kind, counts[i].counter,
				 (unsigned)counts[i].location, &n);
		gs_nvml_put(dev, counts[i].field, r, (double)n);
	}
}

static void read_repairs(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
	struct nvml_field f[2] = {{.id = NVML_FI_RETIRED_SBE}, {.id = NVML_FI_RETIRED_DBE}};
	nvml_return r = NVML_OF(nv, dev, remapped, dev->handle, &corrected, &uncorrected, &pending,
				&failed);

	gs_nvml_put(dev, GS_GPU_REMAP_CORRECTABLE, r, corrected);
	gs_nvml_put(dev, GS_GPU_REMAP_UNCORRECTABLE, r, uncorrected);
	gs_nvml_put(dev, GS_GPU_REMAP_PENDING, r, pending);
	gs_nvml_put(dev, GS_GPU_REMAP_FAILED, r, failed);
	r = NVML_OF(nv, dev, fields, dev->handle, 2, f);
	if (r == NVML_OK)
		r = f[0].r != NVML_OK ? f[0].r : f[1].r;
	gs_nvml_put(dev, GS_GPU_RETIRED_PAGES, r,
		    (double)(f[0].type == NVML_UINT ? f[0].value.ui : f[0].value.ull) +
			    (double)(f[1].type == NVML_UINT ? f[1].value.ui : f[1].value.ull));
}

void gs_nvml_sample_slow(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_bar1 bar1 = {0};
	nvml_return r;

	if (dev->parent)
		return;
	r = NVML_OF(nv, dev, bar1, dev->handle, &bar1);
	gs_nvml_put(dev, GS_GPU_BAR1_TOTAL, r, (double)bar1.total);
	gs_nvml_put(dev, GS_GPU_BAR1_USED, r, (double)bar1.used);
	gs_nvml_read_rows(nv, dev, slow_rows, GS_ARRAY_LEN(slow_rows));
	read_limits(nv, dev);
	read_ecc(nv, dev);
	read_repairs(nv, dev);
	ONE(pcie_gen, GS_GPU_PCIE_GEN, 1);
	ONE(pcie_gen_max, GS_GPU_PCIE_GEN_MAX, 1);
	ONE(pcie_width, GS_GPU_PCIE_WIDTH, 1);
	ONE(pcie_width_max, GS_GPU_PCIE_WIDTH_MAX, 1);
	if (!gs_gpu_has(&dev->sample, GS_GPU_PCIE_REPLAYS))
		ONE(pcie_replay, GS_GPU_PCIE_REPLAYS, 1);
}

static void read_link(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned i)
{
	struct gs_gpu_link *link = &dev->sample.link[i];
	unsigned long long n = 0;
	struct nvml_pci pci = {{0}};
	unsigned number = 0;

	if (NVML_OF(nv, dev, link_version, dev->handle, i, &number) == NVML_OK)
		link->version = (uint8_t)number;
	link->have_errors = 0;
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_CRC_FLIT, &n) == NVML_OK) {
		link->crc_errors = n;
		link->have_errors = 1;
	}
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_REPLAY, &n) == NVML_OK)
		link->replay_errors = n;
	if (NVML_OF(nv, dev, link_errors, dev->handle, i, NVML_LINK_RECOVERY, &n) == NVML_OK)
		link->recovery_errors = n;
	link->remote_bus_id[0] = '\0';
	if (link->up && NVML_OF(nv, dev, link_type, dev->handle, i, &number) == NVML_OK &&
	    number == NVML_LINK_TO_GPU &&
	    NVML_OF(nv, dev, link_pci, dev->handle, i, &pci) == NVML_OK) {
		pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
		gs_gpu_bus_id(pci.bus_id, link->remote_bus_id);
	}
}

static void read_link_bytes(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct gs_gpu_sample *s = &dev->sample;
	struct nvml_field f[GS_GPU_LINK_MAX * 2];

	memset(f, 0, sizeof(f));
	for (unsigned i = 0; i < s->n_links; i++) {
		f[i * 2].id = NVML_FI_NVLINK_DATA_TX;
		f[i * 2 + 1].id = NVML_FI_NVLINK_DATA_RX;
		f[i * 2].scope = f[i * 2 + 1].scope = i;
	}
	if (!s->n_links || NVML_OF(nv, dev, fields, dev->handle, (int)s->n_links * 2, f) != NVML_OK)
		return;
	for (unsigned i = 0; i < s->n_links; i++) {
		s->link[i].have_bytes = f[i * 2].r == NVML_OK && f[i * 2 + 1].r == NVML_OK;
		if (s->link[i].have_bytes) {
			s->link[i].tx_bytes = f[i * 2].value.ull << 10;
			s->link[i].rx_bytes = f[i * 2 + 1].value.ull << 10;
		}
	}
}

static void read_links(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct gs_gpu_sample *s = &dev->sample;
	uint64_t crc = 0, replay = 0, recovery = 0;
	unsigned n_up = 0, n_errors = 0, i;
	nvml_return r = NVML_OK;

	for (i = 0; i < NVML_LINKS_MAX; i++) {
		unsigned up = 0;

		/* The first link that is not there ends the list. */
		r = NVML(nv, link_state, dev->handle, i, &up);
		if (r != NVML_OK)
			break;
		s->link[i].present = 1;
		s->link[i].up = up != 0;
		n_up += up != 0;
		read_link(nv, dev, i);
		n_errors += s->link[i].have_errors;
		crc += s->link[i].crc_errors;
		replay += s->link[i].replay_errors;
		recovery += s->link[i].recovery_errors;
	}
	if (r == NVML_GPU_IS_LOST)
		return;
	s->n_links = i;
	if (i)
		r = NVML_OK;
	gs_nvml_put(dev, GS_GPU_NVLINK_ACTIVE, r, n_up);
	if (r == NVML_OK && !n_errors)
		r = NVML_NOT_SUPPORTED;
	gs_nvml_put(dev, GS_GPU_NVLINK_CRC, r, (double)crc);
	gs_nvml_put(dev, GS_GPU_NVLINK_REPLAY, r, (double)replay);
	gs_nvml_put(dev, GS_GPU_NVLINK_RECOVERY, r, (double)recovery);
	read_link_bytes(nv, dev);
}

/* The sum over all links: in KiB by the older fields, in bytes for each link by those of NVLink 5.
 */
static nvml_return link_total(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned old_id,
			      unsigned new_id, double *ret_bytes)
{
	struct nvml_field f[GS_GPU_LINK_MAX];
	unsigned n = dev->sample.n_links;
	nvml_return r;

	*ret_bytes = 0;
	memset(f, 0, sizeof(f));
	if (!dev->no_field[old_id]) {
		f[0].id = old_id;
		f[0].scope = NVML_SCOPE_ALL;
		r = NVML_OF(nv, dev, fields, dev->handle, 1, f);
		r = r == NVML_OK ? f[0].r : r;
		*ret_bytes = (double)f[0].value.ull * 1024;
		if (r != NVML_NOT_SUPPORTED && r != NVML_INVALID_ARGUMENT)
			return r;
		dev->no_field[old_id] = 1;
	}
	if (dev->no_field[new_id])
		return NVML_NOT_SUPPORTED;
	for (unsigned i = 0; i < n; i++) {
		f[i].id = new_id;
		f[i].scope = i;
	}
	r = NVML_OF(nv, dev, fields, dev->handle, (int)n, f);
	*ret_bytes = 0;
	for (unsigned i = 0; i < n && r == NVML_OK; i++) {
		r = f[i].r;
		*ret_bytes += (double)f[i].value.ull;
	}
	if (r == NVML_NOT_SUPPORTED || r == NVML_INVALID_ARGUMENT)
		dev->no_field[new_id] = 1;
	return r;
}

void gs_nvml_sample_links(struct gs_nvml *nv, struct gs_nvml_device *dev, bool slow)
{
	double bytes = 0;
	nvml_return r;

	if (slow)
		read_links(nv, dev);
	if (!dev->sample.n_links) {
		dev->sample.why[GS_GPU_NVLINK_TX] = dev->sample.why[GS_GPU_NVLINK_RX] =
			dev->sample.why[GS_GPU_NVLINK_ACTIVE];
		return;
	}
	r = link_total(nv, dev, NVML_FI_NVLINK_DATA_TX, NVML_FI_NVLINK_XMIT_BYTES, &bytes);
	gs_nvml_put(dev, GS_GPU_NVLINK_TX, r, bytes);
	r = link_total(nv, dev, NVML_FI_NVLINK_DATA_RX, NVML_FI_NVLINK_RCV_BYTES, &bytes);
	gs_nvml_put(dev, GS_GPU_NVLINK_RX, r, bytes);
}

/* Links of a GPU that are up: those to a switch, or those to the GPU with this bus id. */
static unsigned links_to(struct gs_nvml *nv, struct gs_nvml_device *dev, const char *bus_id)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NVML_LINKS_MAX; i++) {
		unsigned up = 0, type = 255;
		struct nvml_pci pci = {{0}};
		char remote[32] = "";

		if (NVML(nv, link_state, dev->handle, i, &up) != NVML_OK)
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
			n += gs_gpu_bus_id(pci.bus_id, remote) && strcmp(remote, bus_id) == 0;
		}
	}
	return n;
}

static uint8_t connection(struct gs_nvml *nv, struct gs_nvml_device *a, struct gs_nvml_device *b)
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
				*at = connection(nv, a, b);
			nv->topology[j * n + i] = *at;
		}
	}
}
