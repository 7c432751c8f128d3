/*
 * The definitions that a snapshot repeats. Records lie one after the other as they came, so that a
 * snapshot is a plain copy of the arrays; what comes again for the same id (a process after exec, a
 * communicator with more known) takes the place of the older one. Texts have an array of their own,
 * written first: a process may come to use a text that is younger than itself.
 *
 * Bounded: definitions beyond the maximum are written once, as any record, and not repeated. They
 * are lost only when the very frame that holds them is.
 */
#include <string.h>

#include "core/base/log.h"
#include "pipeline/recording/recording_int.h"

void gs_recording_defs_init(struct gs_recording_defs *defs)
{
	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		defs->arrays[i] = GS_BUF_INIT(GS_RECORDING_DEFS_MAX_BYTES);
	defs->offset_of = GS_MAP_INIT(GS_RECORDING_DEFS_MAX_ENTRIES);
	defs->is_full = false;
}

void gs_recording_defs_fini(struct gs_recording_defs *defs)
{
	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		gs_buf_fini(&defs->arrays[i]);
	gs_map_fini(&defs->offset_of);
}

/* By process and handle. Those without a handle say that a rank stood aside when a parent was
 * split: one of each parent. */
static uint64_t comm_key(const struct gs_rec_comm *c)
{
	uint64_t k[3] = {c->process, c->comm, c->comm ? 0 : c->parent};

	return gs_hash_bytes(k, sizeof(k)) | 1ull << 63;
}

/* The array that a record belongs to, and its key there; NULL for what is not a definition. */
static struct gs_buf *place_of(struct gs_recording_defs *defs, const struct gs_record *r,
			       uint64_t *ret_key)
{
	struct gs_buf *entities = &defs->arrays[GS_RECORDING_DEFS_ENTITIES];
	uint64_t kind = (uint64_t)r->kind << 32;

	switch (r->kind) {
	case GS_REC_SESSION:
		*ret_key = kind;
		return &defs->arrays[GS_RECORDING_DEFS_SESSION];
	case GS_REC_STRING:
		*ret_key = kind | ((const struct gs_rec_string *)(const void *)r)->id;
		return &defs->arrays[GS_RECORDING_DEFS_STRINGS];
	case GS_REC_PROCESS:
		*ret_key = kind | ((const struct gs_rec_process *)(const void *)r)->id;
		return entities;
	case GS_REC_THREAD:
		*ret_key = kind | ((const struct gs_rec_thread *)(const void *)r)->id;
		return entities;
	case GS_REC_FUNCTION:
		*ret_key = kind | ((const struct gs_rec_function *)(const void *)r)->id;
		return entities;
	case GS_REC_COMM:
		*ret_key = comm_key((const void *)r);
		return entities;
	default:
		return NULL;
	}
}

void gs_recording_defs_put(struct gs_recording_defs *defs, struct gs_buf *array, uint64_t key,
			   const struct gs_record *r)
{
	uint64_t offset;
	int e;

	if (gs_map_get(&defs->offset_of, key, &offset)) {
		struct gs_record *old = (void *)(array->data + offset);

		if (old->bytes == r->bytes) {
			memcpy(old, r, r->bytes);
			return;
		}
		/* Of another length: it goes after, and readers take the later one. */
	}
	offset = array->bytes;
	e = gs_buf_put(array, r, r->bytes);
	if (e == 0) {
		e = gs_map_put(&defs->offset_of, key, offset);
		if (e < 0)
			array->bytes = offset;
	}
	if (e < 0 && !defs->is_full) {
		defs->is_full = true;
		gs_log(GS_LOG_INFO, GS_LOG_RECORDING,
		       "journal: too many definitions to repeat them all (%zu bytes kept)",
		       gs_recording_defs_bytes(defs));
	}
}

void gs_recording_defs_keep(struct gs_recording_defs *defs, const struct gs_record *r)
{
	uint64_t key;
	struct gs_buf *array = place_of(defs, r, &key);

	if (array)
		gs_recording_defs_put(defs, array, key, r);
}
