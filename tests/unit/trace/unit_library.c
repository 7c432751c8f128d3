/* Which files are libraries of CUDA and NCCL, by their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/event.h"
#include "model/trace/library.h"

static void names(void **state)
{
	static const struct {
		const char *path;
		unsigned layer;
	} rows[] = {
		{"libcudart.so", GS_LAYER_CUDA_RUNTIME},
		{"/usr/local/cuda/lib64/libcudart.so.12.4.127", GS_LAYER_CUDA_RUNTIME},
		{"/x/torch/lib/libcudart-9335f6a2.so.11.0", GS_LAYER_CUDA_RUNTIME},
		{"libcudart.faf08d9a.so.13", GS_LAYER_CUDA_RUNTIME},
		{"/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06", GS_LAYER_CUDA_DRIVER},
		{"libcuda.so.1", GS_LAYER_CUDA_DRIVER},
		{"/x/nvidia/nccl/lib/libnccl.so.2", GS_LAYER_NCCL},
		{"libnccl-0123abcd.so.2", GS_LAYER_NCCL},
		{"/x/torch/lib/libtorch_cpu.so", GS_LAYER_TORCH},
		{"libtorch_cuda.so", GS_LAYER_NONE},
		{"/usr/bin/python3.11", GS_LAYER_PYTHON},
		{"python", GS_LAYER_PYTHON},
		{"/usr/lib/libpython3.12.so.1.0", GS_LAYER_PYTHON},
		{"libcudart", GS_LAYER_NONE},
		{"/usr/lib/python3/libpython.py", GS_LAYER_NONE},
		{"libcudart_static.a", GS_LAYER_NONE},
		{"libcudadevrt.so", GS_LAYER_NONE},
		{"libcuda.sorry", GS_LAYER_NONE},
		{"libcudart-9335f6a2", GS_LAYER_NONE},
		{"libnccl-net.so", GS_LAYER_NONE},
		{"libnccl-profiler.so", GS_LAYER_NONE},
		{"libcuda.so/x", GS_LAYER_NONE},
		{"xlibcuda.so", GS_LAYER_NONE},
		{"/", GS_LAYER_NONE},
		{"", GS_LAYER_NONE},
	};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
		if (gs_layer_of_file(rows[i].path) != rows[i].layer)
			fail_msg("%s is of layer %u", rows[i].path, gs_layer_of_file(rows[i].path));
	for (unsigned layer = 0; layer < GS_LAYER_COUNT; layer++)
		if (gs_layer_library(layer))
			assert_int_equal(gs_layer_of_file(gs_layer_library(layer)), layer);
	assert_string_equal(gs_layer_library(GS_LAYER_NCCL), "libnccl.so");
	assert_null(gs_layer_library(GS_LAYER_USER));
	assert_true(gs_layer_file_is_cuda("/x/nvidia/nccl/lib/libnccl.so.2"));
	assert_false(gs_layer_file_is_cuda("/x/torch/lib/libtorch_cpu.so"));
	assert_false(gs_layer_file_is_cuda("libnccl-net.so"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
