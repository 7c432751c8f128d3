/*
 * The programs of a family whose calls have more to do at their two ends than the common engine.
 * The file that includes this one defines FAMILY and, as static functions:
 *   family_entered(ctx, place)    a frame was opened; place as call_enter() leaves it
 *   family_left(ctx, t, depth)    the thread's frame of that number was closed
 */
#include "call.bpf.h"
#include "session.bpf.h"

#define ENDS_JOIN2(family, end) gs_##family##_##end
#define ENDS_JOIN(family, end)  ENDS_JOIN2(family, end)

static __always_inline void leave_by_ret(struct pt_regs *ctx)
{
	__u32 depth;
	struct gs_thread *t = call_leave_by_ret(ctx, &depth, false);

	if (t)
		family_left(ctx, t, depth);
}

SEC("?uprobe")
int ENDS_JOIN(FAMILY, session)(struct pt_regs *ctx)
{
	__u64 *place = bpf_session_cookie();
	struct gs_thread *t;

	if (session_is_return(place)) {
		t = call_leave(ctx, *place, false);
		if (t)
			family_left(ctx, t, *place >> 16 & 0xffff);
		return 0;
	}
	if (call_is_exit(ctx)) {
		leave_by_ret(ctx);
		return SESSION_NO_RETURN;
	}
	if (!call_enter(ctx, place, false))
		return SESSION_NO_RETURN;
	family_entered(ctx, *place);
	return call_has_exits(ctx) ? SESSION_NO_RETURN : 0;
}

SEC("?uprobe")
int ENDS_JOIN(FAMILY, enter)(struct pt_regs *ctx)
{
	__u64 place;

	if (call_is_exit(ctx))
		leave_by_ret(ctx);
	else if (call_enter(ctx, &place, false))
		family_entered(ctx, place);
	return 0;
}

SEC("?uprobe")
int ENDS_JOIN(FAMILY, leave)(struct pt_regs *ctx)
{
	__u32 depth;
	struct gs_thread *t = call_leave_unpaired(ctx, &depth);

	if (t)
		family_left(ctx, t, depth);
	return 0;
}
