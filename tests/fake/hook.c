/*
 * A library that is interposed (LD_PRELOAD), as those that share a GPU or limit its memory are:
 * each function passes the call on to the library behind it, cudaMalloc as managed memory, and
 * cudaMemcpy in two halves.
 */
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#define NEXT(name) ((__typeof__(&name))next_function(#name))

static void *next_function(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static volatile size_t given_bytes; /* so that not all pass calls on by a jump */

struct three {
	unsigned x, y, z;
};

int cudaMallocManaged(void **ptr, size_t size, unsigned flags);

EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			  unsigned bz, unsigned shared_bytes, void *stream, void **params,
			  void **extra)
{
	return NEXT(cuLaunchKernel)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}

EXPORT int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes)
{
	int r = NEXT(cuMemAlloc_v2)(ptr, bytes);

	given_bytes += r ? 0 : bytes;
	return r;
}

EXPORT int cuMemFree_v2(unsigned long long ptr)
{
	return NEXT(cuMemFree_v2)(ptr);
}

EXPORT int cuCtxSynchronize(void)
{
	return NEXT(cuCtxSynchronize)();
}

EXPORT int cudaLaunchKernel(const void *func, struct three grid, struct three block, void **args,
			    size_t shared_bytes, void *stream)
{
	return NEXT(cudaLaunchKernel)(func, grid, block, args, shared_bytes, stream);
}

EXPORT int cudaMalloc(void **ptr, size_t size)
{
	return NEXT(cudaMallocManaged)(ptr, size, 1);
}

EXPORT int cudaMemcpy(char *to, const char *from, size_t bytes, int kind)
{
	int r = NEXT(cudaMemcpy)(to, from, bytes / 2, kind);

	return r ? r : NEXT(cudaMemcpy)(to + bytes / 2, from + bytes / 2, bytes - bytes / 2, kind);
}

EXPORT int cudaGetDevice(int *device)
{
	return NEXT(cudaGetDevice)(device);
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm,
			 void *stream)
{
	int r = NEXT(ncclAllReduce)(from, to, n, type, op, comm, stream);

	given_bytes += 0;
	return r;
}

EXPORT int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream)
{
	return NEXT(ncclSend)(from, n, type, peer, comm, stream);
}

EXPORT int ncclGroupStart(void)
{
	return NEXT(ncclGroupStart)();
}

EXPORT int ncclGroupEnd(void)
{
	return NEXT(ncclGroupEnd)();
}
