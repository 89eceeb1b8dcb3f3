// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's side of a test: loads all programs of an object by libbpf, and runs them for each
 * line of standard input, which has the name of a program, the family, the hook, and a frame in
 * hexadecimal. If the family is 0 it is a program of XDP or tc, and what stands for the hook is the
 * index of the device of the frame, or 0. Prints what each run returns, of programs that are none of netfilter also the frame,
 * and at the end all elements of maps.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hexadecimal(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", ((const unsigned char *)bytes)[i]);
}

static int record(void *name, void *bytes, size_t len)
{
	printf("%s - ", (const char *)name);
	hexadecimal(bytes, len);
	printf("\n");
	return 0;
}

static void elements(struct bpf_map *map)
{
	/* Maps of variables have the name of the object in front. */
	const char *dot = strchr(bpf_map__name(map), '.');
	const char *name = dot ? dot : bpf_map__name(map);
	size_t key_len = bpf_map__key_size(map), value_len = bpf_map__value_size(map);
	unsigned char key[512], next[512], value[256 * 64];
	void *last = NULL;

	if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF) {
		struct ring_buffer *ring =
			ring_buffer__new(bpf_map__fd(map), record, (void *)name, NULL);

		ring_buffer__consume(ring);
		ring_buffer__free(ring);
		return;
	}
	/* The values of these are other things than bytes. */
	if (bpf_map__type(map) == BPF_MAP_TYPE_PROG_ARRAY ||
	    bpf_map__type(map) == BPF_MAP_TYPE_ARRAY_OF_MAPS ||
	    bpf_map__type(map) == BPF_MAP_TYPE_HASH_OF_MAPS)
		return;
	while (!bpf_map_get_next_key(bpf_map__fd(map), last, next)) {
		memcpy(key, next, key_len);
		last = key;
		if (bpf_map_lookup_elem(bpf_map__fd(map), key, value))
			continue;
		printf("%s ", name);
		hexadecimal(key, key_len);
		printf(" ");
		/* Of values per processor the first. */
		hexadecimal(value, value_len);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	static char line[1 << 17];
	static unsigned char frame[1 << 16], out[1 << 16];
	struct bpf_object *object = bpf_object__open_file(argv[1], NULL);
	struct bpf_program *each;
	struct bpf_map *map;
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	/* Older libraries do not know the section: BPF_PROG_TYPE_NETFILTER, BPF_NETFILTER. */
	bpf_object__for_each_program(each, object) {
		if (strncmp(bpf_program__section_name(each), "netfilter", 9))
			continue;
		bpf_program__set_type(each, 32);
		bpf_program__set_expected_attach_type(each, 45);
	}
	if (argc != 2 || !object || bpf_object__load(object)) {
		fprintf(stderr, "cannot load: %s\n", strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		/* struct nf_hook_state */
		struct {
			unsigned char hook, family;
			void *pointers[5];
		} state = {};
		struct xdp_md xdp = {};
		struct __sk_buff skb = {};
		char name[64], *bytes = strrchr(line, ' ') + 1;
		int family, hook;
		size_t len = 0;
		struct bpf_program *program;

		if (sscanf(line, "%63s %d %d", name, &family, &hook) != 3)
			return 1;
		for (; sscanf(bytes, "%2hhx", &frame[len]) == 1; len++)
			bytes += 2;
		state.hook = hook;
		state.family = family;
		program = bpf_object__find_program_by_name(object, name);
		LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = len,
			    .repeat = 1);
		if (family) {
			run.ctx_in = &state;
			run.ctx_size_in = sizeof(state);
		} else {
			run.data_out = out;
			run.data_size_out = sizeof(out);
		}
		if (!family && hook && bpf_program__type(program) == BPF_PROG_TYPE_XDP) {
			xdp.data_end = len;
			xdp.ingress_ifindex = hook;
			run.ctx_in = &xdp;
			run.ctx_size_in = sizeof(xdp);
		} else if (!family && hook) {
			skb.ifindex = hook;
			run.ctx_in = &skb;
			run.ctx_size_in = sizeof(skb);
		}
		if (!program || bpf_prog_test_run_opts(bpf_program__fd(program), &run)) {
			printf("failed: %s\n", strerror(errno));
			continue;
		}
		printf("%u", run.retval);
		if (!family) {
			printf(" ");
			hexadecimal(out, run.data_size_out);
		}
		printf("\n");
	}
	bpf_object__for_each_map(map, object)
		elements(map);
	return 0;
}
