#include "output/screen/format.h"

#include <stdio.h>
#include <string.h>

static const char *put_unknown(char *out)
{
	return strcpy(out, "-");
}

const char *tui_bytes(char out[TUI_NUMBER_BYTES], double v)
{
	static const char units[] = " KMGTPE";
	int i = 0;

	if (!(v >= 0))
		return put_unknown(out);
	while (v >= 999.5 && i < 6) {
		v /= 1024;
		i++;
	}
	if (i == 0)
		snprintf(out, TUI_NUMBER_BYTES, "%.0f", v);
	else
		snprintf(out, TUI_NUMBER_BYTES, "%.*f%c",
			 v < 9.95    ? 1
			 : v < 99.95 ? 1
				     : 0,
			 v < 1e6 ? v : 1e6, units[i]);
	return out;
}

const char *tui_percent(char out[TUI_NUMBER_BYTES], double v)
{
	if (!(v >= 0))
		return put_unknown(out);
	snprintf(out, TUI_NUMBER_BYTES, "%.0f", v < 1e6 ? v * 100 : 1e8);
	return out;
}

const char *tui_number(char out[TUI_NUMBER_BYTES], double v)
{
	if (!(v >= 0))
		return put_unknown(out);
	snprintf(out, TUI_NUMBER_BYTES, "%.0f", v < 1e15 ? v : 1e15);
	return out;
}

const char *tui_duration(char out[TUI_NUMBER_BYTES], double ns)
{
	unsigned long long s;

	if (!(ns >= 0) || ns > 1e19)
		return put_unknown(out);
	s = (unsigned long long)(ns / 1e9);
	if (s < 60)
		snprintf(out, TUI_NUMBER_BYTES, "%llus", s);
	else if (s < 3600)
		snprintf(out, TUI_NUMBER_BYTES, "%llu:%02llu", s / 60, s % 60);
	else if (s < 48 * 3600)
		snprintf(out, TUI_NUMBER_BYTES, "%llu:%02lluh", s / 3600, s / 60 % 60);
	else
		snprintf(out, TUI_NUMBER_BYTES, "%llud", s / 86400);
	return out;
}
