/* What NCCL says of itself, from inside of processes. */
#include <string.h>

#include "pipeline/ingest/ingest_int.h"

/* Of an element, by the name that NCCL gives its type; 0: it gives none. */
static uint64_t bytes_of_type(const char *name)
{
	static const struct {
		const char *name;
		uint8_t bytes;
	} types[] = {{"ncclInt8", 1},     {"ncclUint8", 1},      {"ncclInt32", 4},
		     {"ncclUint32", 4},   {"ncclInt64", 8},      {"ncclUint64", 8},
		     {"ncclFloat16", 2},  {"ncclFloat32", 4},    {"ncclFloat64", 8},
		     {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(name, types[i].name) == 0)
			return types[i].bytes;
	return 0;
}

void gs_ingest_nccl_comm(struct gs_ingest *f, uint32_t pid, const struct gs_rec_nccl_comm *c,
			 const char *name)
{
	uint32_t process = f->ended ? 0 : gs_ingest_find_process(f, pid), name_str;
	struct gs_rec_nccl_comm *r;
	struct gs_record head;

	if (!process)
		return;
	name_str = gs_ingest_intern(f, name);
	r = gs_ingest_put(f, GS_REC_NCCL_COMM, sizeof(*r), 0);
	head = r->head;
	*r = *c;
	r->head = head;
	r->process = process;
	r->time_ns += (uint64_t)f->boot_minus_mono_ns;
	r->name_str = name_str;
	gs_ingest_settle(f);
}

void gs_ingest_nccl_op(struct gs_ingest *f, uint32_t pid, uint32_t tid,
		       const struct gs_rec_nccl_op *op, const struct gs_ingest_nccl_words *words)
{
	uint32_t process = f->ended ? 0 : gs_ingest_find_process(f, pid), thread;
	uint64_t type_bytes = bytes_of_type(words->datatype), bytes = GS_NCCL_BYTES_UNKNOWN;
	struct gs_rec_nccl_op *r;
	struct gs_record head;
	uint32_t text[4];

	if (!process)
		return;
	if (type_bytes && __builtin_mul_overflow(op->count, type_bytes, &bytes))
		bytes = GS_NCCL_BYTES_UNKNOWN;
	thread = tid ? gs_ingest_thread(f, pid, tid) : 0;
	text[0] = gs_ingest_intern(f, words->func);
	text[1] = gs_ingest_intern(f, words->datatype);
	text[2] = gs_ingest_intern(f, words->algorithm);
	text[3] = gs_ingest_intern(f, words->protocol);
	r = gs_ingest_put(f, GS_REC_NCCL_OP, sizeof(*r), 0);
	head = r->head;
	*r = *op;
	r->head = head;
	r->process = process;
	r->thread = thread;
	r->start_ns += (uint64_t)f->boot_minus_mono_ns;
	r->end_ns += (uint64_t)f->boot_minus_mono_ns;
	r->bytes = bytes;
	r->func_str = text[0];
	r->datatype_str = text[1];
	r->algorithm_str = text[2];
	r->protocol_str = text[3];
	gs_ingest_settle(f);
}

void gs_ingest_nccl_channel(struct gs_ingest *f, uint32_t pid,
			    const struct gs_rec_nccl_channel *channel)
{
	uint32_t process = f->ended ? 0 : gs_ingest_find_process(f, pid);
	struct gs_rec_nccl_channel *r;
	struct gs_record head;

	if (!process)
		return;
	r = gs_ingest_put(f, GS_REC_NCCL_CHANNEL, sizeof(*r), 0);
	head = r->head;
	*r = *channel;
	r->head = head;
	r->process = process;
	r->start_ns += (uint64_t)f->boot_minus_mono_ns;
	r->end_ns += (uint64_t)f->boot_minus_mono_ns;
	gs_ingest_settle(f);
}
