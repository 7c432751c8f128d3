#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "output/metrics/metrics.h"

static char text[1 << 20];

static const char *end(struct gs_metrics *p)
{
	assert_int_equal(gs_metrics_end(p), 0);
	assert_true(p->out->bytes < sizeof(text));
	memcpy(text, p->out->data ? (char *)p->out->data : "", p->out->bytes);
	text[p->out->bytes] = '\0';
	gs_buf_fini(p->out);
	return text;
}

static void write_some(struct gs_metrics *p)
{
	struct gs_metrics_label odd[] = {
		{"a", "q\"b\\n\n\x01"}, {"none", ""}, {"null", NULL}, {"bytes", "\xff\xc3\xa4"}};

	gs_metrics_family(p, "m_bytes", GS_METRICS_COUNTER, "bytes", "A \"help\"\\\nof two lines.");
	gs_metrics_line(p, "", NULL, 0, 12345678901234567.0, 0);
	gs_metrics_line(p,
			"x\0"
			"1\0",
			odd, 4, 0.1, 1500);
	gs_metrics_family(p, "empty", GS_METRICS_GAUGE, "", "Without a line there is no heading.");
	gs_metrics_line(p, "", NULL, 0, NAN, 0);
	gs_metrics_line(p, "", NULL, 0, INFINITY, 0);
	gs_metrics_family(p, "who", GS_METRICS_INFO, "", "I.");
	gs_metrics_line(p, "", NULL, 0, 1, 0);
	gs_metrics_family(p, "OLD", GS_METRICS_BARE, "", "O.");
	gs_metrics_line(p, "", NULL, 0, -3, 0);
}

static void the_older_text(void **state)
{
	struct gs_buf out = GS_BUF_INIT(1 << 16);
	struct gs_metrics p;

	gs_metrics_init(&p, &out, false);
	write_some(&p);
	assert_string_equal(end(&p), "# HELP m_bytes_total A \"help\"\\\\\\nof two lines.\n"
				     "# TYPE m_bytes_total counter\n"
				     "m_bytes_total 12345678901234568\n"
				     "m_bytes_total{x=\"1\",a=\"q\\\"b\\\\n\\n?\",bytes="
				     "\"\xef\xbf\xbd\xc3\xa4\"} 0.1 1500\n"
				     "# HELP who_info I.\n# TYPE who_info gauge\nwho_info 1\n"
				     "# HELP OLD O.\n# TYPE OLD counter\nOLD -3\n");
}

static void open_metrics(void **state)
{
	struct gs_buf out = GS_BUF_INIT(1 << 16);
	struct gs_metrics p;

	gs_metrics_init(&p, &out, true);
	write_some(&p);
	assert_string_equal(end(&p), "# HELP m_bytes A \\\"help\\\"\\\\\\nof two lines.\n"
				     "# TYPE m_bytes counter\n"
				     "# UNIT m_bytes bytes\n"
				     "m_bytes_total 12345678901234568\n"
				     "m_bytes_total{x=\"1\",a=\"q\\\"b\\\\n\\n?\",bytes="
				     "\"\xef\xbf\xbd\xc3\xa4\"} 0.1 1.500\n"
				     "# HELP who I.\n# TYPE who info\nwho_info 1\n"
				     "# HELP OLD O.\n# TYPE OLD unknown\nOLD -3\n"
				     "# EOF\n");
}

static void accept_decides(void **state)
{
	assert_false(gs_metrics_accepts_openmetrics(NULL));
	assert_false(gs_metrics_accepts_openmetrics("*/*"));
	assert_false(gs_metrics_accepts_openmetrics("text/plain"));
	assert_true(gs_metrics_accepts_openmetrics("application/openmetrics-text"));
	assert_true(
		gs_metrics_accepts_openmetrics("application/openmetrics-text;version=1.0.0,text/"
					       "plain;version=0.0.4;q=0.5,*/*;q=0.1"));
	assert_false(gs_metrics_accepts_openmetrics(
		"application/openmetrics-text; q=0.3, text/plain;version=0.0.4;q=0.5"));
	assert_false(gs_metrics_accepts_openmetrics("application/openmetrics-text;q=0"));
}

/* --- snapshots by formula --- */

#define N 3

static struct gs_gpu_info info[N];
static struct gs_gpu_sample sample[N];
static struct gs_gpu_process process[4];
static struct gs_gpu_snapshot snapshot;
static struct gs_metrics_xid xids[] = {
	{.uuid = "GPU-1", .pci_bus_id = "B1", .xid = 79, .count = 2, .time_ns = 5},
	{.uuid = "GPU-1", .pci_bus_id = "B1", .xid = 31, .count = 1, .time_ns = 9},
	{.uuid = "GPU-gone", .pci_bus_id = "B9", .xid = 62, .count = 4}};

static int fill(void **state)
{
	memset(info, 0, sizeof(info));
	memset(sample, 0, sizeof(sample));
	memset(process, 0, sizeof(process));
	for (unsigned i = 0; i < N; i++) {
		info[i].index = i == 2 ? 1 : i;
		info[i].vendor = GS_GPU_VENDOR_NVIDIA;
		info[i].minor = (int)i + 4;
		info[i].numa_node = info[i].compute_major = info[i].compute_minor = -1;
		info[i].gpu_instance = info[i].compute_instance = -1;
		snprintf(info[i].uuid, sizeof(info[i].uuid), "GPU-%u", i);
		snprintf(info[i].pci_bus_id, sizeof(info[i].pci_bus_id), "B%u", i);
		strcpy(info[i].name, "Board \"X\"");
		strcpy(info[i].driver_version, "5.1");
		sample[i].time_ns = 2000000000;
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
			gs_gpu_set(&sample[i], f, f + i / 8.0);
	}
	/* The third is a part of the second. */
	info[2].is_mig = 1;
	info[2].gpu_instance = 7;
	strcpy(info[2].mig_profile, "1g.10gb");
	strcpy(info[2].pci_bus_id, "B1");
	sample[0].n_links = 2;
	sample[0].link[1] = (struct gs_gpu_link){.present = 1,
						 .up = 1,
						 .have_bytes = 1,
						 .have_errors = 1,
						 .tx_bytes = 5,
						 .rx_bytes = 6,
						 .crc_errors = 1,
						 .replay_errors = 2,
						 .recovery_errors = 3};
	for (unsigned i = 0; i < 4; i++)
		process[i] = (struct gs_gpu_process){.gpu = i == 3 ? 1 : 0,
						     .pid = 100 + i,
						     .used_bytes = i * 10,
						     .sm_ratio = 0.25,
						     .mem_ratio = -1,
						     .enc_ratio = -1,
						     .dec_ratio = -1,
						     .jpg_ratio = -1,
						     .ofa_ratio = 0};
	snapshot = (struct gs_gpu_snapshot){.time_ns = 3000000000,
					    .wall_ns = 1700000001250000000,
					    .info = info,
					    .sample = sample,
					    .n_gpus = N,
					    .process = process,
					    .n_processes = 4};
	return 0;
}

static struct gs_metrics_gpu_options options = {.size = sizeof(options),
						.hostname = "h",
						.links = true,
						.processes = true,
						.max_processes = 100};

static const char *render(const struct gs_metrics_gpu_options *o, unsigned *ret_dropped)
{
	struct gs_buf out = GS_BUF_INIT(1 << 20);
	struct gs_metrics p;

	gs_metrics_init(&p, &out, false);
	gs_metrics_gpu(&p, &snapshot, xids, GS_ARRAY_LEN(xids), o, ret_dropped);
	return end(&p);
}

static void has(const char *all, const char *line)
{
	const char *found = strstr(all, line);

	if (!found || (found != all && found[-1] != '\n') || found[strlen(line)] != '\n')
		fail_msg("no line %s", line);
}

static void has_not(const char *all, const char *piece)
{
	if (strstr(all, piece))
		fail_msg("there is %s", piece);
}

static void every_field_has_its_line(void **state)
{
	unsigned dropped;
	const char *all = render(&options, &dropped);

	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
		const struct gs_gpu_field_info *i = gs_gpu_field_info(f);
		char line[256], label[96] = "";

		if (i->label[0])
			snprintf(label, sizeof(label), ",%s=\"%s\"", i->label, i->label_value);
		snprintf(line, sizeof(line),
			 "gpuscope_%s%s{gpu=\"1\",uuid=\"GPU-1\",pci_bus_id=\"B1\"%s} %.10g",
			 i->family, i->counter ? "_total" : "", label, f + 0.125);
		has(all, line);
	}
	has(all, "gpuscope_gpu_utilization_ratio{gpu=\"1\",uuid=\"GPU-2\",pci_bus_id=\"B1\",gpu_"
		 "instance=\"7\","
		 "mig_profile=\"1g.10gb\"} 0.25");
	has(all,
	    "gpuscope_gpu_info{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\",name=\"Board \\\"X\\\"\","
	    "vendor=\"nvidia\",driver_version=\"5.1\",device=\"nvidia4\"} 1");
	has(all, "gpuscope_gpu_sample_timestamp_seconds{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\"}"
		 " 1700000000.25");
	has(all,
	    "gpuscope_gpu_nvlink_link_up{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\",link=\"1\"} 1");
	has(all, "gpuscope_gpu_nvlink_link_bytes_total{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\","
		 "link=\"1\","
		 "direction=\"rx\"} 6");
	has(all, "gpuscope_gpu_nvlink_link_errors_total{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\","
		 "link=\"1\","
		 "kind=\"recovery\"} 3");
	has(all, "gpuscope_gpu_xid_errors_total{gpu=\"1\",uuid=\"GPU-1\",pci_bus_id=\"B1\",xid="
		 "\"79\"} 2");
	has(all, "gpuscope_gpu_xid_errors_total{uuid=\"GPU-gone\",pci_bus_id=\"B9\",xid=\"62\"} 4");
	has_not(all, "link=\"0\"");
	assert_int_equal(dropped, 0);
}

static void one_heading_each(const char *all)
{
	for (const char *line = all; (line = strstr(line, "# TYPE ")); line++) {
		char name[128], heading[160];

		assert_int_equal(sscanf(line, "# TYPE %127s", name), 1);
		snprintf(heading, sizeof(heading), "# TYPE %s ", name);
		assert_null(strstr(line + 1, heading));
	}
}

/* Each family stands in one place, under one heading: what parsers insist on. */
static void families_stand_together(void **state)
{
	unsigned dropped;

	one_heading_each(render(&options, &dropped));
}

static void what_is_not_there_has_no_line(void **state)
{
	struct gs_metrics_gpu_options o = options;
	unsigned dropped;
	const char *all;

	sample[0].why[GS_GPU_FAN] = GS_GPU_REASON_NOT_SUPPORTED;
	sample[0].why[GS_GPU_POWER] = GS_GPU_REASON_FAILED;
	sample[1].lost = 1;
	o.links = o.processes = false;
	all = render(&o, &dropped);
	has_not(all, "gpuscope_gpu_fan_ratio{gpu=\"0\"");
	has_not(all, "uuid=\"GPU-0\",pci_bus_id=\"B0\",kind=\"average\"");
	has_not(all, "gpuscope_gpu_fan_ratio{gpu=\"1\",uuid=\"GPU-1\"");
	has(all, "gpuscope_gpu_lost{gpu=\"1\",uuid=\"GPU-1\",pci_bus_id=\"B1\"} 1");
	has(all, "gpuscope_gpu_values_unavailable{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\","
		 "reason=\"failed\"} 1");
	has_not(all, "nvlink_link_");
	has_not(all, "gpuscope_gpu_process_");
	snapshot.state = GS_GPU_STATE_RELEASED;
	all = render(&options, &dropped);
	has_not(all, "gpuscope_gpu_fan_ratio");
	has(all, "gpuscope_driver_state{state=\"released\"} 1");
}

static void processes_are_bounded_and_once(void **state)
{
	struct gs_metrics_gpu_options o = options;
	unsigned dropped;
	const char *all;

	process[1].pid = 100; /* the same process as the first, again */
	process[2].used_bytes = -1;
	strcpy(process[3].comm, "a\"\xff");
	strcpy(process[3].user, "eve");
	strcpy(process[3].container, "docker:abc");
	all = render(&o, &dropped);
	has(all, "gpuscope_gpu_processes{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\"} 2");
	has(all, "gpuscope_gpu_process_memory_used_bytes{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id="
		 "\"B0\",pid=\"100\"} 0");
	has(all, "gpuscope_gpu_process_memory_used_bytes{gpu=\"1\",uuid=\"GPU-1\",pci_bus_id="
		 "\"B1\",pid=\"103\","
		 "comm=\"a\\\"\xef\xbf\xbd\",user=\"eve\",container=\"docker:abc\"} 30");
	has_not(all, "used_bytes{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\",pid=\"102\"");
	has(all, "gpuscope_gpu_process_utilization_ratio{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id="
		 "\"B0\",pid=\"102\","
		 "engine=\"ofa\"} 0");
	has_not(all, "engine=\"memory\"");
	o.max_processes = 1;
	all = render(&o, &dropped);
	assert_int_equal(dropped, 2);
	has_not(all, "pid=\"100\"");
	has(all, "gpuscope_gpu_processes{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\"} 2");
}

static void names_of_dcgm(void **state)
{
	struct gs_metrics_gpu_options o = options;
	unsigned dropped;
	const char *all;

	gs_gpu_set(&sample[0], GS_GPU_UTIL, 0.29);
	gs_gpu_set(&sample[0], GS_GPU_MEM_USED, 3.0 * 1048576 + 1);
	gs_gpu_set(&sample[0], GS_GPU_ENERGY, 1.5);
	gs_gpu_set(&sample[0], GS_GPU_CLOCK_SM, 1980e6);
	sample[0].why[GS_GPU_FAN] = GS_GPU_REASON_NOT_SUPPORTED;
	o.names = GS_METRICS_DCGM;
	all = render(&o, &dropped);
#define OLD                                                                                        \
	"{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"B0\",device=\"nvidia4\",modelName=\"Board "        \
	"\\\"X\\\"\",Hostname=\"h\",DCGM_FI_DRIVER_VERSION=\"5.1\"}"
	has(all, "DCGM_FI_DEV_GPU_UTIL" OLD " 29");
	has(all, "DCGM_FI_DEV_FB_USED" OLD " 3");
	has(all, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" OLD " 1500");
	has(all, "DCGM_FI_DEV_SM_CLOCK" OLD " 1980");
	has(all, "DCGM_FI_DEV_XID_ERRORS" OLD " 0");
	has(all, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter");
	has_not(all, "FAN_SPEED" OLD);
	/* Bytes a second of both directions, as DCGM counts MB. */
	gs_gpu_set(&sample[0], GS_GPU_NVLINK_TX_BPS, 2048e6);
	gs_gpu_set(&sample[0], GS_GPU_NVLINK_RX_BPS, 1024e6);
	sample[1].why[GS_GPU_NVLINK_RX_BPS] = GS_GPU_REASON_NOT_SUPPORTED;
	all = render(&o, &dropped);
	has(all, "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL gauge");
	has(all, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" OLD " 3000");
	has_not(all, "NVLINK_BANDWIDTH_TOTAL{gpu=\"1\",UUID=\"GPU-1\",pci_bus_id=\"B1\",device="
		     "\"nvidia5\"");
	/* Natively what alert rules ask for, and no more. */
	has(all, "gpuscope_gpu_lost{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\"} 0");
	has_not(all, "gpuscope_gpu_power_watts");
	has_not(all, "gpuscope_gpu_info");
	has_not(all, "gpuscope_gpu_nvlink_link_");
	has_not(all, "gpuscope_gpu_process_");
	/* The newest, and a part under its GPU's UUID. */
	has(all,
	    "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-1\",pci_bus_id=\"B1\",device=\"nvidia5\","
	    "modelName=\"Board \\\"X\\\"\",Hostname=\"h\",DCGM_FI_DRIVER_VERSION=\"5.1\"} 31");
	has(all, "DCGM_FI_PROF_SM_ACTIVE{gpu=\"1\",UUID=\"GPU-1\",pci_bus_id=\"B1\",device="
		 "\"nvidia6\",modelName=\"Board "
		 "\\\"X\\\"\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"7\",Hostname=\"h\",DCGM_FI_"
		 "DRIVER_VERSION=\"5.1\"} 57.25");
	o.names = GS_METRICS_DCGM_NEW;
	all = render(&o, &dropped);
#define NEW                                                                                        \
	"{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"B0\",device=\"nvidia4\",modelName=\"Board "        \
	"\\\"X\\\"\",hostname=\"h\",DCGM_FI_DRIVER_VERSION=\"5.1\"}"
	has(all, "DCGM_FI_DEV_GPU_UTIL_RATIO" NEW " 0.29");
	has(all, "DCGM_FI_DEV_FB_USED_BYTES" NEW " 3145729");
	has(all, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL" NEW " 1.5");
	has(all, "DCGM_FI_DEV_SM_CLOCK_HERTZ" NEW " 1980000000");
	has(all, "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL" NEW " 3072000000");
	has_not(all, "DCGM_FI_DEV_GPU_UTIL{");
}

static void several_names(void **state)
{
	struct gs_metrics_gpu_options o = options;
	unsigned dropped;
	const char *all;

	o.names = GS_METRICS_NATIVE | GS_METRICS_DCGM | GS_METRICS_DCGM_NEW;
	all = render(&o, &dropped);
	has(all, "gpuscope_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-0\",pci_bus_id=\"B0\"} 0");
	has(all, "DCGM_FI_DEV_GPU_UTIL" OLD " 0");
	has(all, "DCGM_FI_DEV_GPU_UTIL_RATIO" NEW " 0");
	/* Of the same name in both sets. */
	has_not(all, "DCGM_FI_DEV_ECC_MODE" NEW);
	one_heading_each(all);
	o.names = GS_METRICS_DCGM | GS_METRICS_DCGM_NEW;
	one_heading_each(render(&o, &dropped));
	assert_int_equal(gs_metrics_names_parse("native"), GS_METRICS_NATIVE);
	assert_int_equal(gs_metrics_names_parse("dcgm-new,native"),
			 GS_METRICS_NATIVE | GS_METRICS_DCGM_NEW);
	assert_int_equal(gs_metrics_names_parse("dcgm,"), 0);
	assert_int_equal(gs_metrics_names_parse("native,dcg"), 0);
	assert_int_equal(gs_metrics_names_parse(""), 0);
}

static void nothing_was_read_yet(void **state)
{
	struct gs_buf out = GS_BUF_INIT(1 << 16);
	struct gs_metrics p;
	unsigned dropped;

	gs_metrics_init(&p, &out, true);
	gs_metrics_gpu(&p, NULL, NULL, 0, &options, &dropped);
	assert_string_equal(end(&p), "# EOF\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_older_text),
		cmocka_unit_test(open_metrics),
		cmocka_unit_test(accept_decides),
		cmocka_unit_test_setup(every_field_has_its_line, fill),
		cmocka_unit_test_setup(families_stand_together, fill),
		cmocka_unit_test_setup(what_is_not_there_has_no_line, fill),
		cmocka_unit_test_setup(processes_are_bounded_and_once, fill),
		cmocka_unit_test_setup(names_of_dcgm, fill),
		cmocka_unit_test_setup(several_names, fill),
		cmocka_unit_test(nothing_was_read_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
