/* Texts of /proc and of cgroups that the rooms of the host read. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/host/host_int.h"
#include "sources/host/pressure.h"
#include "sources/host/wait.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_host_counters counters = {0};
	struct gs_host_sample sample = {0};
	struct host_syscall call;
	struct gs_host_stat stat;
	char *text = malloc(bytes + 1), path[32];
	int32_t n_cpus = 0;

	if (!text)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (gs_host_parse_stat(text, bytes, &stat))
		assert(memchr(stat.comm, '\0', sizeof(stat.comm)));
	gs_host_parse_cpu(text, &counters, &n_cpus);
	gs_host_parse_meminfo(text, &sample);
	gs_host_parse_loadavg(text, &sample);
	gs_host_parse_diskstats(text, &counters);
	gs_host_parse_net_dev(text, &counters);
	if (gs_host_parse_syscall(text, &call) == 1)
		assert(call.nr >= -1);
	assert(gs_host_wait_of_link(text) < GS_TIME_COUNT);
	assert(gs_host_parse_stalls(text, "some") >= -1);
	assert(gs_host_parse_stalls(text, "full") >= -1);
	if (gs_host_parse_cgroup(text, "", path, sizeof(path)))
		assert(memchr(path, '\0', sizeof(path)));
	if (gs_host_parse_cgroup(text, "memory", path, sizeof(path)))
		assert(memchr(path, '\0', sizeof(path)));
	free(text);
	return 0;
}
