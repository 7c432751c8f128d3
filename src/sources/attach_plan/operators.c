/*
 * Operators of PyTorch in the files that a command may load, for lists: the holder finds and opens
 * the files, a reader says what they have. The question is the file's name, the answer is operators
 * one after another: 1, a name, whether it is traced by default; 0 is the end. A name is shown to a
 * person, so one with control characters has lost them.
 */
#include <errno.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/elf/torch_name.h"
#include "sources/attach_plan/attach_plan_int.h"
#include "sources/attach_plan/remote.h"

#define NAME_BYTES (GS_TORCH_NAME_BYTES + 8) /* with "aten::" */

/* ---- the answer, in the reader ---- */

static int put_operator(void *ctx, const char *name, bool by_default)
{
	struct gs_wire_out *out = ctx;

	gs_wire_put_u8(out, 1);
	gs_wire_put_text(out, name);
	gs_wire_put_u8(out, by_default);
	return out->r;
}

int gs_attach_plan_serve_operators(void **state, struct gs_reader_request *request,
				   struct gs_wire_out *reply, struct gs_err *err)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	const char *path = gs_wire_text(&request->in);
	int r;

	if (!path || !gs_wire_is_done(&request->in))
		return -EBADMSG;
	r = gs_elf_open_fd(&request->fds[0], path, false, &elf, err);
	if (r == 0)
		r = attach_plan_each_operator(elf, path, put_operator, reply, err);
	if (r == 0)
		gs_wire_put_u8(reply, 0);
	return r;
}

/* ---- the answer, in the holder ---- */

int gs_attach_plan_take_operators(const char *path, struct gs_wire_in *in,
				  const struct gs_operator_handler *handler)
{
	while (gs_wire_u8(in) == 1) {
		const char *name = gs_wire_line(in);
		bool by_default = gs_wire_u8(in);

		if (in->bad || !name || strnlen(name, NAME_BYTES) == NAME_BYTES)
			return -EBADMSG;
		handler->found(handler->ctx, name, by_default, path);
	}
	return gs_wire_is_done(in) ? 0 : -EBADMSG;
}

struct listing {
	struct gs_reader *reader;
	const struct gs_operator_handler *handler;
};

static int ask_reader(const struct listing *l, const char *path, int fd, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_READER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(GS_READER_MAX_BYTES);
	struct gs_wire_out out = {.buf = &request};
	struct gs_wire_in in;
	int r;

	gs_wire_put_text(&out, path);
	r = out.r < 0
		    ? out.r
		    : gs_reader_ask(l->reader, GS_READER_OPERATORS, &request, &fd, 1, &reply, err);
	if (r < 0)
		return r;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	r = gs_attach_plan_take_operators(path, &in, l->handler);
	return r == -EBADMSG ? gs_reader_distrust(l->reader, err) : r;
}

static int list_file(void *ctx, const struct gs_mapped_file *file)
{
	const struct gs_foreign_want want = {.dev = file->id.dev, .ino = file->id.ino};
	GS_FOREIGN_CLOSE struct gs_foreign opened = GS_FOREIGN_INIT;
	const struct listing *l = ctx;
	struct gs_err err = {{0}};
	int r = gs_foreign_open(file->open_path, &want, &opened);

	if (r == 0)
		r = ask_reader(l, file->path, opened.fd, &err);
	/* Scripts of linkers and libraries of other machines stand among them. */
	if (r < 0 && r != -ENOEXEC)
		l->handler->failed(l->handler->ctx, file->path, gs_err_text(&err, r));
	return 0;
}

int gs_attach_plan_list_operators(const char *command, char *const environment[],
				  struct gs_reader *reader,
				  const struct gs_operator_handler *handler)
{
	struct listing l = {reader, handler};

	return gs_library_candidates(command, environment, list_file, &l);
}
