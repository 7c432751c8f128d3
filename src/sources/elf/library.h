/*
 * Which files hold the functions that we trace: in a running process, and, before a command is
 * started, where it may load them from.
 */
#ifndef GS_SOURCES_ELF_LIBRARY_H
#define GS_SOURCES_ELF_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

/* A file (dev, ino), whatever it is called and from whichever mount namespace it is seen. */
struct gs_file_id {
	uint64_t dev;
	uint64_t ino;
};

struct gs_mapped_file {
	struct gs_file_id id; /* which file it is */
	uint32_t uid;         /* of its owner */
	const char *path;     /* as the process names it, " (deleted)" removed */
	char open_path[4200]; /* a path that works from here: /proc/PID/root + path, or the
			       * /proc/PID/map_files link where that is another file by now */
	bool is_exe;          /* the process's main executable */
	bool is_guess; /* of gs_library_candidates(): found where any program may load from; nothing
			* says that this command will. Of a process: false */
};

/* Called once for each file; lent. A non-zero return ends the walk and is passed on. */
typedef int (*gs_mapped_file_fn)(void *ctx, const struct gs_mapped_file *file);

/* Visit every file mapped executable in the process, each once. 0, what fn returned, or a negative
 * errno (-ESRCH: no such process). */
int gs_library_scan_process(pid_t pid, gs_mapped_file_fn fn, void *ctx);

/* May this user see which files a process has mapped? 0, or -EPERM with a text; 0 also when there is no such process. */
int gs_library_may_scan(pid_t pid, struct gs_err *err);

struct gs_mapping {                        /* memory from which a process may run code */
	uint64_t start, end;               /* addresses in the process */
	uint64_t file_off;                 /* of its first byte */
	const struct gs_mapped_file *file; /* NULL: of no file that can be reached */
	bool is_vdso;                      /* code of the kernel for the process */
};

typedef int (*gs_mapping_fn)(void *ctx, const struct gs_mapping *mapping);

/* Visit every executable mapping of the process, by rising address; answers as above. -ESRCH also when the
 * process ended meanwhile: fn has had some of its mappings at most. */
int gs_library_scan_mappings(pid_t pid, gs_mapping_fn fn, void *ctx);

/* Resolve one path as the process sees it (as a mapping event names it); ret_file->path is path.
 * 0, -EINVAL (not the name of a regular file), -ENOENT (gone, and not mapped any more), -ESRCH or
 * another negative errno. */
int gs_library_resolve(pid_t pid, const char *path, struct gs_mapped_file *ret_file);

/* Visit existing files from which a command that is about to start may load the libraries we
 * trace, so that probes can be in place before its first instruction: the command's executable,
 * what it and its interpreter ("#!") need according to ld.so's rules (DT_NEEDED with
 * RPATH/RUNPATH, LD_LIBRARY_PATH, LD_PRELOAD, the ld.so cache, default folders), every
 * libcudart*, libcuda.so*, libnccl* in those folders and in the ld.so cache, and, for a Python
 * interpreter (also of a virtual environment), nvidia/<any>/lib and torch/lib below its
 * site-packages. command is argv[0] as given; it is looked up in PATH. Files that do not exist are
 * skipped. 0, what fn returned, -ENOENT (no such command) or another negative errno. */
int gs_library_candidates(const char *command, char *const environment[], gs_mapped_file_fn fn,
			  void *ctx);

/* Where ld.so finds a library that is named ("libc.so.6", or "libc" for any version): in
 * the folders of library_path (LD_LIBRARY_PATH; may be NULL), the ld.so cache, default folders. 0
 * or -ENOENT. */
int gs_library_by_name(const char *name, const char *library_path, char path[PATH_MAX]);

#endif
