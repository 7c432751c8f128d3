/*
 * Giving memory back that only a program's start needed, for programs that then run for weeks.
 *
 * What is given back comes again by itself when it is touched: free heap and stack as zeroes, pages
 * of files out of the page cache. Nothing of it changes what the program computes.
 */
#ifndef GS_CORE_BASE_SHRINK_H
#define GS_CORE_BASE_SHRINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one look at the program's mappings gave back. */
struct gs_shrunk {
	uint64_t file_bytes, stack_bytes;
	uint32_t n_mappings; /* of files */
	uint32_t n_refused;  /* mappings that the kernel did not release (locked, for one) */
};

/* The heap is another program's, of which this is a part: the functions of the heap do nothing from now on. */
void gs_shrink_spare_heap(void);

/* Free memory of the heap, whatever lies after it. */
void gs_shrink_heap(void);

/*
 * Between the first two what is taken comes from the heap, and what is freed stays there, also megabytes
 * at once: for work that takes and frees the same megabytes several times, whose pages the kernel would
 * make each time. Only around that work: tables that stay, and are mostly never touched, cost no memory
 * when they come from the kernel. The third gives back what the rounds have left. Of the whole process,
 * whatever thread takes memory meanwhile; in the end both thresholds of mallopt(3) are 256 KiB.
 */
void gs_shrink_begin_reuse(void);
void gs_shrink_end_reuse(void);
void gs_shrink_reused(void);

/*
 * Pages of files that are mapped privately and were never written (code and constants of the
 * program and of its libraries), and, when the main thread calls, its stack below the caller.
 * Mappings with pages of their own are left alone: relocated data, and code in which a debugger has
 * set a breakpoint, which would be lost. 0, or the error with which /proc/self/smaps is not there.
 */
int gs_shrink_mappings(struct gs_shrunk *ret_shrunk);

/* Whole pages of a range of private memory in which every byte is zero; how many bytes. No thread may
 * write to the range meanwhile. */
size_t gs_shrink_zeroes(void *begin, size_t bytes);

/* --- for tests --- */

enum gs_shrink_kind { GS_SHRINK_NOT, GS_SHRINK_FILE, GS_SHRINK_STACK };

struct gs_shrink_mapping {   /* one of smaps, as far as its lines were read */
	uint64_t begin, end; /* addresses */
	uint64_t rss_kib, anonymous_kib, locked_kib;
	bool file, stack; /* what could be given back, but for the numbers above */
	bool complete;    /* all three numbers were there */
};

/* One line of smaps: false: another mapping begins with it, which *m then is. */
bool gs_shrink_line(struct gs_shrink_mapping *m, const char *line);
enum gs_shrink_kind gs_shrink_kind_of(const struct gs_shrink_mapping *m);

#endif
