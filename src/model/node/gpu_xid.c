/* XID errors in words. */
#include "core/base/mem.h"
#include "model/node/gpu.h"

/* NVIDIA's "XID Errors" guide, the ones that are met. */
static const struct {
	uint32_t xid;
	const char *text;
} xids[] = {
	{13, "graphics engine exception: usually a fault of the program"},
	{31, "MMU fault: an address that the program may not use"},
	{32, "invalid or corrupted push buffer stream"},
	{38, "driver firmware error"},
	{43, "GPU stopped processing: usually a fault of the program"},
	{45, "preemptive cleanup: the program was ended, or another error came before"},
	{48, "double-bit memory error"},
	{61, "internal micro-controller breakpoint"},
	{62, "internal micro-controller halt"},
	{63, "memory row remapped or page retired"},
	{64, "memory row remapping or page retirement failed"},
	{68, "video processor exception"},
	{69, "graphics engine class error"},
	{74, "NVLink error"},
	{79, "GPU has fallen off the bus"},
	{92, "many single-bit memory errors"},
	{94, "contained memory error"},
	{95, "uncontained memory error"},
	{109, "context switch timeout"},
	{119, "GSP does not answer"},
	{120, "GSP error"},
	{121, "C2C link error"},
	{140, "unrecovered memory error"},
	{143, "GPU initialization error"},
	{149, "NVLink error"},
	{154, "recovery action changed"},
	{156, "resource retired"},
};

const char *gs_gpu_xid_text(uint32_t xid)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(xids); i++)
		if (xids[i].xid == xid)
			return xids[i].text;
	return "";
}
