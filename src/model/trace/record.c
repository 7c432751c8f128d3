#include "model/trace/record.h"
#include "model/trace/record_stack.h"

#include <errno.h>
#include <string.h>

#include "model/trace/record_hang.h"
#include "model/trace/record_kernel.h"
#include "model/trace/record_mark.h"
#include "model/trace/record_memory.h"
#include "model/trace/record_mpi.h"
#include "model/trace/record_account.h"
#include "model/trace/record_node.h"

#define STRING_MAX_BYTES 4096

static const uint16_t least_bytes[GS_REC_COUNT] = {
	[GS_REC_SESSION] = sizeof(struct gs_rec_session),
	[GS_REC_STRING] = sizeof(struct gs_rec_string),
	[GS_REC_PROCESS] = sizeof(struct gs_rec_process),
	[GS_REC_THREAD] = sizeof(struct gs_rec_thread),
	[GS_REC_FUNCTION] = sizeof(struct gs_rec_function),
	[GS_REC_CALL] = sizeof(struct gs_rec_call),
	[GS_REC_STATS] = sizeof(struct gs_rec_stats),
	[GS_REC_LOSS] = sizeof(struct gs_rec_loss),
	[GS_REC_ATTACH] = sizeof(struct gs_rec_attach),
	[GS_REC_COMM] = sizeof(struct gs_rec_comm),
	[GS_REC_COUNTER] = sizeof(struct gs_rec_counter),
	[GS_REC_END] = sizeof(struct gs_rec_end),
	[GS_REC_FRAME] = sizeof(struct gs_rec_frame),
	[GS_REC_STACK] = sizeof(struct gs_rec_stack),
	[GS_REC_SAMPLE] = sizeof(struct gs_rec_sample),
	[GS_REC_WAIT] = sizeof(struct gs_rec_wait),
	[GS_REC_VALUES] = sizeof(struct gs_rec_values),
	[GS_REC_USE] = sizeof(struct gs_rec_use),
	[GS_REC_GPU_INFO] = sizeof(struct gs_rec_gpu_info),
	[GS_REC_GPU_SAMPLE] = sizeof(struct gs_rec_gpu_sample),
	[GS_REC_GPU_PROCESS] = sizeof(struct gs_rec_gpu_process),
	[GS_REC_GPU_EVENT] = sizeof(struct gs_rec_gpu_event),
	[GS_REC_HOST_SAMPLE] = sizeof(struct gs_rec_host_sample),
	[GS_REC_HOST_PROCESS] = sizeof(struct gs_rec_host_process),
	[GS_REC_AGGREGATE] = sizeof(struct gs_rec_aggregate),
	[GS_REC_ALLOCATOR] = sizeof(struct gs_rec_allocator),
	[GS_REC_LEAK] = sizeof(struct gs_rec_leak),
	[GS_REC_HOST_JOB] = sizeof(struct gs_rec_host_job),
	[GS_REC_HOST_TIMES] = sizeof(struct gs_rec_host_times),
	[GS_REC_MPI] = sizeof(struct gs_rec_mpi),
	[GS_REC_ROLLUP] = 24, /* model/node/rollup.h */
	[GS_REC_ACCOUNT] = sizeof(struct gs_rec_account),
	[GS_REC_KERNEL] = sizeof(struct gs_rec_kernel),
	[GS_REC_MARK] = sizeof(struct gs_rec_mark),
	[GS_REC_MEMORY] = sizeof(struct gs_rec_memory),
	[GS_REC_MEMORY_SITE] = sizeof(struct gs_rec_memory_site),
	[GS_REC_GPU_WORK] = 128,    /* model/gpu_work/record.h */
	[GS_REC_GPU_WINDOW] = 56,   /* likewise */
	[GS_REC_NCCL_COMM] = 64,    /* model/nccl/record.h */
	[GS_REC_NCCL_OP] = 112,     /* likewise */
	[GS_REC_NCCL_CHANNEL] = 72, /* likewise */
	[GS_REC_HANG] = sizeof(struct gs_rec_hang),
	[GS_REC_RANK] = 184,      /* model/nccl/rank.h */
	[GS_REC_RANK_STAY] = 48,  /* likewise */
	[GS_REC_RANK_STEPS] = 80, /* likewise */
};

void *gs_record_put(struct gs_buf *buf, enum gs_record_kind kind, size_t struct_bytes,
		    size_t tail_bytes)
{
	size_t bytes = (struct_bytes + tail_bytes + 7) & ~(size_t)7;
	struct gs_record *r;

	if (bytes > GS_RECORD_MAX_BYTES)
		return NULL;
	r = gs_buf_extend(buf, bytes);
	if (!r)
		return NULL;
	r->bytes = (uint16_t)bytes;
	r->kind = (uint16_t)kind;
	return r;
}

int gs_record_put_string(struct gs_buf *buf, uint32_t id, const char *text, size_t text_bytes)
{
	struct gs_rec_string *s;

	if (text_bytes > STRING_MAX_BYTES)
		text_bytes = STRING_MAX_BYTES;
	s = gs_record_put(buf, GS_REC_STRING, sizeof(*s), text_bytes);
	if (!s)
		return -ENOBUFS;
	s->id = id;
	s->text_bytes = (uint32_t)text_bytes;
	memcpy(s->text, text, text_bytes);
	return 0;
}

/* Does what stands after the struct fit, n elements of items? */
#define FITS(type, n, items)                                                                       \
	(((const struct type *)r)->n <=                                                            \
	 (r->bytes - sizeof(struct type)) / sizeof(((const struct type *)r)->items[0]))

static bool tail_fits(const struct gs_record *r)
{
	const struct gs_rec_account *a = (const void *)r;

	switch (r->kind) {
	case GS_REC_STRING:
		return FITS(gs_rec_string, text_bytes, text);
	case GS_REC_STATS:
		return FITS(gs_rec_stats, n_buckets, buckets);
	case GS_REC_STACK:
		return FITS(gs_rec_stack, n_frames, frames);
	case GS_REC_VALUES:
		return FITS(gs_rec_values, n_values, values);
	case GS_REC_ACCOUNT:
		return (size_t)a->n_states * a->n_insides <=
		       (r->bytes - sizeof(*a)) / sizeof(a->ns[0]);
	case GS_REC_HANG:
		return FITS(gs_rec_hang, n_listed, ranks);
	case GS_REC_AGGREGATE:
		return FITS(gs_rec_aggregate, n_buckets, buckets);
	default:
		return true;
	}
}

const struct gs_record *gs_record_next(const struct gs_batch *batch, size_t *offset)
{
	const struct gs_record *r;
	size_t left = batch->bytes - *offset;

	if (*offset > batch->bytes || left < sizeof(*r))
		return NULL;
	r = (const void *)((const char *)batch->data + *offset);
	if (r->bytes < sizeof(*r) || r->bytes % 8 || r->bytes > left)
		return NULL;
	if (r->kind < GS_REC_COUNT && (r->bytes < least_bytes[r->kind] || !tail_fits(r)))
		return NULL;
	*offset += r->bytes;
	return r;
}
