/* Between the files of the room. */
#ifndef GS_SOURCES_COMPANION_COMPANION_INT_H
#define GS_SOURCES_COMPANION_COMPANION_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct gs_companion_files;
struct gs_companion_handler;
struct gs_companion_head;
struct gs_companion_thread;

/* --- python.c: of a file with the door to Python; head: a copy, checked --- */

struct companion_python;
struct companion_python *companion_python_new(void); /* NULL: no memory */
void companion_python_free(struct companion_python **python);

/* Hand over names that came; what was read of slots before may say their numbers. */
void companion_python_names(struct companion_python *python, int fd,
			    const struct gs_companion_head *head,
			    const struct gs_companion_handler *handler);
/* What has grown in a slot. */
void companion_python_sums(struct companion_python *python, int fd,
			   const struct gs_companion_head *head, uint32_t slot,
			   const struct gs_companion_thread *from,
			   const struct gs_companion_handler *handler);
/* What is open there. */
void companion_python_open(struct companion_python *python, int fd,
			   const struct gs_companion_head *head, uint32_t slot,
			   const struct gs_companion_thread *from,
			   const struct gs_companion_handler *handler);

#define COMPANION_FOLDERS_MAX 1024u

/* A user's folder. */
struct companion_folder {
	int fd; /* owned */
	uid_t uid;
	dev_t device;
	ino_t inode;
};

/* Folders that users have made for their processes' files. */
struct companion_shared {
	int parent_fd; /* owned; -1: none are looked for */
	struct companion_folder folder[COMPANION_FOLDERS_MAX];
	uint32_t n;
	uint64_t looked_ns; /* monotonic; when they were last looked for */
};

/* 0, or the error of open(2). */
int companion_shared_open(struct companion_shared *shared, const char *parent);
void companion_shared_close(struct companion_shared *shared);

/* Find folders that are new, at most once a second. True: it has looked. */
bool companion_shared_find_folders(struct companion_shared *shared);

/* --- late.c --- */

#define COMPANION_LATE_MAX 64u

struct gs_companion_late {
	pid_t pid;
	bool follows;
	bool is_given;
	uid_t uid; /* of the process, as the next one */
	gid_t gid;
	int root_fd;    /* owned; of the process; as the others -1 none */
	int parent_fd;  /* owned; where the folder is */
	int fd;         /* owned; the folder, locked */
	char name[32];  /* of it there */
	char path[256]; /* as the process has it */
	/* The same of the folder with a copy of the library. */
	int copy_parent_fd, copy_fd;
	char copy_name[32];
};

/* Takes it over. -ENOBUFS: there are too many. */
int companion_files_add_late(struct gs_companion_files *files, struct gs_companion_late *late);
/* Of the run's folder; lent. */
int companion_files_folder_fd(const struct gs_companion_files *files);

void companion_late_free(struct gs_companion_late **late);

/* Empties the folder of this descriptor, which is closed. */
void companion_empty_folder(int fd);

/* Is the process that user's, and did it run already at that (monotonic) time? A number is given away again. */
bool companion_process_is_of(uint32_t pid, uid_t uid, uint64_t mono_ns);

/* Is there no process of that number? */
bool companion_process_is_gone(uint32_t pid);

#endif
