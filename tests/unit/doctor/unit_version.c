/* Versions by names of files, and the faults of CUPTI's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/doctor/doctor_int.h"

static char root[] = "/tmp/unit-doctor-XXXXXX";

static const char *at_root(const char *path)
{
	static char full[512];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return full;
}

static void make_folders(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s/", root, path);
	for (char *p = full + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(full, 0700);
		*p = '/';
	}
}

static void test_names(void **state)
{
	struct doctor_version v;

	assert_true(doctor_version_of("/usr/lib/libnccl.so.2.27.5", "nvidia_nccl", &v));
	assert_int_equal(v.major, 2);
	assert_int_equal(v.minor, 27);
	assert_int_equal(v.update, 5);
	assert_false(doctor_version_of("/usr/lib/libnccl.so.2", "nvidia_nccl", &v));
	assert_false(doctor_version_of("libnccl.so", "nvidia_nccl", &v));
}

static void test_wheels(void **state)
{
	struct doctor_version v;
	char path[512];

	make_folders("a/site-packages/nvidia/nccl/lib");
	snprintf(path, sizeof(path), "%s", at_root("a/site-packages/nvidia/nccl/lib/libnccl.so.2"));
	assert_false(doctor_version_of(path, "nvidia_nccl", &v));
	make_folders("a/site-packages/nvidia_cuda_runtime_cu12-12.1.105.dist-info");
	make_folders("a/site-packages/nvidia_nccl_other-1.2.3.dist-info");
	assert_false(doctor_version_of(path, "nvidia_nccl", &v));
	make_folders("a/site-packages/nvidia_nccl_cu12-2.21.5.dist-info");
	assert_true(doctor_version_of(path, "nvidia_nccl", &v));
	assert_int_equal(v.minor, 21);
	assert_false(doctor_version_of(at_root("b/lib/libnccl.so.2"), "nvidia_nccl", &v));
}

static void test_code(void **state)
{
	/* cuptiGetVersion() of CUDA 13.0 (libcupti.so.13, 13.0.85), and what has no constant. */
	static const uint8_t real[] = {0x48, 0x85, 0xff, 0x74, 0x0b, 0xc7, 0x07,
				       0xd1, 0xfb, 0x01, 0x00, 0x31, 0xc0, 0xc3};
	static const uint8_t other[] = {0x31, 0xc0, 0xc3, 0xc7, 0x06, 1, 0, 0, 0, 0xc7, 0x07, 1, 0};
	uint32_t version = 0;

	assert_true(doctor_find_constant(real, sizeof(real), &version));
	assert_int_equal(version, 130001);
	assert_false(doctor_find_constant(other, sizeof(other), &version));
	assert_false(doctor_find_constant(real, 5, &version));
}

static void check_release(uint32_t version, int major, int minor, int update)
{
	struct doctor_version v = {0};

	assert_true(doctor_cupti_release(version, &v));
	assert_int_equal(v.major, major);
	assert_int_equal(v.minor, minor);
	assert_int_equal(v.update, update);
}

static void test_releases(void **state)
{
	struct doctor_version v;

	check_release(130001, 13, 0, 1);
	check_release(130401, 13, 4, 1);
	check_release(28, 12, 9, 1);
	check_release(26, 12, 8, -1);
	check_release(18, 11, 8, -1);
	assert_false(doctor_cupti_release(0, &v));
	assert_false(doctor_cupti_release(12, &v));
	assert_false(doctor_cupti_release(99999, &v));
	assert_false(doctor_cupti_release(UINT32_MAX, &v));
}

static void check_faults(int major, int minor, int update, unsigned wanted, const char *part)
{
	const struct doctor_version v = {major, minor, update};
	char text[1024];

	assert_int_equal(doctor_cupti_faults(&v, text, sizeof(text)), wanted);
	if (part)
		assert_non_null(strstr(text, part));
	else
		assert_string_equal(text, "");
}

static void test_faults(void **state)
{
	const struct doctor_version old = {12, 4, 0};
	char text[64], longer[100];

	check_faults(13, 4, 1, 0, NULL);
	check_faults(
		13, 4, 0, 3,
		"stale names of kernels after a module is loaded again (fixed in CUDA 13.4.1)");
	/* Of which update it is, is not known: it may be the first. */
	check_faults(13, 4, -1, 3, "stale names");
	check_faults(13, 4, 0, 3, "a deadlock with latency timestamps of kernels");
	check_faults(13, 0, 0, 8, "cuptiActivityFlushAll() can crash (fixed in CUDA 13.0.1)");
	check_faults(13, 0, 0, 8,
		     "a deadlock when kernel records are switched off (fixed in CUDA 13.0.1)");
	check_faults(13, 0, 1, 6, "kernels may have no times");
	check_faults(12, 6, 1, 7, "a crash where no buffer is to be had");
	/* What does not fit is left out whole, and counted. */
	assert_int_equal(doctor_cupti_faults(&old, text, sizeof(text)), 9);
	assert_string_equal(text, "9 more");
	assert_int_equal(doctor_cupti_faults(&old, longer, sizeof(longer)), 9);
	assert_string_equal(
		longer,
		"cuptiFinalize() can crash with CUDA graphs (fixed in CUDA 12.4.1); 8 more");
}

static void check_fit(int cupti_major, int cupti_minor, int driver_major, int driver_minor,
		      bool fits)
{
	const struct doctor_version cupti = {cupti_major, cupti_minor, -1};
	const struct doctor_version driver = {driver_major, driver_minor, -1};

	assert_int_equal(doctor_cupti_fits(&cupti, &driver), fits);
}

static void test_fit(void **state)
{
	check_fit(13, 0, 12, 8, false);
	check_fit(13, 0, 13, 0, true);
	check_fit(12, 8, 13, 0, true);
	/* Of one major version each goes with each. */
	check_fit(12, 8, 12, 2, true);
}

static int make_root(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),  cmocka_unit_test(test_wheels),
		cmocka_unit_test(test_code),   cmocka_unit_test(test_releases),
		cmocka_unit_test(test_faults), cmocka_unit_test(test_fit),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
