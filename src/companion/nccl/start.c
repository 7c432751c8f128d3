/*
 * The door's begin, when NCCL loads it, and its windows: stretches in which NCCL also reports channels, with the GPU's
 * times. They are opened and closed by what NCCL itself calls, so that no thread is needed.
 */
#include "companion/nccl/nccl_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "companion/ring/ring.h"

#define SETTINGS_ENV "GPUSCOPE_COMPANION_NCCL" /* "WINDOW_MS/PERIOD_MS"; PERIOD_MS 0: always */
#define MS           1000000ull
#define SLOTS        64u
#define WINDOWS_LAST 22999u /* NCCL 2.29 */

/* Not of every libc; NCCL itself has been loaded by them. */
#pragma weak dladdr
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

static struct {
	uint64_t window_ns, period_ns; /* window 0: channels are not looked at; period 0: always */
	uint64_t next;                 /* ticks: when it opens or closes */
	uint32_t is_open;
	uint32_t is_refused; /* a copy of NCCL in this process must not have windows: none has */
} door;

bool nccl_door_is_open(void)
{
	const struct companion_live *live = companion_live;

	return live && !live->failed && (!live->epoch || !live->head->stopped);
}

/* --- which NCCL it is --- */

static uint32_t find_version(const void *caller)
{
	int (*get)(int *) = NULL;
	void *library = NULL;
	int version = 0;
	Dl_info info;

	if (!dladdr || !dlopen || !dlsym || !dlclose || !dladdr(caller, &info) || !info.dli_fname)
		return 0;
	library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!library) /* the program itself has NCCL in it */
		library = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	if (library)
		*(void **)&get = dlsym(library, "ncclGetVersion");
	if (get && get(&version) != 0)
		version = 0;
	if (library)
		dlclose(library);
	return version > 0 ? (uint32_t)version : 0;
}

/*
 * Up to 2.29 NCCL counts the work of each channel whether it is looked at or not; from then on only while it is, though
 * the GPU counts all of it: after a pause, times would be those of other operations (nccl#2368).
 */
static bool may_have_windows(uint32_t nccl)
{
	return nccl && nccl <= WINDOWS_LAST;
}

/* --- windows --- */

static const int channel_types = NCCL_TYPE_KERNEL_CH | NCCL_TYPE_PROXY_OP;

int nccl_door_mask(unsigned version, const void *caller, uint32_t *ret_nccl, bool *ret_no_windows)
{
	int mask = NCCL_TYPE_COLL | NCCL_TYPE_P2P | (version >= 6 ? NCCL_TYPE_CE_COLL : 0);

	*ret_nccl = find_version(caller);
	*ret_no_windows = false;
	if (!door.window_ns)
		return mask;
	if (door.period_ns && !may_have_windows(*ret_nccl)) {
		*ret_no_windows = true;
		__atomic_store_n(&door.is_refused, 1, __ATOMIC_RELAXED);
		return mask;
	}
	return door.period_ns ? mask : mask | channel_types;
}

/* About: times of up to some days, without a division that libc would have to have. */
static uint64_t to_ticks(uint64_t ns)
{
	return companion_clock != GS_COMPANION_TSC ? ns
						   : (ns << 16) / (companion_ns_per_tick >> 16);
}

/* Opens or closes the window when it is time to, in one thread alone. True: it is open. */
static bool turn_window(uint64_t now)
{
	uint64_t next = __atomic_load_n(&door.next, __ATOMIC_ACQUIRE);
	uint64_t rest_ns = door.period_ns - door.window_ns;
	bool is_open = __atomic_load_n(&door.is_open, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&door.is_refused, __ATOMIC_RELAXED))
		return false;
	if (now < next ||
	    !__atomic_compare_exchange_n(&door.next, &next,
					 now + to_ticks(is_open ? rest_ns : door.window_ns), false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return is_open;
	__atomic_store_n(&door.is_open, !is_open, __ATOMIC_RELEASE);
	return !is_open;
}

/* Each mask is brought up to date by itself: another copy of NCCL in the process has one of its own. */
void nccl_door_step(int *mask, uint64_t now)
{
	int wanted, has;

	if (!door.window_ns || !door.period_ns)
		return;
	wanted = turn_window(now) ? channel_types : 0;
	has = __atomic_load_n(mask, __ATOMIC_RELAXED) & channel_types;
	if (wanted & ~has)
		__atomic_fetch_or(mask, channel_types, __ATOMIC_RELAXED);
	else if (has & ~wanted)
		__atomic_fetch_and(mask, ~channel_types, __ATOMIC_RELAXED);
}

/* --- begin --- */

static void read_settings(void)
{
	const char *text = getenv(SETTINGS_ENV);
	unsigned long window, period;
	char *end;

	if (!text)
		return;
	window = strtoul(text, &end, 10);
	period = *end == '/' ? strtoul(end + 1, NULL, 10) : 0;
	if (!window || (period && period <= window))
		return;
	door.window_ns = window * MS;
	door.period_ns = period * MS;
}

__attribute__((constructor)) static void start_door(void)
{
	struct companion_setup setup = {.doors = 1u << GS_COMPANION_NCCL, .n_slots = SLOTS};
	const char *folder = getenv(GS_COMPANION_FOLDER_ENV);
	struct gs_companion_plan plan;

	if (!folder || folder[0] != '/' || getuid() != geteuid() ||
	    snprintf(setup.folder, sizeof(setup.folder), "%s", folder) >=
		    (int)sizeof(setup.folder) ||
	    !companion_read_plan(folder, GS_COMPANION_NCCL, &plan))
		return;
	setup.clock = plan.clock;
	setup.ring_bytes = plan.ring_bytes;
	setup.ns_per_tick = plan.ns_per_tick;
	read_settings();
	companion_start(&setup);
}
