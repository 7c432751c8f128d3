/*
 * What the program asks the loader and the driver for: functions by their names. The answers for wanted ones are
 * thunks. Each question is also when modules that have come since are looked at.
 *
 * dlsym() and dlopen() depend on who calls them. Where that matters they are not called from here: the program's call
 * goes on to them as it was (thunks.S), and what it loaded is seen at its next question.
 */
#include "companion/calls/calls_int.h"

#include "companion/calls/thunk.h"

#define NAME_BYTES 96

#define LAZY_NEXT     ((void *)-1l) /* RTLD_NEXT */
#define PER_THREAD    2u            /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define FIRST_WITH_V2 3020          /* CUDA 3.2 */

void *calls_real_dlsym, *calls_real_dlopen;

typedef int (*address_fn)(const char *, void **, int, uint64_t);
typedef int (*address_v2_fn)(const char *, void **, int, uint64_t, void *);

static address_fn real_address;
static address_v2_fn real_address_v2;

enum calls_special calls_special_of(const char *name)
{
	if (name[0] == 'd' && name[1] == 'l') {
		if (calls_text_same(name, "dlsym"))
			return CALLS_DLSYM;
		return calls_text_same(name, "dlopen") ? CALLS_DLOPEN : CALLS_NOT_SPECIAL;
	}
	if (name[0] != 'c' || name[1] != 'u' || name[2] != 'G')
		return CALLS_NOT_SPECIAL;
	if (calls_text_same(name, "cuGetProcAddress"))
		return CALLS_ADDRESS;
	return calls_text_same(name, "cuGetProcAddress_v2") ? CALLS_ADDRESS_V2 : CALLS_NOT_SPECIAL;
}

/* prefix, then a suffix; false: too long. */
static bool join_name(char out[NAME_BYTES], const char *prefix, const char *suffix)
{
	unsigned n = 0;

	for (; *prefix && n < NAME_BYTES - 1; prefix++)
		out[n++] = *prefix;
	for (; *suffix && n < NAME_BYTES - 1; suffix++)
		out[n++] = *suffix;
	out[n] = '\0';
	return !*prefix && !*suffix;
}

/* Which exported function this is that the driver answers a name with: versions and kinds for the thread's default
 * stream have names of their own. */
static void *exported_as(const char *name, void *real)
{
	static const char *const suffixes[] = {"",         "_v2", "_ptsz",    "_ptds", "_v2_ptsz",
					       "_v2_ptds", "_v3", "_v3_ptsz", "_v4"};
	char full[NAME_BYTES];

	for (unsigned i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (join_name(full, name, suffixes[i]) && calls_plan_find(full) &&
		    calls_bind_sibling(full, real) == real)
			return calls_bind_pointer(full, real);
	return NULL;
}

/* The same of one that the driver does not export: by the name's newest kind that was there at that version. */
static void *known_as(const char *name, void *real, int version, uint64_t flags)
{
	static const char *const suffixes[2][6] = {
		{"_v3", "_v2", "", "", "", ""},
		{"_v3_ptsz", "_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds", ""}};
	const char *const *s = suffixes[!!(flags & PER_THREAD)];
	char full[NAME_BYTES];

	for (unsigned i = version >= FIRST_WITH_V2 ? 0 : 2; i < 6; i++)
		if (join_name(full, name, s[i]) && calls_plan_find(full))
			return calls_bind_pointer(full, real);
	return s == suffixes[1] ? known_as(name, real, version, flags & ~(uint64_t)PER_THREAD)
				: real;
}

static void answer_with_thunk(const char *name, void **pointer, int version, uint64_t flags)
{
	enum calls_special special = calls_special_of(name);
	void *real = *pointer, *found;

	if (special != CALLS_NOT_SPECIAL) {
		/* Asked for by its plain name, it is the one of that version. */
		if (special == CALLS_ADDRESS && version >= 12000)
			special = CALLS_ADDRESS_V2;
		*pointer = calls_special_bind(special, real);
		return;
	}
	found = exported_as(name, real);
	*pointer = found ? found : known_as(name, real, version, flags);
}

static int address_hook(const char *name, void **pointer, int version, uint64_t flags)
{
	int r = real_address(name, pointer, version, flags);

	if (r == 0 && name && pointer && *pointer)
		answer_with_thunk(name, pointer, version, flags);
	return r;
}

static int address_v2_hook(const char *name, void **pointer, int version, uint64_t flags,
			   void *status)
{
	int r = real_address_v2(name, pointer, version, flags, status);

	if (r == 0 && name && pointer && *pointer)
		answer_with_thunk(name, pointer, version, flags);
	return r;
}

/* One of each: what leads to another function of the name stays as it is. */
static void *stand_in(void **real_at, void *real, void *ours)
{
	void *none = NULL;

	if (real == ours)
		return real;
	if (__atomic_compare_exchange_n(real_at, &none, real, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) ||
	    none == real)
		return ours;
	return real;
}

void *calls_special_bind(enum calls_special special, void *real)
{
	switch (special) {
	case CALLS_DLSYM:
		return stand_in(&calls_real_dlsym, real, (void *)calls_dlsym);
	case CALLS_DLOPEN:
		return stand_in(&calls_real_dlopen, real, (void *)calls_dlopen);
	case CALLS_ADDRESS:
		return stand_in((void **)&real_address, real, (void *)address_hook);
	case CALLS_ADDRESS_V2:
		return stand_in((void **)&real_address_v2, real, (void *)address_v2_hook);
	case CALLS_NOT_SPECIAL:
		break;
	}
	return real;
}

bool calls_answer_dlsym(void *handle, const char *name, const void *caller, void **ret_result)
{
	void *(*real)(void *, const char *) = (void *(*)(void *, const char *))calls_real_dlsym;
	enum calls_special special;
	void *found;

	calls_bind_new();
	/* What an interposed library asks for, so that it can pass a call on that was seen already. */
	if (!name || handle == LAZY_NEXT)
		return false;
	special = calls_special_of(name);
	if (special == CALLS_DLSYM || special == CALLS_DLOPEN ||
	    (special == CALLS_NOT_SPECIAL && !calls_plan_find(name)))
		return false;
	found = real(handle, name);
	/* The error that dlerror() has to report comes from the program's own question. */
	if (!found)
		return false;
	*ret_result = special == CALLS_NOT_SPECIAL ? calls_bind_pointer(name, found)
						   : calls_special_bind(special, found);
	return true;
}

bool calls_answer_dlopen(const char *file, uintptr_t mode, const void *caller, void **ret_result)
{
	void *(*real)(const char *, int) = (void *(*)(const char *, int))calls_real_dlopen;
	bool is_path = false, has_variable = false;

	calls_bind_new();
	calls_bind_loading();
	for (const char *c = file; c && *c; c++) {
		is_path |= *c == '/';
		has_variable |= *c == '$';
	}
	if (!file || has_variable || (!is_path && calls_bind_has_path(caller)))
		return false;
	*ret_result = real(file, (int)mode);
	calls_bind_new();
	return true;
}
