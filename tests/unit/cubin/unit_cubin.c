/*
 * Kernels of fat binaries and what they need, beside what ptxas said when they were made
 * (make_fixtures.py): of five architectures, in each packing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/cubin/cubin.h"

#define MOST_KERNELS 64

struct blob {
	uint8_t *data; /* owned */
	size_t bytes, padding;
};

static struct blob read_fixture(const char *name)
{
	struct blob b = {0};
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", FIXTURES, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	b.bytes = (size_t)ftell(f);
	rewind(f);
	b.data = malloc(b.bytes + 1);
	assert_non_null(b.data);
	assert_int_equal(fread(b.data, 1, b.bytes, f), b.bytes);
	b.data[b.bytes] = '\0';
	fclose(f);
	return b;
}

static long read_blob(void *ctx, uint64_t off, void *to, size_t bytes)
{
	const struct blob *b = ctx;
	size_t left = off < b->bytes ? b->bytes - (size_t)off : 0;

	if (bytes > left)
		bytes = left;
	memcpy(to, b->data + (left ? off : 0), bytes);
	return (long)bytes;
}

struct found {
	struct gs_cubin_kernel kernels[MOST_KERNELS];
	char names[MOST_KERNELS][128];
	unsigned n;
	struct gs_fatbin_counts counts;
};

static int take_kernel(void *ctx, const struct gs_cubin_kernel *k)
{
	struct found *f = ctx;

	assert_true(f->n < MOST_KERNELS);
	f->kernels[f->n] = *k;
	snprintf(f->names[f->n], sizeof(f->names[0]), "%s", k->name);
	f->n++;
	return 0;
}

static void look_through(struct blob *b, struct found *ret)
{
	struct gs_fatbin_source source = {.read = read_blob, .ctx = b, .bytes = b->bytes};
	struct gs_fatbin_element e;
	struct gs_fatbins *f;

	memset(ret, 0, sizeof(*ret));
	assert_int_equal(gs_fatbins_new(&source, &f), 0);
	while (gs_fatbins_next(f, &e) == 1)
		assert_int_equal(gs_fatbins_kernels(f, &e, take_kernel, ret), 0);
	ret->counts = *gs_fatbins_counts(f);
	gs_fatbins_free(&f);
	assert_null(f);
}

static const struct gs_cubin_kernel *find(const struct found *f, unsigned sm, const char *name,
					  bool is_ptx)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->kernels[i].sm == sm && strcmp(f->names[i], name) == 0 &&
		    f->kernels[i].is_ptx == is_ptx)
			return &f->kernels[i];
	return NULL;
}

static void compare_usage(const struct found *f)
{
	struct blob usage = read_fixture("usage.txt");
	unsigned sm, registers, shared, stack, n = 0;
	char name[128], *save, *line = strtok_r((char *)usage.data, "\n", &save);

	for (; line; line = strtok_r(NULL, "\n", &save), n++) {
		const struct gs_cubin_kernel *k;

		assert_int_equal(
			sscanf(line, "%u %127s %u %u %u", &sm, name, &registers, &shared, &stack),
			5);
		k = find(f, sm, name, false);
		assert_non_null(k);
		assert_int_equal(k->registers, registers);
		assert_int_equal(k->shared_bytes, shared);
		assert_int_equal(k->local_bytes, stack);
		assert_int_equal(k->max_threads, strcmp(name, "bounded") == 0 ? 96 : 0);
		assert_true(k->code_bytes >= 128 && k->code_bytes % 128 == 0);
		assert_true(k->constant_bytes > 0);
	}
	assert_int_equal(n, 20);
	free(usage.data);
}

static void each_packing_is_read(void **state)
{
	static const char *const names[] = {"plain.fatbin", "lz4.fatbin", "zstd.fatbin"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		struct blob b = read_fixture(names[i]);
		struct found f;

		look_through(&b, &f);
		assert_int_equal(f.counts.n_cubins, 5);
		assert_int_equal(f.counts.n_ptx, 1);
		assert_int_equal(f.counts.n_bad + f.counts.n_too_large, 0);
		assert_int_equal(f.n, 24);
		compare_usage(&f);
		assert_non_null(find(&f, 120, "_ZN3app5scaleEPfi", true));
		free(b.data);
	}
}

/* Two behind one another, with zeros between, as sections have them. */
static void padding_is_passed(void **state)
{
	struct blob a = read_fixture("lz4.fatbin"), b = {0};
	size_t second = (a.bytes + 7) / 8 * 8 + 4096 + 8;
	struct found f;

	b.bytes = second + a.bytes;
	b.data = calloc(1, b.bytes);
	assert_non_null(b.data);
	memcpy(b.data, a.data, a.bytes);
	memcpy(b.data + second, a.data, a.bytes);
	look_through(&b, &f);
	assert_int_equal(f.counts.n_fatbins, 2);
	assert_int_equal(f.n, 48);
	free(a.data);
	free(b.data);
}

/* Each place cut off or damaged: never more than what is there, and said. */
static void damage_is_counted(void **state)
{
	struct blob whole = read_fixture("zstd.fatbin"), b = whole;
	struct found f;

	for (size_t bytes = 0; bytes < whole.bytes; bytes += 97) {
		b.bytes = bytes;
		look_through(&b, &f);
		assert_true(f.n < 24);
	}
	b = whole;
	b.data[0x10 + 64 + 40] ^= 0xff; /* in the first payload */
	look_through(&b, &f);
	assert_int_equal(f.counts.n_bad, 1);
	assert_int_equal(f.n, 20);
	free(whole.data);
}

static void limits_are_kept(void **state)
{
	struct blob b = read_fixture("zstd.fatbin");
	uint64_t huge = (uint64_t)GS_FATBIN_UNPACKED_BYTES + 1;
	struct found f;

	memcpy(b.data + 16 + 56, &huge,
	       sizeof(huge)); /* what the first element claims to unpack to */
	look_through(&b, &f);
	assert_int_equal(f.counts.n_too_large, 1);
	assert_int_equal(f.n, 20);
	free(b.data);
}

static void lz4_repeats_what_overlaps(void **state)
{
	/* One literal, then ten bytes from one byte before; five literals end it. */
	static const uint8_t packed[] = {0x16, 'a', 1, 0, 0x50, 'b', 'c', 'd', 'e', 'f'};
	static const uint8_t before[] = {0x10, 'a', 2, 0, 0x00};
	char out[64];

	assert_int_equal(gs_lz4_unpack(packed, sizeof(packed), out, sizeof(out)), 16);
	assert_memory_equal(out, "aaaaaaaaaaabcdef", 16);
	assert_int_equal(gs_lz4_unpack(packed, sizeof(packed), out, 15), -EBADMSG);
	assert_int_equal(gs_lz4_unpack(packed, 3, out, sizeof(out)), -EBADMSG);
	assert_int_equal(gs_lz4_unpack(before, sizeof(before), out, sizeof(out)), -EBADMSG);
}

static void ptx_names_are_found(void **state)
{
	static const char text[] = ".visible .entry one(\n.entry\n\ttwo$_2 (.entryx no .entry (";
	struct found f = {.n = 0};

	assert_int_equal(gs_ptx_each_kernel(text, sizeof(text) - 1, 80, take_kernel, &f), 0);
	assert_int_equal(f.n, 2);
	assert_string_equal(f.names[0], "one");
	assert_string_equal(f.names[1], "two$_2");
	assert_true(f.kernels[1].is_ptx && f.kernels[1].sm == 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_packing_is_read),      cmocka_unit_test(padding_is_passed),
		cmocka_unit_test(damage_is_counted),         cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(lz4_repeats_what_overlaps), cmocka_unit_test(ptx_names_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
