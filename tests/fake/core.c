/*
 * The books of a stand-in library: one open-addressing table of everything it gave out, under one
 * lock. Addresses come from a counter in a range of its own for each kind; a freed block is given
 * out again to the next request of the same kind and size, since real allocators do that and a
 * ledger of live blocks must cope with it.
 */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef FAKE_REGION
#error "FAKE_REGION: 0 runtime, 1 driver, 2 NCCL"
#endif

#define SLOT_MAX   (1u << 22)
#define N_RECYCLED 64
#define GIB        (1ull << 30)

struct slot {
	uint64_t address; /* 0: free */
	uint64_t bytes;
	uint32_t kind;
	uint32_t pending; /* queries that still answer "not ready" */
};

struct range {
	uint64_t first, last, next;
};

#define RANGE(base, span)                                                                          \
	{                                                                                          \
		(base) + FAKE_REGION *(span), (base) + (FAKE_REGION + 1) * (span), 0               \
	}

static struct {
	pthread_mutex_t lock;
	struct slot *slots;
	size_t n_slots, n_used;
	uint64_t device_bytes;
	struct slot recycled[N_RECYCLED];
	unsigned next_recycled;
	struct range device, device32, host, handle;
} books = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.device = RANGE(0x7e0000000000ull, 0x8000000000ull),
	.device32 = RANGE(0x10000000ull, 0x10000000ull),
	.host = RANGE(0x7fa000000000ull, 0x1000000000ull),
	.handle = RANGE(0x558000000000ull, 0x1000000000ull),
};

static struct {
	pthread_once_t once;
	const char *hang;
	uint64_t memory_bytes;
	uint64_t sync_us;
	uint32_t not_ready;
	bool pace;
} settings = {.once = PTHREAD_ONCE_INIT};

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static bool has_ended;

/* Handlers that were registered before the first call run after it. */
static void end_driver(void)
{
	has_ended = true;
}

bool fake_has_ended(void)
{
	return has_ended;
}

static void read_settings(void)
{
	const char *hang = getenv("FAKE_CUDA_HANG");

	atexit(end_driver);

	settings.hang = hang && *hang ? strdup(hang) : NULL;
	settings.memory_bytes = number_of("FAKE_CUDA_MEMORY", 64 * GIB);
	settings.sync_us = number_of("FAKE_CUDA_SYNC_US", 0);
	settings.not_ready = (uint32_t)number_of("FAKE_CUDA_NOT_READY", 2);
	settings.pace = number_of("FAKE_CUDA_PACE", 0) != 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Spins while that is cheaper than being woken up. */
static void pass_ns(uint64_t ns)
{
	if (ns >= 50000) {
		struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

		nanosleep(&t, NULL);
	} else {
		uint64_t end_ns = now_ns() + ns;

		while (now_ns() < end_ns)
			;
	}
}

/* func is what the compiler calls the function: the body shared by twins ends in _body, the code
 * behind a stub begins with fake_impl_, NCCL's with p. */
static bool hangs(const char *func)
{
	size_t n = strlen(settings.hang);

	if (strncmp(func, "fake_impl_", strlen("fake_impl_")) == 0)
		func += strlen("fake_impl_");
	if (strncmp(func, "pnccl", strlen("pnccl")) == 0)
		func++;
	return strncmp(func, settings.hang, n) == 0 && (!func[n] || strcmp(func + n, "_body") == 0);
}

void fake_begin(const char *func, enum fake_cost cost, uint64_t bytes)
{
	static const struct {
		uint32_t ns;
		uint32_t bytes_per_us;
	} costs[] = {
		[FAKE_COST_LAUNCH_RT] = {800, 0},    [FAKE_COST_LAUNCH] = {3200, 0},
		[FAKE_COST_COPY] = {6000, 24000},    [FAKE_COST_COPY_ASYNC] = {3500, 0},
		[FAKE_COST_ALLOC] = {90000, 0},      [FAKE_COST_ALLOC_ASYNC] = {1500, 0},
		[FAKE_COST_EVENT] = {1200, 0},       [FAKE_COST_MODULE] = {400000, 0},
		[FAKE_COST_COLLECTIVE] = {18000, 0},
	};

	pthread_once(&settings.once, read_settings);
	if (settings.hang && hangs(func))
		for (;;)
			pause();
	if (settings.pace && cost != FAKE_COST_NONE)
		pass_ns(costs[cost].ns +
			(costs[cost].bytes_per_us ? bytes * 1000 / costs[cost].bytes_per_us : 0));
}

void fake_wait(void)
{
	pthread_once(&settings.once, read_settings);
	if (settings.sync_us)
		pass_ns(settings.sync_us * 1000);
}

static size_t home_of(uint64_t address)
{
	return (size_t)((address * 0x9e3779b97f4a7c15ull) >> 20) & (books.n_slots - 1);
}

/* The slot of address, or the free one where it would go; NULL before the first. */
static struct slot *slot_of(uint64_t address)
{
	if (!books.n_slots)
		return NULL;
	for (size_t i = home_of(address);; i = (i + 1) & (books.n_slots - 1))
		if (books.slots[i].address == address || !books.slots[i].address)
			return &books.slots[i];
}

static struct slot *known(uint64_t address)
{
	struct slot *slot = address ? slot_of(address) : NULL;

	return slot && slot->address ? slot : NULL;
}

static bool grow(void)
{
	struct slot *old = books.slots;
	size_t n_old = books.n_slots, n_new = n_old ? n_old * 2 : 1024;
	struct slot *slots = n_new <= SLOT_MAX ? calloc(n_new, sizeof(*slots)) : NULL;

	if (!slots)
		return false;
	books.slots = slots;
	books.n_slots = n_new;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].address)
			*slot_of(old[i].address) = old[i];
	free(old);
	return true;
}

static struct slot *add(uint64_t address, uint64_t bytes, unsigned kind)
{
	struct slot *slot;

	if (books.n_used * 2 >= books.n_slots && !grow())
		return NULL;
	slot = slot_of(address);
	*slot = (struct slot){address, bytes, kind, 0};
	books.n_used++;
	return slot;
}

/* Moves back what the hole would hide. */
static void take_out(struct slot *slot)
{
	size_t mask = books.n_slots - 1, hole = (size_t)(slot - books.slots);

	books.slots[hole].address = 0;
	for (size_t i = (hole + 1) & mask; books.slots[i].address; i = (i + 1) & mask) {
		size_t home = home_of(books.slots[i].address);

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		books.slots[hole] = books.slots[i];
		books.slots[i].address = 0;
		hole = i;
	}
	books.n_used--;
}

static uint64_t next_address(enum fake_kind kind, uint64_t bytes)
{
	struct range *range = kind == FAKE_DEVICE32                            ? &books.device32
			      : kind == FAKE_HOST                              ? &books.host
			      : kind & (FAKE_DEVICE | FAKE_ARRAY | FAKE_RANGE) ? &books.device
									       : &books.handle;
	uint64_t grain = bytes >= 1 << 20 ? 2 << 20 : range == &books.handle ? 64 : 512;
	uint64_t step = (bytes + grain - 1) / grain * grain, address;

	for (unsigned i = 0; i < N_RECYCLED; i++)
		if (books.recycled[i].kind == kind && books.recycled[i].bytes == bytes &&
		    !known(books.recycled[i].address)) {
			books.recycled[i].kind = 0;
			return books.recycled[i].address;
		}
	if (!step)
		step = grain;
	if (step > range->last - range->first)
		return 0;
	do {
		if (range->next < range->first || range->next + step > range->last)
			range->next = range->first;
		address = (range->next + grain - 1) / grain * grain;
		range->next = address + step;
	} while (known(address));
	return address;
}

static int alloc_locked(enum fake_kind kind, uint64_t bytes, uint64_t *ret_address)
{
	bool counted = kind & (FAKE_DEVICE | FAKE_DEVICE32 | FAKE_ARRAY | FAKE_PHYSICAL);
	uint64_t address;

	if (counted && bytes > settings.memory_bytes - books.device_bytes)
		return FAKE_NO_MEMORY;
	address = next_address(kind, bytes);
	if (!address || !add(address, bytes, kind))
		return FAKE_NO_MEMORY;
	if (counted)
		books.device_bytes += bytes;
	*ret_address = address;
	return FAKE_OK;
}

int fake_alloc(enum fake_kind kind, uint64_t bytes, uint64_t *ret_address)
{
	int r;

	pthread_once(&settings.once, read_settings);
	pthread_mutex_lock(&books.lock);
	r = alloc_locked(kind, bytes, ret_address);
	pthread_mutex_unlock(&books.lock);
	return r;
}

int fake_register(uint64_t address, uint64_t bytes)
{
	int r = FAKE_OK;

	if (!address || !bytes)
		return FAKE_INVALID_VALUE;
	pthread_mutex_lock(&books.lock);
	if (known(address))
		r = FAKE_ALREADY_REGISTERED;
	else if (!add(address, bytes, FAKE_REGISTERED))
		r = FAKE_NO_MEMORY;
	pthread_mutex_unlock(&books.lock);
	return r;
}

int fake_free(unsigned kinds, uint64_t address)
{
	int r = FAKE_OK;
	struct slot *slot;

	pthread_mutex_lock(&books.lock);
	slot = known(address);
	if (!slot || !(slot->kind & kinds)) {
		r = kinds == FAKE_REGISTERED ? FAKE_NOT_REGISTERED
		    : kinds & (FAKE_STREAM | FAKE_EVENT | FAKE_MODULE | FAKE_GRAPH_EXEC)
			    ? FAKE_BAD_HANDLE
			    : FAKE_INVALID_VALUE;
	} else {
		if (slot->kind & (FAKE_DEVICE | FAKE_DEVICE32 | FAKE_ARRAY | FAKE_PHYSICAL))
			books.device_bytes -= slot->bytes;
		if (slot->kind != FAKE_REGISTERED)
			books.recycled[books.next_recycled++ % N_RECYCLED] = *slot;
		take_out(slot);
	}
	pthread_mutex_unlock(&books.lock);
	return r;
}

unsigned fake_kind_of(uint64_t address)
{
	struct slot *slot;
	unsigned kind;

	pthread_mutex_lock(&books.lock);
	slot = known(address);
	kind = slot ? slot->kind : 0;
	pthread_mutex_unlock(&books.lock);
	return kind;
}

uint64_t fake_memory_total(void)
{
	pthread_once(&settings.once, read_settings);
	return settings.memory_bytes;
}

uint64_t fake_memory_left(void)
{
	uint64_t left, total = fake_memory_total();

	pthread_mutex_lock(&books.lock);
	left = total - books.device_bytes;
	pthread_mutex_unlock(&books.lock);
	return left;
}

int fake_event_record(const void *event, const void *stream)
{
	struct slot *slot;
	int r = FAKE_OK;

	if (!event)
		return FAKE_BAD_HANDLE;
	pthread_mutex_lock(&books.lock);
	slot = known((uint64_t)event);
	if (!slot)
		slot = add((uint64_t)event, 0, FAKE_EVENT);
	if (!slot)
		r = FAKE_NO_MEMORY;
	else if (slot->kind != FAKE_EVENT)
		r = FAKE_BAD_HANDLE;
	else
		slot->pending = settings.not_ready;
	slot = known((uint64_t)stream);
	if (r == FAKE_OK && slot && slot->kind == FAKE_STREAM)
		slot->pending = settings.not_ready;
	pthread_mutex_unlock(&books.lock);
	return r;
}

int fake_query(const void *event_or_stream)
{
	int r = FAKE_OK;
	struct slot *slot;

	if (event_or_stream == FAKE_NO_HANDLE)
		return FAKE_BAD_HANDLE;
	pthread_mutex_lock(&books.lock);
	slot = known((uint64_t)event_or_stream);
	if (slot && slot->pending) {
		slot->pending--;
		r = FAKE_NOT_READY;
	}
	pthread_mutex_unlock(&books.lock);
	return r;
}

int fake_sync(const void *event_or_stream)
{
	struct slot *slot;

	if (event_or_stream == FAKE_NO_HANDLE)
		return FAKE_BAD_HANDLE;
	pthread_mutex_lock(&books.lock);
	slot = known((uint64_t)event_or_stream);
	if (slot)
		slot->pending = 0;
	pthread_mutex_unlock(&books.lock);
	fake_wait();
	return FAKE_OK;
}
