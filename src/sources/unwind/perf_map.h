/*
 * Names of code that was written at run time, as its process writes them for perf:
 * /tmp/perf-PID.map, a line "START SIZE NAME" for each function, appended as they are made
 * (CPython 3.12 and newer with -X perf, V8, the JVM's agent).
 *
 * Anybody can write such a file, of any size and under many names. So a file is kept once, by its
 * identity, whatever it is linked as; all files together have a bound of memory, and each user a
 * part of it. Who has used that up loses the names of his own that were used longest ago.
 */
#ifndef GS_SOURCES_UNWIND_PERF_MAP_H
#define GS_SOURCES_UNWIND_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/foreign.h"

#define GS_PERF_MAPS_BYTES      (24u << 20)
#define GS_PERF_MAPS_USER_BYTES (8u << 20) /* root may use all */

struct gs_perf_maps; /* of all processes */
struct gs_perf_map;  /* of one */

struct gs_perf_maps *gs_perf_maps_new(void); /* NULL: no memory */
/* After all that were made of it. */
void gs_perf_maps_free(struct gs_perf_maps **all);

/* What all of them take. */
size_t gs_perf_maps_bytes(const struct gs_perf_maps *all);

struct gs_perf_map *gs_perf_map_new(struct gs_perf_maps *all); /* NULL: no memory */
void gs_perf_map_free(struct gs_perf_map **map); /* before the gs_perf_maps that it is of */

/* The name of the function there, of what was read so far. */
bool gs_perf_map_name(struct gs_perf_map *map, uint64_t pc, char *ret_name, size_t bytes);

/* Read what its file (gs_perf_map_open()) has grown by, unless it was read a moment ago: at most 50
 * times a second, and so seldom that reading takes at most a twentieth of the time. */
void gs_perf_map_read(struct gs_perf_map *map, struct gs_foreign *file, uint64_t now_ns);

/* The file of a process, of which it may be that of an earlier one. -EPERM: it is another user's;
 * or the errors of gs_foreign_open(). */
int gs_perf_map_open(uint32_t pid, struct gs_foreign *ret_file);

/* Take in text of such a file: whole lines, what is none of its kind is passed over. Returns how
 * many bytes were used: up to the last line's end, or up to where the memory was used up. */
size_t gs_perf_map_parse(struct gs_perf_map *map, const char *text, size_t bytes);

#endif
