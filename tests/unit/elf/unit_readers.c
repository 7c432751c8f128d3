/*
 * The small readers behind the walks: lines of maps, scripts, pyvenv.cfg, lists of folders, the
 * ld.so cache, the set of files.
 */
#include "unit/elf/workshop.h"

#include "sources/elf/library_int.h"

/* ---- maps ---- */

static void parses_maps(void **state)
{
	char file[] = "7f0a1c000000-7f0a1c021000 r-xp 0001f000 103:02 1234567      "
		      "/usr/lib/a b\\012c\\134.so (deleted)\n";
	char data[] = "00400000-00401000 rw-s 00000000 00:00 7 /x";
	struct gs_maps_line line;

	assert_true(gs_elf_parse_maps(file, &line));
	assert_int_equal(line.start, 0x7f0a1c000000);
	assert_int_equal(line.end, 0x7f0a1c021000);
	assert_true(line.executable);
	assert_int_equal(line.ino, 1234567);
	assert_string_equal(line.path, "/usr/lib/a b\nc\\134.so (deleted)");
	assert_true(gs_elf_parse_maps(data, &line));
	assert_false(line.executable);
	assert_string_equal(line.path, "/x");
}

static void names_no_path_of_other_mappings(void **state)
{
	const char *const rests[] = {"00:00 0 ",
				     "00:00 0",
				     "00:00 0   [vdso]",
				     "00:00 0 [anon: x]",
				     "00:05 9 //anon (deleted)",
				     "00:01 9 /memfd:x (deleted)",
				     "00:0e 9 anon_inode:[x]",
				     "00:00 0 /no/inode"};
	struct gs_maps_line line;
	char text[128];

	for (size_t i = 0; i < GS_ARRAY_LEN(rests); i++) {
		snprintf(text, sizeof(text), "1000-2000 r-xp 00000000 %s\n", rests[i]);
		assert_true(gs_elf_parse_maps(text, &line));
		assert_true(line.executable);
		assert_null(line.path);
	}
}

static void refuses_other_lines(void **state)
{
	const char *const lines[] = {"",
				     "\n",
				     "x",
				     "1000",
				     "1000-2000",
				     "1000-2000 r-x 0 0:0 0 /a",
				     "1000-2000 r-xq 0 0:0 0 /a",
				     "1000-2000 r-xp",
				     "1000-2000 r-xp 0 0 0 /a",
				     "1000-2000 r-xp 0 0:0 x /a",
				     "10000000000000000-2 r-xp 0 0:0 0 /a",
				     "1000-2000 r-xp 0 0:0 99999999999999999999 /a"};
	struct gs_maps_line line;
	char text[128];

	for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++) {
		strcpy(text, lines[i]);
		if (gs_elf_parse_maps(text, &line))
			fail_msg("taken: %s", lines[i]);
	}
}

/* ---- scripts ---- */

static void parses_scripts(void **state)
{
	const struct {
		const char *text;
		const char *interpreter; /* NULL: not a script */
		bool in_path;
	} cases[] = {
		{"#!/bin/sh\n", "/bin/sh", false},
		{"#!  /bin/sh -e\nx", "/bin/sh", false},
		{"#!/opt/venv/bin/python", "/opt/venv/bin/python", false},
		{"#!/bin/sh\r\n", "/bin/sh", false},
		{"#!/usr/bin/env python3\n", "python3", true},
		{"#!/usr/bin/env\tpython3 -u\n", "python3", true},
		{"#!/usr/bin/env -S python3 -u\n", "python3", true},
		{"#!/usr/bin/env -Spython3 -u\n", "python3", true},
		{"#!/usr/bin/env -i -u HOME A=b C=d python3\n", "python3", true},
		{"#!/usr/bin/env -S 'a b/python'\n", "a b/python", false},
		{"#!/usr/bin/env /opt/python\n", "/opt/python", false},
		{"#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''\n", "/long/bin/python",
		 false},
		{"#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n", "/a b/python", false},
		{"#!/bin/sh\n'''exec' python\n", "/bin/sh", false},
		{"#!/bin/sh\n'''exec' \"/cut", "/bin/sh", false},
		{"#!/usr/bin/env\n", NULL, false},
		{"#!/usr/bin/env -u\n", NULL, false},
		{"#!\n", NULL, false},
		{"#!", NULL, false},
		{"#", NULL, false},
		{"", NULL, false},
		{"\x7f"
		 "ELF",
		 NULL, false},
		{"print('#!/bin/sh')\n", NULL, false},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_script script;
		bool is = gs_elf_parse_script(cases[i].text, strlen(cases[i].text), &script);

		if (is != (cases[i].interpreter != NULL))
			fail_msg("%s: %d", cases[i].text, is);
		if (!is)
			continue;
		assert_string_equal(script.interpreter, cases[i].interpreter);
		assert_int_equal(script.in_path, cases[i].in_path);
	}
}

static void reads_pyvenv_cfg(void **state)
{
	const struct {
		const char *text;
		const char *home;
	} cases[] = {
		{"home = /usr/bin\n", "/usr/bin"},
		{"version = 3.11\nhome=/opt/py thon/bin  \r\n", "/opt/py thon/bin"},
		{"  home\t=\t/x", "/x"},
		{"homeless = /x\n", NULL},
		{"home /x\n", NULL},
		{"home = \n", NULL},
		{"hom", NULL},
		{"", NULL},
	};
	char out[PATH_MAX];

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		bool has = gs_elf_pyvenv_home(cases[i].text, strlen(cases[i].text), out);

		assert_int_equal(has, cases[i].home != NULL);
		if (has)
			assert_string_equal(out, cases[i].home);
	}
}

static void knows_names(void **state)
{
	const char *const pythons[] = {"python",    "python3", "python3.11",
				       "python2.7", "pypy3",   "python3.13t"};
	const char *const others[] = {"pythonize", "ipython", "perl", "", "python-config"};
	const char *const traced[] = {"libcudart.so", "libcudart-1a2b.so.12", "libcuda.so.1",
				      "libnccl.so.2", "libtorch_cuda.so"};
	const char *const untraced[] = {"libcudart_static.a", "libcudadevrt.a", "libtorch.so",
					"libcublas.so",       "nccl.h",         "libnccl-net.so"};

	for (size_t i = 0; i < GS_ARRAY_LEN(pythons); i++)
		assert_true(gs_elf_is_python(pythons[i]));
	for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
		assert_false(gs_elf_is_python(others[i]));
	for (size_t i = 0; i < GS_ARRAY_LEN(traced); i++)
		assert_true(gs_elf_is_traced_library(traced[i]));
	for (size_t i = 0; i < GS_ARRAY_LEN(untraced); i++)
		assert_false(gs_elf_is_traced_library(untraced[i]));
}

/* ---- paths and lists ---- */

static void takes_lists_apart(void **state)
{
	const char *list = "/a:/b;c::/d/:/:///:$ORIGIN/:e//f//", *none = NULL;
	char out[PATH_MAX], *big = calloc(1, PATH_MAX + 8);
	const char *const parts[] = {"/a", "/b", "c", ".", "/d", "/", "/", "$ORIGIN", "e/f"};

	for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
		assert_true(gs_elf_list_next(&list, ":;", out));
		assert_string_equal(out, parts[i]);
	}
	assert_false(gs_elf_list_next(&list, ":;", out));
	assert_false(gs_elf_list_next(&none, ":", out));
	memset(big, 'x', PATH_MAX + 4);
	strcpy(big + PATH_MAX + 4, ":/z");
	list = big;
	assert_true(gs_elf_list_next(&list, ":", out));
	assert_string_equal(out, "/z");
	assert_false(gs_elf_list_next(&list, ":", out));
	free(big);
}

static void takes_paths_apart(void **state)
{
	const char *const cases[][3] = {{"/a/b", "/a", "b"}, {"/a//b", "/a", "b"}, {"/a", "/", "a"},
					{"a", ".", "a"},     {"a/b", "a", "b"},    {"a/", "a", ""},
					{"//a", "/", "a"},   {"", ".", ""}};
	char out[PATH_MAX];

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		gs_elf_path_folder(cases[i][0], out);
		assert_string_equal(out, cases[i][1]);
		assert_string_equal(gs_elf_path_name(cases[i][0]), cases[i][2]);
	}
}

/* ---- the set of files ---- */

static void remembers_files(void **state)
{
	struct gs_elf_seen seen = GS_ELF_SEEN_INIT;
	struct gs_file_id id = {.dev = 1};

	for (int pass = 0; pass < 2; pass++) {
		for (id.ino = 0; id.ino < 1000; id.ino++)
			assert_int_equal(gs_elf_seen_add(&seen, id), pass == 0);
	}
	id = (struct gs_file_id){.dev = 2, .ino = 5};
	assert_int_equal(gs_elf_seen_add(&seen, id), 1);
	/* Two ids of one hash: made by giving the second's hash to the first. */
	gs_elf_seen_fini(&seen);
	assert_int_equal(gs_elf_seen_add(&seen, (struct gs_file_id){.dev = 9, .ino = 9}), 1);
	assert_int_equal(gs_map_put(&seen.by_hash, gs_hash_bytes(&id, sizeof(id)), 0), 0);
	assert_int_equal(gs_elf_seen_add(&seen, id), 1);
	assert_int_equal(gs_elf_seen_add(&seen, id), 0);
	gs_elf_seen_fini(&seen);
	seen.by_hash.max_used = 2;
	for (id.ino = 0; id.ino < 2; id.ino++)
		assert_int_equal(gs_elf_seen_add(&seen, id), 1);
	assert_int_equal(gs_elf_seen_add(&seen, id), -ENOBUFS);
	gs_elf_seen_fini(&seen);
}

/* ---- the cache ---- */

struct entry {
	int32_t flags;
	const char *name;
	const char *path;
};

/* Write a cache of these entries, after old_n entries of the older form where that is not
 * negative; returns where the newer form begins. */
static size_t write_cache(const struct entry *entries, uint32_t n, int old_n)
{
	uint8_t data[8192] = {0};
	size_t base = 0, text;

	if (old_n >= 0) {
		uint32_t count = (uint32_t)old_n;

		memcpy(data, "ld.so-1.7.0", 11);
		memcpy(data + 12, &count, 4);
		base = (16 + 12 * count + 7) & ~7ul;
	}
	memcpy(data + base, "glibc-ld.so.cache1.1", 20);
	memcpy(data + base + 20, &n, 4);
	text = base + 48 + 24 * n;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *e = data + base + 48 + 24 * i;
		uint32_t name = text - base, path = name + strlen(entries[i].name) + 1;

		memcpy(e, &entries[i].flags, 4);
		memcpy(e + 4, &name, 4);
		memcpy(e + 8, &path, 4);
		text += 1 + (size_t)sprintf((char *)data + text, "%s", entries[i].name);
		text += 1 + (size_t)sprintf((char *)data + text, "%s", entries[i].path);
	}
	shop_write("cache", data, text);
	return base;
}

static const struct entry entries[] = {
	{0x303, "libtwo.so.1", "/v3/libtwo.so.1"}, {0x303, "libtwo.so.1", "/lib/libtwo.so.1"},
	{0x003, "libold.so", "/lib32/libold.so"},  {0x303, "libone.so", "/lib/libone.so"},
	{0x303, "librel.so", "relative"},
};

static void reads_caches(void **state)
{
	const int old_counts[] = {-1, 0, 1, 2};

	for (size_t i = 0; i < GS_ARRAY_LEN(old_counts); i++) {
		GS_CLEANUP(gs_ldcache_fini) struct gs_ldcache cache = GS_LDCACHE_INIT;
		const char *name, *path;

		write_cache(entries, GS_ARRAY_LEN(entries), old_counts[i]);
		assert_int_equal(gs_ldcache_load(&cache, shop_path("cache")), 0);
		assert_int_equal(cache.n_entries, GS_ARRAY_LEN(entries));
		assert_int_equal(gs_ldcache_find(&cache, "libtwo.so.1"), 0);
		assert_int_equal(gs_ldcache_find(&cache, "libone.so"), 3);
		assert_int_equal(gs_ldcache_find(&cache, "libold.so"), -1);
		assert_int_equal(gs_ldcache_find(&cache, "librel.so"), -1);
		assert_int_equal(gs_ldcache_find(&cache, "libnone.so"), -1);
		assert_true(gs_ldcache_get(&cache, 3, &name, &path));
		assert_string_equal(name, "libone.so");
		assert_string_equal(path, "/lib/libone.so");
		assert_false(gs_ldcache_get(&cache, 2, &name, &path));
		assert_false(gs_ldcache_get(&cache, 4, &name, &path));
	}
}

static void refuses_malformed_caches(void **state)
{
	struct gs_ldcache cache = GS_LDCACHE_INIT;
	size_t base = write_cache(entries, GS_ARRAY_LEN(entries), 2), bytes;
	GS_FREE uint8_t *data = shop_read("cache", &bytes);
	const char *name, *path;
	uint32_t big = 1u << 30;

	assert_int_equal(gs_ldcache_load(&cache, shop_path("none")), -ENOENT);
	assert_int_equal(gs_ldcache_load(&cache, shop_dir), -EINVAL);
	for (size_t n = 0; n < base + 48 + 24 * GS_ARRAY_LEN(entries); n++) {
		shop_write("cut", data, n);
		assert_int_equal(gs_ldcache_load(&cache, shop_path("cut")), -EINVAL);
		assert_null(cache.data);
	}
	/* Texts behind the end are entries that are not there. */
	for (size_t n = base + 48 + 24 * GS_ARRAY_LEN(entries); n <= bytes; n++) {
		shop_write("cut", data, n);
		assert_int_equal(gs_ldcache_load(&cache, shop_path("cut")), 0);
		for (size_t i = 0; i < cache.n_entries; i++) {
			if (gs_ldcache_get(&cache, i, &name, &path))
				assert_true(path + strlen(path) <= cache.data + cache.bytes);
		}
		gs_ldcache_fini(&cache);
	}
	memcpy(data + base + 20, &big, 4);
	shop_write("cut", data, bytes);
	assert_int_equal(gs_ldcache_load(&cache, shop_path("cut")), -EINVAL);
	memcpy(data + 12, &big, 4);
	shop_write("cut", data, bytes);
	assert_int_equal(gs_ldcache_load(&cache, shop_path("cut")), -EINVAL);
	assert_int_equal(truncate(shop_path("cut"), 17l << 20), 0);
	assert_int_equal(gs_ldcache_load(&cache, shop_path("cut")), -EINVAL);
}

static void reads_the_cache_of_this_machine(void **state)
{
	GS_CLEANUP(gs_ldcache_fini) struct gs_ldcache cache = GS_LDCACHE_INIT;

	if (access("/etc/ld.so.cache", R_OK) < 0) {
		print_message("skipped: this machine has no ld.so cache\n");
		skip();
	}
	assert_int_equal(gs_ldcache_load(&cache, "/etc/ld.so.cache"), 0);
	assert_true(gs_ldcache_find(&cache, "libc.so.6") >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_maps),
		cmocka_unit_test(names_no_path_of_other_mappings),
		cmocka_unit_test(refuses_other_lines),
		cmocka_unit_test(parses_scripts),
		cmocka_unit_test(reads_pyvenv_cfg),
		cmocka_unit_test(knows_names),
		cmocka_unit_test(takes_lists_apart),
		cmocka_unit_test(takes_paths_apart),
		cmocka_unit_test(remembers_files),
		cmocka_unit_test(reads_caches),
		cmocka_unit_test(refuses_malformed_caches),
		cmocka_unit_test(reads_the_cache_of_this_machine),
	};

	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
