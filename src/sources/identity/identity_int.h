/*
 * Between the files of place: pure parsers of procfs texts. Each takes text of any content.
 */
#ifndef GS_SOURCES_IDENTITY_IDENTITY_INT_H
#define GS_SOURCES_IDENTITY_IDENTITY_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What /proc/PID/stat says. */
struct gs_identity_stat {
	uint32_t parent_pid;
	uint64_t start_ticks; /* since boot */
	uint64_t n_threads;
	char state;     /* R, S, D, Z, T, ... */
	bool is_kernel; /* a thread of the kernel */
	char comm[16];
};

/* False when the text is not such a line. The name in it may hold anything, ')' included. */
bool gs_identity_parse_stat(const char *text, size_t bytes, struct gs_identity_stat *ret_stat);

/* The real user id and the pid in the innermost namespace out of /proc/PID/status. What is not in
 * the text leaves its value as it was. */
void gs_identity_parse_status(const char *text, size_t bytes, uint32_t *ret_uid,
			      uint32_t *ret_ns_pid);

/* The arguments of /proc/PID/cmdline, joined by blanks. */
void gs_identity_parse_cmdline(const char *data, size_t bytes, char *out, size_t out_bytes);

/* Copy at most out_bytes - 1 bytes of text, control bytes as '?', never half a UTF-8 character at
 * the cut; terminated. */
void gs_identity_copy_clean(char *out, size_t out_bytes, const char *text, size_t bytes);

#endif
