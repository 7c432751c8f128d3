/*
 * What a file says of an interpreter in it, read by a process without rights
 * (core/reader/reader.h). The answer is a few addresses: with false ones the process that maps the
 * file is read at other places of its own memory, and nothing is found there.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/elf/object.h"
#include "core/reader/reader.h"
#include "sources/unwind/native_wire.h"
#include "sources/unwind/python_int.h"

static void read_interpreter(struct gs_elf *elf, struct python_file *f)
{
	static const char *const names[] = {"_PyRuntime", "Py_Version"};
	struct gs_elf_part section;
	uint64_t vaddr[2] = {0};

	f->error = gs_elf_objects(elf, names, GS_ARRAY_LEN(names), vaddr);
	if (f->error == -EFBIG) /* no interpreter is so big */
		f->error = 0;
	f->runtime = vaddr[0];
	f->version_at = vaddr[1];
	if (!f->runtime && gs_elf_section_bytes(elf, ".PyRuntime", &section) == 0)
		f->runtime = section.vaddr;
	f->is_old = !f->runtime && gs_elf_defines(elf, "Py_Initialize");
	if (f->runtime && !f->version_at)
		f->version = gs_elf_python_version(elf);
	if (f->error == 0)
		f->error = gs_elf_code_segments(elf, &f->segments);
}

int gs_python_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
		    struct gs_err *err)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	const char *name = gs_wire_text(&request->in);
	struct python_file f = {0};
	int r;

	if (!name || !gs_wire_is_done(&request->in))
		return -EBADMSG;
	r = gs_elf_open_fd(&request->fds[0], name, false, &elf, err);
	if (r < 0)
		return r;
	read_interpreter(elf, &f);
	if (f.error < 0)
		return f.error;
	gs_wire_put_u64(reply, f.runtime);
	gs_wire_put_u64(reply, f.version_at);
	gs_wire_put_u16(reply, f.version);
	gs_wire_put_u8(reply, f.is_old);
	native_put_segments(reply, &f.segments);
	return 0;
}

bool python_file_take(struct gs_wire_in *in, struct python_file *ret)
{
	ret->runtime = gs_wire_u64(in);
	ret->version_at = gs_wire_u64(in);
	ret->version = gs_wire_u16(in);
	ret->is_old = gs_wire_u8(in);
	return native_take_segments(in, &ret->segments) && gs_wire_is_done(in);
}

int python_file_ask(struct gs_reader *reader, const char *name, int fd, struct python_file *ret)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_READER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	struct gs_wire_out out = {.buf = &request};
	struct gs_wire_in in;
	int r;

	gs_wire_put_text(&out, name);
	r = out.r < 0 ? out.r
		      : gs_reader_ask(reader, GS_READER_PYTHON, &request, &fd, 1, &reply, NULL);
	if (r < 0)
		return r;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	return python_file_take(&in, ret) ? 0 : gs_reader_distrust(reader, NULL);
}
