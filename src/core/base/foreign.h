/*
 * Reading what belongs to others: files of traced programs, which their owners can change, replace,
 * make sparse or huge at any moment. Such a file is opened and read here and nowhere else
 * (tools/foreign_reads.py), so that five things hold everywhere:
 *
 * - Only regular files are opened, without blocking, and, where it is known which file it has to
 *   be, only that one. A FIFO, a device or a file that took its place is refused.
 * - Each file, and each user by the owner of the file, has a share of bytes to be read. What is
 *   used up grows back slowly, so that a file that is read for days is not cut off. Holes cost
 *   nothing: they are skipped.
 * - Each user has a share of processor time, for what bytes do not measure: what it takes to make
 *   sense of his files, and to look through his processes.
 * - A signal or a deadline ends the work between two reads.
 * - What is refused is counted by cause.
 *
 * The shares and the way to be stopped belong to a guard. Each thread that reads has one of its
 * own; a thread without one reads with the limits of a file alone.
 */
#ifndef GS_CORE_BASE_FOREIGN_H
#define GS_CORE_BASE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/base/err.h"

/* ---- guards ---- */

enum gs_refused {                            /* why something of a file or a user was left out */
		  GS_REFUSED_FILE_BYTES = 1, /* a file whose reading costs too much */
		  GS_REFUSED_USER_BYTES,     /* files of a user whose share is used up */
		  GS_REFUSED_USER_TIME,   /* those, and processes, of one whose time is used up */
		  GS_REFUSED_USER_FILES,  /* files beyond the number that one user may have */
		  GS_REFUSED_USER_PROBES, /* files beyond the probes that one user may have */
		  GS_REFUSED_KIND,        /* files that are no regular ones, or changed */
		  GS_REFUSED_DEBUG,       /* debug files that are not believed */
		  GS_REFUSED_MEMORY,      /* tables that found no room */
		  GS_REFUSED_NAMES,       /* names of code made at run time that found no room */
		  GS_REFUSED_COUNT
};

/* In words, for people: "files whose reading costs too much". */
const char *gs_refused_words(enum gs_refused cause);

struct gs_guard;

struct gs_guard_options {
	size_t size;               /* of this struct */
	bool (*stop)(void *ctx);   /* asked between two reads; NULL: they are never stopped */
	void *ctx;                 /* of stop; borrowed */
	uint64_t deadline_mono_ns; /* nothing is read after it; 0 none */
};

/* The options are copied, their ctx is borrowed. 0 or -ENOMEM. */
int gs_guard_new(const struct gs_guard_options *options, struct gs_guard **ret_guard);
/* Also of no guard; must not be one that another thread still reads under. */
void gs_guard_free(struct gs_guard **guard);

/* The calling thread reads under it from now on. Returns the one before, NULL: none. */
struct gs_guard *gs_guard_enter(struct gs_guard *guard);

/* Nothing is read after this time; 0: no end. Also takes back that it was stopped. */
void gs_guard_set_deadline(struct gs_guard *guard, uint64_t mono_ns);

/* True once this thread has to come to its end. To be asked by every loop whose length another program
 * decides and that reads nothing. */
bool gs_guard_stopped(void);

/* Count what was left out, and of which user; what it was (may be NULL) is kept of the first of
 * each cause. */
void gs_guard_refuse(enum gs_refused cause, uint64_t count, const char *what);

/* Another process has read so much of a file of this user for us. -EDQUOT: it has no share left,
 * nothing more is to be read for it; -ECANCELED as above. With 0 bytes: may anything be read? */
int gs_guard_charge(uint32_t uid, uint64_t bytes);

/* The same of processor time that was spent on something of this user's, by this thread or by
 * another process for us. With 0 ns: may anything be done for him? what: counted as refused when
 * not. */
int gs_guard_charge_time(uint32_t uid, uint64_t cpu_ns, const char *what);

/* A loop of this thread over something of a user's that is not a file, such as the mappings of a
 * process. */
struct gs_guard_work {
	uint32_t uid; /* whom it is charged to */
	unsigned n_steps;
	uint64_t from_ns; /* of the thread's processor time */
	char what[64];    /* as gs_guard_begin() was given it */
};

/* begin and step return what gs_guard_charge_time() does; after an error of begin the loop is not
 * to be entered. end: in any case. what (at most 63 bytes are kept) names it among what was
 * refused. */
int gs_guard_begin(struct gs_guard_work *work, uint32_t uid, const char *what);
int gs_guard_step(struct gs_guard_work *work);
void gs_guard_end(struct gs_guard_work *work);

/* Whose a process is, also of one that hides in a program that cannot be dumped (its files in /proc
 * are root's then). 0 when it is gone. */
uint32_t gs_foreign_process_uid(pid_t pid);

/* How much has been refused of a cause since the last call, and the first of them ("" unknown). The
 * guard's own thread. */
uint64_t gs_guard_refused(struct gs_guard *guard, enum gs_refused cause, char *ret_what,
			  size_t bytes);

/* All that has been refused in this thread so far. */
uint64_t gs_guard_n_refused(void);

/* Bytes read under this guard so far: the measure of work on a user's files. */
uint64_t gs_guard_bytes_read(const struct gs_guard *guard);

/* Processor time that was charged to users under it so far. */
uint64_t gs_guard_time_ns(const struct gs_guard *guard);

/* What two threads have read and spent, as a message of level 1. */
void gs_guard_log_costs(const struct gs_guard *a, const struct gs_guard *b);

/* ---- files ---- */

struct gs_foreign {                  /* an open file */
	int fd;                      /* owned; -1 closed */
	uint32_t uid;                /* of its owner */
	uint64_t dev, ino;           /* its device and inode number */
	uint64_t bytes;              /* its size when it was opened */
	uint64_t left_bytes;         /* of its share */
	uint64_t filled_ns;          /* when that was reckoned */
	uint64_t data_from, data_to; /* a stretch that is known to be no hole */
	bool refused;                /* counted as such */
};

#define GS_FOREIGN_INIT ((struct gs_foreign){.fd = -1})

struct gs_foreign_want {    /* all may be left 0 */
	uint64_t dev, ino;  /* the file it has to be; ino 0: any */
	uint64_t max_bytes; /* a larger one is refused (-EFBIG); 0: any size */
	bool no_links;      /* the last part of the path must be no symbolic link */
};

/* Open a regular file for reading. want may be NULL. -EINVAL: not a regular file; -ESTALE: another
 * file stands at the path; else the error of open(2). */
int gs_foreign_open(const char *path, const struct gs_foreign_want *want,
		    struct gs_foreign *ret_file);
void gs_foreign_close(struct gs_foreign *file);

/* The same below a folder that is to be the root for this path: neither ".." nor a symbolic link leads out
 * of it, as it is for a process whose root it is. root_fd: the folder, also opened with O_PATH; borrowed.
 * -ENOSYS, -EPERM: the kernel has no openat2(2), or may not be asked for it. */
int gs_foreign_open_under(int root_fd, const char *path, const struct gs_foreign_want *want,
			  struct gs_foreign *ret_file);

/* The same of a descriptor that another process has opened, which need not be trusted with more: *fd is
 * taken, also when it is refused. */
int gs_foreign_adopt(int *fd, const struct gs_foreign_want *want, struct gs_foreign *ret_file);

/* Up to bytes at off; how many there were (0 at the end). -EDQUOT: the share of the file or of its
 * owner is used up; -ECANCELED: this thread has to come to its end; else the error of pread(2). */
ssize_t gs_foreign_read(struct gs_foreign *file, uint64_t off, void *to, size_t bytes);

/* Where the next byte lies, at off or after it, that is not in a hole; at most end. */
uint64_t gs_foreign_skip_hole(struct gs_foreign *file, uint64_t off, uint64_t end);

/* A whole small file as text, ended by a zero: at most bytes - 1 of it. How long it is, or a
 * negative errno. */
ssize_t gs_foreign_read_text(const char *path, const struct gs_foreign_want *want, char *out,
			     size_t bytes);

/* Why one of these failed, in words for people. */
const char *gs_foreign_reason(int r);

#define GS_FOREIGN_CLOSE GS_CLEANUP(gs_foreign_close)

#endif
