/* Which code the GPUs of this machine run. */
#ifndef GS_SOURCES_CUBIN_DEVICE_H
#define GS_SOURCES_CUBIN_DEVICE_H

#include <stdint.h>

/* Compute capability times ten of NVIDIA's GPUs below this folder of PCI devices (NULL: that of /sys), when
 * all have the same; 0: there is none, they differ, or one is not known. By their PCI numbers, so
 * that the driver is not asked. */
uint32_t gs_cubin_device_sm(const char *pci_folder);

#endif
