/* Private to the room. */
#ifndef GS_SERVER_SESSION_EXPORT_SESSION_EXPORT_INT_H
#define GS_SERVER_SESSION_EXPORT_SESSION_EXPORT_INT_H

#include "server/session_export/session_export.h"
#include "server/session_export/sums.h"
#include "core/base/map.h"
#include "model/node/host.h"
#include "model/node/rollup.h"
#include "core/text/pen.h"

struct session_export_node {
	int64_t id;
	char *client; /* owned: the host's name, with more where several have it */
	char hostname[65], machine_id[64], instance[64];
	uint64_t n_samples, lost_samples, missed_samples;
};

struct archive {
	const struct gs_session_export_options *o;
	int64_t from_wall_ns, to_wall_ns; /* by the head's clock */
	struct session_export_node *node; /* n_nodes: of the session */
	size_t n_nodes;
	struct gs_map by_id; /* of a node to its index */
	struct gs_map names; /* of all nodes of the store: gs_node_label_hash() to how many */
	struct gs_session_export_stats stats;
};

/* A snapshot, by the head's clock. */
struct session_export_sample {
	uint32_t node; /* index */
	int64_t wall_ns;
	struct gs_node_snapshot *snapshot; /* lent, may be changed */
	struct gs_rollup_mark mark;        /* of a snapshot that stands for several; lent */
};

struct session_export_sink {
	/* 0 or a negative errno, which ends it. */
	int (*snapshot)(void *ctx, const struct session_export_sample *snapshot);
	/* Hardly anything before this time will come. May be NULL. */
	int (*passed)(void *ctx, int64_t wall_ns);
	void *ctx;
};

int session_export_open(struct archive *a, const struct gs_session_export_options *options);
void session_export_close(struct archive *a);

/* Everything of the session, nearly by time. */
int session_export_read(struct archive *a, const struct session_export_sink *sink);

/* How long before the sample its oldest known value of these fields was read, in s; NAN: none is
 * known. */
double session_export_age_s(const struct gs_gpu_sample *s, const unsigned *field, size_t n_fields);

/* Share of memory in use; false: not known. */
bool session_export_memory(const struct gs_gpu_sample *s, double *ret_ratio);

/* "host:0:NVIDIA H100", as gswarm calls a GPU; of a part with its profile and number. */
void session_export_gpu_name(const struct session_export_node *node, const struct gs_gpu_info *info,
			     char *out, size_t bytes);

/* The fields that the session has, into field; how many. */
size_t session_export_fields(const struct gs_store_session *s, unsigned field[GS_GPU_FIELD_COUNT]);

/* "2026-11-21T13:40:00.123456Z"; local: without the Z, in the machine's time zone. */
#define ARCHIVE_TIME_BYTES 40
const char *session_export_time(char out[ARCHIVE_TIME_BYTES], int64_t wall_ns, bool local);

int session_export_json(struct archive *a, struct gs_pen *pen);
int session_export_csv(struct archive *a, struct gs_pen *pen);
int session_export_gst(struct archive *a, int fd, struct gs_err *err);

/* --- frames: frame.c --- */

/* Of a GPU, in base units; then those of the session's fields. */
enum session_export_value {
	ARCHIVE_UTIL,
	ARCHIVE_MEMORY,
	ARCHIVE_PCIE_RX,
	ARCHIVE_PCIE_TX,
	ARCHIVE_DRAM,
	ARCHIVE_NVLINK_RX,
	ARCHIVE_NVLINK_TX,
	ARCHIVE_AGE, /* of the oldest of those above, in s */
	ARCHIVE_N_VALUES
};

/* Half of a struct gs_bucket: a frame has one for each value of each GPU, and many are open. */
struct session_export_mean {
	double sum;
	uint32_t n;
};

struct session_export_client { /* what a frame or a summary knows of a node */
	struct session_export_mean memory, disk;
	uint32_t n_samples;
};

struct session_export_gpu { /* a column */
	char *id, *uuid;    /* owned */
	uint32_t node;
	uint64_t n_frames;
	struct gs_session_export_sums sums;
};

struct session_export_pair { /* two GPUs with direct links */
	uint32_t gpu[2];     /* columns, the lesser first */
	uint64_t before_bytes, before_ns;
};

struct session_export_frame {
	int64_t number;                    /* from 0 */
	int64_t spread;                    /* frames that its coarsest sample stands for */
	struct session_export_mean *value; /* n_gpus x n_values */
	uint32_t *n_samples;               /* of each GPU */
	size_t n_gpus, max_gpus;
	struct session_export_client *client; /* n_nodes */
	struct session_export_mean *pair;
	size_t n_pairs;
};

struct session_export_frames {
	struct archive *a;
	uint64_t interval_ns;
	unsigned field[GS_GPU_FIELD_COUNT];
	size_t n_fields, n_values; /* ARCHIVE_N_VALUES + n_fields */
	struct session_export_gpu *gpu;
	size_t n_gpus, max_gpus;
	struct gs_map gpus; /* hash of a GPU's identity to its column */
	struct session_export_pair *pair;
	size_t n_pairs;
	struct gs_map pairs;
	struct session_export_client *client; /* of the whole session */
	struct session_export_pace *pace;     /* n_nodes */
	struct session_export_frame **open;   /* a ring: of frames first ... */
	int64_t first;
	bool gap_written; /* nothing for the frame before */
	/* The frame written last with samples; how many frames a sample of it, and the newest one,
	 * stand for, where what was stored is coarser than the frames: those between two are no
	 * gap. */
	int64_t last_filled, filled_spread, spread;
	int (*write)(void *ctx, const struct session_export_frame *frame);
	void *ctx;
};

int session_export_frames_open(struct session_export_frames *f, struct archive *a);
void session_export_frames_close(struct session_export_frames *f);
int session_export_frames_sample(void *ctx, const struct session_export_sample *m);
int session_export_frames_passed(void *ctx, int64_t wall_ns);
int session_export_frames_end(struct session_export_frames *f); /* what is open is written */

static inline void session_export_add(struct session_export_mean *m, double v)
{
	m->sum += v;
	m->n++;
}

#endif
