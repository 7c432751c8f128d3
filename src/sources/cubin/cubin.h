/*
 * CUDA code in files: fat binaries (the sections .nv_fatbin and __nv_relfatbin of a host file, or a file
 * of their own), the cubins and PTX in them, and the kernels of these with what each needs of a GPU.
 *
 * Nothing of the bytes is trusted: what is malformed is counted and passed over. Memory is bounded: one
 * element is unpacked at a time, and those beyond the limits below are left out and counted.
 */
#ifndef GS_SOURCES_CUBIN_CUBIN_H
#define GS_SOURCES_CUBIN_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_FATBIN_PACKED_BYTES   (16u << 20) /* of an element as it lies in the file, at most */
#define GS_FATBIN_UNPACKED_BYTES (40u << 20)
#define GS_CUBIN_KERNELS         65536u /* of one cubin */
#define GS_CUBIN_NAME_BYTES      4096u /* of a kernel's name, with its zero; longer ones are left out */

/* A kernel and what it needs. Those of PTX have a name alone. */
struct gs_cubin_kernel {
	const char *name;      /* as the compiler mangled it; lent during the call */
	uint32_t sm;           /* compute capability times ten: 90, 103 */
	bool is_ptx;           /* of PTX, not of a cubin */
	uint32_t registers;    /* of a thread; 0 not known */
	uint32_t shared_bytes; /* static, of a block, without what the system keeps for itself */
	uint32_t constant_bytes;
	uint32_t local_bytes; /* stack of a thread */
	uint32_t max_threads; /* of a block, by its launch bounds; 0: none were given */
	uint64_t code_bytes;
};

/* A non-zero return ends the walk and is passed on. */
typedef int (*gs_cubin_kernel_fn)(void *ctx, const struct gs_cubin_kernel *kernel);

/* Visit the kernels of a cubin in memory, which has the alignment of any allocation. 0, what fn
 * returned, -ENOEXEC: it is none, or damaged, or -ENOMEM. */
int gs_cubin_each_kernel(const void *cubin, size_t bytes, gs_cubin_kernel_fn fn, void *ctx);

/* Visit the kernels that a text of PTX defines. 0, or what fn returned that is not 0. */
int gs_ptx_each_kernel(const char *text, size_t bytes, uint32_t sm, gs_cubin_kernel_fn fn,
		       void *ctx);

/* Unpack a block of LZ4 (without a frame), as fat binaries have it. How many bytes there are, or
 * -EBADMSG: damaged, or more than fit. */
long gs_lz4_unpack(const void *from, size_t from_bytes, void *to, size_t to_bytes);

/* --- fat binaries --- */

/* Where one is read from. */
struct gs_fatbin_source {
	/* Up to bytes at off; how many, or a negative errno, which ends all. */
	long (*read)(void *ctx, uint64_t off, void *to, size_t bytes);
	void *ctx;
	uint64_t off, bytes; /* the part that is looked through */
};

enum gs_fatbin_kind {
	GS_FATBIN_PTX = 1,
	GS_FATBIN_CUBIN = 2,
};

enum gs_fatbin_packing {
	GS_FATBIN_PLAIN = 0,
	GS_FATBIN_LZ4 = 1,
	GS_FATBIN_ZSTD = 2,
};

/* One piece of code in a fat binary: the same source has one for each architecture. */
struct gs_fatbin_element {
	uint64_t fatbin_off;     /* of the fat binary that it is in */
	uint64_t off;            /* of its bytes */
	uint64_t packed_bytes;   /* as they lie there */
	uint64_t unpacked_bytes; /* the same when it is not packed */
	uint32_t sm;             /* as in struct gs_cubin_kernel */
	uint16_t kind;           /* enum gs_fatbin_kind, or another number */
	uint8_t packing;         /* enum gs_fatbin_packing */
};

/* What came by, and what was left out of it. */
struct gs_fatbin_counts {
	uint64_t n_fatbins, n_cubins, n_ptx;
	uint64_t n_others;    /* of other kinds: code for the linker */
	uint64_t n_too_large; /* beyond the limits above */
	uint64_t n_bad;       /* damaged */
};

struct gs_fatbins; /* a walk through them */

/* source is copied. 0 or -ENOMEM. */
int gs_fatbins_new(const struct gs_fatbin_source *source, struct gs_fatbins **ret_fatbins);
void gs_fatbins_free(struct gs_fatbins **fatbins);

/* The next piece of code, by its head alone: 1 and *ret_element, 0 at the end, or a negative errno of
 * reading. */
int gs_fatbins_next(struct gs_fatbins *fatbins, struct gs_fatbin_element *ret_element);

/* Its bytes, unpacked; lent until the next call. -EFBIG: beyond the limits; -EBADMSG: damaged; both are
 * counted. */
int gs_fatbins_unpack(struct gs_fatbins *fatbins, const struct gs_fatbin_element *element,
		      const void **ret_bytes, size_t *ret_n);

/* Visit the kernels of one piece of code. 0 also when it was left out; as gs_cubin_each_kernel(). */
int gs_fatbins_kernels(struct gs_fatbins *fatbins, const struct gs_fatbin_element *element,
		       gs_cubin_kernel_fn fn, void *ctx);

/* What was passed over so far. Lent as long as fatbins lives. */
const struct gs_fatbin_counts *gs_fatbins_counts(const struct gs_fatbins *fatbins);

#endif
