/* Which GPUs CUDA shows: by environment and list, with what the programming guide says of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sources/cuda_visible/visible.h"

#define A "GPU-aa11"
#define B "GPU-ab22"
#define C "GPU-cc33"

static const struct gs_cuda_visible_gpus same = {.uuid = {A, B, C}, .n = 3, .one_model = true};
static const struct gs_cuda_visible_gpus mixed = {.uuid = {A, B, C}, .n = 3};

struct row {
	const char *environment; /* '|' for the zero behind each variable */
	const char *want;
	bool in_container;
	const struct gs_cuda_visible_gpus *gpus; /* NULL: same */
};

static const struct row rows[] = {
	{"", A "," B "," C},
	{"PATH=/bin|HOME=/", A "," B "," C},
	{"CUDA_VISIBLE_DEVICES=", ""},
	{"CUDA_VISIBLE_DEVICES=1", B},
	{"CUDA_VISIBLE_DEVICES=2,0", C "," A},
	{"CUDA_VISIBLE_DEVICES= 2 , 0 ", C "," A},
	{"X=1|CUDA_VISIBLE_DEVICES=0|CUDA_VISIBLE_DEVICES=1", A},
	{"NOT_CUDA_VISIBLE_DEVICES=0", A "," B "," C},
	/* Up to the first that names none. */
	{"CUDA_VISIBLE_DEVICES=0,-1,1", A},
	{"CUDA_VISIBLE_DEVICES=-1", ""},
	{"CUDA_VISIBLE_DEVICES=1,9,0", B},
	{"CUDA_VISIBLE_DEVICES=1,x,0", B},
	{"CUDA_VISIBLE_DEVICES=1,1,0", B},
	{"CUDA_VISIBLE_DEVICES=99999999999999999999", ""},
	{"CUDA_VISIBLE_DEVICES=NoDevFiles", ""},
	/* UUIDs, as much of them as no other has. */
	{"CUDA_VISIBLE_DEVICES=" C "," A, C "," A},
	{"CUDA_VISIBLE_DEVICES=GPU-c,GPU-aa", C "," A},
	{"CUDA_VISIBLE_DEVICES=GPU-a", ""},
	{"CUDA_VISIBLE_DEVICES=GPU-", ""},
	{"CUDA_VISIBLE_DEVICES=GPU-cc334", ""},
	/* One instance, and nothing beside it. */
	{"CUDA_VISIBLE_DEVICES=MIG-1234-56,0", "MIG-1234-56"},
	{"CUDA_VISIBLE_DEVICES=MIG-GPU-ab22/1/0", "MIG-GPU-ab22/1/0"},
	{"CUDA_VISIBLE_DEVICES=MIG-\x1b[31m", ""},
	{"CUDA_VISIBLE_DEVICES=0,MIG-1234", A},
	/* Of several models the order is known when it was asked for. */
	{"", "", false, &mixed},
	{"CUDA_VISIBLE_DEVICES=1", "", false, &mixed},
	{"CUDA_VISIBLE_DEVICES=" B, B, false, &mixed},
	{"CUDA_DEVICE_ORDER=PCI_BUS_ID|CUDA_VISIBLE_DEVICES=1", B, false, &mixed},
	{"CUDA_DEVICE_ORDER=PCI_BUS_ID", A "," B "," C, false, &mixed},
	{"CUDA_DEVICE_ORDER=FASTEST_FIRST", "", false, &mixed},
	/* A container has those that its runtime was asked for, and counts these. */
	{"NVIDIA_VISIBLE_DEVICES=all", A "," B "," C, true},
	{"NVIDIA_VISIBLE_DEVICES=void", "", true},
	{"NVIDIA_VISIBLE_DEVICES=" C "," B, C "," B, true},
	{"NVIDIA_VISIBLE_DEVICES=1,2|CUDA_VISIBLE_DEVICES=0", B, true},
	{"NVIDIA_VISIBLE_DEVICES=1|CUDA_VISIBLE_DEVICES=1", "", true},
	{"NVIDIA_VISIBLE_DEVICES=1", A "," B "," C, false},
};

/* Some that MIG divides; of several instances it is not known which one CUDA takes. */
static const struct gs_cuda_visible_gpus one_divided = {
	.uuid = {A}, .n = 1, .one_model = true, .n_instances = {1}, .instance = {"7/0"}};
static const struct gs_cuda_visible_gpus seven_parts = {
	.uuid = {A}, .n = 1, .one_model = true, .n_instances = {7}, .instance = {"7/0"}};
static const struct gs_cuda_visible_gpus beside_whole = {.uuid = {A, B, C},
							 .n = 3,
							 .one_model = true,
							 .n_instances = {0, 1, 0},
							 .instance = {NULL, "3/1", NULL}};

static const struct row mig_rows[] = {
	{"", "MIG-" A "/7/0", false, &one_divided},
	{"CUDA_VISIBLE_DEVICES=0", "MIG-" A "/7/0", false, &one_divided},
	{"CUDA_VISIBLE_DEVICES=" A, "MIG-" A "/7/0", false, &one_divided},
	{"CUDA_VISIBLE_DEVICES=GPU-aa", "MIG-" A "/7/0", false, &one_divided},
	{"CUDA_VISIBLE_DEVICES=MIG-" A "/7/0", "MIG-" A "/7/0", false, &one_divided},
	{"CUDA_VISIBLE_DEVICES=", "", false, &one_divided},
	{"", "", false, &seven_parts},
	{"CUDA_VISIBLE_DEVICES=0", "", false, &seven_parts},
	{"CUDA_VISIBLE_DEVICES=MIG-1234", "MIG-1234", false, &seven_parts},
	/* An instance, and no whole GPU beside it. */
	{"", "MIG-" B "/3/1", false, &beside_whole},
	{"CUDA_VISIBLE_DEVICES=" B, "MIG-" B "/3/1", false, &beside_whole},
	{"CUDA_VISIBLE_DEVICES=" A "," B, "MIG-" B "/3/1", false, &beside_whole},
	{"CUDA_VISIBLE_DEVICES=" C "," A, C "," A, false, &beside_whole},
	{"CUDA_VISIBLE_DEVICES=0", "", false, &beside_whole},
	{"CUDA_VISIBLE_DEVICES=1", "", false, &beside_whole},
};

static void check_rows(const struct row *list, size_t n_rows)
{
	for (size_t i = 0; i < n_rows; i++) {
		const struct row *r = &list[i];
		char environment[256], out[64];
		size_t n = strlen(r->environment);

		memcpy(environment, r->environment, n + 1);
		for (size_t k = 0; k < n; k++)
			if (environment[k] == '|')
				environment[k] = '\0';
		gs_cuda_visible_parse(environment, n + 1, r->in_container,
				      r->gpus ? r->gpus : &same, out, sizeof(out));
		if (strcmp(out, r->want) != 0)
			fail_msg("%s: \"%s\", not \"%s\"", r->environment, out, r->want);
	}
}

static void test_environments(void **state)
{
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
	check_rows(mig_rows, sizeof(mig_rows) / sizeof(mig_rows[0]));
}

struct settled {
	struct gs_cuda_visible_facts facts;
	const char *want;
	int only;
};

/* open: bit 0 is A, bit 1 B, bit 2 C. */
static const struct settled settled[] = {
	/* At its first call of CUDA: what it has set by then. */
	{{.first = A "," B, .begun = true}, A "," B, -1},
	{{.first = A "," B, .now = B, .begun = true}, B, 0},
	{{.first = "", .now = B "," A, .begun = true}, B "," A, -1},
	{{.first = A "," B, .now = "", .begun = true}, "", -1},
	{{.first = A "," B, .open = 4, .begun = true}, A "," B, -1},
	/* Later: as long as nothing was changed. */
	{{.first = A "," B}, A "," B, -1},
	{{.first = A "," B, .now = A "," B}, A "," B, -1},
	{{.first = A "," B, .now = B}, "", -1},
	{{.first = B}, B, 0},
	/* The only one that it has open is the one, as device N of the list or alone. */
	{{.first = A "," B "," C, .open = 1}, A "," B "," C, 0},
	{{.first = A "," B "," C, .open = 4}, A "," B "," C, 2},
	{{.first = A "," B, .now = B, .open = 2}, B, 0},
	{{.first = A "," B, .open = 4}, C, 0},
	{{.first = "", .open = 4}, C, 0},
	/* Several: at least one of them has to be listed. */
	{{.first = A "," B, .open = 7}, A "," B, -1},
	{{.first = A "," B, .open = 6}, A "," B, -1},
	{{.first = A, .open = 6}, "", -1},
	{{.first = A, .open = 5}, A, 0},
	{{.first = "MIG-1234", .open = 4}, "MIG-1234", 0},
};

static void test_settled(void **state)
{
	for (size_t i = 0; i < sizeof(settled) / sizeof(settled[0]); i++) {
		char out[64];
		int only;

		gs_cuda_visible_settle(&same, &settled[i].facts, out, sizeof(out), &only);
		if (strcmp(out, settled[i].want) != 0 || only != settled[i].only)
			fail_msg("%zu: \"%s\" %d, not \"%s\" %d", i, out, only, settled[i].want,
				 settled[i].only);
	}
}

static void test_little_room(void **state)
{
	char out[12];

	gs_cuda_visible_parse("", 0, false, &same, out, sizeof(out));
	assert_string_equal(out, A);
	gs_cuda_visible_parse("CUDA_VISIBLE_DEVICES=MIG-123456789012", 37, false, &same, out,
			      sizeof(out));
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environments),
		cmocka_unit_test(test_settled),
		cmocka_unit_test(test_little_room),
	};

	return cmocka_run_group_tests_name("cuda_visible/visible", tests, NULL, NULL);
}
