/*
 * Among the files of the driver's stand-in. Its exported functions come in two shapes: ordinary
 * ones, as driver 580 has them, and (FAKE_STUB) the ones of driver 535, where every export is
 * "cmpl $0x321cba00, word; je out; jmp *pointer" and the code proper is elsewhere: a probe at their
 * first byte is single-stepped, one at the je is emulated.
 */
#ifndef FAKE_CUDA_DRV_H
#define FAKE_CUDA_DRV_H

#include "fake.h"

#ifdef FAKE_STUB
#define DRV(name, params)                                                                          \
	CUresult fake_impl_##name params;                                                          \
	__asm__(".pushsection .text\n"                                                             \
		".p2align 4\n"                                                                     \
		".globl " #name "\n"                                                               \
		".type " #name ", @function\n" #name ":\n"                                         \
		"	cmpl $0x321cba00, fake_stub_word(%rip)\n"                                        \
		"	je 1f\n"                                                                         \
		"	jmp *.Lfake_pointer_" #name "(%rip)\n"                                     \
		"1:	mov $4, %eax\n" /* CUDA_ERROR_DEINITIALIZED */                             \
		"	ret\n"                                                                           \
		".size " #name ", . - " #name "\n"                                                 \
		".popsection\n"                                                                    \
		".pushsection .data.rel.ro, \"aw\"\n"                                              \
		".p2align 3\n"                                                                     \
		".Lfake_pointer_" #name ": .quad fake_impl_" #name "\n"                            \
		".popsection\n");                                                                  \
	CUresult __attribute__((used, noinline)) fake_impl_##name params
#else
#define DRV(name, params) FAKE_EXPORT CUresult name params
#endif

#define DRV_PTSZ(name, params, args) FAKE_TWIN(DRV, CUresult, name, _ptsz, params, args)
#define DRV_PTDS(name, params, args) FAKE_TWIN(DRV, CUresult, name, _ptds, params, args)

/* cuda_memory.c. Freeing nothing is allowed; a copy of no bytes may have no addresses. side: which
 * of the three addresses of one side of a copy counts. */
CUresult fake_drv_give(enum fake_kind kind, uint64_t bytes, uint64_t *ret_address);
CUresult fake_drv_take(unsigned kinds, uint64_t address);
CUresult fake_drv_copied(uint64_t dst, uint64_t src, uint64_t bytes);
uint64_t fake_drv_side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array);

#endif
