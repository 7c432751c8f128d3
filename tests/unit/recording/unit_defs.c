/* What a snapshot repeats: the newest of everything, in an order that defines before it uses. */
#include "common.h"

static void keep_all(struct gs_recording_defs *d, const struct gs_buf *b)
{
	struct gs_batch batch = batch_of(b);

	gs_records_for_each (&batch, r) {
		gs_recording_defs_keep(d, r);
	}
}

static void only_definitions(void **state)
{
	struct gs_buf b = records();
	struct gs_recording_defs d;
	size_t n = 0;

	gs_recording_defs_init(&d);
	put_all_kinds(&b);
	keep_all(&d, &b);
	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++) {
		struct gs_batch batch = batch_of(&d.arrays[i]);

		gs_records_for_each (&batch, r) {
			bool is_text = r->kind == GS_REC_STRING;
			bool is_session = r->kind == GS_REC_SESSION;

			assert_int_equal(is_text, i == GS_RECORDING_DEFS_STRINGS);
			assert_int_equal(is_session, i == GS_RECORDING_DEFS_SESSION);
			assert_true(is_text || is_session || r->kind == GS_REC_PROCESS ||
				    r->kind == GS_REC_THREAD || r->kind == GS_REC_FUNCTION ||
				    r->kind == GS_REC_COMM);
			n++;
		}
	}
	assert_int_equal(n, 1 + 5 + 1 + 1 + 2 + 1);
	assert_int_equal(gs_recording_defs_bytes(&d),
			 d.arrays[0].bytes + d.arrays[1].bytes + d.arrays[2].bytes);
	gs_recording_defs_fini(&d);
	gs_buf_fini(&b);
}

static void newest_wins(void **state)
{
	struct gs_buf b = records();
	struct gs_dict *dict = gs_dict_new();
	struct gs_recording_defs d;
	size_t bytes;

	gs_recording_defs_init(&d);
	put_definitions(&b);
	keep_all(&d, &b);
	bytes = gs_recording_defs_bytes(&d);
	gs_buf_reset(&b);
	put_process(&b, 1, 5);        /* exec */
	put_comm(&b, 0x55550000, 16); /* more known */
	put_session(&b);              /* with its texts again */
	keep_all(&d, &b);
	assert_int_equal(gs_recording_defs_bytes(&d), bytes);
	gs_buf_reset(&b);
	put_string(&b, 3, "a longer text, which cannot take the old one's place");
	keep_all(&d, &b);
	assert_true(gs_recording_defs_bytes(&d) > bytes);
	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++) {
		struct gs_batch batch = batch_of(&d.arrays[i]);

		gs_records_for_each (&batch, r) {
			assert_int_equal(gs_dict_apply(dict, r), 0);
		}
	}
	assert_int_equal(gs_dict_process(dict, 1)->comm_str, 5);
	assert_int_equal(gs_dict_comm(dict, 1, 0x55550000)->n_ranks, 16);
	assert_string_equal(gs_dict_string(dict, 3),
			    "a longer text, which cannot take the old one's place");
	gs_dict_free(&dict);
	gs_recording_defs_fini(&d);
	gs_buf_fini(&b);
}

/* Ranks that stood aside in a split have no handle, but are several. */
static void without_handle(void **state)
{
	struct gs_buf b = records();
	struct gs_recording_defs d;

	gs_recording_defs_init(&d);
	for (uint64_t parent = 1; parent <= 3; parent++) {
		size_t at = b.bytes;

		put_comm(&b, 0, -1);
		((struct gs_rec_comm *)(void *)(b.data + at))->parent = parent;
	}
	keep_all(&d, &b);
	keep_all(&d, &b);
	assert_same(&d.arrays[GS_RECORDING_DEFS_ENTITIES], &b);
	gs_recording_defs_fini(&d);
	gs_buf_fini(&b);
}

static void bounded(void **state)
{
	struct gs_buf b = records();
	struct gs_recording_defs d;
	size_t bytes;

	gs_recording_defs_init(&d);
	for (uint32_t i = 1; i <= GS_RECORDING_DEFS_MAX_ENTRIES; i++)
		put_thread(&b, i, 1, 0);
	keep_all(&d, &b);
	assert_false(d.is_full);
	bytes = gs_recording_defs_bytes(&d);
	gs_buf_reset(&b);
	put_thread(&b, GS_RECORDING_DEFS_MAX_ENTRIES + 1, 1, 0);
	keep_all(&d, &b);
	assert_true(d.is_full);
	assert_int_equal(gs_recording_defs_bytes(&d), bytes);
	gs_buf_reset(&b);
	put_thread(&b, 1, 2, 0); /* what is there can still change */
	keep_all(&d, &b);
	assert_int_equal(((struct gs_rec_thread *)(void *)d.arrays[GS_RECORDING_DEFS_ENTITIES].data)
				 ->process,
			 2);
	gs_recording_defs_fini(&d);
	gs_buf_fini(&b);
}

static void bounded_in_bytes(void **state)
{
	struct gs_buf b = records();
	char text[4096];
	struct gs_recording_defs d;

	gs_recording_defs_init(&d);
	memset(text, 'x', sizeof(text));
	for (uint32_t i = 1; i <= 3000; i++)
		assert_int_equal(gs_record_put_string(&b, i, text, sizeof(text)), 0);
	keep_all(&d, &b);
	assert_true(d.is_full);
	assert_true(d.arrays[GS_RECORDING_DEFS_STRINGS].bytes <= GS_RECORDING_DEFS_MAX_BYTES);
	assert_true(d.arrays[GS_RECORDING_DEFS_STRINGS].bytes > GS_RECORDING_DEFS_MAX_BYTES - 5000);
	gs_recording_defs_fini(&d);
	gs_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_definitions), cmocka_unit_test(newest_wins),
		cmocka_unit_test(without_handle),   cmocka_unit_test(bounded),
		cmocka_unit_test(bounded_in_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
