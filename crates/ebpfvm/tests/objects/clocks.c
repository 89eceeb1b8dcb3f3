// SPDX-License-Identifier: Apache-2.0
/* Time does not go back, numbers by chance differ; the packet is not looked at meanwhile. */
#include "bpf.h"

__u64 before, lines;

SEC("xdp")
int clocks(struct xdp_md *xdp)
{
	static const char line[] = "frame of %u bytes";
	__u64 now = ktime(), boot = ktime_boot(), coarse = ktime_coarse();
	__u32 first = prandom(), wrong = 0;

	bpf_rcu_read_lock();
	wrong |= now < before;
	wrong |= (boot + 1000000000 < now) << 1;
	wrong |= (ktime() < now) << 2;
	wrong |= (coarse > now + 1000000000) << 3;
	wrong |= (first == prandom() && first == prandom()) << 4;
	bpf_rcu_read_unlock();
	/* Only later runs would see it in both. */
	before = 0;
	lines += trace_printk(line, sizeof(line), 7) > 0;
	return wrong;
}
