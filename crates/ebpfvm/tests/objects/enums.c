// SPDX-License-Identifier: Apache-2.0
/* Enumerations, whose values an object asks for when it is loaded. */
#include "bpf.h"

enum bpf_func_id___mine {
	map_lookup_elem = BPF_FUNC_map_lookup_elem,
	no_such_helper = 9999,
};

enum color {
	RED = 3,
	BLUE = 7,
};

#define EXISTS(type, value) __builtin_preserve_enum_value(*(type *)value, 0)
#define VALUE(type, value) __builtin_preserve_enum_value(*(type *)value, 1)

SEC("xdp")
int enums(struct xdp_md *xdp)
{
	return EXISTS(enum bpf_func_id___mine, map_lookup_elem) |
	       EXISTS(enum bpf_func_id___mine, no_such_helper) << 1 |
	       EXISTS(enum color, BLUE) << 2 | VALUE(enum color, BLUE) << 4;
}
