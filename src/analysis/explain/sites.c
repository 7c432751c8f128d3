/*
 * Which call site made the memory of a process on GPUs grow. Of each block that is held it is known where it was
 * asked for, and so what is held from each place; over time these are kept as memory of processes of a node is.
 * Where stacks are not recorded, a place is a function and a class of sizes. Processes of which blocks were left out
 * have no places: what is not known may be what grew.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/base/map.h"
#include "model/trace/class.h"

#define MAX_SITES   192
#define MAX_BLOCKS  (1 << 17)
#define SITE_SHIFT  48 /* of a value in the map: the place above, bytes below */
#define NAME_BYTES  64
#define PLACE_BYTES 112
#define LOOK_NS     1000000000ull

struct site {
	uint32_t pid;
	uint64_t key;  /* of its process, function and place */
	uint64_t site; /* as of the call; 0 not known */
	uint64_t bytes;
	uint64_t size;         /* of the first block, the power of two below it */
	char name[NAME_BYTES]; /* of the function */
};

struct sites {
	struct site sites[MAX_SITES];
	uint32_t n;
	struct gs_map blocks;  /* hash of process and address -> place and bytes */
	bool is_full;          /* blocks, or places, were left out */
	struct growth *growth; /* owned; of each process, by place and 1 */
	uint64_t looked_ns;    /* when lines were looked for, which takes long, last */
	gs_explain_name_fn name;
	void *ctx;
};

struct sites *explain_sites_new(void)
{
	struct sites *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->blocks = GS_MAP_INIT(MAX_BLOCKS);
	s->growth = explain_growth_new();
	if (!s->growth)
		explain_sites_free(&s);
	return s;
}

void explain_sites_free(struct sites **sites)
{
	if (!*sites)
		return;
	gs_map_fini(&(*sites)->blocks);
	explain_growth_free(&(*sites)->growth);
	free(*sites);
	*sites = NULL;
}

void explain_sites_set_namer(struct sites *s, gs_explain_name_fn name, void *ctx)
{
	s->name = name;
	s->ctx = ctx;
}

/* NULL: no room. */
static struct site *find_site(struct sites *s, const struct gs_explain_call *c)
{
	unsigned size = c->bytes ? 63u - (unsigned)__builtin_clzll(c->bytes) : 0;
	uint64_t what[4] = {c->process, c->function, c->site, c->site ? 0 : size};
	uint64_t key = gs_hash_bytes(what, sizeof(what));
	struct site *found;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->sites[i].key == key)
			return &s->sites[i];
	if (s->n == MAX_SITES)
		return NULL;
	found = &s->sites[s->n++];
	*found = (struct site){.pid = c->pid, .key = key, .site = c->site, .size = 1ull << size};
	snprintf(found->name, sizeof(found->name), "%s", c->name);
	return found;
}

static uint64_t block_key(const struct gs_explain_call *c)
{
	const uint64_t what[2] = {c->process, c->arg[0]};

	return gs_hash_bytes(what, sizeof(what));
}

static void take_free(struct sites *s, const struct gs_explain_call *c)
{
	uint64_t key = block_key(c), value, bytes;
	struct site *site;

	if (!gs_map_get(&s->blocks, key, &value))
		return;
	site = &s->sites[value >> SITE_SHIFT];
	bytes = value & ((1ull << SITE_SHIFT) - 1);
	site->bytes -= bytes < site->bytes ? bytes : site->bytes;
	gs_map_del(&s->blocks, key);
}

void explain_sites_take_call(struct sites *s, const struct gs_explain_call *c)
{
	struct site *site;

	if (c->failed || !c->arg[0])
		return;
	if (c->func_class == GS_CLASS_FREE) {
		take_free(s, c);
		return;
	}
	if (c->func_class != GS_CLASS_ALLOC || explain_gives_pinned(c->name) ||
	    c->bytes >> SITE_SHIFT)
		return;
	take_free(s, c); /* the address is given again: its free was not seen */
	site = find_site(s, c);
	if (!site || gs_map_put(&s->blocks, block_key(c),
				(uint64_t)(site - s->sites) << SITE_SHIFT | c->bytes) < 0)
		s->is_full = true;
	else
		site->bytes += c->bytes;
}

static void name_process(uint32_t pid, char out[GS_EXPLAIN_NAME_BYTES])
{
	snprintf(out, GS_EXPLAIN_NAME_BYTES, "%" PRIu32, pid);
}

void explain_sites_take_second(struct sites *s, uint32_t pid, uint64_t time_ns, double all_bytes)
{
	char of[GS_EXPLAIN_NAME_BYTES];

	name_process(pid, of);
	explain_growth_add(s->growth, of, 0, "", time_ns, all_bytes);
	for (uint32_t i = 0; i < s->n; i++)
		if (s->sites[i].pid == pid)
			explain_growth_add(s->growth, of, i + 1, "", time_ns,
					   (double)s->sites[i].bytes);
}

void explain_sites_describe(const struct sites *s, struct gs_explain_cause *cause)
{
	const struct site *site = cause->site ? &s->sites[cause->site - 1] : NULL;
	char place[PLACE_BYTES] = "", size[GS_FMT_BYTES], more[GS_FMT_BYTES], of[48] = "";

	if (!site)
		return;
	if (s->name && site->site)
		s->name(s->ctx, site->site, place, sizeof(place));
	if (!place[0])
		snprintf(of, sizeof(of), " of %s or more", gs_fmt_bytes(size, site->size));
	snprintf(cause->text, sizeof(cause->text),
		 "%s%s%s%s: %s more held since then, %.0f %% of the growth", site->name,
		 place[0] ? " at " : "", place, of, gs_fmt_bytes(more, (uint64_t)cause->site_bytes),
		 cause->confidence * 100);
}

/* Of a call site that is named; "" where it is not. */
static void name_place(const struct sites *s, const struct site *site, char out[PLACE_BYTES])
{
	out[0] = '\0';
	if (s->name && site->site)
		s->name(s->ctx, site->site, out, PLACE_BYTES);
}

struct line {
	const struct site *site; /* the first of it */
	double bytes;            /* of all of it */
	char place[PLACE_BYTES];
};

/* How many lines, which are as many as sites at most, and by how much each has grown. */
static uint32_t list_lines(const struct sites *s, const char *of,
			   const struct gs_explain_finding *f, uint64_t until_ns,
			   struct line *lines)
{
	uint32_t n = 0, k;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->sites[i].pid != f->pid)
			continue;
		name_place(s, &s->sites[i], lines[n].place);
		if (!lines[n].place[0])
			continue;
		for (k = 0; strcmp(lines[k].place, lines[n].place) != 0; k++)
			;
		if (k == n)
			lines[n++].site = &s->sites[i];
		lines[k].bytes +=
			explain_growth_of(s->growth, of, i + 1, f->begun.since_ns, until_ns);
	}
	return n;
}

/* One line of code is reached by several stacks, which are sites of their own: together they may have most of what grew. The first
 * of them and 1; 0: no line has, or it is not known. */
static uint32_t find_line(const struct sites *s, const char *of, const struct gs_explain_finding *f,
			  uint64_t until_ns, double *ret_bytes, double *ret_share)
{
	GS_FREE struct line *lines = calloc(MAX_SITES, sizeof(*lines));
	double all = explain_growth_of(s->growth, of, 0, f->begun.since_ns, until_ns), second = 0;
	uint32_t n = lines ? list_lines(s, of, f, until_ns, lines) : 0;
	const struct line *most = NULL;

	for (uint32_t k = 0; k < n; k++)
		if (!most || lines[k].bytes > most->bytes)
			most = &lines[k];
	for (uint32_t k = 0; k < n; k++)
		if (&lines[k] != most && lines[k].bytes > second)
			second = lines[k].bytes;
	if (!most || all <= 0 || most->bytes < EXPLAIN_NAMED_SHARE * all ||
	    most->bytes - second <= EXPLAIN_CLEAR_SHARE * all)
		return 0;
	*ret_bytes = most->bytes;
	*ret_share = most->bytes < all ? most->bytes / all : 1;
	return (uint32_t)(most->site - s->sites) + 1;
}

void explain_sites_judge(struct sites *s, const struct gs_explain_finding *f, uint64_t until_ns,
			 struct gs_explain_cause *ret)
{
	char of[GS_EXPLAIN_NAME_BYTES];
	double bytes, share;
	uint32_t site;

	if (s->is_full)
		return;
	name_process(f->pid, of);
	site = explain_growth_find(s->growth, of, f->begun.since_ns, until_ns, &bytes, &share);
	if (!site && (until_ns == s->looked_ns || until_ns >= s->looked_ns + LOOK_NS)) {
		s->looked_ns = until_ns;
		site = find_line(s, of, f, until_ns, &bytes, &share);
	}
	if (!site)
		return;
	ret->key = "call_site";
	ret->confidence = share;
	ret->judged_ns = until_ns > f->begun.since_ns ? until_ns - f->begun.since_ns : 0;
	ret->pid = f->pid;
	ret->site = site;
	ret->site_bytes = bytes;
	explain_sites_describe(s, ret);
}
