/* What the loader has in memory of a module: its symbols, versions and relocations, found by its dynamic section. The
 * linker made these, and the loader has used them: they are believed. */
#include "companion/calls/module.h"

#include <link.h>

#define WEAK_OR_GLOBAL(info) (ELF64_ST_BIND(info) == STB_GLOBAL || ELF64_ST_BIND(info) == STB_WEAK)
#define HIDDEN_VERSION       0x8000u

bool calls_text_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

bool calls_text_begins(const char *text, const char *with)
{
	while (*with && *text == *with) {
		text++;
		with++;
	}
	return !*with;
}

/* glibc has put addresses there, musl leaves offsets. */
static const void *at_address(uintptr_t base, uint64_t value)
{
	return (const void *)(value < base ? base + value : value);
}

static void take_entry(struct calls_module *m, const Elf64_Dyn *d, uint64_t *rela_bytes,
		       uint64_t *plt_bytes, uint64_t *soname)
{
	const void *at = at_address(m->base, d->d_un.d_ptr);

	switch (d->d_tag) {
	case DT_SYMTAB:
		m->symbols = at;
		break;
	case DT_STRTAB:
		m->strings = at;
		break;
	case DT_GNU_HASH:
		m->gnu_hash = at;
		break;
	case DT_HASH:
		m->hash = at;
		break;
	case DT_VERSYM:
		m->versions = at;
		break;
	case DT_VERNEED:
		m->needs = at;
		break;
	case DT_VERNEEDNUM:
		m->n_needs = (unsigned)d->d_un.d_val;
		break;
	case DT_VERDEF:
		m->defines = at;
		break;
	case DT_VERDEFNUM:
		m->n_defines = (unsigned)d->d_un.d_val;
		break;
	case DT_RELA:
		m->rela = at;
		break;
	case DT_RELASZ:
		*rela_bytes = d->d_un.d_val;
		break;
	case DT_RELACOUNT:
		m->n_relative = d->d_un.d_val;
		break;
	case DT_JMPREL:
		m->plt = at;
		break;
	case DT_PLTRELSZ:
		*plt_bytes = d->d_un.d_val;
		break;
	case DT_SONAME:
		*soname = d->d_un.d_val + 1;
		break;
	case DT_RPATH:
	case DT_RUNPATH:
		m->has_path = true;
		break;
	}
}

bool calls_module_read(const struct dl_phdr_info *info, struct calls_module *m)
{
	uint64_t rela_bytes = 0, plt_bytes = 0, soname = 0;

	*m = (struct calls_module){.name = info->dlpi_name ? info->dlpi_name : "",
				   .base = info->dlpi_addr,
				   .low = UINTPTR_MAX};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		uintptr_t from = m->base + p->p_vaddr, to = from + p->p_memsz;

		if (p->p_type == PT_DYNAMIC)
			m->dynamic = (const void *)from;
		if (p->p_type == PT_GNU_RELRO) {
			m->relro_low = from;
			m->relro_high = to;
		}
		if (p->p_type != PT_LOAD)
			continue;
		m->low = from < m->low ? from : m->low;
		m->high = to > m->high ? to : m->high;
	}
	for (const Elf64_Dyn *d = m->dynamic; d && d->d_tag != DT_NULL; d++)
		take_entry(m, d, &rela_bytes, &plt_bytes, &soname);
	if (!m->symbols || !m->strings)
		return false;
	m->n_rela = m->rela ? rela_bytes / sizeof(*m->rela) : 0;
	m->n_plt = m->plt ? plt_bytes / sizeof(*m->plt) : 0;
	m->soname = soname ? m->strings + soname - 1 : NULL;
	return true;
}

void calls_module_version(const struct calls_module *m, uint32_t symbol, const char **ret_version,
			  const char **ret_file)
{
	const Elf64_Verneed *need = m->needs;
	unsigned index = m->versions ? m->versions[symbol] & ~HIDDEN_VERSION : 0;

	*ret_version = *ret_file = NULL;
	for (unsigned i = 0; index > 1 && need && i < m->n_needs; i++) {
		const Elf64_Vernaux *aux = (const void *)((const char *)need + need->vn_aux);

		for (unsigned j = 0; j < need->vn_cnt; j++) {
			if ((aux->vna_other & ~HIDDEN_VERSION) == index) {
				*ret_version = m->strings + aux->vna_name;
				*ret_file = m->strings + need->vn_file;
				return;
			}
			aux = (const void *)((const char *)aux + aux->vna_next);
		}
		need = (const void *)((const char *)need + need->vn_next);
	}
}

static const char *version_defined(const struct calls_module *m, unsigned index)
{
	const Elf64_Verdef *d = m->defines;

	for (unsigned i = 0; d && i < m->n_defines; i++) {
		if (d->vd_ndx == index)
			return m->strings +
			       ((const Elf64_Verdaux *)((const char *)d + d->vd_aux))->vda_name;
		d = (const void *)((const char *)d + d->vd_next);
	}
	return NULL;
}

/* Is this symbol the function, in the version that is asked for? */
static bool symbol_is(const struct calls_module *m, uint32_t i, const char *name,
		      const char *version)
{
	const Elf64_Sym *s = &m->symbols[i];
	unsigned v = m->versions ? m->versions[i] : 1;
	const char *defined;

	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC || !s->st_value ||
	    !WEAK_OR_GLOBAL(s->st_info) || !calls_text_same(m->strings + s->st_name, name))
		return false;
	if ((v & ~HIDDEN_VERSION) <= 1)
		return true;
	if (!version)
		return !(v & HIDDEN_VERSION);
	defined = version_defined(m, v & ~HIDDEN_VERSION);
	return !defined || calls_text_same(defined, version);
}

static uint32_t find_gnu(const struct calls_module *m, const char *name, const char *version)
{
	const uint32_t *h = m->gnu_hash, n_buckets = h[0], first = h[1], n_bloom = h[2];
	const uint64_t *bloom = (const void *)(h + 4);
	const uint32_t *buckets = (const void *)(bloom + n_bloom), *chain = buckets + n_buckets;
	uint32_t hash = 5381, i;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	if (!n_buckets || !n_bloom ||
	    !(bloom[hash / 64 % n_bloom] >> hash % 64 &
	      bloom[hash / 64 % n_bloom] >> (hash >> h[3]) % 64 & 1))
		return 0;
	i = buckets[hash % n_buckets];
	if (i < first)
		return 0;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && symbol_is(m, i, name, version))
			return i;
		if (chain[i - first] & 1)
			return 0;
	}
}

static uint32_t find_old(const struct calls_module *m, const char *name, const char *version)
{
	const uint32_t *h = m->hash, n_buckets = h[0], *buckets = h + 2,
		       *chain = buckets + n_buckets;
	uint32_t hash = 0, top;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (uint8_t)*c;
		top = hash & 0xf0000000;
		hash = (hash ^ top >> 24) & ~top;
	}
	for (uint32_t i = n_buckets ? buckets[hash % n_buckets] : 0; i; i = chain[i])
		if (symbol_is(m, i, name, version))
			return i;
	return 0;
}

void *calls_module_define(const struct calls_module *m, const char *name, const char *version)
{
	uint32_t i = m->gnu_hash ? find_gnu(m, name, version)
		     : m->hash   ? find_old(m, name, version)
				 : 0;

	return i ? (void *)(m->base + m->symbols[i].st_value) : NULL;
}
