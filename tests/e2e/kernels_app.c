/*
 * Launches kernels as programs of nvcc 13 do (crt/host_runtime.h): it registers them at its start, gets a handle
 * of each before its first launch, and launches by that; and as programs of the driver do, by
 * handles that they got by name. No GPU is needed, nor nvcc: what it registers are names.
 *
 *   kernels_app runtime   _ZN3app5scaleEPfi 7, _ZN3app4fillIdEEvPT_S1_ 5 (by handles), plain 3 (by its address)
 *   kernels_app driver    _ZN3app5scaleEPfi 4, triton_poi_fused_add_0 6, a name of 1,500 characters 2, in a
 *                         thread of its own _ZN3app4fillIdEEvPT_S1_ 3, an unknown handle 2
 *   kernels_app untouched  _ZN3app5scaleEPfi 4, by a name in a page of it that was not read yet,
 *                         none 1, by an address that is no name
 *   kernels_app library   by names that the runtime asks for, which asks the driver: _ZN3app5scaleEPfi 4,
 *                         _ZN3app4fillIdEEvPT_S1_ 3
 *   kernels_app graphs    by launches of graphs: _ZN3app5scaleEPfi 7 * (3 + 4) and 7 when captured,
 *                         _ZN3app4fillIdEEvPT_S1_ 2 * 5 and 2, plain 4 by a node, and 1 by itself
 *   kernels_app named     2 of a handle whose name it asks for, _ZN3app5namedEPfi, and 3 of one that it has not asked for
 *   kernels_app runtime|driver FILE  waits for FILE between getting its handles and the launches
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
	unsigned x, y, z;
} dim3;

int __cudaGetKernel(void **kernel, const void *function);
int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
		       void *stream);
int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared_bytes,
		     void *stream);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *wrap);
int cudaLibraryGetKernel(void **kernel, void *library, const char *name);
int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags);
int cudaGraphLaunch(void *exec, void *stream);
int cudaGraphExecDestroy(void *exec);
int cudaGraphAddChildGraphNode(void **node, void *graph, const void *needs, size_t n, void *child);
struct node_params {
	void *function;
	dim3 grid, block;
	unsigned shared_bytes;
	void **args, **extra;
};
int cudaGraphAddKernelNode(void **node, void *graph, const void *needs, size_t n,
			   const struct node_params *params);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuKernelGetFunction(void **function, void *kernel);
int cuFuncGetName(const char **name, void *function);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared_bytes, void *stream, void **args, void **extra);

__attribute__((section(".nv_fatbin"), used)) static char image[32] = "\x50\xed\x55\xba\1\0\x10";

#define STUB(name)                                                                                 \
	__attribute__((noipa)) static void name(void)                                              \
	{                                                                                          \
		__asm__ volatile("" ::"r"(#name));                                                 \
	}
STUB(stub_scale)
STUB(stub_fill)
STUB(plain)

__attribute__((constructor)) static void register_all(void)
{
	void **handle = __cudaRegisterFatBinary(image);

	__cudaRegisterFunction(handle, (const char *)stub_fill, (char *)"_ZN3app4fillIdEEvPT_S1_",
			       "_ZN3app4fillIdEEvPT_S1_", -1, 0, 0, 0, 0, 0);
	__cudaRegisterFunction(handle, (const char *)stub_scale, (char *)"_ZN3app5scaleEPfi",
			       "_ZN3app5scaleEPfi", -1, 0, 0, 0, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
}

static void launch_all(void *kernel, int n, dim3 grid, dim3 block, int by_address)
{
	for (int i = 0; i < n; i++)
		if (by_address)
			cudaLaunchKernel(kernel, grid, block, NULL, 64, NULL);
		else
			__cudaLaunchKernel(kernel, grid, block, NULL, 64, NULL);
}

static void run_runtime(const char *wait_for)
{
	static void *scale, *fill;

	__cudaGetKernel(&scale, (const void *)stub_scale);
	if (wait_for)
		__cudaGetKernel(&fill, (const void *)stub_fill);
	while (wait_for && access(wait_for, F_OK) != 0)
		usleep(10000);
	launch_all(scale, 7, (dim3){4, 2, 1}, (dim3){128, 1, 1}, 0);
	if (!wait_for)
		__cudaGetKernel(&fill, (const void *)stub_fill);
	launch_all(fill, 5, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0);
	launch_all((void *)plain, 3, (dim3){1, 1, 1}, (dim3){64, 1, 1}, 1);
}

/* The name lies in memory that is gone afterwards. */
static void *get_function(const char *name, int of_library)
{
	void *kernel = NULL, *function = NULL;
	char *copy = strdup(name);

	if (of_library) {
		cuLibraryGetKernel(&kernel, image, copy);
		cuKernelGetFunction(&function, kernel);
	} else {
		cuModuleGetFunction(&function, image, copy);
	}
	memset(copy, 'x', strlen(copy));
	free(copy);
	return function;
}

static void driver_launches(void *function, int n)
{
	for (int i = 0; i < n; i++)
		cuLaunchKernel(function, 1 + i, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
}

static void *other_thread(void *function)
{
	driver_launches(function, 3);
	return NULL;
}

static void run_driver(const char *wait_for)
{
	char name[1501];
	void *f[4], *g;
	pthread_t t;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	f[0] = get_function("_ZN3app5scaleEPfi", 0);
	f[1] = get_function("triton_poi_fused_add_0", 1);
	f[2] = get_function(name, 0);
	f[3] = get_function("_ZN3app4fillIdEEvPT_S1_", 0);
	while (wait_for && access(wait_for, F_OK) != 0)
		usleep(10000);
	driver_launches(f[1], 6);
	driver_launches(f[0], 4);
	driver_launches(f[2], 2);
	pthread_create(&t, NULL, other_thread, f[3]);
	pthread_join(t, NULL);
	g = (void *)0x1234560;
	driver_launches(g, 2);
}

/* Its surroundings keep the kernel from mapping the name with what is beside. */
static const struct {
	char before[1 << 20], name[1 << 20];
} untouched __attribute__((aligned(1 << 20))) = {.name = "_ZN3app5scaleEPfi"};

static void run_untouched(void)
{
	void *f = NULL, *g = NULL;

	cuModuleGetFunction(&f, image, untouched.name);
	driver_launches(f, 4);
	cuModuleGetFunction(&g, image, (const char *)8);
	driver_launches(g, 1);
}

static void run_library(void)
{
	char names[2][32] = {"_ZN3app5scaleEPfi", "_ZN3app4fillIdEEvPT_S1_"};
	void *kernel[2] = {NULL, NULL};

	for (int i = 0; i < 2; i++)
		cudaLibraryGetKernel(&kernel[i], image, names[i]);
	memset(names, 'x', sizeof(names));
	for (int i = 0; i < 2; i++)
		launch_all(kernel[i], 4 - i, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 1);
}

static void run_named(void)
{
	void *asked = (void *)0x55d000001000, *other = (void *)0x55d000002000;
	const char *name;

	/* Its first call is not looked at. */
	for (int i = 0; i < 2; i++)
		cuFuncGetName(&name, asked);
	driver_launches(asked, 2);
	driver_launches(other, 3);
}

/* Into a graph of so many launches. */
static void *capture(void *stream, void *kernel, int n)
{
	void *graph = NULL;

	cudaStreamBeginCapture(stream, 0);
	for (int i = 0; i < n; i++)
		cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, stream);
	cudaStreamEndCapture(stream, &graph);
	return graph;
}

static void launch_graph(void *graph, int n, void *stream)
{
	void *exec = NULL;

	cudaGraphInstantiate(&exec, graph, 0);
	for (int i = 0; i < n; i++)
		cudaGraphLaunch(exec, stream);
	cudaGraphExecDestroy(exec);
}

static void run_graphs(void)
{
	void *stream = (void *)0x55d000000040, *by_nodes = (void *)0x55d000007000, *scale;
	struct node_params params = {(void *)plain, {1, 1, 1}, {32, 1, 1}, 0, NULL, NULL};

	launch_all((void *)plain, 1, (dim3){1, 1, 1}, (dim3){64, 1, 1}, 1);
	scale = capture(stream, (void *)stub_scale, 7);
	launch_graph(scale, 3, stream);
	launch_graph(capture(stream, (void *)stub_fill, 2), 5, stream);
	cudaGraphAddKernelNode(NULL, by_nodes, NULL, 0, &params);
	cudaGraphAddChildGraphNode(NULL, by_nodes, NULL, 0, scale);
	launch_graph(by_nodes, 4, stream);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "runtime";

	if (strcmp(mode, "runtime") == 0)
		run_runtime(argc > 2 ? argv[2] : NULL);
	else if (strcmp(mode, "untouched") == 0)
		run_untouched();
	else if (strcmp(mode, "named") == 0)
		run_named();
	else if (strcmp(mode, "library") == 0)
		run_library();
	else if (strcmp(mode, "graphs") == 0)
		run_graphs();
	else
		run_driver(argc > 2 ? argv[2] : NULL);
#ifdef LINGER
	usleep(4000000); /* so that its memory can be looked at, also on a full machine */
#endif
	printf("{\"pid\": %d}\n", getpid());
	return 0;
}
