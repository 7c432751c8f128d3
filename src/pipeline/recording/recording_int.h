/*
 * What a .gst file is made of, byte by byte (doc/format.md says the same to strangers), and what
 * the files of this room share. Little endian; headers are copied in and out, never pointed into,
 * since frames follow each other without padding.
 *
 * Two checksums guard a frame, of different kinds and over different bytes: CRC-32 (the one of zip
 * and Ethernet, because every language has it in its standard library) over the header and over the
 * compressed payload, and the XXH64 that zstd itself keeps over the content and checks when it
 * unpacks. The CRC is how a reader distinguishes a frame from noise without unpacking anything.
 */
#ifndef GS_PIPELINE_RECORDING_RECORDING_INT_H
#define GS_PIPELINE_RECORDING_RECORDING_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "model/trace/record.h"

/* As PNG's: not text, broken by any transfer that takes it for text. */
#define GS_RECORDING_MAGIC       "\x89GST\r\n\x1a\n"
#define GS_RECORDING_MAGIC_BYTES 8
#define GS_RECORDING_MAJOR       1 /* a reader refuses a later one */
#define GS_RECORDING_MINOR       0 /* a reader need not look */

#define GS_FRAME_MAGIC             0xf0545347u /* "GST" 0xf0 */
#define GS_FRAME_RAW_MAX_BYTES     (4u << 20)
#define GS_FRAME_PAYLOAD_MAX_BYTES ((4u << 20) + (16u << 10)) /* ZSTD_compressBound() of that */

struct gs_recording_header {
	uint8_t magic[GS_RECORDING_MAGIC_BYTES];
	uint16_t major;
	uint16_t minor;
	uint32_t header_bytes;   /* of this header: the first frame begins after it */
	uint32_t record_version; /* GS_RECORD_VERSION */
	uint32_t flags;          /* 0; a reader refuses what it does not know */
	uint64_t file_id;        /* random; each frame repeats it */
	uint32_t reserved;       /* 0 */
	uint32_t header_crc;     /* of all before */
};
_Static_assert(sizeof(struct gs_recording_header) == 40, "gs_recording_header");
_Static_assert(offsetof(struct gs_recording_header, file_id) == 24, "file_id");
_Static_assert(offsetof(struct gs_recording_header, header_crc) == 36, "header_crc");

enum gs_frame_flag {
	GS_FRAME_SNAPSHOT = 1,       /* definitions that earlier frames held already */
	GS_FRAME_SNAPSHOT_FIRST = 2, /* first and last frame of one snapshot */
	GS_FRAME_SNAPSHOT_LAST = 4,
};

struct gs_frame_header {
	uint32_t magic;
	uint16_t version; /* GS_RECORDING_MAJOR */
	uint16_t flags;   /* enum gs_frame_flag */
	/* Of the file: text inside of a record that happens to hold a frame of another file is not
	 * taken for one of this file. */
	uint64_t file_id;
	uint64_t sequence; /* 0, 1, 2 ... of all frames, snapshots too */
	uint32_t payload_bytes;
	uint32_t raw_bytes; /* of records, unpacked */
	uint32_t n_records;
	uint32_t payload_crc;
	uint64_t first_ns; /* earliest start and latest end of the CALL records, 0 none */
	uint64_t last_ns;
	uint32_t reserved;   /* 0 */
	uint32_t header_crc; /* of all before */
};
_Static_assert(sizeof(struct gs_frame_header) == 64, "gs_frame_header");
_Static_assert(offsetof(struct gs_frame_header, payload_bytes) == 24, "payload_bytes");
_Static_assert(offsetof(struct gs_frame_header, header_crc) == 60, "header_crc");

/* CRC-32 as in zip: of frames' headers and payloads, and of the file's header. */
static inline uint32_t gs_recording_crc32(const void *data, size_t bytes)
{
	return (uint32_t)crc32_z(0, data, bytes);
}

/*
 * The definitions written so far, for a snapshot: the newest record of each SESSION, STRING,
 * PROCESS, THREAD, FUNCTION and COMM. In the order of the arrays each is defined before it is used.
 */
#define GS_RECORDING_DEFS_MAX_BYTES                                                                \
	(8u << 20) /* of each array; what comes beyond is not repeated */
#define GS_RECORDING_DEFS_MAX_ENTRIES (1u << 18)

enum {
	GS_RECORDING_DEFS_SESSION,
	GS_RECORDING_DEFS_STRINGS,
	GS_RECORDING_DEFS_ENTITIES,
	GS_RECORDING_DEFS_N_ARRAYS
};

struct gs_recording_defs {
	struct gs_buf arrays[GS_RECORDING_DEFS_N_ARRAYS]; /* whole records */
	struct gs_map offset_of;                          /* (kind, id) -> offset in its array */
	bool is_full;
};

void gs_recording_defs_init(struct gs_recording_defs *defs);
void gs_recording_defs_fini(struct gs_recording_defs *defs);

/* Keep a copy of a definition, instead of an older one of the same thing; other records are
 * ignored. */
void gs_recording_defs_keep(struct gs_recording_defs *defs, const struct gs_record *record);

/* The same of a record that is a definition elsewhere: in that array of defs, by that key. */
void gs_recording_defs_put(struct gs_recording_defs *defs, struct gs_buf *array, uint64_t key,
			   const struct gs_record *record);

static inline size_t gs_recording_defs_bytes(const struct gs_recording_defs *defs)
{
	size_t bytes = 0;

	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		bytes += defs->arrays[i].bytes;
	return bytes;
}

#endif
