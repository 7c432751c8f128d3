/* Private to the room: files of batches. */
#ifndef GS_CORE_QUEUE_QUEUE_INT_H
#define GS_CORE_QUEUE_QUEUE_INT_H

#include "core/queue/queue.h"

/* In front of each batch's data, little endian. */
struct queue_entry {
	uint32_t magic;
	uint32_t crc; /* zlib's CRC-32 of what follows in this struct, and of the data */
	uint64_t seq;
	int64_t first_wall_ns, last_wall_ns;
	uint32_t n_samples, raw_bytes, codec, bytes;
	uint64_t missed_samples;
};
_Static_assert(sizeof(struct queue_entry) == 56, "spool_entry");

#define SPOOL_MAGIC 0x31507347u /* "GsP1" */

struct queue_where {
	uint64_t seq;
	uint32_t off; /* in its segment */
	uint32_t bytes, n_samples;
};

struct queue_segment {
	int fd; /* owned: of a file, or of memory */
	bool in_memory;
	bool is_saved;      /* of memory, and there is a file with the same */
	uint64_t first_seq; /* in the file's name */
	uint32_t bytes;
	struct queue_where *where; /* owned; by seq */
	uint32_t n, n_max, n_acked;
};

/* "SEQ.batches", 20 digits */
void queue_segment_name(uint64_t first_seq, char out[40]);

/* dir_fd < 0: of memory */
int queue_segment_new(int dir_fd, uint64_t first_seq, struct queue_segment *ret_segment);

/* Read what is whole; what is after it is cut off, its length added to *torn_bytes. */
int queue_segment_open(int dir_fd, uint64_t first_seq, struct queue_segment *ret_segment,
		       uint64_t *torn_bytes);
void queue_segment_close(struct queue_segment *segment);

/* All or nothing: what could not be written whole is cut off again. */
int queue_segment_put(struct queue_segment *segment, const struct gs_queue_batch *batch,
		      uint64_t seq);

/* A segment of memory as a file; it stays one of memory. */
int queue_segment_save(const struct queue_segment *segment, int dir_fd);

/* Entry i; data into buffer, which has room for its bytes. -EBADMSG: not what was written. */
int queue_segment_read(const struct queue_segment *segment, uint32_t i,
		       struct queue_entry *ret_entry, uint8_t *buffer);

#endif
