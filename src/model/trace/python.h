/*
 * What the kernel side knows of a Python interpreter, and what it reports of a code object that it
 * meets. Compiled by the BPF compiler and by the host's, like model/trace/event.h.
 */
#ifndef GS_MODEL_TRACE_PYTHON_H
#define GS_MODEL_TRACE_PYTHON_H

#include "model/trace/event.h"

#define GS_PY_NONE        0xffff /* an offset that this version does not have */
#define GS_PY_FRAME_BYTES 128    /* a frame is read in one piece of at most this */
#define GS_PY_STATE_BYTES 512    /* a thread state likewise */

/* How the place in a code object is written in a frame. */
enum gs_py_at {
	GS_PY_AT_BYTES = 0,   /* an int: bytes from the first instruction (3.8, 3.9) */
	GS_PY_AT_UNITS = 1,   /* an int: instructions of two bytes (3.10) */
	GS_PY_AT_POINTER = 2, /* the address of the instruction (3.11 on) */
};

/* Where an interpreter keeps what a stack is read from: the address of its _PyRuntime, and offsets
 * into its structures, in bytes, by structure and member: runtime_ _PyRuntimeState, interp_
 * PyInterpreterState, state_ PyThreadState, frame_ a frame, code_ PyCodeObject, text_ a str. */
struct gs_py_proc {
	__u64 runtime;        /* address in the process */
	__u64 image;          /* the end of the program's environment: each exec has another one */
	__u32 runtime_interp; /* first interpreter */
	__u32 interp_next;    /* the next interpreter */
	__u32 interp_threads; /* first thread state */
	__u16 version;        /* 0x030c is 3.12 */
	__u16 state_bytes;    /* of a thread state, as far as it is read */
	/* Neighbours; its interpreter; the id that pthread_self() has. */
	__u16 state_prev, state_next, state_interp, state_thread_id;
	__u16 state_frame;  /* the innermost frame; or: */
	__u16 cframe_frame; /* state_frame points to a struct that has it here */
	__u16 frame_bytes;
	/* Its code; the frame that called it; where it is: at_kind. */
	__u16 frame_code, frame_previous, frame_at;
	__u16 frame_owner;   /* one byte; 3 and more: a frame of C code, passed over */
	__u16 frame_tlbc;    /* free-threaded 3.14: which copy of the code runs */
	__u16 code_tlbc;     /* and where the copies are */
	__u16 at_kind;       /* enum gs_py_at */
	__u16 code_filename; /* the name, the qualified name (3.11 on) and the line table follow */
	__u16 code_first_line;  /* co_firstlineno */
	__u16 code_begin;       /* the first instruction (GS_PY_AT_POINTER) */
	__u16 text_length;      /* of a str: its characters, */
	__u16 text_state;       /* its flags, */
	__u16 text_ascii;       /* its characters when all are ASCII, */
	__u16 text_compact;     /* and when not */
	__u16 text_shift;       /* of the flags: to the kind, followed by compact and ascii */
	__u16 bytes_length;     /* of a bytes object */
	__u16 bytes_data;       /* and where they begin */
	__u16 is_free_threaded; /* a build without the lock */
	__u16 runtime_current;  /* the state of the thread that has the lock (to 3.11) */
	__u16 pad[2];
};
_Static_assert(sizeof(struct gs_py_proc) == 88, "gs_py_proc");

#define GS_PY_FILE_BYTES  512
#define GS_PY_NAME_BYTES  256
#define GS_PY_TABLE_BYTES 2048 /* of a line table in one event */
#define GS_PY_TABLE_MAX   (64 * GS_PY_TABLE_BYTES)

struct gs_py_text {
	__u64 address;    /* of the characters, in the process */
	__u32 length;     /* characters */
	__u16 char_bytes; /* 1 (Latin-1), 2 or 4; 0: could not be read */
	__u16 n_bytes;    /* how many of them the event has */
};

/* A code object that was not seen before in its process, or is not the one that was at its address.
 * It comes before the stack that has it. A line table that is longer than one event holds comes in
 * pieces: events that are alike but for table_off and table. */
struct gs_event_code {
	struct gs_event head;
	__u64 time_ns;
	__u64 code; /* address of the object */
	__u32 pid;
	__u32 tid;
	__u16 version;       /* as in struct gs_py_proc */
	__u16 table_n_bytes; /* of the line table, which follow */
	__s32 first_line;    /* co_firstlineno */
	__u64 table_off;     /* where in the table these are */
	__u64 table_bytes;   /* of the whole line table */
	__u32 func;          /* of GS_EV_PYFUNC: its number; else 0 */
	__u32 pad;
	struct gs_py_text file, name;     /* what their texts are, which follow */
	__u8 file_text[GS_PY_FILE_BYTES]; /* characters of 1, 2 or 4 bytes */
	__u8 name_text[GS_PY_NAME_BYTES]; /* likewise */
	__u8 table[];
};
_Static_assert(sizeof(struct gs_event_code) == 64 + 32 + 768, "gs_event_code");

/* --- calls of Python functions (src/bpf/calls/pycall.bpf.c) --- */

/* Versions whose evaluation function is entered for each call of a Python function: 3.8 to 3.10.
 * From 3.11 on calls from Python to Python stay inside of it (Python/ceval.c, CALL and
 * RETURN_VALUE); 3.11 has a static probe where they end, 3.12 and newer call a function of C for
 * each frame that has ended. Of these the offsets that calls need are one set. */
#define GS_PYCALL_FIRST   0x0308
#define GS_PYCALL_N       5
#define GS_PYCALL_LEFT    3 /* 3.11: shows only when a function is left */
#define GS_PYCALL_CLEARED 4 /* 3.12 to 3.14 with the lock: shows only when a frame has ended */

/* The cookie of the static probe where a function is left, GS_COOKIE_EXIT without a condition, says
 * where _PyRuntime is: so many words after the probe, in the same file. */
#define GS_PYCALL_WORD 8ull

#define GS_PY_GLOB_MAX   8
#define GS_PY_GLOB_CHARS 128 /* a power of two */

enum gs_py_glob_op {                              /* in place of characters */
		     GS_PY_GLOB_ANY = 0xffffffff, /* any characters */
		     GS_PY_GLOB_ONE = 0xfffffffe, /* one */
};

/* A pattern of characters (code points); n 0: anything. */
struct gs_py_pattern {
	__u32 n;
	__u32 chars[GS_PY_GLOB_CHARS]; /* code points */
};

/* Which Python functions are wanted: by file and name. */
struct gs_py_glob {
	struct gs_py_pattern file, name;
};

/* What is known of a code object that was called; key of the map gs_py_funcs. */
struct gs_py_func_key {
	__u64 code;
	__u64 pid;
};

struct gs_py_func {
	__u64 tag;    /* distinguishes it from others at the same address */
	__u16 number; /* from GS_FUNC_MAX on; 0: it is not wanted */
	__u8 is_sent; /* its name has been sent */
	__u8 pad[5];
};

#endif
