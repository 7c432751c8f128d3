/* Which kernel a launch by the driver is of: names that were asked for, and the handles that they led to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/exec.h"
#include "model/trace/record_kernel.h"
#include "ingest_test.h"
#include "pipeline/ingest/ingest_int.h"

#define PID 5

/* Handles are looked for in no file, so no reader is asked; but there has to be one. */
static void allow_names(struct fixture *x)
{
	x->feed->reader = (void *)x;
}

static void ask(struct fixture *x, uint32_t tid, const char *function, const char *name)
{
	struct gs_event_kernel ev = {.head = {.kind = GS_EV_KERNEL, .bytes = sizeof(ev)},
				     .pid = PID,
				     .tid = tid,
				     .func = gs_func_by_name(function)->id};

	snprintf(ev.name, sizeof(ev.name), "%s", name);
	gs_ingest_event(x->feed, &ev.head);
}

static void call(struct fixture *x, uint32_t tid, const char *function, uint64_t out, uint64_t of,
		 unsigned flags)
{
	struct gs_event_call ev = make_call(PID, tid, function);

	ev.arg[0] = out;
	ev.arg[1] = of;
	ev.flags = (uint8_t)flags;
	gs_ingest_event(x->feed, &ev.head);
}

static void get(struct fixture *x, uint32_t tid, const char *name, uint64_t handle, unsigned flags)
{
	ask(x, tid, "cuModuleGetFunction", name);
	call(x, tid, "cuModuleGetFunction", handle, 0x1000, flags);
}

static void launch(struct fixture *x, uint32_t tid, uint64_t handle)
{
	call(x, tid, "cuLaunchKernel", handle, 0, 0);
}

/* What the function is at the end of the stream; NULL: not known. */
static const char *symbol_of(struct fixture *x, uint64_t function)
{
	const struct gs_rec_kernel *k;
	const struct gs_rec_thread *t;

	feed_take(x);
	t = feed_record(x, GS_REC_THREAD, 0);
	k = gs_dict_kernel(x->dict, t->process, function);
	return k && k->symbol_str ? text_of(x, k->symbol_str) : NULL;
}

static void a_name_comes_with_the_first_launch(void **state)
{
	struct fixture *x = *state;
	const struct gs_rec_kernel *k;
	unsigned n = 0, at = 0;

	allow_names(x);
	get(x, 6, "_ZN3app5scaleEPfi", 0x100, 0);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_KERNEL), 0);
	for (int i = 0; i < 3; i++)
		launch(x, 7, 0x100);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_KERNEL), 1);
	k = feed_record(x, GS_REC_KERNEL, 0);
	assert_int_equal(k->how, GS_KERNEL_LOADED);
	assert_int_equal(k->function, 0x100);
	assert_string_equal(text_of(x, k->name_str), "app::scale(float*, int)");
	assert_string_equal(text_of(x, k->short_str), "scale");
	assert_string_equal(text_of(x, k->symbol_str), "_ZN3app5scaleEPfi");
	gs_records_for_each (&x->all, r) {
		n += r->kind == GS_REC_CALL;
		at = r->kind == GS_REC_KERNEL ? n : at;
	}
	assert_int_equal(n, 4);
	assert_int_equal(at, 1); /* behind the call that got the handle, before the launches */
}

static void a_handle_may_become_another_kernels(void **state)
{
	struct fixture *x = *state;

	allow_names(x);
	get(x, 6, "first", 0x100, 0);
	launch(x, 6, 0x100);
	assert_string_equal(symbol_of(x, 0x100), "first");
	get(x, 6, "second", 0x100, 0);
	launch(x, 6, 0x100);
	assert_string_equal(symbol_of(x, 0x100), "second");
	assert_int_equal(feed_count(x, GS_REC_KERNEL), 2);
}

static void one_handle_leads_to_another(void **state)
{
	struct fixture *x = *state;

	allow_names(x);
	ask(x, 6, "cuLibraryGetKernel", "kernel");
	call(x, 6, "cuLibraryGetKernel", 0x200, 0x1000, 0);
	call(x, 6, "cuKernelGetFunction", 0x208, 0x200, 0);
	launch(x, 6, 0x208);
	assert_string_equal(symbol_of(x, 0x208), "kernel");
	/* Of one that is not known nothing comes. */
	call(x, 6, "cuKernelGetFunction", 0x308, 0x300, 0);
	launch(x, 6, 0x308);
	assert_null(symbol_of(x, 0x308));
}

static void what_failed_gives_nothing(void **state)
{
	struct fixture *x = *state;
	struct gs_event_call ev = make_call(PID, 6, "cuModuleGetFunction");

	allow_names(x);
	ask(x, 6, "cuModuleGetFunction", "none");
	ev.ret = 500;
	ev.arg[0] = 0x100;
	gs_ingest_event(x->feed, &ev.head);
	launch(x, 6, 0x100);
	assert_null(symbol_of(x, 0x100));
	/* Nor does a name that another function asked for. */
	ask(x, 6, "cuLibraryGetKernel", "other");
	call(x, 6, "cuModuleGetFunction", 0x110, 0x1000, 0);
	launch(x, 6, 0x110);
	assert_null(symbol_of(x, 0x110));
}

/* Of a first call the end is not seen: its name waits for a launch. */
static void a_first_call_waits_for_its_launch(void **state)
{
	struct fixture *x = *state;

	allow_names(x);
	get(x, 6, "mine", 0, GS_CALL_UNTIMED);
	get(x, 7, "other", 0, GS_CALL_UNTIMED);
	launch(x, 8, 0x100); /* of neither thread: it may be both */
	assert_null(symbol_of(x, 0x100));
	launch(x, 7, 0x108);
	assert_string_equal(symbol_of(x, 0x108), "other");
	launch(x, 9, 0x110); /* one is left */
	assert_string_equal(symbol_of(x, 0x110), "mine");
	launch(x, 6, 0x118);
	assert_null(symbol_of(x, 0x118));
}

static void another_program_gets_no_name_of_the_one_before(void **state)
{
	struct fixture *x = *state;
	struct gs_event_exec ev = {.task = {.head = {.kind = GS_EV_TASK, .bytes = sizeof(ev)},
					    .pid = PID,
					    .tid = 6,
					    .change = GS_TASK_EXEC}};

	allow_names(x);
	get(x, 6, "known", 0x200, 0);
	launch(x, 6, 0x200);
	assert_string_equal(symbol_of(x, 0x200), "known");
	get(x, 6, "before", 0, GS_CALL_UNTIMED);
	gs_ingest_event(x->feed, &ev.task.head);
	launch(x, 6, 0x100);
	launch(x, 6, 0x200);
	assert_null(symbol_of(x, 0x100));
	assert_null(symbol_of(x, 0x200));
	get(x, 6, "new", 0x200, 0);
	launch(x, 6, 0x200);
	assert_string_equal(symbol_of(x, 0x200), "new");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_name_comes_with_the_first_launch, feed_setup,
						feed_teardown),
		cmocka_unit_test_setup_teardown(a_handle_may_become_another_kernels, feed_setup,
						feed_teardown),
		cmocka_unit_test_setup_teardown(one_handle_leads_to_another, feed_setup,
						feed_teardown),
		cmocka_unit_test_setup_teardown(what_failed_gives_nothing, feed_setup,
						feed_teardown),
		cmocka_unit_test_setup_teardown(a_first_call_waits_for_its_launch, feed_setup,
						feed_teardown),
		cmocka_unit_test_setup_teardown(another_program_gets_no_name_of_the_one_before,
						feed_setup, feed_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
