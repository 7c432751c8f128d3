/*
 * fake_torch STEPS THREADS: what a training step asks of operators, from each of some threads.
 * A step: 2 linear (addmm below), add.Tensor of 3, _foreach_add_.List of 4, copy_ of 2, a backward
 * pass of 5 native_layer_norm_backward, cos, 7 size.int, all_reduce of 2, recurse 6 deep, and a
 * launch outside of every operator. Every tenth step an operator is left by longjmp.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_abi.h"
#include "cuda_protos.h"
#include "torch.h"

static int n_steps;

static void *run(void *arg)
{
	dim3 one = {1, 1, 1};

	(void)arg;
	for (int i = 0; i < n_steps; i++) {
		fake_op_linear(1);
		fake_op_linear(1);
		fake_op_add_tensor(3);
		fake_op_foreach_add_list(4);
		fake_op_copy_(2);
		fake_engine_execute(5);
		fake_op_cos(1);
		for (int k = 0; k < 7; k++)
			fake_op_size_int(k);
		fake_op_all_reduce(2);
		fake_op_recurse(6);
		if (i % 10 == 9)
			fake_engine_execute(-1);
		cudaLaunchKernel(&n_steps, one, one, NULL, 0, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int n_threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t threads[64];

	n_steps = argc > 1 ? atoi(argv[1]) : 10;
	if (n_threads < 1 || n_threads > 64)
		return 2;
	/* The communicator is made by one. */
	fake_op_all_reduce(0);
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, run, NULL) != 0)
			return 1;
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
