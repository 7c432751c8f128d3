/*
 * Probes that the user describes: a table that one generic program in the kernel follows. A row is
 * one described function of one file, or one site of a static probe; it says which values are read
 * where, which calls are of interest, and what becomes of them. Compiled by the BPF compiler and by
 * the host's, like model/trace/event.h.
 */
#ifndef GS_MODEL_TRACE_USER_PROBE_H
#define GS_MODEL_TRACE_USER_PROBE_H

#include "model/trace/event.h"
#include "model/trace/hist.h"

#define GS_USER_ROW_MAX    4096 /* rows of a run; row 0 is never used */
#define GS_USER_VALUE_MAX  8    /* values of one probe */
#define GS_USER_TEXT_MAX   4    /* of these, strings */
#define GS_USER_TEXT_BYTES 128  /* of a string, with its zero */
#define GS_USER_CHAIN_MAX  4    /* pointers followed on the way to a value */
#define GS_USER_OP_MAX     32   /* steps of a filter */
#define GS_USER_STACK_MAX  8    /* operands of a filter waiting at one time */
#define GS_USER_DEPTH_MAX  8    /* open calls of a thread whose values wait for the return */
#define GS_USER_CELL_MAX   8192 /* (thread, probe) pairs that are added up */
#define GS_USER_NONE       255

enum gs_user_from {
	GS_FROM_REGISTER = 1,
	GS_FROM_CONSTANT = 2,
	GS_FROM_STACK = 3, /* add: bytes above the stack pointer at entry */
};

enum gs_user_when {
	GS_WHEN_ENTRY = 0,
	GS_WHEN_RETURN = 1,       /* all of it is read at the return: the result */
	GS_WHEN_MEMORY_LATER = 2, /* the place is known at entry, what is there at the return */
};

/* One value: a register, constant or word of the stack; chain[] of pointers followed from there;
 * and of what is found at the end, so many bytes. */
struct gs_user_value {
	__u8 value_type;  /* enum gs_value_type, model/trace/record_stack.h */
	__u8 from;        /* enum gs_user_from */
	__u8 reg;         /* place in struct pt_regs */
	__u8 index_reg;   /* likewise, added shifted left by index_shift; GS_USER_NONE */
	__u8 index_shift; /* 0 to 3 */
	__u8 shift;       /* bits of the register below the value */
	__u8 bytes;       /* 1, 2, 4 or 8 */
	__u8 is_signed;   /* 1: it is extended by its sign */
	__u8 n_chain;
	__u8 when;       /* enum gs_user_when */
	__u8 text;       /* a string: which of the texts; else GS_USER_NONE */
	__u8 text_bytes; /* of a text in place, that begins text_add after: at most; 0: a pointer's
			  */
	__s32 text_add;  /* to the address where the chain ends */
	__s64 add;       /* to the register, before the chain */
	__s32 chain[GS_USER_CHAIN_MAX]; /* added to the pointer before it is followed */
};
_Static_assert(sizeof(struct gs_user_value) == 40, "gs_user_value");

/* A filter is a program for a machine with a stack. */
enum gs_user_op_code {
	GS_OP_NONE = 0,
	GS_OP_CONSTANT, /* push imm */
	GS_OP_VALUE,    /* push the value number arg; of a string: its hash */
	GS_OP_DURATION, /* push */
	GS_OP_PID,
	GS_OP_TID,
	GS_OP_NOT, /* one operand */
	GS_OP_INVERT,
	GS_OP_NEGATE,
	GS_OP_ADD, /* two operands from here on; S: signed */
	GS_OP_SUB,
	GS_OP_MUL,
	GS_OP_DIV,
	GS_OP_DIV_S,
	GS_OP_MOD,
	GS_OP_MOD_S,
	GS_OP_BIT_AND,
	GS_OP_BIT_OR,
	GS_OP_BIT_XOR,
	GS_OP_SHL,
	GS_OP_SHR,
	GS_OP_SHR_S,
	GS_OP_EQ,
	GS_OP_NE,
	GS_OP_LT,
	GS_OP_LT_S,
	GS_OP_LE,
	GS_OP_LE_S,
	GS_OP_GT,
	GS_OP_GT_S,
	GS_OP_GE,
	GS_OP_GE_S,
	GS_OP_AND, /* of conditions */
	GS_OP_OR,
	GS_OP_COUNT
};

struct gs_user_op {
	__u8 code; /* enum gs_user_op_code */
	__u8 arg;  /* of some codes: there */
	__u8 pad[6];
	__u64 imm; /* likewise */
};

enum gs_user_flag {
	GS_USER_RETURN = 1,        /* the return is seen too; else it is an instant */
	GS_USER_FILTER_LATE = 2,   /* the filter needs what only the return has */
	GS_USER_ALWAYS = 4,        /* whole events also where others are added up */
	GS_USER_HASH = 8,          /* the filter compares strings */
	GS_USER_FIELDS = 16,       /* the values are fields of the call, not sent beside it */
	GS_USER_PY_STACK = 32,     /* the Python stack is taken with it */
	GS_USER_NATIVE_STACK = 64, /* likewise */
};

/* The numbers are stored. */
enum gs_user_aggregate {
	GS_AGGREGATE_NONE = 0,
	GS_AGGREGATE_COUNT = 1,
	GS_AGGREGATE_SUM = 2,
	GS_AGGREGATE_HIST = 3,
	GS_AGGREGATE_HIST_DURATION = 4,
};

struct gs_user_row {
	__u16 func; /* gs_func id */
	__u8 layer; /* enum gs_layer */
	__u8 flags; /* enum gs_user_flag */
	__u8 n_values;
	__u8 n_texts;
	__u8 n_ops;           /* 0: all calls */
	__u8 aggregate;       /* enum gs_user_aggregate; not NONE: no events */
	__u8 aggregate_value; /* which value; GS_USER_NONE */
	__u8 v_bytes;         /* values that are fields of the call too; GS_USER_NONE */
	__u8 v_stream;        /* likewise */
	__u8 v_aux;           /* likewise */
	__u8 v_arg0;          /* likewise */
	__u8 pad[3];
	struct gs_user_value values[GS_USER_VALUE_MAX]; /* n_values */
	struct gs_user_op ops[GS_USER_OP_MAX];          /* n_ops: the filter */
};
_Static_assert(sizeof(struct gs_user_row) == 16 + 8 * 40 + 32 * 16, "gs_user_row");

/* GS_EV_VALUES: a call of a user's probe together with what was read; cut after the last text. */
struct gs_event_values {
	struct gs_event_call call; /* its head is that of this event */
	__u16 row;                 /* of the table */
	__u8 n_values;
	__u8 n_texts;
	__u32 unread; /* bit n: value n could not be read and is 0, or an empty string */
	__u64 value[GS_USER_VALUE_MAX]; /* n_values; of a text: 0, or its hash */
	char text[GS_USER_TEXT_MAX][GS_USER_TEXT_BYTES];
};
_Static_assert(sizeof(struct gs_event_values) == 104 + 8 + 64 + 512, "gs_event_values");
#define GS_EVENT_VALUES_BYTES(n_texts)                                                             \
	(sizeof(struct gs_event_values) - (GS_USER_TEXT_MAX - (n_texts)) * GS_USER_TEXT_BYTES)

struct gs_user_cell_key {
	__u32 pid, tid;
	__u32 func; /* id */
	__u32 row;  /* one of the rows of func: that which was hit first */
};

/* What one thread's calls of one probe add up to; only ever growing. */
struct gs_user_cell {
	__u64 calls;
	__u64 total_ns;
	__u64 max_ns;
	__u64 bytes; /* of calls that succeeded */
	/* Of the value that is aggregated. */
	__u64 n_values;
	__u64 sum;
	__u64 min, max; /* as is_signed of the value says */
	char comm[16];  /* of the thread */
	__u32 hist_ns[GS_HIST_N_BUCKETS];
	__u32 hist[GS_HIST_N_BUCKETS]; /* a negative value counts as 0 */
};
_Static_assert(sizeof(struct gs_user_cell) % 8 == 0, "gs_user_cell");

#ifndef __bpf__
/* The hash by which filters compare strings: FNV-1a over at most GS_USER_TEXT_BYTES - 1 bytes. */
static inline __u64 gs_user_hash(const char *text)
{
	__u64 h = 0xcbf29ce484222325ull;

	for (int i = 0; i < GS_USER_TEXT_BYTES - 1 && text[i]; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ull;
	return h;
}
#endif

#endif
