/*
 * Functions of MPI. A file is a library of MPI when it defines PMPI_Init: tools that are put in
 * front of one define MPI_ names only and call the others, as bindings for Fortran do, so that each
 * call is seen once, in the library itself. There MPI_X is mostly another name of PMPI_X. A program
 * that MPI is linked into has PMPI_Init or another function that begins MPI.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sources/elf/object.h"
#include "model/trace/func.h"
#include "model/trace/mpi.h"
#include "sources/attach_plan/attach_plan_int.h"

#define NAMES_MAX  384 /* two for each function */
#define NAME_BYTES 48

/* MPICH, Intel MPI, MVAPICH and Cray's have one ABI: programs refer to the first name for
 * MPI_DUP_FN. A program that one of them is linked into has only what it uses: the second, by which
 * each function of MPI ends in an error. */
#define OF_MPICH        "MPIR_Dup_fn"
#define OF_MPICH_LINKED "MPIR_Err_return_comm"

/* Linked into a program, of the functions that begin MPI only the one that it calls is there. */
#define N_STARTERS 3
#define N_MARKERS  (N_STARTERS + 2)

static const char *const marker_names[N_MARKERS] = {PLAN_MPI_MARKER, "PMPI_Init_thread",
						    "PMPI_Session_init", OF_MPICH, OF_MPICH_LINKED};

/* Open MPI's datatypes are structs whose size member stands where the built-in ones, as the file
 * has them, have their sizes (opal_datatype.h: 24 in versions 1.5 to 5.0). */
static unsigned abi_of_objects(struct gs_elf *elf)
{
	static const char *const names[] = {"ompi_mpi_char", "ompi_mpi_int", "ompi_mpi_double"};
	static const uint64_t sizes[] = {1, 4, 8};
	uint64_t vaddr[3], words[3][12];

	if (gs_elf_objects(elf, names, 3, vaddr) < 0)
		return GS_MPI_ABI_UNKNOWN;
	for (unsigned i = 0; i < 3; i++)
		if (!vaddr[i] || gs_elf_object_read(elf, vaddr[i], words[i], sizeof(words[i])) < 0)
			return GS_MPI_ABI_UNKNOWN;
	for (unsigned at = GS_MPI_ABI_MIN / 8; at < 12; at++)
		if (words[0][at] == sizes[0] && words[1][at] == sizes[1] &&
		    words[2][at] == sizes[2])
			return at * 8;
	return GS_MPI_ABI_UNKNOWN;
}

/* Another name of the same function has been planned: PMPI_X and MPI_X mostly share one. */
static bool is_alias(const struct gs_elf_symbol *symbols, size_t i)
{
	for (size_t k = N_MARKERS; k < i; k++)
		if (symbols[k].found && symbols[k].file_off == symbols[i].file_off)
			return true;
	return false;
}

static bool has_starter(const struct gs_elf_symbol *symbols)
{
	return symbols[0].found || symbols[1].found || symbols[2].found;
}

static bool exports_starter(struct gs_elf *elf)
{
	return gs_elf_defines(elf, marker_names[0]) || gs_elf_defines(elf, marker_names[1]) ||
	       gs_elf_defines(elf, marker_names[2]);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && memcmp(text + n - n_end, end, n_end) == 0;
}

#define HIDDEN(what_)                                                                              \
	"it has " what_                                                                            \
	" inside and no symbols: its calls of MPI cannot be seen; do not strip it (the linker's -s does), or link MPI as a library"

/* What a library of MPI says when MPI could not be begun (MPICH's table of messages), or was not
 * begun (Open MPI's errhandler_predefined.c). In pieces: this program has neither as one text. */
static int take_text(void *ctx, const char *text)
{
	const char **ret_reason = ctx;

	if (strncmp(text, "MPI_Init(", 9) == 0 && strstr(text, "%p") && ends_with(text, ") failed"))
		*ret_reason = HIDDEN("MPICH or a derivative");
	else if (strncmp(text, "*** The %s() function was called", 32) == 0 &&
		 strstr(text, "before MPI_INIT was invoked"))
		*ret_reason = HIDDEN("Open MPI");
	return *ret_reason != NULL;
}

/* A stripped program that MPI is linked into. What its texts do not say in time is not known. */
static void report_hidden_mpi(const struct gs_attach_plan_context *c)
{
	const char *reason = NULL;

	if (!attach_plan_dynstr_has(c->elf, "libmpi") &&
	    gs_elf_each_text(c->elf, "MPI_I", take_text, &reason, NULL) > 0)
		attach_plan_report(c, NULL, reason, -ENOENT, GS_LAYER_MPI);
}

int attach_plan_mpi(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    bool is_exe, struct gs_err *err)
{
	struct gs_elf_symbol symbols[NAMES_MAX];
	char texts[NAMES_MAX][NAME_BYTES];
	const char *names[NAMES_MAX];
	uint16_t ids[NAMES_MAX];
	unsigned abi;
	size_t n = N_MARKERS;
	int r;

	memcpy(names, marker_names, sizeof(marker_names));
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		if (f->desc.layer != GS_LAYER_MPI || !c->selection->wanted[id])
			continue;
		for (unsigned i = 0; i < 2 && n < NAMES_MAX; i++) {
			snprintf(texts[n], NAME_BYTES, "%s%s", i ? "" : "P", f->name);
			names[n] = texts[n];
			ids[n++] = (uint16_t)id;
		}
	}
	if (n == N_MARKERS)
		return 0;
	if (!exports_starter(c->elf) && !(is_exe && gs_elf_has_symtab(c->elf))) {
		if (is_exe)
			report_hidden_mpi(c);
		return 0;
	}
	r = gs_elf_find(c->elf, names, n, is_exe, symbols, err);
	if (r < 0 || !has_starter(symbols))
		return r;
	abi = symbols[N_STARTERS].found || symbols[N_STARTERS + 1].found ? GS_MPI_ABI_MPICH
									 : abi_of_objects(c->elf);
	for (size_t i = N_MARKERS; r == 0 && i < n; i++) {
		size_t before = plan->n;

		if (!symbols[i].found || is_alias(symbols, i))
			continue;
		r = attach_plan_add_fixed(plan, c, &symbols[i], ids[i]);
		for (size_t k = before; k < plan->n; k++)
			if (!(plan->places[k].cookie & GS_COOKIE_EXIT))
				plan->places[k].cookie |= (uint64_t)abi << GS_COOKIE_MPI_SHIFT;
	}
	return r;
}
