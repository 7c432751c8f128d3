/*
 * What a holder takes from a reader that somebody broke into: an answer is refused, or each place
 * in it is one that was asked for. The first byte says whose answer it is. Of one kind the rest is
 * the file that a reader is asked about: whatever is in it, its answer is one that the holder takes.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/trace/func.h"
#include "sources/attach_plan/described.h"
#include "sources/attach_plan/remote.h"
#include "replay_main.h"
#include "sources/unwind/native_wire.h"
#include "sources/unwind/python_int.h"

#define FILE_BYTES 100000

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	assert(attach->status < 0);
	for (const char *c = attach->reason; c && *c; c++)
		assert((unsigned char)*c >= 0x20 && *c != 0x7f);
}

struct holder { /* one that wants all that can be had */
	struct gs_attach_plan_options options;
	struct gs_attach_plan_selection selection;
};

static void holder_init(struct holder *h)
{
	static const char *const all[] = {"*"};

	h->options = (struct gs_attach_plan_options){.layers = 0xff,
						     .globs = all,
						     .n_globs = 1,
						     .ops = all,
						     .n_ops = 1,
						     .python_calls = true,
						     .python_gc = true,
						     .python_gil = true,
						     .many_links = true,
						     .on_attach = on_attach};
	h->options.funcs = gs_func_set_new();
	if (!h->options.funcs || gs_attach_plan_select(&h->selection, &h->options, NULL) < 0)
		abort();
}

static int take_answer(struct holder *h, uint8_t *data, size_t bytes, uint64_t file_bytes)
{
	struct gs_wire_in in = GS_WIRE_IN(data, bytes);
	struct gs_attach_plan plan = {0};
	int r = gs_attach_plan_take_answer(&plan, &h->selection, &h->options, "/lib", file_bytes,
					   &in);

	for (size_t i = 0; r == 0 && i < plan.n; i++) {
		const struct gs_attach_plan_place *p = &plan.places[i];

		assert(p->file_off < file_bytes && p->ref_ctr_off < file_bytes);
		assert(p->family <= GS_FAMILY_UNWIND);
		assert(!p->func || gs_func_set_get(h->options.funcs, p->func));
	}
	gs_attach_plan_fini(&plan);
	return r;
}

static void take_plan(uint8_t *data, size_t bytes)
{
	struct holder h;
	int r;

	holder_init(&h);
	r = take_answer(&h, data, bytes, FILE_BYTES);
	assert(r == 0 || r == -EBADMSG || r == -ENOBUFS);
	gs_func_set_free(&h.options.funcs);
}

/* A whole question and answer about this file. */
static void ask_of_file(uint8_t *data, size_t bytes)
{
	const struct gs_mapped_file file = {.path = "/lib", .is_exe = bytes & 1};
	struct gs_buf asked = GS_BUF_INIT(1 << 20), reply = GS_BUF_INIT(GS_READER_MAX_BYTES);
	struct gs_wire_out question = {.buf = &asked}, answer = {.buf = &reply};
	struct gs_reader_request request = {.fds = {memfd_create("fuzz", MFD_CLOEXEC), -1}};
	struct gs_err err = {{0}};
	struct holder h;
	void *state = NULL;

	if (request.fds[0] < 0 || write(request.fds[0], data, bytes) != (ssize_t)bytes)
		abort();
	holder_init(&h);
	gs_attach_plan_put_request(&question, &h.options, &file);
	assert(question.r == 0);
	request.in = GS_WIRE_IN(asked.data, asked.bytes);
	if (gs_attach_plan_serve(&state, &request, &answer, &err) == 0) {
		int r = take_answer(&h, reply.data, reply.bytes, bytes);

		assert(r == 0 || r == -ENOBUFS);
	}
	if (request.fds[0] >= 0)
		close(request.fds[0]);
	gs_buf_fini(&asked);
	gs_buf_fini(&reply);
	gs_func_set_free(&h.options.funcs);
}

static bool read_none(void *ctx, uint64_t addr, uint64_t *ret_value)
{
	*ret_value = addr * 7 + 1;
	return addr & 1;
}

/* A row that is taken can be stepped by. */
static void take_row(uint8_t *data, size_t bytes)
{
	struct gs_wire_in in = GS_WIRE_IN(data, bytes);
	struct gs_regs regs = {.known = 0x1f0c8};
	struct gs_cfi_row row;
	uint64_t slot;

	if (native_take_row(&in, &row))
		(void)gs_cfi_step(&row, 0x1000, read_none, NULL, &regs, &slot);
}

static void take_interpreter(uint8_t *data, size_t bytes)
{
	struct gs_wire_in in = GS_WIRE_IN(data, bytes);
	struct python_file file = {0};
	uint64_t value;

	if (!python_file_take(&in, &file))
		return;
	assert(file.segments.n <= GS_ELF_SEGMENTS_MAX);
	(void)gs_elf_bias(&file.segments, 0x400000, 0x1000, &value);
	(void)gs_elf_vaddr_of(&file.segments, 0x1234, &value);
}

static int on_function(void *ctx, const struct gs_described_function *f)
{
	assert(f->want < 2 && f->file_off + f->site.offset_bytes < FILE_BYTES);
	for (size_t i = 0; i < f->plan->n; i++)
		assert(f->plan->places[i].file_off < FILE_BYTES);
	return 0;
}

static int on_site(void *ctx, const struct gs_described_site *d)
{
	assert(d->want == 2 && d->site->file_off < FILE_BYTES);
	assert(d->site->n_args <= GS_USDT_ARG_MAX);
	return 0;
}

static void take_described(uint8_t *data, size_t bytes)
{
	static const struct gs_described_want wants[] = {{.function = "f*", .is_glob = true},
							 {.function = "f", .scope = true},
							 {.provider = "p*", .probe = "*"}};
	const struct gs_attach_plan_options options = {.on_attach = on_attach};
	const struct gs_described_query query = {
		.options = &options, .path = "/lib", .wants = wants, .n_wants = 3};
	const struct gs_described_handler handler = {on_function, on_site, NULL};
	struct gs_wire_in in = GS_WIRE_IN(data, bytes);

	(void)gs_attach_plan_take_described(&query, FILE_BYTES, &in, &handler);
}

static void on_operator(void *ctx, const char *name, bool by_default, const char *path)
{
	for (const char *c = name; *c; c++)
		assert((unsigned char)*c >= 0x20 && *c != 0x7f);
	assert(strlen(name) < 512);
}

static void take_operators(uint8_t *data, size_t bytes)
{
	const struct gs_operator_handler handler = {.found = on_operator};
	struct gs_wire_in in = GS_WIRE_IN(data, bytes);
	int r = gs_attach_plan_take_operators("/lib", &in, &handler);

	assert(r == 0 || r == -EBADMSG);
}

static void (*const takers[])(uint8_t *data, size_t bytes) = {
	take_plan, take_row, take_interpreter, take_described, take_operators, ask_of_file};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* Of the exact size, and ours to change. */
	uint8_t *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	if (bytes)
		takers[copy[0] % (sizeof(takers) / sizeof(takers[0]))](copy + 1, bytes - 1);
	free(copy);
	return 0;
}
