/*
 * Series with faults at known times: what detectors are tried on. Each run is an hour (or another
 * time) of one program that trains: the times of its steps, its memory, its allocator, its GPU, shares of its
 * time and errors, with the usual things that are no faults (warm-up, checkpoints, validation, inputs of
 * different lengths; of shares: some of it always, all of it for a moment, and where there is little of it),
 * and faults by a schedule that is drawn at random: exponential times between them (mean 240 s),
 * normal durations (120 s, deviation 20 s), 60 s of rest after each; the schedule of Greyhound's
 * generator (ATC 2025). The first 400 s are clean: every detector has something to learn from. A run has one stall at most.
 *
 * Same seed, same run. Times are whole ns.
 */
#ifndef BENCH_DETECTION_SYNTHETIC_H
#define BENCH_DETECTION_SYNTHETIC_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/detect/mixture.h"

enum synthetic_fault {
	SYNTHETIC_SLOW = 0,      /* steps take severity times as long */
	SYNTHETIC_DRIFT = 1,     /* they become so, evenly over DRIFT_S */
	SYNTHETIC_STALL = 2,     /* a step that lasts as long as the fault */
	SYNTHETIC_LEAK = 3,      /* severity MB of memory with each step */
	SYNTHETIC_FRAGMENTS = 4, /* this share of the reserved memory is of no use */
	SYNTHETIC_POWER = 5, /* a GPU's power falls by this share, and with it its temperature */
	/* Shares of a second, severity in the fault: */
	SYNTHETIC_LAUNCHES = 6,
	SYNTHETIC_TINY = 7,
	SYNTHETIC_PAGEABLE = 8,
	SYNTHETIC_THROTTLE = 9, /* of seconds in which it is throttled */
	SYNTHETIC_IDLE = 10,    /* likewise, idle; a fault lasts for DRIFT_S */
	SYNTHETIC_OVERLAP = 11, /* of a window every 20 s; likewise */
	/* Errors: severity of them in a fault, and a minute; the next comes no sooner than DRIFT_S after it. */
	SYNTHETIC_XID = 12,
	SYNTHETIC_LINKS = 13,
	SYNTHETIC_N_FAULTS
};

enum synthetic_load {                       /* what the series is like without a fault */
		      SYNTHETIC_STEADY = 0, /* deviation 1 %, some long steps */
		      SYNTHETIC_PAUSES =
			      1, /* and checkpoints of 5 to 10 s, and validation: 20 short steps */
		      SYNTHETIC_LENGTHS = 2, /* inputs of different lengths: deviation 12 % */
		      SYNTHETIC_N_LOADS
};

struct synthetic_options {
	enum synthetic_fault fault;
	enum synthetic_load load;
	double severity; /* 0: a clean run */
	double seconds;
	uint64_t seed;
};

struct synthetic_sample {
	uint64_t time_ns;
	double values[GS_DETECT_MAX_VALUES];
};

struct synthetic_label {
	uint64_t start_ns, end_ns;
};

struct synthetic_run {
	struct synthetic_options options;
	struct synthetic_sample *samples; /* owned */
	size_t n_samples;
	struct synthetic_label *labels; /* owned */
	size_t n_labels;
	uint64_t start_ns, end_ns;
};

extern const char *const synthetic_fault_names[SYNTHETIC_N_FAULTS];
extern const char *const synthetic_load_names[SYNTHETIC_N_LOADS];

/* 0 or -ENOMEM. */
int synthetic_make_run(const struct synthetic_options *options, struct synthetic_run *ret);
void synthetic_free_run(struct synthetic_run *run);

/* From 0 to below 1, of a state that any number begins: splitmix64. */
double synthetic_draw(uint64_t *state);

#endif
