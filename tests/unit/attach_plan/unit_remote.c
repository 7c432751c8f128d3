/*
 * Planning by a reader: the answer is what planning here gives, and one in which anything was
 * forged that steers the kernel is not taken. The service runs in this process; that it runs
 * without rights is the room reader's test.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/attach_plan/remote.h"

/* What a file with functions of CUDA and NCCL defines; and one that cannot be probed. */
int cudaLaunchKernel(int a);
int cudaMalloc(int a);
int ncclAllReduce(int a);

__attribute__((noinline)) int cudaLaunchKernel(int a)
{
	__asm__ volatile("");
	return a + 1;
}

__attribute__((noinline)) int cudaMalloc(int a)
{
	__asm__ volatile("");
	return a * 3 + 2;
}

__attribute__((noinline)) int ncclAllReduce(int a)
{
	__asm__ volatile("");
	return a - 4;
}

static unsigned n_told;

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	assert_string_equal(attach->path, "/some/lib");
	n_told++;
}

static const struct gs_mapped_file file = {.path = "/some/lib"};

struct fixture {
	struct gs_func_set *funcs;
	struct gs_attach_plan_options options;
	struct gs_attach_plan_selection selection;
	uint64_t file_bytes;
};

static void set_up(struct fixture *f, bool with_python)
{
	*f = (struct fixture){.funcs = gs_func_set_new(), .file_bytes = 4096};
	f->options = (struct gs_attach_plan_options){.funcs = f->funcs,
						     .python_gc = with_python,
						     .layers = with_python ? 0xff : 0,
						     .many_links = true,
						     .on_attach = on_attach};
	assert_int_equal(gs_attach_plan_select(&f->selection, &f->options, NULL), 0);
}

static void ask(struct fixture *f, const char *path, struct gs_buf *reply)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf asked = GS_BUF_INIT(1 << 20);
	struct gs_wire_out question = {.buf = &asked}, out = {.buf = reply};
	struct gs_reader_request request = {.fds = {open(path, O_RDONLY | O_CLOEXEC), -1}};
	void *state = NULL;
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	f->file_bytes = (uint64_t)st.st_size;
	gs_attach_plan_put_request(&question, &f->options, &file);
	assert_int_equal(question.r, 0);
	request.in = GS_WIRE_IN(asked.data, asked.bytes);
	assert_int_equal(gs_attach_plan_serve(&state, &request, &out, NULL), 0);
	assert_int_equal(out.r, 0);
	assert_int_equal(request.fds[0], -1);
}

static int take(struct fixture *f, const struct gs_buf *reply, struct gs_attach_plan *plan)
{
	struct gs_wire_in in = GS_WIRE_IN(reply->data, reply->bytes);

	*plan = (struct gs_attach_plan){0};
	return gs_attach_plan_take_answer(plan, &f->selection, &f->options, file.path,
					  f->file_bytes, &in);
}

static void test_same_as_here(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan here = {0};
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan there = {0};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct fixture f;

	set_up(&f, false);
	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_attach_plan_file(&here, &f.selection, &f.options, &file, elf, NULL), 0);
	ask(&f, "/proc/self/exe", &reply);
	assert_int_equal(take(&f, &reply, &there), 0);
	assert_true(here.n >= 3);
	assert_int_equal(there.n, here.n);
	assert_int_equal(there.n_moved, here.n_moved);
	assert_int_equal(there.n_stepped, here.n_stepped);
	assert_int_equal(there.layer, here.layer);
	for (size_t i = 0; i < here.n; i++) {
		const struct gs_attach_plan_place *a = &here.places[i], *b = &there.places[i];

		assert_true(a->file_off == b->file_off && a->cookie == b->cookie &&
			    a->ref_ctr_off == b->ref_ctr_off && a->func == b->func &&
			    a->family == b->family && a->has_return == b->has_return &&
			    a->is_stepped == b->is_stepped);
	}
	gs_func_set_free(&f.funcs);
}

/* Ids that a reader gives are its own: an interpreter's functions get ours. */
static void test_ids_become_ours(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	struct fixture f;
	uint16_t id;

	if (access("/usr/bin/python3", R_OK) < 0)
		skip();
	set_up(&f, true);
	ask(&f, "/usr/bin/python3", &reply);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(gs_func_set_add(f.funcs, GS_LAYER_TORCH, GS_CLASS_OPERATOR,
						 &"abcdef"[i], &id),
				 0);
	assert_int_equal(take(&f, &reply, &plan), 0);
	for (size_t i = 0; i < plan.n; i++) {
		const struct gs_func *func = gs_func_set_get(f.funcs, plan.places[i].func);

		assert_int_equal(plan.places[i].family, GS_FAMILY_PYSPAN);
		assert_string_equal(func->name, "gc");
		assert_int_equal((uint16_t)plan.places[i].cookie, func->id);
	}
	gs_func_set_free(&f.funcs);
}

static void test_cut_answers(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	struct fixture f;
	size_t bytes;

	set_up(&f, false);
	ask(&f, "/proc/self/exe", &reply);
	bytes = reply.bytes;
	for (reply.bytes = 0; reply.bytes < bytes; reply.bytes++) {
		struct gs_attach_plan plan;

		assert_int_equal(take(&f, &reply, &plan), -EBADMSG);
		gs_attach_plan_fini(&plan);
	}
	gs_func_set_free(&f.funcs);
}

static void put_places(struct gs_wire_out *out, const struct gs_attach_plan_place *p, uint32_t n)
{
	gs_wire_put_u32(out, 0);
	gs_wire_put_u32(out, 0);
	gs_wire_put_u32(out, GS_LAYER_CUDA_RUNTIME);
	gs_wire_put_u32(out, n);
	gs_wire_put_u64(out, p->file_off);
	gs_wire_put_u64(out, p->ref_ctr_off);
	gs_wire_put_u64(out, p->cookie);
	gs_wire_put_u16(out, p->func);
	gs_wire_put_u8(out, p->family);
	gs_wire_put_u8(out, 0);
}

struct forgery {
	uint32_t n_functions;
	uint16_t id;
	uint8_t layer, func_class;
	int status;
	uint32_t n_places;
	struct gs_attach_plan_place place;
};

static int take_forged(struct fixture *f, const struct forgery *forged)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	struct gs_wire_out out = {.buf = &reply};

	gs_wire_put_u32(&out, forged->n_functions);
	for (uint32_t i = 0; i < forged->n_functions && i < 2; i++) {
		gs_wire_put_u16(&out, forged->id);
		gs_wire_put_u8(&out, forged->layer);
		gs_wire_put_u8(&out, forged->func_class);
		gs_wire_put_text(&out, "gc");
	}
	gs_wire_put_u32(&out, forged->status ? 1 : 0);
	if (forged->status) {
		gs_wire_put_text(&out, "f");
		gs_wire_put_text(&out, "because");
		gs_wire_put_u32(&out, (uint32_t)forged->status);
		gs_wire_put_u32(&out, 0);
	}
	put_places(&out, &forged->place, forged->n_places);
	return take(f, &reply, &plan);
}

static void test_forged_answers(void **state)
{
	uint16_t launch = 0, off = 0;
	const uint16_t first = GS_FUNC_FIXED;
	struct fixture f;

	set_up(&f, true);
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		if (strcmp(gs_func_by_id(id)->name, "cudaLaunchKernel") == 0)
			launch = (uint16_t)id;
		else if (!f.selection.wanted[id])
			off = (uint16_t)id;
	}
	assert_true(launch && off);
	const struct gs_attach_plan_place good = {
		.file_off = 64, .func = launch, .cookie = launch, .family = GS_FAMILY_CUDA};
#define PLACE(...)                                                                                 \
	(struct gs_attach_plan_place)                                                              \
	{                                                                                          \
		.file_off = 64, __VA_ARGS__                                                        \
	}
	const struct forgery fine[] = {
		{.n_places = 1, .place = good},
		{.n_places = 1, .place = good, .status = -EOPNOTSUPP},
		{1, first, GS_LAYER_PYTHON, GS_CLASS_GC, 0, 1,
		 PLACE(.func = first, .cookie = first | 1 << 16, .family = GS_FAMILY_PYSPAN)},
	};
	const struct forgery forged[] = {
		/* outside of the file; what the kernel adds to a counter there */
		{.n_places = 1, .place = {f.file_bytes, 0, launch, launch, GS_FAMILY_CUDA}},
		{.n_places = 1, .place = {64, f.file_bytes, launch, launch, GS_FAMILY_CUDA}},
		/* not asked for; another family; cookies of another function and of a group */
		{.n_places = 1, .place = PLACE(.func = off, .cookie = off)},
		{.n_places = 1,
		 .place = PLACE(.func = launch, .cookie = launch, .family = GS_FAMILY_NCCL)},
		{.n_places = 1, .place = PLACE(.func = launch, .cookie = off)},
		{.n_places = 1, .place = PLACE(.func = launch, .cookie = launch | 1ull << 24)},
		{.n_places = 1, .place = PLACE(.func = 0, .cookie = 0)},
		{.n_places = 1, .place = PLACE(.cookie = 4, .family = GS_FAMILY_SPAN)},
		{.n_places = 1, .place = PLACE(.cookie = 1, .family = GS_FAMILY_UNWIND)},
		{.n_places = 1, .place = PLACE(.func = launch, .cookie = launch, .family = 200)},
		{.n_places = 1,
		 .place = PLACE(.func = launch, .cookie = launch, .family = GS_FAMILY_USER)},
		/* functions: an id that was not named, is ours, came twice, of a layer not asked
		   for */
		{.n_places = 1,
		 .place = PLACE(.func = first, .cookie = first, .family = GS_FAMILY_PYSPAN)},
		{.n_places = 1,
		 .place = PLACE(.func = 65535, .cookie = 65535, .family = GS_FAMILY_PYSPAN)},
		{1, launch, GS_LAYER_PYTHON, GS_CLASS_GC, 0, 1, good},
		{2, first, GS_LAYER_PYTHON, GS_CLASS_GC, 0, 1, good},
		{1, first, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, 0, 1, good},
		{1, first, GS_LAYER_PYTHON, GS_CLASS_GIL, 0, 1, good},
		{1, first, GS_LAYER_PYTHON, GS_CLASS_GC, 0, 1,
		 PLACE(.func = first, .cookie = first, .family = GS_FAMILY_TORCH)},
		/* numbers that cannot be */
		{.n_places = 0, .place = good},
		{.n_places = 2, .place = good},
		{.n_places = UINT32_MAX, .place = good},
		{.n_functions = UINT32_MAX, .n_places = 1, .place = good},
		{.n_places = 1, .place = good, .status = 1},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(fine); i++)
		assert_int_equal(take_forged(&f, &fine[i]), 0);
	for (size_t i = 0; i < GS_ARRAY_LEN(forged); i++)
		if (take_forged(&f, &forged[i]) != -EBADMSG)
			fail_msg("forgery %zu was taken", i);
	gs_func_set_free(&f.funcs);
}

struct listed {
	unsigned n, n_default;
	char last[64];
};

static void on_operator(void *ctx, const char *name, bool by_default, const char *path)
{
	struct listed *l = ctx;

	l->n++;
	l->n_default += by_default;
	snprintf(l->last, sizeof(l->last), "%s", name);
	assert_string_equal(path, "/lib");
}

static int take_listed(struct gs_buf *reply, size_t bytes, struct listed *ret)
{
	const struct gs_operator_handler handler = {.found = on_operator, .ctx = ret};
	struct gs_wire_in in = GS_WIRE_IN(reply->data, bytes);

	*ret = (struct listed){0};
	return gs_attach_plan_take_operators("/lib", &in, &handler);
}

/* What a reader lists is shown on a terminal: no control character and no endless name of it is. */
static void test_operators(void **state)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(1 << 20);
	struct gs_wire_out out = {.buf = &reply};
	struct listed l;
	char name[400];

	gs_wire_put_u8(&out, 1);
	gs_wire_put_text(&out, "aten::add.Tensor");
	gs_wire_put_u8(&out, 1);
	gs_wire_put_u8(&out, 1);
	gs_wire_put_text(&out, "aten::\033[2Jx");
	gs_wire_put_u8(&out, 0);
	gs_wire_put_u8(&out, 0);
	assert_int_equal(take_listed(&reply, reply.bytes, &l), 0);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.n_default, 1);
	assert_string_equal(l.last, "aten::?[2Jx");
	for (size_t bytes = 0; bytes < reply.bytes; bytes++)
		assert_int_equal(take_listed(&reply, bytes, &l), -EBADMSG);
	gs_wire_put_u8(&out, 0);
	assert_int_equal(take_listed(&reply, reply.bytes, &l), -EBADMSG);

	gs_buf_reset(&reply);
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	gs_wire_put_u8(&out, 1);
	gs_wire_put_text(&out, name);
	gs_wire_put_u8(&out, 1);
	gs_wire_put_u8(&out, 0);
	assert_int_equal(take_listed(&reply, reply.bytes, &l), -EBADMSG);
	assert_int_equal(l.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operators),       cmocka_unit_test(test_same_as_here),
		cmocka_unit_test(test_ids_become_ours), cmocka_unit_test(test_cut_answers),
		cmocka_unit_test(test_forged_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
