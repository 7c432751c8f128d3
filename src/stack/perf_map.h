/*
 * Names of code that was written at run time, as its process tells them for perf:
 * /tmp/perf-PID.map, a line "START SIZE NAME" for each function, appended as they are made
 * (CPython 3.12 and newer with -X perf, V8, the JVM's agent). One process.
 */
#ifndef GS_STACK_PERF_MAP_H
#define GS_STACK_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_perf_map;

struct gs_perf_map *gs_perf_map_new(uint32_t pid); /* NULL: no memory */
void gs_perf_map_free(struct gs_perf_map **map);

/* The name of the function there, which is read anew when the file has grown, at most 50 times a
 * second. Of a process that has ended what was read before is known. */
bool gs_perf_map_name(struct gs_perf_map *map, uint64_t pc, uint64_t now_ns, char *ret_name,
		      size_t bytes);

/* Take in text of such a file: whole lines, what is none of its kind is passed over. Returns how
 * many bytes were used: up to the last line's end. */
size_t gs_perf_map_parse(struct gs_perf_map *map, const char *text, size_t bytes);

#endif
