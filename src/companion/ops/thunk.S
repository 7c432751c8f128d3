/*
 * dlsym() of the program: a program that loads a library asks it for a function right afterwards, so that PyTorch is noticed
 * before its first operator. The question goes on to the loader as it was, by a jump, since that looks at who asks.
 */
#include "companion/ops/execute.h"

	.text
	.balign 16
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	%rsi, %rdi
	movq	24(%rsp), %rsi
	call	ops_start_notice
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movq	ops_real_dlsym(%rip), %rax
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

/*
 * A backward pass: at Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs), which PyTorch reports
 * to no observer. This library stands before PyTorch's, so that its calls of that name come by here and go on there. Two
 * arguments are on the stack. What is thrown passes through, and is noticed by the personality.
 */
	.balign 16
	.globl	OPS_EXECUTE
	.type	OPS_EXECUTE, @function
OPS_EXECUTE:
	.cfi_startproc
	.cfi_personality 0x1b, ops_op_personality
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$48, %rsp
	movq	%rdi, -8(%rbp)
	movq	%rsi, -16(%rbp)
	movq	%rdx, -24(%rbp)
	movq	%rcx, -32(%rbp)
	movq	%r8, -40(%rbp)
	movq	%r9, -48(%rbp)
	leaq	8(%rbp), %rdi
	call	ops_op_enter
	movq	-8(%rbp), %rdi
	movq	-16(%rbp), %rsi
	movq	-24(%rbp), %rdx
	movq	-32(%rbp), %rcx
	movq	-40(%rbp), %r8
	movq	-48(%rbp), %r9
	pushq	24(%rbp)
	pushq	16(%rbp)
	call	*%rax
	movq	%rax, -8(%rbp)
	leaq	8(%rbp), %rdi
	call	ops_op_leave
	movq	-8(%rbp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	OPS_EXECUTE, . - OPS_EXECUTE

	.section .note.GNU-stack, "", @progbits
