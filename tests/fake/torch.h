/* What the stand-in of libtorch_cpu offers: at::_ops::<part>::call for some operators, in C. */
#ifndef FAKE_TORCH_H
#define FAKE_TORCH_H

/* The mangled name of at::_ops::<part>::call(at::Tensor const&). */
#define OP(part) __asm__("_ZN2at4_ops" part "4callERKNS_6TensorE")

/* How the tracer knows the library: at::globalContext(). */
int fake_global_context(void) __asm__("_ZN2at13globalContextEv");

/* Each returns how many calls of CUDA and NCCL it made, itself and below. */
int fake_op_linear(int depth) OP("6linear");                    /* addmm, when depth is not 0 */
int fake_op_addmm(int depth) OP("5addmm");                      /* alloc, two launches, free */
int fake_op_add_tensor(int n) OP("10add_Tensor");               /* n launches */
int fake_op_add__tensor(int n) OP("11add__Tensor");             /* a launch */
int fake_op_foreach_add_list(int n) OP("18_foreach_add__List"); /* n times add_.Tensor */
int fake_op_copy_(int n) OP("5copy_");                          /* n copies of 1 KiB */
int fake_op_norm_backward(int n) OP("26native_layer_norm_backward"); /* launch, add.Tensor of n */
int fake_op_cos(int n) OP("3cos");                                   /* nothing */
int fake_op_size_int(int n) OP("8size_int");                         /* nothing */
int fake_op_all_reduce(int n) OP("10all_reduce");                    /* n collectives of 1 KiB */
int fake_op_recurse(int depth) OP("7recurse"); /* itself; a launch in the last */
int fake_op_jump(int n) OP("9no_schema");      /* longjmp when n is 1, else launch */

/* autograd::execute: n times native_layer_norm_backward; n < 0: no_schema, left by longjmp. */
void fake_engine_execute(int n) __asm__("_ZN5torch8autograd6Engine7executeEv");

#endif
