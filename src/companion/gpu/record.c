/*
 * From CUPTI's records to those of this process's file, in the door's own thread. Numbers that cannot be are not
 * passed on: a version that writes other records than those known here is noticed by that.
 */
#include "companion/gpu/gpu_int.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "companion/ring/ring.h"

#define CALLS_KEPT                                                                                 \
	131072u /* a power of two: calls whose work may still come, more than one batch has */
#define NAME_BYTES   (GS_COMPANION_RECORD_MAX - sizeof(struct gs_companion_gpu_name))
#define NAME_SLOTS   (2 * GS_COMPANION_GPU_NAMES)
#define BRACKETS     32u
#define BLOCK_MAX    1024u
#define DEVICES_MAX  1024u
#define RING_WAIT_US 1000u
#define RING_WAITS   200u

static struct {
	uint32_t correlation, tid;
	uint64_t start_ns, dur_ns;
} calls[CALLS_KEPT];
static struct {
	uint64_t hash;
	uint32_t id;
} names[NAME_SLOTS];
static uint32_t n_names;
static int64_t mono_minus_cupti; /* ns */
uint64_t gpu_n_bad;

/* CUPTI's clock is that of the day, which may be set: asked for with each batch, best of some tries. */
static void compare_clocks(const struct gpu_cupti *c)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < BRACKETS; i++) {
		uint64_t before = companion_mono_ns(), at = 0, after;

		if (c->get_timestamp(&at) != GPU_CUPTI_OK)
			return;
		after = companion_mono_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		mono_minus_cupti = (int64_t)(before + best / 2 - at);
	}
}

static uint64_t to_mono(uint64_t cupti_ns)
{
	return cupti_ns ? cupti_ns + (uint64_t)mono_minus_cupti : 0;
}

/* --- names --- */

static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3ull;
	return h ? h : 1;
}

/* Room in the ring, waiting for its reader: this thread has time, and CUPTI's buffers hold what comes meanwhile. */
static void *put_patiently(unsigned kind, size_t bytes)
{
	void *r = NULL;

	for (unsigned i = 0; i < RING_WAITS && companion_live; i++) {
		const struct gs_companion_slot *slot = companion_self.slot;

		if (!slot || companion_self.reserved + bytes + GS_COMPANION_RECORD_MAX -
					     __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE) <
				     companion_self.mask)
			break;
		usleep(RING_WAIT_US);
	}
	r = companion_put(kind, bytes);
	return r;
}

static bool write_name(uint32_t id, const char *text, size_t length)
{
	size_t bytes = (sizeof(struct gs_companion_gpu_name) + length + 8) / 8 * 8;
	struct gs_companion_gpu_name *r = put_patiently(GS_COMPANION_GPU_NAME, bytes);

	if (!r)
		return false;
	r->id = id;
	r->pad = 0;
	memset(r->text + length, 0, bytes - sizeof(*r) - length);
	memcpy(r->text, text, length);
	companion_publish(r);
	return true;
}

/* A number for a name; 0: there are too many, or none. */
static uint32_t number_of(const char *text)
{
	size_t length = text ? strnlen(text, NAME_BYTES - 8) : 0;
	uint64_t hash = hash_of(text, length);
	uint32_t at = (uint32_t)(hash % NAME_SLOTS);

	if (!length)
		return 0;
	for (; names[at].hash; at = (at + 1) % NAME_SLOTS)
		if (names[at].hash == hash)
			return names[at].id;
	if (n_names == GS_COMPANION_GPU_NAMES || !write_name(n_names + 1, text, length))
		return 0;
	names[at].hash = hash;
	names[at].id = ++n_names;
	return n_names;
}

/* --- records --- */

#define READ(field)   gpu_field_read(record, GPU_##field, version)
#define READ32(field) (uint32_t) READ(field)
/* What most kinds have, by the names of their fields. */
#define READ_TIMES(kind) (w->start_ns = READ(kind##_START), w->end_ns = READ(kind##_END))
#define READ_PLACE(kind)                                                                           \
	(w->device = READ32(kind##_DEVICE), w->context = READ32(kind##_CONTEXT),                   \
	 w->stream = READ32(kind##_STREAM), w->graph = READ32(kind##_GRAPH),                       \
	 w->correlation = READ32(kind##_CORRELATION))

static void read_call(const uint8_t *record, uint32_t version)
{
	uint32_t correlation = READ32(CALL_CORRELATION), at = correlation & (CALLS_KEPT - 1);
	uint64_t start = READ(CALL_START), end = READ(CALL_END);

	calls[at].correlation = correlation;
	calls[at].tid = READ32(CALL_THREAD);
	calls[at].start_ns = to_mono(start);
	calls[at].dur_ns = end > start ? end - start : 0;
}

static void read_kernel(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_KERNEL;
	READ_TIMES(KERNEL);
	READ_PLACE(KERNEL);
	w->grid[0] = READ32(KERNEL_GRID_X);
	w->grid[1] = READ32(KERNEL_GRID_Y);
	w->grid[2] = READ32(KERNEL_GRID_Z);
	w->block[0] = READ32(KERNEL_BLOCK_X);
	w->block[1] = READ32(KERNEL_BLOCK_Y);
	w->block[2] = READ32(KERNEL_BLOCK_Z);
	w->shared_bytes = READ32(KERNEL_STATIC) + READ32(KERNEL_DYNAMIC);
	w->registers = READ32(KERNEL_REGISTERS);
}

static void read_copy(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_COPY;
	w->detail = READ32(COPY_DIRECTION);
	w->bytes = READ(COPY_BYTES);
	READ_TIMES(COPY);
	READ_PLACE(COPY);
}

static void read_peer(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_COPY;
	w->detail = READ32(PEER_DIRECTION);
	w->bytes = READ(PEER_BYTES);
	READ_TIMES(PEER);
	READ_PLACE(PEER);
}

static void read_fill(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_FILL;
	w->detail = READ32(FILL_VALUE);
	w->bytes = READ(FILL_BYTES);
	READ_TIMES(FILL);
	READ_PLACE(FILL);
}

static void read_graph(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_GRAPH;
	READ_TIMES(GRAPH);
	READ_PLACE(GRAPH);
}

static void read_overhead(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	w->what = GS_WORK_OVERHEAD;
	w->detail = READ32(OVERHEAD_KIND);
	READ_TIMES(OVERHEAD);
}

/* Can it have been like that? A time of 0 to 0 is one that CUPTI does not know. */
static bool may_be(const struct gs_gpu_work *w)
{
	if (w->end_ns < w->start_ns || w->device >= DEVICES_MAX)
		return false;
	if (w->what != GS_WORK_KERNEL)
		return true;
	return w->grid[0] && w->grid[1] && w->grid[2] && w->block[0] && w->block[1] &&
	       w->block[2] && w->block[0] <= BLOCK_MAX && w->block[1] <= BLOCK_MAX &&
	       w->block[2] <= BLOCK_MAX;
}

/* False: of a kind that is not kept. */
static bool read_work(const uint8_t *record, uint32_t version, struct gs_gpu_work *w)
{
	static void (*const readers[GPU_KIND_MAX])(const uint8_t *, uint32_t,
						   struct gs_gpu_work *) = {
		[GPU_KIND_KERNEL] = read_kernel, [GPU_KIND_COPY] = read_copy,
		[GPU_KIND_PEER] = read_peer,     [GPU_KIND_FILL] = read_fill,
		[GPU_KIND_GRAPH] = read_graph,   [GPU_KIND_OVERHEAD] = read_overhead};
	uint32_t kind = gpu_record_kind(record);

	if (kind >= GPU_KIND_MAX || !readers[kind])
		return false;
	readers[kind](record, version, w);
	return true;
}

static void write_work(const uint8_t *record, uint32_t version)
{
	struct gs_gpu_work w = {0};
	struct gs_companion_gpu_work *r;
	uint32_t at, name = 0;

	if (!read_work(record, version, &w))
		return;
	if (!may_be(&w)) {
		gpu_n_bad++;
		return;
	}
	if (w.what == GS_WORK_KERNEL)
		name = number_of((const char *)(uintptr_t)READ(KERNEL_NAME));
	w.start_ns = to_mono(w.start_ns);
	w.end_ns = to_mono(w.end_ns);
	at = w.correlation & (CALLS_KEPT - 1);
	if (w.correlation && calls[at].correlation == w.correlation) {
		w.tid = calls[at].tid;
		w.launch_ns = calls[at].start_ns;
		w.launch_dur_ns = calls[at].dur_ns;
	}
	r = put_patiently(GS_COMPANION_GPU_WORK, sizeof(*r));
	if (!r)
		return;
	r->work = w;
	r->name = name;
	r->pad = 0;
	companion_publish(r);
}

/* Calls first: the work that they asked for may lie before them, in another thread's buffer. */
void gpu_record_all(const struct gpu_cupti *c, struct gpu_buffer *list)
{
	if (list)
		compare_clocks(c);
	for (unsigned pass = 0; pass < 2; pass++)
		for (struct gpu_buffer *b = list, *next; b; b = next) {
			uint8_t *record = NULL;

			next = b->next;
			while (b->valid &&
			       c->next_record(b->data, b->valid, &record) == GPU_CUPTI_OK &&
			       gpu_record_kind(record)) {
				uint32_t kind = gpu_record_kind(record);
				bool is_call = kind == GPU_KIND_RUNTIME || kind == GPU_KIND_DRIVER;

				if (pass == 0 && is_call)
					read_call(record, c->version);
				else if (pass == 1 && !is_call)
					write_work(record, c->version);
			}
			if (pass == 1)
				gpu_buffer_free(b);
		}
}

void gpu_record_state(enum gs_companion_gpu_what what, uint64_t time_ns, uint32_t version,
		      const char *text)
{
	size_t length = strnlen(text, NAME_BYTES / 2);
	size_t bytes = (sizeof(struct gs_companion_gpu_state) + length + 8) / 8 * 8;
	struct gs_companion_gpu_state *r = put_patiently(GS_COMPANION_GPU_STATE, bytes);

	if (!r)
		return;
	r->time_ns = time_ns;
	r->what = what;
	r->version = version;
	r->n_dropped = __atomic_load_n(&gpu_buffer_counts.n_dropped, __ATOMIC_RELAXED);
	r->n_discarded = __atomic_load_n(&gpu_buffer_counts.n_discarded, __ATOMIC_RELAXED);
	r->n_bad = gpu_n_bad;
	memset(r->text, 0, bytes - sizeof(*r));
	memcpy(r->text, text, length);
	companion_publish(r);
}
