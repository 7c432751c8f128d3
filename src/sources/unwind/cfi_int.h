/* Between cfi.c (rows), cfi_table.c (finding entries) and cfi_step.c (their meaning). */
#ifndef GS_SOURCES_UNWIND_CFI_INT_H
#define GS_SOURCES_UNWIND_CFI_INT_H

#include <stddef.h>

#include "sources/elf/code.h"
#include "sources/unwind/cfi.h"

/* Bytes of a table; a read past the end gives zeros and sets bad. */
struct gs_cfi_cursor {
	const uint8_t *p, *end;
	uint64_t vaddr; /* of end: addresses in tables count from where they stand */
	bool bad;
};

uint64_t gs_cfi_cursor_uint(struct gs_cfi_cursor *c, unsigned bytes);
int64_t gs_cfi_cursor_int(struct gs_cfi_cursor *c, unsigned bytes);
uint64_t gs_cfi_cursor_uleb(struct gs_cfi_cursor *c);
int64_t gs_cfi_cursor_sleb(struct gs_cfi_cursor *c);
void gs_cfi_cursor_skip(struct gs_cfi_cursor *c, uint64_t bytes);

static inline uint64_t gs_cfi_cursor_vaddr(const struct gs_cfi_cursor *c)
{
	return c->vaddr - (uint64_t)(c->end - c->p);
}

/* A pointer in one of the encodings DW_EH_PE_*; data_vaddr: what datarel counts from. */
uint64_t gs_cfi_cursor_pointer(struct gs_cfi_cursor *c, uint8_t encoding, uint64_t data_vaddr);

#define GS_PE_OMIT 0xff

struct gs_cfi_entry { /* a function known by scanning */
	uint64_t start;
	uint64_t fde;
};

struct gs_cfi {
	struct gs_elf *elf; /* borrowed */
	/* .eh_frame_hdr: pairs of 32 bits, relative to it; 0 entries: there is none. */
	uint64_t hdr, table;
	uint64_t n_table;
	struct gs_cfi_entry *entries; /* owned; where there is no such table */
	size_t n_entries;
};

struct gs_cie {
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_reg;
	uint8_t fde_encoding;
	bool augmented; /* FDEs have augmentation data */
	bool signal;
	uint64_t insns, insns_end; /* addresses in the file */
};

struct gs_fde {
	struct gs_cie cie;
	uint64_t start, end; /* of the code */
	uint64_t insns, insns_end;
};

/* cfi_table.c */
int gs_cfi_find_fde(struct gs_cfi *cfi, uint64_t vaddr, struct gs_fde *ret_fde);

#endif
