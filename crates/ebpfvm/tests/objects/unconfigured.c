// SPDX-License-Identifier: Apache-2.0
/* Configuration that is not known: only the program that asks for it cannot be loaded. */
#include "bpf.h"

extern const int CONFIG_NO_SUCH_NUMBER SEC(".kconfig");
extern const __u32 LINUX_KERNEL_VERSION SEC(".kconfig");

SEC("xdp/asks")
int asks(struct xdp_md *xdp)
{
	return CONFIG_NO_SUCH_NUMBER;
}

SEC("xdp/version")
int version(struct xdp_md *xdp)
{
	return LINUX_KERNEL_VERSION >> 16;
}
