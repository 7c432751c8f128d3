/*
 * Processes on a GPU: which, how much memory, which shares of the time since the reading before,
 * and those that came and went in between (accounting, where an administrator has switched it on).
 *
 * Shares: the driver keeps a row for each process that did something, with the time of its last
 * reading. Asked for rows newer than the newest seen, it answers NOT_FOUND when no process did
 * anything: then all shares are 0. Rows with more than 100 %, of no process of the list, or older
 * than what was asked for are garbage that drivers do return (nvtop issue 110) and are dropped.
 * The driver takes its readings up to a second apart, so it is not asked more often than that: an
 * empty answer would be taken for an idle process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/gpu/gpu_int.h"

#define SHARES_APART_NS 950000000ull
#define SECOND_US       1000000ull

struct gs_gpu_process *gs_gpu_rows_add(struct gs_gpu_rows *rows, uint32_t gpu, uint32_t pid)
{
	if (!gs_vec_reserve(&rows->item, &rows->room, rows->n + 1))
		return NULL;
	rows->item[rows->n] = (struct gs_gpu_process){
		.gpu = gpu,
		.pid = pid,
		.uid = UINT32_MAX,
		.used_bytes = -1,
		.sm_ratio = -1,
		.mem_ratio = -1,
		.enc_ratio = -1,
		.dec_ratio = -1,
		.jpg_ratio = -1,
		.ofa_ratio = -1,
	};
	return &rows->item[rows->n++];
}

static struct gs_gpu_process *find_process(struct gs_gpu_rows *rows, unsigned first, uint32_t pid)
{
	for (unsigned i = first; i < rows->n; i++)
		if (rows->item[i].pid == pid)
			return &rows->item[i];
	return NULL;
}

/* Rows of the oldest calls, spread to the newer form; from the end, in place. */
static void widen_rows(struct nvml_process *rows, unsigned n)
{
	const char *old = (const char *)rows;

	for (unsigned i = n; i-- > 0;) {
		struct nvml_process_v1 v1;

		memcpy(&v1, old + i * sizeof(v1), sizeof(v1));
		rows[i] = (struct nvml_process){.pid = v1.pid, .used_bytes = v1.used_bytes};
	}
}

/* One kind of list. *ret_n rows in nv->process_room. */
#define LIST(kind)                                                                                 \
	static nvml_return list_##kind(struct gs_nvml *nv, struct gs_nvml_device *dev,             \
				       unsigned *ret_n)                                            \
	{                                                                                          \
		nvml_return r = NVML_FUNCTION_NOT_FOUND;                                           \
                                                                                                   \
		*ret_n = GS_GPU_PROCESS_MAX;                                                       \
		if (!nv->odd_v3)                                                                   \
			r = NVML_OF(nv, dev, kind##_v3, dev->handle, ret_n, nv->process_room);     \
		if (r == NVML_FUNCTION_NOT_FOUND || r == NVML_NOT_SUPPORTED) {                     \
			*ret_n = GS_GPU_PROCESS_MAX;                                               \
			r = NVML_OF(nv, dev, kind##_v2, dev->handle, ret_n, nv->process_room);     \
		}                                                                                  \
		if (r == NVML_FUNCTION_NOT_FOUND || r == NVML_NOT_SUPPORTED) {                     \
			*ret_n = GS_GPU_PROCESS_MAX;                                               \
			r = NVML_OF(nv, dev, kind##_v1, dev->handle, ret_n,                        \
				    (struct nvml_process_v1 *)(void *)nv->process_room);           \
			if (r == NVML_OK)                                                          \
				widen_rows(nv->process_room, *ret_n);                              \
		}                                                                                  \
		if (*ret_n > GS_GPU_PROCESS_MAX)                                                   \
			*ret_n = GS_GPU_PROCESS_MAX;                                               \
		return r;                                                                          \
	}

LIST(compute)
LIST(graphics)
LIST(mps)

static int add_list(struct gs_nvml *nv, nvml_return r, unsigned n, uint32_t kind, uint32_t gpu,
		    unsigned first, struct gs_gpu_rows *rows)
{
	if (r != NVML_OK)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		const struct nvml_process *from = &nv->process_room[i];
		struct gs_gpu_process *p;

		if (!from->pid || from->pid > INT32_MAX)
			continue;
		p = find_process(rows, first, from->pid);
		if (!p)
			p = gs_gpu_rows_add(rows, gpu, from->pid);
		if (!p)
			return -ENOMEM;
		p->kind |= kind;
		if (from->used_bytes != NVML_VALUE_UNKNOWN_64 &&
		    (int64_t)from->used_bytes > p->used_bytes)
			p->used_bytes = (int64_t)from->used_bytes;
	}
	return 0;
}

/* All rows newer than the newest seen into dev->util. NOT_FOUND: there are none. */
static nvml_return ask_shares(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_processes_util u = {.version = NVML_VERSION_OF(struct nvml_processes_util, 1),
					.last_seen_us = dev->util_last_us};
	unsigned n = 0;
	nvml_return r = NVML_OF(nv, dev, processes_util, dev->handle, &u);

	dev->n_util = 0;
	if (r == NVML_INSUFFICIENT_SIZE || (r == NVML_OK && u.n)) {
		u.n = u.n && u.n < GS_GPU_PROCESS_MAX ? u.n * 2 : GS_GPU_PROCESS_MAX;
		gs_free_p(&dev->util);
		dev->util = u.rows = calloc(u.n, sizeof(*u.rows));
		if (!u.rows)
			return NVML_UNKNOWN;
		u.last_seen_us = dev->util_last_us;
		n = u.n;
		r = NVML_OF(nv, dev, processes_util, dev->handle, &u);
		dev->n_util = r == NVML_OK ? (u.n < n ? u.n : n) : 0;
		return r;
	}
	/* The older call; without JPEG and OFA. */
	if (gs_nvml_why(r) == GS_GPU_REASON_NOT_SUPPORTED) {
		GS_FREE struct nvml_process_sample *rows = NULL;

		n = 0;
		r = NVML_OF(nv, dev, process_util, dev->handle, NULL, &n, dev->util_last_us);
		if (r != NVML_INSUFFICIENT_SIZE)
			return r == NVML_OK ? NVML_NOT_FOUND : r;
		n = n && n < GS_GPU_PROCESS_MAX ? n * 2 : GS_GPU_PROCESS_MAX;
		rows = calloc(n, sizeof(*rows));
		gs_free_p(&dev->util);
		dev->util = calloc(n, sizeof(*dev->util));
		if (!rows || !dev->util)
			return NVML_UNKNOWN;
		unsigned room = n;

		r = NVML_OF(nv, dev, process_util, dev->handle, rows, &n, dev->util_last_us);
		if (r != NVML_OK)
			return r;
		dev->n_util = n < room ? n : room;
		for (unsigned i = 0; i < dev->n_util; i++)
			dev->util[i] = (struct nvml_process_util){
				.time_us = rows[i].time_us,
				.pid = rows[i].pid,
				.sm = rows[i].sm,
				.mem = rows[i].mem,
				.enc = rows[i].enc,
				.dec = rows[i].dec,
				.jpg = UINT32_MAX,
				.ofa = UINT32_MAX,
			};
	}
	return r;
}

/* What drivers answer that cannot be true. A row of a time to come would also hide all rows until
 * then. */
static bool is_garbage(const struct nvml_process_util *row, uint64_t after_us, uint64_t now_us)
{
	return row->time_us <= after_us || row->time_us > now_us + SECOND_US || row->sm > 100 ||
	       row->mem > 100 || row->enc > 100 || row->dec > 100;
}

static void refresh_shares(struct gs_nvml *nv, struct gs_nvml_device *dev, uint64_t now_ns)
{
	uint64_t after_us, newest_us, now_us;
	unsigned kept = 0;
	nvml_return r;

	if (dev->util_time_ns && now_ns - dev->util_time_ns < SHARES_APART_NS)
		return;
	dev->util_time_ns = now_ns;
	now_us = gs_clock_wall_ns() / 1000;
	/* The first time: of the last second, not the mean of all that the driver still has. So too
	 * when the clock was set back, or nothing would be newer for as long. */
	if (!dev->util_last_us || dev->util_last_us > now_us + SECOND_US)
		dev->util_last_us = now_us - SECOND_US;
	after_us = newest_us = dev->util_last_us;
	r = ask_shares(nv, dev);
	now_us = gs_clock_wall_ns() / 1000;
	dev->util_why = (uint8_t)(r == NVML_NOT_FOUND ? GS_GPU_REASON_OK : gs_nvml_why(r));
	for (unsigned i = 0; i < dev->n_util; i++) {
		if (is_garbage(&dev->util[i], after_us, now_us))
			continue;
		if (dev->util[i].time_us > newest_us)
			newest_us = dev->util[i].time_us;
		dev->util[kept++] = dev->util[i];
	}
	dev->n_util = kept;
	dev->util_last_us = newest_us;
}

/* A share from percent; -1: more than all of it, so it is not known. */
static double share_of(unsigned pct)
{
	return pct <= 100 ? pct / 100.0 : -1;
}

static void put_shares(const struct gs_nvml_device *dev, struct gs_gpu_process *p)
{
	const struct nvml_process_util *row = NULL;
	bool engines = !gs_nvml_skip(dev, NVML_CALL_processes_util);

	if (dev->util_why != GS_GPU_REASON_OK)
		return;
	for (unsigned i = 0; i < dev->n_util; i++)
		if (dev->util[i].pid == p->pid && (!row || dev->util[i].time_us > row->time_us))
			row = &dev->util[i];
	/* Without a row it did nothing. */
	p->sm_ratio = row ? share_of(row->sm) : 0;
	p->mem_ratio = row ? share_of(row->mem) : 0;
	p->enc_ratio = row ? share_of(row->enc) : 0;
	p->dec_ratio = row ? share_of(row->dec) : 0;
	if (!engines)
		return;
	p->jpg_ratio = row ? share_of(row->jpg) : 0;
	p->ofa_ratio = row ? share_of(row->ofa) : 0;
}

/* Processes of the driver's record that have ended and were not seen running. */
static int add_ended(struct gs_nvml *nv, struct gs_nvml_device *dev, uint32_t gpu, unsigned first,
		     struct gs_gpu_rows *rows)
{
	unsigned mode = 0, n = GS_GPU_PROCESS_MAX, last = rows->n;
	GS_FREE unsigned *pids = NULL;

	if (NVML_OF(nv, dev, accounting_mode, dev->handle, &mode) != NVML_OK || !mode) {
		atomic_store(&nv->watch->accounting_off, true);
		return 0;
	}
	pids = calloc(n, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	if (NVML_OF(nv, dev, accounting_pids, dev->handle, &n, pids) != NVML_OK)
		return 0;
	for (unsigned i = 0; i < n && i < GS_GPU_PROCESS_MAX; i++) {
		struct nvml_accounting stats = {0};
		struct gs_gpu_process *p;
		uint64_t start_us = 0;

		if (find_process(rows, first, pids[i]))
			continue;
		if (NVML(nv, accounting_stats, dev->handle, pids[i], &stats) != NVML_OK ||
		    stats.is_running)
			continue;
		/* The same pid with another start is another process. */
		if (gs_map_get(&dev->accounted, pids[i], &start_us) && start_us == stats.start_us)
			continue;
		gs_map_put(&dev->accounted, pids[i], stats.start_us);
		/* What ended before the first reading is history. */
		if (!dev->accounting_started)
			continue;
		p = gs_gpu_rows_add(rows, gpu, pids[i]);
		if (!p)
			return -ENOMEM;
		p->ended = 1;
		p->kind = GS_GPU_PROCESS_COMPUTE;
		if (stats.max_memory_bytes != NVML_VALUE_UNKNOWN_64)
			p->used_bytes = (int64_t)stats.max_memory_bytes;
		p->sm_ratio = share_of(stats.gpu_pct);
		p->mem_ratio = share_of(stats.memory_pct);
	}
	/* Those that were seen running are not reported when they end. */
	for (unsigned i = first; i < last; i++) {
		struct nvml_accounting stats = {0};
		uint64_t start_us;

		if (!gs_map_get(&dev->accounted, rows->item[i].pid, &start_us) &&
		    NVML(nv, accounting_stats, dev->handle, rows->item[i].pid, &stats) == NVML_OK)
			gs_map_put(&dev->accounted, rows->item[i].pid, stats.start_us);
	}
	dev->accounting_started = true;
	return 0;
}

/* All processes of the device, as lists have them; rows from first on are its. */
static int list_all(struct gs_nvml *nv, struct gs_nvml_device *dev, uint32_t gpu, unsigned first,
		    struct gs_gpu_rows *rows)
{
	struct gs_nvml_meter meter;
	nvml_return r;
	unsigned n;
	int e;

	gs_nvml_part_begin(&meter);
	r = list_compute(nv, dev, &n);
	e = add_list(nv, r, n, GS_GPU_PROCESS_COMPUTE, gpu, first, rows);
	if (e == 0) {
		r = list_graphics(nv, dev, &n);
		e = add_list(nv, r, n, GS_GPU_PROCESS_GRAPHICS, gpu, first, rows);
	}
	if (e == 0) {
		r = list_mps(nv, dev, &n);
		e = add_list(nv, r, n, GS_GPU_PROCESS_MPS, gpu, first, rows);
	}
	if (e == 0 && nv->options->accounting && !dev->parent)
		e = add_ended(nv, dev, gpu, first, rows);
	gs_nvml_part_end(nv, dev, GS_GPU_PART_PROCESSES, 0, &meter);
	return e;
}

/* For the turns in which the lists are not due. What ended is reported once. */
static int keep_processes(struct gs_nvml_device *dev, unsigned first,
			  const struct gs_gpu_rows *rows)
{
	gs_free_p(&dev->kept);
	dev->n_kept = 0;
	if (rows->n == first)
		return 0;
	dev->kept = calloc(rows->n - first, sizeof(*dev->kept));
	if (!dev->kept)
		return -ENOMEM;
	for (unsigned i = first; i < rows->n; i++)
		if (!rows->item[i].ended)
			dev->kept[dev->n_kept++] = rows->item[i];
	return 0;
}

static int add_kept(const struct gs_nvml_device *dev, uint32_t gpu, struct gs_gpu_rows *rows)
{
	for (unsigned i = 0; i < dev->n_kept; i++) {
		struct gs_gpu_process *p = gs_gpu_rows_add(rows, gpu, dev->kept[i].pid);

		if (!p)
			return -ENOMEM;
		p->kind = dev->kept[i].kind;
		p->used_bytes = dev->kept[i].used_bytes;
		p->kept = 1;
	}
	return 0;
}

int gs_nvml_processes(struct gs_nvml *nv, struct gs_nvml_device *dev, uint32_t gpu, uint64_t now_ns,
		      struct gs_gpu_rows *rows)
{
	unsigned first = rows->n, asked = GS_GPU_READ_PROCESSES;
	bool budget = nv->options->budget > 0;
	struct gs_nvml_meter meter;
	int e;

	/* Processes on a GPU in MIG mode are those on its instances. */
	if (!dev->handle || dev->info.mig_enabled || dev->sample.lost)
		return 0;
	if (!nv->process_room)
		nv->process_room = calloc(GS_GPU_PROCESS_MAX, sizeof(*nv->process_room));
	if (!nv->process_room)
		return -ENOMEM;
	if (gs_nvml_part_due(nv, dev, GS_GPU_PART_PROCESSES, asked, true, now_ns)) {
		e = list_all(nv, dev, gpu, first, rows);
		if (e == 0 && budget)
			e = keep_processes(dev, first, rows);
	} else {
		e = add_kept(dev, gpu, rows);
	}
	if (e < 0 || dev->parent)
		return e;
	/* Without processes there are no shares. */
	if ((rows->n > first || !budget) &&
	    gs_nvml_part_due(nv, dev, GS_GPU_PART_SHARES, asked, true, now_ns)) {
		gs_nvml_part_begin(&meter);
		refresh_shares(nv, dev, now_ns);
		gs_nvml_part_end(nv, dev, GS_GPU_PART_SHARES, 0, &meter);
	}
	for (unsigned i = first; i < rows->n; i++)
		if (!rows->item[i].ended)
			put_shares(dev, &rows->item[i]);
	return 0;
}
