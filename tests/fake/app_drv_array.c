/* fake_app: the calls of the driver about arrays, batches of copies, peers, prefetches and memory
 * of other processes. */
#include "app.h"

#define APP_LIBRARY LIB_DRV
#define DEV(i)      ((CUdeviceptr)device_ptr(i))

enum { H2D = 1, D2H = 2, D2D = 3, ANY = 4, PEER = 5 }; /* enum gs_copy_kind */

static void see_copy(struct seen *s, uint64_t bytes, unsigned kind, const void *dst,
		     const void *src, const void *stream)
{
	s->bytes = bytes;
	s->aux = kind;
	s->arg[0] = (uint64_t)dst;
	s->arg[1] = (uint64_t)src;
	s->stream = (uint64_t)stream;
}

static CUarray array_of(unsigned i)
{
	return (CUarray)handle_of(8000 + i);
}

static int put_memory(struct worker *w, int r, struct seen *s, CUdeviceptr p)
{
	s->aux = 1;
	return app_put(w, DRV_MAPPED, r, s, p);
}

CALL(cuIpcOpenMemHandle)
{
	CUipcMemHandle handle = {{w->bad ? 0 : 7}};
	CUdeviceptr p = 0;
	int r = DO(cuIpcOpenMemHandle)(&p, handle, 1);

	return put_memory(w, r, s, p);
}

CALL(cuIpcOpenMemHandle_v2)
{
	CUipcMemHandle handle = {{w->bad ? 0 : 7}};
	CUdeviceptr p = 0;
	int r = DO(cuIpcOpenMemHandle_v2)(&p, handle, 1);

	return put_memory(w, r, s, p);
}

CALL(cuIpcCloseMemHandle)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_MAPPED);
	return DO(cuIpcCloseMemHandle)(s->arg[0]);
}

/* What fails has no destination. */
static void *host_of(const struct worker *w, unsigned i)
{
	return w->bad ? NULL : host_ptr(i);
}

static CUarray to_array(const struct worker *w, unsigned i)
{
	return w->bad ? NULL : array_of(i);
}

CALL_TWIN(cuMemcpyAtoH_v2, _ptds)
{
	see_copy(s, 210 + i, D2H, host_of(w, i), array_of(i), NULL);
	return DO(cuMemcpyAtoH_v2)(host_of(w, i), array_of(i), 64, 210 + i);
}

CALL_TWIN(cuMemcpyAtoHAsync_v2, _ptsz)
{
	see_copy(s, 220 + i, D2H, host_of(w, i), array_of(i), handle_of(i));
	return DO(cuMemcpyAtoHAsync_v2)(host_of(w, i), array_of(i), 64, 220 + i, handle_of(i));
}

CALL_TWIN(cuMemcpyHtoA_v2, _ptds)
{
	see_copy(s, 230 + i, H2D, to_array(w, i), host_ptr(i), NULL);
	return DO(cuMemcpyHtoA_v2)(to_array(w, i), 64, host_ptr(i), 230 + i);
}

CALL_TWIN(cuMemcpyHtoAAsync_v2, _ptsz)
{
	see_copy(s, 240 + i, H2D, to_array(w, i), host_ptr(i), handle_of(i));
	return DO(cuMemcpyHtoAAsync_v2)(to_array(w, i), 64, host_ptr(i), 240 + i, handle_of(i));
}

CALL_TWIN(cuMemcpyAtoD_v2, _ptds)
{
	void *dst = w->bad ? NULL : device_ptr(i);

	see_copy(s, 250 + i, D2D, dst, array_of(i), NULL);
	return DO(cuMemcpyAtoD_v2)((CUdeviceptr)dst, array_of(i), 64, 250 + i);
}

CALL_TWIN(cuMemcpyDtoA_v2, _ptds)
{
	see_copy(s, 260 + i, D2D, to_array(w, i), device_ptr(i), NULL);
	return DO(cuMemcpyDtoA_v2)(to_array(w, i), 64, DEV(i), 260 + i);
}

CALL_TWIN(cuMemcpyAtoA_v2, _ptds)
{
	see_copy(s, 270 + i, D2D, to_array(w, i), array_of(i + 1), NULL);
	return DO(cuMemcpyAtoA_v2)(to_array(w, i), 64, array_of(i + 1), 32, 270 + i);
}

/* From a device to a device or, in every other copy, an array. */
static CUDA_MEMCPY3D_PEER peers_of(const struct worker *w, unsigned i, const void *stream,
				   struct seen *s)
{
	CUDA_MEMCPY3D_PEER p = {
		.srcZ = 3,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = DEV(i + 1),
		.srcContext = handle_of(1),
		.srcPitch = 4096,
		.dstMemoryType = i % 2 ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
		.dstDevice = i % 2 || w->bad ? 0 : DEV(i),
		.dstArray = i % 2 ? to_array(w, i) : NULL,
		.dstContext = handle_of(2),
		.WidthInBytes = 80 + i,
		.Height = 5,
		.Depth = 2,
	};

	see_copy(s, (80 + i) * 10, PEER, i % 2 ? (void *)p.dstArray : (void *)p.dstDevice,
		 device_ptr(i + 1), stream);
	return p;
}

CALL_TWIN(cuMemcpy3DPeer, _ptds)
{
	CUDA_MEMCPY3D_PEER p = peers_of(w, i, NULL, s);

	return DO(cuMemcpy3DPeer)(&p);
}

CALL_TWIN(cuMemcpy3DPeerAsync, _ptsz)
{
	CUDA_MEMCPY3D_PEER p = peers_of(w, i, handle_of(i), s);

	return DO(cuMemcpy3DPeerAsync)(&p, handle_of(i));
}

static size_t batch_of(const struct worker *w, unsigned i, struct app_batch *b, struct seen *s)
{
	size_t n = app_fill_batch(b, i);

	if (w->bad)
		b->dsts[0] = 0;
	see_copy(s, b->seen_bytes, ANY, (void *)b->dsts[0], (void *)b->srcs[0], handle_of(i));
	s->arg[2] = n;
	return n;
}

CALL_TWIN(cuMemcpyBatchAsync, _ptsz)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = 1};
	struct app_batch b;
	size_t first = 0, failed, n = batch_of(w, i, &b, s);

	return DO(cuMemcpyBatchAsync)(b.dsts, b.srcs, b.sizes, n, &attributes, &first, 1, &failed,
				      handle_of(i));
}

CALL_TWIN(cuMemcpyBatchAsync_v2, _ptsz)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = 1};
	struct app_batch b;
	size_t first = 0, n = batch_of(w, i, &b, s);

	return DO(cuMemcpyBatchAsync_v2)(b.dsts, b.srcs, b.sizes, n, &attributes, &first, 1,
					 handle_of(i));
}

CALL_TWIN(cuMemPrefetchBatchAsync, _ptsz)
{
	CUmemLocation place = {1, 0};
	struct app_batch b;
	size_t first = 0, n = app_fill_batch(&b, i);

	see_copy(s, b.seen_bytes, ANY, (void *)b.dsts[0], NULL, handle_of(i));
	s->arg[2] = n;
	return DO(cuMemPrefetchBatchAsync)(b.dsts, b.sizes, n, &place, &first, 1, w->bad ? 1 : 0,
					   handle_of(i));
}

/* In every fourth list the second box goes to an array, whose bytes nobody tells. */
static size_t boxes_of(const struct worker *w, unsigned i, CUDA_MEMCPY3D_BATCH_OP *ops,
		       struct seen *s)
{
	size_t n = app_boxes(i);
	uint64_t bytes = 0;

	for (size_t k = 0; k < n; k++) {
		bool array = i % 4 == 3 && k == 1;

		ops[k] = (CUDA_MEMCPY3D_BATCH_OP){0};
		ops[k].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
		ops[k].src.op.ptr.ptr = DEV(i + (unsigned)k + 1);
		ops[k].dst.type =
			array ? CU_MEMCPY_OPERAND_TYPE_ARRAY : CU_MEMCPY_OPERAND_TYPE_POINTER;
		ops[k].dst.op.ptr.ptr = w->bad ? 0 : DEV(i + (unsigned)k);
		ops[k].extent = (CUextent3D){20 + k, 3, 2};
		if (!array && k < APP_BOX_SEEN)
			bytes += (20 + k) * 6;
	}
	see_copy(s, bytes, ANY, (void *)ops[0].dst.op.ptr.ptr, device_ptr(i + 1), handle_of(i));
	s->arg[2] = n;
	return n;
}

CALL_TWIN(cuMemcpy3DBatchAsync, _ptsz)
{
	CUDA_MEMCPY3D_BATCH_OP ops[APP_BOX_MAX];
	size_t failed, n = boxes_of(w, i, ops, s);

	return DO(cuMemcpy3DBatchAsync)(n, ops, &failed, 0, handle_of(i));
}

CALL_TWIN(cuMemcpy3DBatchAsync_v2, _ptsz)
{
	CUDA_MEMCPY3D_BATCH_OP ops[APP_BOX_MAX];
	size_t n = boxes_of(w, i, ops, s);

	return DO(cuMemcpy3DBatchAsync_v2)(n, ops, 0, handle_of(i));
}

CALL_TWIN(cuMemPrefetchAsync, _ptsz)
{
	void *p = w->bad ? NULL : device_ptr(i);

	see_copy(s, 16384 + i, ANY, p, NULL, handle_of(i));
	return DO(cuMemPrefetchAsync)((CUdeviceptr)p, 16384 + i, 2, handle_of(i));
}

CALL_TWIN(cuMemPrefetchAsync_v2, _ptsz)
{
	CUmemLocation place = {1, 3};

	see_copy(s, 32768 + i, ANY, device_ptr(i), NULL, handle_of(i));
	return DO(cuMemPrefetchAsync_v2)(DEV(i), 32768 + i, place, w->bad ? 1 : 0, handle_of(i));
}
