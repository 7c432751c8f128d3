/* What functions mean for memory, by their names. */
#include <string.h>

#include "model/trace/class.h"
#include "pipeline/gpu_memory/gpu_memory.h"

/* Every one that pins host memory says so, and no other does: cudaMallocHost, cudaHostAlloc,
 * cuMemAllocHost_v2, cuMemHostUnregister ... */
static bool is_of_host(const char *name)
{
	return strstr(name, "Host") != NULL;
}

static enum gs_memory_kind kind_of_alloc(const char *name)
{
	if (is_of_host(name))
		return strstr(name, "Register") ? GS_MEMORY_REGISTERED : GS_MEMORY_PINNED;
	return strcmp(name, "cuMemCreate") == 0                             ? GS_MEMORY_VIRTUAL
	       : strstr(name, "Array")                                      ? GS_MEMORY_ARRAY
	       : strstr(name, "Managed")                                    ? GS_MEMORY_MANAGED
	       : strstr(name, "Async")                                      ? GS_MEMORY_POOL
	       : strstr(name, "Pitch") || strcmp(name, "cudaMalloc3D") == 0 ? GS_MEMORY_PITCHED
									    : GS_MEMORY_DEVICE;
}

static struct gs_memory_function function_of_free(unsigned layer, const char *name)
{
	struct gs_memory_function f = {.verb = GS_MEMORY_FREE, .kind = GS_MEMORY_DEVICE};

	if (layer == GS_LAYER_NCCL)
		f.verb = GS_MEMORY_FREE_NCCL;
	else if (strcmp(name, "cuMemRelease") == 0)
		f.verb = GS_MEMORY_RELEASE;
	else if (is_of_host(name))
		f.kind = GS_MEMORY_PINNED;
	else if (strstr(name, "Array"))
		f.kind = GS_MEMORY_ARRAY;
	return f;
}

static enum gs_memory_verb verb_of_other(const char *name)
{
	static const struct {
		const char *name;
		enum gs_memory_verb verb;
	} others[] = {{"cuMemAddressReserve", GS_MEMORY_RESERVE},
		      {"cuMemAddressFree", GS_MEMORY_UNRESERVE},
		      {"cuMemMap", GS_MEMORY_MAP},
		      {"cuMemUnmap", GS_MEMORY_UNMAP},
		      {"cuMemRetainAllocationHandle", GS_MEMORY_RETAIN}};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcmp(name, others[i].name) == 0)
			return others[i].verb;
	return GS_MEMORY_NOTHING;
}

struct gs_memory_function gs_memory_function_of(unsigned layer, unsigned func_class,
						const char *name)
{
	struct gs_memory_function f = {0};

	if (layer < GS_LAYER_CUDA_RUNTIME || layer > GS_LAYER_NCCL)
		return f;
	switch (func_class) {
	case GS_CLASS_ALLOC:
		f.verb = layer == GS_LAYER_NCCL ? GS_MEMORY_ALLOC_NCCL : GS_MEMORY_ALLOC;
		f.kind = kind_of_alloc(name);
		return f;
	case GS_CLASS_FREE:
		return function_of_free(layer, name);
	case GS_CLASS_OTHER:
		f.verb = verb_of_other(name);
		return f;
	case GS_CLASS_DEVICE:
		f.verb = strstr(name, "Reset") ? GS_MEMORY_RESET : GS_MEMORY_NOTHING;
		f.of_thread = strcmp(name, "cudaDeviceReset") == 0;
		return f;
	default:
		return f;
	}
}
