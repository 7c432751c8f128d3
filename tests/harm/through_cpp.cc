#include <string>

#include "through.h"

extern "C" long through_plain(through_fn fn, long n)
{
	long r = fn(n);

	return r + 1;
}

extern "C" long through_guarded(through_fn fn, long n)
{
	std::string text(40 + n % 7, 'x');
	long r = fn(n);

	return r + (text[3] == 'x');
}

extern "C" long through_tail(through_fn fn, long n)
{
	return fn(n);
}

extern "C" const struct through throughs[] = {
	{"plain", through_plain}, {"guarded", through_guarded}, {"tail", through_tail},
	{"c", through_c},         {"c_loop", through_c_loop},   {nullptr, nullptr},
};
