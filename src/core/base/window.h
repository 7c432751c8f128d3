/*
 * Arrays of the kernel's in our memory, as far as they are in use. All pages of a mapped eBPF array
 * count as this process's from the start (array_map_mmap() of kernel/bpf/arraymap.c inserts them at
 * once), and of the places for threads and counters most runs use few. So the addresses are
 * reserved, and pieces of the array are mapped there as places are handed out: they only ever
 * become more, and nothing moves.
 */
#ifndef GS_CORE_BASE_WINDOW_H
#define GS_CORE_BASE_WINDOW_H

#include <stddef.h>

struct gs_window;

/* fd: of an array map, lent until the end. *ret_base: a pointer to the items, of which only those
 * may be touched that gs_window_reach() has answered with. It is good until the end. Negative
 * errno. */
int gs_window_open(int fd, unsigned n_items, size_t item_bytes, struct gs_window **ret_window,
		   void *ret_base);
void gs_window_close(struct gs_window **window);

/* The first n items are wanted: how many of them there are. Any thread. */
unsigned gs_window_reach(struct gs_window *window, unsigned n);

#endif
