/* What decides about devices: programs as the kernel shows them, /proc/devices, /proc/PID/cgroup, devices.list. The first
 * byte says which. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/device_cgroup/device_int.h"
#include "replay_main.h"

static const struct device_rules rules = {2, {{195, DEVICE_ANY_MINOR}, {511, 0}}};

static void fuzz_program(const uint8_t *data, size_t bytes)
{
	size_t n = bytes / sizeof(struct bpf_insn), n_head;
	struct bpf_insn *insns = calloc(n + DEVICE_HEAD_MAX, sizeof(*insns));
	uint32_t steps = 10000;
	struct device_rules read;
	const char *why;

	if (!insns)
		return;
	if (n)
		memcpy(insns + DEVICE_HEAD_MAX, data, n * sizeof(*insns));
	(void)device_program_decide(insns + DEVICE_HEAD_MAX, n, 6u << 16 | 2, 195, 0, &steps);
	if (device_program_normalize(insns + DEVICE_HEAD_MAX, &n, &why) == 0 && n) {
		struct bpf_insn head[DEVICE_HEAD_MAX];

		(void)device_program_read_head(insns + DEVICE_HEAD_MAX, n, &read);
		n_head = device_program_write_head(&rules, head);
		memcpy(insns + DEVICE_HEAD_MAX - n_head, head, n_head * sizeof(head[0]));
		assert(device_program_read_head(insns + DEVICE_HEAD_MAX - n_head, n + n_head,
						&read) == n_head);
		assert(device_program_allows(insns + DEVICE_HEAD_MAX - n_head, n + n_head, &rules,
					     NULL) == 1);
		/* Once more changes nothing. */
		n_head = n;
		assert(device_program_normalize(insns + DEVICE_HEAD_MAX, &n, &why) == 0 &&
		       n == n_head);
	}
	free(insns);
}

static void fuzz_text(const char *text, uint8_t which)
{
	char path[256], joined[256], unit[64], drop_in[512];
	struct device_drivers drivers;
	bool all;

	if (which == 1) {
		device_parse_drivers(text, &drivers);
		assert(drivers.n <= DEVICE_RULES_MAX);
		device_print_drop_in("a.scope", "/a.scope", &rules, &drivers, drop_in,
				     sizeof(drop_in));
		assert(memchr(drop_in, '\0', sizeof(drop_in)));
	} else if (which == 2) {
		(void)device_parse_list(text, &rules, &all);
		(void)device_parse_drop_in(text, path, sizeof(path));
	} else if (device_parse_cgroup(text, which & 1 ? DEVICE_V1 : DEVICE_V2, path,
				       sizeof(path)) &&
		   device_join_path("/own/group", path, joined, sizeof(joined)) == 0) {
		assert(joined[0] == '/' && !strstr(joined, "/../"));
		if (device_unit_of(joined, unit, sizeof(unit)))
			assert(!strchr(unit, '/') && unit[0]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text;

	if (!bytes)
		return 0;
	if (data[0] == '0') {
		fuzz_program(data + 1, bytes - 1);
		return 0;
	}
	text = malloc(bytes);
	if (!text)
		return 0;
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = '\0';
	fuzz_text(text, data[0] - '0');
	free(text);
	return 0;
}
