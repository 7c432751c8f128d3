/*
 * The side of gs_keep that takes records in.
 *
 *    push ──► raw: whole records ──zstd──► chunk ─► chunk ─► chunk (the newest)
 *                                            │
 *                                            └── goes when it is too old, or memory is short: its definitions
 *                                                go to defs and more, its calls are only counted
 *
 * defs and more are therefore the definitions as of the begin of the oldest chunk, however often things were defined
 * again since: a process that ran another program keeps its name for the calls that it made before.
 */
#include "pipeline/recording/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/gpu_work/record.h"
#include "model/nccl/record.h"
#include "model/nccl/rank.h"
#include "model/trace/record_account.h"
#include "model/trace/record_hang.h"
#include "model/trace/record_kernel.h"
#include "model/trace/record_mark.h"
#include "model/trace/record_node.h"
#include "model/trace/record_stack.h"
#include "pipeline/recording/keep_int.h"

/* A file may end a little before the newest record. */
#define SLACK_NS 1000000000ull

/* --- what records are --- */

bool keep_time_of(const struct gs_record *r, uint64_t *ret_ns)
{
	switch (r->kind) {
	case GS_REC_CALL: {
		const struct gs_rec_call *c = (const void *)r;

		*ret_ns = c->start_ns + c->dur_ns;
		return true;
	}
	case GS_REC_MARK: {
		const struct gs_rec_mark *m = (const void *)r;

		*ret_ns = m->time_ns + m->dur_ns;
		return true;
	}
	case GS_REC_GPU_WORK: {
		const struct gs_rec_gpu_work *w = (const void *)r;

		*ret_ns = w->work.end_ns;
		return w->work.start_ns != 0;
	}
	case GS_REC_STATS:
		*ret_ns = ((const struct gs_rec_stats *)r)->time_ns;
		return true;
	case GS_REC_COUNTER:
		*ret_ns = ((const struct gs_rec_counter *)r)->time_ns;
		return true;
	case GS_REC_SAMPLE:
		*ret_ns = ((const struct gs_rec_sample *)r)->time_ns;
		return true;
	case GS_REC_WAIT:
		*ret_ns = ((const struct gs_rec_wait *)r)->time_ns;
		return true;
	case GS_REC_USE:
		*ret_ns = ((const struct gs_rec_use *)r)->time_ns;
		return true;
	case GS_REC_AGGREGATE:
		*ret_ns = ((const struct gs_rec_aggregate *)r)->time_ns;
		return true;
	case GS_REC_ACCOUNT:
		*ret_ns = ((const struct gs_rec_account *)r)->time_ns;
		return true;
	case GS_REC_HOST_SAMPLE:
		*ret_ns = ((const struct gs_rec_host_sample *)r)->time_ns;
		return true;
	case GS_REC_GPU_WINDOW:
		*ret_ns = ((const struct gs_rec_gpu_window *)r)->time_ns;
		return true;
	case GS_REC_NCCL_OP:
		*ret_ns = ((const struct gs_rec_nccl_op *)r)->end_ns;
		return true;
	case GS_REC_NCCL_CHANNEL:
		*ret_ns = ((const struct gs_rec_nccl_channel *)r)->end_ns;
		return true;
	case GS_REC_RANK:
		*ret_ns = ((const struct gs_rec_rank *)r)->time_ns;
		return true;
	case GS_REC_RANK_STAY:
		*ret_ns = ((const struct gs_rec_rank_stay *)r)->left_ns;
		return true;
	case GS_REC_RANK_STEPS:
		*ret_ns = ((const struct gs_rec_rank_steps *)r)->time_ns;
		return true;
	default:
		return false;
	}
}

struct gs_buf *keep_more_place(struct gs_recording_defs *more, const struct gs_record *r,
			       uint64_t *ret_key)
{
	struct gs_buf *others = &more->arrays[KEEP_DEFS_OTHERS];
	uint64_t kind = (uint64_t)r->kind << 32, name[3] = {r->kind};

	switch (r->kind) {
	case GS_REC_FRAME:
		*ret_key = kind | ((const struct gs_rec_frame *)r)->id;
		return &more->arrays[KEEP_DEFS_FRAMES];
	case GS_REC_STACK:
		*ret_key = kind | ((const struct gs_rec_stack *)r)->id;
		return others;
	case GS_REC_HANG:
		*ret_key = kind | ((const struct gs_rec_hang *)r)->number;
		return others;
	case GS_REC_KERNEL:
		name[1] = ((const struct gs_rec_kernel *)r)->process;
		name[2] = ((const struct gs_rec_kernel *)r)->function;
		break;
	case GS_REC_NCCL_COMM:
		name[1] = ((const struct gs_rec_nccl_comm *)r)->process;
		name[2] = ((const struct gs_rec_nccl_comm *)r)->number;
		break;
	case GS_REC_ATTACH:
		name[1] = ((const struct gs_rec_attach *)r)->path_str;
		name[2] = ((const struct gs_rec_attach *)r)->func_str;
		break;
	case GS_REC_LOSS:
		/* Calls that are missing from then on. */
		if (((const struct gs_rec_loss *)r)->cause != GS_LOSS_OFF)
			return NULL;
		name[1] = ((const struct gs_rec_loss *)r)->detail_str;
		break;
	case GS_REC_ACCOUNT: {
		const struct gs_rec_account *a = (const void *)r;

		name[1] = (uint64_t)a->pid << 32 | a->tid;
		name[2] = a->born_ns;
		*ret_key = gs_hash_bytes(name, sizeof(name)) | 1ull << 63;
		return &more->arrays[KEEP_DEFS_ACCOUNTS];
	}
	default:
		return NULL;
	}
	*ret_key = gs_hash_bytes(name, sizeof(name)) | 1ull << 63;
	return others;
}

bool keep_is_definition(const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_SESSION:
	case GS_REC_STRING:
	case GS_REC_PROCESS:
	case GS_REC_THREAD:
	case GS_REC_FUNCTION:
	case GS_REC_COMM:
	case GS_REC_FRAME:
	case GS_REC_STACK:
	case GS_REC_KERNEL:
	case GS_REC_NCCL_COMM:
	case GS_REC_ATTACH:
	case GS_REC_HANG:
		return true;
	case GS_REC_LOSS:
		return ((const struct gs_rec_loss *)r)->cause == GS_LOSS_OFF;
	default:
		return false;
	}
}

/* --- chunks --- */

static void chunk_release(struct keep_chunk *c)
{
	if (atomic_fetch_sub(&c->n_holders, 1) > 1)
		return;
	free(c->payload);
	free(c->defs);
	free(c);
}

static size_t chunk_bytes(const struct keep_chunk *c)
{
	return sizeof(*c) + c->payload_bytes + c->defs_bytes;
}

size_t gs_keep_bytes(const struct gs_keep *k)
{
	return k->chunks_bytes + k->raw_bytes + k->raw_defs.bytes +
	       gs_recording_defs_bytes(&k->defs) + gs_recording_defs_bytes(&k->more);
}

size_t gs_keep_peak_bytes(const struct gs_keep *k)
{
	return k->peak_bytes;
}

/* The oldest one goes: what it defines stays. */
static void drop_first(struct gs_keep *k)
{
	struct keep_chunk *c = k->chunks[0];
	struct gs_batch batch = {c->defs, c->defs_bytes};

	gs_records_for_each (&batch, r) {
		uint64_t key;
		struct gs_buf *place = keep_more_place(&k->more, r, &key);

		if (place)
			gs_recording_defs_put(&k->more, place, key, r);
		else
			gs_recording_defs_keep(&k->defs, r);
	}
	k->n_gone += c->n_calls;
	k->chunks_bytes -= chunk_bytes(c);
	k->n_chunks--;
	memmove(k->chunks, k->chunks + 1, k->n_chunks * sizeof(*k->chunks));
	chunk_release(c);
}

static void drop_old(struct gs_keep *k)
{
	uint64_t keep_ns = k->options.keep_ns + SLACK_NS;

	while (k->n_chunks && k->chunks[0]->last_ns + keep_ns < k->newest_ns)
		drop_first(k);
	while (k->n_chunks && gs_keep_bytes(k) > k->options.max_bytes) {
		k->whole_from_ns = k->chunks[0]->last_ns + 1;
		drop_first(k);
	}
	if (gs_keep_bytes(k) > k->peak_bytes)
		k->peak_bytes = gs_keep_bytes(k);
}

/* Records in raw become a chunk. 0, -ENOMEM or -EIO: they stay. */
static int close_chunk(struct gs_keep *k)
{
	struct keep_chunk *c;
	size_t n = ZSTD_compress2(k->cctx, k->out, k->out_bytes, k->raw, k->raw_bytes);

	if (ZSTD_isError(n))
		return -EIO;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct keep_chunk){.n_holders = 1,
				 .payload = malloc(n),
				 .payload_bytes = n,
				 .raw_bytes = k->raw_bytes,
				 .defs = k->raw_defs.bytes ? malloc(k->raw_defs.bytes) : NULL,
				 .defs_bytes = k->raw_defs.bytes,
				 .first_ns = k->raw_first_ns,
				 .last_ns = k->newest_ns,
				 .n_calls = k->raw_n_calls};
	if (!c->payload || (c->defs_bytes && !c->defs) ||
	    !gs_vec_reserve(&k->chunks, &k->cap_chunks, k->n_chunks + 1)) {
		chunk_release(c);
		return -ENOMEM;
	}
	memcpy(c->payload, k->out, n);
	if (c->defs)
		memcpy(c->defs, k->raw_defs.data, c->defs_bytes);
	k->chunks[k->n_chunks++] = c;
	k->chunks_bytes += chunk_bytes(c);
	k->raw_bytes = 0;
	k->raw_n_calls = 0;
	k->raw_first_ns = k->newest_ns;
	gs_buf_reset(&k->raw_defs);
	drop_old(k);
	return 0;
}

/* --- records --- */

static void note_string(struct gs_keep *k, const struct gs_record *r)
{
	uint32_t id = ((const struct gs_rec_string *)r)->id;

	if (id > k->last_string)
		k->last_string = id;
}

static int take_record(struct gs_keep *k, const struct gs_record *r)
{
	uint64_t time_ns;
	int e;

	if (r->kind == GS_REC_SESSION) {
		memcpy(&k->session, r, sizeof(k->session));
		k->session.head.bytes = sizeof(k->session);
		return 0;
	}
	if (r->kind == GS_REC_END) {
		memcpy(&k->end, r, sizeof(k->end));
		k->end.head.bytes = sizeof(k->end);
		return 0;
	}
	if (k->raw_bytes + r->bytes > KEEP_CHUNK_MAX_BYTES) {
		e = close_chunk(k);
		if (e < 0)
			return e;
	}
	if (keep_is_definition(r) || r->kind == GS_REC_ACCOUNT) {
		e = gs_buf_put(&k->raw_defs, r, r->bytes);
		if (e < 0)
			return e;
	}
	if (r->kind == GS_REC_STRING)
		note_string(k, r);
	if (keep_time_of(r, &time_ns) && time_ns > k->newest_ns)
		k->newest_ns = time_ns;
	memcpy(k->raw + k->raw_bytes, r, r->bytes);
	k->raw_bytes += r->bytes;
	k->raw_n_calls += r->kind == GS_REC_CALL;
	/* Values are of the call right after them. */
	return k->raw_bytes >= KEEP_CHUNK_BYTES && r->kind != GS_REC_VALUES ? close_chunk(k) : 0;
}

static int push_batch(void *ctx, const struct gs_batch *batch)
{
	struct gs_keep *k = ctx;
	const struct gs_record *r;
	size_t offset = 0;
	int e;

	while ((r = gs_record_next(batch, &offset)) != NULL) {
		e = take_record(k, r);
		if (e < 0)
			return e;
	}
	return offset == batch->bytes ? 0 : -EINVAL;
}

/* --- life --- */

static int keep_allocate(struct gs_keep *k)
{
	k->raw = malloc(KEEP_CHUNK_MAX_BYTES);
	k->dctx = ZSTD_createDCtx();
	k->raw_defs = GS_BUF_INIT(KEEP_CHUNK_MAX_BYTES);
	gs_recording_defs_init(&k->defs);
	gs_recording_defs_init(&k->more);
	return k->raw && k->dctx ? 0 : -ENOMEM;
}

int gs_keep_new(const struct gs_keep_options *options, struct gs_keep **ret)
{
	struct gs_keep *k;

	if (!options->keep_ns || options->max_bytes < GS_KEEP_BYTES_MIN)
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->options = *options;
	k->sink = (struct gs_sink){.push = push_batch, .ctx = k};
	k->out_bytes = ZSTD_compressBound(KEEP_CHUNK_MAX_BYTES);
	k->out = malloc(k->out_bytes);
	k->cctx = ZSTD_createCCtx();
	if (keep_allocate(k) < 0 || !k->out || !k->cctx) {
		gs_keep_free(&k);
		return -ENOMEM;
	}
	ZSTD_CCtx_setParameter(k->cctx, ZSTD_c_compressionLevel, 1);
	*ret = k;
	return 0;
}

static int copy_defs(struct gs_recording_defs *to, const struct gs_recording_defs *from)
{
	int e = 0;

	for (unsigned i = 0; e == 0 && i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		e = gs_buf_put(&to->arrays[i], from->arrays[i].data, from->arrays[i].bytes);
	gs_map_for_each (&from->offset_of, at) {
		if (e == 0)
			e = gs_map_put(&to->offset_of, at->key, at->value);
	}
	return e;
}

int gs_keep_copy(const struct gs_keep *from, struct gs_keep **ret)
{
	struct gs_keep *k = malloc(sizeof(*k));
	int e;

	if (!k)
		return -ENOMEM;
	*k = *from;
	k->cctx = NULL;
	k->out = NULL;
	k->chunks = NULL;
	k->n_chunks = k->cap_chunks = 0;
	e = keep_allocate(k);
	if (e == 0)
		e = copy_defs(&k->defs, &from->defs);
	if (e == 0)
		e = copy_defs(&k->more, &from->more);
	if (e == 0 && !gs_vec_reserve(&k->chunks, &k->cap_chunks, from->n_chunks + 1))
		e = -ENOMEM;
	if (e < 0) {
		gs_keep_free(&k);
		return e;
	}
	memcpy(k->raw, from->raw, from->raw_bytes);
	for (; k->n_chunks < from->n_chunks; k->n_chunks++) {
		k->chunks[k->n_chunks] = from->chunks[k->n_chunks];
		atomic_fetch_add(&k->chunks[k->n_chunks]->n_holders, 1);
	}
	*ret = k;
	return 0;
}

void gs_keep_free(struct gs_keep **ref)
{
	struct gs_keep *k = *ref;

	if (!k)
		return;
	for (size_t i = 0; i < k->n_chunks; i++)
		chunk_release(k->chunks[i]);
	free(k->chunks);
	ZSTD_freeCCtx(k->cctx);
	ZSTD_freeDCtx(k->dctx);
	gs_buf_fini(&k->raw_defs);
	gs_recording_defs_fini(&k->defs);
	gs_recording_defs_fini(&k->more);
	free(k->raw);
	free(k->out);
	free(k);
	*ref = NULL;
}

const struct gs_sink *gs_keep_sink(struct gs_keep *k)
{
	return &k->sink;
}
