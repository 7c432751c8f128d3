/* Between keep.c, which takes records in, and keep_write.c, which writes them. */
#ifndef GS_PIPELINE_RECORDING_KEEP_INT_H
#define GS_PIPELINE_RECORDING_KEEP_INT_H

#include <stdatomic.h>
#include <zstd.h>

#include "pipeline/recording/keep.h"
#include "pipeline/recording/recording_int.h"

/* A chunk is closed by the record that reaches this many bytes. */
#define KEEP_CHUNK_BYTES     (256u << 10)
#define KEEP_CHUNK_MAX_BYTES (KEEP_CHUNK_BYTES + (size_t)GS_RECORD_MAX_BYTES)

/* Whole records that came after each other. Shared by what holds it; never changed. */
struct keep_chunk {
	atomic_uint n_holders;
	uint8_t *payload; /* owned; one zstd frame */
	size_t payload_bytes, raw_bytes;
	uint8_t *defs; /* owned; a copy of the definitions among them, as they came; NULL none */
	size_t defs_bytes;
	uint64_t first_ns; /* the time of the newest record before it */
	uint64_t last_ns;  /* of the newest one up to its end */
	uint64_t n_calls;
};

/* Definitions that are no definition to a snapshot: the arrays of a second struct gs_recording_defs. */
enum {
	KEEP_DEFS_FRAMES,   /* FRAME; before the stacks that name them */
	KEEP_DEFS_OTHERS,   /* STACK, KERNEL, NCCL_COMM, ATTACH, HANG, functions taken off */
	KEEP_DEFS_ACCOUNTS, /* the last of each thread before the chunks */
};

struct gs_keep {
	struct gs_sink sink;
	struct gs_keep_options options;
	ZSTD_CCtx *cctx; /* owned */
	ZSTD_DCtx *dctx; /* owned */
	uint8_t *raw;    /* owned; of KEEP_CHUNK_MAX_BYTES */
	size_t raw_bytes;
	struct gs_buf raw_defs; /* definitions of raw */
	uint64_t raw_n_calls, raw_first_ns;
	uint8_t *out; /* owned; room for a compressed chunk */
	size_t out_bytes;
	struct keep_chunk **chunks; /* owned; the oldest first; each is held */
	size_t n_chunks, cap_chunks;
	size_t chunks_bytes, peak_bytes;
	/* As they were before the oldest chunk. */
	struct gs_recording_defs defs, more;
	struct gs_rec_session session; /* head.bytes 0: none yet */
	struct gs_rec_end end;         /* head.bytes 0: the stream goes on */
	uint64_t newest_ns;            /* of the times of records so far */
	uint64_t whole_from_ns; /* newest time in a chunk that went for its size; 0 none did */
	uint64_t n_gone;        /* calls in chunks that went */
	uint32_t last_string;   /* the highest id */
};

/* The time at which a record was made, or its call ended. False: it has none. */
bool keep_time_of(const struct gs_record *r, uint64_t *ret_ns);

/* Is it valid for what comes after it, however long? */
bool keep_is_definition(const struct gs_record *r);

/* The place of a definition that a snapshot does not repeat, or of an account. NULL: it is neither. */
struct gs_buf *keep_more_place(struct gs_recording_defs *more, const struct gs_record *r,
			       uint64_t *ret_key);

#endif
