/*
 * Planning by a reader (core/reader/reader.h): what is wanted goes there with the open file, places
 * come back. The reader chooses from the same options as we did and gives operators ids of its own;
 * the answer names them, and they get ours here.
 *
 * A place is where the kernel will put a breakpoint, so an answer is taken only when each place is
 * one that was asked for: a wanted function, a cookie of its family, inside the file. That a lie
 * about another user's file cannot be noticed here is the reader's part.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "model/trace/func.h"
#include "sources/attach_plan/attach_plan_int.h"
#include "sources/attach_plan/remote.h"
#include "sources/attach_plan/remote_int.h"

#define MAX_TEXTS  4096
#define N_FAMILIES 10

#define FLAG_RETURN  1
#define FLAG_STEPPED 2

/* ---- what is wanted ---- */

/* A new family has its places checked in check_place(). */
_Static_assert(GS_N_FAMILIES == N_FAMILIES, "check the places of the new family");

static void put_texts(struct gs_wire_out *out, const char *const *texts, size_t n)
{
	gs_wire_put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		gs_wire_put_text(out, texts[i]);
}

/* As they are, so that a new option is carried too; but for what points into our memory. */
void attach_plan_put_options(struct gs_wire_out *out, const struct gs_attach_plan_options *o)
{
	struct gs_attach_plan_options plain = *o;

	plain.globs = plain.ops = NULL;
	plain.funcs = NULL;
	plain.on_attach = NULL;
	plain.ctx = NULL;
	gs_wire_put(out, &plain, sizeof(plain));
	gs_wire_put_u8(out, o->funcs != NULL);
	put_texts(out, o->globs, o->n_globs);
	put_texts(out, o->ops, o->n_ops);
}

void gs_attach_plan_put_request(struct gs_wire_out *out,
				const struct gs_attach_plan_options *options,
				const struct gs_mapped_file *file)
{
	attach_plan_put_options(out, options);
	gs_wire_put_text(out, file->path);
	gs_wire_put_u8(out, file->is_exe);
}

static int take_texts(struct gs_wire_in *in, const char ***ret_texts, size_t *ret_n)
{
	uint32_t n = gs_wire_count(in, sizeof(uint32_t));

	if (in->bad || n > MAX_TEXTS)
		return -EBADMSG;
	*ret_texts = calloc(n + 1, sizeof(**ret_texts));
	if (!*ret_texts)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		(*ret_texts)[i] = gs_wire_text(in);
	*ret_n = n;
	return in->bad ? -EBADMSG : 0;
}

void attach_plan_options_fini(struct remote_options *o)
{
	free(o->globs);
	free(o->ops);
	gs_func_set_free(&o->funcs);
}

int attach_plan_take_options(struct gs_wire_in *in, struct remote_options *ro)
{
	struct gs_attach_plan_options *o = &ro->options;
	const void *plain = gs_wire_bytes(in, sizeof(*o));
	bool with_funcs = gs_wire_u8(in);
	int r;

	if (!plain)
		return -EBADMSG;
	memcpy(o, plain, sizeof(*o));
	r = take_texts(in, &ro->globs, &o->n_globs);
	if (r == 0)
		r = take_texts(in, &ro->ops, &o->n_ops);
	if (r < 0)
		return r;
	o->globs = ro->globs;
	o->ops = ro->ops;
	o->on_attach = ro->on_attach;
	o->ctx = ro->ctx;
	ro->funcs = with_funcs ? gs_func_set_new() : NULL;
	o->funcs = ro->funcs;
	return with_funcs && !ro->funcs ? -ENOMEM : 0;
}

void attach_plan_put_reported(struct gs_wire_out *out, const struct gs_attach *attach)
{
	gs_wire_put_text(out, attach->function);
	gs_wire_put_text(out, attach->reason);
	gs_wire_put_u32(out, (uint32_t)attach->status);
	gs_wire_put_u32(out, attach->layer);
}

struct telling { /* in the reader: what on_attach was called with */
	struct gs_buf buf;
	struct gs_wire_out out;
	uint32_t n;
};

static void telling_fini(struct telling *t)
{
	gs_buf_fini(&t->buf);
}

static void report_holder(void *ctx, const struct gs_attach *attach)
{
	struct telling *t = ctx;

	t->n++;
	attach_plan_put_reported(&t->out, attach);
}

/* ---- places ---- */

static void put_functions(struct gs_wire_out *out, const struct gs_attach_plan *plan,
			  const struct gs_func_set *funcs)
{
	bool used[GS_FUNC_MAX] = {false};
	uint32_t n = 0;

	for (size_t i = 0; i < plan->n; i++) {
		uint16_t id = plan->places[i].func;

		n += id >= GS_FUNC_FIXED && !used[id];
		used[id] = true;
	}
	gs_wire_put_u32(out, n);
	for (unsigned id = GS_FUNC_FIXED; id < GS_FUNC_MAX; id++) {
		const struct gs_func *f = used[id] ? gs_func_set_get(funcs, id) : NULL;

		if (!f)
			continue;
		gs_wire_put_u16(out, (uint16_t)id);
		gs_wire_put_u8(out, f->desc.layer);
		gs_wire_put_u8(out, f->desc.op);
		gs_wire_put_text(out, f->name);
	}
}

void attach_plan_put_plan(struct gs_wire_out *out, const struct gs_attach_plan *plan)
{
	gs_wire_put_u32(out, plan->n_moved);
	gs_wire_put_u32(out, plan->n_stepped);
	gs_wire_put_u32(out, plan->layer);
	gs_wire_put_u32(out, (uint32_t)plan->n);
	for (size_t i = 0; i < plan->n; i++) {
		const struct gs_attach_plan_place *p = &plan->places[i];

		gs_wire_put_u64(out, p->file_off);
		gs_wire_put_u64(out, p->ref_ctr_off);
		gs_wire_put_u64(out, p->cookie);
		gs_wire_put_u16(out, p->func);
		gs_wire_put_u8(out, p->family);
		gs_wire_put_u8(out, (uint8_t)((p->has_return ? FLAG_RETURN : 0) |
					      (p->is_stepped ? FLAG_STEPPED : 0)));
	}
}

#define PLACE_BYTES    28
#define FUNCTION_BYTES 9  /* at least */
#define TOLD_BYTES     16 /* at least */

int gs_attach_plan_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
			 struct gs_err *err)
{
	GS_CLEANUP(telling_fini)
	struct telling report = {.buf = GS_BUF_INIT(GS_READER_MAX_BYTES / 2)};
	GS_CLEANUP(attach_plan_options_fini)
	struct remote_options options = {.on_attach = report_holder, .ctx = &report};
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct gs_attach_plan_selection selection;
	struct gs_mapped_file file = {.path = NULL};
	int r = attach_plan_take_options(&request->in, &options);

	report.out.buf = &report.buf;
	file.path = gs_wire_text(&request->in);
	file.is_exe = gs_wire_u8(&request->in);
	if (r == 0 && (!file.path || !gs_wire_is_done(&request->in)))
		r = -EBADMSG;
	if (r == 0)
		r = gs_attach_plan_select(&selection, &options.options, err);
	if (r == 0)
		r = gs_elf_open_fd(&request->fds[0], file.path, false, &elf, err);
	if (r == 0)
		r = gs_attach_plan_file(&plan, &selection, &options.options, &file, elf, err);
	if (r < 0)
		return r;
	put_functions(reply, &plan, options.funcs);
	gs_wire_put_u32(reply, report.n);
	gs_wire_put(reply, report.buf.data, report.buf.bytes);
	attach_plan_put_plan(reply, &plan);
	return report.out.r;
}

/* ---- the answer, in the holder ---- */

struct answer {
	const struct gs_attach_plan_options *options;
	const struct gs_attach_plan_selection *selection;
	const char *path;
	uint64_t file_bytes;
	uint16_t ours[GS_FUNC_MAX]; /* the reader's ids from GS_FUNC_FIXED on -> ours; 0 none */
};

/* What the reader may name: its operators, and what interpreters do. */
static bool may_name(const struct gs_attach_plan_selection *s, unsigned layer, unsigned func_class)
{
	if (layer == GS_LAYER_TORCH)
		return s->operators && func_class == GS_CLASS_OPERATOR;
	return layer == GS_LAYER_PYTHON && ((s->python_gc && func_class == GS_CLASS_GC) ||
					    (s->python_gil && func_class == GS_CLASS_GIL) ||
					    (s->py_func && func_class == GS_CLASS_PYTHON));
}

static int take_functions(struct gs_wire_in *in, struct answer *a)
{
	uint32_t n = gs_wire_count(in, FUNCTION_BYTES);

	for (uint32_t i = 0; i < n; i++) {
		uint16_t id = gs_wire_u16(in);
		unsigned layer = gs_wire_u8(in), func_class = gs_wire_u8(in);
		const char *name = gs_wire_line(in);
		int r;

		if (!name || id < GS_FUNC_FIXED || id >= GS_FUNC_MAX || a->ours[id] ||
		    !a->options->funcs || !may_name(a->selection, layer, func_class))
			return -EBADMSG;
		r = gs_func_set_add(a->options->funcs, layer, func_class, name, &a->ours[id]);
		if (r < 0)
			return r;
	}
	return in->bad ? -EBADMSG : 0;
}

int attach_plan_take_reported(struct gs_wire_in *in, const struct gs_attach_plan_options *options,
			      const char *path)
{
	struct gs_attach attach = {.path = path};

	attach.function = gs_wire_line(in);
	attach.reason = gs_wire_line(in);
	attach.status = (int)gs_wire_u32(in);
	attach.layer = gs_wire_u32(in);
	if (in->bad || attach.status >= 0 || attach.layer >= GS_LAYER_COUNT)
		return -EBADMSG;
	options->on_attach(options->ctx, &attach);
	return 0;
}

static int take_reports(struct gs_wire_in *in, const struct answer *a)
{
	uint32_t n = gs_wire_count(in, TOLD_BYTES);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = attach_plan_take_reported(in, a->options, a->path);
	return in->bad ? -EBADMSG : r;
}

/* The family that places of a function have which was found. */
static bool found_family(const struct answer *a, const struct gs_attach_plan_place *p)
{
	const struct gs_func *f = gs_func_set_get(a->options->funcs, p->func);

	switch (p->family) {
	case GS_FAMILY_TORCH:
		return f->desc.layer == GS_LAYER_TORCH;
	case GS_FAMILY_PYSPAN:
		return f->desc.op == GS_CLASS_GC || f->desc.op == GS_CLASS_GIL;
	case GS_FAMILY_PYCALL:
		return p->func == a->selection->py_func;
	default:
		return false;
	}
}

/* A function of the fixed table that was asked for, to be counted or to be watched only. */
static bool is_asked_for(const struct gs_attach_plan_selection *s,
			 const struct gs_attach_plan_place *p)
{
	bool is_exit = p->cookie & GS_COOKIE_EXIT;

	if (!p->func || p->family != attach_plan_fixed_family(p->func))
		return false;
	if (!is_exit && p->cookie & GS_COOKIE_WATCHED)
		return s->watched[p->func] && !p->has_return;
	return s->wanted[p->func];
}

/* Of the family's kind, and of what was asked for; its id becomes ours. */
static bool check_place(const struct answer *a, struct gs_attach_plan_place *p)
{
	const struct gs_attach_plan_selection *s = a->selection;
	uint16_t theirs = p->func;

	if (p->file_off >= a->file_bytes || p->ref_ctr_off >= a->file_bytes ||
	    p->cookie >> GS_COOKIE_GROUP_SHIFT & GS_COOKIE_GROUP_MASK)
		return false;
	if (p->family == GS_FAMILY_UNWIND)
		return s->unwind && !theirs && !p->cookie;
	if (p->family == GS_FAMILY_SPAN)
		return s->span_first && !theirs && p->cookie >= GS_SPAN_NAME &&
		       p->cookie <= GS_SPAN_END;
	if ((uint16_t)p->cookie != theirs)
		return false;
	if (theirs < GS_FUNC_FIXED)
		return is_asked_for(s, p);
	if (theirs >= GS_FUNC_MAX || !a->ours[theirs])
		return false;
	p->func = a->ours[theirs];
	p->cookie = (p->cookie & ~0xffffull) | p->func;
	return found_family(a, p);
}

int attach_plan_take_plan(struct gs_wire_in *in, struct gs_attach_plan *plan)
{
	uint32_t n;

	plan->n_moved = gs_wire_u32(in);
	plan->n_stepped = gs_wire_u32(in);
	plan->layer = gs_wire_u32(in);
	n = gs_wire_count(in, PLACE_BYTES);
	if (in->bad || plan->layer >= GS_LAYER_COUNT)
		return -EBADMSG;
	/* For people; they also count functions that were given up in the end. */
	plan->n_moved = plan->n_moved < n ? plan->n_moved : n;
	plan->n_stepped = plan->n_stepped < n ? plan->n_stepped : n;
	plan->places = calloc(n + 1, sizeof(*plan->places));
	if (!plan->places)
		return -ENOMEM;
	plan->n_room = n + 1;
	for (; plan->n < n; plan->n++) {
		struct gs_attach_plan_place *p = &plan->places[plan->n];
		unsigned flags;

		p->file_off = gs_wire_u64(in);
		p->ref_ctr_off = gs_wire_u64(in);
		p->cookie = gs_wire_u64(in);
		p->func = gs_wire_u16(in);
		p->family = gs_wire_u8(in);
		flags = gs_wire_u8(in);
		p->has_return = flags & FLAG_RETURN;
		p->is_stepped = flags & FLAG_STEPPED;
	}
	return in->bad ? -EBADMSG : 0;
}

static int take_plan(struct gs_wire_in *in, const struct answer *a, struct gs_attach_plan *plan)
{
	int r = attach_plan_take_plan(in, plan);

	if (r < 0)
		return r;
	for (size_t i = 0; i < plan->n; i++)
		if (!check_place(a, &plan->places[i]))
			return -EBADMSG;
	return gs_wire_is_done(in) ? 0 : -EBADMSG;
}

int gs_attach_plan_take_answer(struct gs_attach_plan *plan,
			       const struct gs_attach_plan_selection *selection,
			       const struct gs_attach_plan_options *options, const char *path,
			       uint64_t file_bytes, struct gs_wire_in *in)
{
	struct answer a = {
		.options = options, .selection = selection, .path = path, .file_bytes = file_bytes};
	int r = take_functions(in, &a);

	if (r == 0)
		r = take_reports(in, &a);
	return r == 0 ? take_plan(in, &a, plan) : r;
}

int gs_attach_plan_ask(struct gs_attach_plan *plan, struct gs_reader *reader,
		       const struct gs_attach_plan_selection *selection,
		       const struct gs_attach_plan_options *options,
		       const struct gs_mapped_file *file, int fd, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_READER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(GS_READER_MAX_BYTES);
	struct gs_wire_out out = {.buf = &request};
	struct gs_wire_in in;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	gs_attach_plan_put_request(&out, options, file);
	if (out.r < 0)
		return out.r;
	r = gs_reader_ask(reader, GS_READER_PLAN, &request, &fd, 1, &reply, err);
	if (r < 0)
		return r;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	r = gs_attach_plan_take_answer(plan, selection, options, file->path, (uint64_t)st.st_size,
				       &in);
	if (r == -EBADMSG) {
		gs_attach_plan_fini(plan);
		return gs_reader_distrust(reader, err);
	}
	return r;
}
