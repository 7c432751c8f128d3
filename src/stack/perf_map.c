#include "stack/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define MAX_ENTRIES    (1u << 20)
#define MAX_TEXT_BYTES (64u << 20) /* names, of one process */
#define MAX_NAME_BYTES 1024
#define READ_BYTES     65536
#define AGAIN_NS       20000000ull

struct entry {
	uint64_t start, end;
	uint32_t name_at; /* in names */
	uint32_t n;       /* which line it was: code may take the place of older code */
};

struct gs_perf_map {
	uint32_t pid;
	uint64_t read_off; /* of the file */
	uint64_t tried_ns;
	bool sorted, refused;
	struct gs_buf entries, names;
};

struct gs_perf_map *gs_perf_map_new(uint32_t pid)
{
	struct gs_perf_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->pid = pid;
	m->entries = GS_BUF_INIT(MAX_ENTRIES * sizeof(struct entry));
	m->names = GS_BUF_INIT(MAX_TEXT_BYTES);
	return m;
}

void gs_perf_map_free(struct gs_perf_map **map)
{
	if (!*map)
		return;
	gs_buf_fini(&(*map)->entries);
	gs_buf_fini(&(*map)->names);
	free(*map);
	*map = NULL;
}

/* Hexadecimal digits and the blank behind them; NULL: something else. */
static const char *take_hex(const char *at, const char *end, uint64_t *ret)
{
	const char *from;

	*ret = 0;
	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	for (from = at; at < end && at - from < 16; at++) {
		unsigned digit = (unsigned)(*at >= '0' && *at <= '9'   ? *at - '0'
					    : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
					    : *at >= 'A' && *at <= 'F' ? *at - 'A' + 10
								       : 16);

		if (digit > 15)
			break;
		*ret = *ret << 4 | digit;
	}
	return at > from && at < end && *at == ' ' ? at + 1 : NULL;
}

static void take_line(struct gs_perf_map *m, const char *at, const char *end)
{
	struct entry e = {.name_at = (uint32_t)m->names.bytes,
			  .n = (uint32_t)(m->entries.bytes / sizeof(struct entry))};
	uint64_t size;

	at = take_hex(at, end, &e.start);
	at = at ? take_hex(at, end, &size) : NULL;
	if (!at || at == end || !size || e.start + size < e.start)
		return;
	e.end = e.start + size;
	if (end - at > MAX_NAME_BYTES - 1)
		end = at + MAX_NAME_BYTES - 1;
	/* What finds no room has no name. */
	if (gs_buf_put(&m->names, at, (size_t)(end - at)) < 0 || gs_buf_put(&m->names, "", 1) < 0 ||
	    gs_buf_put(&m->entries, &e, sizeof(e)) < 0)
		return;
	m->sorted = false;
}

size_t gs_perf_map_parse(struct gs_perf_map *m, const char *text, size_t bytes)
{
	const char *at = text, *end = text + bytes, *line_end;

	for (; at < end; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			break;
		take_line(m, at, line_end);
	}
	return (size_t)(at - text);
}

/* Its own number, in its own world of processes. */
static uint32_t own_pid(uint32_t pid)
{
	GS_FCLOSE FILE *f = NULL;
	unsigned own = pid, n;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;

		if (last && sscanf(last, "%u", &n) == 1)
			own = n;
	}
	return own;
}

/* As perf does, a file is believed that belongs to the user of the process, or to root. */
static int open_map(uint32_t pid)
{
	struct stat map, process;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &process) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", pid, own_pid(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &map) == 0 && S_ISREG(map.st_mode) &&
	    (map.st_uid == process.st_uid || map.st_uid == 0))
		return fd;
	close(fd);
	return -EPERM;
}

static void read_more(struct gs_perf_map *m)
{
	GS_CLOSE int fd = open_map(m->pid);
	GS_FREE char *text = malloc(READ_BYTES);

	if (fd == -EPERM)
		m->refused = true;
	while (fd >= 0 && text) {
		ssize_t n = pread(fd, text, READ_BYTES, (off_t)m->read_off);
		size_t used = n > 0 ? gs_perf_map_parse(m, text, (size_t)n) : 0;

		if (!used && n == READ_BYTES) /* a line longer than that: passed over */
			used = READ_BYTES;
		if (!used)
			break;
		m->read_off += used;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

/* The newest that covers the address, of those that begin last below it. */
static const struct entry *find(struct gs_perf_map *m, uint64_t pc)
{
	struct entry *entries = (void *)m->entries.data;
	size_t low = 0, high = m->entries.bytes / sizeof(*entries);

	if (!m->sorted && high)
		qsort(entries, high, sizeof(*entries), by_start);
	m->sorted = true;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (entries[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && pc < entries[low - 1].end ? &entries[low - 1] : NULL;
}

bool gs_perf_map_name(struct gs_perf_map *m, uint64_t pc, uint64_t now_ns, char *ret_name,
		      size_t bytes)
{
	const struct entry *e = find(m, pc);

	if (!e && !m->refused && (!m->tried_ns || now_ns - m->tried_ns >= AGAIN_NS)) {
		m->tried_ns = now_ns;
		read_more(m);
		e = find(m, pc);
	}
	if (e)
		snprintf(ret_name, bytes, "%s", (const char *)m->names.data + e->name_at);
	return e != NULL;
}
