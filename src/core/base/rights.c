#include "core/base/rights.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t gs_rights_effective(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, half) < 0)
		return UINT64_MAX;
	return (uint64_t)half[1].effective << 32 | half[0].effective;
}

bool gs_rights_have(unsigned capability)
{
	uint64_t have = gs_rights_effective();
	bool is_part_of_admin = capability == GS_CAP_BPF || capability == GS_CAP_PERFMON;

	return have >> capability & 1 || (is_part_of_admin && have >> CAP_SYS_ADMIN & 1);
}
