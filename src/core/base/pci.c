#include "core/base/pci.h"

#include <ctype.h>
#include <stdio.h>

/* A hexadecimal number of 1 to max_digits digits; false: it is none, or longer. */
static bool read_hex(const char **at, unsigned max_digits, unsigned *ret)
{
	unsigned n = 0;

	*ret = 0;
	for (; isxdigit((unsigned char)**at); (*at)++) {
		char c = (char)tolower((unsigned char)**at);

		if (++n > max_digits)
			return false;
		*ret = *ret * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return n > 0;
}

bool gs_pci_bus_id(const char *text, char ret_bus_id[32])
{
	unsigned domain, bus, device, function = 0;

	if (!read_hex(&text, 8, &domain) || *text++ != ':' || !read_hex(&text, 2, &bus) ||
	    *text++ != ':' || !read_hex(&text, 2, &device) || device > 0x1f)
		return false;
	if (*text == '.' && (text++, !read_hex(&text, 1, &function)))
		return false;
	if (*text)
		return false;
	snprintf(ret_bus_id, 32, "%08X:%02X:%02X.%X", domain, bus, device, function);
	return true;
}
