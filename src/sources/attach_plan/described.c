/* What a file has of the functions and static probes that the user described. */
#include "sources/attach_plan/described.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/attach_plan/attach_plan_int.h"

struct search {
	const struct gs_described_query *query;
	const struct gs_described_handler *handler;
	struct gs_elf *elf;
	struct gs_map callees; /* of struct gs_attach_plan_context */
	bool *is_wanted;       /* owned, by want */
	unsigned n;
};

static bool matches_function(const struct gs_described_want *w, const char *name)
{
	return w->function && (strcmp(w->function, name) == 0 ||
			       (w->is_glob && fnmatch(w->function, name, 0) == 0));
}

static bool matches_site(const struct gs_described_want *w, const struct gs_usdt_site *site)
{
	return w->probe && fnmatch(w->provider, site->provider, 0) == 0 &&
	       fnmatch(w->probe, site->name, 0) == 0;
}

static int report_function(struct search *s, unsigned want, const struct gs_elf_function *f)
{
	const struct gs_attach_plan_options *options = s->query->options;
	const struct gs_attach_plan_context c = {
		.options = options, .path = s->query->path, .elf = s->elf, .callees = &s->callees};
	const struct gs_elf_symbol symbol = {
		.found = true, .file_off = f->file_off, .size_bytes = f->size_bytes};
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	struct gs_described_function d = {.want = want,
					  .name = f->name,
					  .file_off = f->file_off,
					  .size_bytes = f->size_bytes,
					  .indirect = f->indirect,
					  .plan = &plan};
	const struct gs_described_want *w = &s->query->wants[want];
	int r = 0;

	d.has_scope = w->scope && !f->indirect;
	if (d.has_scope)
		r = w->values ? gs_attach_plan_add_call(&plan, &c, &symbol, f->name, w->by_ret)
			      : gs_attach_plan_add_scope(&plan, &c, &symbol, f->name,
							 GS_FAMILY_USCOPE, 0, 0);
	if (!f->indirect)
		d.site = gs_attach_plan_site(s->elf, f->file_off, f->size_bytes, &options->sites);
	if (d.site.kind == GS_X86_SITE_MOVED && options->first_byte) {
		const char *why =
			gs_attach_plan_first_refusal(s->elf, f->file_off, &options->sites);

		if (why)
			d.site = (struct gs_x86_site){GS_X86_SITE_REFUSED, 0, why};
	}
	return r < 0 ? r : s->handler->function(s->handler->ctx, &d);
}

static int on_function(void *ctx, const struct gs_elf_function *f)
{
	struct search *s = ctx;

	for (unsigned i = 0; i < s->query->n_wants; i++) {
		int r;

		if (!s->is_wanted[i] || !matches_function(&s->query->wants[i], f->name))
			continue;
		if (s->n++ == GS_DESCRIBED_MAX)
			return 1;
		r = report_function(s, i, f);
		if (r != 0)
			return r;
	}
	return 0;
}

static int on_site(void *ctx, const struct gs_usdt_site *site)
{
	struct search *s = ctx;
	uint8_t code[16];

	for (unsigned i = 0; i < s->query->n_wants; i++) {
		struct gs_described_site d = {.want = i, .site = site};
		long n;
		int r;

		if (!matches_site(&s->query->wants[i], site))
			continue;
		if (s->n++ == GS_DESCRIBED_MAX)
			return 1;
		n = gs_elf_read(s->elf, site->file_off, code, sizeof(code));
		d.is_nop5 = n > 0 && gs_x86_site_is_nop5(code, (size_t)n);
		r = s->handler->site(s->handler->ctx, &d);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Which functions to look for in the file. */
static bool choose_wanted(struct search *s)
{
	bool any = false;

	for (unsigned i = 0; i < s->query->n_wants; i++) {
		const struct gs_described_want *w = &s->query->wants[i];

		s->is_wanted[i] =
			w->function && (!w->if_defined || gs_elf_defines(s->elf, w->function));
		any |= s->is_wanted[i];
	}
	return any;
}

int gs_attach_plan_described(const struct gs_described_query *query, struct gs_elf *elf,
			     const struct gs_described_handler *handler, struct gs_err *err)
{
	GS_FREE bool *is_wanted = calloc(query->n_wants + 1, sizeof(*is_wanted));
	struct search s = {.query = query,
			   .handler = handler,
			   .elf = elf,
			   .callees = GS_MAP_INIT(GS_ATTACH_PLAN_CALLEES_MAX),
			   .is_wanted = is_wanted};
	int r = 0;

	if (!is_wanted)
		return -ENOMEM;
	if (choose_wanted(&s))
		r = gs_elf_functions(elf, on_function, &s, err);
	if (r == 0)
		r = gs_elf_usdt(elf, on_site, &s, err);
	gs_map_fini(&s.callees);
	/* More than a run can have: the caller counts them and says so. */
	return r > 0 && s.n > GS_DESCRIBED_MAX ? 0 : r;
}
