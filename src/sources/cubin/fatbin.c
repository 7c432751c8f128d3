/*
 * Fat binaries, one after another with zeros between. Each is a head and elements; each of these a head
 * and its bytes. The layout is that of fatBinaryCtl.h and fatbinary_section.h of CUDA (the outer head),
 * and what `fatbinary` of CUDA 13.0 writes:
 *
 *	head     magic u32, version u16 (1), bytes of this head u16, bytes of all elements u64
 *	element  kind u16, version u16, bytes of this head u32, bytes of the payload u64 (padded to 8),
 *	         packed bytes u32 (0: not packed), ..., architecture u32 at 28, flags u64 at 40, unpacked
 *	         bytes u64 at 56
 *
 * Flags that matter: 0x2000 the payload is a block of LZ4, 0x8000 a frame of zstd.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "core/base/mem.h"
#include "sources/cubin/cubin.h"

#define FATBIN_MAGIC  0xba55ed50u
#define FATBIN_HEAD   16u
#define ELEMENT_HEAD  64u
#define HEAD_MAX      4096u
#define FLAG_LZ4      0x2000u
#define FLAG_ZSTD     0x8000u
#define PADDING_MAX   65536u /* bytes without a fat binary after which there is none to come */
#define PADDING_BLOCK 4096u

struct gs_fatbins {
	struct gs_fatbin_source source;
	uint64_t at;         /* where the next head is read */
	uint64_t fatbin_off; /* of the fat binary that at lies in */
	uint64_t fatbin_end; /* at: in none */
	struct gs_fatbin_counts counts;
	ZSTD_DCtx *zstd;            /* owned; NULL until needed */
	uint8_t *packed, *unpacked; /* owned, grown on demand */
	size_t packed_room, unpacked_room;
};

int gs_fatbins_new(const struct gs_fatbin_source *source, struct gs_fatbins **ret)
{
	struct gs_fatbins *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->source = *source;
	*ret = f;
	return 0;
}

void gs_fatbins_free(struct gs_fatbins **fatbins)
{
	struct gs_fatbins *f = *fatbins;

	if (!f)
		return;
	ZSTD_freeDCtx(f->zstd);
	free(f->packed);
	free(f->unpacked);
	free(f);
	*fatbins = NULL;
}

const struct gs_fatbin_counts *gs_fatbins_counts(const struct gs_fatbins *f)
{
	return &f->counts;
}

/* Exactly so many bytes of the part. 1; 0: it ends before; or a negative errno. */
static int fatbin_read(const struct gs_fatbins *f, uint64_t at, void *to, size_t bytes)
{
	const struct gs_fatbin_source *s = &f->source;
	size_t done = 0;

	if (at > s->bytes || bytes > s->bytes - at)
		return 0;
	while (done < bytes) {
		long n = s->read(s->ctx, s->off + at + done, (uint8_t *)to + done, bytes - done);

		if (n <= 0)
			return (int)n;
		done += (size_t)n;
	}
	return 1;
}

static uint64_t head_field(const uint8_t *head, size_t at, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, head + at, bytes);
	return le64toh(v);
}

/* Where the next fat binary may begin, over padding. As fatbin_read(). */
static int fatbin_pass_padding(struct gs_fatbins *f)
{
	uint64_t from = f->at;
	uint8_t block[PADDING_BLOCK];

	while (f->at < f->source.bytes && f->at - from < PADDING_MAX) {
		uint64_t left = f->source.bytes - f->at;
		size_t n = left < sizeof(block) ? (size_t)left & ~7ul : sizeof(block), i;
		int r = n ? fatbin_read(f, f->at, block, n) : 0;

		if (r <= 0)
			return r;
		for (i = 0; i < n && head_field(block, i, 4) != FATBIN_MAGIC; i += 8)
			;
		f->at += i;
		if (i < n)
			return 1;
	}
	return 0;
}

/* Into the next fat binary. 1, 0: there is none, or a negative errno. */
static int fatbin_enter(struct gs_fatbins *f)
{
	for (;;) {
		uint8_t head[FATBIN_HEAD];
		uint64_t bytes, head_bytes;
		int r = fatbin_pass_padding(f);

		if (r <= 0)
			return r;
		r = fatbin_read(f, f->at, head, sizeof(head));
		if (r <= 0)
			return r;
		head_bytes = head_field(head, 6, 2);
		bytes = head_field(head, 8, 8);
		if (head_field(head, 4, 2) != 1 || head_bytes < FATBIN_HEAD ||
		    head_bytes > HEAD_MAX || bytes > f->source.bytes ||
		    f->at + head_bytes > f->source.bytes - bytes) {
			f->counts.n_bad++;
			f->at += 8;
			continue;
		}
		f->counts.n_fatbins++;
		f->fatbin_off = f->source.off + f->at;
		f->at += head_bytes;
		f->fatbin_end = f->at + bytes;
		return 1;
	}
}

/* From here to the next fat binary: what is left of this one makes no sense. */
static void fatbin_leave(struct gs_fatbins *f)
{
	f->at = f->fatbin_end;
}

static void count_element(struct gs_fatbins *f, unsigned kind)
{
	if (kind == GS_FATBIN_CUBIN)
		f->counts.n_cubins++;
	else if (kind == GS_FATBIN_PTX)
		f->counts.n_ptx++;
	else
		f->counts.n_others++;
}

/* False: no element can be so. */
static bool take_element(const struct gs_fatbins *f, const uint8_t *head,
			 struct gs_fatbin_element *ret, uint64_t *ret_next)
{
	uint64_t head_bytes = head_field(head, 4, 4), bytes = head_field(head, 8, 8);
	uint64_t packed = head_field(head, 16, 4), flags = head_field(head, 40, 8);
	uint64_t left = f->fatbin_end - f->at;

	if (head_bytes < ELEMENT_HEAD || head_bytes > HEAD_MAX || head_bytes > left ||
	    bytes > left - head_bytes || packed > bytes)
		return false;
	*ret = (struct gs_fatbin_element){
		.fatbin_off = f->fatbin_off,
		.off = f->source.off + f->at + head_bytes,
		.packed_bytes = bytes,
		.unpacked_bytes = bytes,
		.sm = (uint32_t)head_field(head, 28, 4),
		.kind = (uint16_t)head_field(head, 0, 2),
	};
	if (flags & (FLAG_LZ4 | FLAG_ZSTD)) {
		ret->packing = flags & FLAG_ZSTD ? GS_FATBIN_ZSTD : GS_FATBIN_LZ4;
		ret->packed_bytes = packed ? packed : bytes;
		ret->unpacked_bytes = head_field(head, 56, 8);
	}
	*ret_next = f->at + head_bytes + bytes;
	return true;
}

int gs_fatbins_next(struct gs_fatbins *f, struct gs_fatbin_element *ret_element)
{
	uint8_t head[ELEMENT_HEAD];
	uint64_t next;
	int r;

	for (;;) {
		if (f->at >= f->fatbin_end) {
			r = fatbin_enter(f);
			if (r <= 0)
				return r;
			if (f->at == f->fatbin_end)
				continue; /* an empty one */
		}
		r = f->fatbin_end - f->at < ELEMENT_HEAD
			    ? 0
			    : fatbin_read(f, f->at, head, sizeof(head));
		if (r < 0)
			return r;
		if (r == 1 && take_element(f, head, ret_element, &next)) {
			f->at = next;
			count_element(f, ret_element->kind);
			return 1;
		}
		f->counts.n_bad++;
		fatbin_leave(f);
	}
}

/* --- the bytes of an element --- */

static bool reach_room(uint8_t **buf, size_t *room, size_t bytes)
{
	uint8_t *more;

	if (*room >= bytes)
		return true;
	free(*buf); /* what it holds is not wanted any more */
	*buf = NULL;
	*room = 0;
	more = malloc(bytes);
	if (!more)
		return false;
	*buf = more;
	*room = bytes;
	return true;
}

static long unpack_zstd(struct gs_fatbins *f, size_t packed_bytes, size_t unpacked_bytes)
{
	size_t n;

	if (!f->zstd)
		f->zstd = ZSTD_createDCtx();
	if (!f->zstd)
		return -ENOMEM;
	n = ZSTD_decompressDCtx(f->zstd, f->unpacked, unpacked_bytes, f->packed, packed_bytes);
	return ZSTD_isError(n) ? -EBADMSG : (long)n;
}

static int unpack_element(struct gs_fatbins *f, const struct gs_fatbin_element *e,
			  const void **ret_bytes, size_t *ret_n)
{
	size_t packed = (size_t)e->packed_bytes, unpacked = (size_t)e->unpacked_bytes;
	uint64_t packed_most =
		e->packing == GS_FATBIN_PLAIN ? GS_FATBIN_UNPACKED_BYTES : GS_FATBIN_PACKED_BYTES;
	long n;
	int r;

	if (e->packed_bytes > packed_most || e->unpacked_bytes > GS_FATBIN_UNPACKED_BYTES)
		return -EFBIG;
	if (!packed || !unpacked)
		return -EBADMSG;
	if (!reach_room(&f->packed, &f->packed_room, packed))
		return -ENOMEM;
	r = fatbin_read(f, e->off - f->source.off, f->packed, packed);
	if (r <= 0)
		return r < 0 ? r : -EBADMSG;
	if (e->packing == GS_FATBIN_PLAIN) {
		*ret_bytes = f->packed;
		*ret_n = packed;
		return 0;
	}
	if (!reach_room(&f->unpacked, &f->unpacked_room, unpacked))
		return -ENOMEM;
	n = e->packing == GS_FATBIN_ZSTD ? unpack_zstd(f, packed, unpacked)
					 : gs_lz4_unpack(f->packed, packed, f->unpacked, unpacked);
	if (n < 0)
		return (int)n;
	*ret_bytes = f->unpacked;
	*ret_n = (size_t)n;
	return 0;
}

int gs_fatbins_unpack(struct gs_fatbins *f, const struct gs_fatbin_element *e,
		      const void **ret_bytes, size_t *ret_n)
{
	int r = unpack_element(f, e, ret_bytes, ret_n);

	f->counts.n_too_large += r == -EFBIG;
	f->counts.n_bad += r == -EBADMSG;
	return r;
}

int gs_fatbins_kernels(struct gs_fatbins *f, const struct gs_fatbin_element *e,
		       gs_cubin_kernel_fn fn, void *ctx)
{
	const void *bytes;
	size_t n;
	int r;

	if (e->kind != GS_FATBIN_CUBIN && e->kind != GS_FATBIN_PTX)
		return 0;
	r = gs_fatbins_unpack(f, e, &bytes, &n);
	if (r == -EFBIG || r == -EBADMSG)
		return 0;
	if (r < 0)
		return r;
	if (e->kind == GS_FATBIN_PTX)
		return gs_ptx_each_kernel(bytes, n, e->sm, fn, ctx);
	r = gs_cubin_each_kernel(bytes, n, fn, ctx);
	f->counts.n_bad += r == -ENOEXEC;
	return r == -ENOEXEC ? 0 : r;
}
