/*
 * What samples say that processes have on GPUs. A snapshot's GPU_INFO records number its GPUs, and stand
 * before the GPU_PROCESS records that name them by these numbers. A list of processes may be that of an
 * earlier snapshot: what is in it counts once. Many processes may be in the samples of
 * a machine: those that are not of the trace are left out of the summary.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/record_node.h"
#include "pipeline/holders/holders_int.h"

#define MAX_MEASURED 16384 /* processes on GPUs, ever */
#define MAX_GPUS     4096  /* of a snapshot */

void holders_measured_fini(struct gs_holders *h)
{
	free(h->measured);
	free(h->gpus);
}

static bool take_gpu(struct gs_holders *h, const struct gs_rec_gpu_info *r)
{
	size_t bytes = r->text_bytes[0];

	if (r->gpu >= MAX_GPUS || bytes >= HOLDERS_UUID_BYTES || bytes > r->head.bytes - sizeof(*r))
		return true; /* it is not named: its processes are passed over */
	if (!gs_vec_reserve(&h->gpus, &h->cap_gpus, (size_t)r->gpu + 1))
		return false;
	for (; h->n_gpus <= r->gpu; h->n_gpus++)
		h->gpus[h->n_gpus].uuid[0] = '\0';
	memcpy(h->gpus[r->gpu].uuid, r + 1, bytes);
	h->gpus[r->gpu].uuid[bytes] = '\0';
	return true;
}

static struct holders_measured *find_measured(struct gs_holders *h, uint32_t pid, const char *gpu)
{
	for (size_t i = 0; i < h->n_measured; i++)
		if (h->measured[i].pid == pid && strcmp(h->measured[i].gpu, gpu) == 0)
			return &h->measured[i];
	return NULL;
}

static bool take_process(struct gs_holders *h, const struct gs_rec_gpu_process *r)
{
	const char *gpu = r->gpu < h->n_gpus ? h->gpus[r->gpu].uuid : "";
	uint64_t bytes = r->used_bytes > 0 ? (uint64_t)r->used_bytes : 0;
	struct holders_measured *m;

	/* Bytes that are not known are negative; of those that ended, the memory is gone. */
	if (!*gpu || r->used_bytes < 0 || r->ended || r->gone)
		return true;
	m = find_measured(h, r->pid, gpu);
	if (!m) {
		if (h->n_measured == MAX_MEASURED ||
		    !gs_vec_reserve(&h->measured, &h->cap_measured, h->n_measured + 1))
			return false;
		m = &h->measured[h->n_measured++];
		*m = (struct holders_measured){.pid = r->pid, .first_bytes = bytes};
		memcpy(m->gpu, gpu, strlen(gpu) + 1);
	}
	m->there_ns = h->snapshot_ns;
	m->gone_ns = 0;
	if (r->kept && m->n_readings)
		return true;
	m->read_ns = h->snapshot_ns;
	m->n_readings++;
	m->last_bytes = bytes;
	if (bytes > m->peak_bytes)
		m->peak_bytes = bytes;
	return true;
}

/* Who was not in the snapshot that is over. */
static void end_snapshot(struct gs_holders *h)
{
	for (size_t i = 0; i < h->n_measured; i++)
		if (!h->measured[i].gone_ns && h->measured[i].there_ns < h->snapshot_ns)
			h->measured[i].gone_ns = h->snapshot_ns;
}

bool holders_measured_take(struct gs_holders *h, const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_HOST_SAMPLE: /* a new snapshot */
		end_snapshot(h);
		h->snapshot_ns = ((const struct gs_rec_host_sample *)r)->time_ns;
		h->n_gpus = 0;
		return true;
	case GS_REC_GPU_INFO:
		return take_gpu(h, (const void *)r);
	case GS_REC_GPU_PROCESS:
		return take_process(h, (const void *)r);
	default:
		return true;
	}
}

/* The newest process of that number; NULL: it is not of the trace. */
static const struct gs_rec_process *process_of(const struct gs_dict *dict, uint32_t pid)
{
	for (uint32_t id = gs_dict_max_process(dict); id > 0; id--) {
		const struct gs_rec_process *p = gs_dict_process(dict, id);

		if (p && p->pid == pid)
			return p;
	}
	return NULL;
}

/* What the ledger has of that GPU, by its UUID, or by all where the process uses one alone. */
static void find_live(const struct gs_memory_summary *memory, struct gs_memory_measured *m)
{
	const struct gs_memory_row *only = NULL;
	size_t n_devices = 0;

	for (size_t i = 0; i < memory->n_rows; i++) {
		const struct gs_memory_row *r = &memory->rows[i];

		if (r->pid != m->pid || r->sums.kind != GS_MEMORY_ON_DEVICE ||
		    r->sums.device == GS_MEMORY_DEVICE_ALL)
			continue;
		n_devices++;
		only = r;
		if (strcmp(r->gpu, m->gpu) == 0) {
			m->device = r->sums.device;
			m->live_bytes = r->sums.live_bytes;
			return;
		}
	}
	if (n_devices == 1 && !*only->gpu) {
		m->device = only->sums.device;
		m->live_bytes = only->sums.live_bytes;
	}
}

static int compare_measured(const void *a, const void *b)
{
	const struct gs_memory_measured *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strcmp(x->gpu, y->gpu);
}

int holders_measured_summarize(const struct gs_holders *h, const struct gs_dict *dict,
			       struct gs_summary *summary, struct gs_memory_summary *memory)
{
	memory->measured =
		gs_summary_alloc(summary, (h->n_measured + 1) * sizeof(*memory->measured));
	if (!memory->measured)
		return -ENOMEM;
	for (size_t i = 0; i < h->n_measured; i++) {
		const struct holders_measured *from = &h->measured[i];
		const struct gs_rec_process *p = process_of(dict, from->pid);
		struct gs_memory_measured *m = &memory->measured[memory->n_measured];
		/* Its end lies before the first snapshot without it. */
		uint64_t end_ns = from->gone_ns ? from->gone_ns : h->snapshot_ns;

		if (!p)
			continue;
		*m = (struct gs_memory_measured){
			.pid = from->pid,
			.comm = gs_summary_text(summary, gs_dict_string(dict, p->comm_str)),
			.gpu = gs_summary_text(summary, from->gpu),
			.device = GS_MEMORY_DEVICE_UNKNOWN,
			.is_late = !(p->head.flags & GS_PROCESS_BEGUN),
			.first_bytes = from->first_bytes,
			.last_bytes = from->last_bytes,
			.peak_bytes = from->peak_bytes,
			.n_readings = from->n_readings,
			.unread_ns = end_ns > from->read_ns ? end_ns - from->read_ns : 0};
		find_live(memory, m);
		memory->n_measured++;
	}
	qsort(memory->measured, memory->n_measured, sizeof(*memory->measured), compare_measured);
	return 0;
}
