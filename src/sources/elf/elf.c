/*
 * ELF files, read by plain pread: headers, dynamic segment, section headers, notes.
 *
 * Own parsing instead of libelf, for three reasons. The files belong to traced programs, so each
 * offset and size has to be checked against the file anyway. libelf either maps the file, and a
 * file that is cut short under us then kills us with SIGBUS, or reads whole sections into memory,
 * and tables of tens of MB are common in the libraries we trace. And of the format we need a
 * handful of structures only.
 *
 * A file is opened in three small reads (header, program headers, dynamic segment). What only some
 * callers need is read when first asked for: section headers (.symtab), notes (build id). Symbols
 * are looked up in symbol.c. A file whose segments or section headers reach past its end is one
 * that is still being written or was cut short, and is refused as a whole: a probe placed into it
 * would be placed by chance.
 */
#include "sources/elf/elf_int.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define MAX_SEGMENTS    512u /* the kernel starts no program with more than 73 */
#define MAX_SECTIONS    262144u
#define MAX_DYNAMIC     4096u /* entries */
#define MAX_NEEDED      512u
#define MAX_TEXT_BYTES  (64 << 10) /* of one string of the dynamic segment */
#define MAX_NOTES_BYTES (64 << 10) /* of one segment of notes */
#define MAX_TABLE_BYTES (1ull << 30)

#define GS_ELF_CLOSE GS_CLEANUP(gs_elf_close)

static int refuse_elf(const struct gs_elf *elf, struct gs_err *err, const char *why)
{
	return gs_err_set(err, -ENOEXEC, "%s: %s", elf->path, why);
}

int gs_elf_pread(const struct gs_elf *elf, uint64_t off, void *buf, size_t bytes)
{
	ssize_t n;

	if (!gs_elf_inside(elf, off, bytes))
		return -ENOEXEC;
	n = gs_foreign_read(elf->file, off, buf, bytes);
	if (n < 0)
		return (int)n;
	return (size_t)n == bytes ? 0 : -ENOEXEC; /* shorter than it was when opened */
}

uint64_t gs_elf_skip_hole(const struct gs_elf *elf, uint64_t off, uint64_t end)
{
	return gs_foreign_skip_hole(elf->file, off, end);
}

bool gs_elf_inside(const struct gs_elf *elf, uint64_t off, uint64_t bytes)
{
	return off <= elf->file_bytes && bytes <= elf->file_bytes - off;
}

bool gs_elf_vaddr_to_off(const struct gs_elf *elf, uint64_t vaddr, bool executable,
			 uint64_t *ret_off, uint64_t *ret_bytes)
{
	for (size_t i = 0; i < elf->n_loads; i++) {
		const struct gs_elf_load *l = &elf->loads[i];

		if (executable && !l->executable)
			continue;
		if (vaddr < l->vaddr || vaddr - l->vaddr >= l->bytes)
			continue;
		*ret_off = l->off + (vaddr - l->vaddr);
		*ret_bytes = l->bytes - (vaddr - l->vaddr);
		return true;
	}
	return false;
}

/* only_debug: what the file was stripped to, whose segments lie in another file. */
static int read_segments(struct gs_elf *elf, const Elf64_Ehdr *eh, bool only_debug,
			 struct gs_err *err)
{
	GS_FREE Elf64_Phdr *ph = NULL;
	int r;

	if (eh->e_phentsize != sizeof(*ph) || eh->e_phnum == 0 || eh->e_phnum > MAX_SEGMENTS)
		return refuse_elf(elf, err, "its program headers are not those of a program");
	ph = calloc(eh->e_phnum, sizeof(*ph));
	elf->loads = calloc(eh->e_phnum, sizeof(*elf->loads));
	if (!ph || !elf->loads)
		return -ENOMEM;
	r = gs_elf_pread(elf, eh->e_phoff, ph, eh->e_phnum * sizeof(*ph));
	if (r < 0)
		return refuse_elf(elf, err, "it is truncated: no program headers");
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD && ph[i].p_type != PT_DYNAMIC)
			continue;
		if (only_debug)
			continue;
		if (!gs_elf_inside(elf, ph[i].p_offset, ph[i].p_filesz))
			return refuse_elf(
				elf, err,
				"it is truncated: a segment ends after the end of the file");
		if (ph[i].p_type == PT_DYNAMIC) {
			elf->dynamic_off = ph[i].p_offset;
			elf->dynamic_bytes = ph[i].p_filesz;
			continue;
		}
		elf->loads[elf->n_loads++] = (struct gs_elf_load){
			.vaddr = ph[i].p_vaddr,
			.off = ph[i].p_offset,
			.bytes = ph[i].p_filesz,
			.executable = ph[i].p_flags & PF_X,
		};
	}
	return 0;
}

/* Only where the section headers lie. A file with more than 65,279 sections keeps their number in
 * the first of them. */
static int place_sections(struct gs_elf *elf, const Elf64_Ehdr *eh, struct gs_err *err)
{
	Elf64_Shdr first;
	uint64_t n = eh->e_shnum;

	if (eh->e_shoff == 0)
		return 0;
	if (eh->e_shentsize != sizeof(first))
		return n ? refuse_elf(elf, err, "its section headers are malformed") : 0;
	if (n == 0) {
		if (gs_elf_pread(elf, eh->e_shoff, &first, sizeof(first)) < 0)
			return refuse_elf(elf, err, "it is truncated: no section headers");
		n = first.sh_size;
	}
	if (n > MAX_SECTIONS)
		return refuse_elf(elf, err, "it has more sections than any program");
	if (n > elf->file_bytes / sizeof(first) ||
	    !gs_elf_inside(elf, eh->e_shoff, n * sizeof(first)))
		return refuse_elf(elf, err, "it is truncated: no section headers");
	elf->section_off = eh->e_shoff;
	elf->n_sections = n;
	return 0;
}

int gs_elf_read_dynamic(const struct gs_elf *elf, Elf64_Dyn **ret_dynamic, size_t *ret_n)
{
	GS_FREE Elf64_Dyn *dynamic = NULL;
	size_t n = elf->dynamic_bytes / sizeof(*dynamic), end = 0;
	int r;

	if (n > MAX_DYNAMIC)
		n = MAX_DYNAMIC;
	dynamic = calloc(n + 1, sizeof(*dynamic));
	if (!dynamic)
		return -ENOMEM;
	r = gs_elf_pread(elf, elf->dynamic_off, dynamic, n * sizeof(*dynamic));
	if (r < 0)
		return r;
	while (end < n && dynamic[end].d_tag != DT_NULL)
		end++;
	*ret_dynamic = gs_take(dynamic);
	*ret_n = end;
	return 0;
}

/* A table that the dynamic segment places outside of the file's segments is as if not there: the
 * loader could not use it either. */
static int read_dynamic_tables(struct gs_elf *elf)
{
	GS_FREE Elf64_Dyn *dynamic = NULL;
	uint64_t str_vaddr = 0, str_bytes = 0, sym_vaddr = 0, gnu_vaddr = 0, hash_vaddr = 0;
	uint64_t off, bytes;
	uint32_t sysv_head[2];
	size_t n;
	int r = gs_elf_read_dynamic(elf, &dynamic, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		switch (dynamic[i].d_tag) {
		case DT_STRTAB:
			str_vaddr = dynamic[i].d_un.d_ptr;
			break;
		case DT_STRSZ:
			str_bytes = dynamic[i].d_un.d_val;
			break;
		case DT_SYMTAB:
			sym_vaddr = dynamic[i].d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			gnu_vaddr = dynamic[i].d_un.d_ptr;
			break;
		case DT_HASH:
			hash_vaddr = dynamic[i].d_un.d_ptr;
			break;
		}
	}
	if (!str_vaddr || !gs_elf_vaddr_to_off(elf, str_vaddr, false, &off, &bytes))
		return 0;
	elf->dynsym.str_off = off;
	elf->dynsym.str_bytes = str_bytes < bytes ? str_bytes : bytes;
	if (!sym_vaddr || !gs_elf_vaddr_to_off(elf, sym_vaddr, false, &off, &bytes))
		return 0;
	elf->dynsym.sym_off = off;
	if (gnu_vaddr && gs_elf_vaddr_to_off(elf, gnu_vaddr, false, &off, &bytes))
		elf->gnu_hash_off = off;
	if (hash_vaddr && gs_elf_vaddr_to_off(elf, hash_vaddr, false, &off, &bytes) &&
	    gs_elf_pread(elf, off, sysv_head, sizeof(sysv_head)) == 0)
		elf->dynsym.n_symbols = sysv_head[1]; /* one chain entry for each symbol */
	if (!gs_elf_inside(elf, elf->dynsym.sym_off, elf->dynsym.n_symbols * sizeof(Elf64_Sym)))
		elf->dynsym.n_symbols = 0;
	return 0;
}

static int check_header(const struct gs_elf *elf, const Elf64_Ehdr *eh, struct gs_err *err)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return refuse_elf(elf, err, "it is not an ELF file");
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return refuse_elf(elf, err, "it is an ELF file, but not one for x86-64");
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return refuse_elf(elf, err,
				  "it is an ELF file, but neither a program nor a shared library");
	return 0;
}

/* fd: the file as the caller opened it, taken; NULL: by its path. */
static int open_elf(const char *path, int *fd, const struct gs_foreign_want *want, bool only_debug,
		    struct gs_elf **ret_elf, struct gs_err *err)
{
	GS_ELF_CLOSE struct gs_elf *elf = calloc(1, sizeof(*elf));
	Elf64_Ehdr eh;
	int r;

	if (!elf)
		return -ENOMEM;
	elf->file = malloc(sizeof(*elf->file));
	if (!elf->file)
		return -ENOMEM;
	*elf->file = GS_FOREIGN_INIT;
	elf->path = strdup(path);
	if (!elf->path)
		return -ENOMEM;
	r = fd ? gs_foreign_adopt(fd, want, elf->file) : gs_foreign_open(path, want, elf->file);
	if (r == -EINVAL)
		return refuse_elf(elf, err, "it is not a regular file");
	if (r < 0)
		return gs_err_set(err, r, "cannot open %s: %s", path, gs_foreign_reason(r));
	elf->file_bytes = elf->file->bytes;
	r = gs_elf_pread(elf, 0, &eh, sizeof(eh));
	if (r == -ECANCELED || r == -EDQUOT)
		return gs_err_set(err, r, "%s: %s", path, gs_foreign_reason(r));
	if (r < 0)
		return refuse_elf(elf, err, "it is too short for an ELF file");
	r = check_header(elf, &eh, err);
	if (r < 0)
		return r;
	r = read_segments(elf, &eh, only_debug, err);
	if (r < 0)
		return r;
	r = place_sections(elf, &eh, err);
	if (r < 0)
		return r;
	r = read_dynamic_tables(elf);
	if (r < 0)
		return gs_err_set(err, r, "cannot read %s: %s", path, gs_foreign_reason(r));
	*ret_elf = gs_take(elf);
	return 0;
}

int gs_elf_open(const char *path, struct gs_elf **ret_elf, struct gs_err *err)
{
	return open_elf(path, NULL, NULL, false, ret_elf, err);
}

int gs_elf_open_debug(const char *path, const struct gs_foreign_want *want, struct gs_elf **ret_elf,
		      struct gs_err *err)
{
	return open_elf(path, NULL, want, true, ret_elf, err);
}

int gs_elf_open_fd(int *fd, const char *name, bool only_debug, struct gs_elf **ret_elf,
		   struct gs_err *err)
{
	return open_elf(name, fd, NULL, only_debug, ret_elf, err);
}

const char *gs_elf_path(const struct gs_elf *elf)
{
	return elf->path;
}

struct gs_foreign *gs_elf_file(const struct gs_elf *elf)
{
	return elf->file;
}

void gs_elf_close(struct gs_elf **elf)
{
	if (!*elf)
		return;
	if ((*elf)->file)
		gs_foreign_close((*elf)->file);
	free((*elf)->file);
	free((*elf)->loads);
	free((*elf)->path);
	free(*elf);
	*elf = NULL;
}

/* Fill table from the header of a symbol section and of the section of its strings. */
static int take_table(const struct gs_elf *elf, const Elf64_Shdr *sh, struct gs_elf_table *table)
{
	Elf64_Shdr str;
	int r;

	if (sh->sh_entsize != sizeof(Elf64_Sym) || sh->sh_link >= elf->n_sections)
		return -ENOEXEC;
	r = gs_elf_pread(elf, elf->section_off + sh->sh_link * sizeof(str), &str, sizeof(str));
	if (r < 0)
		return r;
	if (str.sh_type != SHT_STRTAB || !gs_elf_inside(elf, sh->sh_offset, sh->sh_size) ||
	    !gs_elf_inside(elf, str.sh_offset, str.sh_size))
		return -ENOEXEC;
	if (sh->sh_size > MAX_TABLE_BYTES || str.sh_size > MAX_TABLE_BYTES)
		return -EFBIG;
	*table = (struct gs_elf_table){
		.sym_off = sh->sh_offset,
		.n_symbols = sh->sh_size / sizeof(Elf64_Sym),
		.str_off = str.sh_offset,
		.str_bytes = str.sh_size,
	};
	return 0;
}

static int find_tables(struct gs_elf *elf)
{
	Elf64_Shdr block[64];
	struct gs_elf_table dynsym = {0};
	bool have_symtab = false, have_dynsym = false;

	for (uint64_t i = 0; i < elf->n_sections; i += GS_ARRAY_LEN(block)) {
		size_t n = elf->n_sections - i < GS_ARRAY_LEN(block) ? elf->n_sections - i
								     : GS_ARRAY_LEN(block);
		int r = gs_elf_pread(elf, elf->section_off + i * sizeof(block[0]), block,
				     n * sizeof(block[0]));

		for (size_t k = 0; r == 0 && k < n; k++) {
			if (block[k].sh_type == SHT_SYMTAB && !have_symtab) {
				have_symtab = true;
				r = take_table(elf, &block[k], &elf->symtab);
			} else if (block[k].sh_type == SHT_DYNSYM && !have_dynsym) {
				have_dynsym = true;
				r = take_table(elf, &block[k], &dynsym);
			}
		}
		if (r < 0)
			return r;
	}
	/* The dynamic segment is what the loader believes; the section only says how many there
	 * are, and stands in where there is no such segment. */
	if (elf->dynsym.n_symbols == 0 &&
	    (elf->dynsym.sym_off == 0 || elf->dynsym.sym_off == dynsym.sym_off))
		elf->dynsym = dynsym;
	return 0;
}

int gs_elf_read_sections(struct gs_elf *elf)
{
	if (!elf->sections_read) {
		elf->sections_result = find_tables(elf);
		if (elf->sections_result < 0)
			elf->symtab = (struct gs_elf_table){0};
		elf->sections_read = true;
	}
	return elf->sections_result;
}

int gs_elf_read_symbols(const struct gs_elf *elf, const struct gs_elf_table *table, uint64_t *done,
			Elf64_Sym *block, size_t *n)
{
	uint64_t from = table->sym_off + *done * sizeof(*block), left;
	uint64_t data =
		gs_elf_skip_hole(elf, from, table->sym_off + table->n_symbols * sizeof(*block));

	/* A symbol of zeros names nothing; one that begins in a hole may end in data. */
	*done += (data - from) / sizeof(*block);
	left = table->n_symbols - *done;
	if (left < *n)
		*n = left;
	return *n ? gs_elf_pread(elf, table->sym_off + *done * sizeof(*block), block,
				 *n * sizeof(*block))
		  : 0;
}

bool gs_elf_has_symtab(struct gs_elf *elf)
{
	return gs_elf_read_sections(elf) == 0 && elf->symtab.n_symbols > 0;
}

long gs_elf_read(struct gs_elf *elf, uint64_t file_off, void *buf, size_t bytes)
{
	int r;

	if (file_off >= elf->file_bytes)
		return 0;
	if (bytes > elf->file_bytes - file_off)
		bytes = elf->file_bytes - file_off;
	r = gs_elf_pread(elf, file_off, buf, bytes);
	return r < 0 ? r : (long)bytes;
}

static size_t align_up(size_t n, size_t align)
{
	return (n + align - 1) / align * align;
}

/* True when the build id is among these notes; written as hex. */
static bool take_build_id(const uint8_t *notes, size_t bytes, size_t align, char *out)
{
	size_t off = 0;
	Elf64_Nhdr nh;

	while (bytes - off >= sizeof(nh)) {
		size_t name_off = off + sizeof(nh), desc_off;

		memcpy(&nh, notes + off, sizeof(nh));
		if (nh.n_namesz > bytes || nh.n_descsz > bytes)
			return false;
		desc_off = align_up(name_off + nh.n_namesz, align);
		if (desc_off > bytes || nh.n_descsz > bytes - desc_off)
			return false;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && nh.n_descsz <= 64 &&
		    memcmp(notes + name_off, "GNU", 4) == 0) {
			for (size_t i = 0; i < nh.n_descsz; i++)
				sprintf(out + 2 * i, "%02x", notes[desc_off + i]);
			return true;
		}
		off = align_up(desc_off + nh.n_descsz, align);
		if (off > bytes)
			return false;
	}
	return false;
}

static void read_build_id(struct gs_elf *elf)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (gs_elf_pread(elf, 0, &eh, sizeof(eh)) < 0)
		return;
	for (unsigned i = 0; i < eh.e_phnum && i < MAX_SEGMENTS; i++) {
		GS_FREE uint8_t *notes = NULL;

		if (gs_elf_pread(elf, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph)) < 0)
			return;
		if (ph.p_type != PT_NOTE || ph.p_filesz > MAX_NOTES_BYTES || ph.p_filesz == 0)
			continue;
		notes = malloc(ph.p_filesz);
		if (!notes || gs_elf_pread(elf, ph.p_offset, notes, ph.p_filesz) < 0)
			continue;
		if (take_build_id(notes, ph.p_filesz, ph.p_align == 8 ? 8 : 4, elf->build_id))
			return;
	}
}

const char *gs_elf_build_id(struct gs_elf *elf)
{
	if (!elf->build_id_read) {
		read_build_id(elf);
		elf->build_id_read = true;
	}
	return elf->build_id;
}

/* The string at off of the dynamic string table. */
static int read_text(const struct gs_elf *elf, uint64_t off, char **ret_text)
{
	GS_FREE char *text = NULL;
	size_t bytes = 0;

	if (off >= elf->dynsym.str_bytes)
		return -ENOEXEC;
	while (bytes < MAX_TEXT_BYTES && off + bytes < elf->dynsym.str_bytes) {
		uint64_t left = elf->dynsym.str_bytes - off - bytes;
		size_t n = left < 512 ? left : 512;
		char *grown = realloc(text, bytes + n);
		int r;

		if (!grown)
			return -ENOMEM;
		text = grown;
		r = gs_elf_pread(elf, elf->dynsym.str_off + off + bytes, text + bytes, n);
		if (r < 0)
			return r;
		if (memchr(text + bytes, 0, n)) {
			*ret_text = gs_take(text);
			return 0;
		}
		bytes += n;
	}
	return -ENOEXEC;
}

static int add_need(const struct gs_elf *elf, const Elf64_Dyn *d, struct gs_elf_needs *needs)
{
	int r;

	if (d->d_tag == DT_RPATH && !needs->rpath)
		return read_text(elf, d->d_un.d_val, &needs->rpath);
	if (d->d_tag == DT_RUNPATH && !needs->runpath)
		return read_text(elf, d->d_un.d_val, &needs->runpath);
	if (d->d_tag != DT_NEEDED || needs->n_needed >= MAX_NEEDED)
		return 0;
	if (!gs_vec_reserve_next(&needs->needed, needs->n_needed))
		return -ENOMEM;
	r = read_text(elf, d->d_un.d_val, &needs->needed[needs->n_needed]);
	if (r == 0)
		needs->n_needed++;
	return r;
}

int gs_elf_read_needs(struct gs_elf *elf, struct gs_elf_needs *ret_needs)
{
	GS_CLEANUP(gs_elf_needs_fini) struct gs_elf_needs needs = {0};
	GS_FREE Elf64_Dyn *dynamic = NULL;
	size_t n;
	int r = gs_elf_read_dynamic(elf, &dynamic, &n);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_need(elf, &dynamic[i], &needs);
	if (r < 0)
		return r;
	*ret_needs = needs;
	needs = (struct gs_elf_needs){0};
	return 0;
}

void gs_elf_needs_fini(struct gs_elf_needs *needs)
{
	for (size_t i = 0; i < needs->n_needed; i++)
		free(needs->needed[i]);
	free(needs->needed);
	free(needs->rpath);
	free(needs->runpath);
	*needs = (struct gs_elf_needs){0};
}
