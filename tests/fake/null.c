/*
 * Functions that do nothing, for measuring what a probe costs: the names and prototypes of the real
 * ones, so that they are decoded like them, and one of three first instructions. NULL_LIBRARY says
 * which library this is, NULL_SHAPE how its functions begin; libgs_target.so has all three
 * beginnings under names of its own.
 *
 *   PUSH  push %rbp               what the compiler writes; the kernel emulates it
 *   ENDBR endbr64, push %rbp      with control-flow protection; single-stepped, movable by 4
 *   STUB  cmpl, je, jmp *pointer  the driver up to 535; single-stepped, movable by 10
 *
 * Each returns 0. An allocation also writes a pointer where its first argument points.
 */
#define PUSH_HEAD(name)  ""
#define ENDBR_HEAD(name) "	endbr64\n"
#define STUB_HEAD(name)                                                                            \
	"	cmpl $0x321cba00, .Lnull_word(%rip)\n"                                                   \
	"	je 1f\n"                                                                                 \
	"	jmp *.Lnull_pointer_" name "(%rip)\n"                                              \
	"1:	mov $4, %eax\n"                                                                        \
	"	ret\n"                                                                                   \
	".pushsection .data.rel.ro, \"aw\"\n"                                                      \
	".p2align 3\n"                                                                             \
	".Lnull_pointer_" name ": .quad .Lnull_body_" name "\n"                                    \
	".popsection\n"

#define DEFINE(name, head, work)                                                                   \
	__asm__(".text\n"                                                                          \
		".p2align 6\n"                                                                     \
		".globl " name "\n"                                                                \
		".type " name ", @function\n" name ":\n" head ".Lnull_body_" name ":\n"            \
		"	push %rbp\n"                                                                     \
		"	mov %rsp, %rbp\n" work "	xor %eax, %eax\n"                                 \
		"	pop %rbp\n"                                                                      \
		"	ret\n"                                                                           \
		".size " name ", . - " name "\n");

#define NOTHING ""
#define POINTER                                                                                    \
	"	movabs $0x7e0000000200, %rax\n"                                                          \
	"	mov %rax, (%rdi)\n"

#define DO_PASTE(a, b)   a##b
#define PASTE(a, b)      DO_PASTE(a, b)
#define HEAD(name)       PASTE(NULL_SHAPE, _HEAD)(name)
#define NULL_CALL(name)  DEFINE(#name, HEAD(#name), NOTHING)
#define NULL_ALLOC(name) DEFINE(#name, HEAD(#name), POINTER)

/* What the stubs compare; never the value that they look for. */
__asm__(".data\n"
	".p2align 3\n"
	".Lnull_word: .quad 1\n"
	".text\n");

#define CUDART 1
#define CUDA   2
#define NCCL   3
#define TARGET 4

#if NULL_LIBRARY == CUDART
NULL_CALL(cudaLaunchKernel)
NULL_CALL(cudaLaunchKernelExC)
NULL_ALLOC(cudaMalloc)
NULL_ALLOC(cudaMallocAsync)
NULL_CALL(cudaFree)
NULL_CALL(cudaFreeAsync)
NULL_CALL(cudaMemcpyAsync)
NULL_CALL(cudaMemsetAsync)
NULL_CALL(cudaStreamSynchronize)
NULL_CALL(cudaEventRecord)
NULL_CALL(cudaEventQuery)
NULL_CALL(cudaGetDevice)
#elif NULL_LIBRARY == CUDA
NULL_CALL(cuLaunchKernel)
NULL_CALL(cuLaunchKernelEx)
NULL_ALLOC(cuMemAlloc_v2)
NULL_CALL(cuMemFree_v2)
NULL_CALL(cuMemcpyHtoDAsync_v2)
NULL_CALL(cuStreamSynchronize)
#elif NULL_LIBRARY == NCCL
NULL_CALL(ncclAllReduce)
NULL_CALL(ncclGroupStart)
NULL_CALL(ncclGroupEnd)
#elif NULL_LIBRARY == TARGET
DEFINE("gs_target_push_launch", PUSH_HEAD(""), NOTHING)
DEFINE("gs_target_push_malloc", PUSH_HEAD(""), POINTER)
DEFINE("gs_target_endbr_launch", ENDBR_HEAD(""), NOTHING)
DEFINE("gs_target_endbr_malloc", ENDBR_HEAD(""), POINTER)
DEFINE("gs_target_stub_launch", STUB_HEAD("gs_target_stub_launch"), NOTHING)
DEFINE("gs_target_stub_malloc", STUB_HEAD("gs_target_stub_malloc"), POINTER)
#else
#error "NULL_LIBRARY: CUDART, CUDA, NCCL or TARGET"
#endif
