/*
 * Stands in for libtorch_cpu, to tell which operator asked for which call without a GPU: functions
 * under the names that PyTorch's have, which call the stand-ins of CUDA and NCCL. A C compiler
 * makes other code of them than PyTorch's has; what is common is all that the tracer relies on.
 */
#include "torch.h"

#include <setjmp.h>
#include <stdlib.h>

#include "nccl_abi.h"
#include "cuda_protos.h"
#include "nccl_protos.h"

#define PUBLIC __attribute__((visibility("default"), noinline))

/* Registered at the start of the real one; the linker may merge the last into the one before. */
__attribute__((visibility("default"))) const char *const fake_schemas[] = {
	"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
	"addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor",
	"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
	"add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
	"_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()",
	"copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
	"native_layer_norm_backward(Tensor grad_out) -> (Tensor, Tensor, Tensor)",
	"acos(Tensor self) -> Tensor",
	"size.int(Tensor self, int dim) -> int",
	"all_reduce(Tensor self) -> Tensor",
	"recurse(Tensor self) -> Tensor",
};

static char buffer[2][1024];
static _Thread_local jmp_buf out;

PUBLIC int fake_global_context(void)
{
	return 0;
}

static int launch(void)
{
	dim3 one = {1, 1, 1};

	return cudaLaunchKernel(buffer, one, one, NULL, 0, NULL) == cudaSuccess;
}

PUBLIC int fake_op_add_tensor(int n)
{
	int calls = 0;

	for (int i = 0; i < n; i++)
		calls += launch();
	return calls;
}

PUBLIC int fake_op_add__tensor(int n)
{
	(void)n;
	return launch();
}

PUBLIC int fake_op_addmm(int depth)
{
	void *p = NULL;
	int calls = cudaMalloc(&p, 4096) == cudaSuccess;

	(void)depth;
	calls += launch();
	calls += launch();
	calls += cudaFree(p) == cudaSuccess;
	return calls;
}

PUBLIC int fake_op_linear(int depth)
{
	return depth > 0 ? fake_op_addmm(depth - 1) : 0;
}

PUBLIC int fake_op_foreach_add_list(int n)
{
	int calls = 0;

	for (int i = 0; i < n; i++)
		calls += fake_op_add__tensor(i);
	return calls;
}

PUBLIC int fake_op_copy_(int n)
{
	int calls = 0;

	for (int i = 0; i < n; i++)
		calls += cudaMemcpyAsync(buffer[0], buffer[1], sizeof(buffer[0]),
					 cudaMemcpyHostToHost, NULL) == cudaSuccess;
	return calls;
}

PUBLIC int fake_op_norm_backward(int n)
{
	int calls = launch();

	return calls + fake_op_add_tensor(n);
}

PUBLIC int fake_op_cos(int n)
{
	return n * 0;
}

PUBLIC int fake_op_size_int(int n)
{
	return n + 1;
}

PUBLIC int fake_op_all_reduce(int n)
{
	static ncclComm_t comm;
	int calls = 0;

	if (!comm && ncclCommInitAll(&comm, 1, NULL) != ncclSuccess)
		abort();
	for (int i = 0; i < n; i++)
		calls += ncclAllReduce(buffer[0], buffer[1], 256, ncclFloat32, ncclSum, comm,
				       NULL) == ncclSuccess;
	return calls;
}

PUBLIC int fake_op_recurse(int depth)
{
	int calls;

	if (depth == 0)
		return launch();
	calls = fake_op_recurse(depth - 1);
	return calls + (depth == 100000);
}

PUBLIC int fake_op_jump(int n)
{
	if (n == 1)
		longjmp(out, 1);
	return launch();
}

PUBLIC void fake_engine_execute(int n)
{
	if (n < 0) { /* leaves an operator by a jump */
		if (setjmp(out) == 0)
			fake_op_jump(1);
		return;
	}
	for (int i = 0; i < n; i++)
		fake_op_norm_backward(1);
}
