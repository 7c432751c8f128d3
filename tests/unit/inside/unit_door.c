/* By which door a process is seen, where nothing of it is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "model/trace/func.h"
#include "pipeline/inside/inside.h"

#define CUDA "/usr/lib/libcudart.so.13"

static bool is_over;

static bool stops(void *ctx)
{
	return is_over;
}

/* This process has nothing of ours: its CUDA would get probes. At the end of a trace looking for our library stops
 * halfway, and what was not found says nothing. */
static void the_end_decides_nothing(void **state)
{
	const struct gs_companion_files_options o = {.size = sizeof(o), .parent = "/tmp"};
	const struct gs_guard_options guarded = {.size = sizeof(guarded), .stop = stops};
	bool wanted[GS_FUNC_FIXED] = {[1] = true};
	struct gs_companion_files *files;
	struct gs_inside *inside;
	struct gs_guard *guard, *before;
	struct gs_err err = {{0}};

	assert_int_equal(gs_companion_files_new(&o, &files, &err), 0);
	assert_int_equal(gs_inside_new(files, wanted, &inside), 0);
	assert_int_equal(gs_guard_new(&guarded, &guard), 0);
	before = gs_guard_enter(guard);
	assert_int_equal(gs_inside_attaches(inside, (uint32_t)getpid(), CUDA), 1);
	assert_int_equal(gs_inside_attaches(inside, (uint32_t)getpid(), "/usr/lib/libm.so.6"), 1);
	is_over = true;
	assert_int_equal(gs_inside_attaches(inside, (uint32_t)getpid(), CUDA), -EAGAIN);
	gs_guard_enter(before);
	gs_guard_free(&guard);
	gs_inside_free(&inside);
	gs_companion_files_free(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_end_decides_nothing)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
