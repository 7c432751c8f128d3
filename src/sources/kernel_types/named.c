/*
 * Which types of the kernel the programs in an ELF file name. The compiler leaves a list of them in the section
 * .BTF.ext, whose layout the kernel's Documentation/bpf/btf.rst and llvm_reloc.rst describe: for each place in
 * the programs that depends on the kernel's types the number of a type in the file's own set (.BTF), whose name
 * is the kernel's.
 */
#include <elf.h>
#include <string.h>

#include <linux/bpf.h>

#include "core/base/mem.h"
#include "sources/kernel_types/kernel_types_int.h"

struct bytes {
	const uint8_t *at;
	size_t n;
};

/* The header of .BTF.ext up to what is read of it; offsets count from its end. */
struct ext_header {
	uint16_t magic;
	uint8_t version, flags;
	uint32_t header_bytes;
	uint32_t func_off, func_bytes, line_off, line_bytes;
	uint32_t place_off, place_bytes;
};

/* Of one section of programs; its places follow. */
struct ext_section {
	uint32_t name_off, n_places;
};

static bool part_of(struct bytes all, uint64_t off, uint64_t n, struct bytes *ret)
{
	if (off > all.n || n > all.n - off)
		return false;
	*ret = (struct bytes){.at = all.at + off, .n = n};
	return true;
}

/* Copies the next n bytes, and skips them. */
static bool take_bytes(struct bytes *from, void *to, size_t n)
{
	if (from->n < n)
		return false;
	memcpy(to, from->at, n);
	from->at += n;
	from->n -= n;
	return true;
}

static bool section_header(struct bytes elf, const Elf64_Ehdr *file, unsigned i, Elf64_Shdr *ret)
{
	struct bytes at;

	if (!part_of(elf, file->e_shoff + (uint64_t)i * sizeof(*ret), sizeof(*ret), &at))
		return false;
	memcpy(ret, at.at, sizeof(*ret));
	return true;
}

static bool find_section(struct bytes elf, const char *name, struct bytes *ret)
{
	size_t n_name = strlen(name) + 1;
	Elf64_Shdr names, section;
	struct bytes text, word;
	Elf64_Ehdr file;

	if (elf.n < sizeof(file))
		return false;
	memcpy(&file, elf.at, sizeof(file));
	if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
	    !section_header(elf, &file, file.e_shstrndx, &names) ||
	    !part_of(elf, names.sh_offset, names.sh_size, &text))
		return false;
	for (unsigned i = 0; i < file.e_shnum; i++)
		if (section_header(elf, &file, i, &section) &&
		    part_of(text, section.sh_name, n_name, &word) &&
		    memcmp(word.at, name, n_name) == 0)
			return part_of(elf, section.sh_offset, section.sh_size, ret);
	return false;
}

/* What can be answered by a type's name, its members, its size and its values. */
static bool is_answerable(const struct bpf_core_relo *place, const struct btf_type *type)
{
	switch (place->kind) {
	case BPF_CORE_FIELD_BYTE_OFFSET:
	case BPF_CORE_FIELD_BYTE_SIZE:
	case BPF_CORE_FIELD_EXISTS:
	case BPF_CORE_FIELD_SIGNED:
	case BPF_CORE_FIELD_LSHIFT_U64:
	case BPF_CORE_FIELD_RSHIFT_U64:
	case BPF_CORE_ENUMVAL_EXISTS:
	case BPF_CORE_ENUMVAL_VALUE:
		return true;
	case BPF_CORE_TYPE_EXISTS:
	case BPF_CORE_TYPE_SIZE:
		return btf_is_composite(type) || btf_is_any_enum(type);
	default:
		return false;
	}
}

static bool walk_places(const struct btf *own, struct bytes places, kernel_name_fn *fn, void *ctx)
{
	struct ext_section section;
	struct bpf_core_relo place;
	uint32_t record_bytes;

	if (!places.n)
		return true;
	if (!take_bytes(&places, &record_bytes, sizeof(record_bytes)) ||
	    record_bytes != sizeof(place))
		return false;
	while (take_bytes(&places, &section, sizeof(section))) {
		for (uint32_t i = 0; i < section.n_places; i++) {
			const struct btf_type *type;

			if (!take_bytes(&places, &place, sizeof(place)))
				return false;
			if (place.kind == BPF_CORE_TYPE_ID_LOCAL)
				continue; /* the file's own */
			type = btf__type_by_id(own, place.type_id);
			if (!type || !kernel_types_is_named(type) || !is_answerable(&place, type) ||
			    !fn(ctx, kernel_types_name(btf__name_by_offset(own, type->name_off))))
				return false;
		}
	}
	return places.n == 0;
}

bool kernel_types_walk_names(const void *elf, size_t n_bytes, kernel_name_fn *fn, void *ctx)
{
	struct bytes file = {.at = elf, .n = n_bytes}, types, ext, places;
	struct ext_header header;
	struct btf *own;
	bool ok;

	if (!find_section(file, ".BTF", &types) || !find_section(file, ".BTF.ext", &ext) ||
	    ext.n < sizeof(header))
		return false;
	memcpy(&header, ext.at, sizeof(header));
	if (header.header_bytes < sizeof(header) ||
	    !part_of(ext, (uint64_t)header.header_bytes + header.place_off, header.place_bytes,
		     &places))
		return false;
	own = btf__new(types.at, (uint32_t)types.n);
	if (!own)
		return false;
	ok = walk_places(own, places, fn, ctx);
	btf__free(own);
	return ok;
}
