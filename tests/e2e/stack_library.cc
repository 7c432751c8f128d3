// A library in C++ whose functions stand between a program's main() and its CUDA calls.
namespace gs_test
{
template <typename T, int N> struct Layer {
	__attribute__((noinline, noclone)) int forward(void (*fn)(const char *), T tag) const
	{
		fn(tag);
		asm volatile("" ::: "memory");
		return N;
	}
};

__attribute__((noinline, noclone)) static int hidden(void (*fn)(const char *), const char *tag)
{
	Layer<const char *, 3> layer;
	int r = layer.forward(fn, tag);

	asm volatile("" ::: "memory");
	return r + 1;
}
} // namespace gs_test

extern "C" __attribute__((visibility("default"))) int library_entry(void (*fn)(const char *),
								    const char *tag)
{
	int r = gs_test::hidden(fn, tag);

	asm volatile("" ::: "memory");
	return r + 1;
}
