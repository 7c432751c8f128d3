/*
 * The table of processes. An entry is small until its process is asked for; then it is read from
 * procfs through a descriptor of its /proc/PID folder, which keeps meaning the same process while
 * the files in it are read, even when the pid is given away meanwhile.
 *
 * Entries are in one of two lists by age, those alive and those ended. A full table gives up its
 * oldest ended one, or the oldest of all; a living process that was given up is read again.
 *
 * A pid is only ever compared by its start time: after its process has ended (exit), or when it
 * could never be read, each lookup looks whether another process has taken the pid.
 */
#include "sources/identity/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "sources/cuda_visible/visible.h"
#include "sources/identity/identity_int.h"
#include "sources/identity/job_int.h"

#define PROCESS_MAX      65536
#define TEXT_MAX_BYTES   (1u << 20) /* status names every supplementary group: up to 65,536 */
#define FOLDER_MAX_BYTES 24

enum list { LIST_ALIVE, LIST_ENDED, LIST_COUNT };

struct entry {
	struct gs_identity_process *known; /* owned; NULL: not read yet */
	uint32_t pid;
	uint32_t parent_pid;   /* from fork; 0 not known */
	uint32_t newer, older; /* in its list; 0 none */
	uint8_t list;
	uint8_t stale;     /* is not what was read: to be read again */
	uint8_t inherited; /* what is known is the parent's */
	char comm[16];     /* from exit, where nothing was known */
};

struct gs_identity {
	int proc_fd;           /* owned; -1: every process is gone */
	struct gs_map by_pid;  /* -> index into entries */
	struct entry *entries; /* owned; index 0 unused */
	uint32_t n_entries;    /* used so far; the rest was never used */
	uint32_t newest[LIST_COUNT], oldest[LIST_COUNT];
	uint64_t ns_per_tick;
	struct gs_buf text;       /* scratch of one file */
	struct gs_job_gpus *gpus; /* owned; of the machine, NULL until they are asked for */
	bool has_instances;       /* MIG's, which are not among them */
};

struct gs_identity *gs_identity_new(const char *proc_path)
{
	struct gs_identity *p = calloc(1, sizeof(*p));
	long hz = sysconf(_SC_CLK_TCK);

	if (!p)
		return NULL;
	p->entries = calloc(PROCESS_MAX + 1, sizeof(*p->entries));
	if (!p->entries) {
		free(p);
		return NULL;
	}
	p->n_entries = 1;
	p->by_pid =
		GS_MAP_INIT(PROCESS_MAX + 1); /* a new one goes in before the old one goes out */
	p->text = GS_BUF_INIT(TEXT_MAX_BYTES);
	p->ns_per_tick = 1000000000ull / (uint64_t)(hz > 0 ? hz : 100);
	p->proc_fd = open(proc_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return p;
}

void gs_identity_free(struct gs_identity **place)
{
	struct gs_identity *p = *place;

	if (!p)
		return;
	for (uint32_t i = 1; i < p->n_entries; i++)
		free(p->entries[i].known);
	free(p->entries);
	gs_map_fini(&p->by_pid);
	gs_buf_fini(&p->text);
	free(p->gpus);
	gs_close_p(&p->proc_fd);
	free(p);
	*place = NULL;
}

/* --- the lists --- */

static void list_remove(struct gs_identity *p, uint32_t i)
{
	struct entry *e = &p->entries[i];

	if (e->newer)
		p->entries[e->newer].older = e->older;
	else
		p->newest[e->list] = e->older;
	if (e->older)
		p->entries[e->older].newer = e->newer;
	else
		p->oldest[e->list] = e->newer;
}

static void list_add(struct gs_identity *p, uint32_t i, enum list list)
{
	struct entry *e = &p->entries[i];

	e->list = (uint8_t)list;
	e->newer = 0;
	e->older = p->newest[list];
	if (e->older)
		p->entries[e->older].newer = i;
	else
		p->oldest[list] = i;
	p->newest[list] = i;
}

/* Make what is known of entry i that of a process of which nothing is known. */
static void entry_renew(struct gs_identity *p, uint32_t i)
{
	struct entry *e = &p->entries[i];

	list_remove(p, i);
	free(e->known);
	*e = (struct entry){.pid = e->pid};
	list_add(p, i, LIST_ALIVE);
}

static struct entry *entry_get(const struct gs_identity *p, uint32_t pid)
{
	uint64_t idx;

	return gs_map_get(&p->by_pid, pid, &idx) ? &p->entries[idx] : NULL;
}

/* The entry of pid, made when there is none; NULL: no memory. */
static struct entry *entry_make(struct gs_identity *p, uint32_t pid)
{
	struct entry *e = entry_get(p, pid);
	uint32_t i;

	if (e)
		return e;
	if (p->n_entries <= PROCESS_MAX)
		i = p->n_entries;
	else
		i = p->oldest[LIST_ENDED] ? p->oldest[LIST_ENDED] : p->oldest[LIST_ALIVE];
	if (gs_map_put(&p->by_pid, pid, i) < 0)
		return NULL;
	e = &p->entries[i];
	if (i == p->n_entries) {
		p->n_entries++;
	} else {
		gs_map_del(&p->by_pid, e->pid);
		list_remove(p, i);
		free(e->known);
	}
	*e = (struct entry){.pid = pid};
	list_add(p, i, LIST_ALIVE);
	return e;
}

static uint32_t index_of(const struct gs_identity *p, const struct entry *e)
{
	return (uint32_t)(e - p->entries);
}

/* --- reading --- */

/* The whole file (cut at TEXT_MAX_BYTES) into p->text, terminated. 0 or a negative errno. */
static int read_text(struct gs_identity *p, int dir_fd, const char *name)
{
	GS_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	gs_buf_reset(&p->text);
	if (fd < 0)
		return -errno;
	for (;;) {
		size_t room;
		ssize_t n;

		/* The last byte of the maximum is for the end of the text. */
		if (gs_buf_reserve(&p->text, 4096) < 0)
			break;
		room = p->text.capacity_bytes - p->text.bytes - 1;
		n = read(fd, p->text.data + p->text.bytes, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		p->text.bytes += (size_t)n;
	}
	if (!p->text.data)
		return -ENOMEM;
	p->text.data[p->text.bytes] = '\0';
	return 0;
}

static void read_exe(int dir_fd, char *out, size_t out_bytes)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;
	char path[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, "exe", path, sizeof(path));

	if (n < 0)
		n = 0;
	if ((size_t)n > mark && memcmp(path + n - mark, deleted, mark) == 0)
		n -= (ssize_t)mark;
	gs_identity_copy_clean(out, out_bytes, path, (size_t)n);
}

static int open_process(const struct gs_identity *p, uint32_t pid)
{
	char folder[FOLDER_MAX_BYTES];

	snprintf(folder, sizeof(folder), "%u", pid);
	return openat(p->proc_fd, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int read_stat(struct gs_identity *p, int dir_fd, struct gs_identity_stat *ret)
{
	int r = read_text(p, dir_fd, "stat");

	if (r < 0)
		return r;
	return gs_identity_parse_stat((char *)p->text.data, p->text.bytes, ret) ? 0 : -ESRCH;
}

/* Fill all of *out from the folder of the process; 0, or a negative errno when it is gone. */
static int read_process(struct gs_identity *p, uint32_t pid, struct gs_identity_process *out)
{
	GS_CLOSE int dir_fd = open_process(p, pid);
	struct gs_identity_stat stat;
	int r;

	if (dir_fd < 0)
		return -errno;
	r = read_stat(p, dir_fd, &stat);
	if (r < 0)
		return r;
	*out = (struct gs_identity_process){
		.pid = pid,
		.ns_pid = pid,
		.parent_pid = stat.parent_pid,
		.start_ns = stat.start_ticks * p->ns_per_tick,
	};
	memcpy(out->comm, stat.comm, sizeof(out->comm));
	/* What cannot be read from here on (rights, or it ends just now) stays empty. */
	if (read_text(p, dir_fd, "status") == 0)
		gs_identity_parse_status((char *)p->text.data, p->text.bytes, &out->uid,
					 &out->ns_pid);
	if (read_text(p, dir_fd, "cmdline") == 0)
		gs_identity_command_line((char *)p->text.data, p->text.bytes, out->cmdline,
					 sizeof(out->cmdline));
	if (read_text(p, dir_fd, "cgroup") == 0)
		gs_identity_container_of_cgroup((char *)p->text.data, out->container);
	read_exe(dir_fd, out->exe, sizeof(out->exe));
	return 0;
}

/* When the process that has this pid now began; 0 when none has. */
static uint64_t read_start_ns(struct gs_identity *p, uint32_t pid)
{
	GS_CLOSE int dir_fd = open_process(p, pid);
	struct gs_identity_stat stat;

	return dir_fd >= 0 && read_stat(p, dir_fd, &stat) == 0 ? stat.start_ticks * p->ns_per_tick
							       : 0;
}

/* What there is to say of a process that could never be read. No memory: nothing is known of it. */
static void describe_gone(struct entry *e)
{
	e->known = calloc(1, sizeof(*e->known));
	if (!e->known)
		return;
	*e->known =
		(struct gs_identity_process){.pid = e->pid, .parent_pid = e->parent_pid, .gone = 1};
	memcpy(e->known->comm, e->comm, sizeof(e->known->comm));
}

const struct gs_identity_process *gs_identity_process(struct gs_identity *p, uint32_t pid)
{
	struct entry *e = entry_make(p, pid);
	struct gs_identity_process now;
	bool complete;

	if (!e)
		return NULL;
	complete = e->known && !e->known->gone && !e->stale;
	if (complete && e->list == LIST_ALIVE)
		return e->known;
	if (complete) {
		uint64_t start_ns = read_start_ns(p, pid);

		/* No process has the pid, or still the one that is ending. */
		if (start_ns == 0 || start_ns == e->known->start_ns)
			return e->known;
	}
	if (read_process(p, pid, &now) == 0) {
		bool other = e->known && e->known->start_ns && e->known->start_ns != now.start_ns;

		/* One that has ended has no files any more: what was read before says more. */
		if (e->known && !other && !e->known->gone && !now.exe[0] && !now.cmdline[0] &&
		    strcmp(e->known->comm, now.comm) == 0) {
			e->stale = 0;
			return e->known;
		}
		/* And of one that was never read what its exec said. */
		if (e->known && !other && e->known->gone && !now.exe[0])
			memcpy(now.exe, e->known->exe, sizeof(now.exe));
		if (other)
			entry_renew(p, index_of(p, e));
		if (!e->known)
			e->known = malloc(sizeof(*e->known));
		if (!e->known)
			return NULL;
		*e->known = now;
		e->stale = e->inherited = 0;
		return e->known;
	}
	/* Ended before it could be read again: what was read or reported last is still the best to be had. */
	if (!e->known)
		describe_gone(e);
	return e->known;
}

void gs_identity_set_gpus(struct gs_identity *p, const struct gs_gpu_snapshot *s)
{
	const char *name = NULL;

	if (!p->gpus)
		p->gpus = calloc(1, sizeof(*p->gpus));
	if (!p->gpus)
		return;
	*p->gpus = (struct gs_job_gpus){.one_model = true};
	for (uint32_t i = 0; i < s->n_gpus && p->gpus->n < GS_JOB_GPUS_MAX; i++) {
		const struct gs_gpu_info *info = &s->info[i];
		struct gs_job_gpu *g = &p->gpus->gpu[p->gpus->n];

		p->has_instances |= info->is_mig;
		/* Instances are chosen by their UUIDs alone, and hide the GPU that they are of. */
		if (info->is_mig || info->mig_enabled || !info->uuid[0])
			continue;
		g->minor = info->minor;
		g->index = (int32_t)info->index;
		snprintf(g->uuid, sizeof(g->uuid), "%s", info->uuid);
		snprintf(g->bus_id, sizeof(g->bus_id), "%s", info->pci_bus_id);
		p->gpus->one_model &= !name || strcmp(name, info->name) == 0;
		name = info->name;
		p->gpus->n++;
	}
}

/* NULL: none, or no memory. */
static const struct gs_job_gpus *gpus_of_machine(struct gs_identity *p)
{
	if (!p->gpus) {
		p->gpus = calloc(1, sizeof(*p->gpus));
		if (p->gpus)
			gs_job_gpus_read(p->proc_fd, p->gpus);
	}
	return p->gpus && (p->gpus->n || p->has_instances) ? p->gpus : NULL;
}

void gs_identity_visible_gpus(struct gs_identity *p, const struct gs_identity_process *process,
			      const char *environ_now, size_t environ_bytes, bool begun,
			      char ret_uuids[GS_IDENTITY_GPUS_BYTES], int *ret_only)
{
	const struct gs_job_gpus *known = gpus_of_machine(p);
	char first[GS_IDENTITY_GPUS_BYTES], now[GS_IDENTITY_GPUS_BYTES];
	struct gs_cuda_visible_facts facts = {.first = first, .begun = begun};
	struct gs_cuda_visible_gpus gpus = {0};
	bool in_container = process->container[0];
	GS_CLOSE int dir_fd = -1;

	ret_uuids[0] = '\0';
	*ret_only = -1;
	if (!known || process->gone)
		return;
	gpus.one_model = known->one_model;
	for (uint32_t i = 0; i < known->n && i < GS_CUDA_VISIBLE_MAX; i++) {
		gpus.uuid[i] = known->gpu[i].uuid;
		gpus.n_instances[i] = known->gpu[i].n_instances;
		gpus.instance[i] = known->gpu[i].instance;
		gpus.n++;
	}
	dir_fd = open_process(p, process->pid);
	if (dir_fd < 0 || read_text(p, dir_fd, "environ") < 0)
		return;
	gs_cuda_visible_parse((char *)p->text.data, p->text.bytes, in_container, &gpus, first,
			      sizeof(first));
	/* It may hold secrets. */
	if (p->text.data)
		explicit_bzero(p->text.data, p->text.bytes);
	if (environ_now) {
		gs_cuda_visible_parse(environ_now, environ_bytes, in_container, &gpus, now,
				      sizeof(now));
		facts.now = now;
	}
	facts.open = gs_job_gpus_open(dir_fd, known);
	gs_cuda_visible_settle(&gpus, &facts, ret_uuids, GS_IDENTITY_GPUS_BYTES, ret_only);
}

void gs_identity_thread_comm(struct gs_identity *p, uint32_t pid, uint32_t tid,
			     const char *comm_hint, char ret_comm[16])
{
	char path[2 * FOLDER_MAX_BYTES];
	size_t bytes;

	snprintf(path, sizeof(path), "%u/task/%u/comm", pid, tid);
	if (read_text(p, p->proc_fd, path) < 0 || p->text.bytes == 0) {
		gs_identity_copy_clean(ret_comm, 16, comm_hint, strnlen(comm_hint, 16));
		return;
	}
	/* One newline is the file's, further ones are the thread's. */
	bytes = p->text.bytes;
	if (p->text.data[bytes - 1] == '\n')
		bytes--;
	gs_identity_copy_clean(ret_comm, 16, (char *)p->text.data, bytes);
}

/* Until it is read, or runs another program, a child is as its parent is now. */
static void entry_inherit(const struct gs_identity *p, struct entry *e)
{
	const struct entry *parent = entry_get(p, e->parent_pid);

	if (!parent || parent == e || !parent->known ||
	    (parent->stale && !parent->inherited && !parent->known->gone))
		return;
	e->known = malloc(sizeof(*e->known));
	if (!e->known)
		return;
	*e->known = *parent->known;
	e->known->pid = e->known->ns_pid = e->pid;
	e->known->parent_pid = e->parent_pid;
	e->known->start_ns = 0;
	e->stale = e->inherited = 1;
}

void gs_identity_fork(struct gs_identity *p, uint32_t pid, uint32_t parent_pid)
{
	struct entry *e = entry_make(p, pid);

	if (!e)
		return;
	entry_renew(p, index_of(p, e));
	e->parent_pid = parent_pid;
	entry_inherit(p, e);
}

void gs_identity_refresh(struct gs_identity *p, uint32_t pid)
{
	struct entry *e = entry_get(p, pid);

	if (e)
		e->stale = 1;
}

void gs_identity_exec(struct gs_identity *p, uint32_t pid, const char *comm, const char *exe)
{
	struct entry *e = comm[0] ? entry_make(p, pid) : entry_get(p, pid);

	if (!e)
		return;
	e->stale = 1;
	if (e->inherited)
		gs_free_p(&e->known);
	e->inherited = 0;
	if (comm[0] && !e->known)
		describe_gone(e);
	if (!comm[0] || !e->known)
		return;
	gs_identity_copy_clean(e->known->comm, sizeof(e->known->comm), comm, strnlen(comm, 16));
	/* One that was named from its folder then is no path for others. */
	gs_identity_copy_clean(e->known->exe, sizeof(e->known->exe), exe,
			       exe[0] == '/' ? strnlen(exe, sizeof(e->known->exe)) : 0);
	e->known->cmdline[0] = '\0';
}

void gs_identity_exit(struct gs_identity *p, uint32_t pid, const char *comm_hint)
{
	struct entry *e = entry_make(p, pid);

	if (!e)
		return;
	gs_identity_copy_clean(e->comm, sizeof(e->comm), comm_hint, strnlen(comm_hint, 16));
	if (e->known && (e->known->gone || e->inherited) && e->comm[0])
		memcpy(e->known->comm, e->comm, sizeof(e->comm));
	list_remove(p, index_of(p, e));
	list_add(p, index_of(p, e), LIST_ENDED);
}
