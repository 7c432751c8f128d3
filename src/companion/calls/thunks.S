/*
 * The ways into functions that are looked at from inside. A pointer to a function, wherever the program keeps it,
 * is replaced by the address of a thunk; the thunk knows by its number which function that is (thunk.c). What
 * every thunk does, calls_common:
 *
 * - calls_enter() takes the argument registers and the stack pointer at the entry, and says which function is to
 *   be called, and how. A call that is not recorded goes on there by a jump: nothing of ours is on the stack.
 * - Else the words of arguments on the stack are copied below, the function is called, and calls_leave() gets its
 *   result. Frames are described for unwinders: exceptions, cancellation and backtraces pass through.
 *
 * No function of the table takes or returns floating-point values, so that their registers are not saved.
 */
#include "companion/calls/thunk.h"

	.text
	.balign 16
	.globl	calls_thunks
	.hidden	calls_thunks
	.type	calls_thunks, @function
calls_thunks:
	.cfi_startproc
	.set	number, 0
	.rept	CALLS_THUNKS
	.balign CALLS_THUNK_BYTES
	endbr64
	movl	$number, %r11d
	jmp	calls_common
	.set	number, number + 1
	.endr
	.balign CALLS_THUNK_BYTES
	.cfi_endproc
	.size	calls_thunks, . - calls_thunks

	.balign 16
	.type	calls_common, @function
calls_common:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$80, %rsp
	movq	%rdi, -48(%rbp)
	movq	%rsi, -40(%rbp)
	movq	%rdx, -32(%rbp)
	movq	%rcx, -24(%rbp)
	movq	%r8, -16(%rbp)
	movq	%r9, -8(%rbp)
	movl	%r11d, -56(%rbp)
	movl	%r11d, %edi
	leaq	-48(%rbp), %rsi
	leaq	8(%rbp), %rdx
	call	calls_enter
	movq	-48(%rbp), %rdi
	movq	-40(%rbp), %rsi
	movq	-24(%rbp), %rcx
	movq	-16(%rbp), %r8
	movq	-8(%rbp), %r9
	movq	%rax, %r11
	/* %edx: how many words to copy, negative: it is not recorded. */
	testl	%edx, %edx
	js	.Lpass
	jz	.Lcall
	leal	1(%rdx), %eax
	andl	$-2, %eax
	shlq	$3, %rax
	subq	%rax, %rsp
.Lcopy:
	movq	8(%rbp,%rdx,8), %rax
	movq	%rax, -8(%rsp,%rdx,8)
	decl	%edx
	jnz	.Lcopy
.Lcall:
	movq	-32(%rbp), %rdx
	xorl	%eax, %eax
	call	*%r11
	leaq	-80(%rbp), %rsp
	movq	%rax, -8(%rbp)
	movq	%rdx, -16(%rbp)
	movl	-56(%rbp), %edi
	movl	%eax, %esi
	leaq	8(%rbp), %rdx
	call	calls_leave
	movq	-8(%rbp), %rax
	movq	-16(%rbp), %rdx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
.Lpass:
	movq	-32(%rbp), %rdx
	xorl	%eax, %eax
	leave
	.cfi_def_cfa %rsp, 8
	jmp	*%r11
	.cfi_endproc
	.size	calls_common, . - calls_common

/*
 * Functions of the loader, which look at who calls them: an answer of ours, or a jump to them with everything as
 * it was. answer(first, second, return address, &result) says which.
 */
	.macro HOOK name, answer, real
	.balign 16
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$32, %rsp
	movq	%rdi, -8(%rbp)
	movq	%rsi, -16(%rbp)
	movq	%rdx, -24(%rbp)
	movq	8(%rbp), %rdx
	leaq	-32(%rbp), %rcx
	call	\answer
	movq	-8(%rbp), %rdi
	movq	-16(%rbp), %rsi
	movq	-24(%rbp), %rdx
	testb	%al, %al
	movq	-32(%rbp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	jz	1f
	ret
1:
	jmp	*\real(%rip)
	.cfi_endproc
	.size	\name, . - \name
	.endm

	HOOK	calls_dlsym, calls_answer_dlsym, calls_real_dlsym
	HOOK	calls_dlopen, calls_answer_dlopen, calls_real_dlopen

	.section .note.GNU-stack, "", @progbits
