/* XIDs: read from the kernel's log, told by NVML, and one event when both report it. */
#include "gpu_test.h"

#include "core/base/clock.h"

static bool parse(const char *text, struct gs_gpu_event *e, uint64_t *ns)
{
	return gs_kmsg_parse(text, strlen(text), e, ns);
}

static void test_kmsg(void **state)
{
	struct gs_gpu_event e;
	uint64_t ns;

	assert_true(parse("4,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, "
			  "GPU has fallen off the bus.\n SUBSYSTEM=pci\n",
			  &e, &ns));
	assert_int_equal(e.xid, 79);
	assert_int_equal(e.source, GS_GPU_EVENT_KMSG);
	assert_string_equal(e.pci_bus_id, "00000000:3B:00.0");
	assert_string_equal(e.text, "pid=1234, name=python, GPU has fallen off the bus.");
	assert_int_equal(ns, 5678901000);
	assert_true(parse("3,1,2,-,caller=T1;NVRM: Xid (PCI:00000001:E1:00.1): 13\n", &e, &ns));
	assert_string_equal(e.pci_bus_id, "00000001:E1:00.1");
	assert_string_equal(e.text, "");
	assert_true(parse("6,1,2,-;NVRM: Xid (PCI:0000:01:00): 31, a\x1b[2Jb", &e, &ns));
	assert_string_equal(e.text, "a?[2Jb");

	assert_false(parse("", &e, &ns));
	assert_false(parse("4,1,2,-;usb 1-1: new device", &e, &ns));
	/* Facility 1: a program wrote it into the log, not the kernel. */
	/* Of a divided GPU. */
	assert_true(parse("3,1,2,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43, pid=7\n", &e, &ns));
	assert_string_equal(e.pci_bus_id, "00000000:3B:00.0");
	assert_false(parse("12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x", &e, &ns));
	assert_false(parse("4,1,2,-;NVRM: Xid (PCI:0000:3b): 79, x", &e, &ns));
	assert_false(parse("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): x", &e, &ns));
	assert_false(parse("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999, x", &e, &ns));
	assert_false(parse("4,1,18446744073709551615,-;NVRM: Xid (PCI:0000:3b:00): 79", &e, &ns));
}

static void test_bus_ids(void **state)
{
	char out[32];

	assert_true(gs_pci_bus_id("0000:3b:00", out));
	assert_string_equal(out, "00000000:3B:00.0");
	assert_true(gs_pci_bus_id("00000000:3B:00.0", out));
	assert_string_equal(out, "00000000:3B:00.0");
	assert_false(gs_pci_bus_id("", out));
	assert_false(gs_pci_bus_id("000000000:3B:00.0", out));
	assert_false(gs_pci_bus_id("0000:3b:20", out));
	assert_false(gs_pci_bus_id("0000:3b:000", out));
	assert_false(gs_pci_bus_id("0000:-b:00", out));
	assert_false(gs_pci_bus_id("0000: 3:00", out));
	assert_false(gs_pci_bus_id("0000:3b:00.", out));
	assert_false(gs_pci_bus_id("0000:3b:00.0.0", out));
	assert_false(gs_pci_bus_id("0000:3b:00 ", out));
}

static struct gs_gpu_event event(unsigned source, unsigned xid, uint64_t time_ns, const char *text)
{
	struct gs_gpu_event e = {.source = source, .xid = xid, .time_ns = time_ns};

	strcpy(e.pci_bus_id, "00000000:10:00.0");
	snprintf(e.text, sizeof(e.text), "%s", text);
	return e;
}

static void test_merge(void **state)
{
	const unsigned both = GS_GPU_EVENT_NVML | GS_GPU_EVENT_KMSG;
	struct gs_gpu_events *q = gs_gpu_events_new();
	struct gs_gpu_event out[GS_GPU_EVENTS_MAX], e;
	const uint64_t s = 1000000000;

	e = event(GS_GPU_EVENT_NVML, 31, 10 * s, "MMU fault");
	gs_gpu_events_add(q, &e);
	/* It waits for the other source ... */
	assert_int_equal(gs_gpu_events_take(q, both, 11 * s, out), 0);
	e = event(GS_GPU_EVENT_KMSG, 31, 10 * s - 1000, "pid=1, fault at 0x0");
	gs_gpu_events_add(q, &e);
	/* ... and comes once, with the kernel's words and the earlier time. */
	assert_int_equal(gs_gpu_events_take(q, both, 11 * s, out), 1);
	assert_int_equal(out[0].source, both);
	assert_string_equal(out[0].text, "pid=1, fault at 0x0");
	assert_int_equal(out[0].time_ns, 10 * s - 1000);
	assert_int_equal(gs_gpu_events_take(q, both, 99 * s, out), 0);
	/* One source alone: told when the other will not come any more. */
	gs_gpu_events_add(q, &e);
	assert_int_equal(gs_gpu_events_take(q, both, 11 * s, out), 0);
	assert_int_equal(gs_gpu_events_take(q, both, 12 * s, out), 1);
	/* Where there is only one source it is told at once. */
	gs_gpu_events_add(q, &e);
	assert_int_equal(gs_gpu_events_take(q, GS_GPU_EVENT_KMSG, 10 * s, out), 1);
	/* Twice by the same source, another XID, far apart: each its own. */
	gs_gpu_events_add(q, &e);
	gs_gpu_events_add(q, &e);
	e = event(GS_GPU_EVENT_NVML, 13, 10 * s, "");
	gs_gpu_events_add(q, &e);
	e = event(GS_GPU_EVENT_NVML, 31, 13 * s, "");
	gs_gpu_events_add(q, &e);
	assert_int_equal(gs_gpu_events_take(q, both, 99 * s, out), 4);
	/* What does not fit is counted. */
	for (unsigned i = 0; i < GS_GPU_EVENTS_MAX + 3; i++)
		gs_gpu_events_add(q, &e);
	assert_int_equal(q->lost, 3);
	gs_gpu_events_unref(&q);
	assert_null(q);
}

/* Through the whole reader: NVML's event, named by UUID, told once. */
static void test_nvml_event(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;
	unsigned n = 0;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	skip_one(gpu);
	pretend("gpus=2,xid=1:48:7");
	for (unsigned i = 0; i < 100000 && n == 0; i++) {
		s = read_one(gpu);
		n += s->n_events;
		if (s->n_events) {
			assert_int_equal(s->event[0].xid, 48);
			assert_int_equal(s->event[0].source, GS_GPU_EVENT_NVML);
			assert_string_equal(s->event[0].uuid,
					    "GPU-00000001-1111-2222-3333-444455556666");
			assert_string_equal(s->event[0].pci_bus_id, "00000000:11:00.0");
			assert_string_equal(s->event[0].text, "double-bit memory error");
		}
		gs_gpu_snapshot_free(&s);
		usleep(5000);
	}
	assert_int_equal(n, 1);
	usleep(400000);
	s = read_one(gpu);
	assert_int_equal(s->n_events, 0);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* The real log of this machine: only from now on, and only the kernel's own words. */
static void test_real_log(void **state)
{
	struct gs_gpu_events *q;
	struct gs_kmsg kmsg;
	FILE *f;

	if (gs_kmsg_open(&kmsg, "/dev/kmsg") < 0) {
		print_message("SKIP: /dev/kmsg cannot be read\n");
		skip();
	}
	q = gs_gpu_events_new();
	gs_kmsg_read(&kmsg, q);
	assert_int_equal(q->n, 0);
	f = fopen("/dev/kmsg", "we");
	if (f) {
		fputs("NVRM: Xid (PCI:0000:3b:00): 79, gpuscope test, not a fault\n", f);
		fclose(f);
	}
	gs_kmsg_read(&kmsg, q);
	assert_int_equal(q->n, 0);
	gs_kmsg_close(&kmsg);
	assert_int_equal(kmsg.fd, -1);
	gs_gpu_events_unref(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kmsg),     cmocka_unit_test(test_bus_ids),
		cmocka_unit_test(test_merge),    cmocka_unit_test(test_nvml_event),
		cmocka_unit_test(test_real_log),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
