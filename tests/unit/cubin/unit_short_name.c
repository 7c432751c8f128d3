/* Short forms of names as PyTorch, CUTLASS, cuBLAS, Triton and others have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/cubin/short_name.h"

static const struct {
	const char *name, *want;
} table[] = {
	{"k(int*)", "k"},
	{"bounded", "bounded"},
	{"app::scale(float*, int)", "scale"},
	{"void app::fill<double>(double*, double)", "fill<double>"},
	{"(anonymous namespace)::anon(int*)", "anon"},
	{"void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 7, false>("
	 "c10::Half*)",
	 "softmax_warp_forward<Half, Half, float, ...>"},
	{"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
	 "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
	 "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul>>"},
	{"void at::native::elementwise_kernel<128, 4, "
	 "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda("
	 "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>("
	 "at::TensorIteratorBase&)::{lambda(int)#1}>(int, int)",
	 "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>"},
	{"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8>("
	 "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8::Params)",
	 "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8"},
	{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>, "
	 "float> >(cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>, float>::Params)",
	 "GemmUniversal"},
	{"void gemmSN_TN_kernel<float, 128, 16, 2, 4, true>(float const*)",
	 "gemmSN_TN_kernel<float, 128, 16, ...>"},
	{"nvjet_hsh_128x256_64x4_1x2_h_bz_TNN", "nvjet_hsh_128x256_64x4_1x2_h_bz_TNN"},
	{"triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_0"},
	{"matmul_kernel_0d1d2d3de4de5c6de7c", "matmul_kernel"},
	{"void cub::CUB_300001_SM_900::DeviceReduceKernel<unsigned long, (unsigned int)4>(int)",
	 "DeviceReduceKernel<unsigned long, 4>"},
	/* What is never closed, and nothing but brackets. */
	{"void f<a<b<c", "f<a<b>>"},
	{"(", "("},
	{"<>", "<>"},
	{"a::", "a::"},
};

static void names_are_short(void **state)
{
	char text[GS_KERNEL_SHORT_BYTES];

	for (size_t i = 0; i < GS_ARRAY_LEN(table); i++) {
		gs_kernel_short_name(table[i].name, text);
		assert_string_equal(text, table[i].want);
	}
}

static void long_ones_are_cut(void **state)
{
	char name[4096], text[GS_KERNEL_SHORT_BYTES];

	memset(name, '<', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	gs_kernel_short_name(name, text);
	assert_true(strlen(text) > 0);
	memset(name, 'a', sizeof(name) - 1);
	gs_kernel_short_name(name, text);
	assert_int_equal(strlen(text), GS_KERNEL_SHORT_BYTES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_short),
		cmocka_unit_test(long_ones_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
