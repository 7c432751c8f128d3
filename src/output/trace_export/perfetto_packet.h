/*
 * Packets of a ".pftrace" file: the numbers of fields, and what all packets have in common. Inside of
 * the room only; perfetto.c says what a file is made of.
 */
#ifndef GS_OUTPUT_TRACE_EXPORT_PERFETTO_PACKET_H
#define GS_OUTPUT_TRACE_EXPORT_PERFETTO_PACKET_H

#include <string.h>

#include "core/text/pb.h"
#include "core/text/put.h"
#include "model/trace/event.h"

enum { /* fields, by message */
       TRACE_PACKET = 1,

       PACKET_CLOCK_SNAPSHOT = 6,
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE_ID = 10,
       PACKET_TRACK_EVENT = 11,
       PACKET_INTERNED_DATA = 12,
       PACKET_SEQUENCE_FLAGS = 13,
       PACKET_TIMESTAMP_CLOCK = 58,
       PACKET_DEFAULTS = 59,
       PACKET_TRACK_DESCRIPTOR = 60,
       PACKET_PERF_SAMPLE = 66,

       SNAPSHOT_CLOCKS = 1,
       CLOCK_ID = 1,
       CLOCK_TIMESTAMP = 2,

       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_PROCESS = 3,
       TRACK_THREAD = 4,
       TRACK_PARENT = 5,
       TRACK_COUNTER = 8,
       TRACK_DESCRIPTION = 14,
       PROCESS_PID = 1,
       PROCESS_CMDLINE = 2,
       PROCESS_SORT_INDEX = 3,
       PROCESS_NAME = 6,
       PROCESS_START = 7,
       PROCESS_LABELS = 8,
       THREAD_PID = 1,
       THREAD_TID = 2,
       THREAD_SORT_INDEX = 3,
       THREAD_NAME = 5,
       COUNTER_UNIT = 3,
       COUNTER_UNIT_NAME = 6,

       EVENT_CATEGORY_IID = 3,
       EVENT_ANNOTATION = 4,
       EVENT_TYPE = 9,
       EVENT_NAME_IID = 10,
       EVENT_TRACK = 11,
       EVENT_NAME = 23,
       EVENT_COUNTER_VALUE = 30,
       EVENT_DOUBLE_VALUE = 44,
       EVENT_FLOW = 47,
       EVENT_FLOW_END = 48,

       ANNOTATION_NAME_IID = 1,
       ANNOTATION_UINT = 3,
       ANNOTATION_INT = 4,
       ANNOTATION_DOUBLE = 5,
       ANNOTATION_STRING = 6,
       ANNOTATION_POINTER = 7,
       ANNOTATION_NAME = 10,
       ANNOTATION_STRING_IID = 17,

       INTERNED_CATEGORIES = 1,
       INTERNED_EVENT_NAMES = 2,
       INTERNED_ANNOTATION_NAMES = 3,
       INTERNED_FUNCTION_NAMES = 5,
       INTERNED_FRAMES = 6,
       INTERNED_CALLSTACKS = 7,
       INTERNED_MAPPING_PATHS = 17,
       INTERNED_MAPPINGS = 19,
       INTERNED_ANNOTATION_STRINGS = 29,
       ENTRY_IID = 1,
       ENTRY_TEXT = 2,

       SAMPLE_CPU = 1,
       SAMPLE_PID = 2,
       SAMPLE_TID = 3,
       SAMPLE_CALLSTACK_IID = 4,
       FRAME_FUNCTION_IID = 2,
       FRAME_MAPPING_IID = 3,
       FRAME_REL_PC = 4,
       CALLSTACK_FRAME_IDS = 2,
       MAPPING_PATH_IDS = 7,
};

enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { SEQ_CLEARED = 1, SEQ_NEEDS_STATE = 2 };
enum { CLOCK_ID_REALTIME = 1, CLOCK_ID_BOOTTIME = 6 };
enum { UNIT_COUNT = 2, UNIT_BYTES = 3 };

/* Categories: a layer's number, and these. */
enum {
	CATEGORY_UNKNOWN = GS_LAYER_COUNT,
	CATEGORY_ERROR,
	CATEGORY_GPUSCOPE,
	CATEGORY_STREAM,
	CATEGORY_GPU
};

/* Track ids: a kind in the low bits, so that none meet; small numbers make small files. */
enum { TRACK_OWN = 0, TRACK_OF_PROCESS = 1, TRACK_OF_THREAD = 2, TRACK_OF_COUNTER = 3 };
#define UUID(kind, id)      ((uint64_t)(id) << 2 | (kind))
#define UUID_GPUSCOPE       UUID(TRACK_OWN, 1)
#define UUID_LOSSES         UUID(TRACK_OWN, 2)
#define UUID_UNKNOWN_THREAD UUID(TRACK_OWN, 3)
#define UUID_STREAM(index)  UUID(TRACK_OWN, 16 + (uint64_t)(index))
#define UUID_GPU(number)    UUID(TRACK_OWN, (1ull << 32) + (number))

/* Each packet begins the same way: sequence 1, and it relies on what came before. */
static inline uint8_t *packet_open(struct gs_pb *pb)
{
	static const uint8_t head[] = {PACKET_SEQUENCE_ID << 3, 1, PACKET_SEQUENCE_FLAGS << 3,
				       SEQ_NEEDS_STATE};
	uint8_t *packet = gs_pb_open(pb, TRACE_PACKET, GS_PB_LARGE);

	memcpy(pb->at, head, sizeof(head));
	pb->at += sizeof(head);
	return packet;
}

/* Ends the packet that packet_open() returned. */
static inline void packet_close(struct gs_pb *pb, uint8_t *packet)
{
	gs_pb_close(pb, packet, GS_PB_LARGE);
}

/* An event of this type on a track, in a packet; gs_pb_close() with GS_PB_LARGE ends it. */
static inline uint8_t *event_open(struct gs_pb *pb, unsigned type, uint64_t track)
{
	uint8_t *m = gs_pb_open(pb, PACKET_TRACK_EVENT, GS_PB_LARGE);

	gs_pb_uint(pb, EVENT_TYPE, type);
	gs_pb_uint(pb, EVENT_TRACK, track);
	return m;
}

/* Of the event that is open; at most max_bytes of text, "": nothing. */
static inline void annotate_text(struct gs_pb *pb, const char *name, const char *text,
				 size_t max_bytes)
{
	uint8_t *m;

	if (text[0] == '\0')
		return;
	m = gs_pb_open(pb, EVENT_ANNOTATION, GS_PB_SMALL);
	gs_pb_text(pb, ANNOTATION_NAME, name, GS_PUT_MAX);
	gs_pb_text(pb, ANNOTATION_STRING, text, max_bytes);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

/* The same; field: ANNOTATION_UINT and the like. */
static inline void annotate_number(struct gs_pb *pb, const char *name, uint32_t field,
				   uint64_t value)
{
	uint8_t *m = gs_pb_open(pb, EVENT_ANNOTATION, GS_PB_SMALL);

	gs_pb_text(pb, ANNOTATION_NAME, name, GS_PUT_MAX);
	gs_pb_uint(pb, field, value);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

/* A track with a name; parent 0: on its own. description: where its figures come from; NULL: none. */
static inline void described_track(struct gs_pb *pb, uint64_t uuid, uint64_t parent,
				   const char *name, const char *description)
{
	uint8_t *packet = packet_open(pb);
	uint8_t *m = gs_pb_open(pb, PACKET_TRACK_DESCRIPTOR, GS_PB_LARGE);

	gs_pb_uint(pb, TRACK_UUID, uuid);
	gs_pb_text(pb, TRACK_NAME, name, GS_PUT_MAX);
	if (parent)
		gs_pb_uint(pb, TRACK_PARENT, parent);
	if (description)
		gs_pb_text(pb, TRACK_DESCRIPTION, description, GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

/* The same without a description. */
static inline void own_track(struct gs_pb *pb, uint64_t uuid, uint64_t parent, const char *name)
{
	described_track(pb, uuid, parent, name, NULL);
}

#endif
