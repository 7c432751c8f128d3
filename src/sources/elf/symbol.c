/*
 * Functions by name.
 *
 * In .dynsym a name is found the way the dynamic loader does it: a bit in a Bloom filter, a bucket,
 * a short chain of hashes, one symbol, its name. That is five reads of a few bytes, and one for a
 * name that is not there, whatever the size of the library; so 250 names cost less than one pass
 * over the symbols would, and a file without section headers is as good as any.
 *
 * A .symtab has no index, and its strings can be tens of MB. It is never loaded. The strings are
 * streamed first, and every place where a wanted name ends (at a NUL, or at the "@@" before a
 * version) is noted:
 *
 *	... \0 x c u d a F r e e \0 n c c l S e n d @ @ V 2 \0 ...
 *	         ^ offset of "cudaFree"  ^ offset of "ncclSend"
 *
 * Linkers let a name begin in the middle of another, so it is its end that is looked for, and only
 * the symbols show whether one begins at such an offset. They are streamed next, and only where
 * there is an offset to look for. A symbol whose name begins there has the wanted name, so no
 * name is ever read again. Memory: two blocks, and the offsets.
 *
 * The same two passes serve a .dynsym that has no .gnu.hash.
 */
#include "sources/elf/elf_int.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"

#define BLOCK_BYTES     (256u << 10)
#define MAX_NAME_BYTES  4096u
#define MAX_CHAIN       4096u /* symbols of one bucket; a sane table has a few */
#define MAX_OFFSETS     65536u
#define MAX_TABLE_BYTES (1ull << 30)
#define N_BUCKETS       1024u
#define STRINGS_FREE    (1u << 20)
#define STRINGS_TIMES   4u

/* ---- one symbol ------------------------------------------------------------------------ */

static bool is_function(const Elf64_Sym *sym)
{
	return ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_shndx != SHN_UNDEF;
}

/* The better of two symbols of one name is the one that other files see. */
static uint8_t rank_of(const Elf64_Sym *sym)
{
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_LOCAL:
		return 1;
	case STB_WEAK:
		return 2;
	default:
		return 3;
	}
}

/* False when its code is not in an executable segment of the file. */
static bool take_symbol(const struct gs_elf *elf, const Elf64_Sym *sym, bool dynamic,
			struct gs_elf_symbol *ret_symbol)
{
	uint64_t off, bytes;

	if (!gs_elf_vaddr_to_off(elf, sym->st_value, true, &off, &bytes))
		return false;
	*ret_symbol = (struct gs_elf_symbol){
		.file_off = off,
		.size_bytes = sym->st_size,
		.found = true,
		.dynamic = dynamic,
	};
	return true;
}

/* ---- .gnu.hash ------------------------------------------------------------------------- */

struct gnu_hash {
	uint32_t n_buckets;
	uint32_t first_symbol; /* the first that the table knows */
	uint32_t n_bloom;      /* 64-bit words, a power of two */
	uint32_t bloom_shift;
	uint64_t bloom_off;
	uint64_t bucket_off;
	uint64_t chain_off;
};

static int read_gnu_hash(const struct gs_elf *elf, struct gnu_hash *ret_hash)
{
	uint32_t head[4];
	struct gnu_hash h;
	int r = gs_elf_pread(elf, elf->gnu_hash_off, head, sizeof(head));

	if (r < 0)
		return r;
	h.n_buckets = head[0];
	h.first_symbol = head[1];
	h.n_bloom = head[2];
	h.bloom_shift = head[3];
	if (h.n_bloom == 0 || (h.n_bloom & (h.n_bloom - 1)) || h.bloom_shift > 31)
		return -ENOEXEC;
	h.bloom_off = elf->gnu_hash_off + sizeof(head);
	h.bucket_off = h.bloom_off + 8ull * h.n_bloom;
	h.chain_off = h.bucket_off + 4ull * h.n_buckets;
	if (!gs_elf_inside(elf, h.bloom_off, h.chain_off - h.bloom_off))
		return -ENOEXEC;
	*ret_hash = h;
	return 0;
}

static uint32_t hash_name(const char *name)
{
	uint32_t h = 5381;

	for (const char *c = name; *c; c++)
		h = h * 33 + (uint8_t)*c;
	return h;
}

/* 1: the symbol is that function; 0: it is not. */
static int check_symbol(const struct gs_elf *elf, uint64_t idx, const char *name,
			struct gs_elf_symbol *ret_symbol)
{
	char text[256];
	size_t bytes = strlen(name) + 1;
	Elf64_Sym sym;
	int r = gs_elf_pread(elf, elf->dynsym.sym_off + idx * sizeof(sym), &sym, sizeof(sym));

	if (r < 0)
		return r;
	if (!is_function(&sym))
		return 0;
	if (sym.st_name >= elf->dynsym.str_bytes || bytes > elf->dynsym.str_bytes - sym.st_name)
		return 0;
	for (size_t done = 0; done < bytes;) {
		size_t n = bytes - done < sizeof(text) ? bytes - done : sizeof(text);

		r = gs_elf_pread(elf, elf->dynsym.str_off + sym.st_name + done, text, n);
		if (r < 0)
			return r;
		if (memcmp(text, name + done, n) != 0)
			return 0;
		done += n;
	}
	return take_symbol(elf, &sym, true, ret_symbol);
}

/* Walk the chain of the bucket that begins with symbol idx. 1: found; 0: not there. */
static int walk_chain(const struct gs_elf *elf, const struct gnu_hash *h, uint32_t idx,
		      uint32_t hash, const char *name, struct gs_elf_symbol *ret_symbol)
{
	uint64_t off = h->chain_off + 4ull * (idx - h->first_symbol);
	uint32_t block[16];

	for (unsigned i = 0; i < MAX_CHAIN; i++, off += sizeof(block[0])) {
		size_t k = i % GS_ARRAY_LEN(block);
		int r;

		if (k == 0) {
			uint64_t left = off < elf->file_bytes ? elf->file_bytes - off : 0;
			size_t n = left < sizeof(block) ? left : sizeof(block);

			memset(block, 0, sizeof(block));
			r = gs_elf_pread(elf, off, block, n);
			if (r < 0)
				return r;
		}
		if (!gs_elf_inside(elf, off, sizeof(block[0])))
			return -ENOEXEC;
		if ((block[k] | 1) == (hash | 1)) {
			r = check_symbol(elf, (uint64_t)idx + i, name, ret_symbol);
			if (r != 0)
				return r;
		}
		if (block[k] & 1) /* the last of its chain */
			return 0;
	}
	return 0;
}

static int find_by_hash(const struct gs_elf *elf, const struct gnu_hash *h, const char *name,
			struct gs_elf_symbol *ret_symbol)
{
	uint32_t hash = hash_name(name), idx;
	uint64_t word, bits;
	int r;

	if (h->n_buckets == 0)
		return 0;
	r = gs_elf_pread(elf, h->bloom_off + 8ull * (hash / 64 & (h->n_bloom - 1)), &word,
			 sizeof(word));
	if (r < 0)
		return r;
	bits = 1ull << (hash % 64) | 1ull << ((hash >> h->bloom_shift) % 64);
	if ((word & bits) != bits)
		return 0;
	r = gs_elf_pread(elf, h->bucket_off + 4ull * (hash % h->n_buckets), &idx, sizeof(idx));
	if (r < 0)
		return r;
	if (idx == 0)
		return 0;
	if (idx < h->first_symbol)
		return -ENOEXEC;
	return walk_chain(elf, h, idx, hash, name, ret_symbol);
}

/* ---- passes over a whole table --------------------------------------------------------- */

struct wanted_name {
	const char *name;
	uint32_t bytes;
	uint32_t tail; /* its last four bytes */
	int32_t next;  /* in its bucket; -1: the last */
	uint8_t rank;  /* of the symbol found so far; 0: none */
};

/* Names of four bytes and more are found by the last four; shorter ones are few, if any. */
struct wanted {
	struct wanted_name *names;
	size_t n_names;
	int32_t buckets[N_BUCKETS];
	int32_t short_names;
	uint32_t max_bytes;
	struct gs_map offsets; /* offset in the string table -> index of a name that begins there */
};

static void wanted_fini(struct wanted *w)
{
	free(w->names);
	gs_map_fini(&w->offsets);
}

static uint32_t bucket_of(uint32_t tail)
{
	return (tail * 0x9e3779b1u) >> 22;
}

static int wanted_init(struct wanted *w, const char *const *names, size_t n,
		       const struct gs_elf_symbol *symbols)
{
	*w = (struct wanted){.offsets = GS_MAP_INIT(MAX_OFFSETS), .short_names = -1};
	memset(w->buckets, 0xff, sizeof(w->buckets));
	if (n > INT32_MAX)
		return -E2BIG;
	w->names = calloc(n ? n : 1, sizeof(*w->names));
	if (!w->names)
		return -ENOMEM;
	w->n_names = n;
	for (size_t i = 0; i < n; i++) {
		struct wanted_name *wn = &w->names[i];
		size_t bytes = strlen(names[i]);
		int32_t *head = &w->short_names;

		if (symbols[i].found || bytes == 0 || bytes > MAX_NAME_BYTES)
			continue;
		wn->name = names[i];
		wn->bytes = bytes;
		if (bytes >= sizeof(wn->tail)) {
			memcpy(&wn->tail, names[i] + bytes - sizeof(wn->tail), sizeof(wn->tail));
			head = &w->buckets[bucket_of(wn->tail)];
		}
		wn->next = *head;
		*head = (int32_t)i;
		if (bytes > w->max_bytes)
			w->max_bytes = bytes;
	}
	return 0;
}

static int32_t bucket_head(const struct wanted *w, const struct wanted_name *wn)
{
	return wn->bytes >= sizeof(wn->tail) ? w->buckets[bucket_of(wn->tail)] : w->short_names;
}

/* A string ends before end, and so do the wanted names that its last bytes spell; data[0] is at
 * data_off of the string table. */
static int note_end(struct wanted *w, const char *data, size_t end, uint64_t data_off)
{
	int32_t heads[2] = {w->short_names, -1};
	uint32_t tail = 0;

	if (end >= sizeof(tail)) {
		memcpy(&tail, data + end - sizeof(tail), sizeof(tail));
		heads[1] = w->buckets[bucket_of(tail)];
	}
	for (unsigned k = 0; k < GS_ARRAY_LEN(heads); k++) {
		for (int32_t i = heads[k]; i >= 0; i = w->names[i].next) {
			const struct wanted_name *wn = &w->names[i];
			int r;

			if (wn->bytes > end ||
			    memcmp(data + end - wn->bytes, wn->name, wn->bytes) != 0)
				continue;
			r = gs_map_put(&w->offsets, data_off + end - wn->bytes, (uint64_t)i);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* The first byte of [p, end) that is not 0. */
static const char *skip_zeros(const char *p, const char *end)
{
	uint64_t word;

	for (; end - p >= (ptrdiff_t)sizeof(word); p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		if (word)
			break;
	}
	while (p < end && !*p)
		p++;
	return p;
}

/* Ends of strings in data[from, bytes). After the first of a run of zeros no name ends. *n_left:
 * how many there may be. */
static int note_ends(struct wanted *w, const char *data, size_t from, size_t bytes,
		     uint64_t data_off, uint64_t *n_left)
{
	const char *end = data + bytes;
	int r = 0;

	for (const char *p = data + from; r == 0 && (p = memchr(p, 0, end - p));
	     p = skip_zeros(p, end)) {
		if (!(*n_left)--)
			return -ENOEXEC;
		r = note_end(w, data, p - data, data_off);
	}
	for (const char *p = data + from; r == 0 && (p = memchr(p, '@', end - p)); p++) {
		if (p > data && p[-1] == '@')
			r = note_end(w, data, p - 1 - data, data_off);
	}
	return r;
}

static int stream_strings(const struct gs_elf *elf, const struct gs_elf_table *table,
			  struct wanted *w)
{
	/* What a name that ends in the next block may begin with, with room for its "@@". */
	size_t keep_max = w->max_bytes + 2, kept = 0;
	GS_FREE char *data = malloc(keep_max + BLOCK_BYTES);
	/* Each symbol has one name: a table with many times as many strings is made up, to be
	 * slow. */
	uint64_t off = 0, n_left = STRINGS_FREE + STRINGS_TIMES * table->n_symbols;

	if (!data)
		return -ENOMEM;
	while (off < table->str_bytes) {
		uint64_t left = table->str_bytes - off;
		uint64_t hole = gs_elf_skip_hole(elf, table->str_off + off,
						 table->str_off + table->str_bytes) -
				table->str_off - off;
		size_t n = left < BLOCK_BYTES ? left : BLOCK_BYTES, bytes;
		int r;

		/* A hole is zeros: the first of them ends a name, the rest is passed over. */
		if (hole)
			n = 1;
		bytes = kept + n;
		r = gs_elf_pread(elf, table->str_off + off, data + kept, n);
		if (r == 0)
			r = note_ends(w, data, kept, bytes, off - kept, &n_left);
		if (r < 0)
			return r;
		off += hole ? hole : n;
		kept = hole ? 0 : bytes < keep_max ? bytes : keep_max;
		memmove(data, data + bytes - kept, kept);
	}
	return 0;
}

/* The symbol has the name of index i, and every other wanted name that is the same. */
static void take_for_all(const struct gs_elf *elf, struct wanted *w, size_t i, const Elf64_Sym *sym,
			 bool dynamic, struct gs_elf_symbol *ret_symbols)
{
	const struct wanted_name *same = &w->names[i];
	uint8_t rank = rank_of(sym);

	for (int32_t k = bucket_head(w, same); k >= 0; k = w->names[k].next) {
		struct wanted_name *wn = &w->names[k];

		if (wn->bytes != same->bytes || memcmp(wn->name, same->name, wn->bytes) != 0)
			continue;
		if (rank > wn->rank && take_symbol(elf, sym, dynamic, &ret_symbols[k]))
			wn->rank = rank;
	}
}

static int stream_symbols(const struct gs_elf *elf, const struct gs_elf_table *table,
			  struct wanted *w, bool dynamic, struct gs_elf_symbol *ret_symbols)
{
	const size_t max = BLOCK_BYTES / sizeof(Elf64_Sym);
	GS_FREE Elf64_Sym *block = calloc(max, sizeof(*block));
	uint64_t i;

	if (!block)
		return -ENOMEM;
	for (uint64_t done = 0; done < table->n_symbols;) {
		size_t n = max;
		int r = gs_elf_read_symbols(elf, table, &done, block, &n);

		if (r < 0)
			return r;
		for (size_t k = 0; k < n; k++) {
			if (is_function(&block[k]) && gs_map_get(&w->offsets, block[k].st_name, &i))
				take_for_all(elf, w, i, &block[k], dynamic, ret_symbols);
		}
		done += n;
	}
	return 0;
}

/* Look for those of the names that are not found yet. */
static int find_by_passes(const struct gs_elf *elf, const struct gs_elf_table *table, bool dynamic,
			  const char *const *names, size_t n, struct gs_elf_symbol *ret_symbols)
{
	GS_CLEANUP(wanted_fini) struct wanted w;
	int r = wanted_init(&w, names, n, ret_symbols);

	if (r < 0)
		return r;
	if (table->n_symbols == 0 || w.max_bytes == 0)
		return 0;
	if (table->n_symbols > MAX_TABLE_BYTES / sizeof(Elf64_Sym) ||
	    table->str_bytes > MAX_TABLE_BYTES)
		return -EFBIG;
	r = stream_strings(elf, table, &w);
	if (r < 0 || w.offsets.n_used == 0)
		return r;
	return stream_symbols(elf, table, &w, dynamic, ret_symbols);
}

/* ---- the header's calls ---------------------------------------------------------------- */

static int find_dynamic(struct gs_elf *elf, const char *const *names, size_t n,
			struct gs_elf_symbol *ret_symbols)
{
	struct gnu_hash h;
	int r;

	if (elf->gnu_hash_off == 0) {
		if (elf->dynsym.n_symbols == 0)
			r = gs_elf_read_sections(elf);
		else
			r = 0;
		return r < 0 ? r : find_by_passes(elf, &elf->dynsym, true, names, n, ret_symbols);
	}
	r = read_gnu_hash(elf, &h);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = find_by_hash(elf, &h, names[i], &ret_symbols[i]);
	return r < 0 ? r : 0;
}

bool gs_elf_defines(struct gs_elf *elf, const char *name)
{
	struct gs_elf_symbol symbol = {0};

	return find_dynamic(elf, &name, 1, &symbol) == 0 && symbol.found;
}

int gs_elf_find(struct gs_elf *elf, const char *const *names, size_t n, bool with_static,
		struct gs_elf_symbol *ret_symbols, struct gs_err *err)
{
	GS_FREE struct gs_elf_symbol *symbols = calloc(n ? n : 1, sizeof(*symbols));
	int r;

	if (!symbols)
		return -ENOMEM;
	r = find_dynamic(elf, names, n, symbols);
	if (r == 0 && with_static) {
		r = gs_elf_read_sections(elf);
		if (r == 0)
			r = find_by_passes(elf, &elf->symtab, false, names, n, symbols);
	}
	if (r == -ENOEXEC)
		return gs_err_set(err, r, "%s: its symbol tables are malformed or truncated",
				  elf->path);
	if (r == -EFBIG || r == -ENOBUFS)
		return gs_err_set(err, r, "%s: its symbol tables are too big to be searched",
				  elf->path);
	if (r < 0)
		return gs_err_set(err, r, "cannot read the symbols of %s: %s", elf->path,
				  gs_foreign_reason(r));
	if (n)
		memcpy(ret_symbols, symbols, n * sizeof(*symbols));
	return 0;
}
