/* Texts that decide which devices and which group: /proc/devices, /proc/PID/cgroup, devices.list, and the drop-in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "sources/device_cgroup/device_int.h"

static void drivers_are_found(void **state)
{
	struct device_drivers d;

	device_parse_drivers("Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n195 "
			     "nvidiactl\n234 nvidia-nvswitch\n235 nvidia-nvlink\n236 nvidia-caps\n"
			     "511 nvidia-uvm\n510 xnvidia\n 9 nvidia bad\n9 nvidia/../x\n99999 "
			     "nvidia-big\n\nBlock devices:\n  8 nvidia-block\n",
			     &d);
	assert_int_equal(d.n, 7);
	assert_int_equal(d.driver[0].major, 195);
	assert_string_equal(d.driver[1].name, "nvidia-modeset");
	assert_true(device_is_major(&d, 511));
	assert_false(device_is_major(&d, 8));
	assert_false(device_is_major(&d, 9));
	device_parse_drivers("195 nvidia\n", &d); /* of no section */
	assert_int_equal(d.n, 0);
	device_parse_drivers("", &d);
	assert_int_equal(d.n, 0);
}

static void groups_are_found(void **state)
{
	static const char hybrid[] = "12:cpu,devices,x:/a:b\n5:mydevices:/no\n1:name=systemd:/s\n"
				     "0::/u\n";
	char path[64];

	assert_true(device_parse_cgroup(hybrid, DEVICE_V1, path, sizeof(path)));
	assert_string_equal(path, "/a:b");
	assert_true(device_parse_cgroup(hybrid, DEVICE_V2, path, sizeof(path)));
	assert_string_equal(path, "/u");
	assert_false(device_parse_cgroup("5:mydevices:/no\n00::/x\n10::/x\n", DEVICE_V1, path,
					 sizeof(path)));
	assert_false(device_parse_cgroup("5:mydevices:/no\n00::/x\n10::/x\n", DEVICE_V2, path,
					 sizeof(path)));
	assert_false(device_parse_cgroup("0::", DEVICE_V2, path, sizeof(path)));
	assert_false(device_parse_cgroup("0:", DEVICE_V2, path, sizeof(path)));
	assert_false(device_parse_cgroup("0::/too-long", DEVICE_V2, path, 10));
}

static void paths_are_joined(void **state)
{
	static const struct {
		const char *prefix, *path, *wanted; /* NULL: refused */
	} cases[] = {
		{"", "/", "/"},
		{"", "/a/b c", "/a/b c"},
		{"/k/own", "/", "/k/own"},
		{"/k/own", "/x", "/k/own/x"},
		{"/k/own", "/../other/x", "/k/other/x"},
		{"/k/own", "/../..", "/"},
		{"/k/own", "/../../../x", NULL},
		{"", "/..", NULL},
		{"", "/a/../../etc", NULL},
		{"", "/a/./b", NULL},
		{"", "/a//b", NULL},
		{"", "a", NULL},
		{"", "/a\nb", NULL},
		{"", "/a\033[2J", NULL},
		{"/k/own", "/..x", "/k/own/..x"},
	};
	char out[32];

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		int r = device_join_path(cases[i].prefix, cases[i].path, out, sizeof(out));

		assert_int_equal(r, cases[i].wanted ? 0 : -EINVAL);
		if (cases[i].wanted)
			assert_string_equal(out, cases[i].wanted);
	}
	assert_int_equal(device_join_path("", "/0123456789012345678901234567890", out, sizeof(out)),
			 -EINVAL);
}

static void lists_are_read(void **state)
{
	const struct device_rules rules = {2, {{195, DEVICE_ANY_MINOR}, {511, 0}}};
	bool all;

	assert_true(device_parse_list("a *:* rwm\n", &rules, &all));
	assert_true(all);
	assert_true(device_parse_list("c 195:* rw\nc 511:* rwm\n", &rules, &all));
	assert_false(all);
	assert_true(device_parse_list("c *:* rwm\n", &rules, &all));
	assert_false(all);
	assert_false(device_parse_list("c 195:0 rw\nc 511:0 rw\n", &rules, &all));
	assert_false(device_parse_list("c 195:* r\nc 511:0 rw\n", &rules, &all));
	assert_false(device_parse_list("b 195:* rw\nc 511:0 rw\n", &rules, &all));
	assert_false(device_parse_list("", &rules, &all));
}

static void rules_cover_each_other(void **state)
{
	struct device_rules some = {0}, whole = {0};
	char text[64];

	assert_true(device_add_rule(&some, 195, 0));
	assert_true(device_add_rule(&some, 195, 0));
	assert_true(device_add_rule(&some, 195, 255));
	assert_int_equal(some.n, 2);
	assert_true(device_add_rule(&whole, 195, DEVICE_ANY_MINOR));
	assert_true(device_add_rule(&whole, 195, 3));
	assert_int_equal(whole.n, 1);
	assert_true(device_covers_rules(&whole, &some));
	assert_false(device_covers_rules(&some, &whole));
	device_print_rules(&some, text, sizeof(text));
	assert_string_equal(text, "195:0 195:255");
	device_print_rules(&some, text, 8);
	assert_string_equal(text, "195:0 1");
}

static void units_are_found(void **state)
{
	static const struct {
		const char *cgroup, *unit; /* NULL: none */
	} cases[] = {
		{"/system.slice/docker-0123.scope", "docker-0123.scope"},
		{"/system.slice/a.service/sub/group", "a.service"},
		{"/kubepods.slice/kubepods-pod1.slice/cri-1.scope/init", "cri-1.scope"},
		{"/machine.slice/x@1.service/payload/system.slice/sshd.service", "x@1.service"},
		{"/user.slice/user-0.slice/session-1.scope", "session-1.scope"},
		{"/system.slice", "system.slice"},
		{"/system.slice/_cpu.service", "cpu.service"},
		{"/docker/0123", NULL},
		{"/", NULL},
		{"/system.slice/a b.service", NULL},
		{"/system.slice/.service", NULL},
		{"/system.slice/..scope", NULL},
		{"/x.mount", NULL},
	};
	char unit[64];

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		assert_int_equal(device_unit_of(cases[i].cgroup, unit, sizeof(unit)),
				 cases[i].unit != NULL);
		if (cases[i].unit)
			assert_string_equal(unit, cases[i].unit);
	}
	assert_false(device_unit_of("/system.slice/docker-0123.scope", unit, 16));
}

static void drop_in_has_each_driver(void **state)
{
	const struct device_rules rules = {
		3, {{195, DEVICE_ANY_MINOR}, {511, 0}, {7, DEVICE_ANY_MINOR}}};
	struct device_drivers drivers;
	char text[1024], cgroup[64];

	device_parse_drivers("Character devices:\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n",
			     &drivers);
	device_print_drop_in("a.service", "/x.slice/a.service", &rules, &drivers, text,
			     sizeof(text));
	assert_true(device_parse_drop_in(text, cgroup, sizeof(cgroup)));
	assert_string_equal(cgroup, "/x.slice/a.service");
	assert_false(device_parse_drop_in("# Control group: x\n", cgroup, sizeof(cgroup)));
	assert_false(device_parse_drop_in(text, cgroup, 5));
	assert_int_equal(device_unit_length("/x.slice/a.service/b/c", "a.service"), 18);
	assert_int_equal(device_unit_length("/x.slice/_cpu.service/b", "cpu.service"), 21);
	assert_non_null(strstr(text, "\n[Service]\n"
				     "DeviceAllow=char-nvidia rw\n"
				     "DeviceAllow=char-nvidiactl rw\n"
				     "DeviceAllow=/dev/char/511:0 rw\n"
				     "DeviceAllow=char-7 rw\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drivers_are_found),       cmocka_unit_test(groups_are_found),
		cmocka_unit_test(paths_are_joined),        cmocka_unit_test(lists_are_read),
		cmocka_unit_test(rules_cover_each_other),  cmocka_unit_test(units_are_found),
		cmocka_unit_test(drop_in_has_each_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
