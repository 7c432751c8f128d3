#include "sources/unwind/perf_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"

#define MAX_NAME_BYTES 1024
#define READ_BYTES     65536
#define AGAIN_NS       20000000ull
#define EVICTED_NS     1000000000ull
#define REST_TIMES     20u /* so many times what a reading took */

struct entry {
	uint64_t start, end;
	uint32_t name_at; /* in names */
	uint32_t n;       /* which line it was: code may take the place of older code */
};

struct content { /* of a file */
	struct content *next;
	uint64_t dev, ino; /* ino 0: of no file */
	uint32_t uid;
	unsigned n_maps;   /* that refer to it */
	uint64_t read_off; /* of the file */
	uint64_t again_ns; /* not to be read before */
	uint64_t used;     /* when, in uses of all */
	bool sorted, full;
	struct gs_buf entries, names;
};

struct gs_perf_maps {
	struct content *first; /* owned */
	uint64_t uses, now_ns;
};

struct gs_perf_map {
	struct gs_perf_maps *all; /* borrowed */
	struct content *content;  /* NULL: none yet */
};

/* ---- memory ---------------------------------------------------------------------------- */

static size_t content_bytes(const struct content *c)
{
	return c->entries.capacity_bytes + c->names.capacity_bytes;
}

size_t gs_perf_maps_bytes(const struct gs_perf_maps *all)
{
	size_t sum = 0;

	for (const struct content *c = all->first; c; c = c->next)
		sum += content_bytes(c);
	return sum;
}

static size_t user_bytes(const struct gs_perf_maps *all, uint32_t uid)
{
	size_t sum = 0;

	for (const struct content *c = all->first; c; c = c->next)
		sum += c->uid == uid ? content_bytes(c) : 0;
	return sum;
}

static void content_empty(struct content *c)
{
	gs_buf_fini(&c->entries);
	gs_buf_fini(&c->names);
	c->entries = GS_BUF_INIT(GS_PERF_MAPS_BYTES);
	c->names = GS_BUF_INIT(GS_PERF_MAPS_BYTES);
	c->read_off = 0;
	c->sorted = true;
}

static struct content *content_find(const struct gs_perf_maps *all, uint64_t dev, uint64_t ino)
{
	for (struct content *c = all->first; c; c = c->next)
		if (ino && c->ino == ino && c->dev == dev)
			return c;
	return NULL;
}

static struct content *content_new(struct gs_perf_maps *all, const struct gs_foreign *file)
{
	struct content *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (file) {
		c->dev = file->dev;
		c->ino = file->ino;
		c->uid = file->uid;
	}
	content_empty(c);
	c->next = all->first;
	all->first = c;
	return c;
}

static void map_drop(struct gs_perf_map *m)
{
	struct content *c = m->content;

	m->content = NULL;
	if (!c || --c->n_maps)
		return;
	for (struct content **at = &m->all->first; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	content_empty(c);
	free(c);
}

static void map_take(struct gs_perf_map *m, struct content *c)
{
	if (m->content == c)
		return;
	map_drop(m);
	m->content = c;
	c->n_maps++;
}

/* Give back what of this user, c aside, was used longest ago. False: there is nothing. */
static bool evict_maps(struct gs_perf_maps *all, const struct content *c, uint32_t uid)
{
	struct content *oldest = NULL;

	for (struct content *o = all->first; o; o = o->next)
		if (o != c && o->uid == uid && content_bytes(o) &&
		    (!oldest || o->used < oldest->used))
			oldest = o;
	if (!oldest)
		return false;
	content_empty(oldest);
	oldest->again_ns = all->now_ns + EVICTED_NS;
	gs_guard_refuse(GS_REFUSED_NAMES, 1, "a map of generated code was used longest ago");
	return true;
}

/* The user whose names take most. */
static uint32_t greatest_user(const struct gs_perf_maps *all)
{
	const struct content *greatest = all->first;
	size_t most = 0, sum;

	for (const struct content *c = all->first; c; c = c->next) {
		sum = user_bytes(all, c->uid);
		if (sum <= most)
			continue;
		most = sum;
		greatest = c;
	}
	return greatest->uid;
}

/* Room for so many bytes more. */
static int content_reserve(struct gs_perf_maps *all, struct content *c, struct gs_buf *buf,
			   size_t bytes)
{
	size_t most = c->uid ? GS_PERF_MAPS_USER_BYTES : GS_PERF_MAPS_BYTES, more;

	if (buf->bytes + bytes <= buf->capacity_bytes)
		return 0;
	more = buf->capacity_bytes + bytes + 4096; /* it doubles */
	while (user_bytes(all, c->uid) + more > most)
		if (!evict_maps(all, c, c->uid))
			return -ENOBUFS;
	while (gs_perf_maps_bytes(all) + more > GS_PERF_MAPS_BYTES)
		if (!evict_maps(all, c, greatest_user(all)))
			return -ENOBUFS;
	return gs_buf_reserve(buf, bytes);
}

struct gs_perf_maps *gs_perf_maps_new(void)
{
	return calloc(1, sizeof(struct gs_perf_maps));
}

void gs_perf_maps_free(struct gs_perf_maps **all)
{
	free(*all);
	*all = NULL;
}

struct gs_perf_map *gs_perf_map_new(struct gs_perf_maps *all)
{
	struct gs_perf_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->all = all;
	return m;
}

void gs_perf_map_free(struct gs_perf_map **map)
{
	if (!*map)
		return;
	map_drop(*map);
	free(*map);
	*map = NULL;
}

/* ---- text ------------------------------------------------------------------------------ */

/* Hexadecimal digits and the blank after them; NULL: something else. */
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

/* False: the memory for names is used up. */
static bool take_line(struct gs_perf_maps *all, struct content *c, const char *at, const char *end)
{
	struct entry e = {.name_at = (uint32_t)c->names.bytes,
			  .n = (uint32_t)(c->entries.bytes / sizeof(struct entry))};
	uint64_t size;

	at = take_hex(at, end, &e.start);
	at = at ? take_hex(at, end, &size) : NULL;
	if (!at || at == end || !size || e.start + size < e.start)
		return true;
	e.end = e.start + size;
	if (end - at > MAX_NAME_BYTES - 1)
		end = at + MAX_NAME_BYTES - 1;
	if (content_reserve(all, c, &c->names, (size_t)(end - at) + 1) < 0 ||
	    content_reserve(all, c, &c->entries, sizeof(e)) < 0)
		return false;
	gs_buf_put(&c->names, at, (size_t)(end - at));
	gs_buf_put(&c->names, "", 1);
	gs_buf_put(&c->entries, &e, sizeof(e));
	c->sorted = false;
	return true;
}

static size_t parse_text(struct gs_perf_maps *all, struct content *c, const char *text,
			 size_t bytes)
{
	const char *at = text, *end = text + bytes, *line_end;

	for (; at < end && !c->full; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			break;
		c->full = !take_line(all, c, at, line_end);
	}
	if (c->full)
		gs_guard_refuse(GS_REFUSED_NAMES, 1, "a map of generated code is too long");
	return (size_t)(at - text);
}

size_t gs_perf_map_parse(struct gs_perf_map *m, const char *text, size_t bytes)
{
	if (!m->content) {
		struct content *c = content_new(m->all, NULL);

		if (!c)
			return 0;
		map_take(m, c);
	}
	return parse_text(m->all, m->content, text, bytes);
}

/* ---- files ----------------------------------------------------------------------------- */

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
int gs_perf_map_open(uint32_t pid, struct gs_foreign *ret_file)
{
	const struct gs_foreign_want want = {.no_links = true};
	struct stat process;
	char path[96];
	int r;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &process) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", pid, own_pid(pid));
	r = gs_foreign_open(path, &want, ret_file);
	if (r < 0)
		return r;
	if (ret_file->uid == process.st_uid || ret_file->uid == 0)
		return 0;
	gs_foreign_close(ret_file);
	return -EPERM;
}

/* Lines are never in a hole, of which a file can have any length. */
static void read_content(struct gs_perf_maps *all, struct content *c, struct gs_foreign *file,
			 char *text)
{
	while (!c->full) {
		ssize_t n;
		size_t used;

		if (c->read_off < file->bytes)
			c->read_off = gs_foreign_skip_hole(file, c->read_off, file->bytes);
		n = gs_foreign_read(file, c->read_off, text, READ_BYTES);
		used = n > 0 ? parse_text(all, c, text, (size_t)n) : 0;
		if (!used && n == READ_BYTES) /* a line longer than that: passed over */
			used = READ_BYTES;
		if (!used)
			break;
		c->read_off += used;
	}
}

static void sort_content(struct content *c);

void gs_perf_map_read(struct gs_perf_map *m, struct gs_foreign *file, uint64_t now_ns)
{
	GS_FREE char *text = malloc(READ_BYTES);
	uint64_t from = gs_clock_mono_ns();
	struct content *c = content_find(m->all, file->dev, file->ino);

	c = c ? c : content_new(m->all, file);
	if (!c || !text)
		return;
	map_take(m, c);
	m->all->now_ns = now_ns;
	if (now_ns < c->again_ns)
		return;
	read_content(m->all, c, file, text);
	sort_content(c);
	c->again_ns = now_ns + AGAIN_NS + REST_TIMES * (gs_clock_mono_ns() - from);
}

static int by_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

static void sort_content(struct content *c)
{
	if (!c->sorted && c->entries.bytes)
		qsort(c->entries.data, c->entries.bytes / sizeof(struct entry),
		      sizeof(struct entry), by_start);
	c->sorted = true;
}

/* The newest that covers the address, of those that begin last below it. */
static const struct entry *find_entry(struct gs_perf_map *m, uint64_t pc)
{
	struct content *c = m->content;
	const struct entry *entries;
	size_t low = 0, high;

	if (!c || !c->entries.bytes)
		return NULL;
	c->used = ++m->all->uses;
	sort_content(c);
	entries = (const void *)c->entries.data;
	high = c->entries.bytes / sizeof(*entries);
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (entries[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && pc < entries[low - 1].end ? &entries[low - 1] : NULL;
}

bool gs_perf_map_name(struct gs_perf_map *m, uint64_t pc, char *ret_name, size_t bytes)
{
	const struct entry *e = find_entry(m, pc);

	if (e)
		snprintf(ret_name, bytes, "%s", (const char *)m->content->names.data + e->name_at);
	return e != NULL;
}
