/*
 * What the door to Python (companion/python) adds to the file of a process (model/companion/file.h), after all the rest:
 *
 *   gs_companion_python_at()   n_slots times struct gs_companion_python_thread: of the thread of that slot
 *   after them                 struct gs_companion_python_names: which function has which number
 *
 * A function is known by a number of this process. Its name is in the names before anything else says that number, so
 * that a reader who has a position first and the names after it knows all. A call that finds no room in the ring, or all
 * where single calls are not asked for, is added up in its thread's rows. Times of open functions and of records are
 * ticks, those of rows ns.
 *
 * What is asked for lies in a file beside the plan: struct gs_companion_python_plan.
 */
#ifndef GS_MODEL_COMPANION_PYTHON_H
#define GS_MODEL_COMPANION_PYTHON_H

#include "model/companion/file.h"
#include "model/trace/python.h"

enum gs_companion_python_kind {
	GS_COMPANION_PYTHON_CALL = GS_COMPANION_PYTHON_FIRST, /* struct gs_companion_python_call */
	GS_COMPANION_PYTHON_STATE,                            /* struct gs_companion_python_state */
};

#define GS_COMPANION_PYTHON_FUNCS      16384u     /* numbers of a process are below: from 1 on */
#define GS_COMPANION_PYTHON_OPEN       2048u      /* functions open at one time in one thread */
#define GS_COMPANION_PYTHON_ROWS       16384u     /* functions that are added up, of one slot */
#define GS_COMPANION_PYTHON_NAME_BYTES (4u << 20) /* of all names */
#define GS_COMPANION_PYTHON_TEXT_MAX   1000u      /* of a file or a name; longer ones are cut */

enum gs_companion_python_flag {
	GS_COMPANION_PYTHON_RESUMED = 1, /* a generator or coroutine went on */
};

/* A call that has ended. */
struct gs_companion_python_call {
	struct gs_companion_record head;
	uint64_t start, dur; /* ticks, as the next one */
	uint64_t self;       /* in the function itself: not in functions that it called */
	uint16_t number;
	uint16_t around; /* number of the function that called it; 0 none that is seen */
	uint16_t cpu;    /* where it returned */
	uint8_t depth;   /* functions that were open around it, up to 255 */
	uint8_t flags;   /* enum gs_companion_python_flag */
	uint32_t launches;
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_companion_python_call) == 48, "gs_companion_python_call");

enum gs_companion_python_what {
	GS_COMPANION_PYTHON_REFUSED = 1, /* functions of this process are not seen: text says why */
	GS_COMPANION_PYTHON_HELD = 2, /* another profiler has the hook of a thread: text says who */
};

/* text: to the first zero or the record's end. */
struct gs_companion_python_state {
	struct gs_companion_record head;
	uint32_t what; /* enum gs_companion_python_what */
	uint32_t pad;
	char text[];
};
_Static_assert(sizeof(struct gs_companion_python_state) == 16, "gs_companion_python_state");

/* An open function. */
struct gs_companion_python_frame {
	uint64_t start;  /* ticks */
	uint64_t inside; /* ticks in functions inside of it that have ended */
	uint64_t code;   /* address of the code object */
	uint16_t number;
	uint16_t flags;    /* enum gs_companion_python_flag */
	uint32_t launches; /* of the thread, when it began */
};
_Static_assert(sizeof(struct gs_companion_python_frame) == 32, "gs_companion_python_frame");

/* Calls of one function in one slot, added up. Only grows. */
struct gs_companion_python_row {
	uint32_t number;
	uint32_t pad;
	uint64_t calls;
	uint64_t total_ns, self_ns, max_ns;
	uint64_t resumes;  /* calls by which a generator or coroutine went on */
	uint64_t launches; /* of kernels and graphs, in it and in what it called */
	uint64_t pad1;
};
_Static_assert(sizeof(struct gs_companion_python_row) == 64, "gs_companion_python_row");

struct gs_companion_python_thread {
	uint32_t depth; /* of frames: functions that are open */
	uint32_t n_rows;
	uint32_t pad[14];
	uint16_t of[GS_COMPANION_PYTHON_FUNCS]; /* by number: place in rows + 1; 0 none yet */
	struct gs_companion_python_frame frames[GS_COMPANION_PYTHON_OPEN];
	struct gs_companion_python_row rows[GS_COMPANION_PYTHON_ROWS];
	uint32_t hist[GS_COMPANION_PYTHON_ROWS][GS_HIST_N_BUCKETS]; /* of durations, of each row */
	uint8_t pad1[4096 - 64];
};
_Static_assert(sizeof(struct gs_companion_python_thread) % 4096 == 0, "gs_companion_python_thread");

/* A function's name, in the names. */
struct gs_companion_python_name {
	uint32_t bytes; /* of the whole, a multiple of 8 */
	uint32_t number;
	uint32_t line; /* the first of the function; 0 not known */
	uint16_t file_bytes, name_bytes;
	char text[]; /* UTF-8: the file, then the name; no zeros */
};
_Static_assert(sizeof(struct gs_companion_python_name) == 16, "gs_companion_python_name");

struct gs_companion_python_names {
	uint64_t written; /* bytes of names that are whole. Only grows */
	uint64_t pad[7];
	uint8_t names[GS_COMPANION_PYTHON_NAME_BYTES - 64]; /* struct gs_companion_python_name */
};
_Static_assert(sizeof(struct gs_companion_python_names) % 4096 == 0, "gs_companion_python_names");

/* Where in the file the threads begin: where one without this door ends. */
static inline uint64_t gs_companion_python_at(uint32_t n_slots, uint32_t ring_bytes)
{
	return GS_COMPANION_SLOTS_AT +
	       (uint64_t)n_slots * (sizeof(struct gs_companion_slot) + ring_bytes +
				    sizeof(struct gs_companion_sums));
}

/* And the names. */
static inline uint64_t gs_companion_python_names_at(uint32_t n_slots, uint32_t ring_bytes)
{
	return gs_companion_python_at(n_slots, ring_bytes) +
	       (uint64_t)n_slots * sizeof(struct gs_companion_python_thread);
}

#define GS_COMPANION_PYTHON_PLAN      0x6e6f687479706367ull
#define GS_COMPANION_PYTHON_PLAN_NAME "plan-python"

struct gs_companion_python_plan {
	uint64_t magic;   /* GS_COMPANION_PYTHON_PLAN */
	uint32_t version; /* GS_COMPANION_VERSION */
	uint32_t events;  /* 1: single calls are asked for; 0: only what they add up to */
	uint32_t n_globs; /* 0: all functions are wanted */
	uint32_t pad;
	struct gs_py_glob globs[GS_PY_GLOB_MAX];
};

#endif
