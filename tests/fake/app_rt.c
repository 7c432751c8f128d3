/* fake_app: the calls of the runtime. */
#include "app.h"

#define APP_LIBRARY LIB_RT

static dim3 grid_of(unsigned i)
{
	return (dim3){i + 1, 3, 2};
}

static dim3 block_of(const struct worker *w, unsigned i)
{
	return (dim3){w->bad ? 2048 : 32, i % 4 + 1, 2};
}

static void see_launch(struct seen *s, const void *func, dim3 g, dim3 b, uint32_t shared_bytes,
		       const void *stream)
{
	s->arg[0] = (uint64_t)func;
	s->arg[1] = g.x | (uint64_t)g.y << 32;
	s->arg[2] = g.z | (uint64_t)b.x << 32;
	s->arg[3] = b.y | (uint64_t)b.z << 32;
	s->aux = shared_bytes;
	s->stream = (uint64_t)stream;
}

CALL_DOWN(cudaLaunchKernel, cuLaunchKernel)
{
	void *params[1] = {&i};

	see_launch(s, handle_of(9), grid_of(i), block_of(w, i), 256 + i, handle_of(i));
	return DO(cudaLaunchKernel)(handle_of(9), grid_of(i), block_of(w, i), params, 256 + i,
				    handle_of(i));
}

CALL_DOWN(__cudaLaunchKernel, cuLaunchKernel)
{
	void *params[1] = {&i};

	see_launch(s, handle_of(8), grid_of(i), block_of(w, i), 128 + i, handle_of(i));
	return DO(__cudaLaunchKernel)(handle_of(8), grid_of(i), block_of(w, i), params, 128 + i,
				      handle_of(i));
}

CALL_DOWN(cudaLaunchCooperativeKernel, cuLaunchKernelEx)
{
	void *params[1] = {&i};

	see_launch(s, handle_of(7), grid_of(i), block_of(w, i), 512 + i, handle_of(i));
	return DO(cudaLaunchCooperativeKernel)(handle_of(7), grid_of(i), block_of(w, i), params,
					       512 + i, handle_of(i));
}

CALL_DOWN(cudaLaunchKernelExC, cuLaunchKernelEx)
{
	void *params[1] = {&i};
	cudaLaunchConfig_t config = {grid_of(i), block_of(w, i), 768 + i, handle_of(i), NULL, 0};

	see_launch(s, handle_of(6), config.gridDim, config.blockDim, 768 + i, config.stream);
	return DO(cudaLaunchKernelExC)(&config, handle_of(6), params);
}

CALL_DOWN(cudaGraphLaunch, cuGraphLaunch)
{
	cudaGraphExec_t exec = w->bad ? NULL : handle_of(5);

	s->arg[0] = (uint64_t)exec;
	s->stream = (uint64_t)handle_of(i);
	return DO(cudaGraphLaunch)(exec, handle_of(i));
}

CALL_TWIN(cudaLaunchHostFunc, _ptsz)
{
	cudaHostFn_t fn = w->bad ? NULL : app_host_function;

	s->stream = (uint64_t)handle_of(i);
	s->arg[0] = (uint64_t)fn;
	return DO(cudaLaunchHostFunc)(handle_of(i), fn, w);
}

static void on_stream(cudaStream_t stream, cudaError_t status, void *worker)
{
	app_host_function(worker);
}

CALL_TWIN(cudaStreamAddCallback, _ptsz)
{
	cudaStreamCallback_t fn = w->bad ? NULL : on_stream;

	s->stream = (uint64_t)handle_of(i);
	s->arg[0] = (uint64_t)fn;
	return DO(cudaStreamAddCallback)(handle_of(i), fn, w, 0);
}

/* --- allocations --- */

static uint64_t size_of(const struct worker *w, unsigned i)
{
	return w->bad ? TOO_MUCH : 4096 + i;
}

CALL(cudaMalloc)
{
	void *p = NULL;

	s->bytes = size_of(w, i);
	return PUT(w, RT_DEVICE, DO(cudaMalloc)(&p, s->bytes), s, (uint64_t)p);
}

CALL_TWIN(cudaMallocAsync, _ptsz)
{
	void *p = NULL;
	int r = DO(cudaMallocAsync)(&p, size_of(w, i), handle_of(i));

	s->bytes = size_of(w, i);
	s->stream = (uint64_t)handle_of(i);
	return app_put(w, RT_DEVICE, r, s, (uint64_t)p);
}

CALL_TWIN(cudaMallocFromPoolAsync, _ptsz)
{
	void *p = NULL;
	int r = DO(cudaMallocFromPoolAsync)(&p, size_of(w, i), handle_of(77), handle_of(i));

	s->bytes = size_of(w, i);
	s->stream = (uint64_t)handle_of(i);
	s->arg[1] = (uint64_t)handle_of(77);
	return app_put(w, RT_DEVICE, r, s, (uint64_t)p);
}

CALL(cudaMallocManaged)
{
	void *p = NULL;

	s->bytes = size_of(w, i);
	s->aux = 1;
	return PUT(w, RT_DEVICE, DO(cudaMallocManaged)(&p, s->bytes, 1), s, (uint64_t)p);
}

/* Host memory has no limit here: the failures are of other kinds. */
CALL(cudaMallocHost)
{
	void *p = NULL;

	s->bytes = 4096 + i;
	return PUT(w, RT_HOST, DO(cudaMallocHost)(w->bad ? NULL : &p, s->bytes), s, (uint64_t)p);
}

CALL(cudaHostAlloc)
{
	void *p = NULL;

	s->bytes = 8192 + i;
	s->aux = w->bad ? 99 : 2;
	return PUT(w, RT_HOST, DO(cudaHostAlloc)(&p, s->bytes, s->aux), s, (uint64_t)p);
}

CALL(cudaHostRegister)
{
	void *p = w->bad ? NULL : host_ptr(i);
	int r = DO(cudaHostRegister)(p, 12288 + i, 1);

	s->bytes = 12288 + i;
	s->aux = 1;
	s->arg[0] = (uint64_t)p;
	return app_put(w, RT_REGISTERED, r, s, (uint64_t)p);
}

CALL(cudaMallocPitch)
{
	size_t pitch = 0, width = 700 + i, height = w->bad ? TOO_MUCH : 3;
	void *p = NULL;
	int r = DO(cudaMallocPitch)(&p, &pitch, width, height);

	s->bytes = pitch * 3;
	s->arg[1] = width;
	return app_put(w, RT_DEVICE, r, s, (uint64_t)p);
}

CALL(cudaMalloc3D)
{
	struct cudaPitchedPtr p = {0};
	struct cudaExtent extent = {700 + i, 3, w->bad ? TOO_MUCH / 1024 : 5};
	int r = DO(cudaMalloc3D)(&p, extent);

	s->bytes = p.pitch * 15;
	s->arg[1] = extent.width;
	return app_put(w, RT_DEVICE, r, s, (uint64_t)p.ptr);
}

CALL(cudaMallocArray)
{
	static const struct cudaChannelFormatDesc half4 = {16, 16, 16, 16,
							   cudaChannelFormatKindFloat};
	cudaArray_t array = NULL;
	size_t width = w->bad ? TOO_MUCH / 8 : 100 + i;
	int r = DO(cudaMallocArray)(&array, &half4, width, 7, 0);

	s->bytes = width * 7 * 8;
	s->arg[1] = (uint64_t)&half4;
	return app_put(w, RT_ARRAY, r, s, (uint64_t)array);
}

static uint64_t to_free(struct worker *w, enum pool_id id, struct seen *s)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, id);
	return s->arg[0];
}

CALL(cudaFree)
{
	return DO(cudaFree)((void *)to_free(w, RT_DEVICE, s));
}

CALL_TWIN(cudaFreeAsync, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	return DO(cudaFreeAsync)((void *)to_free(w, RT_DEVICE, s), handle_of(i));
}

CALL(cudaFreeHost)
{
	return DO(cudaFreeHost)((void *)to_free(w, RT_HOST, s));
}

CALL(cudaHostUnregister)
{
	return DO(cudaHostUnregister)((void *)to_free(w, RT_REGISTERED, s));
}

CALL(cudaFreeArray)
{
	return DO(cudaFreeArray)((void *)to_free(w, RT_ARRAY, s));
}

/* --- copies --- */

/* Every direction in turn; one that does not exist when the copy is to fail. */
static enum cudaMemcpyKind kind_of(const struct worker *w, unsigned i)
{
	return (enum cudaMemcpyKind)(w->bad ? 9 : i % 5);
}

static void see_copy(struct seen *s, uint64_t bytes, unsigned kind, const void *dst,
		     const void *src, const void *stream)
{
	s->bytes = bytes;
	s->aux = kind;
	s->arg[0] = (uint64_t)dst;
	s->arg[1] = (uint64_t)src;
	s->stream = (uint64_t)stream;
}

CALL_TWIN(cudaMemcpy, _ptds)
{
	see_copy(s, 1000 + i, kind_of(w, i), device_ptr(i), host_ptr(i), NULL);
	return DO(cudaMemcpy)(device_ptr(i), host_ptr(i), 1000 + i, kind_of(w, i));
}

CALL_TWIN(cudaMemcpyAsync, _ptsz)
{
	see_copy(s, 2000 + i, kind_of(w, i), device_ptr(i), host_ptr(i), handle_of(i));
	return DO(cudaMemcpyAsync)(device_ptr(i), host_ptr(i), 2000 + i, kind_of(w, i),
				   handle_of(i));
}

#define COPY_PEER 5 /* enum gs_copy_kind */

CALL(cudaMemcpyPeer)
{
	void *dst = w->bad ? NULL : device_ptr(i);

	see_copy(s, 3000 + i, COPY_PEER, dst, device_ptr(i + 1), NULL);
	return DO(cudaMemcpyPeer)(dst, 1, device_ptr(i + 1), 0, 3000 + i);
}

CALL(cudaMemcpyPeerAsync)
{
	void *dst = w->bad ? NULL : device_ptr(i);

	see_copy(s, 4000 + i, COPY_PEER, dst, device_ptr(i + 1), handle_of(i));
	return DO(cudaMemcpyPeerAsync)(dst, 1, device_ptr(i + 1), 0, 4000 + i, handle_of(i));
}

CALL_TWIN(cudaMemcpy2D, _ptds)
{
	size_t width = 100 + i;

	see_copy(s, width * 7, kind_of(w, i), device_ptr(i), host_ptr(i), NULL);
	return DO(cudaMemcpy2D)(device_ptr(i), width + 1, host_ptr(i), width + 2, width, 7,
				kind_of(w, i));
}

CALL_TWIN(cudaMemcpy2DAsync, _ptsz)
{
	size_t width = 200 + i;

	see_copy(s, width * 11, kind_of(w, i), device_ptr(i), host_ptr(i), handle_of(i));
	return DO(cudaMemcpy2DAsync)(device_ptr(i), width + 1, host_ptr(i), width + 2, width, 11,
				     kind_of(w, i), handle_of(i));
}

static struct cudaMemcpy3DParms box_of(const struct worker *w, unsigned i)
{
	return (struct cudaMemcpy3DParms){
		.srcPos = {1, 2, 3},
		.srcPtr = {host_ptr(i), 512, 100, 5},
		.dstPos = {4, 5, 6},
		.dstPtr = {device_ptr(i), 1024, 100, 5},
		.extent = {50 + i, 5, 3},
		.kind = kind_of(w, i),
	};
}

CALL_TWIN(cudaMemcpy3D, _ptds)
{
	struct cudaMemcpy3DParms p = box_of(w, i);

	see_copy(s, (50 + i) * 15, p.kind, p.dstPtr.ptr, p.srcPtr.ptr, NULL);
	return DO(cudaMemcpy3D)(&p);
}

CALL_TWIN(cudaMemcpy3DAsync, _ptsz)
{
	struct cudaMemcpy3DParms p = box_of(w, i);

	see_copy(s, (50 + i) * 15, p.kind, p.dstPtr.ptr, p.srcPtr.ptr, handle_of(i));
	return DO(cudaMemcpy3DAsync)(&p, handle_of(i));
}

CALL_TWIN(cudaMemcpyToSymbol, _ptds)
{
	see_copy(s, 300 + i, kind_of(w, i), device_ptr(i), host_ptr(i), NULL);
	return DO(cudaMemcpyToSymbol)(device_ptr(i), host_ptr(i), 300 + i, 16, kind_of(w, i));
}

CALL_TWIN(cudaMemcpyToSymbolAsync, _ptsz)
{
	see_copy(s, 400 + i, kind_of(w, i), device_ptr(i), host_ptr(i), handle_of(i));
	return DO(cudaMemcpyToSymbolAsync)(device_ptr(i), host_ptr(i), 400 + i, 16, kind_of(w, i),
					   handle_of(i));
}

CALL_TWIN(cudaMemcpyFromSymbol, _ptds)
{
	see_copy(s, 500 + i, kind_of(w, i), host_ptr(i), device_ptr(i), NULL);
	return DO(cudaMemcpyFromSymbol)(host_ptr(i), device_ptr(i), 500 + i, 16, kind_of(w, i));
}

CALL_TWIN(cudaMemcpyFromSymbolAsync, _ptsz)
{
	see_copy(s, 600 + i, kind_of(w, i), host_ptr(i), device_ptr(i), handle_of(i));
	return DO(cudaMemcpyFromSymbolAsync)(host_ptr(i), device_ptr(i), 600 + i, 16, kind_of(w, i),
					     handle_of(i));
}

CALL_TWIN(cudaMemcpy2DToArray, _ptds)
{
	see_copy(s, (60 + i) * 9, kind_of(w, i), handle_of(3), host_ptr(i), NULL);
	return DO(cudaMemcpy2DToArray)((cudaArray_t)handle_of(3), 1, 2, host_ptr(i), 4096 + i,
				       60 + i, 9, kind_of(w, i));
}

CALL_TWIN(cudaMemcpy2DToArrayAsync, _ptsz)
{
	see_copy(s, (70 + i) * 9, kind_of(w, i), handle_of(3), host_ptr(i), handle_of(i));
	return DO(cudaMemcpy2DToArrayAsync)((cudaArray_t)handle_of(3), 1, 2, host_ptr(i), 4096 + i,
					    70 + i, 9, kind_of(w, i), handle_of(i));
}

CALL_TWIN(cudaMemcpy2DFromArray, _ptds)
{
	see_copy(s, (80 + i) * 9, kind_of(w, i), host_ptr(i), handle_of(3), NULL);
	return DO(cudaMemcpy2DFromArray)(host_ptr(i), 4096 + i, (cudaArray_t)handle_of(3), 1, 2,
					 80 + i, 9, kind_of(w, i));
}

CALL_TWIN(cudaMemcpy2DFromArrayAsync, _ptsz)
{
	see_copy(s, (90 + i) * 9, kind_of(w, i), host_ptr(i), handle_of(3), handle_of(i));
	return DO(cudaMemcpy2DFromArrayAsync)(host_ptr(i), 4096 + i, (cudaArray_t)handle_of(3), 1,
					      2, 90 + i, 9, kind_of(w, i), handle_of(i));
}

/* --- memsets --- */

static void *to_fill(const struct worker *w, unsigned i, uint64_t bytes, int value,
		     const void *stream, struct seen *s)
{
	void *p = w->bad ? NULL : device_ptr(i);

	s->bytes = bytes;
	s->aux = (uint32_t)value;
	s->arg[0] = (uint64_t)p;
	s->stream = (uint64_t)stream;
	return p;
}

CALL_TWIN(cudaMemset, _ptds)
{
	return DO(cudaMemset)(to_fill(w, i, 640 + i, 17, NULL, s), 17, 640 + i);
}

CALL_TWIN(cudaMemsetAsync, _ptsz)
{
	return DO(cudaMemsetAsync)(to_fill(w, i, 650 + i, 18, handle_of(i), s), 18, 650 + i,
				   handle_of(i));
}

CALL_TWIN(cudaMemset2D, _ptds)
{
	return DO(cudaMemset2D)(to_fill(w, i, (66 + i) * 13, 19, NULL, s), 4096 + i, 19, 66 + i,
				13);
}

CALL_TWIN(cudaMemset2DAsync, _ptsz)
{
	return DO(cudaMemset2DAsync)(to_fill(w, i, (67 + i) * 13, 20, handle_of(i), s), 4096 + i,
				     20, 67 + i, 13, handle_of(i));
}

CALL_TWIN(cudaMemset3D, _ptds)
{
	struct cudaExtent extent = {20 + i, 3, 5};
	struct cudaPitchedPtr p = {to_fill(w, i, (20 + i) * 15, 21, NULL, s), 4096 + i, 20 + i, 3};

	return DO(cudaMemset3D)(p, 21, extent);
}

CALL_TWIN(cudaMemset3DAsync, _ptsz)
{
	struct cudaExtent extent = {30 + i, 3, 5};
	struct cudaPitchedPtr p = {to_fill(w, i, (30 + i) * 15, 22, handle_of(i), s), 4096 + i,
				   30 + i, 3};

	return DO(cudaMemset3DAsync)(p, 22, extent, handle_of(i));
}
