#include "companion/gpu/layout.h"

#define GPU_FIELD_PLACE(field, kind, at, size, first, ...)                                         \
	[GPU_##field] = {.offset = (at), .bytes = (size), .since = (first)},

const struct gpu_place gpu_place[GPU_N_FIELDS] = {GPU_FIELDS(GPU_FIELD_PLACE)};
