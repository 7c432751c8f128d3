/*
 * Summaries for tests of the writers: two ranks of a training job with everything that a summary
 * can hold, names that are hard to write, and one of a program that called nothing. All in static
 * memory, never freed.
 */
#ifndef GS_TESTS_SUMMARY_SAMPLE_H
#define GS_TESTS_SUMMARY_SAMPLE_H

#include "model/summary/summary.h"

struct gs_summary sample_full(void);
struct gs_summary sample_single(void); /* one process, nothing wrong */
struct gs_summary sample_empty(void);

#endif
