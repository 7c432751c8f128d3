/* What a file of a traced process must be like before anything of it is believed: see file.h. */
#include "model/companion/file.h"

#include <errno.h>

#include "model/companion/gpu.h"
#include "model/companion/nccl.h"
#include "model/companion/ops.h"
#include "model/companion/python.h"

uint64_t gs_companion_file_bytes(uint32_t n_slots, uint32_t ring_bytes, uint32_t doors)
{
	if (doors & 1u << GS_COMPANION_PYTHON)
		return gs_companion_python_names_at(n_slots, ring_bytes) +
		       sizeof(struct gs_companion_python_names);
	return gs_companion_python_at(n_slots, ring_bytes);
}

int gs_companion_head_check(const struct gs_companion_head *head, uint64_t file_bytes)
{
	if (head->magic != GS_COMPANION_MAGIC)
		return -EBADMSG;
	if (head->version != GS_COMPANION_VERSION)
		return -EPROTONOSUPPORT;
	if (!head->n_slots || head->n_slots > GS_COMPANION_SLOTS_MAX ||
	    head->ring_bytes < GS_COMPANION_RING_MIN || head->ring_bytes > GS_COMPANION_RING_MAX ||
	    head->ring_bytes & (head->ring_bytes - 1) || head->clock > GS_COMPANION_TSC ||
	    head->rings_at != GS_COMPANION_SLOTS_AT +
				      head->n_slots * (uint64_t)sizeof(struct gs_companion_slot) ||
	    file_bytes != gs_companion_file_bytes(head->n_slots, head->ring_bytes, head->doors))
		return -EBADMSG;
	return 0;
}

size_t gs_companion_min_bytes(unsigned kind)
{
	switch (kind) {
	case GS_COMPANION_PAD:
		return sizeof(struct gs_companion_record);
	case GS_COMPANION_CALL:
		return sizeof(struct gs_companion_call);
	case GS_COMPANION_COMM:
		return sizeof(struct gs_companion_comm);
	case GS_COMPANION_ASKED:
		return sizeof(struct gs_companion_asked);
	case GS_COMPANION_OP_NAME:
		return sizeof(struct gs_companion_op_name);
	case GS_COMPANION_OP:
		return sizeof(struct gs_companion_op);
	case GS_COMPANION_GPU_NAME:
		return sizeof(struct gs_companion_gpu_name);
	case GS_COMPANION_GPU_WORK:
		return sizeof(struct gs_companion_gpu_work);
	case GS_COMPANION_GPU_STATE:
		return sizeof(struct gs_companion_gpu_state);
	case GS_COMPANION_PYTHON_CALL:
		return sizeof(struct gs_companion_python_call);
	case GS_COMPANION_PYTHON_STATE:
		return sizeof(struct gs_companion_python_state);
	case GS_COMPANION_NCCL_COMM:
		return sizeof(struct gs_companion_nccl_comm);
	case GS_COMPANION_NCCL_OP:
		return sizeof(struct gs_companion_nccl_op);
	case GS_COMPANION_NCCL_CHANNEL:
		return sizeof(struct gs_companion_nccl_channel);
	}
	return 0;
}

const struct gs_companion_record *gs_companion_next(const void *copy, size_t bytes,
						    uint64_t position, size_t *offset)
{
	while (*offset < bytes) {
		const struct gs_companion_record *r = (const void *)((const char *)copy + *offset);
		size_t min;

		if (bytes - *offset < sizeof(*r) || r->bytes < sizeof(*r) || r->bytes % 8 ||
		    r->bytes > bytes - *offset || r->at != (uint32_t)((position + *offset) / 8))
			return NULL;
		min = gs_companion_min_bytes(r->kind);
		if (r->bytes < min)
			return NULL;
		*offset += r->bytes;
		if (min && r->kind != GS_COMPANION_PAD)
			return r;
	}
	return NULL;
}
