/*
 * Finds clock_gettime and getcpu in the vDSO, the code that the kernel maps into each process
 * (vdso(7)). They read the clock and the number of the processor without a system call, even where
 * the kernel's clock source is not the TSC (a virtual machine's kvm-clock). libc's functions of
 * these names are not used: another library can replace them (libfaketime).
 */
#include "companion/ring/ring.h"

#include <elf.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <time.h>

#include "companion/ring/sys.h"

#define SYMBOLS_MAX 64u /* Linux 6.18 has 14 */

static int (*read_clock)(int clock, struct timespec *ret);
static long (*read_cpu)(unsigned *ret_cpu, unsigned *ret_node, void *unused);

static bool is_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* The vDSO is mapped whole, in one piece (arch/x86/entry/vdso/vdso-layout.lds.S): the offsets and
 * addresses in its headers all count from the start of the image. */
static const void *find_dynamic(const char *image, int64_t tag)
{
	const Elf64_Ehdr *e = (const void *)image;
	const Elf64_Phdr *p = (const void *)(image + e->e_phoff);
	const Elf64_Dyn *dynamic = NULL;

	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(image + p[i].p_offset);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == tag)
			return image + dynamic->d_un.d_ptr;
	return NULL;
}

/* The names follow the symbols and so end their table. DT_HASH would have the number of symbols,
 * but a kernel's vDSO may lack it. */
static void *find_function(const char *image, const char *name)
{
	const Elf64_Sym *symbol = find_dynamic(image, DT_SYMTAB);
	const char *names = find_dynamic(image, DT_STRTAB);

	if (!symbol || !names)
		return NULL;
	for (unsigned i = 1; i < SYMBOLS_MAX && (const char *)&symbol[i + 1] <= names; i++)
		if (ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC &&
		    symbol[i].st_shndx != SHN_UNDEF && is_same(names + symbol[i].st_name, name))
			return (void *)(image + symbol[i].st_value);
	return NULL;
}

void companion_find_vdso(void)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);

	if (!image)
		return;
	read_clock = find_function(image, "__vdso_clock_gettime");
	read_cpu = find_function(image, "__vdso_getcpu");
}

uint64_t companion_mono_ns(void)
{
	struct timespec t = {0};

	if (!read_clock || read_clock(CLOCK_MONOTONIC, &t) != 0)
		COMPANION_SYS3(clock_gettime, CLOCK_MONOTONIC, &t, 0);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

uint64_t companion_mono_ns_cpu(uint16_t *ret_cpu)
{
	unsigned cpu = 0;

	if (!read_cpu || read_cpu(&cpu, NULL, NULL) != 0)
		COMPANION_SYS3(getcpu, &cpu, 0, 0);
	*ret_cpu = (uint16_t)cpu;
	return companion_mono_ns();
}
