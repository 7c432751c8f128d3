#include "commands/trace_output/trace_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define MAX_NOTES      4096u        /* processes */
#define MAX_LINES      1000u        /* of a summary, the most expensive ones */
#define MAX_FILE_BYTES (4ull << 20) /* of source code */
#define BUDGET_BYTES   (64u << 20)  /* of all files together */
#define MAX_TEXT_BYTES 256u         /* of a line, the rest is left out */
#define MAX_PARENTS    32u
#define READ_BYTES     65536u
#define FORK_NO_EXEC   0x40u /* PF_FORKNOEXEC of include/linux/sched.h, Linux 2.6 to 6.18 */

struct note {            /* a process with an interpreter */
	uint64_t own_ns; /* when it began, boot clock */
	/* When the program that it runs began: of a copy made by fork(2), the first one's, which may have read
	 * the file before. 0: not known. */
	uint64_t program_ns;
	uint32_t uid;
	bool has_our_root; /* it saw all files under the names by which we see them */
};

struct trace_source {
	struct gs_map by_pid; /* index into notes */
	struct note *notes;   /* owned */
	uint32_t n_notes;
	uint64_t tick_ns; /* of times in /proc/PID/stat */
};

/* An open file and what is needed to believe it. */
struct source_file {
	struct gs_foreign file;
	struct stat st;
};

struct trace_source *trace_source_new(void)
{
	struct trace_source *s = calloc(1, sizeof(*s));
	long ticks = sysconf(_SC_CLK_TCK);

	if (!s)
		return NULL;
	s->by_pid = GS_MAP_INIT(2 * MAX_NOTES);
	s->tick_ns = 1000000000ull / (uint64_t)(ticks > 0 ? ticks : 100);
	return s;
}

void trace_source_free(struct trace_source **ref)
{
	struct trace_source *s = *ref;

	if (!s)
		return;
	gs_map_fini(&s->by_pid);
	free(s->notes);
	free(s);
	*ref = NULL;
}

/* --- while processes live --- */

struct source_stat { /* of /proc/PID/stat */
	unsigned parent_pid, flags;
	uint64_t start_ns;
};

static bool read_stat(const struct trace_source *s, pid_t pid, struct source_stat *ret)
{
	GS_FCLOSE FILE *f = NULL;
	char path[40], text[1024], *at;
	unsigned long long ticks;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = '\0';
	at = strrchr(text, ')'); /* a name may hold any character */
	/* proc(5): state ppid pgrp session tty_nr tpgid flags, twelve others, starttime */
	if (!at ||
	    sscanf(at + 1,
		   " %*c %u %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ret->parent_pid, &ret->flags, &ticks) != 3)
		return false;
	ret->start_ns = ticks * s->tick_ns;
	return true;
}

static bool stat_program(pid_t pid, struct stat *ret)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, ret) == 0;
}

/* When the program began that this process runs, up through the processes that it is a copy of. 0: one of
 * them is gone, or runs another program by now. */
static uint64_t program_start_ns(const struct trace_source *s, pid_t pid)
{
	struct source_stat now;
	struct stat program, of_parent;

	if (!stat_program(pid, &program))
		return 0;
	for (unsigned i = 0; i < MAX_PARENTS && read_stat(s, pid, &now); i++) {
		if (!(now.flags & FORK_NO_EXEC))
			return now.start_ns;
		pid = (pid_t)now.parent_pid;
		if (!pid || !stat_program(pid, &of_parent) || of_parent.st_dev != program.st_dev ||
		    of_parent.st_ino != program.st_ino)
			return 0;
	}
	return 0;
}

static bool has_our_root(pid_t pid)
{
	struct stat ours, theirs;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (stat(path, &theirs) < 0 || stat("/proc/self/ns/mnt", &ours) < 0 ||
	    ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root/", (int)pid);
	return stat(path, &theirs) == 0 && stat("/", &ours) == 0 && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

static struct note *note_of(struct trace_source *s, uint32_t pid)
{
	uint64_t i;

	return gs_map_get(&s->by_pid, pid, &i) ? &s->notes[i] : NULL;
}

static struct note *add_note(struct trace_source *s, uint32_t pid)
{
	if (s->n_notes == MAX_NOTES)
		return NULL;
	if (!gs_vec_reserve_next(&s->notes, s->n_notes))
		return NULL;
	if (gs_map_put(&s->by_pid, pid, s->n_notes) < 0)
		return NULL;
	return &s->notes[s->n_notes++];
}

void trace_source_note(struct trace_source *s, pid_t pid)
{
	struct source_stat stat = {0};
	struct note now = {0}, *known;

	if (!s || !read_stat(s, pid, &stat))
		return;
	now = (struct note){
		.own_ns = stat.start_ns,
		.program_ns = program_start_ns(s, pid),
		.uid = gs_foreign_process_uid(pid),
		.has_our_root = has_our_root(pid),
	};
	known = note_of(s, (uint32_t)pid);
	/* Another process has the pid by now: lines of both stand under it, and which is whose is not known. */
	if (known && known->own_ns != now.own_ns)
		now.program_ns = 0;
	if (!known)
		known = add_note(s, (uint32_t)pid);
	if (known)
		*known = now;
}

/* --- when the summary is made --- */

/* The root under which the process named its files; -1: not known any more. */
static int open_root(const struct trace_source *s, uint32_t pid, const struct note *note)
{
	GS_CLOSE int fd = -1;
	struct source_stat now;
	char path[40];

	if (note->has_our_root)
		return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Asked after it was opened: the folder is of this process. */
	if (fd < 0 || !read_stat(s, (pid_t)pid, &now) || now.start_ns != note->own_ns)
		return -1;
	return gs_take_fd(&fd);
}

static uint64_t time_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000ull + (uint64_t)t->tv_nsec;
}

/* Has the file been as it is since the program began? Its status too: a file that was moved to this name
 * has changed with that, whatever its age. */
static bool is_unchanged(const struct trace_source *s, const struct stat *st,
			 const struct note *note)
{
	struct timespec now;
	uint64_t boot_ns = gs_clock_boot_ns(), began_ns;

	if (!note->program_ns || note->program_ns > boot_ns)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	/* Times of processes are whole ticks; an interpreter takes longer to come to its first file. */
	began_ns = time_ns(&now) - (boot_ns - note->program_ns) + s->tick_ns;
	return time_ns(&st->st_mtim) < began_ns && time_ns(&st->st_ctim) < began_ns;
}

/* May the user who started gpuscope read it, without what gpuscope may beyond that? Asked of the name, for
 * the folders on its way, and of what was opened. */
static bool may_caller_read(const char *path, const struct gs_foreign *file)
{
	char self[40];

	if (getuid() == 0)
		return true;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
	return access(path, R_OK) == 0 && access(self, R_OK) == 0;
}

/* The file as one of its processes saw it; false: it cannot be shown. What has no size is made up by the
 * kernel when it is read, as below /proc, where "self" is gpuscope. */
static bool open_as(const struct trace_source *s, uint32_t pid, const struct note *note,
		    const char *path, struct source_file *ret)
{
	struct gs_foreign_want want = {.max_bytes = MAX_FILE_BYTES};
	GS_CLOSE int root = open_root(s, pid, note);

	return root >= 0 && gs_foreign_open_under(root, path, &want, &ret->file) == 0 &&
	       fstat(ret->file.fd, &ret->st) == 0 && ret->st.st_size > 0 &&
	       is_unchanged(s, &ret->st, note) &&
	       (ret->st.st_uid == note->uid || ret->st.st_mode & S_IROTH) &&
	       (note->has_our_root || getuid() == 0) && may_caller_read(path, &ret->file);
}

/* The file of a line, when it is one and the same for all processes of the line. */
static bool open_source(struct trace_source *s, const struct gs_line_stats *l,
			struct source_file *ret)
{
	for (uint32_t i = 0; i < l->n_pids; i++) {
		const struct note *note = note_of(s, l->pids[i]);
		struct source_file next = {.file = GS_FOREIGN_INIT};
		bool is_same = note && open_as(s, l->pids[i], note, l->file, &next) &&
			       (!i || (next.st.st_dev == ret->st.st_dev &&
				       next.st.st_ino == ret->st.st_ino));

		gs_foreign_close(&ret->file);
		*ret = next;
		if (!is_same)
			return false;
	}
	return l->n_pids > 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f' || c == '\r';
}

/* The text that is held: a whole file, and the line that was looked for last. Lines of a file come in
 * their order, so that its text is walked through once. */
struct held_text {
	struct stat st;
	char *text;    /* owned, MAX_FILE_BYTES */
	size_t bytes;  /* 0: none is held */
	uint32_t line; /* that begins at */
	size_t at;
	size_t budget_bytes; /* of texts to be walked through and read: names of files are others' choice */
};

/* Goes on to the beginning of this line; false: there is none, or looking for it costs too much. */
static bool seek_line(struct held_text *h, uint32_t line)
{
	if (line < h->line) {
		h->line = 1;
		h->at = 0;
	}
	while (h->line < line) {
		const char *next = memchr(h->text + h->at, '\n', h->bytes - h->at);
		size_t to = next ? (size_t)(next - h->text) + 1 : h->bytes;

		if (to - h->at > h->budget_bytes)
			return false;
		h->budget_bytes -= to - h->at;
		h->at = to;
		if (!next)
			return false;
		h->line++;
	}
	return h->at < h->bytes;
}

/* The line without the blanks around it; false: there is no such text. */
static bool find_line(struct held_text *h, uint32_t line, const char **ret_text, size_t *ret_bytes)
{
	const char *from, *to;

	if (!seek_line(h, line))
		return false;
	from = h->text + h->at;
	to = memchr(from, '\n', h->bytes - h->at);
	to = to ? to : h->text + h->bytes;
	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	*ret_text = from;
	*ret_bytes = (size_t)(to - from);
	return *ret_bytes > 0 && !memchr(from, '\0', *ret_bytes);
}

/* Reads the whole file, unless it is held already; false: it cannot be read, or changes meanwhile. */
static bool hold_text(struct held_text *h, struct source_file *from)
{
	struct stat after;
	ssize_t n = 1;

	if (h->bytes && h->st.st_dev == from->st.st_dev && h->st.st_ino == from->st.st_ino &&
	    time_ns(&h->st.st_ctim) == time_ns(&from->st.st_ctim))
		return true;
	*h = (struct held_text){
		.st = from->st, .text = h->text, .line = 1, .budget_bytes = h->budget_bytes};
	if ((uint64_t)from->st.st_size > h->budget_bytes)
		return false;
	h->budget_bytes -= (size_t)from->st.st_size;
	while (n > 0 && h->bytes < MAX_FILE_BYTES) {
		n = gs_foreign_read(&from->file, h->bytes, h->text + h->bytes,
				    MAX_FILE_BYTES - h->bytes < READ_BYTES
					    ? MAX_FILE_BYTES - h->bytes
					    : READ_BYTES);
		h->bytes += n > 0 ? (size_t)n : 0;
	}
	if (n < 0 || fstat(from->file.fd, &after) < 0 ||
	    time_ns(&after.st_ctim) != time_ns(&from->st.st_ctim))
		h->bytes = 0;
	return h->bytes > 0;
}

static int compare_by_file(const void *a, const void *b)
{
	const struct gs_line_stats *const *x = a, *const *y = b;

	int r = strcmp((*x)->file, (*y)->file);

	return r ? r : (*x)->line < (*y)->line ? -1 : (*x)->line > (*y)->line;
}

static int put_text(struct gs_summary *summary, struct gs_line_stats *l, const char *text,
		    size_t bytes)
{
	char *copy;

	bytes = bytes < MAX_TEXT_BYTES ? bytes : MAX_TEXT_BYTES;
	copy = gs_summary_alloc(summary, bytes + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	l->source = copy;
	return 0;
}

static int fill_lines(struct trace_source *s, struct gs_summary *summary,
		      struct gs_line_stats **lines, size_t n, struct held_text *held)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct source_file from = {.file = GS_FOREIGN_INIT};
		const char *text;
		size_t bytes;

		if (open_source(s, lines[i], &from) && hold_text(held, &from) &&
		    find_line(held, lines[i]->line, &text, &bytes))
			r = put_text(summary, lines[i], text, bytes);
		gs_foreign_close(&from.file);
	}
	return r;
}

int trace_source_fill(struct trace_source *s, struct gs_summary *summary)
{
	GS_FREE struct gs_line_stats **lines = calloc(MAX_LINES, sizeof(*lines));
	struct held_text held = {.budget_bytes = BUDGET_BYTES};
	size_t n = 0;
	int r;

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < summary->n_python_lines && n < MAX_LINES; i++) {
		struct gs_line_stats *l = &summary->python_lines[i];

		/* A name that is not from the root on is of a folder that is not known. */
		if (l->line && l->file[0] == '/')
			lines[n++] = l;
	}
	if (!n)
		return 0;
	held.text = malloc(MAX_FILE_BYTES);
	if (!held.text)
		return -ENOMEM;
	qsort(lines, n, sizeof(*lines), compare_by_file);
	r = fill_lines(s, summary, lines, n, &held);
	free(held.text);
	return r;
}
