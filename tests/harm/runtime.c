/*
 * A CUDA runtime in which a thread may be cancelled where NVIDIA's was seen to let it (tests/gpu/harm.cc,
 * `contexts`): a call that finds no context makes one, a launch that finds its function not loaded
 * loads it, and both open and read a file. Everything else is no cancellation point.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#define N_DEVICES   2
#define N_FUNCTIONS 64

int cuLaunchKernel(void);

static __thread int device;
static int has_context[N_DEVICES];
static const void *loaded[N_DEVICES][N_FUNCTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void read_file(void)
{
	char word[16];
	int fd = open("/proc/sys/vm/mmap_min_addr", O_RDONLY);

	if (fd < 0)
		return;
	(void)!read(fd, word, sizeof(word));
	close(fd);
}

static void need_context(void)
{
	if (__atomic_load_n(&has_context[device], __ATOMIC_ACQUIRE))
		return;
	read_file();
	__atomic_store_n(&has_context[device], 1, __ATOMIC_RELEASE);
}

static void need_function(const void *function)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < N_FUNCTIONS && loaded[device][i] && loaded[device][i] != function)
		i++;
	pthread_mutex_unlock(&lock);
	if (i == N_FUNCTIONS || loaded[device][i])
		return;
	read_file();
	pthread_mutex_lock(&lock);
	loaded[device][i] = function;
	pthread_mutex_unlock(&lock);
}

int cudaLaunchKernel(const void *function)
{
	need_context();
	need_function(function);
	return cuLaunchKernel();
}

int cudaGraphLaunch(void *graph, void *stream)
{
	need_context();
	need_function(graph);
	return 0;
}

int cudaStreamQuery(void *stream)
{
	need_context();
	return 0;
}

int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream)
{
	need_context();
	return 0;
}

int cudaStreamCreate(void **stream)
{
	need_context();
	*stream = &has_context[device];
	return 0;
}

int cudaMalloc(void **at, size_t bytes)
{
	need_context();
	*at = &has_context[device];
	return 0;
}

int cudaSetDevice(int number)
{
	device = number & (N_DEVICES - 1);
	return 0;
}

static void forget_functions(int of_device)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < N_FUNCTIONS; i++)
		loaded[of_device][i] = NULL;
	pthread_mutex_unlock(&lock);
}

int cudaDeviceReset(void)
{
	forget_functions(device);
	__atomic_store_n(&has_context[device], 0, __ATOMIC_RELEASE);
	return 0;
}

/* Another library may have the addresses of its functions next. */
void __cudaUnregisterFatBinary(void **handle)
{
	for (int i = 0; i < N_DEVICES; i++)
		forget_functions(i);
}

/* The driver's. The context is of the first device, whichever the thread uses. */
int cuCtxDestroy_v2(void *context)
{
	forget_functions(0);
	return 0;
}
