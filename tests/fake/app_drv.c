/* fake_app: the calls of the driver. */
#include "app.h"

#define APP_LIBRARY LIB_DRV

static void see_launch(struct seen *s, const void *f, unsigned i, unsigned bx,
		       uint32_t shared_bytes, const void *stream)
{
	s->arg[0] = (uint64_t)f;
	s->arg[1] = (i + 1) | 5ull << 32;
	s->arg[2] = 4 | (uint64_t)bx << 32;
	s->arg[3] = 2 | 3ull << 32;
	s->aux = shared_bytes;
	s->stream = (uint64_t)stream;
}

CALL_TWIN(cuLaunchKernel, _ptsz)
{
	unsigned bx = w->bad ? 2048 : 64;
	void *params[1] = {&i};

	see_launch(s, handle_of(19), i, bx, 1024 + i, handle_of(i));
	return DO(cuLaunchKernel)((CUfunction)handle_of(19), i + 1, 5, 4, bx, 2, 3, 1024 + i,
				  handle_of(i), params, NULL);
}

CALL_TWIN(cuLaunchCooperativeKernel, _ptsz)
{
	unsigned bx = w->bad ? 2048 : 64;
	void *params[1] = {&i};

	see_launch(s, handle_of(18), i, bx, 2048 + i, handle_of(i));
	return DO(cuLaunchCooperativeKernel)((CUfunction)handle_of(18), i + 1, 5, 4, bx, 2, 3,
					     2048 + i, handle_of(i), params);
}

CALL_TWIN(cuLaunchKernelEx, _ptsz)
{
	unsigned bx = w->bad ? 2048 : 64;
	CUlaunchConfig config = {i + 1, 5, 4, bx, 2, 3, 4096 + i, handle_of(i), NULL, 0};
	void *params[1] = {&i};

	see_launch(s, handle_of(17), i, bx, 4096 + i, handle_of(i));
	return DO(cuLaunchKernelEx)(&config, (CUfunction)handle_of(17), params, NULL);
}

CALL(cuLaunchCooperativeKernelMultiDevice)
{
	static CUDA_LAUNCH_PARAMS list[2] = {
		{(CUfunction)&list[0], 1, 1, 1, 32, 1, 1, 0, NULL, NULL},
		{(CUfunction)&list[1], 1, 1, 1, 32, 1, 1, 0, NULL, NULL},
	};

	s->arg[0] = (uint64_t)list;
	s->arg[1] = w->bad ? 0 : 2;
	s->aux = 1;
	return DO(cuLaunchCooperativeKernelMultiDevice)(list, w->bad ? 0 : 2, 1);
}

CALL_TWIN(cuGraphLaunch, _ptsz)
{
	CUgraphExec exec = w->bad ? NULL : handle_of(5);

	s->arg[0] = (uint64_t)exec;
	s->stream = (uint64_t)handle_of(i);
	return DO(cuGraphLaunch)(exec, handle_of(i));
}

CALL_TWIN(cuLaunchHostFunc, _ptsz)
{
	CUhostFn fn = w->bad ? NULL : app_host_function;

	s->stream = (uint64_t)handle_of(i);
	s->arg[0] = (uint64_t)fn;
	return DO(cuLaunchHostFunc)(handle_of(i), fn, w);
}

static void on_stream(CUstream stream, CUresult status, void *worker)
{
	app_host_function(worker);
}

CALL_TWIN(cuStreamAddCallback, _ptsz)
{
	CUstreamCallback fn = w->bad ? NULL : on_stream;

	s->stream = (uint64_t)handle_of(i);
	s->arg[0] = (uint64_t)fn;
	return DO(cuStreamAddCallback)(handle_of(i), fn, w, 0);
}

/* --- allocations --- */

static uint64_t size_of(const struct worker *w, unsigned i)
{
	return w->bad ? TOO_MUCH : 4096 + i;
}

CALL(cuMemAlloc)
{
	/* What lies behind the 32 bits must not be read with them. */
	CUdeviceptr_v1 p[2] = {0, 0xffffffff};

	s->bytes = w->bad ? 0 : 4096 + i;
	return PUT(w, DRV_DEVICE32, DO(cuMemAlloc)(p, (unsigned int)s->bytes), s, p[0]);
}

CALL(cuMemAlloc_v2)
{
	CUdeviceptr p = 0;

	s->bytes = size_of(w, i);
	return PUT(w, DRV_DEVICE, DO(cuMemAlloc_v2)(&p, s->bytes), s, p);
}

CALL(cuMemAllocPitch_v2)
{
	CUdeviceptr p = 0;
	size_t pitch = 0, width = 700 + i;
	int r = DO(cuMemAllocPitch_v2)(&p, &pitch, width, 3, w->bad ? 5 : 8);

	s->bytes = pitch * 3;
	s->aux = w->bad ? 5 : 8;
	s->arg[1] = width;
	return app_put(w, DRV_DEVICE, r, s, p);
}

CALL(cuMemAllocManaged)
{
	CUdeviceptr p = 0;

	s->bytes = size_of(w, i);
	s->aux = 2;
	return PUT(w, DRV_DEVICE, DO(cuMemAllocManaged)(&p, s->bytes, 2), s, p);
}

CALL(cuMemAllocHost)
{
	void *p = NULL;

	s->bytes = w->bad ? 0 : 4096 + i;
	return PUT(w, DRV_HOST, DO(cuMemAllocHost)(&p, (unsigned int)s->bytes), s, (uint64_t)p);
}

CALL(cuMemAllocHost_v2)
{
	void *p = NULL;

	s->bytes = w->bad ? 0 : 5000 + i;
	return PUT(w, DRV_HOST, DO(cuMemAllocHost_v2)(&p, s->bytes), s, (uint64_t)p);
}

CALL(cuMemHostAlloc)
{
	void *p = NULL;

	s->bytes = 6000 + i;
	s->aux = w->bad ? 99 : 4;
	return PUT(w, DRV_HOST, DO(cuMemHostAlloc)(&p, s->bytes, s->aux), s, (uint64_t)p);
}

CALL(cuMemHostRegister_v2)
{
	void *p = w->bad ? NULL : host_ptr(i);
	int r = DO(cuMemHostRegister_v2)(p, 7000 + i, 1);

	s->bytes = 7000 + i;
	s->aux = 1;
	s->arg[0] = (uint64_t)p;
	return app_put(w, DRV_REGISTERED, r, s, (uint64_t)p);
}

CALL_TWIN(cuMemAllocAsync, _ptsz)
{
	CUdeviceptr p = 0;
	int r = DO(cuMemAllocAsync)(&p, size_of(w, i), handle_of(i));

	s->bytes = size_of(w, i);
	s->stream = (uint64_t)handle_of(i);
	return app_put(w, DRV_DEVICE, r, s, p);
}

CALL_TWIN(cuMemAllocFromPoolAsync, _ptsz)
{
	CUdeviceptr p = 0;
	int r = DO(cuMemAllocFromPoolAsync)(&p, size_of(w, i), handle_of(78), handle_of(i));

	s->bytes = size_of(w, i);
	s->stream = (uint64_t)handle_of(i);
	s->arg[1] = (uint64_t)handle_of(78);
	return app_put(w, DRV_DEVICE, r, s, p);
}

#define GRANULE (2ull << 20)

CALL(cuMemCreate)
{
	static const CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
	CUmemGenericAllocationHandle handle = 0;
	uint64_t bytes = w->bad ? 12345 : GRANULE * (i % 5 + 1);
	int r = DO(cuMemCreate)(&handle, bytes, &prop, 0);

	s->bytes = bytes;
	s->arg[1] = (uint64_t)&prop;
	return app_put(w, DRV_PHYSICAL, r, s, handle);
}

CALL(cuMemAddressReserve)
{
	CUdeviceptr p = 0;
	uint64_t bytes = w->bad ? 12345 : GRANULE * (i % 3 + 1);

	s->bytes = bytes;
	return PUT(w, DRV_RANGE, DO(cuMemAddressReserve)(&p, bytes, 0, 0, 0), s, p);
}

CALL(cuMemMap)
{
	CUmemGenericAllocationHandle handle = w->bad ? 0 : (uint64_t)handle_of(i);

	s->bytes = GRANULE;
	s->arg[0] = (uint64_t)device_ptr(i);
	s->arg[1] = handle;
	return DO(cuMemMap)((CUdeviceptr)device_ptr(i), GRANULE, 0, handle, 0);
}

CALL(cuMemRetainAllocationHandle)
{
	CUmemGenericAllocationHandle handle = 0;
	void *address = w->bad ? NULL : device_ptr(i);
	int r = DO(cuMemRetainAllocationHandle)(&handle, address);

	s->arg[0] = handle;
	s->arg[1] = (uint64_t)address;
	return r;
}

CALL(cuMemSetAccess)
{
	static const CUmemAccessDesc desc = {{1, 0}, 3};

	s->bytes = GRANULE;
	s->arg[0] = (uint64_t)device_ptr(i);
	return DO(cuMemSetAccess)((CUdeviceptr)device_ptr(i), GRANULE, w->bad ? NULL : &desc, 1);
}

CALL(cuMemUnmap)
{
	s->bytes = GRANULE;
	s->arg[0] = w->bad ? 0 : (uint64_t)device_ptr(i);
	return DO(cuMemUnmap)(s->arg[0], GRANULE);
}

static uint64_t to_free(struct worker *w, enum pool_id id, struct seen *s)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, id);
	return s->arg[0];
}

CALL(cuMemAddressFree)
{
	s->bytes = GRANULE;
	return DO(cuMemAddressFree)(to_free(w, DRV_RANGE, s), GRANULE);
}

CALL(cuMemRelease)
{
	return DO(cuMemRelease)(to_free(w, DRV_PHYSICAL, s));
}

CALL(cuMemFree)
{
	return DO(cuMemFree)((CUdeviceptr_v1)to_free(w, DRV_DEVICE32, s));
}

CALL(cuMemFree_v2)
{
	return DO(cuMemFree_v2)(to_free(w, DRV_DEVICE, s));
}

CALL(cuMemFreeHost)
{
	return DO(cuMemFreeHost)((void *)to_free(w, DRV_HOST, s));
}

CALL(cuMemHostUnregister)
{
	return DO(cuMemHostUnregister)((void *)to_free(w, DRV_REGISTERED, s));
}

CALL_TWIN(cuMemFreeAsync, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	return DO(cuMemFreeAsync)(to_free(w, DRV_DEVICE, s), handle_of(i));
}

/* --- copies --- */

enum { H2D = 1, D2H = 2, D2D = 3, ANY = 4, PEER = 5 }; /* enum gs_copy_kind */

static CUdeviceptr see_copy(const struct worker *w, struct seen *s, uint64_t bytes, unsigned kind,
			    const void *dst, const void *src, const void *stream)
{
	s->bytes = bytes;
	s->aux = kind;
	s->arg[0] = w->bad ? 0 : (uint64_t)dst;
	s->arg[1] = (uint64_t)src;
	s->stream = (uint64_t)stream;
	return s->arg[0];
}

#define DEV(i) ((CUdeviceptr)device_ptr(i))

CALL_TWIN(cuMemcpy, _ptds)
{
	return DO(cuMemcpy)(see_copy(w, s, 100 + i, ANY, device_ptr(i), host_ptr(i), NULL),
			    (CUdeviceptr)host_ptr(i), 100 + i);
}

CALL_TWIN(cuMemcpyAsync, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemcpyAsync)(see_copy(w, s, 200 + i, ANY, device_ptr(i), host_ptr(i), st),
				 (CUdeviceptr)host_ptr(i), 200 + i, st);
}

CALL_TWIN(cuMemcpyPeer, _ptds)
{
	return DO(cuMemcpyPeer)(
		see_copy(w, s, 300 + i, PEER, device_ptr(i), device_ptr(i + 1), NULL), handle_of(1),
		DEV(i + 1), handle_of(2), 300 + i);
}

CALL_TWIN(cuMemcpyPeerAsync, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemcpyPeerAsync)(
		see_copy(w, s, 400 + i, PEER, device_ptr(i), device_ptr(i + 1), st), handle_of(1),
		DEV(i + 1), handle_of(2), 400 + i, st);
}

CALL_TWIN(cuMemcpyHtoD_v2, _ptds)
{
	return DO(cuMemcpyHtoD_v2)(see_copy(w, s, 500 + i, H2D, device_ptr(i), host_ptr(i), NULL),
				   host_ptr(i), 500 + i);
}

CALL_TWIN(cuMemcpyHtoDAsync_v2, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemcpyHtoDAsync_v2)(
		see_copy(w, s, 600 + i, H2D, device_ptr(i), host_ptr(i), st), host_ptr(i), 600 + i,
		st);
}

CALL_TWIN(cuMemcpyDtoH_v2, _ptds)
{
	see_copy(w, s, 700 + i, D2H, host_ptr(i), device_ptr(i), NULL);
	return DO(cuMemcpyDtoH_v2)((void *)s->arg[0], DEV(i), 700 + i);
}

CALL_TWIN(cuMemcpyDtoHAsync_v2, _ptsz)
{
	see_copy(w, s, 800 + i, D2H, host_ptr(i), device_ptr(i), handle_of(i));
	return DO(cuMemcpyDtoHAsync_v2)((void *)s->arg[0], DEV(i), 800 + i, handle_of(i));
}

CALL_TWIN(cuMemcpyDtoD_v2, _ptds)
{
	return DO(cuMemcpyDtoD_v2)(
		see_copy(w, s, 900 + i, D2D, device_ptr(i), device_ptr(i + 1), NULL), DEV(i + 1),
		900 + i);
}

CALL_TWIN(cuMemcpyDtoDAsync_v2, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemcpyDtoDAsync_v2)(
		see_copy(w, s, 1100 + i, D2D, device_ptr(i), device_ptr(i + 1), st), DEV(i + 1),
		1100 + i, st);
}

/* Up, down and across in turn. */
static CUDA_MEMCPY2D rows_of(const struct worker *w, unsigned i, const void *stream, struct seen *s)
{
	static const unsigned kinds[3] = {H2D, D2H, D2D};
	unsigned kind = kinds[i % 3];
	CUDA_MEMCPY2D p = {
		.srcXInBytes = 1,
		.srcY = 2,
		.srcMemoryType = kind == H2D ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcPitch = 4096,
		.dstMemoryType = kind == D2H ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstPitch = 8192,
		.WidthInBytes = 40 + i,
		.Height = 17,
	};
	void *src = kind == H2D ? host_ptr(i) : device_ptr(i + 1);
	void *dst = kind == D2H ? host_ptr(i) : device_ptr(i);

	see_copy(w, s, (40 + i) * 17, kind, dst, src, stream);
	if (kind == H2D)
		p.srcHost = src;
	else
		p.srcDevice = (CUdeviceptr)src;
	if (kind == D2H)
		p.dstHost = (void *)s->arg[0];
	else
		p.dstDevice = s->arg[0];
	return p;
}

CALL_TWIN(cuMemcpy2D_v2, _ptds)
{
	CUDA_MEMCPY2D p = rows_of(w, i, NULL, s);

	return DO(cuMemcpy2D_v2)(&p);
}

CALL_TWIN(cuMemcpy2DUnaligned_v2, _ptds)
{
	CUDA_MEMCPY2D p = rows_of(w, i, NULL, s);

	return DO(cuMemcpy2DUnaligned_v2)(&p);
}

CALL_TWIN(cuMemcpy2DAsync_v2, _ptsz)
{
	CUDA_MEMCPY2D p = rows_of(w, i, handle_of(i), s);

	return DO(cuMemcpy2DAsync_v2)(&p, handle_of(i));
}

static CUDA_MEMCPY3D box_of(const struct worker *w, unsigned i, const void *stream, struct seen *s)
{
	CUDA_MEMCPY3D p = {
		.srcZ = 3,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host_ptr(i),
		.srcPitch = 4096,
		.srcHeight = 9,
		.dstZ = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 8192,
		.WidthInBytes = 30 + i,
		.Height = 5,
		.Depth = 7,
	};

	p.dstDevice = see_copy(w, s, (30 + i) * 35, H2D, device_ptr(i), host_ptr(i), stream);
	return p;
}

CALL_TWIN(cuMemcpy3D_v2, _ptds)
{
	CUDA_MEMCPY3D p = box_of(w, i, NULL, s);

	return DO(cuMemcpy3D_v2)(&p);
}

CALL_TWIN(cuMemcpy3DAsync_v2, _ptsz)
{
	CUDA_MEMCPY3D p = box_of(w, i, handle_of(i), s);

	return DO(cuMemcpy3DAsync_v2)(&p, handle_of(i));
}

/* --- memsets --- */

static CUdeviceptr to_fill(const struct worker *w, unsigned i, uint64_t bytes, uint32_t value,
			   const void *stream, struct seen *s)
{
	s->bytes = bytes;
	s->aux = value;
	s->arg[0] = w->bad ? 0 : DEV(i);
	s->stream = (uint64_t)stream;
	return s->arg[0];
}

CALL_TWIN(cuMemsetD8_v2, _ptds)
{
	return DO(cuMemsetD8_v2)(to_fill(w, i, 64 + i, 0x11, NULL, s), 0x11, 64 + i);
}

CALL_TWIN(cuMemsetD16_v2, _ptds)
{
	return DO(cuMemsetD16_v2)(to_fill(w, i, (64 + i) * 2, 0x1234, NULL, s), 0x1234, 64 + i);
}

CALL_TWIN(cuMemsetD32_v2, _ptds)
{
	return DO(cuMemsetD32_v2)(to_fill(w, i, (64 + i) * 4, 0x12345678, NULL, s), 0x12345678,
				  64 + i);
}

CALL_TWIN(cuMemsetD2D8_v2, _ptds)
{
	return DO(cuMemsetD2D8_v2)(to_fill(w, i, (24 + i) * 3, 0x12, NULL, s), 4096, 0x12, 24 + i,
				   3);
}

CALL_TWIN(cuMemsetD2D16_v2, _ptds)
{
	return DO(cuMemsetD2D16_v2)(to_fill(w, i, (24 + i) * 6, 0x2345, NULL, s), 4096, 0x2345,
				    24 + i, 3);
}

CALL_TWIN(cuMemsetD2D32_v2, _ptds)
{
	return DO(cuMemsetD2D32_v2)(to_fill(w, i, (24 + i) * 12, 0x23456789, NULL, s), 4096,
				    0x23456789, 24 + i, 3);
}

CALL_TWIN(cuMemsetD8Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD8Async)(to_fill(w, i, 72 + i, 0x13, st, s), 0x13, 72 + i, st);
}

CALL_TWIN(cuMemsetD16Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD16Async)(to_fill(w, i, (72 + i) * 2, 0x3456, st, s), 0x3456, 72 + i, st);
}

CALL_TWIN(cuMemsetD32Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD32Async)(to_fill(w, i, (72 + i) * 4, 0x3456789a, st, s), 0x3456789a,
				    72 + i, st);
}

CALL_TWIN(cuMemsetD2D8Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD2D8Async)(to_fill(w, i, (28 + i) * 3, 0x14, st, s), 4096, 0x14, 28 + i,
				     3, st);
}

CALL_TWIN(cuMemsetD2D16Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD2D16Async)(to_fill(w, i, (28 + i) * 6, 0x4567, st, s), 4096, 0x4567,
				      28 + i, 3, st);
}

CALL_TWIN(cuMemsetD2D32Async, _ptsz)
{
	void *st = handle_of(i);

	return DO(cuMemsetD2D32Async)(to_fill(w, i, (28 + i) * 12, 0x456789ab, st, s), 4096,
				      0x456789ab, 28 + i, 3, st);
}
