/*
 * doc/format.md says enough: tests/gst.py, a reader in another language written after that page,
 * reads what the writer wrote. Skipped (77) where python3 or zstd is missing.
 *
 * usage: unit_journal_format PATH_OF_GST_PY
 */
#include "common.h"

static const char *gst_py;

/* What gst.py prints about the file, and its exit status. */
static struct gs_buf run(const struct memory_file *f, const char *option, int *ret_status)
{
	struct gs_buf out = records();
	char command[4096];
	int n, c;
	FILE *p;

	n = snprintf(command, sizeof(command), "python3 '%s' %s %s", gst_py, option, f->path);
	assert_true(n > 0 && (size_t)n < sizeof(command));
	p = popen(command, "r");
	assert_non_null(p);
	while ((c = getc(p)) != EOF) {
		char byte = (char)c;

		assert_int_equal(gs_buf_put(&out, &byte, 1), 0);
	}
	*ret_status = pclose(p);
	assert_int_equal(gs_buf_put(&out, "", 1), 0);
	return out;
}

static const char all_kinds_text[] =
	"{\"kind\": \"SESSION\", \"version\": 3, \"mode\": 1, \"start_ns\": 999999999, "
	"\"wall_minus_boot_ns\": 1700000000000000000, \"host_str\": 1, \"command_str\": 2, "
	"\"kernel_str\": 0, \"attach_mode_str\": 0}\n"
	"{\"kind\": \"STRING\", \"id\": 1, \"text_bytes\": 6, \"text\": \"node17\"}\n"
	"{\"kind\": \"STRING\", \"id\": 2, \"text_bytes\": 24, "
	"\"text\": \"python train.py --lr 0.1\"}\n"
	"{\"kind\": \"STRING\", \"id\": 3, \"text_bytes\": 6, \"text\": \"python\"}\n"
	"{\"kind\": \"PROCESS\", \"id\": 1, \"pid\": 4001, \"ns_pid\": 1, \"parent_pid\": 1, "
	"\"uid\": 1000, \"comm_str\": 3, \"exe_str\": 0, \"cmdline_str\": 0, "
	"\"container_str\": 0, \"start_ns\": 77}\n"
	"{\"kind\": \"THREAD\", \"id\": 1, \"process\": 1, \"tid\": 4001, \"comm_str\": 3}\n"
	"{\"kind\": \"STRING\", \"id\": 4, \"text_bytes\": 15, \"text\": \"cudaMemcpyAsync\"}\n"
	"{\"kind\": \"FUNCTION\", \"id\": 1, \"layer\": 1, \"func_class\": 5, \"name_str\": 4, "
	"\"file_str\": 0, "
	"\"line\": 0}\n"
	"{\"kind\": \"STRING\", \"id\": 5, \"text_bytes\": 16, \"text\": \"ncclCommInitRank\"}\n"
	"{\"kind\": \"FUNCTION\", \"id\": 2, \"layer\": 1, \"func_class\": 5, \"name_str\": 5, "
	"\"file_str\": 0, "
	"\"line\": 0}\n"
	"{\"kind\": \"COMM\", \"process\": 1, \"rank\": 3, \"n_ranks\": 8, \"origin_str\": 5, "
	"\"comm\": 1431633920, \"id_hash\": 1311768467294899695, \"parent\": 0, "
	"\"color\": -2147483648, \"key\": -7, \"n_excluded\": 20, "
	"\"excluded0\": 5, \"excluded1\": 0, \"excluded2\": 0, \"excluded3\": 0, \"excluded4\": 0, "
	"\"excluded5\": 0, \"excluded6\": 0, \"excluded7\": 0, \"excluded8\": 0, \"excluded9\": 0, "
	"\"excluded10\": 0, \"excluded11\": 0, \"excluded12\": 0, \"excluded13\": 0, "
	"\"excluded14\": 0, \"excluded15\": 9}\n"
	"{\"kind\": \"CALL\", \"start_ns\": 1000035000, \"dur_ns\": 2059, \"thread\": 1, "
	"\"function\": 2, \"ret\": 0, \"aux\": 0, \"cpu\": 7, \"depth\": 0, \"call_flags\": 0, "
	"\"failed\": 0, \"bytes\": 28672, \"stream\": 139637976732416, "
	"\"arg0\": 140372416138752, \"arg1\": 0, \"arg2\": 0, \"arg3\": 0, "
	"\"scope\": 0, \"py_stack\": 0, \"native_stack\": 0, \"flow\": 0}\n"
	"{\"kind\": \"STATS\", \"thread\": 1, \"function\": 2, \"time_ns\": 2000000000, "
	"\"calls\": 12, \"errors\": 2, \"total_ns\": 123456, \"max_ns\": 65536, "
	"\"bytes\": 1048576, \"inner\": 3, \"err_code0\": 2, \"err_code1\": 0, "
	"\"err_code2\": 0, \"err_code3\": 0, \"err_count0\": 2, \"err_count1\": 0, "
	"\"err_count2\": 0, \"err_count3\": 0, \"n_buckets\": 2, "
	"\"buckets\": [[40, 7], [41, 5]]}\n"
	"{\"kind\": \"LOSS\", \"layer\": 3, \"cause\": 1, \"detail_str\": 0, \"count\": 99}\n"
	"{\"kind\": \"ATTACH\", \"path_str\": 3, \"func_str\": 0, \"status\": -2, "
	"\"reason_str\": 0, \"n_probes\": 300, \"n_moved\": 0, \"n_stepped\": 0, \"layer\": 0}\n"
	"{\"kind\": \"COUNTER\", \"process\": 1, \"name_str\": 3, \"time_ns\": 2000000001, "
	"\"value\": -5, \"unit\": 1}\n"
	"{\"kind\": 999, \"body\": \"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a\"}\n"
	"{\"kind\": \"END\", \"end_ns\": 3000000000, \"exit_status\": -1, \"reason_str\": 0}\n";

static void every_kind(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records(), out;
	int status;

	put_all_kinds(&b);
	write_file(f.path, NULL, &b);
	out = run(&f, "", &status);
	assert_string_equal((const char *)out.data, all_kinds_text);
	assert_int_equal(status, 0);
	gs_buf_fini(&out);
	gs_buf_fini(&b);
	close(f.fd);
}

/* Both readers find the same in a damaged file. */
static void same_findings(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 20000};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), out, got;
	struct gs_recording_stats st;
	char want[512];
	int status;

	put_definitions(&b);
	for (uint64_t i = 0; i < 2500; i++)
		put_call(&b, i);
	put_end(&b);
	write_file(f.path, &o, &b);
	for (int round = 0; round < 3; round++) {
		if (round == 1) /* the second half of some frames */
			assert_int_equal(pwrite(f.fd, "damage", 6, 9000), 6);
		if (round == 2)
			assert_int_equal(ftruncate(f.fd, lseek(f.fd, 0, SEEK_END) - 1), 0);
		got = read_file(f.path, &st);
		snprintf(want, sizeof(want),
			 "{\"file_bytes\": %zu, \"frames\": %zu, \"records\": %zu, "
			 "\"cut_bytes\": %zu, \"skipped_bytes\": %zu, \"skipped_frames\": %zu}\n",
			 (size_t)st.file_bytes, (size_t)st.n_frames, (size_t)st.n_records,
			 (size_t)st.cut_bytes, (size_t)st.skipped_bytes,
			 (size_t)st.n_skipped_frames);
		out = run(&f, "--stats", &status);
		assert_string_equal((const char *)out.data, want);
		assert_int_equal(status, round ? 1 << 8 : 0);
		assert_int_equal(st.n_skipped_frames, round ? 1 : 0);
		gs_buf_fini(&got);
		gs_buf_fini(&out);
	}
	gs_buf_fini(&b);
	close(f.fd);
}

static void frame_headers(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 1000};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), out, want = records(), file;
	struct frames frames;
	int status;

	put_definitions(&b);
	for (uint64_t i = 0; i < 25; i++)
		put_call(&b, i);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	for (size_t i = 0; i < frames.n; i++) {
		const struct gs_frame_header *h = &frames.items[i].header;

		gs_buf_printf(&want,
			      "{\"magic\": %u, \"version\": %u, \"flags\": %u, \"file_id\": %llu, "
			      "\"sequence\": %llu, \"payload_bytes\": %u, \"raw_bytes\": %u, "
			      "\"n_records\": %u, \"payload_crc\": %u, \"first_ns\": %llu, "
			      "\"last_ns\": %llu, \"header_crc\": %u, \"offset\": %zu}\n",
			      h->magic, h->version, h->flags, (unsigned long long)h->file_id,
			      (unsigned long long)h->sequence, h->payload_bytes, h->raw_bytes,
			      h->n_records, h->payload_crc, (unsigned long long)h->first_ns,
			      (unsigned long long)h->last_ns, h->header_crc, frames.items[i].off);
	}
	gs_buf_put(&want, "", 1);
	out = run(&f, "--frames", &status);
	assert_string_equal((const char *)out.data, (const char *)want.data);
	assert_int_equal(status, 0);
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&out);
	gs_buf_fini(&want);
	gs_buf_fini(&b);
	close(f.fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(same_findings),
		cmocka_unit_test(frame_headers),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH_OF_GST_PY\n", argv[0]);
		return 2;
	}
	gst_py = argv[1];
	if (system("python3 -c '' 2>/dev/null") != 0 ||
	    system("python3 -c 'import zstandard' 2>/dev/null || zstd -V >/dev/null 2>&1") != 0) {
		puts("skipped: no python3, or neither its module zstandard nor the program zstd");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
