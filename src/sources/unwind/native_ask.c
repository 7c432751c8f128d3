/* In the holder: questions about files of code, and the checking of what a reader answers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/native_wire.h"

static struct gs_wire_out begin_request(struct gs_native *n, enum native_request request,
					uint32_t which)
{
	struct gs_wire_out out = {.buf = &n->request};

	gs_buf_reset(&n->request);
	gs_wire_put_u8(&out, (uint8_t)request);
	gs_wire_put_u32(&out, which);
	return out;
}

/* fd -1: none goes with it. What the answer costs is the owner's of the file, of which the question
 * is (0: of none). */
static int send_request(struct gs_native *n, const struct gs_wire_out *out, uint32_t file, int fd,
			struct gs_wire_in *ret_in)
{
	int r = out->r;

	gs_reader_set_owner(n->reader, file ? n->files[file - 1].uid : 0);
	if (r == 0)
		r = gs_reader_ask(n->reader, GS_READER_NATIVE, &n->request, &fd, fd >= 0, &n->reply,
				  NULL);
	if (r == 0)
		*ret_in = GS_WIRE_IN(n->reply.data, n->reply.bytes);
	return r;
}

static int end_answer(struct gs_native *n, bool is_good)
{
	return is_good ? 0 : gs_reader_distrust(n->reader, NULL);
}

int native_ask_open(struct gs_native *n, uint32_t file, int fd, struct native_answer *ret)
{
	struct gs_wire_out out = begin_request(n, NATIVE_OPEN, file);
	struct gs_wire_in in;
	const char *link;
	bool is_good;
	int r;

	gs_wire_put_text(&out, n->files[file - 1].path);
	r = send_request(n, &out, file, fd, &in);
	if (r < 0)
		return r;
	is_good = native_take_segments(&in, &ret->segments);
	ret->has_symtab = gs_wire_u8(&in);
	ret->build_id = gs_wire_text(&in);
	link = gs_wire_text(&in);
	ret->debug_link = link;
	return end_answer(n, is_good && ret->build_id && gs_wire_is_done(&in));
}

/* What its tables take: a false figure only has them dropped too early, or too late for the limit
 * of the reader. */
static void take_bytes(struct gs_native *n, uint32_t file, uint64_t bytes)
{
	struct native_file *f = &n->files[file - 1];

	if (bytes > SIZE_MAX / NATIVE_MAX_FILES)
		bytes = SIZE_MAX / NATIVE_MAX_FILES;
	n->index_bytes += bytes - f->index_bytes;
	f->index_bytes = bytes;
}

int native_ask_row(struct gs_native *n, uint32_t file, uint64_t vaddr, struct gs_cfi_row *ret_row)
{
	struct gs_wire_out out = begin_request(n, NATIVE_ROW, file);
	struct gs_wire_in in;
	int r, found;

	gs_wire_put_u64(&out, vaddr);
	r = send_request(n, &out, file, -1, &in);
	if (r < 0)
		return r;
	found = (int)gs_wire_u32(&in);
	take_bytes(n, file, gs_wire_u64(&in));
	r = end_answer(n, found <= 0 && found > -4096 && (found || native_take_row(&in, ret_row)) &&
				  gs_wire_is_done(&in));
	return r < 0 ? r : found;
}

int native_ask_debug(struct gs_native *n, uint32_t file, const char *path, bool by_build_id, int fd,
		     bool *ret_taken)
{
	struct gs_wire_out out = begin_request(n, NATIVE_DEBUG, file);
	struct gs_wire_in in;
	int r;

	gs_wire_put_u8(&out, by_build_id);
	gs_wire_put_u8(&out, strncmp(path, "/usr/lib/debug/", 15) == 0);
	gs_wire_put_text(&out, path);
	r = send_request(n, &out, file, fd, &in);
	if (r < 0)
		return r;
	*ret_taken = gs_wire_u8(&in);
	return end_answer(n, gs_wire_is_done(&in));
}

/* The name that ends an answer. 0, -ENOENT: there is none, or -EBADMSG. */
static int take_name(struct gs_native *n, struct gs_wire_in *in, char *ret_name, size_t bytes)
{
	const char *name = gs_wire_line(in);
	int r = end_answer(n, gs_wire_is_done(in));

	if (r == 0 && name)
		snprintf(ret_name, bytes, "%s", name);
	return r < 0 ? r : name ? 0 : -ENOENT;
}

static int ask_name_of(struct gs_native *n, enum native_request request, uint32_t file,
		       uint64_t vaddr, char *ret_name, size_t bytes)
{
	struct gs_wire_out out = begin_request(n, request, file);
	struct gs_wire_in in;
	int r;

	gs_wire_put_u64(&out, vaddr);
	r = send_request(n, &out, file, -1, &in);
	if (r < 0)
		return r;
	take_bytes(n, file, gs_wire_u64(&in));
	return take_name(n, &in, ret_name, bytes);
}

int native_ask_name(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		    size_t bytes)
{
	return ask_name_of(n, NATIVE_NAME, file, vaddr, ret_name, bytes);
}

int native_ask_kernel(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		      size_t bytes)
{
	return ask_name_of(n, NATIVE_KERNEL, file, vaddr, ret_name, bytes);
}

int native_ask_handles(struct gs_native *n, uint32_t file, struct gs_cubin_handle **ret_handles,
		       size_t *ret_n)
{
	struct gs_wire_out out = begin_request(n, NATIVE_HANDLES, file);
	GS_FREE struct gs_cubin_handle *handles = NULL;
	struct gs_wire_in in;
	uint32_t count;
	int r = send_request(n, &out, file, -1, &in);

	if (r < 0)
		return r;
	take_bytes(n, file, gs_wire_u64(&in));
	count = gs_wire_count(&in, 16);
	handles = calloc(count + 1u, sizeof(*handles));
	if (!handles)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		handles[i].vaddr = gs_wire_u64(&in);
		handles[i].stub = gs_wire_u64(&in);
		if (i && handles[i].vaddr < handles[i - 1].vaddr)
			in.bad = true;
	}
	r = end_answer(n, gs_wire_is_done(&in));
	if (r < 0)
		return r;
	free(*ret_handles);
	*ret_handles = gs_take(handles);
	*ret_n = count;
	return 0;
}

static void take_needs(struct gs_wire_in *in, struct gs_cubin_wanted *w)
{
	w->found = gs_wire_u8(in);
	w->differs = gs_wire_u8(in);
	w->kernel = (struct gs_cubin_kernel){
		.sm = gs_wire_u32(in),
		.registers = gs_wire_u32(in),
		.shared_bytes = gs_wire_u32(in),
		.constant_bytes = gs_wire_u32(in),
		.local_bytes = gs_wire_u32(in),
		.max_threads = gs_wire_u32(in),
		.code_bytes = gs_wire_u64(in),
	};
}

int native_ask_needs(struct gs_native *n, uint32_t file, uint32_t sm,
		     struct gs_cubin_wanted *wanted, size_t n_wanted)
{
	struct gs_wire_out out = begin_request(n, NATIVE_NEEDS, file);
	struct gs_wire_in in;
	int r;

	gs_wire_put_u32(&out, sm);
	gs_wire_put_u32(&out, (uint32_t)n_wanted);
	for (size_t i = 0; i < n_wanted; i++)
		gs_wire_put_text(&out, wanted[i].name);
	r = send_request(n, &out, file, -1, &in);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_wanted; i++)
		take_needs(&in, &wanted[i]);
	r = end_answer(n, gs_wire_is_done(&in));
	for (size_t i = 0; r < 0 && i < n_wanted; i++)
		wanted[i].found = false;
	return r;
}

void native_ask_drop(struct gs_native *n, uint32_t file)
{
	struct gs_wire_out out = begin_request(n, NATIVE_DROP, file);
	struct gs_wire_in in;

	take_bytes(n, file, 0);
	(void)send_request(n, &out, 0, -1, &in);
}

void native_ask_close(struct gs_native *n, uint32_t file)
{
	struct gs_wire_out out = begin_request(n, NATIVE_CLOSE, file);
	struct gs_wire_in in;

	take_bytes(n, file, 0);
	(void)send_request(n, &out, 0, -1, &in);
}

int native_ask_made(struct gs_native *n, uint32_t pid, uint64_t pc, uint64_t now_ns, int fd,
		    char *ret_name, size_t bytes)
{
	struct gs_wire_out out = begin_request(n, NATIVE_MADE, pid);
	struct gs_wire_in in;
	int r;

	gs_wire_put_u64(&out, pc);
	gs_wire_put_u64(&out, now_ns);
	r = send_request(n, &out, 0, fd, &in);
	if (r < 0)
		return r;
	return take_name(n, &in, ret_name, bytes);
}

void native_ask_forget(struct gs_native *n, uint32_t pid)
{
	struct gs_wire_out out = begin_request(n, NATIVE_FORGET, pid);
	struct gs_wire_in in;

	(void)send_request(n, &out, 0, -1, &in);
}
