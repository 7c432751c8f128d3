/*
 * Numbers for people: three to four significant digits and the unit. Every function writes into
 * out (GS_FMT_BYTES) and returns it.
 */
#ifndef GS_CORE_BASE_FMT_H
#define GS_CORE_BASE_FMT_H

#include <stdint.h>

#define GS_FMT_BYTES 32

/* "850 ns", "12.3 us", "4.56 ms", "7.89 s", "12m 03s", "3h 05m". */
const char *gs_fmt_ns(char out[GS_FMT_BYTES], uint64_t ns);

/* "512 B", "1.50 KiB", "23.4 GiB": powers of 1024. */
const char *gs_fmt_bytes(char out[GS_FMT_BYTES], uint64_t bytes);

/* "1,234,567". */
const char *gs_fmt_count(char out[GS_FMT_BYTES], uint64_t count);

/* Bytes over a time, "12.3 GiB/s"; "-" when either is 0. */
const char *gs_fmt_bps(char out[GS_FMT_BYTES], uint64_t bytes, uint64_t ns);

/* "24.5k/s", "17.0/s"; "-" when ns is 0. */
const char *gs_fmt_rate(char out[GS_FMT_BYTES], uint64_t count, uint64_t ns);

/* Read "10", "10us", "1.5ms", "2s", "3m" (default unit: default_unit_ns), or "64K", "16M", "1G"
 * bytes. 0, or -EINVAL when it is not such a value or is out of range. */
int gs_parse_ns(const char *text, uint64_t default_unit_ns, uint64_t *ret_ns);
int gs_parse_bytes(const char *text, uint64_t *ret_bytes);

#endif
