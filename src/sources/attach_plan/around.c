/*
 * What is around a function in its file, as far as it shows where the function is left: code that
 * was put apart, and what the functions that it calls are good for. These are known by name, where
 * they are another library's.
 */
#include <string.h>

#include "core/base/mem.h"
#include "sources/attach_plan/attach_plan_int.h"

#define MAX_NAME_BYTES 256

/* Of libc, libstdc++ and CPython: none of them throws, or takes longer than some hundred ns. */
static const char *const releases[] = {"free",
				       /* CPython's look at what a function has returned */
				       "_Py_CheckFunctionResult", "_ZdlPv", "_ZdlPvm", "_ZdaPv",
				       "_ZdaPvm", "_ZdlPvSt11align_val_t",
				       "_ZdlPvmSt11align_val_t"};
static const char *const no_returns[] = {
	"_Unwind_Resume",   "__cxa_throw",   "__cxa_rethrow",
	"__cxa_bad_cast",   "abort",         "exit",
	"__stack_chk_fail", "__assert_fail", "__cxa_throw_bad_array_new_length"};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool starts_with(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static enum gs_callee kind_of(struct gs_elf *elf, uint64_t file_off)
{
	char name[MAX_NAME_BYTES];

	if (gs_elf_stub_name(elf, file_off, name, sizeof(name)) < 0)
		return GS_CALLEE_WORK;
	if (is_one_of(name, releases, GS_ARRAY_LEN(releases)))
		return GS_CALLEE_RELEASE;
	/* std::terminate(), std::__throw_length_error(char const*) and the like, and what the
	 * checks of PyTorch end in */
	if (is_one_of(name, no_returns, GS_ARRAY_LEN(no_returns)) ||
	    strcmp(name, "_ZSt9terminatev") == 0 ||
	    (starts_with(name, "_ZSt") && strstr(name, "__throw_")) ||
	    starts_with(name, "_ZN3c106detail14torchCheckFail") ||
	    starts_with(name, "_ZN3c106detail23torchInternalAssertFail"))
		return GS_CALLEE_NO_RETURN;
	return GS_CALLEE_WORK;
}

enum gs_callee attach_plan_around_callee(void *around, int64_t offset_bytes)
{
	const struct around *a = around;
	uint64_t file_off = a->file_off + (uint64_t)offset_bytes, kind;

	if (gs_map_get(a->context->callees, file_off, &kind))
		return (enum gs_callee)kind;
	kind = kind_of(a->context->elf, file_off);
	/* Without room it is asked again. */
	(void)gs_map_put(a->context->callees, file_off, kind);
	return (enum gs_callee)kind;
}

size_t attach_plan_read_around(void *around, int64_t offset_bytes, uint8_t *buf, size_t bytes)
{
	const struct around *a = around;
	long n = gs_elf_read(a->context->elf, a->file_off + (uint64_t)offset_bytes, buf, bytes);

	return n > 0 ? (size_t)n : 0;
}

struct own_code {
	struct gs_elf *elf;
	uint64_t file_off;
};

static size_t own_read(void *ctx, int64_t offset_bytes, uint8_t *buf, size_t bytes)
{
	const struct own_code *own = ctx;
	long n = gs_elf_read(own->elf, own->file_off + (uint64_t)offset_bytes, buf, bytes);

	return n > 0 ? (size_t)n : 0;
}

struct gs_x86_site gs_attach_plan_site(struct gs_elf *elf, uint64_t file_off,
				       uint64_t function_bytes,
				       const struct gs_x86_site_rules *rules)
{
	struct own_code own = {elf, file_off};
	const struct gs_x86_site_source source = {&own, own_read, function_bytes};

	return gs_x86_find_site(&source, rules);
}

const char *gs_attach_plan_first_refusal(struct gs_elf *elf, uint64_t file_off,
					 const struct gs_x86_site_rules *rules)
{
	struct own_code own = {elf, file_off};
	uint8_t code[16];

	return gs_x86_site_refusal(code, own_read(&own, 0, code, sizeof(code)), rules);
}
