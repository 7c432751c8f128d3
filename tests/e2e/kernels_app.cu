// Four kernels as nvcc compiles them: a template, one of an unnamed namespace, a static one.
#include <cuda_runtime.h>

namespace app
{
__global__ void scale(float *p, int n)
{
	__shared__ float s[128];

	s[threadIdx.x & 127] = p[threadIdx.x];
	__syncthreads();
	if ((int)threadIdx.x < n)
		p[threadIdx.x] = s[(threadIdx.x + 1) & 127];
}

template <typename T> __global__ void fill(T *p, T v)
{
	p[threadIdx.x] = v;
}
} // namespace app

static __global__ void hidden(int *p)
{
	*p = 1;
}

namespace
{
__global__ void unnamed(int *p)
{
	*p = 2;
}
} // namespace

int main()
{
	void *args[] = {nullptr};

	for (int i = 0; i < 7; i++)
		app::scale<<<dim3(4, 2), 128>>>((float *)nullptr, 1);
	for (int i = 0; i < 5; i++)
		app::fill<double><<<1, 32>>>((double *)nullptr, 1.0);
	for (int i = 0; i < 3; i++)
		hidden<<<1, 64>>>((int *)nullptr);
	for (int i = 0; i < 2; i++)
		cudaLaunchKernel((const void *)unnamed, dim3(1), dim3(1), args, 0, nullptr);
	return 0;
}
