/*
 * Rules of others, as rows like gpuscope's own, so that one program judges all on the same series.
 * Written from what is published; what is not published is said at each.
 */
#ifndef BENCH_DETECTION_BASELINES_H
#define BENCH_DETECTION_BASELINES_H

#include "analysis/detect/detect.h"

extern const struct gs_detector baseline_three_sigma;   /* above mean + 3 deviations of 128 */
extern const struct gs_detector baseline_three_medians; /* above 3 x the median of 128: Ingero's */
extern const struct gs_detector baseline_average;       /* rate 30 % below its average: Ingero's */
extern const struct gs_detector baseline_reference;     /* best median / median < 0.7: NVRx */
extern const struct gs_detector baseline_bayes;         /* Greyhound's rule and constants */
extern const struct gs_detector baseline_quiet;         /* 300 s without a sample: xpu_timer's */
extern const struct gs_detector baseline_growth;        /* 10 % more than at the begin */

#endif
