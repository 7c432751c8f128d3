/*
 * The table of characters that libiberty's demangler for Rust asks (safe-ctype.h), here so that
 * safe-ctype.c is not linked, which is under the LGPL alone. Rust's symbols have letters, digits
 * and underscores only.
 */
#include <libiberty/safe-ctype.h>

#define UPPER (_sch_isupper | _sch_isprint | _sch_isidst)
#define LOWER (_sch_islower | _sch_isprint | _sch_isidst)

const unsigned short _sch_istable[256] = {
	['0' ... '9'] = _sch_isdigit | _sch_isxdigit | _sch_isprint,
	['A' ... 'F'] = UPPER | _sch_isxdigit,
	['G' ... 'Z'] = UPPER,
	['a' ... 'f'] = LOWER | _sch_isxdigit,
	['g' ... 'z'] = LOWER,
	['_'] = _sch_ispunct | _sch_isprint | _sch_isidst,
};
