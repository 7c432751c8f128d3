/*
 * The begin, and when PyTorch comes. A program that is linked with it has it by now; one that loads it later does so by
 * dlopen(), after which it asks for a function there by dlsym(), which this library has in front of the loader's.
 */
#include "companion/ops/ops_int.h"

#include <link.h>

#include "companion/calls/module.h"
#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

#define ADD_CALLBACK "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define LAZY         0x00001
#define NO_LOAD      0x00004 /* glibc's and musl's */

/* Not of every libc by itself: then the program has loaded nothing either. */
void *dlopen(const char *file, int mode);
#pragma weak dlopen
int dl_iterate_phdr(int (*fn)(struct dl_phdr_info *, size_t, void *), void *ctx);
#pragma weak dl_iterate_phdr

void *ops_real_dlsym;

static struct {
	uint64_t n_loaded;   /* how many libraries had been loaded when they were looked at */
	uint32_t is_over;    /* PyTorch was found, or nothing is recorded */
	uintptr_t low, high; /* of the program itself */
	struct companion_lock lock;
	void *handle; /* of the library that has PyTorch's observer */
} door = {.is_over = 1};

/* The first one after ours is the one that the program would have got. */
static int find_dlsym(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	struct calls_module m;
	bool *is_behind = ctx;

	if (!calls_module_read(info, &m))
		return 0;
	if ((uintptr_t)&door >= m.low && (uintptr_t)&door < m.high) {
		*is_behind = true;
		return 0;
	}
	if (*is_behind)
		ops_real_dlsym = calls_module_define(&m, "dlsym", NULL);
	return ops_real_dlsym != NULL;
}

struct wanted_function {
	const char *name;
	void *found;
};

static int find_other(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	struct wanted_function *w = ctx;
	struct calls_module m;

	if (calls_module_read(info, &m) && ((uintptr_t)&door < m.low || (uintptr_t)&door >= m.high))
		w->found = calls_module_define(&m, w->name, NULL);
	return w->found != NULL;
}

void *ops_start_find(const char *name)
{
	struct wanted_function w = {.name = name};

	dl_iterate_phdr(find_other, &w);
	return w.found;
}

static int count_loaded(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	uint64_t *n = ctx;

	*n = info->dlpi_adds;
	return 1;
}

/* The first one is the program. */
static int find_program(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	struct calls_module m;

	if (calls_module_read(info, &m)) {
		door.low = m.low;
		door.high = m.high;
	}
	return 1;
}

static int find_torch(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	const char **name = ctx;
	struct calls_module m;

	if (!calls_module_read(info, &m) || !calls_module_define(&m, ADD_CALLBACK, NULL))
		return 0;
	*name = m.name;
	return 1;
}

static void *find_function(const char *name)
{
	return ((void *(*)(void *, const char *))ops_real_dlsym)(door.handle, name);
}

/* dlopen() waits for the loader's lock, so that the library is completely loaded after it, and keeps it loaded. */
static void start_torch(const char *name)
{
	door.handle =
		dlopen && ops_real_dlsym ? dlopen(name[0] ? name : NULL, LAZY | NO_LOAD) : NULL;
	companion_set_state(door.handle ? ops_torch_start(find_function) : GS_COMPANION_DIFFERS);
	__atomic_store_n(&door.is_over, 1, __ATOMIC_RELEASE);
}

static void notice_torch(void)
{
	const char *name = NULL;
	uint64_t n = 0;

	dl_iterate_phdr(count_loaded, &n);
	if (__atomic_load_n(&door.n_loaded, __ATOMIC_RELAXED) == n)
		return;
	dl_iterate_phdr(find_torch, &name);
	/* Another thread may be at it, or this one, by what it asks for. */
	if (!name) {
		__atomic_store_n(&door.n_loaded, n, __ATOMIC_RELAXED);
	} else if (companion_lock_take(&door.lock, NULL)) {
		if (!door.is_over)
			start_torch(name);
		companion_lock_drop(&door.lock);
	}
}

/*
 * What is being loaded asks for functions, too, when some of its libraries have not begun: then they must be left alone.
 * Python asks for a module's PyInit_... when that has begun, and programs themselves for what they have loaded.
 */
void ops_start_notice(const char *name, uintptr_t caller)
{
	bool is_behind = false;

	if (!ops_real_dlsym)
		dl_iterate_phdr(find_dlsym, &is_behind);
	if (!__atomic_load_n(&door.is_over, __ATOMIC_ACQUIRE) &&
	    ((caller >= door.low && caller < door.high) ||
	     (name && calls_text_begins(name, "PyInit_"))))
		notice_torch();
}

__attribute__((constructor)) static void start_door(void)
{
	static char settings[OPS_SETTINGS_BYTES];
	struct companion_setup setup = {.doors = 1u << GS_COMPANION_OPS};
	struct gs_companion_plan plan;
	bool is_behind = false;

	/* The loader preloads nothing into programs with others' rights; this is for what else may have. */
	if (!dl_iterate_phdr ||
	    COMPANION_SYS3(getuid, 0, 0, 0) != COMPANION_SYS3(geteuid, 0, 0, 0) ||
	    !companion_find_variable(GS_COMPANION_FOLDER_ENV, setup.folder, sizeof(setup.folder)) ||
	    setup.folder[0] != '/' ||
	    !companion_find_variable(OPS_SETTINGS_ENV, settings, sizeof(settings)) ||
	    !companion_read_plan(setup.folder, GS_COMPANION_OPS, &plan) ||
	    !ops_name_start(settings))
		return;
	setup.clock = plan.clock;
	setup.n_slots = plan.n_slots;
	setup.ring_bytes = plan.ring_bytes;
	setup.ns_per_tick = plan.ns_per_tick;
	/* Known from here on; a process that is not known is seen by probes. */
	if (companion_start(&setup) < 0 || !companion_announce())
		return;
	dl_iterate_phdr(find_program, NULL);
	dl_iterate_phdr(find_dlsym, &is_behind);
	door.is_over = 0;
	notice_torch();
}
