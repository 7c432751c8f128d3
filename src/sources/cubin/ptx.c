/* The kernels of a text of PTX: the words after ".entry" (PTX ISA 11.1.1). */
#include <string.h>

#include "sources/cubin/cubin.h"

static bool ptx_is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%';
}

static bool ptx_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int gs_ptx_each_kernel(const char *text, size_t bytes, uint32_t sm, gs_cubin_kernel_fn fn,
		       void *ctx)
{
	static const char word[] = ".entry";
	const char *at = text, *end = text + bytes, *from;
	char name[GS_CUBIN_NAME_BYTES];
	struct gs_cubin_kernel k = {.name = name, .sm = sm, .is_ptx = true};
	int r;

	while ((at = memmem(at, (size_t)(end - at), word, sizeof(word) - 1))) {
		at += sizeof(word) - 1;
		if (at == end || !ptx_is_space(*at))
			continue;
		while (at < end && ptx_is_space(*at))
			at++;
		for (from = at; at < end && ptx_is_name(*at); at++)
			;
		if (at == from || (size_t)(at - from) >= sizeof(name))
			continue;
		memcpy(name, from, (size_t)(at - from));
		name[at - from] = '\0';
		r = fn(ctx, &k);
		if (r)
			return r;
	}
	return 0;
}
