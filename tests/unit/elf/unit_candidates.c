/*
 * What a command may load, in a folder made for it: libraries found by each of the loader's rules,
 * scripts, virtual environments, wheels. What the machine has besides is visited too and does not
 * matter here.
 */
#include "unit/elf/workshop.h"

#include "sources/elf/library_int.h"

/* An environment with PATH of the folder's bin; up to six more. */
struct env {
	char texts[8][PATH_MAX + 64];
	char *list[9];
	size_t n;
};

static void env_add(struct env *env, const char *fmt, ...) GS_PRINTF(2, 3);
static void env_add(struct env *env, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(env->texts[env->n], sizeof(env->texts[0]), fmt, ap);
	va_end(ap);
	env->list[env->n] = env->texts[env->n];
	env->list[++env->n] = NULL;
}

static struct env *env_new(void)
{
	struct env *env = calloc(1, sizeof(*env));

	env_add(env, "HOME=%s/home", shop_dir);
	env_add(env, "PATH=%s/none:%s/bin", shop_dir, shop_dir);
	return env;
}

static void env_free(struct env **env)
{
	free(*env);
}

#define ENV GS_CLEANUP(env_free) struct env *

static struct visits *walk(const char *command, const struct env *env)
{
	struct visits *v = calloc(1, sizeof(*v));

	assert_int_equal(gs_library_candidates(command, env->list, visit, v), 0);
	return v;
}

/* libX.so with one function, needing the given libraries, with further options. */
static int make_library(const char *path, const char *options)
{
	return shop_run("cc -nostdlib -fPIC -shared -Wl,--no-as-needed "
			"-Wl,--allow-shlib-undefined one.c -o %s %s",
			path, options);
}

static int make_program(const char *path, const char *options)
{
	return shop_run("cc -Wl,--no-as-needed -Wl,--allow-shlib-undefined main.c -o %s %s", path,
			options);
}

static int make_files(void **state)
{
	if (shop_open(state) != 0)
		return -1;
	shop_write_text("one.c", "int one(void) { return 1; }\n");
	shop_write_text("main.c", "int main(void) { return 0; }\n");
	return shop_run("mkdir bin home lib a b c") && make_library("lib/libleaf.so", "") &&
			       make_program("bin/plain", "")
		       ? 0
		       : -1;
}

/* ---- the command ---- */

static void finds_the_command(void **state)
{
	ENV env = env_new();
	VISITS by_name = walk("plain", env);
	VISITS by_path = walk(shop_path("bin/plain"), env);
	VISITS v = calloc(1, sizeof(*v));
	char *empty[] = {NULL};

	assert_string_equal(by_name->exe, shop_path("bin/plain"));
	assert_string_equal(by_path->exe, shop_path("bin/plain"));
	assert_string_equal(by_name->paths[0], by_name->exe);
	shop_write_text("bin/data", "x");
	assert_int_equal(gs_library_candidates("data", env->list, visit, v), -ENOENT);
	assert_int_equal(gs_library_candidates("no-such", env->list, visit, v), -ENOENT);
	assert_int_equal(gs_library_candidates("", env->list, visit, v), -ENOENT);
	assert_int_equal(gs_library_candidates(shop_dir, env->list, visit, v), -ENOENT);
	assert_int_equal(v->n, 0);
	/* Without PATH the system's folders are looked through. */
	assert_int_equal(gs_library_candidates("sh", empty, visit, v), 0);
	assert_non_null(v->exe);
	assert_int_equal(gs_library_candidates("plain", NULL, visit, v), -ENOENT);
}

static void passes_an_answer_on(void **state)
{
	ENV env = env_new();

	for (int i = 1; i <= 2; i++) {
		VISITS v = calloc(1, sizeof(*v));

		v->answer_at = i;
		assert_int_equal(gs_library_candidates("plain", env->list, visit, v), 77);
		assert_int_equal(v->n, i);
	}
}

static void visits_what_is_no_program_of_ours(void **state)
{
	ENV env = env_new();

	shop_write_text("bin/text", "echo no first line\n");
	assert_int_equal(chmod(shop_path("bin/text"), 0755), 0);
	VISITS v = walk("text", env);
	assert_null(v->exe);
	assert_not_visited(v, shop_path("bin/text"));
}

/* ---- the loader's rules ---- */

static void follows_runpath(void **state)
{
	ENV env = env_new();

	/* DT_RUNPATH is for what the object itself needs, not for what that needs. */
	assert_true(make_library("a/libinner.so", "") &&
		    make_library("a/libouter.so", "-La -linner") &&
		    make_program("bin/runpath", "-Wl,--enable-new-dtags "
						"-Wl,-rpath,'$ORIGIN/../a' -La -louter"));
	VISITS v = walk("runpath", env);
	assert_visited(v, shop_path("bin/../a/libouter.so"));
	assert_not_visited(v, shop_path("bin/../a/libinner.so"));
}

static void follows_rpath(void **state)
{
	ENV env = env_new();

	/* DT_RPATH is for all below; "${ORIGIN}" is the real folder of a linked program. */
	assert_true(make_library("b/libinner2.so", "") &&
		    make_library("b/libouter2.so", "-Lb -linner2") &&
		    make_program("bin/rpath", "-Wl,--disable-new-dtags "
					      "-Wl,-rpath,'/none:${ORIGIN}/../b' -Lb -louter2") &&
		    shop_run("ln -s ../bin/rpath c/linked"));
	VISITS v = walk(shop_path("c/linked"), env);
	assert_visited(v, shop_path("bin/../b/libouter2.so"));
	assert_visited(v, shop_path("bin/../b/libinner2.so"));
	assert_string_equal(v->exe, shop_path("c/linked"));
}

/* Other tokens are no tokens. */
static void expands_tokens(void **state)
{
	ENV env = env_new();

	assert_true(shop_run("mkdir -p 't/$OTHER/x86_64' t/lib64 t/lib/x86_64-linux-gnu") &&
		    make_library("'t/$OTHER/x86_64/libtoken.so'", "") &&
		    make_library("t/lib64/libfolder.so", "") &&
		    shop_run("cp t/lib64/libfolder.so t/lib/x86_64-linux-gnu") &&
		    make_program("bin/tokens", "-Wl,-rpath,'$ORIGIN/../t/$OTHER/$PLATFORM' "
					       "-Wl,-rpath,'$ORIGIN/../t/${LIB}' "
					       "-L't/$OTHER/x86_64' -ltoken -Lt/lib64 -lfolder"));
	VISITS v = walk("tokens", env);
	assert_visited(v, shop_path("bin/../t/$OTHER/x86_64/libtoken.so"));
	assert_true(visited(v, shop_path("bin/../t/lib64/libfolder.so")) ||
		    visited(v, shop_path("bin/../t/lib/x86_64-linux-gnu/libfolder.so")));
}

static void follows_library_path(void **state)
{
	ENV env = env_new();
	ENV without = env_new();

	/* Before DT_RUNPATH; a file that is no library of this machine is passed over. */
	assert_true(shop_run("mkdir x y z && echo no > x/libleaf2.so") &&
		    make_library("y/libleaf2.so", "") && make_library("z/libleaf2.so", "") &&
		    make_program("bin/env", "-Wl,--enable-new-dtags -Wl,-rpath,'$ORIGIN/../z' "
					    "-Lz -lleaf2"));
	env_add(env, "LD_LIBRARY_PATH=%s/x;%s/y:", shop_dir, shop_dir);
	VISITS v = walk("env", env);
	assert_visited(v, shop_path("y/libleaf2.so"));
	assert_not_visited(v, shop_path("x/libleaf2.so"));
	assert_not_visited(v, shop_path("bin/../z/libleaf2.so"));
	VISITS w = walk("env", without);
	assert_not_visited(w, shop_path("y/libleaf2.so"));
	assert_visited(w, shop_path("bin/../z/libleaf2.so"));
}

static void follows_preloads(void **state)
{
	ENV env = env_new();

	assert_true(make_library("c/libpre1.so", "-Llib -lleaf") &&
		    make_library("c/libpre2.so", ""));
	env_add(env, "LD_PRELOAD=%s/c/libpre1.so libpre2.so:/no/such.so", shop_dir);
	env_add(env, "LD_LIBRARY_PATH=%s/c:%s/lib", shop_dir, shop_dir);
	VISITS v = walk("plain", env);
	assert_visited(v, shop_path("c/libpre1.so"));
	assert_visited(v, shop_path("c/libpre2.so"));
	assert_visited(v, shop_path("lib/libleaf.so"));
}

static void follows_the_cache(void **state)
{
	GS_CLEANUP(gs_ldcache_fini) struct gs_ldcache cache = GS_LDCACHE_INIT;
	const char *name, *path;
	ENV env = env_new();
	long i;

	if (gs_ldcache_load(&cache, "/etc/ld.so.cache") < 0)
		skip();
	i = gs_ldcache_find(&cache, "libc.so.6");
	assert_true(i >= 0 && gs_ldcache_get(&cache, (size_t)i, &name, &path));
	VISITS v = walk("plain", env);
	assert_visited(v, path);
}

static void survives_circles(void **state)
{
	ENV env = env_new();

	assert_true(shop_run("mkdir circle") && make_library("circle/libleft.so", "") &&
		    make_library("circle/libright.so", "-Lcircle -lleft") &&
		    make_library("circle/libleft.so", "-Lcircle -lright") &&
		    make_program("bin/circle", "-Wl,-rpath,'$ORIGIN/../circle' "
					       "-Wl,--disable-new-dtags -Lcircle -lleft"));
	VISITS v = walk("circle", env);
	assert_visited(v, shop_path("bin/../circle/libleft.so"));
	assert_visited(v, shop_path("bin/../circle/libright.so"));
}

/* ---- folders ---- */

static void looks_through_folders(void **state)
{
	ENV env = env_new();

	assert_true(shop_run("mkdir p q && touch p/libcudart.so.12 p/libnccl.so.2 p/libcublas.so "
			     "p/libcudart_static.a q/libcuda.so.1 && mkdir p/libnccl.so && "
			     "ln -s libcudart.so.12 p/libcudart.so && ln -s /none q/libcudart.so"));
	assert_true(make_program("bin/folders", "-Wl,-rpath,'$ORIGIN/../q'"));
	env_add(env, "LD_LIBRARY_PATH=%s/p", shop_dir);
	VISITS v = walk("folders", env);
	/* By whichever name it is met first. */
	assert_int_equal(visited(v, shop_path("p/libcudart.so.12")) +
				 visited(v, shop_path("p/libcudart.so")),
			 1);
	assert_visited(v, shop_path("p/libnccl.so.2"));
	assert_visited(v, shop_path("bin/../q/libcuda.so.1"));
	assert_not_visited(v, shop_path("p/libcublas.so"));
	assert_not_visited(v, shop_path("p/libcudart_static.a"));
	assert_not_visited(v, shop_path("p/libnccl.so"));
	assert_not_visited(v, shop_path("bin/../q/libcudart.so"));
}

/* ---- Python ---- */

static int make_site(const char *site)
{
	return shop_run(
		"mkdir -p '%s' && cd '%s' && mkdir -p nvidia/cuda_runtime/lib "
		"nvidia/nccl/lib torch/lib cupy.libs other && "
		"touch nvidia/cuda_runtime/lib/libcudart.so.12 nvidia/nccl/lib/libnccl.so.2 "
		"torch/lib/libtorch_cuda.so torch/lib/libtorch_cpu.so torch/lib/libtorch_python.so "
		"cupy.libs/libcudart-0a1b.so.12 other/libcudart.so.9",
		site, site);
}

static void assert_site(const struct visits *v, const char *site)
{
	assert_visited(v, shop_path("%s/nvidia/cuda_runtime/lib/libcudart.so.12", site));
	assert_visited(v, shop_path("%s/nvidia/nccl/lib/libnccl.so.2", site));
	assert_visited(v, shop_path("%s/torch/lib/libtorch_cuda.so", site));
	assert_visited(v, shop_path("%s/cupy.libs/libcudart-0a1b.so.12", site));
	assert_visited(v, shop_path("%s/torch/lib/libtorch_cpu.so", site));
	assert_not_visited(v, shop_path("%s/torch/lib/libtorch_python.so", site));
	assert_not_visited(v, shop_path("%s/other/libcudart.so.9", site));
}

static int make_python(void)
{
	static bool made;

	if (!made)
		made = shop_run("mkdir -p base/bin base/lib && cp bin/plain base/bin/python3.11 && "
				"ln -s python3.11 base/bin/python3 && "
				"touch base/lib/libcudart.so.11") &&
		       make_site("base/lib/python3.11/site-packages") &&
		       make_site("base/lib/python3/dist-packages") &&
		       make_site("base/local/lib/python3.11/dist-packages") &&
		       make_site("base/lib/python3.9/site-packages") &&
		       make_site("base/lib/python3.110/site-packages") &&
		       make_site("home/.local/lib/python3.11/site-packages") &&
		       make_site("extra") &&
		       shop_run("mkdir -p venv/bin && ln -s %s/base/bin/python3 venv/bin/python && "
				"echo 'home = %s/base/bin' > venv/pyvenv.cfg",
				shop_dir, shop_dir) &&
		       make_site("venv/lib/python3.11/site-packages");
	return made;
}

static void assert_base(const struct visits *v)
{
	assert_site(v, "base/lib/python3.11/site-packages");
	assert_site(v, "base/lib/python3/dist-packages");
	assert_site(v, "base/local/lib/python3.11/dist-packages");
	assert_site(v, "home/.local/lib/python3.11/site-packages");
	assert_visited(v, shop_path("base/lib/libcudart.so.11"));
	for (size_t i = 0; i < v->n; i++) {
		assert_null(strstr(v->paths[i], "python3.9"));
		assert_null(strstr(v->paths[i], "python3.110"));
	}
}

static void looks_through_python(void **state)
{
	ENV env = env_new();

	assert_true(make_python());
	env_add(env, "PYTHONPATH=%s/none:%s/extra", shop_dir, shop_dir);
	VISITS v = walk(shop_path("base/bin/python3"), env);
	assert_base(v);
	assert_site(v, "extra");
	/* Another program has no use for them. */
	VISITS plain = walk("plain", env);
	assert_not_visited(plain, shop_path("extra/nvidia/nccl/lib/libnccl.so.2"));
}

static void looks_through_the_users_base(void **state)
{
	ENV env = env_new();

	assert_true(make_python() && make_site("user/lib/python3.11/site-packages"));
	env_add(env, "PYTHONUSERBASE=%s/user", shop_dir);
	VISITS v = walk(shop_path("base/bin/python3"), env);
	assert_site(v, "user/lib/python3.11/site-packages");
	assert_not_visited(v, shop_path("home/.local/lib/python3.11/site-packages/nvidia/nccl/lib/"
					"libnccl.so.2"));
}

static void looks_through_virtual_environments(void **state)
{
	ENV env = env_new();

	assert_true(make_python());
	VISITS v = walk(shop_path("venv/bin/python"), env);
	assert_string_equal(v->exe, shop_path("venv/bin/python"));
	assert_site(v, "venv/lib/python3.11/site-packages");
	assert_base(v);
}

/* A virtual environment whose interpreter is a copy knows its base by pyvenv.cfg alone. */
static void looks_through_copied_environments(void **state)
{
	ENV env = env_new();

	assert_true(make_python() &&
		    shop_run("mkdir -p copy/bin && cp base/bin/python3.11 copy/bin/python && "
			     "cp venv/pyvenv.cfg copy/"));
	VISITS v = walk(shop_path("copy/bin/python"), env);
	assert_site(v, "base/lib/python3.11/site-packages");
	/* Its name does not tell the version: all of them. */
	assert_site(v, "base/lib/python3.9/site-packages");
}

static void make_script(const char *name, const char *fmt, ...) GS_PRINTF(2, 3);
static void make_script(const char *name, const char *fmt, ...)
{
	char text[2 * PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	shop_write_text(name, text);
	assert_int_equal(chmod(shop_path("%s", name), 0755), 0);
}

static void follows_scripts(void **state)
{
	const char *const names[] = {"direct", "by-env", "by-exec", "twice"};
	ENV env = env_new();

	assert_true(make_python() && shop_run("ln -s ../venv/bin/python bin/tool-python"));
	make_script("bin/direct", "#!%s/venv/bin/python\nprint()\n", shop_dir);
	make_script("bin/by-env", "#!/usr/bin/env -S python -u\nprint()\n");
	make_script("bin/by-exec", "#!/bin/sh\n'''exec' %s/venv/bin/python \"$0\" \"$@\"\n' '''\n",
		    shop_dir);
	make_script("bin/twice", "#!%s/bin/direct\n", shop_dir);
	env->n = 0;
	env_add(env, "PATH=%s/bin:%s/venv/bin", shop_dir, shop_dir);
	env_add(env, "PATH=/none"); /* the first counts */
	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		VISITS v = walk(names[i], env);

		assert_string_equal(v->exe, shop_path("venv/bin/python"));
		assert_not_visited(v, shop_path("bin/%s", names[i]));
		assert_site(v, "venv/lib/python3.11/site-packages");
	}
}

static void ends_with_scripts_in_a_circle(void **state)
{
	ENV env = env_new();
	VISITS none = calloc(1, sizeof(*none));

	make_script("bin/round", "#!%s/bin/round\n", shop_dir);
	VISITS v = walk("round", env);
	assert_null(v->exe);
	make_script("bin/lost", "#!/usr/bin/env no-such-interpreter\n");
	assert_int_equal(gs_library_candidates("lost", env->list, visit, none), -ENOENT);
}

static void looks_behind_shims(void **state)
{
	ENV env = env_new();

	assert_true(make_python() &&
		    shop_run("mkdir -p pyenv/shims pyenv/versions/3.12/bin && "
			     "cp bin/plain pyenv/versions/3.12/bin/python3.12 && "
			     "ln -s python3.12 pyenv/versions/3.12/bin/python") &&
		    make_site("pyenv/versions/3.12/lib/python3.12/site-packages"));
	make_script("pyenv/shims/python3", "#!%s/bin/plain\n", shop_dir);
	VISITS v = walk(shop_path("pyenv/shims/python3"), env);
	assert_string_equal(v->exe, shop_path("bin/plain"));
	assert_site(v, "pyenv/versions/3.12/lib/python3.12/site-packages");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_command),
		cmocka_unit_test(passes_an_answer_on),
		cmocka_unit_test(visits_what_is_no_program_of_ours),
		cmocka_unit_test(follows_runpath),
		cmocka_unit_test(follows_rpath),
		cmocka_unit_test(expands_tokens),
		cmocka_unit_test(follows_library_path),
		cmocka_unit_test(follows_preloads),
		cmocka_unit_test(follows_the_cache),
		cmocka_unit_test(survives_circles),
		cmocka_unit_test(looks_through_folders),
		cmocka_unit_test(looks_through_python),
		cmocka_unit_test(looks_through_the_users_base),
		cmocka_unit_test(looks_through_virtual_environments),
		cmocka_unit_test(looks_through_copied_environments),
		cmocka_unit_test(follows_scripts),
		cmocka_unit_test(ends_with_scripts_in_a_circle),
		cmocka_unit_test(looks_behind_shims),
	};

	return cmocka_run_group_tests(tests, make_files, shop_close);
}
