/*
 * What a node has measured and no head has acknowledged: a queue of batches with running numbers,
 * kept in files, so that a program that is killed, a machine that restarts and a head that is
 * away for a night lose nothing. It is bounded: when full, the oldest batches go, and are counted.
 *
 * A batch is in the file when gs_queue_put() returns; it survives the death of the program, and a
 * power cut as far as the system had written it (nothing is synced). Where no folder can be
 * written, or its disk is full, batches are kept in memory under a bound of their own: at the close
 * they go to the disk if it has room by then, and of a program that is killed they are counted as
 * lost at the next start.
 *
 * One spool belongs to one thread.
 */
#ifndef GS_CORE_QUEUE_QUEUE_H
#define GS_CORE_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct gs_queue;

struct gs_queue_batch {
	uint64_t seq; /* from 1, without gaps but for lost batches */
	int64_t first_wall_ns, last_wall_ns;
	uint32_t n_samples;
	uint32_t raw_bytes;      /* of the data when unpacked */
	uint32_t codec;          /* the caller's */
	uint64_t lost_batches;   /* dropped so far, in the whole stream, and what was in them: */
	uint64_t lost_samples;   /* both are the spool's to say, as of when the batch is got */
	uint64_t missed_samples; /* the caller's: not taken in time since the batch before */
	const uint8_t *data;     /* put: borrowed for the call; get: lent, see there */
	size_t bytes;            /* of data, at most GS_QUEUE_BATCH_MAX */
};

#define GS_QUEUE_BATCH_MAX (8u << 20) /* bytes of data in one batch */

struct gs_queue_options {
	size_t size;               /* of this struct */
	const char *dir;           /* made when it is not there; NULL: memory alone */
	uint64_t max_bytes;        /* on disk; 0: 256 MiB */
	uint64_t max_memory_bytes; /* without a disk; 0: 32 MiB */
	uint32_t segment_bytes;    /* of a file, which goes as a whole; 0: 4 MiB */
	bool keep_oldest;          /* full: what comes is refused, instead of the oldest going */
};

/* Open the folder's queue, or begin one. Damaged files are read as far as they are whole. -EBUSY:
 * another program has it. */
int gs_queue_open(const struct gs_queue_options *options, struct gs_queue **ret_spool,
		  struct gs_err *err);
void gs_queue_close(struct gs_queue **spool);

/* A random number that stays as long as the batches' numbers go on. */
uint64_t gs_queue_stream(const struct gs_queue *spool);

/* Append; the number is given here and lost_* of the batch are ignored. -ENOBUFS: neither disk nor
 * memory has room for it even when all else goes, -EMSGSIZE: it is too large; other errors of the
 * system. What was not taken is counted as lost. */
int gs_queue_put(struct gs_queue *spool, const struct gs_queue_batch *batch);

#define GS_QUEUE_END 1

/* The first batch whose number is seq or higher; its data are lent until the next call of any
 * function. GS_QUEUE_END: there is none. -EBADMSG, -EIO: it cannot be read (any more); it is
 * counted as lost, and the next call goes on after it. */
int gs_queue_get(struct gs_queue *spool, uint64_t seq, struct gs_queue_batch *ret_batch);

/* Everything up to seq is safe elsewhere: forget it. */
void gs_queue_ack(struct gs_queue *spool, uint64_t seq);

/* Batches up to seq are on their way. One of these that has to make room is not lost before it is
 * known whether it arrived: by gs_queue_ack(), or by gs_queue_resume(), which says what did on all
 * connections so far. */
void gs_queue_sent(struct gs_queue *spool, uint64_t seq);
void gs_queue_resume(struct gs_queue *spool, uint64_t seq);

/* Give one batch up: it is counted as lost. -ENOENT: that number does not wait. */
int gs_queue_drop(struct gs_queue *spool, uint64_t seq);

/* Begin a new stream, in which the batches that wait keep their numbers; those below keep_seq are
 * forgotten without being counted. For a head to which another node delivers our stream's numbers
 * (our folder is a copy, or an old one). 0 or a negative errno. */
int gs_queue_renew(struct gs_queue *spool, uint64_t keep_seq);

/* At the end: what is in memory because the disk was full may find room now. Nothing is put or
 * acknowledged after it. */
void gs_queue_save(struct gs_queue *spool);

struct gs_queue_stats {
	uint64_t first_seq, next_seq;         /* the oldest batch's, 0 none; that of the next one */
	uint64_t opened_seq;                  /* the first number given since opening */
	uint64_t n_batches, n_samples, bytes; /* waiting */
	uint64_t memory_bytes;                /* of them, in memory */
	uint64_t memory_samples;              /* likewise, and in no file */
	uint64_t lost_batches, lost_samples;  /* so far, over all runs of the stream */
	uint64_t torn_bytes;                  /* at opening: tails that were not whole */
	int disk_error; /* why memory is used, a negative errno; 0 it is not */
};

/* The figures as of now. */
void gs_queue_stats(const struct gs_queue *spool, struct gs_queue_stats *ret_stats);

#endif
