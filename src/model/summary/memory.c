#include "model/summary/memory.h"

const char *gs_memory_kind_name(unsigned kind)
{
	static const char *const w[GS_MEMORY_KINDS] = {
		[GS_MEMORY_INVALID] = "",
		[GS_MEMORY_DEVICE] = "device",
		[GS_MEMORY_PITCHED] = "pitched",
		[GS_MEMORY_ARRAY] = "array",
		[GS_MEMORY_POOL] = "pool",
		[GS_MEMORY_MANAGED] = "managed",
		[GS_MEMORY_VIRTUAL] = "virtual",
		[GS_MEMORY_PINNED] = "pinned",
		[GS_MEMORY_REGISTERED] = "registered",
		[GS_MEMORY_ON_DEVICE] = "all device memory",
		[GS_MEMORY_ON_HOST] = "all pinned host memory",
	};

	return kind < GS_MEMORY_KINDS ? w[kind] : "";
}
