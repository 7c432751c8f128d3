/*
 * The kernel's types by name, and files of few of them: by such a file libbpf must make of every program what it
 * makes of it by all of the kernel's types.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <bpf/libbpf.h>

#include "core/base/mem.h"
#include "sources/kernel_types/kernel_types.h"
#include "sources/kernel_types/kernel_types_int.h"

#define N_MAX 32

struct object_file {
	const char *path;
	char *bytes; /* owned */
	size_t n;
};

static struct object_file files[N_MAX];
static size_t n_files;

static void read_file(const char *path)
{
	struct object_file *f = &files[n_files];
	GS_FCLOSE FILE *in = fopen(path, "rb");

	assert_non_null(in);
	assert_true(n_files < N_MAX);
	assert_int_equal(fseek(in, 0, SEEK_END), 0);
	*f = (struct object_file){.path = path, .n = (size_t)ftell(in)};
	f->bytes = malloc(f->n);
	rewind(in);
	assert_int_equal(fread(f->bytes, 1, f->n, in), f->n);
	n_files++;
}

static struct gs_kernel_types *kernel_types_or_skip(void)
{
	struct gs_kernel_types *types;

	if (gs_kernel_types_new(&types) < 0) {
		print_message("this kernel shows no types\n");
		skip();
	}
	return types;
}

static void test_names(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} names[] = {{"sock", 4},      {"sock___old", 4},   {"a___b", 1},     {"a____b", 6},
		     {"___b", 4},      {"a___", 4},         {"", 0},          {"a__b", 4},
		     {"a___b___c", 5}, {"task_struct", 11}, {"_a___new_1", 2}};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
		assert_int_equal(kernel_types_name(names[i].text).n, names[i].n);
}

static void test_find(void **state)
{
	struct gs_kernel_types *types = kernel_types_or_skip();
	const struct btf *all = gs_kernel_types_all(types);
	const struct btf_type *t = gs_kernel_types_find(types, "task_struct", BTF_KIND_STRUCT);

	assert_non_null(t);
	assert_ptr_equal(t, btf__type_by_id(all, (uint32_t)btf__find_by_name_kind(
							 all, "task_struct", BTF_KIND_STRUCT)));
	assert_null(gs_kernel_types_find(types, "task_struct", BTF_KIND_TYPEDEF));
	assert_null(gs_kernel_types_find(types, "task_struct___old", BTF_KIND_STRUCT));
	t = gs_kernel_types_point(types, "sched_process_exit");
	assert_non_null(t);
	assert_true(btf_is_func_proto(t) && btf_vlen(t) >= 2);
	assert_null(gs_kernel_types_point(types, "no_such_tracepoint"));
	gs_kernel_types_free(&types);
	assert_null(types);
}

/* Fitted, but not loaded: without a kind no program gets as far as the kernel. NULL: no rights. */
static struct bpf_object *fit_object(const struct object_file *f, const char *path)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = path);
	struct bpf_object *object = bpf_object__open_mem(f->bytes, f->n, &opts);
	struct bpf_program *program;
	struct bpf_map *map;
	int r;

	assert_non_null(object);
	bpf_object__for_each_program(program, object)
	{
		bpf_program__set_autoload(program, true);
		bpf_program__set_type(program, BPF_PROG_TYPE_UNSPEC);
	}
	bpf_object__for_each_map(map, object)
		assert_int_equal(bpf_map__set_autocreate(map, false), 0);
	r = bpf_object__load(object);
	assert_true(r < 0);
	if (r == -EPERM) {
		bpf_object__close(object);
		return NULL;
	}
	return object;
}

/* How many instructions differ between programs of two views of an object. */
static size_t count_differences(struct bpf_object *a, struct bpf_object *b)
{
	struct bpf_program *pa = NULL, *pb = NULL;
	size_t differ = 0;

	while ((pa = bpf_object__next_program(a, pa))) {
		size_t n = bpf_program__insn_cnt(pa);
		const struct bpf_insn *ia, *ib;

		pb = bpf_object__next_program(b, pb);
		assert_non_null(pb);
		if (bpf_program__insn_cnt(pb) != n) {
			differ += n;
			continue;
		}
		ia = bpf_program__insns(pa);
		ib = bpf_program__insns(pb);
		for (size_t i = 0; i < n; i++)
			differ += memcmp(&ia[i], &ib[i], sizeof(ia[i])) != 0;
	}
	return differ;
}

static void test_objects(void **state)
{
	struct gs_kernel_types *types = kernel_types_or_skip();
	size_t n_few = 0;

	assert_true(n_files > 0);
	for (size_t i = 0; i < n_files; i++) {
		const struct object_file *f = &files[i];
		const char *path = gs_kernel_types_few(types, f->bytes, f->n);
		struct bpf_object *as_is = bpf_object__open_mem(f->bytes, f->n, NULL);
		struct bpf_object *by_all, *by_few;

		if (!path) {
			print_message("%s: by all types\n", f->path);
			bpf_object__close(as_is);
			continue;
		}
		by_all = fit_object(f, NULL);
		by_few = fit_object(f, path);
		if (!by_all || !by_few) {
			print_message("needs the right to load programs\n");
			skip();
		}
		assert_int_equal(count_differences(by_all, by_few), 0);
		assert_true(count_differences(as_is, by_few) > 0);
		bpf_object__close(by_all);
		bpf_object__close(by_few);
		bpf_object__close(as_is);
		n_few++;
	}
	gs_kernel_types_free(&types);
	assert_true(n_few > 0);
}

/* A type that the kernel lacks may be a module's: libbpf must look for itself. */
static void test_missing(void **state)
{
	struct gs_kernel_types *types = kernel_types_or_skip();
	const struct object_file *f = &files[0];
	GS_FREE char *other = malloc(f->n);
	size_t n_changed = 0;

	memcpy(other, f->bytes, f->n);
	for (size_t i = 0; i + 12 <= f->n; i++) {
		if (memcmp(other + i, "\0task_struct", 12) == 0 && !other[i + 12]) {
			memcpy(other + i, "\0task_strukt", 12);
			n_changed++;
		}
	}
	assert_true(n_changed > 0);
	assert_null(gs_kernel_types_few(types, other, f->n));
	gs_kernel_types_free(&types);
}

static void test_damaged(void **state)
{
	struct gs_kernel_types *types = kernel_types_or_skip();
	const struct object_file *f = &files[0];

	assert_null(gs_kernel_types_few(types, "no ELF", 6));
	assert_null(gs_kernel_types_few(types, f->bytes, f->n / 2));
	assert_null(gs_kernel_types_few(NULL, f->bytes, f->n));
	gs_kernel_types_free(&types);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names), cmocka_unit_test(test_find),
		cmocka_unit_test(test_objects), cmocka_unit_test(test_missing),
		cmocka_unit_test(test_damaged)};
	int r;

	libbpf_set_print(NULL);
	for (int i = 1; i < argc; i++)
		read_file(argv[i]);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < n_files; i++)
		free(files[i].bytes);
	return r;
}
