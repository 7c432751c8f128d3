#include "model/trace/library.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/event.h"

#define HASH_DIGITS 4 /* at least, of the hash in a wheel's name */

static const struct {
	unsigned layer;
	const char *stem, *name;
} libraries[] = {{GS_LAYER_CUDA_RUNTIME, "libcudart", "libcudart.so"},
		 {GS_LAYER_CUDA_DRIVER, "libcuda", "libcuda.so"},
		 {GS_LAYER_NCCL, "libnccl", "libnccl.so"},
		 {GS_LAYER_TORCH, "libtorch_cpu", "libtorch_cpu.so"}};

/* An interpreter, as a program or as a library. */
static bool is_python(const char *name)
{
	return strncmp(name, "libpython3", 10) == 0 || strcmp(name, "python") == 0 ||
	       strncmp(name, "python3", 7) == 0;
}

/* What stands after the stem: the suffix, with a version or without, or a hash before it. */
static bool ends_as_library(const char *tail)
{
	size_t digits = 0;

	if (strncmp(tail, ".so", 3) == 0 && (!tail[3] || tail[3] == '.'))
		return true;
	if (tail[0] != '.' && tail[0] != '-')
		return false;
	while (isxdigit((unsigned char)tail[1 + digits]))
		digits++;
	return digits >= HASH_DIGITS && strncmp(tail + 1 + digits, ".so", 3) == 0;
}

unsigned gs_layer_of_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < GS_ARRAY_LEN(libraries); i++) {
		size_t bytes = strlen(libraries[i].stem);

		if (strncmp(name, libraries[i].stem, bytes) == 0 && ends_as_library(name + bytes))
			return libraries[i].layer;
	}
	return is_python(name) ? GS_LAYER_PYTHON : GS_LAYER_NONE;
}

bool gs_layer_file_is_cuda(const char *path)
{
	unsigned layer = gs_layer_of_file(path);

	return layer == GS_LAYER_CUDA_RUNTIME || layer == GS_LAYER_CUDA_DRIVER ||
	       layer == GS_LAYER_NCCL;
}

const char *gs_layer_library(unsigned layer)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(libraries); i++)
		if (libraries[i].layer == layer)
			return libraries[i].name;
	return layer == GS_LAYER_PYTHON ? "python" : NULL;
}
