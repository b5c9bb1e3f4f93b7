# A 32-bit program without a C library: a function that counts, called by another, some seconds of CPU time at most.
    .globl _start
    .type counting, @function
counting:
    dec %ecx
    jnz counting
    ret
    .size counting, . - counting
    .type calling, @function
calling:
    push %ebp
    mov %esp, %ebp
    mov $1000000, %ecx
    call counting
    pop %ebp
    ret
    .size calling, . - calling
    .type _start, @function
_start:
    mov $2000, %esi
1:  call calling
    dec %esi
    jnz 1b
    mov $1, %eax
    xor %ebx, %ebx
    int $0x80
    .size _start, . - _start
