/* Names of C++ and Rust functions as people write them. */
#ifndef GS_CORE_DEMANGLE_DEMANGLE_H
#define GS_CORE_DEMANGLE_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the name that a symbol stands for, cut at bytes - 1. False when the symbol is not mangled
 * (or so long that it is left as it is); out is untouched then. Time, memory and stack are bounded
 * whatever the symbol is. */
bool gs_demangle_symbol(const char *symbol, char *out, size_t bytes);

#endif
