/*
 * A note, as sys/sdt.h lets the assembler write it (each part aligned to four bytes):
 *
 *	namesz 8 | descsz | type 3 | "stapsdt" | pc | base | semaphore | provider\0 name\0
 *arguments\0
 *
 * Addresses are as linked. Prelink may move the file afterwards without changing notes; base is the
 * address that .stapsdt.base had at link time, and what that section has moved by since, the others
 * have moved by as well. The notes are in no segment, so the section headers lead to them.
 */
#include "sources/elf/usdt.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf_int.h"

#define MAX_NOTES_BYTES (16u << 20)
#define MAX_NAMES_BYTES (1u << 20) /* of the section names */
#define NT_STAPSDT      3

/* --- arguments --- */

/* By their place in struct pt_regs (asm/ptrace.h). */
static const struct {
	const char *names[5]; /* 8, 4, 2, 1 bytes, and the second byte */
} registers[] = {
	{{"r15", "r15d", "r15w", "r15b"}},
	{{"r14", "r14d", "r14w", "r14b"}},
	{{"r13", "r13d", "r13w", "r13b"}},
	{{"r12", "r12d", "r12w", "r12b"}},
	{{"rbp", "ebp", "bp", "bpl"}},
	{{"rbx", "ebx", "bx", "bl", "bh"}},
	{{"r11", "r11d", "r11w", "r11b"}},
	{{"r10", "r10d", "r10w", "r10b"}},
	{{"r9", "r9d", "r9w", "r9b"}},
	{{"r8", "r8d", "r8w", "r8b"}},
	{{"rax", "eax", "ax", "al", "ah"}},
	{{"rcx", "ecx", "cx", "cl", "ch"}},
	{{"rdx", "edx", "dx", "dl", "dh"}},
	{{"rsi", "esi", "si", "sil"}},
	{{"rdi", "edi", "di", "dil"}},
	{{NULL}}, /* orig_ax */
	{{"rip", "eip", "ip"}},
	{{NULL}}, /* cs */
	{{NULL}}, /* flags */
	{{"rsp", "esp", "sp", "spl"}},
};

static bool parse_register(const char **text, uint8_t *ret_reg, uint8_t *ret_shift)
{
	const char *p = *text;
	size_t n;

	if (*p++ != '%')
		return false;
	n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789");
	for (unsigned r = 0; r < GS_ARRAY_LEN(registers); r++) {
		for (unsigned k = 0; k < GS_ARRAY_LEN(registers[r].names); k++) {
			const char *name = registers[r].names[k];

			if (!name || strlen(name) != n || memcmp(name, p, n) != 0)
				continue;
			*ret_reg = (uint8_t)r;
			*ret_shift = k == 4 ? 8 : 0;
			*text = p + n;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char **text, int64_t *ret_value)
{
	const char *p = *text;
	bool negative = *p == '-';
	unsigned long long v;
	char *end;

	p += *p == '-' || *p == '+';
	if (*p < '0' || *p > '9')
		return false;
	errno = 0;
	v = strtoull(p, &end, 0);
	if (errno)
		return false;
	*ret_value = (int64_t)(negative ? 0 - v : v);
	*text = end;
	return true;
}

/* "(%rbp)", "(%rax,%rbx,8)", "(,%rbx,8)"; the displacement was read. */
static const char *parse_memory(const char **text, struct gs_usdt_arg *a)
{
	const char *p = *text + 1;
	uint8_t shift = 0;
	int64_t scale;

	a->place = GS_USDT_MEMORY;
	a->reg = GS_USDT_NO_REG;
	if (*p == '%' && (!parse_register(&p, &a->reg, &shift) || shift))
		return "an unknown register";
	if (*p == ',') {
		p++;
		if (!parse_register(&p, &a->index_reg, &shift) || shift)
			return "an unknown index register";
		if (*p == ',') {
			p++;
			if (!parse_number(&p, &scale) ||
			    (scale != 1 && scale != 2 && scale != 4 && scale != 8))
				return "a scale other than 1, 2, 4 and 8";
			a->scale_shift = (uint8_t)__builtin_ctzll((uint64_t)scale);
		}
	}
	if (*p != ')' || (a->reg == GS_USDT_NO_REG && a->index_reg == GS_USDT_NO_REG))
		return "an address that is not understood";
	*text = p + 1;
	return NULL;
}

/* NULL when it was understood. */
static const char *parse_arg(const char **text, struct gs_usdt_arg *a)
{
	const char *p = *text, *why = NULL;
	int64_t bytes;

	*a = (struct gs_usdt_arg){.index_reg = GS_USDT_NO_REG, .bytes = 8};
	/* "N@" may be missing in notes of the first format. */
	if (strchr("-0123456789", *p) && parse_number(&p, &bytes) && (*p == '@' || *p == 'f')) {
		if (*p == 'f')
			return "a floating-point number";
		a->is_signed = bytes < 0;
		bytes = bytes < 0 ? -bytes : bytes;
		if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
			return "a size other than 1, 2, 4 and 8 bytes";
		a->bytes = (uint8_t)bytes;
		p++;
	} else {
		p = *text;
	}
	if (*p == '%') {
		a->place = GS_USDT_REGISTER;
		if (strncmp(p, "%xmm", 4) == 0 || strncmp(p, "%st", 3) == 0)
			return "a floating-point register";
		if (!parse_register(&p, &a->reg, &a->shift))
			return "an unknown register";
	} else if (*p == '$') {
		p++;
		a->place = GS_USDT_CONSTANT;
		if (!parse_number(&p, &a->value))
			return "a constant that is not a number";
	} else {
		if (*p != '(' && !parse_number(&p, &a->value))
			return "an address with the name of a symbol";
		if (*p != '(')
			return "an address that is not understood";
		why = parse_memory(&p, a);
	}
	if (!why && *p && *p != ' ')
		why = "an operand that is not understood";
	*text = p;
	return why;
}

unsigned gs_usdt_parse_args(const char *text, struct gs_usdt_arg ret_args[GS_USDT_ARG_MAX],
			    const char **ret_bad)
{
	unsigned n = 0;

	*ret_bad = NULL;
	while (*(text += strspn(text, " "))) {
		if (n == GS_USDT_ARG_MAX) {
			*ret_bad = "more arguments than sys/sdt.h knows";
			break;
		}
		*ret_bad = parse_arg(&text, &ret_args[n]);
		if (*ret_bad)
			break;
		n++;
	}
	return n;
}

/* --- notes --- */

struct sections {
	Elf64_Shdr notes[8];
	unsigned n_notes;
	uint64_t base_addr; /* of .stapsdt.base; 0: there is none */
};

static int find_base(const struct gs_elf *elf, struct sections *s)
{
	Elf64_Ehdr eh;
	Elf64_Shdr names, sh;
	char name[16];
	int r = gs_elf_pread(elf, 0, &eh, sizeof(eh));

	if (r < 0 || eh.e_shstrndx >= elf->n_sections)
		return r;
	r = gs_elf_pread(elf, elf->section_off + eh.e_shstrndx * sizeof(names), &names,
			 sizeof(names));
	for (uint64_t i = 0; r == 0 && i < elf->n_sections; i++) {
		r = gs_elf_pread(elf, elf->section_off + i * sizeof(sh), &sh, sizeof(sh));
		if (r < 0)
			break;
		if (sh.sh_type == SHT_NOTE && s->n_notes < GS_ARRAY_LEN(s->notes) &&
		    sh.sh_size <= MAX_NOTES_BYTES)
			s->notes[s->n_notes++] = sh;
		/* ".stapsdt.base" and its zero: 14 bytes. */
		if (sh.sh_type == SHT_PROGBITS && sh.sh_name + 14ull <= names.sh_size &&
		    gs_elf_pread(elf, names.sh_offset + sh.sh_name, name, 14) == 0 &&
		    memcmp(name, ".stapsdt.base", 14) == 0)
			s->base_addr = sh.sh_addr;
	}
	return r;
}

/* A text of the description, and where the next one begins. */
static const char *take_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));

	if (!zero)
		return NULL;
	*at = zero + 1;
	return text;
}

static int one_note(struct gs_elf *elf, const struct sections *s, const uint8_t *desc, size_t bytes,
		    gs_usdt_fn fn, void *ctx)
{
	const char *at = (const char *)desc + 24, *end = (const char *)desc + bytes;
	struct gs_usdt_site site = {0};
	uint64_t a[3], moved = 0, left;

	if (bytes < 24)
		return -ENOEXEC;
	memcpy(a, desc, sizeof(a)); /* pc, base, semaphore */
	site.provider = take_text(&at, end);
	site.name = site.provider ? take_text(&at, end) : NULL;
	site.arguments = site.name ? take_text(&at, end) : NULL;
	if (!site.arguments)
		return -ENOEXEC;
	if (s->base_addr && a[1])
		moved = s->base_addr - a[1];
	if (!gs_elf_vaddr_to_off(elf, a[0] + moved, true, &site.file_off, &left))
		return -ENOEXEC;
	if (a[2] && !gs_elf_vaddr_to_off(elf, a[2] + moved, false, &site.ref_ctr_off, &left))
		return -ENOEXEC;
	site.vaddr = a[0] + moved;
	site.n_args = gs_usdt_parse_args(site.arguments, site.args, &site.bad_arg);
	return fn(ctx, &site);
}

static int walk_notes(struct gs_elf *elf, const struct sections *s, const Elf64_Shdr *sh,
		      gs_usdt_fn fn, void *ctx)
{
	GS_FREE uint8_t *data = malloc(sh->sh_size + 1);
	size_t off = 0;
	int r;

	if (!data)
		return -ENOMEM;
	r = gs_elf_pread(elf, sh->sh_offset, data, sh->sh_size);
	while (r == 0 && sh->sh_size - off >= sizeof(Elf64_Nhdr)) {
		size_t name = off + sizeof(Elf64_Nhdr), desc;
		Elf64_Nhdr nh;

		memcpy(&nh, data + off, sizeof(nh));
		if (nh.n_namesz > sh->sh_size || nh.n_descsz > sh->sh_size)
			return -ENOEXEC;
		desc = name + ((nh.n_namesz + 3u) & ~3u);
		if (desc > sh->sh_size || nh.n_descsz > sh->sh_size - desc)
			return -ENOEXEC;
		if (nh.n_type == NT_STAPSDT && nh.n_namesz == 8 &&
		    memcmp(data + name, "stapsdt", 8) == 0)
			r = one_note(elf, s, data + desc, nh.n_descsz, fn, ctx);
		off = desc + ((nh.n_descsz + 3u) & ~3u);
		if (off > sh->sh_size)
			break;
	}
	return r;
}

int gs_elf_usdt(struct gs_elf *elf, gs_usdt_fn fn, void *ctx, struct gs_err *err)
{
	struct sections s = {.n_notes = 0};
	int r = find_base(elf, &s);

	for (unsigned i = 0; r == 0 && i < s.n_notes; i++)
		r = walk_notes(elf, &s, &s.notes[i], fn, ctx);
	if (r == -ENOEXEC)
		return gs_err_set(err, r, "%s: its notes of static probes are malformed",
				  elf->path);
	if (r < 0)
		return gs_err_set(err, r, "cannot read the static probes of %s: %s", elf->path,
				  gs_foreign_reason(r));
	return r;
}

struct find {
	struct gs_usdt_places *probes;
	unsigned n_probes;
};

static int find_site(void *ctx, const struct gs_usdt_site *site)
{
	const struct find *f = ctx;

	for (unsigned i = 0; i < f->n_probes; i++) {
		struct gs_usdt_places *p = &f->probes[i];

		if (p->n == GS_ARRAY_LEN(p->at) || strcmp(p->name, site->name) != 0 ||
		    strcmp(p->provider, site->provider) != 0)
			continue;
		p->at[p->n].file_off = site->file_off;
		p->at[p->n].vaddr = site->vaddr;
		p->at[p->n++].ref_ctr_off = site->ref_ctr_off;
	}
	return 0;
}

int gs_elf_usdt_find(struct gs_elf *elf, struct gs_usdt_places *probes, unsigned n_probes,
		     struct gs_err *err)
{
	struct find f = {probes, n_probes};

	for (unsigned i = 0; i < n_probes; i++)
		probes[i].n = 0;
	return gs_elf_usdt(elf, find_site, &f, err);
}
