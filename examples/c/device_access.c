/*
 * Shows whether the control group of a process allows NVIDIA's devices, grants lasting access to them, or undoes that.
 *
 *     cc device_access.c $(pkg-config --cflags --libs libgpuscope) -o device_access
 *     ./device_access check|grant|revoke PID [HOST_ROOT]
 *
 * It needs the rights that gpuscope-devices(8) lists. Exit status: 0 the devices can be used, or the grant is undone; 1 they cannot; 2 failed.
 */
#include <gpuscope/gpuscope.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct gs_devices_options options = {sizeof(options), 0, 0, NULL};
	struct gs_devices_result result = {sizeof(result), NULL, NULL, NULL, 0, 0, "", ""};
	unsigned pid;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: device_access check|grant|revoke PID [HOST_ROOT]\n");
		return 2;
	}
	pid = (unsigned)strtoul(argv[2], NULL, 10);
	options.host_root = argv[3];
	if (strcmp(argv[1], "grant") == 0)
		r = gs_devices_grant(pid, &options, &result);
	else if (strcmp(argv[1], "revoke") == 0)
		r = gs_devices_revoke(pid, &options, &result);
	else
		r = gs_devices_check(pid, &options, &result);
	printf("v1=%s v2=%s drop_in=%s changes=%u devices=%s\n", result.cgroup_v1, result.cgroup_v2,
	       result.drop_in, result.n_changes, result.devices);
	if (result.reason[0])
		fprintf(stderr, "device_access: %s\n", result.reason);
	return r < 0 ? 2 : result.is_open || strcmp(argv[1], "revoke") == 0 ? 0 : 1;
}
