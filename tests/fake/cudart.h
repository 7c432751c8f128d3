/* Among the files of the runtime's stand-in. */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include "fake.h"

#define RT(name, params)            FAKE_EXPORT cudaError_t name params
#define RT_PTSZ(name, params, args) FAKE_TWIN(RT, cudaError_t, name, _ptsz, params, args)
#define RT_PTDS(name, params, args) FAKE_TWIN(RT, cudaError_t, name, _ptds, params, args)

/* Every runtime call ends with it: what failed is also this thread's last error. */
cudaError_t fake_rt_end(int code);

/* cudart_memory.c. Freeing nothing is allowed; a copy of no bytes may have no addresses. */
cudaError_t fake_rt_give(enum fake_kind kind, uint64_t bytes, void **ret_ptr);
cudaError_t fake_rt_take(unsigned kinds, const void *ptr);
cudaError_t fake_rt_copied(const void *dst, const void *src, uint64_t bytes,
			   enum cudaMemcpyKind kind);

#endif
