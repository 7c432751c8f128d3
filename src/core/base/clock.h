/*
 * The only place that converts between clocks. Every time in records is boot-clock ns
 * (CLOCK_BOOTTIME); the kernel side stamps with the monotonic clock, which is cheaper to read there
 * and differs from it only by the time the machine was suspended.
 */
#ifndef GS_CORE_BASE_CLOCK_H
#define GS_CORE_BASE_CLOCK_H

#include <stdint.h>

/* Now, in ns: CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME (since 1970). */
uint64_t gs_clock_mono_ns(void);
uint64_t gs_clock_boot_ns(void);
uint64_t gs_clock_wall_ns(void);

/* Add to a monotonic time to get boot time, as of now; read between two equal readings. */
int64_t gs_clock_boot_minus_mono_ns(void);

/* Add to a boot time to get the time of day, as of now. */
int64_t gs_clock_wall_minus_boot_ns(void);

#endif
