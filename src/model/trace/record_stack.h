/*
 * Records of the layers above CUDA: places in code, stacks of them, samples of the timer, values
 * that a user's probe read, and what was done under an operator.
 *
 * Fields that many have: id: by which others refer to it; launches, copies, allocs, collectives,
 * others: calls of that sort; allocations, frees, blocks: how many; bytes: of these; device: as
 * CUDA numbers it for the process.
 */
#ifndef GS_MODEL_TRACE_RECORD_STACK_H
#define GS_MODEL_TRACE_RECORD_STACK_H

#include "model/trace/record.h"

enum gs_frame_kind {
	GS_FRAME_PYTHON = 1,
	GS_FRAME_NATIVE = 2,
};

/* One place in code, recorded once. */
struct gs_rec_frame {
	struct gs_record head;
	uint32_t id;
	uint16_t frame_kind; /* enum gs_frame_kind */
	uint16_t pad;
	uint32_t function_str; /* Python: qualified name where the interpreter has it; native:
				* demangled; 0 unknown */
	uint32_t file_str;     /* Python: source file; native: library or executable */
	uint32_t line;         /* 0 unknown */
	uint32_t first_line;   /* of the function; 0 unknown */
	uint64_t file_off;     /* native: of the instruction in the file; Python: 0 */
};

/* n_frames ids of FRAMEs that were recorded before, the innermost first. */
struct gs_rec_stack {
	struct gs_record head;
	uint32_t id;
	uint32_t process;     /* id */
	uint16_t stack_kind;  /* enum gs_stack_kind */
	uint16_t stack_flags; /* enum gs_stack_flag */
	uint32_t n_frames;
	uint32_t frames[]; /* ids */
};

/* A thread was found running by the timer. */
struct gs_rec_sample {
	struct gs_record head;
	uint64_t time_ns;
	uint64_t period_ns;    /* the time that it stands for */
	uint32_t thread;       /* id */
	uint32_t scope;        /* function id, as in CALL */
	uint32_t py_stack;     /* as in CALL */
	uint32_t native_stack; /* likewise */
	uint32_t cpu;          /* where it ran */
	uint32_t pad;
};

/* A thread of a Python interpreter was off its processor. */
struct gs_rec_wait {
	struct gs_record head;
	uint64_t time_ns; /* its end */
	uint64_t wait_ns;
	uint32_t thread;   /* id */
	uint32_t py_stack; /* where, as in CALL; 0: no Python function, or not looked at */
	uint32_t cause;    /* enum gs_wait_cause, model/trace/account.h */
	uint32_t pad;
};

enum gs_value_type {
	GS_VALUE_U64 = 1,
	GS_VALUE_I64 = 2,
	GS_VALUE_F64 = 3,   /* the bits of a double */
	GS_VALUE_PTR = 4,   /* shown in hex */
	GS_VALUE_STR = 5,   /* value: id of a STRING */
	GS_VALUE_BYTES = 6, /* a number of bytes */
};

struct gs_rec_value {
	uint32_t name_str;   /* what the user calls it */
	uint32_t value_type; /* enum gs_value_type */
	uint64_t value;      /* of a text: id of a STRING */
};

/* The named values of the CALL that stands right after it. */
struct gs_rec_values {
	struct gs_record head;
	uint32_t n_values;
	uint32_t pad;
	struct gs_rec_value values[];
};

/* What calls of CUDA and NCCL did under one function of a layer above (innermost around them), in
 * one thread, since the last such record. Only where calls are aggregated in the kernel: whole
 * events have it by their scope. */
struct gs_rec_use {
	struct gs_record head;
	uint32_t thread;
	uint32_t function;
	uint64_t time_ns;
	uint64_t launches, copies, allocs, collectives, others;
	uint64_t total_ns; /* of all these calls */
	uint64_t bytes;    /* of those that succeeded */
	/* Of a Python function, and 0 of others: as struct gs_py_use of
	 * model/trace/kernel_side.h. */
	uint64_t py_self_ns, py_launches, py_resumes;
};

/* What the calls of a user's probe add up to in one thread, since the last such record of the same
 * thread and function (min and max: so far); n_buckets of struct gs_rec_bucket after it. */
struct gs_rec_aggregate {
	struct gs_record head;
	uint32_t thread;
	uint32_t function;
	uint64_t time_ns;
	uint16_t aggregate;  /* enum gs_user_aggregate, model/trace/user_probe.h */
	uint16_t is_signed;  /* of sum, min and max */
	uint32_t value_str;  /* the name of the value; 0 none (a count) */
	uint32_t value_type; /* enum gs_value_type */
	uint32_t n_buckets;
	uint64_t count; /* of values */
	uint64_t sum;   /* of these */
	uint64_t min, max;
	struct gs_rec_bucket buckets[]; /* of these, of a histogram */
};

/* PyTorch's caching allocator of one process and device, at the end. Of correlate. */
struct gs_rec_allocator {
	struct gs_record head;
	uint32_t process; /* id */
	int32_t device;   /* -1: of frees whose allocation was not seen */
	uint64_t live_bytes;
	uint64_t peak_bytes;
	uint64_t total_bytes; /* of all allocations */
	uint64_t allocations;
	uint64_t frees;
	uint64_t unknown_frees;  /* of blocks from before tracing */
	uint64_t reserved_bytes; /* of the process, all devices: what CUDA calls have allocated and
				  * not freed; 0 not known */
	uint64_t peak_reserved_bytes;
};

/* Blocks of it that were never freed, by where they were allocated. Of correlate, at the end. */
struct gs_rec_leak {
	struct gs_record head;
	uint32_t process; /* id */
	int32_t device;
	uint32_t scope;    /* function id, as in CALL; 0 none */
	uint32_t py_stack; /* as in CALL */
	uint64_t blocks;
	uint64_t bytes;
};

_Static_assert(sizeof(struct gs_rec_frame) == 40, "frame");
_Static_assert(sizeof(struct gs_rec_stack) == 24, "stack");
_Static_assert(sizeof(struct gs_rec_sample) == 48, "sample");
_Static_assert(sizeof(struct gs_rec_wait) == 40, "wait");
_Static_assert(sizeof(struct gs_rec_values) == 16, "values");
_Static_assert(sizeof(struct gs_rec_use) == 104, "use");
_Static_assert(sizeof(struct gs_rec_aggregate) == 72, "aggregate");
_Static_assert(sizeof(struct gs_rec_allocator) == 80, "allocator");
_Static_assert(sizeof(struct gs_rec_leak) == 40, "leak");

#endif
