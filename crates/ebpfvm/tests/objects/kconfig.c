// SPDX-License-Identifier: Apache-2.0
/* The version of the kernel and its configuration. */
#include "bpf.h"

enum libbpf_tristate {
	TRI_NO = 0,
	TRI_YES = 1,
	TRI_MODULE = 2,
};

#define KCONFIG SEC(".kconfig")

extern const __u32 LINUX_KERNEL_VERSION KCONFIG;
extern const _Bool CONFIG_BPF_SYSCALL KCONFIG;
extern const char CONFIG_NET KCONFIG;
extern const enum libbpf_tristate CONFIG_INET KCONFIG;
extern const _Bool CONFIG_NO_SUCH_THING KCONFIG __attribute__((weak));
extern const __u64 CONFIG_NOR_THIS KCONFIG __attribute__((weak));
extern const char CONFIG_OR_THAT[12] KCONFIG __attribute__((weak));

SEC("xdp")
int kconfig(struct xdp_md *xdp)
{
	int result = 0;

	result |= LINUX_KERNEL_VERSION >= 0x060100;
	result |= (LINUX_KERNEL_VERSION >= 0x070000) << 1;
	result |= CONFIG_BPF_SYSCALL << 2;
	result |= (CONFIG_NET == 'y') << 3;
	result |= CONFIG_INET << 4;
	result |= CONFIG_NO_SUCH_THING << 6;
	result |= (CONFIG_NOR_THIS != 0) << 7;
	result |= CONFIG_OR_THAT[0] << 8 | CONFIG_OR_THAT[11] << 16;
	return result;
}
