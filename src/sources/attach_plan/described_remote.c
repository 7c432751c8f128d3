/* The same by a reader: the question, its answer, and what is believed of that. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/attach_plan/described.h"
#include "sources/attach_plan/attach_plan_int.h"
#include "sources/attach_plan/remote_int.h"

#define WANT_BYTES 17 /* at least */
#define MAX_WANTS  4096

enum { ANSWER_END, ANSWER_FUNCTION, ANSWER_SITE, ANSWER_TOLD };

/* ---- the question ---- */

static void put_query(struct gs_wire_out *out, const struct gs_described_query *q)
{
	attach_plan_put_options(out, q->options);
	gs_wire_put_text(out, q->path);
	gs_wire_put_u32(out, q->n_wants);
	for (unsigned i = 0; i < q->n_wants; i++) {
		const struct gs_described_want *w = &q->wants[i];

		gs_wire_put_text(out, w->function);
		gs_wire_put_text(out, w->provider);
		gs_wire_put_text(out, w->probe);
		gs_wire_put_u8(out, w->is_glob);
		gs_wire_put_u8(out, w->if_defined);
		gs_wire_put_u8(out, w->scope);
		gs_wire_put_u8(out, w->values);
		gs_wire_put_u8(out, w->by_ret);
	}
}

static int take_wants(struct gs_wire_in *in, struct gs_described_want **ret, unsigned *ret_n)
{
	uint32_t n = gs_wire_count(in, WANT_BYTES);
	struct gs_described_want *wants;

	if (in->bad || n > MAX_WANTS)
		return -EBADMSG;
	wants = *ret = calloc(n + 1, sizeof(*wants));
	if (!wants)
		return -ENOMEM;
	for (*ret_n = 0; *ret_n < n; (*ret_n)++) {
		struct gs_described_want *w = &wants[*ret_n];

		w->function = gs_wire_text(in);
		w->provider = gs_wire_text(in);
		w->probe = gs_wire_text(in);
		w->is_glob = gs_wire_u8(in);
		w->if_defined = gs_wire_u8(in);
		w->scope = gs_wire_u8(in);
		w->values = gs_wire_u8(in);
		w->by_ret = gs_wire_u8(in);
		if (!w->function && (!w->provider || !w->probe))
			return -EBADMSG;
	}
	return gs_wire_is_done(in) ? 0 : -EBADMSG;
}

/* ---- the answer, in the reader ---- */

static void report_described(void *ctx, const struct gs_attach *attach)
{
	struct gs_wire_out *out = ctx;

	gs_wire_put_u8(out, ANSWER_TOLD);
	attach_plan_put_reported(out, attach);
}

static int put_function(void *ctx, const struct gs_described_function *f)
{
	struct gs_wire_out *out = ctx;

	gs_wire_put_u8(out, ANSWER_FUNCTION);
	gs_wire_put_u32(out, f->want);
	gs_wire_put_text(out, f->name);
	gs_wire_put_u64(out, f->file_off);
	gs_wire_put_u64(out, f->size_bytes);
	gs_wire_put_u8(out, f->indirect);
	gs_wire_put_u8(out, (uint8_t)f->site.kind);
	gs_wire_put_u32(out, f->site.offset_bytes);
	gs_wire_put_text(out, f->site.reason);
	gs_wire_put_u8(out, f->has_scope);
	attach_plan_put_plan(out, f->plan);
	return out->r;
}

static int put_site(void *ctx, const struct gs_described_site *d)
{
	const struct gs_usdt_site *site = d->site;
	struct gs_wire_out *out = ctx;

	gs_wire_put_u8(out, ANSWER_SITE);
	gs_wire_put_u32(out, d->want);
	gs_wire_put_text(out, site->provider);
	gs_wire_put_text(out, site->name);
	gs_wire_put_text(out, site->arguments);
	gs_wire_put_u64(out, site->file_off);
	gs_wire_put_u64(out, site->vaddr);
	gs_wire_put_u64(out, site->ref_ctr_off);
	gs_wire_put_text(out, site->bad_arg);
	gs_wire_put_u8(out, d->is_nop5);
	gs_wire_put_u32(out, site->n_args);
	for (unsigned i = 0; i < site->n_args; i++) {
		const struct gs_usdt_arg *a = &site->args[i];

		gs_wire_put_u8(out, (uint8_t)a->place);
		gs_wire_put_u8(out, a->bytes);
		gs_wire_put_u8(out, a->is_signed);
		gs_wire_put_u8(out, a->reg);
		gs_wire_put_u8(out, a->shift);
		gs_wire_put_u8(out, a->index_reg);
		gs_wire_put_u8(out, a->scale_shift);
		gs_wire_put_u64(out, (uint64_t)a->value);
	}
	return out->r;
}

int gs_attach_plan_serve_described(void **state, struct gs_reader_request *request,
				   struct gs_wire_out *reply, struct gs_err *err)
{
	const struct gs_described_handler handler = {put_function, put_site, reply};
	GS_CLEANUP(attach_plan_options_fini)
	struct remote_options options = {.on_attach = report_described, .ctx = reply};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	GS_FREE struct gs_described_want *wants = NULL;
	struct gs_described_query q = {.options = &options.options};
	int r = attach_plan_take_options(&request->in, &options);

	q.path = gs_wire_text(&request->in);
	if (r == 0)
		r = q.path ? take_wants(&request->in, &wants, &q.n_wants) : -EBADMSG;
	q.wants = wants;
	if (r == 0)
		r = gs_elf_open_fd(&request->fds[0], q.path, false, &elf, err);
	if (r == 0)
		r = gs_attach_plan_described(&q, elf, &handler, err);
	if (r == 0)
		gs_wire_put_u8(reply, ANSWER_END);
	return r;
}

/* ---- the answer, in the holder ---- */

static const struct gs_described_want *want_of(const struct gs_described_query *q, uint32_t want)
{
	return want < q->n_wants ? &q->wants[want] : NULL;
}

/* Places where a call begins and ends: of its family, without ids, inside the file. */
static bool is_scope(const struct gs_attach_plan *plan, enum gs_family family, uint64_t file_bytes)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct gs_attach_plan_place *p = &plan->places[i];

		if (p->family != family || p->func || (p->cookie & 0xffff) ||
		    p->cookie >> GS_COOKIE_GROUP_SHIFT & GS_COOKIE_GROUP_MASK ||
		    p->file_off >= file_bytes || p->ref_ctr_off)
			return false;
	}
	return true;
}

static int take_function(const struct gs_described_query *q, uint64_t file_bytes,
			 struct gs_wire_in *in, const struct gs_described_handler *handler)
{
	struct gs_described_function f = {.want = gs_wire_u32(in), .name = gs_wire_line(in)};
	const struct gs_described_want *w = want_of(q, f.want);
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	int r;

	f.file_off = gs_wire_u64(in);
	f.size_bytes = gs_wire_u64(in);
	f.indirect = gs_wire_u8(in);
	f.site.kind = (enum gs_x86_site_kind)gs_wire_u8(in);
	f.site.offset_bytes = gs_wire_u32(in);
	f.site.reason = gs_wire_line(in);
	f.has_scope = gs_wire_u8(in);
	r = attach_plan_take_plan(in, &plan);
	if (r < 0)
		return r;
	f.plan = &plan;
	if (in->bad || !w || !f.name || !w->function ||
	    (strcmp(w->function, f.name) != 0 &&
	     (!w->is_glob || fnmatch(w->function, f.name, 0) != 0)))
		return -EBADMSG;
	if (f.file_off >= file_bytes || f.site.offset_bytes >= file_bytes - f.file_off ||
	    f.site.kind > GS_X86_SITE_REFUSED || (f.has_scope && !w->scope) ||
	    !is_scope(&plan, w->values ? GS_FAMILY_USER : GS_FAMILY_USCOPE, file_bytes))
		return -EBADMSG;
	if (!f.indirect && (!f.site.kind || (f.site.kind == GS_X86_SITE_REFUSED && !f.site.reason)))
		return -EBADMSG;
	return handler->function(handler->ctx, &f);
}

/* Of struct pt_regs, whose layout is that of what ptrace(2) gives up to its sp and ss. */
#define REGISTERS 21

static bool take_arg(struct gs_wire_in *in, struct gs_usdt_arg *a)
{
	a->place = (enum gs_usdt_place)gs_wire_u8(in);
	a->bytes = gs_wire_u8(in);
	a->is_signed = gs_wire_u8(in);
	a->reg = gs_wire_u8(in);
	a->shift = gs_wire_u8(in);
	a->index_reg = gs_wire_u8(in);
	a->scale_shift = gs_wire_u8(in);
	a->value = (int64_t)gs_wire_u64(in);
	return !in->bad && a->place <= GS_USDT_CONSTANT &&
	       (a->bytes == 1 || a->bytes == 2 || a->bytes == 4 || a->bytes == 8) &&
	       (a->reg < REGISTERS || a->reg == GS_USDT_NO_REG) &&
	       (a->index_reg < REGISTERS || a->index_reg == GS_USDT_NO_REG) && a->shift < 64 &&
	       a->scale_shift <= 3;
}

static int take_site(const struct gs_described_query *q, uint64_t file_bytes, struct gs_wire_in *in,
		     const struct gs_described_handler *handler)
{
	struct gs_usdt_site site = {.provider = NULL};
	struct gs_described_site d = {.want = gs_wire_u32(in), .site = &site};
	const struct gs_described_want *w = want_of(q, d.want);

	site.provider = gs_wire_line(in);
	site.name = gs_wire_line(in);
	site.arguments = gs_wire_line(in);
	site.file_off = gs_wire_u64(in);
	site.vaddr = gs_wire_u64(in);
	site.ref_ctr_off = gs_wire_u64(in);
	site.bad_arg = gs_wire_line(in);
	d.is_nop5 = gs_wire_u8(in);
	site.n_args = gs_wire_u32(in);
	if (in->bad || !w || !w->probe || !site.provider || !site.name || !site.arguments ||
	    fnmatch(w->provider, site.provider, 0) != 0 || fnmatch(w->probe, site.name, 0) != 0 ||
	    site.file_off >= file_bytes || site.ref_ctr_off >= file_bytes ||
	    site.n_args > GS_USDT_ARG_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < site.n_args; i++)
		if (!take_arg(in, &site.args[i]))
			return -EBADMSG;
	return handler->site(handler->ctx, &d);
}

int gs_attach_plan_take_described(const struct gs_described_query *q, uint64_t file_bytes,
				  struct gs_wire_in *in, const struct gs_described_handler *handler)
{
	for (;;) {
		int r;

		switch (gs_wire_u8(in)) {
		case ANSWER_FUNCTION:
			r = take_function(q, file_bytes, in, handler);
			break;
		case ANSWER_SITE:
			r = take_site(q, file_bytes, in, handler);
			break;
		case ANSWER_TOLD:
			r = attach_plan_take_reported(in, q->options, q->path);
			break;
		default: /* the end, also of what was cut */
			return gs_wire_is_done(in) ? 0 : -EBADMSG;
		}
		if (r != 0)
			return r;
	}
}

int gs_attach_plan_ask_described(const struct gs_described_query *q, struct gs_reader *reader,
				 int fd, const struct gs_described_handler *handler,
				 struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_READER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(GS_READER_MAX_BYTES);
	struct gs_wire_out out = {.buf = &request};
	struct gs_wire_in in;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	put_query(&out, q);
	r = out.r < 0 ? out.r
		      : gs_reader_ask(reader, GS_READER_DESCRIBED, &request, &fd, 1, &reply, err);
	if (r < 0)
		return r;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	r = gs_attach_plan_take_described(q, (uint64_t)st.st_size, &in, handler);
	return r == -EBADMSG ? gs_reader_distrust(reader, err) : r;
}
