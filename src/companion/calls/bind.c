/*
 * Thunks in place of pointers. Every module that the loader has in memory is looked at once: relocations by the names
 * of wanted functions say where their addresses lie, in tables of the linker's (PLT, GOT) and in the program's own
 * data. A slot of the PLT that is not bound yet is bound by this, to the function that the loader would have found.
 *
 * New modules are seen when the program asks the loader for something (loader.c). All is done while the loader's list
 * is held, so that no module goes away meanwhile.
 */
#include "companion/calls/calls_int.h"

#include <link.h>
#include <sys/mman.h>

#include "companion/calls/thunk.h"
#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

#define MODULES_MAX 2048u
#define PAGE        4096ul

static struct calls_module modules[MODULES_MAX];
static unsigned n_modules, n_at_start; /* those of the start are in the scope of all others */
static struct {
	uintptr_t base;
	const void *dynamic;
	const char *name;
} seen[MODULES_MAX];
static unsigned n_seen;
static unsigned long long n_added, n_removed; /* as of the last look */
static struct companion_lock lock;
static uint32_t first_pid, loading_pid, left_behind; /* see may_ask() */

/* Code of ours: this library's own references stay. */
static bool is_ours(const struct calls_module *m)
{
	return (uintptr_t)&is_ours >= m->low && (uintptr_t)&is_ours < m->high;
}

static const struct calls_module *module_at(uintptr_t address)
{
	for (unsigned i = 0; i < n_modules; i++)
		if (address >= modules[i].low && address < modules[i].high)
			return &modules[i];
	return NULL;
}

/* Which function the loader binds a reference to: of the program, what was loaded with it, then what the reference's
 * version names, then the first that has it. */
static void *find_function(const struct calls_module *from, uint32_t symbol)
{
	const char *name = from->strings + from->symbols[symbol].st_name, *version, *file;
	void *first = NULL;

	calls_module_version(from, symbol, &version, &file);
	for (unsigned i = 0; i < n_modules; i++) {
		void *found = is_ours(&modules[i])
				      ? NULL
				      : calls_module_define(&modules[i], name, version);

		if (!found)
			continue;
		if (i < n_at_start ||
		    (file && modules[i].soname && calls_text_same(modules[i].soname, file)))
			return found;
		first = first ? first : found;
	}
	return first;
}

/* What the slot leads to; NULL: nothing that a thunk may stand for. An address within the referring module that does
 * not define the function is its PLT's: not bound yet. One in the program that is not its function either is the
 * program's PLT, by which its own slot is reached. */
static void *function_of(const struct calls_module *m, uint32_t symbol, uintptr_t value)
{
	const Elf64_Sym *s = &m->symbols[symbol];
	const struct calls_module *in;

	if (!value || calls_is_thunk((void *)value))
		return NULL;
	if (value >= m->low && value < m->high) {
		if (s->st_shndx != SHN_UNDEF && value == m->base + s->st_value)
			return (void *)value;
		return find_function(m, symbol);
	}
	in = module_at(value);
	if (in == &modules[0] &&
	    calls_module_define(in, m->strings + s->st_name, NULL) != (void *)value)
		return NULL;
	return (void *)value;
}

static void write_slot(const struct calls_module *m, uintptr_t at, void *value)
{
	uintptr_t page = at & ~(PAGE - 1);
	bool is_relro = at + sizeof(value) > (m->relro_low & ~(PAGE - 1)) && at < m->relro_high;

	if (is_relro && COMPANION_SYS3(mprotect, page, PAGE, PROT_READ | PROT_WRITE) < 0)
		return;
	__atomic_store_n((void **)at, value, __ATOMIC_RELEASE);
	if (is_relro)
		COMPANION_SYS3(mprotect, page, PAGE, PROT_READ);
}

static void bind_one(const struct calls_module *m, const Elf64_Rela *r)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info),
		 symbol = (uint32_t)ELF64_R_SYM(r->r_info);
	uintptr_t at = m->base + r->r_offset;
	enum calls_special special;
	const char *name;
	void *real, *new;

	if (!symbol ||
	    (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) ||
	    (type == R_X86_64_64 && r->r_addend) || at % sizeof(void *))
		return;
	name = m->strings + m->symbols[symbol].st_name;
	special = calls_special_of(name);
	if (special == CALLS_NOT_SPECIAL && !calls_plan_find(name))
		return;
	real = function_of(m, symbol, *(uintptr_t *)at);
	if (!real)
		return;
	new = special == CALLS_NOT_SPECIAL ? calls_bind_pointer(name, real)
					   : calls_special_bind(special, real);
	if (new != real)
		write_slot(m, at, new);
}

/* Modules keep their order, so that the next one is mostly found where the last one was left off. */
static bool was_seen(const struct calls_module *m, unsigned *hint)
{
	for (unsigned n = 0; n < n_seen; n++) {
		unsigned i = *hint + n < n_seen ? *hint + n : *hint + n - n_seen;

		if (seen[i].base != m->base || seen[i].dynamic != m->dynamic ||
		    seen[i].name != m->name)
			continue;
		*hint = i + 1 < n_seen ? i + 1 : 0;
		return true;
	}
	return false;
}

static void bind_module(const struct calls_module *m, unsigned *hint)
{
	if (was_seen(m, hint) || is_ours(m))
		return;
	for (size_t i = m->n_relative; i < m->n_rela; i++)
		bind_one(m, &m->rela[i]);
	for (size_t i = 0; i < m->n_plt; i++)
		bind_one(m, &m->plt[i]);
}

static int collect_module(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	if (n_modules < MODULES_MAX && calls_module_read(info, &modules[n_modules]))
		n_modules++;
	return 0;
}

/* Once, for the first module: the rest is done while the list is held. */
static int collect_modules(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	unsigned hint = 0;

	if (n_seen && info->dlpi_adds == n_added && info->dlpi_subs == n_removed)
		return 1;
	n_added = info->dlpi_adds;
	n_removed = info->dlpi_subs;
	n_modules = 0;
	dl_iterate_phdr(collect_module, NULL);
	if (!n_at_start)
		n_at_start = n_modules;
	for (unsigned i = 0; i < n_modules; i++)
		bind_module(&modules[i], &hint);
	for (n_seen = 0; n_seen < n_modules; n_seen++) {
		seen[n_seen].base = modules[n_seen].base;
		seen[n_seen].dynamic = modules[n_seen].dynamic;
		seen[n_seen].name = modules[n_seen].name;
	}
	return 1;
}

/* The loader's list has a lock, which a child of fork(2) finds held for ever where another thread of its parent held
 * it. So a copy of a process asks for the list only when it has loaded something itself, which takes that lock too, and
 * never when it was in here that a thread was left behind. */
static bool may_ask(void)
{
	uint32_t pid = (uint32_t)COMPANION_SYS3(getpid, 0, 0, 0);
	uint64_t owner = __atomic_load_n(&lock.owner, __ATOMIC_RELAXED);

	if (owner && owner >> 32 != pid)
		left_behind = pid;
	return pid != left_behind && (pid == first_pid || pid == loading_pid);
}

void calls_bind_start(void)
{
	first_pid = (uint32_t)COMPANION_SYS3(getpid, 0, 0, 0);
	calls_bind_new();
}

void calls_bind_loading(void)
{
	loading_pid = (uint32_t)COMPANION_SYS3(getpid, 0, 0, 0);
}

void calls_bind_new(void)
{
	if (!may_ask() || !companion_lock_take(&lock, &left_behind))
		return;
	dl_iterate_phdr(collect_modules, NULL);
	companion_lock_drop(&lock);
}

void *calls_bind_pointer(const char *name, void *real)
{
	bool is_alias = calls_text_begins(name, "__cudaLaunch");
	const struct gs_companion_func *row = calls_plan_find(name);
	void *thunk;

	if (!row || calls_is_thunk(real))
		return real;
	thunk = calls_thunk_of(row, real, is_alias);
	return thunk ? thunk : real;
}

bool calls_bind_has_path(const void *address)
{
	const struct calls_module *m;
	bool has = true;

	if (!companion_lock_take(&lock, &left_behind))
		return true;
	m = module_at((uintptr_t)address);
	if (m)
		has = m->has_path;
	companion_lock_drop(&lock);
	return has;
}

void *calls_bind_sibling(const char *name, const void *real)
{
	const struct calls_module *m;
	void *found = NULL;

	if (!companion_lock_take(&lock, &left_behind))
		return NULL;
	m = module_at((uintptr_t)real);
	if (m)
		found = calls_module_define(m, name, NULL);
	companion_lock_drop(&lock);
	return found;
}
