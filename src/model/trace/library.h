/*
 * The libraries whose calls are traced, by the names of their files: the one place that knows how
 * these begin. Python wheels bring the same libraries along under names with a hash:
 * libcudart.faf08d9a.so.13, libcudart-9335f6a2.so.11.0.
 */
#ifndef GS_MODEL_TRACE_LIBRARY_H
#define GS_MODEL_TRACE_LIBRARY_H

#include <stdbool.h>

/* enum gs_layer of a file of CUDA's runtime, its driver, NCCL or PyTorch, or of an interpreter of Python, by its name,
 * with or without a folder; GS_LAYER_NONE: another file. Plug-ins of NCCL (libnccl-net.so) are others. */
unsigned gs_layer_of_file(const char *path);

/* It is one of CUDA's or NCCL. */
bool gs_layer_file_is_cuda(const char *path);

/* "libcudart.so": the usual name of the library of a layer, "python" of Python; NULL: it has none of these. */
const char *gs_layer_library(unsigned layer);

#endif
