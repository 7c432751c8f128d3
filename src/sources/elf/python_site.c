/*
 * These are functions of C that an interpreter does not export, so they are found where it is not
 * stripped; taking the lock is also seen at the exported functions by which code outside of the
 * interpreter does it, and collections at the static probes that it may have.
 *
 *   collection   collect()         3.8, 3.9    Modules/gcmodule.c
 *                gc_collect_main() 3.10 on     Modules/gcmodule.c, 3.13 on: Python/gc.c, without
 *                                              the lock Python/gc_free_threading.c
 *                gc__start, gc__done           in it, when built --with-dtrace, as those of Debian
 *                                              and Fedora are
 *   lock         take_gil()        all         Python/ceval_gil.h, 3.12 on: Python/ceval_gil.c
 *   frame ended  _PyEvalFrameClearAndPop()     3.12         Python/ceval.c
 *                _PyEval_FrameClearAndPop()    3.13 on: Python/ceval.c, exported
 *
 * Compilers make copies of them for constant arguments (".constprop.0"), each a function of its
 * own; all are found. gcc's link-time optimization of a whole program, as conda's builds have it,
 * appends ".lto_priv.0".
 */
#include "sources/elf/python_site.h"

#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf_int.h"
#include "sources/elf/object.h"
#include "model/trace/kernel_side.h"
#include "model/trace/python.h"

static const char *const names[][GS_PYTHON_SITE_MAX] = {
	[GS_PYTHON_COLLECTS] = {"gc_collect_main", "gc_collect_main.constprop.0",
				"gc_collect_main.isra.0", "gc_collect_main.lto_priv.0",
				"gc_collect_main.lto_priv.0.constprop.0",
				"gc_collect_main.constprop.0.lto_priv.0",
				"gc_collect_main.isra.0.lto_priv.0", "collect",
				"collect.constprop.0", "collect.constprop.1", "collect.isra.0",
				"collect.lto_priv.0", "collect.constprop.0.lto_priv.0",
				"collect.isra.0.lto_priv.0"},
	[GS_PYTHON_TAKES_LOCK] = {"take_gil", "take_gil.constprop.0", "take_gil.constprop.1",
				  "take_gil.isra.0", "take_gil.lto_priv.0",
				  "take_gil.lto_priv.0.constprop.0",
				  "take_gil.constprop.0.lto_priv.0", "take_gil.isra.0.lto_priv.0"},
	/* PyGILState_Ensure() calls the first of them. */
	[GS_PYTHON_RETAKES_LOCK] = {"PyEval_RestoreThread", "PyEval_AcquireThread"},
};

int gs_elf_python_sites(struct gs_elf *elf, enum gs_python_deed deed,
			struct gs_python_site ret_sites[GS_PYTHON_SITE_MAX], unsigned *ret_n,
			struct gs_err *err)
{
	struct gs_elf_symbol symbols[GS_PYTHON_SITE_MAX];
	size_t n = 0;
	int r;

	*ret_n = 0;
	while (n < GS_PYTHON_SITE_MAX && names[deed][n])
		n++;
	r = gs_elf_find(elf, names[deed], n, true, symbols, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (symbols[i].found)
			ret_sites[(*ret_n)++] = (struct gs_python_site){names[deed][i], symbols[i]};
	return r;
}

int gs_elf_python_gc_probes(struct gs_elf *elf, struct gs_usdt_places ret_probes[2],
			    struct gs_err *err)
{
	int r;

	ret_probes[0] = (struct gs_usdt_places){.provider = "python", .name = "gc__start"};
	ret_probes[1] = (struct gs_usdt_places){.provider = "python", .name = "gc__done"};
	r = gs_elf_usdt_find(elf, ret_probes, 2, err);
	if (r < 0 || !ret_probes[0].n || !ret_probes[1].n)
		ret_probes[0].n = ret_probes[1].n = 0;
	return r;
}

static bool read_object(struct gs_elf *elf, uint64_t vaddr, void *ret, size_t bytes)
{
	uint64_t off, left;

	return vaddr && gs_elf_vaddr_to_off(elf, vaddr, false, &off, &left) && left >= bytes &&
	       gs_elf_read(elf, off, ret, bytes) == (long)bytes;
}

/* From 3.11 on an interpreter says which one it is (0x030c: 3.12); 0: it does not. */
static unsigned own_version(struct gs_elf *elf, uint64_t version_at)
{
	uint64_t version;

	return read_object(elf, version_at, &version, sizeof(version))
		       ? (unsigned)(version >> 16 & 0xffff)
		       : 0;
}

int gs_elf_python_left_probe(struct gs_elf *elf, unsigned version, struct gs_usdt_places *ret_probe,
			     struct gs_err *err)
{
	static const char *const objects[] = {"_PyRuntime", "Py_Version"};
	uint64_t vaddr[2] = {0};
	int r;

	*ret_probe = (struct gs_usdt_places){.provider = "python", .name = "function__return"};
	r = gs_elf_objects(elf, objects, GS_ARRAY_LEN(objects), vaddr);
	if (r < 0)
		return gs_err_set(err, r, "its tables of symbols cannot be read");
	if (!vaddr[0] || version < 0x0308 ||
	    (version >= 0x030b && own_version(elf, vaddr[1]) != 0x030b))
		return 0;
	r = gs_elf_usdt_find(elf, ret_probe, 1, err);
	for (unsigned i = 0; r == 0 && i < ret_probe->n; i++) {
		uint64_t words = (vaddr[0] - (ret_probe->at[i].vaddr & ~(GS_PYCALL_WORD - 1))) /
				 GS_PYCALL_WORD;

		if (vaddr[0] % GS_PYCALL_WORD || words > GS_COOKIE_FRAME_MAX)
			ret_probe->n = 0;
		else
			ret_probe->at[i].cookie = words << GS_COOKIE_FRAME_SHIFT;
	}
	return r;
}

/* --- where frames end --- */

/* From 3.13 on _PyRuntime begins with a cookie, the version and this flag
 * (Include/internal/pycore_debug_offsets.h); a build without the lock keeps its objects otherwise. */
static bool has_lock(struct gs_elf *elf, uint64_t runtime_at, unsigned version)
{
	uint64_t head[3];

	return version < 0x030d || (read_object(elf, runtime_at, head, sizeof(head)) &&
				    memcmp(head, "xdebugpy", 8) == 0 && head[2] == 0);
}

int gs_elf_python_cleared(struct gs_elf *elf, struct gs_elf_symbol *ret_symbol,
			  const char **ret_name, const char **ret_reason)
{
	static const char *const objects[] = {"_PyRuntime", "Py_Version"};
	static const char *const functions[] = {"_PyEval_FrameClearAndPop",
						"_PyEvalFrameClearAndPop",
						"_PyEvalFrameClearAndPop.lto_priv.0"};
	struct gs_elf_symbol symbols[GS_ARRAY_LEN(functions)];
	uint64_t vaddr[2] = {0};
	struct gs_err err = {{0}};
	unsigned version, i;
	int r;

	*ret_reason = NULL;
	r = gs_elf_objects(elf, objects, GS_ARRAY_LEN(objects), vaddr);
	if (r < 0)
		return r;
	version = own_version(elf, vaddr[1]);
	if (version < 0x030c)
		return 0;
	r = gs_elf_find(elf, functions, GS_ARRAY_LEN(functions), true, symbols, &err);
	if (r < 0)
		return r;
	for (i = 0; i < GS_ARRAY_LEN(functions) && !symbols[i].found; i++)
		;
	if (version > 0x030e)
		*ret_reason = "a Python newer than 3.14: its calls cannot be counted";
	else if (!has_lock(elf, vaddr[0], version))
		*ret_reason =
			"a free-threaded Python: its calls are not counted: --python-hz 99 shows where its time goes";
	else if (i == GS_ARRAY_LEN(functions))
		*ret_reason =
			"a stripped Python 3.12 does not show where its functions end: --python-hz 99 shows where its time goes; 3.13 and newer are counted";
	if (*ret_reason)
		return 0;
	*ret_symbol = symbols[i];
	*ret_name = functions[i];
	return 1;
}
