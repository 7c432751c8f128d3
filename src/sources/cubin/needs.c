/* One pass over the fat binaries of a file, of whose elements those that the device may run are unpacked. */
#include "sources/cubin/needs.h"

#include <errno.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/elf/code.h"

/* Where the device is not known all code has to be unpacked: only of files with little of it. */
#define MOST_FOR_ANY (16u << 20)

struct search {
	struct gs_elf *elf;
	uint32_t sm;
	struct gs_cubin_wanted *wanted;
	size_t n, n_exact;     /* of them: found for the very device */
	struct gs_map by_name; /* hash -> index */
};

static uint64_t name_key(const char *name)
{
	return gs_hash_bytes(name, strlen(name));
}

/* Code runs on devices of its own generation that are as new or newer (CUDA C++ Programming Guide, "Binary
 * Compatibility"). */
static bool may_run(uint32_t code, uint32_t device)
{
	return !device || (code / 10 == device / 10 && code <= device);
}

static bool needs_equal(const struct gs_cubin_kernel *a, const struct gs_cubin_kernel *b)
{
	return a->registers == b->registers && a->shared_bytes == b->shared_bytes &&
	       a->local_bytes == b->local_bytes && a->max_threads == b->max_threads;
}

static int take_kernel(void *ctx, const struct gs_cubin_kernel *k)
{
	struct search *s = ctx;
	struct gs_cubin_wanted *w;
	uint64_t i;

	if (!gs_map_get(&s->by_name, name_key(k->name), &i))
		return 0;
	w = &s->wanted[i];
	if (strcmp(w->name, k->name) != 0)
		return 0;
	if (!w->found || (s->sm && k->sm > w->kernel.sm)) {
		w->found = true;
		w->kernel = *k;
		s->n_exact += s->sm && k->sm == s->sm;
	} else if (!s->sm && !needs_equal(&w->kernel, k)) {
		w->differs = true;
	}
	return gs_guard_stopped() ? -ECANCELED : 0;
}

static long read_file(void *ctx, uint64_t off, void *to, size_t bytes)
{
	return gs_elf_read(ctx, off, to, bytes);
}

static void add_counts(struct gs_fatbin_counts *sum, const struct gs_fatbin_counts *more)
{
	if (!sum)
		return;
	sum->n_fatbins += more->n_fatbins;
	sum->n_cubins += more->n_cubins;
	sum->n_ptx += more->n_ptx;
	sum->n_others += more->n_others;
	sum->n_too_large += more->n_too_large;
	sum->n_bad += more->n_bad;
}

static int search_part(struct search *s, const struct gs_elf_part *part,
		       struct gs_fatbin_counts *counts)
{
	const struct gs_fatbin_source source = {
		.read = read_file, .ctx = s->elf, .off = part->off, .bytes = part->bytes};
	struct gs_fatbin_element e;
	struct gs_fatbins *f;
	int r = gs_fatbins_new(&source, &f);

	if (r < 0)
		return r;
	while (s->n_exact < s->n && (r = gs_fatbins_next(f, &e)) == 1) {
		if (e.kind != GS_FATBIN_CUBIN || !may_run(e.sm, s->sm))
			continue;
		r = gs_fatbins_kernels(f, &e, take_kernel, s);
		if (r < 0)
			break;
	}
	add_counts(counts, gs_fatbins_counts(f));
	gs_fatbins_free(&f);
	return r < 0 ? r : 0;
}

int gs_cubin_find_needs(struct gs_elf *elf, uint32_t sm, struct gs_cubin_wanted *wanted, size_t n,
			struct gs_fatbin_counts *ret_counts)
{
	static const char *const names[] = {".nv_fatbin", "__nv_relfatbin"};
	struct search s = {.elf = elf, .sm = sm, .wanted = wanted, .n = n};
	int r = 0;

	if (n > GS_CUBIN_WANTED_MAX)
		return -E2BIG;
	s.by_name = GS_MAP_INIT(2 * GS_CUBIN_WANTED_MAX);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = gs_map_put(&s.by_name, name_key(wanted[i].name), i);
	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(names); i++) {
		struct gs_elf_part part;

		if (gs_elf_section_bytes(elf, names[i], &part) == 0 &&
		    (sm || part.bytes <= MOST_FOR_ANY))
			r = search_part(&s, &part, ret_counts);
	}
	gs_map_fini(&s.by_name);
	return r;
}
