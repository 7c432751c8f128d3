// Kernels whose needs differ; what ptxas says of them stands in fixtures/usage.txt.
__constant__ float table[64];

namespace app
{
__global__ void scale(float *p, int n)
{
	__shared__ float s[128];
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	s[threadIdx.x & 127] = table[i & 63];
	__syncthreads();
	if (i < n)
		p[i] *= s[(threadIdx.x + 1) & 127];
}

template <typename T> __global__ void fill(T *p, T v)
{
	p[threadIdx.x] = v;
}

template __global__ void fill<double>(double *p, double v);
} // namespace app

extern "C" __global__ void __launch_bounds__(96) bounded(int *p)
{
	p[threadIdx.x] = 1;
}

extern "C" __global__ void stacked(int *p, int n)
{
	int a[40];

	for (int i = 0; i < 40; i++)
		a[i] = p[i * n];
	for (int i = 0; i < n; i++)
		a[p[i] % 40] += a[i % 40];
	p[n] = a[p[n] % 40];
}
