/*
 * Memory for CUPTI's records: a bounded number of buffers, from malloc() of the program, so that a profiler which gets
 * hold of CUPTI past yield.c may free what it takes for its own. CUPTI must always get one (before 12.9 it fails
 * without): what finds none left goes into one that is never read.
 */
#include "companion/gpu/gpu_int.h"

#include <stdlib.h>

#include "companion/ring/ring.h"

#define DISCARD_BYTES (256u << 10)

static struct gpu_buffer buffers[GPU_BUFFERS];
static struct gpu_buffer *whole; /* came back, and were not taken yet */
static _Alignas(64) uint8_t discard[DISCARD_BYTES];
static gpu_request_fn lent_request;
static gpu_complete_fn lent_complete;
static uint32_t is_kept;
struct gpu_buffer_counts gpu_buffer_counts;

static bool take_free(struct gpu_buffer *b)
{
	uint32_t none = 0;

	return !__atomic_load_n(&b->out, __ATOMIC_RELAXED) &&
	       __atomic_compare_exchange_n(&b->out, &none, 1, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static bool make_data(struct gpu_buffer *b)
{
	if (!b->data && posix_memalign((void **)&b->data, 64, GPU_BUFFER_BYTES) != 0)
		b->data = NULL;
	return b->data;
}

/* First those that have memory. */
static struct gpu_buffer *find_free(void)
{
	for (unsigned i = 0; i < 2 * GPU_BUFFERS; i++) {
		struct gpu_buffer *b = &buffers[i % GPU_BUFFERS];

		if ((i < GPU_BUFFERS && !__atomic_load_n(&b->data, __ATOMIC_RELAXED)) ||
		    !take_free(b))
			continue;
		if (make_data(b))
			return b;
		gpu_buffer_free(b);
	}
	return NULL;
}

void gpu_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	gpu_request_fn lent = __atomic_load_n(&lent_request, __ATOMIC_ACQUIRE);
	struct gpu_buffer *b;

	if (lent && !__atomic_load_n(&is_kept, __ATOMIC_ACQUIRE)) {
		lent(buffer, size, max_records);
		return;
	}
	if (!__atomic_load_n(&gpu_buffer_counts.first_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&gpu_buffer_counts.first_ns, companion_mono_ns(),
				 __ATOMIC_RELEASE);
	b = find_free();
	*buffer = b ? b->data : discard;
	*size = b ? GPU_BUFFER_BYTES : DISCARD_BYTES;
	*max_records = 0;
}

static struct gpu_buffer *find_out(const uint8_t *data)
{
	for (unsigned i = 0; i < GPU_BUFFERS; i++)
		if (buffers[i].data == data && buffers[i].out)
			return &buffers[i];
	return NULL;
}

static void count_dropped(void *context, uint32_t stream)
{
	size_t n = 0;

	if (gpu_cupti.n_dropped && gpu_cupti.n_dropped(context, stream, &n) == GPU_CUPTI_OK)
		__atomic_fetch_add(&gpu_buffer_counts.n_dropped, n, __ATOMIC_RELAXED);
}

void gpu_buffer_complete(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid)
{
	struct gpu_buffer *b = data ? find_out(data) : NULL;
	gpu_complete_fn lent = __atomic_load_n(&lent_complete, __ATOMIC_ACQUIRE);

	if (!b && data != discard) {
		if (lent)
			lent(context, stream, data, size, valid);
		return;
	}
	count_dropped(context, stream);
	if (!b) {
		__atomic_fetch_add(&gpu_buffer_counts.n_discarded, 1, __ATOMIC_RELAXED);
		return;
	}
	b->valid = valid <= GPU_BUFFER_BYTES ? valid : GPU_BUFFER_BYTES;
	b->next = __atomic_load_n(&whole, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&whole, &b->next, b, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

/* They stay: buffers of theirs may come back late, and they may switch records on without another word. */
void gpu_buffer_lend(gpu_request_fn request, gpu_complete_fn complete)
{
	__atomic_store_n(&lent_complete, complete, __ATOMIC_RELEASE);
	__atomic_store_n(&lent_request, request, __ATOMIC_RELEASE);
}

void gpu_buffer_keep(bool keep)
{
	__atomic_store_n(&is_kept, keep, __ATOMIC_RELEASE);
}

struct gpu_buffer *gpu_buffer_take(void)
{
	struct gpu_buffer *b = __atomic_exchange_n(&whole, NULL, __ATOMIC_ACQ_REL), *list = NULL;

	while (b) {
		struct gpu_buffer *next = b->next;

		b->next = list;
		list = b;
		b = next;
	}
	return list;
}

bool gpu_buffer_is_out(void)
{
	for (unsigned i = 0; i < GPU_BUFFERS; i++)
		if (__atomic_load_n(&buffers[i].out, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void gpu_buffer_free(struct gpu_buffer *b)
{
	__atomic_store_n(&b->out, 0, __ATOMIC_RELEASE);
}

void gpu_buffer_prepare(unsigned n)
{
	for (unsigned i = 0; i < GPU_BUFFERS && n; i++) {
		struct gpu_buffer *b = &buffers[i];

		if (b->data || !take_free(b))
			continue;
		if (make_data(b))
			for (size_t at = 0; at < GPU_BUFFER_BYTES; at += 4096)
				b->data[at] = 0;
		gpu_buffer_free(b);
		n--;
	}
}
