/*
 * fake_app: the calls of the driver's first ABI, whose addresses and sizes are 32 bits wide, and
 * the launches from before cuLaunchKernel.
 *
 * The upper half of a register that passes an unsigned int belongs to nobody: compilers may leave
 * anything there. Two calls go through a type of 64 bits to make sure that something is.
 */
#include "app.h"

#define APP_LIBRARY LIB_DRV
#define GARBAGE     0x5a5a5a5a00000000ull

enum { H2D = 1, D2H = 2, D2D = 3 }; /* enum gs_copy_kind */

static CUdeviceptr_v1 dev32(unsigned i)
{
	return 0x70000000u + i * 0x1000u;
}

static CUarray array_of(unsigned i)
{
	return (CUarray)handle_of(9000 + i);
}

CALL(cuLaunch)
{
	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(16);
	return DO(cuLaunch)((CUfunction)s->arg[0]);
}

static CUfunction see_grid(const struct worker *w, unsigned i, const void *stream, struct seen *s)
{
	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(15);
	s->arg[1] = (i + 1) | 6ull << 32;
	s->arg[2] = 1;
	s->stream = (uint64_t)stream;
	return (CUfunction)s->arg[0];
}

CALL(cuLaunchGrid)
{
	return DO(cuLaunchGrid)(see_grid(w, i, NULL, s), (int)i + 1, 6);
}

CALL(cuLaunchGridAsync)
{
	return DO(cuLaunchGridAsync)(see_grid(w, i, handle_of(i), s), (int)i + 1, 6, handle_of(i));
}

CALL(cuMemHostRegister)
{
	void *p = w->bad ? NULL : host_ptr(i + 500);
	int r = DO(cuMemHostRegister)(p, 7100 + i, 1);

	s->bytes = 7100 + i;
	s->aux = 1;
	s->arg[0] = (uint64_t)p;
	return app_put(w, DRV_REGISTERED, r, s, (uint64_t)p);
}

CALL(cuMemAllocPitch)
{
	/* What lies behind the 32 bits must not be read with them. */
	CUdeviceptr_v1 p[2] = {0, 0xffffffff};
	unsigned int pitch[2] = {0, 0xffffffff}, width = 700 + i;
	int r = DO(cuMemAllocPitch)(p, pitch, width, 3, w->bad ? 5 : 8);

	s->bytes = (uint64_t)pitch[0] * 3;
	s->aux = w->bad ? 5 : 8;
	s->arg[1] = width;
	return app_put(w, DRV_DEVICE32, r, s, p[0]);
}

/* What fails has no destination. */
static void see_copy(const struct worker *w, struct seen *s, uint64_t bytes, unsigned kind,
		     uint64_t dst, uint64_t src, const void *stream)
{
	s->bytes = bytes;
	s->aux = kind;
	s->arg[0] = w->bad ? 0 : dst;
	s->arg[1] = src;
	s->stream = (uint64_t)stream;
}

#define DST32    ((CUdeviceptr_v1)s->arg[0])
#define DST_HOST ((void *)s->arg[0])
#define DST_ARR  ((CUarray)s->arg[0])
#define HOST(i)  ((uint64_t)host_ptr(i))
#define ARR(i)   ((uint64_t)array_of(i))

CALL(cuMemcpyHtoD)
{
	see_copy(w, s, 310 + i, H2D, dev32(i), HOST(i), NULL);
	return DO(cuMemcpyHtoD)(DST32, host_ptr(i), 310 + i);
}

CALL(cuMemcpyHtoDAsync)
{
	see_copy(w, s, 320 + i, H2D, dev32(i), HOST(i), handle_of(i));
	return DO(cuMemcpyHtoDAsync)(DST32, host_ptr(i), 320 + i, handle_of(i));
}

CALL(cuMemcpyDtoH)
{
	see_copy(w, s, 330 + i, D2H, HOST(i), dev32(i), NULL);
	return DO(cuMemcpyDtoH)(DST_HOST, dev32(i), 330 + i);
}

CALL(cuMemcpyDtoHAsync)
{
	see_copy(w, s, 340 + i, D2H, HOST(i), dev32(i), handle_of(i));
	return DO(cuMemcpyDtoHAsync)(DST_HOST, dev32(i), 340 + i, handle_of(i));
}

CALL(cuMemcpyDtoD)
{
	CUresult (*wide)(uint64_t, uint64_t, uint64_t) =
		(CUresult(*)(uint64_t, uint64_t, uint64_t))(void *)DO(cuMemcpyDtoD);

	see_copy(w, s, 350 + i, D2D, dev32(i), dev32(i + 1), NULL);
	return wide(GARBAGE | DST32, GARBAGE | dev32(i + 1), GARBAGE | (350 + i));
}

CALL(cuMemcpyDtoDAsync)
{
	see_copy(w, s, 360 + i, D2D, dev32(i), dev32(i + 1), handle_of(i));
	return DO(cuMemcpyDtoDAsync)(DST32, dev32(i + 1), 360 + i, handle_of(i));
}

CALL(cuMemcpyAtoH)
{
	see_copy(w, s, 370 + i, D2H, HOST(i), ARR(i), NULL);
	return DO(cuMemcpyAtoH)(DST_HOST, array_of(i), 64, 370 + i);
}

CALL(cuMemcpyAtoHAsync)
{
	see_copy(w, s, 380 + i, D2H, HOST(i), ARR(i), handle_of(i));
	return DO(cuMemcpyAtoHAsync)(DST_HOST, array_of(i), 64, 380 + i, handle_of(i));
}

CALL(cuMemcpyHtoA)
{
	see_copy(w, s, 390 + i, H2D, ARR(i), HOST(i), NULL);
	return DO(cuMemcpyHtoA)(DST_ARR, 64, host_ptr(i), 390 + i);
}

CALL(cuMemcpyHtoAAsync)
{
	see_copy(w, s, 410 + i, H2D, ARR(i), HOST(i), handle_of(i));
	return DO(cuMemcpyHtoAAsync)(DST_ARR, 64, host_ptr(i), 410 + i, handle_of(i));
}

CALL(cuMemcpyAtoD)
{
	see_copy(w, s, 420 + i, D2D, dev32(i), ARR(i), NULL);
	return DO(cuMemcpyAtoD)(DST32, array_of(i), 64, 420 + i);
}

CALL(cuMemcpyDtoA)
{
	see_copy(w, s, 430 + i, D2D, ARR(i), dev32(i), NULL);
	return DO(cuMemcpyDtoA)(DST_ARR, 64, dev32(i), 430 + i);
}

CALL(cuMemcpyAtoA)
{
	see_copy(w, s, 440 + i, D2D, ARR(i), ARR(i + 1), NULL);
	return DO(cuMemcpyAtoA)(DST_ARR, 64, array_of(i + 1), 32, 440 + i);
}

/* Up, down and across in turn. */
static CUDA_MEMCPY2D_v1 rows_of(const struct worker *w, unsigned i, const void *stream,
				struct seen *s)
{
	static const unsigned kinds[3] = {H2D, D2H, D2D};
	unsigned kind = kinds[i % 3];
	CUDA_MEMCPY2D_v1 p = {
		.srcXInBytes = 1,
		.srcY = 2,
		.srcMemoryType = kind == H2D ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcPitch = 4096,
		.dstMemoryType = kind == D2H ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstPitch = 8192,
		.WidthInBytes = 45 + i,
		.Height = 17,
	};

	see_copy(w, s, (45 + i) * 17, kind, kind == D2H ? HOST(i) : dev32(i),
		 kind == H2D ? HOST(i) : dev32(i + 1), stream);
	if (kind == H2D)
		p.srcHost = host_ptr(i);
	else
		p.srcDevice = dev32(i + 1);
	if (kind == D2H)
		p.dstHost = DST_HOST;
	else
		p.dstDevice = DST32;
	return p;
}

CALL(cuMemcpy2D)
{
	CUDA_MEMCPY2D_v1 p = rows_of(w, i, NULL, s);

	return DO(cuMemcpy2D)(&p);
}

CALL(cuMemcpy2DUnaligned)
{
	CUDA_MEMCPY2D_v1 p = rows_of(w, i, NULL, s);

	return DO(cuMemcpy2DUnaligned)(&p);
}

CALL(cuMemcpy2DAsync)
{
	CUDA_MEMCPY2D_v1 p = rows_of(w, i, handle_of(i), s);

	return DO(cuMemcpy2DAsync)(&p, handle_of(i));
}

/* From an array to the host. */
static CUDA_MEMCPY3D_v1 box_of(const struct worker *w, unsigned i, const void *stream,
			       struct seen *s)
{
	CUDA_MEMCPY3D_v1 p = {
		.srcZ = 3,
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array_of(i),
		.dstZ = 4,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstPitch = 8192,
		.WidthInBytes = 35 + i,
		.Height = 5,
		.Depth = 7,
	};

	see_copy(w, s, (35 + i) * 35, D2H, HOST(i), ARR(i), stream);
	p.dstHost = DST_HOST;
	return p;
}

CALL(cuMemcpy3D)
{
	CUDA_MEMCPY3D_v1 p = box_of(w, i, NULL, s);

	return DO(cuMemcpy3D)(&p);
}

CALL(cuMemcpy3DAsync)
{
	CUDA_MEMCPY3D_v1 p = box_of(w, i, handle_of(i), s);

	return DO(cuMemcpy3DAsync)(&p, handle_of(i));
}

static CUdeviceptr_v1 to_fill(const struct worker *w, unsigned i, uint64_t bytes, uint32_t value,
			      struct seen *s)
{
	s->bytes = bytes;
	s->aux = value;
	s->arg[0] = w->bad ? 0 : dev32(i);
	return (CUdeviceptr_v1)s->arg[0];
}

CALL(cuMemsetD8)
{
	return DO(cuMemsetD8)(to_fill(w, i, 65 + i, 0x21, s), 0x21, 65 + i);
}

CALL(cuMemsetD16)
{
	return DO(cuMemsetD16)(to_fill(w, i, (65 + i) * 2, 0x2134, s), 0x2134, 65 + i);
}

CALL(cuMemsetD32)
{
	return DO(cuMemsetD32)(to_fill(w, i, (65 + i) * 4, 0x21345678, s), 0x21345678, 65 + i);
}

CALL(cuMemsetD2D8)
{
	CUresult (*wide)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = (CUresult(*)(
		uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))(void *)DO(cuMemsetD2D8);

	return wide(GARBAGE | to_fill(w, i, (25 + i) * 3, 0x22, s), 4096, 0x22, GARBAGE | (25 + i),
		    GARBAGE | 3);
}

CALL(cuMemsetD2D16)
{
	return DO(cuMemsetD2D16)(to_fill(w, i, (25 + i) * 6, 0x2245, s), 4096, 0x2245, 25 + i, 3);
}

CALL(cuMemsetD2D32)
{
	return DO(cuMemsetD2D32)(to_fill(w, i, (25 + i) * 12, 0x22456789, s), 4096, 0x22456789,
				 25 + i, 3);
}
