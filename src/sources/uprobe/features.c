/*
 * Which ways of probing are used: by what the kernel answers (sources/kernel_features), by what functions of our own do under
 * a probe, and by what was switched off. The exception is how nops of other
 * lengths than five bytes are treated, which nothing shows (arch/x86/kernel/uprobes.c): emulated
 * since 6.16, turned into calls since 6.18. Later kernels may do better; treating them alike costs
 * little.
 */
#include "sources/uprobe/features.h"

#include <errno.h>

#include "core/base/log.h"
#include "core/base/rights.h"
#include "sources/kernel_features/kernel_features.h"
#include "sources/uprobe/uprobe_int.h"

void gs_uprobe_try(struct gs_uprobe_tried *ret)
{
	struct selftest test = {0};

	if (gs_rights_have(GS_CAP_BPF) && gs_rights_have(GS_CAP_PERFMON))
		test = uprobe_selftest_get();
	uprobe_selftest_reap();
	*ret = (struct gs_uprobe_tried){
		.single = uprobe_event_type() >= 0,
		.done = test.done,
		.harmless = test.push_is_safe,
		.returns_kept = test.return_is_kept,
	};
}

/* What the version says of the kernel is what is believed when it could not be tried. */
static int apply_selftest(struct features *f, struct gs_err *err)
{
	struct selftest test = uprobe_selftest_get();

	if (!test.done)
		return 0;
	if (!test.push_is_safe)
		return gs_err_set(
			err, -ENOTSUP,
			"probes break functions on this kernel (gpuscope's own function gave a wrong result under a probe): nothing is traced");
	f->sites.nop5_is_call = !test.nop5_is_safe;
	f->return_is_kept = test.return_is_kept;
	return 0;
}

int uprobe_features_detect(unsigned disabled_features, struct features *f, struct gs_err *err)
{
	struct gs_kernel_features there;
	bool session, multi, storage;
	int r = gs_kernel_features_check_rights(err);

	if (r < 0)
		return r;
	gs_kernel_features_ask_needed(&there);
	r = gs_kernel_features_check(&there, err);
	if (r < 0)
		return r;
	session = there.session;
	multi = there.multi;
	storage = there.task_storage;
	*f = (struct features){
		.session =
			session && !(disabled_features & (GS_DISABLED_SESSION | GS_DISABLED_MULTI)),
		.multi = multi && !(disabled_features & GS_DISABLED_MULTI),
		.task_storage = storage && !(disabled_features & GS_DISABLED_TASK_STORAGE),
	};
	gs_x86_site_rules_here(&f->sites);
	r = apply_selftest(f, err);
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "kernel: session links %s, multi links %s, task storage %s",
	       f->session ? "used"
	       : session  ? "there, not used"
			  : "missing (Linux 6.13)",
	       f->multi ? "used"
	       : multi  ? "there, not used"
			: "missing (Linux 6.6)",
	       f->task_storage ? "used"
	       : storage       ? "there, not used"
			       : "missing (Linux 5.11)");
	return r;
}
