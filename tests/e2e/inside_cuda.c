/*
 * For tests/e2e/inside.py. With -DDRIVER a driver, of the name libdriver.so.1, that programs get by cuGetProcAddress()
 * alone: cuLaunchKernel is not exported, cuMemAlloc_v2 is. With -DRUNTIME a runtime as it is linked statically into
 * libraries: it loads the driver late, asks it for its functions, and exports run_calls() alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef DRIVER
static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		  unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra)
{
	/* All eleven arguments have to arrive. */
	return gx + gy + gz + bx + by + bz + shared_bytes == 28 && (uintptr_t)stream == 8 &&
			       (uintptr_t)params == 9 && (uintptr_t)extra == 10
		       ? 0
		       : 1;
}

EXPORT int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes)
{
	*ptr = 0x10000 + bytes;
	return 0;
}

EXPORT int cuMemFree_v2(unsigned long long ptr)
{
	return ptr ? 0 : 1;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **pointer, int version, uint64_t flags,
			       void *status)
{
	if (strcmp(name, "cuLaunchKernel") == 0)
		*pointer = (void *)launch;
	else if (strcmp(name, "cuMemAlloc") == 0 && version >= 3020)
		*pointer = (void *)cuMemAlloc_v2;
	else if (strcmp(name, "cuGetProcAddress") == 0)
		*pointer = (void *)cuGetProcAddress_v2;
	else
		return 500;
	return 0;
}
#else
typedef int (*address_fn)(const char *, void **, int, uint64_t, void *);
typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			 unsigned, void *, void **, void **);
typedef int (*alloc_fn)(unsigned long long *, size_t);
typedef int (*free_fn)(unsigned long long);

/* How many calls failed or gave something else. */
EXPORT int run_calls(int n)
{
	void *driver = dlopen("libdriver.so.1", RTLD_NOW | RTLD_LOCAL), *address = NULL,
	     *launch = NULL, *alloc = NULL, *release;
	unsigned long long ptr;
	int bad = 0;

	if (!driver || !dlsym(driver, "cuGetProcAddress_v2"))
		return -1;
	/* The driver gives its own entry again, which gives the others. */
	bad += ((address_fn)dlsym(driver, "cuGetProcAddress_v2"))("cuGetProcAddress", &address,
								  12000, 0, NULL);
	bad += ((address_fn)address)("cuLaunchKernel", &launch, 7000, 0, NULL);
	bad += ((address_fn)address)("cuMemAlloc", &alloc, 12000, 0, NULL);
	bad += ((address_fn)address)("cuNoSuchThing", &address, 12000, 0, NULL) != 500;
	release = dlsym(driver, "cuMemFree_v2");
	for (int i = 0; i < n && !bad; i++) {
		bad += ((launch_fn)launch)((void *)0x77, 1, 2, 3, 4, 5, 6, 7, (void *)8, (void **)9,
					   (void **)10);
		bad += ((alloc_fn)alloc)(&ptr, 256) || ptr != 0x10000 + 256;
		bad += ((free_fn)release)(ptr);
	}
	return bad;
}
#endif
