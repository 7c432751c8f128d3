/*
 * Statically defined probes of a file (USDT, "sdt"): places that a program's author marked, each
 * with a provider, a name and a description of where its arguments are. They are described by notes
 * named "stapsdt" (sys/sdt.h of SystemTap; the same header is in glibc, Python, PyTorch ...).
 */
#ifndef GS_SOURCES_ELF_USDT_H
#define GS_SOURCES_ELF_USDT_H

#include "sources/elf/elf.h"

#define GS_USDT_ARG_MAX 12 /* STAP_PROBE12 is the largest of sys/sdt.h */

enum gs_usdt_place {
	GS_USDT_REGISTER = 1,
	GS_USDT_MEMORY = 2, /* at register + index register * scale + displacement */
	GS_USDT_CONSTANT = 3,
};

/* One argument: what sys/sdt.h writes as "-4@8(%rbp,%rax,2)". */
struct gs_usdt_arg {
	enum gs_usdt_place place; /* where it is */
	uint8_t bytes;            /* 1, 2, 4 or 8 */
	bool is_signed;           /* it is extended by its sign */
	uint8_t reg;              /* number of the register in struct pt_regs, from its start */
	uint8_t shift;       /* bits of the register below the argument: 8 for %ah and its like */
	uint8_t index_reg;   /* likewise; GS_USDT_NO_REG: none */
	uint8_t scale_shift; /* 0..3 */
	int64_t value;       /* displacement, or the constant */
};

#define GS_USDT_NO_REG 255

struct gs_usdt_site {
	const char *provider;  /* lent during the call */
	const char *name;      /* likewise */
	const char *arguments; /* as written in the file */
	uint64_t file_off;     /* of the instruction: what a uprobe takes */
	uint64_t vaddr;        /* its address in the file */
	uint64_t ref_ctr_off;  /* of the counter (semaphore) that switches it on; 0: none */
	struct gs_usdt_arg args[GS_USDT_ARG_MAX]; /* n_args of them */
	unsigned n_args;
	const char *bad_arg; /* why the arguments from n_args on cannot be read; NULL: all can */
};

/* Called for each site in the order of the file; a non-zero return ends the walk and is passed on.
 */
typedef int (*gs_usdt_fn)(void *ctx, const struct gs_usdt_site *site);

/* 0 (also when the file has none), what fn returned, or a negative errno with a text. Notes that
 * cannot be (outside of the file's segments, texts without end) end the walk with -ENOEXEC. */
int gs_elf_usdt(struct gs_elf *elf, gs_usdt_fn fn, void *ctx, struct gs_err *err);

/* The places of one probe, by its provider and name. */
struct gs_usdt_places {
	const char *provider, *name; /* the caller's */
	unsigned n; /* in the order of the file; those beyond the array are left out */
	struct {
		uint64_t file_off, ref_ctr_off, vaddr; /* of struct gs_usdt_site */
		uint64_t cookie; /* 0, or what the finder passes to the kernel side */
	} at[8];
};

/* Fill n and at of each of n_probes; as gs_elf_usdt() returns. */
int gs_elf_usdt_find(struct gs_elf *elf, struct gs_usdt_places *probes, unsigned n_probes,
		     struct gs_err *err);

/* The arguments of one site; how many could be read is returned, and *ret_bad says why not more
 * (static text, NULL: they are all). */
unsigned gs_usdt_parse_args(const char *text, struct gs_usdt_arg ret_args[GS_USDT_ARG_MAX],
			    const char **ret_bad);

#endif
