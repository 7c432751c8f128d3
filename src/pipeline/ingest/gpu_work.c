/* What GPUs did, as processes report it from inside of themselves. */
#include <string.h>

#include "core/demangle/demangle.h"
#include "pipeline/ingest/ingest_int.h"
#include "sources/cubin/short_name.h"

#define NAMES_MAX      65536u /* of kernels, of all processes */
#define MAX_NAME_BYTES 4096

void gs_ingest_gpu_init(struct gs_ingest *f)
{
	f->gpu_names = GS_MAP_INIT(NAMES_MAX);
}

void gs_ingest_gpu_fini(struct gs_ingest *f)
{
	gs_map_fini(&f->gpu_names);
}

void gs_ingest_gpu_name(struct gs_ingest *f, uint32_t pid, uint32_t name, const char *symbol)
{
	char text[MAX_NAME_BYTES], narrow[GS_KERNEL_SHORT_BYTES];
	uint64_t ids;

	if (f->ended)
		return;
	if (!gs_demangle_symbol(symbol, text, sizeof(text)))
		snprintf(text, sizeof(text), "%s", symbol);
	gs_kernel_short_name(text, narrow);
	ids = gs_ingest_intern(f, text);
	ids |= (uint64_t)gs_ingest_intern(f, narrow) << 32;
	gs_map_put(&f->gpu_names, (uint64_t)pid << 32 | name, ids);
	gs_ingest_settle(f);
}

void gs_ingest_gpu_work(struct gs_ingest *f, uint32_t pid, uint32_t name,
			const struct gs_gpu_work *work)
{
	uint32_t process = f->ended ? 0 : gs_ingest_find_process(f, pid), thread = 0;
	const uint64_t more = (uint64_t)f->boot_minus_mono_ns;
	struct gs_rec_gpu_work *r;
	uint64_t ids = 0;

	if (!process)
		return;
	if (work->tid)
		thread = gs_ingest_thread(f, pid, work->tid);
	if (name)
		gs_map_get(&f->gpu_names, (uint64_t)pid << 32 | name, &ids);
	r = gs_ingest_put(f, GS_REC_GPU_WORK, sizeof(*r), 0);
	r->process = process;
	r->thread = thread;
	r->name_str = (uint32_t)ids;
	r->short_str = (uint32_t)(ids >> 32);
	r->work = *work;
	r->work.start_ns += r->work.start_ns ? more : 0;
	r->work.end_ns += r->work.end_ns ? more : 0;
	r->work.launch_ns += r->work.launch_ns ? more : 0;
	gs_ingest_settle(f);
}

void gs_ingest_gpu_window(struct gs_ingest *f, uint32_t pid, const struct gs_rec_gpu_window *w,
			  const char *text)
{
	uint32_t process = f->ended ? 0 : gs_ingest_find_process(f, pid), text_str;
	struct gs_rec_gpu_window *r;

	if (!process)
		return;
	text_str = gs_ingest_intern(f, text);
	r = gs_ingest_put(f, GS_REC_GPU_WINDOW, sizeof(*r), 0);
	r->process = process;
	r->what = w->what;
	r->time_ns = w->time_ns + (uint64_t)f->boot_minus_mono_ns;
	r->version = w->version;
	r->text_str = text_str;
	r->dropped = w->dropped;
	r->discarded = w->discarded;
	r->bad = w->bad;
	gs_ingest_settle(f);
}
