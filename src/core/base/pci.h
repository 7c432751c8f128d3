/* Addresses of PCI devices as texts. */
#ifndef GS_CORE_BASE_PCI_H
#define GS_CORE_BASE_PCI_H

#include <stdbool.h>

#define GS_PCI_BUS_ID_BYTES 32

/* "0000:3b:00", "0000:3B:00.0" or "00000000:3B:00.0" in the last of these forms; false: neither. */
bool gs_pci_bus_id(const char *text, char ret_bus_id[GS_PCI_BUS_ID_BYTES]);

#endif
