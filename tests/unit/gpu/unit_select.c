/* Which GPUs a person means: each way to write it, what is not there, and what could be several. */
#include "gpu_test.h"

#include "sources/gpu/select.h"

/* GPU 0 is divided into three parts, two of one GPU instance; 1 and 2 differ in the domain. */
static struct gs_gpu_snapshot *machine(void)
{
	static const struct {
		unsigned index;
		const char *uuid, *bus_id;
		int instance;
	} gpus[] = {
		{0, "GPU-00000000-1111", "00000000:11:00.0", -1},
		{0, "MIG-aaaa0000-1111", "00000000:11:00.0", 7},
		{0, "MIG-aaaa0001-1111", "00000000:11:00.0", 7},
		{0, "MIG-bbbb0000-1111", "00000000:11:00.0", 8},
		{1, "GPU-00000001-1111", "00000008:01:00.0", -1},
		{2, "GPU-12345678-1111", "00000009:01:00.0", -1},
		{11, "GPU-87654321-1111", "00000000:AB:1F.0", -1},
	};
	struct gs_gpu_snapshot *s = calloc(1, sizeof(*s));

	s->n_gpus = GS_ARRAY_LEN(gpus);
	s->n_processes = s->n_gpus;
	s->info = calloc(s->n_gpus, sizeof(*s->info));
	s->sample = calloc(s->n_gpus, sizeof(*s->sample));
	s->process = calloc(s->n_processes, sizeof(*s->process));
	for (unsigned i = 0; i < s->n_gpus; i++) {
		struct gs_gpu_info *g = &s->info[i];

		g->index = gpus[i].index;
		strcpy(g->uuid, gpus[i].uuid);
		strcpy(g->pci_bus_id, gpus[i].bus_id);
		g->gpu_instance = gpus[i].instance;
		g->is_mig = gpus[i].instance >= 0;
		s->process[i] = (struct gs_gpu_process){.gpu = i, .pid = 100 + i};
	}
	return s;
}

/* The rows of machine() that are left, as bits; -1: refused. */
static void check(const char *list, int expected, const char *says)
{
	struct gs_gpu_snapshot *s = machine();
	struct gs_err err = {{0}};
	int r = gs_gpu_select(s, list, &err), left = 0;

	for (unsigned i = 0; i < s->n_processes; i++) {
		left |= 1 << (s->process[i].pid - 100);
		assert_int_equal(s->process[i].gpu, i);
	}
	assert_int_equal(s->n_gpus, s->n_processes);
	if (says) {
		assert_true(r < 0);
		if (!strstr(err.text, says))
			fail_msg("%s: %s", list, err.text);
	} else if (r < 0) {
		fail_msg("%s: %s", list, err.text);
	}
	if (left != expected)
		fail_msg("%s: %#x, not %#x", list, left, expected);
	gs_gpu_snapshot_free(&s);
}

static void each_way(void **state)
{
	check("0", 0x0f, NULL);
	check("00", 0x0f, NULL);
	check("1,2", 0x30, NULL);
	check(" 1 , 2 ,", 0x30, NULL);
	check("11", 0x40, NULL);
	check("0:7", 0x06, NULL);
	check("0.8", 0x08, NULL);
	check("GPU-00000001-1111", 0x10, NULL);
	check("gpu-8", 0x40, NULL);
	check("MIG-b", 0x08, NULL);
	check("MIG-aaaa0001", 0x04, NULL);
	check("11:00.0", 0x0f, NULL);
	check("11:00", 0x0f, NULL);
	check("0:11:0", 0x0f, NULL);
	check("0000:11:00", 0x0f, NULL);
	check("00000000:11:00.0", 0x0f, NULL);
	check("ab:1f", 0x40, NULL);
	check("0008:01:00.0", 0x10, NULL);
}

static void what_is_not_there(void **state)
{
	static const char *const lists[] = {
		"3",      "-1",    "0x1",    "1e0",          "0:9",        "1:7",
		"GPU-",   "GPU-9", "MIG-c",  "4294967296",   "4294967297", "00000000000000000001",
		"1:00.0", ":00.0", "B:1F.0", "0001:11:00.0", "11:00.1",    "11:00.0.0",
		"all"};

	for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++)
		check(lists[i], 0, lists[i]);
	check("0,nope", 0x0f, "\"nope\"");
	check("", 0, "no GPU is named");
	check(" , ,", 0, "no GPU is named");
}

static void what_could_be_several(void **state)
{
	check("GPU-0", 0, "GPU 0 and GPU 1");
	check("MIG-aaaa", 0, "matches");
	check("01:00.0", 0, "GPU 1 and GPU 2");
}

static void lists_of_options(void **state)
{
	char list[GS_GPU_LIST_BYTES] = "", much[GS_GPU_LIST_BYTES];
	struct gs_err err;

	assert_int_equal(gs_gpu_list_add(list, "0", &err), 0);
	assert_int_equal(gs_gpu_list_add(list, "1,2", &err), 0);
	assert_string_equal(list, "0,1,2");
	assert_true(gs_gpu_list_add(list, " ,", &err) < 0);
	assert_true(gs_gpu_list_add(list, "", &err) < 0);
	memset(much, '1', sizeof(much));
	much[sizeof(much) - 1] = '\0';
	assert_true(gs_gpu_list_add(list, much, &err) < 0);
	much[sizeof(much) - 8] = '\0';
	assert_int_equal(gs_gpu_list_add(list, much, &err), 0);
	assert_int_equal(strlen(list), GS_GPU_LIST_BYTES - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(what_could_be_several),
		cmocka_unit_test(lists_of_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
