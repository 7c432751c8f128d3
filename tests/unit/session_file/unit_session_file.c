/* Sessions as JSON: ours, gswarm-profiler's, and what is neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/session_file/session_file.h"

#define GPUS 8

/* What came, one by one. */
struct seen {
	size_t n, n_snapshots;
	char host[GPUS][GS_HOST_NAME_BYTES];
	int64_t wall_ns[GPUS];
	struct gs_gpu_info info[GPUS];
	struct gs_gpu_sample sample[GPUS];
	struct gs_host_sample machine[GPUS];
	struct gs_session_file_stats stats;
};

static int take(void *ctx, const struct gs_node_snapshot *node)
{
	struct seen *seen = ctx;

	seen->n_snapshots++;
	for (uint32_t i = 0; i < node->gpu->n_gpus && seen->n < GPUS; i++) {
		memcpy(seen->host[seen->n], node->name, sizeof(node->name));
		seen->wall_ns[seen->n] = node->wall_ns;
		seen->info[seen->n] = node->gpu->info[i];
		seen->sample[seen->n] = node->gpu->sample[i];
		seen->machine[seen->n++] = node->host->sample;
	}
	return 0;
}

static int read_text(struct seen *seen, const char *text, struct gs_err *err)
{
	GS_FCLOSE FILE *f = fmemopen((void *)text, strlen(text), "r");

	*seen = (struct seen){0};
	return gs_session_file_read(f, take, seen, &seen->stats, err);
}

static void assert_value(const struct seen *seen, size_t i, enum gs_gpu_field field, double wanted)
{
	double value = gs_gpu_value(&seen->sample[i], field);

	if (isnan(wanted) ? !isnan(value) : !(fabs(value - wanted) <= 1e-9 * fabs(wanted)))
		fail_msg("%zu: %s is %g, not %g", i, gs_gpu_field_info(field)->key, value, wanted);
}

/* Its rx is nvitop's tx; values of machines come in the order of the nodes. */
static void sessions_of_gswarm(void **state)
{
	static const char good[] =
		"{\"frames\":[{\"frame_id\":1,\"time\":\"2026-05-30T10:00:00.5+00:00\",\"gpu_id\":"
		"[\"h:0:NVIDIA "
		"A\",\"h2:1:B\"],\"gpu_util\":[\"0.25\",50],\"gpu_memory\":[\"0.5\",null],"
		"\"dram_bandwidth_rx\":[\"1024.00\",2],\"dram_bandwidth_tx\":[\"nan\",\"3\"],"
		"\"dram_util\":[\"12.50\",\"nan\"],\"disk_util\":[\"40.00\",\"140\"],"
		"\"extra_metrics\":[{\"power_usage\":250000,\"sm_clock\":1980,\"name\":\"x\","
		"\"unknown\":1},{\"temperature\":-400}]}],"
		"\"summary_by_device\":{}}";
	static const char *const bad[] = {
		"",
		"[",
		"{}",
		"{\"frames\":3}",
		"{\"frames\":[1]}",
		"{\"frames\":[{}]}",
		"{\"frames\":[{\"time\":\"yesterday\"}]}",
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00\",\"gpu_id\":[\"nocolon\"]}]}",
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00\",\"gpu_id\":[7]}]}",
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00+99:00\",\"gpu_id\":[]}]}",
	};
	struct gs_err err = {{0}};
	struct seen seen;

	if (read_text(&seen, good, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(seen.stats.n_foreign, 1);
	assert_int_equal(seen.stats.n_frames, 1);
	assert_int_equal(seen.stats.n_samples, 2);
	assert_int_equal(seen.n_snapshots, 2);
	assert_string_equal(seen.host[1], "h2");
	assert_int_equal(seen.info[1].index, 1);
	assert_string_equal(seen.info[0].name, "NVIDIA A");
	assert_int_equal(seen.wall_ns[0], 1780135200500000000ll);
	assert_value(&seen, 0, GS_GPU_UTIL, 0.25);
	assert_value(&seen, 1, GS_GPU_UTIL, 0.5);
	assert_value(&seen, 0, GS_GPU_MEM_USED_RATIO, 0.5);
	assert_value(&seen, 1, GS_GPU_MEM_USED_RATIO, NAN);
	assert_value(&seen, 0, GS_GPU_PCIE_TX_BPS, 1048576);
	assert_value(&seen, 0, GS_GPU_PCIE_RX_BPS, NAN);
	assert_value(&seen, 1, GS_GPU_PCIE_TX_BPS, 2e9);
	assert_value(&seen, 1, GS_GPU_PCIE_RX_BPS, 3072);
	assert_value(&seen, 0, GS_GPU_POWER, 250);
	assert_value(&seen, 0, GS_GPU_CLOCK_SM, 1.98e9);
	assert_value(&seen, 1, GS_GPU_TEMP_GPU, NAN); /* no GPU is so cold */
	assert_true(seen.machine[0].mem_used_ratio == 0.125);
	assert_true(seen.machine[0].root_used_ratio == 0.4);
	assert_true(seen.machine[1].mem_used_ratio == -1);
	assert_true(seen.machine[1].root_used_ratio == -1);
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		err.text[0] = 0;
		if (read_text(&seen, bad[i], &err) != -EBADMSG || !err.text[0])
			fail_msg("%s is taken", bad[i]);
	}
}

/* What our own exports have beside: NVLink, DRAM, power, who was away, and parts of a GPU. */
static void our_own_sessions(void **state)
{
	static const char text[] =
		"{ \"session_name\": \"a, \\\"b}\", \"metrics\": [\"x\", {\"y\": [1, 2]}], \"n\": "
		"-1.5e3, \"t\":true,\n\"frames\": [\n "
		"{\"time\":\"2026-05-30T10:00:00Z\",\"gpu_id\":["
		"\"h:0:A\",\"h:0:A MIG 1g.10gb/7\",\"h:0:A MIG 1g.10gb/8\",\"h:1:A\"],\"gpu_util\":"
		"[25,null,50,0],\"available\":[true,true,true,false],\"client_id\":[\"g\",\"h\"],\"dram_util\":[1,25],\"dram_bandwidth_rx\":[\"1\",null,null,null],\"nvlink_rx\":[1.5,null,null,"
		"null],"
		"\"nvlink_tx\":[\"1024\",null,null,null],\"dram_active\":[40,null,null,null],"
		"\"extra_metrics\":[{\"power_watts\":300,\"energy_joules\":5,\"x\":null},null,null,"
		"{}]},\n"
		"{\"time\":\"2026-05-30T10:00:01Z\",\"gpu_id\":[\"h:0:A\"],\"available\":[true],\"gpu_util\":[35]} ],"
		"\"account\": {\"frames\": []}, \"e\": 1 }\n";
	struct gs_err err = {{0}};
	char cut[sizeof(text)];
	struct seen seen;

	if (read_text(&seen, text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(seen.stats.n_foreign, 0);
	assert_int_equal(seen.n_snapshots, 2);
	assert_int_equal(seen.n, 4); /* one was not there */
	assert_int_equal(seen.stats.n_absent, 1);
	assert_value(&seen, 0, GS_GPU_NVLINK_RX_BPS, 1.5e9);
	assert_value(&seen, 0, GS_GPU_NVLINK_TX_BPS, 1048576);
	assert_value(&seen, 0, GS_GPU_PCIE_RX_BPS, 1024);
	assert_value(&seen, 0, GS_GPU_DRAM_ACTIVE, 0.4);
	assert_value(&seen, 0, GS_GPU_POWER, 300);
	assert_value(&seen, 0, GS_GPU_ENERGY, 5);
	assert_true(seen.machine[0].mem_used_ratio == 0.25);
	assert_false(seen.info[0].is_mig);
	assert_true(seen.info[1].is_mig && seen.info[2].is_mig);
	assert_int_equal(seen.info[1].gpu_instance, 7);
	assert_int_equal(seen.info[2].gpu_instance, 8);
	assert_string_equal(seen.info[1].uuid, "");
	assert_value(&seen, 2, GS_GPU_UTIL, 0.5);
	assert_value(&seen, 3, GS_GPU_UTIL, 0.35);
	/* Cut off anywhere it says so. */
	for (size_t n = 1; n + 2 < sizeof(text) - 1; n++) {
		memcpy(cut, text, n);
		cut[n] = 0;
		err.text[0] = 0;
		if (read_text(&seen, cut, &err) != -EBADMSG || !err.text[0])
			fail_msg("%zu bytes are taken", n);
	}
}

/* As its versions wrote them: summaries before the frames, the list in a list, zeros where nothing is counted. */
static void forms_of_gswarm(void **state)
{
	static const char text[] =
		"{\"summary_by_device\":{\"h:0:A\":{\"x\":[1]}},\"request_time_info\":{},\"frames\":[["
		"{\"time\":\"2026-05-30T10:00:00+0200\",\"gpu_id\":[\"h:0:A\"],\"dram_bandwidth_rx\":[\"0.00\"],"
		"\"dram_bandwidth_tx\":[\"0.00\"]},"
		"{\"time\":\"2026-05-30T10:00:01+0200\",\"gpu_id\":[\"h:0:A\"],\"dram_bandwidth_rx\":[\"0.00\"],"
		"\"dram_bandwidth_tx\":[\"2.00\"]}]]}";
	static const char *const bad[] = {
		"{\"frames\":[[],[]]}",
		"{\"frames\":[[]}",
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00+020\",\"gpu_id\":[]}]}",
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00 or so\",\"gpu_id\":[]}]}",
	};
	struct gs_err err = {{0}};
	struct seen seen;

	if (read_text(&seen, text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(seen.stats.n_frames, 2);
	assert_int_equal(seen.stats.n_foreign, 2);
	assert_int_equal(seen.wall_ns[0], 1780128000000000000ll);
	assert_value(&seen, 0, GS_GPU_PCIE_RX_BPS, NAN);
	assert_value(&seen, 1, GS_GPU_PCIE_RX_BPS, 2048);
	assert_value(&seen, 1, GS_GPU_PCIE_TX_BPS, 0);
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		if (read_text(&seen, bad[i], &err) != -EBADMSG)
			fail_msg("%s is taken", bad[i]);
}

#define LONG_NAME "a-machine-with-a-very-long-name-in-rack-42-unit-7-of-the-last-row-in-hall-b/m"

/* Nodes that share a host's name have their instance and machine in theirs. */
static void names_of_nodes(void **state)
{
	static const char text[] =
		"{\"session_name\":\"s\",\"frames\":[{\"time\":\"2026-05-30T10:00:00Z\",\"gpu_id\":["
		"\"h/a:1:0:A\",\"" LONG_NAME "1:2:A\",\"" LONG_NAME "2:3:A\"],"
		"\"client_id\":[\"other\",\"" LONG_NAME "2\",\"h/a:1\",\"" LONG_NAME "1\"],"
		"\"dram_util\":[\"1\",\"20\",\"30\",\"40\"]}]}";
	struct gs_err err = {{0}};
	struct seen seen;

	if (read_text(&seen, text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(seen.n_snapshots, 3);
	assert_string_equal(seen.host[0], "h/a:1");
	assert_string_equal(seen.info[0].name, "A");
	assert_int_equal(seen.info[0].index, 0);
	assert_string_not_equal(seen.host[1], seen.host[2]);
	assert_memory_equal(seen.host[1], LONG_NAME, 40);
	assert_int_equal(seen.info[2].index, 3);
	assert_true(seen.machine[0].mem_used_ratio == 0.3);
	assert_true(seen.machine[1].mem_used_ratio == 0.4);
	assert_true(seen.machine[2].mem_used_ratio == 0.2);
}

static bool is_one(const char *text)
{
	GS_FCLOSE FILE *f = fmemopen((void *)text, strlen(text), "r");
	bool one = gs_session_file_is_one(f);

	assert_int_equal(ftell(f), 0);
	return one;
}

static void by_the_first_keys(void **state)
{
	assert_true(is_one("{\n  \"frames\": ["));
	assert_true(is_one("{\"session_name\":\"a\""));
	assert_true(is_one("{\"summary_by_device\": {"));
	assert_true(is_one("{\"version\": 1, \"session_name\":\"a\""));
	assert_false(is_one("{\"version\": 1, \"jobs\": [], \"frames\": []}"));
	assert_false(is_one("{\"traceEvents\": []}"));
	assert_false(is_one("{\"frames"));
	assert_false(is_one("[{\"frames\": []}]"));
	assert_false(is_one("x"));
}

static int refuse(void *ctx, const struct gs_node_snapshot *node)
{
	return -ENOSPC;
}

/* Whoever takes the snapshots ends the reading. */
static void a_taker_that_fails(void **state)
{
	static const char text[] =
		"{\"frames\":[{\"time\":\"2026-05-30T10:00:00Z\",\"gpu_id\":[\"h:0:A\"]}]}";
	GS_FCLOSE FILE *f = fmemopen((void *)text, strlen(text), "r");
	struct gs_session_file_stats stats;
	struct gs_err err = {{0}};

	assert_int_equal(gs_session_file_read(f, refuse, NULL, &stats, &err), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_of_gswarm), cmocka_unit_test(our_own_sessions),
		cmocka_unit_test(forms_of_gswarm),    cmocka_unit_test(names_of_nodes),
		cmocka_unit_test(by_the_first_keys),  cmocka_unit_test(a_taker_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
