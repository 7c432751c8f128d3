/*
 * A cubin is an ELF file of machine 190. A kernel K is a symbol that is marked as an entry, in a section
 * .text.K of its own; what it needs stands in sections that name that one in sh_info (.nv.shared.K,
 * .nv.constant0.K, .nv.info.K), and by its symbol in .nv.info. That is a list of attributes: a format, a
 * number, and a value of 16 bits or so many bytes after it. The numbers are those of `ptxas` of CUDA
 * 11.8 to 13.0, as compared with what its --resource-usage prints (tests/unit/cubin).
 */
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/cubin/cubin.h"

#define MACHINE_CUDA   190
#define OTHER_ENTRY    0x10 /* of st_other: a kernel, not a function called by one */
#define MOST_SECTIONS  (4 * GS_CUBIN_KERNELS + 64)
#define MOST_SYMBOLS   (1u << 21)
#define ABI_OLD        7    /* of EI_ABIVERSION: the architecture is in other bits */
#define RESERVED_BYTES 1024 /* of shared memory of a block, sm_90 and newer */

enum info_attribute {
	INFO_MAX_THREADS = 0x05,
	INFO_REQUIRED_THREADS = 0x10,
	INFO_FRAME_BYTES = 0x11,
	INFO_STACK_BYTES = 0x12,
	INFO_REGISTERS = 0x2f,
};

#define INFO_FORMAT_SIZED 4 /* the value is a number of bytes, which follow */

struct cubin {
	const uint8_t *data; /* lent */
	size_t bytes;
	uint64_t section_off, n_sections;
	Elf64_Shdr names, symbols, strings;
	uint64_t n_symbols;
	uint32_t sm, abi;
	bool has_reserved;

	struct gs_cubin_kernel *kernels; /* owned; name is an offset until it is visited */
	uint32_t *name_off;              /* owned, of each kernel: into the strings */
	uint32_t *symbol_of;             /* owned, likewise: its symbol */
	uint32_t n_kernels;
	uint32_t *by_section; /* owned: one more than the kernel whose code the section is; 0 */
};

static bool is_inside(const struct cubin *c, uint64_t off, uint64_t bytes)
{
	return off <= c->bytes && bytes <= c->bytes - off;
}

static bool section_at(const struct cubin *c, uint64_t i, Elf64_Shdr *ret)
{
	if (i >= c->n_sections)
		return false;
	memcpy(ret, c->data + c->section_off + i * sizeof(*ret), sizeof(*ret));
	return ret->sh_type == SHT_NOBITS || is_inside(c, ret->sh_offset, ret->sh_size);
}

/* A text in a section of texts. NULL: it does not end there. */
static const char *text_at(const struct cubin *c, const Elf64_Shdr *texts, uint64_t off)
{
	const char *text;

	if (off >= texts->sh_size)
		return NULL;
	text = (const char *)c->data + texts->sh_offset + off;
	return memchr(text, 0, texts->sh_size - off) ? text : NULL;
}

static bool symbol_at(const struct cubin *c, uint64_t i, Elf64_Sym *ret)
{
	if (i >= c->n_symbols)
		return false;
	memcpy(ret, c->data + c->symbols.sh_offset + i * sizeof(*ret), sizeof(*ret));
	return true;
}

/* --- what the file says of itself --- */

static int take_head(struct cubin *c)
{
	Elf64_Ehdr head;
	Elf64_Shdr first;
	uint64_t names;

	if (c->bytes < sizeof(head))
		return -ENOEXEC;
	memcpy(&head, c->data, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_machine != MACHINE_CUDA ||
	    head.e_shentsize != sizeof(first) || !is_inside(c, head.e_shoff, sizeof(first)))
		return -ENOEXEC;
	memcpy(&first, c->data + head.e_shoff, sizeof(first));
	c->section_off = head.e_shoff;
	c->n_sections = head.e_shnum ? head.e_shnum : first.sh_size; /* many: ELF gABI 4 */
	names = head.e_shstrndx == SHN_XINDEX ? first.sh_link : head.e_shstrndx;
	if (c->n_sections > MOST_SECTIONS ||
	    !is_inside(c, head.e_shoff, c->n_sections * sizeof(first)) ||
	    !section_at(c, names, &c->names) || c->names.sh_type == SHT_NOBITS)
		return -ENOEXEC;
	c->abi = head.e_ident[EI_ABIVERSION];
	c->sm = c->abi > ABI_OLD ? head.e_flags >> 8 & 0xff : head.e_flags & 0xff;
	return 0;
}

static int find_symbols(struct cubin *c)
{
	for (uint64_t i = 0; i < c->n_sections; i++) {
		Elf64_Shdr s;

		if (!section_at(c, i, &s) || s.sh_type != SHT_SYMTAB)
			continue;
		if (!section_at(c, s.sh_link, &c->strings) || c->strings.sh_type == SHT_NOBITS)
			return -ENOEXEC;
		c->symbols = s;
		c->n_symbols = s.sh_size / sizeof(Elf64_Sym);
		return c->n_symbols <= MOST_SYMBOLS ? 0 : -ENOEXEC;
	}
	return -ENOEXEC;
}

/* --- kernels --- */

static int add_kernel(struct cubin *c, uint64_t symbol, const Elf64_Sym *sym)
{
	const char *name = text_at(c, &c->strings, sym->st_name);
	uint32_t i = c->n_kernels;
	Elf64_Shdr code;

	if (!name || !*name || strlen(name) >= GS_CUBIN_NAME_BYTES || sym->st_shndx == SHN_UNDEF ||
	    !section_at(c, sym->st_shndx, &code) || c->by_section[sym->st_shndx])
		return 0;
	if (i == GS_CUBIN_KERNELS)
		return -ENOEXEC;
	c->kernels[i] = (struct gs_cubin_kernel){
		.sm = c->sm,
		.code_bytes = sym->st_size ? sym->st_size : code.sh_size,
		/* Before sm_90 it stands here; also where it does not, .nv.info has it. */
		.registers = code.sh_info >> 24,
	};
	c->name_off[i] = sym->st_name;
	c->symbol_of[i] = (uint32_t)symbol;
	c->by_section[sym->st_shndx] = i + 1;
	c->n_kernels++;
	return 0;
}

static bool is_kernel(const Elf64_Sym *sym)
{
	return ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_other & OTHER_ENTRY;
}

static int find_kernels(struct cubin *c)
{
	uint64_t n = 0;
	Elf64_Sym sym;
	int r = 0;

	for (uint64_t i = 0; symbol_at(c, i, &sym); i++)
		n += is_kernel(&sym);
	if (n > GS_CUBIN_KERNELS)
		return -ENOEXEC;
	c->kernels = calloc(n + 1, sizeof(*c->kernels));
	c->name_off = calloc(n + 1, sizeof(*c->name_off));
	c->symbol_of = calloc(n + 1, sizeof(*c->symbol_of));
	c->by_section = calloc(c->n_sections + 1, sizeof(*c->by_section));
	if (!c->kernels || !c->name_off || !c->symbol_of || !c->by_section)
		return -ENOMEM;
	for (uint64_t i = 0; r == 0 && symbol_at(c, i, &sym); i++)
		if (is_kernel(&sym) && sym.st_shndx < c->n_sections)
			r = add_kernel(c, i, &sym);
	return r;
}

static struct gs_cubin_kernel *kernel_of_symbol(struct cubin *c, uint32_t symbol)
{
	Elf64_Sym sym;
	uint32_t i;

	if (!symbol_at(c, symbol, &sym) || sym.st_shndx >= c->n_sections)
		return NULL;
	i = c->by_section[sym.st_shndx];
	return i && c->symbol_of[i - 1] == symbol ? &c->kernels[i - 1] : NULL;
}

/* --- attributes --- */

static uint32_t word_of(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static uint32_t larger_of(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Of .nv.info: a symbol and a number. */
static void take_by_symbol(struct cubin *c, unsigned attribute, const uint8_t *value)
{
	struct gs_cubin_kernel *k = kernel_of_symbol(c, word_of(value));
	uint32_t n = word_of(value + 4);

	if (!k)
		return;
	if (attribute == INFO_REGISTERS)
		k->registers = n;
	else if (attribute == INFO_FRAME_BYTES || attribute == INFO_STACK_BYTES)
		k->local_bytes = larger_of(k->local_bytes, n);
}

/* Of .nv.info.K: the sizes of a block. */
static void take_threads(struct gs_cubin_kernel *k, const uint8_t *value)
{
	uint64_t n = (uint64_t)word_of(value) * word_of(value + 4);

	n = n > UINT16_MAX ? 0 : n * word_of(value + 8);
	if (n <= UINT16_MAX) /* a block has 1,024 at most */
		k->max_threads = (uint32_t)n;
}

/* k NULL: of all kernels. */
static void take_info(struct cubin *c, const Elf64_Shdr *s, struct gs_cubin_kernel *k)
{
	const uint8_t *at = c->data + s->sh_offset, *end = at + s->sh_size;

	while (end - at >= 4) {
		unsigned format = at[0], attribute = at[1];
		size_t bytes = format == INFO_FORMAT_SIZED ? at[2] | (size_t)at[3] << 8 : 0;

		at += 4;
		if (bytes > (size_t)(end - at))
			return;
		if (!k && bytes == 8)
			take_by_symbol(c, attribute, at);
		else if (k && bytes == 12 &&
			 (attribute == INFO_MAX_THREADS || attribute == INFO_REQUIRED_THREADS))
			take_threads(k, at);
		at += bytes;
	}
}

static void add_bytes(uint32_t *sum, uint64_t bytes)
{
	*sum = bytes > UINT32_MAX - *sum ? UINT32_MAX : *sum + (uint32_t)bytes;
}

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void take_section(struct cubin *c, const Elf64_Shdr *s, const char *name)
{
	uint32_t i = s->sh_info < c->n_sections ? c->by_section[s->sh_info] : 0;
	struct gs_cubin_kernel *k = i ? &c->kernels[i - 1] : NULL;

	if (begins_with(name, ".nv.shared.reserved."))
		c->has_reserved = true;
	else if (strcmp(name, ".nv.info") == 0 && s->sh_type != SHT_NOBITS)
		take_info(c, s, NULL);
	else if (!k)
		return;
	else if (begins_with(name, ".nv.info.") && s->sh_type != SHT_NOBITS)
		take_info(c, s, k);
	else if (begins_with(name, ".nv.shared."))
		add_bytes(&k->shared_bytes, s->sh_size);
	else if (begins_with(name, ".nv.constant"))
		add_bytes(&k->constant_bytes, s->sh_size);
}

static int read_cubin(struct cubin *c)
{
	int r = take_head(c);

	if (r == 0)
		r = find_symbols(c);
	if (r == 0)
		r = find_kernels(c);
	for (uint64_t i = 0; r == 0 && i < c->n_sections; i++) {
		const char *name;
		Elf64_Shdr s;

		if (!section_at(c, i, &s))
			continue;
		name = text_at(c, &c->names, s.sh_name);
		if (name)
			take_section(c, &s, name);
	}
	return r;
}

int gs_cubin_each_kernel(const void *cubin, size_t bytes, gs_cubin_kernel_fn fn, void *ctx)
{
	struct cubin c = {.data = cubin, .bytes = bytes};
	int r = read_cubin(&c);

	for (uint32_t i = 0; r == 0 && i < c.n_kernels; i++) {
		struct gs_cubin_kernel *k = &c.kernels[i];

		k->name = text_at(&c, &c.strings, c.name_off[i]);
		if (c.has_reserved && k->shared_bytes >= RESERVED_BYTES)
			k->shared_bytes -= RESERVED_BYTES;
		r = fn(ctx, k);
	}
	free(c.kernels);
	free(c.name_off);
	free(c.symbol_of);
	free(c.by_section);
	return r;
}
