/*
 * From a file to places: which of the wanted functions it defines, each address once (ncclX and
 * pncclX share one), and where in each a probe is cheap. A file is of interest when it defines one
 * of a few marker functions; asking that costs some hundred bytes of reading, so that every library
 * of every process can be asked, whatever its name.
 */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "model/func.h"
#include "probe/probe_int.h"

static const char *const markers[] = {"cudaLaunchKernel", "cudaMalloc",    "cuLaunchKernel",
				      "cuMemAlloc_v2",    "ncclAllReduce", "ncclCommInitRank"};

static bool matches_any(const char *name, const char *const *globs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fnmatch(globs[i], name, 0) == 0)
			return true;
	return false;
}

int selection_make(struct selection *s, const struct gs_probe_options *o, struct gs_err *err)
{
	*s = (struct selection){0};
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		if (o->layers && !(o->layers >> f->desc.layer & 1))
			continue;
		if (o->n_globs ? !matches_any(f->name, o->globs, o->n_globs) : !f->by_default)
			continue;
		s->wanted[id] = true;
		s->n++;
	}
	if (!s->n && !gs_user_set_n(o->users))
		return gs_err_set(
			err, -ENOENT,
			"no function matches%s%s%s: `gpuscope trace --list` shows all names",
			o->n_globs ? " --func " : "", o->n_globs ? o->globs[0] : "",
			o->layers ? " in the chosen layers" : "");
	return 0;
}

static bool is_of_interest(struct gs_elf *elf, bool is_exe)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(markers); i++)
		if (gs_elf_defines(elf, markers[i]))
			return true;
	/* A runtime linked statically shows in the full symbol table only. */
	return is_exe && gs_elf_has_symtab(elf);
}

static bool has_place(const struct plan *plan, uint64_t file_off)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->places[i].file_off == file_off)
			return true;
	return false;
}

static void add_place(struct plan *plan, const struct gs_func *func,
		      const struct gs_elf_symbol *symbol, struct gs_elf *elf,
		      const struct gs_probe_options *options, const struct features *features,
		      const char *path)
{
	struct gs_site_rules rules = {.nop5_is_call = features->nop5_is_call,
				      .long_nop_is_emulated = features->long_nop_is_emulated};
	struct gs_site site;
	uint8_t code[64];
	long n = gs_elf_read(elf, symbol->file_off, code, sizeof(code));
	uint64_t file_off = symbol->file_off;

	site = gs_site_choose_x86_64(code, n > 0 ? (size_t)n : 0, symbol->size_bytes, &rules);
	if (site.kind == GS_SITE_REFUSED) {
		struct gs_attach a = {.path = path,
				      .function = func->name,
				      .reason = site.reason,
				      .status = -EOPNOTSUPP,
				      .layer = func->desc.layer};

		options->on_attach(options->ctx, &a);
		return;
	}
	if (site.kind == GS_SITE_MOVED && !(options->avoid & GS_AVOID_MOVED_SITES))
		file_off += site.offset_bytes;
	else if (site.kind != GS_SITE_EMULATED)
		plan->n_stepped++;
	if (file_off != symbol->file_off)
		plan->n_moved++;
	gs_log(2, "%s: %s at 0x%llx+%u%s%s", path, func->name, (unsigned long long)symbol->file_off,
	       (unsigned)(file_off - symbol->file_off),
	       site.kind == GS_SITE_STEPPED ? ", single-stepped: " : "",
	       site.kind == GS_SITE_STEPPED ? site.reason : "");
	plan->places[plan->n++] = (struct place){.file_off = file_off, .func = func->id};
}

int plan_file(struct plan *plan, const struct selection *selection,
	      const struct gs_probe_options *options, const struct features *features,
	      const struct gs_mapped_file *file, struct gs_err *err)
{
	struct gs_elf_symbol symbols[GS_FUNC_FIXED];
	const char *names[GS_FUNC_FIXED];
	uint16_t ids[GS_FUNC_FIXED];
	struct gs_elf *elf = NULL;
	size_t n = 0;
	int r;

	*plan = (struct plan){0};
	r = gs_elf_open(file->open_path, &elf, err);
	if (r < 0)
		return r;
	if (!is_of_interest(elf, file->is_exe)) {
		gs_elf_close(&elf);
		return 0;
	}
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		if (!selection->wanted[id])
			continue;
		names[n] = gs_func_by_id(id)->name;
		ids[n++] = (uint16_t)id;
	}
	r = gs_elf_find(elf, names, n, file->is_exe, symbols, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct gs_func *func = gs_func_by_id(ids[i]);

		if (!symbols[i].found || has_place(plan, symbols[i].file_off))
			continue;
		if (plan->n == 0)
			plan->layer = func->desc.layer;
		else if (plan->layer != func->desc.layer)
			plan->layer = 0;
		add_place(plan, func, &symbols[i], elf, options, features, file->path);
	}
	gs_elf_close(&elf);
	return r;
}
