/*
 * Launches of the runtime's stand-in. Like the real ones they reach the device through functions
 * that the driver exports, called here through the PLT, so one launch passes two entries. A host
 * function is called at once, inside the call, which makes traced calls nest for real.
 */
#include "cudart.h"

#define MAX_BLOCK_THREADS 1024

static bool block_fits(dim3 block)
{
	uint64_t n = (uint64_t)block.x * block.y;

	return n && block.z && n <= MAX_BLOCK_THREADS && n * block.z <= MAX_BLOCK_THREADS;
}

typedef CUresult (*launch_fn)(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			      unsigned int bx, unsigned int by, unsigned int bz,
			      unsigned int shared_bytes, CUstream stream, void **params,
			      void **extra);

static cudaError_t launch(launch_fn down, const void *func, dim3 grid, dim3 block, void **args,
			  size_t shared_bytes, cudaStream_t stream)
{
	if (!block_fits(block) || !grid.x || !grid.y || !grid.z)
		return fake_rt_end(cudaErrorInvalidConfiguration);
	return fake_rt_end(down((CUfunction)func, grid.x, grid.y, grid.z, block.x, block.y, block.z,
				(unsigned int)shared_bytes, stream, args, NULL));
}

RT(cudaLaunchKernel, (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
		      cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return launch(cuLaunchKernel, func, gridDim, blockDim, args, sharedMem, stream);
}

RT(cudaLaunchKernel_ptsz, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
			   size_t sharedMem, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return launch(cuLaunchKernel_ptsz, func, gridDim, blockDim, args, sharedMem, stream);
}

#ifdef __CET__
#define BRANCH_TARGET "	endbr64\n"
#else
#define BRANCH_TARGET
#endif

/* What nvcc 13 calls: byte for byte the jump that the real library makes, so that the function
 * behind it is entered with the caller's stack. */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".globl __cudaLaunchKernel, __cudaLaunchKernel_ptsz\n"
	".type __cudaLaunchKernel, @function\n"
	".type __cudaLaunchKernel_ptsz, @function\n"
	"__cudaLaunchKernel:\n" BRANCH_TARGET "	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	jmp cudaLaunchKernel@PLT\n"
	".size __cudaLaunchKernel, . - __cudaLaunchKernel\n"
	".p2align 4\n"
	"__cudaLaunchKernel_ptsz:\n" BRANCH_TARGET "	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	jmp cudaLaunchKernel_ptsz@PLT\n"
	".size __cudaLaunchKernel_ptsz, . - __cudaLaunchKernel_ptsz\n"
	".popsection\n");

typedef CUresult (*launch_ex_fn)(const CUlaunchConfig *config, CUfunction f, void **params,
				 void **extra);

static cudaError_t launch_ex(launch_ex_fn down, const cudaLaunchConfig_t *config, const void *func,
			     void **args)
{
	CUlaunchConfig c = {
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = (CUlaunchAttribute *)config->attrs,
		.numAttrs = config->numAttrs,
	};

	if (!block_fits(config->blockDim) || !config->gridDim.x || !config->gridDim.y ||
	    !config->gridDim.z)
		return fake_rt_end(cudaErrorInvalidConfiguration);
	return fake_rt_end(down(&c, (CUfunction)func, args, NULL));
}

RT(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	if (!config)
		return fake_rt_end(cudaErrorInvalidValue);
	return launch_ex(cuLaunchKernelEx, config, func, args);
}

RT(cudaLaunchKernelExC_ptsz, (const cudaLaunchConfig_t *config, const void *func, void **args))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	if (!config)
		return fake_rt_end(cudaErrorInvalidValue);
	return launch_ex(cuLaunchKernelEx_ptsz, config, func, args);
}

static cudaError_t launch_together(launch_ex_fn down, const void *func, dim3 grid, dim3 block,
				   void **args, size_t shared_bytes, cudaStream_t stream)
{
	cudaLaunchAttribute together = {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
	cudaLaunchConfig_t config = {grid, block, shared_bytes, stream, &together, 1};

	return launch_ex(down, &config, func, args);
}

RT(cudaLaunchCooperativeKernel, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
				 size_t sharedMem, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return launch_together(cuLaunchKernelEx, func, gridDim, blockDim, args, sharedMem, stream);
}

RT(cudaLaunchCooperativeKernel_ptsz, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
				      size_t sharedMem, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return launch_together(cuLaunchKernelEx_ptsz, func, gridDim, blockDim, args, sharedMem,
			       stream);
}

RT(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return fake_rt_end(graphExec ? (int)cuGraphLaunch(graphExec, stream) : FAKE_INVALID_VALUE);
}

RT(cudaGraphLaunch_ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH_RT, 0);
	return fake_rt_end(graphExec ? (int)cuGraphLaunch_ptsz(graphExec, stream)
				     : FAKE_INVALID_VALUE);
}

RT_PTSZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
	(stream, fn, userData))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	if (!fn)
		return fake_rt_end(cudaErrorInvalidValue);
	fn(userData);
	return fake_rt_end(cudaSuccess);
}

RT_PTSZ(cudaStreamAddCallback,
	(cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
	(stream, callback, userData, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	if (!callback || flags)
		return fake_rt_end(cudaErrorInvalidValue);
	callback(stream, cudaSuccess, userData);
	return fake_rt_end(cudaSuccess);
}
