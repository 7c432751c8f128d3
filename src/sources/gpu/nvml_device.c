/*
 * Which GPUs there are, and what of each stays as it is. The table is filled again whenever GPUs or
 * their parts may have changed; a GPU that was known (by UUID) keeps its counters and its last
 * values, and one that stopped answering keeps its place in the table, marked lost.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/gpu/gpu_int.h"

#define UTIL_UNSUPPORTED GS_GPU_REASON_NOT_READ

void gs_nvml_device_fini(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	for (unsigned i = 0; i < 2; i++)
		if (dev->gpm[i] && nv->started)
			NVML(nv, gpm_free, dev->gpm[i]);
	dev->gpm[0] = dev->gpm[1] = NULL;
	gs_free_p(&dev->util);
	gs_free_p(&dev->kept);
	gs_map_fini(&dev->accounted);
}

static void read_pci(struct gs_nvml *nv, nvml_dev handle, char ret_bus_id[32])
{
	struct nvml_pci pci = {{0}};

	if (NVML(nv, pci, handle, &pci) == NVML_OK) {
		pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
		if (gs_pci_bus_id(pci.bus_id, ret_bus_id))
			return;
	}
	if (NVML(nv, pci_v2, handle, &pci) == NVML_OK) {
		pci.bus_id_legacy[sizeof(pci.bus_id_legacy) - 1] = '\0';
		gs_pci_bus_id(pci.bus_id_legacy, ret_bus_id);
	}
}

static const char *architecture_name(unsigned number)
{
	/* NVML_DEVICE_ARCH_* */
	static const char *const names[] = {NULL,     NULL,     "Kepler",   "Maxwell",
					    "Pascal", "Volta",  "Turing",   "Ampere",
					    "Ada",    "Hopper", "Blackwell"};

	return number < GS_ARRAY_LEN(names) && names[number] ? names[number] : "";
}

static void read_info(struct gs_nvml *nv, nvml_dev handle, struct gs_gpu_info *info)
{
	unsigned number;
	int major, minor;

	NVML(nv, name, handle, info->name, (unsigned)sizeof(info->name));
	NVML(nv, serial, handle, info->serial, (unsigned)sizeof(info->serial));
	NVML(nv, vbios, handle, info->vbios, (unsigned)sizeof(info->vbios));
	read_pci(nv, handle, info->pci_bus_id);
	if (NVML(nv, minor, handle, &number) == NVML_OK)
		info->minor = (int32_t)number;
	/* ~0: the GPU's memory is no node of its own. */
	if (NVML(nv, numa_node, handle, &number) == NVML_OK && number < 4096)
		info->numa_node = (int32_t)number;
	if (NVML(nv, architecture, handle, &number) == NVML_OK)
		snprintf(info->architecture, sizeof(info->architecture), "%s",
			 architecture_name(number));
	if (NVML(nv, compute, handle, &major, &minor) == NVML_OK) {
		info->compute_major = major;
		info->compute_minor = minor;
		if (NVML(nv, cores, handle, &number) == NVML_OK)
			info->n_sms = (int32_t)(number / gs_gpu_sm_cores(major, minor));
	}
	if (NVML(nv, persistence, handle, &number) == NVML_OK)
		info->persistence = number != 0;
}

static void read_part(struct gs_nvml *nv, nvml_dev handle, struct gs_gpu_info *info)
{
	struct nvml_attributes a = {0};
	unsigned number;

	NVML(nv, name, handle, info->name, (unsigned)sizeof(info->name));
	if (NVML(nv, gpu_instance, handle, &number) == NVML_OK)
		info->gpu_instance = (int32_t)number;
	if (NVML(nv, compute_instance, handle, &number) == NVML_OK)
		info->compute_instance = (int32_t)number;
	if (NVML(nv, attributes, handle, &a) != NVML_OK)
		return;
	info->n_sms = (int32_t)a.n_sms;
	/* As nvidia-smi names profiles: slices and memory, rounded up to the GB that is sold. */
	if (a.n_compute_slices == a.n_gpu_slices)
		snprintf(info->mig_profile, sizeof(info->mig_profile), "%ug.%llugb", a.n_gpu_slices,
			 (a.memory_mib + 1023) / 1024);
	else
		snprintf(info->mig_profile, sizeof(info->mig_profile), "%uc.%ug.%llugb",
			 a.n_compute_slices, a.n_gpu_slices, (a.memory_mib + 1023) / 1024);
}

static void clear_sample(struct gs_nvml_device *dev)
{
	memset(&dev->sample, 0, sizeof(dev->sample));
	memset(dev->sample.why, GS_GPU_REASON_NOT_READ, sizeof(dev->sample.why));
}

/* Room for one more in the table that is being built. */
static struct gs_nvml_device *add_device(struct gs_nvml *nv)
{
	struct gs_nvml_device *dev;

	if (nv->n_devices >= GS_GPU_MAX)
		return NULL;
	if (!gs_vec_reserve_next(&nv->device, nv->n_devices))
		return NULL;
	dev = &nv->device[nv->n_devices];
	memset(dev, 0, sizeof(*dev));
	dev->accounted = GS_MAP_INIT(GS_GPU_PROCESS_MAX);
	dev->util_why = UTIL_UNSUPPORTED;
	dev->info = gs_gpu_info_unknown;
	dev->info.vendor = GS_GPU_VENDOR_NVIDIA;
	clear_sample(dev);
	dev->parent_index = nv->n_devices;
	nv->n_devices++;
	return dev;
}

/* What was known of this GPU in the table before goes into the new one. */
static void inherit_device(struct gs_nvml_device *dev, struct gs_nvml_device *old, unsigned n_old)
{
	for (unsigned i = 0; i < n_old; i++) {
		if (!old[i].info.uuid[0] || strcmp(old[i].info.uuid, dev->info.uuid) != 0)
			continue;
		dev->sample = old[i].sample;
		dev->sample.lost = 0;
		memcpy(dev->pcie_high, old[i].pcie_high, sizeof(dev->pcie_high));
		memcpy(dev->pcie_last, old[i].pcie_last, sizeof(dev->pcie_last));
		memcpy(dev->bytes_last, old[i].bytes_last, sizeof(dev->bytes_last));
		memcpy(dev->bytes_time_ns, old[i].bytes_time_ns, sizeof(dev->bytes_time_ns));
		dev->util_last_us = old[i].util_last_us;
		dev->util_time_ns = old[i].util_time_ns;
		dev->util_why = old[i].util_why;
		dev->util_from_gpm = old[i].util_from_gpm;
		memcpy(dev->part, old[i].part, sizeof(dev->part));
		dev->kept = gs_take(old[i].kept);
		dev->n_kept = old[i].n_kept;
		dev->util = gs_take(old[i].util);
		dev->n_util = old[i].n_util;
		dev->accounted = old[i].accounted;
		dev->accounting_started = old[i].accounting_started;
		old[i].accounted = GS_MAP_INIT(GS_GPU_PROCESS_MAX);
		old[i].info.uuid[0] = '\0';
		return;
	}
}

/* The GPU at this index does not answer: what was known of it stays in the table. */
static void add_lost(struct gs_nvml *nv, unsigned index, struct gs_nvml_device *old, unsigned n_old)
{
	struct gs_nvml_device *dev = add_device(nv);

	if (!dev)
		return;
	dev->info.index = index;
	for (unsigned i = 0; i < n_old; i++)
		if (!old[i].info.is_mig && old[i].info.index == index && old[i].info.uuid[0]) {
			dev->info = old[i].info;
			inherit_device(dev, old, n_old);
			break;
		}
	snprintf(dev->info.driver_version, sizeof(dev->info.driver_version), "%s",
		 nv->driver_version);
	dev->sample.lost = 1;
}

static void add_parts(struct gs_nvml *nv, unsigned parent, struct gs_nvml_device *old,
		      unsigned n_old)
{
	unsigned max = 0;

	if (NVML(nv, mig_max, nv->device[parent].handle, &max) != NVML_OK)
		return;
	for (unsigned i = 0; i < max && i < 64; i++) {
		struct gs_nvml_device *dev;
		nvml_dev handle;

		/* Parts may have gaps between their indices. */
		if (NVML(nv, mig_by_index, nv->device[parent].handle, i, &handle) != NVML_OK)
			continue;
		dev = add_device(nv);
		if (!dev)
			return;
		dev->handle = handle;
		dev->parent = nv->device[parent].handle;
		dev->parent_index = parent;
		dev->info = nv->device[parent].info;
		dev->info.is_mig = 1;
		dev->info.mig_enabled = 0;
		dev->info.uuid[0] = dev->info.serial[0] = '\0';
		NVML(nv, uuid, handle, dev->info.uuid, (unsigned)sizeof(dev->info.uuid));
		read_part(nv, handle, &dev->info);
		inherit_device(dev, old, n_old);
	}
}

int gs_nvml_enumerate(struct gs_nvml *nv)
{
	struct gs_nvml_device *old = gs_take(nv->device);
	unsigned n_old = nv->n_devices, n = 0;
	nvml_return r;

	nv->n_devices = 0;
	nv->changed = nv->lost = false;
	r = NVML(nv, count, &n);
	for (unsigned i = 0; r == NVML_OK && i < n; i++) {
		unsigned current = 0, pending = 0;
		struct gs_nvml_device *dev;
		nvml_dev handle;

		if (NVML(nv, by_index, i, &handle) != NVML_OK) {
			add_lost(nv, i, old, n_old);
			nv->lost = true;
			continue;
		}
		dev = add_device(nv);
		if (!dev)
			break;
		dev->handle = handle;
		dev->info.index = i;
		snprintf(dev->info.driver_version, sizeof(dev->info.driver_version), "%s",
			 nv->driver_version);
		snprintf(dev->info.cuda_version, sizeof(dev->info.cuda_version), "%s",
			 nv->cuda_version);
		NVML(nv, uuid, handle, dev->info.uuid, (unsigned)sizeof(dev->info.uuid));
		read_info(nv, handle, &dev->info);
		inherit_device(dev, old, n_old);
		if (NVML(nv, mig_mode, handle, &current, &pending) == NVML_OK && current) {
			dev->info.mig_enabled = 1;
			add_parts(nv, nv->n_devices - 1, old, n_old);
		}
	}
	for (unsigned i = 0; i < n_old; i++)
		gs_nvml_device_fini(nv, &old[i]);
	free(old);
	if (r != NVML_OK)
		return -EIO;
	gs_free_p(&nv->topology); /* of other GPUs: found again when it is asked for */
	return 0;
}

bool gs_nvml_layout_changed(struct gs_nvml *nv)
{
	unsigned n = 0, whole = 0;

	if (NVML(nv, count, &n) != NVML_OK)
		return true;
	for (unsigned i = 0; i < nv->n_devices; i++) {
		struct gs_nvml_device *dev = &nv->device[i];
		unsigned current = 0, pending = 0, max = 0, parts = 0, known = 0;

		if (dev->info.is_mig)
			continue;
		whole++;
		if (!dev->handle ||
		    NVML_OF(nv, dev, mig_mode, dev->handle, &current, &pending) != NVML_OK)
			continue;
		if ((current != 0) != dev->info.mig_enabled)
			return true;
		if (!current || NVML(nv, mig_max, dev->handle, &max) != NVML_OK)
			continue;
		for (unsigned j = i + 1; j < nv->n_devices && nv->device[j].info.is_mig; j++)
			known++;
		for (unsigned j = 0; j < max && j < 64; j++) {
			char uuid[80] = "";
			nvml_dev part;

			if (NVML(nv, mig_by_index, dev->handle, j, &part) != NVML_OK)
				continue;
			NVML(nv, uuid, part, uuid, (unsigned)sizeof(uuid));
			if (parts >= known ||
			    strcmp(uuid, nv->device[i + 1 + parts].info.uuid) != 0)
				return true;
			parts++;
		}
		if (parts != known)
			return true;
	}
	return whole != n;
}
