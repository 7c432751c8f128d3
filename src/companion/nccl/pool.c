/* What is open: a fixed number of events, those that are not in a list that threads share without a lock. */
#include "companion/nccl/nccl_int.h"

#include <stddef.h>

#define KIND_BITS  2
#define INDEX_BITS 12

_Static_assert(NCCL_EVENTS <= 1u << INDEX_BITS, "an index fits into a handle");

static struct nccl_event events[NCCL_EVENTS];
static uint32_t n_used; /* those from here on were never taken, their memory is not touched */
static uint64_t
	free_list; /* how often it changed << 32, and index + 1 of its first: 0 it is empty */

static uint64_t make_handle(enum nccl_handle_kind kind, uint32_t index, uint32_t number)
{
	return (uint64_t)number << (INDEX_BITS + KIND_BITS) | index << KIND_BITS | kind;
}

static struct nccl_event *take_listed(void)
{
	uint64_t head = __atomic_load_n(&free_list, __ATOMIC_ACQUIRE), next;
	struct nccl_event *e;

	do {
		if (!(uint32_t)head)
			return NULL;
		e = &events[(uint32_t)head - 1];
		next = ((head >> 32) + 1) << 32 | __atomic_load_n(&e->next, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&free_list, &head, next, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return e;
}

struct nccl_event *nccl_pool_take(void)
{
	struct nccl_event *e = take_listed();
	uint32_t i = __atomic_load_n(&n_used, __ATOMIC_RELAXED);

	if (e)
		return e;
	do {
		if (i == NCCL_EVENTS)
			return NULL;
	} while (!__atomic_compare_exchange_n(&n_used, &i, i + 1, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	return &events[i];
}

void nccl_pool_free(struct nccl_event *e)
{
	uint64_t head = __atomic_load_n(&free_list, __ATOMIC_RELAXED), next;

	do {
		__atomic_store_n(&e->next, (uint32_t)head, __ATOMIC_RELAXED);
		next = ((head >> 32) + 1) << 32 | (uint32_t)(e - events + 1);
	} while (!__atomic_compare_exchange_n(&free_list, &head, next, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
}

void *nccl_pool_open(struct nccl_event *e, enum nccl_handle_kind kind, uint32_t number)
{
	uint64_t handle = make_handle(kind, (uint32_t)(e - events), number);

	__atomic_store_n(&e->handle, handle, __ATOMIC_RELEASE);
	return (void *)handle;
}

struct nccl_event *nccl_pool_find(const void *handle)
{
	uint64_t h = (uint64_t)handle;
	uint32_t index = (uint32_t)(h >> KIND_BITS) & ((1u << INDEX_BITS) - 1);
	struct nccl_event *e = &events[index];

	return h && index < NCCL_EVENTS && __atomic_load_n(&e->handle, __ATOMIC_ACQUIRE) == h
		       ? e
		       : NULL;
}

struct nccl_event *nccl_pool_close(const void *handle)
{
	struct nccl_event *e = nccl_pool_find(handle);
	uint64_t h = (uint64_t)handle;

	return e && __atomic_compare_exchange_n(&e->handle, &h, 0, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)
		       ? e
		       : NULL;
}

void nccl_pool_drop(uint32_t comm)
{
	uint32_t n = __atomic_load_n(&n_used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t h = __atomic_load_n(&events[i].handle, __ATOMIC_ACQUIRE);
		struct nccl_event *e =
			h && events[i].comm == comm ? nccl_pool_close((void *)h) : NULL;

		if (e)
			nccl_pool_free(e);
	}
}

void *nccl_pool_handle(enum nccl_handle_kind kind, uint32_t number)
{
	return (void *)make_handle(kind, 0, number);
}

uint32_t nccl_pool_number(uint64_t handle, enum nccl_handle_kind kind)
{
	return (handle & ((1u << KIND_BITS) - 1)) == kind
		       ? (uint32_t)(handle >> (INDEX_BITS + KIND_BITS))
		       : 0;
}
