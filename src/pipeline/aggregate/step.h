/* How steps are found and added up: what step.c, step_seek.c and step_summary.c share. */
#ifndef GS_PIPELINE_AGGREGATE_STEP_H
#define GS_PIPELINE_AGGREGATE_STEP_H

#include "pipeline/aggregate/tally.h"

#define STEP_THREADS   8
#define STEP_CALLS_MAX (1u << 14)
#define STEP_LEAST     6   /* calls of the anchor that say that it comes back */
#define STEP_FUNCTIONS 128 /* counted one by one inside of a step; a power of two */
#define STEP_NESTING   64

/* A call that was sent, or the mark of one. */
struct step_call {
	uint64_t key; /* what was called, with what */
	uint64_t
		at_ns; /* where a step begins that begins with it: its start; of a mark its return */
	uint64_t dur_ns;
	uint64_t seq; /* calls of the thread before it; of a mark: until it */
	/* Of marks, as model/trace/mark.h has them: */
	uint64_t called, covered_ns, cpu_ns;
	uint32_t function;
	bool counted;  /* one of the calls by whose number steps are known */
	bool is_alone; /* of a mark: its function made no call since the mark before */
};

/* What a function took in a step. */
struct step_function {
	uint32_t function; /* 0: free */
	uint64_t now_ns, sum_ns, slowest_ns;
	/* Calls without a mark were in the step; in how many regular ones. */
	bool now_in_part, slowest_in_part;
	uint64_t n_in_part;
};

/* Times that calls cover, those that hold others once. */
struct step_cover {
	struct {
		uint64_t start_ns, end_ns;
	} item[STEP_NESTING];
	unsigned n;  /* of item */
	uint64_t ns; /* wraps below 0 where a call began before the step did */
};

/* The steps that one anchor begins. */
struct step_run {
	unsigned slot;            /* as in struct gs_aggregate_step */
	uint32_t number;          /* as there */
	uint64_t anchor;          /* key of the call that begins a step */
	uint32_t anchor_function; /* its id */
	bool by_function;         /* the anchor is any call of the function */
	bool by_marks;            /* calls are marks */
	bool is_marked;           /* the program says what a step is: step_choice.rank is not 0 */
	uint32_t n_usual;         /* calls in a step */
	uint64_t n_calls;         /* since the last anchor */
	uint64_t n_anchors;       /* steps begun */
	uint64_t n_regular, n_odd;
	uint64_t n_even; /* odd ones after as many regular ones as the odd one before */
	/* Steps since the last odd one; between it and the one before. */
	uint64_t since_odd, before_odd;
	/* seq: number of the call; of the first step, of the one that goes on; over all */
	uint64_t first_ns, begin_ns, begin_seq, sum_ns, max_ns, max_start_ns;
	uint64_t outside_sum_ns, outside_slowest_ns; /* of calls */
	/* Of marks: as of the anchor, and for how long the thread had no processor. */
	uint64_t begin_covered_ns, begin_cpu_ns, off_sum_ns, off_slowest_ns;
	struct step_cover cover;                        /* of calls */
	struct step_function functions[STEP_FUNCTIONS]; /* what the steps consist of */
	uint64_t hist[GS_HIST_N_BUCKETS];
};

struct step_thread {
	uint32_t thread;           /* id */
	bool by_marks;             /* its calls are marks */
	struct step_call *calls;   /* owned; STEP_CALLS_MAX; n 0: they are no longer kept */
	uint32_t n, n_next;        /* calls that are kept; with how many steps are sought again */
	uint64_t seq, last_called; /* calls so far; of marks: as of the last one */
	uint64_t first_ns, last_ns;
	uint64_t marked_ns;      /* its first step that the program marks; 0: none */
	struct step_run *run;    /* of runs; NULL: none is found yet */
	struct step_run *best;   /* of runs; one that came to an end; NULL: none did */
	struct step_run runs[2]; /* the one that goes on, and the best that ended */
};

struct step_place {
	uint64_t key;   /* what the calls are sorted by */
	uint32_t index; /* of the call */
};

/* What is judged of the calls that are kept: room for STEP_CALLS_MAX of each. */
struct step_sums {
	uint64_t keys[STEP_CALLS_MAX];      /* sums over the calls before each, by what */
	uint64_t functions[STEP_CALLS_MAX]; /* likewise, by function */
	uint32_t gaps[STEP_CALLS_MAX], sorted[STEP_CALLS_MAX]; /* between anchors */
	struct step_place places[STEP_CALLS_MAX];              /* calls by key */
};

/* All memory is taken when a thread is first seen: counting calls allocates nothing. */
struct view_steps {
	struct step_sums *sums;                   /* owned */
	struct step_thread threads[STEP_THREADS]; /* n of them */
	unsigned n;                               /* threads */
	unsigned last;                            /* index of the thread that called last */
	uint32_t n_runs;                          /* begun so far */
};

struct step_choice {
	uint64_t key;                         /* of the anchor */
	uint32_t function, n_usual, n, n_odd; /* id; calls in a step; steps; of these, odd ones */
	/* 2: a step of an optimizer, 1: a batch of a loader; marked by the program */
	unsigned rank;
	bool by_function, is_sync;
};

/* Is a number of calls as good as the usual one? */
static inline bool step_is_near(uint64_t n, uint64_t usual)
{
	return n + usual / 4 >= usual && n <= usual + usual / 4;
}

/* What begins steps among the calls of a thread that are kept. False: nothing does. */
bool aggregate_step_choose(const struct gs_aggregate *v, const struct step_thread *t,
			   struct step_choice *ret_choice);

/* Goes through the calls that are kept; found: they are added up from the first on. */
void aggregate_step_seek(const struct gs_aggregate *v, struct step_thread *t);

/* Odd ones that come back after as many others are where a larger whole begins. */
bool aggregate_step_is_part(const struct step_run *r);

#endif
