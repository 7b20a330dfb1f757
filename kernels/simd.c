/* simd.c: asks whether AMX may be used. It is the one instruction set that a process has to ask
 * Linux for. The answer holds for all threads of the process. A child inherits it; a program that
 * is executed asks again. */
#include "kernels/simd.h"

#include <cpuid.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ask(void)
{
    enum { TILE_EDX = 1 << 24, BF16_EDX = 1 << 22 };      // leaf 7 (Intel SDM)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a, b, c, d;
    int      before = errno;

    if (!simd_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & TILE_EDX) ||
        !(d & BF16_EDX))
        return 0;
    int granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    errno = before;
    return granted;
}

int simd_amx_bf16(void)
{
    static _Atomic int permission; // 0: not asked for yet; 1: refused; 2: granted

    if (!atomic_load(&permission))
        atomic_store(&permission, 1 + ask());
    return atomic_load(&permission) == 2;
}
