/*
 * What NCCL says of its operations on a timeline: a track for each communicator of each process, with a slice for each
 * operation from the begin to the end of its handing over to the GPU. Those of a group are all begun before the first
 * ends, and slices of a track nest by time in both formats: each begins no earlier than the one before has ended.
 */
#include "output/trace_export/export_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/nccl/record.h"

#define LANES_MAX   16384u
#define FIRST_TRACK (1u << 25) /* beyond those of what GPUs did */

struct lane {
	uint64_t end_ns; /* of the operation before */
	uint32_t name_str;
	int32_t n_ranks; /* 0 not known */
	bool is_named;
};

struct gs_export_nccl {
	struct gs_map lane_of; /* process and number of the communicator -> index */
	struct lane *lanes;    /* owned */
	uint32_t n, room;
};

int gs_export_nccl_new(struct gs_export_nccl **ret_nccl)
{
	*ret_nccl = calloc(1, sizeof(**ret_nccl));
	if (!*ret_nccl)
		return -ENOMEM;
	(*ret_nccl)->lane_of = GS_MAP_INIT(LANES_MAX);
	return 0;
}

void gs_export_nccl_free(struct gs_export_nccl **nccl)
{
	if (!*nccl)
		return;
	gs_map_fini(&(*nccl)->lane_of);
	free((*nccl)->lanes);
	free(*nccl);
	*nccl = NULL;
}

/* NULL: there are too many. */
static struct lane *find_lane(struct gs_export_nccl *x, uint32_t process, uint32_t comm)
{
	uint64_t key = (uint64_t)process << 32 | comm, at;

	if (gs_map_get(&x->lane_of, key, &at))
		return &x->lanes[at];
	if (x->n == LANES_MAX || !gs_vec_reserve(&x->lanes, &x->room, x->n + 1) ||
	    gs_map_put(&x->lane_of, key, x->n) < 0)
		return NULL;
	x->lanes[x->n] = (struct lane){0};
	return &x->lanes[x->n++];
}

static void name_track(const struct gs_export *e, const struct lane *lane,
		       const struct gs_rec_nccl_op *op, char *out, size_t bytes)
{
	const char *name = gs_dict_string(e->dict, lane->name_str);
	char of[24] = "";

	if (lane->n_ranks)
		snprintf(of, sizeof(of), " of %" PRId32, lane->n_ranks);
	snprintf(out, bytes, "NCCL communicator %" PRIu32 "%s%.64s, rank %" PRId32 "%s", op->comm,
		 name[0] ? " " : "", name, op->rank, of);
}

/* "RING LL128, 8 channels, 4000000 bytes, number 17" */
static void describe_op(const struct gs_export *e, const struct gs_rec_nccl_op *op, char *out,
			size_t bytes)
{
	const char *algorithm = gs_dict_string(e->dict, op->algorithm_str);
	char channels[32] = "", size[40] = "", which[48];

	if (op->channels)
		snprintf(channels, sizeof(channels), "%u channels, ", op->channels);
	if (op->bytes != GS_NCCL_BYTES_UNKNOWN)
		snprintf(size, sizeof(size), "%" PRIu64 " bytes, ", op->bytes);
	if (op->what == GS_NCCL_TRANSFER)
		snprintf(which, sizeof(which), "rank %" PRId32, op->peer);
	else
		snprintf(which, sizeof(which), "number %" PRIu64, op->seq);
	snprintf(out, bytes, "%.32s %.16s%s%s%s%s", algorithm,
		 gs_dict_string(e->dict, op->protocol_str), algorithm[0] ? ", " : "", channels,
		 size, which);
}

static void take_op(struct gs_export *e, const struct gs_rec_nccl_op *op)
{
	struct lane *lane = find_lane(e->nccl, op->process, op->comm);
	char name[128], detail[192];
	uint64_t start_ns, end_ns;

	if (!lane || op->end_ns < op->start_ns)
		return;
	start_ns = op->start_ns > lane->end_ns ? op->start_ns : lane->end_ns;
	end_ns = op->end_ns > start_ns ? op->end_ns : start_ns;
	name_track(e, lane, op, name, sizeof(name));
	describe_op(e, op, detail, sizeof(detail));
	gs_export_write_gpu_point(
		e,
		&(struct gs_export_gpu_point){
			.kind = GS_EXPORT_GPU_SPAN,
			.track = FIRST_TRACK + (uint32_t)(lane - e->nccl->lanes),
			.is_new_track = !lane->is_named,
			.name = name,
			.process = gs_dict_process(e->dict, op->process),
			.time_ns = start_ns,
			.end_ns = end_ns,
			.text = op->func_str ? gs_dict_string(e->dict, op->func_str) : "operation",
			.detail = detail});
	lane->is_named = true;
	lane->end_ns = end_ns;
	gs_export_see_time(e, end_ns);
}

void gs_export_nccl_take(struct gs_export *e, const struct gs_record *r)
{
	const struct gs_rec_nccl_comm *c = (const void *)r;
	struct lane *lane;

	if (r->kind == GS_REC_NCCL_OP) {
		take_op(e, (const void *)r);
		return;
	}
	if (r->kind != GS_REC_NCCL_COMM || c->what == GS_NCCL_COMM_ENDED)
		return;
	lane = find_lane(e->nccl, c->process, c->number);
	if (!lane)
		return;
	lane->name_str = c->name_str;
	lane->n_ranks = c->n_ranks;
}
