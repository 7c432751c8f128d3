/*
 * What kernels of a file need: this program has a fat binary of five architectures in it, as nvcc puts it there.
 * And which of them a device runs, by a folder that looks like that of PCI devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/cubin/device.h"
#include "sources/cubin/needs.h"

__asm__(".pushsection .nv_fatbin, \"a\"\n.balign 8\n.incbin \"" FIXTURES
	"/zstd.fatbin\"\n.popsection");

static struct gs_cubin_wanted find(uint32_t sm, const char *name)
{
	struct gs_cubin_wanted wanted[2] = {{.name = name}, {.name = "none"}};
	struct gs_fatbin_counts counts = {0};
	struct gs_elf *elf = NULL;

	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_cubin_find_needs(elf, sm, wanted, 2, &counts), 0);
	assert_int_equal(counts.n_bad + counts.n_too_large, 0);
	assert_false(wanted[1].found);
	gs_elf_close(&elf);
	return wanted[0];
}

/* fixtures/usage.txt: 64 registers on sm_75, 40 on 80 and 100, 32 on 90, 48 on 120. */
static void code_of_the_device_is_taken(void **state)
{
	struct gs_cubin_wanted w = find(90, "stacked");

	assert_true(w.found);
	assert_int_equal(w.kernel.sm, 90);
	assert_int_equal(w.kernel.registers, 32);
	assert_int_equal(w.kernel.local_bytes, 160);
	/* Newer devices of the generation run it; those of others do not. */
	w = find(86, "stacked");
	assert_true(w.found);
	assert_int_equal(w.kernel.sm, 80);
	assert_int_equal(w.kernel.registers, 40);
	assert_false(find(70, "stacked").found);
	assert_int_equal(find(121, "stacked").kernel.registers, 48);
}

static void an_unknown_device_has_what_all_have(void **state)
{
	struct gs_cubin_wanted w = find(0, "_ZN3app5scaleEPfi");

	assert_true(w.found && !w.differs);
	assert_int_equal(w.kernel.registers, 8);
	assert_int_equal(w.kernel.shared_bytes, 512);
	assert_true(find(0, "stacked").differs);
}

static void put_file(const char *folder, const char *device, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, device);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", folder, device, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_device(const char *folder, const char *device, const char *vendor,
		       const char *class, const char *number)
{
	put_file(folder, device, "vendor", vendor);
	put_file(folder, device, "class", class);
	put_file(folder, device, "device", number);
}

static void devices_are_known_by_their_numbers(void **state)
{
	char folder[] = "/tmp/unit_needs_XXXXXX", command[64];

	assert_non_null(mkdtemp(folder));
	assert_int_equal(gs_cubin_device_sm(folder), 0);
	put_device(folder, "0000:00:1f.0", "0x8086\n", "0x060100\n", "0x2330\n");
	put_device(folder, "0000:13:00.0", "0x10de\n", "0x030200\n", "0x2330\n"); /* H100 */
	put_device(folder, "0000:14:00.0", "0x10de\n", "0x068000\n", "0x22a3\n"); /* NVSwitch */
	assert_int_equal(gs_cubin_device_sm(folder), 90);
	put_device(folder, "0000:15:00.0", "0x10de\n", "0x030200\n", "0x20b2\n"); /* A100 */
	assert_int_equal(gs_cubin_device_sm(folder), 0);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	assert_int_equal(gs_cubin_device_sm(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_of_the_device_is_taken),
		cmocka_unit_test(an_unknown_device_has_what_all_have),
		cmocka_unit_test(devices_are_known_by_their_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
