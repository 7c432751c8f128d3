/*
 * What the trace writers share. A writer is a row of functions; export.c owns the file's object,
 * keeps the dictionary, and asks the writer to turn one record at a time into bytes:
 *
 *     push -> dictionary -> writer->record -> struct gs_export_out -> file
 *
 * A writer puts bytes without asking for room at each: gs_export_out_begin() leaves GS_EXPORT_OUT_RECORD_BYTES,
 * and no record makes more, since every text is cut at GS_PUT_MAX bytes.
 */
#ifndef GS_OUTPUT_TRACE_EXPORT_EXPORT_INT_H
#define GS_OUTPUT_TRACE_EXPORT_EXPORT_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/output.h"
#include "output/trace_export/export.h"
#include "model/trace/dict.h"
#include "model/trace/func.h"
#include "model/trace/record_stack.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "core/text/put.h"

#define GS_EXPORT_OUT_BYTES        (1u << 20)
#define GS_EXPORT_OUT_RECORD_BYTES (256u << 10) /* at most of one record in any format */
#define GS_EXPORT_OUT_TAIL_BYTES   2048         /* at most of the end of a file in any format */
#define GS_EXPORT_OUT_MARK_BYTES   4096
/*
 * The file: one large buffer, written when the next record might not fit. Marks remember where
 * records end in it, so that after a failed write the file is cut where a record ends.
 */
struct gs_export_out {
	struct gs_output file;
	struct gs_export_gzip *gzip; /* owned; NULL: the file has the bytes as they are */
	bool is_stdout;              /* whose file may have had something before: never cut */
	int error;    /* negative errno of the first failed write; nothing is written after it */
	uint8_t *buf; /* owned, GS_EXPORT_OUT_BYTES */
	size_t used_bytes;
	uint64_t file_bytes; /* in the file */
	uint32_t n_marks;
	uint32_t marks[GS_EXPORT_OUT_BYTES / GS_EXPORT_OUT_MARK_BYTES];
};

/* path NULL: standard output. flags: enum gs_output_flag. gzip: the file is compressed. */
int gs_export_out_open(struct gs_export_out *out, const char *path, unsigned flags, bool gzip,
		       struct gs_err *err);

/* Put what is buffered into the file. 0, or the negative errno of this or an earlier failure. */
int gs_export_out_flush(struct gs_export_out *out);

/* After a failure: put text after what was kept, as far as that works. */
void gs_export_out_last_words(struct gs_export_out *out, const char *text);

/* Flush, and close. The same errors, or that it could not take its place, with err. */
int gs_export_out_close(struct gs_export_out *out, struct gs_err *err);

/* Where the next record's bytes go; GS_EXPORT_OUT_RECORD_BYTES of room. */
static inline uint8_t *gs_export_out_begin(struct gs_export_out *out)
{
	if (out->used_bytes > GS_EXPORT_OUT_BYTES - GS_EXPORT_OUT_RECORD_BYTES)
		(void)gs_export_out_flush(out); /* kept in out->error */
	return out->buf + out->used_bytes;
}

/* The record ends here. */
void gs_export_out_commit(struct gs_export_out *out, const void *end);

/* What a call that is being written has to do with its flow. */
enum gs_export_arrow {
	GS_ARROW_NONE = 0,
	GS_ARROW_FROM, /* the last work that a wait was for */
	GS_ARROW_TO,   /* that wait */
};

enum gs_export_gpu_unit {
	GS_EXPORT_GPU_PERCENT,
	GS_EXPORT_GPU_BYTES,
	GS_EXPORT_GPU_WATTS,
	GS_EXPORT_GPU_MEGAHERTZ,
	GS_EXPORT_GPU_CELSIUS,
	GS_EXPORT_GPU_BYTES_A_SECOND,
};

enum gs_export_gpu_kind {
	GS_EXPORT_GPU_VALUE,
	GS_EXPORT_GPU_SPAN,   /* from time_ns to end_ns, text says of what */
	GS_EXPORT_GPU_MOMENT, /* text says what happened */
};

/* Something on a track of a GPU, or of a process's share of one. Texts are lent for the call. */
struct gs_export_gpu_point {
	enum gs_export_gpu_kind kind;
	uint32_t gpu;                    /* from 0 in the order in which they were seen */
	uint32_t group, track;           /* numbers of the GPU's group and of the track, from 1 */
	bool is_new_group, is_new_track; /* announced by this point */
	const char *gpu_name;            /* of the group */
	const char *name;                /* of the track */
	const struct gs_rec_process *process; /* traced, whose track it is; NULL: the GPU's */
	enum gs_export_gpu_unit unit;
	uint64_t time_ns, end_ns; /* of the file's clock */
	double value;
	const char *text, *detail;
};

/* An open trace file. */
struct gs_export {
	const struct gs_export_writer *writer;
	void *state; /* the writer's own */
	struct gs_dict *dict;
	struct gs_export_out out;
	struct gs_sink sink;
	char *path;
	uint64_t max_bytes;
	enum gs_flame_by flame_by;
	bool shows_nothing;                  /* of a flame graph, after its end */
	uint64_t left_out;                   /* calls; of what is made at the end: its lines */
	uint64_t now_ns;                     /* the latest time seen in the stream */
	struct gs_export_timeline *timeline; /* owned; NULL unless the writer draws one */
	struct gs_export_streams *streams;   /* owned; NULL unless the writer shows spans */
	struct gs_export_gpus *gpus;         /* owned; NULL unless the writer shows GPUs */
	struct gs_export_works *works;       /* likewise: what they did by their own times */
	struct gs_export_nccl *nccl;         /* likewise: what NCCL said of its operations */
	bool shows_something;                /* a call, a sample, or a value of a process or GPU */
	/* Of the call that is being written: */
	uint64_t begin_ns; /* its start, or a ns before, so that it stands around its first child */
	enum gs_export_arrow arrow;
	const struct gs_rec_values *values; /* its named values, or NULL */
	struct gs_buf values_buf;           /* owned */
	struct gs_rec_end end;
	bool ended; /* end is the stream's END */
	bool started;
	bool full;
	bool finished;
};

/* One format. Functions write at p and return where they ended. */
struct gs_export_writer {
	const char *suffix;
	size_t state_bytes; /* zeroed at open */
	bool can_gzip;      /* a name may also end in its suffix and .gz */
	bool is_timeline;   /* calls nest by time, and flows are drawn */
	bool at_end;        /* all is written by finish, which may begin and commit as often as
			     * it likes, and keeps e->max_bytes itself */
	/* What stands at the start of the file. The session and its texts are known by then. */
	uint8_t *(*start)(struct gs_export *e, uint8_t *p);
	/* One record that the dictionary has taken in. */
	uint8_t *(*record)(struct gs_export *e, const struct gs_record *r, uint8_t *p);
	/* A span of work in a stream. track_name: of its track, when it comes first there or the
	 * stream is another one; else NULL. span itself may be NULL: streams are not shown. */
	uint8_t *(*span)(struct gs_export *e, const struct gs_activity_span *span,
			 const char *track_name, uint8_t *p);
	/* What samples say of GPUs. NULL: they are not shown. */
	uint8_t *(*gpu)(struct gs_export *e, const struct gs_export_gpu_point *point, uint8_t *p);
	/* What stands at its end, GS_EXPORT_OUT_TAIL_BYTES at most unless at_end; e->ended says whether
	 * the stream came to its END. NULL: nothing. */
	uint8_t *(*finish)(struct gs_export *e, uint8_t *p);
	const char *last_words; /* ends a file that could not be written on; NULL: nothing needed */
	void (*fini)(void *state); /* may be NULL */
};

extern const struct gs_export_writer gs_writer_perfetto;
extern const struct gs_export_writer gs_writer_json;
extern const struct gs_export_writer gs_writer_csv;
extern const struct gs_export_writer gs_writer_folded;
extern const struct gs_export_writer gs_writer_svg;

/* A call with the entities that it names; pointers are NULL for ids never announced. */
struct gs_export_call_view {
	const struct gs_rec_call *call;
	const struct gs_rec_function *function;
	const struct gs_rec_thread *thread;
	const struct gs_rec_process *process;
	unsigned layer; /* 0 when not known */
	unsigned func_class;
	const struct gs_rec_kernel *kernel; /* that a launch is of; NULL: not known, or no launch */
	const char *layer_name, *function_name, *class_name;
};

void gs_export_view_call(const struct gs_dict *dict, const struct gs_rec_call *call,
			 struct gs_export_call_view *ret_view);

#define GS_EXPORT_ARG_MAX (GS_ARG_MAX + 6)

/* gs_call_args(), and what the communicator and the flags of the call add: "rank" and "nranks",
 * "state" of a call that did not return, "arguments" when some could not be read, "python" the
 * line that it came from. */
size_t gs_export_args(const struct gs_dict *dict, const struct gs_export_call_view *v,
		      struct gs_arg ret_args[GS_EXPORT_ARG_MAX]);

/* --- timeline.c: nesting, and arrows between calls --- */

struct gs_export_timeline *gs_export_timeline_new(void);
void gs_export_timeline_free(struct gs_export_timeline **timeline);

/* A CALL on its way to the writer: sets e->begin_ns and e->arrow, and may keep it for a while. */
void gs_export_timeline_call(struct gs_export *e, const struct gs_rec_call *call);

/* Writes the calls that are kept. */
void gs_export_timeline_end(struct gs_export *e);

/* Of export.c: one record, or one span, to the writer, within the limit of the file. */
void gs_export_write(struct gs_export *e, const struct gs_record *r);
void gs_export_write_span(struct gs_export *e, const struct gs_activity_span *span,
			  const char *track_name);

/* Of streams.c: e->streams; 0 or -ENOMEM. */
int gs_export_streams_new(struct gs_export *e);
void gs_export_streams_free(struct gs_export_streams **streams);

/* Writes the spans that are kept. */
void gs_export_streams_write(struct gs_export_streams *streams);

void gs_export_write_gpu_point(struct gs_export *e, const struct gs_export_gpu_point *point);
void gs_export_see_time(struct gs_export *e, uint64_t time_ns);

/* Of gpus.c: e->gpus; 0 or -ENOMEM. */
int gs_export_gpus_new(struct gs_export *e);
void gs_export_gpus_free(struct gs_export_gpus **gpus);

/* Any record. 0 or -ENOMEM. */
int gs_export_gpus_take(struct gs_export_gpus *gpus, const struct gs_record *r);

/* Writes what has not ended until the latest time seen. */
void gs_export_gpus_end(struct gs_export_gpus *gpus);

/* Of works.c: e->works; 0 or -ENOMEM. */
struct gs_rec_gpu_work;
int gs_export_works_new(struct gs_export_works **ret_works);
void gs_export_works_free(struct gs_export_works **works);
void gs_export_works_take(struct gs_export *e, const struct gs_rec_gpu_work *r);

/* Of nccl.c: e->nccl; 0 or -ENOMEM. Any record. */
int gs_export_nccl_new(struct gs_export_nccl **ret_nccl);
void gs_export_nccl_free(struct gs_export_nccl **nccl);
void gs_export_nccl_take(struct gs_export *e, const struct gs_record *r);

#define GS_EXPORT_VALUES_MAX 24 /* of a call: more would pass GS_EXPORT_OUT_RECORD_BYTES */

/* The operator (or other function of a layer above) around a call: its name, or NULL. *ret_key:
 * what to call it: "operator" or "inside". */
const char *gs_export_scope(const struct gs_dict *dict, const struct gs_rec_call *call,
			    const char **ret_key);

/* The innermost Python frame of a call, 0 none is known. */
uint32_t gs_export_py_frame(const struct gs_dict *dict, const struct gs_rec_call *call);

/* True for what is a moment and not a span: a static probe, or one at an entry only. */
static inline bool gs_export_is_instant(const struct gs_export_call_view *v)
{
	if (v->call->call_flags & (GS_CALL_INSTANT | GS_CALL_UNTIMED))
		return true;
	return v->call->dur_ns == 0 && v->func_class == GS_CLASS_PROBE &&
	       !(v->call->call_flags & GS_CALL_UNFINISHED);
}

/* Numbers for the names of arguments, from 1 in order of appearance. Names are literals, so one is
 * found by its address; the same name may stand at several. */
#define GS_ARG_NAME_SLOTS 128
struct gs_export_arg_names {
	const char *name[GS_ARG_NAME_SLOTS];
	uint8_t id[GS_ARG_NAME_SLOTS];
	uint8_t n_slots; /* used */
	uint8_t last_id;
};

/* The number of name, a new one (last_id moves) when it has none; 0 when there is no room. */
unsigned gs_export_arg_name_id(struct gs_export_arg_names *names, const char *name);

/* A value that is no text; json: what JSON has no number for is quoted. */
char *gs_export_put_value(char *p, const struct gs_rec_value *v, bool json);

#endif
