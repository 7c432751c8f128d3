/*
 * Any bytes as a function: byte 0 the rules (two bits) and whether a size is known, byte 1 the
 * size, the rest the code. Aborts where the answer breaks a promise of sources/x86/site.h.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/x86/exit.h"
#include "sources/x86/site.h"
#include "replay_main.h"

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

/* Everything around the function is the function once more. */
struct again {
	const uint8_t *code;
	size_t bytes;
};

static size_t read_again(void *ctx, int64_t offset, uint8_t *buf, size_t bytes)
{
	const struct again *a = ctx;
	size_t n = a->bytes < bytes ? a->bytes : bytes;

	(void)offset;
	memcpy(buf, a->code, n);
	return n;
}

static enum gs_callee any_callee(void *ctx, int64_t offset)
{
	(void)ctx;
	return (enum gs_callee)((uint64_t)offset % 3);
}

static void check_exits(const uint8_t *code, size_t bytes)
{
	struct again again = {code, bytes};
	const struct gs_exit_around around = {&again, read_again, any_callee};
	struct gs_exit exits[8];
	int n = gs_x86_find_exits(code, bytes, &around, exits, 8);

	REQUIRE(n == -EILSEQ || n == -E2BIG || (n > 0 && n <= 8));
	for (int i = 0; i < n; i++) {
		REQUIRE(!exits[i].is_stepped || (uint64_t)exits[i].offset_bytes < bytes);
		REQUIRE(exits[i].when_taken || exits[i].when_not_taken);
		REQUIRE(exits[i].condition < 16);
		for (int j = 0; j < i; j++)
			REQUIRE(exits[i].offset_bytes != exits[j].offset_bytes);
	}
}

/* The whole function may only make the answer more careful. */
static void check_find(const uint8_t *code, size_t bytes, uint64_t function_bytes,
		       const struct gs_x86_site_rules *rules, struct gs_x86_site first)
{
	struct again again = {code, bytes};
	const struct gs_x86_site_source source = {&again, read_again, function_bytes};
	struct gs_x86_site site = gs_x86_find_site(&source, rules);

	REQUIRE(site.kind >= GS_X86_SITE_EMULATED && site.kind <= GS_X86_SITE_REFUSED);
	REQUIRE((site.kind >= GS_X86_SITE_STEPPED) == (site.reason != NULL));
	if (bytes <= 64 && first.kind != GS_X86_SITE_MOVED)
		REQUIRE(site.kind == first.kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_x86_site_rules rules;
	struct gs_x86_site site, again;
	uint64_t function_bytes;
	uint8_t *code;
	size_t code_bytes;

	if (bytes < 2)
		return 0;
	rules.nop5_is_call = data[0] & 1;
	rules.long_nop_is_emulated = data[0] >> 1 & 1;
	function_bytes = data[0] & 4 ? data[1] : 0;
	code_bytes = bytes - 2;
	/* A copy of just that length lets the sanitizer see a read behind it. */
	code = malloc(code_bytes ? code_bytes : 1);
	REQUIRE(code);
	memcpy(code, data + 2, code_bytes);

	site = gs_x86_choose_site(code, code_bytes, function_bytes, &rules);
	REQUIRE(site.kind >= GS_X86_SITE_EMULATED && site.kind <= GS_X86_SITE_REFUSED);
	REQUIRE((site.kind == GS_X86_SITE_MOVED) == (site.offset_bytes != 0));
	REQUIRE((site.kind >= GS_X86_SITE_STEPPED) == (site.reason != NULL));
	if (site.kind <= GS_X86_SITE_MOVED) {
		REQUIRE(site.offset_bytes < code_bytes);
		REQUIRE(!function_bytes || site.offset_bytes < function_bytes);
		/* At the site itself the first instruction is emulated. */
		again = gs_x86_choose_site(code + site.offset_bytes, code_bytes - site.offset_bytes,
					   0, &rules);
		REQUIRE(again.kind == GS_X86_SITE_EMULATED);
	}
	check_find(code, code_bytes, function_bytes, &rules, site);
	check_exits(code, code_bytes);
	free(code);
	return 0;
}
