/*
 * What the trace writers share. A writer is a row of functions; export.c owns the file's object,
 * keeps the dictionary, and asks the writer to turn one record at a time into bytes:
 *
 *     push -> dictionary -> writer->record -> struct gs_out -> file
 *
 * A writer puts bytes without asking for room at each: gs_out_begin() leaves GS_OUT_RECORD_BYTES,
 * and no record makes more, since every text is cut at GS_PUT_MAX bytes.
 */
#ifndef GS_EXPORT_INT_H
#define GS_EXPORT_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "export/export.h"
#include "model/dict.h"
#include "model/func.h"
#include "model/record_stack.h"

#define GS_OUT_BYTES        (1u << 20)
#define GS_OUT_RECORD_BYTES (256u << 10) /* at most of one record in any format */
#define GS_OUT_TAIL_BYTES   2048         /* at most of the end of a file in any format */
#define GS_OUT_MARK_BYTES   4096
#define GS_PUT_MAX          4096 /* bytes used of a text; at most six times that are written */
#define GS_PUT_MAX_SHORT    128  /* of a text in the end of a file */

/*
 * The file: one large buffer, written when the next record might not fit. Marks remember where
 * records end in it, so that after a failed write the file is cut where a record ends.
 */
struct gs_out {
	int fd;
	int error;    /* negative errno of the first failed write; nothing is written after it */
	uint8_t *buf; /* owned, GS_OUT_BYTES */
	size_t used_bytes;
	uint64_t file_bytes; /* in the file */
	uint32_t n_marks;
	uint32_t marks[GS_OUT_BYTES / GS_OUT_MARK_BYTES];
};

int gs_out_open(struct gs_out *out, const char *path);

/* Put what is buffered into the file. 0, or the negative errno of this or an earlier failure. */
int gs_out_flush(struct gs_out *out);

/* After a failure: put text behind what was kept, as far as that works. */
void gs_out_last_words(struct gs_out *out, const char *text);

/* Flush, and close. The same errors. */
int gs_out_close(struct gs_out *out);

/* Where the next record's bytes go; GS_OUT_RECORD_BYTES of room. */
static inline uint8_t *gs_out_begin(struct gs_out *out)
{
	if (out->used_bytes > GS_OUT_BYTES - GS_OUT_RECORD_BYTES)
		(void)gs_out_flush(out); /* kept in out->error */
	return out->buf + out->used_bytes;
}

/* The record ends here. */
void gs_out_commit(struct gs_out *out, const void *end);

#define GS_EXPORT_VALUE_MAX 32 /* more of one call are left out */

/* An open trace file. */
struct gs_export {
	const struct gs_writer *writer;
	void *state; /* the writer's own */
	struct gs_dict *dict;
	struct gs_out out;
	struct gs_sink sink;
	char *path;
	uint64_t max_bytes;
	uint64_t left_out; /* calls */
	uint64_t now_ns;   /* the latest time seen in the stream */
	struct gs_rec_end end;
	/* What a user's probe read, of the next CALL; in a writer: of the one in hand. */
	struct gs_rec_value values[GS_EXPORT_VALUE_MAX];
	unsigned n_values;
	bool ended; /* end is the stream's END */
	bool started;
	bool full;
};

/* One format. Functions write at p and return where they ended. */
struct gs_writer {
	const char *suffix;
	size_t state_bytes; /* zeroed at open */
	/* What stands at the start of the file. The session and its texts are known by then. */
	uint8_t *(*start)(struct gs_export *e, uint8_t *p);
	/* One record that the dictionary has taken in. */
	uint8_t *(*record)(struct gs_export *e, const struct gs_record *r, uint8_t *p);
	/* What stands at its end, GS_OUT_TAIL_BYTES at most; e->ended tells whether the stream came
	 * to its END. NULL: nothing. */
	uint8_t *(*finish)(struct gs_export *e, uint8_t *p);
	const char *last_words; /* ends a file that could not be written on; NULL: nothing needed */
	void (*fini)(void *state); /* may be NULL */
};

extern const struct gs_writer gs_writer_perfetto;
extern const struct gs_writer gs_writer_json;
extern const struct gs_writer gs_writer_csv;

/* A call with the entities that it names; pointers are NULL for ids never announced. */
struct gs_call_view {
	const struct gs_rec_call *call;
	const struct gs_rec_function *function;
	const struct gs_rec_thread *thread;
	const struct gs_rec_process *process;
	unsigned layer; /* 0 when not known */
	unsigned func_class;
	const char *layer_name, *function_name, *class_name;
};

void gs_call_view(const struct gs_dict *dict, const struct gs_rec_call *call,
		  struct gs_call_view *ret_view);

#define GS_EXPORT_ARG_MAX (GS_ARG_MAX + 4)

/* gs_call_args(), and what the communicator and the flags of the call add: "rank" and "nranks",
 * "state" of a call that did not return, "arguments" when some could not be read. */
size_t gs_export_args(const struct gs_dict *dict, const struct gs_call_view *v,
		      struct gs_arg ret_args[GS_EXPORT_ARG_MAX]);

/* Numbers for the names of arguments, from 1 in order of appearance. Names are literals, so one is
 * found by its address; the same name may stand at several. */
#define GS_ARG_NAME_SLOTS 128
struct gs_arg_names {
	const char *name[GS_ARG_NAME_SLOTS];
	uint8_t id[GS_ARG_NAME_SLOTS];
	uint8_t n_slots; /* used */
	uint8_t last_id;
};

/* The number of name, a new one (last_id moves) when it has none; 0 when there is no room. */
unsigned gs_arg_name_id(struct gs_arg_names *names, const char *name);

/* A value of a described probe, as JSON: a number, or a text in quotes. */
char *gs_put_value(char *p, const struct gs_dict *dict, const struct gs_rec_value *value);

/* Texts and numbers; each writes at p, without a terminator, and returns where it ended. */
char *gs_put_u64(char *p, uint64_t v);
char *gs_put_i64(char *p, int64_t v);
char *gs_put_hex(char *p, uint64_t v);                          /* "0x7f00" */
char *gs_put_us(char *p, uint64_t ns);                          /* "12.345": microseconds */
char *gs_put_dim3(char *p, uint32_t x, uint32_t y, uint32_t z); /* "128,2,1" */
char *gs_put_utf8(char *p, const char *text, size_t max_bytes); /* U+FFFD for what is not */
char *gs_put_json(char *p, const char *text, size_t max_bytes); /* the same, quoted and escaped */
char *gs_put_csv(char *p, const char *text, size_t max_bytes);  /* the same, quoted if needed */

/* A text of this program's own, as it is. */
static inline char *gs_put(char *p, const char *text)
{
	size_t n = strlen(text);

	memcpy(p, text, n);
	return p + n;
}

#endif
