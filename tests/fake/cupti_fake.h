/* CUPTI's stand-in: what programs tell it, and those of its functions that they call. */
#ifndef FAKE_CUPTI_FAKE_H
#define FAKE_CUPTI_FAKE_H

#include "cupti_abi.h"

/* Of a device; times as fake_cupti_now() counts. What a call asks for begins after it, as on a GPU: it is moved as a
 * whole where start lies before. These return when it has ended. */
uint64_t fake_cupti_now(void);
uint64_t fake_cupti_kernel(const char *name, uint32_t stream, uint64_t start, uint64_t end);
uint64_t fake_cupti_copy(uint8_t direction, uint32_t stream, uint64_t bytes, uint64_t start,
			 uint64_t end);
uint64_t fake_cupti_graph(uint32_t graph, uint32_t stream, uint64_t start, uint64_t end);
void fake_cupti_sync(uint32_t type, uint64_t start, uint64_t end);
void fake_cupti_fill(uint64_t bytes, uint32_t stream, uint64_t start, uint64_t end);

int cuptiGetVersion(uint32_t *ret);
int cuptiGetTimestamp(uint64_t *ret);
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
				   void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *data, size_t valid, uint8_t **record);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *ret);
int cuptiGetThreadIdType(int *ret);
int cuptiSetThreadIdType(int type);
int cuptiGetCallbackName(int domain, uint32_t number, const char **ret);
int cuptiActivityEnableDriverApi(uint32_t number, uint8_t enable);
int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t enable);
int cuptiSubscribe(void **ret, void *callback, void *user);
int cuptiUnsubscribe(void *which);
int cuptiFinalize(void);

#endif
