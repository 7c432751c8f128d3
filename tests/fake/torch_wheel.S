/*
 * An operator whose machine code is that of PyTorch's own builds where it is left: a flag and a
 * string that may have memory are looked at, free() is called in the middle, other ways come back
 * before and behind that, one of them from a part apart. And a function that catches what it throws.
 */
	.text
	.globl	_ZN2at4_ops4relu4callERKNS_6TensorE
	.type	_ZN2at4_ops4relu4callERKNS_6TensorE, @function
/* int (int how): what fake_wheel_work() returns */
_ZN2at4_ops4relu4callERKNS_6TensorE:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%edi, %ebp
	push	%rbx
	.cfi_def_cfa_offset 24
	.cfi_offset %rbx, -24
	sub	$0x78, %rsp
	.cfi_def_cfa_offset 144
	mov	%rsp, %rsi
	lea	fake_wheel_work(%rip), %rax
	cmp	$3, %edi
	je	.Lslow
	cmp	$4, %edi
	je	.Lapart
	call	*%rax
	mov	%eax, %ebp
.Lcheck:
	cmpb	$0, 0x60(%rsp)
	je	.Lend
	mov	(%rsp), %rdi
	lea	0x10(%rsp), %rax
	cmp	%rax, %rdi
	je	.Lend
	call	free@PLT
.Lend:
	add	$0x78, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 24
	mov	%ebp, %eax
	pop	%rbx
	.cfi_def_cfa_offset 16
	pop	%rbp
	.cfi_def_cfa_offset 8
	ret
.Lslow:
	.cfi_restore_state
	call	fake_wheel_work
	mov	%eax, %ebp
	jmp	.Lcheck
	.cfi_endproc
	.size	_ZN2at4_ops4relu4callERKNS_6TensorE, . - _ZN2at4_ops4relu4callERKNS_6TensorE

	.section .text.unlikely, "ax", @progbits
.Lapart:
	.cfi_startproc
	.cfi_def_cfa_offset 144
	.cfi_offset %rbp, -16
	.cfi_offset %rbx, -24
	call	*%rax
	mov	%eax, %ebp
	cmpb	$0, 0x60(%rsp)
	je	.Lend
	jmp	.Lcheck
	.cfi_endproc

	.text
	.globl	fake_wheel_try
	.type	fake_wheel_try, @function
/* int (int how): the same; -1 when something was thrown */
fake_wheel_try:
.Lbegin:
	.cfi_startproc
	.cfi_personality 0x9b, DW.ref.__gxx_personality_v0
	.cfi_lsda 0x1b, .Llsda
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
.Ltry:
	call	_ZN2at4_ops4relu4callERKNS_6TensorE@PLT
.Ltried:
	add	$8, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
.Lcatch:
	.cfi_restore_state
	mov	%rax, %rdi
	call	__cxa_begin_catch@PLT
	call	__cxa_end_catch@PLT
	mov	$-1, %eax
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	fake_wheel_try, . - fake_wheel_try

/* Everything that the call throws is caught; nothing else throws. */
	.section .gcc_except_table, "a", @progbits
	.balign	4
.Llsda:
	.byte	0xff
	.byte	0x9b
	.uleb128 .Ltypes - .Lafter_types
.Lafter_types:
	.byte	0x01
	.uleb128 .Lsites_end - .Lsites
.Lsites:
	.uleb128 .Ltry - .Lbegin
	.uleb128 .Ltried - .Ltry
	.uleb128 .Lcatch - .Lbegin
	.uleb128 1
.Lsites_end:
	.byte	1
	.byte	0
	.balign	4
	.long	0
.Ltypes:

	.hidden	DW.ref.__gxx_personality_v0
	.weak	DW.ref.__gxx_personality_v0
	.section .data.rel.local.DW.ref.__gxx_personality_v0, "awG", @progbits, DW.ref.__gxx_personality_v0, comdat
	.balign	8
	.type	DW.ref.__gxx_personality_v0, @object
	.size	DW.ref.__gxx_personality_v0, 8
DW.ref.__gxx_personality_v0:
	.quad	__gxx_personality_v0

	.section .note.GNU-stack, "", @progbits
