/*
 * What GPUs did by their own times on a timeline: a track for each stream of each process, a slice for each kernel, copy,
 * fill and graph. Slices of a track nest by time in both formats: work of a stream that ran beside other work of it (some
 * kernels begin before the one ahead has ended) is on a second track of the same name.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/gpu_work/record.h"

#define LANES_MAX   4096u
#define BESIDE_MAX  4u         /* tracks of a stream */
#define FIRST_TRACK (1u << 24) /* beyond those of samples */

struct lane {
	uint64_t end_ns; /* of the work so far */
	bool is_named;
};

struct gs_export_works {
	struct gs_map
		lane_of; /* process, device, context and stream -> the first of BESIDE_MAX lanes */
	struct lane *lanes; /* owned */
	uint32_t n, room;
};

int gs_export_works_new(struct gs_export_works **ret_works)
{
	*ret_works = calloc(1, sizeof(**ret_works));
	if (!*ret_works)
		return -ENOMEM;
	(*ret_works)->lane_of = GS_MAP_INIT(LANES_MAX);
	return 0;
}

void gs_export_works_free(struct gs_export_works **works)
{
	if (!*works)
		return;
	gs_map_fini(&(*works)->lane_of);
	free((*works)->lanes);
	free(*works);
	*works = NULL;
}

/* The first lane of its stream where nothing runs at its start; NULL: there are too many streams. */
static struct lane *find_lane(struct gs_export_works *x, const struct gs_rec_gpu_work *r)
{
	const uint32_t key[] = {r->process, r->work.device, r->work.context, r->work.stream};
	uint64_t hash = gs_hash_bytes(key, sizeof(key)), first;

	if (!gs_map_get(&x->lane_of, hash, &first)) {
		first = x->n;
		if (x->n + BESIDE_MAX > LANES_MAX ||
		    !gs_vec_reserve(&x->lanes, &x->room, x->n + BESIDE_MAX) ||
		    gs_map_put(&x->lane_of, hash, first) < 0)
			return NULL;
		for (unsigned i = 0; i < BESIDE_MAX; i++)
			x->lanes[x->n++] = (struct lane){0};
	}
	for (unsigned i = 0; i < BESIDE_MAX; i++)
		if (x->lanes[first + i].end_ns <= r->work.start_ns)
			return &x->lanes[first + i];
	return &x->lanes[first + BESIDE_MAX - 1];
}

static const char *name_copy(uint32_t detail)
{
	switch (detail) {
	case GS_WORK_HOST_TO_DEVICE:
		return "copy HtoD";
	case GS_WORK_DEVICE_TO_HOST:
		return "copy DtoH";
	case GS_WORK_DEVICE_TO_DEVICE:
		return "copy DtoD";
	case GS_WORK_PEER_TO_PEER:
		return "copy between GPUs";
	}
	return "copy";
}

/* What it is called; NULL: it is no work of a GPU. */
static const char *name_work(const struct gs_export *e, const struct gs_rec_gpu_work *r)
{
	switch (r->work.what) {
	case GS_WORK_KERNEL:
		return r->short_str ? gs_dict_string(e->dict, r->short_str) : "kernel";
	case GS_WORK_COPY:
		return name_copy(r->work.detail);
	case GS_WORK_FILL:
		return "fill";
	case GS_WORK_GRAPH:
		return "graph";
	}
	return NULL;
}

/* What is known of it beside its name, and of the call that asked for it. */
static void describe_work(const struct gs_export *e, const struct gs_rec_gpu_work *r, char *text,
			  size_t bytes)
{
	const struct gs_rec_thread *t = gs_dict_thread(e->dict, r->thread);
	const struct gs_gpu_work *w = &r->work;
	size_t n;

	if (w->what == GS_WORK_KERNEL)
		snprintf(text, bytes,
			 "grid %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", block %" PRIu32 "x%" PRIu32
			 "x%" PRIu32 ", %" PRIu32 " B shared, %" PRIu32 " registers",
			 w->grid[0], w->grid[1], w->grid[2], w->block[0], w->block[1], w->block[2],
			 w->shared_bytes, w->registers);
	else if (w->what == GS_WORK_GRAPH)
		snprintf(text, bytes, "graph %" PRIu32, w->graph);
	else
		snprintf(text, bytes, "%" PRIu64 " bytes", (uint64_t)w->bytes);
	if (!t)
		return;
	n = strlen(text);
	snprintf(text + n, bytes - n, "; requested by thread %" PRIu32, t->tid);
	/* Who asked is known by CUPTI's number of the call, whatever the clocks of host and GPU say; how
	 * long before is not where one of them is off by more than that. */
	n = strlen(text);
	if (w->launch_ns && w->launch_ns <= w->start_ns)
		snprintf(text + n, bytes - n, ", %.3f us before",
			 (double)(w->start_ns - w->launch_ns) / 1000);
}

void gs_export_works_take(struct gs_export *e, const struct gs_rec_gpu_work *r)
{
	const char *what = name_work(e, r);
	char name[64], detail[192];
	struct lane *lane;

	if (!what || !r->work.start_ns || r->work.end_ns < r->work.start_ns)
		return;
	lane = find_lane(e->works, r);
	if (!lane)
		return;
	snprintf(name, sizeof(name), "GPU %" PRIu32 " stream %" PRIu32 " (device times)",
		 r->work.device, r->work.stream);
	describe_work(e, r, detail, sizeof(detail));
	gs_export_write_gpu_point(e,
				  &(struct gs_export_gpu_point){
					  .kind = GS_EXPORT_GPU_SPAN,
					  .track = FIRST_TRACK + (uint32_t)(lane - e->works->lanes),
					  .is_new_track = !lane->is_named,
					  .name = name,
					  .process = gs_dict_process(e->dict, r->process),
					  .time_ns = r->work.start_ns,
					  .end_ns = r->work.end_ns,
					  .text = what,
					  .detail = detail});
	lane->is_named = true;
	if (r->work.end_ns > lane->end_ns)
		lane->end_ns = r->work.end_ns;
	gs_export_see_time(e, r->work.end_ns);
}
