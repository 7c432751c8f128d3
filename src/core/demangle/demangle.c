/*
 * libiberty's demanglers for the Itanium C++ ABI and for Rust, those of binutils and gdb. Only its
 * cp-demangle.c and rust-demangle.c are used, which come with the permission to link them into
 * anything (the exception at their heads); the other files of the library are under the LGPL alone
 * and none of them is linked (rust_ctype.c).
 *
 * A short symbol can stand for gigabytes of text (substitutions that double), so the text goes
 * through a callback, and when the buffer is full the demangler is left by a jump: in this mode it
 * owns no memory but its stack.
 */
#include "core/demangle/demangle.h"

#include <ctype.h>
#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

#define MAX_RUST_BYTES   4096
#define MAX_SYMBOL_BYTES 2048 /* its stack grows with the symbol */

struct text {
	char *out;
	size_t bytes, used;
	jmp_buf full;
};

static void append_text(const char *part, size_t bytes, void *ctx)
{
	struct text *t = ctx;
	size_t room = t->bytes - 1 - t->used;

	if (bytes == 0) /* then part may be NULL, which memcpy() must not get */
		return;
	memcpy(t->out + t->used, part, bytes < room ? bytes : room);
	t->used += bytes < room ? bytes : room;
	if (bytes > room)
		longjmp(t->full, 1);
}

/* Rust's first mangling is that of C++ with a hash as the innermost name: "::h" and 16 digits. */
static void cut_rust_hash(const char *symbol, char *out)
{
	size_t bytes = strlen(symbol), n = strlen(out);

	if (bytes < 20 || strncmp(symbol + bytes - 20, "17h", 3) != 0 || symbol[bytes - 1] != 'E')
		return;
	for (size_t i = bytes - 17; i < bytes - 1; i++)
		if (!isxdigit((unsigned char)symbol[i]))
			return;
	if (n > 19 && strncmp(out + n - 19, "::h", 3) == 0)
		out[n - 19] = 0;
}

static void take_part(const char *part, size_t bytes, void *ctx)
{
	struct text *t = ctx;
	size_t room = t->bytes - 1 - t->used, n = bytes < room ? bytes : room;

	if (n == 0)
		return;
	memcpy(t->out + t->used, part, n);
	t->used += n;
}

/* Names that are not ASCII (u and a number) are put together in memory, so that the demangler must
 * not be left before its end; and then what it repeats (B), and for how many lifetimes a type is (G),
 * has to be little. */
#define MAX_REPEATS 8

/* Digits of the number of lifetimes, in base 62. The demangler counts them one by one, also in parts of
 * which it prints nothing: with ten digits for years. */
#define MAX_LIFETIME_DIGITS 2

/* Is there a function's type (F) or a trait object's (D) for more lifetimes than that? */
static bool has_many_lifetimes(const char *at)
{
	size_t digits = 0;

	if ((at[0] != 'F' && at[0] != 'D') || at[1] != 'G')
		return false;
	while (isalnum((unsigned char)at[2 + digits]))
		digits++;
	return digits > MAX_LIFETIME_DIGITS && at[2 + digits] == '_';
}

/* Rust's second mangling (RFC 2603). */
static bool demangle_rust(const char *symbol, struct text *t)
{
	unsigned n_repeats = 0, n_lifetimes = 0;
	bool has_others = false;

	for (const char *c = symbol; *c; c++) {
		if (has_many_lifetimes(c))
			return false;
		has_others |= c[0] == 'u' && isdigit((unsigned char)c[1]);
		n_repeats += *c == 'B';
		n_lifetimes += *c == 'G';
	}
	if (has_others)
		return n_repeats <= MAX_REPEATS && n_lifetimes <= MAX_REPEATS &&
		       rust_demangle_callback(symbol, 0, take_part, t);
	return setjmp(t->full) != 0 || rust_demangle_callback(symbol, 0, append_text, t);
}

bool gs_demangle_symbol(const char *symbol, char *out, size_t bytes)
{
	struct text t = {.out = out, .bytes = bytes};

	if (bytes >= 2 && symbol[0] == '_' && symbol[1] == 'R' &&
	    strnlen(symbol, MAX_SYMBOL_BYTES) < MAX_SYMBOL_BYTES) {
		/* What is wrong may show in the middle of the text. */
		char whole[MAX_RUST_BYTES];

		t.out = whole;
		t.bytes = bytes < sizeof(whole) ? bytes : sizeof(whole);
		if (!demangle_rust(symbol, &t) || !t.used)
			return false;
		memcpy(out, whole, t.used);
		out[t.used] = 0;
		return true;
	}
	if (bytes < 2 || symbol[0] != '_' || symbol[1] != 'Z' ||
	    strnlen(symbol, MAX_SYMBOL_BYTES) == MAX_SYMBOL_BYTES)
		return false;
	if (setjmp(t.full) == 0 &&
	    !cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT,
					append_text, &t))
		return false;
	out[t.used] = 0;
	cut_rust_hash(symbol, out);
	return t.used > 0;
}
