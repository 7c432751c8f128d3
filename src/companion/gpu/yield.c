/*
 * CUPTI for the rest of the program. These stand before libcupti's functions of the same names, since this library is
 * preloaded, and go on to them. A profiler of the program's own (Kineto of PyTorch) that registers for buffers, asks
 * for records or subscribes gets CUPTI: the door has released it when its call goes on. It is over when all that it asked
 * for is switched off again; its subscription to callbacks alone is in no one's way.
 *
 * What a program gets by dlsym() of a handle does not come by here.
 */
#include "companion/gpu/gpu_int.h"

#define EXPORTED __attribute__((visibility("default")))

/* Parameters and results as CUPTI has them, by the widths that matter: handles and sizes are words. */
int cuptiActivityRegisterCallbacks(gpu_request_fn request, gpu_complete_fn complete);
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiActivityEnableContext(void *context, int kind);
int cuptiActivityDisableContext(void *context, int kind);
int cuptiActivityEnableDriverApi(uint32_t number, uint8_t enable);
int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t enable);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiSubscribe(void *ret_subscriber, void *callback, void *user);
int cuptiSubscribe_v2(void *ret_subscriber, void *callback, void *user, void *params);
int cuptiUnsubscribe(void *subscriber);
int cuptiFinalize(void);

static uint32_t kinds_on[GPU_KIND_MAX]; /* by others: how often */
static uint32_t v2_on; /* a subscription that stands no records of ours beside it */

bool gpu_yield_is_held(void)
{
	if (__atomic_load_n(&v2_on, __ATOMIC_ACQUIRE))
		return true;
	for (unsigned i = 0; i < GPU_KIND_MAX; i++)
		if (__atomic_load_n(&kinds_on[i], __ATOMIC_ACQUIRE))
			return true;
	return false;
}

static void note_kind(int kind, bool on)
{
	if (kind >= 0 && kind < GPU_KIND_MAX)
		__atomic_store_n(&kinds_on[kind], on, __ATOMIC_RELEASE);
}

/* The function after ours, found at its first call. */
#define REAL(name)                                                                                 \
	static __typeof__(name) *real;                                                             \
	if (!real)                                                                                 \
		real = (__typeof__(name) *)gpu_cupti_function(#name);                              \
	if (!real)                                                                                 \
	return GPU_CUPTI_NOT_INITIALIZED

static int after_switch(int r)
{
	if (gpu_door_is_open())
		gpu_door_note(gpu_yield_is_held());
	return r;
}

EXPORTED int cuptiActivityRegisterCallbacks(gpu_request_fn request, gpu_complete_fn complete)
{
	REAL(cuptiActivityRegisterCallbacks);
	if (!request || !complete)
		return real(request, complete);
	if (gpu_door_is_open())
		gpu_door_yield();
	gpu_buffer_lend(request, complete);
	return after_switch(real(gpu_buffer_request, gpu_buffer_complete));
}

EXPORTED int cuptiActivityEnable(int kind)
{
	int r;

	REAL(cuptiActivityEnable);
	if (gpu_door_is_open())
		gpu_door_yield();
	r = real(kind);
	if (r == GPU_CUPTI_OK)
		note_kind(kind, true);
	return after_switch(r);
}

EXPORTED int cuptiActivityEnableContext(void *context, int kind)
{
	int r;

	REAL(cuptiActivityEnableContext);
	if (gpu_door_is_open())
		gpu_door_yield();
	r = real(context, kind);
	if (r == GPU_CUPTI_OK)
		note_kind(kind, true);
	return after_switch(r);
}

static int after_disable(int r, int kind)
{
	if (r == GPU_CUPTI_OK)
		note_kind(kind, false);
	return after_switch(r);
}

EXPORTED int cuptiActivityDisable(int kind)
{
	REAL(cuptiActivityDisable);
	return after_disable(real(kind), kind);
}

EXPORTED int cuptiActivityDisableContext(void *context, int kind)
{
	REAL(cuptiActivityDisableContext);
	return after_disable(real(context, kind), kind);
}

EXPORTED int cuptiActivityEnableDriverApi(uint32_t number, uint8_t enable)
{
	REAL(cuptiActivityEnableDriverApi);
	if (gpu_door_is_open() && enable)
		gpu_door_yield();
	return after_switch(real(number, enable));
}

EXPORTED int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t enable)
{
	REAL(cuptiActivityEnableRuntimeApi);
	if (gpu_door_is_open() && enable)
		gpu_door_yield();
	return after_switch(real(number, enable));
}

/* What it flushes is its own, or comes to us. */
EXPORTED int cuptiActivityFlushAll(uint32_t flag)
{
	REAL(cuptiActivityFlushAll);
	return after_switch(real(flag));
}

EXPORTED int cuptiSubscribe(void *ret_subscriber, void *callback, void *user)
{
	int r;

	REAL(cuptiSubscribe);
	if (gpu_door_is_open())
		gpu_door_yield();
	r = real(ret_subscriber, callback, user);
	return after_switch(r);
}

EXPORTED int cuptiSubscribe_v2(void *ret_subscriber, void *callback, void *user, void *params)
{
	int r;

	REAL(cuptiSubscribe_v2);
	if (gpu_door_is_open())
		gpu_door_yield();
	r = real(ret_subscriber, callback, user, params);
	if (r == GPU_CUPTI_OK)
		__atomic_fetch_add(&v2_on, 1, __ATOMIC_ACQ_REL);
	return after_switch(r);
}

EXPORTED int cuptiUnsubscribe(void *subscriber)
{
	uint32_t n = __atomic_load_n(&v2_on, __ATOMIC_ACQUIRE);
	int r;

	REAL(cuptiUnsubscribe);
	r = real(subscriber);
	while (r == GPU_CUPTI_OK && n &&
	       !__atomic_compare_exchange_n(&v2_on, &n, n - 1, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE))
		;
	return after_switch(r);
}

/* All is off then, and nothing is registered. */
EXPORTED int cuptiFinalize(void)
{
	int r;

	REAL(cuptiFinalize);
	if (gpu_door_is_open())
		gpu_door_yield();
	r = real();
	for (int kind = 0; kind < GPU_KIND_MAX; kind++)
		note_kind(kind, false);
	return after_switch(r);
}
