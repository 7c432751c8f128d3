/* Lasting access of control groups to NVIDIA's devices. */
#include "library/gpuscope/library_int.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "sources/device_cgroup/device_cgroup.h"

#define KNOWN_FLAGS (GS_DEVICES_HELD | GS_DEVICES_ANCESTORS | GS_DEVICES_NO_DROP_IN)

typedef int (*devices_action)(int pid, const struct gs_device_options *options,
			      struct gs_device_result *ret_result, struct gs_err *err);

static int take_options(const struct gs_devices_options *given,
			struct gs_device_options *ret_options, struct gs_err *err)
{
	struct gs_devices_options o = {.size = sizeof(o)};
	int r = given ? options_take(given, sizeof(o), &o, sizeof(o), err) : 0;

	if (r < 0)
		return r;
	if (o.flags & ~(uint32_t)KNOWN_FLAGS)
		return gs_err_set(err, -EINVAL, "options.flags has unknown flags");
	*ret_options = (struct gs_device_options){
		.size = sizeof(*ret_options),
		.host_root = o.host_root,
		.choice = o.flags & GS_DEVICES_HELD ? GS_DEVICE_HELD : GS_DEVICE_ALL,
		.ancestors = o.flags & GS_DEVICES_ANCESTORS,
		.no_drop_in = o.flags & GS_DEVICES_NO_DROP_IN,
	};
	return 0;
}

static int do_action(devices_action action, uint32_t pid, const struct gs_devices_options *options,
		     struct gs_devices_result *ret_result)
{
	struct gs_device_result found = {
		.v1 = GS_DEVICE_UNKNOWN, .v2 = GS_DEVICE_UNKNOWN, .drop_in = GS_DEVICE_UNKNOWN};
	struct gs_device_options o;
	struct gs_err err = {{0}};
	int r;

	if (!ret_result || ret_result->size < sizeof(*ret_result))
		return -EINVAL;
	library_begin();
	r = take_options(options, &o, &err);
	if (r == 0 && (!pid || pid > INT_MAX))
		r = gs_err_set(&err, -ESRCH, "%u is no process", pid);
	if (r == 0)
		r = action((int)pid, &o, &found, &err);
	*ret_result = (struct gs_devices_result){
		.size = ret_result->size,
		.cgroup_v1 = gs_device_state_name(found.v1),
		.cgroup_v2 = gs_device_state_name(found.v2),
		.drop_in = gs_device_state_name(found.drop_in),
		.is_open = r == 0 && action != gs_device_revoke && gs_device_is_open(&found),
		.n_changes = found.n_changes,
	};
	snprintf(ret_result->devices, sizeof(ret_result->devices), "%s", found.devices);
	snprintf(ret_result->reason, sizeof(ret_result->reason), "%s",
		 r < 0 ? gs_err_text(&err, r) : found.reason);
	return r;
}

int gs_devices_check(uint32_t pid, const struct gs_devices_options *options,
		     struct gs_devices_result *ret_result)
{
	return do_action(gs_device_check, pid, options, ret_result);
}

int gs_devices_grant(uint32_t pid, const struct gs_devices_options *options,
		     struct gs_devices_result *ret_result)
{
	return do_action(gs_device_grant, pid, options, ret_result);
}

int gs_devices_revoke(uint32_t pid, const struct gs_devices_options *options,
		      struct gs_devices_result *ret_result)
{
	return do_action(gs_device_revoke, pid, options, ret_result);
}
